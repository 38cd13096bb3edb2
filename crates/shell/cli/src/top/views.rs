//! The views, and their tables: from the response of the master to rows.

use std::fmt;
use std::str::FromStr;

use api::v1::usage_request::{self, Of};
use api::{v1, word};
use command::output;
use model::{Address, UserName};
use present::amount::{self, bytes, cpu, percent, rate, share};

use super::table::{Cell, Column, Row, Sort, Table, Thing, number, text};

/// What is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum View {
    /// The totals, by band.
    Cell,
    Machines,
    Jobs {
        /// Only this user's; `None` for all.
        user: Option<String>,
    },
    Tasks {
        /// Empty for the caller.
        user: String,
        job: String,
    },
}

const BANDS: &[Column] = &[
    text("BAND", 0),
    number("RUNNING", 2),
    number("MEASURED", 9),
    number("CPU", 1),
    number("CPU LIMIT", 3),
    number("CPU RESERVED", 6),
    number("RAM", 1),
    number("RAM LIMIT", 4),
    number("RAM RESERVED", 7),
    number("DISK", 8),
];
const MACHINES: &[Column] = &[
    text("MACHINE", 0),
    text("STATE", 2),
    number("TASKS", 4),
    number("CPU", 1),
    number("CPU %", 3),
    number("CPU LIMIT", 5),
    number("CPU RESERVED", 8),
    number("CPU CAPACITY", 6),
    number("RAM", 1),
    number("RAM %", 3),
    number("RAM LIMIT", 5),
    number("RAM RESERVED", 8),
    number("RAM CAPACITY", 6),
    number("DISK", 7),
    number("SYSTEM CPU", 9),
    number("SYSTEM RAM", 9),
];
const JOBS: &[Column] = &[
    text("JOB", 0),
    text("BAND", 6),
    number("PRIORITY", 9),
    number("TASKS", 2),
    number("RUNNING", 5),
    number("PENDING", 3),
    number("HEALTHY", 4),
    number("CPU", 1),
    number("CPU %", 2),
    number("CPU LIMIT", 7),
    number("CPU RESERVED", 9),
    number("RAM", 1),
    number("RAM %", 4),
    number("RAM LIMIT", 7),
    number("RAM RESERVED", 9),
    number("DISK", 8),
    number("DISK RATE", 8),
    number("FAILURES", 6),
];
const TASKS: &[Column] = &[
    number("TASK", 0),
    text("STATE", 2),
    text("HEALTH", 4),
    text("MACHINE", 3),
    number("CPU", 1),
    number("CPU %", 2),
    number("CPU LIMIT", 7),
    number("CPU RESERVED", 9),
    number("RAM", 1),
    number("RAM %", 2),
    number("PEAK", 5),
    number("CACHE", 6),
    number("RAM LIMIT", 7),
    number("DISK", 6),
    number("DISK RATE", 7),
    number("THROTTLED", 4),
    number("CPU WAIT", 8),
    number("RAM WAIT", 8),
    number("IO WAIT", 8),
    number("FAILURES", 5),
];

/// The place of a column.
fn place(columns: &[Column], heading: &str) -> usize {
    columns.iter().position(|column| column.heading == heading).unwrap_or_default()
}

impl View {
    /// The request for it.
    pub(super) fn of(&self) -> Of {
        match self {
            Self::Cell => Of::Cell(usage_request::Cell { since: None }),
            Self::Machines => Of::Machines(usage_request::Machines { names: Vec::new() }),
            Self::Jobs { user } => {
                Of::Jobs(usage_request::Jobs { user: user.clone().unwrap_or_default() })
            }
            Self::Tasks { user, job } => {
                let job = v1::JobAddress { user: user.clone(), job: job.clone() };
                let tasks = Some(v1::TaskSelection { all: true, ranges: Vec::new() });
                Of::Tasks(usage_request::Tasks { job: Some(job), tasks, since: None })
            }
        }
    }

    /// The tasks of a job.
    pub(super) fn tasks(job: &Address) -> Self {
        let user = job.user.as_ref().map(ToString::to_string).unwrap_or_default();
        Self::Tasks { user, job: job.job.to_string() }
    }

    /// Its name, as after a colon.
    pub(super) fn name(&self) -> String {
        match self {
            Self::Cell => "cell".to_owned(),
            Self::Machines => "machines".to_owned(),
            Self::Jobs { user: None } => "jobs".to_owned(),
            Self::Jobs { user: Some(user) } => format!("jobs {}", output::one_line(user)),
            Self::Tasks { user, job } => {
                let slash = if user.is_empty() { "" } else { "/" };
                format!("tasks {}{slash}{}", output::one_line(user), output::one_line(job))
            }
        }
    }

    /// The order before any other is chosen: the biggest first, but bands and tasks by their own
    /// order.
    pub(super) fn sort(&self) -> Sort {
        let (column, is_reversed) = match self {
            Self::Cell => (0, false),
            Self::Machines => (place(MACHINES, "CPU"), false),
            Self::Jobs { .. } => (place(JOBS, "CPU"), false),
            // By the lowest index first, although it is a number.
            Self::Tasks { .. } => (0, true),
        };
        Sort { column, is_reversed }
    }

    /// Its columns.
    pub(super) fn columns(&self) -> &'static [Column] {
        match self {
            Self::Cell => BANDS,
            Self::Machines => MACHINES,
            Self::Jobs { .. } => JOBS,
            Self::Tasks { .. } => TASKS,
        }
    }

    /// The rows of a response to its request.
    pub(super) fn table(&self, response: &v1::UsageResponse) -> Table {
        let rows = match self {
            Self::Cell => {
                let bands = response.cell.iter().flat_map(|cell| &cell.bands);
                bands.map(band).collect()
            }
            Self::Machines => response.machines.iter().map(machine).collect(),
            Self::Jobs { .. } => response.jobs.iter().map(job).collect(),
            Self::Tasks { user, job } => {
                response.tasks.iter().map(|usage| task(user, job, usage)).collect()
            }
        };
        Table::new(self.columns(), rows)
    }
}

/// The limits, the reservations, and the usage of tasks, unpacked.
struct Total {
    limit: Option<v1::Resources>,
    reservation: Option<v1::Resources>,
    used: v1::Measured,
    running: Option<i64>,
    measured: Option<i64>,
}

fn total(total: Option<&v1::UsageTotal>) -> Total {
    Total {
        limit: total.and_then(|total| total.limit),
        reservation: total.and_then(|total| total.reservation),
        used: total.and_then(|total| total.used).unwrap_or_default(),
        running: total.map(|total| total.running.into()),
        measured: total.map(|total| total.measured.into()),
    }
}

fn count(number: Option<i64>) -> String {
    number.map_or_else(|| amount::UNMEASURED.to_owned(), |number| number.to_string())
}

fn cores(resources: Option<v1::Resources>) -> Option<i64> {
    resources.map(|resources| resources.cpu_milli)
}

fn ram(resources: Option<v1::Resources>) -> Option<i64> {
    resources.map(|resources| resources.ram_bytes)
}

fn permille(share: Option<u32>) -> Cell {
    Cell::quantity(share.map(i64::from), |share| {
        amount::permille(share.and_then(|share| u32::try_from(share).ok()))
    })
}

fn band(band: &v1::cell_usage::Band) -> Row {
    let Total { limit, reservation, used, running, measured } = total(band.total.as_ref());
    let name = word::<v1::Band>(band.band);
    Row {
        cells: vec![
            // The highest band first.
            Cell::ranked(&name, -i64::from(band.band)),
            Cell::quantity(running, count),
            Cell::quantity(measured, count),
            Cell::quantity(used.cpu_milli, cpu),
            Cell::quantity(cores(limit), cpu),
            Cell::quantity(cores(reservation), cpu),
            Cell::quantity(used.memory_bytes, bytes),
            Cell::quantity(ram(limit), bytes),
            Cell::quantity(ram(reservation), bytes),
            Cell::quantity(used.disk_bytes, bytes),
        ],
        thing: Thing::Band(name.into_owned()),
    }
}

fn machine(machine: &v1::MachineUsage) -> Row {
    let Total { limit, reservation, running, .. } = total(machine.tasks.as_ref());
    let used = machine.used.unwrap_or_default();
    let system = machine.system.unwrap_or_default();
    let capacity = machine.capacity;
    let mut state = word::<v1::MachineState>(machine.state).into_owned();
    let says_so = [v1::MachineState::Draining, v1::MachineState::Drained];
    if machine.draining && !says_so.contains(&machine.state()) {
        state += ", draining";
    }
    Row {
        thing: Thing::Machine(machine.name.clone()),
        cells: vec![
            Cell::text(&machine.name),
            Cell::text(&state),
            Cell::quantity(running, count),
            Cell::quantity(used.cpu_milli, cpu),
            Cell::quantity(share(used.cpu_milli, cores(capacity)), percent),
            Cell::quantity(cores(limit), cpu),
            Cell::quantity(cores(reservation), cpu),
            Cell::quantity(cores(capacity), cpu),
            Cell::quantity(used.memory_bytes, bytes),
            Cell::quantity(share(used.memory_bytes, ram(capacity)), percent),
            Cell::quantity(ram(limit), bytes),
            Cell::quantity(ram(reservation), bytes),
            Cell::quantity(ram(capacity), bytes),
            Cell::quantity(used.disk_bytes, bytes),
            Cell::quantity(system.cpu_milli, cpu),
            Cell::quantity(system.memory_bytes, bytes),
        ],
    }
}

fn job(job: &v1::JobUsage) -> Row {
    let Total { limit, reservation, used, running, .. } = total(job.total.as_ref());
    let failures = i64::try_from(job.failures).unwrap_or(i64::MAX);
    Row {
        thing: Thing::Job { user: job.user.clone(), job: job.job.clone() },
        cells: vec![
            Cell::text(&format!("{}/{}", job.user, job.job)),
            Cell::text(&word::<v1::Band>(job.band)),
            Cell::count(job.priority),
            Cell::count(job.tasks),
            Cell::quantity(running, count),
            Cell::count(job.pending),
            Cell::count(job.healthy),
            Cell::quantity(used.cpu_milli, cpu),
            Cell::quantity(share(used.cpu_milli, cores(limit)), percent),
            Cell::quantity(cores(limit), cpu),
            Cell::quantity(cores(reservation), cpu),
            Cell::quantity(used.memory_bytes, bytes),
            Cell::quantity(share(used.memory_bytes, ram(limit)), percent),
            Cell::quantity(ram(limit), bytes),
            Cell::quantity(ram(reservation), bytes),
            Cell::quantity(used.disk_bytes, bytes),
            Cell::quantity(used.disk_rate_bytes, rate),
            Cell::count(failures),
        ],
    }
}

fn task(user: &str, job: &str, task: &v1::TaskUsage) -> Row {
    let used = task.used.unwrap_or_default();
    let health = match (task.state(), v1::Health::try_from(task.health)) {
        (v1::TaskState::Running, Ok(v1::Health::Healthy)) => "healthy".into(),
        (v1::TaskState::Running, Ok(v1::Health::Unhealthy)) => "unhealthy".into(),
        (v1::TaskState::Running, Ok(v1::Health::Unready)) => "not ready".into(),
        (v1::TaskState::Running, Ok(v1::Health::Unknown)) => "not yet".into(),
        (v1::TaskState::Running, Err(_)) => word::<v1::Health>(task.health),
        _ => "".into(),
    };
    Row {
        thing: Thing::Task { user: user.to_owned(), job: job.to_owned(), index: task.index },
        cells: vec![
            Cell::count(task.index),
            Cell::text(&word::<v1::TaskState>(task.state)),
            Cell::text(&health),
            Cell::text(&task.machine),
            Cell::quantity(used.cpu_milli, cpu),
            Cell::quantity(share(used.cpu_milli, cores(task.limit)), percent),
            Cell::quantity(cores(task.limit), cpu),
            Cell::quantity(cores(task.reservation), cpu),
            Cell::quantity(used.memory_bytes, bytes),
            Cell::quantity(share(used.memory_bytes, ram(task.limit)), percent),
            Cell::quantity(used.memory_peak_bytes, bytes),
            Cell::quantity(used.page_cache_bytes, bytes),
            Cell::quantity(ram(task.limit), bytes),
            Cell::quantity(used.disk_bytes, bytes),
            Cell::quantity(used.disk_rate_bytes, rate),
            permille(used.throttled_permille),
            permille(used.cpu_pressure_permille),
            permille(used.memory_pressure_permille),
            permille(used.io_pressure_permille),
            Cell::count(task.failures),
        ],
    }
}

impl FromStr for View {
    type Err = String;

    /// Parses a view as after a colon: `machines`, `jobs ana`, `tasks ana/web`.
    fn from_str(text: &str) -> Result<Self, String> {
        let (name, of) = text.trim().split_once(' ').unwrap_or((text.trim(), ""));
        match (name, of.trim()) {
            ("cell", "") => Ok(Self::Cell),
            ("machines", "") => Ok(Self::Machines),
            ("jobs", "") => Ok(Self::Jobs { user: None }),
            ("jobs", user) => {
                let user = user.parse::<UserName>().map_err(|error| error.to_string())?;
                Ok(Self::Jobs { user: Some(user.to_string()) })
            }
            ("tasks", job) if !job.is_empty() => {
                let job = job.parse::<Address>().map_err(|error| error.to_string())?;
                Ok(Self::tasks(&job))
            }
            ("tasks", _) => Err("whose? as in :tasks ana/web".to_owned()),
            _ => Err(format!(
                "no view '{}': cell, machines, jobs, jobs USER, tasks USER/JOB",
                output::one_line(text)
            )),
        }
    }
}

impl fmt::Display for Thing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let slash = |user: &str| if user.is_empty() { "" } else { "/" };
        match self {
            Self::Band(band) => write!(f, "{band}"),
            Self::Machine(name) => write!(f, "{name}"),
            Self::Job { user, job } => write!(f, "{user}{}{job}", slash(user)),
            Self::Task { user, job, index } => write!(f, "{user}{}{job}/{index}", slash(user)),
        }
    }
}
