//! `bourg checkpoint`: the whole state of a cell in one file, for backups, experiments and disaster
//! recovery.

mod edit;
pub(crate) mod load;
mod look;
mod save;

use std::path::{Path, PathBuf};

use cell::Cell;
use clap::{Args, Subcommand};
use client::Target;
use command::output::{self, Format};
use command::{Done, Failure};

use process::moment::Moment;

/// The subcommands of `bourg checkpoint`.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Save the current or a past state of the whole cell in one file. For administrators.
    ///
    /// The file is verified while it is written and appears under its name only when complete. An
    /// existing checkpoint of that name is replaced; any other file is not.
    Save {
        /// The file to write.
        file: PathBuf,
        /// Save the state at this moment: an index (88412), a time (2026-11-19 03:10, UTC) or an
        /// age (10m).
        #[arg(long, value_name = "MOMENT")]
        at: Option<Moment>,
    },
    /// Verify a checkpoint and print a summary.
    ///
    /// The exit status is 0 if the checkpoint is valid, 1 if its cell is inconsistent, and 2 if the
    /// file is damaged or not a checkpoint.
    Verify {
        /// The checkpoint.
        file: PathBuf,
        /// Output format: table, json, yaml, or the path of a field.
        #[arg(short, long, default_value = "table")]
        output: Format,
    },
    /// Print a checkpoint as JSON lines: one for the cell, then one for each machine, job and
    /// session.
    Show {
        /// The checkpoint.
        file: PathBuf,
    },
    /// Edit a checkpoint by hand in $VISUAL or $EDITOR, as the JSON that `show` prints.
    ///
    /// The previous version is kept beside it with the suffix .bak. The checkpoint stays unchanged
    /// if the text is not a valid, consistent cell. Running masters are not affected: a cell uses
    /// the result only after `bourg checkpoint load`.
    Edit(EditArgs),
    /// Create the data directory of a master that continues from a checkpoint.
    ///
    /// Existing cells are not touched. For `bourg dev --dir D`, load into D/master.
    Load(LoadArgs),
}

/// What `bourg checkpoint edit` edits.
#[derive(Debug, Args)]
pub struct EditArgs {
    /// The checkpoint.
    file: PathBuf,
    /// Apply this text instead of opening an editor.
    #[arg(long, value_name = "JSONFILE")]
    from: Option<PathBuf>,
    /// Accept an inconsistent cell.
    #[arg(long)]
    force: bool,
}

/// What `bourg checkpoint load` loads.
#[derive(Debug, Args)]
pub struct LoadArgs {
    /// The checkpoint.
    file: PathBuf,
    /// The data directory to create; it must be missing or empty.
    #[arg(long)]
    dir: PathBuf,
    /// The data directory of the cell's former master, whose certificate authority is reused so
    /// that existing certificates stay valid, and whose events up to the checkpoint are taken over.
    /// Default: a new authority, and no events.
    #[arg(long, value_name = "DIR")]
    tls: Option<PathBuf>,
    /// The counter of the new cell's restore epoch. Machines reject orders of a cell with a lower
    /// one. Default: one above that of the checkpoint, and with --tls of the former master and of
    /// all machines and replicas that answer.
    #[arg(long, value_name = "N")]
    restore_epoch: Option<u64>,
    /// Load a checkpoint of a cell with several replicas, all of which are permanently lost. The
    /// new master replaces that whole cell and starts only if none of them answers.
    #[arg(long)]
    replace_cell: bool,
    /// Accept an inconsistent cell.
    #[arg(long)]
    force: bool,
}

pub(super) fn checkpoint(cell: Target<'_>, command: &Command) -> Done {
    match command {
        Command::Save { file, at } => save::save(cell, file, *at),
        Command::Verify { file, output } => look::verify(file, output),
        Command::Show { file } => look::show(file),
        Command::Edit(args) => edit::edit(args),
        Command::Load(args) => load::load(args),
    }
}

/// The error for a file that is not a usable checkpoint.
fn unusable(error: &anyhow::Error) -> Failure {
    Failure::usage(format!("error: {error:#}"))
}

/// Rejects an inconsistent cell and reports the inconsistencies, unless `force` is set.
fn sound(cell: &Cell, what: &Path, force: bool) -> Done {
    let violations = cell.check();
    for violation in &violations {
        output::say(&format!("{violation}\n"));
    }
    if violations.is_empty() || force {
        return Ok(());
    }
    let (what, places) = (what.display(), places(violations.len()));
    let text = format!("error: {what} is inconsistent in {places}; nothing was changed");
    Err(Failure::usage(text).next("correct it, or pass --force"))
}

fn places(count: usize) -> String {
    let s = if count == 1 { "" } else { "s" };
    format!("{count} place{s}")
}
