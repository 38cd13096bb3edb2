//! `bourg bench failover`: from `kill -9` of the replica that leads to the next acknowledged change.
//!
//! Three replicas or more are processes of this program, with the state of a large cell in memory:
//! machines and tasks as `bourg bench apply` draws them. There are no Borglets, and the machines are
//! polled once a minute, in vain. A client with a connection to some replica submits a job the moment
//! after the kill and asks as every command does: again, and elsewhere, until it is acknowledged. The
//! one that was killed is started again, and when it has everything the next leader is killed.

use clap::Args;
use cli::output;
use cli::{Done, Failure};
use client::Connection;
use proto::v1;
use serde::Serialize;
use tokio::time::Instant;

use super::super::apply;
use super::latencies::Latencies;
use super::masters::Masters;
use super::{AsAll, Disk, run, waiting};

/// What is to be measured.
#[derive(Clone, Debug, Args)]
pub(crate) struct Wanted {
    /// How often the leader is killed.
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u16).range(1..))]
    runs: u16,
    /// How many replicas the master has.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u8).range(3..=7))]
    replicas: u8,
    /// Machines of the cell.
    #[arg(long, default_value_t = 12_600)]
    machines: u64,
    /// Tasks of the cell, all placed.
    #[arg(long, default_value_t = 144_000)]
    tasks: u32,
    /// What the draws of machines and tasks begin with.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    as_all: AsAll,
}

/// What was found.
#[derive(Debug, Serialize)]
struct Found {
    runs: u16,
    replicas: u8,
    machines: u64,
    tasks: u32,
    median_ms: f64,
    p90_ms: f64,
    max_ms: f64,
    min_ms: f64,
    /// From the start of one that was killed until it has everything again.
    catch_up_median_ms: f64,
    #[serde(flatten)]
    disk: Disk,
}

/// Where nobody listens: each machine has another address of this host.
fn nowhere(machine: u64) -> String {
    let [.., a, b, c] = machine.to_be_bytes();
    format!("127.{a}.{b}.{c}:9")
}

const POLL_INTERVAL: &str = "60s";

/// Measures, and prints what was found.
pub(crate) fn measure(wanted: &Wanted) -> Done {
    let found = run(measured(wanted))?;
    let format = wanted.as_all.format();
    output::object(&format, &found, "failover", || {
        format!(
            "{} machines, {} tasks, {} replicas, the leader killed {} times: the next change is \
             acknowledged after {:.0} ms (median; {:.0} to {:.0} ms)\n",
            found.machines,
            found.tasks,
            found.replicas,
            found.runs,
            found.median_ms,
            found.min_ms,
            found.max_ms,
        )
    })
}

async fn measured(wanted: &Wanted) -> Result<Found, Failure> {
    let Wanted { machines, tasks, seed, .. } = *wanted;
    let size = apply::Size { machines, tasks, operations: 0, seed };
    let image = apply::filled(size, nowhere)?.image();
    let flags = [("poll-interval", POLL_INTERVAL.to_owned())];
    let place = wanted.as_all.below();
    let mut masters = Masters::prepare(&place, wanted.replicas, Some(&image), &flags)?;
    drop(image);
    masters.start()?;
    let mut connection = masters.connect()?;
    masters.form(&mut connection).await?;
    let disk = Disk::measure(&masters)?;
    let (mut times, mut catching_up) = (Latencies::default(), Latencies::default());
    // The session is opened, and its connection, before the first.
    submit(&mut connection, 0).await?;
    for run in 1..=wanted.runs {
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
    let Wanted { runs, replicas, .. } = *wanted;
    Ok(Found {
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
    connection.ask(request, async |mut client, request| client.submit(request).await).await?;
    Ok(())
}
