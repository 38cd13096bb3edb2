//! Sessions and their answered requests in an image.

use std::sync::Arc;

use api::{At, Fault, Malformed, read};
use cell::{ExpiringQuota, Rejection, Reply, Session, Submission};
use model::{
    CollectionId, GrantId, LockSessionId, LogIndex, MachineId, ReplicaId, SessionId, Time, Version,
};

use crate::v1;
use v1::answer::{Answer, Killed, Restarted, Submitted, Updated};

impl From<(SessionId, &Session)> for v1::SessionImage {
    fn from((id, session): (SessionId, &Session)) -> Self {
        let answers = session.answers.iter();
        Self {
            id: id.0,
            user: session.user.to_string(),
            used: session.used.0,
            forgotten: session.forgotten,
            answers: answers.map(|(sequence, answer)| (*sequence, answer.into())).collect(),
        }
    }
}

impl TryFrom<v1::SessionImage> for Session {
    type Error = Malformed;

    /// Without its id, which is stored next to it.
    fn try_from(session: v1::SessionImage) -> Result<Self, Malformed> {
        let answers = session.answers.into_iter();
        let answers = answers
            .map(|(sequence, answer)| Ok((sequence, answer.try_into().key(sequence)?)))
            .collect::<Result<_, Malformed>>();
        Ok(Self {
            user: read::name(&session.user, "user")?,
            used: LogIndex(session.used),
            answers: answers.field("answers")?,
            forgotten: session.forgotten,
        })
    }
}

impl From<&Result<Reply, Rejection>> for v1::Answer {
    fn from(answer: &Result<Reply, Rejection>) -> Self {
        let answer = match answer {
            Ok(reply) => reply.into(),
            Err(rejection) => Answer::Rejected(rejection.into()),
        };
        Self { answer: Some(answer) }
    }
}

impl TryFrom<v1::Answer> for Result<Reply, Rejection> {
    type Error = Malformed;

    fn try_from(answer: v1::Answer) -> Result<Self, Malformed> {
        Ok(Ok(match answer.answer.ok_or(Fault::UnknownKind)? {
            Answer::Session(id) => Reply::Session(SessionId(id)),
            Answer::Submitted(submitted) => submitted.try_into().field("submitted")?,
            Answer::Killed(Killed { collection, tasks }) => {
                Reply::Killed { collection: CollectionId(collection), tasks }
            }
            Answer::Updated(Updated { collection, version, unchanged, changes }) => {
                let (collection, version) = (CollectionId(collection), Version(version));
                let changes = changes.into_iter().map(Into::into).collect();
                Reply::Updated { collection, version, unchanged, changes }
            }
            Answer::Restarted(Restarted { collection, started, version }) => {
                let (collection, version) = (CollectionId(collection), version.map(Version));
                Reply::Restarted { collection, started, version }
            }
            Answer::Machine(id) => Reply::MachineAdded(MachineId(id)),
            Answer::Drained(tasks) => Reply::Drained { tasks },
            Answer::Granted(id) => Reply::Granted(GrantId(id)),
            Answer::Done(v1::Nothing {}) => Reply::Done,
            Answer::UserAdded(certificate) => {
                Reply::UserAdded(certificate.try_into().field("userAdded")?)
            }
            Answer::TokenIssued(token) => {
                Reply::TokenIssued(token.try_into().field("tokenIssued")?)
            }
            Answer::Enrolled(v1::Enrolled { machine, certificate }) => Reply::Enrolled {
                machine: MachineId(machine),
                certificate: read::message(certificate, "certificate").field("enrolled")?,
            },
            Answer::MachineRenewed(certificate) => {
                Reply::MachineRenewed(certificate.try_into().field("machineRenewed")?)
            }
            Answer::MachineRevoked(known) => Reply::MachineRevoked { known },
            Answer::LockSession(id) => Reply::LockSession(LockSessionId(id)),
            Answer::FileGeneration(generation) => Reply::FileGeneration(LogIndex(generation)),
            Answer::ServiceSet(set) => {
                let before = read::optional(set.before, "before").field("serviceSet")?;
                Reply::ServiceSet { before: before.map(Arc::new) }
            }
            Answer::SecretSet(version) => Reply::SecretSet { version },
            Answer::PackageSet(existed) => Reply::PackageSet { existed },
            Answer::Replica(id) => Reply::ReplicaAdded(ReplicaId(id)),
            Answer::UserRevoked(known) => Reply::UserRevoked { known },
            Answer::Rejected(rejection) => {
                return Ok(Err(rejection.try_into().field("rejected")?));
            }
        }))
    }
}

impl From<&Reply> for Answer {
    fn from(reply: &Reply) -> Self {
        match reply {
            Reply::Session(id) => Self::Session(id.0),
            Reply::Submitted { collection, submission, version, changes, expiring_quota } => {
                Self::Submitted(Submitted {
                    collection: collection.0,
                    submission: v1::Submission::from(*submission).into(),
                    version: version.0,
                    changes: changes.iter().map(Into::into).collect(),
                    expiring_quota: expiring_quota.as_ref().map(Into::into),
                })
            }
            Reply::Killed { collection, tasks } => {
                Self::Killed(Killed { collection: collection.0, tasks: *tasks })
            }
            Reply::Updated { collection, version, unchanged, changes } => {
                let (collection, version) = (collection.0, version.0);
                let changes = changes.iter().map(Into::into).collect();
                Self::Updated(Updated { collection, version, unchanged: *unchanged, changes })
            }
            Reply::Restarted { collection, started, version } => {
                let (collection, version) = (collection.0, version.map(|version| version.0));
                Self::Restarted(Restarted { collection, started: *started, version })
            }
            Reply::MachineAdded(id) => Self::Machine(id.0),
            Reply::Granted(id) => Self::Granted(id.0),
            Reply::Drained { tasks } => Self::Drained(*tasks),
            Reply::UserAdded(certificate) => Self::UserAdded((*certificate).into()),
            Reply::TokenIssued(token) => Self::TokenIssued((*token).into()),
            Reply::Enrolled { machine, certificate } => {
                let (machine, certificate) = (machine.0, Some((*certificate).into()));
                Self::Enrolled(v1::Enrolled { machine, certificate })
            }
            Reply::MachineRenewed(certificate) => Self::MachineRenewed((*certificate).into()),
            Reply::MachineRevoked { known } => Self::MachineRevoked(*known),
            Reply::LockSession(id) => Self::LockSession(id.0),
            Reply::FileGeneration(generation) => Self::FileGeneration(generation.0),
            Reply::ServiceSet { before } => {
                let before = before.as_deref().map(v1::Service::from);
                Self::ServiceSet(v1::answer::ServiceReplaced { before })
            }
            Reply::SecretSet { version } => Self::SecretSet(*version),
            Reply::PackageSet { existed } => Self::PackageSet(*existed),
            Reply::ReplicaAdded(id) => Self::Replica(id.0),
            Reply::UserRevoked { known } => Self::UserRevoked(*known),
            Reply::Done => Self::Done(v1::Nothing {}),
        }
    }
}

impl TryFrom<Submitted> for Reply {
    type Error = Malformed;

    fn try_from(submitted: Submitted) -> Result<Self, Malformed> {
        let expiring_quota = read::optional(submitted.expiring_quota, "expiringQuota")?;
        Ok(Self::Submitted {
            collection: CollectionId(submitted.collection),
            submission: submission(submitted.submission)?,
            version: Version(submitted.version),
            changes: submitted.changes.into_iter().map(Into::into).collect(),
            expiring_quota,
        })
    }
}

impl From<&ExpiringQuota> for v1::answer::ExpiringQuota {
    fn from(quota: &ExpiringQuota) -> Self {
        let (band, at) = (quota.band.to_string(), quota.at.0);
        Self { band, at, above: Some((&quota.above).into()) }
    }
}

impl TryFrom<v1::answer::ExpiringQuota> for ExpiringQuota {
    type Error = Malformed;

    fn try_from(quota: v1::answer::ExpiringQuota) -> Result<Self, Malformed> {
        Ok(Self {
            band: read::band(&quota.band, "band")?,
            at: Time(quota.at),
            above: read::message(quota.above, "above")?,
        })
    }
}

impl From<Submission> for v1::Submission {
    fn from(submission: Submission) -> Self {
        match submission {
            Submission::New => Self::New,
            Submission::Unchanged => Self::Unchanged,
            Submission::Updated => Self::Updated,
        }
    }
}

fn submission(number: i32) -> Result<Submission, Malformed> {
    let meaning = |submission| match submission {
        v1::Submission::Unspecified => None,
        v1::Submission::New => Some(Submission::New),
        v1::Submission::Unchanged => Some(Submission::Unchanged),
        v1::Submission::Updated => Some(Submission::Updated),
    };
    read::value(number, meaning, "submission")
}
