//! `bourg machine drain`: drains machines and waits until they are empty.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use api::v1;
use api::v1::change_machine_request::{Change, Drain};
use clap::Args;
use client::Connection;
use client::Target;
use command::{Code, Done, Failure, output, with_cell};
use model::{MachineName, Span, Time};
use process::clock::wall_clock;

use super::{Which, change};
use crate::change::tasks;
use crate::duration;
use crate::moment::When;

/// The polling interval while machines drain.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// How long the command waits for a drain without a deadline, or after it.
const PATIENCE: Duration = Duration::from_secs(300);
/// The interval of progress lines if stderr is not a terminal.
const REPORT_INTERVAL: Duration = Duration::from_secs(1);

#[derive(Debug, Args)]
pub(crate) struct DrainArgs {
    #[command(flatten)]
    which: Which,
    /// The reason, shown to other users.
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    reason: String,
    /// When the drain ends: a delay (30m) or a time (2026-12-01 18:00, in UTC). What is left then
    /// stays, unless --force is given.
    #[arg(long, value_name = "TIME")]
    by: Option<When>,
    /// Evict what is left at the time given with --by, beyond the disruption budgets.
    #[arg(long, requires = "by")]
    force: bool,
    /// Only say where the tasks would go, and drain nothing.
    #[arg(long, conflicts_with_all = ["reason", "by", "detach", "timeout"])]
    plan: bool,
    /// Do not wait until the tasks have left.
    #[arg(long)]
    detach: bool,
    /// How long to wait until the tasks have left; the drain goes on afterwards. Default: 5m, and
    /// with --by 5m longer than until that time.
    #[arg(long, value_parser = duration)]
    timeout: Option<Duration>,
}

pub(crate) fn drain(cell: Target<'_>, args: &DrainArgs) -> Done {
    with_cell(cell, async |mut connection| {
        // Report a machine that does not exist before draining any.
        let found = args.which.find(&mut connection).await?;
        let planned = plan(&mut connection, &found).await?;
        if args.plan {
            return output::print(&format!("{planned}\n"));
        }
        output::say(&format!("simulated first: {planned}\n"));
        let mut names = Vec::new();
        for machine in found {
            let reason = args.reason.clone();
            let deadline = args.by.map(|When(at)| at.0);
            let drain = Change::Drain(Drain { reason, deadline, force: args.force });
            let answer = change(&mut connection, &machine.name, drain).await?;
            let tasks = match answer.leaving {
                0 => String::new(),
                1 => ", 1 task leaves".to_owned(),
                several => format!(", {several} tasks leave"),
            };
            eprintln!("{}: draining{tasks}", machine.name);
            names.extend(MachineName::new(&machine.name));
        }
        let timeout = args.timeout.unwrap_or_else(|| patience(args.by, wall_clock()));
        match args.detach {
            true => Ok(()),
            false => wait(&mut connection, &names, timeout).await,
        }
    })
}

/// How long the command waits: past the drain's deadline, too, since a machine may not answer.
fn patience(by: Option<When>, now: Time) -> Duration {
    let until = by.map_or(Span::ZERO, |When(at)| at.since(now));
    Duration::from_micros(until.0) + PATIENCE
}

/// Where the tasks of the machines would go, for example `9 tasks move, 0 wait`.
async fn plan(
    connection: &mut Connection,
    machines: &[v1::MachineStatus],
) -> Result<String, Failure> {
    let machines = machines.iter().map(|machine| machine.name.clone()).collect();
    let request = v1::PlanDrainRequest { machines };
    let plan = connection
        .ask(request, async |mut client, request| client.machines.plan_drain(request).await);
    let plan = plan.await?;
    let moves = if plan.placed == 1 { "moves" } else { "move" };
    let wait = if plan.waiting == 1 { "waits" } else { "wait" };
    let mut text = format!("{} {moves}, {} {wait}", tasks(plan.placed), plan.waiting);
    if plan.unplaced > 0 {
        let find = if plan.unplaced == 1 { "finds" } else { "find" };
        text += &format!(", {} {find} no room elsewhere", plan.unplaced);
    }
    if !plan.why_unplaced.is_empty() {
        text += &format!(" ({})", plan.why_unplaced);
    }
    let evicted = u32::try_from(plan.evictions.len()).unwrap_or(u32::MAX);
    if evicted > 0 {
        text += &format!("; {} of lower priority would be evicted", tasks(evicted));
    }
    for waits in &plan.waits {
        text += &format!("; {waits}");
    }
    Ok(text)
}

/// Waits until none of the machines has a task.
async fn wait(connection: &mut Connection, names: &[MachineName], timeout: Duration) -> Done {
    let begun = tokio::time::Instant::now();
    let mut progress = DrainProgress { live: std::io::stderr().is_terminal(), reported: None };
    loop {
        let machines = with_tasks(connection, names).await?;
        let busy: Vec<&str> = machines
            .iter()
            .filter(|machine| machine.tasks > 0)
            .map(|machine| machine.name.as_str())
            .collect();
        let left: u32 = machines.iter().map(|machine| machine.tasks).sum();
        if left == 0 {
            progress.end();
            match names {
                [one] => eprintln!("{one}: empty{}", safe(&machines)),
                several => {
                    eprintln!("all {} machines are empty{}", several.len(), safe(&machines));
                }
            }
            return Ok(());
        }
        let undrained = machines.iter().find(|machine| machine.draining_since == 0);
        if let Some(machine) = undrained {
            progress.end();
            let text = format!("error: {} is no longer drained", machine.name);
            return Err(Failure::new(Code::Changed, text)
                .next(format!("bourg events --machine {}", machine.name)));
        }
        let waits = || machines.iter().flat_map(|machine| &machine.drain_waits_for);
        let tasks = tasks_are(left);
        let first = busy.first().copied().unwrap_or_default();
        let (on, next) = (busy.join(", "), format!("bourg machine show {first}"));
        if machines.iter().all(|machine| machine.tasks == 0 || machine.drain_expired > 0) {
            progress.end();
            let reasons: String = waits().map(|why| format!("\n  {why}")).collect();
            let text =
                format!("error: the drain ended at its time, and {tasks} still on {on}:{reasons}");
            return Err(Failure::new(Code::Budget, text)
                .next(format!("bourg drain {first} --by TIME --force · bourg undrain {first}")));
        }
        if begun.elapsed() >= timeout {
            progress.end();
            let seconds = timeout.as_secs();
            let reasons: String = waits().map(|why| format!("\n  {why}")).collect();
            let text = format!(
                "error: {tasks} still on {on} after {seconds} s; the drain goes on:{reasons}"
            );
            return Err(Failure::failed(text).next(next));
        }
        progress.say(left, waits().next().map_or("", String::as_str));
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

/// Whether empty machines can be powered off: not while savers still try to save data on them.
fn safe(machines: &[v1::MachineStatus]) -> String {
    let saving: usize = machines.iter().map(|machine| machine.saving.len()).sum();
    match machines.iter().find(|machine| !machine.saving.is_empty()) {
        None => ", safe to power off".to_owned(),
        Some(first) => format!(
            ", but not safe to power off: savers still save the data of {saving} ended {}\nnext: \
             bourg machine show {}",
            if saving == 1 { "task or alloc" } else { "tasks or allocs" },
            first.name
        ),
    }
}

fn tasks_are(count: u32) -> String {
    format!("{} {}", tasks(count), if count == 1 { "is" } else { "are" })
}

/// The machines with what their drains wait for.
async fn with_tasks(
    connection: &mut Connection,
    names: &[MachineName],
) -> Result<Vec<v1::MachineStatus>, Failure> {
    let names = names.iter().map(ToString::to_string).collect();
    let request = v1::MachinesRequest { names, tasks: true, ..v1::MachinesRequest::default() };
    let answer = connection
        .ask(request, async |mut client, request| client.machines.list(request).await)
        .await?;
    Ok(answer.machines)
}

/// Progress of the remaining tasks on stderr.
struct DrainProgress {
    live: bool,
    reported: Option<(String, Instant)>,
}

impl DrainProgress {
    fn say(&mut self, left: u32, waits_for: &str) {
        let text = format!("{} left: {waits_for}", tasks_are(left));
        let is_new = self.reported.as_ref().is_none_or(|(before, _)| *before != text);
        let may = self.live
            || self.reported.as_ref().is_none_or(|(_, at)| at.elapsed() >= REPORT_INTERVAL);
        if is_new && may {
            match self.live {
                true => eprint!("\r\x1b[K{text}"),
                false => eprintln!("{text}"),
            }
            self.reported = Some((text, Instant::now()));
        }
    }

    /// Ends the progress line before other output.
    fn end(&self) {
        if self.live && self.reported.is_some() {
            eprint!("\r\x1b[K");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_waits_past_the_deadline_and_not_for_ever() {
        let now = Time(1_000_000_000);
        for (by, seconds) in [(None, 300), (Some(60), 360), (Some(0), 300)] {
            let by = by.map(|seconds| When(now + Span::from_secs(seconds)));
            assert_eq!(patience(by, now), Duration::from_secs(seconds));
        }
        assert_eq!(patience(Some(When(Time(1))), now), PATIENCE, "it is over");
    }
}
