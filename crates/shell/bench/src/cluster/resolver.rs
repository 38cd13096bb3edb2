//! `bourg bench resolver`: how fast the name server of a Borglet learns a name, and that it has changed; and
//! what watchers of one job cost a master.
//!
//! The masters are processes of this program, with the state of a large cell in memory: machines and tasks
//! as drawn by `bourg bench apply`. There are no Borglets; the machines are polled once a minute, without
//! success. The name server is the Borglet's, in this process, and is asked over UDP.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use api::v1;
use borgletd::NameServer;
use cell::{Cell, Observation, Op};
use clap::Args;
use client::Connection;
use command::{Done, Failure, output};
use model::{InstanceId, MachineId, TaskIndex, Time};
use rpc::service::names_client::NamesClient;
use rpc::{Expect, Identity, Role, Rotating};
use serde::Serialize;
use spec::JobSpec;
use tokio::net::UdpSocket;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::super::apply;
use super::failover::{POLL_INTERVAL, nowhere};
use super::latencies::Latencies;
use super::masters::Masters;
use super::{CommonOptions, rounded, run, waiting};

/// The options.
#[derive(Clone, Debug, Args)]
pub(crate) struct Options {
    /// How many names are asked for that the name server does not know.
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..))]
    misses: u32,
    /// How many names are changed: jobs that get their first record.
    #[arg(long, default_value_t = 200)]
    changes: u32,
    /// The number of watchers of one job.
    #[arg(long, default_value_t = 2_000, value_parser = clap::value_parser!(u16).range(1..=4_000))]
    watchers: u16,
    /// How long they watch, in seconds: the job changes each second.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..=10))]
    seconds: u16,
    /// The number of replicas of the master.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=7))]
    replicas: u8,
    /// The number of machines of the cell.
    #[arg(long, default_value_t = 12_583)]
    machines: u64,
    /// The number of tasks of the cell, all placed.
    #[arg(long, default_value_t = 144_339)]
    tasks: u32,
    /// The seed for drawing machines and tasks.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    common: CommonOptions,
}

/// The results.
#[derive(Debug, Serialize)]
struct Figures {
    machines: u64,
    tasks: u32,
    replicas: u8,
    misses: u64,
    miss_p50_ms: f64,
    miss_p99_ms: f64,
    hit_p50_ms: f64,
    changes: u64,
    /// From the acknowledgement of a change to the first answer that has it.
    visible_p50_ms: f64,
    visible_p99_ms: f64,
    visible_max_ms: f64,
    watchers: u16,
    /// The tasks of the job that they watch.
    watched_tasks: u32,
    watched_changes: u64,
    /// CPU of the masters, with the same changes, without and with the watchers.
    masters_cores_alone: f64,
    masters_cores_watched: f64,
    /// The difference.
    watchers_cores: f64,
    /// What the watchers were sent: all of them had each change, unless changes were combined.
    messages: u64,
}

/// The number of watches that share a connection.
const WATCHES_OF_A_CONNECTION: u16 = 100;
/// The tasks of the job that is watched: one is killed each second, with and without watchers.
const WATCHED_TASKS: usize = 20;
/// The longest wait for an answer, and for a change to be visible.
const PATIENCE: Duration = Duration::from_secs(20);
/// The time between two questions for a name that has to change.
const ASK_EVERY: Duration = Duration::from_millis(1);
/// New names join the watch of a Borglet within this time.
const JOINED: Duration = Duration::from_secs(3);

/// Runs the benchmark and prints the results.
pub(crate) fn measure(options: &Options) -> Done {
    let figures = run(measured(options))?;
    let format = options.common.format();
    output::object(&format, &figures, "resolver", || {
        format!(
            "{} machines, {} tasks: a name that is not known {:.1} ms (p99 {:.1} ms), a change visible \
             after {:.0} ms (p99 {:.0} ms); {} watchers of a job of {} tasks: {:.3} cores with a change \
             a second\n",
            figures.machines,
            figures.tasks,
            figures.miss_p50_ms,
            figures.miss_p99_ms,
            figures.visible_p50_ms,
            figures.visible_p99_ms,
            figures.watchers,
            figures.watched_tasks,
            figures.watchers_cores,
        )
    })
}

async fn measured(options: &Options) -> Result<Figures, Failure> {
    let Options { machines, tasks, seed, .. } = *options;
    let size = apply::ApplySize { machines, tasks, operations: 0, seed, cores: 1 };
    let mut cell = apply::filled(size, nowhere)?;
    let mut jobs: Vec<(String, u32)> =
        cell.named_jobs().map(|job| (job.spec.name.to_string(), job.spec.tasks)).collect();
    jobs.sort_by_key(|(_, tasks)| (*tasks as usize).abs_diff(WATCHED_TASKS));
    let (watched, watched_tasks) = jobs.swap_remove(0);
    start(&mut cell, &watched)?;
    let of_machine = cell.machine(MachineId(1)).context("a cell without machines")?.name.clone();
    let image = cell.image();
    drop(cell);
    let flags = [("poll-interval", POLL_INTERVAL.to_owned())];
    let place = options.common.below();
    let mut masters = Masters::prepare(&place, options.replicas, Some(&image), &flags)?;
    drop(image);
    masters.start()?;
    let mut connection = masters.connect()?;
    masters.form(&mut connection).await?;
    masters.agree(&mut connection).await?;

    let names: Vec<String> = jobs.into_iter().map(|(name, _)| name).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).take(options.misses as usize).collect();

    let identity = Identity::Borglet(of_machine.to_string());
    let credentials = Rotating::new(masters.issue(&identity)?).map_err(anyhow::Error::from)?;
    let server = NameServer::bind(credentials, masters.addresses(), ([127, 0, 0, 1], 0).into());
    let server = server.await?;
    let mut resolver = Resolver::connect(server.address()).await?;
    let serving = tokio::spawn(server.run());
    // The first name opens a connection.
    resolver.ask(&watched).await?;
    let (mut missed, mut hit) = (Latencies::default(), Latencies::default());
    for name in &names {
        for times in [&mut missed, &mut hit] {
            let begun = Instant::now();
            ensure_found(name, resolver.ask(name).await?)?;
            times.add(begun.elapsed());
        }
    }
    let visible = appear(&mut connection, &mut resolver, options.changes).await?;
    serving.abort();
    let alone = changed(&masters, &mut connection, &watched, 0, options.seconds).await?;
    let watchers = Watchers::begin(&masters, &watched, options.watchers).await?;
    let first = u32::from(options.seconds);
    let with = changed(&masters, &mut connection, &watched, first, options.seconds).await?;
    let messages = watchers.end().await;

    let (misses, changes) = (missed.count(), visible.count());
    let [miss_p50_ms, miss_p99_ms] = missed.at([50, 99]);
    let [hit_p50_ms] = hit.at([50]);
    let [visible_p50_ms, visible_p99_ms, visible_max_ms] = visible.at([50, 99, 100]);
    Ok(Figures {
        machines,
        tasks,
        replicas: options.replicas,
        misses,
        miss_p50_ms,
        miss_p99_ms,
        hit_p50_ms,
        changes,
        visible_p50_ms,
        visible_p99_ms,
        visible_max_ms,
        watchers: options.watchers,
        watched_tasks,
        watched_changes: options.seconds.into(),
        masters_cores_alone: rounded(alone, 4),
        masters_cores_watched: rounded(with, 4),
        watchers_cores: rounded(with - alone, 4),
        messages,
    })
}

/// Starts the tasks of a job.
fn start(cell: &mut Cell, job: &str) -> anyhow::Result<()> {
    let started = cell.named_jobs().find(|known| known.spec.name.as_str() == job);
    let started = started.context("a cell without jobs")?;
    let instances: Vec<InstanceId> =
        (0..started.spec.tasks).filter_map(|index| started.instance(TaskIndex(index))).collect();
    for instance in instances {
        let machine = cell.placement(instance).context("a task has no machine")?.machine;
        let observations = vec![Observation::started(instance)];
        let at = Time(cell.time().0 + 1);
        cell.apply(at, &Op::Observe { machine, observations });
    }
    Ok(())
}

/// Submits jobs whose names the name server knows not to exist; the time until it has each.
async fn appear(
    connection: &mut Connection,
    resolver: &mut Resolver,
    number: u32,
) -> Result<Latencies, Failure> {
    let jobs: Vec<JobSpec> =
        (0..number.into()).map(|number| waiting::job(0, number)).collect::<Result<_, _>>()?;
    for job in &jobs {
        let answered = resolver.ask(job.name.as_str()).await?;
        if answered != ResolverReply::NoSuchName {
            return Err(Failure::failed(format!("error: {} is {answered:?}", job.name)));
        }
    }
    tokio::time::sleep(JOINED).await;
    let mut visible = Latencies::default();
    for job in &jobs {
        let id = Some(connection.request_id().await?);
        let request = v1::SubmitRequest { id, spec: Some(job.into()) };
        connection
            .ask(request, async |mut client, request| client.jobs.submit(request).await)
            .await?;
        let begun = Instant::now();
        while resolver.ask(job.name.as_str()).await? != ResolverReply::Found {
            if begun.elapsed() > PATIENCE {
                return Err(Failure::failed(format!("error: {} has no name", job.name)));
            }
            tokio::time::sleep(ASK_EVERY).await;
        }
        visible.add(begun.elapsed());
    }
    Ok(visible)
}

/// Kills one task of a job each second, for so long; returns the CPU of the masters in cores.
async fn changed(
    masters: &Masters,
    connection: &mut Connection,
    job: &str,
    first: u32,
    seconds: u16,
) -> Result<f64, Failure> {
    let (begun, cpu) = (Instant::now(), masters.cpu_time()?);
    for number in 0..u32::from(seconds) {
        kill(connection, job, first + number).await?;
        tokio::time::sleep_until(begun + Duration::from_secs(u64::from(number) + 1)).await;
    }
    let spent = masters.cpu_time()?.saturating_sub(cpu);
    Ok(spent.as_secs_f64() / begun.elapsed().as_secs_f64())
}

async fn kill(connection: &mut Connection, job: &str, index: u32) -> Result<(), Failure> {
    let id = Some(connection.request_id().await?);
    let job = Some(v1::JobAddress { user: String::new(), job: job.to_owned() });
    let ranges = vec![v1::IndexRange { first: index, last: index }];
    let tasks = v1::TaskSelection { all: false, ranges };
    let request = v1::KillRequest { id, job, tasks: Some(tasks), now: false };
    let answer = connection
        .ask(request, async |mut client, request| client.jobs.kill(request).await)
        .await?;
    if answer.killed != 1 {
        return Err(Failure::failed(format!("error: task {index} of a job is not killed")));
    }
    Ok(())
}

/// Watches of one job, and what they were sent.
struct Watchers(JoinSet<u64>, tokio::sync::watch::Sender<bool>);

impl Watchers {
    /// Begins them; each has the job's record then.
    async fn begin(masters: &Masters, job: &str, number: u16) -> Result<Self, Failure> {
        let user = masters.issue(&Identity::User("bench".to_owned()))?;
        let user = Rotating::new(user).map_err(anyhow::Error::from)?;
        let addresses = masters.addresses();
        let (stop, stopped) = tokio::sync::watch::channel(false);
        let (mut running, mut clients) = (JoinSet::new(), Vec::new());
        for number in 0..number {
            if number % WATCHES_OF_A_CONNECTION == 0 {
                let place = usize::from(number / WATCHES_OF_A_CONNECTION) % addresses.len();
                let to = Expect::Role(Role::Master);
                let channel = rpc::transport::connect(&addresses[place], &user, &to);
                let channel = channel.map_err(anyhow::Error::from)?;
                clients.push(NamesClient::new(channel));
            }
            let mut client = clients.last().context("no client")?.clone();
            let job = v1::JobAddress { user: String::new(), job: job.to_owned() };
            let query = Some(v1::NameQuery { jobs: vec![job], labels: String::new() });
            let request = v1::WatchNamesRequest { query, after: 0 };
            let mut changes = client.watch(request).await?.into_inner();
            ensure_record(changes.message().await?)?;
            let mut stopped = stopped.clone();
            running.spawn(async move {
                let mut messages = 0;
                loop {
                    tokio::select! {
                        change = changes.message() => match change {
                            Ok(Some(change)) => messages += change.records.len() as u64,
                            Ok(None) | Err(_) => return messages,
                        },
                        _ = stopped.changed() => return messages,
                    }
                }
            });
        }
        Ok(Self(running, stop))
    }

    async fn end(self) -> u64 {
        let Self(mut running, stop) = self;
        stop.send_replace(true);
        let mut messages = 0;
        while let Some(ended) = running.join_next().await {
            messages += ended.unwrap_or_default();
        }
        messages
    }
}

fn ensure_record(first: Option<v1::NamesChange>) -> anyhow::Result<()> {
    let has = first.is_some_and(|change| !change.records.is_empty());
    ensure!(has, "the watched job has no record");
    Ok(())
}

/// What a name server said about a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ResolverReply {
    Found,
    NoSuchName,
    Failed(u8),
}

fn ensure_found(name: &str, answered: ResolverReply) -> anyhow::Result<()> {
    ensure!(answered == ResolverReply::Found, "the name server says of {name}: {answered:?}");
    Ok(())
}

/// A client of the name server.
struct Resolver {
    socket: UdpSocket,
    id: u16,
}

impl Resolver {
    async fn connect(to: SocketAddr) -> anyhow::Result<Self> {
        let socket = UdpSocket::bind("127.0.0.1:0").await?;
        socket.connect(to).await?;
        Ok(Self { socket, id: 0 })
    }

    /// Asks for the addresses of a job of the user.
    async fn ask(&mut self, job: &str) -> anyhow::Result<ResolverReply> {
        self.id = self.id.wrapping_add(1);
        let mut request = Vec::with_capacity(64);
        request.extend(self.id.to_be_bytes());
        // One question, with recursion desired.
        request.extend([1, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
        for label in [job, "bench", "bench", "borg"] {
            request.push(u8::try_from(label.len())?);
            request.extend(label.bytes());
        }
        request.extend([0, 0, 1, 0, 1]);
        self.socket.send(&request).await?;
        let mut reply = [0; 4_096];
        loop {
            let length = tokio::time::timeout(PATIENCE, self.socket.recv(&mut reply));
            let length = length.await.context("the name server does not answer")??;
            match reply.get(..length) {
                Some([first, second, _, flags, ..])
                    if [*first, *second] == self.id.to_be_bytes() =>
                {
                    return Ok(match flags & 0xf {
                        0 => ResolverReply::Found,
                        3 => ResolverReply::NoSuchName,
                        code => ResolverReply::Failed(code),
                    });
                }
                _ => {}
            }
        }
    }
}
