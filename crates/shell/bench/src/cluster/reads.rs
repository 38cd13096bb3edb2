//! `bourg bench reads`: the latency of reads while a master polls its Borglets and processes
//! changes.
//!
//! The load is that of `bourg bench agents`, and clients that submit and kill jobs. The reads are
//! the status of a job with its tasks, and for every tenth client a query over the attributes of
//! all machines. Half of the reads are plain, answered from the replica's current state, which may
//! be stale; half are linearizable. Readers are spread over all replicas. All processes share this
//! machine's processors.

use std::time::Duration;

use api::v1;
use clap::Args;
use command::{Done, Failure, output};
use serde::Serialize;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tonic::Request;
use tonic::metadata::MetadataValue;

use super::borglets::BorgletsProcess;
use super::latencies::Latencies;
use super::masters::{LeanClient, Masters};
use super::waiting::{self, Window};
use super::{CommonOptions, Disk, agents, rate, run};
use rpc::metadata::CONSISTENT;

/// The options.
#[derive(Clone, Debug, Args)]
pub(crate) struct Options {
    /// The number of Borglets polled meanwhile.
    #[arg(long, default_value_t = 2_000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    agents: u32,
    /// The number of replicas of the master.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=7))]
    replicas: u8,
    /// The number of reading clients.
    #[arg(long, default_value_t = 32, value_parser = clap::value_parser!(u16).range(2..=1_000))]
    readers: u16,
    /// The number of clients that make changes.
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=1_000))]
    writers: u16,
    /// The pause of each client between an answer and its next request, in milliseconds.
    #[arg(long, default_value_t = 20)]
    rest_ms: u64,
    /// The duration of the measurement, in seconds.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=3_600))]
    seconds: u64,
    #[command(flatten)]
    common: CommonOptions,
}

/// The results.
#[derive(Debug, Serialize)]
struct Figures {
    agents: u32,
    replicas: u8,
    readers: u16,
    writers: u16,
    seconds: u64,
    plain_per_second: f64,
    plain_p50_ms: f64,
    plain_p99_ms: f64,
    consistent_per_second: f64,
    consistent_p50_ms: f64,
    consistent_p99_ms: f64,
    changes_per_second: f64,
    change_p50_ms: f64,
    change_p99_ms: f64,
    poll_interval_p95_ms: f64,
    #[serde(flatten)]
    disk: Disk,
}

/// The warm-up.
const WARM_UP: Duration = Duration::from_secs(2);
/// The number of pending tasks of the job that is read.
const TASKS: u32 = 100;

/// Runs the benchmark and prints the results.
pub(crate) fn measure(options: &Options) -> Done {
    let figures = run(measured(options))?;
    let format = options.common.format();
    output::object(&format, &figures, "reads", || {
        format!(
            "{} Borglets, {:.0} changes per second: plain reads p50 {:.2} ms, p99 {:.2} ms \
             ({:.0} per second), consistent ones p50 {:.2} ms, p99 {:.2} ms ({:.0} per second)\n",
            figures.agents,
            figures.changes_per_second,
            figures.plain_p50_ms,
            figures.plain_p99_ms,
            figures.plain_per_second,
            figures.consistent_p50_ms,
            figures.consistent_p99_ms,
            figures.consistent_per_second,
        )
    })
}

async fn measured(options: &Options) -> Result<Figures, Failure> {
    let place = options.common.below();
    let mut masters = Masters::prepare(&place, options.replicas, None, &[])?;
    masters.start()?;
    let mut connection = masters.connect()?;
    let leader = masters.form(&mut connection).await?;
    let disk = Disk::measure(&masters)?;
    let mut borglets = BorgletsProcess::start(masters.directory(), options.agents, Duration::ZERO)?;
    agents::add(&mut connection, &masters, options.agents).await?;
    let read = submit(&mut connection).await?;

    let (lasts, rest) =
        (Duration::from_secs(options.seconds), Duration::from_millis(options.rest_ms));
    let window = Window::after(WARM_UP.min(lasts), lasts);
    let writers = masters.clients(leader, options.writers, 1)?;
    let changes = tokio::spawn(waiting::all(writers, window, rest));
    let mut readers = JoinSet::new();
    let ids = masters.ids();
    for (number, to) in (0..options.readers).zip(ids.iter().cycle()) {
        let client = masters.clients(*to, 1, 1)?;
        let consistent = usize::from(number) / ids.len() % 2 == 1;
        for client in client {
            let reader =
                Reader { client, consistent, job: read.clone(), machines: number % 10 == 0 };
            readers.spawn(async move { (consistent, reader.read(window, rest).await) });
        }
    }
    tokio::time::sleep_until(window.begins).await;
    borglets.seen()?;
    let (mut plain, mut consistent) = (Latencies::default(), Latencies::default());
    while let Some(ended) = readers.join_next().await {
        let (is_consistent, times) = ended.map_err(anyhow::Error::from)?;
        if is_consistent { &mut consistent } else { &mut plain }.join(times?);
    }
    let seen = borglets.seen()?;
    let changes = changes.await.map_err(anyhow::Error::from)??;
    let counts = [&plain, &consistent, &changes].map(Latencies::count);
    let [plain_per_second, consistent_per_second, changes_per_second] =
        counts.map(|count| rate(count, lasts));
    let [plain_p50_ms, plain_p99_ms] = plain.at([50, 99]);
    let [consistent_p50_ms, consistent_p99_ms] = consistent.at([50, 99]);
    let [change_p50_ms, change_p99_ms] = changes.at([50, 99]);
    let Options { agents, replicas, readers, writers, seconds, .. } = *options;
    Ok(Figures {
        agents,
        replicas,
        readers,
        writers,
        seconds,
        plain_per_second,
        plain_p50_ms,
        plain_p99_ms,
        consistent_per_second,
        consistent_p50_ms,
        consistent_p99_ms,
        changes_per_second,
        change_p50_ms,
        change_p99_ms,
        poll_interval_p95_ms: seen.interval_p95_ms,
        disk,
    })
}

/// Submits the job that is read.
async fn submit(connection: &mut client::Connection) -> Result<v1::JobAddress, Failure> {
    let mut spec = waiting::job(0, 0)?;
    spec.tasks = TASKS;
    let id = Some(connection.request_id().await?);
    let request = v1::SubmitRequest { id, spec: Some((&spec).into()) };
    let answer = connection
        .ask(request, async |mut client, request| client.jobs.submit(request).await)
        .await?;
    Ok(v1::JobAddress { user: answer.user, job: spec.name.to_string() })
}

/// A reading client.
struct Reader {
    client: LeanClient,
    consistent: bool,
    job: v1::JobAddress,
    /// Whether it also queries all machines.
    machines: bool,
}

impl Reader {
    async fn read(mut self, window: Window, rest: Duration) -> Result<Latencies, Failure> {
        let mut times = Latencies::default();
        // From then on this replica has the job.
        let status = self.status();
        self.client.jobs.status(asked(status, true)).await?;
        while Instant::now() < window.ends {
            let begun = Instant::now();
            if self.machines {
                let labels = format!("job={}", self.job.job);
                let request = v1::MachinesRequest { labels, ..Default::default() };
                self.client.machines.list(asked(request, self.consistent)).await?;
            } else {
                let request = self.status();
                self.client.jobs.status(asked(request, self.consistent)).await?;
            }
            let ended = Instant::now();
            if window.has(ended) {
                times.add(ended - begun);
            }
            tokio::time::sleep(rest).await;
        }
        Ok(times)
    }

    fn status(&self) -> v1::StatusRequest {
        v1::StatusRequest { jobs: vec![self.job.clone()], tasks: true, ..Default::default() }
    }
}

fn asked<T>(message: T, consistent: bool) -> Request<T> {
    let mut request = Request::new(message);
    if consistent {
        request.metadata_mut().insert(CONSISTENT, MetadataValue::from_static("true"));
    }
    request
}
