//! A nearly full disk: 1,000 MiB and 10,000 files, of which 10 MiB and 100 files are reserved.

use std::collections::BTreeMap;

use model::Priority;
use poll::TaskStatus;

use super::*;
use crate::{DiskAmount, DiskReport, DiskUse};

fn amount(mib: u64, files: u64) -> DiskAmount {
    DiskAmount { bytes: Bytes(mib << 20), files }
}

/// The free amounts, and the usage as `INSTANCE MIB FILES`, with a `+` for more.
fn disk(free: (u64, u64), used: &str) -> DiskReport {
    let line = |line: &str| {
        let [instance, mib, files] =
            line.split_whitespace().collect::<Vec<_>>().try_into().expect("three words");
        let number = |text: &str| text.trim_end_matches('+').parse().expect("a number");
        let more = files.ends_with('+');
        let amount = amount(number(mib), number(files));
        (instance.parse().expect("an instance"), DiskUse { amount, more })
    };
    let used = used.split(',').filter(|text| !text.trim().is_empty()).map(line);
    DiskReport {
        size: amount(1_000, 10_000),
        free: amount(free.0, free.1),
        reserve: amount(10, 100),
        deleting: false,
        used: used.collect::<BTreeMap<_, _>>(),
    }
}

/// A task with a disk request and a priority.
fn asks(index: u32, mib: u64, priority: i64) -> Desired {
    let mut desired = sized(index, 10);
    let spec = Arc::make_mut(&mut desired.spec);
    spec.limit.disk = Bytes(mib << 20);
    spec.health_check = None;
    Desired { priority: Priority::new(priority).expect("a priority"), ..desired }
}

/// Running tasks: 0 requests nothing, 1 requests 100 MiB, 2 requests 1 MiB with a higher priority,
/// 3 the same with a lower one.
fn four() -> World {
    let mut world = World::new();
    let tasks = vec![asks(0, 0, 200), asks(1, 100, 200), asks(2, 1, 200), asks(3, 1, 10)];
    world.obey(1, tasks);
    for index in 0..4 {
        world.input(Input::Started(instance(index)));
    }
    world
}

fn sees(world: &mut World, report: DiskReport) -> String {
    world.input(Input::Disk(report))
}

#[test]
fn only_tasks_with_the_largest_excess_of_disk_are_killed() {
    let table: [(&str, (u64, u64), &str, &str); 15] = [
        ("there is room", (10, 100), "1-0-1 500 9000", ""),
        ("nobody has more than they asked for", (0, 0), "1-1-1 100 1000, 1-2-1 1 100", ""),
        ("the largest excess, and not the most", (9, 100), "1-1-1 150 9, 1-2-1 60 9", "kill 1-2-1"),
        (
            "more than one where one is not enough",
            (0, 100),
            "1-0-1 6 9, 1-2-1 6 9, 1-1-1 101 9",
            "kill 1-0-1, kill 1-2-1",
        ),
        ("all of it is freed", (0, 100), "1-0-1 6 9, 1-1-1 107 9", "kill 1-1-1"),
        ("the less important of equals", (5, 100), "1-2-1 30 9, 1-3-1 30 9", "kill 1-3-1"),
        ("then the first of them", (5, 100), "1-0-1 30 9, 1-1-1 130 9", "kill 1-0-1"),
        ("files", (500, 99), "1-0-1 0 101, 1-2-1 0 5000", "kill 1-2-1"),
        ("a request stands for a part", (500, 0), "1-1-1 0 1001, 1-0-1 0 950", "kill 1-0-1"),
        ("a hundred are anybody's", (500, 0), "1-0-1 0 100, 1-2-1 900 100", ""),
        ("both are short", (0, 0), "1-2-1 300 9, 1-0-1 0 8000", "kill 1-2-1, kill 1-0-1"),
        ("one has both", (0, 0), "1-2-1 300 5000, 1-0-1 200 400", "kill 1-2-1"),
        ("a little helps nobody", (0, 100), "1-0-1 0 9, 1-2-1 0 9", ""),
        ("what cannot be counted is too much", (0, 100), "1-1-1 64 64+", "kill 1-1-1"),
        ("strangers fill it", (0, 0), "", ""),
    ];
    for (what, free, used, expected) in table {
        assert_eq!(sees(&mut four(), disk(free, used)), expected, "{what}");
    }
}

#[test]
fn a_task_killed_for_disk_says_why_and_gets_no_notice() {
    let mut world = four();
    let said = |world: &World, index: usize| match &world.borglet.report().tasks[index].status {
        TaskStatus::Ended(end, _) => end.to_string(),
        status => format!("{status:?}"),
    };
    assert_eq!(sees(&mut world, disk((0, 100), "1-2-1 136 9")), "kill 1-2-1");
    assert_eq!(said(&world, 2), "Stopping");
    world.input(Input::Ended(instance(2), End::Signalled { signal: 9 }, FinalUsage::UNMEASURED));
    let expected = "it used 136 MiB of disk, its request is 1 MiB, and the machine ran out of disk";
    assert!(said(&world, 2).ends_with(expected), "{}", said(&world, 2));
    world.now = world.now + Span::from_secs(60);
    assert_eq!(sees(&mut world, disk((500, 0), "1-0-1 0 5812+, 1-3-1 0 20")), "kill 1-0-1");
    world.input(Input::Ended(instance(0), End::Exited { code: 0 }, FinalUsage::UNMEASURED));
    let expected = "it used at least 5812 files, its request of 0 B of disk stands for 100, and the \
                    machine ran out of room for files";
    assert!(said(&world, 0).ends_with(expected), "{}", said(&world, 0));
}

#[test]
fn a_killed_task_frees_its_disk_before_the_next_kill() {
    let mut world = four();
    let full = || disk((0, 100), "1-0-1 300 9, 1-2-1 200 9, 1-3-1 100 9");
    assert_eq!(sees(&mut world, full()), "kill 1-0-1");
    assert_eq!(sees(&mut world, full()), "", "it is being ended");
    world.input(Input::Ended(instance(0), End::Signalled { signal: 9 }, FinalUsage::UNMEASURED));
    let rest = |deleting| DiskReport { deleting, ..disk((0, 100), "1-2-1 200 9, 1-3-1 100 9") };
    world.now = world.now + Span::from_millis(5_999);
    assert_eq!(sees(&mut world, rest(false)), "", "its room may not be counted yet");
    world.now = world.now + Span::from_secs(23);
    assert_eq!(sees(&mut world, rest(true)), "", "its files are being deleted");
    world.now = world.now + Span::from_secs(2);
    assert_eq!(sees(&mut world, rest(true)), "kill 1-2-1", "not for ever");
    world.input(Input::Ended(instance(2), End::Signalled { signal: 9 }, FinalUsage::UNMEASURED));
    // There is enough space, and then there is none again.
    assert_eq!(sees(&mut world, disk((10, 100), "")), "");
    world.now = world.now + Span::from_millis(1);
    let last = disk((0, 100), "1-3-1 100 9");
    assert_eq!(sees(&mut world, last.clone()), "kill 1-3-1");
    // Nor before a deletion already under way.
    let mut world = four();
    assert_eq!(sees(&mut world, DiskReport { deleting: true, ..last.clone() }), "");
    assert_eq!(sees(&mut world, last), "kill 1-3-1");
}

#[test]
fn a_task_that_takes_freed_disk_is_killed_without_waiting() {
    let mut world = four();
    assert_eq!(
        sees(&mut world, disk((0, 100), "1-0-1 300 9, 1-1-1 90 9, 1-2-1 1 9")),
        "kill 1-0-1"
    );
    // The room of the first goes to the next one of the same kind, far beyond its request.
    for (index, used) in [(2, "1-1-1 95 9, 1-2-1 200 9"), (3, "1-1-1 99 9, 1-3-1 200 9")] {
        world.now = world.now + Span::from_millis(250);
        let last =
            DiskReport { deleting: true, ..disk((0, 100), "1-1-1 95 9, 1-2-1 1 9, 1-3-1 1 9") };
        assert_eq!(sees(&mut world, last), "");
        let report = DiskReport { deleting: true, ..disk((0, 100), used) };
        assert_eq!(sees(&mut world, report), format!("kill 1-{index}-1"));
    }
}

#[test]
fn a_notice_is_no_time_to_fill_the_disk() {
    let mut world = four();
    let others = || vec![asks(1, 100, 200), asks(2, 1, 200), asks(3, 1, 10)];
    // All are healthy.
    world.after(1_000);
    assert_eq!(world.obey(2, others()), "persist 2");
    assert_eq!(world.after(1_500), "terminate 1-0-1");
    let full = || disk((0, 100), "1-0-1 300 9, 1-2-1 200 9");
    assert_eq!(sees(&mut world, full()), "kill 1-0-1", "it was told to stop, and goes on");
    world.input(Input::Ended(instance(0), End::Signalled { signal: 9 }, FinalUsage::UNMEASURED));
    let notice = Some(model::NoticeDelivery::Partial);
    let usage = FinalUsage { notice, ..FinalUsage::UNMEASURED };
    assert_eq!(
        world.borglet.report().tasks[0].status,
        TaskStatus::Ended(End::Stopped, usage),
        "and lost the rest of it"
    );
}
