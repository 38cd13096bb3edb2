//! A stream of responses with the work that makes them: polled together, ended together. No task is
//! spawned, so a client that disconnects ends the work.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_stream::Stream;
use tonic::Status;

/// How many responses wait for the client.
const RESPONSES: usize = 4;

/// How long a response waits for a client that does not read.
const PATIENCE: Duration = Duration::from_secs(60);

/// Where the work puts its responses.
#[derive(Debug)]
pub(crate) struct Responses<T>(mpsc::Sender<T>);

impl<T> Responses<T> {
    /// Sends a response, and waits while too many are on their way.
    pub(crate) async fn send(&self, response: T) -> Result<(), Status> {
        match timeout(PATIENCE, self.0.send(response)).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_gone)) => Err(Status::cancelled("the client is gone")),
            Err(_elapsed) => Err(Status::deadline_exceeded("the client does not read")),
        }
    }
}

type ResponseWork = Pin<Box<dyn Future<Output = Result<(), Status>> + Send>>;

/// The responses of work in progress.
pub(crate) struct Driven<T> {
    work: Option<ResponseWork>,
    responses: mpsc::Receiver<T>,
    failure: Option<Status>,
}

impl<T: Send + 'static> Driven<T> {
    /// The responses of work, which gets the place for them. An error of the work is the last.
    pub(crate) fn boxed<F>(work: impl FnOnce(Responses<T>) -> F) -> Pin<Box<Self>>
    where
        F: Future<Output = Result<(), Status>> + Send + 'static,
    {
        let (to, responses) = mpsc::channel(RESPONSES);
        Box::pin(Self { work: Some(Box::pin(work(Responses(to)))), responses, failure: None })
    }
}

impl<T> Stream for Driven<T> {
    type Item = Result<T, Status>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        // Before the responses: the work makes them.
        if let Some(work) = &mut self.work
            && let Poll::Ready(done) = work.as_mut().poll(context)
        {
            self.failure = done.err();
            // Its sender goes with it.
            self.work = None;
        }
        match self.responses.poll_recv(context) {
            Poll::Ready(Some(response)) => Poll::Ready(Some(Ok(response))),
            Poll::Ready(None) => Poll::Ready(self.failure.take().map(Err)),
            Poll::Pending => Poll::Pending,
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio_stream::StreamExt as _;

    use super::*;

    #[tokio::test]
    async fn responses_come_in_order_and_a_failure_last() {
        for end in [Ok(()), Err(Status::aborted("x"))] {
            let expected = end.clone();
            let driven = Driven::boxed(|to: Responses<u32>| async move {
                for number in 0..100 {
                    to.send(number).await?;
                }
                end
            });
            let all: Vec<_> = driven.collect().await;
            let sent: Vec<_> = all.iter().filter_map(|sent| sent.as_ref().ok()).copied().collect();
            assert_eq!(sent, (0..100).collect::<Vec<_>>());
            let failed = all.last().and_then(|last| last.as_ref().err()).map(Status::code);
            assert_eq!(failed, expected.err().map(|status| status.code()));
        }
    }

    #[tokio::test]
    async fn work_ends_with_its_stream() {
        let (alive, mut ended) = mpsc::channel::<()>(1);
        let mut driven = Driven::boxed(|to: Responses<u32>| async move {
            let _alive = alive;
            to.send(1).await?;
            std::future::pending().await
        });
        assert_eq!(driven.next().await.map(|sent| sent.is_ok()), Some(true));
        drop(driven);
        assert_eq!(ended.recv().await, None);
    }
}
