//! A task's output on disk: written by its shim, and readable while it grows.
//!
//! Each stream is a sequence of numbered files in the task's log directory, `stdout.000001`,
//! `stdout.000002`, …, with exactly the bytes that the task wrote. A full file is followed by one
//! with the next number; files are never renamed; the oldest is deleted. Beside each file is an
//! index `stdout.000001.times` of fixed-size records, with the times of writing.
//!
//! Positions count the bytes of the whole stream since the task started, so they remain valid
//! across rotation and show how much a slow reader has missed.
//!
//! Not here: searching, merging the two streams, and sending them anywhere.

mod reader;
mod times;
mod writer;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

pub use reader::{LogReader, ReadOutcome, Start};
pub(crate) use writer::LogWriter;

/// A log could not be opened.
#[derive(Debug, thiserror::Error)]
#[error("cannot read the logs in {}: {source}", dir.display())]
pub struct LogError {
    /// The log directory.
    pub dir: PathBuf,
    /// The kernel's error.
    pub source: io::Error,
}

/// One of the two output streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

impl Stream {
    /// `stdout` or `stderr`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Stdout => "stdout",
            Self::Stderr => "stderr",
        }
    }
}

/// The path of the data file with this number.
fn data_path(dir: &Path, stream: Stream, number: u64) -> PathBuf {
    dir.join(format!("{}.{number:06}", stream.name()))
}

/// The path of its index.
fn times_path(dir: &Path, stream: Stream, number: u64) -> PathBuf {
    dir.join(format!("{}.{number:06}.times", stream.name()))
}

/// The numbers of the existing data files, ascending.
fn numbers(dir: &Path, stream: Stream) -> io::Result<Vec<u64>> {
    let mut numbers = Vec::new();
    for entry in fs::read_dir(dir)? {
        let name = entry?.file_name();
        let rest = name.to_str().and_then(|name| name.strip_prefix(stream.name()));
        let number = rest.and_then(|rest| rest.strip_prefix('.')?.parse::<u64>().ok());
        numbers.extend(number);
    }
    numbers.sort_unstable();
    Ok(numbers)
}
