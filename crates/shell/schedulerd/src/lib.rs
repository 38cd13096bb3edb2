//! The scheduler's process: follows the master, runs passes and proposes plans.

mod arguments;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::Context;
use cell::{Cell, Mutation, Op};
use model::{InstanceId, Level, LogIndex, Time};
use process::clock::Clock;
use process::renewal::{self, Masters, Renewed};
use process::{joining, notify, shutdown};
use proto::v1;
use rpc::service::scheduling_client::SchedulingClient;
use rpc::{Credentials, Expect, Role, Rotating};
use scheduler::{Plan, Scheduler};
use tonic::Streaming;
use tonic::transport::Channel;

pub use arguments::{SchedulerArgs, start};

/// How to run a scheduler.
#[derive(Clone, Debug)]
struct Options {
    /// The directory of its certificate.
    pub(crate) credentials: PathBuf,
    /// The stem of the certificate's file names.
    pub(crate) stem: String,
    /// The addresses of the master's replicas, at least one.
    pub(crate) masters: Vec<String>,
}

/// The delay before retrying a master that does not answer.
const RETRY: Duration = Duration::from_millis(100);
/// After how long the same failure of a master is told again.
const SAID_AGAIN: Duration = Duration::from_secs(60);
/// The delay after a rejection: the copy may have to catch up before the plan makes sense again.
const REJECTED_DELAY: model::Span = model::Span::from_millis(20);
/// The timeout of a proposal.
const PROPOSAL_TIMEOUT: Duration = Duration::from_secs(10);

/// Runs a scheduler until it is told to stop.
fn run(options: &Options) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    process::block_on(&runtime, async {
        let credentials = Rotating::new(Credentials::read(&options.credentials, &options.stem)?)?;
        let files = (&*options.credentials, &*options.stem);
        let kept = joining::masters(&options.credentials)?;
        let masters = Masters::new([&options.masters[..], &kept].concat());
        let renewed = Renewed::new(&credentials, files, masters.clone());
        let mut renewed = std::pin::pin!(renewed.run());
        let expect = Expect::Role(Role::Master);
        let client = |master: &String| {
            let channel = rpc::transport::connect(master, &credentials, &expect)?;
            let most = rpc::transport::MAX_STREAM_MESSAGE_BYTES;
            Ok::<_, rpc::Error>(SchedulingClient::new(channel).max_decoding_message_size(most))
        };
        // Fails fast on an invalid address.
        options.masters.iter().try_for_each(|master| client(master).map(drop))?;
        let mut stop = std::pin::pin!(async {
            shutdown::requested().await;
            notify::stopping();
        });
        let (mut failures, mut copy) = (Failures::default(), None);
        // After a lost connection, or if the replica knows no leader, try the next one.
        for turn in 0_usize.. {
            let all = masters.all();
            let master = all.get(turn % all.len().max(1)).context("no master is given")?;
            // Connect anew each time, since a connection keeps the certificate that it began with.
            let followed = async { follow(client(master)?, &masters, &mut copy).await };
            tokio::select! {
                () = &mut stop => break,
                never = &mut renewed => match never {},
                ended = followed => {
                    let Err(error) = ended;
                    failures.say(master, &format!("{error:#}"));
                }
            }
            tokio::select! {
                () = &mut stop => break,
                never = &mut renewed => match never {},
                () = tokio::time::sleep(RETRY) => {}
            }
        }
        Ok(())
    })
}

/// The outcome of a proposal.
type Outcome = Result<v1::ProposeResponse, tonic::Status>;

/// What failed last at each master: a master that is gone for long is not told of at each attempt.
#[derive(Default)]
struct Failures(BTreeMap<String, (String, Instant)>);

impl Failures {
    fn say(&mut self, master: &str, why: &str) {
        let now = Instant::now();
        let said = self.0.get(master);
        if said.is_some_and(|(text, at)| text == why && now.duration_since(*at) < SAID_AGAIN) {
            return;
        }
        tracing::info!("{why}: reconnecting to the masters; {master} failed");
        self.0.insert(master.to_owned(), (why.to_owned(), now));
    }
}

/// Whether an operation changes which replicas there are, or where.
fn is_about_replicas(op: &Op) -> bool {
    match op {
        Op::ChangeMember { .. } | Op::DescribeReplica { .. } => true,
        Op::Request { mutation, .. } => {
            matches!(mutation, Mutation::AddReplica(_) | Mutation::RemoveReplica(_))
        }
        _ => false,
    }
}

/// What a scheduler keeps when it loses its connection: it goes on with the records after its copy.
struct Copy {
    scheduler: Scheduler,
    /// The master's clock, advanced locally: the local wall clock may differ.
    clock: Clock,
    /// What the copy is, in the master's words.
    has: v1::CellCopy,
    /// The instances of a proposal whose outcome is not known.
    proposed: Vec<InstanceId>,
    /// Whether every record that came could be applied.
    is_good: bool,
}

/// Follows the master with a copy of the cell until the connection is lost. `masters` learns where
/// the replicas are.
async fn follow(
    mut client: SchedulingClient<Channel>,
    masters: &Masters,
    kept: &mut Option<Copy>,
) -> anyhow::Result<std::convert::Infallible> {
    let explained = |status: tonic::Status| anyhow::anyhow!(rpc::transport::explain(&status));
    kept.take_if(|copy| !copy.is_good);
    let has = kept.as_ref().map(|copy| copy.has.clone());
    let request = v1::FollowRequest { has };
    let mut stream = client.follow(request).await.map_err(explained)?.into_inner();
    let copy = begin(&mut stream, kept).await?;
    notify::ready();
    masters.told(renewal::addresses(copy.scheduler.cell()));
    tracing::info!("following the master from index {}", copy.scheduler.cell().index());
    let lost = std::mem::take(&mut copy.proposed);
    // What became of them may be in the records that come.
    let mut rest_until = match lost.is_empty() {
        true => copy.clock.now(),
        false => copy.clock.now() + REJECTED_DELAY,
    };
    copy.scheduler.not_judged(lost);
    let mut proposal = None;
    let mut next = None;
    loop {
        if proposal.is_none() && copy.clock.now() < rest_until {
            next = Some(next.map_or(rest_until, |next: Time| next.min(rest_until)));
        } else if proposal.is_none() {
            let plan = copy.scheduler.pass(copy.clock.now());
            next = plan.next;
            if !plan.assignments.is_empty() {
                tracing::debug!("proposing {} at {}", plan.assignments.len(), plan.made_at);
                let instances = plan.assignments.iter().map(|assignment| assignment.instance);
                copy.proposed = instances.collect();
                proposal = Some(Box::pin(propose(client.clone(), plan)));
            }
        }
        // While a proposal is pending, ignore timers: overdue ones would fire at once, again and
        // again.
        let due = next.filter(|_| proposal.is_none()).map(|next: Time| copy.clock.instant(next));
        tokio::select! {
            message = stream.message() => {
                let mut message = Some(message);
                // Apply everything that has already arrived before the pass.
                while let Some(arrived) = message {
                    let arrived = arrived.map_err(explained)?;
                    apply(copy, masters, arrived.context("the master closed the stream")?)?;
                    message = ready(&mut stream).await;
                }
            }
            outcome = async { match &mut proposal {
                Some(proposal) => proposal.await,
                None => std::future::pending().await,
            } } => {
                proposal = None;
                if let Err(status) = &outcome {
                    let lost = [tonic::Code::Unavailable, tonic::Code::Unauthenticated];
                    anyhow::ensure!(
                        !lost.contains(&status.code()),
                        "a proposal got no answer: {}",
                        rpc::transport::explain(status)
                    );
                }
                let instances = std::mem::take(&mut copy.proposed);
                if settle(&mut copy.scheduler, instances, outcome) {
                    rest_until = copy.clock.now() + REJECTED_DELAY;
                }
            }
            () = async { match due {
                Some(due) => tokio::time::sleep_until(due).await,
                None => std::future::pending().await,
            } } => {}
        }
    }
}

/// Goes on with the copy that is there, or receives the current state of the cell.
async fn begin<'a>(
    stream: &mut Streaming<v1::Followed>,
    kept: &'a mut Option<Copy>,
) -> anyhow::Result<&'a mut Copy> {
    let mut image = Vec::new();
    let (time, has) = loop {
        let message = stream.message().await?.context("the master closed the stream")?;
        match message.what {
            Some(v1::followed::What::Resumed(_)) => {
                let copy = kept.as_mut().context("there is no copy to go on from")?;
                // The replica's clock may be behind that of the one before.
                copy.clock = Clock::showing(Time(message.time));
                copy.clock.advance_to(copy.scheduler.cell().time());
                return Ok(copy);
            }
            Some(v1::followed::What::Image(piece)) => image.extend_from_slice(&piece),
            Some(v1::followed::What::ImageComplete(_)) => {
                let has = message.copy.context("the master does not say what the image is")?;
                break (Time(message.time), has);
            }
            _ => anyhow::bail!("received an operation before the image was complete"),
        }
    };
    // The old copy makes room first.
    *kept = None;
    let mut clock = Clock::showing(time);
    let cell = Cell::from_image(proto::image::read_image(&image)?)?;
    clock.advance_to(cell.time());
    let scheduler = Scheduler::new(cell);
    Ok(kept.insert(Copy { scheduler, clock, has, proposed: Vec::new(), is_good: true }))
}

/// The next message, if it has already arrived.
async fn ready(
    stream: &mut Streaming<v1::Followed>,
) -> Option<Result<Option<v1::Followed>, tonic::Status>> {
    let mut message = std::pin::pin!(stream.message());
    std::future::poll_fn(|context| {
        std::task::Poll::Ready(match message.as_mut().poll(context) {
            std::task::Poll::Ready(message) => Some(message),
            std::task::Poll::Pending => None,
        })
    })
    .await
}

/// Applies a record to the copy. If that fails, nobody knows what the copy is worth.
fn apply(copy: &mut Copy, masters: &Masters, message: v1::Followed) -> anyhow::Result<()> {
    let applied = apply_record(copy, masters, message);
    copy.is_good = applied.is_ok();
    applied
}

fn apply_record(copy: &mut Copy, masters: &Masters, message: v1::Followed) -> anyhow::Result<()> {
    let Copy { scheduler, clock, has, .. } = copy;
    let Some(v1::followed::What::Committed(committed)) = message.what else {
        anyhow::bail!("received something else than an operation");
    };
    clock.advance_to(Time(message.time));
    let expected = LogIndex(scheduler.cell().index().0 + 1);
    anyhow::ensure!(
        committed.index == expected.0,
        "received record {} instead of {expected}",
        committed.index
    );
    (has.index, has.term) = (committed.index, committed.term);
    if committed.record.is_empty() {
        scheduler.follow(scheduler.cell().time(), &Op::Nothing);
        return Ok(());
    }
    anyhow::ensure!(
        cell::has_level(Level(committed.level)),
        "record {} needs level {}; this program supports up to {}: start a newer scheduler",
        committed.index,
        committed.level,
        cell::LEVEL
    );
    let (at, op) = proto::log::decode_record(&committed.record)?;
    scheduler.follow(at, &op);
    if is_about_replicas(&op) {
        masters.told(renewal::addresses(scheduler.cell()));
    }
    clock.advance_to(scheduler.cell().time());
    Ok(())
}

async fn propose(mut client: SchedulingClient<Channel>, plan: Plan) -> Outcome {
    let mut request = tonic::Request::new(v1::ProposeRequest {
        made_at: plan.made_at.0,
        assignments: plan.assignments.iter().map(Into::into).collect(),
    });
    request.set_timeout(PROPOSAL_TIMEOUT);
    client.propose(request).await.map(tonic::Response::into_inner)
}

/// Whether any assignment was rejected. The copy shows the effect of each: until it has caught up
/// with the master, the same plan would be rejected for the same reason.
fn settle(scheduler: &mut Scheduler, instances: Vec<InstanceId>, outcome: Outcome) -> bool {
    match outcome {
        Ok(outcome) => {
            for (instance, cause) in instances.iter().zip(&outcome.refused) {
                if !cause.is_empty() {
                    tracing::info!("{instance} was rejected: {cause}");
                }
            }
            outcome.refused.iter().any(|cause| !cause.is_empty())
        }
        Err(status) => {
            tracing::warn!("a proposal failed: {}", rpc::transport::explain(&status));
            scheduler.not_judged(instances);
            true
        }
    }
}
