//! The files of a task directory that record what to run, what runs, and how it ended.
//!
//! JSON with a `version`, so that an operator can `cat` them and a later release can read them.
//! They are written to a temporary file and renamed, so a reader sees a complete record or none.
//! Only the exit record is synced, before the lock is released: whoever sees that the shim is gone
//! finds a record that survives a power loss. After a power loss before that, the record may be
//! missing or incomplete, and the task counts as lost, as if it had not ended. The others mean
//! nothing after a reboot: all processes are gone.
//! Content from the disk is not trusted: its size is bounded, and it is decoded and validated.

mod check;
mod file;
mod image;

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::cgroup::Limits;
use crate::network::Network;
use crate::process::since_ticks;
use crate::{FileError, Isolation};
pub use check::Invalid;
pub use image::{
    IMAGE_DIRECTORY, ImageRoot, LAYERS_MAX, UPPER_DIRECTORY, USER_BYTES_MAX, WORK_DIRECTORY,
};

/// The version that this release writes, and the highest that it reads.
pub const VERSION: u32 = 1;

/// The name of the [`Launch`] record in a task directory.
pub const LAUNCH_FILE: &str = "launch.json";
/// The name of the [`Running`] record.
pub const RUNNING_FILE: &str = "running.json";
/// The name of the [`Exit`] record.
pub const EXIT_FILE: &str = "exit.json";
/// The name of the file that the shim keeps locked while it supervises the task.
pub const LOCK_FILE: &str = "lock";
/// The name of the file with the shim's own messages.
pub const SHIM_LOG_FILE: &str = "shim.log";
/// The name of the directory with the task's output, see [`crate::logs`].
pub const LOG_DIRECTORY: &str = "logs";
/// The name of the task's writable directory, which it sees as `/home/task`.
pub const HOME_DIRECTORY: &str = "home";
/// The path at which the task sees that directory.
pub(crate) const HOME_IN_JAIL: &str = "/home/task";
/// Where a task finds its directory in memory, if it has one.
pub const SCRATCH_IN_JAIL: &str = "/scratch";
/// The name of the directory at which its jail is built, in its own mount namespace.
pub(crate) const ROOT_DIRECTORY: &str = "root";

/// A record could not be read or written.
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
        /// The maximum size that is read.
        max_bytes: u64,
    },
    /// The content is not such a record.
    #[error("{} is damaged: {}; remove the task directory", path.display(), escaped(why))]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The decoder's error, with line and column. It is not the error's source: it quotes raw
        /// content, which would then be shown with the error's sources.
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
    /// The record is well-formed but invalid.
    #[error("{}: {source}", path.display())]
    Invalid {
        /// The file.
        path: PathBuf,
        /// The problem.
        source: Invalid,
    },
}

/// A message that may quote a file, made safe to show: control characters are escaped. Quotes stay,
/// because the message has its own.
fn escaped(message: &serde_json::Error) -> String {
    let escape =
        |c: char| if c.is_control() { c.escape_debug().to_string() } else { c.to_string() };
    message.to_string().chars().map(escape).collect()
}

/// What to run, with which limits: `launch.json`, written before the shim starts, and again
/// whenever the limits change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Launch {
    /// The task's name in messages, such as `you/hello/3 generation 2`.
    pub label: String,
    /// The program and its arguments. A program without `/` is searched in the task's `PATH`.
    pub argv: Vec<String>,
    /// The environment. `PATH`, `HOME`, `USER` and `HOSTNAME` are added if missing.
    pub env: Vec<(String, String)>,
    /// Variables whose values are in files, which the init reads: they are secret, and in no record.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub secret_env: Vec<SecretVariable>,
    /// How the task is isolated from the machine.
    #[serde(default)]
    pub isolation: Isolation,
    /// User id of the task, not 0. Rootless, only the task sees it: outside, the task has the
    /// caller's.
    pub uid: u32,
    /// Group id of the task, not 0; rootless as `uid`.
    pub gid: u32,
    /// The host name that the task sees, 1 to 63 bytes.
    pub hostname: String,
    /// The task's cgroup, as a path below the hierarchy's root; unused rootless.
    pub cgroup: String,
    /// Whether the parent cgroup is an alloc's, which must exist, and whose limit may be reached
    /// before the task's own.
    #[serde(default)]
    pub in_alloc: bool,
    /// The limits; not enforced rootless.
    pub limits: Limits,
    /// Whom the kernel kills first when the machine runs out of memory: from 0, last, to 1000.
    #[serde(default)]
    pub oom_score_adj: u16,
    /// Retention of the output.
    pub log: Rotation,
    /// Size of the task's `/tmp`, and of its `/dev/shm`, in bytes; their content counts as memory.
    pub tmp_bytes_max: u64,
    /// Size of the task's directory in memory at [`SCRATCH_IN_JAIL`], in bytes; its content counts as
    /// memory. `None`: it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scratch_bytes_max: Option<u64>,
    /// The time between [`Self::stop_signal`] and SIGKILL, in milliseconds. The task's init enforces
    /// it on its own.
    pub notice_ms: u64,
    /// The signal that asks the task to end, 1 to 64 but not SIGSTOP; `None`: SIGTERM.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop_signal: Option<u8>,
    /// The working directory of the program and of sessions, an absolute path in the jail; `None`:
    /// `/home/task`. It is created if missing, and then belongs to the task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub working_directory: Option<PathBuf>,
    /// The part of the machine that the task sees.
    pub jail: Jail,
    /// Its own network; `None`: the host's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<Network>,
    /// Linux capabilities that its program keeps, by number (capabilities(7)): a subset of
    /// [`crate::CAPABILITIES`], and empty rootless, where there are none to keep.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub capabilities: Vec<u8>,
    /// The ports that it may bind.
    #[serde(default)]
    pub bindable_ports: BindablePorts,
}

/// A variable of the environment whose value is in a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SecretVariable {
    /// Its name.
    pub name: String,
    /// Absolute path on the host of the file with its value, UTF-8 without zero bytes.
    pub source: PathBuf,
}

/// The maximum size of the value of a [`SecretVariable`], in bytes.
pub const SECRET_VARIABLE_BYTES_MAX: u64 = 128 << 10;

impl Launch {
    /// The directory in which the task's program starts.
    pub(crate) fn starts_in(&self) -> &Path {
        self.working_directory.as_deref().unwrap_or(Path::new(HOME_IN_JAIL))
    }
}

/// The ports that a task may bind ([`crate::bind`]).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BindablePorts {
    /// All that the kernel allows its user: where it cannot be enforced, and rootless.
    #[default]
    Any,
    /// These, at most [`PORTS_MAX`], and what is allowed to every task. With the capability
    /// `NET_BIND_SERVICE`, also those below 1024, unless one of its own is below.
    Only(Vec<u16>),
}

/// The maximum number of [`BindablePorts`].
pub const PORTS_MAX: usize = 1024;

/// Retention of each of the two output streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rotation {
    /// The file size at which a new file is started, in bytes, at least 4096; the index of times
    /// counts too.
    pub file_bytes_max: u64,
    /// Files kept per stream, at least 1; the oldest is deleted first.
    pub files_max: u32,
}

/// The part of the machine that a task sees.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Jail {
    /// Directories of the host shown read-only when `root` is [`Root::HostSystem`]; a symbolic link
    /// is recreated as that link, a missing directory is skipped.
    pub system_dirs: Vec<String>,
    /// The executable shown as `/usr/bin/bourg`.
    pub bourg_executable: PathBuf,
    /// The content of the rest of the root.
    pub root: Root,
    /// Further directories or files of the host shown in the jail.
    #[serde(default)]
    pub binds: Vec<Bind>,
    /// Directories of the host that outlive the task, shown as its own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub volumes: Vec<Bind>,
    /// The content of `/etc/resolv.conf`; by default the host's.
    #[serde(default)]
    pub resolv_conf: Option<String>,
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
            volumes: Vec::new(),
            resolv_conf: None,
        }
    }
}

/// The content of a jail's root.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Root {
    /// The listed system directories of the host.
    HostSystem,
    /// The files of an image, in place of the system directories. They are writable for the task.
    Image(ImageRoot),
}

/// A directory or file of the host shown in a jail.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bind {
    /// Absolute path on the host.
    pub source: PathBuf,
    /// Absolute path in the jail, outside the system directories.
    pub target: PathBuf,
    /// Whether the task may write there, as far as its uid permits.
    pub writable: bool,
}

/// The running task's process: `running.json`, written when the task's program has been executed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Running {
    /// The task's init, as a process id of the host.
    pub init_pid: i32,
    /// When that process started, in clock ticks since boot, as in `/proc/<pid>/stat`.
    pub init_start_ticks: u64,
    /// The id of the boot in which it runs.
    pub boot_id: String,
    /// When the task's program was executed, in microseconds since 1970.
    pub started_at_unix_us: u64,
}

impl Running {
    /// How long the task has run, if it runs in this boot: by the machine's clock since boot,
    /// because the wall clock may have been set meanwhile.
    ///
    /// # Errors
    /// When the kernel returns an error.
    pub fn age(&self) -> io::Result<Duration> {
        since_ticks(self.init_start_ticks)
    }
}

/// How a task ended: `exit.json`, the last record written about it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exit {
    /// The way it ended.
    pub reason: ExitReason,
    /// When it ended, in microseconds since 1970.
    pub ended_at_unix_us: u64,
    /// CPU time of all its processes, in nanoseconds; `None` if not measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_ns: Option<u64>,
    /// Peak memory, in bytes; `None` if not measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_peak_bytes: Option<u64>,
}

/// The ways in which a task ends.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum ExitReason {
    /// Its main process exited.
    Exited {
        /// The exit status, 0 to 255.
        code: i32,
    },
    /// A signal ended its main process, or its init.
    Signalled {
        /// The signal's number.
        signal: i32,
    },
    /// It exceeded its memory limit, or its alloc's, and was ended as a whole.
    OutOfMemory {
        /// The limit that was reached: its own, or its alloc's.
        limit_bytes: u64,
        /// Its peak memory; if the alloc's limit was reached, the alloc's other tasks used the
        /// rest.
        peak_bytes: u64,
    },
    /// The kernel killed it although neither its limit nor its alloc's was reached: the machine had no
    /// memory left, or all tasks together had reached their limit. It was ended as a whole.
    MachineOutOfMemory {
        /// Its limit; `u64::MAX` or nearly so if it has none.
        limit_bytes: u64,
        /// Its peak memory.
        peak_bytes: u64,
    },
    /// Its program could not be executed.
    NotStarted {
        /// The reason, for the user to read.
        reason: String,
    },
    /// The machine could not set it up, so that its program was never tried: its cgroup, its jail or its
    /// logs.
    NotSetUp {
        /// The reason, for the operator to read.
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

            /// Writes the record into `dir`, replacing an existing one.
            ///
            /// # Errors
            /// When the disk is full or the directory no longer exists.
            pub fn write(&self, dir: &Path) -> Result<(), RecordError> {
                file::write(dir, $file, self, $durable)
            }
        }
    };
}

// The kernel accepts at most 2 MiB of arguments and environment, and JSON may escape every byte.
record!(Launch, LAUNCH_FILE, 16 << 20, file::Durable::No);
record!(Running, RUNNING_FILE, 64 << 10, file::Durable::No);
record!(Exit, EXIT_FILE, 64 << 10, file::Durable::Yes);

/// Reserves disk space for the records that are written once the task has started.
///
/// # Errors
/// When the disk is full.
pub(crate) fn reserve(dir: &Path) -> Result<(), FileError> {
    file::reserve(dir, RUNNING_FILE)?;
    file::reserve(dir, EXIT_FILE)
}

impl ExitReason {
    /// Converts the raw wait status of an ended process, see `waitpid(2)`.
    pub(crate) fn from_wait_status(status: i32) -> Self {
        if libc::WIFSIGNALED(status) {
            Self::Signalled { signal: libc::WTERMSIG(status) }
        } else {
            Self::Exited { code: libc::WEXITSTATUS(status) }
        }
    }
}
