//! `bourg cells`: lists the cells that are registered by name on this machine.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use client::known::{file_of, is_there, masters_of, name_of, places};
use client::{CELL_FILE, Connection};
use command::output::{self, Format, Listing};
use command::{Done, Failure, runtime, target};
use serde::Serialize;

/// How long to wait for a cell's answer.
const PATIENCE: Duration = Duration::from_secs(2);

/// A row of the list.
#[derive(Debug, Serialize)]
struct CellRow {
    /// The name for `--cell`.
    name: String,
    /// The cell's own name.
    cell: String,
    answers: bool,
    /// Why it does not answer; empty if it does.
    trouble: String,
    /// The addresses of the masters that are tried, in this order.
    masters: Vec<String>,
    /// The client directory.
    directory: PathBuf,
    /// Whether `bourg dev` registered it.
    by_dev: bool,
}

#[derive(Debug, Args)]
pub(crate) struct CellsArgs {
    /// Remove cells that do not answer, if `bourg dev` registered them. Client directories that
    /// users created are kept.
    #[arg(long)]
    prune: bool,
    /// Output format: table, wide, json, yaml, name, or the path of a field.
    #[arg(short, long, default_value = "table")]
    output: Format,
}

/// `bourg cells`: lists the registered cells and whether they answer.
pub(super) fn cells(args: &CellsArgs) -> Done {
    let runtime = runtime()?;
    let places = places();
    let mut shown: Vec<CellRow> =
        places.iter().map(|path| process::block_on(&runtime, look(path))).collect();
    if args.prune {
        for (path, _) in places.iter().zip(&shown).filter(|(_, of)| of.by_dev && !of.answers) {
            std::fs::remove_file(path).map_err(|error| {
                Failure::failed(format!("error: cannot remove {}: {error}", path.display()))
            })?;
            output::say(&format!("{} removed\n", name_of(path)));
        }
        shown.retain(|of| !of.by_dev || of.answers);
    }
    if shown.is_empty() {
        eprintln!("no cell is registered here: bourg dev starts one");
    }
    let listing = Listing {
        items: &shown,
        name: |of: &CellRow| of.name.clone(),
        headings: &["NAME", "CELL", "STATE", "DIRECTORY", "MASTERS"],
        wide: 1,
        row: |of: &CellRow| {
            let state = match (of.answers, of.trouble.as_str()) {
                (true, _) => "answers".to_owned(),
                (false, trouble) => format!("does not answer: {trouble}"),
            };
            let directory = of.directory.display().to_string();
            vec![of.name.clone(), of.cell.clone(), state, directory, of.masters.join(", ")]
        },
    };
    output::list(&args.output, &listing)
}

async fn look(path: &Path) -> CellRow {
    let directory = std::fs::read_link(path).unwrap_or_else(|_| path.to_owned());
    let cell = file_of(path).map(|file| file.cell).unwrap_or_default();
    let trouble = match () {
        () if !path.join(CELL_FILE).exists() => "its directory is gone".to_owned(),
        () if !is_there(path) => "it is not running".to_owned(),
        () => request_status(path).await.err().unwrap_or_default(),
    };
    let answers = trouble.is_empty();
    let (masters, by_dev) = (masters_of(path), path.is_symlink());
    CellRow { name: name_of(path), cell, answers, trouble, masters, directory, by_dev }
}

/// Requests the cell's status; the error says why that failed.
async fn request_status(path: &Path) -> Result<(), String> {
    let cell = path.to_string_lossy();
    let target = target(Some(&cell), false);
    let ask = async { Connection::open(target)?.cell_status().await };
    match tokio::time::timeout(PATIENCE, ask).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(error)) => Err(format!("error: {error}")),
        Err(_) => Err(format!("no answer within {} s", PATIENCE.as_secs())),
    }
}
