//! A Borglet and a clock, with effects and states written as words.

use std::sync::Arc;

use model::{
    Appclass, Band, CellName, CollectionId, End, Generation, InstanceId, JobName, LogIndex,
    PortName, Span, Stamp, TaskIndex, Term, Time, UserName,
};
use spec::{HealthCheck, TaskSpec};

use crate::{
    Borglet, Desired, Effect, Input, Launch, Order, Recovered, RecoveredStatus, Settings,
    TaskReport,
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
        instance: instance(index),
        cell: CellName::new("dev").expect("a name"),
        user: UserName::new("ana").expect("a name"),
        job: JobName::new("web").expect("a name"),
        priority: Band::Production.usual(),
        appclass: Appclass::LatencySensitive,
        spec: Arc::new(spec),
        ports: vec![(name, port)],
    }
}

fn order(index: u64, tasks: &[(u32, u16)]) -> Order {
    let stamp = Stamp { restore_epoch: 0, term: Term(1), index: LogIndex(index) };
    Order { stamp, tasks: tasks.iter().map(|(index, port)| desired(*index, *port)).collect() }
}

/// A Borglet and a clock, with effects and states written as words.
struct World {
    borglet: Borglet,
    now: Time,
}

impl World {
    fn new() -> Self {
        let machine = Arc::default();
        let borglet = Borglet::new(Settings::default(), machine, Stamp::default(), vec![]);
        Self { borglet, now: Time(1_000_000) }
    }

    fn order(&mut self, index: u64, tasks: &[(u32, u16)]) -> String {
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
        let task = |task: TaskReport| format!("{}: {:?}", task.instance.index, task.status);
        self.borglet.report().tasks.into_iter().map(task).collect::<Vec<_>>().join(", ")
    }
}

fn words(effects: &[Effect]) -> String {
    let word = |effect: &Effect| match effect {
        Effect::PersistStamp(stamp) => format!("persist {}", stamp.index),
        Effect::Start(launch) => {
            format!("start {} [{}] as {}", launch.instance, launch.argv.join(" "), launch.uid)
        }
        Effect::Terminate(instance) => format!("terminate {instance}"),
        Effect::Kill(instance) => format!("kill {instance}"),
        Effect::Check { instance, port, path, .. } => format!("check {instance} {port}{path}"),
        Effect::Retire(instance) => format!("retire {instance}"),
    };
    effects.iter().map(word).collect::<Vec<_>>().join(", ")
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
    assert_eq!(world.input(Input::Checked(instance(0), Ok(()))), "");
    assert_eq!(world.state(), "0: Running { healthy: Some(true) }");
    assert_eq!(world.order(6, &[]), "persist 6, terminate 1-0-1");
    assert_eq!(world.after(9_999), "");
    assert_eq!(world.after(1), "kill 1-0-1");
    assert_eq!(world.after(5_000), "kill 1-0-1", "and again while it is still there");
    assert_eq!(world.input(Input::Ended(instance(0), End::Signalled { signal: 9 })), "");
    assert_eq!(world.state(), "0: Ended(Stopped)");
    assert_eq!(world.order(7, &[]), "persist 7, retire 1-0-1");
    assert_eq!(world.state(), "");
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
    world.input(Input::Checked(instance(0), Ok(())));
    for failure in 1..=3 {
        assert_eq!(world.after(1_000), "check 1-0-1 31000/");
        let stopped = world.input(Input::Checked(instance(0), Err("500".to_owned())));
        assert_eq!(stopped, if failure == 3 { "terminate 1-0-1" } else { "" });
    }
    world.input(Input::Ended(instance(0), End::Exited { code: 0 }));
    assert_eq!(world.state(), "0: Ended(Unhealthy { reason: \"GET / → 500\" })");
}

#[test]
fn a_task_waits_for_its_port_until_the_last_owner_has_ended() {
    let mut world = World::new();
    world.order(5, &[(0, 31000)]);
    world.input(Input::Started(instance(0)));
    assert_eq!(world.order(6, &[(1, 31000)]), "persist 6, terminate 1-0-1");
    let ended = world.input(Input::Ended(instance(0), End::Exited { code: 0 }));
    assert_eq!(ended, "start 1-1-1 [serve 31000 1] as 200001");
}

#[test]
fn one_that_still_waits_is_dropped_without_having_been_started() {
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
fn without_a_free_user_id_a_task_is_lost_and_says_why() {
    let settings = Settings { first_uid: 100, uids: 3, ..Settings::default() };
    let borglet = Borglet::new(settings, Arc::default(), Stamp::default(), vec![]);
    let mut world = World { borglet, now: Time(1_000_000) };
    world.order(5, &[(0, 31000), (1, 31001)]);
    let again = world.input(Input::UidTaken(instance(1)));
    assert_eq!(again, "start 1-1-1 [serve 31001 1] as 102");
    assert_eq!(world.input(Input::UidTaken(instance(1))), "");
    let why = "no user id is free on its machine: all from 100 to 102 are taken";
    assert!(world.state().ends_with(&format!("1: Ended(Lost {{ reason: \"{why}\" }})")));
    // It may be otherwise by now.
    let next = world.order(6, &[(0, 31000), (2, 31002)]);
    assert_eq!(next, "persist 6, retire 1-1-1, start 1-2-1 [serve 31002 2] as 101");
}

#[test]
fn what_outlived_the_last_borglet_is_adopted() {
    let launch = |index| Launch::new(desired(index, 31000), 200_000 + index);
    let recovered = vec![
        Recovered { launch: launch(0), status: RecoveredStatus::Running(Time::ZERO) },
        Recovered { launch: launch(1), status: RecoveredStatus::Ended(End::Exited { code: 7 }) },
    ];
    let stamp = Stamp { restore_epoch: 0, term: Term(1), index: LogIndex(9) };
    let settings = Settings::default();
    let borglet = Borglet::new(settings, Arc::default(), stamp, recovered);
    let mut world = World { borglet, now: Time(1_000_000) };
    assert_eq!(world.state(), "0: Running { healthy: None }, 1: Ended(Exited { code: 7 })");
    assert_eq!(world.order(8, &[]), "refused", "the newest stamp outlived it too");
    let next = world.order(9, &[(0, 31000), (2, 31002)]);
    assert_eq!(next, "retire 1-1-1, start 1-2-1 [serve 31002 2] as 200001");
}

#[test]
fn the_environment_names_the_task_and_its_ports() {
    let mut desired = desired(3, 31000);
    Arc::make_mut(&mut desired.spec).env.insert("PORT".to_owned(), "mine".to_owned());
    let env = Launch::new(desired, 1).env;
    let lines: Vec<String> = env.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let expected = [
        "BORG_CELL=dev",
        "BORG_USER=ana",
        "BORG_JOB=web",
        "BORG_TASK=3",
        "PORT_HTTP=31000",
        "PORT=mine",
    ];
    assert_eq!(lines, expected);
}
