//! Every file in `examples/` evaluates to what its comments say.

use crate::{Files, settings};
use model::{Bytes, MilliCores, TaskIndex};
use spec::{JobReference, JobSpec, Kind};

macro_rules! example {
    ($name:literal) => {
        ($name, include_str!(concat!("../../../../../examples/", $name)))
    };
}

/// The files' names and contents.
pub(crate) const EXAMPLES: [(&str, &str); 7] = [
    example!("hello.bcl"),
    example!("batch.bcl"),
    example!("too-big.bcl"),
    example!("overrides.bcl"),
    example!("pipeline.bcl"),
    example!("workers.bcl"),
    example!("allocs.bcl"),
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
    let http = model::PortName::new("http").expect("a name");
    assert_eq!(check.probe, spec::Probe::Http { port: http, path: "/".to_owned() });
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

#[test]
fn each_step_of_the_pipeline_runs_after_those_before() {
    let jobs = evaluate("pipeline.bcl");
    let steps: Vec<_> = jobs.iter().map(|job| (job.name.as_str(), job.tasks)).collect();
    assert_eq!(steps, [("extract", 1), ("transform", 4), ("load", 1)]);
    let after = |job: &JobSpec| job.after.iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(after(&jobs[0]), [""; 0]);
    assert_eq!(after(&jobs[1]), ["extract"]);
    assert_eq!(after(&jobs[2]), ["extract", "transform"]);
}

#[test]
fn the_workers_end_with_their_parent_and_say_what_suits_them() {
    let jobs = evaluate("workers.bcl");
    let [crawler, workers] = &jobs[..] else { panic!("two jobs") };
    let wants = |job: &JobSpec, index| {
        let shown = |c: &spec::Constraint| format!("{}{c}", if c.hard { "" } else { "soft: " });
        job.constraints(TaskIndex(index)).iter().map(shown).collect::<Vec<_>>()
    };
    assert_eq!(wants(crawler, 0), ["cores >= 1", "soft: ssd is present"]);
    let usual = ["arch != \"riscv64\"", "soft: gpu is not present"];
    assert_eq!(wants(workers, 1), usual);
    assert_eq!(wants(workers, 0), [usual[0], usual[1], "kernel is present"]);
    let parent = JobReference { user: None, job: crawler.name.clone() };
    assert_eq!((&crawler.parent, &workers.parent), (&None, &Some(parent)));
    assert_eq!(workers.scheduling_class.number(), 1);
    assert_eq!(workers.label(TaskIndex(0), "tier"), Some("canary"));
    assert_eq!(workers.label(TaskIndex(0), "app"), Some("crawler"));
}

#[test]
fn a_web_server_and_its_log_saver_share_a_room() {
    let jobs = evaluate("allocs.bcl");
    let [room, web, saver] = &jobs[..] else { panic!("three jobs") };
    assert_eq!(room.kind, Kind::AllocSet { users: [].into() });
    assert_eq!((room.tasks, room.total().to_string().as_str()), (2, "0.6 cores, 320 MiB"));
    let alloc_set = Some(JobReference { user: None, job: room.name.clone() });
    for job in [web, saver] {
        assert_eq!(job.kind, Kind::Job { alloc_set: alloc_set.clone() });
        assert_eq!(job.tasks, room.tasks);
    }
    let both = web.task.limit.plus(saver.task.limit);
    assert_eq!(both.first_above(&room.task.limit), None, "an alloc holds one task of each");
    assert!(web.task.health_check.is_some() && saver.task.health_check.is_none());
}
