//! Google's trace of 2011, which is not in the repository (docs/traces.md says where it is): the
//! whole of it held against what is known of it, and the slice that the repository has made again.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Instant;

use anyhow::{Context, ensure};
use model::{CollectionId, Dimension, MachineId, Resources, TaskIndex, Time};
use trace::google2011::{
    EventKind, History, START, Scale, TaskEvent, TaskEvents, Whole, machines, removals, slice,
};
use trace::{CellSnapshot, Job};

use crate::run::root;

/// Reads the whole trace and says where it is not what is known of it.
///
/// # Errors
/// Where a file is missing, a row cannot be, or a figure is another.
pub(crate) fn check(directory: &Path) -> anyhow::Result<()> {
    let begun = Instant::now();
    let whole = read(directory)?;
    let took = begun.elapsed();
    let counts = whole.churn.counts;
    println!("{} rows in {took:.2?}", counts.rows);
    let snapshot = &whole.snapshot;
    println!("{counts:#?}\n{:#?}", snapshot.dropped);

    let left_out = snapshot.dropped.tasks_on_unknown_machines;
    let running = snapshot.running() as u64;
    let mut figures = Figures::default();
    figures.is("machines", snapshot.machines.len(), 12_583);
    figures.is("machines without capacity", snapshot.dropped.unknown_machines, 3);
    figures.is("running tasks, with those left out", running + left_out, 132_982);
    figures.is("pending tasks", snapshot.pending(), 11_357);
    let apart = || snapshot.jobs.iter().filter(|job| job.different_machines);
    let running = |job: &&Job| job.tasks.iter().any(|task| task.machine.is_some());
    figures.is("running jobs on different machines", apart().filter(running).count(), 595);
    let shared = apart().filter(|job| {
        let mut machines: Vec<_> = job.tasks.iter().filter_map(|task| task.machine).collect();
        let all = machines.len();
        machines.sort_unstable();
        machines.dedup();
        machines.len() < all
    });
    figures.is("of them with two tasks on one", shared.count(), 0);
    for (of, cpu, ram, counts) in [
        ("running", "112.5", "92.4", (|running, _| running) as fn(bool, bool) -> bool),
        ("all", "125.5", "110.7", |_, _| true),
        ("running prod", "72.6", "58.0", |running, prod| running && prod),
    ] {
        let sum = requested(snapshot, counts);
        figures.is(
            &format!("% of CPU that {of} ask for"),
            share(snapshot, sum, Dimension::Cpu),
            cpu,
        );
        figures.is(
            &format!("% of RAM that {of} ask for"),
            share(snapshot, sum, Dimension::Ram),
            ram,
        );
    }
    figures.is("machines whose memory prod over-commits", over_committed(snapshot), 0);
    let standing: usize = whole.churn.standing.iter().map(Vec::len).sum();
    figures.is("tasks with lives", standing, snapshot.running() + snapshot.pending());
    println!(
        "{} arrivals, {} removals, {} steps until {} after the start",
        whole.churn.arrivals.len(),
        whole.churn.away.len(),
        whole.churn.steps.len(),
        whole.churn.until.since(START),
    );
    figures.done()
}

/// Makes the slice of the repository again: of each table the rows that are in it, as they are.
///
/// # Errors
/// Where a file is missing, a row cannot be, or the slice cannot be written.
pub(crate) fn slice(directory: &Path) -> anyhow::Result<()> {
    let into = root().join("crates/trace/data/google2011");
    for (name, column) in [("machines-merged.csv.gz", 0), ("machine_remove_events.csv.gz", 1)] {
        let whole = text(&directory.join("derived").join(name))?;
        let kept = whole.split_inclusive('\n').filter(|line| {
            let id = line.split(',').nth(column).and_then(|text| text.parse().ok());
            // What is no number is the header.
            id.is_none_or(|id| slice::has_machine(MachineId(id)))
        });
        pack(&into.join(name), &kept.collect::<String>())?;
    }
    let parts = parts(directory)?;
    let whole = text(parts.first().context("no task events")?)?;
    // First all of them, because a task's submission comes before its placement, which decides.
    let mut chosen = Chosen::default();
    let mut tasks = Vec::new();
    for event in TaskEvents::new(whole.as_bytes()) {
        let event = event?;
        chosen.see(&event);
        tasks.push((event.job, event.index));
    }
    let lines = whole.split_inclusive('\n').zip(&tasks);
    let kept = lines.filter(|(_, task)| chosen.tasks.contains(task)).map(|(line, _)| line);
    pack(&into.join("task_events.csv.gz"), &kept.collect::<String>())
}

/// The tasks of the slice.
#[derive(Default)]
struct Chosen {
    placed: BTreeSet<(CollectionId, TaskIndex)>,
    tasks: BTreeSet<(CollectionId, TaskIndex)>,
}

impl Chosen {
    fn see(&mut self, event: &TaskEvent) {
        let task = (event.job, event.index);
        if event.at == Time::ZERO && event.kind == EventKind::Schedule {
            self.placed.insert(task);
            self.tasks.remove(&task);
            if event.machine.is_some_and(slice::has_machine) {
                self.tasks.insert(task);
            }
        } else if !self.placed.contains(&task) && slice::has_task(event.job, event.index) {
            self.tasks.insert(task);
        }
    }
}

/// Writes a text as `gzip` packs it, without name and time.
fn pack(path: &Path, text: &str) -> anyhow::Result<()> {
    let mut gzip = Command::new("gzip");
    gzip.arg("-9nc").stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = gzip.spawn().context("cannot run gzip: install it")?;
    let mut input = child.stdin.take().context("gzip reads nothing")?;
    let packed = thread::scope(|scope| {
        scope.spawn(move || input.write_all(text.as_bytes()));
        child.wait_with_output()
    })?;
    ensure!(packed.status.success(), "gzip cannot pack {}", path.display());
    fs::write(path, &packed.stdout).with_context(|| format!("cannot write {}", path.display()))?;
    println!("{}: {} bytes", path.display(), packed.stdout.len());
    Ok(())
}

#[derive(Default)]
struct Figures {
    wrong: Vec<String>,
}

impl Figures {
    fn is(&mut self, what: &str, is: impl ToString, known: impl ToString) {
        let (is, known) = (is.to_string(), known.to_string());
        println!("{what}: {is}");
        if is != known {
            self.wrong.push(format!("{what}: {is}, and should be {known}"));
        }
    }

    fn done(self) -> anyhow::Result<()> {
        ensure!(self.wrong.is_empty(), "{}", self.wrong.join("\n"));
        Ok(())
    }
}

fn requested(snapshot: &CellSnapshot, counts: fn(bool, bool) -> bool) -> Resources {
    let tasks = snapshot.jobs.iter().flat_map(|job| {
        job.tasks.iter().filter(|t| counts(t.machine.is_some(), job.priority.is_prod()))
    });
    tasks.fold(Resources::default(), |sum, task| sum.plus(task.request))
}

/// In per cent of the capacity, with one decimal, rounded.
fn share(snapshot: &CellSnapshot, of: Resources, dimension: Dimension) -> String {
    let (part, whole) = (of.get(dimension), snapshot.capacity().get(dimension));
    let tenths = (u128::from(part) * 10_000 / u128::from(whole) + 5) / 10;
    format!("{}.{}", tenths / 10, tenths % 10)
}

fn over_committed(snapshot: &CellSnapshot) -> usize {
    let mut used: BTreeMap<usize, Resources> = BTreeMap::new();
    for job in snapshot.jobs.iter().filter(|job| job.priority.is_prod()) {
        for task in &job.tasks {
            let used = task.machine.map(|machine| used.entry(machine).or_default());
            used.into_iter().for_each(|used| *used = used.plus(task.request));
        }
    }
    let over = used.iter().filter(|(machine, used)| {
        let machine = snapshot.machines.get(**machine);
        machine.is_none_or(|machine| used.ram > machine.capacity.ram)
    });
    over.count()
}

fn read(directory: &Path) -> anyhow::Result<Whole> {
    let machines = machines(text(&directory.join("derived/machines-merged.csv.gz"))?.as_bytes())?;
    let removals =
        removals(text(&directory.join("derived/machine_remove_events.csv.gz"))?.as_bytes())?;
    let mut history = History::new(Scale::default(), &machines, &removals);
    for part in parts(directory)? {
        history.read(text(&part)?.as_bytes()).with_context(|| part.display().to_string())?;
    }
    Ok(history.finish())
}

/// The files of task events, in order.
fn parts(directory: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let directory = directory.join("task_events");
    let entries = fs::read_dir(&directory)
        .with_context(|| format!("cannot list {}; see docs/traces.md", directory.display()))?;
    let paths = entries.map(|entry| Ok(entry?.path())).collect::<anyhow::Result<Vec<_>>>();
    let mut paths = paths?;
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "gz"));
    paths.sort();
    ensure!(!paths.is_empty(), "no .gz in {}; see docs/traces.md", directory.display());
    Ok(paths)
}

/// A file's content as `gzip` gives it.
fn text(path: &Path) -> anyhow::Result<String> {
    let mut gzip = Command::new("gzip");
    let output = gzip.arg("-dc").arg(path).stderr(Stdio::inherit()).output();
    let output = output.context("cannot run gzip: install it")?;
    ensure!(output.status.success(), "gzip cannot unpack {}", path.display());
    String::from_utf8(output.stdout).with_context(|| format!("{} is no text", path.display()))
}
