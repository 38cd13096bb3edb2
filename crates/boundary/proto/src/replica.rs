//! Replicas and their roles in consensus: `replica.proto`.

use cell::{Member, MemberChange, Replica, ReplicaToken};
use model::{DirectoryId, Level, ReplicaId};

use crate::error::Malformed;
use crate::{read, v1};

impl From<&Replica> for v1::Replica {
    fn from(replica: &Replica) -> Self {
        Self {
            id: replica.id.0,
            address: replica.address.to_string(),
            level: replica.level.0,
            member: v1::Member::from(replica.member).into(),
            leaving: replica.leaving,
            token: replica.token.as_ref().map(Into::into),
            directory: replica.directory.0,
        }
    }
}

impl TryFrom<v1::Replica> for Replica {
    type Error = Malformed;

    fn try_from(replica: v1::Replica) -> Result<Self, Malformed> {
        Ok(Self {
            id: ReplicaId(replica.id),
            address: replica.address.into(),
            level: Level(replica.level),
            member: member(replica.member)?,
            leaving: replica.leaving,
            token: read::optional(replica.token, "token")?,
            directory: DirectoryId(replica.directory),
        })
    }
}

impl From<&ReplicaToken> for v1::ReplicaToken {
    fn from(ReplicaToken { certificate, used }: &ReplicaToken) -> Self {
        let key = used.map(|key| key.to_string()).unwrap_or_default();
        Self { certificate: Some((*certificate).into()), key }
    }
}

impl TryFrom<v1::ReplicaToken> for ReplicaToken {
    type Error = Malformed;

    fn try_from(token: v1::ReplicaToken) -> Result<Self, Malformed> {
        let used = match token.key.as_str() {
            "" => None,
            key => Some(read::key(key, "key")?),
        };
        Ok(Self { certificate: read::message(token.certificate, "certificate")?, used })
    }
}

impl From<Member> for v1::Member {
    fn from(member: Member) -> Self {
        match member {
            Member::Waiting => Self::Waiting,
            Member::Learner => Self::Learner,
            Member::Voter => Self::Voter,
        }
    }
}

fn member(number: i32) -> Result<Member, Malformed> {
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
pub(crate) fn change(replica: ReplicaId, to: MemberChange) -> v1::ChangeMember {
    v1::ChangeMember { replica: replica.0, to: v1::MemberChange::from(to).into() }
}

/// The replica whose role changes, and how.
pub(crate) fn change_of(change: &v1::ChangeMember) -> Result<(ReplicaId, MemberChange), Malformed> {
    let meaning = |to| match to {
        v1::MemberChange::Unspecified => None,
        v1::MemberChange::ToLearner => Some(MemberChange::Learner),
        v1::MemberChange::ToVoter => Some(MemberChange::Voter),
        v1::MemberChange::Out => Some(MemberChange::Out),
    };
    Ok((ReplicaId(change.replica), read::value(change.to, meaning, "to")?))
}
