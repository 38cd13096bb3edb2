//! Removal of what no package needs. Which packages there are is known to masters.

use std::collections::HashSet;
use std::time::Duration;

use api::v1;
use model::Digest;
use tokio::time::timeout;
use tonic::{Code, Status, Streaming};

use crate::failure::of_store;
use crate::parts::{Parts, ServiceCounts};
use crate::rights;
use crate::walk::{Reached, walk};

/// The manifests in one message, at most.
const MESSAGE_MAX: usize = 32_768;

/// The manifests of all packages together, at most.
const MANIFESTS_MAX: usize = 1 << 20;

/// How long a collection waits for its client.
const PATIENCE: Duration = Duration::from_secs(60);

/// The manifests of all packages, as they arrive.
#[derive(Debug, Default)]
pub(crate) struct Manifests {
    digests: HashSet<Digest>,
    complete: bool,
}

impl Manifests {
    /// Takes what is in a message.
    pub(crate) fn add(&mut self, digests: &[u8], complete: bool) -> Result<(), Status> {
        self.digests.extend(rights::digests(digests, MESSAGE_MAX)?);
        self.complete |= complete;
        if self.digests.len() > MANIFESTS_MAX {
            let why = format!("a store has at most {MANIFESTS_MAX} packages");
            return Err(Status::resource_exhausted(why));
        }
        Ok(())
    }

    /// All of them. An error if the stream ended early: what is missing would be removed.
    pub(crate) fn all(self) -> Result<HashSet<Digest>, Status> {
        match self.complete {
            true => Ok(self.digests),
            false => Err(Status::failed_precondition(
                "the stream ended before all manifests were sent: nothing was removed",
            )),
        }
    }
}

/// Collects as a master says.
pub(crate) async fn collect(
    parts: &Parts,
    mut requests: Streaming<v1::CollectRequest>,
) -> Result<v1::CollectResponse, Status> {
    let (mut manifests, mut plan_only) = (Manifests::default(), false);
    loop {
        let next = timeout(PATIENCE, requests.message()).await;
        let next = next.map_err(|_| Status::deadline_exceeded("the manifests do not arrive"))??;
        let Some(next) = next else { break };
        plan_only |= next.plan_only;
        manifests.add(&next.manifests, next.complete)?;
    }
    collect_all_but(parts, &manifests.all()?, plan_only).await
}

/// Removes what is not reachable from these manifests, unless it is young or an upload needs it.
pub(crate) async fn collect_all_but(
    parts: &Parts,
    manifests: &HashSet<Digest>,
    plan_only: bool,
) -> Result<v1::CollectResponse, Status> {
    let Ok(_only) = parts.collecting.try_acquire() else {
        let why = "this store is being collected: wait for that collection to end";
        return Err(Status::aborted(why));
    };
    let store = &parts.store;
    store.refresh().await.map_err(|error| of_store(&error))?;
    let live = live(parts, manifests).await?;
    let plan = store.collect(|digest| live.contains(digest), Duration::ZERO, plan_only).await;
    let plan = plan.map_err(|error| of_store(&error))?;
    let (removed, rewritten) = (plan.removed.len() as u64, plan.rewritten.len() as u64);
    if !plan_only && removed + rewritten > 0 {
        ServiceCounts::add(&parts.counts.bytes_collected, plan.bytes);
        let bytes = plan.bytes;
        tracing::info!("freed {bytes} bytes: {removed} packs removed, {rewritten} rewritten");
    }
    Ok(v1::CollectResponse { removed, rewritten, bytes: plan.bytes })
}

/// Everything that is reachable. A package that this store does not have is skipped; of one that it cannot
/// read, it is not known what to keep.
async fn live(parts: &Parts, manifests: &HashSet<Digest>) -> Result<Reached, Status> {
    let (store, mut live) = (&parts.store, Reached::default());
    let max = usize::try_from(store.settings().chunks_max.max()).unwrap_or(usize::MAX);
    for manifest in manifests {
        if store.length(manifest).is_none() {
            tracing::warn!("package {manifest} is not in this store");
            continue;
        }
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
