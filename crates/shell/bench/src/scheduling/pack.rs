//! `bourg bench pack`: how many machines a cell's tasks need, by packing policy.
//!
//! Cell compaction as in the paper's evaluation (section 5.1): machines are removed in a random
//! order until the tasks do not fit any more, here until more than 0.2 % of them are pending; for
//! several orders, the same for every policy. The results are compared with each order's volume
//! bound: the smallest number of its machines that have at least as much of each resource as all
//! tasks need.

use std::path::PathBuf;

use cell::Demand;
use clap::Args;
use command::Done;
use command::output::{self, Format};
use model::{Dimension, Resources};
use model::{PackingPolicy, Random};
use placement::Settings;
use serde::Serialize;
use trace::CellSnapshot;

use super::dump::Dump;
use super::input::{Maker, STATEMENT, Source};
use super::run::{Stopwatch, from_scratch, peak_rss_bytes};

/// The options.
#[derive(Debug, Args)]
pub(crate) struct Options {
    #[command(flatten)]
    source: Source,
    /// The number of orders in which machines are removed.
    #[arg(long, default_value_t = 11)]
    orders: u64,
    /// Measure only the default policy.
    #[arg(long)]
    quick: bool,
    /// Write every placement of the default policy to a CSV file, with the order as last column.
    #[arg(long, value_name = "FILE")]
    dump: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// One task in 500 may be pending.
const PENDING_ONE_OF: u64 = 500;
/// The precision of the search: one machine in this many.
const EXACT_TO_ONE_OF: usize = 2_000;

/// The results.
#[derive(Debug, Serialize)]
struct Figures {
    cell: String,
    reservations: &'static str,
    seed: u64,
    machines: usize,
    tasks: u64,
    /// How many tasks may be pending.
    pending: u64,
    /// By order: the number of machines that have at least what all tasks need.
    bounds: Vec<usize>,
    policies: Vec<Packed>,
    seconds: f64,
    cpu_seconds: f64,
    peak_rss_bytes: u64,
}

/// The results of a policy.
#[derive(Debug, Serialize)]
struct Packed {
    policy: &'static str,
    relaxed_randomisation: bool,
    /// By order.
    machines: Vec<usize>,
    /// Machines divided by the bound, by order.
    ratios: Vec<f64>,
    ratio_median: f64,
    /// The 90th percentile over the orders, nearest rank.
    ratio_p90: f64,
    /// How many percent more machines than the default policy: the median over the orders.
    more_than_usual_percent: f64,
}

/// Runs the benchmark and prints the results.
pub(crate) fn measure(options: &Options) -> Done {
    let figures = figures(options)?;
    let format = if options.json { Format::Json } else { Format::Table };
    output::object(&format, &figures, "pack", || table(&figures))
}

fn table(figures: &Figures) -> String {
    let mut text = format!(
        "{}: {} tasks, of which {} may be pending; {} orders\n{}\n",
        figures.cell,
        figures.tasks,
        figures.pending,
        figures.bounds.len(),
        figures.reservations
    );
    for packed in &figures.policies {
        let relaxed = if packed.relaxed_randomisation { "" } else { ", every machine examined" };
        text += &format!(
            "{}{relaxed}: machines by bound {:.4} (median), {:.4} (90 %), {:+.2} % machines\n",
            packed.policy, packed.ratio_median, packed.ratio_p90, packed.more_than_usual_percent
        );
    }
    text + &format!("{:.0} s, {:.0} s of CPU\n", figures.seconds, figures.cpu_seconds)
}

/// What all tasks need: reservations, and the limits of production.
fn needed(jobs: &Maker) -> [Resources; 2] {
    let mut needed = [Resources::default(); 2];
    for job in jobs.cell.jobs() {
        for (index, _) in job.tasks() {
            let Demand { limit, reservation, prod, .. } = job.demand(index);
            needed[0] = needed[0].plus(reservation);
            needed[1] = if prod { needed[1].plus(limit) } else { needed[1] };
        }
    }
    needed
}

/// The number of machines of an order that have at least what is needed.
fn bound(snapshot: &CellSnapshot, order: &[usize], needed: &[Resources; 2]) -> usize {
    let mut sum = Resources::default();
    let enough = order.iter().position(|place| {
        let capacity = snapshot.machines.get(*place).map(|machine| machine.capacity);
        sum = sum.plus(capacity.unwrap_or_default());
        let has =
            |needed: &Resources| Dimension::ALL.into_iter().all(|of| sum.get(of) >= needed.get(of));
        needed.iter().all(has)
    });
    enough.map_or(order.len(), |last| last + 1)
}

fn order(snapshot: &CellSnapshot, seed: u64) -> Vec<usize> {
    let mut random = Random::new(seed);
    let mut order: Vec<usize> = (0..snapshot.machines.len()).collect();
    for last in (1..order.len()).rev() {
        let other = usize::try_from(random.below(last as u64 + 1)).unwrap_or(last);
        order.swap(last, other);
    }
    order
}

fn figures(options: &Options) -> anyhow::Result<Figures> {
    let watch = Stopwatch::start()?;
    let source = &options.source;
    let snapshot = source.read()?;
    let jobs = Maker::with_jobs(&snapshot)?;
    let tasks = jobs.cell.task_count();
    let pending = tasks / PENDING_ONE_OF;
    let needed = needed(&jobs);
    let orders: Vec<Vec<usize>> =
        (0..options.orders).map(|nth| order(&snapshot, source.seed + nth)).collect();
    let bounds: Vec<usize> = orders.iter().map(|order| bound(&snapshot, order, &needed)).collect();
    let mut dump = options.dump.as_deref().map(|path| Dump::create(path, ",order")).transpose()?;
    let usual = source.settings();
    let kinds = [
        (PackingPolicy::Hybrid, true),
        (PackingPolicy::Hybrid, false),
        (PackingPolicy::BestFit, true),
        (PackingPolicy::WorstFit, true),
    ];
    let mut policies: Vec<Packed> = Vec::new();
    for (policy, relaxed) in kinds.into_iter().take(if options.quick { 1 } else { kinds.len() }) {
        let settings = Settings { policy: Some(policy), relaxed, ..usual.clone() };
        let mut machines = Vec::new();
        for (nth, (order, bound)) in orders.iter().zip(&bounds).enumerate() {
            let most = usize::try_from(pending).unwrap_or(usize::MAX);
            let fits = |machines: usize| -> anyhow::Result<_> {
                let chosen = order.get(..machines).unwrap_or(order);
                let made = jobs.clone().with_machines(&snapshot, chosen)?;
                let run = from_scratch(made.cell, settings.clone(), most)?;
                Ok((run.pending <= most).then_some(run))
            };
            let needed = search(*bound, order.len(), |machines| Ok(fits(machines)?.is_some()))?;
            machines.push(needed);
            if policies.is_empty()
                && let Some(dump) = &mut dump
                && let Some(run) = fits(needed)?
            {
                let chosen = order.get(..needed).unwrap_or(order);
                dump.cell(&snapshot, chosen, run.scheduler.cell(), &format!(",{nth}"))?;
            }
        }
        let of_usual = policies.first().map_or(machines.clone(), |usual| usual.machines.clone());
        policies.push(packed(policy, relaxed, machines, &bounds, &of_usual));
    }
    let spent = watch.stop()?;
    Ok(Figures {
        cell: source.says(),
        reservations: STATEMENT,
        seed: source.seed,
        machines: snapshot.machines.len(),
        tasks,
        pending,
        bounds,
        policies,
        seconds: spent.wall.as_secs_f64().round(),
        cpu_seconds: spent.cpu.as_secs_f64().round(),
        peak_rss_bytes: peak_rss_bytes()?,
    })
}

/// How many machines of a cell its tasks need, by order of their removal: with the default policy,
/// and reservations as in `jobs`. All of them where none suffice.
pub(crate) fn compacted(
    snapshot: &CellSnapshot,
    jobs: &Maker,
    seed: u64,
    orders: u64,
) -> anyhow::Result<Vec<usize>> {
    let needed = needed(jobs);
    let most = usize::try_from(jobs.cell.task_count() / PENDING_ONE_OF).unwrap_or(usize::MAX);
    let settings = Settings { seed, ..Settings::default() };
    let orders = (0..orders).map(|nth| order(snapshot, seed + nth));
    let machines = orders.map(|order| {
        let bound = bound(snapshot, &order, &needed);
        search(bound, order.len(), |machines| {
            let chosen = order.get(..machines).unwrap_or(&order);
            let made = jobs.clone().with_machines(snapshot, chosen)?;
            Ok(from_scratch(made.cell, settings.clone(), most)?.pending <= most)
        })
    });
    machines.collect()
}

/// The smallest sufficient number of machines; all of them if none suffices.
fn search(
    bound: usize,
    all: usize,
    mut is_enough: impl FnMut(usize) -> anyhow::Result<bool>,
) -> anyhow::Result<usize> {
    let step = bound / EXACT_TO_ONE_OF + 1;
    // Start 1 % below the bound, since one task in 500 may be pending.
    let (mut too_few, mut width) = (bound - bound / 100, bound / 50 + 1);
    let mut enough = loop {
        let tried = (too_few + width).min(all);
        if is_enough(tried)? {
            break tried;
        }
        if tried == all {
            return Ok(all);
        }
        (too_few, width) = (tried, width * 2);
    };
    while enough - too_few > step {
        let tried = usize::midpoint(too_few, enough);
        match is_enough(tried)? {
            true => enough = tried,
            false => too_few = tried,
        }
    }
    Ok(enough)
}

#[expect(clippy::cast_precision_loss, reason = "ratios, rounded for display")]
fn packed(
    policy: PackingPolicy,
    relaxed_randomisation: bool,
    machines: Vec<usize>,
    bounds: &[usize],
    usual: &[usize],
) -> Packed {
    let ratio = |(one, other): (&usize, &usize)| *one as f64 / (*other).max(1) as f64;
    let rounded = |ratio: f64| (ratio * 1e4).round() / 1e4;
    let ratios: Vec<f64> = machines.iter().zip(bounds).map(ratio).map(rounded).collect();
    let more: Vec<f64> = machines.iter().zip(usual).map(ratio).collect();
    Packed {
        policy: policy.name(),
        relaxed_randomisation,
        ratio_median: at(&ratios, 50),
        ratio_p90: at(&ratios, 90),
        more_than_usual_percent: ((at(&more, 50) - 1.0) * 1e4).round() / 1e2,
        machines,
        ratios,
    }
}

/// A percentile, nearest rank.
fn at(ratios: &[f64], percent: usize) -> f64 {
    let mut sorted = ratios.to_vec();
    sorted.sort_by(f64::total_cmp);
    crate::nearest_rank(&sorted, percent)
}
