//! Gives up the damaged part of a log and everything after it, when an operator names the damage.

use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use super::newest;
use super::recover;
use super::segment::FORMAT;
use crate::segments::{self, Name, SEGMENT_HEADER_BYTES};
use crate::{Error, Result, disk};

/// The suffix of the files that preserve what was given up.
pub const LOST: &str = "lost";

/// Cuts the log in `directory`, which no process may have open, at the damage for which
/// [`crate::log::Log::open_from`] rejects it, and which `named` names as [`Error::loss`] does.
/// Entries from the damage on may have been acknowledged. They are preserved beside the log, in
/// files with the suffix [`LOST`]; returns those.
///
/// A crash in between leaves a log that is still damaged, or already cut.
///
/// # Errors
/// [`Error::NotThatLoss`] if the log is not damaged, or elsewhere: nothing is changed then.
/// [`Error::NewerFormat`], [`Error::NoRoom`] and [`Error::Io`].
pub fn accept_loss(directory: impl AsRef<Path>, index: u64, named: &str) -> Result<Vec<PathBuf>> {
    let directory = directory.as_ref();
    let not_that = |found| Error::NotThatLoss { named: named.to_owned(), found };
    segments::remove_unfinished(directory, &FORMAT)?;
    let damage = match recover::scan(directory, index, false) {
        Ok(_) => return Err(not_that(None)),
        Err(error) if error.loss().is_none() => return Err(error),
        Err(error) => error,
    };
    if damage.loss().as_deref() != Some(named) {
        return Err(not_that(damage.loss()));
    }
    let mut kept = Vec::new();
    let mut names = segments::list(directory, &FORMAT)?.0;
    if let Error::DamagedLog { path, offset, .. } = &damage {
        let is_damaged = |name: &Name| directory.join(name.file(&FORMAT)) == *path;
        let from = names.iter().position(is_damaged).unwrap_or(names.len());
        let in_records = *offset >= u64::from(SEGMENT_HEADER_BYTES);
        // Newest first: a crash leaves a log that lacks its end, with no gap.
        let whole = from + usize::from(in_records);
        for name in names.drain(whole.min(names.len())..).rev() {
            let path = directory.join(name.file(&FORMAT));
            let lost = lost(&path);
            fs::rename(&path, &lost).map_err(Error::io("rename", &path, 0))?;
            disk::sync_directory(directory)?;
            kept.push(lost);
        }
        if in_records {
            let lost = lost(path);
            copy(path, &lost)?;
            disk::sync_directory(directory)?;
            kept.push(lost);
            cut(path, *offset)?;
        }
    }
    newest::write(directory, names.last().map_or(0, |name| name.sequence))?;
    Ok(kept)
}

fn lost(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".");
    name.push(LOST);
    PathBuf::from(name)
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    let copied = fs::copy(from, to).and_then(|bytes| {
        OpenOptions::new().write(true).open(to)?.sync_all()?;
        Ok(bytes)
    });
    copied.map(drop).map_err(Error::io("copy what is given up to", to, 0))
}

/// Zeroes everything from `offset` on, as in a new segment.
fn cut(path: &Path, offset: u64) -> Result<()> {
    let cut = || -> io::Result<()> {
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        let mut header = [0; SEGMENT_HEADER_BYTES as usize];
        file.read_exact_at(&mut header, 0)?;
        let bytes = file.metadata()?.len().max(u64::from(segments::file_bytes(&header)));
        file.set_len(offset)?;
        file.set_len(bytes)?;
        file.sync_all()
    };
    cut().map_err(Error::io("cut", path, 0))
}
