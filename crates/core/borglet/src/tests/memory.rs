//! A machine that runs out of memory: 64 MiB must stay available.

use std::collections::{BTreeMap, BTreeSet};

use model::{Dimension, Priority, Random, Shortage, ShortageState};
use poll::DesiredAlloc;

use super::*;
use crate::{CpuRound, MemoryReport, REMEMBERED_FOR, memory_reserve};

const RESERVE: u64 = 64;

fn mib(amount: u64) -> Bytes {
    Bytes(amount << 20)
}

/// What is available, and who uses how much, as `INDEX MIB`.
fn memory(available: u64, used: &[(u32, u64)]) -> MemoryReport {
    let used = used.iter().map(|(index, amount)| (instance(*index), mib(*amount)));
    MemoryReport {
        available: mib(available),
        reserve: mib(RESERVE),
        pressed: false,
        used: used.collect(),
    }
}

/// A task with a limit and a priority.
fn task(index: u32, limit_mib: u64, priority: u16) -> Desired {
    let mut desired = sized(index, limit_mib);
    Arc::make_mut(&mut desired.spec).health_check = None;
    Desired { priority: Priority::new(priority.into()).expect("a priority"), ..desired }
}

/// Running tasks with limits, priorities and, unless they are the limits, reservations.
fn running(tasks: &[(u64, u16, Option<u64>)]) -> World {
    let mut world = World::new();
    let of = |(index, (limit, priority, _)): (u32, &(u64, u16, _))| task(index, *limit, *priority);
    world.obey(1, (0..).zip(tasks).map(of).collect());
    let mut reservations = Vec::new();
    for (index, (.., reservation)) in (0..).zip(tasks) {
        world.input(Input::Started(instance(index)));
        reservations.extend(reservation.map(|amount| (instance(index), mib(amount))));
    }
    world.input(Input::Reservations(reservations));
    world
}

/// Who is killed, by index.
fn killed(effects: &str) -> Vec<u32> {
    let index = |word: &str| word.strip_prefix("kill 1-")?.strip_suffix("-1")?.parse().ok();
    effects.split(", ").filter_map(index).collect()
}

fn sees(world: &mut World, report: MemoryReport) -> Vec<u32> {
    killed(&world.input(Input::Memory(report)))
}

fn end(world: &mut World, index: u32) {
    world.input(Input::Ended(
        instance(index),
        End::Signalled { signal: 9 },
        FinalUsage::UNMEASURED,
    ));
}

fn said(world: &World, index: usize) -> String {
    match &world.borglet.report().tasks[index].status {
        TaskStatus::Ended(end, _) => end.to_string(),
        status => format!("{status:?}"),
    }
}

#[test]
fn a_memory_shortage_evicts_tasks_in_the_defined_order() {
    // 0 is production, 1 and 2 are batch of one priority, 3 is free; each has its limit reserved.
    let four = [(100, 200, None), (100, 110, None), (100, 110, None), (100, 25, None)];
    // The same, with little reserved.
    let reclaimed = four.map(|(limit, priority, _)| (limit, priority, Some(10)));
    let all = [(0, 100), (1, 100), (2, 100), (3, 100)];
    let few = [(0, 90), (1, 90), (2, 90), (3, 12)];
    type Case<'a> = (&'a str, [(u64, u16, Option<u64>); 4], u64, &'a [(u32, u64)], &'a [u32]);
    let table: [Case<'_>; 14] = [
        ("there is enough", four, 64, &all, &[]),
        ("all use what they have", four, 63, &all, &[3]),
        ("above its limit, however important", four, 63, &[(0, 101), (1, 100), (3, 100)], &[0]),
        ("the largest excess", four, 0, &[(0, 150), (2, 200), (3, 100)], &[2]),
        ("until the reserve is there", four, 0, &[(0, 150), (1, 100), (2, 130), (3, 100)], &[0]),
        ("more than one", four, 0, &[(0, 120), (1, 30), (2, 30), (3, 30)], &[0, 3, 2]),
        ("the lowest priority, however little", reclaimed, 60, &few, &[3]),
        ("of equals the most above its reservation", reclaimed, 0, &[(1, 80), (2, 90)], &[2]),
        ("of these the newest", reclaimed, 0, &[(1, 90), (2, 90)], &[2]),
        ("one after the other", reclaimed, 0, &[(0, 90), (1, 90), (2, 20), (3, 30)], &[3, 1]),
        ("never production within its limit", four, 0, &[(0, 100)], &[]),
        ("reservations that are not used yet", four, 63, &[(0, 10), (1, 40), (2, 60)], &[2, 1]),
        ("who uses nothing frees nothing", four, 0, &[(3, 0)], &[]),
        ("others use it", four, 0, &[], &[]),
    ];
    for (what, tasks, available, used, expected) in table {
        assert_eq!(sees(&mut running(&tasks), memory(available, used)), expected, "{what}");
    }
}

#[test]
fn tasks_stalled_on_memory_count_as_short_only_if_memory_is_low() {
    let tasks = [(200, 200, None), (200, 25, None)];
    let sees = |available, pressed| {
        let report = MemoryReport { pressed, ..memory(available, &[(0, 10), (1, 150)]) };
        (report.is_low(), report.is_short(), sees(&mut running(&tasks), report))
    };
    assert_eq!(sees(256, true), (false, false, vec![]), "somebody is at its own limit");
    assert_eq!(sees(255, false), (true, false, vec![]));
    assert_eq!(sees(240, true), (true, true, vec![1]), "production needs 190 MiB more");
    assert_eq!(sees(63, false), (true, true, vec![1]));
    assert_eq!(memory_reserve(mib(1_024)), mib(32));
    assert_eq!(memory_reserve(Bytes(1 << 40)), Bytes(1 << 30));
}

#[test]
fn an_evicted_task_says_why_and_has_not_failed() {
    let mut world = running(&[(100, 200, None), (100, 110, Some(40)), (30, 200, None)]);
    assert_eq!(sees(&mut world, memory(10, &[(1, 60), (2, 90)])), [2, 1]);
    end(&mut world, 1);
    end(&mut world, 2);
    let more = "; the machine had 10 MiB of memory available, and 64 MiB must stay available";
    let within = "out of resources: it used 60 MiB of its limit of 100 MiB, 40 MiB were reserved, and \
                  nobody with a priority below its best-effort-batch(110) was left";
    assert_eq!(said(&world, 1), format!("{within}{more}"));
    let above = "out of resources: it used 90 MiB, its limit is 30 MiB";
    assert_eq!(said(&world, 2), format!("{above}{more}"));
}

#[test]
fn memory_of_an_evicted_task_is_awaited_for_a_bounded_time() {
    let tasks = [(100, 25, Some(0)), (100, 110, Some(0)), (100, 110, Some(0))];
    let used = [(0, 90), (1, 90), (2, 80)];
    let mut world = running(&tasks);
    assert_eq!(sees(&mut world, memory(0, &used)), [0]);
    assert_eq!(sees(&mut world, memory(0, &used)), [] as [u32; 0], "it has not ended yet");
    end(&mut world, 0);
    let late = memory(0, &used);
    assert_eq!(sees(&mut world, late), [] as [u32; 0], "measured before its end");
    assert_eq!(sees(&mut world, memory(0, &used[1..])), [1], "it freed nothing");
    world.now = world.now + Span::from_millis(4_999);
    assert_eq!(sees(&mut world, memory(0, &used[1..])), [] as [u32; 0]);
    world.now = world.now + Span::from_millis(1);
    // The first of them is killed once more.
    assert_eq!(sees(&mut world, memory(0, &used[1..])), [2, 1], "its processes hang");
    end(&mut world, 2);
    assert_eq!(sees(&mut world, memory(0, &used[1..2])), [] as [u32; 0], "nobody is left");
}

#[test]
fn a_notice_is_no_time_to_use_memory() {
    let mut world = running(&[(100, 25, None), (100, 200, None)]);
    // All are healthy.
    world.after(1_000);
    assert_eq!(world.obey(2, vec![task(1, 100, 200)]), "persist 2");
    let short = || memory(0, &[(0, 90), (1, 90)]);
    assert_eq!(sees(&mut world, short()), [0]);
    assert_eq!(sees(&mut world, short()), [] as [u32; 0]);
    end(&mut world, 0);
    assert_eq!(said(&world, 0), "stopped", "as it was to be");
}

#[test]
fn an_alloc_is_one() {
    let alloc = |number: u32, limit_mib, priority: u16| DesiredAlloc {
        instance: InstanceId { collection: CollectionId(2), ..instance(number) },
        cell: CellName::new("dev").expect("a name"),
        user: UserName::new("ana").expect("a name"),
        name: JobName::new("room").expect("a name"),
        priority: Priority::new(priority.into()).expect("a priority"),
        limit: limit(100, limit_mib),
        appclass: Appclass::Batch,
        saver: None,
        address: None,
    };
    // Two tasks in an alloc of low priority, one of them more important than that; one beside it.
    let world = |inside: u16| {
        let mut world = World::new();
        let room = alloc(7, 300, 25);
        let inside = [task(0, 100, 25), task(1, 100, inside)];
        let inside = inside.map(|task| Desired { alloc: Some(room.instance), ..task });
        let tasks = inside.into_iter().chain([task(2, 100, 110)]).collect();
        let given = Order { allocs: vec![room.clone()], ..order(1, tasks) };
        let mut effects = Vec::new();
        world.borglet.obey(world.now, given, &mut effects).expect("it is newer");
        world.input(Input::AllocMade(room.instance, Ok(())));
        (0..3).for_each(|index| drop(world.input(Input::Started(instance(index)))));
        (world, room.instance)
    };
    let (mut batch, room) = world(110);
    let uses = |room, available| {
        let mut report = memory(available, &[(0, 90), (1, 90), (2, 90)]);
        report.used.insert(room, mib(180));
        report
    };
    // The one beside it has the lower priority: that of an alloc is the highest in it.
    assert_eq!(sees(&mut batch, uses(room, 10)), [0, 1]);
    assert_eq!(sees(&mut batch, uses(room, 10)), [] as [u32; 0]);
    end(&mut batch, 0);
    let of_it = said(&batch, 0);
    assert!(of_it.contains("its alloc used 180 MiB of its limit of 300 MiB"), "{of_it}");
    let (mut important, room) = world(200);
    assert_eq!(sees(&mut important, uses(room, 10)), [2], "production is in it");
}

/// A task of a random machine.
#[derive(Clone, Copy, Debug)]
struct Used {
    limit: u64,
    priority: u16,
    reservation: u64,
    used: u64,
}

/// 200 machines on which memory runs out, each until it is no longer short or nobody is left.
#[test]
fn under_any_pressure_production_within_its_limit_stays_and_the_order_holds() {
    let (mut shortages, mut evictions, mut ended_short) = (0, 0, 0);
    for seed in 0..200 {
        let mut random = Random::new(seed);
        let one = |_| {
            let priority = [25, 50, 110, 115, 117, 200, 250, 360];
            let priority = priority[usize::try_from(random.below(8)).expect("small")];
            let limit = 1 + random.below(300);
            let reservation = random.below(limit + 1);
            let used = match random.chance(200) {
                true => limit + random.below(200),
                false => random.below(limit + 1),
            };
            Used { limit, priority, reservation, used }
        };
        let mut tasks: Vec<Used> = (0..2 + seed % 29).map(one).collect();
        let of = |task: &Used| (task.limit, task.priority, Some(task.reservation));
        let mut world = running(&tasks.iter().map(of).collect::<Vec<_>>());
        let mut alive: BTreeSet<u32> = (0..).zip(&tasks).map(|(index, _)| index).collect();
        let place = |index: u32| usize::try_from(index).expect("small");
        let mut available = random.below(2 * RESERVE);
        for round in 0..12 {
            let measured: Vec<_> =
                alive.iter().map(|index| (*index, tasks[place(*index)].used)).collect();
            let report = memory(available, &measured);
            let short = report.is_short();
            let needs = |alive: &BTreeSet<u32>| -> u64 {
                let unused = |index: &u32| {
                    let task = &tasks[place(*index)];
                    task.reservation.saturating_sub(task.used)
                };
                RESERVE + alive.iter().map(unused).sum::<u64>()
            };
            let victims = sees(&mut world, report);
            shortages += u64::from(short);
            evictions += victims.len();
            assert!(short || victims.is_empty(), "{seed}/{round}: {victims:?} without a shortage");
            for (position, victim) in victims.iter().enumerate() {
                assert!(available < needs(&alive), "{seed}/{round}: {victim} is one too many");
                let own = tasks[place(*victim)];
                let above = own.used > own.limit;
                assert!(above || own.priority < 120, "{seed}/{round}: {victim} is {own:?}");
                for other in alive.iter().map(|index| (index, tasks[place(*index)])) {
                    let (index, other) = other;
                    let later = !victims[..=position].contains(index);
                    let excess = |task: Used| task.used.saturating_sub(task.limit);
                    assert!(
                        !later || excess(other) <= excess(own),
                        "{seed}/{round}: {own:?} before {other:?}, which is more above its limit"
                    );
                    assert!(
                        !later || above || other.used == 0 || other.priority >= own.priority,
                        "{seed}/{round}: {own:?} before {other:?}, which has a lower priority"
                    );
                }
                alive.remove(victim);
                available += own.used;
                end(&mut world, *victim);
            }
            let is_left = |index: &u32| {
                let task = tasks[place(*index)];
                task.used > 0 && (task.used > task.limit || task.priority < 120)
            };
            if short && available < needs(&alive) {
                assert!(!alive.iter().any(is_left), "{seed}/{round}: it stopped too early");
                ended_short += 1;
            }
            // Usage goes on.
            for index in &alive {
                let task = &mut tasks[place(*index)];
                let more = random.below(task.limit + 1).saturating_sub(task.used).min(available);
                task.used += more;
                available -= more;
            }
        }
    }
    assert!(shortages > 200 && evictions > 400 && ended_short > 20, "{shortages} {evictions}");
}

#[test]
fn files_above_a_request_are_counted_twice() {
    let asks = |index, disk_mib: u64| {
        let mut desired = task(index, 10, 200);
        Arc::make_mut(&mut desired.spec).limit.disk = mib(disk_mib);
        desired
    };
    let mut world = World::new();
    world.obey(1, vec![asks(0, 0), asks(1, 160)]);
    (0..2).for_each(|index| drop(world.input(Input::Started(instance(index)))));
    let mut counts =
        |index, amount| killed(&world.input(Input::DiskCounted(instance(index), mib(amount))));
    let none: [u32; 0] = [];
    for amount in [500, 500, 500] {
        assert_eq!(counts(0, amount), none, "it asked for nothing, and there is room");
    }
    // A sixteenth and 1 MiB are tolerated.
    for amount in [171, 171, 172, 171, 172] {
        assert_eq!(counts(1, amount), none, "{amount}");
    }
    assert_eq!(counts(1, 172), [1]);
    assert_eq!(counts(1, 172), none, "once");
    assert_eq!(counts(9, 172), none, "nobody");
    end(&mut world, 1);
    let expected = "ended by rule: it used 172 MiB of disk, its request is 160 MiB";
    assert_eq!(said(&world, 1), expected);
}

#[test]
fn strange_reports_change_nothing() {
    let mut world = running(&[(100, 25, None)]);
    let all = Bytes(u64::MAX);
    let used = BTreeMap::from([(instance(0), all), (instance(77), all)]);
    let report = MemoryReport { available: all, reserve: all, pressed: true, used };
    assert_eq!(sees(&mut world, report), [] as [u32; 0], "all that must be available is");
    let unknown = vec![(instance(88), all), (instance(0), all)];
    world.input(Input::Reservations(unknown));
    assert_eq!(sees(&mut world, memory(0, &[(0, 100)])), [0]);
}

#[test]
fn an_eviction_is_in_the_report_for_a_while() {
    let mut world = running(&[(100, 25, None), (100, 200, None)]);
    let shortage = |world: &World| world.borglet.report().machine.shortage;
    assert_eq!(shortage(&world), None);
    assert_eq!(sees(&mut world, memory(0, &[(0, 90), (1, 90)])), [0]);
    let eased = Shortage { dimension: Dimension::Ram, state: ShortageState::Eased };
    assert_eq!(shortage(&world), Some(eased));
    // Another description of the machine does not end it.
    world.input(Input::Machine(Arc::default()));
    assert_eq!(shortage(&world), Some(eased));
    world.now = world.now + REMEMBERED_FOR;
    world.input(Input::Cpu(CpuRound::default()));
    assert_eq!(shortage(&world), None);
}
