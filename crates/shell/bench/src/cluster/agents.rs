//! `bourg bench agents`: the cost for a master of polling many Borglets.
//!
//! Uses real connections with mutual TLS, each to a server with its own certificate; all servers
//! are in one other process on this machine. They are simulated Borglets without tasks
//! ([`super::borglets`]), which measure the time between polls. Memory is the growth of the
//! masters' processes per machine: the link, the machine's share of the cell's state, and what is
//! known of it. Then the Borglets' process is killed, stays away until all are unreachable, and
//! comes back: the storm.

use std::time::Duration;

use api::v1;
use clap::Args;
use client::{Connection, MasterClient};
use command::{Done, Failure, output};
use rpc::transport::Link;
use serde::Serialize;
use tokio::time::Instant;

use super::borglets::{self, BorgletsProcess};
use super::latencies::Latencies;
use super::masters::Masters;
use super::{CommonOptions, Disk, micros_each, process, rounded, run, waiting};

/// The options.
#[derive(Clone, Debug, Args)]
pub(crate) struct Options {
    /// The number of Borglets.
    #[arg(long, default_value_t = 2_000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    agents: u32,
    /// The number of replicas of the master.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=7))]
    replicas: u8,
    /// The duration of the measurement, in seconds.
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=3_600))]
    seconds: u64,
    /// How long the Borglets are away before they come back together, in seconds; 0 to skip this.
    #[arg(long, default_value_t = 15)]
    away: u64,
    #[command(flatten)]
    common: CommonOptions,
}

/// The results.
#[derive(Debug, Serialize)]
struct Figures {
    agents: u32,
    replicas: u8,
    seconds: u64,
    polls_per_second: f64,
    poll_interval_p50_ms: f64,
    poll_interval_p95_ms: f64,
    poll_interval_max_ms: f64,
    /// The growth of the masters' memory per Borglet, in total.
    bytes_per_agent: u64,
    masters_cpu_cores: f64,
    masters_resident_bytes: u64,
    cpu_us_per_poll: f64,
    /// Of the Borglets, which share the processors.
    agents_cpu_us_per_poll: f64,
    agents_bytes_each: u64,
    extrapolated_cpu_cores_at_10000: f64,
    extrapolated_resident_bytes_at_10000: u64,
    storm: Option<Storm>,
    #[serde(flatten)]
    disk: Disk,
}

/// The results of all Borglets coming back together.
#[derive(Debug, Serialize)]
struct Storm {
    away_s: u64,
    /// How many were unreachable when they came back.
    unreachable: u32,
    /// From the moment when all listen until each was polled.
    all_polled_ms: f64,
    /// The same until all are up in the cell.
    all_up_ms: f64,
    masters_cpu_ms: f64,
    /// Concurrent changes, and their latency.
    changes: u64,
    change_p50_ms: f64,
    change_p99_ms: f64,
    change_max_ms: f64,
}

/// The warm-up: several rounds of polls.
const WARM_UP: Duration = Duration::from_secs(8);
const POLL_INTERVAL: Duration = Duration::from_millis(50);
const PATIENCE: Duration = Duration::from_secs(120);

/// Runs the benchmark and prints the results.
pub(crate) fn measure(options: &Options) -> Done {
    let figures = run(measured(options))?;
    let format = options.common.format();
    output::object(&format, &figures, "agents", || {
        let storm = figures.storm.as_ref().map(|storm| {
            format!(
                "after {} s of absence, all polled within {:.0} ms and up within {:.0} ms; concurrent \
                 changes p99 {:.0} ms\n",
                storm.away_s, storm.all_polled_ms, storm.all_up_ms, storm.change_p99_ms
            )
        });
        format!(
            "{} Borglets over mutual TLS: polled every {:.0} ms (p95 {:.0} ms), {:.2} cores, {} bytes \
             each\nextrapolated to 10000: {:.2} cores, {}\n{}",
            figures.agents,
            figures.poll_interval_p50_ms,
            figures.poll_interval_p95_ms,
            figures.masters_cpu_cores,
            figures.bytes_per_agent,
            figures.extrapolated_cpu_cores_at_10000,
            model::Bytes(figures.extrapolated_resident_bytes_at_10000),
            storm.unwrap_or_default(),
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
    let lasts = Duration::from_secs(options.seconds);
    let mut agents = BorgletsProcess::start(masters.directory(), options.agents, Duration::ZERO)?;
    let before = masters.resident()?;
    add(&mut connection, &masters, options.agents).await?;
    tokio::time::sleep(WARM_UP.min(lasts)).await;
    agents.seen()?;
    let cpu = (masters.cpu_time()?, process::cpu_time(agents.pid())?);
    let begun = Instant::now();
    tokio::time::sleep(lasts).await;
    let lasted = begun.elapsed();
    let seen = agents.seen()?;
    let masters_cpu = masters.cpu_time()?.saturating_sub(cpu.0);
    let agents_cpu = process::cpu_time(agents.pid())?.saturating_sub(cpu.1);
    let resident = masters.resident()?;
    let agents_resident = process::resident(agents.pid())?;
    let number = u64::from(options.agents);
    let bytes_per_agent = resident.saturating_sub(before) / number;
    let cores = masters_cpu.as_secs_f64() / lasted.as_secs_f64();
    let storm = match options.away {
        0 => None,
        away => Some(storm(options, away, &masters, &mut connection, leader, agents).await?),
    };
    Ok(Figures {
        agents: options.agents,
        replicas: options.replicas,
        seconds: options.seconds,
        polls_per_second: super::rate(seen.polls, lasted),
        poll_interval_p50_ms: seen.interval_p50_ms,
        poll_interval_p95_ms: seen.interval_p95_ms,
        poll_interval_max_ms: seen.interval_max_ms,
        bytes_per_agent,
        masters_cpu_cores: rounded(cores, 3),
        masters_resident_bytes: resident,
        cpu_us_per_poll: micros_each(masters_cpu, seen.polls),
        agents_cpu_us_per_poll: micros_each(agents_cpu, seen.polls),
        agents_bytes_each: agents_resident / number,
        extrapolated_cpu_cores_at_10000: rounded(cores * 10_000.0 / f64::from(options.agents), 3),
        extrapolated_resident_bytes_at_10000: before + bytes_per_agent * 10_000,
        storm,
        disk,
    })
}

/// Adds all of them to the cell, and waits until they are up.
pub(super) async fn add(
    connection: &mut Connection,
    masters: &Masters,
    number: u32,
) -> Result<(), Failure> {
    for (place, address) in borglets::addresses(masters.directory())?.into_iter().enumerate() {
        let (id, name) = (Some(connection.request_id().await?), borglets::name(place));
        let request = v1::AddMachineRequest { id, name, address };
        connection
            .ask(request, async |mut client, request| client.machines.add(request).await)
            .await?;
    }
    up(connection, number).await
}

/// Waits until this number of machines is up.
async fn up(connection: &mut Connection, number: u32) -> Result<(), Failure> {
    let until = Instant::now() + PATIENCE;
    loop {
        let status = connection.cell_status().await?;
        if status.machines_up >= number {
            return Ok(());
        }
        if Instant::now() > until {
            let text = format!("error: only {} of {number} machines are up", status.machines_up);
            return Err(Failure::failed(text));
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

async fn storm(
    options: &Options,
    away: u64,
    masters: &Masters,
    connection: &mut Connection,
    leader: model::ReplicaId,
    agents: BorgletsProcess,
) -> Result<Storm, Failure> {
    drop(agents);
    tokio::time::sleep(Duration::from_secs(away)).await;
    let unreachable = connection.cell_status().await?.machines_unreachable;
    let cpu = masters.cpu_time()?;
    let mut agents = BorgletsProcess::start(masters.directory(), options.agents, Duration::ZERO)?;
    let back = Instant::now();
    let (stop, stopped) = tokio::sync::watch::channel(false);
    let client = masters.clients(leader, 1, 1)?.pop();
    let client = client.ok_or_else(|| Failure::failed("error: no client"))?;
    let probes = tokio::spawn(probe(client, stopped));
    let until = back + PATIENCE;
    while agents.seen()?.polled < u64::from(options.agents) && Instant::now() < until {
        tokio::time::sleep(POLL_INTERVAL).await;
    }
    let all_polled = back.elapsed();
    up(connection, options.agents).await?;
    let all_up = back.elapsed();
    stop.send_replace(true);
    let times = probes.await.map_err(anyhow::Error::from)??;
    let changes = times.count();
    let [change_p50_ms, change_p99_ms, change_max_ms] = times.at([50, 99, 100]);
    Ok(Storm {
        away_s: away,
        unreachable,
        all_polled_ms: super::milliseconds(all_polled),
        all_up_ms: super::milliseconds(all_up),
        masters_cpu_ms: super::milliseconds(masters.cpu_time()?.saturating_sub(cpu)),
        changes,
        change_p50_ms,
        change_p99_ms,
        change_max_ms,
    })
}

/// Measures the latency of changes, one after another, until told to stop.
async fn probe(
    mut client: MasterClient<Link>,
    stopped: tokio::sync::watch::Receiver<bool>,
) -> Result<Latencies, Failure> {
    let session = client.cell.open_session(v1::OpenSessionRequest {}).await?.into_inner().session;
    let (mut times, mut sequence) = (Latencies::default(), 0);
    while !*stopped.borrow() {
        sequence += 1;
        let id = Some(v1::RequestId { session, sequence });
        let spec = Some((&waiting::job(0, sequence)?).into());
        let begun = Instant::now();
        client.jobs.submit(v1::SubmitRequest { id, spec }).await?;
        times.add(begun.elapsed());
        tokio::time::sleep(PROBE_PAUSE).await;
    }
    Ok(times)
}

const PROBE_PAUSE: Duration = Duration::from_millis(10);
