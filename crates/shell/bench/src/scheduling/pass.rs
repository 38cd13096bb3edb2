//! `bourg bench pass`: scheduling passes while tasks come and go.
//!
//! The cell gets just enough machines to leave as many tasks pending as in the trace (in a drawn
//! cell, one in twelve): it is full, and its queue is long. Then every hundredth of a second some
//! tasks end and as many arrive, each drawn from those of the trace, and a pass runs. Measures the
//! time of the pass, and separately that of following the operations. Evicted tasks end at once and
//! become pending again.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use cell::{
    Cell, EventKind, Mutation, Observation, Op, Outcome, Reply, RequestId, StopReason, Subject,
    TaskState,
};
use clap::Args;
use command::Done;
use command::output::{self, Format};
use model::Random;
use model::{
    CollectionId, End, InstanceId, JobName, MachineId, SessionId, Span, TaskIndex, Time, UserName,
};
use scheduler::Scheduler;
use serde::Serialize;
use spec::JobSpec;
use trace::{CellSnapshot, PerMille};

use super::input::{Maker, NOW, STATEMENT, Source, reservations};
use super::run::{Spent, Stopwatch, from_scratch, peak_rss_bytes};

/// The options.
#[derive(Debug, Args)]
pub(crate) struct Options {
    #[command(flatten)]
    source: Source,
    /// The number of tasks that arrive per second, equal to the number that end.
    #[arg(long, default_value_t = 1_000)]
    rate: u64,
    /// The number of passes, a hundredth of a second apart.
    #[arg(long, default_value_t = 2_000)]
    passes: u64,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// The time from one pass to the next.
const PERIOD: Span = Span(10_000);

/// The results.
#[derive(Debug, Serialize)]
struct Figures {
    cell: String,
    reservations: &'static str,
    seed: u64,
    machines: usize,
    tasks: u64,
    /// When the passes began: on machines, and in the queue.
    placed: usize,
    pending: usize,
    pending_at_the_end: usize,
    passes: u64,
    arrivals: u64,
    departures: u64,
    placements: usize,
    evictions: usize,
    pass_cpu_ms_p50: f64,
    pass_cpu_ms_p99: f64,
    pass_cpu_ms_max: f64,
    pass_ms_p50: f64,
    pass_ms_p99: f64,
    pass_ms_max: f64,
    /// A pass without news, in microseconds: the median.
    idle_pass_us: f64,
    /// Following the operations, in total.
    following_cpu_seconds: f64,
    seconds: f64,
    cpu_seconds: f64,
    placements_per_second: f64,
    peak_rss_bytes: u64,
}

/// Runs the benchmark and prints the results.
pub(crate) fn measure(options: &Options) -> Done {
    let figures = figures(options)?;
    let format = if options.json { Format::Json } else { Format::Table };
    output::object(&format, &figures, "pass", || {
        format!(
            "{}: {} machines, {} tasks placed, {} in the queue\n{}\n{} passes, {} arrivals and \
             departures: {:.2} ms of CPU (median), {:.2} ms (99 %), {:.2} ms (longest); {} placed, \
             {} evicted; without news {:.0} µs\n",
            figures.cell,
            figures.machines,
            figures.placed,
            figures.pending,
            figures.reservations,
            figures.passes,
            figures.arrivals,
            figures.pass_cpu_ms_p50,
            figures.pass_cpu_ms_p99,
            figures.pass_cpu_ms_max,
            figures.placements,
            figures.evictions,
            figures.idle_pass_us
        )
    })
}

/// A cell in which tasks come and go.
struct World {
    scheduler: Scheduler,
    now: Time,
    sessions: BTreeMap<UserName, (SessionId, u64)>,
    /// Templates for arriving tasks.
    like: Vec<(UserName, Arc<JobSpec>, TaskIndex)>,
    running: Vec<(InstanceId, MachineId)>,
    arrived: u64,
    random: Random,
    following: Spent,
    evictions: usize,
}

/// A cell with the largest number of machines that leaves this many tasks pending.
fn full(
    options: &Options,
    snapshot: &CellSnapshot,
    pending: usize,
) -> anyhow::Result<(Scheduler, usize)> {
    let jobs = Maker::with_jobs(snapshot)?;
    let all = snapshot.machines.len();
    let (mut few, mut many) = (0, all);
    let mut fullest = None;
    // A small difference in machines does not matter.
    while many - few > all / 500 + 1 {
        let tried = usize::midpoint(few, many);
        // Machines at equal distances, to keep every kind.
        let chosen: Vec<usize> = (0..tried).map(|nth| nth * all / tried).collect();
        let made = jobs.clone().with_machines(snapshot, &chosen)?;
        let run = from_scratch(made.cell, options.source.settings(), usize::MAX)?;
        if run.pending >= pending {
            few = tried;
            fullest = Some((run.scheduler, run.pending));
        } else {
            many = tried;
        }
    }
    fullest.context("no subset of the machines is full")
}

fn figures(options: &Options) -> anyhow::Result<Figures> {
    let source = &options.source;
    let snapshot = source.read()?;
    let tasks = snapshot.tasks().count();
    let most = match source.trace {
        Some(_) => snapshot.pending(),
        None => tasks / 12,
    };
    let (scheduler, pending) = full(options, &snapshot, most)?;
    // Templates are weighted by tasks: a job of a thousand tasks is a thousand times as likely.
    let like = snapshot.jobs.iter().flat_map(|job| {
        let spec = Arc::new(job.spec(PerMille::ALL));
        let indexes = (0..spec.tasks).map(TaskIndex).collect::<Vec<_>>();
        indexes.into_iter().map(move |index| (job.owner.clone(), Arc::clone(&spec), index))
    });
    let mut world = World {
        now: NOW,
        sessions: BTreeMap::new(),
        like: like.collect(),
        running: running(scheduler.cell()),
        arrived: 0,
        random: Random::new(source.seed),
        following: Spent::default(),
        evictions: 0,
        scheduler,
    };
    drop(snapshot);
    let (machines, placed) = (world.scheduler.cell().machine_count(), world.running.len());
    let each = options.rate * PERIOD.0 / 1_000_000;
    let mut passes: Vec<Spent> = Vec::new();
    let mut placements = 0;
    let watch = Stopwatch::start()?;
    let mut left = 0;
    for _ in 0..options.passes {
        world.now = world.now + PERIOD;
        for _ in 0..each {
            world.depart()?;
            world.arrive()?;
        }
        let begun = Stopwatch::start()?;
        let plan = world.scheduler.pass(world.now);
        passes.push(begun.stop()?);
        placements += plan.assignments.len();
        left = plan.unplaced;
        world.place(plan.assignments)?;
    }
    let all = watch.stop()?;
    let idle: Vec<Spent> = (0..100)
        .map(|_| {
            let begun = Stopwatch::start()?;
            world.scheduler.pass(world.now);
            begun.stop()
        })
        .collect::<anyhow::Result<_>>()?;
    let cpu = |percent| percentile(passes.iter().map(|spent| spent.cpu), percent);
    let wall = |percent| percentile(passes.iter().map(|spent| spent.wall), percent);
    #[expect(clippy::cast_precision_loss, reason = "a rate, rounded")]
    let rate = placements as f64 / passes.iter().map(|spent| spent.cpu.as_secs_f64()).sum::<f64>();
    Ok(Figures {
        cell: source.says(),
        reservations: STATEMENT,
        seed: source.seed,
        machines,
        tasks: tasks as u64,
        placed,
        pending,
        pending_at_the_end: left,
        passes: options.passes,
        arrivals: world.arrived,
        departures: each * options.passes,
        placements,
        evictions: world.evictions,
        pass_cpu_ms_p50: cpu(50),
        pass_cpu_ms_p99: cpu(99),
        pass_cpu_ms_max: cpu(100),
        pass_ms_p50: wall(50),
        pass_ms_p99: wall(99),
        pass_ms_max: wall(100),
        idle_pass_us: percentile(idle.iter().map(|spent| spent.cpu), 50) * 1e3,
        following_cpu_seconds: world.following.cpu.as_secs_f64(),
        seconds: all.wall.as_secs_f64(),
        cpu_seconds: all.cpu.as_secs_f64(),
        placements_per_second: rate.round(),
        peak_rss_bytes: peak_rss_bytes()?,
    })
}

/// In milliseconds, nearest rank.
fn percentile(times: impl Iterator<Item = Duration>, percent: usize) -> f64 {
    let mut times: Vec<Duration> = times.collect();
    times.sort_unstable();
    let time = crate::nearest_rank(&times, percent);
    (time.as_secs_f64() * 1e6).round() / 1e3
}

fn running(cell: &Cell) -> Vec<(InstanceId, MachineId)> {
    let of_job = |job: &Arc<cell::Job>| {
        let placed = job.tasks().filter_map(|(index, task)| match &task.state {
            TaskState::Running(placement) => Some((job.instance(index)?, placement.machine)),
            _ => None,
        });
        placed.collect::<Vec<_>>()
    };
    cell.jobs().flat_map(of_job).collect()
}

impl World {
    fn follow(&mut self, op: &Op) -> anyhow::Result<cell::Applied> {
        let begun = Stopwatch::start()?;
        let applied = self.scheduler.follow(self.now, op);
        self.following = self.following.plus(begun.stop()?);
        Ok(applied)
    }

    /// A task ends on its own.
    fn depart(&mut self) -> anyhow::Result<()> {
        while !self.running.is_empty() {
            let which = usize::try_from(self.random.below(self.running.len() as u64)).unwrap_or(0);
            let (instance, machine) = self.running.swap_remove(which);
            if self.scheduler.cell().placement(instance).is_some() {
                let end = End::Exited { code: 0 };
                self.end(instance, machine, end)?;
                break;
            }
        }
        Ok(())
    }

    fn end(&mut self, instance: InstanceId, machine: MachineId, end: End) -> anyhow::Result<()> {
        let observations =
            vec![Observation::Ended { instance, end, usage: model::FinalUsage::UNMEASURED }];
        self.follow(&Op::Observe { machine, observations })?;
        Ok(())
    }

    /// A job of one task arrives, drawn from the templates.
    fn arrive(&mut self) -> anyhow::Result<()> {
        let which = usize::try_from(self.random.below(self.like.len() as u64)).unwrap_or(0);
        let (user, like, index) = self.like.get(which).cloned().context("no tasks")?;
        self.arrived += 1;
        let spec = JobSpec::of(
            JobName::new(&format!("arrived-{}", self.arrived))?,
            like.priority,
            1,
            like.task(index).into_owned(),
        );
        if !self.sessions.contains_key(&user) {
            let opened = self.follow(&Op::OpenSession { user: user.clone() })?.outcome;
            let Outcome::Request(Ok(Reply::Session(session))) = opened else {
                anyhow::bail!("{opened:?}")
            };
            self.sessions.insert(user.clone(), (session, 0));
        }
        let (session, sequence) = self.sessions.get_mut(&user).context("a session")?;
        *sequence += 1;
        let id = RequestId { session: *session, sequence: *sequence };
        let spec = Arc::new(spec);
        let mutation = Mutation::Submit(Arc::clone(&spec));
        let outcome = self.follow(&Op::Request { id, by: user, mutation })?.outcome;
        let Outcome::Request(Ok(Reply::Submitted { collection, .. })) = outcome else {
            anyhow::bail!("{outcome:?}")
        };
        self.reserve(collection, &spec)
    }

    fn reserve(&mut self, collection: CollectionId, spec: &JobSpec) -> anyhow::Result<()> {
        self.follow(&reservations(collection, spec)).map(drop)
    }

    /// Applies the plan; evicted tasks end at once.
    fn place(&mut self, assignments: Vec<cell::Assignment>) -> anyhow::Result<()> {
        if assignments.is_empty() {
            return Ok(());
        }
        self.running.extend(assignments.iter().map(|one| (one.instance, one.machine)));
        let applied = self.follow(&Op::assign(assignments))?;
        if let Outcome::Assigned(judged) = &applied.outcome {
            let refused = judged.iter().find_map(|one| one.as_ref().err());
            anyhow::ensure!(refused.is_none(), "the cell rejected an assignment: {refused:?}");
        }
        for event in &applied.events {
            if let (Subject::Task(victim), EventKind::Stop { why: StopReason::Evict(_) }) =
                (event.subject, &event.kind)
                && let Some(placement) = self.scheduler.cell().placement(victim)
            {
                let machine = placement.machine;
                self.evictions += 1;
                self.end(victim, machine, End::Stopped)?;
            }
        }
        Ok(())
    }
}
