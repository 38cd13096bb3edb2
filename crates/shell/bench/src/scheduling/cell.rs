//! `bourg bench cell`: a whole cell from scratch.

use std::path::PathBuf;

use clap::Args;
use cli::Done;
use cli::output::{self, Format};
use scheduler::Settings;
use serde::Serialize;
use trace::CellSnapshot;

use super::dump::Dump;
use super::input::{self, STATEMENT, Source};
use super::run::{Spent, from_scratch, peak_rss_bytes};

/// What is measured.
#[derive(Debug, Args)]
pub(crate) struct Wanted {
    #[command(flatten)]
    source: Source,
    /// Only with everything on: not once more without each of the three ways of doing less work.
    #[arg(long)]
    quick: bool,
    /// Write every placement to a file, as CSV.
    #[arg(long, value_name = "FILE")]
    dump: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// What was found.
#[derive(Debug, Serialize)]
struct Found {
    cell: String,
    reservations: &'static str,
    seed: u64,
    machines: usize,
    tasks: u64,
    placed: usize,
    pending: usize,
    /// Every placement was accepted by the state machine, or there is no result.
    accepted: usize,
    placed_percent: f64,
    /// With everything: making arrays and queue, every pass, and applying every placement.
    seconds: f64,
    cpu_seconds: f64,
    /// Of it in passes, and in applying.
    planning_cpu_seconds: f64,
    applying_cpu_seconds: f64,
    placements_per_second: f64,
    passes: usize,
    evicted: usize,
    peak_rss_bytes: u64,
    /// The same with something switched off.
    without: Vec<Without>,
}

/// What a run without some of the three took.
#[derive(Debug, Serialize)]
struct Without {
    switched_off: &'static str,
    /// Nothing where it is extrapolated.
    placed: Option<usize>,
    seconds: f64,
    cpu_seconds: f64,
    /// From a slice of the cell; otherwise it is measured on the cell itself.
    extrapolated: bool,
    times_slower: f64,
}

/// What is expected to take longer than so many seconds is extrapolated.
const MEASURED_SECONDS_MAX: f64 = 30.0;
/// From a slice of the cell: so manieth parts of its machines and jobs.
const SLICE: usize = 8;

fn switched_off(source: &Source) -> [(&'static str, Settings); 4] {
    let on = source.settings();
    [
        ("equivalence classes", Settings { classes: false, ..on.clone() }),
        ("the score cache", Settings { score_cache: false, ..on.clone() }),
        ("relaxed randomisation", Settings { relaxed: false, ..on }),
        ("all three", Settings { seed: source.seed, ..Settings::exhaustive() }),
    ]
}

/// What a run takes, and how many tasks it places: first of a slice, and of the whole if that can be
/// waited for.
fn one_without(
    snapshot: &CellSnapshot,
    settings: &Settings,
) -> anyhow::Result<(Spent, Option<usize>, bool)> {
    let slice = CellSnapshot {
        machines: snapshot.machines.iter().step_by(SLICE).cloned().collect(),
        jobs: snapshot.jobs.iter().step_by(SLICE).cloned().collect(),
        ..CellSnapshot::default()
    };
    let of = |snapshot: &CellSnapshot| {
        let cell = input::cell(snapshot, &input::all(snapshot))?;
        let run = from_scratch(cell, settings.clone(), usize::MAX)?;
        anyhow::Ok((run.planning.plus(run.following), run.placed))
    };
    let (spent, _) = of(&slice)?;
    // Where every task looks at every machine, it is so many times as many of both.
    let tasks = snapshot.tasks().count().div_ceil(slice.tasks().count().max(1));
    let machines = if settings.relaxed { 1 } else { SLICE };
    let times = u32::try_from(tasks * machines).unwrap_or(u32::MAX);
    if spent.cpu.as_secs_f64() * f64::from(times) > MEASURED_SECONDS_MAX {
        return Ok((Spent { wall: spent.wall * times, cpu: spent.cpu * times }, None, true));
    }
    let (spent, placed) = of(snapshot)?;
    Ok((spent, Some(placed), false))
}

/// Measures, and prints what was found.
pub(crate) fn measure(wanted: &Wanted) -> Done {
    let found = found(wanted)?;
    let format = if wanted.json { Format::Json } else { Format::Table };
    output::object(&format, &found, "cell", || table(&found))
}

fn table(found: &Found) -> String {
    let mut text = format!(
        "{}: {} machines, {} tasks\n{}\n{} placed ({:.2} %), all accepted; {} pending; {:.3} s, \
         {:.3} s of CPU ({:.3} planning, {:.3} applying): {:.0} a second\n",
        found.cell,
        found.machines,
        found.tasks,
        found.reservations,
        found.placed,
        found.placed_percent,
        found.pending,
        found.seconds,
        found.cpu_seconds,
        found.planning_cpu_seconds,
        found.applying_cpu_seconds,
        found.placements_per_second
    );
    for without in &found.without {
        let how = if without.extrapolated { " (extrapolated)" } else { "" };
        text += &format!(
            "without {}: {:.2} s of CPU, {:.1} times as long{how}\n",
            without.switched_off, without.cpu_seconds, without.times_slower
        );
    }
    text
}

#[expect(clippy::cast_precision_loss, reason = "rates and shares, rounded when they are shown")]
fn found(wanted: &Wanted) -> anyhow::Result<Found> {
    let source = &wanted.source;
    let snapshot = source.read()?;
    let chosen = input::all(&snapshot);
    let cell = input::cell(&snapshot, &chosen)?;
    let (machines, tasks) = (cell.machine_count(), cell.task_count());
    let run = from_scratch(cell, source.settings(), usize::MAX)?;
    let peak_rss_bytes = peak_rss_bytes()?;
    if let Some(path) = &wanted.dump {
        Dump::create(path, "")?.cell(&snapshot, &chosen, run.scheduler.cell(), "")?;
    }
    let all = run.planning.plus(run.following);
    let seconds = |time: std::time::Duration| (time.as_secs_f64() * 1e4).round() / 1e4;
    let (placed, pending, passes, evicted) = (run.placed, run.pending, run.passes, run.evicted);
    let (planning, following) = (run.planning, run.following);
    drop(run);
    let mut without = Vec::new();
    if !wanted.quick {
        for (switched_off, settings) in switched_off(source) {
            let (spent, run_placed, extrapolated) = one_without(&snapshot, &settings)?;
            without.push(Without {
                switched_off,
                placed: run_placed,
                seconds: seconds(spent.wall),
                cpu_seconds: seconds(spent.cpu),
                extrapolated,
                times_slower: (spent.cpu.as_secs_f64() / all.cpu.as_secs_f64() * 10.0).round()
                    / 10.0,
            });
        }
    }
    Ok(Found {
        cell: source.says(),
        reservations: STATEMENT,
        seed: source.seed,
        machines,
        tasks,
        placed,
        pending,
        accepted: placed,
        placed_percent: (placed as f64 / tasks as f64 * 1e4).round() / 1e2,
        seconds: seconds(all.wall),
        cpu_seconds: seconds(all.cpu),
        planning_cpu_seconds: seconds(planning.cpu),
        applying_cpu_seconds: seconds(following.cpu),
        placements_per_second: (placed as f64 / all.wall.as_secs_f64()).round(),
        passes,
        evicted,
        peak_rss_bytes,
        without,
    })
}
