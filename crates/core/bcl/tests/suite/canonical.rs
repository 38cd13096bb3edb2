//! The canonical JSON of a description is BCL and evaluates to the same description.

use std::collections::{BTreeMap, BTreeSet};

use model::{
    Appclass, Bytes, JobName, KernelFeature, MilliCores, PackageReference, PortName, Priority,
    Resources, SchedulingClass, Span, TaskIndex, UserName,
};
use proptest::collection::{btree_map, btree_set, vec};
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Map, Value, json};
use spec::{
    Autoscale, Constraint, CpuRam, DisruptionBudget, EndCondition, HealthCheck, JobReference,
    JobSpec, Kind, LogPolicy, Maximum, MetricsPage, OnFailure, OutputPolicy, Predecessor, Probe,
    Relation, RestartPolicy, RestartWhen, Saver, TaskOverride, TaskSpec, UpdatePolicy,
    VolumeRequest, VolumeSelector,
};

use crate::with_files;

fn span(span: Span) -> Value {
    // As protobuf writes durations: 0, 3, 6 or 9 digits after the point.
    let (seconds, micros) = (span.0 / 1_000_000, span.0 % 1_000_000);
    let text = match (micros, micros % 1_000) {
        (0, _) => format!("{seconds}s"),
        (_, 0) => format!("{seconds}.{:03}s", micros / 1_000),
        _ => format!("{seconds}.{micros:06}s"),
    };
    Value::String(text)
}

fn limit(fields: &mut Map<String, Value>, limit: &Resources) {
    let mut long = |name: &str, number: u64| {
        fields.insert(name.to_owned(), Value::String(number.to_string()));
    };
    long("cpuMilli", limit.cpu.0);
    long("ramBytes", limit.ram.0);
    long("diskBytes", limit.disk.0);
    long("diskRateBytes", limit.disk_rate.0);
}

fn constraints_json(constraints: &[Constraint]) -> Value {
    let constraint = |constraint: &Constraint| {
        let relation = constraint.relation.name().replace('-', "_").to_uppercase();
        let mut fields = json!({ "attribute": constraint.attribute, "relation": relation });
        // As in protobuf, empty and false values are omitted.
        if !constraint.value.is_empty() {
            fields["value"] = json!(constraint.value);
        }
        if !constraint.hard {
            fields["soft"] = json!(true);
        }
        fields
    };
    constraints.iter().map(constraint).collect()
}

fn ports_json(ports: &BTreeSet<PortName>) -> Value {
    ports.iter().map(PortName::as_str).collect()
}

fn check_json(check: &HealthCheck) -> Value {
    let mut fields = json!({
        "interval": span(check.interval), "timeout": span(check.timeout),
        "startGrace": span(check.start_grace), "failures": check.failures_max,
    });
    if check.successes_min != 1 {
        fields["successes"] = json!(check.successes_min);
    }
    match &check.probe {
        Probe::Http { port, path } => {
            (fields["port"], fields["path"]) = (json!(port.as_str()), json!(path));
        }
        Probe::Tcp { port } => fields["tcp"] = json!(port.as_str()),
        Probe::Exec { cmd } => fields["exec"] = json!(cmd),
    }
    fields
}

fn volume_json(asked: &VolumeRequest) -> Value {
    let mut json = json!({ "path": asked.path.to_string(), "readOnly": asked.read_only });
    match &asked.of {
        VolumeSelector::Named(name) => json["volume"] = json!(name.to_string()),
        VolumeSelector::Labelled(labels) => json["labels"] = json!(labels),
    }
    if let Some(after) = asked.elsewhere_after {
        json["elsewhereAfter"] = span(after);
    }
    json
}

fn canonical(job: &JobSpec) -> Value {
    let mut fields = Map::new();
    let mut field = |name: &str, value: Value| drop(fields.insert(name.to_owned(), value));
    field("name", json!(job.name.as_str()));
    field("tasks", json!(job.tasks));
    field("priority", json!(job.priority.number()));
    field("appclass", json!(job.appclass.name().replace('-', "_").to_uppercase()));
    field("schedulingClass", json!(job.scheduling_class.number()));
    field("labels", json!(job.labels));
    field("after", job.after.iter().map(ToString::to_string).collect());
    if let Some(parent) = &job.parent {
        field("parent", json!(parent.to_string()));
    }
    let maxima = [("maxPerMachine", job.max_per_machine), ("maxPerSwitch", job.max_per_switch)];
    for (name, maximum) in maxima {
        if let Some(Maximum { tasks, hard }) = maximum {
            field(name, json!({ "tasks": tasks, "hard": hard }));
        }
    }
    if !job.estimation {
        field("estimation", json!(false));
    }
    let amount = |CpuRam { cpu, ram }: CpuRam| json!({ "cpuMilli": cpu.0.to_string(), "ramBytes": ram.0.to_string() });
    match job.autoscale {
        Autoscale::Off => {}
        Autoscale::Full => field("autoscale", json!({ "mode": "FULL" })),
        Autoscale::Constrained { min, max } => field(
            "autoscale",
            json!({ "mode": "CONSTRAINED", "min": amount(min), "max": amount(max) }),
        ),
    }
    if let Some(most) = job.preemption_notice_max {
        field("preemption", json!({ "noticeMax": span(most) }));
    }
    if let Some(saver) = &job.task.saver {
        let Saver { cmd, time_limit, interval } = saver;
        let (limit, interval) = (span(*time_limit), span(*interval));
        field("saver", json!({ "cmd": cmd, "timeLimit": limit, "interval": interval }));
    }
    if job.task.cores == spec::Cores::Exclusive {
        field("cores", json!("EXCLUSIVE"));
    }
    if !job.task.cpu_slack {
        field("cpuSlack", json!(false));
    }
    if job.task.memory_slack {
        field("memorySlack", json!(true));
    }
    if let Some(size) = job.task.scratch {
        field("scratchBytes", json!(size.0.to_string()));
    }
    if job.task.api {
        field("api", json!(true));
    }
    let DisruptionBudget { at_once, per_hour } = job.disruptions;
    field("disruptions", json!({ "atOnce": at_once, "perHour": per_hour }));
    let update = &job.update;
    field(
        "update",
        json!({
            "batch": update.batch,
            "healthyFor": span(update.healthy_for),
            "healthyWithin": span(update.healthy_within),
            "wait": span(update.wait),
            "disruptions": update.disruptions,
            "onFailure": update.on_failure.name().to_uppercase(),
            "closeAfter": span(update.close_after),
        }),
    );
    let features = job.task.kernel_features.iter();
    field("kernelFeatures", features.map(ToString::to_string).collect());
    match &job.kind {
        Kind::Job { alloc_set: None } => {}
        Kind::Job { alloc_set: Some(set) } => field("allocSet", json!(set.to_string())),
        Kind::AllocSet { users } => {
            let users: Vec<_> = users.iter().map(ToString::to_string).collect();
            field("allocs", json!({ "users": users }));
        }
    }
    field("constraints", constraints_json(&job.task.constraints));
    field("volumes", job.task.volumes.iter().map(volume_json).collect());
    field("outputs", job.task.outputs.paths.iter().map(ToString::to_string).collect());
    if let Some(package) = &job.task.outputs.package {
        field("outputsPackage", json!(package.to_string()));
    }
    if let Some(keep) = job.task.outputs.keep {
        field("keepOutputs", span(keep));
    }
    field("cmd", json!(job.task.cmd));
    if let Some(image) = &job.task.image {
        field("image", json!(image.to_string()));
    }
    field("packages", job.task.packages.iter().map(ToString::to_string).collect());
    field("env", json!(job.task.env));
    field("processes", json!(job.task.processes));
    field("ports", ports_json(&job.task.ports));
    let fixed = job.task.static_ports.iter();
    field("staticPorts", fixed.map(|(name, port)| (name.to_string(), json!(port))).collect());
    field("notice", span(job.task.notice));
    if let Some(check) = &job.task.health_check {
        field("healthCheck", check_json(check));
    }
    if let Some(check) = &job.task.readiness {
        field("readiness", check_json(check));
    }
    let mut restart = json!({
        "delay": span(job.restart.delay), "delayMax": span(job.restart.delay_max),
        "resetAfter": span(job.restart.reset_after),
    });
    restart["policy"] = json!(job.restart.when.name().replace('-', "_").to_uppercase());
    if let Some(failures) = job.restart.failures_max {
        restart["failures"] = json!(failures);
    }
    field("restart", restart);
    if let Some(MetricsPage { port, path }) = &job.metrics {
        field("metrics", json!({ "port": port.as_str(), "path": path }));
    }
    let overrides = job.overrides.iter().map(|(index, change)| {
        let mut fields = Map::new();
        if let Some(cmd) = &change.cmd {
            fields.insert("cmd".to_owned(), json!(cmd));
        }
        if let Some(change) = &change.limit {
            limit(&mut fields, change);
        }
        if let Some(processes) = change.processes {
            fields.insert("processes".to_owned(), json!(processes));
        }
        if !change.env.is_empty() {
            fields.insert("env".to_owned(), json!(change.env));
        }
        if !change.labels.is_empty() {
            fields.insert("labels".to_owned(), json!(change.labels));
        }
        if let Some(names) = &change.ports {
            fields.insert("ports".to_owned(), ports_json(names));
        }
        if let Some(check) = &change.health_check {
            fields.insert("healthCheck".to_owned(), check_json(check));
        }
        if let Some(notice) = change.notice {
            fields.insert("notice".to_owned(), span(notice));
        }
        if let Some(list) = &change.constraints {
            fields.insert("constraints".to_owned(), constraints_json(list));
        }
        (index.to_string(), Value::Object(fields))
    });
    field("overrides", Value::Object(overrides.collect()));
    limit(&mut fields, &job.task.limit);
    Value::Object(fields)
}

fn label() -> impl Strategy<Value = String> {
    "[a-z0-9]([a-z0-9-]{0,8}[a-z0-9])?"
}

fn port() -> impl Strategy<Value = PortName> {
    label().prop_map(|name| PortName::new(&name).expect("a label"))
}

fn resources() -> impl Strategy<Value = Resources> {
    let large = || prop_oneof![0..1_u64 << 30, 0..1_u64 << 55];
    (1..1_u64 << 35, 4_u64 << 20..1 << 55, large(), large()).prop_map(
        |(cpu, ram, disk, disk_rate)| Resources {
            cpu: MilliCores(cpu),
            ram: Bytes(ram),
            disk: Bytes(disk),
            disk_rate: Bytes(disk_rate),
        },
    )
}

fn spans() -> impl Strategy<Value = Span> {
    prop_oneof![
        (10_u64..86_400_000).prop_map(Span::from_millis),
        (10_000_u64..86_400_000_000).prop_map(Span)
    ]
}

/// Any text without references and zero bytes, including awkward ones.
fn text() -> impl Strategy<Value = String> {
    any::<String>().prop_map(|text| text.replace(['\0', '$'], "?"))
}

fn cmd() -> impl Strategy<Value = Vec<String>> {
    (text(), vec(text(), 0..4)).prop_map(|(program, mut arguments)| {
        arguments.insert(0, format!("/{program}"));
        arguments.push("--port=${port.http}".to_owned());
        arguments
    })
}

fn env() -> impl Strategy<Value = BTreeMap<String, String>> {
    btree_map("[A-Za-z_][A-Za-z0-9_]{0,8}", text(), 0..3)
}

fn health_check() -> impl Strategy<Value = HealthCheck> {
    let probe = prop_oneof![
        (port(), "/[!-~]{0,9}").prop_map(|(port, path)| Probe::Http { port, path }),
        port().prop_map(|port| Probe::Tcp { port }),
        cmd().prop_map(|cmd| Probe::Exec { cmd }),
    ];
    let numbers = (1..1_000_000_u32, prop_oneof![Just(1), 1..1_000_000_u32]);
    (probe, spans(), spans(), spans(), numbers).prop_map(
        |(probe, interval, timeout, start_grace, (failures_max, successes_min))| {
            let longest = match probe {
                Probe::Exec { .. } => Span::from_secs(60),
                Probe::Http { .. } | Probe::Tcp { .. } => timeout,
            };
            let timeout = timeout.min(longest);
            HealthCheck { probe, interval, timeout, start_grace, failures_max, successes_min }
        },
    )
}

fn constraint() -> impl Strategy<Value = Constraint> {
    let relation = select(Relation::ALL.to_vec());
    ("[^\\p{Cc}]{1,5}", relation, "[^\\p{Cc}]{0,5}", any::<i64>(), any::<bool>()).prop_map(
        |(attribute, relation, text, number, hard)| {
            let value = match relation.is_numeric() {
                true => number.to_string(),
                false => text,
            };
            let value = if relation.has_value() { value } else { String::new() };
            Constraint { attribute, relation, value, hard }
        },
    )
}

/// A reference that cannot be to the job itself, whose name is shorter.
fn predecessor() -> impl Strategy<Value = Predecessor> {
    let when = select(&EndCondition::ALL[..]);
    (reference(), when, any::<bool>()).prop_map(|(job, when, each_task)| Predecessor {
        job,
        when,
        each_task,
    })
}

fn reference() -> impl Strategy<Value = JobReference> {
    (option::of(label()), label()).prop_map(|(user, job)| JobReference {
        user: user.map(|user| UserName::new(&user).expect("a label")),
        job: JobName::new(&format!("other-than-that-{job}")).expect("a label"),
    })
}

fn labels() -> impl Strategy<Value = BTreeMap<String, String>> {
    btree_map("[a-z ]{1,5}", "[^\\p{Cc}]{0,5}", 0..3).prop_map(|mut labels| {
        labels.retain(|key, value| model::can_be_queried(key, value));
        labels
    })
}

fn saver() -> impl Strategy<Value = Saver> {
    let times = || (1..=86_400_u64).prop_map(Span::from_secs);
    (cmd(), times(), times()).prop_map(|(cmd, time_limit, interval)| Saver {
        cmd,
        time_limit,
        interval,
    })
}

fn task() -> impl Strategy<Value = TaskSpec> {
    let ports = btree_set(port(), 0..3);
    let limits = (resources(), 1..1_u32 << 20, spans());
    let checks = (option::of(health_check()), option::of(health_check()));
    let wants = (ports, prop::bool::ANY, checks, vec(constraint(), 0..3));
    (cmd(), env(), limits, wants).prop_map(|(cmd, env, limits, wants)| {
        let (limit, processes, notice) = limits;
        let (mut ports, fixed, (health_check, readiness), constraints) = wants;
        let static_ports = match fixed {
            true => std::mem::take(&mut ports).into_iter().zip(440..).collect(),
            false => BTreeMap::new(),
        };
        let kernel_features = BTreeSet::new();
        TaskSpec {
            network: spec::Network::Host,
            cmd,
            image: None,
            packages: BTreeSet::new(),
            env,
            files: BTreeMap::new(),
            secrets: BTreeMap::new(),
            secret_env: BTreeMap::new(),
            on_change: spec::OnChange::Nothing,
            limit,
            cores: spec::Cores::Shared,
            cpu_slack: true,
            processes,
            ports,
            static_ports,
            health_check,
            readiness,
            notice,
            constraints,
            kernel_features,
            api: false,
            memory_slack: false,
            saver: None,
            logs: LogPolicy::default(),
            volumes: vec![VolumeRequest {
                of: VolumeSelector::Labelled([("ssd".to_owned(), "yes".to_owned())].into()),
                path: "/data".parse().expect("a path"),
                read_only: true,
                elsewhere_after: Some(Span::from_secs(3_600)),
            }],
            outputs: OutputPolicy {
                paths: ["out", "result.txt"].map(|path| path.parse().expect("a path")).into(),
                keep: Some(Span::from_secs(3_600)),
                package: Some("words".parse().expect("a name")),
            },
            scratch: Some(Bytes(4 << 20)),
        }
    })
}

fn package() -> impl Strategy<Value = PackageReference> {
    let version = "[A-Za-z0-9_][A-Za-z0-9_.+-]{0,20}";
    (option::of(label()), label(), version).prop_map(|(owner, name, version)| PackageReference {
        owner: owner.map(|owner| owner.parse().expect("a label")),
        name: name.parse().expect("a label"),
        version: version.parse().expect("a version"),
    })
}

/// At most one of each name.
fn packages() -> impl Strategy<Value = BTreeSet<PackageReference>> {
    btree_set(package(), 0..3).prop_map(|packages| {
        let named = packages.into_iter().map(|package| (package.name.clone(), package));
        named.collect::<BTreeMap<_, _>>().into_values().collect()
    })
}

fn change() -> impl Strategy<Value = TaskOverride> {
    (task(), labels(), any::<[bool; 7]>()).prop_map(|(task, labels, given)| TaskOverride {
        cmd: given[0].then_some(task.cmd),
        env: task.env,
        limit: given[1].then_some(task.limit),
        processes: given[2].then_some(task.processes),
        ports: given[3].then_some(task.ports),
        health_check: task.health_check.filter(|_| given[4]),
        notice: given[5].then_some(task.notice),
        constraints: given[6].then_some(task.constraints),
        labels,
    })
}

fn maximum() -> impl Strategy<Value = Maximum> {
    (1..=100_000_u32, any::<bool>()).prop_map(|(tasks, hard)| Maximum { tasks, hard })
}

fn disruptions() -> impl Strategy<Value = DisruptionBudget> {
    (option::of(0..=100_000_u32), option::of(0..=10_000_u32))
        .prop_map(|(at_once, per_hour)| DisruptionBudget { at_once, per_hour })
}

fn update() -> impl Strategy<Value = UpdatePolicy> {
    let numbers = (option::of(1..=100_000_u32), option::of(0..=100_000_u32));
    let longer = (1_000_000..86_400_000_000_u64).prop_map(Span);
    let failure = select(&OnFailure::ALL[..]);
    (numbers, spans(), longer, spans(), spans(), failure).prop_map(
        |((batch, disruptions), one, two, wait, close_after, on_failure)| UpdatePolicy {
            batch,
            healthy_for: one.min(two),
            healthy_within: one.max(two),
            wait,
            disruptions,
            on_failure,
            close_after,
        },
    )
}

prop_compose! {
    fn job()(
        name in label(),
        priority in 0..=450_i64,
        appclass in prop_oneof![Just(Appclass::Batch), Just(Appclass::LatencySensitive)],
        class in 0..=3_i64,
        labels in labels(),
        tasks in 5..30_u32,
        task in task().boxed(),
        overrides in btree_map((0..5_u32).prop_map(TaskIndex), change().boxed(), 0..4),
        failures_max in option::of(0..1_000_000_u32),
        (when, delays) in (select(&RestartWhen::ALL[..]), (spans(), spans())),
        after in btree_set(predecessor(), 0..3),
        parent in option::of(reference()),
        maxima in (option::of(maximum()), option::of(maximum())),
        alloc_set in option::of(reference()),
        users in option::of(btree_set(label(), 0..3)),
        (estimation, features) in (any::<bool>(), btree_set(select(&KernelFeature::ALL[..]), 0..3)),
        (api, cpu_slack, exclusive, memory_slack) in any::<(bool, bool, bool, bool)>(),
        (disruptions, update) in (disruptions(), update()),
        metrics in any::<bool>(),
        (image, packages) in (option::of(package()), packages()).boxed(),
        (saver, preemption_notice_max) in (option::of(saver()), option::of(spans())),
        mode in 0..3,
    ) -> JobSpec {
        let (mut task, mut overrides) = (task, overrides);
        (task.kernel_features, task.api, task.saver) = (features, api, saver);
        if task.saver.is_some() {
            task.outputs = OutputPolicy::default();
        }
        (task.image, task.packages) = (image, packages);
        task.cpu_slack = cpu_slack;
        task.memory_slack = memory_slack;
        let kind = match users {
            None => Kind::Job { alloc_set },
            Some(users) => {
                (task.cmd, task.env, task.ports) = Default::default();
                (task.health_check, task.readiness) = (None, None);
                task.static_ports.clear();
                task.kernel_features.clear();
                task.packages.clear();
                (task.image, task.scratch) = (None, None);
                (task.api, task.cpu_slack, task.memory_slack) = (false, true, false);
                task.outputs = OutputPolicy::default();
                overrides.clear();
                let user = |user: String| UserName::new(&user).expect("a label");
                Kind::AllocSet { users: users.into_iter().map(user).collect() }
            }
        };
        let is_job = matches!(kind, Kind::Job { .. });
        let alone = matches!(kind, Kind::Job { alloc_set: None });
        if !alone {
            task.volumes.clear();
        }
        if exclusive && alone && appclass == Appclass::LatencySensitive {
            task.cores = spec::Cores::Exclusive;
            let whole = |cpu: MilliCores| MilliCores(cpu.0.next_multiple_of(1_000));
            task.limit.cpu = whole(task.limit.cpu);
            for limit in overrides.values_mut().filter_map(|change| change.limit.as_mut()) {
                limit.cpu = whole(limit.cpu);
            }
        }
        let has = |at: &TaskIndex, port: &PortName| {
            let (task, change) = (task.clone(), overrides[at].clone());
            let job = JobSpec::of(JobName::new("x").expect("a name"), model::Band::Free.usual(), 30, task);
            JobSpec { overrides: [(*at, change)].into(), ..job }.ports(*at).contains(port)
        };
        let in_all = |port: &PortName| overrides.keys().all(|at| has(at, port));
        let port = task.all_ports().into_iter().find(in_all).filter(|_| metrics && is_job);
        let metrics = port.map(MetricsPage::on);
        let limit = CpuRam::of(task.limit);
        let autoscale = match mode {
            1 if is_job => Autoscale::Full,
            2 if is_job && limit.cpu.0 > 0 => Autoscale::Constrained { min: limit, max: limit },
            _ => Autoscale::Off,
        };
        let (delay, delay_max) = (delays.0.min(delays.1), delays.0.max(delays.1));
        let reset_after = delays.0;
        JobSpec {
            kind,
name: JobName::new(&name).expect("a label"),
            priority: Priority::new(priority).expect("in range"),
            appclass,
            scheduling_class: SchedulingClass::new(class).expect("in range"),
            labels,
            tasks,
            task,
            overrides,
            max_per_machine: maxima.0,
            max_per_switch: maxima.1,
            restart: RestartPolicy { when, failures_max, delay, delay_max, reset_after },
            preemption_notice_max,
            estimation,
            autoscale,
            own_limit: None,
            disruptions,
            update,
            after,
            parent,
            metrics,
            sizing: spec::Sizing::Number,
            batch: spec::BatchPolicy::default(),
            scheduler: None,
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn canonical_json_gives_the_same_description(job in job()) {
        prop_assert_eq!(job.problems(), []);
        let json = canonical(&job);
        let again = with_files(json.to_string().as_bytes(), &[]);
        prop_assert_eq!(again, Ok(vec![job.clone()]));
        let list = serde_json::to_string_pretty(&json!([json, json])).expect("JSON");
        prop_assert_eq!(with_files(list.as_bytes(), &[]), Ok(vec![job.clone(), job]));
    }

    #[test]
    fn no_source_panics_and_every_message_is_safe(source in any::<Vec<u8>>()) {
        if let Err(says) = with_files(&source, &[]) {
            prop_assert!(!says.chars().any(|c| c.is_control() && c != '\n'));
        }
    }

    #[test]
    fn no_value_of_a_field_panics(
        field in "name|tasks|priority|cpu|cpuMilli|ram|ramBytes|notice|overrides|restart|labels|\
                  schedulingClass|after|parent|maxPerMachine|maxPerSwitch|allocs|allocSet|constraints|\
                  ports|staticPorts|healthCheck|readiness|metrics|estimation|autoscale|kernelFeatures|api|memorySlack|scratch|scratchBytes|disruptions|update|cores|cpuSlack",
        value in prop_oneof![
            any::<f64>().prop_filter("a number", |number| number.is_finite()).prop_map(|n| json!(n)),
            any::<i64>().prop_map(|n| json!(n)),
            any::<String>().prop_map(|text| json!(text)),
            any::<String>().prop_map(|text| json!({ text: 1 })),
            "[0-9]{1,40}([.][0-9]{0,40})? ?[a-zA-Zµ/]{0,4}".prop_map(|text| json!(text)),
            "[0-9,-]{1,12}".prop_map(|text| json!({ text: { "cpu": 1 } })),
            any::<String>().prop_map(|text| json!([text])),
            any::<(String, f64)>().prop_map(|(text, number)| {
                json!([{ "attribute": text, "value": number }, { "relation": text, "soft": text }])
            }),
        ],
    ) {
        let mut job = json!({ "name": "x", "cmd": ["a"] });
        job[field] = value;
        if let Err(says) = with_files(job.to_string().as_bytes(), &[]) {
            prop_assert!(says.starts_with("error: "));
        }
    }
}
