//! `bourg bench apply`: throughput of the state machine, cost of a snapshot, and size of the state.
//!
//! Fills a cell of the requested size: machines, jobs (three of four have one task, the rest
//! twenty, and one in four hundred a thousand, about as uneven as the published cells), and every
//! task placed on a machine drawn by the seed. Then the tasks take turns: one starts, fails, and is
//! placed on another machine. The benchmark measures [`Cell::apply`] on one core, without the
//! generation of operations. Meanwhile another thread writes a view of the cell to a checkpoint, as
//! a master does; the longest single operation in that time is the writer's pause.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use cell::{AddMachine, Assignment, Cell, Mutation, Observation, Op, Outcome, Reply, RequestId};
use checkpoint::Origin;
use command::Done;
use command::output::{self, Format};
use model::{
    Bytes, CellName, CollectionId, End, Generation, InstanceId, JobName, MachineId, MachineName,
    MachineReport, MilliCores, Resources, RestoreEpoch, SessionId, Span, TaskId, TaskIndex, Term,
    Time, UserName,
};
use serde::Serialize;
use spec::{JobSpec, RestartPolicy, TaskSpec};
use store::DataDirectory;

use super::thread_time;

/// The size of the cell and of the measurement.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ApplySize {
    pub(crate) machines: u64,
    pub(crate) tasks: u32,
    pub(crate) operations: u64,
    pub(crate) seed: u64,
    /// The CPU of a task and of a machine, in units of the smallest: estimates need fine amounts.
    pub(crate) cores: u64,
}

/// The results.
#[derive(Debug, Serialize)]
struct Figures {
    machines: u64,
    jobs: usize,
    tasks: u64,
    operations: u64,
    /// On one core, by CPU time of the applying thread.
    operations_per_second: f64,
    /// The same by wall-clock time: lower if others use the machine.
    operations_per_second_wall: f64,
    /// The same while a snapshot is written, so that changed state must be copied first.
    operations_per_second_while_writing: f64,
    snapshot_bytes: u64,
    snapshot_write_ms: f64,
    snapshot_read_ms: f64,
    writer_pause_ms_max: f64,
    /// The resident memory that the cell adds to this process.
    state_bytes: u64,
    state_hash: String,
}

/// How many operations are generated, unmeasured, before they are applied, measured.
const BATCH: usize = 3_000;

/// Fills a cell, and measures it.
pub(crate) fn apply(size: ApplySize, json: bool) -> Done {
    let figures = measure(size)?;
    let format = if json { Format::Json } else { Format::Table };
    output::object(&format, &figures, "apply", || {
        format!(
            "{} machines, {} tasks: {:.0} operations per second; state {}; snapshot of {} written in \
             {:.0} ms, the writer paused for at most {:.2} ms; read in {:.0} ms\n",
            figures.machines,
            figures.tasks,
            figures.operations_per_second,
            Bytes(figures.state_bytes),
            Bytes(figures.snapshot_bytes),
            figures.snapshot_write_ms,
            figures.writer_pause_ms_max,
            figures.snapshot_read_ms
        )
    })
}

fn measure(size: ApplySize) -> anyhow::Result<Figures> {
    let path = std::env::temp_dir().join(format!("bourg-bench-apply-{}", std::process::id()));
    let measured = DataDirectory::create(&path)
        .map_err(anyhow::Error::from)
        .and_then(|directory| measure_in(size, &directory.checkpoints()));
    fs::remove_dir_all(&path).with_context(|| format!("cannot remove {}", path.display()))?;
    measured
}

fn measure_in(size: ApplySize, checkpoints: &Path) -> anyhow::Result<Figures> {
    let before = resident()?;
    let mut world = World::filled(size, |id| format!("m{id}:1"))?;
    let state_bytes = resident()?.saturating_sub(before);

    let mut spent = Spent::default();
    while spent.operations < size.operations {
        world.turn(&mut spent)?;
    }
    // The number of operations during the snapshot does not depend on the seed alone.
    let state_hash = formats::image::state_hash(&world.cell).to_string();
    let (view, directory) = (world.cell.clone(), checkpoints.to_owned());
    let begun = Instant::now();
    let writing = std::thread::spawn(move || {
        let origin = Origin { term: Term(1), restore_epoch: RestoreEpoch::NEVER };
        checkpoint::write_in(&directory, &view.image(), origin).map(|()| begun.elapsed())
    });
    let mut meanwhile = Spent::default();
    while !writing.is_finished() || meanwhile.operations == 0 {
        world.turn(&mut meanwhile)?;
    }
    let written = writing.join().map_err(|_| anyhow::anyhow!("the writer panicked"))??;

    let newest = store::checkpoint::list(checkpoints)?;
    let newest = newest.first().context("no checkpoint was written")?;
    let begun = Instant::now();
    let (read, _) = checkpoint::read(&newest.path)?;
    let read_in = begun.elapsed();
    ensure!(read.task_count() == world.cell.task_count(), "the checkpoint is incomplete");
    let violations = world.cell.check();
    ensure!(violations.is_empty(), "the cell is inconsistent: {violations:?}");
    Ok(Figures {
        machines: size.machines,
        jobs: world.cell.job_count(),
        tasks: world.cell.task_count(),
        operations: spent.operations,
        operations_per_second: rate(spent.operations, spent.cpu),
        operations_per_second_wall: rate(spent.operations, spent.wall),
        operations_per_second_while_writing: rate(meanwhile.operations, meanwhile.cpu),
        snapshot_bytes: fs::metadata(&newest.path)?.len(),
        snapshot_write_ms: milliseconds(written),
        snapshot_read_ms: milliseconds(read_in),
        writer_pause_ms_max: milliseconds(meanwhile.longest),
        state_bytes,
        state_hash,
    })
}

/// Time spent applying operations.
#[derive(Debug, Default)]
struct Spent {
    operations: u64,
    cpu: Duration,
    wall: Duration,
    /// The longest time of a single operation.
    longest: Duration,
}

/// The current incarnation of a task.
#[derive(Clone, Copy)]
struct Incarnation {
    task: TaskId,
    generation: u32,
    machine: u64,
}

impl Incarnation {
    fn instance(&self) -> InstanceId {
        self.task.generation(Generation(self.generation))
    }

    fn assigned(&self) -> Op {
        let (instance, machine) = (self.instance(), MachineId(self.machine));
        Op::assign(vec![Assignment {
            instance,
            alloc: None,
            machine,
            address: None,
            ports: vec![],
            victims: vec![],
        }])
    }

    fn observed(&self, observation: Observation) -> Op {
        Op::Observe { machine: MachineId(self.machine), observations: vec![observation] }
    }
}

/// A cell, and the placement of its tasks.
struct World {
    cell: Cell,
    now: Time,
    incarnations: Vec<Incarnation>,
    machines: u64,
    cores: u64,
    random: u64,
    user: UserName,
    sequence: u64,
}

/// A cell of this size, with these machine addresses.
pub(super) fn filled(size: ApplySize, address: fn(u64) -> String) -> anyhow::Result<Cell> {
    World::filled(size, address).map(|world| world.cell)
}

impl World {
    fn filled(size: ApplySize, address: fn(u64) -> String) -> anyhow::Result<Self> {
        ensure!(size.machines > 0 && size.tasks > 0, "a cell needs machines and tasks");
        let user = UserName::new("bench")?;
        let mut world = Self {
            cell: Cell::empty(),
            now: Time::ZERO,
            incarnations: Vec::with_capacity(size.tasks as usize),
            machines: size.machines,
            cores: size.cores,
            // The generator's state must not be 0.
            random: size.seed | 1 << 63,
            user: user.clone(),
            sequence: 0,
        };
        let name = CellName::new("bench")?;
        world.apply(&Op::Bootstrap { name, administrator: user.clone() });
        world.apply(&Op::OpenSession { user });
        for id in 1..=size.machines {
            let name = MachineName::new(&format!("m{id}"))?;
            let address = address(id);
            world.request(Mutation::AddMachine(AddMachine { name, address }));
            let report = Arc::new(machine(size));
            world.apply(&Op::DescribeMachine { machine: MachineId(id), report });
        }
        let mut jobs = 0_u32;
        while world.incarnations.len() < size.tasks as usize {
            jobs += 1;
            let left = size.tasks - u32::try_from(world.incarnations.len())?;
            world.job(jobs, job_size(jobs).min(left))?;
        }
        Ok(world)
    }

    fn job(&mut self, number: u32, tasks: u32) -> anyhow::Result<()> {
        let mut task = TaskSpec::of(vec!["serve".to_owned(), "--index=${task.index}".to_owned()]);
        task.limit.cpu = MilliCores(10 * self.cores);
        let name = JobName::new(&format!("job-{number}"))?;
        let mut spec = JobSpec::of(name, model::Band::Production.usual(), tasks, task);
        // The cell's minimum of the delay, however often a task has failed.
        let (delay, delay_max) = (Span::ZERO, Span::ZERO);
        spec.restart =
            RestartPolicy { failures_max: None, delay, delay_max, ..RestartPolicy::default() };
        let collection = self.request(Mutation::Submit(Arc::new(spec)));
        let collection = collection.context("a job was rejected")?;
        for index in (0..tasks).map(TaskIndex) {
            let task = TaskId { collection, index };
            let incarnation = Incarnation { task, generation: 1, machine: self.any_machine() };
            self.apply(&incarnation.assigned());
            ensure!(self.cell.placement(incarnation.instance()).is_some(), "a task was not placed");
            self.incarnations.push(incarnation);
        }
        Ok(())
    }

    fn apply(&mut self, op: &Op) -> Outcome {
        self.now = self.now + Span(10);
        self.cell.apply(self.now, op).outcome
    }

    fn request(&mut self, mutation: Mutation) -> Option<CollectionId> {
        self.sequence += 1;
        let id = RequestId { session: SessionId(1), sequence: self.sequence };
        let by = self.user.clone();
        match self.apply(&Op::Request { id, by, mutation }) {
            Outcome::Request(Ok(Reply::Submitted { collection, .. })) => Some(collection),
            _ => None,
        }
    }

    /// The next number of a portable generator (xorshift64).
    fn draw(&mut self, below: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random % below.max(1)
    }

    fn any_machine(&mut self) -> u64 {
        1 + self.draw(self.machines)
    }

    /// Some tasks start, then fail, and are placed elsewhere.
    fn turn(&mut self, spent: &mut Spent) -> anyhow::Result<()> {
        let mut drawn = BTreeSet::new();
        let mut steps: [Vec<Op>; 3] = std::array::from_fn(|_| Vec::with_capacity(BATCH / 3));
        for _ in 0..BATCH / 3 {
            let position = usize::try_from(self.draw(self.incarnations.len() as u64)).unwrap_or(0);
            if !drawn.insert(position) {
                continue;
            }
            let machine = self.any_machine();
            let incarnation = &mut self.incarnations[position];
            let instance = incarnation.instance();
            let end = End::Exited { code: 1 };
            steps[0].push(incarnation.observed(Observation::started(instance)));
            steps[1].push(incarnation.observed(Observation::Ended {
                instance,
                end,
                usage: model::FinalUsage::UNMEASURED,
            }));
            (incarnation.generation, incarnation.machine) = (incarnation.generation + 1, machine);
            steps[2].push(incarnation.assigned());
        }
        let mut rejected = false;
        for ops in steps {
            // A task that failed starts again after a second at the earliest.
            self.now = self.now + Span::from_secs(1);
            let (cpu, begun) = (thread_time(), Instant::now());
            let mut last = begun;
            for op in &ops {
                rejected |= is_rejected(&self.apply(op));
                let now = Instant::now();
                spent.longest = spent.longest.max(now - last);
                last = now;
            }
            spent.operations += ops.len() as u64;
            spent.wall += begun.elapsed();
            spent.cpu += thread_time().saturating_sub(cpu);
        }
        ensure!(!rejected, "an operation was rejected: what was measured is not what is applied");
        Ok(())
    }
}

/// Whether an assignment was rejected; observations of what is not there do nothing, and show up as
/// that.
fn is_rejected(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Assigned(answers) if answers.iter().any(Result::is_err))
}

/// One task for three jobs of four, twenty for the others, and a thousand for one in four hundred.
pub(super) fn job_size(number: u32) -> u32 {
    match number {
        _ if number.is_multiple_of(400) => 1_000,
        _ if number.is_multiple_of(4) => 20,
        _ => 1,
    }
}

/// A machine with several times the capacity that its share of the tasks needs.
fn machine(size: ApplySize) -> MachineReport {
    let share = 16 * (1 + u64::from(size.tasks) / size.machines);
    let capacity = Resources {
        cpu: MilliCores(10 * share * size.cores),
        ram: Bytes((64 << 20) * share),
        ..Resources::default()
    };
    MachineReport { capacity, ..MachineReport::default() }
}

#[expect(clippy::cast_precision_loss, reason = "a rate, rounded for display")]
fn rate(operations: u64, time: Duration) -> f64 {
    (operations as f64 / time.as_secs_f64().max(1e-9)).round()
}

fn milliseconds(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e6).round() / 1e3
}

/// The resident memory of this process.
pub(super) fn resident() -> anyhow::Result<u64> {
    let pages = fs::read_to_string("/proc/self/statm").context("cannot read /proc/self/statm")?;
    let pages = pages.split_whitespace().nth(1).context("/proc/self/statm says too little")?;
    let page = nix::unistd::sysconf(nix::unistd::SysconfVar::PAGE_SIZE)?.unwrap_or(4_096);
    Ok(pages.parse::<u64>()? * u64::try_from(page)?)
}
