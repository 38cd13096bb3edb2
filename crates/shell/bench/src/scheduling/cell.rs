//! `bourg bench cell`: schedules a whole cell from scratch.

use std::path::PathBuf;

use clap::Args;
use command::Done;
use command::output::{self, Format};
use placement::Settings;
use serde::Serialize;
use trace::CellSnapshot;

use super::dump::Dump;
use super::input::{self, STATEMENT, Source};
use super::run::{Spent, from_scratch, peak_rss_bytes};

/// The options.
#[derive(Debug, Args)]
pub(crate) struct Options {
    #[command(flatten)]
    source: Source,
    /// Skip the runs without each of the three optimizations.
    #[arg(long)]
    quick: bool,
    /// Write every placement to a CSV file.
    #[arg(long, value_name = "FILE")]
    dump: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// The results.
#[derive(Debug, Serialize)]
struct Figures {
    cell: String,
    reservations: &'static str,
    seed: u64,
    machines: usize,
    tasks: u64,
    placed: usize,
    pending: usize,
    /// Equals `placed`: the benchmark fails if the state machine rejects a placement.
    accepted: usize,
    placed_percent: f64,
    /// In total: building arrays and queue, all passes, and applying all placements.
    seconds: f64,
    cpu_seconds: f64,
    /// Of which in passes, and in applying.
    planning_cpu_seconds: f64,
    applying_cpu_seconds: f64,
    placements_per_second: f64,
    passes: usize,
    evicted: usize,
    peak_rss_bytes: u64,
    /// The same with one optimization disabled.
    without: Vec<Without>,
}

/// The results of a run with optimizations disabled.
#[derive(Debug, Serialize)]
struct Without {
    switched_off: &'static str,
    /// `None` if extrapolated.
    placed: Option<usize>,
    seconds: f64,
    cpu_seconds: f64,
    /// Extrapolated from a slice of the cell; otherwise measured on the whole cell.
    extrapolated: bool,
    times_slower: f64,
}

/// Runs that are expected to take longer are extrapolated.
const MEASURED_SECONDS_MAX: f64 = 30.0;
/// The slice for extrapolation: one in this many machines and jobs.
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

/// The time of a run and the number of placed tasks: first for a slice, then for the whole cell if
/// that is fast enough.
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
    // If every task examines every machine, the work grows with both.
    let tasks = snapshot.tasks().count().div_ceil(slice.tasks().count().max(1));
    let machines = if settings.relaxed { 1 } else { SLICE };
    let times = u32::try_from(tasks * machines).unwrap_or(u32::MAX);
    if spent.cpu.as_secs_f64() * f64::from(times) > MEASURED_SECONDS_MAX {
        return Ok((Spent { wall: spent.wall * times, cpu: spent.cpu * times }, None, true));
    }
    let (spent, placed) = of(snapshot)?;
    Ok((spent, Some(placed), false))
}

/// Runs the benchmark and prints the results.
pub(crate) fn measure(options: &Options) -> Done {
    let figures = figures(options)?;
    let format = if options.json { Format::Json } else { Format::Table };
    output::object(&format, &figures, "cell", || table(&figures))
}

fn table(figures: &Figures) -> String {
    let mut text = format!(
        "{}: {} machines, {} tasks\n{}\n{} placed ({:.2} %), all accepted; {} pending; {:.3} s, \
         {:.3} s of CPU ({:.3} planning, {:.3} applying): {:.0} per second\n",
        figures.cell,
        figures.machines,
        figures.tasks,
        figures.reservations,
        figures.placed,
        figures.placed_percent,
        figures.pending,
        figures.seconds,
        figures.cpu_seconds,
        figures.planning_cpu_seconds,
        figures.applying_cpu_seconds,
        figures.placements_per_second
    );
    for without in &figures.without {
        let how = if without.extrapolated { " (extrapolated)" } else { "" };
        text += &format!(
            "without {}: {:.2} s of CPU, {:.1} times as long{how}\n",
            without.switched_off, without.cpu_seconds, without.times_slower
        );
    }
    text
}

#[expect(clippy::cast_precision_loss, reason = "rates and shares, rounded for display")]
fn figures(options: &Options) -> anyhow::Result<Figures> {
    let source = &options.source;
    let snapshot = source.read()?;
    let chosen = input::all(&snapshot);
    let cell = input::cell(&snapshot, &chosen)?;
    let (machines, tasks) = (cell.machine_count(), cell.task_count());
    let run = from_scratch(cell, source.settings(), usize::MAX)?;
    let peak_rss_bytes = peak_rss_bytes()?;
    if let Some(path) = &options.dump {
        Dump::create(path, "")?.cell(&snapshot, &chosen, run.scheduler.cell(), "")?;
    }
    let all = run.planning.plus(run.following);
    let seconds = |time: std::time::Duration| (time.as_secs_f64() * 1e4).round() / 1e4;
    let (placed, pending, passes, evicted) = (run.placed, run.pending, run.passes, run.evicted);
    let (planning, following) = (run.planning, run.following);
    drop(run);
    let mut without = Vec::new();
    if !options.quick {
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
    Ok(Figures {
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
