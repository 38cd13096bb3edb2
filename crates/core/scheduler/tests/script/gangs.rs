//! Gangs: planned whole, or not at all.

use super::*;

#[test]
fn a_gang_is_planned_whole_and_holds_nothing_while_it_waits() {
    plan(
        "machine m1 cpu=1000 ram=1000 ports=none
         machine m2 cpu=1000 ram=1000 ports=none",
        "submit bob/there 1 priority=200 cpu=600 ram=100
         submit ana/train 3 priority=150 cpu=500 ram=100 gang=yes
         submit ana/small 2 priority=100 cpu=500 ram=100",
        &expect![[r#"
            bob/there/0 -> m1
            ana/small/0 -> m2
            ana/small/1 -> m2
            unplaced 3
        "#]],
    );
}

#[test]
fn a_gang_that_fits_is_planned_in_one_turn() {
    plan(
        "machine m1 cpu=1000 ram=1000 ports=1000-1003
         machine m2 cpu=1000 ram=1000 ports=1000-1003",
        "submit ana/train 3 priority=100 cpu=400 ram=100 ports=1 gang=yes
         submit bob/small 1 priority=100 cpu=100 ram=100",
        &expect![[r#"
            ana/train/0 -> m1 1000
            ana/train/1 -> m2 1000
            ana/train/2 -> m1 1001
            bob/small/0 -> m2
            unplaced 0
        "#]],
    );
}

#[test]
fn tasks_are_evicted_for_a_gang_only_where_all_of_it_then_fits() {
    let machines = "machine m1 cpu=1000 ram=1000 ports=none
         machine m2 cpu=1000 ram=1000 ports=none";
    for (other, planned, evicting) in
        [("priority=25 cpu=100", 2, 2), ("priority=300 cpu=600", 0, 0)]
    {
        let mut scheduler = Scheduler::new(cell(
            machines,
            &format!(
                "submit bob/low 1 priority=25 cpu=600 ram=100 per-machine=1\nsubmit bob/other 1 ram=100 {other}"
            ),
        ));
        following(&mut scheduler, "");
        // With the lower priority both are on the machine that packs them best.
        follow(&mut scheduler, "submit ana/train 2 priority=200 cpu=950 ram=100 gang=yes");
        let plan = scheduler.pass(Time(1_000_000));
        let victims: usize = plan.assignments.iter().map(|one| one.victims.len()).sum();
        assert_eq!((plan.assignments.len(), victims), (planned, evicting), "{other}");
    }
}

#[test]
fn a_gang_is_placed_again_when_all_of_its_tasks_have_stopped() {
    let mut scheduler = Scheduler::new(cell(
        "machine m1 cpu=1000 ram=1000 ports=none
         machine m2 cpu=1000 ram=1000 ports=none",
        "submit ana/train 2 priority=100 cpu=900 ram=100 gang=yes failures=3 delay=5",
    ));
    assert_eq!(following(&mut scheduler, "").lines().count(), 2);
    // Its others still stop, and then it waits for its retry.
    assert_eq!(following(&mut scheduler, "at 2\nended 1-0-1 exit 1"), "");
    assert_eq!(following(&mut scheduler, "at 3\nended 1-1-1 stopped"), "");
    // It holds nothing meanwhile.
    assert_eq!(following(&mut scheduler, "submit bob/small 1 cpu=600 ram=100").lines().count(), 1);
    assert_eq!(following(&mut scheduler, "at 8\nnothing"), "");
    let again = following(&mut scheduler, "kill bob/small\nended 2-0-1 stopped");
    assert_eq!(again.lines().count(), 2, "{again}");
}

#[test]
fn why_says_how_much_of_a_gang_fits() {
    let cell = cell(
        "machine m1 cpu=1000 ram=1000 ports=none
         machine m2 cpu=1000 ram=1000 ports=none",
        "submit bob/there 1 priority=200 cpu=500 ram=100
         submit ana/train 3 priority=100 cpu=500 ram=100 gang=yes",
    );
    let mut scheduler = Scheduler::new(cell);
    following(&mut scheduler, "");
    follow(&mut scheduler, "submit ana/more 3 priority=100 cpu=300 ram=100 gang=yes");
    let job = scheduler.cell().job(CollectionId(3)).expect("a job");
    let found = why::gang(scheduler.cell(), job, Time(1_000_000)).expect("it waits");
    let reasons: Vec<_> = found.reasons.iter().map(|it| (it.machines, it.text.as_str())).collect();
    assert_eq!((found.tasks, found.stopping, found.fit), (3, 0, 0));
    assert_eq!(reasons, [(2, "lack CPU")]);
}
