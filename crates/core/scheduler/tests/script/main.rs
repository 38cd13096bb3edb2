//! A cell drawn in text, a pass, and the plan and its explanation. Machines, jobs and what happens to them are
//! lines of the crate `script`.

mod gangs;
mod kept_room;
mod moves;
mod static_ports;

use cell::{Assignment, Cell, Op, Outcome};
use expect_test::{Expect, expect};
use model::{
    Bytes, CollectionId, MachineId, MilliCores, Resources, TaskIndex, TaskSelection, Time,
};
use placement::{HeldByMachine, Settings, Term, scores, why};
use scheduler::Scheduler;
use script::{Script, Step};

/// A cell at 1 s, administered by root, after these lines.
fn cell(machines: &str, jobs: &str) -> Cell {
    let mut cell = Cell::empty();
    for lines in ["at 1\nbootstrap test root", machines, jobs] {
        apply(&mut cell, lines);
    }
    cell
}

/// Applies lines to a cell, from its time on.
fn apply(cell: &mut Cell, lines: &str) -> Vec<Step> {
    let mut script = Script::on(std::mem::take(cell));
    let step = |line| script.command(line).unwrap_or_else(|error| panic!("'{line}': {error}"));
    let steps: Vec<Step> = lines.lines().flat_map(step).collect();
    for Step { applied, .. } in &steps {
        let rejected = matches!(applied.outcome, Outcome::Request(Err(_)));
        assert!(!rejected, "'{lines}': {applied:?}");
    }
    *cell = script.cell().clone();
    steps
}

/// Applies lines to a scheduler's copy, from its time on.
fn follow(scheduler: &mut Scheduler, lines: &str) {
    for Step { at, op, .. } in apply(&mut scheduler.cell().clone(), lines) {
        scheduler.follow(at, &op);
    }
}

fn resources(cpu: u64, mib: u64) -> Resources {
    Resources { cpu: MilliCores(cpu), ram: Bytes(mib << 20), ..Resources::default() }
}

fn shown(cell: &Cell, assignments: &[Assignment]) -> String {
    let line = |assignment: &Assignment| {
        let job = cell.job(assignment.instance.collection).expect("a job");
        let machine = cell.machine(assignment.machine).expect("a machine");
        let ports = assignment.ports.iter().map(u16::to_string).collect::<Vec<_>>().join(" ");
        let (user, name, index) = (&job.owner, &job.spec.name, assignment.instance.index);
        let victims = assignment.victims.iter().map(|victim| {
            let job = cell.job(victim.collection).expect("a job");
            format!(" evicting {}/{}/{}", job.owner, job.spec.name, victim.index)
        });
        let victims: String = victims.collect();
        let line = format!("{user}/{name}/{index} -> {} {ports}", machine.name);
        let alloc = assignment.alloc.map(|alloc| {
            let set = cell.job(alloc.collection).expect("an alloc set");
            format!(" in {}/{}/{}", set.owner, set.spec.name, alloc.index)
        });
        format!("{}{}{victims}\n", line.trim_end(), alloc.unwrap_or_default())
    };
    assignments.iter().map(line).collect()
}

fn plan(machines: &str, jobs: &str, expected: &Expect) {
    let cell = cell(machines, jobs);
    let plan = Scheduler::new(cell.clone()).pass(Time(1_000_000));
    let text = format!("{}unplaced {}\n", shown(&cell, &plan.assignments), plan.unplaced);
    expected.assert_eq(&text);
    let mut accepted = cell.clone();
    let applied = accepted.apply(Time(1_000_000), &Op::assign(plan.assignments.clone()));
    let all = Outcome::Assigned(vec![Ok(()); plan.assignments.len()]);
    assert_eq!(applied.outcome, all, "the master never disagrees on the same state");
}

#[test]
fn high_priority_first_and_users_take_turns() {
    plan(
        "machine m1 cpu=10000 ram=1000 ports=none",
        "submit ana/big 3 priority=100 cpu=100 ram=10
         submit bob/small 1 priority=100 cpu=100 ram=10
         submit ana/web 1 priority=200 cpu=100 ram=10",
        &expect![[r#"
            ana/web/0 -> m1
            ana/big/0 -> m1
            bob/small/0 -> m1
            ana/big/1 -> m1
            ana/big/2 -> m1
            unplaced 0
        "#]],
    );
}

#[test]
fn a_job_that_does_not_fit_holds_up_nobody() {
    plan(
        "machine m1 cpu=1000 ram=1000 ports=none",
        "submit ana/huge 2 priority=200 cpu=5000 ram=10
         submit bob/small 1 priority=100 cpu=100 ram=10",
        &expect![[r#"
            bob/small/0 -> m1
            unplaced 2
        "#]],
    );
}

#[test]
fn the_fullest_machine_that_fits_is_taken_and_ports_are_given_once() {
    plan(
        "machine large cpu=4000 ram=4000 ports=1000-1001
         machine small cpu=1000 ram=1000 ports=1000-1001
         add quiet quiet:1",
        "submit ana/web 3 priority=200 cpu=500 ram=500 ports=1",
        &expect![[r#"
            ana/web/0 -> small 1000
            ana/web/1 -> large 1000
            ana/web/2 -> small 1001
            unplaced 0
        "#]],
    );
}

#[test]
fn planned_assignments_are_not_booked_twice_and_unjudged_ones_are_retried() {
    let cell = cell(
        "machine m1 cpu=1000 ram=1000 ports=none",
        "submit ana/web 2 priority=200 cpu=600 ram=100",
    );
    let mut scheduler = Scheduler::new(cell);
    let first = scheduler.pass(Time(1_000_000));
    assert_eq!((first.assignments.len(), first.unplaced), (1, 1));
    assert_eq!(scheduler.pass(Time(1_000_000)).assignments, [], "its room is taken by the plan");
    scheduler.not_judged(first.assignments.iter().map(|assignment| assignment.instance));
    assert_eq!(scheduler.pass(Time(1_000_000)).assignments, first.assignments);
    scheduler.follow(Time(1_000_000), &Op::assign(first.assignments.clone()));
    follow(&mut scheduler, "at 2\nended 1-0-1 exit 0");
    assert_eq!(scheduler.pass(Time(2_000_000)).assignments.len(), 1, "its end makes room");
}

#[test]
fn a_refused_assignment_is_retried_once_the_copy_shows_why() {
    let cell = cell(
        "machine m1 cpu=1000 ram=1000 ports=none\n machine m2 cpu=1000 ram=1000 ports=none",
        "submit ana/web 1 priority=200 cpu=600 ram=100",
    );
    let mut scheduler = Scheduler::new(cell);
    let first = scheduler.pass(Time(1_000_000));
    assert_eq!(first.assignments[0].machine, MachineId(1));
    // The master has marked that machine down and refused the assignment; the records are late.
    for _ in 0..3 {
        assert_eq!(scheduler.pass(Time(1_000_000)).assignments, []);
    }
    follow(&mut scheduler, "silent m1");
    assert_eq!(scheduler.pass(Time(1_000_000)).assignments, []);
    scheduler.follow(Time(1_000_000), &Op::assign(first.assignments));
    let second = scheduler.pass(Time(1_000_000));
    assert_eq!(second.assignments[0].machine, MachineId(2));
}

#[test]
fn a_task_that_waits_for_its_next_try_says_when() {
    let mut cell = cell(
        "machine m1 cpu=1000 ram=1000 ports=none",
        "submit ana/web 1 priority=200 cpu=600 ram=100",
    );
    let plan = Scheduler::new(cell.clone()).pass(Time(1_000_000));
    cell.apply(Time(1_000_000), &Op::assign(plan.assignments.clone()));
    apply(&mut cell, "at 2\nended 1-0-1 exit 3");
    let mut scheduler = Scheduler::new(cell);
    let plan = scheduler.pass(Time(2_000_000));
    assert_eq!((plan.assignments.len(), plan.next), (0, Some(Time(3_000_000))));
    assert_eq!(scheduler.pass(Time(3_000_000)).assignments.len(), 1);
}

#[test]
fn hard_constraints_decide_and_soft_ones_come_before_the_fuller_machine() {
    plan(
        "machine m1 cpu=4000 ram=4000 ports=none is=gpu:H200
         machine m2 cpu=1000 ram=1000 ports=none is=ssd:1
         machine m3 cpu=2000 ram=2000 ports=none",
        "submit ana/train 2 priority=200 cpu=500 ram=500 on=gpu=H200
         submit bob/cache 2 priority=200 cpu=600 ram=500 on=ssd=1?",
        &expect![[r#"
            ana/train/0 -> m1
            bob/cache/0 -> m2
            ana/train/1 -> m1
            bob/cache/1 -> m1
            unplaced 0
        "#]],
    );
}

/// A task that failed is tried on another machine as long as one fits, and on the same again where
/// none does.
#[test]
fn a_pairing_that_crashed_is_not_repeated_while_there_is_another() {
    for (machines, again) in [
        ("machine m1 cpu=1000 ram=1000 ports=none\nmachine m2 cpu=900 ram=900 ports=none", 2),
        ("machine m1 cpu=900 ram=900 ports=none", 1),
    ] {
        let mut cell = cell(machines, "submit ana/web 1 priority=200 cpu=600 ram=100");
        let plan = Scheduler::new(cell.clone()).pass(Time(1_000_000));
        assert_eq!(plan.assignments[0].machine, MachineId(1), "the one on which less is stranded");
        cell.apply(Time(1_000_000), &Op::assign(plan.assignments.clone()));
        apply(&mut cell, "at 2\nended 1-0-1 exit 3");
        let plan = Scheduler::new(cell).pass(Time(9_000_000));
        assert_eq!(plan.assignments[0].machine, MachineId(again));
    }
}

/// Jobs come one after the other, each finds the machines as the ones before left them, and whoever
/// is made to leave is gone when the next one comes.
fn arriving(machines: &str, jobs: &[&str], expected: &Expect) {
    let at = Time(1_000_000);
    let mut scheduler = Scheduler::new(cell(machines, ""));
    let mut text = String::new();
    for job in jobs {
        follow(&mut scheduler, job);
        let plan = scheduler.pass(at);
        text += &format!("> {job}\n{}", shown(scheduler.cell(), &plan.assignments));
        scheduler.follow(at, &Op::assign(plan.assignments.clone()));
        for victim in plan.assignments.iter().flat_map(|assignment| &assignment.victims) {
            follow(&mut scheduler, &format!("ended {victim} stopped"));
        }
    }
    expected.assert_eq(&text);
}

#[test]
fn the_fewest_and_least_important_leave_for_what_is_more_important() {
    arriving(
        "machine m1 cpu=1000 ram=1000 ports=none
         machine m2 cpu=1000 ram=1000 ports=none",
        &[
            "submit ana/low 2 priority=25 cpu=400 ram=400 per-machine=1",
            "submit ana/batch 2 priority=110 cpu=400 ram=400 per-machine=1",
            // One of the least important leaves, and nobody else.
            "submit bob/web 1 priority=200 cpu=600 ram=600",
            // Nobody stays beside it: two leave that are less important, and not the web.
            "submit bob/large 1 priority=220 cpu=1000 ram=1000",
            // Production does not make production leave.
            "submit eve/web 1 priority=359 cpu=500 ram=500",
            // Monitoring does.
            "submit eve/watch 1 priority=360 cpu=500 ram=500",
        ],
        &expect![[r#"
            > submit ana/low 2 priority=25 cpu=400 ram=400 per-machine=1
            ana/low/0 -> m1
            ana/low/1 -> m2
            > submit ana/batch 2 priority=110 cpu=400 ram=400 per-machine=1
            ana/batch/0 -> m1
            ana/batch/1 -> m2
            > submit bob/web 1 priority=200 cpu=600 ram=600
            bob/web/0 -> m1 evicting ana/low/0
            > submit bob/large 1 priority=220 cpu=1000 ram=1000
            bob/large/0 -> m2 evicting ana/low/1 evicting ana/batch/1
            > submit eve/web 1 priority=359 cpu=500 ram=500
            > submit eve/watch 1 priority=360 cpu=500 ram=500
            eve/watch/0 -> m1 evicting bob/web/0
        "#]],
    );
}

#[test]
fn tasks_never_share_a_machine_or_switch_against_their_jobs_maximum() {
    plan(
        "machine m1 cpu=4000 ram=4000 ports=none is=switch:s1
         machine m2 cpu=4000 ram=4000 ports=none is=switch:s1
         machine m3 cpu=4000 ram=4000 ports=none is=switch:s2",
        "submit ana/apart 4 priority=200 cpu=100 ram=100 per-machine=1
         submit bob/far 3 priority=200 cpu=100 ram=100 per-switch=1
         submit eve/rather 4 priority=200 cpu=100 ram=100 per-machine=1?",
        &expect![[r#"
            ana/apart/0 -> m1
            bob/far/0 -> m2
            eve/rather/0 -> m3
            ana/apart/1 -> m2
            bob/far/1 -> m3
            eve/rather/1 -> m2
            ana/apart/2 -> m3
            eve/rather/2 -> m1
            eve/rather/3 -> m1
            unplaced 2
        "#]],
    );
}

#[test]
fn a_job_is_spread_over_racks_and_power_domains() {
    plan(
        "machine m1 cpu=4000 ram=4000 ports=none is=rack:r1 is=power-domain:p1
         machine m2 cpu=4000 ram=4000 ports=none is=rack:r1 is=power-domain:p1
         machine m3 cpu=4000 ram=4000 ports=none is=rack:r2 is=power-domain:p1
         machine m4 cpu=4000 ram=4000 ports=none is=rack:r3 is=power-domain:p2",
        "submit ana/web 4 priority=200 cpu=100 ram=100",
        &expect![[r#"
            ana/web/0 -> m1
            ana/web/1 -> m4
            ana/web/2 -> m3
            ana/web/3 -> m2
            unplaced 0
        "#]],
    );
}

/// A machine of 1,000: production holds 600 and is estimated to need 200.
#[test]
fn limits_decide_for_production_and_reservations_for_the_rest() {
    let cell = cell(
        "machine m1 cpu=1000 ram=1000 ports=none",
        "submit ana/web 1 priority=200 cpu=600 ram=600",
    );
    let mut scheduler = Scheduler::new(cell);
    let at = Time(1_000_000);
    let plan = scheduler.pass(at);
    scheduler.follow(at, &Op::assign(plan.assignments));
    follow(&mut scheduler, "reserve 1-0-1 cpu=200 ram=200");
    let machine = scheduler.cell().machine(MachineId(1)).expect("there");
    assert_eq!(machine.taken(), resources(600, 600));
    assert_eq!(machine.reserved(), resources(200, 200));
    let placed = |job: &str| {
        let mut scheduler = scheduler.clone();
        follow(&mut scheduler, job);
        scheduler.pass(at).assignments.len()
    };
    for (job, expected) in [
        ("submit ana/batch 1 priority=110 cpu=800 ram=10", 1),
        ("submit ana/batch 1 priority=110 cpu=801 ram=10", 0),
        ("submit ana/more 1 priority=200 cpu=400 ram=10", 1),
        ("submit ana/more 1 priority=200 cpu=401 ram=10", 0),
    ] {
        assert_eq!(placed(job), expected, "{job}");
    }
}

/// Production asked for 600 and needs 200, and batch asked for 700 and needs 100: by limits they do not
/// fit together. What an eviction frees is the reservation of batch, and nothing of the limits that
/// production is judged by.
#[test]
fn an_eviction_frees_reservations_and_why_counts_as_the_check_does() {
    let at = Time(1_000_000);
    let mut scheduler = Scheduler::new(cell(
        "machine m1 cpu=1000 ram=1000 ports=none",
        "submit ana/web 1 priority=200 cpu=600 ram=10",
    ));
    let place = |scheduler: &mut Scheduler| {
        let plan = scheduler.pass(at);
        let text = shown(scheduler.cell(), &plan.assignments);
        scheduler.follow(at, &Op::assign(plan.assignments));
        text
    };
    assert_eq!(place(&mut scheduler), "ana/web/0 -> m1\n");
    follow(
        &mut scheduler,
        "reserve 1-0-1 cpu=200 ram=10\nsubmit ana/crunch 1 priority=110 cpu=700 ram=10",
    );
    assert_eq!(place(&mut scheduler), "ana/crunch/0 -> m1\n");
    follow(&mut scheduler, "reserve 2-0-1 cpu=100 ram=10");
    for (job, expected, why_not) in [
        ("priority=110 cpu=700", "ana/new/0 -> m1\n", ""),
        ("priority=110 cpu=701", "", "lacks CPU (0.701 cores asked; m1 has 0.7 cores free)"),
        ("priority=115 cpu=800", "ana/new/0 -> m1 evicting ana/crunch/0\n", ""),
        ("priority=115 cpu=801", "", "lacks CPU (0.801 cores asked; m1 has 0.7 cores free)"),
        ("priority=200 cpu=400", "ana/new/0 -> m1\n", ""),
        ("priority=200 cpu=401", "", "lacks CPU (0.401 cores asked; m1 has 0.4 cores free)"),
    ] {
        let mut scheduler = scheduler.clone();
        follow(&mut scheduler, &format!("submit ana/new 1 {job} ram=10"));
        let new = scheduler.cell().job(CollectionId(3)).expect("a job").clone();
        let found = why(scheduler.cell(), &new, &TaskSelection::All, at);
        let reasons = found.groups.iter().flat_map(|group| &group.reasons);
        let shown = reasons.map(|one| format!("{} ({})", one.text, one.nearest_text));
        let shown = shown.collect::<String>();
        assert_eq!(place(&mut scheduler), expected, "{job}");
        assert!(shown.contains(why_not), "{job}: {shown}");
    }
}

#[test]
fn every_term_of_a_score_is_named_with_its_weight() {
    let cell = cell(
        "machine m1 cpu=4000 ram=4000 ports=none is=rack:r1
         machine m2 cpu=1000 ram=1000 ports=none is=rack:r1 is=ssd:1
         machine m3 cpu=1000 ram=2000 ports=none is=rack:r2
         machine m4 cpu=100 ram=100 ports=none",
        "submit ana/web 3 priority=200 cpu=500 ram=500 on=ssd=1?",
    );
    let mut scheduler = Scheduler::new(cell);
    let plan = scheduler.pass(Time(1_000_000));
    scheduler.follow(Time(1_000_000), &Op::assign(plan.assignments[..1].to_vec()));
    let cell = scheduler.cell();
    let job = cell.job(CollectionId(1)).expect("a job");
    let settings = Settings::default();
    let weights = settings.weights.clone();
    let scored =
        scores(cell, job, TaskIndex(1), Time(1_000_000), settings, &HeldByMachine::new(), 9);
    let mut text = String::new();
    for one in scored {
        let terms = Term::ALL.into_iter().zip(one.terms.0).filter(|(_, value)| *value > 0);
        let terms =
            terms.map(|(term, value)| format!("{} {value} × {}", term.name(), weights.of(term)));
        let name = &cell.machine(one.machine).expect("there").name;
        text += &format!("{name} {} = {}\n", one.score, terms.collect::<Vec<_>>().join(" + "));
    }
    let expected = expect![[r#"
        m2 133089 = spread-machine 1365 × 64 + spread-rack 1365 × 32 + mixing 2049 × 1
        m3 4229631 = soft 1 × 4194304 + packing 17663 × 2 + mixing 1 × 1
        m1 4241567 = soft 1 × 4194304 + spread-rack 1365 × 32 + packing 1791 × 2 + mixing 1 × 1
    "#]];
    expected.assert_eq(&text);
}

#[test]
fn ports_that_something_else_holds_are_given_to_nobody() {
    let machines =
        "machine m1 cpu=1000 ram=1000 ports=1000-1005 held=\"1001-1003:/ssh.service (sshd)\"";
    plan(
        machines,
        "submit ana/web 4 priority=200 cpu=100 ram=10 ports=1",
        &expect![[r#"
            ana/web/0 -> m1 1000
            ana/web/1 -> m1 1004
            ana/web/2 -> m1 1005
            unplaced 1
        "#]],
    );
}

/// Tasks that crash each come back at their own moment, and are one group all the same: what they
/// ask for is the same, and so is why it is not there.
#[test]
fn tasks_that_wait_for_different_moments_are_explained_together() {
    let mut cell = cell(
        "machine m1 cpu=1000 ram=1000 ports=none",
        "submit ana/web 3 priority=200 cpu=100 ram=100",
    );
    let plan = Scheduler::new(cell.clone()).pass(Time(1_000_000));
    cell.apply(Time(1_000_000), &Op::assign(plan.assignments.clone()));
    let groups = |cell: &Cell, now| {
        let job = cell.job(CollectionId(1)).expect("the job");
        let groups = why(cell, job, &TaskSelection::All, Time(now)).groups;
        let shown = |group: &why::Group<'_>| {
            (TaskSelection::Some(group.tasks.clone()).to_string(), group.since, group.not_before)
        };
        groups.iter().map(shown).collect::<Vec<_>>()
    };
    // The last task is the first to crash.
    apply(
        &mut cell,
        "at 2\nended 1-2-1 exit 3\nat 3\nended 1-1-1 exit 3\nat 4\nended 1-0-1 exit 3",
    );
    let all = "0-2".to_owned();
    let first = Some(Time(3_000_000));
    assert_eq!(groups(&cell, 2_500_000), [(all.clone(), Time(2_000_000), first)]);
    assert_eq!(groups(&cell, 3_500_000), [(all, Time(2_000_000), None)]);
}

#[test]
fn tasks_fill_the_allocs_of_their_set_evenly_and_nothing_else() {
    arriving(
        "machine m1 cpu=1000 ram=1000 ports=1000-1001
         machine m2 cpu=1000 ram=1000 ports=1000-1001",
        &[
            "submit ana/room 2 priority=200 cpu=600 ram=600 allocs=ana,ben per-machine=1",
            "submit ana/web 3 priority=200 cpu=200 ram=200 ports=1 in=room",
            "submit ben/saver 2 priority=110 cpu=100 ram=100 in=ana/room",
            // There is room on the machines, and not in the allocs.
            "submit ana/late 3 priority=200 cpu=250 ram=100 in=room",
            "submit ana/large 1 priority=200 cpu=700 ram=100 in=room",
            // No port is left.
            "submit ana/ports 1 priority=200 cpu=10 ram=10 ports=2 in=room",
            "submit eve/top 1 priority=200 cpu=400 ram=400 ports=1",
        ],
        &expect![[r#"
            > submit ana/room 2 priority=200 cpu=600 ram=600 allocs=ana,ben per-machine=1
            ana/room/0 -> m1
            ana/room/1 -> m2
            > submit ana/web 3 priority=200 cpu=200 ram=200 ports=1 in=room
            ana/web/0 -> m1 1000 in ana/room/0
            ana/web/1 -> m2 1000 in ana/room/1
            ana/web/2 -> m1 1001 in ana/room/0
            > submit ben/saver 2 priority=110 cpu=100 ram=100 in=ana/room
            ben/saver/0 -> m1 in ana/room/0
            ben/saver/1 -> m2 in ana/room/1
            > submit ana/late 3 priority=200 cpu=250 ram=100 in=room
            ana/late/0 -> m2 in ana/room/1
            > submit ana/large 1 priority=200 cpu=700 ram=100 in=room
            > submit ana/ports 1 priority=200 cpu=10 ram=10 ports=2 in=room
            > submit eve/top 1 priority=200 cpu=400 ram=400 ports=1
            eve/top/0 -> m2 1001
        "#]],
    );
}

/// What a scheduler proposes from one line to the next.
fn following(scheduler: &mut Scheduler, line: &str) -> String {
    follow(scheduler, line);
    let mut text = String::new();
    loop {
        let now = scheduler.cell().time();
        let plan = scheduler.pass(now);
        if plan.assignments.is_empty() {
            return text;
        }
        text += &shown(scheduler.cell(), &plan.assignments);
        let applied = scheduler.follow(now, &Op::assign(plan.assignments.clone()));
        let all = Outcome::Assigned(vec![Ok(()); plan.assignments.len()]);
        assert_eq!(applied.outcome, all, "the master never disagrees on the same state");
    }
}

#[test]
fn tasks_go_where_their_alloc_goes() {
    let machines = "machine m1 cpu=1000 ram=1000 ports=none\n machine m2 cpu=1000 ram=1000 ports=none\n machine m3 cpu=1000 ram=1000 ports=none";
    let jobs = "submit ana/room 2 priority=200 cpu=600 ram=600 allocs=ana,ben per-machine=1
                submit ana/web 2 priority=200 cpu=300 ram=300 in=room
                submit ana/more 2 priority=200 cpu=100 ram=100 in=room";
    let mut scheduler = Scheduler::new(cell(machines, jobs));
    let mut text = following(&mut scheduler, "nothing");
    for machine in [1, 2] {
        text += &format!("> m{machine} goes silent\n");
        text += &following(&mut scheduler, &format!("silent m{machine}"));
    }
    text += "> m1 comes back\n";
    text += &following(&mut scheduler, "back m1");
    expect![[r#"
        ana/room/0 -> m1
        ana/room/1 -> m2
        ana/web/0 -> m1 in ana/room/0
        ana/web/1 -> m2 in ana/room/1
        ana/more/0 -> m1 in ana/room/0
        ana/more/1 -> m2 in ana/room/1
        > m1 goes silent
        ana/room/0 -> m3
        ana/web/0 -> m3 in ana/room/0
        ana/more/0 -> m3 in ana/room/0
        > m2 goes silent
        > m1 comes back
        ana/room/1 -> m1
        ana/web/1 -> m1 in ana/room/1
        ana/more/1 -> m1 in ana/room/1
    "#]]
    .assert_eq(&text);
}
