//! What a machine keeps of instances that have ended, until their savers have succeeded.

use std::fmt;

use crate::{Bytes, InstanceId, Time};

/// The data of an instance that has ended, as its machine reports it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Saving {
    /// The instance.
    pub instance: InstanceId,
    /// The size of its data; 0 until it is measured.
    pub bytes: Bytes,
    /// How often its saver was started.
    pub attempts: u32,
    /// Until when it is kept.
    pub until: Time,
    /// What became of it; none while its saver is still tried.
    pub outcome: Option<SaverOutcome>,
}

/// What became of the data of an instance that has ended. It is deleted in either case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SaverOutcome {
    /// Its saver exited with 0.
    Saved,
    /// Its saver did not succeed.
    GivenUp {
        /// Why it is not tried any more.
        reason: String,
    },
}

/// `saved`, `given up: …`.
impl fmt::Display for SaverOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Saved => f.write_str("saved"),
            Self::GivenUp { reason } => write!(f, "given up: {}", reason.escape_debug()),
        }
    }
}
