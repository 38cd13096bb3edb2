//! Reasons of rejected requests, as sessions keep them.

use cell::Rejection;
use cell::feasibility::{CountedAt, NotGiven, UnschedulableReason};
use model::{CollectionId, Dimension, GrantId, ReplicaId, SessionId, TaskId, TaskIndex};

use crate::error::{At, Fault, Malformed};
use crate::{read, v1};
use v1::rejection::{self, Why, unschedulable_reason};

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
            Rejection::NeedsRestart { owner, name, fields } => {
                let (owner, name) = (owner.to_string(), name.to_string());
                Why::NeedsRestart(rejection::NeedsRestart { owner, name, fields: fields.clone() })
            }
            Rejection::WouldNotFit { task, machine, unschedulable_reason } => {
                Why::WouldNotFit(rejection::WouldNotFit {
                    collection: task.collection.0,
                    index: task.index.0,
                    machine: machine.to_string(),
                    unschedulable_reason: Some(unschedulable_reason.into()),
                })
            }
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
            Why::NeedsRestart(restart) => Self::NeedsRestart {
                owner: read::name(&restart.owner, "owner").field("needsRestart")?,
                name: read::name(&restart.name, "name").field("needsRestart")?,
                fields: restart.fields,
            },
            Why::WouldNotFit(would) => would_not_fit(would).field("wouldNotFit")?,
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
        dimension: dimension(shortage.dimension).field("shortage")?,
        asked: shortage.asked,
        used: shortage.has,
    })
}

fn shortage(dimension: Dimension, asked: u64, has: u64) -> rejection::Shortage {
    rejection::Shortage { dimension: dimension_number(dimension), asked, has }
}

fn would_not_fit(would: rejection::WouldNotFit) -> Result<Rejection, Malformed> {
    let (collection, index) = (CollectionId(would.collection), TaskIndex(would.index));
    Ok(Rejection::WouldNotFit {
        task: TaskId { collection, index },
        machine: read::name(&would.machine, "machine")?,
        unschedulable_reason: read::message(would.unschedulable_reason, "unschedulable_reason")?,
    })
}

impl From<&UnschedulableReason> for rejection::UnschedulableReason {
    fn from(unschedulable_reason: &UnschedulableReason) -> Self {
        let why = match unschedulable_reason {
            UnschedulableReason::NotUp => unschedulable_reason::Why::NotUp(v1::Nothing {}),
            UnschedulableReason::Unreachable => {
                unschedulable_reason::Why::Unreachable(v1::Nothing {})
            }
            UnschedulableReason::Draining => unschedulable_reason::Why::Draining(v1::Nothing {}),
            UnschedulableReason::Constraint { constraint, has } => {
                unschedulable_reason::Why::Constraint(rejection::Unmatched {
                    constraint: Some(constraint.as_ref().into()),
                    has: has.as_deref().map(str::to_owned),
                })
            }
            UnschedulableReason::TooSmall { dimension, asked, has } => {
                unschedulable_reason::Why::TooSmall(shortage(*dimension, *asked, *has))
            }
            UnschedulableReason::Lacks { dimension, asked, free } => {
                unschedulable_reason::Why::Lacks(shortage(*dimension, *asked, *free))
            }
            UnschedulableReason::LacksPorts { asked, free, held } => {
                unschedulable_reason::Why::LacksPorts(rejection::LacksPorts {
                    asked: *asked as u64,
                    free: *free as u64,
                    held: held.as_deref().map(Into::into),
                })
            }
            UnschedulableReason::Maximum { place, has, most } => {
                unschedulable_reason::Why::Maximum(rejection::Maximum {
                    at_switch: *place == CountedAt::Switch,
                    has: *has,
                    most: *most,
                })
            }
        };
        Self { why: Some(why) }
    }
}

impl TryFrom<rejection::UnschedulableReason> for UnschedulableReason {
    type Error = Malformed;

    fn try_from(unschedulable_reason: rejection::UnschedulableReason) -> Result<Self, Malformed> {
        Ok(match unschedulable_reason.why.ok_or(Fault::UnknownKind)? {
            unschedulable_reason::Why::NotUp(v1::Nothing {}) => Self::NotUp,
            unschedulable_reason::Why::Unreachable(v1::Nothing {}) => Self::Unreachable,
            unschedulable_reason::Why::Draining(v1::Nothing {}) => Self::Draining,
            unschedulable_reason::Why::Constraint(unmatched) => Self::Constraint {
                constraint: Box::new(
                    read::message(unmatched.constraint, "constraint").field("constraint")?,
                ),
                has: unmatched.has.map(Into::into),
            },
            unschedulable_reason::Why::TooSmall(short) => Self::TooSmall {
                dimension: dimension(short.dimension).field("tooSmall")?,
                asked: short.asked,
                has: short.has,
            },
            unschedulable_reason::Why::Lacks(short) => Self::Lacks {
                dimension: dimension(short.dimension).field("lacks")?,
                asked: short.asked,
                free: short.has,
            },
            unschedulable_reason::Why::LacksPorts(ports) => {
                let (asked, free) = (count(ports.asked), count(ports.free));
                let held = read::optional(ports.held, "held").field("lacksPorts")?;
                Self::LacksPorts { asked, free, held: held.map(Box::new) }
            }
            unschedulable_reason::Why::Maximum(rejection::Maximum { at_switch, has, most }) => {
                let place = if at_switch { CountedAt::Switch } else { CountedAt::Machine };
                Self::Maximum { place, has, most }
            }
        })
    }
}

impl From<&NotGiven> for rejection::NotGiven {
    fn from(held: &NotGiven) -> Self {
        Self { count: held.count as u64, first: Some((&held.first).into()) }
    }
}

impl TryFrom<rejection::NotGiven> for NotGiven {
    type Error = Malformed;

    fn try_from(held: rejection::NotGiven) -> Result<Self, Malformed> {
        Ok(Self { count: count(held.count), first: read::message(held.first, "first")? })
    }
}

/// A count beyond this platform's `usize` becomes its maximum.
fn count(count: u64) -> usize {
    usize::try_from(count).unwrap_or(usize::MAX)
}

fn dimension_number(dimension: Dimension) -> i32 {
    let dimension = match dimension {
        Dimension::Cpu => rejection::Dimension::Cpu,
        Dimension::Ram => rejection::Dimension::Ram,
        Dimension::Disk => rejection::Dimension::Disk,
        Dimension::DiskRate => rejection::Dimension::DiskRate,
    };
    dimension.into()
}

fn dimension(number: i32) -> Result<Dimension, Malformed> {
    let meaning = |dimension| match dimension {
        rejection::Dimension::Unspecified => None,
        rejection::Dimension::Cpu => Some(Dimension::Cpu),
        rejection::Dimension::Ram => Some(Dimension::Ram),
        rejection::Dimension::Disk => Some(Dimension::Disk),
        rejection::Dimension::DiskRate => Some(Dimension::DiskRate),
    };
    read::value(number, meaning, "dimension")
}
