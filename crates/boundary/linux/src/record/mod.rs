//! The files of a task directory that say what to run, what runs, and how it ended.
//!
//! JSON with a `version`, so that an operator can `cat` them and a later release can read them. They
//! are written to a temporary file first and renamed, so a reader sees all of a record or none.
//! Content from the disk is never trusted: it is bounded in size, decoded, and checked.

mod check;
mod file;

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::cgroup::Limits;
use crate::process::since_ticks;
use crate::{FileError, Isolation};
pub use check::Invalid;

/// The version that this release writes, and the highest that it reads.
pub const VERSION: u32 = 1;

/// Name of the [`Launch`] record in a task directory.
pub const LAUNCH_FILE: &str = "launch.json";
/// Name of the [`Running`] record.
pub const RUNNING_FILE: &str = "running.json";
/// Name of the [`Exit`] record.
pub const EXIT_FILE: &str = "exit.json";
/// Name of the file that the shim holds locked for as long as it looks after the task.
pub const LOCK_FILE: &str = "lock";
/// Name of the file with the shim's own messages.
pub const SHIM_LOG_FILE: &str = "shim.log";
/// Name of the directory with the task's output, see [`crate::logs`].
pub const LOG_DIRECTORY: &str = "logs";
/// Name of the task's writable directory, which it sees as `/home/task`.
pub const HOME_DIRECTORY: &str = "home";
/// Name of the directory at which its jail is built, in a mount namespace of its own.
pub(crate) const ROOT_DIRECTORY: &str = "root";

/// Why a record could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The file could not be used.
    #[error(transparent)]
    File(#[from] FileError),
    /// The file is larger than any record of its kind.
    #[error("{} is larger than {max_bytes} bytes, so it is not one of our records: remove the task directory", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// The most that is read.
        max_bytes: u64,
    },
    /// The content is not such a record.
    #[error("{} is damaged: {}; remove the task directory", path.display(), escaped(why))]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What the decoder met, with line and column. Not the error's source: it quotes the content
        /// as it is, and whoever shows an error with its sources would show that.
        why: serde_json::Error,
    },
    /// A later release wrote it.
    #[error("{} has version {version}, but this program reads versions up to {VERSION}: start the newer bourg", path.display())]
    TooNew {
        /// The file.
        path: PathBuf,
        /// The version found.
        version: u32,
    },
    /// The record is well-formed but asks for something impossible.
    #[error("{}: {source}", path.display())]
    Invalid {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        source: Invalid,
    },
}

/// A message that may quote a file, as it may be shown: control characters are escaped. Quotes stay,
/// because the message has its own.
fn escaped(message: &serde_json::Error) -> String {
    let escape =
        |c: char| if c.is_control() { c.escape_debug().to_string() } else { c.to_string() };
    message.to_string().chars().map(escape).collect()
}

/// What to run, and inside which bounds: `launch.json`, written before the shim starts, and again
/// with other limits whenever the task is held to others.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Launch {
    /// The task's name in messages, such as `you/hello/3 generation 2`.
    pub label: String,
    /// The program and its arguments. A program without `/` is looked up in the task's `PATH`.
    pub argv: Vec<String>,
    /// The environment. `PATH`, `HOME`, `USER` and `HOSTNAME` are filled in where missing.
    pub env: Vec<(String, String)>,
    /// How it is kept apart from the machine.
    #[serde(default)]
    pub isolation: Isolation,
    /// User id of the task, not 0. Rootless it is a name that only the task sees: outside it has the
    /// caller's.
    pub uid: u32,
    /// Group id of the task, not 0; rootless as `uid`.
    pub gid: u32,
    /// Name of the machine as the task sees it, 1 to 63 bytes.
    pub hostname: String,
    /// The task's cgroup, as a path below the hierarchy's root; rootless it has none.
    pub cgroup: String,
    /// Whether the group above that is an alloc's, which must be there, and may be full before the task
    /// has all of its own.
    #[serde(default)]
    pub in_alloc: bool,
    /// What the task may use; rootless nothing holds it to that.
    pub limits: Limits,
    /// How much of its output is kept.
    pub log: LogPolicy,
    /// Size of the task's `/tmp`, and of its `/dev/shm`, in bytes; what is in them counts as memory.
    pub tmp_bytes_max: u64,
    /// Time between SIGTERM and SIGKILL, in milliseconds. The task's init enforces it on its own.
    pub notice_ms: u64,
    /// What the task sees of the machine.
    pub jail: Jail,
    /// The capabilities of Linux that its program keeps, by their numbers (capabilities(7)): of
    /// those in [`crate::CAPABILITIES`], and none rootless, where there is none to keep.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub capabilities: Vec<u8>,
}

/// How much of each of the two output streams is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogPolicy {
    /// Size at which a new file is begun, in bytes, at least 4096; the index of times counts too.
    pub file_bytes_max: u64,
    /// Files kept per stream, at least 1; the oldest goes first.
    pub files_max: u32,
}

/// What a task sees of the machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Jail {
    /// Directories of the host shown read-only when `root` is [`Root::HostSystem`]; one that is a
    /// symbolic link is recreated as that link, one that is missing is left out.
    pub system_dirs: Vec<String>,
    /// The executable shown as `/usr/bin/bourg`.
    pub bourg_executable: PathBuf,
    /// What the rest of the root is made of.
    pub root: Root,
    /// Further directories or files of the host shown in the jail.
    #[serde(default)]
    pub binds: Vec<Bind>,
}

impl Jail {
    /// A jail over the host's own `/usr`, `/bin`, `/sbin`, `/lib`, `/lib32` and `/lib64`.
    #[must_use]
    pub fn host(bourg_executable: PathBuf) -> Self {
        let system_dirs = ["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64"];
        Self {
            system_dirs: system_dirs.map(str::to_owned).into(),
            bourg_executable,
            root: Root::HostSystem,
            binds: Vec::new(),
        }
    }
}

/// What the root of a jail is made of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Root {
    /// The listed system directories of the host.
    HostSystem,
    /// The content of this directory, a package or an image, in place of the system directories.
    Directory(PathBuf),
}

/// A directory or file of the host shown in a jail.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bind {
    /// Absolute path on the host.
    pub source: PathBuf,
    /// Absolute path in the jail, outside the system directories.
    pub target: PathBuf,
    /// Whether the task may write there, as far as its uid may.
    pub writable: bool,
}

/// That the task runs, and as which process: `running.json`, written when the task's program has
/// been entered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Running {
    /// The task's init, as a process id of the host.
    pub init_pid: i32,
    /// When that process started, in clock ticks since boot, as `/proc/<pid>/stat` has it.
    pub init_start_ticks: u64,
    /// The boot of the machine that it runs in.
    pub boot_id: String,
    /// When the task's program was entered, in microseconds since 1970.
    pub started_at_unix_us: u64,
}

impl Running {
    /// How long the task has run, if it runs in this boot: by the machine's clock since boot, because
    /// the wall clock may have been set meanwhile.
    ///
    /// # Errors
    /// When the kernel does not say.
    pub fn age(&self) -> io::Result<Duration> {
        since_ticks(self.init_start_ticks)
    }
}

/// How a task ended: `exit.json`, the last thing written about it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exit {
    /// In which way.
    pub reason: ExitReason,
    /// When, in microseconds since 1970.
    pub ended_at_unix_us: u64,
    /// CPU time of all its processes, in nanoseconds; `None` where it was not measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_ns: Option<u64>,
    /// The most memory that it had at any time, in bytes; `None` where it was not measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_peak_bytes: Option<u64>,
}

/// The ways in which a task ends.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum ExitReason {
    /// Its main process ended by itself.
    Exited {
        /// The exit status, 0 to 255.
        code: i32,
    },
    /// A signal ended its main process, or its init.
    Signalled {
        /// The signal's number.
        signal: i32,
    },
    /// It needed more memory than its limit, or than was left in its alloc, and was ended as a whole.
    OutOfMemory {
        /// The limit that was reached: its own, or its alloc's.
        limit_bytes: u64,
        /// The most that it had; of an alloc's limit the others in it had the rest.
        peak_bytes: u64,
    },
    /// Its program was never entered.
    NotStarted {
        /// Why, for the user to read.
        reason: String,
    },
}

/// Implements reading and writing for one kind of record.
macro_rules! record {
    ($kind:ident, $file:expr, $max_bytes:expr, $durable:expr) => {
        impl $kind {
            /// Reads the record of the task in `dir`; `None` if there is none.
            ///
            /// # Errors
            /// When it is damaged, too large, or of a later release.
            pub fn read(dir: &Path) -> Result<Option<Self>, RecordError> {
                file::read(&dir.join($file), $max_bytes)
            }

            /// Writes the record into `dir`, replacing one that is there.
            ///
            /// # Errors
            /// When the disk is full or the directory is gone.
            pub fn write(&self, dir: &Path) -> Result<(), RecordError> {
                file::write(dir, $file, self, $durable)
            }
        }
    };
}

// The kernel takes at most 2 MiB of arguments and environment, and JSON may escape every byte. After a
// loss of power only the exit record still means something; the others would cost a slow sync each.
record!(Launch, LAUNCH_FILE, 16 << 20, file::Durable::No);
record!(Running, RUNNING_FILE, 64 << 10, file::Durable::No);
record!(Exit, EXIT_FILE, 64 << 10, file::Durable::Yes);

/// Takes room on the disk for what is recorded of a task once it has begun.
///
/// # Errors
/// When the disk is full.
pub(crate) fn reserve(dir: &Path) -> Result<(), FileError> {
    file::reserve(dir, RUNNING_FILE)?;
    file::reserve(dir, EXIT_FILE)
}

impl ExitReason {
    /// Reads a raw wait status, as `waitpid(2)` gives it for an ended process.
    pub(crate) fn from_wait_status(status: i32) -> Self {
        if libc::WIFSIGNALED(status) {
            Self::Signalled { signal: libc::WTERMSIG(status) }
        } else {
            Self::Exited { code: libc::WEXITSTATUS(status) }
        }
    }
}
