//! `bourg bench files`: what files and secrets of tasks cost. Needs root.
//!
//! | part | what |
//! |---|---|
//! | `secret` | starts of a task with a secret, in turns with the same starts without one |
//! | `memory` | a master with many jobs, each with a file of its own |
//!
//! Cells are of real processes, as those of `bourg dev`.

mod memory;
mod secret;

use clap::{Args, ValueEnum};
use command::output::{self, Format};
use command::{Done, Failure};
use serde::Serialize;

use crate::packages::in_cell;

/// The options.
#[derive(Clone, Debug, Args)]
pub(crate) struct Options {
    /// Only this part; repeatable. Default: all.
    #[arg(long, value_enum)]
    part: Vec<FilePart>,
    /// The number of starts of each kind in the part `secret`.
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    runs: u32,
    /// The number of jobs in the part `memory`.
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    jobs: u32,
    /// The size of each file, in KiB.
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=64))]
    file_kib: u32,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// A part of the benchmark.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum FilePart {
    /// Starts with a secret.
    Secret,
    /// Many jobs with files.
    Memory,
}

/// The results, by part.
#[derive(Debug, Default, Serialize)]
struct Figures {
    #[serde(skip_serializing_if = "Option::is_none")]
    secret: Option<secret::Figures>,
    #[serde(skip_serializing_if = "Option::is_none")]
    memory: Option<memory::Figures>,
}

/// Runs the benchmark and prints the results.
pub(crate) fn measure(options: &Options) -> Done {
    let figures = figures(options)?;
    let format = if options.json { Format::Json } else { Format::Table };
    output::object(&format, &figures, "files", || {
        let Figures { secret, memory } = &figures;
        let shown = [secret.as_ref().map(secret::show), memory.as_ref().map(memory::show)];
        shown.into_iter().flatten().collect()
    })
}

fn figures(options: &Options) -> Result<Figures, Failure> {
    let asked = |part| options.part.is_empty() || options.part.contains(&part);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::failed(format!("error: {error}")))?;
    process::block_on(&runtime, async {
        let mut figures = Figures::default();
        if asked(FilePart::Secret) {
            let measured = in_cell(1, async |client| secret::measure(client, options.runs).await);
            figures.secret = Some(Box::pin(measured).await?);
        }
        if asked(FilePart::Memory) {
            let (jobs, bytes) = (options.jobs, options.file_kib << 10);
            let measured = in_cell(1, async |client| memory::measure(client, jobs, bytes).await);
            figures.memory = Some(Box::pin(measured).await?);
        }
        Ok(figures)
    })
}
