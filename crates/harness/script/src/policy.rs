//! The policy of an update, as options of a line.

use spec::{OnFailure, UpdatePolicy};

use crate::ScriptError;
use crate::words::{not, seconds, small_number};

/// The options that set a field of a policy.
pub(crate) const POLICY: &[&str] = &["batch", "healthy", "within", "wait", "most", "fail", "close"];

/// Sets one field of a policy; false if `key` is none.
pub(crate) fn policy(
    policy: &mut UpdatePolicy,
    key: &str,
    word: &str,
) -> Result<bool, ScriptError> {
    match key {
        "batch" => policy.batch = Some(small_number(word)?),
        "healthy" => policy.healthy_for = seconds(word)?,
        "within" => policy.healthy_within = seconds(word)?,
        "wait" => policy.wait = seconds(word)?,
        "most" => policy.disruptions = Some(small_number(word)?),
        "close" => policy.close_after = seconds(word)?,
        "fail" => {
            let found = OnFailure::ALL.into_iter().find(|way| way.name() == word);
            policy.on_failure = found.ok_or_else(|| not(word, "undo or pause"))?;
        }
        _ => return Ok(false),
    }
    Ok(true)
}
