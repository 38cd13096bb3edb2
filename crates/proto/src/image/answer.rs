//! How requests were answered, as sessions keep it.

use cell::{Rejection, Reply};
use model::{CollectionId, MachineId, SessionId};

use crate::error::{At, Fault, Malformed};
use crate::{read, v1};
use v1::answer::{Answer, Submitted};
use v1::rejection::{self, Why};

/// What a cell can be full of. A word that this build does not know, which only a later one can
/// have written, is read as the last.
const FULL_OF: [&str; 6] =
    ["tasks", "machines", "job ids", "machine ids", "session ids", "objects"];

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
            Answer::Submitted(Submitted { collection, unchanged }) => {
                Reply::Submitted { collection: CollectionId(collection), unchanged }
            }
            Answer::Killed(tasks) => Reply::Killed { tasks },
            Answer::Machine(id) => Reply::MachineAdded(MachineId(id)),
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
            Reply::Submitted { collection, unchanged } => {
                Self::Submitted(Submitted { collection: collection.0, unchanged: *unchanged })
            }
            Reply::Killed { tasks } => Self::Killed(*tasks),
            Reply::MachineAdded(id) => Self::Machine(id.0),
        }
    }
}

impl From<&Rejection> for v1::Rejection {
    fn from(rejection: &Rejection) -> Self {
        let why = match rejection {
            Rejection::NotFounded => Why::NotFounded(v1::Nothing {}),
            Rejection::NoSuchSession(id) => Why::NoSuchSession(id.0),
            Rejection::ForeignSession { session, owner, by } => {
                let (owner, by) = (owner.to_string(), by.to_string());
                Why::ForeignSession(rejection::ForeignSession { session: session.0, owner, by })
            }
            Rejection::AnswerForgotten { sequence } => Why::AnswerForgotten(*sequence),
            Rejection::Invalid(problem) => Why::Invalid(problem.clone()),
            Rejection::DiffersFromLiving { owner, name } => {
                let (owner, name) = (owner.to_string(), name.to_string());
                Why::DiffersFromLiving(rejection::DiffersFromLiving { owner, name })
            }
            Rejection::NoSuchJob(id) => Why::NoSuchJob(id.0),
            Rejection::NoSuchTask { last } => Why::NoSuchTask(*last),
            Rejection::NotAllowed { by, what, who } => {
                let (by, what, who) = (by.to_string(), what.clone(), who.clone());
                Why::NotAllowed(rejection::NotAllowed { by, what, who })
            }
            Rejection::Full { what, has, most } => {
                let what = (*what).to_owned();
                Why::Full(rejection::Full { what, has: *has, most: *most })
            }
            Rejection::AddressTaken(machine) => Why::AddressTaken(machine.to_string()),
        };
        Self { why: Some(why) }
    }
}

impl TryFrom<v1::Rejection> for Rejection {
    type Error = Malformed;

    fn try_from(rejection: v1::Rejection) -> Result<Self, Malformed> {
        Ok(match rejection.why.ok_or(Fault::UnknownKind)? {
            Why::NotFounded(v1::Nothing {}) => Self::NotFounded,
            Why::NoSuchSession(id) => Self::NoSuchSession(SessionId(id)),
            Why::ForeignSession(foreign) => Self::ForeignSession {
                session: SessionId(foreign.session),
                owner: read::name(&foreign.owner, "owner").field("foreignSession")?,
                by: read::name(&foreign.by, "by").field("foreignSession")?,
            },
            Why::AnswerForgotten(sequence) => Self::AnswerForgotten { sequence },
            Why::Invalid(problem) => Self::Invalid(problem),
            Why::DiffersFromLiving(differs) => Self::DiffersFromLiving {
                owner: read::name(&differs.owner, "owner").field("differsFromLiving")?,
                name: read::name(&differs.name, "name").field("differsFromLiving")?,
            },
            Why::NoSuchJob(id) => Self::NoSuchJob(CollectionId(id)),
            Why::NoSuchTask(last) => Self::NoSuchTask { last },
            Why::NotAllowed(not_allowed) => Self::NotAllowed {
                by: read::name(&not_allowed.by, "by").field("notAllowed")?,
                what: not_allowed.what,
                who: not_allowed.who,
            },
            Why::Full(full) => {
                let [known @ .., other] = FULL_OF;
                let what = known.into_iter().find(|word| *word == full.what).unwrap_or(other);
                Self::Full { what, has: full.has, most: full.most }
            }
            Why::AddressTaken(machine) => Self::AddressTaken(read::name(&machine, "addressTaken")?),
        })
    }
}
