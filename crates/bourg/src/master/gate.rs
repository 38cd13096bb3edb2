//! Nobody is answered from a part of the log: until the cell is what the whole of it gives, whoever
//! asks a service waits. Who asks for health or metrics does not.

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;
use tokio::sync::watch;

/// Whether the cell has caught up with its log.
#[derive(Clone, Debug)]
pub(super) struct Gate(watch::Receiver<bool>);

/// Opens a gate, once.
#[derive(Debug)]
pub(super) struct Opener(watch::Sender<bool>);

impl Gate {
    /// A gate that is closed.
    pub(super) fn closed() -> (Opener, Self) {
        let (opener, gate) = watch::channel(false);
        (Opener(opener), Self(gate))
    }

    pub(super) fn is_open(&self) -> bool {
        *self.0.borrow()
    }
}

impl Opener {
    pub(super) fn open(&self) {
        self.0.send_replace(true);
    }
}

/// Holds a request until the gate is open; for ever, where the master ends before: its connection
/// is closed then.
pub(super) async fn hold(State(gate): State<Gate>, request: Request, next: Next) -> Response {
    if !gate.is_open() {
        let mut open = gate.0.clone();
        if open.wait_for(|open| *open).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
    next.run(request).await
}

#[cfg(test)]
mod tests {
    use std::pin::Pin;

    use axum::Router;
    use axum::body::Body;
    use axum::middleware::from_fn_with_state;
    use axum::routing::get;
    use tonic::codegen::Service as _;

    use super::*;

    /// Whether it is answered by now.
    async fn answered(request: &mut Pin<Box<impl Future>>) -> bool {
        std::future::poll_fn(|context| {
            std::task::Poll::Ready(request.as_mut().poll(context).is_ready())
        })
        .await
    }

    fn asked() -> Request {
        Request::get("/").body(Body::empty()).expect("a request")
    }

    #[tokio::test(flavor = "current_thread")]
    async fn requests_wait_until_the_gate_is_open_and_for_ever_where_it_never_will_be() {
        let held = |gate: &Gate| {
            let served = Router::<()>::new().route("/", get(|| async { "served" }));
            served.layer(from_fn_with_state(gate.clone(), hold))
        };
        let (opener, gate) = Gate::closed();
        let mut router = held(&gate);
        let mut early = Box::pin(router.call(asked()));
        assert!(!answered(&mut early).await && !gate.is_open());
        opener.open();
        assert_eq!(early.await.expect("an answer").status(), 200);
        let mut late = Box::pin(router.call(asked()));
        assert!(answered(&mut late).await && gate.is_open());

        let (opener, gate) = Gate::closed();
        let mut router = held(&gate);
        let mut early = Box::pin(router.call(asked()));
        drop(opener);
        assert!(!answered(&mut early).await);
    }
}
