//! A core for tests that does nothing by itself.

use std::sync::Arc;

use cell::Cell;
use tokio::sync::{mpsc, watch};

use super::{Admission, Core, Message, ToLog, View};

impl Core {
    /// A core that takes nothing out of its queue, of so many places.
    pub(crate) fn stalled(queue: usize) -> (Self, mpsc::Receiver<Message>) {
        // What nobody publishes any more can be read all the same.
        Self::stalled_at(queue, watch::channel(Arc::new(View::of(Cell::empty()))).1)
    }

    /// The same, with views that somebody publishes.
    pub(crate) fn stalled_at(
        queue: usize,
        view: watch::Receiver<Arc<View>>,
    ) -> (Self, mpsc::Receiver<Message>) {
        let (to_core, from_all) = mpsc::channel(queue);
        let ended = watch::channel(None).1;
        let limits = crate::admission::Limits { requests: queue, bytes: queue << 20 };
        let admission = Admission::new(limits);
        (Self { to_core, view, ended, to_log: ToLog::idle(), admission }, from_all)
    }

    pub(crate) fn to_core(&self) -> &mpsc::Sender<Message> {
        &self.to_core
    }
}
