//! The cell as a whole, as `bourg cell` shows it. Its digest takes time in proportion to the cell's
//! size: one is computed at a time, and shared by all who asked before.

use std::sync::Arc;

use api::v1::CellStatusResponse;
use model::LogIndex;
use tokio::sync::Mutex;
use tonic::Status;

/// The last computed summary. Clones share it.
#[derive(Clone, Default)]
pub(crate) struct Summary(Arc<Mutex<Option<CellStatusResponse>>>);

impl Summary {
    /// A summary of the cell at an index or later: computed by `make` on a thread of its own, or
    /// shared from another caller since then.
    pub(crate) async fn since(
        &self,
        index: LogIndex,
        make: impl FnOnce() -> CellStatusResponse + Send + 'static,
    ) -> Result<CellStatusResponse, Status> {
        let mut last = Arc::clone(&self.0).lock_owned().await;
        if let Some(last) = last.as_ref().filter(|last| last.index >= index.0) {
            return Ok(last.clone());
        }
        // The caller may be gone before it is computed; others can use it then.
        let made = tokio::task::spawn_blocking(move || {
            let made = make();
            *last = Some(made.clone());
            made
        });
        made.await.map_err(|error| Status::internal(error.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    #[tokio::test]
    async fn earlier_requests_share_one_summary() {
        let (summary, made) = (Summary::default(), Arc::new(AtomicU64::new(0)));
        let ask = |index, now| {
            let (summary, made) = (summary.clone(), Arc::clone(&made));
            async move {
                let make = move || {
                    made.fetch_add(1, Ordering::SeqCst);
                    CellStatusResponse { index: now, ..CellStatusResponse::default() }
                };
                summary.since(LogIndex(index), make).await.map(|found| found.index).ok()
            }
        };
        let all = tokio::join!(ask(5, 7), ask(5, 8), ask(7, 8));
        assert_eq!(all, (Some(7), Some(7), Some(7)));
        assert_eq!(made.load(Ordering::SeqCst), 1);
        assert_eq!(ask(8, 9).await, Some(9), "what comes later is not in it");
        assert_eq!(made.load(Ordering::SeqCst), 2);
    }

    #[tokio::test]
    async fn a_summary_begun_for_a_cancelled_request_serves_the_next() {
        let summary = Summary::default();
        let (go_on, waits) = std::sync::mpsc::channel();
        let slow = move || {
            waits.recv().expect("it is told");
            CellStatusResponse { index: 7, ..CellStatusResponse::default() }
        };
        let mut first = Box::pin(summary.since(LogIndex(5), slow));
        assert!(poll_once(&mut first).is_pending(), "it has begun");
        drop(first);
        let next = summary.since(LogIndex(6), || unreachable!("there is one under way"));
        go_on.send(()).expect("it waits");
        assert_eq!(next.await.expect("it is made").index, 7);
    }

    fn poll_once<F: Future + Unpin>(future: &mut F) -> std::task::Poll<F::Output> {
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        std::pin::Pin::new(future).poll(&mut context)
    }
}
