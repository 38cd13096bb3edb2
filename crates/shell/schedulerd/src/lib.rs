//! The scheduler's process: the connections, bytes and clock around a [`Follower`], which decides what is
//! followed, proposed and awaited.

mod arguments;
mod held_packages;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::Context;
use api::v1;
use cell::{Cell, Mutation, Op};
use follower::{Effect, Follower, Input, OutOfOrder, PROPOSAL_TIMEOUT, Proposal};
use model::{CellCopy, Enabled, Level, LogIndex, Term, Time};
use process::clock::Clock;
use process::renewal::{self, Masters, Renewed};
use process::{joining, notify, shutdown};
use rpc::service::scheduling_client::SchedulingClient;
use rpc::{Credentials, Expect, Role, Rotating};
use tokio::sync::mpsc;
use tonic::Streaming;
use tonic::transport::Channel;

pub use arguments::{SchedulerArgs, start};

use held_packages::{Collector, MachineList};

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

/// After how long the same failure of a master is told again.
const SAID_AGAIN: Duration = Duration::from_secs(60);

/// Runs a scheduler until it is told to stop.
fn run(options: &Options) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    process::block_on(&runtime, async {
        let credentials = Rotating::new(Credentials::read(&options.credentials, &options.stem)?)?;
        let kept = joining::masters(&options.credentials)?;
        let masters = Masters::new([&options.masters[..], &kept].concat());
        let renewed =
            Renewed::new(&credentials, &options.credentials, &options.stem, masters.clone());
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
        let (collector, lists) = Collector::new(credentials.clone(), masters.clone());
        let mut collecting = std::pin::pin!(collector.run());
        let mut process = FollowerDriver::new(masters.clone(), lists);
        let mut failures = Failures::default();
        loop {
            let (attempt, has) = tokio::select! {
                () = &mut stop => break,
                never = &mut renewed => match never {},
                never = &mut collecting => match never {},
                attempt = process.next_attempt() => attempt,
            };
            let all = masters.all();
            let turn = attempt % u64::try_from(all.len())?.max(1);
            let master = all.get(usize::try_from(turn)?).context("no master is given")?;
            // Connect anew each time, since a connection keeps the certificate that it began with.
            let followed = async { process.follow(client(master)?, has).await };
            tokio::select! {
                () = &mut stop => break,
                never = &mut renewed => match never {},
                never = &mut collecting => match never {},
                ended = followed => {
                    let Err(error) = ended;
                    failures.say(master, &format!("{error:#}"));
                }
            }
            process.take_in(Input::Disconnected)?;
        }
        Ok(())
    })
}

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

/// The state machine, with the clock by which it is driven.
struct FollowerDriver {
    follower: Follower,
    /// The master's clock, advanced locally: the local wall clock may differ. Before the first copy it is
    /// the local one; only delays are measured then.
    clock: Clock,
    /// Learns where the replicas are.
    masters: Masters,
    /// The packages that machines have.
    lists: mpsc::Receiver<MachineList>,
}

impl FollowerDriver {
    fn new(masters: Masters, lists: mpsc::Receiver<MachineList>) -> Self {
        let (follower, clock) = (Follower::default(), Clock::start());
        Self { follower, clock, masters, lists }
    }

    fn take_in(&mut self, input: Input) -> Result<(), OutOfOrder> {
        self.follower.take_in(self.clock.now(), input)
    }

    fn tick(&mut self) -> Option<Effect> {
        self.follower.tick(self.clock.now())
    }

    /// Waits until a replica is to be followed, and tells which and from where.
    async fn next_attempt(&mut self) -> (u64, Option<CellCopy>) {
        loop {
            if let Some(Effect::Follow { attempt, has }) = self.tick() {
                return (attempt, has);
            }
            due(&self.follower, &self.clock).await;
        }
    }

    /// Follows a replica until the connection is lost.
    async fn follow(
        &mut self,
        mut client: SchedulingClient<Channel>,
        has: Option<CellCopy>,
    ) -> anyhow::Result<std::convert::Infallible> {
        let has = has.map(|has| v1::CellCopy {
            index: has.index.0,
            term: has.term.0,
            restore_epoch: has.restore_epoch.to_string(),
        });
        let request = v1::FollowRequest { has };
        let mut stream =
            client.follow(request).await.map_err(|status| explained(&status))?.into_inner();
        self.begin(&mut stream).await?;
        notify::ready();
        if let Some(cell) = self.follower.cell() {
            self.masters.told(renewal::addresses(cell.member_addresses()));
            tracing::info!("following the master from index {}", cell.index());
        }
        let mut proposed = None;
        loop {
            if let Some(Effect::Propose(proposal)) = self.tick() {
                proposed = Some(Box::pin(propose(client.clone(), proposal)));
            }
            tokio::select! {
                message = stream.message() => {
                    let mut message = Some(message);
                    // Take in everything that has already arrived before the pass.
                    while let Some(arrived) = message {
                        let arrived = arrived.map_err(|status| explained(&status))?;
                        self.record(arrived.context("the master closed the stream")?)?;
                        message = ready(&mut stream).await;
                    }
                }
                (proposal, outcome) = async { match &mut proposed {
                    Some(proposed) => proposed.await,
                    None => std::future::pending().await,
                } } => {
                    proposed = None;
                    self.take_in(answer(&proposal, outcome)?)?;
                }
                Some((machine, packages)) = self.lists.recv() => {
                    self.take_in(Input::Held(machine, packages))?;
                }
                () = due(&self.follower, &self.clock) => {}
            }
        }
    }

    /// Goes on with the copy that is there, or receives the current state of the cell.
    async fn begin(&mut self, stream: &mut Streaming<v1::Followed>) -> anyhow::Result<()> {
        let mut image = Vec::new();
        loop {
            let message = stream.message().await?.context("the master closed the stream")?;
            // The replica's clock may be behind that of the one before.
            let shows = |cell: &Cell| {
                let mut clock = Clock::showing(Time(message.time));
                clock.advance_to(cell.time());
                clock
            };
            match message.what {
                Some(v1::followed::What::Resumed(_)) => {
                    let cell = self.follower.cell().context("there is no copy to go on from")?;
                    self.clock = shows(cell);
                    return Ok(self.take_in(Input::Resumed)?);
                }
                Some(v1::followed::What::Image(piece)) => {
                    if image.is_empty() {
                        self.take_in(Input::Loading)?;
                    }
                    image.extend_from_slice(&piece);
                }
                Some(v1::followed::What::ImageComplete(_)) => {
                    let copy = message.copy.context("the master does not say what the image is")?;
                    let restore_epoch = copy.restore_epoch.parse().ok();
                    let restore_epoch = restore_epoch.with_context(|| {
                        format!("'{}' names no restoration of the cell", copy.restore_epoch)
                    })?;
                    let (index, term) = (LogIndex(copy.index), Term(copy.term));
                    let copy = CellCopy { index, term, restore_epoch };
                    let cell = Box::new(Cell::from_image(formats::image::read_image(&image)?)?);
                    self.clock = shows(&cell);
                    return Ok(self.take_in(Input::Loaded(cell, copy))?);
                }
                _ => anyhow::bail!("received an operation before the image was complete"),
            }
        }
    }

    /// Takes in a record.
    fn record(&mut self, message: v1::Followed) -> anyhow::Result<()> {
        self.clock.advance_to(Time(message.time));
        let (record, is_about_replicas) = match decoded(message) {
            Ok(decoded) => decoded,
            Err(error) => {
                self.take_in(Input::Unreadable)?;
                return Err(error);
            }
        };
        self.take_in(record)?;
        if let Some(cell) = self.follower.cell() {
            self.clock.advance_to(cell.time());
            if is_about_replicas {
                self.masters.told(renewal::addresses(cell.member_addresses()));
            }
        }
        Ok(())
    }
}

/// Waits until the next tick is due.
async fn due(follower: &Follower, clock: &Clock) {
    match follower.next_tick() {
        Some(at) => tokio::time::sleep_until(clock.instant(at)).await,
        None => std::future::pending().await,
    }
}

fn explained(status: &tonic::Status) -> anyhow::Error {
    anyhow::anyhow!(rpc::transport::explain(status))
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

/// A record, and whether its operation changes which replicas there are.
fn decoded(message: v1::Followed) -> anyhow::Result<(Input, bool)> {
    let Some(v1::followed::What::Committed(committed)) = message.what else {
        anyhow::bail!("received something else than an operation");
    };
    let (index, term) = (LogIndex(committed.index), Term(committed.term));
    if committed.record.is_empty() {
        return Ok((Input::Record { index, term, operation: None }, false));
    }
    anyhow::ensure!(
        cell::has_level(Level(committed.level)),
        "record {index} needs level {}; this program supports up to {}: start a newer scheduler",
        committed.level,
        cell::LEVEL
    );
    let (at, op) = formats::log::decode_record(&committed.record)?;
    let is_about_replicas = is_about_replicas(&op);
    Ok((Input::Record { index, term, operation: Some((at, op)) }, is_about_replicas))
}

/// The outcome of a proposal.
type ProposalOutcome = Result<v1::ProposeResponse, tonic::Status>;

async fn propose(
    mut client: SchedulingClient<Channel>,
    proposal: Proposal,
) -> (Proposal, ProposalOutcome) {
    let (number, jobs) = (proposal.assignments.len(), proposal.enabled.len());
    tracing::debug!("proposing {number}, and tasks of {jobs} jobs, at {}", proposal.made_at);
    let mut request = tonic::Request::new(v1::ProposeRequest {
        made_at: proposal.made_at.0,
        assignments: proposal.assignments.iter().map(Into::into).collect(),
        scheduler: String::new(),
        began: Some(proposal.began.0),
        enabled: proposal.enabled.iter().copied().map(Into::into).collect(),
    });
    request.set_timeout(PROPOSAL_TIMEOUT.to_std());
    let outcome = client.propose(request).await;
    (proposal, outcome.map(tonic::Response::into_inner))
}

/// What an answer says. An error if the replica on the other end is of no use for proposals: another one
/// is then followed.
fn answer(proposal: &Proposal, outcome: ProposalOutcome) -> anyhow::Result<Input> {
    let number = proposal.number;
    match outcome {
        Ok(response) => {
            for (assignment, cause) in proposal.assignments.iter().zip(&response.refused) {
                if !cause.is_empty() {
                    tracing::info!("{} was rejected: {cause}", assignment.instance);
                }
            }
            for (enabled, cause) in proposal.enabled.iter().zip(&response.enabled_refused) {
                if !cause.is_empty() {
                    let Enabled { job, tasks } = enabled;
                    tracing::info!("{tasks} tasks of job {job} were not enabled: {cause}");
                }
            }
            let mut causes = response.refused.iter().chain(&response.enabled_refused);
            let rejected = causes.any(|cause| !cause.is_empty());
            Ok(Input::Decided { number, rejected })
        }
        Err(status) => {
            let why = rpc::transport::explain(&status);
            let lost = [tonic::Code::Unavailable, tonic::Code::Unauthenticated];
            anyhow::ensure!(!lost.contains(&status.code()), "a proposal got no answer: {why}");
            tracing::warn!("a proposal failed: {why}");
            Ok(Input::Undecided { number })
        }
    }
}
