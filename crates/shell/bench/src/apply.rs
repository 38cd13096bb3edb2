//! `bourg bench apply`: how fast the state machine is, what a snapshot costs it, and how large it is.
//!
//! A cell of the size that is asked for is filled: machines, jobs (three of four have one task, the
//! rest twenty, and one in four hundred a thousand, which is about as uneven as the published cells),
//! every task placed on a machine drawn by the seed. Then lives go round, one task an operation:
//! a task starts, fails, and is placed on another machine. What is measured is [`Cell::apply`] on one
//! core; how the operations came about is not. While this goes on, a view of the cell is written to a
//! checkpoint by another thread, as a master does, and the longest that a single operation took then
//! is the pause of the writer.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use cell::{Assignment, Cell, Mutation, Observation, Op, Outcome, Reply, RequestId};
use checkpoint::Origin;
use cli::Done;
use cli::output::{self, Format};
use model::{
    Bytes, CellName, CollectionId, End, Generation, InstanceId, JobName, MachineId, MachineName,
    MachineReport, MilliCores, Resources, SessionId, Span, TaskId, TaskIndex, Term, Time, UserName,
};
use serde::Serialize;
use spec::{JobSpec, TaskSpec};
use store::DataDirectory;

use super::thread_time;

/// What is to be measured.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Size {
    pub(crate) machines: u64,
    pub(crate) tasks: u32,
    pub(crate) operations: u64,
    pub(crate) seed: u64,
}

/// What was found.
#[derive(Debug, Serialize)]
struct Found {
    machines: u64,
    jobs: usize,
    tasks: u64,
    operations: u64,
    /// On one core, by the CPU time of the thread that applies.
    operations_per_second: f64,
    /// The same by the clock: less where others use the machine too.
    operations_per_second_wall: f64,
    /// The same while a snapshot is written, when what it holds is copied before it is changed.
    operations_per_second_while_writing: f64,
    snapshot_bytes: u64,
    snapshot_write_ms: f64,
    snapshot_read_ms: f64,
    writer_pause_ms_max: f64,
    /// The resident memory that the cell has added to this process.
    state_bytes: u64,
    state_hash: String,
}

/// How many operations are made, outside the measured time, and then applied, inside it.
const BATCH: usize = 3_000;

/// Fills a cell, and measures it.
pub(crate) fn apply(size: Size, json: bool) -> Done {
    let found = measure(size)?;
    let format = if json { Format::Json } else { Format::Table };
    output::object(&format, &found, "apply", || {
        format!(
            "{} machines, {} tasks: {:.0} operations a second; state {}; snapshot of {} written in \
             {:.0} ms, the writer paused at most {:.2} ms; read in {:.0} ms\n",
            found.machines,
            found.tasks,
            found.operations_per_second,
            Bytes(found.state_bytes),
            Bytes(found.snapshot_bytes),
            found.snapshot_write_ms,
            found.writer_pause_ms_max,
            found.snapshot_read_ms
        )
    })
}

fn measure(size: Size) -> anyhow::Result<Found> {
    let path = std::env::temp_dir().join(format!("bourg-bench-apply-{}", std::process::id()));
    let measured = DataDirectory::create(&path)
        .map_err(anyhow::Error::from)
        .and_then(|directory| measure_in(size, &directory.checkpoints()));
    fs::remove_dir_all(&path).with_context(|| format!("cannot remove {}", path.display()))?;
    measured
}

fn measure_in(size: Size, checkpoints: &Path) -> anyhow::Result<Found> {
    let before = resident()?;
    let mut world = World::filled(size, |id| format!("m{id}:1"))?;
    let state_bytes = resident()?.saturating_sub(before);

    let mut spent = Spent::default();
    while spent.operations < size.operations {
        world.turn(&mut spent);
    }
    // How many operations come while the snapshot is written is not the seed's alone.
    let state_hash = proto::image::state_hash(&world.cell).to_string();
    let (view, directory) = (world.cell.clone(), checkpoints.to_owned());
    let begun = Instant::now();
    let writing = std::thread::spawn(move || {
        let origin = Origin { term: Term(1), restore_epoch: 0 };
        checkpoint::write_in(&directory, &view.image(), origin).map(|()| begun.elapsed())
    });
    let mut meanwhile = Spent::default();
    while !writing.is_finished() || meanwhile.operations == 0 {
        world.turn(&mut meanwhile);
    }
    let written = writing.join().map_err(|_| anyhow::anyhow!("the writer panicked"))??;

    let newest = store::checkpoint::list(checkpoints)?;
    let newest = newest.first().context("no checkpoint was written")?;
    let begun = Instant::now();
    let (read, _) = checkpoint::read(&newest.path)?;
    let read_in = begun.elapsed();
    ensure!(read.task_count() == world.cell.task_count(), "the checkpoint is not whole");
    let violations = world.cell.check();
    ensure!(violations.is_empty(), "the cell is not whole: {violations:?}");
    Ok(Found {
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

/// Time that went into applying operations.
#[derive(Debug, Default)]
struct Spent {
    operations: u64,
    cpu: Duration,
    wall: Duration,
    /// The longest that one operation took.
    longest: Duration,
}

/// Where a task is now.
#[derive(Clone, Copy)]
struct Life {
    task: TaskId,
    generation: u32,
    machine: u64,
}

impl Life {
    fn instance(&self) -> InstanceId {
        self.task.generation(Generation(self.generation))
    }

    fn assigned(&self) -> Op {
        let (instance, machine) = (self.instance(), MachineId(self.machine));
        Op::Assign(vec![Assignment {
            instance,
            alloc: None,
            machine,
            ports: vec![],
            victims: vec![],
        }])
    }

    fn observed(&self, observation: Observation) -> Op {
        Op::Observe { machine: MachineId(self.machine), observations: vec![observation] }
    }
}

/// A cell, and where its tasks are.
struct World {
    cell: Cell,
    now: Time,
    lives: Vec<Life>,
    machines: u64,
    random: u64,
    user: UserName,
    sequence: u64,
}

/// A cell of that size, whose machines are at these addresses.
pub(super) fn filled(size: Size, address: fn(u64) -> String) -> anyhow::Result<Cell> {
    World::filled(size, address).map(|world| world.cell)
}

impl World {
    fn filled(size: Size, address: fn(u64) -> String) -> anyhow::Result<Self> {
        ensure!(size.machines > 0 && size.tasks > 0, "a cell needs machines and tasks");
        let user = UserName::new("bench")?;
        let mut world = Self {
            cell: Cell::empty(),
            now: Time::ZERO,
            lives: Vec::with_capacity(size.tasks as usize),
            machines: size.machines,
            // The generator needs a state that is not 0.
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
            world.request(Mutation::AddMachine { name, address });
            let report = Arc::new(machine(size));
            world.apply(&Op::DescribeMachine { machine: MachineId(id), report });
        }
        let mut jobs = 0_u32;
        while world.lives.len() < size.tasks as usize {
            jobs += 1;
            let left = size.tasks - u32::try_from(world.lives.len())?;
            world.job(jobs, job_size(jobs).min(left))?;
        }
        Ok(world)
    }

    fn job(&mut self, number: u32, tasks: u32) -> anyhow::Result<()> {
        let mut task = TaskSpec::of(vec!["serve".to_owned(), "--index=${task.index}".to_owned()]);
        task.limit.cpu = MilliCores(10);
        let name = JobName::new(&format!("job-{number}"))?;
        let mut spec = JobSpec::of(name, model::Band::Production.usual(), tasks, task);
        (spec.restart.failures_max, spec.restart.delay) = (None, Span::ZERO);
        let collection = self.request(Mutation::Submit(Arc::new(spec)));
        let collection = collection.context("a job was refused")?;
        for index in (0..tasks).map(TaskIndex) {
            let task = TaskId { collection, index };
            let incarnation = Life { task, generation: 1, machine: self.any_machine() };
            self.apply(&incarnation.assigned());
            ensure!(self.cell.placement(incarnation.instance()).is_some(), "a task was not placed");
            self.lives.push(incarnation);
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

    /// The next number of a generator that is the same everywhere (xorshift64).
    fn draw(&mut self, below: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random % below.max(1)
    }

    fn any_machine(&mut self) -> u64 {
        1 + self.draw(self.machines)
    }

    /// Some tasks start, then fail, and then are placed elsewhere.
    fn turn(&mut self, spent: &mut Spent) {
        let mut steps: [Vec<Op>; 3] = std::array::from_fn(|_| Vec::with_capacity(BATCH / 3));
        for _ in 0..BATCH / 3 {
            let position = usize::try_from(self.draw(self.lives.len() as u64)).unwrap_or(0);
            let machine = self.any_machine();
            let incarnation = &mut self.lives[position];
            let instance = incarnation.instance();
            let end = End::Exited { code: 1 };
            steps[0].push(incarnation.observed(Observation::Started { instance }));
            steps[1].push(incarnation.observed(Observation::Ended {
                instance,
                end,
                usage: model::FinalUsage::UNMEASURED,
            }));
            (incarnation.generation, incarnation.machine) = (incarnation.generation + 1, machine);
            steps[2].push(incarnation.assigned());
        }
        for ops in steps {
            let (cpu, begun) = (thread_time(), Instant::now());
            let mut last = begun;
            for op in &ops {
                self.apply(op);
                let now = Instant::now();
                spent.longest = spent.longest.max(now - last);
                last = now;
            }
            spent.operations += ops.len() as u64;
            spent.wall += begun.elapsed();
            spent.cpu += thread_time().saturating_sub(cpu);
        }
    }
}

/// One task for three jobs of four, twenty for the others, and a thousand for one in four hundred.
fn job_size(number: u32) -> u32 {
    match number {
        _ if number.is_multiple_of(400) => 1_000,
        _ if number.is_multiple_of(4) => 20,
        _ => 1,
    }
}

/// A machine that holds its share of the tasks several times over.
fn machine(size: Size) -> MachineReport {
    let share = 16 * (1 + u64::from(size.tasks) / size.machines);
    let capacity = Resources {
        cpu: MilliCores(10 * share),
        ram: Bytes((64 << 20) * share),
        ..Resources::default()
    };
    MachineReport { capacity, ..MachineReport::default() }
}

#[expect(clippy::cast_precision_loss, reason = "a rate, rounded when it is shown")]
fn rate(operations: u64, time: Duration) -> f64 {
    (operations as f64 / time.as_secs_f64().max(1e-9)).round()
}

fn milliseconds(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e6).round() / 1e3
}

/// The resident memory of this process.
fn resident() -> anyhow::Result<u64> {
    let pages = fs::read_to_string("/proc/self/statm").context("cannot read /proc/self/statm")?;
    let pages = pages.split_whitespace().nth(1).context("/proc/self/statm says too little")?;
    let page = nix::unistd::sysconf(nix::unistd::SysconfVar::PAGE_SIZE)?.unwrap_or(4_096);
    Ok(pages.parse::<u64>()? * u64::try_from(page)?)
}
