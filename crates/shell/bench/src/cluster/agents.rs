//! `bourg bench agents`: what it takes a master to poll many Borglets.
//!
//! Real connections, each over mutual TLS to a server of its own, with a certificate of its own; all
//! servers are in one other process on this machine. They are simulated Borglets without tasks
//! ([`super::borglets`]). The time between two polls is what they see. Memory is what the masters'
//! processes have grown by for each machine, whatever it is for: the link to it, its place in the
//! cell, what is known of it. Then the Borglets' process is killed, stays away until all are
//! unreachable, and comes back: that is the storm.

use std::time::Duration;

use clap::Args;
use cli::output;
use cli::{Done, Failure};
use client::Connection;
use proto::v1;
use rpc::service::borgmaster_client::BorgmasterClient;
use rpc::transport::Link;
use serde::Serialize;
use tokio::time::Instant;

use super::borglets::{self, Process};
use super::latencies::Latencies;
use super::masters::Masters;
use super::{AsAll, Disk, micros_each, process, rounded, run, waiting};

/// What is to be measured.
#[derive(Clone, Debug, Args)]
pub(crate) struct Wanted {
    /// How many Borglets.
    #[arg(long, default_value_t = 2_000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    agents: u32,
    /// How many replicas the master has.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=7))]
    replicas: u8,
    /// For how long, in seconds.
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=3_600))]
    seconds: u64,
    /// For how long they are away before they come back together, in seconds. 0: they stay.
    #[arg(long, default_value_t = 15)]
    away: u64,
    #[command(flatten)]
    as_all: AsAll,
}

/// What was found.
#[derive(Debug, Serialize)]
struct Found {
    agents: u32,
    replicas: u8,
    seconds: u64,
    polls_per_second: f64,
    poll_interval_p50_ms: f64,
    poll_interval_p95_ms: f64,
    poll_interval_max_ms: f64,
    /// What the masters' memory has grown by for each, all in all.
    bytes_per_agent: u64,
    masters_cpu_cores: f64,
    masters_resident_bytes: u64,
    cpu_us_per_poll: f64,
    /// Of the Borglets, which use the same processors.
    agents_cpu_us_per_poll: f64,
    agents_bytes_each: u64,
    extrapolated_cpu_cores_at_10000: f64,
    extrapolated_resident_bytes_at_10000: u64,
    storm: Option<Storm>,
    #[serde(flatten)]
    disk: Disk,
}

/// All Borglets come back together.
#[derive(Debug, Serialize)]
struct Storm {
    away_s: u64,
    /// How many were unreachable when they came back.
    unreachable: u32,
    /// From when all listen until each was polled.
    all_polled_ms: f64,
    /// Until the cell has all of them up.
    all_up_ms: f64,
    masters_cpu_ms: f64,
    /// How long changes took meanwhile.
    changes: u64,
    change_p50_ms: f64,
    change_p99_ms: f64,
    change_max_ms: f64,
}

/// How long it runs before it counts: several rounds of polls.
const WARMING: Duration = Duration::from_secs(8);
const LOOK: Duration = Duration::from_millis(50);
const PATIENCE: Duration = Duration::from_secs(120);

/// Measures, and prints what was found.
pub(crate) fn measure(wanted: &Wanted) -> Done {
    let found = run(measured(wanted))?;
    let format = wanted.as_all.format();
    output::object(&format, &found, "agents", || {
        let storm = found.storm.as_ref().map(|storm| {
            format!(
                "after {} s away all are polled within {:.0} ms and up within {:.0} ms; changes \
                 meanwhile p99 {:.0} ms\n",
                storm.away_s, storm.all_polled_ms, storm.all_up_ms, storm.change_p99_ms
            )
        });
        format!(
            "{} Borglets over mutual TLS: polled every {:.0} ms (p95 {:.0} ms), {:.2} cores, {} bytes \
             each\nextrapolated to 10000: {:.2} cores, {}\n{}",
            found.agents,
            found.poll_interval_p50_ms,
            found.poll_interval_p95_ms,
            found.masters_cpu_cores,
            found.bytes_per_agent,
            found.extrapolated_cpu_cores_at_10000,
            model::Bytes(found.extrapolated_resident_bytes_at_10000),
            storm.unwrap_or_default(),
        )
    })
}

async fn measured(wanted: &Wanted) -> Result<Found, Failure> {
    let place = wanted.as_all.below();
    let mut masters = Masters::prepare(&place, wanted.replicas, None, &[])?;
    masters.start()?;
    let mut connection = masters.connect()?;
    let leader = masters.form(&mut connection).await?;
    let disk = Disk::measure(&masters)?;
    let lasts = Duration::from_secs(wanted.seconds);
    let mut agents = Process::start(masters.directory(), wanted.agents, Duration::ZERO)?;
    let before = masters.resident()?;
    add(&mut connection, &masters, wanted.agents).await?;
    tokio::time::sleep(WARMING.min(lasts)).await;
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
    let number = u64::from(wanted.agents);
    let bytes_per_agent = resident.saturating_sub(before) / number;
    let cores = masters_cpu.as_secs_f64() / lasted.as_secs_f64();
    let storm = match wanted.away {
        0 => None,
        away => Some(storm(wanted, away, &masters, &mut connection, leader, agents).await?),
    };
    Ok(Found {
        agents: wanted.agents,
        replicas: wanted.replicas,
        seconds: wanted.seconds,
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
        extrapolated_cpu_cores_at_10000: rounded(cores * 10_000.0 / f64::from(wanted.agents), 3),
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
            .ask(request, async |mut client, request| client.add_machine(request).await)
            .await?;
    }
    up(connection, number).await
}

/// Waits until so many machines are up.
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
        tokio::time::sleep(LOOK).await;
    }
}

async fn storm(
    wanted: &Wanted,
    away: u64,
    masters: &Masters,
    connection: &mut Connection,
    leader: model::ReplicaId,
    agents: Process,
) -> Result<Storm, Failure> {
    drop(agents);
    tokio::time::sleep(Duration::from_secs(away)).await;
    let unreachable = connection.cell_status().await?.machines_unreachable;
    let cpu = masters.cpu_time()?;
    let mut agents = Process::start(masters.directory(), wanted.agents, Duration::ZERO)?;
    let back = Instant::now();
    let (stop, stopped) = tokio::sync::watch::channel(false);
    let client = masters.clients(leader, 1, 1)?.pop();
    let client = client.ok_or_else(|| Failure::failed("error: there is no client"))?;
    let probes = tokio::spawn(probe(client, stopped));
    let until = back + PATIENCE;
    while agents.seen()?.polled < u64::from(wanted.agents) && Instant::now() < until {
        tokio::time::sleep(LOOK).await;
    }
    let all_polled = back.elapsed();
    up(connection, wanted.agents).await?;
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

/// How long changes take, one behind the other, until it is told to stop.
async fn probe(
    mut client: BorgmasterClient<Link>,
    stopped: tokio::sync::watch::Receiver<bool>,
) -> Result<Latencies, Failure> {
    let session = client.open_session(v1::OpenSessionRequest {}).await?.into_inner().session;
    let (mut times, mut sequence) = (Latencies::default(), 0);
    while !*stopped.borrow() {
        sequence += 1;
        let id = Some(v1::RequestId { session, sequence });
        let spec = Some((&waiting::job(0, sequence)?).into());
        let begun = Instant::now();
        client.submit(v1::SubmitRequest { id, spec }).await?;
        times.add(begun.elapsed());
        tokio::time::sleep(PROBE_PAUSE).await;
    }
    Ok(times)
}

const PROBE_PAUSE: Duration = Duration::from_millis(10);
