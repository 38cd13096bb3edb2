//! `bourg bench sim`: how much faster than real time cells are simulated, on one core.
//!
//! Two worlds. One is a cell under the churn of Google's trace of 2011: its machines, jobs, ends,
//! kills and arrivals, machines that leave and return, every Borglet polled. It is measured from
//! the beginning of the trace, when everything that fits is placed. The other is a world of the
//! fault campaign with a hundred machines, with a check after every operation.

use std::path::Path;

use anyhow::ensure;
use command::Done;
use command::output::{self, Format};
use masterd::Records;
use model::Span;
use replica::Settings;
use serde::Serialize;
use sim::{Checking, Plan, Replay, Setting, World};
use trace::PerMille;
use trace::google2011::{START, Scale, slice};

use super::{thread_time, trace_files};

/// The options.
#[derive(Debug)]
pub(crate) struct SimOptions<'a> {
    pub(crate) trace: Option<&'a Path>,
    pub(crate) minutes: u64,
    pub(crate) poll_interval: Span,
    pub(crate) replicas: usize,
    pub(crate) seed: u64,
}

/// The results.
#[derive(Debug, Serialize)]
struct Figures {
    replicas: usize,
    machines: usize,
    tasks: u64,
    /// Running and pending tasks at the end.
    running: u64,
    pending: u64,
    /// The request of each task, in thousandths of its request in the trace.
    share_of_request: u32,
    poll_interval_s: f64,
    /// The measured time between two polls of a machine in the world.
    poll_interval_p95_s: f64,
    virtual_seconds: f64,
    cpu_seconds: f64,
    virtual_seconds_per_second: f64,
    polls_per_second: f64,
    events_per_second: f64,
    operations: u64,
    machines_gone: u64,
    campaign: Campaign,
}

#[derive(Debug, Serialize)]
struct Campaign {
    machines: usize,
    virtual_seconds: f64,
    cpu_seconds: f64,
    virtual_seconds_per_second: f64,
    operations: u64,
    failures: usize,
}

/// Simulates both worlds.
pub(super) fn sim(size: &SimOptions<'_>, json: bool) -> Done {
    let figures = measure(size)?;
    let format = if json { Format::Json } else { Format::Table };
    output::object(&format, &figures, "simulation", || {
        format!(
            "{} machines, {} tasks, polled every {} s: {:.0} times as fast as real time\n\
             {} machines under faults, every operation checked: {:.0} times as fast as real time\n",
            figures.machines,
            figures.tasks,
            figures.poll_interval_s,
            figures.virtual_seconds_per_second,
            figures.campaign.machines,
            figures.campaign.virtual_seconds_per_second,
        )
    })
}

/// The trace has little usage data: tasks request this fraction of their request in the trace.
const SHARE: PerMille = PerMille(600);
/// The number of worlds of the campaign.
const WORLDS: u64 = 4;

fn measure(size: &SimOptions<'_>) -> anyhow::Result<Figures> {
    let whole = match size.trace {
        Some(directory) => trace_files::read(directory)?,
        None => slice::read(Scale::default()),
    };
    let replay = Replay::new(whole, SHARE);
    let begins = START.since(model::Time::ZERO);
    let known = Span(replay.lasts().0.saturating_sub(begins.0));
    ensure!(known > Span::ZERO, "the trace contains nothing after its beginning");
    let mut replica = Settings::default();
    replica.master.poll_interval = size.poll_interval;
    let setting = Setting {
        seed: size.seed,
        machines: replay.machines(),
        replicas: size.replicas,
        replica,
        checking: Checking::Off,
        checkpoint_every: 100_000,
        injected_bug: None,
        users: replay.users(),
    };
    let machines = setting.machines.len();
    let (programs, load) = (replay.programs(), Box::new(replay.clone()));
    let mut world = World::new(setting, Records, load, programs, Vec::new());
    world.run_to(begins);
    let before = world.counts();
    let lasts = Span::from_secs(60).saturating_mul(size.minutes).min(known);
    let cpu = thread_time();
    world.run_to(begins + lasts);
    let cpu_seconds = (thread_time() - cpu).as_secs_f64();
    let after = world.counts();
    if let Some(wrong) = world.violation() {
        anyhow::bail!("the simulated cell is wrong: {wrong}");
    }
    let counts = world.cell().map(counted).unwrap_or_default();
    let virtual_seconds = seconds(lasts);
    let per_second = |count: u64| count as f64 / cpu_seconds;
    Ok(Figures {
        replicas: size.replicas,
        machines,
        tasks: counts.0 + counts.1,
        running: counts.0,
        pending: counts.1,
        share_of_request: SHARE.0,
        poll_interval_s: seconds(size.poll_interval),
        poll_interval_p95_s: seconds(world.poll_interval(95)),
        virtual_seconds,
        cpu_seconds,
        virtual_seconds_per_second: virtual_seconds / cpu_seconds,
        polls_per_second: per_second(after.polls - before.polls),
        events_per_second: per_second(after.events - before.events),
        operations: after.operations - before.operations,
        machines_gone: after.removals - before.removals,
        campaign: campaign(size.replicas, size.seed)?,
    })
}

fn campaign(replicas: usize, seed: u64) -> anyhow::Result<Campaign> {
    let lasts = Span::from_secs(3_600);
    let cpu = thread_time();
    let plan = |number| Plan { replicas, machines: Some(100), ..Plan::of(seed + number, lasts) };
    let verdicts: Vec<_> = (0..WORLDS).map(|number| plan(number).run(Records)).collect();
    let cpu_seconds = (thread_time() - cpu).as_secs_f64();
    let virtual_seconds: f64 = verdicts.iter().map(|verdict| seconds(verdict.age)).sum();
    Ok(Campaign {
        machines: 100,
        virtual_seconds,
        cpu_seconds,
        virtual_seconds_per_second: virtual_seconds / cpu_seconds,
        operations: verdicts.iter().map(|verdict| verdict.counts.operations).sum(),
        failures: verdicts.iter().filter(|verdict| verdict.failure.is_some()).count(),
    })
}

/// The numbers of running and pending tasks.
fn counted(cell: &cell::Cell) -> (u64, u64) {
    let jobs = cell.jobs().map(|job| job.counts());
    jobs.fold((0, 0), |(running, pending), counts| {
        (running + u64::from(counts.running), pending + u64::from(counts.pending))
    })
}

fn seconds(span: Span) -> f64 {
    span.to_std().as_secs_f64()
}
