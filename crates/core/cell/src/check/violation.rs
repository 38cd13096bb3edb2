//! The violations that the checks report.

use std::net::Ipv4Addr;

use event::Subject;
use model::{
    Band, CollectionId, FilePath, Generation, GrantId, InstanceId, JobName, Level, LockSessionId,
    LogIndex, MachineId, MachineName, PackageId, ReplicaId, Resources, SecretName, Serial,
    SessionId, StartLatency, TaskId, Time, UserName, Version, VolumeName,
};
use thiserror::Error;

use super::counted::Counted;
use super::every_machine::EveryMachineViolation;
use super::gang::HalfGang;
use super::queue::QueueViolation;
use super::update::VersionViolation;
use crate::feasibility::Sums;
use crate::lifecycle::{NotAStep, Stage};
use crate::{Counts, JobState, Total};

/// A violated invariant of a cell.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Violation {
    /// An object has an id that was never assigned, or is stored under another id.
    #[error(
        "{what} {id} is greater than the last id assigned ({last}), or stored under another id"
    )]
    IdNotGiven {
        /// What kind of object.
        what: &'static str,
        /// Its id.
        id: u64,
        /// The last id assigned.
        last: u64,
    },
    /// A stored count differs from a recount.
    #[error("{of}: {kept} {what} stored, {counted} counted")]
    Count {
        /// What the count belongs to.
        of: Counted,
        /// What is counted.
        what: &'static str,
        /// The stored count.
        kept: u64,
        /// The recount.
        counted: u64,
    },
    /// A job's state does not match its tasks: it is dead exactly when all of them are, and has
    /// been placed if one of them is.
    #[error(
        "job {job} is {state:?} with {} tasks queued, {} pending and {} running",
        .counts.queued, .counts.pending, .counts.running
    )]
    JobState {
        /// The job.
        job: CollectionId,
        /// Its state.
        state: JobState,
        /// Its tasks by stage.
        counts: Counts,
    },
    /// A job's description would not be admitted.
    #[error("job {job}: {problem}")]
    Description {
        /// The job.
        job: CollectionId,
        /// What is wrong with it.
        problem: String,
    },
    /// A task has no incarnation.
    #[error("task {0} is in generation 0")]
    NoGeneration(TaskId),
    /// A job ends with itself, or runs after itself.
    #[error("job {0} is its own parent, or runs after itself")]
    OwnParent(CollectionId),
    /// A job waits for one that is dead or gone, or that its description does not name.
    #[error("job {job} waits for job {other}, which is not alive or not named in its description")]
    WaitsInVain {
        /// The job.
        job: CollectionId,
        /// The job it waits for.
        other: CollectionId,
    },
    /// A task is queued, and nothing that it waits for is alive.
    #[error("task {0} is queued, but nothing that it waits for is alive")]
    QueuedInVain(TaskId),
    /// A task is alive although the parent of its job is dead.
    #[error("task {task} is alive, but the parent of its job, job {parent}, is dead")]
    OutlivesParent {
        /// The task.
        task: TaskId,
        /// The parent.
        parent: CollectionId,
    },
    /// A job has a higher priority than the allocs in which it runs.
    #[error("job {job} has a higher priority than alloc set {set}, in which it runs")]
    PriorityInside {
        /// The job.
        job: CollectionId,
        /// The alloc set.
        set: CollectionId,
    },
    /// An index of relations between jobs does not match the jobs.
    #[error("the index and the jobs disagree on whether job {job} {what} job {other}")]
    Relation {
        /// The relation.
        what: &'static str,
        /// The first job.
        job: CollectionId,
        /// The second job.
        other: CollectionId,
    },
    /// The index of machine addresses does not match the machines.
    #[error("{address} and machine {machine} do not refer to each other")]
    MachineAddress {
        /// The address.
        address: String,
        /// The machine.
        machine: MachineId,
    },
    /// A machine's attributes or factor do not match what was reported and set.
    #[error("machine {0} has other attributes or another factor than were reported and set")]
    Attributes(MachineId),
    /// The cell is at a level that does not exist.
    #[error("the cell is at level {0}")]
    Level(Level),
    /// A machine is down, and tasks are placed on it.
    #[error("machine {machine} is down but has {tasks} tasks")]
    TasksOnDownMachine {
        /// The machine.
        machine: MachineId,
        /// Number of tasks.
        tasks: usize,
    },
    /// A certificate ends before it begins, or is stored although it was revoked.
    #[error(
        "certificate {serial} of {user} ends before it begins, or is from before {user} was revoked"
    )]
    Certificate {
        /// The user.
        user: UserName,
        /// Its serial number.
        serial: Serial,
    },
    /// A user record without an addition or revocation.
    #[error("user {0} has a record but was neither added nor revoked")]
    NothingSaid(UserName),
    /// Rescheduling was stopped for more silent machines than there were machines.
    #[error("rescheduling was stopped for {silent} of {of} machines")]
    MoreSilentThanThere {
        /// Number of silent machines.
        silent: u32,
        /// Out of how many.
        of: u32,
    },
    /// A file or its lock is wrong.
    #[error("file {path} {why}")]
    File {
        /// Its path.
        path: FilePath,
        /// What is wrong.
        why: &'static str,
    },
    /// A lock session has a lease out of bounds, or was renewed in the future.
    #[error("lock session {0} has a wrong lease")]
    LockSession(LockSessionId),
    /// The counts and indexes of files and lock sessions disagree with them.
    #[error("the counts and indexes of files and lock sessions are wrong")]
    LockIndexes,
    /// A service is wrong.
    #[error("service {owner}/{name} {why}")]
    Service {
        /// Its owner.
        owner: UserName,
        /// Its name.
        name: JobName,
        /// What is wrong.
        why: &'static str,
    },
    /// The index of services by user disagrees with the services.
    #[error("the index of services by user is wrong")]
    ServiceIndex,
    /// A volume of a machine is wrong.
    #[error("the volume {volume} of machine {machine} {why}")]
    Volume {
        /// The machine.
        machine: MachineName,
        /// The volume.
        volume: VolumeName,
        /// What is wrong.
        why: &'static str,
    },
    /// A job with one task on every machine is wrong.
    #[error(transparent)]
    EveryMachine(#[from] EveryMachineViolation),
    /// The index of claims of volumes disagrees with the volumes.
    #[error("the index of claims of volumes is wrong")]
    ClaimIndex,
    /// A package is wrong.
    #[error("package {id} {why}")]
    Package {
        /// Which.
        id: PackageId,
        /// What is wrong.
        why: &'static str,
    },
    /// A secret is wrong.
    #[error("secret {owner}/{name} {why}")]
    Secret {
        /// Its owner.
        owner: UserName,
        /// Its name.
        name: SecretName,
        /// What is wrong.
        why: &'static str,
    },
    /// What a task has read does not fit its description.
    #[error("what {instance} has read of secrets and names does not fit its description")]
    Inputs {
        /// The task.
        instance: InstanceId,
    },
    /// The counts of secrets by user disagree with the secrets.
    #[error("the counts of secrets by user are wrong")]
    SecretCounts,
    /// The counts of packages by user disagree with the packages.
    #[error("the counts of packages by user are wrong")]
    PackageCounts,
    /// The settings for the output of tasks are out of bounds.
    #[error("the settings for logs: {0}")]
    LogSettings(spec::LogSettingsProblem),
    /// A decision exceeded a machine's capacity.
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
        /// The sum of their amounts.
        taken: Resources,
        /// The machine's capacity.
        capacity: Resources,
    },
    /// A task was placed on a machine that accepts none, or that does not match it.
    #[error("{instance} was placed on machine {machine}, which {why}")]
    Misplaced {
        /// What was placed.
        instance: InstanceId,
        /// The machine.
        machine: MachineId,
        /// The reason.
        why: String,
    },
    /// What is known of where the time of a task's start went cannot be.
    #[error("{instance} started with {latency}, but {why}")]
    StartLatency {
        /// The task.
        instance: InstanceId,
        /// What is known.
        latency: StartLatency,
        /// Why it cannot be.
        why: &'static str,
    },
    /// A task runs in an alloc that does not exist, or that is not in its job's alloc set.
    #[error("{instance} runs in {}, which {why}", .alloc.map_or("no alloc".to_owned(), |id| format!("alloc {id}")))]
    Alloc {
        /// The task.
        instance: InstanceId,
        /// The alloc, if any.
        alloc: Option<InstanceId>,
        /// The reason.
        why: &'static str,
    },
    /// The tasks in an alloc exceed its limit.
    #[error("the tasks in alloc {alloc} take {taken} of {limit}")]
    AllocOverfull {
        /// The alloc.
        alloc: InstanceId,
        /// The sum of their limits.
        taken: Resources,
        /// The limit of the alloc.
        limit: Resources,
    },
    /// A machine's record of alloc usage does not match its tasks.
    #[error("machine {0} has a wrong record of what is used of its allocs")]
    AllocUse(MachineId),
    /// A machine's record of who has whole cores does not match its tasks.
    #[error("machine {0} has a wrong record of which tasks have whole cores")]
    WholeCores(MachineId),
    /// A task was evicted for one that may not evict it.
    #[error("{victim} was evicted for {by}, which may not evict it")]
    Victim {
        /// The evicted task.
        victim: InstanceId,
        /// The task it was evicted for.
        by: InstanceId,
    },
    /// An incarnation ended, but its task is neither pending again nor dead, or the event with the
    /// reason is missing.
    #[error("{0} lost its machine without a stated reason")]
    NoReason(InstanceId),
    /// An event is a transition that the life-cycle diagram does not have from that stage.
    #[error("{subject:?}: {refused}")]
    NotAStep {
        /// The subject of the event.
        subject: Subject,
        /// The rejected transition.
        refused: NotAStep,
    },
    /// The events of an operation lead to another stage than the stored one.
    #[error("{subject:?} is {is} by its events, but {kept} in the cell")]
    EventsDisagree {
        /// The subject of the events.
        subject: Subject,
        /// The stage according to the events.
        is: Stage,
        /// The stored stage.
        kept: Stage,
    },
    /// A task's generation did not increase with its new incarnation.
    #[error("task {task} went from generation {before} to {after}")]
    Generation {
        /// The task.
        task: TaskId,
        /// Its generation before.
        before: Generation,
        /// Its generation after.
        after: Generation,
    },
    /// The names of a job's ports do not match its description.
    #[error("job {0} does not have the port names of its description")]
    PortNames(CollectionId),
    /// The list of jobs with pending tasks is wrong about a job.
    #[error("job {job} is listed as pending ({listed}) with {pending} tasks pending")]
    PendingList {
        /// The job.
        job: CollectionId,
        /// Whether it is listed.
        listed: bool,
        /// Number of its pending tasks.
        pending: u64,
    },
    /// The index of job names does not match the jobs.
    #[error("{owner}/{name} and job {job} do not refer to each other")]
    JobName {
        /// The owner.
        owner: UserName,
        /// The name.
        name: JobName,
        /// The job.
        job: CollectionId,
    },
    /// Two live jobs have the same name.
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
    /// The index of machine names does not match the machines.
    #[error("{name} and machine {machine} do not refer to each other")]
    MachineName {
        /// The name.
        name: MachineName,
        /// The machine.
        machine: MachineId,
    },
    /// A task is placed on a machine that does not exist.
    #[error("{instance} is placed on machine {machine}, which does not exist")]
    NoSuchMachine {
        /// The incarnation.
        instance: InstanceId,
        /// The machine.
        machine: MachineId,
    },
    /// A task is placed on a machine that does not list it exactly once.
    #[error("{instance} is placed on machine {machine}, which lists it {times} times")]
    NotListedOnce {
        /// The incarnation.
        instance: InstanceId,
        /// The machine.
        machine: MachineId,
        /// How often it is listed.
        times: usize,
    },
    /// A machine lists an incarnation that is not placed on it.
    #[error("machine {machine} lists {instance}, which is not placed there")]
    ListedInVain {
        /// The machine.
        machine: MachineId,
        /// The listed incarnation.
        instance: InstanceId,
    },
    /// A machine's stored sum is not the sum of its tasks' limits.
    #[error("machine {machine}: {kept} taken, {counted} by its tasks' limits")]
    Taken {
        /// The machine.
        machine: MachineId,
        /// The stored sum.
        kept: Resources,
        /// The recomputed sum.
        counted: Resources,
    },
    /// A machine's stored sums are not those of its tasks.
    #[error("machine {machine}: {kept}, by its tasks {counted}")]
    Sums {
        /// The machine.
        machine: MachineId,
        /// The stored sums.
        kept: Box<Sums>,
        /// The recomputed sums.
        counted: Box<Sums>,
    },
    /// The index of task networks does not match the machines' reports.
    #[error("the index does not say that the task network of machine {0} is its own")]
    TaskNetwork(MachineId),
    /// The index of switches does not match the machines' attributes.
    #[error(
        "the index and the machine disagree on whether machine {machine} is at switch {switch}"
    )]
    Switch {
        /// The machine.
        machine: MachineId,
        /// The switch.
        switch: String,
    },
    /// A machine's stored ports in use are not those of its tasks.
    #[error("machine {machine}: ports {kept:?} taken, {counted:?} by its tasks")]
    PortsTaken {
        /// The machine.
        machine: MachineId,
        /// The stored ports.
        kept: Vec<u16>,
        /// The ports of its tasks.
        counted: Vec<u16>,
    },
    /// A port of a machine was assigned twice.
    #[error("machine {machine} has given port {port} twice")]
    PortTwice {
        /// The machine.
        machine: MachineId,
        /// The port.
        port: u16,
    },
    /// A machine's stored addresses in use are not those of its tasks and allocs.
    #[error("machine {machine}: addresses {kept:?} taken, {counted:?} by its tasks")]
    AddressesTaken {
        /// The machine.
        machine: MachineId,
        /// The stored addresses.
        kept: Vec<Ipv4Addr>,
        /// The addresses of its tasks and allocs.
        counted: Vec<Ipv4Addr>,
    },
    /// An address of a machine was assigned twice.
    #[error("machine {machine} has given address {address} twice")]
    AddressTwice {
        /// The machine.
        machine: MachineId,
        /// The address.
        address: Ipv4Addr,
    },
    /// Two tasks in an alloc have the same port.
    #[error("two tasks in {alloc} have port {port}")]
    AllocPortTwice {
        /// The alloc.
        alloc: InstanceId,
        /// The port.
        port: u16,
    },
    /// A task with a network of its own has no address, or another one has.
    #[error("{instance} has the address {has:?}, against its description")]
    Address {
        /// The incarnation.
        instance: InstanceId,
        /// The address that it has.
        has: Option<Ipv4Addr>,
    },
    /// A task was given an address that its machine does not offer, or another than its alloc's.
    #[error("{instance} was given the address {address}, which is not one of machine {machine}")]
    AddressOutside {
        /// The incarnation.
        instance: InstanceId,
        /// The machine.
        machine: MachineId,
        /// The address.
        address: Ipv4Addr,
    },
    /// A task has another number of ports than it requests.
    #[error("{instance} has {has} ports but requests {asks}")]
    PortCount {
        /// The incarnation.
        instance: InstanceId,
        /// Number of ports it has.
        has: usize,
        /// Number of ports it requests.
        asks: usize,
    },
    /// The index of sessions by last use does not match the sessions.
    #[error("session {session}, last used at {used}, is not in the order of use exactly once")]
    SessionUse {
        /// The session.
        session: SessionId,
        /// The index of its last use, as stored in the session or in the order.
        used: LogIndex,
    },
    /// A user's stored charge is not the sum of the limits of the live tasks.
    #[error("{user} is charged {} in {band}, by the tasks {}", .kept.resources(), .counted.resources())]
    Charged {
        /// The user.
        user: UserName,
        /// The band.
        band: Band,
        /// The stored charge.
        kept: Box<Total>,
        /// The recomputed charge.
        counted: Box<Total>,
    },
    /// A job was admitted beyond what its owner was granted at that time.
    #[error("job {job} was admitted with {} of {user} charged in {band}, and {} granted",
        .charged.resources(), .granted.resources())]
    BeyondQuota {
        /// The job.
        job: CollectionId,
        /// Its owner.
        user: UserName,
        /// Its band.
        band: Band,
        /// The charge including the job.
        charged: Box<Total>,
        /// The granted amount.
        granted: Box<Total>,
    },
    /// A grant is invalid, or missing in its user's index.
    #[error("grant {grant} {why}")]
    Grant {
        /// The grant.
        grant: GrantId,
        /// The reason.
        why: &'static str,
    },
    /// A decision granted more than allowed at a time at which the grant is in effect.
    #[error("with grant {grant} in {band}, {} are granted at {} s, of at most {}",
        .granted.resources(), .at.0 / 1_000_000, .most.resources())]
    BeyondCapacity {
        /// The grant.
        grant: GrantId,
        /// Its band; production and monitoring are counted together.
        band: Band,
        /// The time.
        at: Time,
        /// The amount granted then, including it.
        granted: Box<Total>,
        /// The maximum.
        most: Box<Total>,
    },
    /// The oversell percentage of a band is out of range.
    #[error("{band} is granted up to {percent} %, which is not in 1 to {most} %")]
    OversoldTo {
        /// The band.
        band: Band,
        /// Percent of the cell's capacity.
        percent: u32,
        /// The maximum percentage.
        most: u32,
    },
    /// A user is listed with an empty set of capabilities.
    #[error("{0} is listed with no capability")]
    NoCapability(UserName),
    /// A replica that is not in consensus is marked as leaving.
    #[error("replica {0} is leaving but still waits to join")]
    WaitsToLeave(ReplicaId),
    /// All voters are leaving, or there are none.
    #[error("every voter is leaving or there is none: the cell could not commit anything")]
    NobodyVotes,
    /// One operation changed the role of more than one replica.
    #[error("replicas {0:?} changed their role in consensus at once; only one at a time may")]
    MembersAtOnce(Vec<ReplicaId>),
    /// A join token was used but its machine does not exist, or it expires before it was issued.
    #[error("join token {0} was used by a machine that does not exist, or ends before it begins")]
    Token(Serial),
    /// The index of token expiries does not match the tokens.
    #[error("join token {0} is not in the order of expiry exactly once")]
    TokenExpiry(Serial),
    /// A join token was used for more than one machine's certificate.
    #[error(
        "a machine enrolled with join token {0}, which had been used, or is not recorded as used so"
    )]
    TokenAgain(Serial),
    /// A replica's data directory changed.
    #[error("replica {0} has another data directory than before, or none")]
    DirectoryAgain(ReplicaId),
    /// A machine's certificate could not be accepted.
    #[error(
        "certificate {serial} of machine {machine} ends before it begins, or is from before it was revoked"
    )]
    MachineCertificate {
        /// The machine.
        machine: MachineName,
        /// Its serial number.
        serial: Serial,
    },
    /// A credentials record without a certificate or revocation.
    #[error("machine {0} has a credentials record but was neither certified nor revoked")]
    NoCredentials(MachineName),
    /// A name is recorded as revoked without a machine, but a machine has it or it was never
    /// revoked.
    #[error("{0} is wrongly recorded as a revoked name that no machine has")]
    RevokedName(MachineName),
    /// The list of jobs with an open update is wrong.
    #[error("job {job} has an open update: {open}, and is listed so: {listed}")]
    UpdateList {
        /// The job.
        job: CollectionId,
        /// Whether it is listed.
        listed: bool,
        /// Whether it has an open update.
        open: bool,
    },
    /// The list of machines to be drained is wrong.
    #[error("machine {machine} is listed as draining: {listed}, and the machine says otherwise")]
    DrainList {
        /// The machine.
        machine: MachineId,
        /// Whether it is listed.
        listed: bool,
    },
    /// The description of a live task's version is not stored.
    #[error("{task} has version {version}, whose description is not stored")]
    NoDescription {
        /// The task.
        task: TaskId,
        /// Its version.
        version: Version,
    },
    /// A task is on a version whose update was undone.
    #[error("{task} has version {version}, whose update was undone")]
    NotUndone {
        /// The task.
        task: TaskId,
        /// Its version.
        version: Version,
    },
    /// Of the versions of a job.
    #[error(transparent)]
    Versions(#[from] VersionViolation),
    /// A voluntary disruption took more tasks down than the job's budget allows.
    #[error("{down} tasks of job {job} are down, and its disruption budget allows {most}")]
    BeyondBudget {
        /// The job.
        job: CollectionId,
        /// How many are down.
        down: u32,
        /// The maximum.
        most: u32,
    },
    /// A task was moved that may not be.
    #[error("task {0} was moved, and may not be")]
    MovedUnmovable(InstanceId),
    /// A part of a gang is placed.
    #[error("{0}")]
    HalfGang(HalfGang),
    /// In the batch queue.
    #[error(transparent)]
    Queue(QueueViolation),
    /// Something of the past is later than the cell itself.
    #[error("the {0} is later than the cell's last operation")]
    LaterThanTheCell(&'static str),
    /// A bound is exceeded.
    #[error("{has} {what}, the maximum is {most}")]
    TooMany {
        /// What there is too much of.
        what: &'static str,
        /// How many there are.
        has: usize,
        /// The maximum.
        most: usize,
    },
}
