//! A replica that was restored from a checkpoint begins only when nobody answers any more for the cell
//! that it replaces: else both would go on, and machines obey the restored one.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use model::ReplicaId;
use process::shutdown;
use replication::v1::replication_client::ReplicationClient;
use rpc::{Expect, Role, Rotating};
use tokio::time::{Instant, sleep, timeout};

use crate::itself::{Dismissed, Itself};

/// For how long the former replicas are asked: as long as one that starts may take to find a leader.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long one may take to answer.
const ANSWER: Duration = Duration::from_secs(1);
/// How long to wait before they are asked again.
const PAUSE: Duration = Duration::from_millis(500);

/// Waits until it is known that nobody answers for the former cell, and notes it in the directory, so
/// that it is not asked again.
///
/// # Errors
/// [`Dismissed`] where one of them is led, or was restored as often as this one or more often; where the
/// process is told to stop; where the note cannot be written.
pub(super) fn wait_until_gone(
    directory: &Path,
    itself: &Itself,
    restore_epoch: u64,
    credentials: &Rotating,
) -> anyhow::Result<()> {
    let former = itself.former(restore_epoch);
    if former.is_empty() {
        return Ok(());
    }
    let shown: Vec<_> = former.iter().map(|(id, address)| format!("{id} at {address}")).collect();
    let shown = shown.join(", ");
    tracing::info!("looks whether a replica of the former cell still serves: {shown}");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        tokio::select! {
            looked = look(&former, restore_epoch, credentials) => looked,
            () = shutdown::requested() => anyhow::bail!("it was told to stop before it began"),
        }
    })?;
    tracing::warn!(
        "none of the former replicas serves ({shown}): this one goes on without them, with restore epoch \
         {restore_epoch}. They must not be started again"
    );
    Itself::new(itself.id(), []).write(directory)
}

async fn look(
    former: &BTreeMap<ReplicaId, Arc<str>>,
    restore_epoch: u64,
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

/// Why this replica must not begin, by what one of the former cell says.
fn serves(
    id: ReplicaId,
    address: &str,
    answer: &replication::v1::ProgressResponse,
    restore_epoch: u64,
) -> Option<String> {
    let replication::v1::ProgressResponse { restore_epoch: theirs, leader, term, index, .. } =
        answer;
    if *theirs >= restore_epoch {
        return Some(format!(
            "replica {id} at {address} has restore epoch {theirs}, and this directory {restore_epoch}: the \
             cell was restored elsewhere. Remove this directory, and add a replica with an empty one (bourg \
             master add)"
        ));
    }
    (*leader > 0).then(|| {
        format!(
            "the cell lives: replica {id} at {address} is led by replica {leader}, in term {term} at index \
             {index}. This directory was restored and would take its machines. Remove this directory. To \
             bring a replica back, remove it and add a new one with an empty directory (bourg master \
             remove, bourg master add)"
        )
    })
}

async fn ask(address: &str, credentials: &Rotating) -> Option<replication::v1::ProgressResponse> {
    let expect = Expect::Role(Role::Master);
    let channel = rpc::transport::connect_within(ANSWER, address, credentials, &expect).ok()?;
    let mut client = ReplicationClient::new(channel);
    client.progress(replication::v1::ProgressRequest {}).await.ok().map(tonic::Response::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_is_led_or_was_restored_since_serves() {
        for (restore_epoch, leader, says) in [
            (0, 0, None),
            (
                0,
                1,
                Some(
                    "the cell lives: replica 2 at m2:1 is led by replica 1, in term 4 at index 90.",
                ),
            ),
            (1, 0, Some("replica 2 at m2:1 has restore epoch 1, and this directory 1:")),
            (2, 3, Some("replica 2 at m2:1 has restore epoch 2, and this directory 1:")),
        ] {
            let (term, index) = (4, 90);
            let answer = replication::v1::ProgressResponse {
                restore_epoch,
                leader,
                term,
                index,
                ..Default::default()
            };
            let why = serves(ReplicaId(2), "m2:1", &answer, 1);
            assert_eq!(why.is_some(), says.is_some());
            assert!(why.unwrap_or_default().starts_with(says.unwrap_or_default()));
        }
    }
}
