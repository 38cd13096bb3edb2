//! `bourg cell`: the status of the cell, and its circuit breaker.

use std::fmt::Write as _;

use api::{v1, word};
use clap::{Args, Subcommand};
use client::Target;
use command::{Done, Failure, output, with_cell};
use model::Time;
use present::problem;

use super::ListArgs;
use super::log_settings::{self, LogsArgs};
use super::notice_max::{self, NoticeMaxArgs};
use super::packing::{self, PolicyArgs};
use super::queue_settings::{self, QueueArgs, WeightArgs};
use super::reclaim::{self, ReclaimArgs};
use super::secret;
use super::show::{self, Printer};

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(super) struct CellArgs {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    list: ListArgs,
}

/// The subcommands of `bourg cell`.
#[derive(Debug, Subcommand)]
enum Command {
    /// Show the machines, log index, state hash and size of the cell. The default.
    Status(ListArgs),
    /// Show how long the output of tasks is kept, and how much of it, or change that.
    ///
    /// The settings apply to tasks whose job does not say otherwise in its field logs; on a machine they
    /// apply with its next order, also to tasks that have ended.
    Logs(LogsArgs),
    /// Show how much of what tasks may use and do not use is reclaimed, or change how much may be.
    ///
    /// What a task needs, its reservation, is estimated from its usage and a margin; only tasks that are
    /// not production are placed by reservations. off: reservations return to the limits within minutes.
    /// baseline: the largest margin; medium: the default; aggressive: the smallest.
    Reclaim(ReclaimArgs),
    /// Show how tasks are packed onto machines, or change it.
    ///
    /// hybrid: as little as possible of one resource is left that is unusable for lack of another; the default.
    /// best-fit: as little as possible of the machine is left. worst-fit: tasks are spread, with headroom on every
    /// machine. Tasks that have a machine stay there.
    Policy(PolicyArgs),
    /// Show the longest notice of tasks, or change it.
    ///
    /// A task has its own notice between SIGTERM and SIGKILL, at most this one: when it is killed, drained,
    /// updated or preempted. It also shortens the time of tasks that are being stopped already.
    NoticeMax(NoticeMaxArgs),
    /// Show how the batch queue decides, or change that.
    ///
    /// Best-effort batch jobs wait in the queue until it is their user's turn and there is room: the user with the
    /// smallest share is next.
    Queue(QueueArgs),
    /// Set the weights of a user in the batch queue.
    ///
    /// Twice the weight is twice the share. Without weights, the user has 1 in every resource, as at first.
    Weight(WeightArgs),
    /// Make a new key, and seal all secrets with it.
    ///
    /// Every master must answer, so that each has the new key. Masters delete the old one when nothing is
    /// sealed with it any more.
    RotateKey,
    /// Resume marking unreachable machines down although many are, so that their tasks are
    /// rescheduled.
    ///
    /// Rescheduling stops automatically when a large part of the cell becomes unreachable at once,
    /// since a network partition is more likely then than the loss of all those machines. If they
    /// are lost, this command overrides the stop until few machines are unreachable again.
    ResumeRescheduling,
}

pub(super) fn cell(cell: Target<'_>, args: &CellArgs) -> Done {
    match &args.command {
        None => status(cell, &args.list),
        Some(Command::Status(list)) => status(cell, list),
        Some(Command::Logs(args)) => log_settings::logs(cell, args),
        Some(Command::Reclaim(args)) => reclaim::reclaim(cell, args),
        Some(Command::Policy(args)) => packing::policy(cell, args),
        Some(Command::NoticeMax(args)) => notice_max::notice_max(cell, args),
        Some(Command::Queue(args)) => queue_settings::queue(cell, args),
        Some(Command::Weight(args)) => queue_settings::set_weight(cell, args),
        Some(Command::RotateKey) => secret::rotate_key(cell),
        Some(Command::ResumeRescheduling) => resume(cell),
    }
}

fn status(cell: Target<'_>, args: &ListArgs) -> Done {
    if args.labels.is_some() {
        return Err(Failure::usage("error: a cell has no labels: omit -l"));
    }
    with_cell(cell, async |mut connection| {
        show::repeat(args, async || {
            let request = v1::CellStatusRequest { at: args.at(), state_hash: true };
            let status = connection
                .ask(request, async |mut client, request| client.cell.status(request).await)
                .await?;
            let format = args.output.clone();
            let index = status.index;
            let shown =
                move || output::object(&format, &status, &status.name, || describe(&status));
            Ok((index, Box::new(shown) as Printer))
        })
        .await
    })
}

fn describe(status: &v1::CellStatusResponse) -> String {
    let rows = [
        ("you are", status.user.clone()),
        ("machines", machines(status)),
        ("rescheduling", rescheduling(status)),
        ("schedulers", status.schedulers.to_string()),
        ("jobs", format!("{} with {} tasks, dead ones included", status.jobs, status.tasks)),
        ("reclamation", reclaim::in_short(status.reclamation.as_ref())),
        ("packing", status.packing.clone()),
        ("notices", notices(status)),
        ("index", format!("{} in term {}", status.index, status.term)),
        ("state", status.state_hash.clone()),
        ("level", status.level.to_string()),
        ("backup", backup(status)),
        ("violations", format!("{}, see the master's log", status.violations)),
    ];
    let shown = rows.len() - usize::from(status.violations == 0);
    let rows = rows.into_iter().take(shown).map(|(name, value)| vec![name.to_owned(), value]);
    output::table(&["cell", &status.name], rows.collect()) + &problems(status)
}

/// For example `1 h ago by ana, as of index 712`.
fn backup(status: &v1::CellStatusResponse) -> String {
    match &status.last_backup {
        Some(last) => {
            let ago = Time(status.time).since(Time(last.at));
            format!("{ago} ago by {}, as of index {}", last.by, last.index)
        }
        None => "none".to_owned(),
    }
}

/// What needs attention, a line each, with what to run next. Empty if nothing does.
fn problems(status: &v1::CellStatusResponse) -> String {
    if status.problems.is_empty() {
        return String::new();
    }
    let mut text = "\nproblems\n".to_owned();
    for of in &status.problems {
        let for_how_long = problem::since(of)
            .map(|since| format!(", for {}", Time(status.time).since(since)))
            .unwrap_or_default();
        let (said, run) = (problem::sentence(of), problem::next(of));
        let _infallible = writeln!(text, "  {said}{for_how_long}: {run}");
    }
    let named = u32::try_from(status.problems.len()).unwrap_or(u32::MAX);
    let more = status.problem_count.saturating_sub(named);
    if more > 0 {
        let _infallible = writeln!(text, "  and {more} more");
    }
    text
}

/// For example `7 of 9 up, 1 unreachable, 1 down (28 cores, 112 GiB)`.
fn machines(status: &v1::CellStatusResponse) -> String {
    let several = |count: u32, what: &str| match count {
        0 => String::new(),
        count => format!(", {count} {what}"),
    };
    format!(
        "{} of {} up{}{} ({})",
        status.machines_up,
        status.machines,
        several(status.machines_unreachable, "unreachable"),
        several(status.machines_down, "down"),
        present::amount::cpu_and_ram(status.capacity.as_ref())
    )
}

/// For example `97.3% of 1203 in full (killed 1100 of 1100, preempted 70 of 103)`.
fn notices(status: &v1::CellStatusResponse) -> String {
    let due = |share: &v1::NoticeShare| share.full + share.partial + share.none;
    let (full, all) = status.notices.iter().fold((0_u64, 0_u64), |(full, all), share| {
        (full.saturating_add(share.full), all.saturating_add(due(share)))
    });
    let Some(tenths) = full.saturating_mul(1_000).checked_div(all) else {
        return "none were due".to_owned();
    };
    let one =
        |share: &v1::NoticeShare| format!("{} {} of {}", share.reason, share.full, due(share));
    let each = status.notices.iter().map(one).collect::<Vec<_>>().join(", ");
    format!("{}.{}% of {all} in full ({each})", tenths / 10, tenths % 10)
}

fn rescheduling(status: &v1::CellStatusResponse) -> String {
    let is = status.rescheduling.clone().unwrap_or_default();
    let since = Time(status.time).since(Time(is.since));
    match is.state() {
        v1::ReschedulingState::Stopped => format!(
            "stopped {since} ago because {} of {} machines were unreachable: none is marked down until \
             fewer are; to override: bourg cell resume-rescheduling",
            is.silent, is.of
        ),
        v1::ReschedulingState::Resumed => {
            format!("resumed by {} {since} ago, until few machines are unreachable", is.by)
        }
        _ => word::<v1::ReschedulingState>(is.state).into_owned(),
    }
}

fn resume(cell: Target<'_>) -> Done {
    with_cell(cell, async |mut connection| {
        let id = Some(connection.request_id().await?);
        let request = v1::ResumeReschedulingRequest { id };
        let answer = connection
            .ask(request, async |mut client, request| {
                client.cell.resume_rescheduling(request).await
            })
            .await?;
        let (s, are) = if answer.machines == 1 { ("", "is") } else { ("s", "are") };
        let tasks = if answer.tasks == 1 { "task" } else { "tasks" };
        output::say(&format!(
            "rescheduling resumed: {} machine{s} with {} {tasks} {are} unreachable and will be marked \
             down one by one\nnext: bourg events --follow\n",
            answer.machines, answer.tasks
        ));
        Ok(())
    })
}
