//! The errors of a replica's disk: what happened, where, why, and what to do next.

use std::io;
use std::path::{Path, PathBuf};

use crate::cursor::Cursor;

/// The result of all disk operations in this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error of the replica's disk, of its contents, or of a call.
///
/// Offsets are bytes from the start of the named file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An operating system call failed.
    #[error("cannot {action} {}: {source}; check the disk, its mount and the permissions of the \
             path", path.display())]
    Io {
        /// The attempted action, as a verb: "open", "write to".
        action: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The operating system's error.
        source: io::Error,
    },

    /// Another process has locked the data directory.
    #[error("the data directory {} is in use by {}; stop that process, or give this one \
             another directory", path.display(), holder(*pid))]
    Locked {
        /// The data directory.
        path: PathBuf,
        /// The process that wrote its pid next to the lock, if readable.
        pid: Option<u32>,
    },

    /// The path exists and is not a data directory.
    #[error("{} is not a data directory of this program: {why}; give an empty or a missing path \
             to create a new one", path.display())]
    NotADataDirectory {
        /// The path.
        path: PathBuf,
        /// What was found or is missing there.
        why: String,
    },

    /// The path is already a data directory.
    #[error("{} is already a data directory; open it instead, or give another path",
            path.display())]
    AlreadyExists {
        /// The path.
        path: PathBuf,
    },

    /// The file was written by a newer version of this program.
    #[error("{} has format version {found}, this program supports up to {known}; run the newer \
             program that wrote it, or restore from a checkpoint that this version wrote",
            path.display())]
    NewerFormat {
        /// The file.
        path: PathBuf,
        /// The version of the file.
        found: u32,
        /// The highest version that this build reads.
        known: u32,
    },

    /// Durable bytes have changed: the log must not be used.
    #[error("the log is damaged at {}, offset {offset}: {why}; {}", path.display(),
            repair(path.parent(), &self.loss().unwrap_or_default()))]
    DamagedLog {
        /// The segment file.
        path: PathBuf,
        /// The offset in the file.
        offset: u64,
        /// Why this is damage and not an unfinished write.
        why: String,
    },

    /// The newest segments of the log are missing: the log must not be used.
    #[error("the log in {} is incomplete: segment {made} was created, and {}; {}",
            directory.display(), newest(*found),
            repair(Some(directory), &self.loss().unwrap_or_default()))]
    MissingSegment {
        /// The log's directory.
        directory: PathBuf,
        /// The sequence number of the newest segment created.
        made: u64,
        /// The sequence number of the newest segment found.
        found: Option<u64>,
    },

    /// The log has no segment although the data directory records that it had entries.
    #[error("the log in {} is missing: it had records, and no segment was found; {}",
            directory.display(), repair(Some(directory), loss))]
    MissingLog {
        /// The log's directory.
        directory: PathBuf,
        /// The name of the loss, for [`crate::log::accept_loss`].
        loss: &'static str,
    },

    /// The loss to accept is not the one that was found.
    #[error("the damage found is {}, not {named:?}: name the one found",
            found.as_deref().unwrap_or("none"))]
    NotThatLoss {
        /// The name that was given.
        named: String,
        /// The loss that was found, as [`Error::loss`] names it.
        found: Option<String>,
    },

    /// Durable bytes of the event stream have changed. The replica continues; its log is not
    /// affected.
    #[error("the event stream is damaged at {}, offset {offset}: {why}; {}", path.display(),
            goes_on(*next))]
    DamagedEvents {
        /// The segment file.
        path: PathBuf,
        /// The offset in the file.
        offset: u64,
        /// Why this is damage and not an unfinished write.
        why: String,
        /// Where the stream continues, if known.
        next: Option<Cursor>,
    },

    /// The next events of a reader were deleted by retention.
    #[error("these events are no longer retained: the stream starts at {oldest} now; continue from \
             a state as of index {} or later", oldest.index)]
    EventsTooLate {
        /// The first retained event.
        oldest: Cursor,
    },

    /// Events were lost to disk damage, or were never stored here because this replica's state came
    /// from another one.
    #[error("the events from {from} on were lost or never stored on this disk; they are complete \
             again from {complete_from}: continue from a state as of index {} or later",
            complete_from.index)]
    EventsLost {
        /// The first event that may be missing.
        from: Cursor,
        /// The first event from which the stream is complete again.
        complete_from: Cursor,
    },

    /// Events are out of order.
    #[error(
        "event {found} of time {time_us} does not follow event {last} of time {last_time_us}; \
             this is a bug: report it with the log of this replica"
    )]
    EventOrder {
        /// The previous event.
        last: Cursor,
        /// Its time in microseconds.
        last_time_us: u64,
        /// The rejected event.
        found: Cursor,
        /// Its time in microseconds.
        time_us: u64,
    },

    /// A checkpoint is incomplete or its bytes have changed.
    #[error("the checkpoint {} is damaged at offset {offset}: {why}; use another checkpoint", path.display())]
    DamagedCheckpoint {
        /// The checkpoint file.
        path: PathBuf,
        /// The offset in the file.
        offset: u64,
        /// What does not match.
        why: String,
    },

    /// Retention deleted a file while it was being read.
    #[error("{} was deleted by retention while it was read; list what is retained now, and read that",
            path.display())]
    Deleted {
        /// The file, or its former directory.
        path: PathBuf,
    },

    /// The requested state is older than the retained history.
    #[error(
        "the retained history starts at index {begins}, after the requested state; request \
             that index or a later one, or raise the retention settings"
    )]
    TooEarly {
        /// The first index whose state can be rebuilt.
        begins: u64,
    },

    /// The requested state is newer than this replica's data.
    #[error(
        "index {asked} does not exist here yet: the newest record on this disk is {last}; wait, \
             or ask another replica"
    )]
    NotYet {
        /// The requested index.
        asked: u64,
        /// The index of the last record.
        last: u64,
    },

    /// The disk is full. Existing data is intact, and later calls succeed once there is space.
    #[error("no room for {needed_bytes} bytes at {}; free some space on that disk, or \
             truncate the log after a newer checkpoint", path.display())]
    NoRoom {
        /// The file that could not be created or extended.
        path: PathBuf,
        /// The number of bytes needed.
        needed_bytes: u64,
    },

    /// A sync failed earlier: what is durable is unknown, and a retry cannot tell.
    #[error("{} could not be synced to its disk ({cause}) and accepts no more writes; check or \
             replace the disk, then restart this replica: it recovers what is durable",
            path.display())]
    Poisoned {
        /// The segment whose sync failed.
        path: PathBuf,
        /// The operating system's error at that time.
        cause: String,
    },

    /// An entry would leave a gap in the log.
    #[error(
        "entry {found} would leave a gap in the log, which accepts entries up to {expected}; this \
             is a bug: report it with the log of this replica"
    )]
    Gap {
        /// The highest acceptable index.
        expected: u64,
        /// The index of the entry.
        found: u64,
    },

    /// A payload or a batch exceeds a limit of the format.
    #[error("{bytes} bytes exceed the maximum of {limit} for {what}; split it")]
    TooLarge {
        /// What is too large: "a record", "a batch".
        what: &'static str,
        /// The size.
        bytes: u64,
        /// The limit.
        limit: u64,
    },
}

impl Error {
    /// For `map_err`: adds the action and the path to an error, and distinguishes a full disk from
    /// other errors.
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

    /// Where the events go on after those that the error is about.
    #[must_use]
    pub fn goes_on(&self) -> Option<Cursor> {
        match self {
            Self::EventsTooLate { oldest } => Some(*oldest),
            Self::EventsLost { complete_from, .. } => Some(*complete_from),
            Self::DamagedEvents { next, .. } => *next,
            _ => None,
        }
    }

    /// The offset of the damage in its file.
    pub(crate) fn damaged_at(&self) -> Option<u64> {
        match self {
            Self::DamagedLog { offset, .. } | Self::DamagedEvents { offset, .. } => Some(*offset),
            _ => None,
        }
    }

    /// The name of the damage to the log, for [`crate::log::accept_loss`]: its segment and offset.
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

    /// Converts a failure to open a file that retention may have deleted since it was listed.
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

/// The advice for an unusable log in this directory of a data directory.
fn repair(log: Option<&Path>, loss: &str) -> String {
    let directory = log.and_then(Path::parent).unwrap_or(Path::new("DIR")).display();
    format!(
        "this replica may lack acknowledged entries. If the cell has other replicas, remove this one and \
         add a new one with an empty directory (bourg master remove, bourg master add). If it is the \
         only one, bourg master restore --dir {directory} --accept-loss {loss} gives up the damaged \
         entry and everything after it"
    )
}

fn newest(found: Option<u64>) -> String {
    found.map_or_else(
        || "no segment was found".to_owned(),
        |found| format!("the newest one found is {found}"),
    )
}

fn goes_on(next: Option<Cursor>) -> String {
    let from = next.map(|next| {
        let index = next.index;
        format!("it continues at {next}: start there from a state as of index {index} or later")
    });
    let wait = "restart this replica: it continues after the damage and reports what is missing";
    from.unwrap_or_else(|| wait.to_owned())
}

fn holder(pid: Option<u32>) -> String {
    pid.map_or_else(|| "another process".to_owned(), |pid| format!("process {pid}"))
}
