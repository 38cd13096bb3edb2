//! The cell to schedule: a real one from Google's trace of 2011, or one drawn from the shapes of
//! 2019. It is built with operations, like every cell.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context;
use cell::{AddMachine, Cell, Mutation, Op, Outcome, Reply, RequestId, Reservation};
use clap::Args;
use model::{
    CellName, CollectionId, Generation, MachineId, MachineReport, Resources, SessionId, TaskId,
    TaskIndex, Time, UserName, attribute,
};
use placement::Settings;
use spec::Maximum;
use trace::shapes::{Shape, generate};
use trace::{CellSnapshot, PerMille};

use crate::trace_files;

/// The cell to schedule.
#[derive(Clone, Debug, Args)]
pub(crate) struct Source {
    /// The directory of Google's trace of 2011 (see docs/traces.md). Without it, a cell is drawn
    /// from a shape.
    #[arg(long, value_name = "DIRECTORY", conflicts_with_all = ["shape", "machines", "tasks"])]
    pub(crate) trace: Option<PathBuf>,
    /// The cell of 2019 whose machines and requests are drawn: 2019-a to 2019-h.
    #[arg(long, value_name = "SHAPE", default_value = "2019-a")]
    pub(crate) shape: String,
    /// The number of machines of the drawn cell.
    #[arg(long, default_value_t = 12_583)]
    pub(crate) machines: usize,
    /// The number of tasks of the drawn cell.
    #[arg(long, default_value_t = 144_339)]
    pub(crate) tasks: usize,
    /// The number of feasible machines that relaxed randomization compares.
    #[arg(long, default_value_t = Settings::default().enough)]
    pub(crate) enough: usize,
    /// The seed for drawing the cell, and for the scheduler.
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
}

/// The reservation of every task, as a fraction of its limit: the usage of most tasks is unknown.
pub(crate) const RESERVED: PerMille = PerMille(600);

/// The notice beside all figures of cells with such reservations.
pub(crate) const STATEMENT: &str = "the usage of most tasks is unknown: every task's reservation is 60 % of its \
    limit; production is placed by limits, the rest by reservations";

/// The time of all operations.
pub(crate) const NOW: Time = Time(1_000_000_000);

impl Source {
    /// The cell, as data.
    pub(crate) fn read(&self) -> anyhow::Result<CellSnapshot> {
        if let Some(directory) = &self.trace {
            return trace_files::snapshot(directory);
        }
        let shape = Shape::named(&self.shape).with_context(|| {
            let names: Vec<&str> = Shape::names().collect();
            format!("no shape '{}': use one of {}", self.shape, names.join(", "))
        })?;
        Ok(generate(&shape, self.machines, self.tasks, self.seed))
    }

    /// The scheduler's settings.
    pub(crate) fn settings(&self) -> Settings {
        Settings { seed: self.seed, enough: self.enough, ..Settings::default() }
    }

    /// The description of the cell in the output.
    pub(crate) fn says(&self) -> String {
        match &self.trace {
            Some(_) => "the real cell of Google's trace of 2011 at time 0".to_owned(),
            None => format!("calibrated synthetic, in the shape of {}", self.shape),
        }
    }
}

/// The chosen machines of a cell: indexes into the snapshot.
pub(crate) type Chosen<'a> = &'a [usize];

/// Builds a cell from some machines of a snapshot: bootstrapped, described, every job submitted in
/// the trace's order, nothing placed, and each task's reservation set. Machine n is the nth chosen
/// one, job n the nth of the snapshot.
pub(crate) fn cell(snapshot: &CellSnapshot, chosen: Chosen<'_>) -> anyhow::Result<Cell> {
    Ok(Maker::with_jobs(snapshot)?.with_machines(snapshot, chosen)?.cell)
}

/// All machines of a snapshot.
pub(crate) fn all(snapshot: &CellSnapshot) -> Vec<usize> {
    (0..snapshot.machines.len()).collect()
}

/// Builds a cell, operation by operation.
#[derive(Clone)]
pub(crate) struct Maker {
    pub(crate) cell: Cell,
    sessions: BTreeMap<UserName, (SessionId, u64)>,
    root: UserName,
}

impl Maker {
    fn begin() -> anyhow::Result<Self> {
        let root = UserName::new("root")?;
        let mut cell = Cell::empty();
        let name = CellName::new("bench")?;
        cell.apply(NOW, &Op::Bootstrap { name, administrator: root.clone() });
        Ok(Self { cell, sessions: BTreeMap::new(), root })
    }

    /// Goes on with a cell that was made before.
    pub(crate) fn of_cell(cell: Cell) -> anyhow::Result<Self> {
        Ok(Self { cell, sessions: BTreeMap::new(), root: UserName::new("root")? })
    }

    /// Submits a job that is not of a snapshot.
    pub(crate) fn submit_as(
        &mut self,
        owner: &UserName,
        spec: spec::JobSpec,
    ) -> anyhow::Result<CollectionId> {
        match self.request(owner, Mutation::Submit(Arc::new(spec)))? {
            Reply::Submitted { collection, .. } => Ok(collection),
            other => anyhow::bail!("{other:?}"),
        }
    }

    /// Starts a cell with the jobs of a snapshot, whose reservations are [`RESERVED`].
    pub(crate) fn with_jobs(snapshot: &CellSnapshot) -> anyhow::Result<Self> {
        Self::with_reservations(snapshot, |_, limit| RESERVED.of(limit))
    }

    /// Starts a cell with the jobs of a snapshot. `reserve` gives the reservation of a task, from
    /// its job and its limit; it is called once for each task, in their order.
    pub(crate) fn with_reservations(
        snapshot: &CellSnapshot,
        mut reserve: impl FnMut(&trace::Job, Resources) -> Resources,
    ) -> anyhow::Result<Self> {
        let mut maker = Self::begin()?;
        for job in &snapshot.jobs {
            maker.submit(job, |limit| reserve(job, limit))?;
        }
        Ok(maker)
    }

    /// Adds some machines of the snapshot.
    pub(crate) fn with_machines(
        mut self,
        snapshot: &CellSnapshot,
        chosen: Chosen<'_>,
    ) -> anyhow::Result<Self> {
        for place in chosen {
            let machine = snapshot.machines.get(*place).context("no such machine")?;
            self.machine(machine)?;
        }
        Ok(self)
    }

    fn machine(&mut self, machine: &trace::Machine) -> anyhow::Result<()> {
        let (name, by) = (machine.name.clone(), self.root.clone());
        let address = format!("{name}:1");
        let added = self.request(&by, Mutation::AddMachine(AddMachine { name, address }))?;
        let Reply::MachineAdded(id) = added else { anyhow::bail!("{added:?}") };
        let report = MachineReport {
            capacity: machine.capacity,
            attributes: machine.attributes.iter().map(|(name, value)| named(name, value)).collect(),
            ..MachineReport::default()
        };
        let describe = Op::DescribeMachine { machine: id, report: Arc::new(report) };
        self.cell.apply(NOW, &describe);
        Ok(())
    }

    fn submit(
        &mut self,
        job: &trace::Job,
        reserve: impl FnMut(Resources) -> Resources,
    ) -> anyhow::Result<()> {
        let mut spec = job.spec(PerMille::ALL);
        spec.max_per_machine = job.different_machines.then_some(Maximum { tasks: 1, hard: true });
        let spec = Arc::new(spec);
        let submitted = self.request(&job.owner, Mutation::Submit(Arc::clone(&spec)))?;
        let Reply::Submitted { collection, .. } = submitted else { anyhow::bail!("{submitted:?}") };
        self.cell.apply(NOW, &reserved(collection, &spec, reserve));
        Ok(())
    }

    fn request(&mut self, by: &UserName, mutation: Mutation) -> anyhow::Result<Reply> {
        if !self.sessions.contains_key(by) {
            let opened = self.cell.apply(NOW, &Op::OpenSession { user: by.clone() }).outcome;
            let Outcome::Request(Ok(Reply::Session(session))) = opened else {
                anyhow::bail!("{opened:?}")
            };
            self.sessions.insert(by.clone(), (session, 0));
        }
        let (session, sequence) = self.sessions.get_mut(by).context("a session")?;
        *sequence += 1;
        let id = RequestId { session: *session, sequence: *sequence };
        let request = Op::Request { id, by: by.clone(), mutation };
        match self.cell.apply(NOW, &request).outcome {
            Outcome::Request(Ok(reply)) => Ok(reply),
            other => anyhow::bail!("{other:?}"),
        }
    }
}

/// An attribute of a machine, under the name that the cell uses.
fn named(name: &str, value: &str) -> (String, String) {
    let name = if name == "power" { attribute::POWER_DOMAIN } else { name };
    (name.to_owned(), value.to_owned())
}

/// Sets the reservations of a job's tasks to [`RESERVED`].
pub(crate) fn reservations(collection: CollectionId, spec: &spec::JobSpec) -> Op {
    reserved(collection, spec, |limit| RESERVED.of(limit))
}

fn reserved(
    collection: CollectionId,
    spec: &spec::JobSpec,
    mut reserve: impl FnMut(Resources) -> Resources,
) -> Op {
    let one = |index| Reservation {
        instance: TaskId { collection, index }.generation(Generation(1)),
        amount: reserve(spec.limit(index)),
        newest_sample: None,
    };
    Op::Reserve((0..spec.tasks).map(TaskIndex).map(one).collect())
}

/// The index in the snapshot of a machine of the cell.
pub(crate) fn place(chosen: Chosen<'_>, machine: MachineId) -> Option<usize> {
    let nth = usize::try_from(machine.0).ok()?.checked_sub(1)?;
    chosen.get(nth).copied()
}
