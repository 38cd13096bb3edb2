//! A replica restored from a checkpoint starts serving only when no replica of the cell that it
//! replaces answers any more: otherwise both would serve, and the machines would obey the restored
//! one.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use model::{ReplicaId, RestoreEpoch};
use process::shutdown;
use replication::v1::replication_client::ReplicationClient;
use rpc::{Expect, Role, Rotating};
use tokio::time::{Instant, sleep, timeout};

use crate::identity::{Dismissed, ReplicaIdentity};

/// How long the former replicas are asked: as long as a starting replica may take to find a leader.
const PATIENCE: Duration = Duration::from_secs(5);
/// The timeout for one answer.
const ANSWER: Duration = Duration::from_secs(1);
/// The pause between attempts.
const PAUSE: Duration = Duration::from_millis(500);

/// Waits until no replica of the former cell answers, and notes that in the directory, so that
/// later starts do not ask again.
///
/// # Errors
/// [`Dismissed`] if one of them has a leader, or no lower restore epoch; if the process
/// is told to stop; if the note cannot be written.
pub(super) fn wait_until_gone(
    directory: &Path,
    itself: &ReplicaIdentity,
    restore_epoch: RestoreEpoch,
    credentials: &Rotating,
) -> anyhow::Result<()> {
    let former = itself.former(restore_epoch);
    if former.is_empty() {
        return Ok(());
    }
    let shown: Vec<_> = former.iter().map(|(id, address)| format!("{id} at {address}")).collect();
    let shown = shown.join(", ");
    tracing::info!("checking whether a replica of the former cell still serves: {shown}");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    process::block_on(&runtime, async {
        tokio::select! {
            looked = look(&former, restore_epoch, credentials) => looked,
            () = shutdown::requested() => anyhow::bail!("told to stop before it started"),
        }
    })?;
    tracing::warn!(
        "none of the former replicas serves ({shown}): this one continues without them, with \
         restore epoch {restore_epoch}. They must not be started again"
    );
    ReplicaIdentity::new(itself.id(), []).write(directory)
}

async fn look(
    former: &BTreeMap<ReplicaId, Arc<str>>,
    restore_epoch: RestoreEpoch,
    credentials: &Rotating,
) -> anyhow::Result<()> {
    let until = Instant::now() + PATIENCE;
    loop {
        for (id, address) in former {
            let asked = timeout(ANSWER, ask(address, credentials)).await;
            let Ok(Some(answer)) = asked else { continue };
            if let Some(why) = serves(*id, address, &answer, restore_epoch) {
                return Err(Dismissed(why).into());
            }
        }
        if Instant::now() >= until {
            return Ok(());
        }
        sleep(PAUSE).await;
    }
}

/// Why this replica must not start, by the answer of a replica of the former cell.
fn serves(
    id: ReplicaId,
    address: &str,
    answer: &replication::v1::ProgressResponse,
    restore_epoch: RestoreEpoch,
) -> Option<String> {
    let replication::v1::ProgressResponse { leader, term, index, .. } = answer;
    let (counter, random) = (answer.restore_epoch, answer.restore_random);
    let theirs = RestoreEpoch { counter, random };
    let is_earlier = theirs < restore_epoch;
    if !is_earlier {
        return Some(format!(
            "replica {id} at {address} has restore epoch {theirs}, and this directory \
             {restore_epoch}: the cell was restored elsewhere. Remove this directory, and add a \
             replica with an empty one (bourg master add)"
        ));
    }
    (*leader > 0).then(|| {
        format!(
            "the cell is alive: replica {id} at {address} follows leader {leader}, in term {term} \
             at index {index}. This directory was restored and would take over its machines. \
             Remove this directory. To bring a replica back, remove it and add a new one with an \
             empty directory (bourg master remove, bourg master add)"
        )
    })
}

pub(crate) async fn ask(
    address: &str,
    credentials: &Rotating,
) -> Option<replication::v1::ProgressResponse> {
    let expect = Expect::Role(Role::Master);
    let channel = rpc::transport::connect_within(ANSWER, address, credentials, &expect).ok()?;
    let mut client = ReplicationClient::new(channel);
    client.progress(replication::v1::ProgressRequest {}).await.ok().map(tonic::Response::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replica_with_a_leader_or_another_restore_epoch_serves() {
        let elsewhere = "replica 2 at m2:1 has restore epoch";
        for (counter, random, leader, says) in [
            (0, 0, 0, None),
            (
                0,
                0,
                1,
                Some(
                    "the cell is alive: replica 2 at m2:1 follows leader 1, in term 4 at index 90.",
                ),
            ),
            // The same restoration, another one that knew nothing of this one, and a later one.
            (1, 5, 0, Some(elsewhere)),
            (1, 6, 0, Some(elsewhere)),
            (2, 5, 3, Some(elsewhere)),
        ] {
            let (term, index) = (4, 90);
            let answer = replication::v1::ProgressResponse {
                restore_epoch: counter,
                restore_random: random,
                leader,
                term,
                index,
                ..Default::default()
            };
            let why = serves(ReplicaId(2), "m2:1", &answer, RestoreEpoch::after(0, 5));
            assert_eq!(why.is_some(), says.is_some());
            assert!(why.unwrap_or_default().starts_with(says.unwrap_or_default()));
        }
    }
}
