//! `bourg bench commit`: durable changes a second, with clients that wait for each.
//!
//! The masters are processes of this program, and the clients are in this one, over a given number of
//! connections to the replica that leads. Half of the changes submit a job of one task in the free
//! band, half kill one; a change is acknowledged when a majority has it on its disk. What it is
//! compared with is measured in the same run: an fsync in the same directory, and the same changes by
//! as many clients that wait, given to the same cores, logs and event files of as many replicas within
//! one process: what is missing there are TLS, HTTP/2, the services and the other processes. All of
//! them share this machine's processors.

use std::path::Path;
use std::time::Duration;

use clap::Args;
use cli::output;
use cli::{Done, Failure};
use masterd::in_process::InProcessCluster;
use serde::Serialize;

use super::latencies::Latencies;
use super::masters::Masters;
use super::waiting::{self, Window};
use super::{AsAll, Disk, micros_each, process, rate, rounded, run};

/// What is to be measured.
#[derive(Clone, Debug, Args)]
pub(crate) struct Wanted {
    /// How many replicas the master has.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=7))]
    replicas: u8,
    /// How many clients wait, each for its change.
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u16).range(1..=4_000))]
    clients: u16,
    /// Over how many connections; at most as many as there are clients.
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u16).range(1..))]
    connections: u16,
    /// For how long, in seconds.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=3_600))]
    seconds: u64,
    #[command(flatten)]
    as_all: AsAll,
}

/// What was found.
#[derive(Debug, Serialize)]
struct Found {
    replicas: u8,
    clients: u16,
    connections: u16,
    seconds: u64,
    commits: u64,
    commits_per_second: f64,
    p50_ms: f64,
    p99_ms: f64,
    #[serde(flatten)]
    disk: Disk,
    /// The same changes by as many clients, without a network.
    in_process_per_second: f64,
    in_process_p50_ms: f64,
    /// Of all masters together.
    cpu_us_per_commit: f64,
    /// Of the clients, which use the same processors.
    client_cpu_us_per_commit: f64,
    in_process_cpu_us_per_commit: f64,
    /// The smaller of clients ÷ median fsync and the rate without a network.
    limit_per_second: f64,
    ratio_to_limit: f64,
    /// The CPU time of one change without a network ÷ that of one with it, masters and clients: what the
    /// ratio comes to where the processors are the limit, and less disturbed by who else uses them.
    ratio_by_cpu: f64,
}

/// How long it runs before it counts, at most.
const WARMING: Duration = Duration::from_secs(2);

/// Measures, and prints what was found.
pub(crate) fn measure(wanted: &Wanted) -> Done {
    let found = run(measured(wanted))?;
    let format = wanted.as_all.format();
    output::object(&format, &found, "commit", || {
        format!(
            "{} replicas, {} clients that wait: {:.0} changes a second, p50 {:.2} ms, p99 {:.2} ms, \
             {:.0} µs of the masters' CPU each\nan fsync: p50 {:.2} ms, p99 {:.2} ms; without a \
             network {:.0} a second; {:.0} % of the limit\n",
            found.replicas,
            found.clients,
            found.commits_per_second,
            found.p50_ms,
            found.p99_ms,
            found.cpu_us_per_commit,
            found.disk.fsync_p50_ms,
            found.disk.fsync_p99_ms,
            found.in_process_per_second,
            found.ratio_to_limit * 100.0,
        )
    })
}

async fn measured(wanted: &Wanted) -> Result<Found, Failure> {
    let lasts = Duration::from_secs(wanted.seconds);
    let place = wanted.as_all.below();
    let mut masters = Masters::prepare(&place, wanted.replicas, None, &[])?;
    masters.start()?;
    let leader = masters.form(&mut masters.connect()?).await?;
    let disk = Disk::measure(&masters)?;

    let connections = wanted.connections.min(wanted.clients);
    let clients = masters.clients(leader, wanted.clients, wanted.clients.div_ceil(connections))?;
    for client in &clients {
        dial(client.clone()).await?;
    }
    let window = Window::after(WARMING.min(lasts), lasts);
    let spent = spent(&masters, window);
    let (times, spent) = tokio::join!(waiting::all(clients, window, Duration::ZERO), spent);
    let (times, (masters_cpu, clients_cpu)) = (times?, spent?);
    let commits = times.count();
    let [p50_ms, p99_ms] = times.at([50, 99]);
    let place = masters.directory().join("in-process");
    // They have nothing to do any more, and share the processors no longer.
    masters.stop();

    let (times, spent) = in_process(&place, wanted, lasts).await?;
    let in_process = times.count();
    let in_process_per_second = rate(in_process, lasts);
    let [in_process_p50_ms] = times.at([50]);

    let commits_per_second = rate(commits, lasts);
    let by_disk = f64::from(wanted.clients) / (disk.fsync_p50_ms / 1e3);
    let cpu_us_per_commit = micros_each(masters_cpu, commits);
    let client_cpu_us_per_commit = micros_each(clients_cpu, commits);
    let in_process_cpu_us_per_commit = micros_each(spent, in_process);
    let with_network = cpu_us_per_commit + client_cpu_us_per_commit;
    let limit_per_second = by_disk.min(in_process_per_second).round();
    Ok(Found {
        replicas: wanted.replicas,
        clients: wanted.clients,
        connections,
        seconds: wanted.seconds,
        commits,
        commits_per_second,
        p50_ms,
        p99_ms,
        disk,
        in_process_per_second,
        in_process_p50_ms,
        cpu_us_per_commit,
        client_cpu_us_per_commit,
        in_process_cpu_us_per_commit,
        limit_per_second,
        ratio_to_limit: rounded(commits_per_second / limit_per_second, 3),
        ratio_by_cpu: rounded(in_process_cpu_us_per_commit / with_network, 3),
    })
}

/// How long the same took without a network, and the CPU time of this process in the window.
async fn in_process(
    place: &Path,
    wanted: &Wanted,
    lasts: Duration,
) -> anyhow::Result<(Latencies, Duration)> {
    let beside = InProcessCluster::start(place, wanted.replicas).await?;
    let mut clients = Vec::new();
    for number in 0..wanted.clients {
        clients.push(beside.client(&format!("user-{}", number / 64)).await?);
    }
    let window = Window::after(WARMING.min(lasts), lasts);
    let (times, spent) = tokio::join!(waiting::all_in_process(clients, window), own(window));
    beside.stop()?;
    Ok((times?, spent?))
}

/// Connects a client, so that a handshake is no part of what is measured.
async fn dial(mut client: super::masters::LeanClient) -> Result<(), Failure> {
    client.quota(proto::v1::QuotaRequest::default()).await?;
    Ok(())
}

/// The CPU time of the masters, and of this process, in the window.
async fn spent(masters: &Masters, window: Window) -> anyhow::Result<(Duration, Duration)> {
    tokio::time::sleep_until(window.begins).await;
    let before = (masters.cpu_time()?, process::own_cpu_time()?);
    tokio::time::sleep_until(window.ends).await;
    let after = (masters.cpu_time()?, process::own_cpu_time()?);
    Ok((after.0.saturating_sub(before.0), after.1.saturating_sub(before.1)))
}

/// The CPU time of this process in the window.
async fn own(window: Window) -> anyhow::Result<Duration> {
    tokio::time::sleep_until(window.begins).await;
    let before = process::own_cpu_time()?;
    tokio::time::sleep_until(window.ends).await;
    Ok(process::own_cpu_time()?.saturating_sub(before))
}
