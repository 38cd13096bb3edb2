//! `bourg status`, and what all commands that show state share.

use std::collections::{BTreeMap, BTreeSet};
use std::io::IsTerminal;
use std::time::Duration;

use api::v1::usage_request::{Of, Tasks};
use api::{v1, word};
use client::{Connection, Target};
use command::output::{self, Format, Listing};
use command::{Done, Failure, job_address, with_cell};
use model::{FinalUsage, Priority, Resources, Time};
use present::amount;

use super::usage;
use super::{ListArgs, StatusArgs, run, start_latency, time_left, why};
use crate::said::{health, last_end, said_of};

/// The polling interval of `--watch`.
const WATCH_INTERVAL: Duration = Duration::from_millis(500);

/// Shows once, or again whenever the index changes: at a terminal the whole, in place of what it showed before, and
/// otherwise the lines of a table that changed.
pub(super) async fn repeat(
    args: &ListArgs,
    mut show: impl AsyncFnMut() -> Result<(u64, Printer), Failure>,
) -> Done {
    let (mut last, mut before) = (None, Vec::new());
    let is_table = matches!(args.output, Format::Table | Format::Wide | Format::Name);
    loop {
        let (index, shown) = show().await?;
        if last != Some(index) {
            match args.watch {
                true if std::io::stdout().is_terminal() => {
                    output::print_bytes(b"\x1b[H\x1b[2J")?;
                    shown()?;
                }
                true if is_table => {
                    let now = output::kept(shown)?;
                    let now: Vec<_> =
                        String::from_utf8_lossy(&now).lines().map(str::to_owned).collect();
                    output::print(&new_lines(&before, &now))?;
                    before = now;
                }
                _ => shown()?,
            }
            last = Some(index);
        }
        if !args.watch {
            return Ok(());
        }
        tokio::time::sleep(WATCH_INTERVAL).await;
    }
}

/// The lines that are not among those before. What only became older did not change.
fn new_lines(before: &[String], now: &[String]) -> String {
    let key = |line: &String| without_ages(line);
    let before: BTreeSet<String> = before.iter().map(key).collect();
    let new = now.iter().filter(|line| !line.is_empty() && !before.contains(&key(line)));
    new.map(|line| format!("{line}\n")).collect()
}

/// The words of a line without its times, which are numbers with a unit of [`Span`] after each.
fn without_ages(line: &str) -> String {
    let is_number = |word: &str| word.chars().all(|c| c.is_ascii_digit() || c == '.');
    let mut kept: Vec<&str> = Vec::new();
    for word in line.split_whitespace() {
        let is_unit = matches!(word, "µs" | "ms" | "s" | "m" | "h" | "d");
        match kept.last() {
            Some(number) if is_unit && is_number(number) => drop(kept.pop()),
            _ => kept.push(word),
        }
    }
    kept.join(" ")
}

/// Prints an answer.
pub(super) type Printer = Box<dyn FnOnce() -> Done>;

pub(super) fn status(cell: Target<'_>, args: &StatusArgs) -> Done {
    let some = args.jobs.iter().find(|address| address.tasks != model::TaskSelection::All);
    if let Some(address) = some.filter(|_| args.jobs.len() > 1) {
        return Err(Failure::usage(format!(
            "error: {address} selects tasks: it must be the only argument"
        )));
    }
    with_cell(cell, async |mut connection| {
        repeat(&args.list, async || {
            let request = v1::StatusRequest {
                jobs: args.jobs.iter().map(job_address).collect(),
                tasks: !args.jobs.is_empty(),
                dead: args.all,
                labels: args.list.labels(),
                at: args.list.at(),
                mine: false,
                versions: false,
            };
            let mut answer = connection
                .ask(request, async |mut client, request| client.jobs.status(request).await)
                .await?;
            if let [address] = args.jobs.as_slice() {
                let chosen =
                    |task: &v1::TaskStatus| address.tasks.contains(model::TaskIndex(task.index));
                for job in &mut answer.jobs {
                    are_there(job, &address.tasks)?;
                    job.tasks.retain(chosen);
                }
            }
            let format = args.list.output.clone();
            let with_tasks = !args.jobs.is_empty();
            let selects = some.is_some();
            let mut used = JobsUsage::default();
            if with_tasks && format == Format::Wide && args.list.at.is_none() {
                used = used_by(&connection, &answer.jobs).await;
            }
            let shown = move || match (&format, with_tasks) {
                (Format::Table | Format::Wide, true) => {
                    let show = |job| show_job(&format, job, selects, &used, answer.time);
                    answer.jobs.iter().try_for_each(show)?;
                    used.note.iter().for_each(|note| output::say(&format!("note: {note}\n")));
                    Ok(())
                }
                _ => show_jobs(&format, &answer),
            };
            Ok((answer_index(&args.list), Box::new(shown) as Printer))
        })
        .await
    })
}

/// What the tasks of jobs use, as an addition to their status.
#[derive(Default)]
struct JobsUsage {
    /// By the id of the job, and the index and the generation of the task.
    tasks: BTreeMap<(u64, u32, u32), v1::TaskUsage>,
    /// What to say about it.
    note: Option<String>,
}

/// What the tasks of live jobs use.
async fn used_by(connection: &Connection, jobs: &[v1::JobStatus]) -> JobsUsage {
    let mut used = JobsUsage::default();
    for job in jobs.iter().filter(|job| !run::is_dead(job)) {
        let name = job.spec.as_ref().map(|spec| spec.name.clone()).unwrap_or_default();
        let address = v1::JobAddress { user: job.user.clone(), job: name };
        let tasks = Some(v1::TaskSelection { all: true, ranges: Vec::new() });
        let of = Of::Tasks(Tasks { job: Some(address), tasks, since: None });
        let (answer, note) = usage::beside(connection, of).await;
        let has_failed = note.is_some() && answer.tasks.is_empty();
        for task in answer.tasks {
            let key = (job.collection, task.index, task.generation);
            used.tasks.insert(key, v1::TaskUsage { windows: Vec::new(), ..task });
        }
        used.note = used.note.or(note);
        if has_failed {
            break;
        }
    }
    used
}

impl JobsUsage {
    /// The limit, the reservation and the usage of a task: of CPU, and of memory. A task that does not
    /// run has no reservation.
    fn columns(&self, job: &v1::JobStatus, task: &v1::TaskStatus) -> [String; 6] {
        let known = self.tasks.get(&(job.collection, task.index, task.generation));
        let limit = known.and_then(|known| known.limit);
        let runs = known.filter(|known| known.state() == v1::TaskState::Running);
        let reservation = runs.and_then(|known| known.reservation);
        let used = known.and_then(|known| known.used).unwrap_or_default();
        [
            amount::cpu(limit.map(|limit| limit.cpu_milli)),
            amount::cpu(reservation.map(|reservation| reservation.cpu_milli)),
            amount::cpu(used.cpu_milli),
            amount::bytes(limit.map(|limit| limit.ram_bytes)),
            amount::bytes(reservation.map(|reservation| reservation.ram_bytes)),
            amount::bytes(used.memory_bytes),
        ]
    }
}

/// The index of an answer. 0 always differs: with a watched job's tasks, times change without the
/// index.
fn answer_index(args: &ListArgs) -> u64 {
    if args.watch { process::clock::wall_clock().0 } else { 0 }
}

fn priority(number: Option<u32>) -> String {
    let priority = Priority::new(number.unwrap_or_default().into());
    priority.map(|priority| priority.to_string()).unwrap_or_default()
}

fn job_name(job: &v1::JobStatus) -> String {
    let name = job.spec.as_ref().map(|spec| spec.name.as_str()).unwrap_or_default();
    format!("{}/{name}", job.user)
}

fn show_jobs(format: &Format, answer: &v1::StatusResponse) -> Done {
    output::list(
        format,
        &Listing {
            items: &answer.jobs,
            name: job_name,
            headings: &[
                "JOB", "STATE", "PRIORITY", "TASKS", "PENDING", "RUNNING", "HEALTHY", "ENDED",
                "ID", "LABELS",
            ],
            wide: 2,
            row: |job| {
                let counts = job.counts.unwrap_or_default();
                let ended = counts.finished + counts.failed + counts.killed;
                vec![
                    job_name(job),
                    present::job_state(job).into_owned(),
                    priority(job.spec.as_ref().and_then(|spec| spec.priority)),
                    counts.tasks.to_string(),
                    counts.pending.to_string(),
                    counts.running.to_string(),
                    counts.healthy.to_string(),
                    ended.to_string(),
                    job.collection.to_string(),
                    shown_labels(&job_labels(job)),
                ]
            },
        },
    )
}

type JobLabels = BTreeMap<String, String>;

fn job_labels(job: &v1::JobStatus) -> JobLabels {
    job.spec.as_ref().map(|spec| spec.labels.clone()).unwrap_or_default()
}

/// For example `team=search,tier=canary`, as in a query.
fn shown_labels(labels: &JobLabels) -> String {
    let one = |(name, value): (&String, &String)| {
        format!("{}={}", name.escape_debug(), value.escape_debug())
    };
    labels.iter().map(one).collect::<Vec<_>>().join(",")
}

/// Checks that a job has the selected tasks.
fn are_there(job: &v1::JobStatus, tasks: &model::TaskSelection) -> Done {
    let of = job.counts.unwrap_or_default().tasks;
    match tasks.is_within(of) {
        true => Ok(()),
        false => {
            let (name, last) = (job_name(job), of.saturating_sub(1));
            Err(Failure::usage(format!("error: {name} has tasks 0 to {last} only"))
                .next(format!("bourg status {name}")))
        }
    }
}

/// How many of a job's tasks are healthy, or how they ended.
fn tally(job: &v1::JobStatus) -> String {
    let counts = job.counts.unwrap_or_default();
    let good = if run::is_alloc_set(job) { "allocs in place" } else { "healthy" };
    if counts.tasks == 0 && !run::is_dead(job) {
        // Its state says that.
        return String::new();
    }
    let alive = (!run::is_dead(job)).then_some((counts.healthy, good));
    let ended =
        [(counts.finished, "finished"), (counts.failed, "failed"), (counts.killed, "killed")];
    let parts = alive.into_iter().chain(ended.into_iter().filter(|(tasks, _)| *tasks > 0));
    let queued = (counts.queued > 0).then_some((counts.queued, "queued"));
    let parts = parts.chain(queued);
    let part = |(place, (tasks, what)): (usize, (u32, &str))| match place {
        0 => format!("{tasks} of {} {what}", counts.tasks),
        _ => format!("{tasks} {what}"),
    };
    parts.enumerate().map(part).collect::<Vec<_>>().join(", ")
}

/// Prints one job with its tasks, or with those that were selected.
fn show_job(
    format: &Format,
    job: &v1::JobStatus,
    selects: bool,
    used: &JobsUsage,
    now: u64,
) -> Done {
    let priority = priority(job.spec.as_ref().and_then(|spec| spec.priority));
    let age = Time(now).since(Time(job.submitted));
    let queued = job.counts.map_or(0, |counts| counts.queued);
    let why = match (job.waits.as_slice(), job.reason.as_str()) {
        ([], "") => String::new(),
        ([], reason) => format!(" ({reason})"),
        (jobs, _) if job.state() == v1::JobState::Queued => format!(" {}", present::until(jobs)),
        (jobs, _) => format!(" ({queued} queued {})", present::until(jobs)),
    };
    let is_alloc_set = run::is_alloc_set(job);
    let within = match job.alloc_set.as_str() {
        "" => String::new(),
        set => format!("  in {set}"),
    };
    let version = match &job.update {
        None => String::new(),
        Some(update) => {
            let state = word::<v1::UpdateState>(update.state);
            format!("  version {} (update to {} {state})", job.version, update.to)
        }
    };
    let tally = match tally(job).as_str() {
        "" => String::new(),
        tally => format!("  {tally}"),
    };
    output::print(&format!(
        "{}  {}{why}  {priority}{within}{tally}{version}  submitted {age} ago\n",
        job_name(job),
        present::job_state(job),
    ))?;
    if let Some(limits) = limits(job).filter(|_| *format == Format::Wide) {
        output::print(&format!("{limits}\n"))?;
    }
    let without = why::without_task(&job.without_task, job.machines_without_task);
    if let Some(without) = without {
        output::print(&format!("{without}\n"))?;
    }
    if is_alloc_set {
        return show_allocs(format, job, used, now);
    }
    let is_wide = *format == Format::Wide;
    let row = |task: &v1::TaskStatus| {
        let mut row = vec![
            task.index.to_string(),
            word::<v1::TaskState>(task.state).into_owned(),
            Time(now).since(Time(task.since)).to_string(),
            health(task, is_wide),
            task.machine.clone(),
            output::ports(task),
            task.restarts.to_string(),
            last_end(task, now, is_wide),
        ];
        if !job.alloc_set.is_empty() {
            let index = task.alloc.rsplit_once('/').map(|(_, index)| index.to_owned());
            row.insert(5, index.unwrap_or_default());
        }
        if *format == Format::Wide {
            row.push(task.generation.to_string());
            row.push(task.version.to_string());
            row.push(task.failures.to_string());
            row.push(task.check.escape_debug().to_string());
            row.push(task.reason.clone());
            row.extend(used.columns(job, task));
            row.extend(last_usage(task));
            row.push(time_left::of(task, now).map(|left| left.to_string()).unwrap_or_default());
            row.push(shown_labels(&task.labels));
        }
        row
    };
    let mut headings = vec![
        "TASK",
        "STATE",
        "SINCE",
        "HEALTH",
        "MACHINE",
        "PORTS",
        "RESTARTS",
        "LAST END",
        "GENERATION",
        "VERSION",
        "FAILURES",
        "CHECK",
        "REASON",
        "CPU LIMIT",
        "CPU RESERVED",
        "CPU USED",
        "MEMORY LIMIT",
        "MEMORY RESERVED",
        "MEMORY USED",
        "LAST CPU TIME",
        "LAST MEMORY PEAK",
        "TIME LEFT",
        "LABELS",
    ];
    let mut shown = if *format == Format::Wide { headings.len() } else { 8 };
    if !job.alloc_set.is_empty() {
        headings.insert(5, "ALLOC");
        shown += 1;
    }
    output::print(&output::table(&headings[..shown], job.tasks.iter().map(row).collect()))?;
    if !is_wide {
        output::print(&said_of("task", job, now))?;
    }
    if selects || *format == Format::Wide {
        output::print(&outputs(job))?;
    }
    match (format, selects) {
        (Format::Wide, _) => output::print(&start_latency::table(job)),
        (_, true) => {
            output::print(&start_latency::lines(job))?;
            output::print(&time_left::lines(job, now))
        }
        (_, false) => Ok(()),
    }
}

/// The versions of packages that have the outputs of tasks, one a line: `task 1: outputs in package ana/words@12-1-1`.
fn outputs(job: &v1::JobStatus) -> String {
    let tasks = job.tasks.iter().filter(|task| !task.outputs_package.is_empty());
    tasks
        .map(|task| format!("task {}: outputs in package {}\n", task.index, task.outputs_package))
        .collect()
}

/// The limit of a job that is autoscaled, and its user's own if that was another: `limits 0.05 cores, 32 MiB,
/// autoscaled (full); the user's own: 0.5 cores, 256 MiB`.
fn limits(job: &v1::JobStatus) -> Option<String> {
    let spec = job.spec.as_ref()?;
    let message = spec.autoscale.as_ref()?;
    let amount = |amount: &v1::CpuRam| spec::CpuRam::try_from(*amount).unwrap_or_default();
    let bound = |bound: &Option<v1::CpuRam>| bound.as_ref().map(amount).unwrap_or_default();
    let autoscale = match message.mode() {
        v1::autoscale::Mode::Full => spec::Autoscale::Full,
        _ => spec::Autoscale::Constrained { min: bound(&message.min), max: bound(&message.max) },
    };
    let now = amount(&v1::CpuRam { cpu_milli: spec.cpu_milli, ram_bytes: spec.ram_bytes });
    let own = message.own.as_ref().map(|own| format!("; the user's own: {}", amount(own)));
    Some(format!("limits {now}, autoscaled ({autoscale}){}", own.unwrap_or_default()))
}

/// What its last incarnation used: CPU time and peak memory; empty where that was not measured.
fn last_usage(task: &v1::TaskStatus) -> [String; 2] {
    let usage = task.last_usage.and_then(|usage| FinalUsage::try_from(usage).ok());
    let FinalUsage { cpu_time, memory_peak, .. } = usage.unwrap_or_default();
    let shown = |of: Option<String>| of.unwrap_or_default();
    [shown(cpu_time.map(|time| time.to_string())), shown(memory_peak.map(|peak| peak.to_string()))]
}

/// Prints the allocs of an alloc set, and the jobs in them.
fn show_allocs(format: &Format, job: &v1::JobStatus, used: &JobsUsage, now: u64) -> Done {
    let resources = |of: Option<v1::Resources>| {
        let known = of.and_then(|of| Resources::try_from(of).ok());
        known.map(|known| known.to_string()).unwrap_or_default()
    };
    let row = |alloc: &v1::TaskStatus| {
        let taken = match alloc.taken {
            None => String::new(),
            some => format!("{} of {}", resources(some), resources(alloc.limit)),
        };
        let mut row = vec![
            alloc.index.to_string(),
            word::<v1::TaskState>(alloc.state).into_owned(),
            Time(now).since(Time(alloc.since)).to_string(),
            alloc.machine.clone(),
            taken,
            alloc.inside.join(" "),
            last_end(alloc, now, *format == Format::Wide),
        ];
        if *format == Format::Wide {
            row.push(alloc.generation.to_string());
            row.push(alloc.reason.clone());
            row.extend(used.columns(job, alloc));
            row.push(shown_labels(&alloc.labels));
        }
        row
    };
    let headings = [
        "ALLOC",
        "STATE",
        "SINCE",
        "MACHINE",
        "TAKEN",
        "TASKS",
        "LAST END",
        "GENERATION",
        "REASON",
        "CPU USED",
        "MEMORY USED",
        "LABELS",
    ];
    let shown = if *format == Format::Wide { headings.len() } else { 7 };
    output::print(&output::table(&headings[..shown], job.tasks.iter().map(row).collect()))?;
    if *format != Format::Wide {
        output::print(&said_of("alloc", job, now))?;
    }
    match job.jobs.as_slice() {
        [] => output::print("no job runs in it\n"),
        jobs => output::print(&format!("jobs in it: {}\n", jobs.join(", "))),
    }
}

#[cfg(test)]
mod tests {
    use model::Span;

    use super::*;

    #[test]
    fn usage_is_shown_for_the_incarnation_that_it_was_measured_of() {
        let measured =
            v1::Measured { cpu_milli: Some(250), memory_bytes: None, ..v1::Measured::default() };
        let amounts = |cpu_milli, ram_bytes| {
            Some(v1::Resources { cpu_milli, ram_bytes, ..v1::Resources::default() })
        };
        let known = v1::TaskUsage {
            state: v1::TaskState::Running.into(),
            limit: amounts(1_000, 1 << 30),
            reservation: amounts(400, 1 << 29),
            used: Some(measured),
            ..v1::TaskUsage::default()
        };
        let pending =
            v1::TaskUsage { state: v1::TaskState::Pending.into(), used: None, ..known.clone() };
        let tasks = BTreeMap::from([((7, 1, 2), known), ((7, 2, 1), pending)]);
        let used = JobsUsage { tasks, note: None };
        for (collection, index, generation, expected) in [
            (7, 1, 2, ["1", "0.4", "0.25", "1 GiB", "512 MiB", "-"]),
            (7, 1, 3, ["-", "-", "-", "-", "-", "-"]),
            (7, 2, 1, ["1", "-", "-", "1 GiB", "-", "-"]),
            (8, 1, 2, ["-", "-", "-", "-", "-", "-"]),
        ] {
            let job = v1::JobStatus { collection, ..v1::JobStatus::default() };
            let task = v1::TaskStatus { index, generation, ..v1::TaskStatus::default() };
            assert_eq!(used.columns(&job, &task), expected);
        }
    }

    #[test]
    fn a_watch_shows_lines_that_changed_and_not_those_that_became_older() {
        let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
        let table = |rows: &[(&str, u64, &str)]| {
            let row = |row: &(&str, u64, &str)| format!("{}  {}  {}\n", row.0, Span(row.1), row.2);
            lines(&format!(
                "JOB  STATE  SINCE  RESTARTS\n{}",
                rows.iter().map(row).collect::<String>()
            ))
        };
        let before = table(&[("web  running", 5_000_000, "3"), ("api  pending", 63_000_000, "0")]);
        let mut now = table(&[
            ("web  running", 5_400_000, "3"),
            ("api  running", 0, "0"),
            ("new  pending", 1_000, "0"),
        ]);
        now.insert(3, String::new());
        assert_eq!(new_lines(&[], &before), before.join("\n") + "\n");
        assert_eq!(new_lines(&before, &now), "api  running  0 s  0\nnew  pending  1 ms  0\n");
        assert_eq!(new_lines(&now, &now), "");
        // Every unit is a time, and no other number is.
        for age in
            [999, 120_000, 59_000_000, 250_000_000, 4_000_000_000, 90_000_000_000, 86_400_000_000]
        {
            let older = table(&[("web  running", age, "3"), ("api  pending", age, "0")]);
            assert_eq!(new_lines(&before, &older), "", "{}", Span(age));
            let restarted = table(&[("web  running", age, "4")]);
            let line = format!("web  running  {}  4\n", Span(age));
            assert_eq!(new_lines(&before, &restarted), line);
        }
    }

    #[test]
    fn ended_tasks_are_counted_by_outcome() {
        use v1::JobState::{Failed, Finished, Killed, Pending, Running};
        let job =
            |state: v1::JobState, [healthy, finished, failed, killed]: [u32; 4]| v1::JobStatus {
                state: state.into(),
                counts: Some(v1::JobCounts {
                    tasks: 20,
                    healthy,
                    finished,
                    failed,
                    killed,
                    ..v1::JobCounts::default()
                }),
                ..v1::JobStatus::default()
            };
        for (state, counts, says) in [
            (Running, [20, 0, 0, 0], "20 of 20 healthy"),
            (Pending, [0, 0, 0, 0], "0 of 20 healthy"),
            (Running, [4, 15, 0, 1], "4 of 20 healthy, 15 finished, 1 killed"),
            (Finished, [0, 20, 0, 0], "20 of 20 finished"),
            (Failed, [0, 17, 2, 1], "17 of 20 finished, 2 failed, 1 killed"),
            (Killed, [0, 0, 0, 20], "20 of 20 killed"),
        ] {
            assert_eq!(tally(&job(state, counts)), says, "{state:?} {counts:?}");
        }
    }
}
