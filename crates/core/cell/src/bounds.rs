//! The bounds of a cell. An operation that would exceed one is rejected, and the rejection names it.

/// Sessions that are open at once; beyond it the one unused for longest is closed.
pub const SESSIONS_MAX: usize = 10_000;
/// Sessions of one user that are open at once; beyond it the user's own that is unused for
/// longest is closed, and nobody else's.
pub const SESSIONS_OF_A_USER_MAX: usize = 1_000;
/// Answers kept for each session.
pub const ANSWERS_MAX: usize = 32;
/// Tasks of all jobs that are kept, the dead included.
pub const TASKS_MAX: u64 = 10_000_000;
/// Machines.
pub const MACHINES_MAX: u64 = 1_000_000;
/// Characters of a reason that a machine reports; the rest is cut off.
pub const REASON_CHARACTERS_MAX: usize = 1_000;
/// The last moment of a cell: the end of the year 9999.
pub const TIME_MAX: model::Time = model::Time(253_402_300_799_999_999);
/// The last index from which a loaded cell goes on: there is room for as many operations again.
pub const INDEX_MAX: u64 = 1 << 62;
/// Attributes of a machine that it says itself, and as many that its operators say; what a
/// machine says beyond that is left out.
pub const ATTRIBUTES_MAX: usize = 256;
/// Characters of an attribute's name or value; what a machine says beyond that is cut off.
pub const ATTRIBUTE_CHARACTERS_MAX: usize = 256;
/// Neighbouring ports of a machine that something holds which they were not given to; what a
/// machine says beyond that is left out.
pub const HELD_PORTS_MAX: usize = 256;
/// The shortest wait of a task that failed, or was lost, before it is tried again, whatever its job
/// says.
pub const RESTART_DELAY_MIN: model::Span = model::Span::from_secs(1);
/// Platforms with a factor of their own.
pub const PLATFORMS_MAX: usize = 1_000;
/// Users whom administrators have added or revoked.
pub const USERS_MAX: usize = 100_000;
/// Certificates of a user that have not expired.
pub const CERTIFICATES_OF_A_USER_MAX: usize = 16;
/// How long a certificate of a user is valid at least.
pub const CERTIFICATE_VALIDITY_MIN: model::Span = model::Span::from_secs(60);
/// How long at most: a year.
pub const CERTIFICATE_VALIDITY_MAX: model::Span = model::Span::from_secs(366 * 86_400);
/// Grants of quota that are kept, the ended included.
pub const GRANTS_MAX: usize = 100_000;
/// Those of one user.
pub const GRANTS_OF_A_USER_MAX: usize = 1_000;
/// Percent of the cell's capacity to which a band may be granted.
pub const OVERSELL_PERCENT_MAX: u32 = 10_000;
/// Users with capabilities.
pub const CAPABILITY_HOLDERS_MAX: usize = 10_000;
/// Certificates of a machine that are kept; beyond it the oldest goes.
pub const CERTIFICATES_OF_A_MACHINE_MAX: usize = 8;
/// The shortest time for which a machine's certificate is valid: machines renew theirs by
/// themselves.
pub const MACHINE_CERTIFICATE_VALIDITY_MIN: model::Span = model::Span::from_secs(1);
/// Join tokens that have not expired.
pub const TOKENS_MAX: usize = 10_000;
/// How long a join token is valid at least.
pub const TOKEN_VALIDITY_MIN: model::Span = model::Span::from_secs(60);
/// How long at most: a week.
pub const TOKEN_VALIDITY_MAX: model::Span = model::Span::from_secs(7 * 86_400);
/// Names of machines that were revoked and are not there.
pub const REVOKED_MACHINES_MAX: usize = 100_000;
/// Replicas of the Borgmaster, those that wait or leave included.
pub const REPLICAS_MAX: usize = 9;
