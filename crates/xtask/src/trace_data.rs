//! Google's trace of 2011, which is not in the repository (docs/traces.md says where it is): the
//! whole of it held against what is known of it, and the slice that the repository has made again.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, ensure};
use model::{Dimension, Resources};
use trace::google2011::{History, START, Scale, Whole, machines, removals};
use trace::{CellSnapshot, Job};

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

/// Makes the slice.
pub(crate) fn slice(_directory: &Path) -> anyhow::Result<()> {
    anyhow::bail!("not yet")
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
    let machines = machines(unpacked(&directory.join("derived/machines-merged.csv.gz"))?)?;
    let removals = removals(unpacked(&directory.join("derived/machine_remove_events.csv.gz"))?)?;
    let mut history = History::new(Scale::default(), &machines, &removals);
    for part in parts(directory)? {
        history.read(unpacked(&part)?).with_context(|| part.display().to_string())?;
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
fn unpacked(path: &Path) -> anyhow::Result<impl BufRead> {
    let mut gzip = Command::new("gzip");
    let output = gzip.arg("-dc").arg(path).stderr(Stdio::inherit()).output();
    let output = output.context("cannot run gzip: install it")?;
    ensure!(output.status.success(), "gzip cannot unpack {}", path.display());
    Ok(BufReader::new(std::io::Cursor::new(output.stdout)).take(u64::MAX))
}
