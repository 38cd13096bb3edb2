//! `bourg repacker`: moves running tasks, so that less room is left over in pieces.
//!
//! It is a client of the public API. Which moves are worth their cost is decided by the pure crate `repack`, which the
//! master asks on its own copy of the cell, and whether a task may be moved by the cell. Of several that run, one
//! acts: the holder of a lock (`clientd`).
//!
//! Not here: the cell, which no client links.

mod memory;
mod round;

use std::time::Duration;

use clap::Args;
use client::{Connection, Target};
use clientd::Role;
use command::{Done, Failure, runtime};
use model::{Band, FilePath, Span};
use process::arguments::duration;
use process::shutdown;

use self::memory::RecentMoves;
use self::round::{PackingRound, show};

/// The flags of `bourg repacker`.
#[derive(Debug, Args)]
pub struct RepackerArgs {
    /// Print which moves are worth their cost now, and move nothing.
    #[arg(long)]
    plan: bool,
    /// How often the cell is examined: 1s to 1h.
    #[arg(long, value_name = "TIME", default_value = "1m", value_parser = interval)]
    interval: Duration,
    /// Only move tasks of these bands, latency-sensitive ones included, separated by commas. Default: all below
    /// monitoring, without latency-sensitive tasks of production.
    #[arg(long, value_name = "BANDS", value_delimiter = ',', value_parser = band)]
    bands: Vec<Band>,
    /// How long a task must have been on its machine before it is moved.
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = duration)]
    settled: Duration,
    /// How long a task must have been pending before others are moved for it.
    #[arg(long, value_name = "TIME", default_value = "1m", value_parser = duration)]
    waited: Duration,
    /// The maximum number of tasks that are moved each time.
    #[arg(long, value_name = "NUMBER", default_value = "20",
          value_parser = clap::value_parser!(u32).range(1..=1_000))]
    moves: u32,
    /// Also move tasks to empty machines that have few of them.
    #[arg(long)]
    empty_machines: bool,
    /// The lock that the acting repacker holds. Default: /USER/repacker.
    #[arg(long, value_name = "PATH")]
    lock: Option<FilePath>,
    /// How long others wait for the lock after this process or its machine is dead: 5s to 60s.
    #[arg(long, value_name = "TIME", default_value = "12s", value_parser = duration)]
    lease: Duration,
}

fn interval(text: &str) -> Result<Duration, String> {
    let given = duration(text)?;
    let range = Duration::from_secs(1)..=Duration::from_secs(3_600);
    range.contains(&given).then_some(given).ok_or_else(|| "must be 1s to 1h".to_owned())
}

fn band(text: &str) -> Result<Band, String> {
    Band::ALL.into_iter().find(|band| band.name() == text).ok_or_else(|| {
        let all: Vec<&str> = Band::ALL.into_iter().map(Band::name).collect();
        format!("must be one of {}", all.join(", "))
    })
}

fn span(given: Duration) -> Span {
    Span(u64::try_from(given.as_micros()).unwrap_or(u64::MAX))
}

impl RepackerArgs {
    fn lock(&self, connection: &Connection) -> Result<FilePath, Failure> {
        if let Some(path) = &self.lock {
            return Ok(path.clone());
        }
        let user = connection.user().unwrap_or_default();
        format!("/{user}/repacker").parse().map_err(|error| {
            Failure::usage(format!("error: no lock for user '{}': {error}", user.escape_debug()))
                .next("give it with --lock /USER/NAME")
        })
    }
}

/// Moves tasks until SIGTERM or Ctrl-C, whenever this process holds the lock; or prints once what it would move.
///
/// # Errors
/// If there is no cell at the start, or the user may not move tasks.
pub fn start(cell: Target<'_>, args: &RepackerArgs) -> Done {
    if args.plan {
        return command::with_cell(cell, async |connection| {
            let mut round = PackingRound::new(connection, args, None);
            show(&round.plan(&RecentMoves::default()).await?)
        });
    }
    let mut memory = RecentMoves::default();
    process::block_on(&runtime()?, async {
        // Both signals are handled from here on.
        let mut stop = std::pin::pin!(shutdown::requested());
        // Who may not move tasks need not wait for the lock.
        let connection = Connection::open(cell)?;
        let lock = args.lock(&connection)?;
        PackingRound::new(connection, args, None).plan(&memory).await?;
        let role = Role {
            name: "repacker",
            acts: "moves tasks",
            rests: "tasks stay where they are",
            lock,
            lease: args.lease,
        };
        let lead = role.lead(cell, &mut stop, async |connection, sequencer| {
            let mut round = PackingRound::new(connection, args, Some(sequencer));
            act(&mut round, args.interval, &mut memory).await
        });
        Box::pin(lead).await
    })
}

/// Moves tasks at each interval; returns only with a failure.
async fn act(round: &mut PackingRound, interval: Duration, memory: &mut RecentMoves) -> Failure {
    let mut ticks = tokio::time::interval(interval);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        if let Err(failure) = Box::pin(round.play(memory)).await {
            return failure;
        }
    }
}
