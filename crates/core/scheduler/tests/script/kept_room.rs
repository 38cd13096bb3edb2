//! The room that is kept for a task that waits for its retry.

use super::*;

/// What was evicted for a task that fails again and again is not placed in its room between two
/// attempts: it would be evicted again at the next one.
#[test]
fn room_is_kept_for_a_task_that_waits_for_its_retry() {
    let mut scheduler = Scheduler::new(cell(
        "machine m1 cpu=1000 ram=1000 ports=none",
        "submit ana/low 1 priority=25 cpu=600 ram=100
         submit ana/tiny 1 priority=25 cpu=100 ram=100",
    ));
    following(&mut scheduler, "");
    follow(
        &mut scheduler,
        "at 1\nsubmit ana/high 1 priority=200 cpu=900 ram=100 failures=unlimited",
    );
    let plan = scheduler.pass(Time(1_000_000));
    assert_eq!(shown(scheduler.cell(), &plan.assignments), "ana/high/0 -> m1 evicting ana/low/0\n");
    scheduler.follow(Time(1_000_000), &Op::assign(plan.assignments));
    follow(&mut scheduler, "ended 1-0-1 stopped\nstarted 3-0-1");
    let mut evicted = 0;
    let mut now = 2;
    for (generation, delay) in [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300].into_iter().enumerate()
    {
        follow(&mut scheduler, &format!("at {now}\nended 3-0-{} exit 1", generation + 1));
        let at = Time(now * 1_000_000);
        let plan = scheduler.pass(at);
        assert_eq!((plan.assignments.len(), plan.unplaced), (0, 1), "after failure {generation}");
        let low = scheduler.cell().job(CollectionId(1)).expect("a job");
        let why = why(scheduler.cell(), low, &TaskSelection::All, at);
        let reason = &why.groups[0].reasons[0];
        let said = format!("{} {} ({})", why.groups[0].fits, reason.text, reason.nearest_text);
        let text = "keeps the room for a task of higher priority that is retried soon";
        assert_eq!(said, format!("0 {text} (ana/high/0)"));
        // A scheduler that starts now keeps it, too.
        assert_eq!(Scheduler::new(scheduler.cell().clone()).pass(at).assignments, []);
        now += delay;
        assert_eq!(plan.next, Some(Time(now * 1_000_000)));
        let plan = scheduler.pass(Time(now * 1_000_000));
        assert_eq!(shown(scheduler.cell(), &plan.assignments), "ana/high/0 -> m1\n");
        evicted += plan.assignments[0].victims.len();
        scheduler.follow(Time(now * 1_000_000), &Op::assign(plan.assignments));
    }
    assert_eq!(evicted, 0);
    // When it is gone, the room is there for all.
    follow(&mut scheduler, "kill ana/high\nended 3-0-12 stopped");
    assert_eq!(following(&mut scheduler, ""), "ana/low/0 -> m1\n");
}

/// Only what the waiting task could evict is kept out, and only of its last machine; and a task that
/// waits for long keeps nothing.
#[test]
fn room_kept_for_a_waiting_task_is_bounded() {
    let waiting = "submit ana/high 1 priority=200 cpu=900 ram=100 failures=unlimited";
    for (other, delay, expected) in [
        ("priority=25 cpu=600", "delay=300", ""),
        ("priority=110 cpu=600", "", ""),
        ("priority=25 cpu=100", "", "ana/other/0 -> m1\n"),
        ("priority=25 cpu=600", "delay=301", "ana/other/0 -> m1\n"),
        ("priority=200 cpu=600", "", "ana/other/0 -> m1\n"),
        ("priority=201 cpu=600", "", "ana/other/0 -> m1\n"),
        ("priority=360 cpu=600", "", "ana/other/0 -> m1\n"),
    ] {
        let machine = "machine m1 cpu=1000 ram=1000 ports=none";
        let mut scheduler = Scheduler::new(cell(machine, &format!("{waiting} {delay}")));
        following(&mut scheduler, "");
        follow(&mut scheduler, "at 2\nended 1-0-1 exit 1");
        follow(&mut scheduler, &format!("submit ana/other 1 ram=100 {other}"));
        assert_eq!(following(&mut scheduler, ""), expected, "{other} {delay}");
    }
    let machines = "machine m1 cpu=1000 ram=1000 ports=none\nmachine m2 cpu=900 ram=900 ports=none";
    let mut scheduler = Scheduler::new(cell(machines, waiting));
    following(&mut scheduler, "");
    follow(
        &mut scheduler,
        "at 2\nended 1-0-1 exit 1\nsubmit ana/other 1 priority=25 cpu=600 ram=100",
    );
    assert_eq!(following(&mut scheduler, ""), "ana/other/0 -> m2\n");
}
