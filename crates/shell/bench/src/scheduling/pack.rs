//! `bourg bench pack`: how many machines a cell's tasks take, by packing policy.
//!
//! Cell compaction as the paper evaluates (section 5.1): machines are removed in a random order until
//! the tasks do not fit any more, here until more than 0.2 % of them pend; several orders, and every
//! policy on the same ones. What is found is held against each order's own volume bound: so many of
//! its machines have at least as much of each resource as all tasks need.

use std::path::PathBuf;

use cell::Demand;
use clap::Args;
use cli::Done;
use cli::output::{self, Format};
use model::Random;
use model::{Dimension, Resources};
use scheduler::{Policy, Settings};
use serde::Serialize;
use trace::CellSnapshot;

use super::dump::Dump;
use super::input::{Maker, STATEMENT, Source};
use super::run::{Stopwatch, from_scratch, peak_rss_bytes};

/// What is measured.
#[derive(Debug, Args)]
pub(crate) struct Wanted {
    #[command(flatten)]
    source: Source,
    /// How many orders in which machines are removed.
    #[arg(long, default_value_t = 11)]
    orders: u64,
    /// Only the usual policy, without any to compare it with.
    #[arg(long)]
    quick: bool,
    /// Write every placement of the usual policy to a file, as CSV, with the order as last column.
    #[arg(long, value_name = "FILE")]
    dump: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// One of 500 tasks may pend.
const PENDING_ONE_OF: u64 = 500;
/// The search ends when it knows the number of machines to one of so many.
const EXACT_TO_ONE_OF: usize = 2_000;

/// What was found.
#[derive(Debug, Serialize)]
struct Found {
    cell: String,
    reservations: &'static str,
    seed: u64,
    machines: usize,
    tasks: u64,
    /// Tasks that may pend.
    pending: u64,
    /// By order: so many machines have at least what all tasks need.
    bounds: Vec<usize>,
    policies: Vec<Packed>,
    seconds: f64,
    cpu_seconds: f64,
    peak_rss_bytes: u64,
}

/// What was found of a policy.
#[derive(Debug, Serialize)]
struct Packed {
    policy: &'static str,
    relaxed_randomisation: bool,
    /// By order.
    machines: Vec<usize>,
    /// Machines by bound, by order.
    ratios: Vec<f64>,
    ratio_median: f64,
    /// The 90th percentile over the orders, nearest rank.
    ratio_p90: f64,
    /// How many per cent more machines it takes than the usual policy: the median of the orders.
    more_than_usual_percent: f64,
}

/// Measures, and prints what was found.
pub(crate) fn measure(wanted: &Wanted) -> Done {
    let found = found(wanted)?;
    let format = if wanted.json { Format::Json } else { Format::Table };
    output::object(&format, &found, "pack", || table(&found))
}

fn table(found: &Found) -> String {
    let mut text = format!(
        "{}: {} tasks, of which {} may pend; {} orders\n{}\n",
        found.cell,
        found.tasks,
        found.pending,
        found.bounds.len(),
        found.reservations
    );
    for packed in &found.policies {
        let relaxed = if packed.relaxed_randomisation { "" } else { ", every machine examined" };
        text += &format!(
            "{}{relaxed}: machines by bound {:.4} (median), {:.4} (90 %), {:+.2} % machines\n",
            packed.policy, packed.ratio_median, packed.ratio_p90, packed.more_than_usual_percent
        );
    }
    text + &format!("{:.0} s, {:.0} s of CPU\n", found.seconds, found.cpu_seconds)
}

/// What all tasks need: reservations, and the limits of production.
fn needed(jobs: &Maker) -> [Resources; 2] {
    let mut needed = [Resources::default(); 2];
    for job in jobs.cell.jobs() {
        for (index, _) in job.tasks() {
            let Demand { limit, reservation, prod } = job.demand(index);
            needed[0] = needed[0].plus(reservation);
            needed[1] = if prod { needed[1].plus(limit) } else { needed[1] };
        }
    }
    needed
}

/// How many machines of an order have at least what is needed.
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

fn found(wanted: &Wanted) -> anyhow::Result<Found> {
    let watch = Stopwatch::start()?;
    let source = &wanted.source;
    let snapshot = source.read()?;
    let jobs = Maker::with_jobs(&snapshot)?;
    let tasks = jobs.cell.task_count();
    let pending = tasks / PENDING_ONE_OF;
    let needed = needed(&jobs);
    let orders: Vec<Vec<usize>> =
        (0..wanted.orders).map(|nth| order(&snapshot, source.seed + nth)).collect();
    let bounds: Vec<usize> = orders.iter().map(|order| bound(&snapshot, order, &needed)).collect();
    let mut dump = wanted.dump.as_deref().map(|path| Dump::create(path, ",order")).transpose()?;
    let usual = source.settings();
    let kinds = [
        (Policy::Hybrid, true),
        (Policy::Hybrid, false),
        (Policy::BestFit, true),
        (Policy::EPvm, true),
    ];
    let mut policies: Vec<Packed> = Vec::new();
    for (policy, relaxed) in kinds.into_iter().take(if wanted.quick { 1 } else { kinds.len() }) {
        let settings = Settings { policy, relaxed, ..usual.clone() };
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
        policies.push(packed((policy, relaxed), machines, &bounds, &of_usual));
    }
    let spent = watch.stop()?;
    Ok(Found {
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

/// The least number of machines that is enough; all, where that is not.
fn search(
    bound: usize,
    all: usize,
    mut is_enough: impl FnMut(usize) -> anyhow::Result<bool>,
) -> anyhow::Result<usize> {
    let step = bound / EXACT_TO_ONE_OF + 1;
    // Not a machine less than one of a hundred below the bound: one of 500 tasks may pend.
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

#[expect(clippy::cast_precision_loss, reason = "ratios, rounded when they are shown")]
fn packed(
    (policy, relaxed_randomisation): (Policy, bool),
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
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    sorted.get(rank - 1).copied().unwrap_or(0.0)
}
