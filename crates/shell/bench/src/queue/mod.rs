//! `bourg bench queue`: the batch queue, alone.
//!
//! | part | what |
//! |---|---|
//! | `decisions` | many users' jobs wait on full machines; tasks end, and others are enabled |
//! | `replay` | a log of a batch system in the Standard Workload Format, with and without reservations |

mod decisions;
mod replay;

use std::path::PathBuf;

use clap::Args;
use command::Done;
use command::output::{self, Format};
use serde::Serialize;

/// The options.
#[derive(Clone, Debug, Args)]
pub(crate) struct Options {
    /// The number of tasks that wait.
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    tasks: u32,
    /// The number of their users.
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    users: u32,
    /// The number of passes that are measured.
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    passes: u32,
    /// The seed of the jobs.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// A log to replay, with jobs of one user, in the Standard Workload Format.
    #[arg(long, value_name = "FILE")]
    swf: Option<PathBuf>,
    /// The processors of the machine of that log.
    #[arg(long, default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..))]
    processors: u32,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// The results, by part.
#[derive(Debug, Serialize)]
struct Figures {
    #[serde(flatten)]
    decisions: decisions::Figures,
    #[serde(skip_serializing_if = "Option::is_none")]
    replay: Option<replay::Figures>,
}

/// Runs the benchmark and prints the results.
pub(crate) fn measure(options: &Options) -> Done {
    // First: it measures the memory of this process.
    let decisions = decisions::measure(options.tasks, options.users, options.passes, options.seed)?;
    let replay = options.swf.as_deref().map(|file| replay::measure(file, options.processors));
    let figures = Figures { decisions, replay: replay.transpose()? };
    let format = if options.json { Format::Json } else { Format::Table };
    output::object(&format, &figures, "queue", || {
        let Figures { decisions, replay } = &figures;
        let replay = replay.as_ref().map(replay::show).unwrap_or_default();
        decisions::show(decisions) + &replay
    })
}
