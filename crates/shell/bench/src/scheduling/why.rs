//! `bourg bench why`: explains why tasks of a full cell are pending, and counts what would start at once.

use anyhow::Context;
use cell::{Cell, Job};
use clap::Args;
use command::Done;
use command::output::{self, Format};
use model::{Band, JobName, Priority, Resources, TaskSelection, UserName};
use placement::{Kept, why};
use serde::Serialize;
use spec::{JobSpec, TaskSpec};

use super::input::{self, Maker, NOW, STATEMENT, Source};
use super::run::{Spent, Stopwatch, from_scratch, peak_rss_bytes};

/// The options.
#[derive(Debug, Args)]
pub(crate) struct Options {
    #[command(flatten)]
    source: Source,
    /// The number of pending tasks that are explained: each asks for the largest machine of the cell.
    #[arg(long, default_value_t = 12)]
    wanted: u32,
    /// The number of repetitions, of which the median is shown.
    #[arg(long, default_value_t = 21)]
    repetitions: usize,
    /// Count what would start at once, too.
    #[arg(long)]
    shapes: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// The results; times are medians in milliseconds of wall time.
#[derive(Debug, Serialize)]
struct Figures {
    cell: String,
    reservations: &'static str,
    seed: u64,
    machines: usize,
    placed: usize,
    pending: usize,
    /// The first failed check of each machine, and every failed check.
    why_ms: f64,
    /// The smallest change with which all tasks fit.
    smallest_change_ms: f64,
    /// What evictions would do.
    preemption_ms: f64,
    /// All of an answer together.
    answer_ms: f64,
    smallest_change: String,
    /// What would start at once, in every band; only where it is asked for.
    shapes_ms: Option<f64>,
    peak_rss_bytes: u64,
}

/// Runs the benchmark and prints the results.
pub(crate) fn measure(options: &Options) -> Done {
    let figures = figures(options)?;
    let format = if options.json { Format::Json } else { Format::Table };
    output::object(&format, &figures, "why", || table(&figures))
}

fn table(figures: &Figures) -> String {
    let mut text = format!(
        "{}: {} machines, {} tasks placed, {} pending\n{}\nan answer takes {:.1} ms: {:.1} ms for the failed \
         checks, {:.1} ms for the smallest change ({}), {:.1} ms for preemption\n",
        figures.cell,
        figures.machines,
        figures.placed,
        figures.pending,
        figures.reservations,
        figures.answer_ms,
        figures.why_ms,
        figures.smallest_change_ms,
        figures.smallest_change,
        figures.preemption_ms
    );
    if let Some(shapes) = figures.shapes_ms {
        text += &format!("the shapes that would start take {shapes:.1} ms\n");
    }
    text
}

fn figures(options: &Options) -> anyhow::Result<Figures> {
    let snapshot = options.source.read()?;
    let cell = input::cell(&snapshot, &input::all(&snapshot))?;
    let run = from_scratch(cell, options.source.settings(), usize::MAX)?;
    let mut maker = Maker::of_cell(run.scheduler.cell().clone())?;
    let largest = maker.cell.machines().map(|machine| machine.capacity());
    let largest = largest.max_by_key(|capacity| (capacity.cpu, capacity.ram));
    let user: UserName = "root".parse().context("a user")?;
    let spec = wanted(options.wanted, largest.context("the cell has no machines")?)?;
    let collection = maker.submit_as(&user, spec)?;
    let cell = &maker.cell;
    let job = cell.job(collection).context("the job that was submitted")?;

    let kept = Kept::in_cell(cell, NOW);
    let answer = || explain(cell, job);
    let groups = || why(cell, job, &TaskSelection::All, NOW);
    let first = groups();
    let group = first.groups.first().context("the tasks of the job are pending")?;
    let change = why::for_all(cell, job, group, &kept).change;
    let change: Vec<String> = change.iter().map(ToString::to_string).collect();
    let shapes = || placement::shapes(cell, &Band::ALL, NOW);
    Ok(Figures {
        cell: options.source.says(),
        reservations: STATEMENT,
        seed: options.source.seed,
        machines: cell.machine_count(),
        placed: run.placed,
        pending: run.pending,
        why_ms: median(options.repetitions, groups)?,
        smallest_change_ms: median(options.repetitions, || why::for_all(cell, job, group, &kept))?,
        preemption_ms: median(options.repetitions, || why::preemption(cell, job, group, &kept))?,
        answer_ms: median(options.repetitions, answer)?,
        smallest_change: change.join(" and "),
        shapes_ms: options.shapes.then(|| median(options.repetitions, shapes)).transpose()?,
        peak_rss_bytes: peak_rss_bytes()?,
    })
}

/// A job of production whose tasks each ask for so much.
fn wanted(tasks: u32, limit: Resources) -> anyhow::Result<JobSpec> {
    let mut task = TaskSpec::of(vec!["serve".to_owned()]);
    task.limit = limit;
    let name: JobName = "wanted".parse().context("a name")?;
    let priority: Priority = Band::Production.usual();
    Ok(JobSpec::of(name, priority, tasks, task))
}

/// All that an answer to "why pending?" says.
fn explain(cell: &Cell, job: &Job) -> usize {
    let found = why(cell, job, &TaskSelection::All, NOW);
    let kept = Kept::in_cell(cell, NOW);
    let examined = found.groups.iter().map(|group| {
        let all = why::for_all(cell, job, group, &kept);
        let preemption = why::preemption(cell, job, group, &kept);
        all.change.len() + preemption.map_or(0, |found| found.possible)
    });
    let examined: usize = examined.sum();
    let constraints = found.groups.iter().flat_map(|group| group.ask.constraints);
    let spellings = placement::near_spellings(cell, constraints).len();
    examined + spellings + why::ahead(cell, job).named.len() + why::maximum_rules(cell, job).len()
}

/// The median of the times that something takes, in milliseconds.
fn median<T>(repetitions: usize, run: impl Fn() -> T) -> anyhow::Result<f64> {
    let mut times: Vec<Spent> = Vec::new();
    for _ in 0..repetitions.max(1) {
        let watch = Stopwatch::start()?;
        std::hint::black_box(run());
        times.push(watch.stop()?);
    }
    times.sort_by_key(|spent| spent.wall);
    let middle = times.get(times.len() / 2).context("a repetition")?;
    Ok(middle.wall.as_secs_f64() * 1_000.0)
}
