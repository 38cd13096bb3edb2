//! The rows of the three tables, as the trace has them.

use std::collections::BTreeSet;
use std::io::BufRead;

use model::{CollectionId, MachineId, SchedulingClass, TaskIndex, Time};

use super::csv::{Lines, ReadError, RowProblem, Table, name, number, share, there};
use super::limits;
use super::share::Share;

/// A machine and what it has, as shares of the largest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MachineRow {
    /// Which.
    pub id: MachineId,
    /// Its CPU.
    pub cpu: Share,
    /// Its memory.
    pub memory: Share,
    /// Its microarchitecture and chipset, as an opaque text.
    pub platform: Option<Box<str>>,
}

/// A machine was taken out of the cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Removal {
    /// When.
    pub at: Time,
    /// Which.
    pub machine: MachineId,
}

/// Something happened to a task. Only what [`TaskEvents`] refuses to do without is not an option.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskEvent {
    /// When, in microseconds: 0 is before the trace, which begins at 600 s.
    pub at: Time,
    /// Why the row was made up afterwards, where it was: 0 to 2 (the trace's `missing info`).
    pub missing_info: Option<u8>,
    /// The job.
    pub job: CollectionId,
    /// The task of it.
    pub index: TaskIndex,
    /// The machine that it was placed on.
    pub machine: Option<MachineId>,
    /// What happened.
    pub kind: EventKind,
    /// Who owns the job, hashed.
    pub user: Option<Box<str>>,
    /// How latency-sensitive it is.
    pub scheduling_class: Option<SchedulingClass>,
    /// 0 to 11: see [`super::priority`].
    pub priority: u8,
    /// What it asks for; nothing where the trace does not say.
    pub request: Option<Request>,
    /// Whether it must be on another machine than its job's other tasks.
    pub different_machines: Option<bool>,
}

/// What a task asks for, as shares of the largest machine. A field that is empty beside others that
/// are not is nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// CPU.
    pub cpu: Share,
    /// Memory.
    pub memory: Share,
    /// Local disk space.
    pub disk: Share,
}

/// What happened to a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EventKind {
    /// It became pending.
    Submit,
    /// It was placed on a machine.
    Schedule,
    /// It lost its machine to another task, or with the machine.
    Evict,
    /// It failed.
    Fail,
    /// It came to its end.
    Finish,
    /// Its user, or a program that it depended on, ended it.
    Kill,
    /// It is gone, and the trace does not say how.
    Lost,
    /// What it asks for was changed while it waited.
    UpdatePending,
    /// What it asks for was changed while it ran.
    UpdateRunning,
}

impl EventKind {
    /// All of them, in the order of their numbers in the trace.
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

/// The rows of `task_events`, 13 columns and no header, one at a time. The first error is the end.
#[derive(Debug)]
pub struct TaskEvents<R> {
    lines: Lines<R>,
    failed: bool,
}

impl<R: BufRead> TaskEvents<R> {
    /// Reads them from decompressed bytes.
    pub fn new(read: R) -> Self {
        Self { lines: Lines::new(read, Table::TaskEvents), failed: false }
    }

    /// An error at the row that was read last.
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
    let kind: usize = there("event type", number("event type", kind, 8)?)?;
    let class: Option<u8> = number("scheduling class", class, SchedulingClass::MAX.into())?;
    let different: Option<u8> = number("different machines", different, 1)?;
    Ok(TaskEvent {
        at: time(at)?,
        missing_info: number("missing info", missing, 2)?,
        job: CollectionId(there("job id", number("job id", job, u64::MAX)?)?),
        index: TaskIndex(there("task index", number("task index", index, limits::INDEX_MAX)?)?),
        machine: number("machine id", machine, u64::MAX)?.map(MachineId),
        kind: there("event type", EventKind::ALL.get(kind).copied())?,
        user: name("user", user)?,
        scheduling_class: class.and_then(|class| SchedulingClass::new(class.into()).ok()),
        priority: there("priority", number("priority", priority, limits::PRIORITY_MAX)?)?,
        request: request(cpu, memory, disk)?,
        different_machines: different.map(|different| different == 1),
    })
}

fn request(cpu: &str, memory: &str, disk: &str) -> Result<Option<Request>, RowProblem> {
    let cpu = share("CPU request", cpu)?;
    let memory = share("memory request", memory)?;
    let disk = share("disk request", disk)?;
    Ok((cpu.is_some() || memory.is_some() || disk.is_some()).then(|| Request {
        cpu: cpu.unwrap_or_default(),
        memory: memory.unwrap_or_default(),
        disk: disk.unwrap_or_default(),
    }))
}

fn time(text: &str) -> Result<Time, RowProblem> {
    Ok(Time(there("time", number("time", text, limits::TIME_MAX)?)?))
}

/// The machines, with the header `machine_id,cpu,memory,platform_id`, in the order of their rows.
///
/// # Errors
/// At the first row that cannot be, at a machine that is there twice, and at more than
/// [`limits::MACHINES_MAX`] of them.
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
        id: MachineId(there("machine id", number("machine id", id, u64::MAX)?)?),
        cpu: there("cpu", share("cpu", cpu)?)?,
        memory: there("memory", share("memory", memory)?)?,
        platform: name("platform id", platform)?,
    })
}

/// The removals of machines, with the header `time_us,machine_id,platform_id,cpu,memory`, in the
/// order of their rows. The last three columns say again what the machine has, and are not read.
///
/// # Errors
/// At the first row that cannot be, and at more than [`limits::REMOVALS_MAX`] of them.
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
    let machine = there("machine id", number("machine id", machine, u64::MAX)?)?;
    Ok(Removal { at: time(at)?, machine: MachineId(machine) })
}
