//! A collection, for a master that knows all packages.

use std::collections::HashSet;
use std::time::Duration;

use api::v1;
use model::Digest;
use tokio::time::timeout;
use tonic::{Code, Status, Streaming};

use crate::failure::of_store;
use crate::rights;
use crate::service::{Counts, Parts};
use crate::walk::walk;

/// The manifests in one message, at most.
const MESSAGE_MAX: usize = 32_768;

/// The manifests of all packages together, at most.
const MANIFESTS_MAX: usize = 1 << 20;

/// How long a collection waits for its client.
const PATIENCE: Duration = Duration::from_secs(60);

/// Removes what is not reachable from the manifests that a master sends.
pub(crate) async fn collect(
    parts: &Parts,
    mut requests: Streaming<v1::CollectRequest>,
) -> Result<v1::CollectResponse, Status> {
    let Ok(_only) = parts.collecting.try_acquire() else {
        return Err(Status::aborted(
            "this store is being collected: wait for that collection to end",
        ));
    };
    let (mut manifests, mut plan_only, mut complete) = (HashSet::new(), false, false);
    loop {
        let next = timeout(PATIENCE, requests.message()).await;
        let next = next.map_err(|_| Status::deadline_exceeded("the manifests do not arrive"))??;
        let Some(next) = next else { break };
        plan_only |= next.plan_only;
        complete |= next.complete;
        manifests.extend(rights::digests(&next.manifests, MESSAGE_MAX)?);
        if manifests.len() > MANIFESTS_MAX {
            let why = format!("a cell has at most {MANIFESTS_MAX} packages");
            return Err(Status::resource_exhausted(why));
        }
    }
    if !complete {
        let why = "the stream ended before all manifests were sent: nothing was removed";
        return Err(Status::failed_precondition(why));
    }
    let store = &parts.store;
    store.refresh().await.map_err(|error| of_store(&error))?;
    let live = live(parts, &manifests).await?;
    let plan = store.collect(|digest| live.contains(digest), Duration::ZERO, plan_only).await;
    let plan = plan.map_err(|error| of_store(&error))?;
    let (removed, rewritten) = (plan.removed.len() as u64, plan.rewritten.len() as u64);
    if !plan_only {
        Counts::add(&parts.counts.bytes_collected, plan.bytes);
        tracing::info!(
            "collected {} bytes: {removed} packs removed, {rewritten} rewritten",
            plan.bytes
        );
    }
    Ok(v1::CollectResponse { removed, rewritten, bytes: plan.bytes })
}

/// Everything that is reachable. A package that this store does not have is skipped; one that it cannot read
/// is an error: what it needs is not known.
async fn live(parts: &Parts, manifests: &HashSet<Digest>) -> Result<HashSet<Digest>, Status> {
    let (store, mut live) = (&parts.store, HashSet::new());
    let max = usize::try_from(store.settings().chunks_max).unwrap_or(usize::MAX);
    for manifest in manifests {
        if store.length(manifest).is_none() {
            tracing::warn!("package {manifest} is not in this store");
            continue;
        }
        // Each missing piece is one that nothing can be done about.
        match walk(store, *manifest, |_| true, &mut live, max).await {
            Ok(_) => {}
            Err(status) if status.code() == Code::FailedPrecondition => {
                return Err(Status::failed_precondition(format!(
                    "nothing was removed: {}; remove that package first, or restore its pieces",
                    status.message()
                )));
            }
            Err(status) => return Err(status),
        }
    }
    Ok(live)
}
