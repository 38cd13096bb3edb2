//! A core for tests that does nothing by itself.

use std::sync::Arc;

use cell::Cell;
use tokio::sync::{mpsc, watch};

use super::{Admission, Core, Message, ToLog, View};

impl Core {
    /// A core that never reads its queue, of this capacity.
    pub(crate) fn stalled(queue: usize) -> (Self, mpsc::Receiver<Message>) {
        // The last view can still be read though nobody publishes views any more.
        Self::stalled_at(queue, watch::channel(Arc::new(View::of(Cell::empty()))).1)
    }

    /// The same, with views that a test publishes.
    pub(crate) fn stalled_at(
        queue: usize,
        view: watch::Receiver<Arc<View>>,
    ) -> (Self, mpsc::Receiver<Message>) {
        let (to_core, from_all) = mpsc::channel(queue);
        let ended = watch::channel(None).1;
        let limits = crate::admission::AdmissionLimits { requests: queue, bytes: queue << 20 };
        let admission = Admission::new(limits);
        (Self { to_core, view, ended, to_log: ToLog::idle(), admission }, from_all)
    }

    pub(crate) fn to_core(&self) -> &mpsc::Sender<Message> {
        &self.to_core
    }
}
