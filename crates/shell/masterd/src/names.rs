//! The names of the cell (crate `bns`), followed from view to view.

use std::sync::Arc;

use bns::Changes;
use cell::Cell;
use tokio::sync::watch;

use crate::view::View;

/// A cell, and when its names changed.
#[derive(Clone, Debug)]
pub(crate) struct Names {
    pub(crate) cell: Cell,
    pub(crate) changes: Changes,
}

impl Names {
    /// Those of a cell of which no earlier state is known.
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
    let mut names = Names::of(first.cell.clone());
    drop(first);
    loop {
        let published = Some(Arc::new(names.clone()));
        if publish.send(published).is_err() || views.changed().await.is_err() {
            return;
        }
        let next = views.borrow_and_update().cell.clone();
        names.changes.follow(&names.cell, &next);
        names.cell = next;
    }
}
