//! `bourg bench placement`: what the preference for machines that have a task's packages saves.
//!
//! Jobs of a few tasks arrive one after another, each with a package drawn so that a few are popular. The scheduler of
//! the program places them, once with the term for packages and once without, on machines of a cell with half of its
//! room left at the end. A machine fetches what it lacks at a fixed rate, one package after another, and keeps it; it
//! reports what it has as soon as a fetch begins. The time of a start is the time until its package is there: everything
//! else of a start is the same with and without.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use anyhow::{Context as _, ensure};
use cell::{AddMachine, Cell, Mutation, Op, Outcome, RequestId, SetPackage};
use clap::Args;
use command::Done;
use command::output::{self, Format};
use model::{
    Band, Bytes, CellName, Digest, HeldPackage, HeldUse, JobName, MachineId, MachineName,
    MachineReport, MilliCores, Package, PackageId, PackageKind, PackageReaders, PackageReference,
    Random, Resources, SessionId, Span, Time, UserName,
};
use placement::{Settings, Weights};
use scheduler::Scheduler;
use serde::Serialize;
use spec::{JobSpec, TaskSpec};

/// The options.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// The number of machines.
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    machines: u64,
    /// The number of jobs, of one to five tasks.
    #[arg(long, default_value_t = 3_000, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    jobs: u64,
    /// The number of packages, of 10 to 1,000 MiB.
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    packages: u64,
    /// What a machine fetches in a second, in MiB.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    rate: u64,
    /// The time between two jobs, in milliseconds.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..=3_600_000))]
    interval: u64,
    /// The seed.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// The results.
#[derive(Debug, Serialize)]
struct Figures {
    machines: u64,
    jobs: u64,
    packages: u64,
    seed: u64,
    with: Starts,
    without: Starts,
}

/// What the starts of all tasks took.
#[derive(Debug, Serialize)]
struct Starts {
    tasks: usize,
    fetched_mib: u64,
    /// How many of a thousand tasks started where their package was.
    there_permille: usize,
    mean_ms: u64,
    median_ms: u64,
    p90_ms: u64,
    p99_ms: u64,
    /// The most tasks on one machine.
    most_on_a_machine: usize,
}

/// Runs the benchmark and prints the results.
pub(crate) fn measure(options: &Options) -> Done {
    let with = Weights::default();
    let without = Weights { packages: 0, ..Weights::default() };
    let figures = Figures {
        machines: options.machines,
        jobs: options.jobs,
        packages: options.packages,
        seed: options.seed,
        with: starts(options, with)?,
        without: starts(options, without)?,
    };
    let format = if options.json { Format::Json } else { Format::Table };
    output::object(&format, &figures, "packages", || {
        let line = |name: &str, starts: &Starts| {
            format!(
                "{name}: {} fetched for {} tasks, {} ‰ start where their package is; start mean {} ms, p50 {} ms, \
                 p90 {} ms, p99 {} ms; at most {} tasks on a machine\n",
                Bytes(starts.fetched_mib << 20),
                starts.tasks,
                starts.there_permille,
                starts.mean_ms,
                starts.median_ms,
                starts.p90_ms,
                starts.p99_ms,
                starts.most_on_a_machine
            )
        };
        line("with the term for packages", &figures.with) + &line("without", &figures.without)
    })
}

/// Everything that is drawn.
struct DrawnPackages {
    /// In MiB.
    sizes: Vec<u64>,
    /// By job: the place of its package, the number of its tasks, the CPU of each in hundredths of a core.
    jobs: Vec<(usize, u32, u64)>,
}

impl DrawnPackages {
    fn new(options: &Options) -> Self {
        let mut random = Random::new(options.seed);
        let sizes: Vec<u64> = (0..options.packages).map(|_| random.within(10..1_001)).collect();
        let mut job = |_| {
            // The smaller of two: the first packages are popular.
            let package = random.index(sizes.len()).min(random.index(sizes.len()));
            let tasks = u32::try_from(random.within(1..6)).unwrap_or(1);
            (package, tasks, random.within(10..101))
        };
        let jobs = (0..options.jobs).map(&mut job).collect();
        Self { sizes, jobs }
    }

    /// The capacity of each machine, so that about half of the cell is left.
    fn capacity(&self, machines: u64) -> Resources {
        let all: u64 = self.jobs.iter().map(|(_, tasks, cpu)| u64::from(*tasks) * cpu).sum();
        // The largest task is a core.
        let cores = (2 * all).div_ceil(100 * machines).max(4);
        Resources {
            cpu: MilliCores(1_000 * cores),
            ram: Bytes(cores << 30),
            ..Resources::default()
        }
    }
}

/// A machine, as far as its packages matter.
#[derive(Default)]
struct Fetcher {
    /// By the place of the package: from when it is there.
    there: BTreeMap<usize, Time>,
    /// Until when it fetches what was asked for before.
    busy_until: Time,
    tasks: usize,
}

/// A cell with its scheduler.
struct PackageWorld {
    scheduler: Scheduler,
    user: UserName,
    sequence: u64,
    now: Time,
}

impl PackageWorld {
    fn new(options: &Options, drawn: &DrawnPackages, weights: Weights) -> anyhow::Result<Self> {
        let user = UserName::new("bench")?;
        let settings = Settings { weights, seed: options.seed, ..Settings::default() };
        let (scheduler, now) = (Scheduler::with(Cell::empty(), settings.clone()), Time(1));
        let mut world = Self { scheduler, user: user.clone(), sequence: 0, now };
        let (name, administrator) = (CellName::new("bench")?, user.clone());
        world.scheduler.follow(now, &Op::Bootstrap { name, administrator });
        world.scheduler.follow(now, &Op::OpenSession { user: user.clone() });
        let capacity = drawn.capacity(options.machines);
        for number in 1..=options.machines {
            let name = MachineName::new(&format!("m{number}"))?;
            world.request(AddMachine { name, address: format!("m{number}:1") }.into())?;
            let report = Arc::new(MachineReport { capacity, ..MachineReport::default() });
            let machine = MachineId(number);
            world.scheduler.follow(now, &Op::DescribeMachine { machine, report });
        }
        for (place, size) in drawn.sizes.iter().enumerate() {
            let size = Bytes(size << 20);
            let package = Package {
                id: package(&user, place)?,
                digest: digest(place),
                kind: PackageKind::Files,
                stored: size,
                unpacked: size,
                entries: 1,
                readers: PackageReaders::default(),
                architectures: BTreeSet::new(),
            };
            world.request(SetPackage(Arc::new(package)).into())?;
        }
        Ok(world)
    }

    fn request(&mut self, mutation: Mutation) -> anyhow::Result<()> {
        self.sequence += 1;
        let id = RequestId { session: SessionId(1), sequence: self.sequence };
        let op = Op::Request { id, by: self.user.clone(), mutation };
        match self.scheduler.follow(self.now, &op).outcome {
            Outcome::Request(Ok(_)) => Ok(()),
            other => anyhow::bail!("the cell rejected an operation of the benchmark: {other:?}"),
        }
    }
}

fn package(user: &UserName, place: usize) -> anyhow::Result<PackageId> {
    Ok(format!("{user}/p{place}@1").parse()?)
}

fn digest(place: usize) -> Digest {
    let mut bytes = [0; Digest::BYTES];
    for (byte, of_place) in bytes.iter_mut().zip(place.to_be_bytes()) {
        *byte = of_place;
    }
    Digest::from_bytes(bytes)
}

/// Starts all tasks with these weights.
fn starts(options: &Options, weights: Weights) -> anyhow::Result<Starts> {
    let drawn = DrawnPackages::new(options);
    let mut world = PackageWorld::new(options, &drawn, weights)?;
    let mut machines: BTreeMap<MachineId, Fetcher> = BTreeMap::new();
    let (mut waits, mut fetched, mut there) = (Vec::new(), 0, 0);
    for (number, (place, tasks, cpu)) in drawn.jobs.iter().enumerate() {
        world.now = world.now + Span::from_millis(options.interval);
        let mut task = TaskSpec::of(vec!["serve".to_owned()]);
        task.limit.cpu = MilliCores(10 * cpu);
        task.limit.ram = Bytes((10 * cpu) << 20);
        let reference: PackageReference = format!("p{place}@1").parse()?;
        task.packages.insert(reference);
        let name = JobName::new(&format!("job-{number}"))?;
        let spec = JobSpec::of(name, Band::Production.usual(), *tasks, task);
        world.request(Mutation::Submit(Arc::new(spec)))?;
        let plan = world.scheduler.pass(world.now);
        ensure!(
            plan.assignments.len() == usize::try_from(*tasks)?,
            "a job does not fit: give the cell more machines"
        );
        for assignment in &plan.assignments {
            let machine = machines.entry(assignment.machine).or_default();
            machine.tasks += 1;
            let size = *drawn.sizes.get(*place).context("a package")?;
            let at = match machine.there.get(place) {
                Some(at) => {
                    there += usize::from(*at <= world.now);
                    *at
                }
                None => {
                    fetched += size;
                    let takes = Span::from_millis(size * 1_000 / options.rate);
                    let at = machine.busy_until.max(world.now) + takes;
                    machine.busy_until = at;
                    machine.there.insert(*place, at);
                    at
                }
            };
            waits.push(at.since(world.now).0 / 1_000);
            let held = |(place, _): (&usize, &Time)| {
                let size = Bytes(drawn.sizes.get(*place).copied().unwrap_or_default() << 20);
                let package = digest(*place).prefix();
                HeldPackage { package, bytes: size, needs: size, held_use: HeldUse::InUse }
            };
            let held: Arc<[HeldPackage]> = machine.there.iter().map(held).collect();
            world.scheduler.set_held(assignment.machine, &held);
        }
        let applied = world.scheduler.follow(world.now, &Op::assign(plan.assignments));
        if let Outcome::Assigned(judged) = &applied.outcome {
            let refused = judged.iter().find_map(|one| one.as_ref().err());
            ensure!(refused.is_none(), "the cell rejected an assignment: {refused:?}");
        }
    }
    waits.sort_unstable();
    let at = |percent: usize| waits.get((waits.len() * percent).div_ceil(100).max(1) - 1).copied();
    let count = waits.len();
    Ok(Starts {
        tasks: count,
        fetched_mib: fetched,
        there_permille: there * 1_000 / count.max(1),
        mean_ms: waits.iter().sum::<u64>() / u64::try_from(count.max(1))?,
        median_ms: at(50).unwrap_or_default(),
        p90_ms: at(90).unwrap_or_default(),
        p99_ms: at(99).unwrap_or_default(),
        most_on_a_machine: machines.values().map(|machine| machine.tasks).max().unwrap_or(0),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_term_saves_fetches_and_the_same_seed_gives_the_same() {
        let (machines, jobs, packages, rate, interval) = (60, 150, 12, 100, 100);
        let options = Options { machines, jobs, packages, rate, interval, seed: 3, json: false };
        let with = starts(&options, Weights::default()).expect("it fits");
        let none = Weights { packages: 0, ..Weights::default() };
        let without = starts(&options, none).expect("it fits");
        assert_eq!(with.tasks, without.tasks);
        assert!(with.fetched_mib < without.fetched_mib, "{with:?}, without the term {without:?}");
        assert!(with.mean_ms < without.mean_ms, "{with:?}, without the term {without:?}");
        let again = starts(&options, Weights::default()).expect("it fits");
        assert_eq!(with.fetched_mib, again.fetched_mib);
    }
}
