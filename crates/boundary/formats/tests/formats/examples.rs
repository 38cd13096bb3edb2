//! Examples of everything: the source of the golden files and of the tests of rejections.

mod controllers;
mod enrolment;
pub(crate) mod event;
pub(crate) mod image;
mod locks;
mod machine;
mod moves;
mod packages;
pub(crate) mod rejections;
mod replicas;
mod secrets;
mod services;
mod volumes;

use std::collections::{BTreeMap, BTreeSet};
use std::str::FromStr;
use std::sync::Arc;

use cell::{
    AddMachine, AddUser, Assignment, Certificate, ControlUpdate, DrainMachine, EndSaver, ExecEnd,
    ForgetJob, Grant, GrantQuota, Kill, MeterQuota, Mutation, Observation, Op, Oversell,
    RecordBackup, RecordExec, RemoveMachine, RequestId, Reservation, ResizeJob, RestartJob,
    ResumeRescheduling, RevokeQuota, RevokeUser, SetAttributes, SetCapability, SetLogs,
    SetNoticeMax, SetPacking, SetPlatform, SetQueuePolicy, SetQueueWeight, SetReclamation,
    UndrainMachine, UpdateAction, UpdateJob, UseCapability,
};
use model::{
    Appclass, Band, Bytes, Capability, CollectionId, Dimension, Enabled, End, FinalUsage,
    GcuFactor, Generation, GrantId, InstanceId, KernelFeature, Level, LogIndex, MachineId,
    MachineReport, MilliCores, NameError, NoticeDelivery, PackingPolicy, PoorestUser, PortRange,
    QueueSettings, Reclamation, Resources, SchedulerName, SchedulingClass, Serial, SessionId,
    ShareWeights, Shortage, ShortageState, Span, StartLatency, StartPart, TaskIndex, TaskSelection,
    Time, UserName, Version,
};
use spec::{
    Autoscale, BatchPolicy, Constraint, CpuRam, DisruptionBudget, HealthCheck, JobReference,
    JobSpec, Kind, LogPolicy, LogSettings, Maximum, MetricsPage, OnFailure, OutputPolicy, Probe,
    Relation, RestartPolicy, RestartWhen, Saver, TaskOverride, TaskSpec, UpdatePolicy,
};

pub(crate) use machine::{held_ports, saving};

pub(crate) fn name<N: FromStr<Err = NameError>>(text: &str) -> N {
    text.parse().expect("a name")
}

fn words<const N: usize>(words: [(&str, &str); N]) -> BTreeMap<String, String> {
    words.map(|(key, value)| (key.to_owned(), value.to_owned())).into()
}

fn resources(cpu: u64, ram: u64, disk: u64, rate: u64) -> Resources {
    let (cpu, ram) = (MilliCores(cpu), Bytes(ram));
    Resources { cpu, ram, disk: Bytes(disk), disk_rate: Bytes(rate) }
}

fn weights() -> ShareWeights {
    ShareWeights::default().with(Dimension::Ram, 2_500).expect("a weight")
}

fn queue_settings() -> QueueSettings {
    QueueSettings {
        on: true,
        poorest: PoorestUser::Skipped,
        half_life: Some(Span::from_secs(86_400)),
        assumed_runtime: Span::from_secs(600),
    }
}

fn factor(milli: u32) -> GcuFactor {
    GcuFactor::from_milli(milli).expect("a factor")
}

/// One constraint of each relation, the last of them soft.
fn constraints() -> Vec<Constraint> {
    let constraint = |relation: Relation| {
        let value = match relation {
            relation if relation.is_numeric() => "6",
            relation if relation.has_value() => "x86-64",
            _ => "",
        };
        Constraint {
            attribute: if relation.is_numeric() { "kernel" } else { "platform" }.to_owned(),
            relation,
            value: value.to_owned(),
            hard: relation != Relation::NotPresent,
        }
    };
    Relation::ALL.map(constraint).into()
}

fn health_check(port: &str, path: &str) -> HealthCheck {
    HealthCheck {
        probe: Probe::Http { port: name(port), path: path.to_owned() },
        interval: Span::from_secs(1),
        timeout: Span::from_millis(1_500),
        start_grace: Span(30_000_001),
        failures_max: 3,
        successes_min: 2,
    }
}

/// A volume by its name, and one by its labels.
pub(crate) fn volume_requests() -> Vec<spec::VolumeRequest> {
    let data = spec::VolumeRequest {
        of: spec::VolumeSelector::Named(name("data")),
        path: "/data".parse().expect("a path"),
        read_only: false,
        elsewhere_after: Some(Span::from_secs(3_600)),
    };
    let labelled = spec::VolumeRequest {
        of: spec::VolumeSelector::Labelled(words([("ssd", "yes")])),
        path: "/fast".parse().expect("a path"),
        read_only: true,
        elsewhere_after: None,
    };
    vec![data, labelled]
}

/// A job with a value in every field.
pub(crate) fn full_job() -> JobSpec {
    let task = TaskSpec {
        network: spec::Network::Host,
        cmd: vec!["serve".to_owned(), "--port=${port.http}".to_owned()],
        image: Some("web@1.27-alpine".parse().expect("a package")),
        packages: ["app@3", "ana/python@3.12"].map(|it| it.parse().expect("a package")).into(),
        env: words([("GREETING", "hello"), ("SHARD", "${task.index}")]),
        files: [(
            "/etc/app.conf".to_owned(),
            spec::TaskFile {
                content: spec::FileContent::Text("listen ${port.http}".into()),
                mode: spec::FileMode::default(),
            },
        )]
        .into(),
        secrets: [("/etc/tls.key".to_owned(), name("tls-key"))].into(),
        secret_env: [("PASSWORD".to_owned(), name("db-password"))].into(),
        on_change: spec::OnChange::Nothing,
        limit: resources(250, 64 << 20, 1 << 30, 10_000_000),
        cores: spec::Cores::Shared,
        cpu_slack: true,
        processes: 512,
        ports: BTreeSet::from([name("admin")]),
        static_ports: [(name("https"), 443)].into(),
        health_check: Some(health_check("http", "/healthz")),
        readiness: Some(health_check("http", "/ready")),
        notice: Span::from_secs(10),
        constraints: constraints(),
        kernel_features: BTreeSet::new(),
        api: false,
        memory_slack: false,
        saver: None,
        logs: LogPolicy { keep: Some(Span::from_secs(604_800)), max: Some(Bytes(256 << 20)) },
        volumes: volume_requests(),
        outputs: OutputPolicy {
            paths: ["out", "result.txt"].map(|path| path.parse().expect("a path")).into(),
            keep: Some(Span::from_secs(3_600)),
            package: Some(name("words")),
        },
        scratch: Some(Bytes(16 << 20)),
    };
    let change = TaskOverride {
        cmd: Some(vec!["serve".to_owned(), "--canary".to_owned()]),
        env: words([("GREETING", "hallo")]),
        limit: Some(resources(500, 128 << 20, 0, 0)),
        processes: Some(1_024),
        ports: Some(BTreeSet::from([name("debug"), name("http")])),
        health_check: Some(HealthCheck::of(Probe::Exec {
            cmd: vec!["check".to_owned(), "${port.canary}".to_owned()],
        })),
        notice: Some(Span::from_millis(500)),
        constraints: Some(constraints().split_off(6)),
        labels: words([("tier", "canary")]),
    };
    // An absent list and an empty one are different.
    let empty = TaskOverride {
        ports: Some(BTreeSet::new()),
        constraints: Some(Vec::new()),
        ..TaskOverride::default()
    };
    JobSpec {
        sizing: spec::Sizing::Number,
        kind: Kind::default(),
        name: name("web"),
        priority: Band::Production.usual(),
        appclass: Appclass::LatencySensitive,
        scheduling_class: SchedulingClass::new(3).expect("a class"),
        labels: words([("team", "search")]),
        tasks: 8,
        task,
        overrides: [(TaskIndex(6), empty), (TaskIndex(7), change)].into(),
        max_per_machine: None,
        max_per_switch: None,
        restart: RestartPolicy {
            when: RestartWhen::Always,
            failures_max: Some(0),
            delay: Span::ZERO,
            delay_max: Span::from_secs(300),
            reset_after: Span::from_secs(600),
        },
        preemption_notice_max: None,
        estimation: true,
        autoscale: Autoscale::Constrained {
            min: CpuRam { cpu: MilliCores(50), ram: Bytes(16 << 20) },
            max: CpuRam { cpu: MilliCores(2_000), ram: Bytes(1 << 30) },
        },
        own_limit: None,
        disruptions: DisruptionBudget { at_once: Some(0), per_hour: Some(20) },
        update: update_policy(),
        after: ["ben/extract", "load:ended"].map(|one| one.parse().expect("a job")).into(),
        parent: Some(reference("fleet")),
        metrics: Some(MetricsPage::on(name("http"))),
        batch: BatchPolicy {
            gang: false,
            at_once: Some(32),
            max_runtime: Some(Span::from_secs(3_600)),
            expected_runtime: Some(Span::from_secs(600)),
            requeue: true,
        },
        scheduler: Some(name("batch")),
    }
}

/// Nothing in it is the default.
pub(crate) fn update_policy() -> UpdatePolicy {
    UpdatePolicy {
        batch: Some(2),
        healthy_for: Span::from_secs(30),
        healthy_within: Span::from_secs(90),
        wait: Span::from_millis(1_500),
        disruptions: Some(0),
        on_failure: OnFailure::Pause,
        close_after: Span::ZERO,
    }
}

fn reference(text: &str) -> JobReference {
    text.parse().expect("a job")
}

pub(crate) fn instance(index: u32) -> InstanceId {
    let (collection, generation) = (CollectionId(1), Generation(2));
    InstanceId { collection, index: TaskIndex(index), generation }
}

pub(crate) fn shortages() -> [Shortage; 2] {
    [
        Shortage { dimension: Dimension::Ram, state: ShortageState::Persists },
        Shortage { dimension: Dimension::Cpu, state: ShortageState::Eased },
    ]
}

fn machine_report() -> MachineReport {
    MachineReport {
        task_network: None,
        capacity: resources(64_000, 256 << 30, 1 << 40, 0),
        ports: PortRange { first: 31_000, last: 31_255 },
        attributes: words([("kernel", "6.1"), ("platform", "x86-64")]),
        held_ports: Vec::new(),
        saving: Vec::new(),
        shortage: None,
        not_ready: None,
        volumes: vec![model::VolumeFill {
            volume: "data".parse().expect("a name"),
            used: Bytes(3 << 30),
            size: Bytes(10 << 30),
            is_part: true,
            fault: None,
        }],
    }
}

/// A task's end that was added after the golden file of the other ends.
pub(crate) fn broke_rule() -> End {
    End::BrokeRule { reason: "it held port 31000, which it was not given".to_owned() }
}

/// Another one.
pub(crate) fn out_of_resources() -> End {
    End::OutOfResources { reason: "it used 90 MiB, its limit is 64 MiB".to_owned() }
}

/// Two grants, one of them with an end.
fn grants() -> (Grant, Grant) {
    let ending = Grant {
        id: GrantId(1),
        user: name("ana"),
        band: Band::Production,
        amount: resources(2_000, 4 << 30, 0, 0),
        from: Time(5),
        until: Some(Time(50)),
        by: name("root"),
    };
    let (id, band, until) = (GrantId(3), Band::BestEffortBatch, None);
    let lasting = Grant { id, band, until, ..ending.clone() };
    (ending, lasting)
}

fn ends() -> Vec<End> {
    let reason = "no such program".to_owned();
    vec![
        End::Exited { code: 0 },
        End::Exited { code: 255 },
        End::Signalled { signal: 9 },
        End::OutOfMemory { limit: Bytes(64 << 20), peak: Bytes(65 << 20) },
        End::NotStarted { reason: reason.clone() },
        End::Unhealthy { reason: reason.clone() },
        End::OverRuntime { most: Span::from_secs(3_600) },
        End::Stopped,
        End::Lost { reason },
    ]
}

fn requests() -> Vec<Mutation> {
    let range = (TaskIndex(0), TaskIndex(4));
    let kill =
        |tasks| Mutation::Kill(Kill { owner: name("ana"), job: name("web"), tasks, now: false });
    let changes = [("rack", Some("r1")), ("note", Some("")), ("switch", None)];
    let changes = changes.map(|(name, value)| (name.to_owned(), value.map(str::to_owned)));
    vec![
        Mutation::Submit(Arc::new(full_job())),
        kill(TaskSelection::All),
        kill(TaskSelection::Some(vec![range, (TaskIndex(7), TaskIndex(7))])),
        Mutation::ForgetJob(ForgetJob { owner: name("ana"), job: name("web") }),
        Mutation::AddMachine(AddMachine { name: name("m1"), address: "10.0.0.1:4711".to_owned() }),
        Mutation::DrainMachine(DrainMachine {
            machine: name("m1"),
            reason: "a new kernel".to_owned(),
            deadline: Some(Time(5)),
            force: true,
        }),
        Mutation::UpdateJob(UpdateJob {
            owner: name("ana"),
            spec: Arc::new(full_job()),
            tasks: TaskSelection::Some(vec![range]),
            policy: Some(update_policy()),
            expected: Some(Version(3)),
        }),
        Mutation::ResizeJob(ResizeJob {
            owner: name("ana"),
            job: name("web"),
            tasks: 12,
            expected: Some(Version(0)),
        }),
        Mutation::RestartJob(RestartJob {
            owner: name("ana"),
            job: name("web"),
            tasks: TaskSelection::All,
            failed: true,
            batch: Some(2),
        }),
        moves::move_task(),
        moves::set_limits(),
        control(UpdateAction::Pause, None),
        control(UpdateAction::Resume, Some(Version(4))),
        control(UpdateAction::Undo, None),
        control(UpdateAction::Close, None),
        Mutation::UndrainMachine(UndrainMachine { machine: name("m1") }),
        Mutation::EndSaver(EndSaver { machine: name("m1"), instance: instance(2) }),
        Mutation::RemoveMachine(RemoveMachine { machine: name("m1"), force: true }),
        Mutation::SetAttributes(SetAttributes { machine: name("m1"), changes: changes.into() }),
        Mutation::SetPlatform(SetPlatform { platform: "x86-64".to_owned(), factor: factor(1_250) }),
        Mutation::SetLogs(SetLogs(log_settings())),
        Mutation::SetReclamation(SetReclamation(Reclamation::Baseline)),
        Mutation::SetPacking(SetPacking(PackingPolicy::BestFit)),
        Mutation::SetNoticeMax(SetNoticeMax(Span::from_secs(60))),
        Mutation::Kill(Kill {
            owner: name("ana"),
            job: name("web"),
            tasks: TaskSelection::All,
            now: true,
        }),
    ]
}

/// Nothing in it is the default.
pub(crate) fn log_settings() -> LogSettings {
    let (keep, max) = (Span::from_secs(172_800), Bytes(32 << 20));
    LogSettings { keep, max, machine: Some(Bytes(5 << 30)) }
}

fn control(action: UpdateAction, expected: Option<Version>) -> Mutation {
    let (owner, job) = (name("ana"), name("web"));
    let to = expected.filter(|_| action == UpdateAction::Undo);
    Mutation::ControlUpdate(ControlUpdate { owner, job, action, to, expected })
}

fn of_quota() -> Vec<Mutation> {
    let (user, amount): (UserName, _) = (name("ben"), resources(2_000, 4 << 30, 0, 0));
    let (band, capability) = (Band::Production, Capability::AdministerJobs);
    let grant = |from, until| {
        Mutation::GrantQuota(GrantQuota { user: name("ben"), band, amount, from, until })
    };
    vec![
        grant(None, None),
        grant(Some(Time(0)), Some(Time(1_800_000_000_000_000))),
        Mutation::RevokeQuota(RevokeQuota { grant: GrantId(1) }),
        Mutation::Oversell(Oversell { band: Band::Mid, percent: 150 }),
        Mutation::MeterQuota(MeterQuota { on: true }),
        Mutation::MeterQuota(MeterQuota { on: false }),
        Mutation::SetQueuePolicy(SetQueuePolicy(queue_settings())),
        Mutation::SetQueueWeight(SetQueueWeight { user: name("ana"), weights: weights() }),
        Mutation::SetCapability(SetCapability { user: user.clone(), capability, granted: true }),
        Mutation::SetCapability(SetCapability { user, capability, granted: false }),
        Mutation::UseCapability(UseCapability { capability, collection: CollectionId(7) }),
        Mutation::RecordBackup(RecordBackup { index: LogIndex(7) }),
        Mutation::RecordExec(RecordExec {
            instance: instance(2),
            command: "ls -l".to_owned(),
            end: None,
        }),
        Mutation::RecordExec(RecordExec {
            instance: instance(2),
            command: "sleep 1000".to_owned(),
            end: Some(ExecEnd { took: Span::from_secs(7), status: Some(137) }),
        }),
        Mutation::RecordExec(RecordExec {
            instance: instance(2),
            command: "sleep 1000".to_owned(),
            end: Some(ExecEnd { took: Span::from_secs(7), status: None }),
        }),
    ]
}

/// Where the time of a start went.
pub(crate) fn latencies() -> StartLatency {
    let parts = StartPart::ALL.into_iter().zip([1_200, 3, 20_000, 0, 1_500]);
    parts.fold(StartLatency::UNKNOWN, |latency, (part, milliseconds)| {
        latency.with(part, Span::from_millis(milliseconds))
    })
}

/// Each kind of operation at least once.
pub(crate) fn all_ops() -> Vec<Op> {
    let machine = MachineId(3);
    let ended =
        |end| Observation::Ended { instance: instance(0), end, usage: FinalUsage::UNMEASURED };
    let mut observations = vec![
        Observation::started(instance(0)),
        Observation::Started { instance: instance(0), latency: latencies() },
        Observation::Health { instance: instance(0), healthy: true, check: String::new() },
        Observation::Health { instance: instance(0), healthy: false, check: "HTTP 503".to_owned() },
        Observation::Unready { instance: instance(0), check: "HTTP 503".to_owned() },
        Observation::NotHealthyYet {
            instance: instance(0),
            check: "connection refused".to_owned(),
        },
    ];
    observations.extend(ends().into_iter().map(ended));
    let assignment = |index, ports, victims| Assignment {
        address: None,
        instance: instance(index),
        alloc: None,
        machine,
        ports,
        victims,
    };
    let mut ops = vec![
        Op::Nothing,
        Op::Bootstrap { name: name("dev"), administrator: name("ana") },
        Op::OpenSession { user: name("ana") },
        Op::assign(vec![
            assignment(0, vec![31_000, 31_001], vec![]),
            assignment(1, vec![], vec![instance(2), instance(3)]),
        ]),
        Op::Observe { machine, observations },
        Op::DescribeMachine { machine, report: Arc::new(machine_report()) },
        Op::MachineSilent { machine },
        Op::MachineBack { machine },
        Op::Forget { collections: vec![CollectionId(1), CollectionId(300)] },
        Op::RaiseLevel { to: Level(2) },
    ];
    let reserved = |index, amount, newest_sample| {
        let newest_sample: Option<u64> = newest_sample;
        Reservation { instance: instance(index), amount, newest_sample: newest_sample.map(Time) }
    };
    let mut later = vec![Op::Reserve(vec![
        reserved(0, resources(150, 40 << 20, 0, 0), Some(77)),
        reserved(1, Resources::default(), None),
    ])];
    let mut apart = full_job();
    apart.max_per_machine = Some(Maximum { tasks: 1, hard: true });
    apart.max_per_switch = Some(Maximum { tasks: 2, hard: false });
    let id = RequestId { session: SessionId(1), sequence: 2 };
    let request = |mutation| Op::Request { id, by: name("ana"), mutation };
    ops.extend(requests().into_iter().map(request));
    ops.extend(controllers::of_controllers());
    later.extend([
        Op::MachineUnreachable { machine },
        Op::StopRescheduling { silent: 4, of: 9 },
        Op::AllowRescheduling,
        request(Mutation::ResumeRescheduling(ResumeRescheduling)),
    ]);
    later.push(request(Mutation::Submit(Arc::new(apart))));
    let mut room = JobSpec::of(name("room"), Band::Mid.usual(), 2, TaskSpec::of(Vec::new()));
    room.kind = Kind::AllocSet { users: [name("ben"), name("eve")].into() };
    let mut inside = full_job();
    inside.kind = Kind::Job { alloc_set: Some(reference("ana/room")) };
    later.extend([room, inside].map(|job| request(Mutation::Submit(Arc::new(job)))));
    let alloc = Some(instance(7));
    later.push(Op::assign(vec![Assignment { alloc, ..assignment(0, vec![31_000], vec![]) }]));
    later.push(Op::MeterQuota);
    later.push(Op::SwitchQueueOn);
    let enabled = vec![Enabled { job: CollectionId(7), tasks: 3 }];
    later.push(Op::Enable { by: SchedulerName::main(), enabled });
    later.extend(of_quota().into_iter().map(request));
    let mut privileged = full_job();
    privileged.estimation = false;
    privileged.task.kernel_features =
        [KernelFeature::NetBindService, KernelFeature::Perfmon].into();
    later.push(request(Mutation::Submit(Arc::new(privileged))));
    let mut own = full_job();
    (own.task.cores, own.task.cpu_slack) = (spec::Cores::Exclusive, false);
    later.push(request(Mutation::Submit(Arc::new(own))));
    later.push(request(Mutation::AddUser(AddUser {
        user: name("ben"),
        serial: certificate().serial,
        validity: Span::from_secs(90 * 86_400),
    })));
    later.push(request(Mutation::RevokeUser(RevokeUser { user: name("ben") })));
    later.extend(replicas::requests().into_iter().map(request));
    later.extend(replicas::ops());
    let mut asking = full_job();
    asking.task.api = true;
    later.push(request(Mutation::Submit(Arc::new(asking))));
    later.extend(enrolment::requests().into_iter().map(request));
    later.extend(enrolment::ops());
    let report = MachineReport { held_ports: held_ports(), ..machine_report() };
    later.push(Op::DescribeMachine { machine, report: Arc::new(report) });
    for shortage in shortages() {
        let report = MachineReport { shortage: Some(shortage), ..machine_report() };
        later.push(Op::DescribeMachine { machine, report: Arc::new(report) });
    }
    let not_ready = Some("no program can be executed".to_owned());
    let report = MachineReport { not_ready, ..machine_report() };
    later.push(Op::DescribeMachine { machine, report: Arc::new(report) });
    later.push(Op::RelieveMachine { machine, instance: instance(4) });
    let ended = |end, usage| vec![Observation::Ended { instance: instance(0), end, usage }];
    let observations = ended(broke_rule(), FinalUsage::UNMEASURED);
    later.push(Op::Observe { machine, observations });
    for usage in usages() {
        let observations = ended(End::Exited { code: 0 }, usage);
        later.push(Op::Observe { machine, observations });
    }
    let mut saved = full_job();
    saved.preemption_notice_max = Some(Span::from_secs(5));
    saved.task.outputs = OutputPolicy::default();
    saved.task.saver = Some(Saver::of(vec!["save".to_owned(), "${task.index}".to_owned()]));
    later.push(request(Mutation::Submit(Arc::new(saved))));
    let report = MachineReport { saving: saving(), ..machine_report() };
    later.push(Op::DescribeMachine { machine, report: Arc::new(report) });
    later.extend(locks::mutations().into_iter().map(request));
    later.extend(services::mutations().into_iter().map(request));
    later.extend(packages::mutations().into_iter().map(request));
    later.push(packages::outputs());
    later.extend(secrets::mutations().into_iter().map(request));
    let reader = name("m1");
    later.push(Op::ReadSecrets { machine: reader, instance: secrets::instance() });
    later.extend(volumes::mutations().into_iter().map(request));
    let mut slack = full_job();
    slack.task.memory_slack = true;
    later.push(request(Mutation::Submit(Arc::new(slack))));
    let observations = ended(out_of_resources(), FinalUsage::UNMEASURED);
    later.push(Op::Observe { machine, observations });
    ops.extend(later);
    ops
}

/// Usage of an instance: everything that can be measured, and a single measurement.
pub(crate) fn usages() -> [FinalUsage; 6] {
    let (cpu_time, memory_peak) = (Some(Span(210_000)), Some(Bytes(52 << 20)));
    [
        FinalUsage { cpu_time, memory_peak, notice: None },
        FinalUsage { cpu_time, memory_peak: None, notice: None },
        FinalUsage { cpu_time: None, memory_peak, notice: None },
        FinalUsage { cpu_time, memory_peak, notice: Some(NoticeDelivery::Full) },
        FinalUsage { cpu_time: None, memory_peak, notice: Some(NoticeDelivery::Partial) },
        FinalUsage { notice: Some(NoticeDelivery::NotGiven), ..FinalUsage::UNMEASURED },
    ]
}

/// A certificate that the cell issued.
pub(crate) fn certificate() -> Certificate {
    let serial = Serial::from_bytes(&[0x2a, 0, 7]).expect("short enough");
    Certificate { serial, issued: Time(90), expires: Time(7_776_000_000_090) }
}

/// A new kind of operation does not compile until it has a name here, and then needs an example.
pub(crate) fn kind(op: &Op) -> &'static str {
    match op {
        Op::Nothing => "nothing",
        Op::Bootstrap { .. } => "found",
        Op::OpenSession { .. } => "open session",
        Op::Request { mutation, .. } => match mutation {
            Mutation::Submit(_) => "submit",
            Mutation::UpdateJob(_) => "update job",
            Mutation::ResizeJob(_) => "resize job",
            Mutation::RestartJob(_) => "restart job",
            Mutation::SetLimits(_) => "set limits",
            Mutation::MoveTask(_) => "move task",
            Mutation::ControlUpdate(_) => "control update",
            Mutation::Kill(Kill { now: true, .. }) => "kill now",
            Mutation::Kill(Kill { tasks: TaskSelection::All, .. }) => "kill all",
            Mutation::Kill(Kill { tasks: TaskSelection::Some(_), .. }) => "kill some",
            Mutation::ForgetJob(_) => "forget job",
            Mutation::AddMachine(_) => "add machine",
            Mutation::DrainMachine(_) => "drain machine",
            Mutation::UndrainMachine(_) => "undrain machine",
            Mutation::EndSaver(_) => "end saver",
            Mutation::RemoveMachine(_) => "remove machine",
            Mutation::SetAttributes(_) => "set attributes",
            Mutation::SetVolume(_) => "set volume",
            Mutation::RemoveVolume(_) => "remove volume",
            Mutation::ReleaseVolume(_) => "release volume",
            Mutation::AcceptVolume(_) => "accept volume",
            Mutation::SetPlatform(_) => "set platform",
            Mutation::SetLogs(_) => "set logs",
            Mutation::SetReclamation(_) => "set reclamation",
            Mutation::SetPacking(_) => "set packing",
            Mutation::SetNoticeMax(_) => "set notice max",
            Mutation::ResumeRescheduling(ResumeRescheduling) => "resume rescheduling",
            Mutation::AddUser(_) => "add user",
            Mutation::RevokeUser(_) => "revoke user",
            Mutation::GrantQuota(_) => "grant quota",
            Mutation::RevokeQuota(_) => "revoke quota",
            Mutation::Oversell(_) => "oversell",
            Mutation::SetQueuePolicy(_) => "set how the batch queue decides",
            Mutation::SetQueueWeight(_) => "set the weights of a user",
            Mutation::MeterQuota(_) => "say whether quota is metered",
            Mutation::SetCapability(_) => "set capability",
            Mutation::UseCapability(_) => "use capability",
            Mutation::RecordBackup(_) => "record backup",
            Mutation::RecordExec(_) => "record exec",
            Mutation::IssueToken(_) => "issue token",
            Mutation::IssueReplicaToken(_) => "issue replica token",
            Mutation::RevokeMachine(_) => "revoke machine",
            Mutation::AddReplica(_) => "add replica",
            Mutation::RemoveReplica(_) => "remove replica",
            Mutation::OpenLockSession(_) => "open lock session",
            Mutation::RenewLockSession(_) => "renew lock session",
            Mutation::CloseLockSession(_) => "close lock session",
            Mutation::WriteFile(_) => "write file",
            Mutation::DeleteFile(_) => "delete file",
            Mutation::AcquireLock(_) => "acquire lock",
            Mutation::ReleaseLock(_) => "release lock",
            Mutation::SetService(_) => "set service",
            Mutation::DeleteService(_) => "delete service",
            Mutation::SetPackage(_) => "set package",
            Mutation::DeletePackage(_) => "delete package",
            Mutation::SetSecret(_) => "set secret",
            Mutation::DeleteSecret(_) => "delete secret",
            Mutation::ResealSecret(_) => "reseal secret",
        },
        Op::Assign { .. } => "assign",
        Op::Observe { .. } => "observe",
        Op::DescribeMachine { .. } => "describe machine",
        Op::MachineSilent { .. } => "machine silent",
        Op::MachineBack { .. } => "machine back",
        Op::Forget { .. } => "forget",
        Op::RaiseLevel { .. } => "raise level",
        Op::MachineUnreachable { .. } => "machine unreachable",
        Op::StopRescheduling { .. } => "stop rescheduling",
        Op::AllowRescheduling => "allow rescheduling",
        Op::Reserve(_) => "reserve",
        Op::MeterQuota => "meter quota",
        Op::SwitchQueueOn => "switch queue on",
        Op::Enable { .. } => "enable",
        Op::Enrol { .. } => "enrol",
        Op::JoinReplica { .. } => "join replica",
        Op::RenewMachine { .. } => "renew machine",
        Op::StepUpdate { .. } => "step update",
        Op::EvictDraining { .. } => "evict draining",
        Op::RelieveMachine { .. } => "relieve machine",
        Op::SendElsewhere { .. } => "send elsewhere",
        Op::TellInputs { .. } => "tell inputs",
        Op::ExpireDrain { .. } => "expire drain",
        Op::ReadSecrets { .. } => "read secrets",
        Op::AddOutputs { .. } => "add outputs",
        Op::ExpireLockSessions { .. } => "expire lock sessions",
        Op::StartReplacement { .. } => "start replacement",
        Op::RemoveReplacements { .. } => "remove replacements",
        Op::ChangeMember { .. } => "change member",
        Op::DescribeReplica { .. } => "describe replica",
    }
}
