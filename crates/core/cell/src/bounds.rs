//! The bounds of a cell. An operation that would exceed one is rejected, and the rejection names
//! it. A bound that users share is a [`SharedBound`].

pub use model::{CERTIFICATE_VALIDITY_MAX, FILE_BYTES_MAX};
use model::{SharedBound, Span};
use spec::limits::{BYTES_MAX, CPU_MILLI_MAX};

/// Maximum number of open sessions; beyond it the least recently used one of the user who has most is
/// closed.
pub const SESSIONS_MAX: usize = 10_000;
/// Maximum number of open sessions per user; beyond it the least recently used session of that user
/// is closed.
pub const SESSIONS_OF_A_USER_MAX: usize = 1_000;
/// Maximum number of answers kept per session.
pub const ANSWERS_MAX: usize = 32;
/// Maximum number of bytes of changed fields in an answer that a session keeps; a repeated request is
/// answered without those beyond.
pub const ANSWER_CHANGES_BYTES_MAX: usize = 1_024;
/// Maximum number of tasks of all jobs, dead ones included. Users share it; what would take more is
/// rejected.
pub const TASKS_MAX: SharedBound = SharedBound::new(10_000_000);
/// Maximum number of tasks that wait for other jobs or for a machine. Users share it; what would make
/// more of them wait is rejected. Tasks that wait again because they failed or were evicted count, too,
/// and always may.
/// A cell of 100,000 machines that is loaded at once has 1,500,000 of them.
pub const WAITING_TASKS_MAX: SharedBound = SharedBound::new(4_000_000);
/// Maximum number of machines.
pub const MACHINES_MAX: u64 = 1_000_000;
/// Maximum length, in characters, of a reason that a machine reports; the rest is cut off.
pub const REASON_CHARACTERS_MAX: usize = 1_000;
/// Maximum length, in characters, of the text of a health check that a machine reports.
pub const CHECK_CHARACTERS_MAX: usize = 200;
/// The latest time of a cell: the end of the year 9999.
pub const TIME_MAX: model::Time = model::Time(253_402_300_799_999_999);
/// The largest index of an image that can be loaded: as many operations again still fit after it.
pub const INDEX_MAX: u64 = 1 << 62;
/// Maximum number of attributes that a machine reports, and of those that its operators set; what a
/// machine reports beyond it is dropped.
pub const ATTRIBUTES_MAX: usize = 256;
/// Maximum number of attributes in one request: enough to replace all of a machine's.
pub const ATTRIBUTE_CHANGES_MAX: usize = 2 * ATTRIBUTES_MAX;
/// Maximum length, in characters, of an attribute's name or value; a longer reported one is cut
/// off.
pub const ATTRIBUTE_CHARACTERS_MAX: usize = 256;
/// Maximum capacity of a machine: 8,192 cores, 256 TiB of memory, 64 PiB of disk and 1 TiB a second.
/// Of what a machine reports beyond it only so much counts, and its attribute
/// [`REJECTED_REPORT`](model::attribute::REJECTED_REPORT) says so.
pub const MACHINE_CAPACITY_MAX: model::Resources = model::Resources {
    cpu: model::MilliCores(8_192_000),
    ram: model::Bytes(256 << 40),
    disk: model::Bytes(64 << 50),
    disk_rate: model::Bytes(1 << 40),
};
/// The longest notice of tasks that can be set: a day, as long as a description may ask for.
pub const NOTICE_MAX: Span = Span::from_secs(86_400);
/// The longest notice of tasks in a new cell.
pub const NOTICE_MAX_DEFAULT: Span = Span::from_secs(300);
/// Maximum number of ranges of a machine's ports that are in use by something they were not
/// assigned to; what a machine reports beyond it is dropped.
pub const HELD_PORTS_MAX: usize = 256;
/// Maximum number of ended instances whose data a machine reports to keep; what it reports beyond it
/// is dropped.
pub const SAVING_MAX: usize = 256;
/// Minimum delay before a task that failed or was lost is retried, whatever its job says.
pub const RESTART_DELAY_MIN: Span = Span::from_secs(1);
/// How long a task is pending before a replacement of its job makes room for it.
pub const REPLACED_PENDING_MAX: Span = Span::from_secs(10);
/// Maximum size of the descriptions of a job, in bytes: the current one, those that its tasks still have,
/// and the earlier versions that are kept. Beyond it the oldest versions that no task has are dropped, and
/// an update that would need more is rejected until the tasks have fewer versions.
pub const DESCRIPTIONS_OF_A_JOB_BYTES_MAX: u64 = 16 << 20;
/// Maximum size of the descriptions of all jobs, earlier versions and dead jobs included, in bytes. Users
/// share it; a submission or an update that would take more is rejected.
pub const DESCRIPTIONS_BYTES_MAX: SharedBound = SharedBound::new(1 << 30);
/// Maximum number of earlier versions of a job's description that are kept.
pub const VERSIONS_KEPT_MAX: usize = 10;
/// Maximum number of volumes of one machine.
pub const VOLUMES_OF_A_MACHINE_MAX: usize = 64;
/// Maximum number of labels of a volume.
pub const VOLUME_LABELS_MAX: usize = 16;
/// Maximum number of claims of a volume that tasks share.
pub const VOLUME_CLAIMS_MAX: usize = 1_024;
/// Maximum number of claims that one user's tasks have of a volume that all users share.
pub const VOLUME_CLAIMS_OF_A_USER_MAX: usize = 64;
/// Maximum number of tasks that one operation lets go elsewhere.
pub const SENT_ELSEWHERE_MAX: usize = 64;

/// Maximum number of tasks of a job that one operation tells of a changed secret or address.
pub const TOLD_MAX: usize = 256;

/// How long a task runs at least before it is restarted because a secret or an address has changed.
pub const RESTART_SPACING: Span = Span::from_secs(30);
/// Maximum number of names of jobs, of all users, of whose tasks runtimes are remembered. Users share it; beyond it the
/// oldest name of the user who has most is forgotten.
pub const RUNTIMES_MAX: SharedBound = SharedBound::new(100_000);
/// Maximum number of such names per user; beyond it the oldest is forgotten.
pub const RUNTIMES_OF_A_USER_MAX: u64 = 1_000;
/// Maximum number of runtimes that are remembered of each name; beyond it the oldest is forgotten.
pub const RUNTIMES_KEPT_MAX: usize = 16;
/// Maximum number of platforms with a factor of their own.
pub const PLATFORMS_MAX: usize = 1_000;
/// Maximum number of users that administrators have added or revoked.
pub const USERS_MAX: usize = 100_000;
/// Maximum number of unexpired certificates per user.
pub const CERTIFICATES_OF_A_USER_MAX: usize = 16;
/// Minimum validity of a user's certificate.
pub const CERTIFICATE_VALIDITY_MIN: Span = Span::from_secs(60);
/// Maximum amount of a single grant.
pub const GRANT_AMOUNT_MAX: model::Resources = model::Resources {
    cpu: model::MilliCores(CPU_MILLI_MAX),
    ram: model::Bytes(BYTES_MAX),
    disk: model::Bytes(BYTES_MAX),
    disk_rate: model::Bytes(BYTES_MAX),
};
/// Maximum number of quota grants, ended ones included.
pub const GRANTS_MAX: usize = 100_000;
/// Maximum number of quota grants per user.
pub const GRANTS_OF_A_USER_MAX: usize = 1_000;
/// Maximum percentage of the cell's capacity that may be granted in a band.
pub const OVERSELL_PERCENT_MAX: u32 = 10_000;
/// Maximum number of users with capabilities.
pub const CAPABILITY_HOLDERS_MAX: usize = 10_000;
/// Maximum number of certificates kept per machine; beyond it the oldest is dropped.
pub const CERTIFICATES_OF_A_MACHINE_MAX: usize = 8;
/// Minimum validity of a machine's certificate: machines renew theirs automatically.
pub const MACHINE_CERTIFICATE_VALIDITY_MIN: Span = Span::from_secs(1);
/// Maximum number of unexpired join tokens.
pub const TOKENS_MAX: usize = 10_000;
/// Maximum number of machines that one join token admits.
pub const TOKEN_USES_MAX: u32 = 1_000;
/// Minimum validity of a join token.
pub const TOKEN_VALIDITY_MIN: Span = Span::from_secs(60);
/// Maximum validity of a join token: a week.
pub const TOKEN_VALIDITY_MAX: Span = Span::from_secs(7 * 86_400);
/// Maximum number of revoked machine names whose machines do not exist.
pub const REVOKED_MACHINES_MAX: usize = 100_000;
/// Minimum lease of a lock session.
pub const LOCK_LEASE_MIN: Span = Span::from_secs(5);
/// Maximum lease of a lock session.
pub const LOCK_LEASE_MAX: Span = Span::from_secs(60);
/// Maximum number of lock sessions. Users share it; one more is rejected.
pub const LOCK_SESSIONS_MAX: SharedBound = SharedBound::new(10_000);
/// Maximum number of locks and ephemeral files of one lock session.
pub const LOCKS_OF_A_SESSION_MAX: usize = 256;
/// Maximum number of sessions that share a lock.
pub const LOCK_HOLDERS_MAX: usize = 256;
/// Maximum number of files with a content. Users share it; one more is rejected.
pub const FILES_MAX: SharedBound = SharedBound::new(100_000);
/// Maximum size of all files with a content, paths included, in bytes. Users share it; a write that would
/// take more is rejected.
pub const FILES_BYTES_MAX: SharedBound = SharedBound::new(64 << 20);
/// Maximum number of locks that are held of files without a content. Users share it; one more is
/// rejected. A lock of a file whose content is deleted counts, too, and is kept in any case.
pub const BARE_LOCKS_MAX: SharedBound = SharedBound::new(100_000);
/// Maximum number of lock sessions that one operation expires.
pub const LOCK_SESSIONS_EXPIRED_MAX: usize = 16;
/// Maximum number of Borgmaster replicas, including those that wait or are leaving.
pub const REPLICAS_MAX: usize = 9;
/// Maximum number of live jobs with one task on every machine, each of which is work whenever a machine joins. Users share
/// it; one more is rejected.
pub const EVERY_MACHINE_JOBS_MAX: SharedBound = SharedBound::new(200);
/// Maximum number of services. Users share it; one more is rejected.
pub const SERVICES_MAX: SharedBound = SharedBound::new(10_000);
/// Maximum number of services per user.
pub const SERVICES_OF_A_USER_MAX: usize = 1_000;
/// Maximum number of versions of packages. Users share it; one more is rejected.
pub const PACKAGES_MAX: SharedBound = SharedBound::new(100_000);
/// Maximum number of versions of packages per user.
pub const PACKAGES_OF_A_USER_MAX: u64 = 10_000;
/// Maximum size of all packages in stores, in bytes: 4 TiB. Users share it; a package that would take more is
/// rejected.
pub const PACKAGE_BYTES_MAX: SharedBound = SharedBound::new(4 << 40);
/// Maximum number of users beside its owner who may use a package, unless everyone may.
pub const READERS_OF_A_PACKAGE_MAX: usize = 100;
/// Maximum size of a version of a secret, in bytes as it is sealed: 64 KiB, and 16 bytes of the seal.
pub const SEALED_BYTES_MAX: u64 = (64 << 10) + 16;
/// Maximum number of versions of a secret that are kept; beyond it the oldest is dropped.
pub const SECRET_VERSIONS_MAX: usize = 10;
/// Maximum number of secrets per user.
pub const SECRETS_OF_A_USER_MAX: u64 = 1_000;
/// Maximum number of secrets. Users share it; one more is rejected.
pub const SECRETS_MAX: SharedBound = SharedBound::new(10_000);
/// Maximum size of all versions of all secrets, in bytes as they are sealed. Users share it; a version that would take
/// more is rejected.
pub const SECRET_BYTES_IN_ALL_MAX: SharedBound = SharedBound::new(64 << 20);
/// Maximum number of users beside its owner whose jobs may be behind a service.
pub const USERS_OF_A_SERVICE_MAX: usize = 100;
/// Maximum length, in characters, of the labels of a service.
pub const SERVICE_LABELS_CHARACTERS_MAX: usize = 1_024;
