//! `bourg checkpoint`: the whole cell in one file, for backups, for what-ifs, and for the worst day.

mod edit;
pub(crate) mod load;
mod look;
mod save;

use std::path::{Path, PathBuf};

use cell::Cell;
use clap::{Args, Subcommand};
use client::Target;

use super::exit::{Done, Failure};
use super::moment::Moment;
use super::output::{self, Format};

/// What can be done with checkpoints.
#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Save the whole cell, as it is or as it was, in one file. For administrators.
    ///
    /// The file is verified as it is written, and has its name only when it is whole. A checkpoint
    /// of that name is replaced; any other file is not.
    Save {
        /// The file.
        file: PathBuf,
        /// As it was then: an index (88412), a time (2026-11-19 03:10, UTC) or how long ago (10m).
        #[arg(long, value_name = "MOMENT")]
        at: Option<Moment>,
    },
    /// Read a checkpoint, check everything about it, and say what it holds.
    ///
    /// The exit status is 0 where nothing is wrong with it, 1 where its cell contradicts itself, and
    /// 2 where it is damaged or no checkpoint.
    Verify {
        /// The file.
        file: PathBuf,
        /// table, json, yaml, or a field by its path.
        #[arg(short, long, default_value = "table")]
        output: Format,
    },
    /// Print a checkpoint as JSON: a line for the cell itself, then one for each machine, job and
    /// session.
    Show {
        /// The file.
        file: PathBuf,
    },
    /// Change a checkpoint by hand, as the JSON that `show` prints, in $VISUAL or $EDITOR.
    ///
    /// What was there before is kept beside it, with .bak behind its name. Nothing is changed where
    /// the text is no cell, or one that contradicts itself. No master notices: a cell goes on from
    /// the result only where it is loaded.
    Edit(EditArgs),
    /// Make the data directory of a master whose cell goes on from a checkpoint.
    ///
    /// No cell that is there is touched. For `bourg dev --dir D`, load into D/master.
    Load(LoadArgs),
}

#[derive(Debug, Args)]
pub(super) struct EditArgs {
    /// The file.
    file: PathBuf,
    /// Take this text instead of opening an editor.
    #[arg(long, value_name = "JSONFILE")]
    from: Option<PathBuf>,
    /// Also where the cell contradicts itself then.
    #[arg(long)]
    force: bool,
}

#[derive(Debug, Args)]
pub(super) struct LoadArgs {
    /// The file.
    file: PathBuf,
    /// The data directory; it must be missing or empty.
    #[arg(long)]
    dir: PathBuf,
    /// The data directory of the cell's former master: its certificate authority is taken over, so
    /// that all certificates go on. Default: a new authority.
    #[arg(long, value_name = "DIR")]
    tls: Option<PathBuf>,
    /// The restore epoch of the new cell. Its machines refuse the orders of a cell with a lower
    /// one. Default: one above that of the checkpoint, and of the former master with --tls.
    #[arg(long, value_name = "N")]
    restore_epoch: Option<u64>,
    /// Also where the checkpoint is of a cell with other replicas, all of which are lost for good. What
    /// the new master replaces is that whole cell: it begins only when none of them answers.
    #[arg(long)]
    replace_cell: bool,
    /// Also where the cell contradicts itself.
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

/// What to say of a file that is no checkpoint that can be used.
fn unusable(error: &anyhow::Error) -> Failure {
    Failure::usage(format!("error: {error:#}"))
}

/// Refuses a cell that contradicts itself, and says in what, unless that is wanted.
fn sound(cell: &Cell, what: &Path, force: bool) -> Done {
    let violations = cell.check();
    for violation in &violations {
        output::say(&format!("{violation}\n"));
    }
    if violations.is_empty() || force {
        return Ok(());
    }
    let (what, places) = (what.display(), places(violations.len()));
    let text = format!("error: {what} contradicts itself in {places}; nothing was changed");
    Err(Failure::usage(text).next("correct it, or insist with --force"))
}

fn places(count: usize) -> String {
    let s = if count == 1 { "" } else { "s" };
    format!("{count} place{s}")
}
