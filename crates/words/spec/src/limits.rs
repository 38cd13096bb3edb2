//! Limits of a description. They keep a single job from filling the log, a machine's argument list
//! or a terminal, and are far above practical use.

/// Tasks per job.
pub const TASKS_MAX: u32 = 100_000;
/// Tasks per gang: they are placed by one operation.
pub const GANG_TASKS_MAX: u32 = 5_000;
/// Arguments per command.
pub const CMD_ARGUMENTS_MAX: usize = 4_096;
/// Bytes of a command with all its arguments.
pub const CMD_BYTES_MAX: usize = 128 << 10;
/// Bytes of one argument, or of one variable with its name, as the kernel counts them: Linux takes 128 KiB.
pub const TEXT_BYTES_MAX: usize = 128 << 10;
/// Variables per environment.
pub const ENV_VARIABLES_MAX: usize = 1_024;
/// Bytes of an environment.
pub const ENV_BYTES_MAX: usize = 128 << 10;
/// Named ports per task.
pub const PORTS_MAX: usize = 64;
/// Packages per task, without its image.
pub const PACKAGES_MAX: usize = 64;
/// Files per task, secrets in files included.
pub const TASK_FILES_MAX: usize = 64;
/// Bytes of one file of a task, with its references filled in.
pub const TASK_FILE_BYTES_MAX: usize = 64 << 10;
/// Bytes of all files of a task, with their references filled in.
pub const TASK_FILES_BYTES_MAX: usize = 256 << 10;
/// Bytes of the path of a file of a task.
pub const TASK_FILE_PATH_BYTES_MAX: usize = 512;
/// Secrets per task, in files and in variables.
pub const TASK_SECRETS_MAX: usize = 64;
/// Outputs per task.
pub const OUTPUTS_MAX: usize = 64;
/// Bytes of the path of an output.
pub const OUTPUT_PATH_BYTES_MAX: usize = 512;
/// How long outputs can be kept after the end of a task, in seconds: 30 days.
pub const OUTPUT_KEEP_SECONDS_MAX: u64 = 30 * 86_400;
/// How long a task may be bounded or expected to run, in seconds: 366 days.
pub const RUNTIME_SECONDS_MAX: u64 = 366 * 86_400;
/// Names of other jobs' tasks that a job refers to, each counted once.
pub const NAME_REFERENCES_MAX: usize = 32;
/// Bytes of a list of addresses that a reference stands for; what is longer is cut after an address.
pub const ADDRESSES_BYTES_MAX: usize = 8 << 10;
/// Labels per job.
pub const LABELS_MAX: usize = 64;
/// Characters of a label's key or value.
pub const LABEL_CHARACTERS_MAX: usize = 256;
/// Processes and threads per task.
pub const PROCESSES_MAX: u32 = 1 << 20;
/// Maximum of any duration in a description, in seconds: a day.
pub const SPAN_SECONDS_MAX: u64 = 86_400;
/// How long logs can be kept after the end of a task, in seconds: a year.
pub const LOG_KEEP_SECONDS_MAX: u64 = 365 * 86_400;
/// The bytes of output that can be kept of one task.
pub const LOG_BYTES_MIN: u64 = 64 << 10;
/// See [`LOG_BYTES_MIN`].
pub const LOG_BYTES_MAX: u64 = 64 << 30;
/// Minimum memory of a task in bytes, for its init and stack.
pub const RAM_BYTES_MIN: u64 = 4 << 20;
/// Maximum CPU of all tasks of a job together, in milli-cores.
pub const CPU_MILLI_MAX: u64 = 1 << 40;
/// Maximum of all tasks of a job together in each of the other dimensions, in bytes.
pub const BYTES_MAX: u64 = 1 << 60;
/// Bytes of the path of a health check or of metrics.
pub const HEALTH_PATH_BYTES_MAX: usize = 2_048;
/// The maximum timeout of a command that checks health, in seconds. A machine runs a bounded number
/// of them at once, so a slow one delays others.
pub const EXEC_TIMEOUT_SECONDS_MAX: u64 = 60;
/// Failures that a restart policy may allow, and consecutive failures of a health check.
pub const FAILURES_MAX: u32 = 1_000_000;
/// Disruptions per hour that a budget may allow.
pub const DISRUPTIONS_PER_HOUR_MAX: u32 = 10_000;
/// Constraints per task.
pub const CONSTRAINTS_MAX: usize = 64;
/// Entries of a job's `after` list.
pub const AFTER_MAX: usize = 64;
/// Users who may submit jobs into an alloc set, besides its owner.
pub const ALLOC_SET_USERS_MAX: usize = 1_024;
/// Volumes per task.
pub const VOLUMES_MAX: usize = 16;
/// The longest time that a task can wait for the machine of its volume before it goes elsewhere, in
/// seconds: a year.
pub const VOLUME_WAIT_SECONDS_MAX: u64 = 365 * 86_400;
