//! The result of an operation: its outcome and its events.

use std::net::Ipv4Addr;

use event::{Actor, Event};
use model::{InstanceId, MachineId, TaskId};
use thiserror::Error;

use crate::lifecycle::{NotAStep, Stage};
use crate::state::EnableRefused;
use crate::unschedulable::UnschedulableReason;
use crate::{Rejection, Reply};

/// The result of [`crate::Cell::apply`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Applied {
    /// The answer.
    pub outcome: Outcome,
    /// The actor that caused the operation.
    pub by: Actor,
    /// The events, in order.
    pub events: Vec<Event>,
    /// The machines whose set of desired instances changed: each needs a new order. May contain
    /// duplicates.
    pub reordered: Vec<MachineId>,
}

/// The answer to an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The operation has no answer.
    Done,
    /// For a client, or for a machine that enrols or renews its certificate.
    Request(Result<Reply, Rejection>),
    /// For a scheduler: one result for each of its assignments.
    Assigned(Vec<Result<(), AssignmentRefused>>),
    /// For a scheduler: one result for each job of which it has enabled tasks.
    Enabled(Vec<Result<(), EnableRefused>>),
    /// For a machine: the observations that were rejected, by position.
    Observed(Vec<(usize, ObservationRefused)>),
}

/// Why an assignment was rejected. The task stays pending, and the next pass considers it again.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum AssignmentRefused {
    /// There is no such task.
    #[error("there is no task {0}")]
    NoSuchTask(TaskId),
    /// The proposal was for an earlier incarnation, or the task is not pending.
    #[error("task {0} is not pending in that generation")]
    NotPending(TaskId),
    /// The task waits for its next retry.
    #[error("task {0} waits for its next retry")]
    NotYet(TaskId),
    /// There is no such machine.
    #[error("there is no machine {0}")]
    NoSuchMachine(MachineId),
    /// It does not fit there, or not any more.
    #[error("it does not fit on machine {0}: {1}")]
    DoesNotFit(MachineId, UnschedulableReason),
    /// The number of ports is wrong, or some are not free or not the machine's.
    #[error("ports {0:?} cannot be assigned to it")]
    Ports(Vec<u16>),
    /// The task needs an address and has none, or the reverse; or the address is not free or not the
    /// machine's.
    #[error("{}", wrong_address(*.0))]
    Address(Option<Ipv4Addr>),
    /// The named alloc, or its absence, is wrong for the task.
    #[error("{0}")]
    Alloc(NoAlloc),
    /// A victim may not be evicted for it.
    #[error("{victim} cannot be evicted for it: {why}")]
    Victim {
        /// The victim.
        victim: InstanceId,
        /// Why it may not be evicted.
        why: NoVictim,
    },
    /// A gang is placed whole, and not all of its tasks are assigned.
    #[error("a gang is placed whole, and {assigned} of its {of} tasks are assigned")]
    PartOfGang {
        /// How many are assigned.
        assigned: u32,
        /// How many of its tasks are alive.
        of: u32,
    },
    /// Another task of its gang was rejected, and a gang is placed whole.
    #[error("its gang is placed whole, and task {because} was rejected")]
    WithItsGang {
        /// That task.
        because: TaskId,
    },
}

fn wrong_address(address: Option<Ipv4Addr>) -> String {
    match address {
        Some(address) => format!("the address {address} cannot be assigned to it"),
        None => "it needs an address, and none is assigned".to_owned(),
    }
}

/// Why a task cannot be placed in an alloc.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum NoAlloc {
    /// An alloc is named, but the job runs in no alloc set.
    #[error("its job runs in no alloc set, but an alloc is named")]
    RunsInNone,
    /// No alloc is named, but the job runs in an alloc set.
    #[error("its job runs in an alloc set, but no alloc is named")]
    NotNamed,
    /// The alloc belongs to another set than the job's.
    #[error("the alloc is not in the alloc set that its job runs in")]
    OfAnotherSet,
    /// The alloc is not on that machine, or is being stopped.
    #[error("the alloc is not on that machine, or is being stopped")]
    NotThere,
}

/// Why an instance cannot be evicted for another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum NoVictim {
    /// It is not placed on that machine, or is already being stopped.
    #[error("it is not running there, or is already being stopped")]
    NotThere,
    /// It runs in an alloc, or the new task would: evicting it frees none of the machine's
    /// resources, and tasks in an alloc are not preempted.
    #[error("it runs in an alloc, and evicting it would not free the machine's resources")]
    InAlloc,
    /// Its priority is not lower.
    #[error("its priority is not lower")]
    NotLower,
    /// Production tasks do not evict each other, and monitoring tasks do not either.
    #[error("both are in the same band, whose tasks do not evict each other")]
    SameBand,
}

/// Why an observation changed nothing.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ObservationRefused {
    /// There is no such task, or this is not its current incarnation.
    #[error("{0} is not the current incarnation of a task")]
    NotPresent(InstanceId),
    /// The task is on no machine.
    #[error("{instance} is {stage} and on no machine")]
    NotPlaced {
        /// The instance.
        instance: InstanceId,
        /// Its stage.
        stage: Stage,
    },
    /// The diagram has no such transition from the task's stage.
    #[error("{instance}: {refused}")]
    NotAStep {
        /// The instance.
        instance: InstanceId,
        /// The rejected transition.
        refused: NotAStep,
    },
    /// The task is on another machine.
    #[error("{instance} is placed on machine {placed}, not on {reporting}")]
    Elsewhere {
        /// The instance.
        instance: InstanceId,
        /// The machine it is placed on.
        placed: MachineId,
        /// The machine that reported it.
        reporting: MachineId,
    },
    /// It was already known, or precedes the start.
    #[error("{0}: nothing new")]
    NothingNew(InstanceId),
}
