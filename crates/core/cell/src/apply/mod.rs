//! Applying operations. Each family has its file; each function changes the cell and adds events,
//! or rejects and changes nothing.

pub(crate) mod alloc;
pub(crate) mod assign;
pub(crate) mod backup;
mod belief;
pub(crate) mod budget;
pub(crate) mod capability;
pub(crate) mod control;
pub(crate) mod drain;
pub(crate) mod enrolment;
pub(crate) mod every_machine;
pub(crate) mod exec;
pub(crate) mod forget;
pub(crate) mod gang;
mod inputs;
pub(crate) mod job;
pub(crate) mod limits;
pub(crate) mod locks;
pub(crate) mod logs;
pub(crate) mod machine;
pub(crate) mod moves;
pub(crate) mod mutation;
pub(crate) mod notice;
pub(crate) mod observe;
pub(crate) mod op;
pub(crate) mod packages;
pub(crate) mod packing;
pub(crate) mod queue;
pub(crate) mod quota;
pub(crate) mod reclamation;
pub(crate) mod replicas;
pub(crate) mod request;
pub(crate) mod rescheduling;
pub(crate) mod reserve;
pub(crate) mod resize;
pub(crate) mod restart;
pub(crate) mod rolling;
pub(crate) mod saving;
pub(crate) mod secrets;
pub(crate) mod services;
pub(crate) mod settle;
mod shares;
mod shortage;
mod start;
pub(crate) mod task;
pub(crate) mod text_bounds;
pub(crate) mod update;
pub(crate) mod user;
pub(crate) mod volumes;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use event::{Actor, Event, EventKind, Subject};
use model::{
    CollectionId, FinalUsage, InstanceId, Level, LogIndex, MachineId, MachineName, TaskId, Time,
};

use crate::bounds::{CHECK_CHARACTERS_MAX, REASON_CHARACTERS_MAX, TIME_MAX};
use crate::{Applied, Cell, Countable, Op, Outcome, Rejection};

/// What an operation causes besides its answer.
#[derive(Debug, Default)]
pub(crate) struct Events {
    events: Vec<Event>,
    reordered: Vec<MachineId>,
    /// The jobs that it ended and that others wait for; see [`Cell::settle`].
    ended: Vec<CollectionId>,
    /// The tasks that it ended and for which tasks of other jobs wait.
    ended_tasks: Vec<TaskId>,
    /// The machines that were described anew; see [`Cell::keep_every_machine`].
    described: BTreeSet<MachineId>,
    /// The machines that were removed.
    left: BTreeMap<MachineId, MachineName>,
    /// The jobs with one task on every machine whose description changed.
    respread: BTreeSet<CollectionId>,
    /// The machines whose tasks of such a job ended.
    vacated: BTreeSet<(CollectionId, MachineId)>,
}

impl Events {
    pub(crate) fn add(&mut self, subject: Subject, kind: EventKind) {
        self.events.push(Event { subject, kind, usage: FinalUsage::UNMEASURED });
    }

    /// The end of an instance, with its usage.
    pub(crate) fn add_end(&mut self, instance: InstanceId, kind: EventKind, usage: FinalUsage) {
        self.events.push(Event { subject: Subject::Task(instance), kind, usage });
    }

    /// Adds what a part of the operation caused.
    pub(crate) fn append(&mut self, mut part: Self) {
        self.events.append(&mut part.events);
        self.reordered.append(&mut part.reordered);
        self.ended.append(&mut part.ended);
        self.ended_tasks.append(&mut part.ended_tasks);
        self.described.append(&mut part.described);
        self.left.append(&mut part.left);
        self.respread.append(&mut part.respread);
        self.vacated.append(&mut part.vacated);
    }

    pub(crate) fn reorder(&mut self, machine: MachineId) {
        if self.reordered.last() != Some(&machine) {
            self.reordered.push(machine);
        }
    }
}

/// Cuts a reason to the maximum length.
fn cut(reason: &str) -> String {
    reason.chars().take(REASON_CHARACTERS_MAX).collect()
}

/// A health check's text as the cell stores it.
fn cut_check(text: &str) -> Option<Arc<str>> {
    let kept: String = text.chars().take(CHECK_CHARACTERS_MAX).collect();
    (!kept.is_empty()).then(|| kept.into())
}

/// Ids are assigned once. A cell that was loaded from an edited image may have none left.
fn ids_used_up(what: Countable, last: u64) -> Rejection {
    Rejection::Full { what, has: last, most: u64::MAX }
}

/// Rejects one more if there are as many as there may be.
fn full(what: Countable, has: u64, most: u64) -> Result<(), Rejection> {
    if has < most { Ok(()) } else { Err(Rejection::Full { what, has, most }) }
}

impl Op {
    /// The level of the state machine that is needed to decode it, whatever the cell's level. An
    /// operation that needs more than the cell's level does nothing, except one that raises it.
    #[must_use]
    pub fn needs(&self) -> Level {
        match self {
            Self::Request { mutation, .. } => mutation.needs(),
            Self::RaiseLevel { to } => *to,
            _ => Level(1),
        }
    }

    /// The actor; the master itself where only the cell knows which machine caused it.
    fn actor(&self) -> Actor {
        match self {
            Self::OpenSession { user } => Actor::User(user.clone()),
            Self::Bootstrap { administrator, .. } => Actor::User(administrator.clone()),
            Self::Request { by, .. } => Actor::User(by.clone()),
            Self::Assign { by, .. } | Self::Enable { by, .. } => Actor::Scheduler(by.clone()),
            Self::Observe { machine, .. } | Self::DescribeMachine { machine, .. } => {
                Actor::Machine(*machine)
            }
            Self::Nothing
            | Self::MachineSilent { .. }
            | Self::MachineBack { .. }
            | Self::Reserve(_)
            | Self::Forget { .. }
            | Self::RaiseLevel { .. }
            | Self::MachineUnreachable { .. }
            | Self::StopRescheduling { .. }
            | Self::AllowRescheduling
            | Self::MeterQuota
            | Self::SwitchQueueOn
            | Self::ChangeMember { .. }
            | Self::DescribeReplica { .. }
            | Self::Enrol { .. }
            | Self::JoinReplica { .. }
            | Self::RenewMachine { .. }
            | Self::ReadSecrets { .. }
            | Self::AddOutputs { .. }
            | Self::StepUpdate { .. }
            | Self::EvictDraining { .. }
            | Self::RelieveMachine { .. }
            | Self::ExpireDrain { .. }
            | Self::SendElsewhere { .. }
            | Self::TellInputs { .. }
            | Self::ExpireLockSessions { .. }
            | Self::StartReplacement { .. }
            | Self::RemoveReplacements { .. } => Actor::Master,
        }
    }
}

impl Cell {
    /// Applies one operation that happened at a given time. The cell's time never goes backwards:
    /// an earlier time counts as the last one, and one after the year 9999 as the end of that year.
    ///
    /// Total: it never panics on the content of an operation. What cannot be done is rejected and
    /// changes only the index and the time.
    pub fn apply(&mut self, at: Time, op: &Op) -> Applied {
        self.index = LogIndex(self.index.0.saturating_add(1));
        self.time = self.time.max(at.min(TIME_MAX));
        let mut events = Events::default();
        let outcome = self.dispatch(op, &mut events);
        self.settle(&mut events);
        self.keep_every_machine(&mut events);
        let by = self.joined(op).map_or_else(|| op.actor(), Actor::Machine);
        Applied { outcome, by, events: events.events, reordered: events.reordered }
    }

    /// The machine that enrolled or renewed its certificate, if it exists.
    fn joined(&self, op: &Op) -> Option<MachineId> {
        let name = match op {
            Op::Enrol { token, machine, .. } => self.token(*token)?.joins(machine.as_ref()),
            Op::RenewMachine { machine, .. }
            | Op::ReadSecrets { machine, .. }
            | Op::AddOutputs { machine, .. } => machine,
            _ => return None,
        };
        self.machine_names.get(name).copied()
    }

    fn dispatch(&mut self, op: &Op, events: &mut Events) -> Outcome {
        match op {
            Op::Nothing => {}
            Op::Bootstrap { name, administrator } => {
                if self.name.is_none() {
                    self.name = Some(name.clone());
                    self.bootstrapped = Some(self.time);
                    self.administrators.insert(administrator.clone());
                    events.add(Subject::Cell, EventKind::Bootstrapped);
                }
            }
            Op::ReadSecrets { machine, instance } => {
                return Outcome::Request(self.read_secrets(machine, *instance, events));
            }
            Op::AddOutputs { machine, instance, package } => {
                return Outcome::Request(self.add_outputs(machine, *instance, package, events));
            }
            Op::OpenSession { user } => return Outcome::Request(self.open_session(user)),
            Op::Request { id, by, mutation } => {
                return Outcome::Request(self.request(*id, by, mutation, events));
            }
            Op::Assign { assignments, began, .. } => {
                return Outcome::Assigned(self.assign_each(assignments, *began, events));
            }
            Op::Enable { enabled, .. } => {
                let accepted = enabled.iter().map(|enabled| self.enable(*enabled, events));
                return Outcome::Enabled(accepted.collect());
            }
            Op::Observe { machine, observations } => {
                let mut refused = Vec::new();
                for (position, observation) in observations.iter().enumerate() {
                    if let Err(why) = self.observe(*machine, observation, events) {
                        refused.push((position, why));
                    }
                }
                return Outcome::Observed(refused);
            }
            Op::DescribeMachine { machine, report } => {
                self.describe_machine(*machine, report, events);
            }
            Op::MachineSilent { machine } => self.machine_silent(*machine, events),
            Op::MachineBack { machine } => self.machine_back(*machine, events),
            Op::Reserve(reservations) => self.reserve(reservations),
            Op::Forget { collections } => collections.iter().for_each(|id| self.forget(*id)),
            Op::RaiseLevel { to } => {
                if *to > self.level && crate::has_level(*to) {
                    self.level = *to;
                    events.add(Subject::Cell, EventKind::LevelRaised { to: *to });
                }
            }
            Op::MachineUnreachable { machine } => self.machine_unreachable(*machine, events),
            Op::StopRescheduling { silent, of } => self.stop_rescheduling(*silent, *of, events),
            Op::AllowRescheduling => self.allow_rescheduling(events),
            Op::MeterQuota => self.set_metering(true, events),
            Op::SwitchQueueOn => self.switch_queue_on(events),
            Op::Enrol { token, key, machine, address, certificate, validity } => {
                let (used, issued) = ((*token, *key), (*certificate, *validity));
                let joins = enrolment::Joining { named: machine.as_ref(), address };
                return Outcome::Request(self.enrol(used, &joins, issued, events));
            }
            Op::JoinReplica { replica, token, key } => {
                return Outcome::Request(self.join_replica(*replica, *token, *key, events));
            }
            Op::RenewMachine { machine, old, certificate, validity } => {
                let issued = (*certificate, *validity);
                return Outcome::Request(self.renew_machine(machine, *old, issued, events));
            }
            Op::StepUpdate { job, version, steps } => {
                self.step_update(*job, *version, steps, events);
            }
            Op::EvictDraining { machine, instances } => {
                self.evict_draining(*machine, instances, events);
            }
            Op::RelieveMachine { machine, instance } => {
                self.relieve_machine(*machine, *instance, events);
            }
            Op::TellInputs { job } => self.tell_inputs(*job, events),
            Op::SendElsewhere { tasks } => self.send_elsewhere(tasks, events),
            Op::ExpireDrain { machine } => self.expire_drain(*machine, events),
            Op::ExpireLockSessions { sessions } => self.expire_lock_sessions(sessions, events),
            Op::StartReplacement { job } => self.start_replacement(*job, events),
            Op::RemoveReplacements { job } => self.remove_replacements(*job, events),
            Op::ChangeMember { replica, to } => self.change_member(*replica, *to, events),
            Op::DescribeReplica { replica, address, level, directory } => {
                self.describe_replica(*replica, address, *level, *directory, events);
            }
        }
        Outcome::Done
    }
}
