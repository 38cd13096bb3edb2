//! Metadata of requests and of their answers, which no message has a field for.

/// Of a request: it is to be answered with what is committed by now, and not with what the replica that
/// answers has applied already. Its value is `true`.
pub const CONSISTENT: &str = "consistent";
/// Of a refusal for too much to do: after how many milliseconds to ask again.
pub const RETRY_AFTER: &str = "retry-after-ms";
