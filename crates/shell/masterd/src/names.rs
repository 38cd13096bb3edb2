//! The names of the cell (crate `bns`), followed from view to view.

use std::sync::Arc;

use bns::Changes;
use cell::Cell;
use tokio::sync::watch;

use crate::view::View;

/// A cell, and when its names changed.
#[derive(Debug)]
pub(crate) struct Names {
    pub(crate) cell: Cell,
    pub(crate) changes: Changes,
}

impl Names {
    /// Those of a cell as it was: all have changed before.
    pub(crate) fn of(cell: Cell) -> Self {
        Self { changes: Changes::of(&cell), cell }
    }
}

/// Follows the views until their sender is gone, in a task of the current runtime. Before the log is
/// applied there is nothing: every index would be the time of a change.
pub(crate) fn follow(views: watch::Receiver<Arc<View>>) -> watch::Receiver<Option<Arc<Names>>> {
    let (publish, names) = watch::channel(None);
    tokio::spawn(run(views, publish));
    names
}

async fn run(mut views: watch::Receiver<Arc<View>>, publish: watch::Sender<Option<Arc<Names>>>) {
    let Ok(first) = views.wait_for(|view| view.caught_up).await.map(|view| Arc::clone(&view))
    else {
        return;
    };
    let (mut cell, mut changes) = (first.cell.clone(), Changes::of(&first.cell));
    drop(first);
    loop {
        let names = Names { cell: cell.clone(), changes: changes.clone() };
        if publish.send(Some(Arc::new(names))).is_err() || views.changed().await.is_err() {
            return;
        }
        let next = views.borrow_and_update().cell.clone();
        changes.follow(&cell, &next);
        cell = next;
    }
}
