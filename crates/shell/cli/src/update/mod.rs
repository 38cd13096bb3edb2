//! `bourg update`, `bourg resize`: opens updates of jobs, shows how they proceed, and controls them.

mod progress;
mod versions;

use std::path::PathBuf;
use std::time::Duration;

use api::{v1, word};
use clap::{Args, Subcommand};
use client::{Connection, Target};
use command::output::{self, Format};
use command::{Code, Done, Failure, job_address, with_cell};
use model::{Address, TaskSelection};
use process::arguments::duration;
use spec::JobSpec;

use crate::change::{ChangeArgs, change_text, tasks};
use crate::imports::ImportArgs;
use crate::moment::shown;
use crate::prune::{self, PruneArgs};
use crate::sources::{self, line::JobLine};

pub(crate) use progress::{Awaited, watch};
pub(crate) use versions::{VersionsArgs, versions};

/// `bourg update FILE`, or what to do with the update of a job.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct UpdateArgs {
    #[command(subcommand)]
    command: Option<Command>,
    /// BCL or JSON files with the new descriptions, or one script; - is the standard input, and a folder stands
    /// for all *.bcl in it.
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    #[command(flatten)]
    imports: ImportArgs,
    #[command(flatten)]
    change: ChangeArgs,
    #[command(flatten)]
    proceed: ProceedArgs,
    #[command(flatten)]
    prune: PruneArgs,
}

/// Whether and how long the command waits.
#[derive(Debug, Args)]
pub(crate) struct ProceedArgs {
    /// Return as soon as the update is open.
    #[arg(long)]
    detach: bool,
    /// How long to wait for the update; it goes on afterwards. Default: until it ends.
    #[arg(long, value_parser = duration)]
    timeout: Option<Duration>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Show the update of a job: what is changed, skipped, and what it waits for.
    Status(StatusArgs),
    /// Change no further task until the update is resumed or undone.
    Pause(ControlArgs),
    /// Go on with a paused update.
    Resume(ControlArgs),
    /// Change every task back to the last version that succeeded, or to an earlier one.
    Undo(UndoArgs),
    /// Keep a successful update: it can no longer be undone.
    Close(ControlArgs),
}

#[derive(Debug, Args)]
struct StatusArgs {
    /// A job, as user/job or job.
    job: Address,
    /// Output format: table, json, yaml, or the path of a field.
    #[arg(short, long, default_value = "table")]
    output: Format,
    /// Follow the update until it ends.
    #[arg(long, short)]
    watch: bool,
}

#[derive(Debug, Args)]
struct ControlArgs {
    /// A job, as user/job or job.
    job: Address,
}

#[derive(Debug, Args)]
struct UndoArgs {
    /// A job, as user/job or job.
    job: Address,
    /// Go to this version instead, by another update: `bourg versions JOB` lists those that are kept.
    #[arg(long, value_name = "VERSION")]
    to: Option<u32>,
    #[command(flatten)]
    proceed: ProceedArgs,
}

/// `bourg resize JOB N`.
#[derive(Debug, Args)]
pub(crate) struct ResizeArgs {
    /// A job or an alloc set, as user/job or job.
    job: Address,
    /// The new number of tasks.
    tasks: u32,
    #[command(flatten)]
    proceed: ProceedArgs,
}

/// A failure of a request about an update: one that somebody else has changed is exit code 7.
pub(crate) fn changed(error: client::Error) -> Failure {
    match error {
        client::Error::Answer(status) if status.code() == tonic::Code::Aborted => {
            Failure::new(Code::Changed, format!("error: {}", status.message()))
        }
        other => other.into(),
    }
}

pub(crate) fn update(cell: Target<'_>, args: &UpdateArgs) -> Done {
    match &args.command {
        Some(Command::Status(args)) => status(cell, args),
        Some(Command::Pause(args)) => control(cell, &args.job, v1::UpdateAction::PauseUpdate),
        Some(Command::Resume(args)) => control(cell, &args.job, v1::UpdateAction::ResumeUpdate),
        Some(Command::Close(args)) => control(cell, &args.job, v1::UpdateAction::CloseUpdate),
        Some(Command::Undo(args)) => undo(cell, args),
        None => open(cell, args),
    }
}

fn open(cell: Target<'_>, args: &UpdateArgs) -> Done {
    args.prune.check()?;
    let jobs = sources::evaluate(&args.files, &args.imports, &JobLine::default())?;
    jobs.with_cell(cell, async |mut connection, jobs| {
        let mut opened = Vec::new();
        let surplus = prune::confirmed(&mut connection, &args.prune, &jobs).await?;
        for job in &jobs {
            // What the user decides on is the job as it is now.
            let (now, _) = current(&mut connection, &address(job)).await?;
            let change = v1::update_request::Change::Spec(job.into());
            let request = v1::UpdateRequest {
                id: Some(connection.request_id().await?),
                user: String::new(),
                change: Some(change),
                tasks: args.change.tasks(),
                policy: args.change.policy(job),
                expected: Some(now.last_version),
            };
            opened.push(Box::pin(send(&mut connection, request, &job.name.to_string())).await?);
        }
        follow_all(&mut connection, opened, &args.proceed).await?;
        prune::kill(&mut connection, surplus).await
    })
}

/// Follows opened updates one after the other; the first failure is the command's.
async fn follow_all(
    connection: &mut Connection,
    opened: Vec<Option<OpenedUpdate>>,
    proceed: &ProceedArgs,
) -> Done {
    if proceed.detach {
        return Ok(());
    }
    let mut failed = Ok(());
    for opened in opened.into_iter().flatten() {
        let (version, timeout) = (opened.version, proceed.timeout);
        let done = watch(connection, &opened.job, version, Awaited::Updated, timeout).await;
        match (&failed, done) {
            (Ok(()), done) => failed = done,
            (Err(_), Err(another)) => output::say(&format!("{another}\n")),
            (Err(_), Ok(())) => {}
        }
    }
    failed
}

/// An update that was opened.
pub(crate) struct OpenedUpdate {
    pub(crate) job: v1::JobAddress,
    pub(crate) version: u32,
}

fn address(job: &JobSpec) -> v1::JobAddress {
    v1::JobAddress { user: String::new(), job: job.name.to_string() }
}

/// The live job as it is now, and the time.
pub(crate) async fn current(
    connection: &mut Connection,
    job: &v1::JobAddress,
) -> Result<(v1::JobStatus, u64), Failure> {
    let request = v1::StatusRequest {
        jobs: vec![job.clone()],
        tasks: true,
        dead: true,
        ..v1::StatusRequest::default()
    };
    let answer = connection
        .ask(request, async |mut client, request| client.jobs.status(request).await)
        .await;
    let answer = answer.map_err(|error| match error {
        client::Error::Answer(status) if status.code() == tonic::Code::NotFound => {
            Failure::from(status).next("bourg run FILE submits a job")
        }
        other => other.into(),
    })?;
    let found = answer.jobs.into_iter().next();
    let found =
        found.ok_or_else(|| Failure::usage(format!("error: there is no job {}", job.job)))?;
    Ok((found, answer.time))
}

/// Opens an update and says what it changes; `None` if there was nothing to change.
async fn send(
    connection: &mut Connection,
    request: v1::UpdateRequest,
    name: &str,
) -> Result<Option<OpenedUpdate>, Failure> {
    let answer = connection
        .ask(request, async |mut client, request| client.updates.open(request).await)
        .await
        .map_err(changed)?;
    let full = format!("{}/{name}", answer.user);
    if answer.unchanged {
        eprintln!("{full}: unchanged, version {}", answer.version);
        return Ok(None);
    }
    eprintln!("{full}: update to version {}", answer.version);
    for change in &answer.changes {
        eprintln!("~ {}", change_text(change));
    }
    let job = v1::JobAddress { user: answer.user, job: name.to_owned() };
    Ok(Some(OpenedUpdate { job, version: answer.version }))
}

pub(crate) fn resize(cell: Target<'_>, args: &ResizeArgs) -> Done {
    with_cell(cell, async |mut connection| {
        let address = whole(&args.job)?;
        let (now, _) = current(&mut connection, &address).await?;
        let resize = v1::update_request::Resize { job: address.job.clone(), tasks: args.tasks };
        let request = v1::UpdateRequest {
            id: Some(connection.request_id().await?),
            user: address.user.clone(),
            change: Some(v1::update_request::Change::Resize(resize)),
            tasks: None,
            policy: None,
            expected: Some(now.last_version),
        };
        let opened = Box::pin(send(&mut connection, request, &address.job)).await?;
        follow_all(&mut connection, vec![opened], &args.proceed).await
    })
}

/// The address of a whole job.
fn whole(address: &Address) -> Result<v1::JobAddress, Failure> {
    match address.tasks {
        TaskSelection::All => Ok(job_address(address)),
        TaskSelection::Some(_) => Err(Failure::usage(format!(
            "error: '{address}' names tasks: an update belongs to the whole job"
        ))),
    }
}

fn control(cell: Target<'_>, job: &Address, action: v1::UpdateAction) -> Done {
    with_cell(cell, async |mut connection| {
        let (answer, _) = send_control(&mut connection, job, action, None).await?;
        let done = match action {
            v1::UpdateAction::PauseUpdate => "paused",
            v1::UpdateAction::ResumeUpdate => "goes on",
            v1::UpdateAction::UndoUpdate => "is being undone",
            _ => "closed",
        };
        eprintln!("{}/{}: update to version {} {done}", answer.user, job.job, answer.version);
        Ok(())
    })
}

/// Controls the update of a job; returns the answer, and the job as it was.
async fn send_control(
    connection: &mut Connection,
    job: &Address,
    action: v1::UpdateAction,
    to: Option<u32>,
) -> Result<(v1::ControlUpdateResponse, v1::JobStatus), Failure> {
    let address = whole(job)?;
    let (now, _) = current(connection, &address).await?;
    let request = v1::ControlUpdateRequest {
        id: Some(connection.request_id().await?),
        job: Some(address),
        action: action.into(),
        expected: Some(now.last_version),
        to,
    };
    let answer = connection
        .ask(request, async |mut client, request| client.updates.control(request).await)
        .await
        .map_err(changed)?;
    Ok((answer, now))
}

fn undo(cell: Target<'_>, args: &UndoArgs) -> Done {
    with_cell(cell, async |mut connection| {
        let undo = v1::UpdateAction::UndoUpdate;
        let (answer, before) = send_control(&mut connection, &args.job, undo, args.to).await?;
        let (name, version) = (format!("{}/{}", answer.user, args.job.job), answer.version);
        let awaited = match args.to {
            Some(to) if version > before.last_version => {
                eprintln!("{name}: update to version {version}, which is as version {to}");
                Awaited::Updated
            }
            Some(to) if !goes_back_to(&before, to) => {
                eprintln!("{name}: unchanged: version {version} is as version {to}");
                return Ok(());
            }
            _ => {
                eprintln!("{name}: update to version {version} is being undone");
                Awaited::Undone
            }
        };
        if args.proceed.detach {
            return Ok(());
        }
        let job = v1::JobAddress { user: answer.user, job: args.job.job.to_string() };
        watch(&mut connection, &job, version, awaited, args.proceed.timeout).await
    })
}

/// Whether an undo of the open update of a job goes to that version.
fn goes_back_to(job: &v1::JobStatus, to: u32) -> bool {
    use v1::UpdateState::{Paused, Rolling, Succeeded};

    let update = job.update.as_ref().filter(|update| update.from == to);
    update.is_some_and(|update| matches!(update.state(), Rolling | Paused | Succeeded))
}

fn status(cell: Target<'_>, args: &StatusArgs) -> Done {
    with_cell(cell, async |mut connection| {
        let address = whole(&args.job)?;
        let (job, now) = current(&mut connection, &address).await?;
        let name = format!("{}/{}", job.user, args.job.job);
        let Some(update) = &job.update else {
            return Err(Failure::usage(format!("error: {name} has not been updated"))
                .next("bourg update FILE opens an update"));
        };
        output::object(&args.output, update, &name, || describe(&name, &job, update, now))?;
        match args.watch {
            true => {
                let job = v1::JobAddress { user: job.user, job: args.job.job.to_string() };
                let awaited = match update.state() {
                    v1::UpdateState::Undoing | v1::UpdateState::Undone => Awaited::Undone,
                    _ => Awaited::Updated,
                };
                watch(&mut connection, &job, update.to, awaited, None).await
            }
            false => Ok(()),
        }
    })
}

/// An update for people.
fn describe(name: &str, job: &v1::JobStatus, update: &v1::UpdateStatus, now: u64) -> String {
    use model::Time;

    let state = word::<v1::UpdateState>(update.state);
    let ago = |at: u64| Time(now).since(Time(at));
    let by = match (update.state_by.as_str(), update.failure_text.is_empty()) {
        ("", false) => " (failed)".to_owned(),
        ("", true) => String::new(),
        (by, _) => format!(" by {by}"),
    };
    let mut text = format!(
        "{name}  update from version {} to {}  {state}{by} for {}\n",
        update.from,
        update.to,
        ago(update.since)
    );
    let mut row = |label: &str, value: String| text += &format!("{label:12}{value}\n");
    row("opened", format!("{} ago by {}", ago(update.opened), update.opened_by));
    row(
        "tasks",
        format!("{} of {} done, {} disrupted", update.done, update.tasks, update.disruptions),
    );
    if !update.waits_for.is_empty() {
        row("waits", update.waits_for.clone());
    }
    if !update.failure_text.is_empty() {
        row("failed", output::one_line(&update.failure_text));
    }
    for task in &update.changing {
        row("changing", format!("task {} {}", task.index, task.waits_for));
    }
    for task in &update.unhealthy {
        row("unhealthy", format!("task {}: {}", task.index, output::one_line(&task.text)));
    }
    for task in &update.skipped {
        row("skipped", format!("task {}: {}", task.index, task.text));
    }
    let mut versions: std::collections::BTreeMap<u32, u32> = std::collections::BTreeMap::new();
    for task in job.tasks.iter().filter(|task| !task.state().is_dead()) {
        *versions.entry(task.version).or_default() += 1;
    }
    let versions = versions.iter().map(|(version, alive)| format!("{version}: {}", tasks(*alive)));
    row("versions", versions.collect::<Vec<_>>().join(", "));
    if update.closes > 0 {
        row("undoable", format!("until {} (bourg update undo {name})", shown(Time(update.closes))));
    }
    text
}
