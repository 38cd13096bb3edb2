//! Roles of replicas in consensus.

use std::fmt;

/// A replica's role in consensus.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Member {
    /// Recorded, and not yet in consensus.
    Waiting,
    /// It receives the log, and has no vote.
    Learner,
    /// It votes, and may become the leader.
    Voter,
}

/// A change of a replica's role in consensus.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum MemberChange {
    /// A waiting replica starts to receive the log.
    Learner,
    /// A learner that has caught up gets a vote.
    Voter,
    /// A leaving replica is removed from consensus, and its record is deleted.
    Out,
}

/// The new role, in words.
impl fmt::Display for MemberChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Learner => "learner",
            Self::Voter => "voter",
            Self::Out => "out",
        })
    }
}
