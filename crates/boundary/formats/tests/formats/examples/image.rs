//! An image with every kind of object, in each of its states.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use cell::crashes::{Crash, CrashSeen};
use cell::{
    Act, Changing, Death, Drain, EvictionCause, ExpiringQuota, GrantProblem, Health, Image, Job,
    JobParts, JobState, KillReason, LastBackup, LastIncarnation, Machine, MachineState, Metering,
    MoveReason, Notices, Oversold, PastVersion, PendingCause, Phase, Placement, Rejection, Reply,
    Rescheduling, RunsAfter, Session, Shortfall, SkipReason, StopReason, Submission, Task,
    TaskState, Update, UpdateAction, UpdateFailure, UpdateHindrance, UpdateState, User, VersionEnd,
};
use model::{
    Band, Bytes, Capability, CollectionId, Dimension, End, FinalUsage, Generation, GrantId, Level,
    LockSessionId, LogIndex, MachineId, MachineReport, MilliCores, NoticeDelivery, NoticeReason,
    PackingPolicy, Reclamation, ReplicaId, SessionId, Span, StartLatency, StartPart, TaskId,
    TaskIndex, TaskSelection, Time, UserName, Version,
};
use spec::{Autoscale, CpuRam, FieldChange, JobSpec, Kind, Predecessor, TaskSpec};

use super::{
    broke_rule, certificate, ends, enrolment, factor, full_job, grants, held_ports, instance,
    locks, machine_report, name, packages, reference, replicas, resources, saving, secrets,
    services, update_policy, volumes, words,
};

pub(crate) fn full_image() -> Image {
    let mut jobs = vec![running(), finished(), failed(), killed(), queued(), pending()];
    jobs.extend(updated());
    let session = |user, answers| {
        Arc::new(Session { user: name(user), used: LogIndex(7), answers, forgotten: 1 })
    };
    let sessions = vec![
        (SessionId(1), session("ana", (2..).zip(replies()).collect())),
        (SessionId(2), session("ben", (2..).zip(rejections()).collect())),
        (SessionId(4), session("ben", BTreeMap::new())),
    ];
    Image {
        name: Some(name("dev")),
        level: Level(1),
        administrators: vec![name("ana"), name("root")],
        platforms: vec![("arm64".to_owned(), factor(1)), ("x86-64".to_owned(), factor(1_250))],
        rescheduling: Rescheduling::Allowed,
        notices: Notices::default(),
        logs: spec::LogSettings::default(),
        notice_max: cell::bounds::NOTICE_MAX_DEFAULT,
        reclamation: Reclamation::default(),
        packing: PackingPolicy::default(),
        bootstrapped: None,
        last_backup: None,
        users: Vec::new(),
        metering: Metering::default(),
        queue: model::QueueSettings::default(),
        share_weights: Vec::new(),
        runtimes: Vec::new(),
        capabilities: Vec::new(),
        replicas: Vec::new(),
        tokens: Vec::new(),
        revoked_machines: Vec::new(),
        index: LogIndex(9),
        time: Time(100),
        last_collection: CollectionId(30),
        last_machine: MachineId(5),
        last_session: SessionId(6),
        last_grant: GrantId(0),
        last_replica: ReplicaId(1),
        jobs: jobs.into_iter().map(Arc::new).collect(),
        machines: machines().into_iter().map(Arc::new).collect(),
        sessions,
        grants: Vec::new(),
        last_lock_session: LockSessionId(0),
        lock_sessions: Vec::new(),
        files: Vec::new(),
        files_changed: LogIndex(0),
        services: Vec::new(),
        packages: packages::of_jobs(),
        secrets: secrets::of_jobs(),
    }
}

/// Adds users, quota, replicas, an unreachable machine, the rejection because of it, and stopped
/// rescheduling.
pub(crate) fn image_of_an_owned_cell() -> Image {
    let mut image = full_image();
    image.users = users();
    image.logs = super::log_settings();
    image.notice_max = Span::from_secs(60);
    image.queue = super::queue_settings();
    image.share_weights = vec![(name("ana"), super::weights())];
    image.runtimes = vec![Arc::new(cell::KeptRuntimes {
        user: name("ana"),
        name: name("load"),
        last: Time(90),
        spans: vec![Span(7), Span(3)],
    })];
    image.reclamation = Reclamation::Aggressive;
    image.packing = PackingPolicy::BestFit;
    image.bootstrapped = Some(Time(1));
    image.last_backup = Some(LastBackup { index: LogIndex(6), at: Time(90), by: name("ben") });
    image.rescheduling = Rescheduling::Stopped { since: Time(99), silent: 4, of: 9 };
    let mut unreachable = Machine::new(MachineId(4), name("m4"), "m4:1".into());
    unreachable.state = MachineState::Unreachable { since: Time(98) };
    unreachable.report = Arc::new(machine_report());
    image.machines.push(Arc::new(unreachable));
    image.jobs.extend([room(), in_the_room()].map(Arc::new));
    image.jobs.sort_by_key(|job| job.id);
    let (alloc, asked, used) = (instance(1).task(), 100, 200);
    let too_small = |dimension| Rejection::AllocTooSmall { alloc, dimension, asked, used };
    let mut answers: BTreeMap<u64, Result<Reply, Rejection>> =
        [(2, Err(Rejection::NotStopped)), (3, Ok(Reply::Done))].into();
    answers.insert(4, Err(Rejection::NotAnAllocSet { user: name("ana"), name: name("web") }));
    answers.extend((5..).zip(Dimension::ALL.map(too_small).map(Err)));
    let answers_of_users = [
        Ok(Reply::UserAdded(certificate())),
        Ok(Reply::UserRevoked { known: true }),
        Err(Rejection::RevokesOneself(name("ana"))),
        Err(Rejection::LastAdministrator(name("root"))),
        Err(Rejection::StaticPortOfMachines {
            port: name("https"),
            number: 20_443,
            range: model::PortRange { first: 20_000, last: 20_999 },
        }),
        Err(Rejection::Validity(Span(59_000_000))),
    ];
    answers.extend((9..).zip(answers_of_users));
    answers.extend((14..).zip(replicas::answers()));
    let next = answers.last_key_value().map_or(1, |(last, _)| last + 1);
    answers.extend((next..).zip(locks::answers()));
    let next = answers.last_key_value().map_or(1, |(last, _)| last + 1);
    answers.extend((next..).zip(services::answers()));
    replicas::put_into(&mut image);
    locks::put_into(&mut image);
    services::put_into(&mut image);
    packages::put_into(&mut image);
    let session = Session { user: name("ana"), used: LogIndex(8), answers, forgotten: 0 };
    image.sessions.push((SessionId(5), Arc::new(session)));
    let answers = packages::answers().into_iter().chain(secrets::answers());
    let answers = (1..).zip(answers).collect();
    let session = Session { user: name("ana"), used: LogIndex(8), answers, forgotten: 0 };
    image.sessions.insert(2, (SessionId(3), Arc::new(session)));
    with_quota(&mut image);
    image
}

fn with_quota(image: &mut Image) {
    image.metering = Metering { on: true, mid_percent: 150, ..Metering::default() };
    let held = [Capability::AdministerJobs, Capability::NoEstimation];
    image.capabilities = vec![(name("ben"), held.into())];
    let (ending, lasting) = grants();
    (image.last_grant, image.grants) = (GrantId(4), vec![Arc::new(ending), Arc::new(lasting)]);
    let amount = |cpu| resources(cpu, 1 << 30, 0, 0);
    let shortfall = Shortfall {
        user: name("ana"),
        band: Band::Production,
        job: name("api"),
        asked: amount(2_000),
        had: amount(1_000),
        others: amount(1_500),
        granted: amount(2_000),
        tasks: 4,
        tasks_that_pass: 1,
        bands_that_pass: vec![Band::Mid],
    };
    let oversold = Oversold {
        band: Band::Mid,
        asked: amount(9_000),
        left: amount(500),
        capacity: amount(4_000),
        percent: 150,
    };
    let answers = [
        (1, Err(Rejection::Quota(Box::new(shortfall)))),
        (2, Err(Rejection::Oversold(Box::new(oversold)))),
        (3, Err(Rejection::NoSuchGrant(GrantId(2)))),
        (4, Err(Rejection::InvalidGrant(GrantProblem::NotCharged))),
        (5, Ok(Reply::Granted(GrantId(3)))),
    ];
    let session =
        Session { user: name("root"), used: LogIndex(9), answers: answers.into(), forgotten: 0 };
    image.sessions.push((SessionId(6), Arc::new(session)));
}

/// The same, after a user resumed rescheduling.
pub(crate) fn resumed_image() -> Image {
    let rescheduling = Rescheduling::Resumed { since: Time(100), by: name("ana") };
    Image { rescheduling, ..image_of_an_owned_cell() }
}

/// Adds machines with certificates, and tokens; ports used by something that they are not allocated
/// to, the rejection because of that, and a task that violated a rule.
pub(crate) fn image_of_an_enrolled_cell() -> Image {
    let mut image = image_of_an_owned_cell();
    enrolment::put_into(&mut image);
    image.notices.add(NoticeReason::Preempted, NoticeDelivery::Full, 7);
    image.notices.add(NoticeReason::Killed, NoticeDelivery::NotGiven, 2);
    let machine = image.machines.iter_mut().find(|machine| machine.id == MachineId(4));
    let report = &mut Arc::make_mut(machine.expect("it is there")).report;
    *report =
        Arc::new(MachineReport { held_ports: held_ports(), saving: saving(), ..machine_report() });
    let machine = image.machines.iter_mut().find(|machine| machine.id == MachineId(3));
    let crashes = &mut Arc::make_mut(machine.expect("it is there")).crashes;
    crashes.last_mut().expect("one").user = name("ben");
    let job = image.jobs.iter_mut().find(|job| job.id == CollectionId(3)).expect("it is there");
    let (at, death) = (Time(4), Death::Failed);
    let broken = task(Some(broke_rule()), TaskState::Dead { at, death: death.clone() });
    let tasks = vec![broken, dead(Death::Finished)];
    *job = Arc::new(Job::from_parts(self::job(3, "batch", JobState::Dead { at, death }, tasks)));
    let refused = Rejection::CannotControlUpdate {
        owner: name("ana"),
        name: name("web"),
        action: UpdateAction::Resume,
        why: UpdateHindrance::NotPaused,
    };
    let session = Session {
        user: name("ana"),
        used: LogIndex(9),
        answers: [(1, Err(refused))].into(),
        forgotten: 0,
    };
    image.last_session = SessionId(7);
    image.sessions.push((SessionId(7), Arc::new(session)));
    image
}

/// A user who was added, one who was added again after a revocation, and one who was only revoked.
fn users() -> Vec<(UserName, Arc<User>)> {
    let act = |at, by| Some(Act { at: Time(at), by: name(by) });
    let user = |text, added, revoked, certificates| {
        (name(text), Arc::new(User { added, certificates, revoked }))
    };
    vec![
        user("ben", act(90, "ana"), None, vec![certificate(), certificate()]),
        user("cleo", act(80, "ana"), act(85, "root"), vec![certificate()]),
        user("dan", None, act(86, "root"), Vec::new()),
    ]
}

fn machines() -> Vec<Machine> {
    let machine = |id, text: &str, state| {
        let mut machine = Machine::new(MachineId(id), name(text), format!("{text}:1").into());
        machine.state = state;
        machine.next_port = 31_002;
        machine
    };
    let mut down = machine(2, "m2", MachineState::Down { since: Time(9) });
    down.report = Arc::new(machine_report());
    down.volumes = Arc::new(volumes::of_a_machine());
    let mut up = machine(3, "m3", MachineState::Up);
    up.report = Arc::new(machine_report());
    up.saver_ends = Arc::new([(instance(3), name("ana"))].into());
    up.operator_attributes = Arc::new(words([("platform", "arm64"), ("rack", "r1")]));
    up.drain = Some(Arc::new(Drain {
        since: Time(8),
        by: name("root"),
        reason: "a kernel".to_owned(),
        deadline: Some(Time(9)),
        force: true,
        expired: Some(Time(10)),
    }));
    let crash = |index, at| {
        let task = TaskId { collection: CollectionId(1), index: TaskIndex(index) };
        CrashSeen { task, user: name("ana"), at: Time(at) }
    };
    up.crashes = vec![crash(5, 50), crash(0, 60)];
    vec![machine(1, "m1", MachineState::Joining), down, up]
}

fn job(id: u64, called: &str, state: JobState, tasks: Vec<Task>) -> JobParts {
    let mut spec = full_job();
    spec.name = name(called);
    spec.tasks = u32::try_from(tasks.len()).expect("few tasks");
    spec.overrides.retain(|index, _| index.0 < spec.tasks);
    (spec.after, spec.parent) = (BTreeSet::new(), None);
    // Its tasks are not where a volume of theirs is.
    spec.task.volumes.clear();
    JobParts {
        machine_tasks: None,
        id: CollectionId(id),
        owner: name("ana"),
        spec: Arc::new(spec),
        version: Version(1),
        last_version: Version(1),
        others: Vec::new(),
        update: None,
        history: Vec::new(),
        disrupted: Vec::new(),
        submitted: Time(id),
        state,
        after: Vec::new(),
        waits_for: Vec::new(),
        follows: Vec::new(),
        parent: None,
        alloc_set: None,
        tasks,
    }
}

/// A job that names others, already resolved.
fn related(mut parts: JobParts, after: &[(&str, u64)], parent: Option<(&str, u64)>) -> JobParts {
    let spec = Arc::make_mut(&mut parts.spec);
    spec.after = after.iter().map(|(text, _)| text.parse().expect("a job")).collect();
    spec.batch.at_once = spec.batch.at_once.filter(|_| !spec.follows_task_by_task());
    spec.parent = parent.map(|(text, _)| reference(text));
    let runs_after = |(text, id): &(&str, u64)| {
        let Predecessor { when, each_task, .. } = text.parse().expect("a job");
        RunsAfter { job: CollectionId(*id), when, each_task }
    };
    parts.after = after.iter().map(runs_after).collect();
    parts.parent = parent.map(|(_, id)| CollectionId(id));
    parts
}

fn task(end: Option<End>, state: TaskState) -> Task {
    let (generation, machine) = (Generation(1), MachineId(3));
    Task {
        generation: Generation(2),
        version: Version(1),
        failures: 3,
        finishes: 2,
        ends_in_row: 4,
        last_incarnation: end.map(|end| {
            let (usage, version) = (FinalUsage::UNMEASURED, Version(1));
            Arc::new(LastIncarnation { generation, version, machine, alloc: None, end, usage })
        }),
        crashes: None,
        reserved: None,
        state,
    }
}

fn dead(death: Death) -> Task {
    task(Some(End::Exited { code: 0 }), TaskState::Dead { at: Time(4), death })
}

/// A new cause does not compile until it is here, and then needs an example.
fn eviction_causes() -> Vec<EvictionCause> {
    let next = |cause: &EvictionCause| match cause {
        EvictionCause::Preempted { .. } => Some(EvictionCause::OutOfResources),
        EvictionCause::OutOfResources => Some(EvictionCause::MachineFailure),
        EvictionCause::MachineFailure => Some(EvictionCause::MachineShutdown),
        EvictionCause::MachineShutdown => Some(EvictionCause::Updated),
        EvictionCause::Updated => {
            Some(EvictionCause::Moved { to: MachineId(3), why: MoveReason::Empties })
        }
        EvictionCause::Moved { to, why: MoveReason::Empties } => {
            let why = MoveReason::Fits { task: instance(4) };
            Some(EvictionCause::Moved { to: *to, why })
        }
        EvictionCause::Moved { .. } => Some(EvictionCause::Other),
        EvictionCause::Other => Some(EvictionCause::GangRestarts { task: TaskIndex(3) }),
        EvictionCause::GangRestarts { .. } => None,
    };
    let first = EvictionCause::Preempted { by: instance(4) };
    std::iter::successors(Some(first), next).collect()
}

fn running() -> Job {
    let pending = |cause| TaskState::Pending { since: Time(5), not_before: Time(6), cause };
    let placed = |phase, port: u16, stop: Option<StopReason>| {
        let (machine, ports) = (MachineId(3), Arc::from([port, port + 1]));
        let stop = stop.map(Arc::new);
        let check = matches!(phase, Phase::Started { health: Health::Unhealthy, .. });
        let check = check.then(|| "HTTP 503".into());
        let since = Time(7);
        // Its times are too close for parts of a millisecond.
        let started = matches!(phase, Phase::Started { .. });
        let parts = StartPart::ALL.into_iter();
        let known = parts.filter(|part| started || *part <= StartPart::Decide);
        let latency = known.fold(StartLatency::UNKNOWN, |known, part| known.with(part, Span::ZERO));
        TaskState::Running(Placement {
            address: None,
            machine,
            alloc: None,
            ports,
            since,
            phase,
            inputs: check.is_some().then(|| {
                let secrets = vec![2, 1];
                Arc::new(cell::Inputs { secrets, names: Vec::new(), told: 2, done: 1 })
            }),
            check,
            stop,
            latency,
            lost_starts: u32::from(port) % 3,
        })
    };
    let started = |health| Phase::Started { at: Time(8), health, since: Time(9) };
    let kill = StopReason::Kill(KillReason::User(name("ana")));
    let evict = StopReason::Evict(EvictionCause::Preempted { by: instance(4) });
    let mut states = vec![
        pending(PendingCause::Submitted),
        placed(Phase::Starting, 31_000, None),
        placed(started(Health::Unknown), 31_010, Some(kill)),
        placed(started(Health::Healthy), 31_020, Some(evict)),
        placed(started(Health::Unhealthy), 31_030, None),
        pending(PendingCause::Failed),
        pending(PendingCause::Lost),
        pending(PendingCause::StartLost { tries: 4 }),
        pending(PendingCause::Finished),
        TaskState::Dead { at: Time(9), death: Death::Killed(KillReason::User(name("ana"))) },
    ];
    states.extend(eviction_causes().into_iter().map(|cause| pending(PendingCause::Evicted(cause))));
    let ends = ends().into_iter().map(Some).chain(std::iter::repeat(None));
    let mut tasks: Vec<Task> = ends.zip(states).map(|(end, state)| task(end, state)).collect();
    let crash = |machine, times, last| Crash { machine: MachineId(machine), times, last };
    tasks[5].crashes = Some(Arc::new(vec![crash(4, 1, Time(40)), crash(3, 7, Time(50))]));
    let mut parts = job(1, "web", JobState::Running, tasks);
    // They are on one machine, where a port has one task.
    Arc::make_mut(&mut parts.spec).task.static_ports.clear();
    Job::from_parts(related(parts, &[("ben/extract", 2)], Some(("fleet", 6))))
}

/// Jobs in each state of an update: an old description is kept, a task has it, others are changing
/// or skipped.
fn updated() -> Vec<Job> {
    let (at, by) = (Time(30), Some(name("ben")));
    let failed = |end| Some(UpdateFailure { instance: instance(0), end });
    let states = [
        (UpdateState::Rolling, None),
        (UpdateState::Paused { at, by: by.clone() }, None),
        (UpdateState::Paused { at, by: None }, failed(None)),
        (UpdateState::Succeeded { at }, None),
        (UpdateState::Undoing { since: at, by }, None),
        (UpdateState::Undone { at, by: None }, failed(Some(End::Exited { code: 2 }))),
        (UpdateState::Closed { at }, None),
    ];
    (20..).zip(states).map(|(id, (state, failure))| one_updated(id, state, failure)).collect()
}

fn one_updated(id: u64, state: UpdateState, failure: Option<UpdateFailure>) -> Job {
    let cause = PendingCause::Evicted(EvictionCause::Updated);
    let waits = || task(None, TaskState::Pending { since: Time(5), not_before: Time(6), cause });
    let removed = TaskState::Dead { at: Time(5), death: Death::Killed(KillReason::Removed) };
    let tasks = vec![waits(), waits(), waits(), task(None, removed)];
    let mut parts = job(id, &format!("updated-{id}"), JobState::Running, tasks);
    Arc::make_mut(&mut parts.spec).tasks = 3;
    let undone = matches!(state, UpdateState::Undoing { .. } | UpdateState::Undone { .. });
    let (from, to) = (Version(1), Version(3));
    parts.version = if undone { from } else { to };
    parts.last_version = to;
    parts.others = vec![(Version(2), Arc::clone(&parts.spec))];
    parts.others.push((if undone { to } else { from }, Arc::clone(&parts.spec)));
    // After an undo no task has a later version.
    let second = if matches!(state, UpdateState::Undone { .. }) { 1 } else { 2 };
    for (task, version) in parts.tasks.iter_mut().zip([1, second, 1, 1]) {
        task.version = Version(version);
    }
    parts.disrupted = vec![Time(3), Time(4)];
    let past = |(version, end): (u32, VersionEnd)| PastVersion {
        version: Version(version),
        since: Time(2),
        by: name("ana"),
        end,
    };
    // Of one description, as the others.
    let ends = VersionEnd::ALL.map(|end| (2, end));
    parts.history = ends.into_iter().map(past).collect();
    let changing = Changing { since: Time(29), generation: Generation(2) };
    parts.update = Some(Arc::new(Update {
        from,
        to,
        tasks: TaskSelection::Some(vec![(TaskIndex(0), TaskIndex(2))]),
        policy: update_policy(),
        restart: true,
        opened: Time(28),
        by: name("ana"),
        state,
        changing: [(TaskIndex(0), changing)].into(),
        relapsed: [TaskIndex(2)].into(),
        disruptions: 1,
        skipped: [(TaskIndex(1), SkipReason::Budget), (TaskIndex(2), SkipReason::Disruptions)]
            .into(),
        last_passed: Some(Time(28)),
        failure,
    }));
    Job::from_parts(parts)
}

fn finished() -> Job {
    let state = JobState::Dead { at: Time(4), death: Death::Finished };
    let parts = job(2, "extract", state, vec![dead(Death::Finished)]);
    Job::from_parts(JobParts { owner: name("ben"), ..parts })
}

fn failed() -> Job {
    let state = JobState::Dead { at: Time(4), death: Death::Failed };
    Job::from_parts(job(3, "batch", state, vec![dead(Death::Failed), dead(Death::Finished)]))
}

fn killed() -> Job {
    let parent = Death::Killed(KillReason::ParentEnded(CollectionId(3)));
    let predecessor = Death::Killed(KillReason::PredecessorEnded(CollectionId(3)));
    let state = JobState::Dead { at: Time(4), death: predecessor.clone() };
    Job::from_parts(job(4, "batch", state, vec![dead(parent), dead(predecessor)]))
}

fn queued() -> Job {
    let tasks = vec![
        task(None, TaskState::Queued { since: Time(5) }),
        dead(Death::Killed(KillReason::User(name("root")))),
    ];
    let parts = job(5, "load", JobState::Queued, tasks);
    let parts = related(
        parts,
        &[("web", 1), ("ben/extract:ended", 2), ("fleet:failed:each-task", 6)],
        None,
    );
    let follows = vec![CollectionId(6)];
    Job::from_parts(JobParts { waits_for: vec![CollectionId(1)], follows, ..parts })
}

fn pending() -> Job {
    let cause = PendingCause::Submitted;
    let state = TaskState::Pending { since: Time(6), not_before: Time(6), cause };
    Job::from_parts(job(6, "fleet", JobState::Pending, vec![task(None, state)]))
}

/// An alloc set with a placed alloc, and an evicted one.
fn room() -> Job {
    let (at, health, since) = (Time(8), Health::Healthy, Time(8));
    let (machine, phase) = (MachineId(3), Phase::Started { at, health, since });
    let (ports, since, stop) = (Arc::default(), Time(7), None);
    let (check, latency, lost_starts) = (None, StartLatency::UNKNOWN, 0);
    let placed = Placement {
        address: None,
        machine,
        alloc: None,
        ports,
        since,
        phase,
        check,
        stop,
        latency,
        lost_starts,
        inputs: None,
    };
    let cause = PendingCause::Evicted(EvictionCause::MachineShutdown);
    let waits = TaskState::Pending { since: Time(5), not_before: Time(6), cause };
    let tasks = vec![task(None, TaskState::Running(placed)), task(Some(End::Stopped), waits)];
    let mut parts = job(7, "room", JobState::Running, tasks);
    let spec = Arc::make_mut(&mut parts.spec);
    *spec = JobSpec {
        kind: Kind::AllocSet { users: [name("ben"), name("eve")].into() },
        ..JobSpec::of(name("room"), spec.priority, 2, TaskSpec::of(Vec::new()))
    };
    Job::from_parts(parts)
}

/// A job that runs there, a task in each alloc.
fn in_the_room() -> Job {
    let alloc = TaskId { collection: CollectionId(7), index: TaskIndex(0) };
    let (machine, ports, since, stop) = (MachineId(3), Arc::default(), Time(7), None);
    let alloc = Some(Arc::new(alloc.generation(Generation(2))));
    let (phase, check) = (Phase::Starting, None);
    let (latency, lost_starts) = (StartLatency::UNKNOWN, 4);
    let placed = Placement {
        address: None,
        machine,
        alloc,
        ports,
        since,
        phase,
        check,
        stop,
        latency,
        lost_starts,
        inputs: None,
    };
    let cause = PendingCause::Evicted(EvictionCause::MachineShutdown);
    let waits = TaskState::Pending { since: Time(5), not_before: Time(6), cause };
    let mut left = task(None, waits);
    let (generation, alloc) = (Generation(1), Some(TaskIndex(1)));
    let (end, usage, version) = (End::Stopped, super::usages()[0], Version(1));
    left.last_incarnation =
        Some(Arc::new(LastIncarnation { generation, version, machine, alloc, end, usage }));
    let ended = dead(Death::Killed(KillReason::AllocSetEnded(CollectionId(7))));
    let tasks = vec![task(None, TaskState::Running(placed)), left, ended];
    let mut parts = job(8, "saver", JobState::Running, tasks);
    let spec = Arc::make_mut(&mut parts.spec);
    let task = TaskSpec::of(vec!["save".to_owned()]);
    *spec = JobSpec {
        kind: Kind::Job { alloc_set: Some(reference("ana/room")) },
        autoscale: Autoscale::Full,
        own_limit: Some(CpuRam { cpu: MilliCores(500), ram: Bytes(256 << 20) }),
        ..JobSpec::of(name("saver"), spec.priority, 3, task)
    };
    parts.alloc_set = Some(CollectionId(7));
    Job::from_parts(JobParts { owner: name("ben"), ..parts })
}

fn replies() -> Vec<Result<Reply, Rejection>> {
    let change =
        FieldChange { field: "ram".to_owned(), old: "1GiB".to_owned(), new: "2GiB".to_owned() };
    let changes: Arc<[FieldChange]> = [change].into();
    let submitted = |submission| Reply::Submitted {
        collection: CollectionId(1),
        submission,
        version: Version(1),
        changes: Arc::default(),
        expiring_quota: None,
    };
    let updated = |version, unchanged, changes| Reply::Updated {
        collection: CollectionId(1),
        version: Version(version),
        unchanged,
        changes,
    };
    let expiring = ExpiringQuota {
        band: Band::Production,
        at: Time(9),
        above: resources(1_000, 1 << 30, 0, 0),
    };
    let replies = [
        Reply::Session(SessionId(9)),
        submitted(Submission::New),
        submitted(Submission::Unchanged),
        Reply::Submitted {
            collection: CollectionId(1),
            submission: Submission::Updated,
            version: Version(2),
            changes: Arc::clone(&changes),
            expiring_quota: Some(expiring),
        },
        Reply::Killed { collection: CollectionId(9), tasks: 3 },
        Reply::Restarted { collection: CollectionId(9), started: 3, version: None },
        Reply::Restarted { collection: CollectionId(9), started: 0, version: Some(Version(2)) },
        Reply::MachineAdded(MachineId(3)),
        Reply::Drained { tasks: 12 },
        updated(2, false, changes),
        updated(1, true, Arc::default()),
        Reply::Done,
    ];
    replies.map(Ok).into()
}

/// Some rejections: [`image_of_rejections`] has all of them.
fn rejections() -> Vec<Result<Reply, Rejection>> {
    let alloc = instance(1).task();
    let small = |dimension| Rejection::AllocTooSmall { alloc, dimension, asked: 1, used: 2 };
    let first = super::rejections::of_requests().into_iter().take(20);
    first.chain(Dimension::ALL.map(small)).map(Err).collect()
}

/// A cell with nothing but sessions that keep every rejection.
pub(crate) fn image_of_rejections() -> Image {
    use super::rejections::{not_allowed, of_bounds, of_jobs, of_requests};
    let all = [of_requests(), of_jobs(), of_bounds(), not_allowed()].concat();
    let sessions = (1..).zip(all.chunks(cell::bounds::ANSWERS_MAX)).map(|(id, rejections)| {
        let answers = (2..).zip(rejections.iter().cloned().map(Err)).collect();
        let session = Session { user: name("ana"), used: LogIndex(7), answers, forgotten: 1 };
        (SessionId(id), Arc::new(session))
    });
    let (jobs, machines) = (Vec::new(), Vec::new());
    let sessions: Vec<_> = sessions.collect();
    let last_session = SessionId(sessions.len() as u64);
    Image { jobs, machines, sessions, last_session, ..full_image() }
}
