//! What a request waits for before any service sees it: that this replica has caught up with the
//! others since it was started, and, where it asks for that, that it has all that was acknowledged
//! anywhere before.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Request, State};
use axum::http::HeaderMap;
use axum::middleware::Next;
use axum::response::Response;
use rpc::metadata::CONSISTENT;
use tonic::Status;

use crate::handle::Core;
use crate::view::View;

/// For how long a request waits.
const PATIENCE: Duration = Duration::from_secs(20);
/// For how long it waits for the others' word on what is true now.
const CONSISTENT_PATIENCE: Duration = Duration::from_secs(5);

pub(crate) async fn pass(State(core): State<Core>, request: Request, next: Next) -> Response {
    match wait(&core, request.headers()).await {
        Ok(()) => next.run(request).await,
        Err(status) => status.into_http(),
    }
}

/// Waits for what a request with these headers waits for.
pub(crate) async fn wait(core: &Core, headers: &HeaderMap) -> Result<(), Status> {
    if !core.has_caught_up()
        && !matches!(tokio::time::timeout(PATIENCE, core.caught_up()).await, Ok(true))
    {
        return Err(Status::unavailable(
            "this replica has heard of no leader since it was started, and does not know what is \
             true: ask another",
        ));
    }
    if headers.contains_key(CONSISTENT) && !has_what_is_true(core).await {
        return Err(Status::unavailable(
            "no majority of the replicas says what is true now: ask without --consistent for what this \
             one knows",
        ));
    }
    Ok(())
}

/// Whether the newest view has all that was acknowledged anywhere before.
async fn has_what_is_true(core: &Core) -> bool {
    let read = tokio::time::timeout(CONSISTENT_PATIENCE, core.read()).await;
    matches!(read, Ok(Some(())))
}

/// Waits until this replica knows of a leader. One that knows of none may not have heard who was revoked,
/// and is not to show or to certify anything new.
pub(crate) async fn led(core: &Core) -> Result<(), Status> {
    if core.view().leader.is_some() || has_what_is_true(core).await {
        return Ok(());
    }
    Err(Status::unavailable("this replica hears of no leader: ask another"))
}

/// Waits for a view that has all that was acknowledged anywhere before, as what is changed by its name
/// needs: in an older one the name may be nobody's, or another's.
pub(crate) async fn newest(core: &Core) -> Result<Arc<View>, Status> {
    match has_what_is_true(core).await {
        true => Ok(core.view()),
        false => Err(Status::unavailable(
            "no majority of the replicas says what is true now: nothing can be changed now, only read",
        )),
    }
}
