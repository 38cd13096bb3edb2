//! `bourg run`: submits jobs and shows how they come to life.

use std::fmt::Write as _;
use std::io::IsTerminal;
use std::path::Path;
use std::time::{Duration, Instant};

use model::{Resources, Span};
use proto::v1;
use spec::JobSpec;

use super::cells::Connection;
use super::exit::{Code, Done, Failure};
use super::{RunArgs, output, why, with_cell};
use crate::cli::cells::Target;
use crate::evaluate;

/// How long a task is pending before it is said why.
const WHY_AFTER: Duration = Duration::from_secs(1);

pub(super) fn run(cell: Target<'_>, args: &RunArgs) -> Done {
    let jobs = evaluate::evaluate(&args.file)?;
    with_cell(cell, async |mut connection| {
        let wait = (!args.detach).then_some(args.timeout);
        if let Some(wait) = wait {
            connection.set_patience(wait);
        }
        submit_all(&mut connection, &jobs, wait, &args.file).await.map(drop)
    })
}

/// Submits jobs and waits for each until it is healthy or done. Gives their addresses.
pub(super) async fn submit_all(
    connection: &mut Connection,
    jobs: &[JobSpec],
    wait: Option<Duration>,
    file: &Path,
) -> Result<Vec<String>, Failure> {
    if jobs.is_empty() {
        return Err(Failure::usage(format!("error: {} has no jobs", file.display())));
    }
    let begun = Instant::now();
    let cell = connection.cell_status().await?;
    let mut admitted = Vec::new();
    for job in jobs {
        let id = Some(connection.request_id().await?);
        let request = v1::SubmitRequest { id, spec: Some(job.into()) };
        let submitted = connection
            .ask(request, async |mut client, request| client.submit(request).await)
            .await?;
        let name = format!("{}/{}", submitted.user, job.name);
        let (tasks, what) = (count(job.kind.is_alloc_set(), job.tasks), done(&submitted));
        let kind = if job.kind.is_alloc_set() { "alloc set" } else { "job" };
        eprintln!("{kind}  {name}   {tasks}  {}  {}{what}", job.priority, job.total());
        for note in &submitted.notes {
            output::say(&format!("note: {note}\n"));
        }
        admitted.push((name, submitted));
    }
    let Some(wait) = wait else { return Ok(admitted.into_iter().map(|(name, _)| name).collect()) };
    for ((name, submitted), job) in admitted.iter().zip(jobs) {
        let address = v1::JobAddress { user: submitted.user.clone(), job: job.name.to_string() };
        let last = Progress::new(begun).watch(connection, address, name, wait).await?;
        print_addresses(&cell.name, &last)?;
    }
    Ok(admitted.into_iter().map(|(name, _)| name).collect())
}

/// What was done for a job that was there before: nothing, or an update, with what is different.
fn done(submitted: &v1::SubmitResponse) -> String {
    match (submitted.updated, submitted.changes.as_slice()) {
        (false, _) if submitted.unchanged => "  unchanged".to_owned(),
        (false, _) => String::new(),
        (true, []) => "  updated".to_owned(),
        (true, changes) => format!("  updated: {}", changes.join(", ")),
    }
}

/// How far a job has come, and when it came there.
struct Progress {
    begun: Instant,
    stages: [Option<(u32, Duration)>; 3],
    tasks: u32,
    live: bool,
    /// It has been said how a task failed.
    said_failure: bool,
    /// For which jobs it has been said to wait.
    said_waiting: Vec<String>,
}

/// What is said of the stages of a job; an alloc that is in place is healthy.
const STAGES: [&str; 3] = ["scheduled", "running", "healthy"];

impl Progress {
    fn new(begun: Instant) -> Self {
        let live = std::io::stderr().is_terminal();
        let (said_failure, said_waiting) = (false, Vec::new());
        Self { begun, stages: [None; 3], tasks: 0, live, said_failure, said_waiting }
    }

    /// Shows progress until every task is healthy or finished.
    async fn watch(
        mut self,
        connection: &mut Connection,
        address: v1::JobAddress,
        name: &str,
        wait: Duration,
    ) -> Result<v1::JobStatus, Failure> {
        let request = v1::WatchJobRequest { job: Some(address.clone()) };
        let mut statuses = connection
            .stream(request.clone(), async |mut client, request| client.watch_job(request).await)
            .await?;
        let admitted = self.begun.elapsed();
        let until = tokio::time::Instant::now() + wait;
        let say_why = tokio::time::sleep(WHY_AFTER);
        let mut say_why = std::pin::pin!(say_why);
        let mut said_why = false;
        let mut last: Option<v1::JobStatus> = None;
        loop {
            let pending = last.as_ref().is_none_or(|job| counts(job).pending > 0);
            tokio::select! {
                message = statuses.message() => match message {
                    Ok(Some(message)) => last = message.jobs.into_iter().next().or(last),
                    // The replica was restarted or knows nothing new, or the job is dead and all is
                    // said.
                    _ if last.as_ref().is_some_and(is_dead) => {}
                    _ => {
                        connection.elsewhere();
                        tokio::time::sleep(Duration::from_millis(100)).await;
                        let address = address.clone();
                        let status = connection.ask(
                            v1::StatusRequest {
                                jobs: vec![address],
                                tasks: true,
                                dead: true,
                                ..v1::StatusRequest::default()
                            },
                            async |mut client, request| client.status(request).await,
                        ).await?;
                        last = status.jobs.into_iter().next();
                        let again = connection
                            .stream(request.clone(), async |mut client, request| client.watch_job(request).await);
                        statuses = again.await?;
                    }
                },
                () = &mut say_why, if pending && !said_why => {
                    said_why = true;
                    eprint!("{}", self.end_line(admitted));
                    output::say(&why::explain(connection, address.clone()).await?);
                }
                () = tokio::time::sleep_until(until) => {
                    eprintln!("{}", self.line(admitted));
                    return Err(late(name, last.as_ref(), wait));
                }
            }
            let Some(job) = &last else { continue };
            self.note(job);
            self.say_waiting(job, admitted);
            if counts(job).queued > 0 {
                // That it is pending is worth a word only when it has been so for a while.
                say_why.as_mut().reset(tokio::time::Instant::now() + WHY_AFTER);
            }
            self.say_failure(name, job, admitted);
            if self.live {
                eprint!("\r\x1b[K{}", self.line(admitted));
            }
            let counts = counts(job);
            let over = counts.healthy + counts.finished + counts.failed + counts.killed;
            if counts.failed + counts.killed > 0 && (is_dead(job) || over == counts.tasks) {
                eprintln!("{}{}", if self.live { "\r\x1b[K" } else { "" }, self.line(admitted));
                return Err(dead(name, job));
            }
            if counts.healthy + counts.finished == counts.tasks {
                eprintln!("{}{}", if self.live { "\r\x1b[K" } else { "" }, self.line(admitted));
                return Ok(job.clone());
            }
        }
    }

    /// Says once how a task failed that is tried again: waiting for it may take long.
    fn say_failure(&mut self, name: &str, job: &v1::JobStatus, admitted: Duration) {
        let failed = job.tasks.iter().find(|task| task.failures > 0 && task.state == "pending");
        if let Some(task) = failed.filter(|_| !self.said_failure) {
            self.said_failure = true;
            eprint!("{}", self.end_line(admitted));
            let (index, end) = (task.index, &task.last_end_text);
            output::say(&format!(" task {index} failed: {end}; it is tried again\n"));
            eprintln!(" next: bourg logs {name}/{}", task.index);
        }
    }

    /// Says for which jobs it waits, whenever they are others.
    fn say_waiting(&mut self, job: &v1::JobStatus, admitted: Duration) {
        if self.said_waiting != job.waits_for && !job.waits_for.is_empty() {
            eprint!("{}", self.end_line(admitted));
            eprintln!(" queued {}", why::until(&job.waits_for));
        }
        self.said_waiting.clone_from(&job.waits_for);
    }

    fn note(&mut self, job: &v1::JobStatus) {
        let counts = counts(job);
        self.tasks = counts.tasks;
        let done = counts.finished;
        let reached = [counts.scheduled + done, counts.running + done, counts.healthy + done];
        let now = self.begun.elapsed();
        for (stage, reached) in self.stages.iter_mut().zip(reached) {
            if stage.is_none_or(|(before, _)| reached != before) {
                *stage = Some((reached, now));
            }
        }
    }

    /// ` admitted 12 ms · scheduled 3/3 21 ms · running 3/3 80 ms · healthy 3/3 1.1 s`
    fn line(&self, admitted: Duration) -> String {
        let shown = |time: Duration| Span(u64::try_from(time.as_micros()).unwrap_or(u64::MAX));
        let mut line = format!(" admitted {}", shown(admitted));
        for (name, stage) in STAGES.iter().zip(&self.stages) {
            if let Some((reached, at)) = stage.filter(|(reached, _)| *reached > 0) {
                let tasks = self.tasks;
                let _infallible = write!(line, " · {name} {reached}/{tasks} {}", shown(at));
            }
        }
        line
    }

    fn end_line(&self, admitted: Duration) -> String {
        if self.live { format!("\r\x1b[K{}\n", self.line(admitted)) } else { String::new() }
    }
}

fn counts(job: &v1::JobStatus) -> v1::JobCounts {
    job.counts.unwrap_or_default()
}

fn count(allocs: bool, tasks: u32) -> String {
    let (what, s) = (if allocs { "alloc" } else { "task" }, if tasks == 1 { "" } else { "s" });
    format!("{tasks} {what}{s}")
}

/// Whether what is shown is an alloc set.
pub(super) fn is_alloc_set(job: &v1::JobStatus) -> bool {
    job.spec.as_ref().is_some_and(|spec| spec.allocs.is_some())
}

/// Whether nothing of it will run again.
pub(super) fn is_dead(job: &v1::JobStatus) -> bool {
    ["finished", "failed", "killed"].contains(&job.state.as_str())
}

fn dead(name: &str, job: &v1::JobStatus) -> Failure {
    if !is_dead(job) {
        let (ended, tasks) = (counts(job).failed + counts(job).killed, counts(job).tasks);
        let (all, fail) = (count(is_alloc_set(job), tasks), "failed or were killed");
        return Failure::failed(format!("error: {ended} of {all} of {name} {fail}, for good"))
            .next(format!("bourg status {name} · bourg kill {name}"));
    }
    let failed = job.tasks.iter().find(|task| task.state == "failed");
    let Some(task) = failed.filter(|_| job.state == "failed") else {
        // Killed by somebody, or with another job.
        let why = match (job.reason.as_str(), job.reason.starts_with("by ")) {
            ("", _) => String::new(),
            (why, true) => format!(" {why}"),
            (why, false) => format!(": {why}"),
        };
        return Failure::failed(format!("error: {name} {}{why}", job.state))
            .next(format!("bourg events {name}"));
    };
    let (index, end) = (task.index, &task.last_end_text);
    Failure::failed(format!("error: {name} {}: task {index} {end}", job.state))
        .next(format!("bourg logs {name}/{index}"))
}

fn late(name: &str, job: Option<&v1::JobStatus>, wait: Duration) -> Failure {
    let Some(job) = job else {
        return Failure::failed(format!("error: nothing is known of {name}"));
    };
    let (counts, wait) = (counts(job), wait.as_secs());
    if counts.queued > 0 {
        let until = why::until(&job.waits_for);
        let text = format!("error: not placed within {wait} s: {name} is queued {until}");
        let first = job.waits_for.first().map(String::as_str).unwrap_or_default();
        return Failure::new(Code::NotPlaced, text)
            .next(format!("bourg status {first} · bourg kill {name}"));
    }
    if counts.pending > 0
        && job.tasks.iter().all(|task| task.state != "pending" || task.failures == 0)
    {
        let text = format!(
            "error: not placed within {wait} s: {} of the {} of {name}; it stays pending",
            counts.pending,
            count(is_alloc_set(job), counts.tasks)
        );
        return Failure::new(Code::NotPlaced, text)
            .next(format!("bourg why {name} · bourg kill {name}"));
    }
    let sick = job
        .tasks
        .iter()
        .find(|task| task.state != "finished" && task.health != v1::Health::Healthy as i32);
    let sick = sick.map(|task| {
        let last = match task.last_end_text.as_str() {
            "" => String::new(),
            end => format!(", its last life ended with {end}"),
        };
        format!(": task {} is {}{last}", task.index, task.state)
    });
    let text = format!(
        "error: {} of {} tasks of {name} are healthy after {wait} s{}",
        counts.healthy + counts.finished,
        counts.tasks,
        sick.unwrap_or_default()
    );
    let next = match is_alloc_set(job) {
        true => format!("bourg why {name} · bourg status {name}"),
        false => format!("bourg logs {name} · bourg status {name}"),
    };
    Failure::failed(text).next(next)
}

/// The names and addresses of a job's tasks: the first port is the address, others are named.
fn print_addresses(cell: &str, job: &v1::JobStatus) -> Done {
    let name = job.spec.as_ref().map(|spec| spec.name.clone()).unwrap_or_default();
    let mut text = String::new();
    for task in job.tasks.iter().filter(|task| !task.ports.is_empty()) {
        let ports = task.ports.iter().map(|port| {
            let label =
                if task.ports.len() > 1 { format!("{}=", port.name) } else { String::new() };
            format!("{label}{}:{}", task.host, port.port)
        });
        let ports = ports.collect::<Vec<_>>().join(" ");
        let _infallible =
            writeln!(text, "{}.{name}.{}.{cell}.borg → {ports}", task.index, job.user);
    }
    output::print(&text)
}

/// A cell's resources in a few words.
pub(super) fn capacity(capacity: Option<&v1::Resources>) -> String {
    let capacity = capacity.and_then(|capacity| Resources::try_from(*capacity).ok());
    capacity.map(|all| format!("{}, {}", all.cpu, all.ram)).unwrap_or_default()
}
