//! What an operation gives: its outcome and its events.

use model::{InstanceId, MachineId, TaskId};
use thiserror::Error;

use crate::lifecycle::{NotAStep, Stage};
use crate::unschedulable::UnschedulableReason;
use crate::{Actor, Event, Rejection, Reply};

/// What [`crate::Cell::apply`] gives back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Applied {
    /// The answer.
    pub outcome: Outcome,
    /// Who caused it.
    pub by: Actor,
    /// What happened, in order.
    pub events: Vec<Event>,
    /// The machines whose set of desired instances has changed: each needs a new order. One may
    /// be named more than once.
    pub reordered: Vec<MachineId>,
}

/// The answer to an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Nobody waits for an answer.
    Done,
    /// To a client, or to a machine that enrols or renews its certificate.
    Request(Result<Reply, Rejection>),
    /// To a scheduler, one for each of its assignments.
    Assigned(Vec<Result<(), AssignmentRefused>>),
    /// To a machine: of its observations, by their position, those that were refused.
    Observed(Vec<(usize, ObservationRefused)>),
}

/// Why an assignment was refused. The task is pending still, and the next pass considers it again.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum AssignmentRefused {
    /// There is no such task.
    #[error("there is no task {0}")]
    NoSuchTask(TaskId),
    /// The proposal was made for an earlier life, or the task does not wait to be placed.
    #[error("task {0} is not pending in that generation")]
    NotPending(TaskId),
    /// It may not be placed yet.
    #[error("task {0} waits until its next try")]
    NotYet(TaskId),
    /// There is no such machine.
    #[error("there is no machine {0}")]
    NoSuchMachine(MachineId),
    /// It does not fit there, or no longer.
    #[error("it does not fit on machine {0}: {1}")]
    DoesNotFit(MachineId, UnschedulableReason),
    /// The ports are not as many as it asks for, not free, or not the machine's.
    #[error("the ports {0:?} cannot be given to it")]
    Ports(Vec<u16>),
    /// It cannot run in the alloc that is named, or in none.
    #[error("{0}")]
    Alloc(NoAlloc),
    /// What was to leave for it may not be made to.
    #[error("{victim} cannot be evicted for it: {why}")]
    Victim {
        /// What was to leave.
        victim: InstanceId,
        /// Why it stays.
        why: NoVictim,
    },
}

/// Why a task cannot be placed in an alloc.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum NoAlloc {
    /// Its job runs in no alloc set.
    #[error("its job runs in no alloc set, and an alloc is named")]
    RunsInNone,
    /// Its job runs in an alloc set.
    #[error("its job runs in an alloc set, and no alloc is named")]
    NotNamed,
    /// The alloc is of another set than its job runs in.
    #[error("the alloc is not of the alloc set that its job runs in")]
    OfAnotherSet,
    /// The alloc is not on that machine, or is being stopped.
    #[error("the alloc is not on that machine, or is being stopped")]
    NotThere,
}

/// Why an instance cannot be evicted for another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum NoVictim {
    /// It is not placed on that machine, or is leaving already.
    #[error("it is not running there, or is being stopped already")]
    NotThere,
    /// It runs in an alloc, or would have to leave one: no room of the machine comes of that, and of
    /// an alloc nothing is taken from those in it.
    #[error("it runs in an alloc, whose room is the alloc's")]
    InAlloc,
    /// Its priority is not lower.
    #[error("its priority is not lower")]
    NotLower,
    /// No production task is evicted for another, and no monitoring task either.
    #[error("both are in the same band, whose tasks do not evict each other")]
    SameBand,
}

/// Why something that a machine reported changed nothing.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ObservationRefused {
    /// There is no such task, or that is not its present life.
    #[error("{0} is not the present life of a task")]
    NotPresent(InstanceId),
    /// The task is on no machine.
    #[error("{instance} is {stage}, and on no machine")]
    NotPlaced {
        /// Which.
        instance: InstanceId,
        /// Where it is in its life.
        stage: Stage,
    },
    /// The task's life does not end so from where it is.
    #[error("{instance}: {refused}")]
    NotAStep {
        /// Which.
        instance: InstanceId,
        /// The step that there is not.
        refused: NotAStep,
    },
    /// The task is on another machine.
    #[error("{instance} is placed on machine {placed}, and not on {reporting}")]
    Elsewhere {
        /// Which.
        instance: InstanceId,
        /// Where it is.
        placed: MachineId,
        /// Who reported it.
        reporting: MachineId,
    },
    /// It was known already, or comes before the start.
    #[error("{0}: nothing new")]
    NothingNew(InstanceId),
}
