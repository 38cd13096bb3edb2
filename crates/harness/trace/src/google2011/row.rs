//! The rows of the three tables.

use std::collections::BTreeSet;
use std::io::BufRead;

use model::{CollectionId, MachineId, SchedulingClass, TaskIndex, Time};

use super::csv::{Lines, ReadError, RowProblem, Table, name, number, required, share};
use super::limits;
use super::share::Share;

/// A machine and its capacity, as shares of the largest machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MachineRow {
    /// The machine.
    pub id: MachineId,
    /// CPU.
    pub cpu: Share,
    /// Memory.
    pub memory: Share,
    /// Microarchitecture and chipset, as an opaque text.
    pub platform: Option<Box<str>>,
}

/// The removal of a machine from the cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Removal {
    /// The time.
    pub at: Time,
    /// The machine.
    pub machine: MachineId,
}

/// An event of a task. Fields that [`TaskEvents`] requires are not optional.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskEvent {
    /// The time in microseconds: 0 is before the trace, which starts at 600 s.
    pub at: Time,
    /// Why the row was synthesised, if it was: 0 to 2 (the trace's `missing info`).
    pub missing_info: Option<u8>,
    /// The job.
    pub job: CollectionId,
    /// The task's index.
    pub index: TaskIndex,
    /// The machine it was placed on.
    pub machine: Option<MachineId>,
    /// The kind of event.
    pub kind: EventKind,
    /// The job's owner, hashed.
    pub user: Option<Box<str>>,
    /// How latency-sensitive the job is.
    pub scheduling_class: Option<SchedulingClass>,
    /// 0 to 11: see [`super::priority`].
    pub priority: u8,
    /// The request; `None` if the trace does not contain it.
    pub request: Option<ResourceRequest>,
    /// Whether it must run on another machine than its job's other tasks.
    pub different_machines: Option<bool>,
}

/// The request of a task, as shares of the largest machine. A field that is empty while others are
/// not is zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ResourceRequest {
    /// CPU.
    pub cpu: Share,
    /// Memory.
    pub memory: Share,
    /// Local disk space.
    pub disk: Share,
}

/// The kinds of events of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EventKind {
    /// It became pending.
    Submit,
    /// It was placed on a machine.
    Schedule,
    /// It was preempted or lost its machine.
    Evict,
    /// It failed.
    Fail,
    /// It finished.
    Finish,
    /// It was killed by its user or by a program that it depended on.
    Kill,
    /// It is gone, and the trace does not say how.
    Lost,
    /// Its request changed while it was pending.
    UpdatePending,
    /// Its request changed while it ran.
    UpdateRunning,
}

impl EventKind {
    /// All kinds, in the order of their numbers in the trace.
    pub const ALL: [Self; 9] = [
        Self::Submit,
        Self::Schedule,
        Self::Evict,
        Self::Fail,
        Self::Finish,
        Self::Kill,
        Self::Lost,
        Self::UpdatePending,
        Self::UpdateRunning,
    ];
}

/// An iterator over the rows of `task_events`, which has 13 columns and no header. It ends at the
/// first error.
#[derive(Debug)]
pub struct TaskEvents<R> {
    lines: Lines<R>,
    failed: bool,
}

impl<R: BufRead> TaskEvents<R> {
    /// Reads rows from decompressed bytes.
    pub fn new(read: R) -> Self {
        Self { lines: Lines::new(read, Table::TaskEvents), failed: false }
    }

    /// An error at the last row read.
    pub(super) fn error(&self, problem: RowProblem) -> ReadError {
        self.lines.error(problem)
    }
}

impl<R: BufRead> Iterator for TaskEvents<R> {
    type Item = Result<TaskEvent, ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        let event = self.lines.row(|row| task_event(row.fields()?));
        self.failed = matches!(event, Some(Err(_)));
        event
    }
}

fn task_event(fields: [&str; 13]) -> Result<TaskEvent, RowProblem> {
    let [
        at,
        missing,
        job,
        index,
        machine,
        kind,
        user,
        class,
        priority,
        cpu,
        memory,
        disk,
        different,
    ] = fields;
    let kind: usize = required("event type", number("event type", kind, 8)?)?;
    let class: Option<u8> = number("scheduling class", class, SchedulingClass::MAX.into())?;
    let different: Option<u8> = number("different machines", different, 1)?;
    Ok(TaskEvent {
        at: time(at)?,
        missing_info: number("missing info", missing, 2)?,
        job: CollectionId(required("job id", number("job id", job, u64::MAX)?)?),
        index: TaskIndex(required("task index", number("task index", index, limits::INDEX_MAX)?)?),
        machine: number("machine id", machine, u64::MAX)?.map(MachineId),
        kind: required("event type", EventKind::ALL.get(kind).copied())?,
        user: name("user", user)?,
        scheduling_class: class.and_then(|class| SchedulingClass::new(class.into()).ok()),
        priority: required("priority", number("priority", priority, limits::PRIORITY_MAX)?)?,
        request: request(cpu, memory, disk)?,
        different_machines: different.map(|different| different == 1),
    })
}

fn request(cpu: &str, memory: &str, disk: &str) -> Result<Option<ResourceRequest>, RowProblem> {
    let cpu = share("CPU request", cpu)?;
    let memory = share("memory request", memory)?;
    let disk = share("disk request", disk)?;
    Ok((cpu.is_some() || memory.is_some() || disk.is_some()).then(|| ResourceRequest {
        cpu: cpu.unwrap_or_default(),
        memory: memory.unwrap_or_default(),
        disk: disk.unwrap_or_default(),
    }))
}

fn time(text: &str) -> Result<Time, RowProblem> {
    Ok(Time(required("time", number("time", text, limits::TIME_MAX)?)?))
}

/// Reads the machines, with the header `machine_id,cpu,memory,platform_id`, in the order of their
/// rows.
///
/// # Errors
/// At the first invalid row, at a machine that occurs twice, and at more than
/// [`limits::MACHINES_MAX`] machines.
pub fn machines(read: impl BufRead) -> Result<Vec<MachineRow>, ReadError> {
    let header = "machine_id,cpu,memory,platform_id";
    let mut lines = Lines::with_header(read, Table::Machines, header)?;
    let mut machines = Vec::new();
    let mut seen = BTreeSet::new();
    while let Some(machine) = lines.row(|row| machine(row.fields()?)) {
        let machine = machine?;
        if !seen.insert(machine.id) {
            return Err(lines.error(RowProblem::Doubled(machine.id)));
        }
        if machines.len() >= limits::MACHINES_MAX {
            let (most, what) = (limits::MACHINES_MAX, "machines");
            return Err(lines.error(RowProblem::TooMany { most, what }));
        }
        machines.push(machine);
    }
    Ok(machines)
}

fn machine([id, cpu, memory, platform]: [&str; 4]) -> Result<MachineRow, RowProblem> {
    Ok(MachineRow {
        id: MachineId(required("machine id", number("machine id", id, u64::MAX)?)?),
        cpu: required("cpu", share("cpu", cpu)?)?,
        memory: required("memory", share("memory", memory)?)?,
        platform: name("platform id", platform)?,
    })
}

/// Reads the removals of machines, with the header `time_us,machine_id,platform_id,cpu,memory`, in
/// the order of their rows. The last three columns repeat the machine's capacity and are ignored.
///
/// # Errors
/// At the first invalid row, and at more than [`limits::REMOVALS_MAX`] removals.
pub fn removals(read: impl BufRead) -> Result<Vec<Removal>, ReadError> {
    let header = "time_us,machine_id,platform_id,cpu,memory";
    let mut lines = Lines::with_header(read, Table::Removals, header)?;
    let mut removals = Vec::new();
    while let Some(removal) = lines.row(|row| removal(row.fields()?)) {
        removals.push(removal?);
        if removals.len() > limits::REMOVALS_MAX {
            let (most, what) = (limits::REMOVALS_MAX, "removals");
            return Err(lines.error(RowProblem::TooMany { most, what }));
        }
    }
    Ok(removals)
}

fn removal([at, machine, _, _, _]: [&str; 5]) -> Result<Removal, RowProblem> {
    let machine = required("machine id", number("machine id", machine, u64::MAX)?)?;
    Ok(Removal { at: time(at)?, machine: MachineId(machine) })
}
