//! What can go wrong on a replica's disk: what happened, where, why, and what to do next.

use std::io;
use std::path::{Path, PathBuf};

use crate::cursor::Cursor;

/// The result of everything in this crate that touches the disk.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A failure of the replica's disk, of its contents, or of a call.
///
/// Offsets are bytes from the start of the named file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The operating system refused an operation.
    #[error("cannot {action} {}: {source}; check the disk, its mount and the permissions of the \
             path", path.display())]
    Io {
        /// What was attempted, as a verb: "open", "write to".
        action: &'static str,
        /// The file or directory it was attempted on.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },

    /// Another process holds the data directory.
    #[error("the data directory {} is in use by {}; stop that process, or give this one a \
             directory of its own", path.display(), holder(*pid))]
    Locked {
        /// The data directory.
        path: PathBuf,
        /// The process that wrote its pid beside the lock, if it is readable.
        pid: Option<u32>,
    },

    /// The path exists and holds something that is not a data directory.
    #[error("{} is not a data directory of this program: {why}; give an empty or a missing path \
             to make a new one", path.display())]
    NotADataDirectory {
        /// The path that was given.
        path: PathBuf,
        /// What was found or missed there.
        why: String,
    },

    /// A data directory already exists where a new one was to be made.
    #[error("{} is a data directory already; open it instead, or give another path",
            path.display())]
    AlreadyExists {
        /// The path that was given.
        path: PathBuf,
    },

    /// The file was written by a later version of this program.
    #[error("{} has format version {found}, this program knows up to {known}; run the newer \
             program that wrote it, or restore from a checkpoint that this version wrote",
            path.display())]
    NewerFormat {
        /// The file that carries the version.
        path: PathBuf,
        /// The version in the file.
        found: u32,
        /// The highest version that this build reads.
        known: u32,
    },

    /// Bytes that were durable are not what was written: the log must not be used.
    #[error("the log is damaged at {}, offset {offset}: {why}; {}", path.display(),
            repair(path.parent(), &self.loss().unwrap_or_default()))]
    DamagedLog {
        /// The segment file.
        path: PathBuf,
        /// Where in it.
        offset: u64,
        /// How it is known that this is damage, and no unfinished write.
        why: String,
    },

    /// The newest segments of the log are not there: the log must not be used.
    #[error("the log in {} is not complete: segment {made} was made, and {}; {}",
            directory.display(), newest(*found),
            repair(Some(directory), &self.loss().unwrap_or_default()))]
    MissingSegment {
        /// The log's directory.
        directory: PathBuf,
        /// The sequence number of the newest segment that was made.
        made: u64,
        /// That of the newest one whose file is there.
        found: Option<u64>,
    },

    /// No segment of the log is there, and the data directory notes that it had records.
    #[error("the log in {} is missing: it had records, and no segment is there; {}",
            directory.display(), repair(Some(directory), loss))]
    MissingLog {
        /// The log's directory.
        directory: PathBuf,
        /// What names the loss.
        loss: &'static str,
    },

    /// A loss was to be accepted that is not the one that was found.
    #[error("the damage that was found is {}, and not {named:?}: name the one that was found",
            found.as_deref().unwrap_or("none"))]
    NotThatLoss {
        /// The one that was named.
        named: String,
        /// The one that was found, as [`Error::loss`] names it.
        found: Option<String>,
    },

    /// Bytes of the event stream that were durable are not what was written. The replica goes on,
    /// and its log is not concerned.
    #[error("the event stream is damaged at {}, offset {offset}: {why}; {}", path.display(),
            goes_on(*next))]
    DamagedEvents {
        /// The segment file.
        path: PathBuf,
        /// Where in it.
        offset: u64,
        /// How it is known that this is damage, and no unfinished write.
        why: String,
        /// Where the stream goes on, if that is known.
        next: Option<Cursor>,
    },

    /// The events that a reader wants next were deleted, being too old or too many.
    #[error("these events are not kept any more: the stream begins at {oldest} now; go on from a \
             state as of index {} or later", oldest.index)]
    EventsTooLate {
        /// From where on events are kept.
        oldest: Cursor,
    },

    /// Events were lost by damage to a disk, or never were here, because this replica's state came
    /// from another.
    #[error("the events from {from} on were lost or never were on this disk; they are complete \
             again from {complete_from}: go on from a state as of index {} or later",
            complete_from.index)]
    EventsLost {
        /// The first event that may be missing.
        from: Cursor,
        /// From where on none is.
        complete_from: Cursor,
    },

    /// Events do not come in order.
    #[error(
        "event {found} of time {time_us} does not follow event {last} of time {last_time_us}; \
             this is an error of the program: report it with the log of this replica"
    )]
    EventOrder {
        /// The event before.
        last: Cursor,
        /// Its time in microseconds.
        last_time_us: u64,
        /// The event that came.
        found: Cursor,
        /// Its time in microseconds.
        time_us: u64,
    },

    /// A checkpoint is incomplete or its bytes are not what was written.
    #[error("the checkpoint {} is damaged at offset {offset}: {why}; use another checkpoint", path.display())]
    DamagedCheckpoint {
        /// The checkpoint file.
        path: PathBuf,
        /// Where in it.
        offset: u64,
        /// What does not match.
        why: String,
    },

    /// A file of the past that retention deleted while it was read.
    #[error("{} was deleted while it was read; look at what is kept now, and read that",
            path.display())]
    Deleted {
        /// The file, or the directory in which it was.
        path: PathBuf,
    },

    /// What is asked for was before the history that is kept.
    #[error(
        "the kept history begins at index {begins}, and what is asked for was before it; ask \
             for that index or a later one, or have more history kept from now on"
    )]
    TooEarly {
        /// The first index as of which a state can be rebuilt.
        begins: u64,
    },

    /// What is asked for has not happened, as far as is known here.
    #[error(
        "index {asked} is not there yet: the newest record on this disk is {last}; wait, or \
             ask a replica that is further"
    )]
    NotYet {
        /// The index that was asked for.
        asked: u64,
        /// The index of the last record here.
        last: u64,
    },

    /// The disk is full. Everything that was there before is intact, and later calls succeed once
    /// there is room.
    #[error("no room for {needed_bytes} bytes at {}; free some space on that disk, or let the \
             log be cut behind a newer checkpoint", path.display())]
    NoRoom {
        /// The file that could not be made or extended.
        path: PathBuf,
        /// How much it asked for.
        needed_bytes: u64,
    },

    /// A sync failed earlier: what is durable is unknown, and asking again would not tell.
    #[error("{} failed to reach its disk ({cause}) and takes nothing more; replace or \
             check the disk, then restart this replica: it recovers what is really there",
            path.display())]
    Poisoned {
        /// The segment whose sync failed.
        path: PathBuf,
        /// What the operating system said at that time.
        cause: String,
    },

    /// An entry would leave a hole in the log.
    #[error(
        "entry {found} does not follow the log, which takes entries up to {expected}; this \
             is an error of the program: report it with the log of this replica"
    )]
    Gap {
        /// The highest index that could have come.
        expected: u64,
        /// The index that came.
        found: u64,
    },

    /// A payload or a batch is larger than the format allows.
    #[error("{bytes} bytes are more than the {limit} that {what} may have; split it")]
    TooLarge {
        /// What is too large: "a record", "a batch".
        what: &'static str,
        /// Its size.
        bytes: u64,
        /// The largest size that is taken.
        limit: u64,
    },
}

impl Error {
    /// For `map_err`: names the action and the path of a failed operation, and tells a full disk
    /// from all other failures.
    pub(crate) fn io(
        action: &'static str,
        path: &Path,
        needed_bytes: u64,
    ) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                Self::NoRoom { path, needed_bytes }
            }
            _ => Self::Io { action, path, source },
        }
    }

    /// Where in its file the damage is that this error is about.
    pub(crate) fn damaged_at(&self) -> Option<u64> {
        match self {
            Self::DamagedLog { offset, .. } | Self::DamagedEvents { offset, .. } => Some(*offset),
            _ => None,
        }
    }

    /// What names the damage to the log that this error is about, for
    /// [`crate::log::accept_loss`]: its segment and offset.
    #[must_use]
    pub fn loss(&self) -> Option<String> {
        match self {
            Self::DamagedLog { path, offset, .. } => {
                let file = path.file_name().unwrap_or_default().to_string_lossy();
                Some(format!("{file}:{offset}"))
            }
            Self::MissingSegment { made, .. } => Some(format!("segment-{made}")),
            Self::MissingLog { loss, .. } => Some((*loss).to_owned()),
            _ => None,
        }
    }

    /// For a failure to open a file that retention may have deleted since it was listed.
    pub(crate) fn reading(path: &Path, source: io::Error) -> Self {
        match source.kind() {
            io::ErrorKind::NotFound => Self::Deleted { path: path.to_owned() },
            _ => Self::io("open", path, 0)(source),
        }
    }

    /// Whether the cause is a full disk, so that the same call may succeed later.
    #[must_use]
    pub fn is_no_room(&self) -> bool {
        matches!(self, Self::NoRoom { .. })
    }
}

/// What to do about a log that must not be used, in this directory of a data directory.
fn repair(log: Option<&Path>, loss: &str) -> String {
    let directory = log.and_then(Path::parent).unwrap_or(Path::new("DIR")).display();
    format!(
        "this replica may lack what it acknowledged. Where the cell has others, remove it and add a \
         new one with an empty directory (bourg master remove, bourg master add). Of the only replica, \
         bourg master restore --dir {directory} --accept-loss {loss} gives up this and all that follows"
    )
}

fn newest(found: Option<u64>) -> String {
    found.map_or_else(
        || "no segment is there".to_owned(),
        |found| format!("the newest that is there is {found}"),
    )
}

fn goes_on(next: Option<Cursor>) -> String {
    let from = next.map(|next| {
        let index = next.index;
        format!("it goes on at {next}: take that from a state as of index {index} or later")
    });
    let wait = "restart this replica: it goes on behind the damage, and says what is missing";
    from.unwrap_or_else(|| wait.to_owned())
}

fn holder(pid: Option<u32>) -> String {
    pid.map_or_else(|| "another process".to_owned(), |pid| format!("process {pid}"))
}
