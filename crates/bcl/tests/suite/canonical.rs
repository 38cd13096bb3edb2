//! The canonical JSON of a description is BCL, and gives that very description.

use std::collections::BTreeMap;

use model::{Appclass, Bytes, JobName, MilliCores, PortName, Priority, Resources, Span, TaskIndex};
use proptest::collection::{btree_map, btree_set, vec};
use proptest::option;
use proptest::prelude::*;
use serde_json::{Map, Value, json};
use spec::{HealthCheck, JobSpec, RestartPolicy, TaskOverride, TaskSpec};

use crate::with_files;

fn span(span: Span) -> Value {
    // As protobuf writes durations: 0, 3, 6 or 9 digits behind the point.
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

fn canonical(job: &JobSpec) -> Value {
    let mut fields = Map::new();
    let mut field = |name: &str, value: Value| drop(fields.insert(name.to_owned(), value));
    field("name", json!(job.name.as_str()));
    field("tasks", json!(job.tasks));
    field("priority", json!(job.priority.number()));
    field("appclass", json!(job.appclass.name().replace('-', "_").to_uppercase()));
    field("labels", json!(job.labels));
    field("cmd", json!(job.task.cmd));
    field("env", json!(job.task.env));
    field("processes", json!(job.task.processes));
    field("ports", json!(job.task.ports.iter().map(PortName::as_str).collect::<Vec<_>>()));
    field("notice", span(job.task.notice));
    if let Some(check) = &job.task.health_check {
        let check = json!({
            "port": check.port.as_str(), "path": check.path, "interval": span(check.interval),
            "timeout": span(check.timeout), "startGrace": span(check.start_grace),
            "failures": check.failures_max,
        });
        field("healthCheck", check);
    }
    let mut restart = json!({
        "delay": span(job.restart.delay), "delayMax": span(job.restart.delay_max),
    });
    if let Some(failures) = job.restart.failures_max {
        restart["failures"] = json!(failures);
    }
    field("restart", restart);
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

/// Any text without references and zero bytes, the awkward ones included.
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
    (port(), "/[!-~]{0,9}", spans(), spans(), spans(), 1..1_000_000_u32).prop_map(
        |(port, path, interval, timeout, start_grace, failures_max)| HealthCheck {
            port,
            path,
            interval,
            timeout,
            start_grace,
            failures_max,
        },
    )
}

fn task() -> impl Strategy<Value = TaskSpec> {
    let ports = btree_set(port(), 0..3);
    (cmd(), env(), resources(), 1..1_u32 << 20, ports, option::of(health_check()), spans())
        .prop_map(|(cmd, env, limit, processes, ports, health_check, notice)| TaskSpec {
            cmd,
            env,
            limit,
            processes,
            ports,
            health_check,
            notice,
        })
}

fn change() -> impl Strategy<Value = TaskOverride> {
    (option::of(cmd()), env(), option::of(resources()), option::of(1..1_u32 << 20))
        .prop_map(|(cmd, env, limit, processes)| TaskOverride { cmd, env, limit, processes })
}

prop_compose! {
    fn job()(
        name in label(),
        priority in 0..=450_i64,
        appclass in prop_oneof![Just(Appclass::Batch), Just(Appclass::LatencySensitive)],
        labels in btree_map("[a-z ]{1,5}", "[^\\p{Cc}]{0,5}", 0..3),
        tasks in 5..30_u32,
        task in task(),
        overrides in btree_map((0..5_u32).prop_map(TaskIndex), change(), 0..4),
        failures_max in option::of(0..1_000_000_u32),
        delays in (spans(), spans()),
    ) -> JobSpec {
        let (delay, delay_max) = (delays.0.min(delays.1), delays.0.max(delays.1));
        JobSpec {
            name: JobName::new(&name).expect("a label"),
            priority: Priority::new(priority).expect("in range"),
            appclass,
            labels,
            tasks,
            task,
            overrides,
            restart: RestartPolicy { failures_max, delay, delay_max },
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
    fn whatever_is_read_nothing_panics_and_what_is_said_is_safe(source in any::<Vec<u8>>()) {
        if let Err(says) = with_files(&source, &[]) {
            prop_assert!(!says.chars().any(|c| c.is_control() && c != '\n'));
        }
    }

    #[test]
    fn whatever_a_field_holds_nothing_panics(
        field in "name|tasks|priority|cpu|cpuMilli|ram|ramBytes|notice|overrides|restart|labels",
        value in prop_oneof![
            any::<f64>().prop_filter("a number", |number| number.is_finite()).prop_map(|n| json!(n)),
            any::<i64>().prop_map(|n| json!(n)),
            any::<String>().prop_map(|text| json!(text)),
            any::<String>().prop_map(|text| json!({ text: 1 })),
            "[0-9]{1,40}([.][0-9]{0,40})? ?[a-zA-Zµ/]{0,4}".prop_map(|text| json!(text)),
            "[0-9,-]{1,12}".prop_map(|text| json!({ text: { "cpu": 1 } })),
        ],
    ) {
        let mut job = json!({ "name": "x", "cmd": ["a"] });
        job[field] = value;
        if let Err(says) = with_files(job.to_string().as_bytes(), &[]) {
            prop_assert!(says.starts_with("error: "));
        }
    }
}
