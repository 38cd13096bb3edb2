//! Reasons of rejected requests, as sessions keep them: `rejection.proto`.

mod codes;
mod permission;
mod reason;

use api::{At, Fault, Malformed, dimension, package, read, services};
use cell::{EndsWith, Rejection};
use model::{
    CollectionId, Dimension, GrantId, JobName, Level, LockMode, LockSessionId, LogIndex, PortRange,
    ReplicaId, SessionId, TaskId, TaskIndex, UserName, Version,
};
use spec::{Autoscale, FieldName};

use crate::v1;
use api::autoscale;
use api::job::priority;
use codes::Code;
use v1::rejection::{self, Why};

fn static_port(it: &rejection::StaticPortOfMachines) -> Result<Rejection, Malformed> {
    Ok(Rejection::StaticPortOfMachines {
        port: read::name(&it.port, "port")?,
        number: read::small(it.number, u16::MAX, "number")?,
        range: PortRange {
            first: read::small(it.first, u16::MAX, "first")?,
            last: read::small(it.last, u16::MAX, "last")?,
        },
    })
}

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
            Rejection::NeedsLevel { needs, is } => {
                Why::NeedsLevel(rejection::NeedsLevel { needs: needs.0, is: is.0 })
            }
            Rejection::InvalidDescription(path) => Why::InvalidDescription(path.into()),
            Rejection::NamesItself(field) => {
                Why::NamesItself(rejection::ReferenceField::from(*field).into())
            }
            Rejection::OwnLimit => Why::OwnLimit(v1::Nothing {}),
            Rejection::OutOfBounds(out) => Why::OutOfBounds(out.into()),
            Rejection::Fixed { owner, name, fields } => {
                let (owner, name) = (owner.to_string(), name.to_string());
                let fields = fields.iter().map(ToString::to_string).collect();
                Why::Fixed(rejection::Fixed { owner, name, fields })
            }
            Rejection::JobEnded { owner, name } => Why::JobEnded(job(owner, name)),
            Rejection::ChangedMeanwhile { owner, name, seen, now, update } => {
                Why::ChangedMeanwhile(rejection::ChangedMeanwhile {
                    owner: owner.to_string(),
                    name: name.to_string(),
                    seen: seen.0,
                    now: now.0,
                    update: update.as_ref().map(Into::into),
                })
            }
            Rejection::BeingKilled { owner, name } => Why::BeingKilled(job(owner, name)),
            Rejection::TaskBeingKilled { owner, name, index } => {
                Why::TaskBeingKilled(task(owner, name, *index))
            }
            Rejection::InstanceEnded { owner, name, index } => {
                Why::InstanceEnded(task(owner, name, *index))
            }
            Rejection::JobAlive { owner, name } => Why::JobAlive(job(owner, name)),
            Rejection::EndsWith { owner, name, with, other } => {
                Why::EndsWith(rejection::EndsWith {
                    owner: owner.to_string(),
                    name: name.to_string(),
                    alloc_set: *with == EndsWith::AllocSet,
                    other: other.0,
                })
            }
            Rejection::CannotControlUpdate { owner, name, action, why } => {
                let job = (owner.to_string(), name.to_string());
                Why::CannotControlUpdate(reason::cannot_control(job, *action, why))
            }
            Rejection::VersionNotKept { owner, name, version } => {
                let (owner, name) = (owner.to_string(), name.to_string());
                Why::VersionNotKept(rejection::VersionNotKept { owner, name, version: version.0 })
            }
            Rejection::VersionsTooLarge { owner, name, bytes } => {
                let (owner, name, bytes) = (owner.to_string(), name.to_string(), *bytes);
                Why::VersionsTooLarge(rejection::VersionsTooLarge { owner, name, bytes })
            }
            Rejection::RestartDuringUpdate { owner, name, to, undoing } => {
                let (owner, name, undoing) = (owner.to_string(), name.to_string(), *undoing);
                let to = to.0;
                Why::RestartDuringUpdate(rejection::RestartDuringUpdate {
                    owner,
                    name,
                    to,
                    undoing,
                })
            }
            Rejection::RestartsAllocSet { owner, name } => Why::RestartsAllocSet(job(owner, name)),
            Rejection::NoTasks { owner, name } => Why::NoTasks(job(owner, name)),
            Rejection::NotAutoscaled { owner, name } => Why::NotAutoscaled(job(owner, name)),
            Rejection::LimitOutOfBounds { owner, name, limit, bounds } => {
                Why::LimitOutOfBounds(rejection::LimitOutOfBounds {
                    owner: owner.to_string(),
                    name: name.to_string(),
                    limit: Some((*limit).into()),
                    bounds: autoscale::bounds(*bounds),
                })
            }
            Rejection::LimitsWait { owner, name, version, why } => {
                let (owner, name, version) = (owner.to_string(), name.to_string(), version.0);
                let why = rejection::LimitsHindrance::from(*why).into();
                Why::LimitsWait(rejection::LimitsWait { owner, name, version, why })
            }
            Rejection::NotMovable { owner, name, index, why } => {
                let (owner, name, index) = (owner.to_string(), name.to_string(), index.0);
                let why = rejection::MoveHindrance::from(*why).into();
                Why::NotMovable(rejection::NotMovable { owner, name, index, why })
            }
            Rejection::PriorityAboveAllocSet { job, priority, set_owner, set, most } => {
                Why::PriorityAboveAllocSet(rejection::PriorityAboveAllocSet {
                    job: job.to_string(),
                    priority: priority.number().into(),
                    set_owner: set_owner.to_string(),
                    set: set.to_string(),
                    most: most.number().into(),
                })
            }
            Rejection::PriorityBelowJob { set_owner, set, priority, owner, job, has } => {
                Why::PriorityBelowJob(rejection::PriorityBelowJob {
                    set_owner: set_owner.to_string(),
                    set: set.to_string(),
                    priority: priority.number().into(),
                    owner: owner.to_string(),
                    job: job.to_string(),
                    has: has.number().into(),
                })
            }
            Rejection::InvalidDrain { machine, why } => {
                let why = rejection::DrainProblem::from(*why).into();
                Why::InvalidDrain(rejection::InvalidDrain { machine: machine.to_string(), why })
            }
            Rejection::Volume { machine, volume, why } => {
                let (machine, volume) = (machine.to_string(), volume.to_string());
                let why = Some(reason::volume(why));
                Why::Volume(rejection::RejectedVolume { machine, volume, why })
            }
            Rejection::NoDataKept { machine, instance } => {
                let (machine, instance) = (machine.to_string(), Some((*instance).into()));
                Why::NoDataKept(rejection::NoDataKept { machine, instance })
            }
            Rejection::NoSuchReference { field, user, name, dead } => {
                let (user, name) = (user.to_string(), name.to_string());
                let (field, dead) = (rejection::ReferenceField::from(*field).into(), *dead);
                Why::NoSuchReference(rejection::NoSuchReference { field, user, name, dead })
            }
            Rejection::PredecessorEnded { user, name } => {
                let (user, name) = (user.to_string(), name.to_string());
                Why::PredecessorEnded(rejection::PredecessorEnded { user, name })
            }
            Rejection::PredecessorFinished { user, name } => {
                let (user, name) = (user.to_string(), name.to_string());
                Why::PredecessorFinished(rejection::PredecessorEnded { user, name })
            }
            Rejection::CounterpartsMissing { user, name, theirs, own } => {
                let (user, name, theirs, own) = (user.to_string(), name.to_string(), *theirs, *own);
                Why::CounterpartsMissing(rejection::CounterpartsMissing { user, name, theirs, own })
            }
            Rejection::NoSuchMachine(machine) => Why::NoSuchMachine(machine.to_string()),
            Rejection::MachineInUse { machine, tasks } => {
                let (machine, tasks) = (machine.to_string(), *tasks);
                Why::MachineInUse(rejection::MachineInUse { machine, tasks })
            }
            Rejection::BadText { what, most } => {
                let what = rejection::TextField::from(*what).into();
                Why::BadText(rejection::BadText { what, most: *most })
            }
            Rejection::NoSuchJob { user, name } => {
                let (user, name) = (user.to_string(), name.to_string());
                Why::NoSuchJob(rejection::NoSuchJob { user, name })
            }
            Rejection::NoSuchCollection(id) => Why::NoSuchCollection(id.0),
            Rejection::NoSuchTask { last } => Why::NoSuchTask(*last),
            Rejection::NotAllowed { by, what, who } => {
                let (by, what, who) = (by.to_string(), Some(what.into()), Some(who.into()));
                Why::NotAllowed(rejection::NotAllowed { by, what, who })
            }
            Rejection::Full { what, has, most } => {
                Why::Full(rejection::Full { what: Some(what.into()), has: *has, most: *most })
            }
            Rejection::Shared { what, why } => Why::Shared(rejection::Shared {
                what: rejection::Shareable::from(*what).into(),
                why: Some((*why).into()),
            }),
            Rejection::StaticPortOfMachines { port, number, range } => {
                Why::StaticPortOfMachines(rejection::StaticPortOfMachines {
                    port: port.to_string(),
                    number: (*number).into(),
                    first: range.first.into(),
                    last: range.last.into(),
                })
            }
            Rejection::AddressTaken(machine) => Why::AddressTaken(machine.to_string()),
            Rejection::RevokesOneself(user) => Why::RevokesOneself(user.to_string()),
            Rejection::LastAdministrator(user) => Why::LastAdministrator(user.to_string()),
            Rejection::Validity(asked) => Why::Validity(api::duration(*asked)),
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
            Rejection::OnEveryMachine { owner, name } => {
                Why::OnEveryMachine(services::name(owner, name))
            }
            Rejection::GangTooLarge { tasks, limit, fits, machines } => {
                Why::GangTooLarge(rejection::GangTooLarge {
                    tasks: *tasks,
                    limit: Some(limit.into()),
                    fits: *fits,
                    machines: *machines,
                })
            }
            Rejection::NoSuchPackage { id } => Why::NoSuchPackage(id.to_string()),
            Rejection::InvalidPackage { id, why } => {
                let (id, why) = (id.to_string(), Some((*why).into()));
                Why::InvalidPackage(rejection::InvalidPackage { id, why })
            }
            Rejection::PackageVersionExists { id, digest } => {
                let (id, digest) = (id.to_string(), digest.to_string());
                Why::PackageVersionExists(rejection::PackageVersionExists { id, digest })
            }
            Rejection::PackageInUse { id, owner, job } => {
                let (id, owner, job) = (id.to_string(), owner.to_string(), job.to_string());
                Why::PackageInUse(rejection::PackageInUse { id, owner, job })
            }
            Rejection::NoSuchSecret { owner, name } => {
                let (user, name) = (owner.to_string(), name.to_string());
                Why::NoSuchSecret(rejection::SecretName { user, name })
            }
            Rejection::SecretInUse { owner, name, job } => {
                let (user, name, job) = (owner.to_string(), name.to_string(), job.to_string());
                Why::SecretInUse(rejection::SecretInUse { user, name, job })
            }
            Rejection::NoSuchGrant(id) => Why::NoSuchGrant(id.0),
            Rejection::InvalidGrant(why) => {
                Why::InvalidGrant(rejection::GrantProblem::from(*why).into())
            }
            Rejection::NeverOversold(band) => Why::NeverOversold(band.to_string()),
            Rejection::TokenExists(serial) => Why::TokenExists(serial.to_string()),
            Rejection::ReplicaHasJoined(id) => Why::ReplicaHasJoined(id.0),
            Rejection::LockHeld { path, session, mode } => Why::LockHeld(rejection::LockHeld {
                path: path.to_string(),
                session: session.0,
                shared: *mode == LockMode::Shared,
            }),
            Rejection::LockNotHeld { path, session } => {
                let (path, session) = (path.to_string(), session.0);
                Why::LockNotHeld(rejection::LockNotHeld { path, session })
            }
            Rejection::InvalidService { owner, name, why } => {
                let (owner, name) = (owner.to_string(), name.to_string());
                let why = Some((*why).into());
                Why::InvalidService(rejection::InvalidService { owner, name, why })
            }
            Rejection::NoSuchToken(serial) => Why::NoSuchToken(serial.to_string()),
            Rejection::TokenExpired(machine) => Why::TokenExpired(machine.to_string()),
            Rejection::TokenUsed(machine) => Why::TokenUsed(machine.to_string()),
            Rejection::NotAdmitted { machine, token, why } => {
                Why::NotAdmitted(reason::not_admitted(machine, token, *why))
            }
            Rejection::ReplicaTokenUsed(id) => Why::ReplicaTokenUsed(id.0),
            Rejection::TokenValidity(asked) => Why::TokenValidity(api::duration(*asked)),
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
            Why::NeedsLevel(level) => {
                Self::NeedsLevel { needs: Level(level.needs), is: Level(level.is) }
            }
            Why::InvalidDescription(invalid) => {
                Self::InvalidDescription(reason::path(invalid).field("invalidDescription")?)
            }
            Why::NamesItself(field) => Self::NamesItself(code(field, "namesItself")?),
            Why::OwnLimit(v1::Nothing {}) => Self::OwnLimit,
            Why::OutOfBounds(out) => Self::OutOfBounds(out.try_into().field("outOfBounds")?),
            Why::Fixed(fixed) => {
                let (owner, name) = owned(&fixed.owner, &fixed.name).field("fixed")?;
                let fields = field_names(&fixed.fields).field("fields").field("fixed")?;
                Self::Fixed { owner, name, fields }
            }
            Why::JobEnded(job) => {
                let (owner, name) = named(&job).field("jobEnded")?;
                Self::JobEnded { owner, name }
            }
            Why::ChangedMeanwhile(changed) => Self::ChangedMeanwhile {
                owner: read::name(&changed.owner, "owner").field("changedMeanwhile")?,
                name: read::name(&changed.name, "name").field("changedMeanwhile")?,
                seen: Version(changed.seen),
                now: Version(changed.now),
                update: read::optional(changed.update, "update").field("changedMeanwhile")?,
            },
            Why::BeingKilled(job) => {
                let (owner, name) = named(&job).field("beingKilled")?;
                Self::BeingKilled { owner, name }
            }
            Why::TaskBeingKilled(task) => {
                let (owner, name) = owned(&task.owner, &task.name).field("taskBeingKilled")?;
                Self::TaskBeingKilled { owner, name, index: TaskIndex(task.index) }
            }
            Why::InstanceEnded(task) => {
                let (owner, name) = owned(&task.owner, &task.name).field("instanceEnded")?;
                Self::InstanceEnded { owner, name, index: TaskIndex(task.index) }
            }
            Why::JobAlive(job) => {
                let (owner, name) = named(&job).field("jobAlive")?;
                Self::JobAlive { owner, name }
            }
            Why::EndsWith(ends) => {
                let (owner, name) = owned(&ends.owner, &ends.name).field("endsWith")?;
                let with = if ends.alloc_set { EndsWith::AllocSet } else { EndsWith::Parent };
                Self::EndsWith { owner, name, with, other: CollectionId(ends.other) }
            }
            Why::CannotControlUpdate(cannot) => cannot.try_into().field("cannotControlUpdate")?,
            Why::VersionNotKept(not) => {
                let (owner, name) = owned(&not.owner, &not.name).field("versionNotKept")?;
                Self::VersionNotKept { owner, name, version: Version(not.version) }
            }
            Why::VersionsTooLarge(large) => {
                let (owner, name) = owned(&large.owner, &large.name).field("versionsTooLarge")?;
                Self::VersionsTooLarge { owner, name, bytes: large.bytes }
            }
            Why::RestartDuringUpdate(update) => {
                let job = owned(&update.owner, &update.name);
                let ((owner, name), to) = (job.field("restartDuringUpdate")?, Version(update.to));
                Self::RestartDuringUpdate { owner, name, to, undoing: update.undoing }
            }
            Why::RestartsAllocSet(job) => {
                let (owner, name) = named(&job).field("restartsAllocSet")?;
                Self::RestartsAllocSet { owner, name }
            }
            Why::NoTasks(job) => {
                let (owner, name) = named(&job).field("noTasks")?;
                Self::NoTasks { owner, name }
            }
            Why::NotAutoscaled(job) => {
                let (owner, name) = named(&job).field("notAutoscaled")?;
                Self::NotAutoscaled { owner, name }
            }
            Why::LimitOutOfBounds(limit) => {
                limit_out_of_bounds(&limit).field("limitOutOfBounds")?
            }
            Why::LimitsWait(wait) => {
                let (owner, name) = owned(&wait.owner, &wait.name).field("limitsWait")?;
                let why = code(wait.why, "why").field("limitsWait")?;
                Self::LimitsWait { owner, name, version: Version(wait.version), why }
            }
            Why::NotMovable(of) => {
                let (owner, name) = owned(&of.owner, &of.name).field("notMovable")?;
                let why = code(of.why, "why").field("notMovable")?;
                Self::NotMovable { owner, name, index: TaskIndex(of.index), why }
            }
            Why::PriorityAboveAllocSet(above) => {
                above_alloc_set(&above).field("priorityAboveAllocSet")?
            }
            Why::PriorityBelowJob(below) => below_job(&below).field("priorityBelowJob")?,
            Why::InvalidDrain(drain) => Self::InvalidDrain {
                machine: read::name(&drain.machine, "machine").field("invalidDrain")?,
                why: code(drain.why, "why").field("invalidDrain")?,
            },
            Why::Volume(it) => Self::Volume {
                machine: read::name(&it.machine, "machine").field("volume")?,
                volume: read::name(&it.volume, "volume").field("volume")?,
                why: reason::read_volume(it.why).field("volume")?,
            },
            Why::NoDataKept(not) => Self::NoDataKept {
                machine: read::name(&not.machine, "machine").field("noDataKept")?,
                instance: read::required(not.instance, "instance").field("noDataKept")?.into(),
            },
            Why::NoSuchReference(reference) => Self::NoSuchReference {
                field: code(reference.field, "field").field("noSuchReference")?,
                user: read::name(&reference.user, "user").field("noSuchReference")?,
                name: read::name(&reference.name, "name").field("noSuchReference")?,
                dead: reference.dead,
            },
            Why::PredecessorEnded(job) => Self::PredecessorEnded {
                user: read::name(&job.user, "user").field("predecessorEnded")?,
                name: read::name(&job.name, "name").field("predecessorEnded")?,
            },
            Why::PredecessorFinished(job) => Self::PredecessorFinished {
                user: read::name(&job.user, "user").field("predecessorFinished")?,
                name: read::name(&job.name, "name").field("predecessorFinished")?,
            },
            Why::CounterpartsMissing(job) => Self::CounterpartsMissing {
                user: read::name(&job.user, "user").field("counterpartsMissing")?,
                name: read::name(&job.name, "name").field("counterpartsMissing")?,
                theirs: job.theirs,
                own: job.own,
            },
            Why::NoSuchMachine(machine) => {
                Self::NoSuchMachine(read::name(&machine, "noSuchMachine")?)
            }
            Why::MachineInUse(used) => Self::MachineInUse {
                machine: read::name(&used.machine, "machine").field("machineInUse")?,
                tasks: used.tasks,
            },
            Why::BadText(text) => {
                Self::BadText { what: code(text.what, "what").field("badText")?, most: text.most }
            }
            Why::NoSuchJob(job) => Self::NoSuchJob {
                user: read::name(&job.user, "user").field("noSuchJob")?,
                name: read::name(&job.name, "name").field("noSuchJob")?,
            },
            Why::NoSuchCollection(id) => Self::NoSuchCollection(CollectionId(id)),
            Why::NoSuchTask(last) => Self::NoSuchTask { last },
            Why::NotAllowed(not_allowed) => Self::NotAllowed {
                by: read::name(&not_allowed.by, "by").field("notAllowed")?,
                what: read::message(not_allowed.what, "what").field("notAllowed")?,
                who: read::message(not_allowed.who, "who").field("notAllowed")?,
            },
            Why::Full(full) => Self::Full {
                what: read::message(full.what, "what").field("full")?,
                has: full.has,
                most: full.most,
            },
            Why::Shared(shared) => Self::Shared {
                what: code(shared.what, "what").field("shared")?,
                why: shared.why.ok_or(Fault::UnknownKind).field("why").field("shared")?.into(),
            },
            Why::StaticPortOfMachines(it) => static_port(&it).field("staticPortOfMachines")?,
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
            Why::NoSuchFile(path) => Self::NoSuchFile(api::locks::path(&path, "noSuchFile")?),
            Why::NoSuchLockSession(id) => Self::NoSuchLockSession(LockSessionId(id)),
            Why::LockTaken(taken) => Self::LockTaken {
                path: api::locks::path(&taken.path, "path").field("lockTaken")?,
                by: read::name(&taken.by, "by").field("lockTaken")?,
                session: LockSessionId(taken.session),
                mode: LockMode::shared(taken.shared),
            },
            Why::FileChanged(changed) => Self::FileChanged {
                path: api::locks::path(&changed.path, "path").field("fileChanged")?,
                expected: LogIndex(changed.expected),
                now: LogIndex(changed.now),
            },
            Why::StaleSequencer(text) => {
                Self::StaleSequencer(api::locks::sequencer(&text, "staleSequencer")?)
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
            Why::OnEveryMachine(name) => {
                let (owner, name) = services::named(&name).field("onEveryMachine")?;
                Self::OnEveryMachine { owner, name }
            }
            Why::GangTooLarge(gang) => Self::GangTooLarge {
                tasks: gang.tasks,
                limit: read::required(gang.limit, "limit")
                    .field("gangTooLarge")?
                    .try_into()
                    .field("gangTooLarge")?,
                fits: gang.fits,
                machines: gang.machines,
            },
            Why::NoSuchPackage(id) => {
                Self::NoSuchPackage { id: package::id(&id, "noSuchPackage")? }
            }
            Why::InvalidPackage(invalid) => {
                let why = invalid.why.ok_or(Fault::UnknownKind).field("why");
                Self::InvalidPackage {
                    id: package::id(&invalid.id, "id").field("invalidPackage")?,
                    why: why.field("invalidPackage")?.into(),
                }
            }
            Why::PackageVersionExists(exists) => Self::PackageVersionExists {
                id: package::id(&exists.id, "id").field("packageVersionExists")?,
                digest: package::digest(&exists.digest, "digest").field("packageVersionExists")?,
            },
            Why::PackageInUse(used) => {
                let (owner, job) = owned(&used.owner, &used.job).field("packageInUse")?;
                let id = package::id(&used.id, "id").field("packageInUse")?;
                Self::PackageInUse { id, owner, job }
            }
            Why::NoSuchSecret(secret) => Self::NoSuchSecret {
                owner: read::name(&secret.user, "user").field("noSuchSecret")?,
                name: read::name(&secret.name, "name").field("noSuchSecret")?,
            },
            Why::SecretInUse(secret) => Self::SecretInUse {
                owner: read::name(&secret.user, "user").field("secretInUse")?,
                name: read::name(&secret.name, "name").field("secretInUse")?,
                job: read::name(&secret.job, "job").field("secretInUse")?,
            },
            Why::NoSuchGrant(id) => Self::NoSuchGrant(GrantId(id)),
            Why::InvalidGrant(why) => Self::InvalidGrant(code(why, "invalidGrant")?),
            Why::NeverOversold(band) => Self::NeverOversold(read::band(&band, "neverOversold")?),
            Why::TokenExists(serial) => Self::TokenExists(read::serial(&serial, "tokenExists")?),
            Why::ReplicaHasJoined(id) => Self::ReplicaHasJoined(ReplicaId(id)),
            Why::LockHeld(held) => Self::LockHeld {
                path: api::locks::path(&held.path, "path").field("lockHeld")?,
                session: LockSessionId(held.session),
                mode: LockMode::shared(held.shared),
            },
            Why::LockNotHeld(not) => Self::LockNotHeld {
                path: api::locks::path(&not.path, "path").field("lockNotHeld")?,
                session: LockSessionId(not.session),
            },
            Why::InvalidService(invalid) => {
                let (owner, name) = owned(&invalid.owner, &invalid.name).field("invalidService")?;
                let why = invalid.why.ok_or(Fault::UnknownKind).field("why");
                Self::InvalidService { owner, name, why: why.field("invalidService")?.into() }
            }
            Why::NoSuchToken(serial) => Self::NoSuchToken(read::serial(&serial, "noSuchToken")?),
            Why::TokenExpired(machine) => Self::TokenExpired(read::name(&machine, "tokenExpired")?),
            Why::TokenUsed(machine) => Self::TokenUsed(read::name(&machine, "tokenUsed")?),
            Why::NotAdmitted(not) => reason::not_admitted_of(&not).field("notAdmitted")?,
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

fn limit_out_of_bounds(limit: &rejection::LimitOutOfBounds) -> Result<Rejection, Malformed> {
    let (owner, name) = owned(&limit.owner, &limit.name)?;
    let bounds: (Autoscale, _) = autoscale::read(limit.bounds).field("bounds")?;
    let limit = read::message(limit.limit, "limit")?;
    Ok(Rejection::LimitOutOfBounds { owner, name, limit, bounds: bounds.0 })
}

fn above_alloc_set(above: &rejection::PriorityAboveAllocSet) -> Result<Rejection, Malformed> {
    Ok(Rejection::PriorityAboveAllocSet {
        job: read::name(&above.job, "job")?,
        priority: priority(above.priority)?,
        set_owner: read::name(&above.set_owner, "setOwner")?,
        set: read::name(&above.set, "set")?,
        most: priority(above.most)?,
    })
}

fn below_job(below: &rejection::PriorityBelowJob) -> Result<Rejection, Malformed> {
    Ok(Rejection::PriorityBelowJob {
        set_owner: read::name(&below.set_owner, "setOwner")?,
        set: read::name(&below.set, "set")?,
        priority: priority(below.priority)?,
        owner: read::name(&below.owner, "owner")?,
        job: read::name(&below.job, "job")?,
        has: priority(below.has)?,
    })
}

/// The message for a job.
fn job(owner: &UserName, name: &JobName) -> rejection::NoSuchJob {
    rejection::NoSuchJob { user: owner.to_string(), name: name.to_string() }
}

/// The message for a task.
fn task(owner: &UserName, name: &JobName, index: TaskIndex) -> rejection::OfTask {
    let (owner, name) = (owner.to_string(), name.to_string());
    rejection::OfTask { owner, name, index: index.0 }
}

/// The owner and the name of a job.
fn named(job: &rejection::NoSuchJob) -> Result<(UserName, JobName), Malformed> {
    Ok((read::name(&job.user, "user")?, read::name(&job.name, "name")?))
}

/// The owner and the name of a job or a service.
fn owned(owner: &str, name: &str) -> Result<(UserName, JobName), Malformed> {
    Ok((read::name(owner, "owner")?, read::name(name, "name")?))
}

/// A value of an enum.
fn code<C: Code>(number: i32, field: &str) -> Result<C, Malformed> {
    read::value(number, C::of, field)
}

fn field_names(names: &[String]) -> Result<Vec<FieldName>, Malformed> {
    let names = names.iter().enumerate();
    names
        .map(|(position, name)| FieldName::find(name).ok_or(Fault::UnknownKind).element(position))
        .collect()
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
