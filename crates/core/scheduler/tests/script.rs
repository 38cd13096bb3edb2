//! A cell drawn in text, a pass, and the plan and its explanation.

use std::sync::Arc;

use cell::{
    AddMachine, Assignment, Cell, Mutation, Observation, Op, Outcome, RequestId, Reservation,
};
use expect_test::{Expect, expect};
use model::{
    Bytes, CellName, CollectionId, HeldPorts, InstanceId, JobName, MachineId, MachineName,
    MachineReport, MilliCores, PortName, PortRange, Priority, Resources, SessionId, TaskIndex,
    TaskSelection, Time, UserName,
};
use scheduler::{Scheduler, Settings, Term, scores, why};
use spec::{Constraint, JobSpec, Kind, Maximum, Relation, TaskOverride, TaskSpec};

/// Machines as `name cpu ram ports [NAME=VALUE…] [held=FIRST-LAST]`, jobs as `user/name tasks priority cpu ram ports
/// [NAME=VALUE[?]…] [per-machine=N[?]] [per-switch=N[?]] [allocs | in=SET]`; CPU in milli-cores, memory in MiB.
fn cell(machines: &str, jobs: &str) -> Cell {
    let mut cell = Cell::empty();
    let at = Time(1_000_000);
    let root = UserName::new("root").expect("a name");
    let name = CellName::new("test").expect("a name");
    cell.apply(at, &Op::Bootstrap { name, administrator: root.clone() });
    cell.apply(at, &Op::OpenSession { user: root.clone() });
    for (id, line) in (1..).zip(machines.trim().lines()) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let name = MachineName::new(words[0]).expect("a name");
        let address = format!("{name}:1");
        let mutation = Mutation::AddMachine(AddMachine { name, address });
        let request = RequestId { session: SessionId(1), sequence: id };
        cell.apply(at, &Op::Request { id: request, by: root.clone(), mutation });
        if words[1] == "silent" {
            continue;
        }
        let ports = PortRange { first: 1000, last: 999 + number::<u16>(words[3]) };
        let report = MachineReport {
            capacity: resources(words[1], words[2]),
            ports: if ports.last < ports.first { PortRange::default() } else { ports },
            attributes: words[4..]
                .iter()
                .filter(|word| held(word).is_none())
                .map(|word| attribute(word))
                .collect(),
            held_ports: words[4..].iter().filter_map(|word| held(word)).collect(),
        };
        cell.apply(at, &Op::DescribeMachine { machine: MachineId(id), report: Arc::new(report) });
    }
    for line in jobs.trim().lines() {
        for op in submission(&cell, line) {
            let outcome = cell.apply(at, &op).outcome;
            assert!(matches!(outcome, Outcome::Request(Ok(_))), "{outcome:?}");
        }
    }
    cell
}

/// What submits a job, in a session of its own.
fn submission(cell: &Cell, line: &str) -> [Op; 2] {
    let words: Vec<&str> = line.split_whitespace().collect();
    let (user, name) = words[0].split_once('/').expect("user/name");
    let mut task = TaskSpec::of(vec!["x".to_owned()]);
    task.limit = resources(words[3], words[4]);
    let ports = (0..number::<u16>(words[5])).map(|n| PortName::new(&format!("p{n}")));
    task.ports = ports.collect::<Result<_, _>>().expect("names");
    let of_machine = words[6..]
        .iter()
        .filter(|word| !word.starts_with("per-") && !word.starts_with("in=") && **word != "allocs");
    task.constraints = of_machine.map(|word| constraint(word)).collect();
    let maximum = |name: &str| {
        let word = words[6..].iter().find_map(|word| word.strip_prefix(name))?;
        let (word, hard) = word.strip_suffix('?').map_or((word, true), |word| (word, false));
        Some(Maximum { tasks: number(word), hard })
    };
    let name = JobName::new(name).expect("a name");
    let priority = Priority::new(number(words[2])).expect("a priority");
    let mut spec = JobSpec::of(name, priority, number(words[1]), task);
    (spec.max_per_machine, spec.max_per_switch) = (maximum("per-machine="), maximum("per-switch="));
    if words.contains(&"allocs") {
        let users = ["ana", "ben"].map(|user| UserName::new(user).expect("a name")).into();
        (spec.kind, spec.task.cmd) = (Kind::AllocSet { users }, Vec::new());
    }
    if let Some(set) = words[6..].iter().find_map(|word| word.strip_prefix("in=")) {
        spec.kind = Kind::Job { alloc_set: Some(set.parse().expect("a job")) };
    }
    let by = UserName::new(user).expect("a name");
    let session = SessionId(cell.image().last_session.0 + 1);
    let id = RequestId { session, sequence: 1 };
    let mutation = Mutation::Submit(Arc::new(spec));
    [Op::OpenSession { user: by.clone() }, Op::Request { id, by, mutation }]
}

/// `held=FIRST-LAST`.
fn held(word: &str) -> Option<HeldPorts> {
    let ports = word.strip_prefix("held=")?.parse().expect("ports");
    Some(HeldPorts { ports, by: "/ssh.service (sshd)".to_owned() })
}

fn attribute(word: &str) -> (String, String) {
    let (name, value) = word.split_once('=').expect("NAME=VALUE");
    (name.to_owned(), value.to_owned())
}

/// `NAME=VALUE`, with a `?` behind it a preference.
fn constraint(word: &str) -> Constraint {
    let (word, hard) = word.strip_suffix('?').map_or((word, true), |word| (word, false));
    let (attribute, value) = attribute(word);
    Constraint { attribute, relation: Relation::Equal, value, hard }
}

fn number<T: std::str::FromStr<Err: std::fmt::Debug>>(word: &str) -> T {
    word.parse().expect("a number")
}

fn resources(cpu: &str, ram: &str) -> Resources {
    Resources {
        cpu: MilliCores(number(cpu)),
        ram: Bytes(number::<u64>(ram) << 20),
        ..Resources::default()
    }
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
    let applied = accepted.apply(Time(1_000_000), &Op::Assign(plan.assignments.clone()));
    let all = Outcome::Assigned(vec![Ok(()); plan.assignments.len()]);
    assert_eq!(applied.outcome, all, "the master never disagrees on the same state");
}

#[test]
fn high_priority_first_and_users_take_turns() {
    plan(
        "m1 10000 1000 0",
        "ana/big 3 100 100 10 0
         bob/small 1 100 100 10 0
         ana/web 1 200 100 10 0",
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
        "m1 1000 1000 0",
        "ana/huge 2 200 5000 10 0
         bob/small 1 100 100 10 0",
        &expect![[r#"
            bob/small/0 -> m1
            unplaced 2
        "#]],
    );
}

#[test]
fn the_fullest_machine_that_fits_is_taken_and_ports_are_given_once() {
    plan(
        "large 4000 4000 2
         small 1000 1000 2
         quiet silent",
        "ana/web 3 200 500 500 1",
        &expect![[r#"
            ana/web/0 -> small 1000
            ana/web/1 -> large 1000
            ana/web/2 -> small 1001
            unplaced 0
        "#]],
    );
}

#[test]
fn what_is_planned_is_not_booked_twice_and_what_was_not_judged_is_tried_again() {
    let cell = cell("m1 1000 1000 0", "ana/web 2 200 600 100 0");
    let mut scheduler = Scheduler::new(cell);
    let first = scheduler.pass(Time(1_000_000));
    assert_eq!((first.assignments.len(), first.unplaced), (1, 1));
    assert_eq!(scheduler.pass(Time(1_000_000)).assignments, [], "its room is taken by the plan");
    scheduler.not_judged(first.assignments.iter().map(|assignment| assignment.instance));
    assert_eq!(scheduler.pass(Time(1_000_000)).assignments, first.assignments);
    scheduler.follow(Time(1_000_000), &Op::Assign(first.assignments.clone()));
    let (instance, end) = (first.assignments[0].instance, model::End::Exited { code: 0 });
    let observations =
        vec![Observation::Ended { instance, end, usage: model::FinalUsage::UNMEASURED }];
    scheduler.follow(Time(1_000_001), &Op::Observe { machine: MachineId(1), observations });
    assert_eq!(scheduler.pass(Time(1_000_001)).assignments.len(), 1, "its end makes room");
}

#[test]
fn what_was_refused_is_tried_again_when_the_copy_shows_why_and_not_before() {
    let cell = cell("m1 1000 1000 0\n m2 1000 1000 0", "ana/web 1 200 600 100 0");
    let mut scheduler = Scheduler::new(cell);
    let first = scheduler.pass(Time(1_000_000));
    assert_eq!(first.assignments[0].machine, MachineId(1));
    // The master has marked that machine down and refused the assignment; the records are late.
    for _ in 0..3 {
        assert_eq!(scheduler.pass(Time(1_000_000)).assignments, []);
    }
    scheduler.follow(Time(1_000_000), &Op::MachineSilent { machine: MachineId(1) });
    assert_eq!(scheduler.pass(Time(1_000_000)).assignments, []);
    scheduler.follow(Time(1_000_000), &Op::Assign(first.assignments));
    let second = scheduler.pass(Time(1_000_000));
    assert_eq!(second.assignments[0].machine, MachineId(2));
}

#[test]
fn a_task_that_waits_for_its_next_try_says_when() {
    let mut cell = cell("m1 1000 1000 0", "ana/web 1 200 600 100 0");
    let plan = Scheduler::new(cell.clone()).pass(Time(1_000_000));
    cell.apply(Time(1_000_000), &Op::Assign(plan.assignments.clone()));
    let (instance, end) = (plan.assignments[0].instance, model::End::Exited { code: 3 });
    let observations =
        vec![Observation::Ended { instance, end, usage: model::FinalUsage::UNMEASURED }];
    cell.apply(Time(2_000_000), &Op::Observe { machine: MachineId(1), observations });
    let mut scheduler = Scheduler::new(cell);
    let plan = scheduler.pass(Time(2_000_000));
    assert_eq!((plan.assignments.len(), plan.next), (0, Some(Time(3_000_000))));
    assert_eq!(scheduler.pass(Time(3_000_000)).assignments.len(), 1);
}

#[test]
fn hard_constraints_decide_and_soft_ones_come_before_the_fuller_machine() {
    plan(
        "m1 4000 4000 0 gpu=H200
         m2 1000 1000 0 ssd=1
         m3 2000 2000 0",
        "ana/train 2 200 500 500 0 gpu=H200
         bob/cache 2 200 600 500 0 ssd=1?",
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
    for (machines, again) in [("m1 1000 1000 0\nm2 900 900 0", 2), ("m1 900 900 0", 1)] {
        let mut cell = cell(machines, "ana/web 1 200 600 100 0");
        let plan = Scheduler::new(cell.clone()).pass(Time(1_000_000));
        assert_eq!(plan.assignments[0].machine, MachineId(1), "the one on which less is stranded");
        cell.apply(Time(1_000_000), &Op::Assign(plan.assignments.clone()));
        let (instance, end) = (plan.assignments[0].instance, model::End::Exited { code: 3 });
        let observations =
            vec![Observation::Ended { instance, end, usage: model::FinalUsage::UNMEASURED }];
        cell.apply(Time(2_000_000), &Op::Observe { machine: MachineId(1), observations });
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
        for op in submission(scheduler.cell(), job) {
            scheduler.follow(at, &op);
        }
        let plan = scheduler.pass(at);
        text += &format!("> {job}\n{}", shown(scheduler.cell(), &plan.assignments));
        scheduler.follow(at, &Op::Assign(plan.assignments.clone()));
        for assignment in plan.assignments {
            let ended = |victim: &InstanceId| Observation::Ended {
                instance: *victim,
                end: model::End::Stopped,
                usage: model::FinalUsage::UNMEASURED,
            };
            let observations = assignment.victims.iter().map(ended).collect();
            scheduler.follow(at, &Op::Observe { machine: assignment.machine, observations });
        }
    }
    expected.assert_eq(&text);
}

#[test]
fn the_fewest_and_least_important_leave_for_what_is_more_important() {
    arriving(
        "m1 1000 1000 0
         m2 1000 1000 0",
        &[
            "ana/low 2 25 400 400 0 per-machine=1",
            "ana/batch 2 110 400 400 0 per-machine=1",
            // One of the least important leaves, and nobody else.
            "bob/web 1 200 600 600 0",
            // Nobody stays beside it: two leave that are less important, and not the web.
            "bob/large 1 220 1000 1000 0",
            // Production does not make production leave.
            "eve/web 1 359 500 500 0",
            // Monitoring does.
            "eve/watch 1 360 500 500 0",
        ],
        &expect![[r#"
            > ana/low 2 25 400 400 0 per-machine=1
            ana/low/0 -> m1
            ana/low/1 -> m2
            > ana/batch 2 110 400 400 0 per-machine=1
            ana/batch/0 -> m1
            ana/batch/1 -> m2
            > bob/web 1 200 600 600 0
            bob/web/0 -> m1 evicting ana/low/0
            > bob/large 1 220 1000 1000 0
            bob/large/0 -> m2 evicting ana/low/1 evicting ana/batch/1
            > eve/web 1 359 500 500 0
            > eve/watch 1 360 500 500 0
            eve/watch/0 -> m1 evicting bob/web/0
        "#]],
    );
}

#[test]
fn no_two_tasks_share_a_machine_or_a_switch_where_the_job_says_so() {
    plan(
        "m1 4000 4000 0 switch=s1
         m2 4000 4000 0 switch=s1
         m3 4000 4000 0 switch=s2",
        "ana/apart 4 200 100 100 0 per-machine=1
         bob/far 3 200 100 100 0 per-switch=1
         eve/rather 4 200 100 100 0 per-machine=1?",
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
        "m1 4000 4000 0 rack=r1 power-domain=p1
         m2 4000 4000 0 rack=r1 power-domain=p1
         m3 4000 4000 0 rack=r2 power-domain=p1
         m4 4000 4000 0 rack=r3 power-domain=p2",
        "ana/web 4 200 100 100 0",
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
    let cell = cell("m1 1000 1000 0", "ana/web 1 200 600 600 0");
    let mut scheduler = Scheduler::new(cell);
    let at = Time(1_000_000);
    let plan = scheduler.pass(at);
    let instance = plan.assignments[0].instance;
    scheduler.follow(at, &Op::Assign(plan.assignments));
    let amount = resources("200", "200");
    scheduler.follow(at, &Op::Reserve(vec![Reservation { instance, amount }]));
    let machine = scheduler.cell().machine(MachineId(1)).expect("there");
    assert_eq!(machine.taken(), resources("600", "600"));
    assert_eq!(machine.reserved(), resources("200", "200"));
    let placed = |job: &str| {
        let mut scheduler = scheduler.clone();
        submission(scheduler.cell(), job).iter().for_each(|op| drop(scheduler.follow(at, op)));
        scheduler.pass(at).assignments.len()
    };
    for (job, expected) in [
        ("ana/batch 1 110 800 10 0", 1),
        ("ana/batch 1 110 801 10 0", 0),
        ("ana/more 1 200 400 10 0", 1),
        ("ana/more 1 200 401 10 0", 0),
    ] {
        assert_eq!(placed(job), expected, "{job}");
    }
}

#[test]
fn every_term_of_a_score_is_named_with_its_weight() {
    let cell = cell(
        "m1 4000 4000 0 rack=r1
         m2 1000 1000 0 rack=r1 ssd=1
         m3 1000 2000 0 rack=r2
         m4 100 100 0",
        "ana/web 3 200 500 500 0 ssd=1?",
    );
    let mut scheduler = Scheduler::new(cell);
    let plan = scheduler.pass(Time(1_000_000));
    scheduler.follow(Time(1_000_000), &Op::Assign(plan.assignments[..1].to_vec()));
    let cell = scheduler.cell();
    let job = cell.job(CollectionId(1)).expect("a job");
    let settings = Settings::default();
    let weights = settings.weights.clone();
    let scored = scores(cell, job, TaskIndex(1), Time(1_000_000), settings, 9);
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

fn explained(machines: &str, jobs: &str, expected: &Expect) {
    let cell = cell(machines, jobs);
    let job = cell.job(CollectionId(1)).expect("the first job");
    let mut text = String::new();
    for group in why(&cell, job, &TaskSelection::All, Time(1_000_000)).groups {
        let ranges = TaskSelection::Some(group.tasks.clone());
        text += &format!("tasks {ranges}: fits {} of {}\n", group.fits, group.machines);
        for reason in &group.reasons {
            text += &format!("  {} {} ({})\n", reason.machines, reason.text, reason.nearest_text);
        }
        if let Some(change) = group.smallest_change {
            text += &format!("  change: {change}\n");
        }
    }
    expected.assert_eq(&text);
}

#[test]
fn every_machine_is_counted_under_what_it_fails_with_the_nearest_miss() {
    explained(
        "m1 1000 900 9
         m2 2000 1000 9
         m3 4000 500 9
         m4 silent
         m5 8000 8000 0
         m6 8000 8000 3 held=1000-1001 held=1002-1002",
        "ana/train 4 110 1500 1020 1",
        &expect![[r#"
            tasks 0-3: fits 0 of 6
              2 lack ports (1 asked; the nearest miss has 0 free, on m5)
              2 are too small (RAM) (1020 MiB asked; the nearest miss has 1000 MiB in all, on m2)
              1 is too small (CPU) (1.5 cores asked; m1 has 1 core in all)
              1 is not up ()
              change: ram 1020 MiB → 1000 MiB
        "#]],
    );
}

#[test]
fn ports_that_something_else_holds_are_given_to_nobody_and_their_holder_is_named() {
    let machines = "m1 1000 1000 6 held=1001-1003";
    plan(
        machines,
        "ana/web 4 200 100 10 1",
        &expect![[r#"
            ana/web/0 -> m1 1000
            ana/web/1 -> m1 1004
            ana/web/2 -> m1 1005
            unplaced 1
        "#]],
    );
    explained(
        machines,
        "ana/web 1 200 100 10 4",
        &expect![[r#"
            tasks 0: fits 0 of 1
              1 lacks ports (4 asked; m1 has 3 free, 3 held by others: 1001-1003 by /ssh.service (sshd))
        "#]],
    );
}

#[test]
fn a_constraint_that_nothing_matches_is_named_with_what_there_is_instead() {
    explained(
        "m1 1000 1000 0 gpu=H200
         m2 1000 1000 0 gpu=H200
         m3 1000 1000 0 gpu=L4
         m4 1000 1000 0",
        "ana/train 1 110 500 500 0 gpu=h200",
        &expect![[r#"
            tasks 0: fits 0 of 4
              4 do not match gpu = "h200" (2 of them have "H200")
              change: without gpu = "h200"
        "#]],
    );
}

#[test]
fn without_machines_there_is_nothing_to_fit_on() {
    explained(
        "",
        "ana/web 1 200 100 10 0",
        &expect![[r#"
        tasks 0: fits 0 of 0
    "#]],
    );
}

/// Tasks that crash each come back at their own moment, and are one group all the same: what they
/// ask for is the same, and so is why it is not there.
#[test]
fn tasks_that_wait_for_different_moments_are_explained_together() {
    let mut cell = cell("m1 1000 1000 0", "ana/web 3 200 100 100 0");
    let plan = Scheduler::new(cell.clone()).pass(Time(1_000_000));
    cell.apply(Time(1_000_000), &Op::Assign(plan.assignments.clone()));
    let groups = |cell: &Cell, now| {
        let job = cell.job(CollectionId(1)).expect("the job");
        let groups = why(cell, job, &TaskSelection::All, Time(now)).groups;
        let shown = |group: &why::Group<'_>| {
            (TaskSelection::Some(group.tasks.clone()).to_string(), group.since, group.not_before)
        };
        groups.iter().map(shown).collect::<Vec<_>>()
    };
    // The last task is the first to crash.
    for (assignment, at) in plan.assignments.iter().rev().zip([2_000_000, 3_000_000, 4_000_000]) {
        let (instance, end) = (assignment.instance, model::End::Exited { code: 3 });
        let observations =
            vec![Observation::Ended { instance, end, usage: model::FinalUsage::UNMEASURED }];
        cell.apply(Time(at), &Op::Observe { machine: MachineId(1), observations });
    }
    let all = "0-2".to_owned();
    let first = Some(Time(3_000_000));
    assert_eq!(groups(&cell, 2_500_000), [(all.clone(), Time(2_000_000), first)]);
    assert_eq!(groups(&cell, 3_500_000), [(all, Time(2_000_000), None)]);
}

/// Comparing each task with each group, or looking at the machines for each, took hours.
#[test]
#[expect(clippy::disallowed_methods, reason = "it is measured that this takes no hours")]
fn a_hundred_thousand_tasks_are_explained_in_a_moment() {
    let cell = cell("m1 1000 1000 0", "ana/web 100000 200 100 2000 0");
    let job = cell.job(CollectionId(1)).expect("the job");
    let begun = std::time::Instant::now();
    let odd = (0..50_000).map(|n| TaskIndex(2 * n + 1)).map(|index| (index, index));
    let groups = why(&cell, job, &TaskSelection::Some(odd.collect()), Time(1_000_000)).groups;
    assert_eq!((groups.len(), groups[0].tasks.len()), (1, 50_000));
    let taken = begun.elapsed();
    assert!(taken < std::time::Duration::from_secs(5), "it took {taken:?}");
}

/// For each of them every machine is looked at.
#[test]
fn of_tasks_that_all_ask_for_something_else_a_hundred_are_explained() {
    let mut cell = cell("m1 1000 1000 0", "ana/web 1 200 2000 100 0");
    let mut spec = JobSpec::clone(&cell.job(CollectionId(1)).expect("the job").spec);
    (spec.name, spec.tasks) = (JobName::new("odd").expect("a name"), 250);
    let asks = |n: u32| TaskOverride {
        limit: Some(resources(&(2_001 + n % 240).to_string(), "100")),
        ..TaskOverride::default()
    };
    spec.overrides = (0..250).map(|n| (TaskIndex(n), asks(n))).collect();
    let (id, by) = (RequestId { session: SessionId(2), sequence: 2 }, "ana".parse());
    let mutation = Mutation::Submit(Arc::new(spec));
    cell.apply(Time(1_000_000), &Op::Request { id, by: by.expect("a name"), mutation });
    let job = cell.job(CollectionId(2)).expect("the job");
    let found = why(&cell, job, &TaskSelection::All, Time(1_000_000));
    assert_eq!((found.groups.len(), found.more), (100, 140));
    // Those that ask for what one of the hundred does are with it.
    assert_eq!(found.groups[9].tasks.len(), 2);
    let rest = TaskSelection::Some(vec![(TaskIndex(200), TaskIndex(249))]);
    assert_eq!(why(&cell, job, &rest, Time(1_000_000)).more, 0);
}

#[test]
fn tasks_fill_the_allocs_of_their_set_evenly_and_nothing_else() {
    arriving(
        "m1 1000 1000 2
         m2 1000 1000 2",
        &[
            "ana/room 2 200 600 600 0 allocs per-machine=1",
            "ana/web 3 200 200 200 1 in=room",
            "ben/saver 2 110 100 100 0 in=ana/room",
            // There is room on the machines, and not in the allocs.
            "ana/late 3 400 250 100 0 in=room",
            "ana/large 1 200 700 100 0 in=room",
            // No port is left.
            "ana/ports 1 200 10 10 2 in=room",
            "eve/top 1 200 400 400 1",
        ],
        &expect![[r#"
            > ana/room 2 200 600 600 0 allocs per-machine=1
            ana/room/0 -> m1
            ana/room/1 -> m2
            > ana/web 3 200 200 200 1 in=room
            ana/web/0 -> m1 1000 in ana/room/0
            ana/web/1 -> m2 1000 in ana/room/1
            ana/web/2 -> m1 1001 in ana/room/0
            > ben/saver 2 110 100 100 0 in=ana/room
            ben/saver/0 -> m1 in ana/room/0
            ben/saver/1 -> m2 in ana/room/1
            > ana/late 3 400 250 100 0 in=room
            ana/late/0 -> m2 in ana/room/1
            > ana/large 1 200 700 100 0 in=room
            > ana/ports 1 200 10 10 2 in=room
            > eve/top 1 200 400 400 1
            eve/top/0 -> m2 1001
        "#]],
    );
}

/// What a scheduler proposes from one operation to the next.
fn following(scheduler: &mut Scheduler, op: &Op) -> String {
    scheduler.follow(scheduler.cell().time(), op);
    let mut text = String::new();
    loop {
        let now = scheduler.cell().time();
        let plan = scheduler.pass(now);
        if plan.assignments.is_empty() {
            return text;
        }
        text += &shown(scheduler.cell(), &plan.assignments);
        let applied = scheduler.follow(now, &Op::Assign(plan.assignments.clone()));
        let all = Outcome::Assigned(vec![Ok(()); plan.assignments.len()]);
        assert_eq!(applied.outcome, all, "the master never disagrees on the same state");
    }
}

#[test]
fn tasks_go_where_their_alloc_goes() {
    let machines = "m1 1000 1000 0\n m2 1000 1000 0\n m3 1000 1000 0";
    let jobs = "ana/room 2 200 600 600 0 allocs per-machine=1
                ana/web 2 200 300 300 0 in=room
                ana/more 2 200 100 100 0 in=room";
    let mut scheduler = Scheduler::new(cell(machines, jobs));
    let mut text = following(&mut scheduler, &Op::Nothing);
    for machine in [1, 2] {
        text += &format!("> m{machine} goes silent\n");
        let silent = Op::MachineSilent { machine: MachineId(machine) };
        text += &following(&mut scheduler, &silent);
    }
    text += "> m1 comes back\n";
    text += &following(&mut scheduler, &Op::MachineBack { machine: MachineId(1) });
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
