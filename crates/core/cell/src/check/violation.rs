//! What can be wrong with a cell.

use model::{
    Band, CollectionId, Generation, GrantId, InstanceId, JobName, Level, LogIndex, MachineId,
    MachineName, ReplicaId, Resources, Serial, SessionId, TaskId, Time, UserName,
};
use thiserror::Error;

use crate::feasibility::Sums;
use crate::lifecycle::{NotAStep, Stage};
use crate::{Counts, JobState, Subject, Total};

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
    #[error(
        "job {job} is {state:?} with {} tasks queued, {} pending and {} running",
        .counts.queued, .counts.pending, .counts.running
    )]
    JobState {
        /// The job.
        job: CollectionId,
        /// Its state.
        state: JobState,
        /// Where its tasks are.
        counts: Counts,
    },
    /// A job's description is none that would be admitted.
    #[error("job {job}: {problem}")]
    Description {
        /// The job.
        job: CollectionId,
        /// What is wrong with it.
        problem: String,
    },
    /// A task has never begun a life.
    #[error("task {0} is in generation 0")]
    NoGeneration(TaskId),
    /// A job ends with itself, or runs after itself.
    #[error("job {0} is its own parent, or runs after itself")]
    Itself(CollectionId),
    /// A job waits for one that is dead or gone, or that its description does not name.
    #[error("job {job} waits for job {other}, which is not alive or not what it was to run after")]
    WaitsInVain {
        /// The job.
        job: CollectionId,
        /// For whom it waits.
        other: CollectionId,
    },
    /// A task lives on though the parent of its job is dead.
    #[error("task {task} lives on, and the parent of its job, job {parent}, is dead")]
    OutlivesParent {
        /// The task.
        task: TaskId,
        /// The parent.
        parent: CollectionId,
    },
    /// An index of relations between jobs is not that of the jobs.
    #[error("that job {job} {what} job {other} is kept or true, and not both")]
    Relation {
        /// What they are to each other.
        what: &'static str,
        /// The one.
        job: CollectionId,
        /// The other.
        other: CollectionId,
    },
    /// A machine is not found by its address, or an address leads to a machine that does not have it.
    #[error("{address} and machine {machine} do not lead to each other")]
    MachineAddress {
        /// The address.
        address: String,
        /// The machine.
        machine: MachineId,
    },
    /// What is known of a machine is not what was said of it.
    #[error("machine {0} does not keep the attributes and the factor that were said of it")]
    Attributes(MachineId),
    /// The cell is at a level that does not exist.
    #[error("the cell is at level {0}")]
    Level(Level),
    /// A machine is down, and tasks are placed on it.
    #[error("machine {machine} is down and has {tasks} tasks")]
    TasksOnDownMachine {
        /// The machine.
        machine: MachineId,
        /// How many tasks.
        tasks: usize,
    },
    /// A certificate ends before it begins, or is kept though it was revoked.
    #[error(
        "certificate {serial} of {user} ends before it begins, or is from before {user} was revoked"
    )]
    Certificate {
        /// Whose.
        user: UserName,
        /// Which.
        serial: Serial,
    },
    /// A user is kept who was neither added nor revoked.
    #[error("user {0} was neither added nor revoked, and is kept")]
    NothingSaid(UserName),
    /// Rescheduling was stopped as more machines were silent than there were.
    #[error("rescheduling was stopped for {silent} of {of} machines")]
    MoreSilentThanThere {
        /// How many were silent.
        silent: u32,
        /// Of how many.
        of: u32,
    },
    /// A decision took a machine beyond its capacity.
    #[error(
        "{instance} was placed on machine {machine}, whose {whose} tasks then had {taken} of {capacity}"
    )]
    Overcommitted {
        /// What was placed.
        instance: InstanceId,
        /// Where.
        machine: MachineId,
        /// Whose limits or reservations are too much.
        whose: &'static str,
        /// Their sum.
        taken: Resources,
        /// What the machine has.
        capacity: Resources,
    },
    /// A task was placed on a machine that takes none, or that does not match it.
    #[error("{instance} was placed on machine {machine}, which {why}")]
    Misplaced {
        /// What was placed.
        instance: InstanceId,
        /// Where.
        machine: MachineId,
        /// What is wrong with it.
        why: String,
    },
    /// A task runs in an alloc that is not there, or not its job's.
    #[error("{instance} runs in {}, which {why}", .alloc.map_or("no alloc".to_owned(), |id| format!("alloc {id}")))]
    Alloc {
        /// What runs there.
        instance: InstanceId,
        /// In which alloc, where in one.
        alloc: Option<InstanceId>,
        /// What is wrong with it.
        why: &'static str,
    },
    /// The tasks in an alloc take more than it has.
    #[error("the tasks in alloc {alloc} take {taken} of {limit}")]
    AllocOverfull {
        /// The alloc.
        alloc: InstanceId,
        /// What they take.
        taken: Resources,
        /// What it has.
        limit: Resources,
    },
    /// A machine does not keep what the tasks in its allocs take of them.
    #[error("machine {0} does not keep what is taken of its allocs")]
    AllocUse(MachineId),
    /// A task was evicted for one that may not do that.
    #[error("{victim} was evicted for {by}, which may not do that")]
    Victim {
        /// What is to leave.
        victim: InstanceId,
        /// For whom.
        by: InstanceId,
    },
    /// A life ended, and its task is neither pending again nor dead, or without the event that says
    /// why.
    #[error("{0} lost its machine without a stated reason")]
    NoReason(InstanceId),
    /// An event tells a step that the diagram of lives does not have, or not from there.
    #[error("{subject:?}: {refused}")]
    NotAStep {
        /// Whose life.
        subject: Subject,
        /// The step.
        refused: NotAStep,
    },
    /// The events of an operation lead elsewhere than the state does.
    #[error("{subject:?} is {is} by its events, and {kept} in the cell")]
    EventsDisagree {
        /// Whose life.
        subject: Subject,
        /// Where its events lead.
        is: Stage,
        /// Where it is.
        kept: Stage,
    },
    /// A task's generation did not grow with its new life.
    #[error("task {task} went from generation {before} to {after}")]
    Generation {
        /// The task.
        task: TaskId,
        /// Its generation before.
        before: Generation,
        /// Its generation after.
        after: Generation,
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
    /// The sums by which a machine is judged are not those of its tasks.
    #[error("machine {machine}: {kept}, by its tasks {counted}")]
    Sums {
        /// The machine.
        machine: MachineId,
        /// What it says.
        kept: Box<Sums>,
        /// What it should say.
        counted: Box<Sums>,
    },
    /// The machines of a switch are not those that say so.
    #[error("that machine {machine} is of switch {switch} is kept or true, and not both")]
    Switch {
        /// The machine.
        machine: MachineId,
        /// The switch.
        switch: String,
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
    /// What is charged to a user is not the sum of the limits of the tasks that live.
    #[error("{user} is charged {} in {band}, by the tasks {}", .kept.resources(), .counted.resources())]
    Charged {
        /// The user.
        user: UserName,
        /// The band.
        band: Band,
        /// What is kept.
        kept: Box<Total>,
        /// What it should be.
        counted: Box<Total>,
    },
    /// A job was admitted beyond what its owner was granted at that moment.
    #[error("job {job} was admitted with {} of {user} charged in {band}, and {} granted",
        .charged.resources(), .granted.resources())]
    BeyondQuota {
        /// The job.
        job: CollectionId,
        /// Its owner.
        user: UserName,
        /// Its band.
        band: Band,
        /// What is charged with it.
        charged: Box<Total>,
        /// What is granted.
        granted: Box<Total>,
    },
    /// A grant is none that could be made, or is not found by its user.
    #[error("grant {grant} {why}")]
    Grant {
        /// Which.
        grant: GrantId,
        /// What is wrong with it.
        why: &'static str,
    },
    /// A decision granted more than may be, at a moment at which the grant runs.
    #[error("with grant {grant} in {band}, {} are granted at {} s, of at most {}",
        .granted.resources(), .at.0 / 1_000_000, .most.resources())]
    BeyondCapacity {
        /// Which.
        grant: GrantId,
        /// Its band; production and monitoring are judged together.
        band: Band,
        /// The moment.
        at: Time,
        /// What is granted then, with it.
        granted: Box<Total>,
        /// What may be.
        most: Box<Total>,
    },
    /// A band is oversold by what nobody could say.
    #[error("{band} is granted to {percent} %, which is none of 1 to {most} %")]
    OversoldTo {
        /// The band.
        band: Band,
        /// In percent of the cell's capacity.
        percent: u32,
        /// The most that can be said.
        most: u32,
    },
    /// An entry of what users may do says that somebody may nothing.
    #[error("{0} is listed with no capability")]
    NoCapability(UserName),
    /// A replica that is not in consensus waits to leave it.
    #[error("replica {0} is leaving, and waits to join")]
    WaitsToLeave(ReplicaId),
    /// No replica votes and stays.
    #[error("no replica votes and is not leaving: the cell could decide nothing")]
    NobodyVotes,
    /// More than one replica's part in consensus changed by one operation.
    #[error("replicas {0:?} changed their part in consensus at once, and one at a time may")]
    MembersAtOnce(Vec<ReplicaId>),
    /// A join token was used, and its machine is not there; or it expires before it was issued.
    #[error("join token {0} was used by a machine that is not there, or ends before it begins")]
    Token(Serial),
    /// A join token is not found by its expiry, or an expiry leads to none.
    #[error("join token {0} is not in the order of expiry exactly once")]
    TokenExpiry(Serial),
    /// A join token was used for more than one machine's certificate.
    #[error(
        "a machine enrolled with join token {0}, which had been used, or is not kept as used so"
    )]
    TokenAgain(Serial),
    /// A replica has another data directory than before.
    #[error("replica {0} had a data directory, and has another one or none")]
    DirectoryAgain(ReplicaId),
    /// A machine's certificate is none that could be accepted.
    #[error(
        "certificate {serial} of machine {machine} ends before it begins, or is from before it was revoked"
    )]
    MachineCertificate {
        /// Whose.
        machine: MachineName,
        /// Which.
        serial: Serial,
    },
    /// Nothing is said of a machine's certificates, and that is kept.
    #[error("machine {0} was neither certified nor revoked, and that is kept")]
    NoCredentials(MachineName),
    /// A name that no machine has is kept as revoked, and a machine has it or it never was.
    #[error("{0} is kept as a revoked name that no machine has, and is none")]
    RevokedName(MachineName),
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
    /// A band's.
    Band(Band),
    /// A job's.
    Job(CollectionId),
}

impl std::fmt::Display for Counted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Cell => f.write_str("the cell"),
            Self::Band(band) => write!(f, "the {band} band"),
            Self::Job(id) => write!(f, "job {id}"),
        }
    }
}
