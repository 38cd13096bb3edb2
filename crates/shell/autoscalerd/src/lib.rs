//! `bourg autoscaler`: vertical autoscaling. It reads what the tasks of jobs use, and sets the limits of
//! those jobs whose descriptions let it.
//!
//! It is a client of the public API like any other. What a limit should be is decided in the pure crate
//! `autoscale`, and whether it may be set by the cell. Of several that run, one acts: the holder of a lock
//! (`clientd`).

mod histories;
mod round;

use std::path::PathBuf;
use std::time::Duration;

use autoscale::Settings;
use clap::Args;
use client::{Connection, Target};
use clientd::Role;
use command::{Done, Failure, output, runtime};
use model::{FilePath, Span};
use process::arguments::duration;
use process::shutdown;
use tokio::time::Instant;

use self::histories::Histories;
use self::round::Round;

/// How often histories are written to their file.
const SAVE_EVERY: Duration = Duration::from_secs(60);

/// The flags of `bourg autoscaler`.
#[derive(Debug, Args)]
pub struct AutoscalerArgs {
    /// Set the limits of the jobs of all users, which needs the capability autoscale. Default: only of your
    /// own jobs.
    #[arg(long)]
    all_users: bool,
    /// How often usage is read: 1s to 5m.
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = interval)]
    interval: Duration,
    /// The length of the windows of a history, which has 288 of them: 1s to 1h.
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = window)]
    window: Duration,
    /// How long the usage of a job must be known before its limit falls.
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = duration)]
    warm_up: Duration,
    /// How long after a change of its limit a job's limit may fall again.
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = duration)]
    lower_every: Duration,
    /// After how long usage counts half.
    #[arg(long, value_name = "TIME", default_value = "12h", value_parser = duration)]
    half_life: Duration,
    /// The maximum number of limits that are set at each reading; the rest follow at the next ones.
    #[arg(long, value_name = "NUMBER", default_value = "100",
          value_parser = clap::value_parser!(u32).range(1..=10_000))]
    changes: u32,
    /// Keep the histories of the jobs in this file. Default: in memory only; after a restart the usage of the
    /// last hours comes from the cell.
    #[arg(long, value_name = "FILE")]
    history: Option<PathBuf>,
    /// The lock that the acting autoscaler holds. Default: /USER/autoscaler.
    #[arg(long, value_name = "PATH")]
    lock: Option<FilePath>,
    /// How long others wait for the lock after this process or its machine is dead: 5s to 60s.
    #[arg(long, value_name = "TIME", default_value = "12s", value_parser = duration)]
    lease: Duration,
}

fn interval(text: &str) -> Result<Duration, String> {
    within(text, Duration::from_secs(1)..=Duration::from_secs(300), "1s to 5m")
}

fn window(text: &str) -> Result<Duration, String> {
    within(text, Duration::from_secs(1)..=Duration::from_secs(3_600), "1s to 1h")
}

fn within(
    text: &str,
    range: std::ops::RangeInclusive<Duration>,
    shown: &str,
) -> Result<Duration, String> {
    let given = duration(text)?;
    range.contains(&given).then_some(given).ok_or_else(|| format!("must be {shown}"))
}

fn span(given: Duration) -> Span {
    Span(u64::try_from(given.as_micros()).unwrap_or(u64::MAX))
}

impl AutoscalerArgs {
    fn settings(&self) -> Settings {
        Settings {
            half_life: span(self.half_life),
            warm_up: span(self.warm_up),
            lower_every: span(self.lower_every),
            ..Settings::default()
        }
    }

    fn lock(&self, connection: &Connection) -> Result<FilePath, Failure> {
        if let Some(path) = &self.lock {
            return Ok(path.clone());
        }
        let user = connection.user().unwrap_or_default();
        format!("/{user}/autoscaler").parse().map_err(|error| {
            Failure::usage(format!("error: no lock for user '{}': {error}", user.escape_debug()))
                .next("give it with --lock /USER/NAME")
        })
    }
}

/// Sets limits until SIGTERM or Ctrl-C, whenever this process holds the lock.
///
/// # Errors
/// If the histories cannot be read or written, or there is no cell at the start.
pub fn start(cell: Target<'_>, args: &AutoscalerArgs) -> Done {
    let mut histories = Histories::read(args.history.clone(), span(args.window))?;
    process::block_on(&runtime()?, async {
        // Both signals are handled from here on.
        let mut stop = std::pin::pin!(shutdown::requested());
        let role = Role {
            name: "autoscaler",
            acts: "sets limits",
            rests: "limits stay as they are",
            lock: args.lock(&Connection::open(cell)?)?,
            lease: args.lease,
        };
        let lead = role.lead(cell, &mut stop, async |connection, sequencer| {
            let (settings, all_users) = (args.settings(), args.all_users);
            let mut round = Round::new(connection, settings, args.changes, all_users, sequencer);
            act(&mut round, args.interval, &mut histories).await
        });
        Box::pin(lead).await?;
        histories.save().await
    })
}

/// Sets limits at each interval; returns only with a failure.
async fn act(round: &mut Round, interval: Duration, histories: &mut Histories) -> Failure {
    let mut ticks = tokio::time::interval(interval);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut saved = Instant::now();
    loop {
        ticks.tick().await;
        if let Err(failure) = Box::pin(round.play(histories)).await {
            return failure;
        }
        if saved.elapsed() >= SAVE_EVERY {
            saved = Instant::now();
            if let Err(failure) = histories.save().await {
                output::say(&format!("{failure}\n"));
            }
        }
    }
}
