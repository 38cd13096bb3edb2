//! Allocs and their tasks. The ids of allocs begin with 9.

use super::*;
use crate::{DiskAmount, DiskReport, DiskUse, RecoveredAlloc};
use poll::DesiredAlloc;

fn alloc_id(index: u32) -> InstanceId {
    InstanceId { collection: CollectionId(9), ..instance(index) }
}

fn alloc(index: u32, mib: u64) -> DesiredAlloc {
    DesiredAlloc {
        address: None,
        appclass: Appclass::Batch,
        instance: alloc_id(index),
        cell: CellName::new("dev").expect("a name"),
        user: UserName::new("bob").expect("a name"),
        name: JobName::new("room").expect("a name"),
        priority: Band::Production.usual(),
        limit: limit(1_000, mib),
        saver: None,
    }
}

/// A task with a memory limit in an alloc.
fn inside(alloc: u32, index: u32, mib: u64) -> Desired {
    Desired { alloc: Some(alloc_id(alloc)), ..sized(index, mib) }
}

/// An adopted task that is running.
fn running(desired: Desired) -> Recovered {
    let launch = Launch::new(desired, None, 200_000);
    Recovered { launch, status: RecoveredStatus::Running(Time::ZERO) }
}

fn recovered(allocs: Vec<RecoveredAlloc>, tasks: Vec<Recovered>) -> World {
    let (settings, machine) = (Settings::default(), machine(1 << 20));
    let borglet = Borglet::new(settings, machine, Stamp::default(), allocs, tasks);
    World { borglet, now: Time(1_000_000) }
}

impl World {
    fn orders(&mut self, index: u64, allocs: Vec<DesiredAlloc>, tasks: Vec<Desired>) -> String {
        let mut effects = Vec::new();
        let order = Order { allocs, ..order(index, tasks) };
        self.borglet.obey(self.now, order, &mut effects).expect("a newer order");
        words(&effects)
    }

    /// The states, one word each.
    fn brief(&self) -> String {
        let task = |task: TaskReport| {
            let status = match task.status {
                TaskStatus::Starting => "starting".to_owned(),
                TaskStatus::Running { healthy } => format!("running {healthy:?}"),
                TaskStatus::Stopping => "stopping".to_owned(),
                TaskStatus::Unready => "unready".to_owned(),
                TaskStatus::Ended(end, _) => end.to_string(),
            };
            format!("{} {status}", task.instance)
        };
        self.borglet.report().tasks.into_iter().map(task).collect::<Vec<_>>().join(", ")
    }

    fn made(&mut self, index: u32) -> String {
        self.input(Input::AllocMade(alloc_id(index), Ok(())))
    }

    fn ended(&mut self, index: u32) -> String {
        self.input(Input::Ended(
            instance(index),
            End::Signalled { signal: 15 },
            FinalUsage::UNMEASURED,
        ))
    }
}

#[test]
fn an_alloc_is_made_filled_emptied_and_removed() {
    let mut world = World::new();
    let all = || (vec![alloc(0, 100)], vec![inside(0, 0, 40), inside(0, 1, 40)]);
    let (allocs, tasks) = all();
    assert_eq!(world.orders(5, allocs, tasks), "persist 5, make 9-0-1 of 1 core, 100 MiB");
    assert_eq!(world.brief(), "1-0-1 starting, 1-1-1 starting, 9-0-1 starting");
    let (allocs, tasks) = all();
    assert_eq!(world.orders(5, allocs, tasks), "", "an order is not executed twice");
    assert_eq!(short(&world.made(0)), "start 0, start 1", "only now");
    assert_eq!(world.made(0), "");
    world.input(Input::Started(instance(0)));
    assert_eq!(world.brief(), "1-0-1 running None, 1-1-1 starting, 9-0-1 running Some(true)");
    // The cell removes the alloc and its tasks; a task that ends alone changes nothing.
    assert_eq!(world.ended(1), "");
    assert_eq!(world.orders(6, vec![], vec![]), "persist 6, retire 1-1-1, terminate 1-0-1");
    assert_eq!(world.brief(), "1-0-1 stopping, 9-0-1 stopping");
    assert_eq!(world.after(9_999), "");
    assert_eq!(world.after(1), "kill 1-0-1", "it had its notice");
    assert_eq!(world.ended(0), "remove 9-0-1", "not from under a task");
    assert_eq!(world.orders(7, vec![], vec![]), "persist 7, retire 1-0-1");
    assert_eq!(world.brief(), "9-0-1 stopping");
    assert_eq!(world.input(Input::AllocRemoved(alloc_id(0))), "");
    assert_eq!(world.brief(), "9-0-1 stopped");
    assert_eq!(world.orders(8, vec![], vec![]), "persist 8");
    assert_eq!(world.brief(), "");
}

#[test]
fn a_task_is_never_started_where_its_alloc_is_not() {
    // The contents of the order, the resulting effects, and the report.
    let table = [
        ("neither", vec![], vec![], "persist 5", ""),
        ("no alloc", vec![], vec![inside(0, 0, 9)], "persist 5", ""),
        (
            "another alloc",
            vec![alloc(1, 9)],
            vec![inside(0, 0, 9)],
            "persist 5, make 9-1-1 of 1 core, 9 MiB",
            "9-1-1 starting",
        ),
        (
            "its alloc",
            vec![alloc(0, 9)],
            vec![inside(0, 0, 9)],
            "persist 5, make 9-0-1 of 1 core, 9 MiB",
            "1-0-1 starting, 9-0-1 starting",
        ),
    ];
    for (what, allocs, tasks, done, reported) in table {
        let mut world = World::new();
        assert_eq!(world.orders(5, allocs, tasks), done, "{what}");
        assert_eq!(world.brief(), reported, "{what}");
    }
}

#[test]
fn a_task_ends_with_its_alloc_even_if_still_ordered() {
    let mut world = World::new();
    world.orders(5, vec![alloc(0, 100)], vec![inside(0, 0, 40), inside(0, 1, 90)]);
    world.made(0);
    let went = world.orders(6, vec![], vec![inside(0, 0, 40), inside(0, 1, 90)]);
    assert_eq!(short(&went), "terminate 0, terminate 1");
    // The alloc does not come back, and nothing new is started in it.
    let tasks = vec![inside(0, 0, 40), inside(0, 2, 1)];
    assert_eq!(world.orders(7, vec![alloc(0, 100)], tasks), "persist 7");
    assert_eq!(world.ended(1), "");
    assert_eq!(world.ended(0), "remove 9-0-1");
    world.input(Input::AllocRemoved(alloc_id(0)));
    assert_eq!(world.brief(), "1-0-1 stopped, 1-1-1 stopped, 1-2-1 starting, 9-0-1 stopped");
}

#[test]
fn an_unwanted_alloc_is_removed_once_it_is_made() {
    let mut world = World::new();
    world.orders(5, vec![alloc(0, 100)], vec![inside(0, 0, 40)]);
    assert_eq!(world.orders(6, vec![], vec![]), "persist 6", "it is being made");
    assert_eq!(world.brief(), "9-0-1 stopping");
    assert_eq!(world.made(0), "remove 9-0-1");
    let mut world = World::new();
    world.orders(5, vec![alloc(0, 100)], vec![]);
    world.orders(6, vec![], vec![]);
    let failed = Err("the disk is full".to_owned());
    assert_eq!(world.input(Input::AllocMade(alloc_id(0), failed)), "");
    assert_eq!(world.brief(), "9-0-1 stopped");
}

#[test]
fn a_failed_alloc_says_why_and_its_tasks_wait_for_orders() {
    let mut world = World::new();
    world.orders(5, vec![alloc(0, 100)], vec![inside(0, 0, 40)]);
    let failed = Err("the disk is full".to_owned());
    assert_eq!(world.input(Input::AllocMade(alloc_id(0), failed)), "");
    assert_eq!(world.brief(), "1-0-1 starting, 9-0-1 not started: the disk is full");
    assert_eq!(world.orders(6, vec![], vec![]), "persist 6");
    assert_eq!(world.brief(), "");
}

#[test]
fn a_removal_that_fails_is_tried_again() {
    let mut world = World::new();
    world.orders(5, vec![alloc(0, 100)], vec![]);
    world.made(0);
    assert_eq!(world.orders(6, vec![], vec![]), "persist 6, remove 9-0-1");
    assert_eq!(world.borglet.next_tick(), None, "an answer is awaited");
    assert_eq!(world.after(60_000), "");
    assert_eq!(world.input(Input::AllocStays(alloc_id(0))), "");
    assert_eq!(world.borglet.next_tick(), Some(world.now + Span::from_secs(5)));
    assert_eq!(world.after(4_999), "");
    assert_eq!(world.brief(), "9-0-1 stopping");
    assert_eq!(world.after(1), "remove 9-0-1");
}

#[test]
fn an_alloc_is_resized_in_place_until_it_holds() {
    let mut world = World::new();
    let held = |world: &World| world.borglet.limit(alloc_id(0)).expect("it is here").to_string();
    world.orders(5, vec![alloc(0, 100)], vec![]);
    assert_eq!(world.orders(6, vec![alloc(0, 80)], vec![]), "persist 6", "not before it is made");
    assert_eq!(world.made(0), "resize 9-0-1 to 1 core, 80 MiB");
    let refused = Some(limit(1_000, 100));
    assert_eq!(world.input(Input::Resized(alloc_id(0), refused)), "");
    assert_eq!(held(&world), "1 core, 100 MiB");
    assert_eq!(world.borglet.next_tick(), Some(world.now + Span::from_secs(1)));
    assert_eq!(world.after(1_000), "resize 9-0-1 to 1 core, 80 MiB");
    assert_eq!(world.input(Input::Resized(alloc_id(0), Some(limit(1_000, 80)))), "");
    assert_eq!(held(&world), "1 core, 80 MiB");
    assert_eq!(world.borglet.next_tick(), None);
    assert_eq!(world.brief(), "9-0-1 running Some(true)");
}

#[test]
fn allocs_of_the_previous_borglet_are_adopted_with_their_tasks() {
    let found = |made| RecoveredAlloc { instance: alloc_id(0), limit: limit(1_000, 100), made };
    let mut world = recovered(vec![found(true)], vec![running(inside(0, 0, 40))]);
    assert_eq!(world.brief(), "1-0-1 running None, 9-0-1 running Some(true)");
    let next = world.orders(5, vec![alloc(0, 100)], vec![inside(0, 0, 40), inside(0, 1, 9)]);
    assert_eq!(
        next,
        "persist 5, resize 1-0-1 to 0.1 cores, 40 MiB, resize 9-0-1 to 1 core, 100 MiB, \
         start 1-1-1 [serve 31001 1] as 200001",
        "whoever set the limits may have died while doing so"
    );
    // After a reboot its files exist and its tasks do not; it is created again if it is still
    // desired.
    let mut world = recovered(vec![found(false)], vec![]);
    assert_eq!(world.brief(), "9-0-1 starting");
    assert_eq!(world.after(60_000), "", "nobody has said so yet");
    let next = world.orders(5, vec![alloc(0, 120)], vec![inside(0, 1, 9)]);
    assert_eq!(next, "persist 5, make 9-0-1 of 1 core, 120 MiB");
    assert_eq!(short(&world.made(0)), "start 1");
    // It is removed if it is not.
    for made in [true, false] {
        let mut world = recovered(vec![found(made)], vec![]);
        assert_eq!(world.orders(5, vec![], vec![]), "persist 5, remove 9-0-1");
    }
    // The same for an alloc whose files could not be read: tasks still run in it.
    let mut world = recovered(vec![], vec![running(inside(0, 0, 40))]);
    let next = world.orders(5, vec![alloc(0, 100)], vec![inside(0, 0, 40)]);
    assert!(next.ends_with("make 9-0-1 of 1 core, 100 MiB"), "{next}");
    assert_eq!(world.brief(), "1-0-1 running None, 9-0-1 starting");
}

/// The last change may be long ago, and its order is known to have been obeyed.
#[test]
fn a_reboot_requests_the_order_again_if_there_was_an_alloc() {
    let obeyed = order(7, vec![]).stamp;
    for (what, made, expected) in [
        ("the Borglet alone was started again", true, obeyed),
        ("the machine was", false, Stamp::default()),
    ] {
        let found = RecoveredAlloc { instance: alloc_id(0), limit: limit(1_000, 100), made };
        let (settings, machine) = (Settings::default(), machine(1 << 20));
        let borglet = Borglet::new(settings, machine, obeyed, vec![found], vec![]);
        let mut world = World { borglet, now: Time(1_000_000) };
        assert_eq!(world.borglet.report().stamp, expected, "{what}");
        world.orders(7, vec![alloc(0, 100)], vec![]);
        assert_eq!(world.borglet.report().stamp, obeyed, "{what}");
    }
}

#[test]
fn an_alloc_holds_its_room_and_its_tasks_share_it() {
    let mut world = World::with_mib(100);
    // A task is evicted for the alloc; tasks in the alloc use no further resources of the machine.
    world.orders(1, vec![], vec![sized(7, 60)]);
    let inner = || vec![inside(0, 0, 30), inside(0, 1, 30)];
    assert_eq!(world.orders(2, vec![alloc(0, 60)], inner()), "persist 2, terminate 1-7-1");
    assert_eq!(world.ended(7), "make 9-0-1 of 1 core, 60 MiB");
    assert_eq!(short(&world.made(0)), "start 0, start 1");
    let mut tasks = inner();
    tasks.push(sized(8, 40));
    assert_eq!(short(&world.orders(3, vec![alloc(0, 60)], tasks)), "start 8");
    // In it, a task waits for the room of a stopping one although the machine has some.
    let change = || vec![inside(0, 1, 30), inside(0, 2, 20), inside(0, 3, 10)];
    assert_eq!(short(&world.orders(4, vec![alloc(0, 60)], change())), "terminate 0, terminate 8");
    assert_eq!(short(&world.ended(8)), "");
    assert_eq!(short(&world.ended(0)), "start 2, start 3");
    // While the alloc is being removed, another waits for its room.
    assert_eq!(
        short(&world.orders(5, vec![alloc(1, 70)], vec![])),
        "terminate 1, terminate 2, terminate 3"
    );
    for index in 1..=3 {
        let removed = world.ended(index);
        assert_eq!(removed, if index == 3 { "remove 9-0-1" } else { "" });
    }
    assert_eq!(world.input(Input::AllocRemoved(alloc_id(0))), "make 9-1-1 of 1 core, 70 MiB");
}

#[test]
fn ports_are_the_machines_in_an_alloc_too() {
    let mut world = World::new();
    let at = |alloc: Option<u32>, index| Desired {
        alloc: alloc.map(alloc_id),
        ..desired(index, 31_000)
    };
    world.orders(1, vec![alloc(0, 100)], vec![at(Some(0), 0)]);
    assert_eq!(short(&world.made(0)), "start 0");
    assert_eq!(short(&world.orders(2, vec![alloc(0, 100)], vec![at(None, 1)])), "terminate 0");
    assert_eq!(short(&world.ended(0)), "start 1");
}

#[test]
fn the_environment_of_a_task_in_an_alloc_says_where_it_is() {
    let env = Launch::new(inside(3, 0, 1), Some(&alloc(3, 9)), 1).env;
    let of_alloc = env.iter().filter(|(name, _)| name.starts_with("BORG_ALLOC"));
    let lines: Vec<String> = of_alloc.map(|(name, value)| format!("{name}={value}")).collect();
    assert_eq!(lines, ["BORG_ALLOC_DIR=/alloc", "BORG_ALLOC=3", "BORG_ALLOC_SET=bob/room"]);
    let env = Launch::new(sized(0, 1), None, 1).env;
    assert!(!env.iter().any(|(name, _)| name.starts_with("BORG_ALLOC")));
}

#[test]
fn an_alloc_that_overuses_the_disk_is_emptied_with_its_tasks() {
    let mut world = World::new();
    let with_disk = || {
        let mut alloc = alloc(0, 100);
        alloc.limit.disk = Bytes(10 << 20);
        (vec![alloc], vec![inside(0, 0, 40), inside(0, 1, 40)])
    };
    let (allocs, tasks) = with_disk();
    world.orders(1, allocs, tasks);
    world.made(0);
    world.input(Input::Started(instance(0)));
    world.input(Input::Started(instance(1)));
    let mib = |mib: u64| DiskAmount { bytes: Bytes(mib << 20), files: 0 };
    let used = |of: &[(InstanceId, u64)]| {
        let has = |(id, has): &(InstanceId, u64)| (*id, DiskUse { amount: mib(*has), more: false });
        let (size, reserve, used) = (mib(1_000), mib(10), of.iter().map(has).collect());
        Input::Disk(DiskReport { size, reserve, used, ..DiskReport::default() })
    };
    let fits = used(&[(alloc_id(0), 8), (instance(0), 1), (instance(1), 1)]);
    assert_eq!(world.input(fits), "", "it is the alloc that asked for room, and not its tasks");
    let too_much = used(&[(alloc_id(0), 8), (instance(0), 1), (instance(1), 2)]);
    assert_eq!(world.input(too_much), "kill 1-0-1, kill 1-1-1");
    assert_eq!(world.ended(0), "");
    assert_eq!(world.ended(1), "remove 9-0-1", "with its files, once nobody is in it");
    let reason =
        "its alloc used 11 MiB of disk, its request is 10 MiB, and the machine ran out of disk";
    let brief = world.brief();
    assert_eq!(brief.matches(reason).count(), 2, "{brief}");
    assert!(brief.ends_with(", 9-0-1 starting"), "{brief}");
    assert_eq!(world.borglet.report().stamp, order(1, vec![]).stamp);
    assert_eq!(world.input(Input::AllocRemoved(alloc_id(0))), "");
    assert_eq!(world.borglet.report().stamp, Stamp::default(), "an order has to come");
    // Its tasks start again in it.
    let (allocs, mut tasks) = with_disk();
    tasks.iter_mut().for_each(|task| task.instance.generation = Generation(2));
    assert_eq!(
        world.orders(1, allocs, tasks),
        "retire 1-0-1, retire 1-1-1, make 9-0-1 of 1 core, 100 MiB, 10 MiB disk"
    );
    assert_eq!(short(&world.made(0)), "start 0, start 1");
}
