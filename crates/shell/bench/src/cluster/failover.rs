//! `bourg bench failover`: from `kill -9` of the leader to the next acknowledged change.
//!
//! Three or more replicas are processes of this program, with the state of a large cell in memory:
//! machines and tasks as drawn by `bourg bench apply`. There are no Borglets; the machines are
//! polled once a minute, without success. A client connected to some replica submits a job right
//! after the kill and retries like every command, with failover, until it is acknowledged. The
//! killed replica is restarted, and when it has caught up the next leader is killed.

use api::v1;
use clap::Args;
use client::Connection;
use command::{Done, Failure, output};
use serde::Serialize;
use tokio::time::Instant;

use super::super::apply;
use super::latencies::Latencies;
use super::masters::Masters;
use super::{CommonOptions, Disk, run, waiting};

/// The options.
#[derive(Clone, Debug, Args)]
pub(crate) struct Options {
    /// How often the leader is killed.
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u16).range(1..))]
    runs: u16,
    /// The number of replicas of the master.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u8).range(3..=7))]
    replicas: u8,
    /// The number of machines of the cell.
    #[arg(long, default_value_t = 12_600)]
    machines: u64,
    /// The number of tasks of the cell, all placed.
    #[arg(long, default_value_t = 144_000)]
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
    runs: u16,
    replicas: u8,
    machines: u64,
    tasks: u32,
    median_ms: f64,
    p90_ms: f64,
    max_ms: f64,
    min_ms: f64,
    /// From the restart of a killed replica until it has caught up.
    catch_up_median_ms: f64,
    #[serde(flatten)]
    disk: Disk,
}

/// An address where nothing listens: each machine has another address of this host.
pub(super) fn nowhere(machine: u64) -> String {
    let [.., a, b, c] = machine.to_be_bytes();
    format!("127.{a}.{b}.{c}:9")
}

pub(super) const POLL_INTERVAL: &str = "60s";

/// Runs the benchmark and prints the results.
pub(crate) fn measure(options: &Options) -> Done {
    let figures = run(measured(options))?;
    let format = options.common.format();
    output::object(&format, &figures, "failover", || {
        format!(
            "{} machines, {} tasks, {} replicas, leader killed {} times: the next change is \
             acknowledged after {:.0} ms (median; {:.0} to {:.0} ms)\n",
            figures.machines,
            figures.tasks,
            figures.replicas,
            figures.runs,
            figures.median_ms,
            figures.min_ms,
            figures.max_ms,
        )
    })
}

async fn measured(options: &Options) -> Result<Figures, Failure> {
    let Options { machines, tasks, seed, .. } = *options;
    let size = apply::ApplySize { machines, tasks, operations: 0, seed, cores: 1 };
    let image = apply::filled(size, nowhere)?.image();
    let flags = [("poll-interval", POLL_INTERVAL.to_owned())];
    let place = options.common.below();
    let mut masters = Masters::prepare(&place, options.replicas, Some(&image), &flags)?;
    drop(image);
    masters.start()?;
    let mut connection = masters.connect()?;
    masters.form(&mut connection).await?;
    let disk = Disk::measure(&masters)?;
    let (mut times, mut catching_up) = (Latencies::default(), Latencies::default());
    // Opens the session and its connection before the first run.
    submit(&mut connection, 0).await?;
    for run in 1..=options.runs {
        let leader = masters.agree(&mut connection).await?;
        let killed = masters.kill(leader)?;
        submit(&mut connection, run).await?;
        times.add(killed.elapsed());
        let started = Instant::now();
        masters.start_one(leader)?;
        masters.agree(&mut connection).await?;
        catching_up.add(started.elapsed());
    }
    let [min_ms, median_ms, p90_ms, max_ms] = times.at([0, 50, 90, 100]);
    let [catch_up_median_ms] = catching_up.at([50]);
    let Options { runs, replicas, .. } = *options;
    Ok(Figures {
        runs,
        replicas,
        machines,
        tasks,
        median_ms,
        p90_ms,
        max_ms,
        min_ms,
        catch_up_median_ms,
        disk,
    })
}

async fn submit(connection: &mut Connection, run: u16) -> Result<(), Failure> {
    let id = Some(connection.request_id().await?);
    let spec = Some((&waiting::job(0, run.into())?).into());
    let request = v1::SubmitRequest { id, spec };
    connection.ask(request, async |mut client, request| client.jobs.submit(request).await).await?;
    Ok(())
}
