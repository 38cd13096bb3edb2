//! Reasons of rejected requests, as sessions keep them.

use cell::Rejection;
use model::{
    Beyond, CollectionId, Dimension, GrantId, LockMode, LockSessionId, LogIndex, ReplicaId,
    SessionId, TaskId, TaskIndex, Version,
};

use crate::error::{At, Fault, Malformed};
use crate::{dimension, locks, read, services, v1};
use v1::rejection::{self, Why};

impl From<&Rejection> for v1::Rejection {
    fn from(rejection: &Rejection) -> Self {
        let why = match rejection {
            Rejection::NotBootstrapped => Why::NotBootstrapped(v1::Nothing {}),
            Rejection::NoSuchSession(id) => Why::NoSuchSession(id.0),
            Rejection::ForeignSession { session, owner, by } => {
                let (owner, by) = (owner.to_string(), by.to_string());
                Why::ForeignSession(rejection::ForeignSession { session: session.0, owner, by })
            }
            Rejection::AnswerForgotten { sequence } => Why::AnswerForgotten(*sequence),
            Rejection::Invalid(problem) => Why::Invalid(problem.clone()),
            Rejection::Fixed { owner, name, fields } => {
                let (owner, name) = (owner.to_string(), name.to_string());
                Why::Fixed(rejection::Fixed { owner, name, fields: fields.clone() })
            }
            Rejection::JobEnded { owner, name } => {
                let (user, name) = (owner.to_string(), name.to_string());
                Why::JobEnded(rejection::NoSuchJob { user, name })
            }
            Rejection::ChangedMeanwhile { owner, name, seen, now, what } => {
                Why::ChangedMeanwhile(rejection::ChangedMeanwhile {
                    owner: owner.to_string(),
                    name: name.to_string(),
                    seen: seen.0,
                    now: now.0,
                    what: what.clone(),
                })
            }
            Rejection::BeingKilled { owner, name } => {
                let (user, name) = (owner.to_string(), name.to_string());
                Why::BeingKilled(rejection::NoSuchJob { user, name })
            }
            Rejection::WrongState(why) => Why::WrongState(why.clone()),
            Rejection::NoSuchReference { field, user, name, dead } => {
                let (user, name) = (user.to_string(), name.to_string());
                let (field, dead) = (field.clone(), *dead);
                Why::NoSuchReference(rejection::NoSuchReference { field, user, name, dead })
            }
            Rejection::PredecessorEnded { user, name } => {
                let (user, name) = (user.to_string(), name.to_string());
                Why::PredecessorEnded(rejection::PredecessorEnded { user, name })
            }
            Rejection::NoSuchMachine(machine) => Why::NoSuchMachine(machine.to_string()),
            Rejection::MachineInUse { machine, tasks } => {
                let (machine, tasks) = (machine.to_string(), *tasks);
                Why::MachineInUse(rejection::MachineInUse { machine, tasks })
            }
            Rejection::BadText { what, most } => {
                Why::BadText(rejection::BadText { what: what.clone(), most: *most })
            }
            Rejection::NoSuchJob { user, name } => {
                let (user, name) = (user.to_string(), name.to_string());
                Why::NoSuchJob(rejection::NoSuchJob { user, name })
            }
            Rejection::NoSuchCollection(id) => Why::NoSuchCollection(id.0),
            Rejection::NoSuchTask { last } => Why::NoSuchTask(*last),
            Rejection::NotAllowed { by, what, who } => {
                let (by, what, who) = (by.to_string(), what.clone(), who.clone());
                Why::NotAllowed(rejection::NotAllowed { by, what, who })
            }
            Rejection::Full { what, has, most } => {
                Why::Full(rejection::Full { what: what.clone(), has: *has, most: *most })
            }
            Rejection::Shared { what, why, next } => Why::Shared(rejection::Shared {
                what: what.clone(),
                why: Some((*why).into()),
                next: next.clone(),
            }),
            Rejection::AddressTaken(machine) => Why::AddressTaken(machine.to_string()),
            Rejection::RevokesOneself(user) => Why::RevokesOneself(user.to_string()),
            Rejection::LastAdministrator(user) => Why::LastAdministrator(user.to_string()),
            Rejection::Validity(asked) => Why::Validity(crate::duration(*asked)),
            Rejection::NotStopped => Why::NotStopped(v1::Nothing {}),
            Rejection::NotAnAllocSet { user, name } => {
                let (user, name) = (user.to_string(), name.to_string());
                Why::NotAnAllocSet(rejection::NotAnAllocSet { user, name })
            }
            Rejection::AllocTooSmall { alloc, dimension, asked, used } => {
                let shortage = shortage(*dimension, *asked, *used);
                Why::AllocTooSmall(rejection::AllocTooSmall {
                    collection: alloc.collection.0,
                    index: alloc.index.0,
                    shortage: Some(shortage),
                })
            }
            Rejection::Quota(shortfall) => Why::Quota(shortfall.as_ref().into()),
            Rejection::Oversold(oversold) => Why::Oversold(oversold.as_ref().into()),
            Rejection::NoSuchFile(path) => Why::NoSuchFile(path.to_string()),
            Rejection::NoSuchLockSession(id) => Why::NoSuchLockSession(id.0),
            Rejection::LockTaken { path, by, session, mode } => {
                Why::LockTaken(rejection::LockTaken {
                    path: path.to_string(),
                    by: by.to_string(),
                    session: session.0,
                    shared: *mode == LockMode::Shared,
                })
            }
            Rejection::FileChanged { path, expected, now } => {
                let (path, expected, now) = (path.to_string(), expected.0, now.0);
                Why::FileChanged(rejection::FileChanged { path, expected, now })
            }
            Rejection::StaleSequencer(sequencer) => Why::StaleSequencer(sequencer.to_string()),
            Rejection::NoSuchService { user, name } => {
                Why::NoSuchService(services::name(user, name))
            }
            Rejection::NameOfJob { user, name } => Why::NameOfJob(services::name(user, name)),
            Rejection::NameOfService { user, name } => {
                Why::NameOfService(services::name(user, name))
            }
            Rejection::NoSuchGrant(id) => Why::NoSuchGrant(id.0),
            Rejection::Impossible(why) => Why::Impossible(why.clone()),
            Rejection::NoSuchToken(serial) => Why::NoSuchToken(serial.to_string()),
            Rejection::TokenExpired(machine) => Why::TokenExpired(machine.to_string()),
            Rejection::TokenUsed(machine) => Why::TokenUsed(machine.to_string()),
            Rejection::ReplicaTokenUsed(id) => Why::ReplicaTokenUsed(id.0),
            Rejection::TokenValidity(asked) => Why::TokenValidity(crate::duration(*asked)),
            Rejection::MachineRevoked(machine) => Why::MachineRevoked(machine.to_string()),
            Rejection::NoSuchReplica(id) => Why::NoSuchReplica(id.0),
            Rejection::ReplicaAddressTaken(id) => Why::ReplicaAddressTaken(id.0),
            Rejection::LastVoter(id) => Why::LastVoter(id.0),
        };
        Self { why: Some(why) }
    }
}

impl TryFrom<v1::Rejection> for Rejection {
    type Error = Malformed;

    fn try_from(rejection: v1::Rejection) -> Result<Self, Malformed> {
        Ok(match rejection.why.ok_or(Fault::UnknownKind)? {
            Why::NotBootstrapped(v1::Nothing {}) => Self::NotBootstrapped,
            Why::NoSuchSession(id) => Self::NoSuchSession(SessionId(id)),
            Why::ForeignSession(foreign) => Self::ForeignSession {
                session: SessionId(foreign.session),
                owner: read::name(&foreign.owner, "owner").field("foreignSession")?,
                by: read::name(&foreign.by, "by").field("foreignSession")?,
            },
            Why::AnswerForgotten(sequence) => Self::AnswerForgotten { sequence },
            Why::Invalid(problem) => Self::Invalid(problem),
            Why::Fixed(fixed) => Self::Fixed {
                owner: read::name(&fixed.owner, "owner").field("fixed")?,
                name: read::name(&fixed.name, "name").field("fixed")?,
                fields: fixed.fields,
            },
            Why::JobEnded(job) => Self::JobEnded {
                owner: read::name(&job.user, "user").field("jobEnded")?,
                name: read::name(&job.name, "name").field("jobEnded")?,
            },
            Why::ChangedMeanwhile(changed) => Self::ChangedMeanwhile {
                owner: read::name(&changed.owner, "owner").field("changedMeanwhile")?,
                name: read::name(&changed.name, "name").field("changedMeanwhile")?,
                seen: Version(changed.seen),
                now: Version(changed.now),
                what: changed.what,
            },
            Why::BeingKilled(job) => Self::BeingKilled {
                owner: read::name(&job.user, "user").field("beingKilled")?,
                name: read::name(&job.name, "name").field("beingKilled")?,
            },
            Why::WrongState(why) => Self::WrongState(why),
            Why::NoSuchReference(reference) => Self::NoSuchReference {
                field: reference.field,
                user: read::name(&reference.user, "user").field("noSuchReference")?,
                name: read::name(&reference.name, "name").field("noSuchReference")?,
                dead: reference.dead,
            },
            Why::PredecessorEnded(job) => Self::PredecessorEnded {
                user: read::name(&job.user, "user").field("predecessorEnded")?,
                name: read::name(&job.name, "name").field("predecessorEnded")?,
            },
            Why::NoSuchMachine(machine) => {
                Self::NoSuchMachine(read::name(&machine, "noSuchMachine")?)
            }
            Why::MachineInUse(used) => Self::MachineInUse {
                machine: read::name(&used.machine, "machine").field("machineInUse")?,
                tasks: used.tasks,
            },
            Why::BadText(text) => Self::BadText { what: text.what, most: text.most },
            Why::NoSuchJob(job) => Self::NoSuchJob {
                user: read::name(&job.user, "user").field("noSuchJob")?,
                name: read::name(&job.name, "name").field("noSuchJob")?,
            },
            Why::NoSuchCollection(id) => Self::NoSuchCollection(CollectionId(id)),
            Why::NoSuchTask(last) => Self::NoSuchTask { last },
            Why::NotAllowed(not_allowed) => Self::NotAllowed {
                by: read::name(&not_allowed.by, "by").field("notAllowed")?,
                what: not_allowed.what,
                who: not_allowed.who,
            },
            Why::Full(full) => Self::Full { what: full.what, has: full.has, most: full.most },
            Why::Shared(shared) => Self::Shared {
                what: shared.what,
                why: shared.why.ok_or(Fault::UnknownKind).field("why").field("shared")?.into(),
                next: shared.next,
            },
            Why::AddressTaken(machine) => Self::AddressTaken(read::name(&machine, "addressTaken")?),
            Why::RevokesOneself(user) => Self::RevokesOneself(read::name(&user, "revokesOneself")?),
            Why::LastAdministrator(user) => {
                Self::LastAdministrator(read::name(&user, "lastAdministrator")?)
            }
            Why::Validity(asked) => Self::Validity(read::span(Some(asked), "validity")?),
            Why::NotStopped(v1::Nothing {}) => Self::NotStopped,
            Why::NotAnAllocSet(set) => Self::NotAnAllocSet {
                user: read::name(&set.user, "user").field("notAnAllocSet")?,
                name: read::name(&set.name, "name").field("notAnAllocSet")?,
            },
            Why::AllocTooSmall(small) => alloc_too_small(&small).field("allocTooSmall")?,
            Why::Quota(shortfall) => Self::Quota(Box::new(shortfall.try_into().field("quota")?)),
            Why::Oversold(oversold) => {
                Self::Oversold(Box::new(oversold.try_into().field("oversold")?))
            }
            Why::NoSuchFile(path) => Self::NoSuchFile(locks::path(&path, "noSuchFile")?),
            Why::NoSuchLockSession(id) => Self::NoSuchLockSession(LockSessionId(id)),
            Why::LockTaken(taken) => Self::LockTaken {
                path: locks::path(&taken.path, "path").field("lockTaken")?,
                by: read::name(&taken.by, "by").field("lockTaken")?,
                session: LockSessionId(taken.session),
                mode: LockMode::shared(taken.shared),
            },
            Why::FileChanged(changed) => Self::FileChanged {
                path: locks::path(&changed.path, "path").field("fileChanged")?,
                expected: LogIndex(changed.expected),
                now: LogIndex(changed.now),
            },
            Why::StaleSequencer(text) => {
                Self::StaleSequencer(locks::sequencer(&text, "staleSequencer")?)
            }
            Why::NoSuchService(name) => {
                let (user, name) = services::named(&name).field("noSuchService")?;
                Self::NoSuchService { user, name }
            }
            Why::NameOfJob(name) => {
                let (user, name) = services::named(&name).field("nameOfJob")?;
                Self::NameOfJob { user, name }
            }
            Why::NameOfService(name) => {
                let (user, name) = services::named(&name).field("nameOfService")?;
                Self::NameOfService { user, name }
            }
            Why::NoSuchGrant(id) => Self::NoSuchGrant(GrantId(id)),
            Why::Impossible(why) => Self::Impossible(why),
            Why::NoSuchToken(serial) => Self::NoSuchToken(read::serial(&serial, "noSuchToken")?),
            Why::TokenExpired(machine) => Self::TokenExpired(read::name(&machine, "tokenExpired")?),
            Why::TokenUsed(machine) => Self::TokenUsed(read::name(&machine, "tokenUsed")?),
            Why::ReplicaTokenUsed(id) => Self::ReplicaTokenUsed(ReplicaId(id)),
            Why::TokenValidity(asked) => {
                Self::TokenValidity(read::span(Some(asked), "tokenValidity")?)
            }
            Why::MachineRevoked(machine) => {
                Self::MachineRevoked(read::name(&machine, "machineRevoked")?)
            }
            Why::NoSuchReplica(id) => Self::NoSuchReplica(ReplicaId(id)),
            Why::ReplicaAddressTaken(id) => Self::ReplicaAddressTaken(ReplicaId(id)),
            Why::LastVoter(id) => Self::LastVoter(ReplicaId(id)),
        })
    }
}

fn alloc_too_small(small: &rejection::AllocTooSmall) -> Result<Rejection, Malformed> {
    let (collection, index) = (CollectionId(small.collection), TaskIndex(small.index));
    let shortage = read::required(small.shortage, "shortage")?;
    Ok(Rejection::AllocTooSmall {
        alloc: TaskId { collection, index },
        dimension: dimension::read(shortage.dimension).field("shortage")?,
        asked: shortage.asked,
        used: shortage.has,
    })
}

fn shortage(dimension: Dimension, asked: u64, has: u64) -> rejection::Shortage {
    rejection::Shortage { dimension: dimension::number(dimension), asked, has }
}

impl From<Beyond> for rejection::shared::Why {
    fn from(beyond: Beyond) -> Self {
        use rejection::shared;
        match beyond {
            Beyond::Share { own, share } => Self::Share(shared::Share { own, share }),
            Beyond::Bound { all, max } => Self::Bound(shared::Bound { all, max }),
        }
    }
}

impl From<rejection::shared::Why> for Beyond {
    fn from(why: rejection::shared::Why) -> Self {
        use rejection::shared::Why;
        match why {
            Why::Share(share) => Self::Share { own: share.own, share: share.share },
            Why::Bound(bound) => Self::Bound { all: bound.all, max: bound.max },
        }
    }
}
