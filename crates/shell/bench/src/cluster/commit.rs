//! `bourg bench commit`: durable changes per second, with clients that wait for each.
//!
//! The masters are processes of this program; the clients are in this process, with a given number
//! of connections to the leader. Half of the changes submit a job of one task in the free band,
//! half kill one; a change is acknowledged when a majority has written it to disk. The same run
//! measures what to compare this with: an fsync in the same directory, and the same changes by the
//! same number of waiting clients against the same cores, logs and event files of as many replicas
//! within one process, that is without TLS, HTTP/2, the services and other processes. All of them
//! share this machine's processors.
//! them share this machine's processors.

use std::path::Path;
use std::time::Duration;

use clap::Args;
use command::{Done, Failure, output};
use masterd::in_process::InProcessCluster;
use serde::Serialize;

use super::latencies::Latencies;
use super::masters::Masters;
use super::waiting::{self, Window};
use super::{CommonOptions, Disk, micros_each, process, rate, rounded, run};

/// The options.
#[derive(Clone, Debug, Args)]
pub(crate) struct Options {
    /// The number of replicas of the master.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=7))]
    replicas: u8,
    /// The number of clients, each of which waits for its change.
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u16).range(1..=4_000))]
    clients: u16,
    /// The number of connections; at most one per client.
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u16).range(1..))]
    connections: u16,
    /// The duration of the measurement, in seconds.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=3_600))]
    seconds: u64,
    #[command(flatten)]
    common: CommonOptions,
}

/// The results.
#[derive(Debug, Serialize)]
struct Figures {
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
    /// Of the clients, which share the processors.
    client_cpu_us_per_commit: f64,
    in_process_cpu_us_per_commit: f64,
    /// The smaller of clients ÷ median fsync and the rate without a network.
    limit_per_second: f64,
    ratio_to_limit: f64,
    /// The CPU time of one change without a network ÷ that of one with it, masters and clients:
    /// what the ratio approaches if the processors are the limit, less affected by other load.
    ratio_by_cpu: f64,
}

/// The warm-up, at most.
const WARM_UP: Duration = Duration::from_secs(2);

/// Runs the benchmark and prints the results.
pub(crate) fn measure(options: &Options) -> Done {
    let figures = run(measured(options))?;
    let format = options.common.format();
    output::object(&format, &figures, "commit", || {
        format!(
            "{} replicas, {} waiting clients: {:.0} changes per second, p50 {:.2} ms, p99 {:.2} ms, \
             {:.0} µs of the masters' CPU each\nan fsync: p50 {:.2} ms, p99 {:.2} ms; without a \
             network {:.0} per second; {:.0} % of the limit\n",
            figures.replicas,
            figures.clients,
            figures.commits_per_second,
            figures.p50_ms,
            figures.p99_ms,
            figures.cpu_us_per_commit,
            figures.disk.fsync_p50_ms,
            figures.disk.fsync_p99_ms,
            figures.in_process_per_second,
            figures.ratio_to_limit * 100.0,
        )
    })
}

async fn measured(options: &Options) -> Result<Figures, Failure> {
    let lasts = Duration::from_secs(options.seconds);
    let place = options.common.below();
    let mut masters = Masters::prepare(&place, options.replicas, None, &[])?;
    masters.start()?;
    let leader = masters.form(&mut masters.connect()?).await?;
    let disk = Disk::measure(&masters)?;

    let connections = options.connections.min(options.clients);
    let clients =
        masters.clients(leader, options.clients, options.clients.div_ceil(connections))?;
    for client in &clients {
        dial(client.clone()).await?;
    }
    let window = Window::after(WARM_UP.min(lasts), lasts);
    let spent = spent(&masters, window);
    let (times, spent) = tokio::join!(waiting::all(clients, window, Duration::ZERO), spent);
    let (times, (masters_cpu, clients_cpu)) = (times?, spent?);
    let commits = times.count();
    let [p50_ms, p99_ms] = times.at([50, 99]);
    let place = masters.directory().join("in-process");
    // Not needed any more: free the processors.
    masters.stop();

    let (times, spent) = in_process(&place, options, lasts).await?;
    let in_process = times.count();
    let in_process_per_second = rate(in_process, lasts);
    let [in_process_p50_ms] = times.at([50]);

    let commits_per_second = rate(commits, lasts);
    let by_disk = f64::from(options.clients) / (disk.fsync_p50_ms / 1e3);
    let cpu_us_per_commit = micros_each(masters_cpu, commits);
    let client_cpu_us_per_commit = micros_each(clients_cpu, commits);
    let in_process_cpu_us_per_commit = micros_each(spent, in_process);
    let with_network = cpu_us_per_commit + client_cpu_us_per_commit;
    let limit_per_second = by_disk.min(in_process_per_second).round();
    Ok(Figures {
        replicas: options.replicas,
        clients: options.clients,
        connections,
        seconds: options.seconds,
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

/// The latencies without a network, and the CPU time of this process in the window.
async fn in_process(
    place: &Path,
    options: &Options,
    lasts: Duration,
) -> anyhow::Result<(Latencies, Duration)> {
    let beside = InProcessCluster::start(place, options.replicas).await?;
    let mut clients = Vec::new();
    for number in 0..options.clients {
        clients.push(beside.client(&format!("user-{}", number / 64)).await?);
    }
    let window = Window::after(WARM_UP.min(lasts), lasts);
    let (times, spent) = tokio::join!(waiting::all_in_process(clients, window), own(window));
    beside.stop()?;
    Ok((times?, spent?))
}

/// Connects a client, to exclude the handshake from the measurement.
async fn dial(mut client: super::masters::LeanClient) -> Result<(), Failure> {
    client.quota.get(api::v1::QuotaRequest::default()).await?;
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
