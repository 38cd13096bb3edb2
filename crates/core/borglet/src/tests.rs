//! A Borglet and a clock, with effects and states written as words.

mod allocs;
mod cpu;
mod disk;
mod inputs;
mod memory;
mod notice;
mod ports;
mod readiness;
mod runtime;
mod savers;
mod start_latency;
mod volumes;

use std::sync::Arc;

use model::{
    Appclass, Band, Bytes, CellName, CollectionId, End, FinalUsage, Generation, InstanceId,
    JobName, LogIndex, MachineReport, MilliCores, PortName, Resources, RestoreEpoch, Span, Stamp,
    TaskIndex, Term, Time, UserName,
};
use poll::{Desired, Order, TaskReport, TaskStatus, VolumeDirectory};
use spec::{HealthCheck, LogSettings, TaskSpec};

use crate::CheckKind;
use crate::{
    Borglet, Effect, ImageDefaults, Input, Launch, Probe, Recovered, RecoveredStatus, SaverLaunch,
    Settings,
};

fn instance(index: u32) -> InstanceId {
    InstanceId { collection: CollectionId(1), index: TaskIndex(index), generation: Generation(1) }
}

fn desired(index: u32, port: u16) -> Desired {
    let name = PortName::new("http").expect("a name");
    let cmd = vec!["serve".to_owned(), "${port.http}".to_owned(), "${task.index}".to_owned()];
    let mut spec = TaskSpec::of(cmd);
    spec.health_check = Some(HealthCheck::on(name.clone()));
    Desired {
        address: None,
        volumes: Vec::new(),
        reads_again: 0,
        max_runtime: None,
        instance: instance(index),
        alloc: None,
        cell: CellName::new("dev").expect("a name"),
        user: UserName::new("ana").expect("a name"),
        job: JobName::new("web").expect("a name"),
        priority: Band::Production.usual(),
        appclass: Appclass::LatencySensitive,
        tasks: index + 1,
        spec: Arc::new(spec),
        ports: vec![(name, port)],
    }
}

/// A task with its own ports and a memory limit.
fn sized(index: u32, mib: u64) -> Desired {
    let mut desired = desired(index, 31_000 + u16::try_from(index).expect("a small index"));
    Arc::make_mut(&mut desired.spec).limit = limit(100, mib);
    desired
}

fn limit(cpu_milli: u64, mib: u64) -> Resources {
    let (cpu, ram) = (MilliCores(cpu_milli), Bytes(mib << 20));
    Resources { cpu, ram, ..Resources::default() }
}

fn order(index: u64, tasks: Vec<Desired>) -> Order {
    let stamp = Stamp { restore_epoch: RestoreEpoch::NEVER, term: Term(1), index: LogIndex(index) };
    Order { stamp, tasks, ..Order::default() }
}

/// A machine with ample CPU and the given memory.
fn machine(mib: u64) -> Arc<MachineReport> {
    Arc::new(MachineReport { capacity: limit(1_000_000, mib), ..MachineReport::default() })
}

/// A Borglet and a clock, with effects and states written as words.
struct World {
    borglet: Borglet,
    now: Time,
}

impl World {
    fn new() -> Self {
        Self::with_mib(1 << 20)
    }

    fn with_mib(mib: u64) -> Self {
        let borglet =
            Borglet::new(Settings::default(), machine(mib), Stamp::default(), vec![], vec![]);
        Self { borglet, now: Time(1_000_000) }
    }

    fn order(&mut self, index: u64, tasks: &[(u32, u16)]) -> String {
        let tasks = tasks.iter().map(|(index, port)| desired(*index, *port)).collect();
        self.obey(index, tasks)
    }

    fn obey(&mut self, index: u64, tasks: Vec<Desired>) -> String {
        let mut effects = Vec::new();
        match self.borglet.obey(self.now, order(index, tasks), &mut effects) {
            Ok(()) => words(&effects),
            Err(_) => "refused".to_owned(),
        }
    }

    fn input(&mut self, input: Input) -> String {
        let mut effects = Vec::new();
        self.borglet.step(self.now, input, &mut effects);
        words(&effects)
    }

    fn after(&mut self, ms: u64) -> String {
        self.now = self.now + Span::from_millis(ms);
        self.input(Input::Tick)
    }

    fn state(&self) -> String {
        let task = |task: TaskReport| match task.status {
            TaskStatus::Ended(end, usage) => {
                let used = usage.to_string();
                let comma = if used.is_empty() { "" } else { ", " };
                format!("{}: Ended({end:?}){comma}{used}", task.instance.index)
            }
            status => format!("{}: {status:?}", task.instance.index),
        };
        self.borglet.report().tasks.into_iter().map(task).collect::<Vec<_>>().join(", ")
    }
}

fn words(effects: &[Effect]) -> String {
    let word = |effect: &Effect| {
        Some(match effect {
            Effect::PersistStamp(stamp) => format!("persist {}", stamp.index),
            Effect::Start(launch) => {
                format!("start {} [{}] as {}", launch.instance, launch.argv.join(" "), launch.uid)
            }
            Effect::Terminate(instance, _) => format!("terminate {instance}"),
            Effect::Kill(instance) => format!("kill {instance}"),
            Effect::Check { instance, probe: Probe::Http { port, path, .. }, .. } => {
                format!("check {instance} {port}{path}")
            }
            Effect::Check { instance, probe: Probe::Tcp { port, .. }, .. } => {
                format!("check {instance} tcp {port}")
            }
            Effect::Check { instance, probe: Probe::Exec { argv }, .. } => {
                format!("check {instance} [{}]", argv.join(" "))
            }
            Effect::ShareCpus(cpus) => format!("share {cpus:?}"),
            Effect::CapCpu { instance, cap } => match cap.max() {
                Some(max) => format!("cap {instance} at {max}"),
                None => format!("lift the cap of {instance}"),
            },
            Effect::Resize { instance, limit } => format!("resize {instance} to {limit}"),
            Effect::ReadAgain(launch) => format!("{} reads again", launch.instance),
            Effect::Retire { instance, logs: None } => format!("retire {instance}"),
            Effect::Retire { instance, logs: Some(logs) } => format!("retire {instance}: {logs}"),
            Effect::LookAtVolumes(volumes) => format!("look at {} volumes", volumes.len()),
            Effect::KeepLogs(logs) => format!("keep logs for {}", logs.keep),
            Effect::Probe => "probe".to_owned(),
            Effect::MakeAlloc(alloc) => format!("make {} of {}", alloc.instance, alloc.limit),
            Effect::ResizeAlloc { instance, limit } => format!("resize {instance} to {limit}"),
            Effect::RemoveAlloc { instance, .. } => format!("remove {instance}"),
            Effect::MeasureData(instance) => format!("measure {instance}"),
            Effect::RunSaver(launch) => {
                let SaverLaunch { kept, uid } = &**launch;
                let argv = kept.argv.join(" ");
                format!("save {} [{argv}] as {uid}, attempt {}", kept.instance, kept.attempts)
            }
            Effect::KillSaver(instance) => format!("kill the saver of {instance}"),
            Effect::EndData(kept) => match &kept.outcome {
                Some(outcome) => format!("{} {outcome}", kept.instance),
                None => format!("{} has no outcome", kept.instance),
            },
            Effect::ForgetData(instance) => format!("forget {instance}"),
            // It goes with the effect that kills.
            Effect::NoteRule { .. } => return None,
        })
    };
    effects.iter().filter_map(word).collect::<Vec<_>>().join(", ")
}

/// The indexes of started and terminated instances.
fn short(effects: &str) -> String {
    let word = |effect: &str| {
        let (verb, rest) = effect.split_once(' ')?;
        let index = rest.split('-').nth(1)?;
        (verb == "start" || verb == "terminate").then(|| format!("{verb} {index}"))
    };
    effects.split(", ").filter_map(word).collect::<Vec<_>>().join(", ")
}

#[test]
fn volumes_are_looked_at_when_an_order_says_others() {
    let mut world = World::new();
    let directory = |name: &str| VolumeDirectory {
        volume: name.parse().expect("a name"),
        path: format!("/srv/{name}").parse().expect("a path"),
    };
    for (index, names, looked) in [
        (5, vec![], None),
        (6, vec!["a", "b"], Some(2)),
        (7, vec!["a", "b"], None),
        (8, vec![], Some(0)),
    ] {
        let volumes = names.into_iter().map(directory).collect();
        let order = Order { volumes, ..order(index, Vec::new()) };
        let mut effects = Vec::new();
        world.borglet.obey(world.now, order, &mut effects).expect("a newer order");
        let said = effects.iter().find_map(|effect| match effect {
            Effect::LookAtVolumes(volumes) => Some(volumes.len()),
            _ => None,
        });
        assert_eq!(said, looked, "{index}");
    }
}

#[test]
fn logs_are_kept_as_the_last_order_says() {
    let mut world = World::new();
    let mut give = |index, keep: Option<u64>, tasks: Vec<Desired>| {
        let mut effects = Vec::new();
        let logs =
            keep.map(|keep| LogSettings { keep: Span::from_secs(keep), ..LogSettings::default() });
        let order = Order { logs, ..order(index, tasks) };
        world.borglet.obey(world.now, order, &mut effects).expect("it is newer");
        words(&effects)
    };
    let keeps = |keep: Option<u64>| {
        let mut desired = desired(0, 31_000);
        Arc::make_mut(&mut desired.spec).logs.keep = keep.map(Span::from_secs);
        desired
    };
    assert_eq!(give(5, Some(60), vec![]), "persist 5, keep logs for 1 m");
    assert_eq!(give(6, Some(60), vec![]), "persist 6");
    assert_eq!(give(7, None, vec![]), "persist 7", "what was said before");
    let started = "persist 8, keep logs for 2 m, start 1-0-1 [serve 31000 0] as 200000";
    assert_eq!(give(8, Some(120), vec![keeps(Some(5))]), started);
    assert_eq!(give(9, None, vec![keeps(Some(9))]), "persist 9", "it runs on");
    let mut effects = Vec::new();
    let ended = Input::Ended(instance(0), End::Exited { code: 0 }, FinalUsage::UNMEASURED);
    world.borglet.step(world.now, ended, &mut effects);
    let mut effects = Vec::new();
    world.borglet.obey(world.now, order(10, vec![]), &mut effects).expect("it is newer");
    assert_eq!(words(&effects), "persist 10, retire 1-0-1: keep 9 s");
}

#[test]
fn a_task_is_started_checked_stopped_and_retired() {
    let mut world = World::new();
    let started = world.order(5, &[(0, 31000)]);
    assert_eq!(started, "persist 5, start 1-0-1 [serve 31000 0] as 200000");
    assert_eq!(world.order(5, &[(0, 31000)]), "", "an order is not executed twice");
    assert_eq!(world.input(Input::Started(instance(0))), "");
    assert_eq!(world.state(), "0: Running { healthy: None }");
    assert_eq!(world.after(10), "check 1-0-1 31000/");
    assert_eq!(world.after(10_000), "", "one check at a time");
    assert_eq!(world.input(Input::Checked(instance(0), CheckKind::Health, Ok(String::new()))), "");
    assert_eq!(world.state(), "0: Running { healthy: Some(true) }");
    assert_eq!(world.order(6, &[]), "persist 6");
    assert_eq!(world.after(1_499), "", "clients find out first");
    assert_eq!(world.after(1), "terminate 1-0-1");
    assert_eq!(world.after(9_999), "");
    assert_eq!(world.after(1), "kill 1-0-1");
    assert_eq!(world.after(5_000), "kill 1-0-1", "and again while it is still there");
    assert_eq!(
        world.input(Input::Ended(
            instance(0),
            End::Signalled { signal: 9 },
            FinalUsage::UNMEASURED
        )),
        ""
    );
    assert_eq!(world.state(), "0: Ended(Stopped)");
    assert_eq!(world.order(7, &[]), "persist 7, retire 1-0-1");
    assert_eq!(world.state(), "");
}

#[test]
fn usage_of_an_instance_is_reported_for_every_kind_of_end() {
    let (cpu_time, memory_peak) = (Some(Span(210_000)), Some(Bytes(52 << 20)));
    let usage = FinalUsage { cpu_time, memory_peak, notice: None };
    let used = "210 ms of CPU time, 52 MiB of memory at most";
    let mut world = World::new();
    world.order(5, &[(0, 31000), (1, 31001)]);
    world.input(Input::Started(instance(0)));
    world.input(Input::Ended(instance(0), End::Exited { code: 0 }, usage));
    world.order(6, &[(0, 31000)]);
    world.input(Input::Ended(instance(1), End::Signalled { signal: 15 }, usage));
    let said = world.state();
    assert_eq!(said, format!("0: Ended(Exited {{ code: 0 }}), {used}, 1: Ended(Stopped), {used}"));
}

#[test]
fn an_older_order_is_refused_and_changes_nothing() {
    let mut world = World::new();
    world.order(5, &[(0, 31000)]);
    assert_eq!(world.order(4, &[(1, 31001)]), "refused");
    assert_eq!(world.state(), "0: Starting");
}

#[test]
fn an_unhealthy_task_is_stopped_and_says_why() {
    let mut world = World::new();
    world.order(5, &[(0, 31000)]);
    world.input(Input::Started(instance(0)));
    world.after(10);
    world.input(Input::Checked(instance(0), CheckKind::Health, Ok(String::new())));
    for failure in 1..=3 {
        assert_eq!(world.after(1_000), "check 1-0-1 31000/");
        let stopped =
            world.input(Input::Checked(instance(0), CheckKind::Health, Err("500".to_owned())));
        assert_eq!(stopped, if failure == 3 { "terminate 1-0-1" } else { "" });
    }
    world.input(Input::Ended(instance(0), End::Exited { code: 0 }, FinalUsage::UNMEASURED));
    assert_eq!(world.state(), "0: Ended(Unhealthy { reason: \"GET / → 500\" })");
}

#[test]
fn a_task_waits_for_its_port_until_the_last_owner_has_ended() {
    let mut world = World::new();
    world.order(5, &[(0, 31000)]);
    world.input(Input::Started(instance(0)));
    assert_eq!(world.order(6, &[(1, 31000)]), "persist 6, terminate 1-0-1");
    let ended =
        world.input(Input::Ended(instance(0), End::Exited { code: 0 }, FinalUsage::UNMEASURED));
    assert_eq!(ended, "start 1-1-1 [serve 31000 1] as 200001");
}

#[test]
fn a_waiting_task_is_dropped_without_a_start() {
    let mut world = World::new();
    world.order(5, &[(0, 31000)]);
    world.order(6, &[(1, 31000)]);
    assert_eq!(world.order(7, &[]), "persist 7");
    assert_eq!(world.state(), "0: Stopping");
}

#[test]
fn a_user_id_that_a_stranger_has_is_left_to_him() {
    let mut world = World::new();
    world.order(5, &[(0, 31000), (1, 31001)]);
    let again = world.input(Input::UidTaken(instance(0)));
    assert_eq!(again, "start 1-0-1 [serve 31000 0] as 200002");
    let again = world.input(Input::UidTaken(instance(0)));
    assert_eq!(again, "start 1-0-1 [serve 31000 0] as 200003");
    world.input(Input::Started(instance(0)));
    let next = world.order(6, &[(0, 31000), (1, 31001), (2, 31002)]);
    assert_eq!(next, "persist 6, start 1-2-1 [serve 31002 2] as 200004");
    assert_eq!(world.order(7, &[(0, 31000), (1, 31001)]), "persist 7, terminate 1-2-1");
    assert_eq!(world.input(Input::UidTaken(instance(2))), "", "it is not wanted any more");
    assert!(world.state().ends_with("2: Ended(Stopped)"), "{}", world.state());
}

#[test]
fn a_task_without_a_free_user_id_is_lost_and_says_why() {
    let settings = Settings { first_uid: 100, uids: 3, ..Settings::default() };
    let borglet = Borglet::new(settings, Arc::default(), Stamp::default(), vec![], vec![]);
    let mut world = World { borglet, now: Time(1_000_000) };
    world.order(5, &[(0, 31000), (1, 31001)]);
    let again = world.input(Input::UidTaken(instance(1)));
    assert_eq!(again, "start 1-1-1 [serve 31001 1] as 102");
    assert_eq!(world.input(Input::UidTaken(instance(1))), "");
    let why = "no user id is free on its machine: all from 100 to 102 are taken";
    assert!(world.state().ends_with(&format!("1: Ended(Lost {{ reason: \"{why}\" }})")));
    // The user ids may be free by now.
    let next = world.order(6, &[(0, 31000), (2, 31002)]);
    assert_eq!(next, "persist 6, retire 1-1-1, start 1-2-1 [serve 31002 2] as 101");
}

#[test]
fn tasks_of_the_previous_borglet_are_adopted() {
    let launch = |index| Launch::new(desired(index, 31000), None, 200_000 + index);
    let recovered = vec![
        Recovered { launch: launch(0), status: RecoveredStatus::Running(Time::ZERO) },
        Recovered {
            launch: launch(1),
            status: RecoveredStatus::Ended(End::Exited { code: 7 }, FinalUsage::UNMEASURED),
        },
    ];
    let stamp = Stamp { restore_epoch: RestoreEpoch::NEVER, term: Term(1), index: LogIndex(9) };
    let settings = Settings::default();
    let borglet = Borglet::new(settings, machine(1 << 20), stamp, vec![], recovered);
    let mut world = World { borglet, now: Time(1_000_000) };
    assert_eq!(world.state(), "0: Running { healthy: None }, 1: Ended(Exited { code: 7 })");
    assert_eq!(world.order(8, &[]), "refused", "the newest stamp outlived it too");
    let next = world.order(9, &[(0, 31000), (2, 31002)]);
    assert_eq!(
        next,
        "retire 1-1-1, resize 1-0-1 to 0.1 cores, 64 MiB, start 1-2-1 [serve 31002 2] as 200001",
        "whoever set the limit may have died while doing so"
    );
}

#[test]
fn the_environment_names_the_task_and_its_ports() {
    let mut desired = desired(3, 31000);
    Arc::make_mut(&mut desired.spec).env.insert("PORT".to_owned(), "mine".to_owned());
    let env = Launch::new(desired, None, 1).env;
    let lines: Vec<String> = env.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let expected = [
        "BORG_CELL=dev",
        "BORG_USER=ana",
        "BORG_JOB=web",
        "BORG_TASK=3",
        "BORG_TASKS=4",
        "BORG_CPU=0.1",
        "BORG_RAM=67108864",
        "BORG_DISK=0",
        "BOURG_NOTICE=/run/bourg/notice/notice.json",
        "PORT_HTTP=31000",
        "PORT=mine",
    ];
    assert_eq!(lines, expected);
}

#[test]
fn an_image_gives_what_the_job_does_not_say() {
    let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
    let image = || ImageDefaults {
        entrypoint: owned(&["/entry", "-v"]),
        cmd: owned(&["serve"]),
        env: [("PATH", "/app"), ("PORT", "80"), ("MODE", "image")]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into(),
    };
    let launch = |cmd: &[&str]| {
        let mut desired = desired(3, 31000);
        let spec = Arc::make_mut(&mut desired.spec);
        spec.cmd = owned(cmd);
        spec.env.insert("MODE".to_owned(), "job".to_owned());
        let mut launch = Launch::new(desired, None, 1);
        launch.complete(image());
        launch
    };
    assert_eq!(launch(&[]).argv, ["/entry", "-v", "serve"]);
    let replaced = launch(&["/bin/sh", "-c", "true"]);
    assert_eq!(replaced.argv, ["/bin/sh", "-c", "true"]);
    let value = |name: &str| {
        let mut found = replaced.env.iter().filter(|(other, _)| other == name);
        let value = found.next().map(|(_, value)| value.as_str());
        assert_eq!(found.next(), None, "{name} is there once");
        value
    };
    // The port is the task's, and the job's own variable is its own.
    assert_eq!(["PATH", "PORT", "MODE"].map(value), [Some("/app"), Some("31000"), Some("job")]);
}

#[test]
fn a_new_limit_is_asked_for_until_it_is_in_force() {
    let mut world = World::new();
    let held = |world: &World| world.borglet.limit(instance(0)).expect("it is here").to_string();
    world.obey(5, vec![sized(0, 64)]);
    assert_eq!(world.obey(6, vec![sized(0, 96)]), "persist 6", "not before it runs");
    let started = world.input(Input::Started(instance(0)));
    assert_eq!(started, "resize 1-0-1 to 0.1 cores, 96 MiB");
    assert_eq!(world.obey(7, vec![sized(0, 16)]), "persist 7", "one at a time");
    assert_eq!(held(&world), "0.1 cores, 64 MiB");
    let resized = |world: &mut World, mib| world.input(Input::Resized(instance(0), mib));
    let next = resized(&mut world, Some(limit(100, 96)));
    assert_eq!(next, "resize 1-0-1 to 0.1 cores, 16 MiB", "and then what is wanted by now");
    assert_eq!(resized(&mut world, Some(limit(100, 96))), "", "memory that is in use");
    assert_eq!(held(&world), "0.1 cores, 96 MiB");
    assert_eq!(world.obey(8, vec![sized(0, 16)]), "persist 8", "no sooner for being said again");
    world.after(999);
    assert_eq!(held(&world), "0.1 cores, 96 MiB");
    assert_eq!(world.borglet.next_tick(), Some(world.now + Span::from_millis(1)));
    assert_eq!(world.after(1), "resize 1-0-1 to 0.1 cores, 16 MiB");
    assert_eq!(resized(&mut world, None), "");
    let again = world.after(2_000);
    assert_eq!(again, "resize 1-0-1 to 0.1 cores, 16 MiB");
    assert_eq!(resized(&mut world, Some(limit(100, 16))), "");
    assert_eq!(held(&world), "0.1 cores, 16 MiB");
    assert_eq!(world.after(100_000), "");
    assert_eq!(world.state(), "0: Running { healthy: None }");
}

#[test]
fn only_changes_without_a_restart_are_applied_in_place() {
    let mut world = World::new();
    let first = desired(0, 31000);
    world.obey(5, vec![first.clone()]);
    world.input(Input::Started(instance(0)));
    let mut changed = desired(0, 31007);
    changed.priority = Band::Free.usual();
    changed.appclass = Appclass::Batch;
    let spec = Arc::make_mut(&mut changed.spec);
    spec.limit = Resources { disk: Bytes(1 << 30), ..limit(500, 64) };
    spec.cmd = vec!["other".to_owned()];
    spec.env.insert("OTHER".to_owned(), String::new());
    spec.notice = Span::ZERO;
    spec.health_check = None;
    let resized = world.obey(6, vec![changed.clone()]);
    assert_eq!(resized, "persist 6, resize 1-0-1 to 0.5 cores, 64 MiB, 1 GiB disk");
    let mut expected = Launch::new(first, None, 200_000);
    expected.desired.priority = changed.priority;
    expected.desired.appclass = changed.appclass;
    Arc::make_mut(&mut expected.desired.spec).limit = changed.spec.limit;
    assert_eq!(world.borglet.launch(instance(0)), Some(&expected));
    assert_eq!(world.after(10), "check 1-0-1 31000/");
}

#[test]
fn a_waiting_task_is_started_with_its_newest_limit() {
    let mut world = World::with_mib(100);
    world.obey(5, vec![sized(0, 80)]);
    world.obey(6, vec![sized(1, 40)]);
    assert_eq!(world.borglet.limit(instance(1)), Some(limit(100, 40)));
    let smaller = world.obey(7, vec![sized(1, 20)]);
    assert_eq!(smaller, "persist 7, start 1-1-1 [serve 31001 1] as 200001");
    assert_eq!(world.borglet.limit(instance(1)), Some(limit(100, 20)));
    assert_eq!(world.input(Input::Started(instance(1))), "", "there is nothing to change");
    // The same holds for a task that is started again.
    let mut world = World::new();
    world.obey(5, vec![sized(0, 64)]);
    world.obey(6, vec![sized(0, 96)]);
    let again = world.input(Input::UidTaken(instance(0)));
    assert_eq!(again, "start 1-0-1 [serve 31000 0] as 200001");
    assert_eq!(world.borglet.limit(instance(0)), Some(limit(100, 96)));
    assert_eq!(world.input(Input::Started(instance(0))), "");
}

#[test]
fn a_task_waits_for_the_room_of_tasks_evicted_for_it() {
    use Input::{Ended, Machine, Started};
    let gone = |index| Ended(instance(index), End::Signalled { signal: 9 }, FinalUsage::UNMEASURED);
    let mut world = World::with_mib(100);
    assert_eq!(short(&world.obey(1, vec![sized(1, 40), sized(2, 40)])), "start 1, start 2");
    // Both make room for two others, of which the smaller fits beside the stopping ones.
    let others = || vec![sized(3, 80), sized(4, 20)];
    assert_eq!(short(&world.obey(2, others())), "terminate 1, terminate 2, start 4");
    assert_eq!(world.state(), "1: Stopping, 2: Stopping, 3: Starting, 4: Starting");
    assert_eq!(short(&world.input(Started(instance(4)))), "");
    assert_eq!(short(&world.obey(3, others())), "");
    assert_eq!(short(&world.input(gone(1))), "", "half of the room is not enough");
    assert_eq!(short(&world.input(gone(2))), "start 3");
    // A machine that shrank stops what it must, and still starts what was placed on it.
    assert_eq!(short(&world.input(Machine(machine(10)))), "");
    assert_eq!(short(&world.obey(4, vec![sized(3, 80), sized(5, 50)])), "terminate 4");
    assert_eq!(short(&world.input(gone(4))), "start 5", "nothing stops any more");
}

#[test]
fn a_task_takes_the_room_of_its_limit_in_force() {
    let mut world = World::with_mib(100);
    world.obey(1, vec![sized(1, 60), sized(2, 40)]);
    world.input(Input::Started(instance(1)));
    assert_eq!(
        world.obey(2, vec![sized(1, 20), sized(3, 40)]),
        "persist 2, terminate 1-2-1, resize 1-1-1 to 0.1 cores, 20 MiB",
        "it would fit if the lower limit were in force"
    );
    assert_eq!(short(&world.input(Input::Resized(instance(1), Some(limit(100, 60))))), "");
    world.after(1_000);
    assert_eq!(short(&world.input(Input::Resized(instance(1), Some(limit(100, 20))))), "start 3");
}

/// An order that comes late is nothing; one after the other is a machine that has another history.
#[test]
fn a_machine_that_rejects_every_order_says_so_until_it_obeys_one() {
    let obeyed = Stamp {
        restore_epoch: RestoreEpoch { counter: 1, random: 5 },
        term: Term(3),
        index: LogIndex(256),
    };
    let settings = Settings::default();
    let mut borglet = Borglet::new(settings, machine(1 << 20), obeyed, vec![], vec![]);
    let other = RestoreEpoch { counter: 1, random: 6 };
    let order = |index| Order {
        stamp: Stamp { restore_epoch: other, term: Term(3), index: LogIndex(index) },
        ..Order::default()
    };
    let at = |second| Time::ZERO + Span::from_secs(second);
    let says = |borglet: &Borglet| {
        borglet.report().machine.attributes.get(model::attribute::REJECTS_ORDERS).cloned()
    };
    let mut effects = Vec::new();
    for (second, index) in [(100, 35), (105, 36), (110, 400)] {
        assert_eq!(says(&borglet), None, "at {second} s");
        let refused = borglet.obey(at(second), order(index), &mut effects);
        assert!(refused.is_err(), "whatever its index is");
    }
    assert_eq!(says(&borglet), Some(obeyed.to_string()));
    borglet.step(at(111), Input::Machine(machine(1 << 20)), &mut effects);
    assert_eq!(says(&borglet), Some(obeyed.to_string()), "it is measured anew");
    let wrong = Stamp { index: LogIndex(255), ..obeyed };
    let overruling = |overrules| Order { overrules: Some(overrules), ..order(37) };
    assert!(borglet.obey(at(112), overruling(wrong), &mut effects).is_err());
    assert!(effects.is_empty());
    assert!(borglet.obey(at(113), overruling(obeyed), &mut effects).is_ok());
    assert!(matches!(effects[0], Effect::PersistStamp(stamp) if stamp == order(37).stamp));
    assert_eq!((says(&borglet), borglet.report().stamp), (None, order(37).stamp));
    let back = Order { stamp: obeyed, ..Order::default() };
    assert!(borglet.obey(at(114), back, &mut effects).is_err(), "the other one is over");
}
