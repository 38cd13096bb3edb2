//! `bourg bench estimate`: what the estimates of reservations cost a master: the time of a round on
//! one core, and the bytes that they add to the log.
//!
//! The cell is that of `bourg bench apply`. Each task has a curve of usage by the seed: its level, how
//! far it swings, in 10 minutes to a day, and noise. All tasks run for a while of simulated time, in
//! rounds of 5 s, and each batch of reservations is applied before the next round, as in a master.
//! The bytes of the last hour are compared with those of the other records that a cell of this size
//! writes in an hour: at the churn of the published trace of 2011, at the 10,000 arrivals a minute of
//! the Borg paper, and at 10,000 a second, which the log is made for.

use std::hint::black_box;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use borglet::{Measured, UsageSample, UsageSubject};
use cell::{Assignment, Cell, Observation, Op};
use clap::Args;
use command::Done;
use command::output::{self, Format};
use master::{Pace, Partition, Reclamation, Samples};
use model::{
    Bytes, End, FinalUsage, GcuFactor, InstanceId, MilliCores, Random, ReplicaId, Resources, Span,
    TaskIndex, Time,
};
use serde::Serialize;

use super::apply::{self, ApplySize};
use super::thread_time;

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// The number of machines of the cell.
    #[arg(long, default_value_t = 12_600)]
    machines: u64,
    /// The number of tasks of the cell, all placed.
    #[arg(long, default_value_t = 150_000)]
    tasks: u32,
    /// How many hours of usage are simulated; the last one is measured.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=24))]
    hours: u64,
    /// The seed for drawing machines, tasks and their usage.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// The time between two rounds.
const INTERVAL: Span = Span::from_secs(5);
/// The trace of 2011: 47.4 million times a task was placed on a machine of its cell, in 29 days.
const PLACED_A_SECOND_2011: f64 = 47_400_000.0 / (29.0 * 86_400.0);
/// Section 3.4 of the paper.
const PLACED_A_SECOND_PAPER: f64 = 10_000.0 / 60.0;
/// What `bourg bench arrivals` holds: the load that the log is made for.
const PLACED_A_SECOND_MOST: f64 = 10_000.0;

/// The results.
#[derive(Debug, Serialize)]
struct Figures {
    machines: u64,
    tasks: usize,
    /// CPU time of a round, with the collection of its samples: of the last hour.
    round_ms_median: f64,
    round_ms_max: f64,
    /// The same without the collection.
    estimate_ms_median: f64,
    /// The bytes that a round reads and writes at least, the time to copy as many, and the ratio of a
    /// round to it: the limit of this machine's memory.
    round_bytes: u64,
    copy_ms: f64,
    ratio_to_copy: f64,
    /// CPU time to apply the largest batch of reservations.
    apply_ms_max: f64,
    /// Reservations that were recorded in the first hour, and in the last.
    changes_first_hour: u64,
    changes_last_hour: u64,
    bytes_of_a_change: f64,
    reserve_bytes_an_hour: u64,
    /// The records of a task that is placed, starts and ends.
    bytes_of_an_incarnation: u64,
    /// The share of all bytes that reservations are: at the churn of 2011, at 10,000 arrivals a minute,
    /// and at 10,000 a second.
    share_at_2011_percent: f64,
    share_at_10000_a_minute_percent: f64,
    share_at_10000_a_second_percent: f64,
    /// Of the limits, in the end.
    used_percent: f64,
    reserved_percent: f64,
}

/// The usage of a task: between two shares of its limit, in straight lines, with noise.
#[derive(Clone, Copy, Debug)]
struct Curve {
    low: u64,
    swing: u64,
    period: u64,
    offset: u64,
    noise: u64,
}

impl Curve {
    fn of(random: &mut Random) -> Self {
        let low = 20 + random.below(500);
        // Three of four are steady: within 5 % of their limits.
        let swing = if random.chance(250) { random.below(400) } else { random.below(50) };
        let period = 600 + random.below(86_400);
        Self { low, swing, period, offset: random.below(period), noise: random.number() }
    }

    /// In thousandths of the limit, at a second.
    fn share(&self, second: u64) -> u64 {
        let place = (second + self.offset) % self.period * 2_000 / self.period;
        let height = if place <= 1_000 { place } else { 2_000 - place };
        // Up to 1 % of the limit.
        let noise = Random::mixed(self.noise ^ second) % 10;
        self.low + self.swing * height / 1_000 + noise
    }
}

/// Runs the benchmark.
pub(crate) fn measure(options: &Options) -> Done {
    let figures = run(options)?;
    let format = if options.json { Format::Json } else { Format::Table };
    output::object(&format, &figures, "estimate", || {
        format!(
            "{} tasks on {} machines: a round takes {} ms of one core (at most {} ms), {} times a copy of \
             the {} that it needs; {} of {} reserved for {} used\n\
             log: {} reservations in the first hour, {} in the last, {} bytes each: {} % of all bytes at \
             the churn of 2011, {} % at 10,000 arrivals a minute, {} % at 10,000 a second\n",
            figures.tasks,
            figures.machines,
            figures.round_ms_median,
            figures.round_ms_max,
            figures.ratio_to_copy,
            Bytes(figures.round_bytes),
            percent(figures.reserved_percent),
            percent(100.0),
            percent(figures.used_percent),
            figures.changes_first_hour,
            figures.changes_last_hour,
            figures.bytes_of_a_change,
            figures.share_at_2011_percent,
            figures.share_at_10000_a_minute_percent,
            figures.share_at_10000_a_second_percent,
        )
    })
}

fn percent(share: f64) -> String {
    format!("{share} %")
}

fn run(options: &Options) -> anyhow::Result<Figures> {
    let Options { machines, tasks, seed, .. } = *options;
    let size = ApplySize { machines, tasks, operations: 0, seed, cores: 100 };
    let mut cell = apply::filled(size, |id| format!("m{id}:1"))?;
    let start = cell.time();
    let incarnations = started(&mut cell, start);
    let mut random = Random::new(seed);
    let curves: Vec<Curve> = incarnations.iter().map(|_| Curve::of(&mut random)).collect();
    // As they come from machines: by machine, not by job.
    let mut order: Vec<usize> = (0..incarnations.len()).collect();
    order.sort_by_key(|place| incarnations.get(*place).map(|incarnation| incarnation.machine));

    let mut reclamation = Reclamation::new(Pace::default());
    let partition = Partition::of(ReplicaId(1), vec![ReplicaId(1)]);
    let (mut samples, mut measured) = (Samples::default(), Vec::new());
    let (mut rounds, mut estimates) = (Vec::new(), Vec::new());
    let (mut changes, mut bytes) = (Vec::new(), Vec::new());
    let mut apply_max = Duration::ZERO;
    let count = options.hours * 3_600_000_000 / INTERVAL.0;
    for round in 1..=count {
        let now = start + INTERVAL.saturating_mul(round);
        let second = round * INTERVAL.0 / 1_000_000;
        measured.clear();
        measured.extend(order.iter().filter_map(|place| {
            let (incarnation, curve) = (incarnations.get(*place)?, curves.get(*place)?);
            Some(sample(incarnation, curve, now, second))
        }));
        let begun = thread_time();
        samples.clear();
        measured.iter().for_each(|sample| samples.add(GcuFactor::default(), sample));
        let collected = thread_time();
        let estimated = reclamation.round(now, &cell, &partition, &mut samples);
        let ended = thread_time();
        rounds.push(ended.saturating_sub(begun));
        estimates.push(ended.saturating_sub(collected));
        ensure!(estimated.tasks == incarnations.len(), "{} tasks were estimated", estimated.tasks);
        let op = Op::Reserve(estimated.reservations);
        let Op::Reserve(reservations) = &op else { continue };
        changes.push(reservations.len() as u64);
        let is_empty = reservations.is_empty();
        bytes.push(if is_empty { 0 } else { formats::log::encode_record(now, &op).len() as u64 });
        let begun = thread_time();
        cell.apply(now, &op);
        apply_max = apply_max.max(thread_time().saturating_sub(begun));
    }
    let hour = usize::try_from(3_600_000_000 / INTERVAL.0)?;
    let last = |of: &[u64]| of.iter().rev().take(hour).sum::<u64>();
    let first = |of: &[u64]| of.iter().take(hour).sum::<u64>();
    let (all_changes, all_bytes): (u64, u64) = (changes.iter().sum(), bytes.iter().sum());
    let incarnation = incarnation_bytes(&cell, &incarnations)?;
    let latest = |of: &[Duration]| of.iter().rev().take(hour).copied().collect::<Vec<_>>();
    let round = latest(&rounds);
    // A sample, and an estimate that is read and written.
    let round_bytes = incarnations.len() as u64 * (64 + 2 * 72);
    let copied = copy(usize::try_from(round_bytes)?);
    let none = (Resources::default(), Resources::default());
    let (limit, reserved) = cell.machines().fold(none, |(limit, reserved), machine| {
        (limit.plus(machine.taken()), reserved.plus(machine.reserved()))
    });
    let second = count * INTERVAL.0 / 1_000_000;
    let used: u64 = curves.iter().map(|curve| curve.share(second)).sum();
    Ok(Figures {
        machines,
        tasks: incarnations.len(),
        round_ms_median: millis(median(round.clone())),
        round_ms_max: millis(round.iter().max().copied().unwrap_or_default()),
        estimate_ms_median: millis(median(latest(&estimates))),
        round_bytes,
        copy_ms: millis(copied),
        ratio_to_copy: rounded(median(round).as_secs_f64() / copied.as_secs_f64()),
        apply_ms_max: millis(apply_max),
        changes_first_hour: first(&changes),
        changes_last_hour: last(&changes),
        bytes_of_a_change: rounded(all_bytes as f64 / all_changes.max(1) as f64),
        reserve_bytes_an_hour: last(&bytes),
        bytes_of_an_incarnation: incarnation,
        share_at_2011_percent: share(last(&bytes), incarnation, PLACED_A_SECOND_2011),
        share_at_10000_a_minute_percent: share(last(&bytes), incarnation, PLACED_A_SECOND_PAPER),
        share_at_10000_a_second_percent: share(last(&bytes), incarnation, PLACED_A_SECOND_MOST),
        used_percent: rounded(used as f64 / 10.0 / incarnations.len() as f64),
        reserved_percent: rounded(reserved.cpu.0 as f64 * 100.0 / limit.cpu.0 as f64),
    })
}

/// A task that runs.
#[derive(Clone, Copy, Debug)]
struct EstimatedTask {
    instance: InstanceId,
    machine: model::MachineId,
    limit: Resources,
}

/// All tasks, which have started now.
fn started(cell: &mut Cell, at: Time) -> Vec<EstimatedTask> {
    let tasks = cell.jobs().flat_map(|job| {
        (0..job.spec.tasks).map(TaskIndex).filter_map(|index| {
            let instance = job.instance(index)?;
            let machine = cell.placement(instance)?.machine;
            Some(EstimatedTask { instance, machine, limit: job.limit(index) })
        })
    });
    let incarnations: Vec<EstimatedTask> = tasks.collect();
    for EstimatedTask { instance, machine, .. } in &incarnations {
        let observations = vec![Observation::started(*instance)];
        cell.apply(at, &Op::Observe { machine: *machine, observations });
    }
    incarnations
}

fn sample(incarnation: &EstimatedTask, curve: &Curve, at: Time, second: u64) -> UsageSample {
    let share = curve.share(second);
    let cpu = Some(MilliCores(incarnation.limit.cpu.0 * share / 1_000));
    let memory = Some(Bytes(incarnation.limit.ram.0 / 1_000 * share));
    let measured = Measured { cpu, memory, ..Measured::default() };
    UsageSample { subject: UsageSubject::Instance(incarnation.instance), at, measured }
}

/// The bytes of the records of one task: it is placed, starts and ends.
fn incarnation_bytes(cell: &Cell, incarnations: &[EstimatedTask]) -> anyhow::Result<u64> {
    let EstimatedTask { instance, machine, .. } =
        *incarnations.last().context("a cell without tasks")?;
    let (ports, victims) = (Vec::new(), Vec::new());
    let assignment = Assignment { instance, machine, alloc: None, address: None, ports, victims };
    let observed = |what| Op::Observe { machine, observations: vec![what] };
    let end = End::Exited { code: 0 };
    let usage = FinalUsage {
        cpu_time: Some(Span::from_secs(1_000)),
        memory_peak: Some(Bytes(100 << 20)),
        ..FinalUsage::UNMEASURED
    };
    let ops = [
        Op::assign(vec![assignment]),
        observed(Observation::started(instance)),
        observed(Observation::Ended { instance, end, usage }),
    ];
    let bytes = |op: &Op| formats::log::encode_record(cell.time(), op).len() as u64;
    Ok(ops.iter().map(bytes).sum())
}

/// The time to copy so many bytes: the best of several, by the CPU time.
fn copy(bytes: usize) -> Duration {
    let from = vec![1_u8; bytes];
    let mut to = vec![0_u8; bytes];
    let once = |_| {
        let begun = Instant::now();
        black_box(&mut to).copy_from_slice(black_box(&from));
        begun.elapsed()
    };
    (0..9).map(once).min().unwrap_or_default()
}

fn share(reserve: u64, incarnation: u64, incarnations_a_second: f64) -> f64 {
    let others = incarnation as f64 * incarnations_a_second * 3_600.0;
    rounded(reserve as f64 * 100.0 / (others + reserve as f64))
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

fn millis(time: Duration) -> f64 {
    rounded(time.as_secs_f64() * 1e3)
}

fn rounded(number: f64) -> f64 {
    (number * 100.0).round() / 100.0
}
