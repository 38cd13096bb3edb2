//! What a request waits for before any service sees it: that this replica has caught up with the
//! others since its start, and, for a linearizable read, that its view has everything that was
//! acknowledged anywhere before.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Request, State};
use axum::http::HeaderMap;
use axum::middleware::Next;
use axum::response::Response;
use model::LogIndex;
use rpc::metadata::CONSISTENT;
use tonic::Status;

use crate::handle::Core;
use crate::view::View;

/// How long a request waits.
const PATIENCE: Duration = Duration::from_secs(20);
/// How long it waits for a majority to confirm a linearizable read.
const CONSISTENT_PATIENCE: Duration = Duration::from_secs(5);

pub(crate) async fn pass(State(core): State<Core>, request: Request, next: Next) -> Response {
    match wait(&core, request.headers()).await {
        Ok(()) => next.run(request).await,
        Err(status) => status.into_http(),
    }
}

/// Waits for what a request with these headers needs.
pub(crate) async fn wait(core: &Core, headers: &HeaderMap) -> Result<(), Status> {
    if !core.has_caught_up()
        && !matches!(tokio::time::timeout(PATIENCE, core.caught_up()).await, Ok(true))
    {
        return Err(Status::unavailable(
            "this replica has known no leader since it was started, and its state may be \
             stale: ask another",
        ));
    }
    if headers.contains_key(CONSISTENT) && !has_newest_state(core).await {
        return Err(Status::unavailable(
            "no majority of the replicas confirms the newest state: ask without --consistent for \
             what this one has",
        ));
    }
    Ok(())
}

/// Whether the newest view has everything that was acknowledged anywhere before.
async fn has_newest_state(core: &Core) -> bool {
    let read = tokio::time::timeout(CONSISTENT_PATIENCE, core.read()).await;
    matches!(read, Ok(Some(())))
}

/// Waits until this replica knows a leader. Without one it may not have heard of a revocation, and
/// must not show or certify anything new.
pub(crate) async fn led(core: &Core) -> Result<(), Status> {
    if core.view().leader.is_some() || has_newest_state(core).await {
        return Ok(());
    }
    Err(Status::unavailable("this replica knows no leader: ask another"))
}

/// Waits for a view that has everything that was acknowledged anywhere before, which a change by
/// name needs: in an older view the name may not exist, or mean something else.
pub(crate) async fn newest(core: &Core) -> Result<Arc<View>, Status> {
    match has_newest_state(core).await {
        true => Ok(core.view()),
        false => Err(Status::unavailable(
            "no majority of the replicas confirms the newest state: nothing can be changed now, \
             only read",
        )),
    }
}

/// Waits until this replica has applied the log up to an index that a reader has seen, maybe at another
/// replica: what it is answered then is never older than what it knows.
pub(crate) async fn reached(core: &Core, index: LogIndex) -> Result<Arc<View>, Status> {
    let view = core.view();
    if view.cell.index() >= index {
        return Ok(view);
    }
    let is_newest = has_newest_state(core).await;
    let view = core.view();
    let has = view.cell.index();
    match (has >= index, is_newest) {
        (true, _) => Ok(view),
        (false, true) => Err(beyond(index, has)),
        (false, false) => Err(Status::unavailable(format!(
            "this replica has applied the log up to index {has}, and the reader has seen index {index}: \
             ask another replica, or this one again"
        ))),
    }
}

/// The error for an index after everything that was ever acknowledged.
fn beyond(index: LogIndex, has: LogIndex) -> Status {
    Status::out_of_range(format!(
        "index {index} is after the cell's newest, {has}: if the cell was restored from a checkpoint, \
         begin again without an index"
    ))
}
