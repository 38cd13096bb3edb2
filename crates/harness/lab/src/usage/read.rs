//! Reads a table of usage: CSV with one line for each window of each task.

use std::collections::BTreeMap;
use std::io::{self, BufRead, Read as _};

use model::{Bytes, MilliCores, Priority, Resources, Span};
use reclaim::{CPU_MAX, RAM_MAX};
use thiserror::Error;
use trace::google2011::{Scale, Share};

use super::{Curve, Held, Load, Subject, Window, Workload};

/// The two headers. The first one is of amounts in milli-cores and bytes. With the second one they
/// are shares of the largest machine, as in Google's traces; it has 64 cores and 256 GiB.
pub const HEADERS: [&str; 2] = [
    "task,priority,started_us,start_us,end_us,cpu_limit_milli,ram_limit_bytes,cpu_avg_milli,\
     cpu_max_milli,ram_avg_bytes,ram_max_bytes",
    "task,priority,started_us,start_us,end_us,cpu_limit_share,ram_limit_share,cpu_avg_share,\
     cpu_max_share,ram_avg_share,ram_max_share",
];

/// The limits of the input.
pub mod limits {
    use model::Span;

    /// Bytes of a line.
    pub const LINE_BYTES_MAX: usize = 1_024;
    /// Bytes of a task's name.
    pub const NAME_BYTES_MAX: usize = 256;
    /// Lines: 20,000 tasks for a day.
    pub const LINES_MAX: u64 = 6_000_000;
    /// Tasks.
    pub const TASKS_MAX: usize = 200_000;
    /// The length of a window.
    pub const WINDOW_MIN: Span = Span::from_secs(1);
    /// The length of a window.
    pub const WINDOW_MAX: Span = Span::from_secs(3_600);
    /// The time from the first window to the end of the last one: 31 days.
    pub const LENGTH_MAX: Span = Span::from_secs(31 * 24 * 3_600);
}

/// What a table has.
#[derive(Clone, Debug, Default)]
pub struct Table {
    /// The tasks.
    pub workload: Workload,
    /// The number of lines with usage.
    pub windows: u64,
    /// From the beginning of the first window to the end of the last one.
    pub length: Span,
}

/// A table of usage cannot be read.
#[derive(Debug, Error)]
#[error("line {line}: {problem}")]
pub struct ReadError {
    /// The line, from 1.
    pub line: u64,
    /// The problem.
    pub problem: Problem,
}

/// The problem with a line.
#[derive(Debug, Error)]
pub enum Problem {
    /// The bytes cannot be read.
    #[error("cannot be read: {0}")]
    Unreadable(#[from] io::Error),
    /// Not text.
    #[error("is not text: is it compressed in another way than with gzip?")]
    NotText,
    /// Longer than any line.
    #[error("is longer than {} bytes", limits::LINE_BYTES_MAX)]
    TooLong,
    /// The first line is none of the headers.
    #[error("must be the names of the columns, one of\n  {}\n  {}", HEADERS[0], HEADERS[1])]
    NoHeader,
    /// Nothing follows the header.
    #[error("no usage follows the header")]
    Empty,
    /// Wrong number of columns.
    #[error("has {0} columns, and must have 11")]
    Columns(usize),
    /// An invalid name.
    #[error("task must be 1 to {} printable ASCII characters, is '{}'", limits::NAME_BYTES_MAX, .0.escape_debug())]
    Name(String),
    /// Not a whole number that is not negative.
    #[error("{column} must be a whole number from 0 to {most}, is '{}'", .is.escape_debug())]
    Number {
        /// The column.
        column: &'static str,
        /// The maximum.
        most: u64,
        /// The actual value.
        is: String,
    },
    /// Not a share of the largest machine.
    #[error("{column} must be a share of the largest machine, such as 0.0625, is '{}'", .is.escape_debug())]
    Share {
        /// The column.
        column: &'static str,
        /// The actual value.
        is: String,
    },
    /// A limit that no task can have.
    #[error("{column} must be more than 0")]
    NoLimit {
        /// The column.
        column: &'static str,
    },
    /// A maximum below the average.
    #[error("the maximum of {resource} is less than the average")]
    MaximumBelowAverage {
        /// Which resource.
        resource: &'static str,
    },
    /// A window too short, too long, or one that ends before it begins.
    #[error(
        "a window must have from {} to {}, and end_us is {end}, start_us {start}",
        limits::WINDOW_MIN,
        limits::WINDOW_MAX
    )]
    WindowLength {
        /// Its beginning.
        start: u64,
        /// Its end.
        end: u64,
    },
    /// A task that started after its window.
    #[error(
        "the window begins before the start of the task: started_us is {started}, start_us {start}"
    )]
    BeforeStart {
        /// The start of the task.
        started: u64,
        /// The beginning of the window.
        start: u64,
    },
    /// Windows of a task out of order, or overlapping.
    #[error(
        "windows of a task must be in the order of time: this one begins at {start}, and the one before ends at {before}"
    )]
    OutOfOrder {
        /// The beginning of the window.
        start: u64,
        /// The end of the window before it.
        before: u64,
    },
    /// A task whose priority, start or limit changed.
    #[error(
        "priority, started_us and limits of a task must be the same in all its lines: give it another name after a change"
    )]
    Changed,
    /// Too many lines or tasks, or too long a time.
    #[error("exceeds the maximum of {0}")]
    TooMuch(String),
}

/// A task, while its lines are read.
struct PartialTask {
    priority: Priority,
    started: Option<u64>,
    limit: Resources,
    windows: Vec<(u64, u64, Window)>,
}

/// One line.
struct UsageLine<'a> {
    task: &'a str,
    priority: Priority,
    started: Option<u64>,
    start: u64,
    end: u64,
    limit: Resources,
    window: Window,
}

/// Reads a table. Production arrives when its first window begins. The others become the queue, in
/// the order of their first windows, and each stays as long as its windows reach.
///
/// # Errors
/// With the line, if the table is not valid or exceeds [`limits`].
pub fn read(mut from: impl BufRead) -> Result<Table, ReadError> {
    let mut buffer = Vec::new();
    let error = |line, problem| ReadError { line, problem };
    let header = match next(&mut from, &mut buffer).map_err(|problem| error(1, problem))? {
        Some(text) => HEADERS.iter().position(|header| *header == text),
        None => None,
    };
    let shares = header.ok_or(error(1, Problem::NoHeader))? == 1;
    let mut tasks: BTreeMap<String, PartialTask> = BTreeMap::new();
    let (mut line, mut first, mut last) = (1, u64::MAX, 0);
    loop {
        line += 1;
        let wrong = |problem| error(line, problem);
        let Some(text) = next(&mut from, &mut buffer).map_err(wrong)? else { break };
        if line > limits::LINES_MAX + 1 {
            return Err(wrong(Problem::TooMuch(format!("{} lines", limits::LINES_MAX))));
        }
        let parsed = parse(text, shares).map_err(wrong)?;
        (first, last) = (first.min(parsed.start), last.max(parsed.end));
        if last - first > limits::LENGTH_MAX.0 {
            return Err(wrong(Problem::TooMuch("31 days from first to last".to_owned())));
        }
        let full = tasks.len() == limits::TASKS_MAX;
        match tasks.get_mut(parsed.task) {
            Some(known) => known.add(&parsed).map_err(wrong)?,
            None if full => {
                return Err(wrong(Problem::TooMuch(format!("{} tasks", limits::TASKS_MAX))));
            }
            None => {
                let UsageLine { priority, started, limit, start, end, window, .. } = parsed;
                let windows = vec![(start, end, window)];
                let known = PartialTask { priority, started, limit, windows };
                tasks.insert(parsed.task.to_owned(), known);
            }
        }
    }
    if tasks.is_empty() {
        return Err(error(1, Problem::Empty));
    }
    Ok(table(tasks.into_values().collect(), first, line - 2, Span(last - first)))
}

/// The table of these tasks; `first` is the beginning of its first window.
fn table(mut tasks: Vec<PartialTask>, first: u64, windows: u64, length: Span) -> Table {
    tasks.sort_by_key(PartialTask::begins);
    let mut workload = Workload::default();
    for known in tasks {
        let begins = known.begins();
        let arrives = Span(begins - first);
        let age = Span(begins - known.started.unwrap_or(begins));
        let ends = known.windows.last().map_or(begins, |(_, end, _)| *end);
        let held = known.windows.iter().zip(0..).map(|((start, end, window), nth)| Held {
            from: Span(start - begins),
            until: Span(end - begins),
            nth,
            window: Some(*window),
        });
        let prod = known.priority.is_prod();
        let subject = Subject {
            limit: known.limit,
            priority: known.priority,
            arrives: if prod { arrives } else { Span::ZERO },
            age,
            stays: Some(Span(ends - begins)),
            curve: Curve::Recorded(held.collect()),
        };
        match prod {
            true => workload.production.push(subject),
            false => workload.queue.push(subject),
        }
    }
    Table { workload, windows, length }
}

impl PartialTask {
    fn begins(&self) -> u64 {
        self.windows.first().map_or(0, |(start, ..)| *start)
    }

    fn add(&mut self, line: &UsageLine<'_>) -> Result<(), Problem> {
        let same = (self.priority, self.started, self.limit);
        if same != (line.priority, line.started, line.limit) {
            return Err(Problem::Changed);
        }
        let before = self.windows.last().map_or(0, |(_, end, _)| *end);
        if line.start < before {
            return Err(Problem::OutOfOrder { start: line.start, before });
        }
        self.windows.push((line.start, line.end, line.window));
        Ok(())
    }
}

/// The next line, without its end.
fn next<'a>(from: &mut impl BufRead, buffer: &'a mut Vec<u8>) -> Result<Option<&'a str>, Problem> {
    buffer.clear();
    let most = limits::LINE_BYTES_MAX as u64 + 2;
    if from.take(most).read_until(b'\n', buffer)? == 0 {
        return Ok(None);
    }
    let text = std::str::from_utf8(buffer).map_err(|_| Problem::NotText)?;
    let text = text.strip_suffix('\n').unwrap_or(text);
    let text = text.strip_suffix('\r').unwrap_or(text);
    match text.len() > limits::LINE_BYTES_MAX {
        true => Err(Problem::TooLong),
        false => Ok(Some(text)),
    }
}

fn parse(text: &str, shares: bool) -> Result<UsageLine<'_>, Problem> {
    let columns = text.split(',').count();
    let mut fields = text.split(',');
    let mut field = || fields.next().ok_or(Problem::Columns(columns));
    if columns != 11 {
        return Err(Problem::Columns(columns));
    }
    let task = field()?;
    let printable = task.bytes().all(|byte| byte.is_ascii_graphic());
    if task.is_empty() || task.len() > limits::NAME_BYTES_MAX || !printable {
        return Err(Problem::Name(task.to_owned()));
    }
    let most = u64::from(Priority::MAX);
    let priority = number("priority", field()?, most)?;
    let number_of = i64::try_from(priority).unwrap_or(0);
    let priority = Priority::new(number_of).map_err(|_| Problem::Number {
        column: "priority",
        most,
        is: priority.to_string(),
    })?;
    let time = |column, text: &str| number(column, text, i64::MAX as u64);
    let started = match field()? {
        "" => None,
        text => Some(time("started_us", text)?),
    };
    let (start, end) = (time("start_us", field()?)?, time("end_us", field()?)?);
    let length = Span(end.saturating_sub(start));
    if length < limits::WINDOW_MIN || length > limits::WINDOW_MAX {
        return Err(Problem::WindowLength { start, end });
    }
    if let Some(started) = started.filter(|started| *started > start) {
        return Err(Problem::BeforeStart { started, start });
    }
    let mut of = |column, resource: Resource| {
        let largest = Scale::default().largest;
        let (largest, most) = match resource {
            Resource::Cpu => (largest.cpu.0, CPU_MAX.0),
            Resource::Ram => (largest.ram.0, RAM_MAX.0),
        };
        amount(column, field()?, shares, largest, most)
    };
    let limit_cpu = of("the CPU limit", Resource::Cpu)?;
    let limit_ram = of("the RAM limit", Resource::Ram)?;
    for (column, limit) in [("the CPU limit", limit_cpu), ("the RAM limit", limit_ram)] {
        if limit == 0 {
            return Err(Problem::NoLimit { column });
        }
    }
    let (average, maximum) =
        (of("the average of CPU", Resource::Cpu)?, of("the maximum of CPU", Resource::Cpu)?);
    let cpu = load("CPU", average, maximum)?;
    let (average, maximum) =
        (of("the average of RAM", Resource::Ram)?, of("the maximum of RAM", Resource::Ram)?);
    let ram = load("RAM", average, maximum)?;
    let limit =
        Resources { cpu: MilliCores(limit_cpu), ram: Bytes(limit_ram), ..Resources::default() };
    Ok(UsageLine { task, priority, started, start, end, limit, window: Window { cpu, ram } })
}

#[derive(Clone, Copy)]
enum Resource {
    Cpu,
    Ram,
}

fn load(resource: &'static str, average: u64, maximum: u64) -> Result<Load, Problem> {
    match maximum < average {
        true => Err(Problem::MaximumBelowAverage { resource }),
        false => Ok(Load { average, maximum }),
    }
}

fn number(column: &'static str, text: &str, most: u64) -> Result<u64, Problem> {
    let wrong = || Problem::Number { column, most, is: text.to_owned() };
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(wrong());
    }
    text.parse().ok().filter(|number| *number <= most).ok_or_else(wrong)
}

fn amount(
    column: &'static str,
    text: &str,
    shares: bool,
    largest: u64,
    most: u64,
) -> Result<u64, Problem> {
    if !shares {
        return number(column, text, most);
    }
    let share: Share = text.parse().map_err(|_| Problem::Share { column, is: text.to_owned() })?;
    Ok(share.of(largest).min(most))
}
