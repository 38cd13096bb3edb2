//! `bourg machine drain`: drains machines and waits until they are empty.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use clap::Args;
use client::Connection;
use client::Target;
use model::MachineName;
use proto::v1::change_machine_request::{Change, Drain};

use super::{Which, change, machines};
use crate::exit::{Code, Done, Failure};
use crate::{duration, with_cell};

/// The polling interval while machines drain.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// The interval of progress lines if stderr is not a terminal.
const REPORT_INTERVAL: Duration = Duration::from_secs(1);

#[derive(Debug, Args)]
pub(crate) struct DrainArgs {
    #[command(flatten)]
    which: Which,
    /// The reason, shown to other users.
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    reason: String,
    /// Do not wait until the tasks have left.
    #[arg(long)]
    detach: bool,
    /// How long to wait until the tasks have left.
    #[arg(long, default_value = "5m", value_parser = duration)]
    timeout: Duration,
}

pub(super) fn drain(cell: Target<'_>, args: &DrainArgs) -> Done {
    with_cell(cell, async |mut connection| {
        // Report a machine that does not exist before draining any.
        let found = args.which.find(&mut connection).await?;
        let mut names = Vec::new();
        for machine in found {
            let reason = args.reason.clone();
            let drain = Change::Drain(Drain { reason });
            let answer = change(&mut connection, &machine.name, drain).await?;
            let tasks = match answer.leaving {
                0 => String::new(),
                1 => ", 1 task leaves".to_owned(),
                several => format!(", {several} tasks leave"),
            };
            eprintln!("{}: draining{tasks}", machine.name);
            names.extend(MachineName::new(&machine.name));
        }
        if args.detach { Ok(()) } else { wait(&mut connection, &names, args.timeout).await }
    })
}

/// Waits until none of the machines has a task.
async fn wait(connection: &mut Connection, names: &[MachineName], timeout: Duration) -> Done {
    let until = tokio::time::Instant::now() + timeout;
    let mut progress = Progress { live: std::io::stderr().is_terminal(), reported: None };
    loop {
        let machines = machines(connection, String::new(), names).await?;
        let busy: Vec<&str> = machines
            .iter()
            .filter(|machine| machine.tasks > 0)
            .map(|machine| machine.name.as_str())
            .collect();
        let left: u32 = machines.iter().map(|machine| machine.tasks).sum();
        if left == 0 {
            progress.end();
            match names {
                [one] => eprintln!("{one}: empty"),
                several => eprintln!("all {} machines are empty", several.len()),
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
        if tokio::time::Instant::now() >= until {
            progress.end();
            let (on, seconds) = (busy.join(", "), timeout.as_secs());
            let tasks = if left == 1 { "1 task is" } else { &format!("{left} tasks are") };
            return Err(Failure::failed(format!(
                "error: {tasks} still on {on} after {seconds} s: they were told to stop, but their \
                 machine has not reported their end"
            ))
            .next(format!("bourg machine show {}", busy.first().copied().unwrap_or_default())));
        }
        progress.say(left);
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

/// Progress of the remaining tasks on stderr.
struct Progress {
    live: bool,
    reported: Option<(u32, Instant)>,
}

impl Progress {
    fn say(&mut self, left: u32) {
        let text = if left == 1 { "1 task is".to_owned() } else { format!("{left} tasks are") };
        let is_new = self.reported.is_none_or(|(before, _)| before != left);
        let may = self.live || self.reported.is_none_or(|(_, at)| at.elapsed() >= REPORT_INTERVAL);
        if is_new && may {
            match self.live {
                true => eprint!("\r\x1b[K{text} left"),
                false => eprintln!("{text} left"),
            }
            self.reported = Some((left, Instant::now()));
        }
    }

    /// Ends the progress line before other output.
    fn end(&self) {
        if self.live && self.reported.is_some() {
            eprint!("\r\x1b[K");
        }
    }
}
