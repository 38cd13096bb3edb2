//! Valid files and the fields of the resulting job.

use std::collections::{BTreeMap, BTreeSet};

use model::{
    Appclass, Band, Bytes, KernelFeature, MilliCores, PortName, SchedulingClass, Span, TaskIndex,
};
use spec::{
    Autoscale, BatchPolicy, Constraint, Cores, CpuRam, DisruptionBudget, HealthCheck, JobSpec,
    Kind, Maximum, MetricsPage, OnFailure, Probe, Relation, RestartPolicy, RestartWhen, Saver,
    Sizing, TaskSpec, UpdatePolicy,
};

use crate::{job, jobs, with_files};

fn usual() -> JobSpec {
    JobSpec {
        kind: Kind::default(),
        name: "x".parse().expect("a name"),
        priority: Band::BestEffortBatch.usual(),
        appclass: Appclass::Batch,
        scheduling_class: SchedulingClass::usual(Appclass::Batch),
        labels: BTreeMap::new(),
        tasks: 1,
        task: TaskSpec::of(vec!["a".to_owned()]),
        overrides: BTreeMap::new(),
        max_per_machine: None,
        max_per_switch: None,
        restart: RestartPolicy::default(),
        preemption_notice_max: None,
        estimation: true,
        autoscale: Autoscale::Off,
        own_limit: None,
        disruptions: DisruptionBudget::default(),
        update: UpdatePolicy::default(),
        after: BTreeSet::new(),
        parent: None,
        metrics: None,
        sizing: Sizing::Number,
        batch: BatchPolicy::default(),
        scheduler: None,
    }
}

fn constraint(attribute: &str, relation: Relation, value: &str, hard: bool) -> Constraint {
    Constraint { attribute: attribute.to_owned(), relation, value: value.to_owned(), hard }
}

/// Checks that a job with these fields equals the default one with a change.
fn check(fields: &str, change: impl FnOnce(&mut JobSpec)) {
    let mut expected = usual();
    change(&mut expected);
    let source = format!("{{ name: 'x', cmd: ['a'] }} {{ {fields} }}");
    assert_eq!(jobs(&source), [expected], "{fields}");
}

#[test]
fn each_field_can_be_given_in_each_of_its_spellings() {
    check("", |_| {});
    check("tasks: 3", |job| job.tasks = 3);
    check("gang: true", |job| job.batch.gang = true);
    check("atOnce: 4", |job| job.batch.at_once = Some(4));
    for text in ["maxRuntime: '1h'", "maxRuntime: '60m'"] {
        check(text, |job| job.batch.max_runtime = Some(Span::from_secs(3_600)));
    }
    check("expectedRuntime: '90s'", |job| job.batch.expected_runtime = Some(Span::from_secs(90)));
    check("requeue: true", |job| job.batch.requeue = true);
    check("scheduler: 'mine'", |job| job.scheduler = "mine".parse().ok());
    for text in ["tasks: 'every-machine'", "everyMachine: true", "tasks: 3, everyMachine: true"] {
        check(text, |job| (job.tasks, job.sizing) = (0, Sizing::EveryMachine));
    }
    check("autoscale: 'off'", |_| {});
    check("autoscale: { mode: 'off' }", |_| {});
    check("autoscale: 'full'", |job| job.autoscale = Autoscale::Full);
    check("autoscale: { mode: 'FULL' }", |job| job.autoscale = Autoscale::Full);
    let bounds = Autoscale::Constrained {
        min: CpuRam { cpu: MilliCores(50), ram: Bytes(32 << 20) },
        max: CpuRam { cpu: MilliCores(2_000), ram: Bytes(1 << 30) },
    };
    for text in [
        "mode: 'constrained', min: { cpu: 0.05, ram: '32 MiB' }, max: { cpu: 2, ram: '1 GiB' }",
        "mode: 'CONSTRAINED', min: { cpuMilli: '50', ramBytes: '33554432' }, max: { cpu: '2', ram: '1 GiB' }",
    ] {
        check(&format!("autoscale: {{ {text} }}"), |job| job.autoscale = bounds);
    }
    check("disruptions: { atOnce: 0, perHour: '20' }", |job| {
        job.disruptions = DisruptionBudget { at_once: Some(0), per_hour: Some(20) };
    });
    check(
        "update: { batch: 2, healthyFor: '30s', healthyWithin: '2m', wait: '1s', disruptions: 3, \
         onFailure: 'pause', closeAfter: 0 }",
        |job| {
            job.update = UpdatePolicy {
                batch: Some(2),
                healthy_for: Span::from_secs(30),
                healthy_within: Span::from_secs(120),
                wait: Span::from_secs(1),
                disruptions: Some(3),
                on_failure: OnFailure::Pause,
                close_after: Span::ZERO,
            };
        },
    );
    check("update: {}", |_| {});
    check("tasks: '3'", |job| job.tasks = 3);
    for (soft, hard) in [("2", "{ tasks: 2, hard: true }"), ("'2'", "{ tasks: '2', hard: true }")] {
        let maximum = |hard| Some(Maximum { tasks: 2, hard });
        check(&format!("maxPerMachine: {soft}"), |job| job.max_per_machine = maximum(false));
        check(&format!("maxPerMachine: {hard}"), |job| job.max_per_machine = maximum(true));
        check(&format!("maxPerSwitch: {soft}"), |job| job.max_per_switch = maximum(false));
        check(&format!("maxPerSwitch: {hard}"), |job| job.max_per_switch = maximum(true));
    }
    check("estimation: true", |_| {});
    check("estimation: false", |job| job.estimation = false);
    check("cores: 'shared', cpuSlack: true", |_| {});
    check("cpuSlack: false", |job| job.task.cpu_slack = false);
    for exclusive in ["exclusive", "EXCLUSIVE"] {
        let fields = format!("cores: '{exclusive}', cpu: 2, appclass: 'latency-sensitive'");
        check(&fields, |job| {
            (job.task.cores, job.task.limit.cpu) = (Cores::Exclusive, MilliCores(2_000));
            job.appclass = Appclass::LatencySensitive;
            job.restart = RestartPolicy::on(RestartWhen::Always);
            job.scheduling_class = SchedulingClass::usual(Appclass::LatencySensitive);
        });
    }
    check("onChange: 'nothing'", |_| {});
    for restart in ["restart", "RESTART"] {
        let fields = format!("onChange: '{restart}'");
        check(&fields, |job| job.task.on_change = spec::OnChange::Restart);
    }
    check("onChange: 'signal'", |job| job.task.on_change = spec::OnChange::Signal);
    check("api: false", |_| {});
    check("api: true", |job| job.task.api = true);
    check("memorySlack: false", |_| {});
    check("memorySlack: true", |job| job.task.memory_slack = true);
    for scratch in ["scratch: '16 MiB'", "scratch: 16 * 1024 * 1024", "scratchBytes: '16777216'"] {
        check(scratch, |job| job.task.scratch = Some(Bytes(16 << 20)));
    }
    check("saver: null, preemption: {}", |_| {});
    check("saver: { cmd: ['save', 1] }", |job| {
        job.task.saver = Some(Saver::of(vec!["save".to_owned(), "1".to_owned()]));
    });
    check("saver: { cmd: ['save'], timeLimit: '1h', interval: 5 }", |job| {
        let saver = Saver::of(vec!["save".to_owned()]);
        let (time_limit, interval) = (Span::from_secs(3_600), Span::from_secs(5));
        job.task.saver = Some(Saver { time_limit, interval, ..saver });
    });
    check("preemption: { noticeMax: '5s' }", |job| {
        job.preemption_notice_max = Some(Span::from_secs(5));
    });
    check("kernelFeatures: ['net-raw', 'perfmon']", |job| {
        job.task.kernel_features = [KernelFeature::NetRaw, KernelFeature::Perfmon].into();
    });
    for production in ["200", "'200'", "'production'"] {
        let change = |job: &mut JobSpec| job.priority = Band::Production.usual();
        check(&format!("priority: {production}"), change);
    }
    for appclass in ["latency-sensitive", "LATENCY_SENSITIVE"] {
        check(&format!("appclass: '{appclass}'"), |job| {
            job.appclass = Appclass::LatencySensitive;
            job.restart = RestartPolicy::on(RestartWhen::Always);
            job.scheduling_class = SchedulingClass::usual(Appclass::LatencySensitive);
        });
    }
    for class in ["3", "'3'"] {
        let change = |job: &mut JobSpec| {
            job.scheduling_class = SchedulingClass::new(3).expect("a class");
        };
        check(&format!("schedulingClass: {class}"), change);
    }
    check("after: ['load', 'ana/extract', 'load'], parent: 'master'", |job| {
        let named = |name: &str| name.parse().expect("a job");
        job.after = [named("ana/extract"), named("load")].into();
        job.parent = Some("master".parse().expect("a job"));
    });
    for after in [
        "['load:ended', 'y:failed', 'all:each-task']",
        "[{ job: 'load', when: 'ended' }, { when: 'failed', job: 'y' }, { job: 'all', eachTask: true }]",
        "['load:ended', { job: 'y', when: 'failed', eachTask: false }, { job: 'all', when: 'finished', eachTask: true }]",
    ] {
        check(&format!("after: {after}"), |job| {
            let named = |name: &str| name.parse().expect("a job");
            job.after = ["load:ended", "y:failed", "all:each-task"].map(named).into();
        });
    }
    check("allocSet: 'ana/room'", |job| {
        job.kind = Kind::Job { alloc_set: Some("ana/room".parse().expect("a job")) };
    });
    for room in [
        "cmd: null, allocs: { users: ['ben', 'ana'] }",
        "cmd: [], allocs: { users: ['ana', 'ben'] }",
    ] {
        check(room, |job| {
            let users = ["ana", "ben"].map(|user| user.parse().expect("a name")).into();
            (job.kind, job.task.cmd) = (Kind::AllocSet { users }, Vec::new());
        });
    }
    check("after: [], parent: null, constraints: []", |_| {});
    for cpu in ["cpu: 0.25", "cpu: '0.25'", "cpu: '250m'", "cpuMilli: 250", "cpuMilli: '250'"] {
        check(cpu, |job| job.task.limit.cpu = MilliCores(250));
    }
    for ram in ["ram: '1 GiB'", "ram: 1024 * 1024 * 1024", "ramBytes: '1073741824'"] {
        check(ram, |job| job.task.limit.ram = Bytes(1 << 30));
    }
    check("disk: '1 GB', diskRate: '10 MB/s'", |job| {
        job.task.limit.disk = Bytes(1_000_000_000);
        job.task.limit.disk_rate = Bytes(10_000_000);
    });
    check("processes: 5", |job| job.task.processes = 5);
    for notice in ["'90s'", "'1m30s'", "90", "'1.5m'", "'90.000s'"] {
        check(&format!("notice: {notice}"), |job| job.task.notice = Span::from_secs(90));
    }
    check("cmd: ['a', 1, 0.5, true, 1e6]", |job| {
        job.task.cmd = ["a", "1", "0.5", "true", "1000000"].map(str::to_owned).to_vec();
    });
    check("env: { A: 1, B: false, C: 'c', D: null }", |job| {
        let env = [("A", "1"), ("B", "false"), ("C", "c")];
        job.task.env = env.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    });
    check("labels: { team: 'search' }", |job| {
        job.labels.insert("team".to_owned(), "search".to_owned());
    });
    check("ports: ['http', 'admin', 'http']", |job| {
        job.task.ports = ["admin", "http"].map(|port| port.parse().expect(port)).into();
    });
    check("tasks: null, healthCheck: null, overrides: null, env: null", |_| {});
}

#[test]
fn constraints_are_given_by_relation_and_value() {
    let one = |fields: &str, expected: Constraint| {
        check(&format!("constraints: [{{ {fields} }}]"), |job| {
            job.task.constraints = vec![expected];
        });
    };
    for relation in Relation::ALL {
        let (value, written) = match relation.has_value() {
            true => ("8", ", value: 8"),
            false => ("", ""),
        };
        let trace = relation.name().replace('-', "_").to_uppercase();
        for name in [relation.name(), trace.as_str()] {
            let fields = format!("attribute: 'x', relation: '{name}'{written}");
            one(&fields, constraint("x", relation, value, true));
        }
    }
    one("attribute: 'gpu', value: 'H200'", constraint("gpu", Relation::Equal, "H200", true));
    one("attribute: 'x', value: -8", constraint("x", Relation::Equal, "-8", true));
    one("attribute: 'x', value: ''", constraint("x", Relation::Equal, "", true));
    one("attribute: 'ssd'", constraint("ssd", Relation::Present, "", true));
    // Canonical JSON omits empty values.
    one("attribute: 'x', relation: 'EQUAL'", constraint("x", Relation::Equal, "", true));
    one("attribute: 'x', soft: true", constraint("x", Relation::Present, "", false));
    one("attribute: 'x', soft: false", constraint("x", Relation::Present, "", true));
}

#[test]
fn the_librarys_constraints_read_as_what_they_mean() {
    for (written, attribute, relation, value, hard) in [
        ("attribute('ssd')", "ssd", Relation::Present, "", true),
        ("attribute('ssd').present", "ssd", Relation::Present, "", true),
        ("attribute('ssd').notPresent", "ssd", Relation::NotPresent, "", true),
        ("attribute('gpu').equal('H200')", "gpu", Relation::Equal, "H200", true),
        ("attribute('gpu').notEqual('H200')", "gpu", Relation::NotEqual, "H200", true),
        ("attribute('cores').lessThan(8)", "cores", Relation::LessThan, "8", true),
        ("attribute('cores').atMost(8)", "cores", Relation::LessThanEqual, "8", true),
        ("attribute('cores').greaterThan(8)", "cores", Relation::GreaterThan, "8", true),
        ("attribute('cores').atLeast('8')", "cores", Relation::GreaterThanEqual, "8", true),
        ("attribute('rack').equal('b').preferred", "rack", Relation::Equal, "b", false),
        ("attribute('rack').preferred.equal('b')", "rack", Relation::Equal, "b", false),
        ("attribute('ssd').preferred", "ssd", Relation::Present, "", false),
        ("attribute('rack').equal('b') { soft: true }", "rack", Relation::Equal, "b", false),
    ] {
        let source = format!("borg.batch('x', cmd=['a']) {{ constraints: [borg.{written}] }}");
        let expected = constraint(attribute, relation, value, hard);
        assert_eq!(job(&source).task.constraints, [expected], "{written}");
    }
    let job_ = job("local gpu = { constraints+: [borg.attribute('gpu')] };
        borg.batch('x', cmd=['a']) { constraints: [borg.attribute('ssd')] } + gpu");
    assert_eq!(job_.task.constraints.len(), 2);
}

#[test]
fn health_checks_and_restarts_have_usual_values() {
    let http = || PortName::new("http").expect("a name");
    check("healthCheck: { port: 'http' }", |job| {
        job.task.health_check = Some(HealthCheck::on(http()));
    });
    check(
        "healthCheck: { port: 'http', path: '/x', interval: 2, timeout: '1s', startGrace: '1m', \
         failures: 5, successes: 2 }",
        |job| {
            job.task.health_check = Some(HealthCheck {
                probe: Probe::Http { port: http(), path: "/x".to_owned() },
                interval: Span::from_secs(2),
                timeout: Span::from_secs(1),
                start_grace: Span::from_secs(60),
                failures_max: 5,
                successes_min: 2,
            });
        },
    );
    check("healthCheck: { port: null, path: '/' }", |_| {});
    check("healthCheck: { tcp: 'http' }", |job| {
        job.task.health_check = Some(HealthCheck::of(Probe::Tcp { port: http() }));
    });
    // A template's path stays beside a check of another kind.
    for exec in ["{ exec: ['check', 7] }", "{ port: null, path: '/', exec: ['check', '7'] }"] {
        check(&format!("healthCheck: {exec}"), |job| {
            let cmd = vec!["check".to_owned(), "7".to_owned()];
            job.task.health_check = Some(HealthCheck::of(Probe::Exec { cmd }));
        });
    }
    check("readiness: null", |_| {});
    check("readiness: { port: 'http', path: '/ready', failures: 2 }", |job| {
        let check = HealthCheck::of(Probe::Http { port: http(), path: "/ready".to_owned() });
        job.task.readiness = Some(HealthCheck { failures_max: 2, ..check });
    });
    for ports in [
        "ports: { https: { static: 443 }, http: {}, old: null }",
        "ports: ['http'], staticPorts: { https: 443 }",
    ] {
        check(ports, |job| {
            job.task.ports.insert(http());
            job.task.static_ports = [(PortName::new("https").expect("a name"), 443)].into();
        });
    }
    for when in RestartWhen::ALL {
        check(&format!("restart: '{when}'"), |job| job.restart = RestartPolicy::on(when));
        check(&format!("restart: {{ policy: '{when}', failures: 3 }}"), |job| {
            (job.restart.when, job.restart.failures_max) = (when, Some(3));
        });
    }
    check("logs: { keep: '7d' }", |job| job.task.logs.keep = Some(Span::from_secs(604_800)));
    for max in ["max: '256 MiB'", "maxBytes: 268435456", "maxBytes: '268435456'"] {
        check(&format!("logs: {{ {max} }}"), |job| job.task.logs.max = Some(Bytes(256 << 20)));
    }
    check("ports: ['http'], metrics: { port: 'http' }", |job| {
        job.task.ports.insert(http());
        job.metrics = Some(MetricsPage::on(http()));
    });
    check("healthCheck: { tcp: 'http' }, metrics: { port: 'http', path: '/m' }", |job| {
        job.task.health_check = Some(HealthCheck::of(Probe::Tcp { port: http() }));
        job.metrics = Some(MetricsPage { port: http(), path: "/m".to_owned() });
    });
    for restart in ["{ failures: 'unlimited' }", "{ unlimited: true }", "{}"] {
        check(&format!("restart: {restart}"), |job| job.restart.failures_max = None);
    }
    check("restart: { unlimited: false }", |_| {});
    check("restart: { failures: 3, delay: '2s', delayMax: '1m' }", |job| {
        job.restart = RestartPolicy {
            failures_max: Some(3),
            delay: Span::from_secs(2),
            delay_max: Span::from_secs(60),
            reset_after: Span::from_secs(60),
            ..RestartPolicy::default()
        };
    });
}

/// A service is started again however it ends, unless its description names another policy.
#[test]
fn the_default_restart_policy_depends_on_the_appclass() {
    use RestartWhen::{Always, Never, OnFailure};
    let service = "(import 'borg.libsonnet').service('x', cmd=['a'])";
    let batch = "(import 'borg.libsonnet').batch('x', cmd=['a'])";
    let plain = "{ name: 'x', cmd: ['a'], appclass: 'latency-sensitive' }";
    for (source, when, failures_max) in [
        (service.to_owned(), Always, None),
        (plain.to_owned(), Always, None),
        (batch.to_owned(), OnFailure, Some(10)),
        // A policy that does not name the ends keeps the usual ones.
        (format!("{service} {{ restart: {{ delay: '2s' }} }}"), Always, None),
        (format!("{service} {{ restart+: {{ failures: 3 }} }}"), Always, Some(3)),
        (format!("{plain} {{ restart: {{ failures: 3 }} }}"), Always, Some(3)),
        (format!("{batch} {{ restart: {{ failures: 3 }} }}"), OnFailure, Some(3)),
        (format!("{batch} {{ appclass: 'latency-sensitive' }}"), Always, Some(10)),
        // An explicit one stays.
        (format!("{service} {{ restart: 'on-failure' }}"), OnFailure, Some(10)),
        (format!("{service} {{ restart: 'never' }}"), Never, Some(10)),
        (format!("{service} {{ restart+: {{ policy: 'on-failure' }} }}"), OnFailure, None),
        (format!("{batch} {{ restart: 'always' }}"), Always, None),
    ] {
        let restart = jobs(&source)[0].restart;
        assert_eq!((restart.when, restart.failures_max), (when, failures_max), "{source}");
    }
}

#[test]
fn overrides_are_given_by_index_range_or_list() {
    let source = "{ name: 'x', cmd: ['a'], tasks: 9, cpu: 1, env: { A: 1 }, overrides: {
        '0-2,8': { ram: '1 GiB', env: { B: 2 } },
        '5': { cmd: ['b'], processes: 7 },
        '6': {},
    } }";
    let job = &jobs(source)[0];
    assert_eq!(job.overrides.keys().map(|index| index.0).collect::<Vec<_>>(), [0, 1, 2, 5, 6, 8]);
    let task = job.task(TaskIndex(8));
    assert_eq!(task.limit.ram, Bytes(1 << 30));
    assert_eq!(task.limit.cpu, MilliCores(1_000));
    assert_eq!(task.env.len(), 2);
    assert_eq!(job.task(TaskIndex(5)).cmd, ["b"]);
    assert_eq!(job.task(TaskIndex(5)).processes, 7);
    assert_eq!(job.overrides[&TaskIndex(5)].limit, None);
}

#[test]
fn every_field_of_a_task_can_be_overridden() {
    let source = "{ name: 'x', cmd: ['a'], tasks: 3, ports: ['admin'], notice: '5s',
        labels: { tier: 'prod', team: 'search' }, constraints: [{ attribute: 'ssd' }],
        healthCheck: { port: 'admin', interval: '9s' },
        overrides: {
          '0-1': {
            ports: ['debug'], notice: 1, labels: { tier: 'canary', shard: 7 },
            healthCheck: { port: 'debug', path: '/leader' },
            constraints: [{ attribute: 'gpu', value: 'H200' }],
          },
          '2': { ports: [], constraints: [] },
        } }";
    let job = &jobs(source)[0];
    let port = |name: &str| PortName::new(name).expect("a name");
    let (first, last) = (job.task(TaskIndex(1)), job.task(TaskIndex(2)));
    assert_eq!(first.ports, BTreeSet::from([port("debug")]));
    assert_eq!(first.notice, Span::from_secs(1));
    let check = HealthCheck::of(Probe::Http { port: port("debug"), path: "/leader".to_owned() });
    assert_eq!(first.health_check, Some(check), "the whole check is replaced");
    assert_eq!(first.constraints, [constraint("gpu", Relation::Equal, "H200", true)]);
    let label = |index, key| job.label(TaskIndex(index), key);
    assert_eq!((label(1, "tier"), label(2, "tier")), (Some("canary"), Some("prod")));
    assert_eq!((label(1, "shard"), label(1, "team")), (Some("7"), Some("search")));
    assert_eq!((last.ports.len(), last.constraints.len()), (0, 0));
    assert_eq!((last.notice, &last.health_check), (job.task.notice, &job.task.health_check));
    // If the job has no check, individual tasks may have one.
    let source = "{ name: 'x', cmd: ['a'], tasks: 2, healthCheck: { port: null },
        overrides: { '0': { healthCheck: { port: 'http' } }, '1': { healthCheck: null } } }";
    let job = &jobs(source)[0];
    assert!(job.health_check(TaskIndex(0)).is_some() && job.health_check(TaskIndex(1)).is_none());
}

#[test]
fn templates_compute_from_the_final_fields() {
    let served = "borg.service('x', tasks=2, cmd=['a', borg.port('http')])";
    let check = |source: &str| job(source).task.health_check;
    let of = |source: &str| match check(source).expect("one").probe {
        Probe::Http { port, path } => (port.to_string(), path),
        other => panic!("{other:?}"),
    };
    assert_eq!(of(served).1, "/");
    assert_eq!(check(&format!("{served} {{ cmd: ['a'] }}")), None);
    assert_eq!(check(&format!("{served} {{ healthCheck: null }}")), None);
    assert_eq!(
        of("borg.service('x', cmd=['a']) { cmd+: ['--port=' + borg.port('http')] }").0,
        "http"
    );
    assert_eq!(of(&format!("{served} {{ healthCheck+: {{ path: '/healthz' }} }}")).1, "/healthz");
    assert_eq!(
        of("borg.service('x', cmd=['a', 1]) { healthCheck+: { port: 'admin' } }").0,
        "admin"
    );
    assert_eq!(
        job(&format!("{served} {{ restart+: {{ failures: 3 }} }}")).restart.failures_max,
        Some(3)
    );
    assert_eq!(job(&format!("{served} {{ cmd+: ['b'] }}")).task.cmd, ["a", "${port.http}", "b"]);
}

#[test]
fn per_task_gives_only_what_differs() {
    let job_ = job("borg.batch('x', tasks=4, cmd=['a'], perTask=function(i) {
           cmd+: if i == 0 then [] else ['--seed', i],
           env+: { INDEX: i, SAME: 1 },
           ram: if i == 3 then borg.GiB(1) else super.ram,
         }) { env: { SAME: 1, OTHER: 2 }, ram: '64 MiB' }");
    assert_eq!(job_.overrides.len(), 4);
    let first = &job_.overrides[&TaskIndex(0)];
    assert_eq!((&first.cmd, first.limit), (&None, None));
    assert_eq!(first.env, BTreeMap::from([("INDEX".to_owned(), "0".to_owned())]));
    let last = &job_.overrides[&TaskIndex(3)];
    assert_eq!(last.cmd.as_deref(), Some(&["a", "--seed", "3"].map(str::to_owned)[..]));
    assert_eq!(last.limit.map(|limit| limit.ram), Some(Bytes(1 << 30)));
    // The number of tasks and the command are the final ones.
    let job_ = job(
        "borg.service('x', cmd=['a'], perTask=function(i) { cmd+: [i] }) { tasks: 2, cmd: ['b'] }",
    );
    assert_eq!(job_.task(TaskIndex(1)).cmd, ["b", "1"]);
    let job_ = job("borg.batch('x', tasks=3, cmd=['a'], perTask=function(i) {})");
    assert!(job_.overrides.is_empty());
    let job_ = job("borg.service('x', tasks=2, cmd=['a', borg.port('http')],
         perTask=function(i) if i == 0 then {} else {
           labels+: { tier: 'canary' }, healthCheck+: { path: '/leader' }, ports: ['admin'],
           notice: '1s', constraints+: [borg.attribute('gpu')],
         }) { labels: { team: 'search' }, constraints: [borg.attribute('ssd')] }");
    assert_eq!(job_.overrides.keys().collect::<Vec<_>>(), [&TaskIndex(1)]);
    let last = &job_.overrides[&TaskIndex(1)];
    assert_eq!(last.labels, BTreeMap::from([("tier".to_owned(), "canary".to_owned())]));
    let check = last.health_check.as_ref().expect("a check");
    let port = PortName::new("http").expect("a name");
    assert_eq!(check.probe, Probe::Http { port, path: "/leader".to_owned() });
    assert_eq!(last.constraints.as_ref().map(Vec::len), Some(2));
    assert_eq!((&last.cmd, last.limit, last.processes), (&None, None, None));
}

#[test]
fn helpers_give_references_and_quantities() {
    let job_ = job(
        "borg.batch('x', cmd=[borg.port('a'), borg.index, borg.job, borg.user, borg.cell, borg.cpu,
                                  borg.ram]) {
           priority: borg.priority.free, ram: borg.MiB(64) + borg.KiB(1), disk: borg.TiB(1) }",
    );
    let references =
        ["port.a", "task.index", "task.job", "task.user", "task.cell", "task.cpu", "task.ram"];
    let references = references.map(|name| format!("${{{name}}}"));
    assert_eq!(job_.task.cmd, references);
    assert_eq!(job_.priority, Band::Free.usual());
    assert_eq!(job_.task.limit.ram, Bytes((64 << 20) + 1024));
    assert_eq!(job_.task.limit.disk, Bytes(1 << 40));
    for band in Band::ALL {
        let mut words = band.name().split('-');
        let first = words.next().expect("a word").to_owned();
        let name = words.fold(first, |name, word| name + &word[..1].to_uppercase() + &word[1..]);
        let job_ = job(&format!("borg.batch('x', cmd=['a']) {{ priority: borg.priority.{name} }}"));
        assert_eq!(job_.priority, band.usual());
    }
}

#[test]
fn files_import_each_other_and_read_variables() {
    let files = [
        ("base.libsonnet", "{ cmd:: ['a'], job(name): { name: name, cmd: $.cmd } }"),
        ("motd", "hello"),
    ];
    let source = "local base = import 'base.libsonnet';
        base.job('x') { env: { MOTD: importstr 'motd', CELL: std.extVar('cell'), USER: std.extVar('user'), FILE: std.thisFile } }";
    let job = with_files(source.as_bytes(), &files).expect("a job").remove(0);
    let env: Vec<_> = job.task.env.iter().map(|(name, value)| format!("{name}={value}")).collect();
    assert_eq!(env, ["CELL=dev", "FILE=job.bcl", "MOTD=hello", "USER=ana"]);
}
