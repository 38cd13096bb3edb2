//! `bourg bench borglet`: what one Borglet can do, and what it costs. A real Borglet is polled over
//! mTLS as by a master, and runs real tasks in jails; the benchmark is the master. Needs root.
//!
//! | section | what |
//! |---|---|
//! | `starts` | tasks that end at once, and what they cost beside a bare loop of processes; then as many that run and end together, and the health checks of others meanwhile |
//! | `logs` | output that one shim copies, and what is kept of it |
//! | `idle` | a Borglet whose tasks only run |
//! | `leader` | the memory in which a master keeps what the tasks of a large cell use |

mod driven;
mod idle;
pub(crate) mod isolation;
mod leader;
mod logs;
mod starts;
mod work;

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use command::Done;
use command::output::{self, Format};
use serde::Serialize;

pub(crate) use work::{Work, work};

/// The options.
#[derive(Clone, Debug, Args)]
pub(crate) struct Options {
    /// Only this section; repeatable. Default: all.
    #[arg(long, value_enum)]
    section: Vec<Section>,
    /// The number of tasks that are started, and of those that end together.
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=5_000))]
    tasks: u32,
    /// The number of other tasks, with a health check every second.
    #[arg(long, default_value_t = 25, value_parser = clap::value_parser!(u32).range(1..=100))]
    checked: u32,
    /// How much the task of the section `logs` writes, in MiB.
    #[arg(long, default_value_t = 4_096, value_parser = clap::value_parser!(u64).range(1..))]
    log_mib: u64,
    /// How long the section `idle` lasts.
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..))]
    idle_seconds: u64,
    /// The number of tasks in the section `leader`.
    #[arg(long, default_value_t = 150_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    usage_tasks: u32,
    /// The parent of the Borglet's directory. Default: the directory for temporary files.
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// A part of the benchmark.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Section {
    /// Starts and ends of many tasks.
    Starts,
    /// The output of tasks.
    Logs,
    /// A Borglet whose tasks only run.
    Idle,
    /// A master that keeps the usage of many tasks.
    Leader,
}

/// The results, by section.
#[derive(Debug, Serialize)]
struct Figures {
    #[serde(skip_serializing_if = "Option::is_none")]
    starts: Option<starts::Figures>,
    #[serde(skip_serializing_if = "Option::is_none")]
    logs: Option<logs::Figures>,
    #[serde(skip_serializing_if = "Option::is_none")]
    idle: Option<idle::Figures>,
    #[serde(skip_serializing_if = "Option::is_none")]
    leader: Option<leader::Figures>,
}

/// Runs the benchmark and prints the results.
pub(crate) fn measure(options: &Options) -> Done {
    let figures = figures(options)?;
    let format = if options.json { Format::Json } else { Format::Table };
    output::object(&format, &figures, "borglet", || {
        let Figures { starts, logs, idle, leader } = &figures;
        let shown = [
            starts.as_ref().map(starts::show),
            logs.as_ref().map(logs::show),
            idle.as_ref().map(idle::show),
            leader.as_ref().map(leader::show),
        ];
        shown.into_iter().flatten().collect()
    })
}

fn figures(options: &Options) -> anyhow::Result<Figures> {
    let place = options.dir.clone().unwrap_or_else(std::env::temp_dir);
    let asked = |section| options.section.is_empty() || options.section.contains(&section);
    // Before there is a second thread.
    let bare = asked(Section::Starts).then(|| starts::bare(options.tasks)).transpose()?;
    // Before others have used memory that would be used again.
    let leader =
        asked(Section::Leader).then(|| leader::measure(options.usage_tasks)).transpose()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    process::block_on(&runtime, async {
        let starts = match bare {
            Some(bare) => {
                Some(starts::measure(&place, options.tasks, options.checked, bare).await?)
            }
            None => None,
        };
        let logs = match asked(Section::Logs) {
            true => Some(logs::measure(&place, options.log_mib).await?),
            false => None,
        };
        let idle = match asked(Section::Idle) {
            true => Some(idle::measure(&place, options.checked, options.idle_seconds).await?),
            false => None,
        };
        Ok(Figures { starts, logs, idle, leader })
    })
}

/// Rounds to a number of decimal places.
fn rounded(number: f64, digits: i32) -> f64 {
    let scale = 10_f64.powi(digits);
    (number * scale).round() / scale
}
