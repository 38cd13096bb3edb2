//! `bourg run`: submits jobs and shows their progress.

mod addresses;
pub(crate) mod outcome;
mod settling;

use std::io::IsTerminal;
use std::path::Path;
use std::time::{Duration, Instant};

use api::v1;
use client::Connection;
use client::Target;
use command::{Done, Failure, output};
use model::{Span, Time};
use spec::JobSpec;

use self::settling::Settling;
use super::{RunArgs, plan, prune, sources, update, why};
use crate::last_lines::last_lines;
use crate::said::{start_was_lost, starts_lost};

/// How long a task must be pending before the command explains why.
const WHY_AFTER: Duration = Duration::from_secs(1);
/// How often the place of a job in the batch queue is asked for.
const QUEUE_AFTER: Duration = Duration::from_secs(5);
/// The time between two submissions of a job of whose name another one is being killed.
const AGAIN: Duration = Duration::from_millis(250);
/// The failures of tasks of a job that are shown while it is waited for, each with the last output.
const FAILURES_SHOWN: u32 = 3;
/// The default timeout for tasks to become healthy.
const HEALTHY_PATIENCE: Duration = Duration::from_secs(300);

/// The state of tasks that a command waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Far {
    /// Healthy, or finished.
    Healthy,
    /// Finished.
    Finished,
    /// Running.
    Running,
    /// Ended in any way.
    Dead,
}

impl std::fmt::Display for Far {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Healthy => "healthy",
            Self::Finished => "finished",
            Self::Running => "running",
            Self::Dead => "dead",
        })
    }
}

/// What to wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wait {
    /// Until every task is healthy or has finished; with a timeout.
    Healthy(Duration),
    /// Until every task has ended permanently; with an optional timeout.
    Ended(Option<Duration>),
    /// Until every task runs, or has run; with an optional timeout.
    Running(Option<Duration>),
    /// Until the job is dead, however it ended; with an optional timeout.
    Dead(Option<Duration>),
}

impl Wait {
    fn of(args: &RunArgs) -> Option<Self> {
        match (args.detach, args.wait) {
            (true, _) => None,
            (false, true) => Some(Self::Ended(args.timeout)),
            (false, false) => Some(Self::Healthy(args.timeout.unwrap_or(HEALTHY_PATIENCE))),
        }
    }

    fn patience(self) -> Option<Duration> {
        match self {
            Self::Healthy(patience) => Some(patience),
            Self::Ended(patience) | Self::Running(patience) | Self::Dead(patience) => patience,
        }
    }

    /// The awaited state of the tasks.
    fn far(self) -> Far {
        match self {
            Self::Healthy(_) => Far::Healthy,
            Self::Ended(_) => Far::Finished,
            Self::Running(_) => Far::Running,
            Self::Dead(_) => Far::Dead,
        }
    }

    /// The job's outcome, once it is known.
    fn over(self, name: &str, job: &v1::JobStatus) -> Option<Result<(), Failure>> {
        let (counts, is_dead, waits) = (counts(job), is_dead(job), matches!(self, Self::Ended(_)));
        let unhappy = counts.failed + counts.killed;
        let also = match self {
            Self::Dead(_) => return is_dead.then_some(Ok(())),
            Self::Ended(_) => 0,
            Self::Healthy(_) => counts.healthy,
            Self::Running(_) => counts.running,
        };
        let done = counts.finished + also;
        let over = done + unhappy == counts.tasks;
        if unhappy > 0 && (is_dead || over) {
            return Some(Err(outcome::dead(name, job, waits)));
        }
        over.then_some(Ok(()))
    }
}

pub(super) fn run(cell: Target<'_>, args: &RunArgs) -> Done {
    if args.print {
        return output::print(&match args.files.as_slice() {
            [] => args.line.bcl()?,
            files => sources::bcl_of_script(files, &args.line)?,
        });
    }
    args.prune.check()?;
    let jobs = match args.files.as_slice() {
        [] if args.line.is_job() => sources::evaluate_command(&args.line, &args.imports)?,
        [] => {
            return Err(Failure::usage("error: neither a file nor a command is given")
                .next("bourg run FILE, or a command as in: bourg run --cpu 1 -- CMD"));
        }
        files => sources::evaluate(files, &args.imports, &args.line)?,
    };
    jobs.with_cell(cell, async |mut connection, jobs| {
        if args.plan {
            let request = |_: &JobSpec| v1::PlanRequest::default();
            plan::show(&mut connection, &jobs, &output::Format::Table, request).await?;
            return prune::show(&mut connection, &args.prune, &jobs).await.map(drop);
        }
        let surplus = prune::confirmed(&mut connection, &args.prune, &jobs).await?;
        let wait = Wait::of(args);
        if let Some(patience) = wait.and_then(Wait::patience) {
            connection.set_patience(patience);
        }
        let patience = if args.keep_waiting { None } else { Some(FAILURES_SHOWN) };
        let submitted = submit_all(&mut connection, &jobs, wait, patience).await;
        // What the files no longer describe goes once what they describe is admitted.
        if submitted.is_ok() {
            prune::kill(&mut connection, surplus).await?;
        }
        submitted.map(drop)
    })
}

/// Submits the jobs of a file and waits until they are healthy, each at most so long.
///
/// # Errors
/// If a job is rejected, fails, or is not healthy in time.
pub async fn submit_and_wait(
    connection: &mut Connection,
    jobs: &[JobSpec],
    timeout: Duration,
    file: &Path,
) -> Done {
    if jobs.is_empty() {
        return Err(Failure::usage(format!("error: {} has no jobs", file.display())));
    }
    submit_all(connection, jobs, Some(Wait::Healthy(timeout)), None).await.map(drop)
}

/// Submits jobs and waits for each, until a task has failed so many times. Returns their addresses.
async fn submit_all(
    connection: &mut Connection,
    jobs: &[JobSpec],
    wait: Option<Wait>,
    failures: Option<u32>,
) -> Result<Vec<String>, Failure> {
    let begun = Instant::now();
    let cell = connection.cell_status().await?;
    let mut admitted = Vec::new();
    for job in jobs {
        let patience = wait.and_then(Wait::patience).unwrap_or(HEALTHY_PATIENCE);
        let submitted = submit(connection, job, patience).await?;
        let name = format!("{}/{}", submitted.user, job.name);
        let what = done(&submitted);
        let kind = if job.kind.is_alloc_set() { "alloc set" } else { "job" };
        let (tasks, requested) = if job.is_on_every_machine() {
            ("1 task on each machine".to_owned(), format!("{} each", job.task.limit))
        } else {
            (count(job.kind.is_alloc_set(), job.tasks), job.total().to_string())
        };
        eprintln!("{kind}  {name}   {tasks}  {}  {requested}{what}", job.priority);
        for note in &submitted.notes {
            output::say(&format!("note: {note}\n"));
        }
        admitted.push((name, submitted, begun.elapsed()));
    }
    let names =
        |admitted: Vec<(String, _, _)>| admitted.into_iter().map(|(name, ..)| name).collect();
    let Some(wait) = wait else { return Ok(names(admitted)) };
    let (mut failed, several) = (None, jobs.len() > 1);
    for (place, ((name, submitted, at), job)) in admitted.iter().zip(jobs).enumerate() {
        let address = v1::JobAddress { user: submitted.user.clone(), job: job.name.to_string() };
        if submitted.updated && submitted.version > 0 {
            let patience = wait.patience();
            let (version, awaited) = (submitted.version, update::Awaited::Updated);
            let followed = update::watch(connection, &address, version, awaited, patience).await;
            match (followed, wait) {
                (Ok(()), _) => {}
                (Err(failure), Wait::Healthy(_)) => return Err(failure),
                (Err(failure), _) if failed.is_none() => failed = Some(failure),
                (Err(failure), _) => output::say(&format!("{failure}\n")),
            }
        }
        let known = ShownJob {
            label: several.then(|| name.clone()),
            admitted: Some(*at),
            // The others were not watched while the first one was waited for.
            was_there: submitted.unchanged || place > 0,
        };
        let progress = Progress::new(begun, failures, known);
        match (progress.watch(connection, address, name, wait).await, wait) {
            (Ok(last), _) => addresses::print_addresses(&cell.name, &last)?,
            (Err(failure), Wait::Healthy(_)) => return Err(failure),
            // Still wait for the end of the other jobs.
            (Err(failure), _) if failed.is_none() => failed = Some(failure),
            (Err(failure), _) => output::say(&format!("{failure}\n")),
        }
    }
    if let Some(failed) = failed {
        return Err(failed);
    }
    Ok(names(admitted))
}

/// Submits a job. A job of that name that is being killed ends first.
async fn submit(
    connection: &mut Connection,
    job: &JobSpec,
    patience: Duration,
) -> Result<v1::SubmitResponse, Failure> {
    let (begun, mut said) = (Instant::now(), false);
    loop {
        let id = Some(connection.request_id().await?);
        let request = v1::SubmitRequest { id, spec: Some(job.into()) };
        let answer = connection
            .ask(request, async |mut client, request| client.jobs.submit(request).await)
            .await;
        match answer {
            Err(error) if error.is_being_killed() && begun.elapsed() < patience => {
                if !std::mem::replace(&mut said, true) {
                    let what =
                        "is submitted when the job of that name, which is being killed, has ended";
                    eprintln!("{}: {what}", job.name);
                }
                tokio::time::sleep(AGAIN).await;
            }
            answer => return Ok(answer?),
        }
    }
}

/// Waits for a job that was submitted before.
pub(super) async fn wait_for(
    connection: &mut Connection,
    address: v1::JobAddress,
    name: &str,
    wait: Wait,
) -> Done {
    let known = ShownJob { label: None, admitted: None, was_there: true };
    let progress = Progress::new(Instant::now(), None, known);
    progress.watch(connection, address, name, wait).await.map(drop)
}

/// What the submission did to an existing job: nothing, or an update with its changes.
fn done(submitted: &v1::SubmitResponse) -> String {
    match (submitted.updated, submitted.changes.as_slice()) {
        (false, _) if submitted.unchanged => "  unchanged".to_owned(),
        (false, _) => String::new(),
        (true, []) => "  updated".to_owned(),
        (true, changes) => format!("  updated: {}", changes.join(", ")),
    }
}

/// What is known of a job before its progress is shown.
struct ShownJob {
    /// Its name, if several are shown.
    label: Option<String>,
    /// When this command had it admitted.
    admitted: Option<Duration>,
    /// Whether it may have reached stages before it is looked at: it is not known when.
    was_there: bool,
}

/// The stages that a job has reached, and when, if that is known.
struct Progress {
    begun: Instant,
    known: ShownJob,
    stages: [Option<(u32, Option<Duration>)>; STAGES.len()],
    tasks: u32,
    live: bool,
    /// The failures of each task at the last check.
    failures: Vec<u32>,
    /// The starts of each task that were lost in a row, at the last check.
    lost: Vec<u32>,
    /// How long tasks without a health check have to run.
    settling: Settling,
    /// Whether it was said that the job has no tasks.
    said_empty: bool,
    /// The failures of tasks that were reported.
    said_failures: u32,
    /// The task whose failure was reported last.
    said_failure: Option<u32>,
    /// The failures of tasks that are waited for; `None` for any number.
    patience: Option<u32>,
    /// The jobs for which waiting was reported.
    said_waiting: Vec<String>,
    /// The place in the batch queue that was reported: among the owner's jobs, and whether it has a turn.
    said_place: Option<(u32, bool)>,
}

/// The stages of a job; an alloc in place counts as healthy.
const STAGES: [&str; 4] = ["scheduled", "running", "healthy", "finished"];

impl Progress {
    fn new(begun: Instant, patience: Option<u32>, known: ShownJob) -> Self {
        let live = std::io::stderr().is_terminal();
        let (failures, said_failure, said_waiting) = (Vec::new(), None, Vec::new());
        let stages = [None; STAGES.len()];
        // What somebody else started is as healthy as the cell says.
        let settling = if known.admitted.is_some() { Settling::Started } else { Settling::No };
        Self {
            begun,
            known,
            stages,
            tasks: 0,
            live,
            failures,
            lost: Vec::new(),
            settling,
            said_empty: false,
            said_failures: 0,
            said_failure,
            patience,
            said_waiting,
            said_place: None,
        }
    }

    /// Shows progress until the wait is over.
    async fn watch(
        mut self,
        connection: &mut Connection,
        address: v1::JobAddress,
        name: &str,
        wait: Wait,
    ) -> Result<v1::JobStatus, Failure> {
        let mut request = v1::WatchJobRequest { job: Some(address.clone()), index: 0 };
        let mut statuses = connection
            .stream(request.clone(), async |mut client, request| client.jobs.watch(request).await)
            .await?;
        let patience = wait.patience();
        let until = tokio::time::sleep(patience.unwrap_or_default());
        let mut until = std::pin::pin!(until);
        let say_why = tokio::time::sleep(WHY_AFTER);
        let mut say_why = std::pin::pin!(say_why);
        let mut said_why = false;
        let look_at_queue = tokio::time::sleep(WHY_AFTER);
        let mut look_at_queue = std::pin::pin!(look_at_queue);
        let settled = tokio::time::sleep(Duration::ZERO);
        let mut settled = std::pin::pin!(settled);
        let mut settles = false;
        let mut last: Option<v1::JobStatus> = None;
        // The time of the master in the newest answer, and when that was here.
        let mut seen = (Time(0), Instant::now());
        loop {
            let pending = last.as_ref().is_none_or(|job| counts(job).pending > 0);
            tokio::select! {
                message = statuses.message() => match message {
                    Ok(Some(message)) => {
                        // Another replica may be behind this one.
                        request.index = message.index;
                        seen = (Time(message.time), Instant::now());
                        last = message.jobs.into_iter().next().or(last);
                    }
                    // The replica was restarted or had no news, or the job is dead and everything
                    // is printed.
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
                            async |mut client, request| client.jobs.status(request).await,
                        ).await?;
                        if status.index >= request.index {
                            request.index = status.index;
                            seen = (Time(status.time), Instant::now());
                            last = status.jobs.into_iter().next();
                        }
                        let again = connection
                            .stream(request.clone(), async |mut client, request| client.jobs.watch(request).await);
                        statuses = again.await?;
                    }
                },
                () = &mut say_why, if pending && !said_why => {
                    said_why = true;
                    eprint!("{}", self.end_line());
                    output::say(&why::explain(connection, address.clone()).await?);
                }
                () = &mut look_at_queue, if last.as_ref().is_some_and(is_in_queue) => {
                    // Only shown: the job waits on, whether its place is known or not.
                    let asked = self.say_place(connection, &address);
                    let _unknown = tokio::time::timeout(QUEUE_AFTER, asked).await;
                    look_at_queue.as_mut().reset(tokio::time::Instant::now() + QUEUE_AFTER);
                }
                () = &mut settled, if settles => settles = false,
                () = &mut until, if patience.is_some() => {
                    eprintln!("{}", self.line());
                    // They are healthy as far as the cell knows, and there is no time to see more.
                    if let Some(job) = last.as_ref().filter(|_| self.settling == Settling::Started)
                        && matches!(wait.over(name, job), Some(Ok(())))
                    {
                        return Ok(job.clone());
                    }
                    let patience = patience.unwrap_or_default();
                    return Err(outcome::late(name, last.as_ref(), patience, wait.far()));
                }
            }
            let Some(job) = &last else { continue };
            self.note(job);
            self.say_waiting(job);
            self.say_empty(name, job);
            if counts(job).queued > 0 {
                // Explain a pending task only after a while.
                say_why.as_mut().reset(tokio::time::Instant::now() + WHY_AFTER);
            }
            let failed = self.failed(job).filter(|_| !is_dead(job));
            if failed.is_some() {
                self.settling = Settling::Failed;
            }
            let lost = self.lost(job).filter(|_| !is_dead(job));
            if let Some(task) = failed.or(lost).filter(|_| self.said_failures < FAILURES_SHOWN) {
                self.said_failures += 1;
                self.said_failure = Some(task.index);
                let why = lost.and_then(|task| start_was_lost(task, seen.0.0));
                match why.filter(|_| failed.is_none()) {
                    Some(why) => {
                        said_why = true;
                        self.say_lost_start(name, task.index, &why);
                    }
                    None => self.say_failure(connection, &address, name, task).await,
                }
                let is_final = self.patience.is_some_and(|most| self.said_failures >= most);
                if is_final && matches!(wait, Wait::Healthy(_)) {
                    return Err(outcome::keeps_failing(name, task, self.said_failures));
                }
            }
            if self.live {
                eprint!("\r\x1b[K{}", self.line());
            }
            let Some(over) = wait.over(name, job) else { continue };
            if matches!(wait, Wait::Healthy(_)) && over.is_ok() {
                let now = seen.0 + Span(micros(seen.1.elapsed()));
                if let Some(left) = settling::left(job, self.settling, now) {
                    settles = true;
                    settled.as_mut().reset(tokio::time::Instant::now() + left);
                    continue;
                }
            }
            eprintln!("{}{}", if self.live { "\r\x1b[K" } else { "" }, self.line());
            let failed = outcome::failed(job).map(|task| task.index);
            if let Some(task) = failed.filter(|task| self.said_failure != Some(*task)) {
                output::say(&last_lines(connection, address, task, None).await);
            }
            return over.map(|()| job.clone());
        }
    }

    /// A task that failed and is being retried, if any; of a service, one that ended in any way.
    fn failed<'a>(&mut self, job: &'a v1::JobStatus) -> Option<&'a v1::TaskStatus> {
        let serves = is_service(job);
        let ends = |task: &v1::TaskStatus| if serves { task.restarts } else { task.failures };
        let now: Vec<u32> = job.tasks.iter().map(ends).collect();
        // With a short delay before the retry, only the counter shows the failure.
        let before = std::mem::replace(&mut self.failures, now);
        let tasks = job.tasks.iter().enumerate();
        let failed = |(place, task): &(usize, &v1::TaskStatus)| {
            let state = task.state();
            // At the first look it may wait for its restart. Later that was told already.
            let first = || ends(task) > 0 && state == v1::TaskState::Pending;
            let more = before.get(*place).map_or_else(first, |before| ends(task) > *before);
            more && !state.is_dead()
        };
        tasks.into_iter().find(failed).map(|(_, task)| task)
    }

    /// A task that could not be started once more, if any, for a reason that may pass.
    fn lost<'a>(&mut self, job: &'a v1::JobStatus) -> Option<&'a v1::TaskStatus> {
        let now: Vec<u32> = job.tasks.iter().map(starts_lost).collect();
        let before = std::mem::replace(&mut self.lost, now);
        let mut tasks = job.tasks.iter().enumerate();
        let more = |place: usize, task: &v1::TaskStatus| {
            starts_lost(task) > before.get(place).copied().unwrap_or_default()
        };
        tasks.find(|(place, task)| more(*place, task)).map(|(_, task)| task)
    }

    /// Reports a start that was lost.
    fn say_lost_start(&self, name: &str, task: u32, why: &str) {
        eprint!("{}", self.end_line());
        output::say(&format!(" task {task} {why}\n"));
        eprintln!(" next: bourg why {name}");
    }

    /// Says once that a job has no tasks: that it lives on may be what keeps the command waiting.
    fn say_empty(&mut self, name: &str, job: &v1::JobStatus) {
        let is_empty = counts(job).tasks == 0 && !is_dead(job);
        if !is_empty || std::mem::replace(&mut self.said_empty, true) {
            return;
        }
        let every = job.spec.as_ref().is_some_and(|spec| spec.every_machine);
        let next = match every {
            true => "it gets one on each machine that suits it".to_owned(),
            false => format!("bourg resize {name} 1 starts one"),
        };
        eprintln!(" {name} has no tasks, and lives on: {next}; bourg kill {name} ends it");
    }

    /// Reports a failure that is being retried, with the task's output: the wait may be long.
    async fn say_failure(
        &self,
        connection: &mut Connection,
        job: &v1::JobAddress,
        name: &str,
        task: &v1::TaskStatus,
    ) {
        eprint!("{}", self.end_line());
        let (index, end) = (task.index, &task.last_end_text);
        let exited = task.last_end.as_ref().and_then(|end| end.how.as_ref());
        let text = match exited {
            Some(v1::end::How::Exited(0)) => format!("ended: {end}; starting it again"),
            _ => format!("failed: {end}; retrying"),
        };
        output::say(&format!(" task {index} {text}\n"));
        output::say(&last_lines(connection, job.clone(), index, None).await);
        eprintln!(" next: bourg logs {name}/{index}");
    }

    /// Reports the jobs that this one waits for, whenever they change.
    fn say_waiting(&mut self, job: &v1::JobStatus) {
        if self.said_waiting != job.waits_for && !job.waits_for.is_empty() {
            eprint!("{}", self.end_line());
            eprintln!(" queued {}", present::until(&job.waits));
        }
        self.said_waiting.clone_from(&job.waits_for);
    }

    /// Reports the place in the batch queue, whenever it changes.
    async fn say_place(
        &mut self,
        connection: &mut Connection,
        job: &v1::JobAddress,
    ) -> Result<(), Failure> {
        let request = v1::WhyRequest { job: Some(job.clone()), ..v1::WhyRequest::default() };
        let answer = connection
            .ask(request, async |mut client, request| client.jobs.why(request).await)
            .await?;
        if let Some(place) = &answer.queue_place {
            let now = (place.place_of_user, place.place > 0);
            if self.said_place.replace(now) != Some(now) {
                eprint!("{}", self.end_line());
                eprintln!(" queued: {}", present::queue_place(place, answer.time));
            }
        }
        Ok(())
    }

    fn note(&mut self, job: &v1::JobStatus) {
        let counts = counts(job);
        self.tasks = counts.tasks;
        let done = counts.finished;
        // A service whose task ended was not healthy.
        let healthy = counts.healthy + if is_service(job) { 0 } else { done };
        let reached = [counts.scheduled + done, counts.running + done, healthy, done];
        let was_there = std::mem::replace(&mut self.known.was_there, false);
        let now = (!was_there).then(|| self.begun.elapsed());
        for (stage, reached) in self.stages.iter_mut().zip(reached) {
            if stage.is_none_or(|(before, _)| reached != before) {
                *stage = Some((reached, now));
            }
        }
    }

    /// For example ` admitted 12 ms · scheduled 3/3 21 ms · running 3/3 80 ms · healthy 3/3 1.1 s`, with the
    /// job's name before it if there are several.
    fn line(&self) -> String {
        let shown = |time: Duration| Span(micros(time));
        let mut parts = Vec::new();
        parts.extend(self.known.admitted.map(|at| format!("admitted {}", shown(at))));
        for (name, stage) in STAGES.iter().zip(&self.stages) {
            if let Some((reached, at)) = stage.filter(|(reached, _)| *reached > 0) {
                let time = at.map(|at| format!(" {}", shown(at))).unwrap_or_default();
                parts.push(format!("{name} {reached}/{}{time}", self.tasks));
            }
        }
        let label = self.known.label.as_ref().map(|name| format!("{name}: ")).unwrap_or_default();
        format!(" {label}{}", parts.join(" · "))
    }

    fn end_line(&self) -> String {
        if self.live { format!("\r\x1b[K{}\n", self.line()) } else { String::new() }
    }
}

/// Whether tasks of the job wait in the batch queue.
fn is_in_queue(job: &v1::JobStatus) -> bool {
    counts(job).queued > 0 && job.waits_for.is_empty()
}

fn counts(job: &v1::JobStatus) -> v1::JobCounts {
    job.counts.unwrap_or_default()
}

/// For example `3 tasks`.
pub(super) fn count(allocs: bool, tasks: u32) -> String {
    let (what, s) = (if allocs { "alloc" } else { "task" }, if tasks == 1 { "" } else { "s" });
    format!("{tasks} {what}{s}")
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// Whether the job is an alloc set.
pub(super) fn is_alloc_set(job: &v1::JobStatus) -> bool {
    job.spec.as_ref().is_some_and(|spec| spec.allocs.is_some())
}

/// Whether the job's tasks are to run until they are stopped.
pub(super) fn is_service(job: &v1::JobStatus) -> bool {
    job.spec.as_ref().is_some_and(|spec| spec.appclass() == v1::Appclass::LatencySensitive)
}

/// Whether the job is dead: none of its tasks will run again.
pub(super) fn is_dead(job: &v1::JobStatus) -> bool {
    job.state().is_dead()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_told_while_the_task_goes_on() {
        use v1::TaskState::{Failed, Killed, Pending, Running};
        for (before, failures, state, told) in [
            (Some(0), 1, Pending, true),
            (Some(1), 1, Pending, false),
            (None, 1, Pending, true),
            (None, 1, Running, false),
            (Some(0), 1, Running, true),
            (Some(1), 1, Running, false),
            (Some(0), 0, Pending, false),
            (None, 0, Pending, false),
            // It is not retried.
            (Some(0), 1, Failed, false),
            (Some(1), 1, Killed, false),
        ] {
            let known = ShownJob { label: None, admitted: None, was_there: true };
            let mut progress = Progress::new(Instant::now(), None, known);
            progress.failures = before.into_iter().collect();
            let task =
                v1::TaskStatus { failures, state: state.into(), ..v1::TaskStatus::default() };
            let job = v1::JobStatus { tasks: vec![task], ..v1::JobStatus::default() };
            assert_eq!(progress.failed(&job).is_some(), told, "{before:?} {failures} {state:?}");
        }
    }

    #[test]
    fn each_start_that_was_lost_is_told_once() {
        let known = ShownJob { label: None, admitted: None, was_there: true };
        let mut progress = Progress::new(Instant::now(), None, known);
        for (tries, told) in [(0, false), (1, true), (1, false), (2, true), (0, false), (1, true)] {
            let cause = Some(v1::pending_cause::Cause::StartLost(tries));
            let pending = v1::state_reason::Reason::Pending(v1::PendingCause { cause });
            let task = v1::TaskStatus {
                state: v1::TaskState::Pending.into(),
                state_reason: Some(v1::StateReason { reason: Some(pending) }),
                ..v1::TaskStatus::default()
            };
            let job = v1::JobStatus { tasks: vec![task], ..v1::JobStatus::default() };
            assert_eq!(progress.lost(&job).is_some(), told, "{tries}");
        }
    }
}
