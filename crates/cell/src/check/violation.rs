//! What can be wrong with a cell.

use model::{
    CollectionId, InstanceId, JobName, LogIndex, MachineId, MachineName, Resources, SessionId,
    UserName,
};
use thiserror::Error;

use crate::JobState;

/// Something in a cell that contradicts the rest of it.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Violation {
    /// An object has an id that was never given, or is kept under another.
    #[error("{what} {id} is beyond the last that was given ({last}), or kept under another id")]
    IdNotGiven {
        /// What kind of object.
        what: &'static str,
        /// Its id.
        id: u64,
        /// The last given.
        last: u64,
    },
    /// A count that is kept is not what is counted.
    #[error("{of}: {kept} {what} kept, {counted} counted")]
    Count {
        /// Whose count.
        of: Counted,
        /// Of what.
        what: &'static str,
        /// The count that is kept.
        kept: u64,
        /// What it should be.
        counted: u64,
    },
    /// A job's state is not that of its tasks: it is dead exactly when all of them are, and has
    /// been placed when one of them is.
    #[error("job {job} is {state:?} with {pending} tasks pending and {running} running")]
    JobState {
        /// The job.
        job: CollectionId,
        /// Its state.
        state: JobState,
        /// How many of its tasks wait to be placed.
        pending: u64,
        /// How many of its tasks have a machine.
        running: u64,
    },
    /// The names of a job's ports are not those of its description.
    #[error("job {0} does not keep the port names of its description")]
    PortNames(CollectionId),
    /// A job is among those with pending tasks and has none, or the other way round.
    #[error("job {job} is listed as pending ({listed}) with {pending} tasks pending")]
    PendingList {
        /// The job.
        job: CollectionId,
        /// Whether it is listed.
        listed: bool,
        /// How many of its tasks wait to be placed.
        pending: u64,
    },
    /// A job is not found by its name, or a name leads to a job that does not have it.
    #[error("{owner}/{name} and job {job} do not lead to each other")]
    JobName {
        /// The owner.
        owner: UserName,
        /// The name.
        name: JobName,
        /// The job.
        job: CollectionId,
    },
    /// Two living jobs have one name.
    #[error("{owner}/{name} is the name of two living jobs, {first} and {second}")]
    TwoLiving {
        /// The owner.
        owner: UserName,
        /// The name.
        name: JobName,
        /// The older job.
        first: CollectionId,
        /// The newer job.
        second: CollectionId,
    },
    /// A machine is not found by its name, or a name leads to a machine that does not have it.
    #[error("{name} and machine {machine} do not lead to each other")]
    MachineName {
        /// The name.
        name: MachineName,
        /// The machine.
        machine: MachineId,
    },
    /// A task is placed on a machine that does not exist.
    #[error("{instance} is placed on machine {machine}, which does not exist")]
    NoSuchMachine {
        /// The task's life.
        instance: InstanceId,
        /// The machine.
        machine: MachineId,
    },
    /// A task is placed on a machine that does not list it, or lists it more than once.
    #[error("{instance} is placed on machine {machine}, which lists it {times} times")]
    NotListedOnce {
        /// The task's life.
        instance: InstanceId,
        /// The machine.
        machine: MachineId,
        /// How often it is listed.
        times: usize,
    },
    /// A machine lists a life that is not placed on it.
    #[error("machine {machine} lists {instance}, which is not placed there")]
    ListedInVain {
        /// The machine.
        machine: MachineId,
        /// What it lists.
        instance: InstanceId,
    },
    /// What a machine says is taken is not the sum of its tasks' limits.
    #[error("machine {machine}: {kept} taken, {counted} by its tasks' limits")]
    Taken {
        /// The machine.
        machine: MachineId,
        /// What it says.
        kept: Resources,
        /// What it should say.
        counted: Resources,
    },
    /// The ports that a machine says are taken are not those of its tasks.
    #[error("machine {machine}: ports {kept:?} taken, {counted:?} by its tasks")]
    PortsTaken {
        /// The machine.
        machine: MachineId,
        /// What it says.
        kept: Vec<u16>,
        /// What it should say.
        counted: Vec<u16>,
    },
    /// A port of a machine was given twice.
    #[error("machine {machine} has given port {port} twice")]
    PortTwice {
        /// The machine.
        machine: MachineId,
        /// The port.
        port: u16,
    },
    /// A task has not as many ports as it asks for.
    #[error("{instance} has {has} ports and asks for {asks}")]
    PortCount {
        /// The task's life.
        instance: InstanceId,
        /// How many it has.
        has: usize,
        /// How many it asks for.
        asks: usize,
    },
    /// A session is not in the order of use, or an entry there leads to no session.
    #[error("session {session}, last used at {used}, is not in the order of use exactly once")]
    SessionUse {
        /// The session.
        session: SessionId,
        /// The moment of its last use, as it or the order says.
        used: LogIndex,
    },
    /// There is more of something than its bound.
    #[error("{has} {what}, at most {most} are kept")]
    TooMany {
        /// Of what.
        what: &'static str,
        /// How many there are.
        has: usize,
        /// How many there may be.
        most: usize,
    },
}

/// Whose count does not agree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counted {
    /// The cell's.
    Cell,
    /// A job's.
    Job(CollectionId),
}

impl std::fmt::Display for Counted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Cell => f.write_str("the cell"),
            Self::Job(id) => write!(f, "job {id}"),
        }
    }
}
