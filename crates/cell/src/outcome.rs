//! What an operation gave: an answer or a refusal, and events.

use model::{CollectionId, MachineId, MachineName, SessionId, TaskId, UserName};
use thiserror::Error;

use crate::Event;
use crate::feasibility::Misfit;

/// What [`crate::Cell::apply`] gives back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Applied {
    /// The answer.
    pub outcome: Outcome,
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
    /// To a client.
    Request(Result<Reply, Rejection>),
    /// To a scheduler, one for each of its assignments.
    Assigned(Vec<Result<(), AssignmentRefused>>),
}

/// A request that was done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// The session is open.
    Session(SessionId),
    /// The job is admitted.
    Submitted {
        /// Its id.
        collection: CollectionId,
        /// Whether it was there before, with the same description.
        unchanged: bool,
    },
    /// The tasks are dead, or dying where they run.
    Killed {
        /// How many tasks this request ended; those that were dead before do not count.
        tasks: u32,
    },
    /// The machine is known.
    MachineAdded(MachineId),
}

/// A request that was refused. It has changed nothing.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Rejection {
    /// The cell has no name yet.
    #[error("the cell is not founded yet")]
    NotFounded,
    /// The session was never opened, or has been closed to make room for others.
    #[error(
        "session {0} is not open (it expired, or never was): open a new one and check what was done before you repeat a request"
    )]
    NoSuchSession(SessionId),
    /// The session is somebody else's.
    #[error("session {session} belongs to {owner}, not to {by}")]
    ForeignSession {
        /// The session.
        session: SessionId,
        /// Whose it is.
        owner: UserName,
        /// Who used it.
        by: UserName,
    },
    /// The request is so old that its answer has been dropped.
    #[error(
        "request {sequence} is older than the answers kept for its session: look at the state to see whether it was done"
    )]
    AnswerForgotten {
        /// The request's number.
        sequence: u64,
    },
    /// The description is not valid.
    #[error("the job description is not valid: {0}")]
    Invalid(String),
    /// A living job has that name, and another description.
    #[error(
        "{owner}/{name} is alive and its description differs: kill it first (bourg kill {owner}/{name})"
    )]
    DiffersFromLiving {
        /// Its owner.
        owner: UserName,
        /// Its name.
        name: model::JobName,
    },
    /// There is no such job.
    #[error("there is no job {0}")]
    NoSuchJob(CollectionId),
    /// The tasks asked for are not in the job.
    #[error("the job has tasks 0 to {last} only")]
    NoSuchTask {
        /// The last index there is.
        last: u32,
    },
    /// Only somebody else may do that.
    #[error("{by} may not {what}: {who} may")]
    NotAllowed {
        /// Who asked.
        by: UserName,
        /// For what.
        what: String,
        /// Who may.
        who: String,
    },
    /// The cell is full of something.
    #[error("the cell has {has} {what}, and at most {most}")]
    Full {
        /// Of what.
        what: &'static str,
        /// How many it has.
        has: u64,
        /// How many it may have.
        most: u64,
    },
    /// Another machine answers at that address.
    #[error("machine {0} already has that address")]
    AddressTaken(MachineName),
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
    DoesNotFit(MachineId, Misfit),
    /// The ports are not as many as it asks for, not free, or not the machine's.
    #[error("the ports {0:?} cannot be given to it")]
    Ports(Vec<u16>),
}
