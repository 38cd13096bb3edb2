//! Roles of replicas in consensus: `replica.proto`.

use model::{Member, MemberChange, ReplicaId};

use crate::error::Malformed;
use crate::{read, v1};

impl From<Member> for v1::Member {
    fn from(member: Member) -> Self {
        match member {
            Member::Waiting => Self::Waiting,
            Member::Learner => Self::Learner,
            Member::Voter => Self::Voter,
        }
    }
}

/// A role, by its number.
///
/// # Errors
/// If this build does not know it.
pub fn member(number: i32) -> Result<Member, Malformed> {
    let meaning = |member| match member {
        v1::Member::Unspecified => None,
        v1::Member::Waiting => Some(Member::Waiting),
        v1::Member::Learner => Some(Member::Learner),
        v1::Member::Voter => Some(Member::Voter),
    };
    read::value(number, meaning, "member")
}

impl From<MemberChange> for v1::MemberChange {
    fn from(to: MemberChange) -> Self {
        match to {
            MemberChange::Learner => Self::ToLearner,
            MemberChange::Voter => Self::ToVoter,
            MemberChange::Out => Self::Out,
        }
    }
}

/// The message of a change of a replica's role.
pub fn change(replica: ReplicaId, to: MemberChange) -> v1::ChangeMember {
    v1::ChangeMember { replica: replica.0, to: v1::MemberChange::from(to).into() }
}

/// The replica whose role changes, and how.
pub fn change_of(change: &v1::ChangeMember) -> Result<(ReplicaId, MemberChange), Malformed> {
    let meaning = |to| match to {
        v1::MemberChange::Unspecified => None,
        v1::MemberChange::ToLearner => Some(MemberChange::Learner),
        v1::MemberChange::ToVoter => Some(MemberChange::Voter),
        v1::MemberChange::Out => Some(MemberChange::Out),
    };
    Ok((ReplicaId(change.replica), read::value(change.to, meaning, "to")?))
}
