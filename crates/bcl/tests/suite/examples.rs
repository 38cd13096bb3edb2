//! Every file in `examples/` evaluates, to what its comments say.

use crate::{Files, settings};
use model::{Bytes, MilliCores, TaskIndex};
use spec::JobSpec;

macro_rules! example {
    ($name:literal) => {
        ($name, include_str!(concat!("../../../../examples/", $name)))
    };
}

const EXAMPLES: [(&str, &str); 4] = [
    example!("hello.bcl"),
    example!("batch.bcl"),
    example!("too-big.bcl"),
    example!("overrides.bcl"),
];

fn evaluate(name: &str) -> Vec<JobSpec> {
    let (_, source) = EXAMPLES.iter().find(|(known, _)| *known == name).expect(name);
    bcl::evaluate(name, source.as_bytes(), &mut Files::default(), &settings())
        .unwrap_or_else(|errors| panic!("{errors}"))
}

#[test]
fn every_example_evaluates() {
    for (name, _) in EXAMPLES {
        assert!(!evaluate(name).is_empty(), "{name}");
    }
}

#[test]
fn two_lines_run_a_service() {
    let job = evaluate("hello.bcl").remove(0);
    assert_eq!(job.name.as_str(), "hello");
    assert_eq!(job.tasks, 3);
    assert_eq!(job.priority.to_string(), "production(200)");
    assert_eq!(job.task.cmd, ["bourg", "example-server", "--port", "${port.http}"]);
    assert_eq!(job.total().to_string(), "0.3 cores, 192 MiB");
    let check = job.task.health_check.expect("a health check");
    assert_eq!((check.port.as_str(), check.path.as_str()), ("http", "/"));
    assert_eq!(job.restart.failures_max, None);
}

#[test]
fn the_tasks_of_the_batch_differ_in_their_seed() {
    let job = evaluate("batch.bcl").remove(0);
    assert_eq!(job.overrides.len(), 4);
    let cmd = &job.task(TaskIndex(2)).cmd;
    assert_eq!(cmd[..], ["bourg", "example-batch", "--samples", "2000000", "--seed", "2"]);
    assert_eq!(job.restart.failures_max, Some(10));
    assert_eq!(job.limit(TaskIndex(2)), job.task.limit);
}

#[test]
fn too_big_is_too_big() {
    let job = evaluate("too-big.bcl").remove(0);
    assert_eq!(job.task.limit.cpu, MilliCores(1_000_000));
    assert_eq!(job.task.limit.ram, Bytes(4 << 40));
}

#[test]
fn overrides_are_those_of_the_comments() {
    let jobs = evaluate("overrides.bcl");
    let [shards, index] = &jobs[..] else { panic!("two jobs") };
    assert_eq!(shards.task(TaskIndex(0)).cmd.last().map(String::as_str), Some("--leader"));
    assert_eq!(shards.limit(TaskIndex(0)).ram, Bytes(512 << 20));
    assert_eq!(shards.limit(TaskIndex(0)).disk, Bytes(1 << 30));
    assert_eq!(shards.task(TaskIndex(4)).env["CANARY"], "true");
    assert_eq!(shards.task(TaskIndex(4)).env["SHARD"], "${task.index}");
    assert_eq!(shards.restart.failures_max, None);
    assert_eq!(index.limit(TaskIndex(0)).ram, Bytes(64 << 20));
    assert_eq!(index.limit(TaskIndex(2)).ram, Bytes(192 << 20));
    assert_eq!(index.priority.to_string(), "mid(117)");
}
