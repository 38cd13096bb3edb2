//! Google's traces, which are not in the repository (docs/traces.md has their locations): compares
//! the whole 2011 trace with its known figures, and regenerates the parts that the repository has.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::fs;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Instant;

use anyhow::{Context, ensure};
use flate2::read::MultiGzDecoder;
use model::{CollectionId, Dimension, MachineId, Resources, TaskIndex, Time};
use trace::google2011::{
    EventKind, HistoryBuilder, START, Scale, TaskEvent, TaskEvents, Trace, machines, removals,
    slice,
};
use trace::{CellSnapshot, Job, PerMille};

use crate::run::root;

/// Reads the whole trace and reports differences from its known figures.
///
/// # Errors
/// If a file is missing, a row is invalid, or a figure differs.
pub(crate) fn check(directory: &Path) -> anyhow::Result<()> {
    let begun = Instant::now();
    let whole = read(directory)?;
    let took = begun.elapsed();
    let counts = whole.churn.counts;
    println!("{} rows in {took:.2?}", counts.rows);
    let snapshot = &whole.snapshot;
    println!("{counts:#?}\n{:#?}", snapshot.dropped);

    let churn = &whole.churn;
    println!(
        "{} arrivals, {} removals, {} steps, {} from the start to the last task event",
        churn.arrivals.len(),
        churn.outages.len(),
        churn.steps.len(),
        churn.until.since(START),
    );

    let mut figures = Figures::default();
    counted(&whole, &mut figures);
    asked_for(snapshot, &mut figures);
    spread_out(snapshot, &mut figures);
    figures.done()
}

fn counted(Trace { snapshot, churn }: &Trace, figures: &mut Figures) {
    let dropped = snapshot.dropped;
    let running = snapshot.running() as u64 + dropped.tasks_on_unknown_machines;
    figures.is("machines", &snapshot.machines.len(), &12_583);
    figures.is("machines without capacity", &dropped.unknown_machines, &3);
    figures.is("running tasks, with those on such machines", &running, &132_982);
    figures.is("pending tasks", &snapshot.pending(), &11_357);
    let standing: usize = churn.standing.iter().map(Vec::len).sum();
    figures.is("tasks with runs", &standing, &snapshot.tasks().count());
    let jobs = snapshot.jobs.iter().chain(churn.arrivals.iter().map(|arrival| &arrival.job));
    let refused = jobs.filter(|job| !job.spec(PerMille::ALL).problems().is_empty());
    figures.is("jobs that cannot be submitted", &refused.count(), &0);
}

fn asked_for(snapshot: &CellSnapshot, figures: &mut Figures) {
    let shares = |counts: fn(bool, bool) -> bool| {
        let sum = requested(snapshot, counts);
        [Dimension::Cpu, Dimension::Ram].map(|of| share(snapshot, sum, of)).join(", ")
    };
    let running = shares(|running, _| running);
    figures.is("% of CPU and memory that running tasks ask for", &running, &"112.5, 92.4");
    figures.is("… and all tasks", &shares(|_, _| true), &"125.5, 110.7");
    let prod = shares(|running, prod| running && prod);
    figures.is("… and running tasks of production", &prod, &"72.6, 58.0");
    let over = over_committed(snapshot);
    figures.is("machines whose memory production over-commits", &over, &0);
}

fn spread_out(snapshot: &CellSnapshot, figures: &mut Figures) {
    let placed = |job: &Job| job.tasks.iter().filter_map(|task| task.machine).collect::<Vec<_>>();
    let apart = snapshot.jobs.iter().filter(|job| job.different_machines);
    let apart: Vec<Vec<usize>> = apart.map(placed).filter(|placed| !placed.is_empty()).collect();
    figures.is("running jobs on different machines", &apart.len(), &595);
    let shared = apart.iter().filter(|placed| {
        let different: BTreeSet<&usize> = placed.iter().collect();
        different.len() < placed.len()
    });
    figures.is("of them with two tasks on one", &shared.count(), &0);
}

/// Regenerates the slice of the repository: the selected rows of each table, unchanged.
///
/// # Errors
/// If a file is missing, a row is invalid, or the slice cannot be written.
pub(crate) fn slice(directory: &Path) -> anyhow::Result<()> {
    let into = root().join("crates/harness/trace/data/google2011");
    for (name, column) in [("machines-merged.csv.gz", 0), ("machine_remove_events.csv.gz", 1)] {
        let whole = text(&directory.join("derived").join(name))?;
        let kept = whole.split_inclusive('\n').filter(|line| {
            let id = line.split(',').nth(column).and_then(|text| text.parse().ok());
            // Anything but a number is the header.
            id.is_none_or(|id| slice::has_machine(MachineId(id)))
        });
        pack(&into.join(name), &kept.collect::<String>())?;
    }
    let parts = parts(directory)?;
    let whole = text(parts.first().context("no task events")?)?;
    // All events first, because a task's submission comes before its placement, which decides.
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

/// Regenerates the repository's tables of the eight cells of 2019: the machines unchanged, and the
/// numbers of instances by request, in 65,536ths of the largest machine.
///
/// # Errors
/// If a file is missing, a row is invalid, or a table cannot be written.
pub(crate) fn shapes(directory: &Path) -> anyhow::Result<()> {
    let into = root().join("crates/harness/trace/data/google2019");
    for cell in 'a'..='h' {
        let machines = format!("machine_shapes/2019_{cell}_host_resource.csv");
        let machines = fs::read_to_string(directory.join(machines)).context("no machine shapes")?;
        fs::write(into.join(format!("2019-{cell}-machines.csv")), machines)?;
        let requests = format!("instance_requests/2019_{cell}_user_requests.csv.gz");
        let mut counts: BTreeMap<(u32, u32), u32> = BTreeMap::new();
        for line in text(&directory.join(requests))?.lines().skip(1) {
            let mut columns = line.split(',').skip(4);
            let mut share = || -> anyhow::Result<u32> {
                let share: f64 = columns.next().context("too few columns")?.parse()?;
                ensure!((0.0..=1.0).contains(&share), "{share} is not a share");
                #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
                Ok((share * 65_536.0).round() as u32)
            };
            *counts.entry((share()?, share()?)).or_default() += 1;
        }
        let rows = counts.iter().map(|((cpu, ram), tasks)| format!("{cpu},{ram},{tasks}\n"));
        let table = format!("cpu,ram,tasks\n{}", rows.collect::<String>());
        fs::write(into.join(format!("2019-{cell}-requests.csv")), table)?;
    }
    Ok(())
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

/// Compresses a text with `gzip`, without name and time.
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
    fn is(&mut self, what: &str, is: &dyn Display, known: &dyn Display) {
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

/// In per cent of the capacity, rounded to one decimal.
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

fn read(directory: &Path) -> anyhow::Result<Trace> {
    let machines = machines(text(&directory.join("derived/machines-merged.csv.gz"))?.as_bytes())?;
    let removals =
        removals(text(&directory.join("derived/machine_remove_events.csv.gz"))?.as_bytes())?;
    let mut history = HistoryBuilder::new(Scale::default(), &machines, &removals);
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

/// A file's content, decompressed.
fn text(path: &Path) -> anyhow::Result<String> {
    let file = fs::File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
    let mut text = String::new();
    MultiGzDecoder::new(file)
        .read_to_string(&mut text)
        .with_context(|| format!("cannot unpack {}", path.display()))?;
    Ok(text)
}
