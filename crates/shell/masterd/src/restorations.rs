//! What the machines and the other replicas of a cell know of its restorations, before another one:
//! its counter has to be above theirs, so that the machines obey it.

use std::sync::Arc;
use std::time::Duration;

use cell::Cell;
use model::{ReplicaId, RestoreEpoch, Stamp};
use rpc::service::borglet_client::BorgletClient;
use rpc::{Authority, Expect, Identity, Rotating, Validity};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout, timeout_at};

use crate::agents::REPORT_BYTES_MAX;
use crate::previous_cell;

/// The timeout for one answer.
const ANSWER: Duration = Duration::from_secs(1);
/// The timeout for all answers.
const PATIENCE: Duration = Duration::from_secs(20);
/// How many are asked at once.
const AT_ONCE: usize = 256;
/// How long the certificate is valid with which they are asked.
const VALIDITY: Duration = Duration::from_secs(300);

/// What was learned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EpochSurvey {
    /// The highest counter of a restore epoch among the answers; 0 without any.
    pub counter: u64,
    /// The number of machines that were asked, and of those that answered.
    pub machines: (usize, usize),
    /// The number of replicas that were asked, and of those that answered.
    pub replicas: (usize, usize),
}

/// Whom to ask.
enum QueryTarget {
    Machine { name: String, address: Arc<str> },
    Replica { address: Arc<str> },
}

/// Asks all machines of a cell and its replicas other than `me`, as a master of the cell.
///
/// # Errors
/// When no certificate can be issued, or the process has no threads.
pub fn ask(authority: &Authority, cell: &Cell, me: ReplicaId) -> anyhow::Result<EpochSurvey> {
    let issued = authority.issue(&Identity::Master, Validity::lasting(VALIDITY))?;
    let credentials = Rotating::new(issued)?;
    let machines = cell.machines().map(|machine| QueryTarget::Machine {
        name: machine.name.to_string(),
        address: Arc::clone(&machine.address),
    });
    let others = cell.replicas().filter(|other| other.id != me && !other.address.is_empty());
    let others = others.map(|other| QueryTarget::Replica { address: other.address.clone() });
    let asked: Vec<QueryTarget> = machines.chain(others).collect();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    Ok(process::block_on(&runtime, ask_all(asked, credentials)))
}

async fn ask_all(asked: Vec<QueryTarget>, credentials: Rotating) -> EpochSurvey {
    let until = Instant::now() + PATIENCE;
    let mut known = EpochSurvey::default();
    let (permits, mut asking) = (Arc::new(Semaphore::new(AT_ONCE)), JoinSet::new());
    for one in asked {
        match one {
            QueryTarget::Machine { .. } => known.machines.0 += 1,
            QueryTarget::Replica { .. } => known.replicas.0 += 1,
        }
        let (credentials, permits) = (credentials.clone(), Arc::clone(&permits));
        asking.spawn(async move {
            let _permit = permits.acquire_owned().await.ok()?;
            match one {
                QueryTarget::Machine { name, address } => {
                    let asked = timeout(ANSWER, machine(name, &address, &credentials)).await;
                    Some((true, asked.ok()??))
                }
                QueryTarget::Replica { address } => {
                    let asked = timeout(ANSWER, previous_cell::ask(&address, &credentials)).await;
                    let said = asked.ok()??;
                    let (counter, random) = (said.restore_epoch, said.restore_random);
                    Some((false, RestoreEpoch { counter, random }))
                }
            }
        });
    }
    while let Ok(Some(answer)) = timeout_at(until, asking.join_next()).await {
        let Ok(Some((is_machine, epoch))) = answer else { continue };
        let of = if is_machine { &mut known.machines } else { &mut known.replicas };
        of.1 += 1;
        known.counter = known.counter.max(epoch.counter);
    }
    known
}

/// The restore epoch that a machine obeys.
async fn machine(name: String, address: &str, credentials: &Rotating) -> Option<RestoreEpoch> {
    let expect = Expect::Identity(Identity::Borglet(name));
    let channel = rpc::transport::connect_within(ANSWER, address, credentials, &expect).ok()?;
    let mut client = BorgletClient::new(channel).max_decoding_message_size(REPORT_BYTES_MAX);
    let answer = client.poll(api::v1::PollRequest::default()).await.ok()?.into_inner();
    Some(Stamp::from(answer.report?.stamp?).restore_epoch)
}
