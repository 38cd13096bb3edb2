//! Metadata of requests and responses that is not part of a message.

/// On a request: asks for a linearizable read; otherwise the answer may be stale. Its value is
/// `true`.
pub const CONSISTENT: &str = "consistent";
/// On a request to a master: asks for the addresses of all masters of the cell. On the response: the
/// addresses, separated by commas.
pub const MASTERS: &str = "masters";
/// On a rejection of the peer: its [`Cause`](crate::transport::Cause), as in metrics.
pub const CAUSE: &str = "cause";
/// On a rejection by the cell that a program can do something about: which one, as [`BEING_KILLED`].
pub const REJECTION: &str = "rejection";
/// The job is being killed: the same request is accepted when it has ended.
pub const BEING_KILLED: &str = "being-killed";
/// On a rejection due to overload: after how many milliseconds to retry.
pub const RETRY_AFTER: &str = "retry-after-ms";
