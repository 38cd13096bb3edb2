//! The list of controllers: each has its turn, whatever the others do.

use cell::OpenLockSession;

use super::*;
use crate::controller::{Controller, Controllers, Turn};

/// A leader for whose every controller there is something to do: a machine that has missed all its
/// polls and whose drain is over, a job that has been dead for longer than such are kept, one with an
/// open update, and a lock session that was not renewed.
fn with_work_for_all() -> World {
    let mut world = World::new();
    world.tick();
    world.answer(true, 3, &[]);
    world.submit(1);
    world.request(kill("web", TaskSelection::All));
    let task = TaskSpec::of(vec!["x".to_owned()]);
    let name = model::JobName::new("db").expect("a name");
    let mut spec = JobSpec::of(name, model::Band::Production.usual(), 1, task);
    world.submit_spec(spec.clone());
    let instance = InstanceId { collection: CollectionId(2), ..instance(0, 1) };
    let (machine, ports, victims) = (M1, Vec::new(), Vec::new());
    world.apply(&Op::assign(vec![Assignment {
        address: None,
        instance,
        alloc: None,
        machine,
        ports,
        victims,
    }]));
    spec.task.cmd.push("y".to_owned());
    world.submit_spec(spec);
    let machine = MachineName::new("m1").expect("a name");
    let deadline = Some(world.now + Span::from_secs(60));
    let mut drain = cell::DrainMachine { deadline, ..cell::DrainMachine::of(machine, "") };
    // It is down already: the drain takes nothing away at once.
    drain.reason = "a new kernel".to_owned();
    world.request(drain.into());
    world.request(OpenLockSession { lease: Span::from_secs(12) }.into());
    // What the leader wants from here on is what its controllers are asked for.
    world.now = world.now + Settings::default().dead_jobs_for;
    for _missed in 0..Settings::default().missed_polls_max {
        world.now = world.now + Span::from_secs(2);
        world.shard.tick(world.now, &world.cell, &mut world.actions);
        world.failed();
        for action in std::mem::take(&mut world.actions) {
            if let Action::Propose(op @ Op::MachineUnreachable { .. }) = action {
                world.apply(&op);
            }
        }
    }
    let (now, cell) = (world.now, &world.cell);
    world.master.spread(now, &[ReplicaId(1)]);
    world.master.heard(now, cell, ReplicaId(1), &world.shard.contacts_changed());
    world
}

/// What each controller proposes, by name, in the order of the list.
fn proposed_by(world: &mut World) -> Vec<(&'static str, Vec<String>)> {
    let controllers = world.master.leading.as_mut().expect("it leads");
    let mut all = Vec::new();
    for controller in controllers.all_mut() {
        let (mut actions, settings) = (Vec::new(), Settings::default());
        let (now, cell) = (world.now, &world.cell);
        controller.run(&mut Turn { now, cell, settings: &settings, actions: &mut actions });
        let proposed = actions.iter().filter_map(|action| match action {
            Action::Propose(op) => Some(in_words(op)),
            _ => None,
        });
        all.push((controller.name(), proposed.collect()));
    }
    all
}

#[test]
fn every_controller_has_its_turn_and_none_starves_another() {
    let mut world = with_work_for_all();
    let down = "MachineSilent { machine: MachineId(1) }";
    let forget = "Forget { collections: [CollectionId(1)] }";
    let change = "StepUpdate { job: CollectionId(2), version: Version(2), \
                  steps: [Change(TaskIndex(0))] }";
    let expire = "ExpireDrain { machine: MachineId(1) }";
    let sessions = "ExpireLockSessions { sessions: [LockSessionId(1)] }";
    let all = [
        ("lost-machines", vec![down.to_owned()]),
        ("dead-jobs", vec![forget.to_owned()]),
        ("updates", vec![change.to_owned()]),
        ("drains", vec![expire.to_owned()]),
        ("lock-sessions", vec![sessions.to_owned()]),
        ("short-machines", vec![]),
        ("volumes", vec![]),
        ("changed-inputs", vec![]),
    ];
    assert_eq!(proposed_by(&mut world), all);
    // Nothing of that is applied: each proposes again in its own time, for as long as that is so.
    let mut again = [0; 8];
    for _second in 0..60 {
        world.now = world.now + Span::from_secs(1);
        for (count, (_, proposed)) in again.iter_mut().zip(proposed_by(&mut world)) {
            *count += proposed.len();
        }
    }
    assert!(again[0] >= 3 && again[1] == 6, "{again:?}");
    assert!(again[2] >= 20 && again[3] >= 20 && again[4] >= 20, "{again:?}");
}

#[test]
fn one_turn_of_the_leader_is_one_of_every_controller_in_order() {
    let mut world = with_work_for_all();
    let each: Vec<String> =
        proposed_by(&mut world).into_iter().flat_map(|(_, proposed)| proposed).collect();
    let mut world = with_work_for_all();
    world.master.tick(world.now, &world.cell, &mut world.actions);
    let together = world.actions.iter().filter_map(|action| match action {
        Action::Propose(op) => Some(in_words(op)),
        _ => None,
    });
    assert_eq!(together.collect::<Vec<_>>(), each);
}

#[test]
fn the_leader_is_woken_for_the_first_that_is_due() {
    let world = World::new();
    let due: Vec<_> = world.master.controllers().collect();
    let names: BTreeSet<&str> = due.iter().map(|(name, _)| *name).collect();
    assert_eq!(names.len(), due.len(), "no name twice: {due:?}");
    assert_eq!(world.master.next_tick(), due.iter().filter_map(|(_, due)| *due).min());
    let mut other = Controllers::new(world.now, &world.cell);
    let order = |all: [&dyn Controller; 8]| all.map(Controller::name);
    let names = order(other.all());
    assert_eq!(other.all_mut().map(|controller| controller.name()), names);
}

#[test]
fn a_dead_job_is_kept_as_long_as_its_logs() {
    let mut world = World::new();
    let days = |days: u64| Span::from_secs(days * 86_400);
    for (name, keep) in [("usual", None), ("short", Some(days(0))), ("long", Some(days(3)))] {
        let name = model::JobName::new(name).expect("a name");
        let mut task = TaskSpec::of(vec!["true".to_owned()]);
        task.logs.keep = keep;
        world.submit_spec(JobSpec::of(name.clone(), model::Band::Free.usual(), 1, task));
        world.request(kill(name.as_str(), TaskSelection::All));
    }
    let died = world.now;
    let mut forgotten = |after: Span| {
        world.now = died + after + Span::from_secs(60);
        let all = proposed_by(&mut world);
        all.into_iter().find(|(name, _)| *name == "dead-jobs").map(|(_, ops)| ops.join(", "))
    };
    assert_eq!(forgotten(days(0)).as_deref(), Some(""));
    let both = "Forget { collections: [CollectionId(1), CollectionId(2)] }";
    assert_eq!(forgotten(days(1)).as_deref(), Some(both));
    assert_eq!(forgotten(days(2)).as_deref(), Some(both));
    let all = "Forget { collections: [CollectionId(1), CollectionId(2), CollectionId(3)] }";
    assert_eq!(forgotten(days(3)).as_deref(), Some(all));
}

/// The sessions that the leader expires now.
fn expired(world: &mut World) -> Vec<String> {
    let all = proposed_by(world);
    all.into_iter().filter(|(name, _)| *name == "lock-sessions").flat_map(|all| all.1).collect()
}

#[test]
fn a_lock_session_ends_with_its_lease_counted_anew_after_an_election() {
    let mut world = World::new();
    for lease in [5, 60] {
        world.request(OpenLockSession { lease: Span::from_secs(lease) }.into());
    }
    let opened = world.now;
    let at = |seconds: u64| opened + Span::from_secs(seconds);
    world.now = at(4);
    assert_eq!(expired(&mut world), Vec::<String>::new());
    world.now = at(5);
    let first = "ExpireLockSessions { sessions: [LockSessionId(1)] }";
    assert_eq!(expired(&mut world), [first]);
    // Another leads from now on.
    world.now = at(58);
    let (now, cell) = (world.now, &world.cell);
    world.master.leading = Some(Controllers::new(now, cell));
    world.now = at(62);
    assert_eq!(expired(&mut world), Vec::<String>::new());
    world.now = at(63);
    assert_eq!(expired(&mut world), [first]);
    world.apply(&Op::ExpireLockSessions { sessions: vec![model::LockSessionId(1)] });
    world.now = at(117);
    assert_eq!(expired(&mut world), Vec::<String>::new());
    world.now = at(118);
    assert_eq!(expired(&mut world), [first.replace("Id(1)", "Id(2)")]);
}

/// What leaves a machine that is short, now.
fn relieved(world: &mut World) -> Vec<String> {
    let all = proposed_by(world);
    all.into_iter().filter(|(name, _)| *name == "short-machines").flat_map(|all| all.1).collect()
}

#[test]
fn one_task_after_the_other_leaves_a_machine_that_stays_short() {
    let mut world = World::new();
    world.tick();
    world.answer(true, 3, &[]);
    for (number, band) in [(1, model::Band::Production), (2, model::Band::Free)] {
        let name = model::JobName::new(&format!("job{number}")).expect("a name");
        let task = TaskSpec::of(vec!["x".to_owned()]);
        world.submit_spec(JobSpec::of(name, band.usual(), 2, task));
        for index in 0..2 {
            let instance = InstanceId { collection: CollectionId(number), ..instance(index, 1) };
            let (machine, ports, victims) = (M1, Vec::new(), Vec::new());
            let (address, alloc) = (None, None);
            world.apply(&Op::assign(vec![Assignment {
                address,
                instance,
                alloc,
                machine,
                ports,
                victims,
            }]));
        }
    }
    let describe = |world: &mut World, shortage: Option<model::ShortageState>| {
        let mut report = MachineReport::clone(&world.cell.machine(M1).expect("m1").report);
        let dimension = model::Dimension::Ram;
        report.shortage = shortage.map(|state| model::Shortage { dimension, state });
        let report = Arc::new(report);
        let op = Op::DescribeMachine { machine: M1, report };
        world.apply(&op);
        for controller in world.master.leading.as_mut().expect("it leads").all_mut() {
            controller.applied(world.now, &world.cell, &op, &[]);
        }
    };
    let leaves = |index: u32| {
        let id = InstanceId { collection: CollectionId(2), ..instance(index, 1) };
        in_words(&Op::RelieveMachine { machine: M1, instance: id })
    };
    assert_eq!(relieved(&mut world), Vec::<String>::new());
    describe(&mut world, Some(model::ShortageState::Persists));
    assert_eq!(relieved(&mut world), [leaves(0)]);
    assert_eq!(relieved(&mut world), Vec::<String>::new(), "it has not left yet");
    // Nothing was applied: it is proposed again. Production stays, however long it takes.
    for index in [0, 1] {
        world.now = world.now + Span::from_secs(30);
        assert_eq!(relieved(&mut world), [leaves(index)]);
        let instance = InstanceId { collection: CollectionId(2), ..instance(index, 1) };
        world.apply(&Op::RelieveMachine { machine: M1, instance });
        let usage = model::FinalUsage::UNMEASURED;
        let ended = Observation::Ended { instance, end: End::Stopped, usage };
        world.apply(&Op::Observe { machine: M1, observations: vec![ended] });
    }
    world.now = world.now + Span::from_secs(300);
    assert_eq!(relieved(&mut world), Vec::<String>::new());
    describe(&mut world, Some(model::ShortageState::Eased));
    let leading = world.master.leading.as_ref().expect("it leads");
    assert_eq!(leading.short_machines.due(), None);
}

#[test]
fn tasks_are_told_of_a_changed_secret_every_five_seconds() {
    let mut world = World::new();
    world.tick();
    world.answer(true, 3, &[]);
    let name = || model::SecretName::new("tls").expect("a name");
    let set = |world: &mut World| {
        let key = model::SecretKeyId([1; 8]);
        let sealed = model::Sealed { key, nonce: [0; 12], bytes: vec![1].into() };
        world.request(cell::SetSecret { name: name(), sealed }.into());
    };
    set(&mut world);
    let mut task = TaskSpec::of(vec!["x".to_owned()]);
    task.secrets.insert("/etc/tls".to_owned(), name());
    task.on_change = spec::OnChange::Signal;
    let job = model::JobName::new("web").expect("a name");
    world.submit_spec(JobSpec::of(job, model::Band::Production.usual(), 1, task));
    let (address, alloc, instance) = (None, None, instance(0, 1));
    let (machine, ports, victims) = (M1, Vec::new(), Vec::new());
    let assignment = Assignment { address, instance, alloc, machine, ports, victims };
    world.apply(&Op::assign(vec![assignment]));
    let on = world.cell.machine(M1).expect("m1").name.clone();
    world.apply(&Op::ReadSecrets { machine: on, instance });
    let started = vec![Observation::Started { instance, latency: StartLatency::UNKNOWN }];
    world.apply(&Op::Observe { machine: M1, observations: started });
    let told = |world: &mut World| {
        let all = proposed_by(world);
        let own = all.into_iter().find(|(name, _)| *name == "changed-inputs");
        own.map(|(_, ops)| ops.len()).unwrap_or_default()
    };
    world.now = world.now + Span::from_secs(5);
    assert_eq!(told(&mut world), 0);
    set(&mut world);
    assert_eq!(told(&mut world), 0, "not yet");
    world.now = world.now + Span::from_secs(5);
    assert_eq!(told(&mut world), 1);
    world.apply(&Op::TellInputs { job: instance.collection });
    world.now = world.now + Span::from_secs(60);
    assert_eq!(told(&mut world), 0, "it was told");
}

/// What is done about drains now, and replacements with them.
fn drained(world: &mut World) -> Vec<String> {
    let all = proposed_by(world);
    all.into_iter().filter(|(name, _)| *name == "drains").flat_map(|all| all.1).collect()
}

#[test]
fn a_replacement_makes_room_for_a_pending_task_and_wakes_the_leader() {
    let mut world = World::new();
    world.tick();
    world.answer(true, 3, &[]);
    world.submit(3);
    let job = CollectionId(1);
    let observe = |world: &mut World, observations| {
        world.apply(&Op::Observe { machine: M1, observations });
    };
    for index in 0..5 {
        if index >= 3 {
            world.apply(&Op::StartReplacement { job });
        }
        world.assign(index);
        observe(&mut world, vec![Observation::started(instance(index, 1))]);
    }
    let (end, usage) = (End::Lost { reason: "gone".to_owned() }, model::FinalUsage::UNMEASURED);
    observe(&mut world, vec![Observation::Ended { instance: instance(0, 1), end, usage }]);
    world.now = world.now + Span::from_secs(1);
    assert_eq!(drained(&mut world), Vec::<String>::new(), "it may find room elsewhere");
    let due = world.master.controllers().find(|(name, _)| *name == "drains");
    let due = due.and_then(|(_, due)| due).expect("it looks again");
    assert!(due <= world.now + Span::from_secs(10), "{due:?}");
    world.now = due;
    let remove = Op::RemoveReplacements { job };
    assert_eq!(drained(&mut world), [in_words(&remove)]);
    world.apply(&remove);
    let replacement = world.cell.job(job).and_then(|job| job.task(TaskIndex(3)));
    assert!(replacement.is_some_and(|task| task.up_since().is_none()), "it is being stopped");
    world.now = world.now + Span::from_secs(100);
    assert_eq!(drained(&mut world), Vec::<String>::new(), "it makes room, and the other stays");
}

/// A job whose tasks have so many seconds of notice, and whose budget lets one be down.
fn with_notice(world: &mut World, tasks: u32, seconds: u64) {
    let name = model::JobName::new("web").expect("a name");
    let task = TaskSpec { notice: Span::from_secs(seconds), ..TaskSpec::of(vec!["x".to_owned()]) };
    let mut spec = JobSpec::of(name, model::Band::Production.usual(), tasks, task);
    spec.disruptions.at_once = Some(1);
    world.submit_spec(spec);
}

/// The longest notices in the next order of the machine.
fn notices(world: &World) -> Vec<Option<u64>> {
    let order = order::for_machine(&world.cell, M1, Stamp::default());
    order.stops.iter().map(|stop| stop.notice_max.map(|most| most.as_millis() / 1_000)).collect()
}

#[test]
fn a_notice_is_bounded_by_the_cell_and_by_an_urgent_kill() {
    for (own, most, expected) in
        [(10, None, None), (86_400, None, Some(300)), (10, Some(5), Some(5))]
    {
        let mut world = World::new();
        world.tick();
        world.answer(true, 3, &[]);
        with_notice(&mut world, 2, own);
        world.assign(0);
        world.assign(1);
        if let Some(most) = most {
            world.request(Mutation::SetNoticeMax(cell::SetNoticeMax(Span::from_secs(most))));
        }
        let some = TaskSelection::Some(vec![(TaskIndex(0), TaskIndex(0))]);
        world.request(kill("web", some.clone()));
        assert_eq!(notices(&world), [expected], "{own} {most:?}");
        // It bounds what is being stopped already.
        world.request(Mutation::SetNoticeMax(cell::SetNoticeMax(Span::from_secs(2))));
        assert_eq!(notices(&world), [Some(2)], "{own} {most:?}");
        let Mutation::Kill(kill) = kill("web", some) else { unreachable!("it kills") };
        world.request(Mutation::Kill(cell::Kill { now: true, ..kill }));
        assert_eq!(notices(&world), [Some(0)], "{own} {most:?}");
    }
}

/// It begins with the notice of each task before the deadline, and at the deadline nobody has time any more.
#[test]
fn a_forced_drain_ends_at_its_deadline_whatever_the_notice() {
    let mut world = World::new();
    world.tick();
    world.answer(true, 3, &[]);
    with_notice(&mut world, 3, 86_400);
    for index in 0..3 {
        world.assign(index);
        let started = Observation::started(instance(index, 1));
        world.apply(&Op::Observe { machine: M1, observations: vec![started] });
    }
    let deadline = world.now + Span::from_secs(1_000);
    let machine = MachineName::new("m1").expect("a name");
    let mut drain = cell::DrainMachine::of(machine, "");
    (drain.deadline, drain.force) = (Some(deadline), true);
    world.request(Mutation::DrainMachine(drain));
    let stopping = |world: &World| {
        world.cell.machine(M1).map(|machine| {
            let stops =
                |id: &&InstanceId| world.cell.placement(**id).is_some_and(|at| at.stop.is_some());
            machine.instances().iter().filter(stops).count()
        })
    };
    assert_eq!(stopping(&world), Some(1), "the budget allows one");
    let step = |world: &mut World| {
        let controllers = world.master.leading.as_mut().expect("it leads");
        let (mut actions, settings) = (Vec::new(), Settings::default());
        let (now, cell) = (world.now, &world.cell);
        for controller in
            controllers.all_mut().into_iter().filter(|controller| controller.name() == "drains")
        {
            controller.run(&mut Turn { now, cell, settings: &settings, actions: &mut actions });
        }
        for action in actions {
            if let Action::Propose(op) = action {
                world.apply(&op);
            }
        }
    };
    step(&mut world);
    // The longest notice is five minutes.
    world.now = Time(deadline.0 - 301_000_000);
    step(&mut world);
    assert_eq!(stopping(&world), Some(1));
    let due =
        world.master.controllers().find(|(name, _)| *name == "drains").and_then(|(_, due)| due);
    assert!(due.is_some_and(|due| due <= Time(deadline.0 - 300_000_000)), "{due:?}");
    world.now = Time(deadline.0 - 300_000_000);
    step(&mut world);
    assert_eq!(stopping(&world), Some(3), "beyond the budget");
    assert_eq!(notices(&world), [Some(300); 3]);
    world.now = deadline;
    step(&mut world);
    assert_eq!(notices(&world), [Some(0); 3]);
    world.now = deadline + Span::from_secs(60);
    assert_eq!(drained(&mut world), Vec::<String>::new(), "it was told");
}
