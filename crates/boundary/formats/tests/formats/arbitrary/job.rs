//! Job descriptions: valid ones, and those that only a format can represent. The larger strategies
//! are boxed: together they would exceed a test's stack.

use std::collections::{BTreeMap, BTreeSet};

use model::{Bytes, KernelFeature, MilliCores, PackageReference, Resources, Span, TaskIndex};
use proptest::collection::{btree_map, btree_set, vec};
use proptest::option::of;
use proptest::prelude::*;
use proptest::sample::select;
use spec::{
    Autoscale, BatchPolicy, Constraint, Cores, CpuRam, DisruptionBudget, EndCondition, HealthCheck,
    JobReference, JobSpec, Kind, LogPolicy, Maximum, MetricsPage, OnFailure, OutputPolicy,
    Predecessor, Probe, Relation, RestartPolicy, RestartWhen, Saver, TaskOverride, TaskSpec,
    UpdatePolicy, limits,
};

use super::{
    Words, any_span, appclass, name, package, priority, quantity, resources, scheduling_class,
    words,
};

fn span(least_ms: u64) -> impl Strategy<Value = Span> {
    (least_ms * 1_000..=86_400_000_000).prop_map(Span)
}

fn valid_limit() -> impl Strategy<Value = Resources> {
    let (ram, disk) = (4 << 20..1_u64 << 40, 0..1_u64 << 40);
    (1..1_u64 << 20, ram, disk.clone(), disk).prop_map(|(cpu, ram, disk, rate)| Resources {
        cpu: MilliCores(cpu),
        ram: Bytes(ram),
        disk: Bytes(disk),
        disk_rate: Bytes(rate),
    })
}

fn valid_cmd() -> impl Strategy<Value = Vec<String>> {
    let argument = prop_oneof![
        "[ -#%-~é]{0,8}",
        Just("--port=${port.http}".to_owned()),
        Just("${task.index}".to_owned()),
    ];
    ("[a-z/]{1,8}", vec(argument, 0..4))
        .prop_map(|(program, arguments)| std::iter::once(program).chain(arguments).collect())
}

fn valid_env() -> impl Strategy<Value = Words> {
    btree_map("[A-Z_][A-Z0-9_]{0,5}", "[ -#%-~]{0,8}", 0..4)
}

fn valid_labels() -> impl Strategy<Value = Words> {
    btree_map("[a-z]{1,6}", "[ -~]{0,6}", 0..3).prop_map(|mut labels| {
        labels.retain(|key, value| model::can_be_queried(key, value));
        labels
    })
}

fn health_check(
    probe: impl Strategy<Value = Probe>,
    span: impl Strategy<Value = Span> + Clone,
) -> impl Strategy<Value = HealthCheck> {
    let numbers = (1..=1_000_000_u32, prop_oneof![Just(1), 1..=1_000_000_u32]);
    (probe, span.clone(), span.clone(), span, numbers).prop_map(
        |(probe, interval, timeout, start_grace, (failures_max, successes_min))| HealthCheck {
            probe,
            interval,
            timeout,
            start_grace,
            failures_max,
            successes_min,
        },
    )
}

fn probe(argument: impl Strategy<Value = String>) -> impl Strategy<Value = Probe> {
    prop_oneof![
        (name(), "/[a-z]{0,8}").prop_map(|(port, path)| Probe::Http { port, path }),
        name().prop_map(|port| Probe::Tcp { port }),
        vec(argument, 1..3).prop_map(|cmd| Probe::Exec { cmd }),
    ]
}

fn valid_check() -> impl Strategy<Value = HealthCheck> {
    health_check(probe("[a-z]{1,6}"), (10_000..=60_000_000_u64).prop_map(Span))
}

fn any_check() -> impl Strategy<Value = HealthCheck> {
    health_check(probe(any::<String>()), any::<u64>().prop_map(Span))
}

fn restart_when() -> impl Strategy<Value = RestartWhen> {
    select(&RestartWhen::ALL[..])
}

fn relation() -> impl Strategy<Value = Relation> {
    select(&Relation::ALL[..])
}

fn valid_constraints() -> impl Strategy<Value = Vec<Constraint>> {
    let attribute = prop_oneof![Just("kernel".to_owned()), "[a-z ]{1,8}"];
    let constraint = (attribute, relation(), "[ -~]{0,6}", any::<i64>(), any::<bool>()).prop_map(
        |(attribute, relation, text, number, hard)| {
            let value = match relation {
                relation if relation.is_numeric() => number.to_string(),
                relation if relation.has_value() => text,
                _ => String::new(),
            };
            Constraint { attribute, relation, value, hard }
        },
    );
    vec(constraint, 0..3)
}

fn valid_logs() -> impl Strategy<Value = LogPolicy> {
    (of(span(0)), of((1..1_u64 << 20).prop_map(|number| Bytes(number << 16))))
        .prop_map(|(keep, max)| LogPolicy { keep, max })
}

fn any_logs() -> impl Strategy<Value = LogPolicy> {
    (of(any_span()), of(quantity().prop_map(Bytes))).prop_map(|(keep, max)| LogPolicy { keep, max })
}

/// The same with or without slack, and with cores of its own as far as that is asked.
fn with_cpu(
    task: impl Strategy<Value = TaskSpec> + 'static,
    exclusive: impl Strategy<Value = bool> + 'static,
) -> BoxedStrategy<TaskSpec> {
    (task, exclusive, any::<bool>())
        .prop_map(|(task, exclusive, cpu_slack)| {
            let cores = if exclusive { Cores::Exclusive } else { Cores::Shared };
            TaskSpec { cores, cpu_slack, ..task }
        })
        .boxed()
}

fn package_reference() -> impl Strategy<Value = PackageReference> {
    (of(name()), package()).prop_map(|(owner, id)| PackageReference {
        owner,
        name: id.name,
        version: id.version,
    })
}

/// At most one of each name.
fn package_list() -> impl Strategy<Value = BTreeSet<PackageReference>> {
    btree_set(package_reference(), 0..3).prop_map(|packages| {
        let named = packages.into_iter().map(|package| (package.name.clone(), package));
        named.collect::<BTreeMap<_, _>>().into_values().collect()
    })
}

fn valid_task() -> BoxedStrategy<TaskSpec> {
    let (ports, processes) = (btree_set(name(), 0..4), 1..=1_u32 << 20);
    let run = (valid_cmd(), valid_env(), valid_limit(), processes, ports);
    let checks = (of(valid_check()), of(valid_check()));
    let task = (run, checks, span(0), valid_constraints(), valid_logs()).prop_map(
        |(
            (cmd, env, limit, processes, ports),
            (health_check, readiness),
            notice,
            constraints,
            logs,
        )| TaskSpec {
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
            cores: Cores::Shared,
            cpu_slack: true,
            processes,
            ports,
            static_ports: BTreeMap::new(),
            health_check,
            readiness,
            notice,
            constraints,
            kernel_features: BTreeSet::new(),
            api: false,
            memory_slack: false,
            saver: None,
            logs,
            volumes: Vec::new(),
            outputs: OutputPolicy::default(),
            scratch: None,
        },
    );
    with_cpu(task, Just(false))
}

fn valid_override() -> BoxedStrategy<TaskOverride> {
    let ports = of(btree_set(name(), 0..3));
    let run = (of(valid_cmd()), valid_env(), of(valid_limit()), of(1..=1_u32 << 20), ports);
    let around = (of(valid_check()), of(span(0)), of(valid_constraints()), valid_labels());
    (run, around)
        .prop_map(
            |((cmd, env, limit, processes, ports), (health_check, notice, constraints, labels))| {
                TaskOverride {
                    cmd,
                    env,
                    limit,
                    processes,
                    ports,
                    health_check,
                    notice,
                    constraints,
                    labels,
                }
            },
        )
        .boxed()
}

fn reference() -> impl Strategy<Value = JobReference> {
    (of(name()), name()).prop_map(|(user, job)| JobReference { user, job })
}

fn maximum(tasks: std::ops::RangeInclusive<u32>) -> impl Strategy<Value = Maximum> {
    (tasks, any::<bool>()).prop_map(|(tasks, hard)| Maximum { tasks, hard })
}

fn kind() -> impl Strategy<Value = Kind> {
    prop_oneof![
        3 => of(reference()).prop_map(|alloc_set| Kind::Job { alloc_set }),
        1 => btree_set(name(), 0..3).prop_map(|users| Kind::AllocSet { users }),
    ]
}

fn predecessors() -> impl Strategy<Value = BTreeSet<Predecessor>> {
    let predecessor = (reference(), select(&EndCondition::ALL[..]), any::<bool>())
        .prop_map(|(job, when, each_task)| Predecessor { job, when, each_task });
    prop_oneof![2 => Just(BTreeSet::new()), 1 => btree_set(predecessor, 1..3)]
}

/// Fields that need a capability, now and then.
/// How an update proceeds: a valid policy.
pub(crate) fn policy() -> impl Strategy<Value = UpdatePolicy> {
    let numbers = (of(1..=100_000_u32), of(0..=100_000_u32));
    let spans = (span(1_000), span(1_000), span(0), span(0));
    (numbers, spans, select(&OnFailure::ALL[..])).prop_map(
        |((batch, disruptions), (one, two, wait, close_after), on_failure)| UpdatePolicy {
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

fn with_wishes(job: impl Strategy<Value = JobSpec>) -> impl Strategy<Value = JobSpec> {
    let features = btree_set(select(&KernelFeature::ALL[..]), 0..3);
    let features = prop_oneof![3 => Just(BTreeSet::new()), 1 => features];
    let budget = (of(0..=100_000_u32), of(0..=10_000_u32))
        .prop_map(|(at_once, per_hour)| DisruptionBudget { at_once, per_hour });
    let others = (budget, prop_oneof![Just(UpdatePolicy::default()), policy()]);
    let saver = (valid_cmd(), 1..=86_400_u64, 1..=86_400_u64).prop_map(|(cmd, limit, interval)| {
        Saver { cmd, time_limit: Span::from_secs(limit), interval: Span::from_secs(interval) }
    });
    let ends = (of(saver), of(span(0)));
    let asked = (prop::bool::weighted(0.2), prop::bool::weighted(0.2));
    (job, prop::bool::weighted(0.8), features, asked, (others, ends)).prop_map(
        |(
            mut job,
            estimation,
            features,
            (api, memory_slack),
            ((disruptions, update), (saver, most)),
        )| {
            job.estimation = estimation;
            (job.disruptions, job.update) = (disruptions, update);
            (job.task.saver, job.preemption_notice_max) = (saver, most);
            if !job.kind.is_alloc_set() {
                (job.task.kernel_features, job.task.api) = (features, api);
                job.task.memory_slack = memory_slack;
            }
            job
        },
    )
}

/// A valid description with a few tasks.
pub(crate) fn valid_job() -> BoxedStrategy<JobSpec> {
    let failures = prop_oneof![0..2_u32, 0..=1_000_000_u32];
    let restart =
        (restart_when(), of(failures), span(0), span(0)).prop_map(|(when, failures_max, a, b)| {
            RestartPolicy {
                when,
                failures_max,
                delay: a.min(b),
                delay_max: a.max(b),
                reset_after: a,
            }
        });
    let overrides = vec((0..100_u32, valid_override()), 0..3);
    let classes = (priority(), appclass(), scheduling_class());
    let job = (name(), classes, valid_labels(), 1..100_u32, valid_task(), overrides, restart);
    let maxima = (of(maximum(1..=100_000)), of(maximum(1..=100_000)));
    let job = (job, predecessors(), (of(reference()), kind()), maxima).prop_map(
        |(
            (name, classes, labels, tasks, task, overrides, restart),
            after,
            (parent, kind),
            maxima,
        )| {
            let (priority, appclass, scheduling_class) = classes;
            let overrides = overrides.into_iter().map(|(at, o)| (TaskIndex(at % tasks), o));
            JobSpec {
                kind,
                name,
                priority,
                appclass,
                scheduling_class,
                labels,
                tasks,
                task,
                overrides: overrides.collect(),
                max_per_machine: maxima.0,
                max_per_switch: maxima.1,
                restart,
                preemption_notice_max: None,
                estimation: true,
                autoscale: Autoscale::Off,
                own_limit: None,
                disruptions: DisruptionBudget::default(),
                update: UpdatePolicy::default(),
                after,
                parent,
                metrics: None,
                batch: BatchPolicy::default(),
                scheduler: None,
                sizing: spec::Sizing::Number,
            }
        },
    );
    let job = (job, any::<bool>()).prop_map(|(mut job, metrics)| {
        let other = |reference: &JobReference| reference.job != job.name;
        job.after.retain(|predecessor| other(&predecessor.job));
        job.parent = job.parent.take().filter(other);
        if let Kind::Job { alloc_set } = &mut job.kind {
            *alloc_set = alloc_set.take().filter(other);
        } else {
            job.task = TaskSpec { limit: job.task.limit, ..TaskSpec::of(Vec::new()) };
            job.overrides.clear();
        }
        // Its port is one of every task.
        let in_all =
            |port: &model::PortName| job.overrides.keys().all(|at| job.ports(*at).contains(port));
        let port = job.task.all_ports().into_iter().find(in_all).filter(|_| metrics);
        job.metrics = port.map(MetricsPage::on);
        job
    });
    (with_wishes(job), any::<(u8, u32, u32)>())
        .prop_map(|(mut job, (mode, less, more))| {
            let limit = job.task.limit;
            let least =
                Resources { cpu: MilliCores(1), ram: Bytes(limits::RAM_BYTES_MIN), ..limit };
            let lower = |is: u64, least: u64| is.saturating_sub(less.into()).max(least);
            let min = CpuRam {
                cpu: MilliCores(lower(limit.cpu.0, least.cpu.0)),
                ram: Bytes(lower(limit.ram.0, least.ram.0)),
            };
            let max = CpuRam {
                cpu: MilliCores((limit.cpu.0 + u64::from(more)).min(limits::CPU_MILLI_MAX)),
                ram: Bytes((limit.ram.0 + u64::from(more)).min(limits::BYTES_MAX)),
            };
            job.autoscale = match mode {
                _ if job.kind.is_alloc_set() => Autoscale::Off,
                0..60 if limit.cpu >= min.cpu && limit.ram >= min.ram => {
                    Autoscale::Constrained { min, max }
                }
                0..90 => Autoscale::Full,
                _ => Autoscale::Off,
            };
            job
        })
        .boxed()
}

fn any_cpu_ram() -> impl Strategy<Value = CpuRam> {
    resources().prop_map(CpuRam::of)
}

fn any_constraints() -> impl Strategy<Value = Vec<Constraint>> {
    vec(any_constraint(), 0..3)
}

pub(crate) fn any_constraint() -> impl Strategy<Value = Constraint> {
    (any::<String>(), relation(), any::<String>(), any::<bool>()).prop_map(
        |(attribute, relation, value, hard)| Constraint { attribute, relation, value, hard },
    )
}

/// Descriptions that no cell would admit but the format can represent.
pub(crate) fn any_task() -> BoxedStrategy<TaskSpec> {
    let (cmd, ports) = (vec(any::<String>(), 0..3), btree_set(name(), 0..3));
    let check = of(any_check());
    let numbers = btree_map(name(), any::<u16>(), 0..3);
    let network = of(numbers).prop_map(|ports| match ports {
        Some(ports) => spec::Network::Own { ports },
        None => spec::Network::Host,
    });
    let fixed = btree_map(name(), any::<u16>(), 0..3);
    let check = (check, of(any_check()));
    let run = (cmd, words(), resources(), any::<u32>(), (ports, fixed), network);
    let task = (run, check, any_span(), any_constraints(), any_logs()).prop_map(
        |(
            (cmd, env, limit, processes, (ports, static_ports), network),
            (health_check, readiness),
            notice,
            constraints,
            logs,
        )| {
            TaskSpec {
                network,
                cmd,
                image: None,
                packages: BTreeSet::new(),
                env,
                files: BTreeMap::new(),
                secrets: BTreeMap::new(),
                secret_env: BTreeMap::new(),
                on_change: spec::OnChange::Nothing,
                limit,
                cores: Cores::Shared,
                cpu_slack: true,
                processes,
                ports,
                static_ports,
                health_check,
                readiness,
                notice,
                constraints,
                kernel_features: BTreeSet::new(),
                api: false,
                memory_slack: false,
                saver: None,
                logs,
                volumes: crate::examples::volume_requests(),
                outputs: OutputPolicy {
                    paths: ["out".parse().expect("a path")].into(),
                    keep: Some(Span::from_secs(3_600)),
                    package: Some("words".parse().expect("a name")),
                },
                scratch: Some(Bytes(4 << 20)),
            }
        },
    );
    (with_cpu(task, any::<bool>()), of(package_reference()), package_list())
        .prop_map(|(task, image, packages)| TaskSpec { image, packages, ..task })
        .boxed()
}

fn any_override() -> BoxedStrategy<TaskOverride> {
    let (cmd, ports) = (of(vec(any::<String>(), 1..3)), of(btree_set(name(), 0..3)));
    let check = of(any_check());
    let run = (cmd, words(), of(resources()), of(any::<u32>()), ports);
    (run, (check, of(any_span()), of(any_constraints()), words()))
        .prop_map(
            |((cmd, env, limit, processes, ports), (health_check, notice, constraints, labels))| {
                TaskOverride {
                    cmd,
                    env,
                    limit,
                    processes,
                    ports,
                    health_check,
                    notice,
                    constraints,
                    labels,
                }
            },
        )
        .boxed()
}

pub(crate) fn any_job() -> BoxedStrategy<JobSpec> {
    let overrides = btree_map(any::<u32>().prop_map(TaskIndex), any_override(), 0..3);
    let restart = (restart_when(), of(any::<u32>()), any_span(), any_span()).prop_map(
        |(when, failures_max, delay, delay_max)| RestartPolicy {
            reset_after: delay,
            when,
            failures_max,
            delay,
            delay_max,
        },
    );
    let classes = (priority(), appclass(), scheduling_class());
    let job = (name(), classes, words(), any::<u32>(), any_task(), overrides, restart);
    let maxima = (of(maximum(0..=u32::MAX)), of(maximum(0..=u32::MAX)));
    let job = (job, predecessors(), (of(reference()), kind()), maxima).prop_map(
        |(job, after, (parent, kind), maxima)| {
            let (name, classes, labels, tasks, task, overrides, restart) = job;
            let (priority, appclass, scheduling_class) = classes;
            JobSpec {
                kind,
                name,
                priority,
                appclass,
                scheduling_class,
                labels,
                tasks,
                task,
                overrides,
                max_per_machine: maxima.0,
                max_per_switch: maxima.1,
                restart,
                preemption_notice_max: None,
                estimation: true,
                autoscale: Autoscale::Off,
                own_limit: None,
                disruptions: DisruptionBudget::default(),
                update: UpdatePolicy::default(),
                after,
                parent,
                metrics: None,
                batch: BatchPolicy::default(),
                scheduler: None,
                sizing: spec::Sizing::Number,
            }
        },
    );
    let constrained = (any_cpu_ram(), any_cpu_ram());
    let autoscale = prop_oneof![
        Just(Autoscale::Off),
        Just(Autoscale::Full),
        constrained.prop_map(|(min, max)| Autoscale::Constrained { min, max }),
    ];
    (with_wishes(job), autoscale, of(any_cpu_ram()))
        .prop_map(|(job, autoscale, own_limit)| JobSpec { autoscale, own_limit, ..job })
        .boxed()
}
