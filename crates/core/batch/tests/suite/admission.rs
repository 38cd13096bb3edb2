//! A queue that follows a cell: scripts change the cell, and what each pass proposes is carried out.

use std::collections::BTreeMap;

use batch::QueueAdmission;
use cell::{Cell, Op};
use model::{Enabled, SchedulerName, Time};
use proptest::prelude::*;
use script::Script;

/// A cell with a queue, and the queue.
struct QueuedCell {
    script: Script,
    admission: QueueAdmission,
}

impl QueuedCell {
    /// A cell with machines of so many cores and GiB.
    fn with(machines: &[(u64, u64)]) -> Self {
        let mut script = Script::on(Cell::empty());
        let mut lines = vec!["at 1".to_owned(), "bootstrap cc root".to_owned()];
        lines.push("queueing".to_owned());
        for (number, (cores, gib)) in machines.iter().enumerate() {
            let (cpu, ram) = (cores * 1_000, gib * 1_024);
            lines.push(format!("machine m{} cpu={cpu} ram={ram} ports=none", number + 1));
        }
        for line in &lines {
            script.command(line).expect("a command");
        }
        let admission = QueueAdmission::of(script.cell());
        Self { script, admission }
    }

    fn apply(&mut self, line: &str) {
        let steps = self.script.command(line).expect("a command");
        for step in steps {
            self.admission.follow(self.script.cell(), &step.op, &step.applied);
        }
    }

    fn now(&self) -> Time {
        self.script.cell().time()
    }

    /// A pass, whose proposals the cell carries out. What it enabled, as `2x1 1x7` for two tasks of job 1 and one of 7.
    fn pass(&mut self) -> String {
        let pass = self.admission.pass(self.script.cell(), self.now());
        let shown: Vec<String> =
            pass.enabled.iter().map(|one| format!("{}x{}", one.tasks, one.job)).collect();
        if !pass.enabled.is_empty() {
            let words: Vec<String> =
                pass.enabled.iter().map(|one| format!("{}={}", one.job, one.tasks)).collect();
            self.apply(&format!("enable {}", words.join(" ")));
        }
        shown.join(" ")
    }

    /// Follows lines; `pass: WHAT` is a pass that enables that.
    fn follow(&mut self, lines: &str) {
        for line in lines.lines().map(str::trim).filter(|line| !line.is_empty()) {
            match line.strip_prefix("pass:") {
                Some(expected) => assert_eq!(self.pass(), expected.trim(), "{line}"),
                None => self.apply(line),
            }
        }
        assert_eq!(self.script.cell().check(), Vec::new());
    }
}

#[test]
fn the_worked_example_of_dominant_resource_fairness() {
    // Ghodsi et al., section 4.1: 9 CPU and 18 GB; A wants <1 CPU, 4 GB>, B <3 CPU, 1 GB>: 3 tasks of A and 2 of B.
    let mut cell = QueuedCell::with(&[(9, 18)]);
    cell.follow(
        "
        submit ana/a 10 priority=110 appclass=batch cpu=1000 ram=4096
        submit ben/b 10 priority=110 appclass=batch cpu=3000 ram=1024
        pass: 3x1 2x2
        pass:
        ",
    );
    // Twice the weight is twice the share.
    let mut cell = QueuedCell::with(&[(9, 90)]);
    cell.follow(
        "
        weight ana cpu=2000 ram=2000
        submit ana/a 10 priority=110 appclass=batch cpu=1000 ram=1024
        submit ben/b 10 priority=110 appclass=batch cpu=1000 ram=1024
        pass: 6x1 3x2
        ",
    );
}

#[test]
fn what_ends_makes_room_and_what_is_preempted_waits_again() {
    let mut cell = QueuedCell::with(&[(2, 8)]);
    cell.follow(
        "
        submit ana/a 3 priority=110 appclass=batch cpu=1000 ram=64
        pass: 2x1
        assign 1-0-1 m1; 1-1-1 m1
        started 1-0-1
        started 1-1-1
        pass:
        ended 1-0-1 exit 0
        pass: 1x1
        assign 1-2-1 m1
        started 1-2-1
        submit ben/web 1 priority=200 cpu=2000 ram=64
        assign 2-0-1 m1 evicting 1-1-1 1-2-1
        ended 1-1-1 stopped
        ended 1-2-1 stopped
        pass:
        kill ben/web
        ended 2-0-1 stopped
        pass: 2x1
        ",
    );
}

#[test]
fn a_gang_waits_until_it_fits_whole_and_others_do_not_delay_it() {
    let mut cell = QueuedCell::with(&[(4, 8)]);
    cell.follow(
        "
        submit ana/long 1 priority=110 appclass=batch cpu=2000 ram=64 expected-runtime=100
        pass: 1x1
        assign 1-0-1 m1
        started 1-0-1
        submit ben/gang 4 priority=110 appclass=batch cpu=1000 ram=64 gang=yes
        submit cid/short 1 priority=110 appclass=batch cpu=1000 ram=64 expected-runtime=50
        submit cid/long 1 priority=110 appclass=batch cpu=1000 ram=64 expected-runtime=500
        pass: 1x3
        assign 3-0-1 m1
        started 3-0-1
        pass:
        ended 1-0-1 exit 0
        pass:
        ended 3-0-1 exit 0
        pass: 4x2
        ",
    );
}

#[test]
fn without_a_queue_or_room_to_wait_for_only_the_own_bound_counts() {
    let mut cell = QueuedCell::with(&[(1, 1)]);
    cell.follow(
        "
        submit ana/array 5 priority=200 appclass=batch cpu=1000 ram=64 running-at-once=2
        pass: 2x1
        pass:
        submit ana/load 9 priority=110 appclass=batch cpu=1000 ram=64
        pass: 1x2
        queue off
        pass: 8x2
        ",
    );
}

#[test]
fn what_is_larger_than_all_machines_waits_for_one_more() {
    let mut cell = QueuedCell::with(&[(1, 1)]);
    cell.follow(
        "
        submit ana/large 1 priority=110 appclass=batch cpu=3000 ram=64
        submit ben/load 1 priority=110 appclass=batch cpu=1000 ram=64
        pass: 1x2
        ",
    );
    assert!(cell.admission.is_too_large(model::CollectionId(1)));
    cell.follow(
        "
        machine m2 cpu=3000 ram=1024 ports=none
        pass: 1x1
        ",
    );
    assert!(!cell.admission.is_too_large(model::CollectionId(1)));
}

#[test]
fn a_proposal_that_is_lost_or_rejected_is_made_again() {
    let mut cell = QueuedCell::with(&[(2, 2)]);
    cell.follow("submit ana/load 2 priority=110 appclass=batch cpu=1000 ram=64");
    let lost = cell.admission.pass(cell.script.cell(), cell.now()).enabled;
    assert_eq!(lost, [Enabled { job: model::CollectionId(1), tasks: 2 }]);
    // It is on its way.
    assert_eq!(cell.admission.pass(cell.script.cell(), cell.now()).enabled, []);
    cell.admission.not_judged(cell.script.cell(), lost.clone());
    assert_eq!(cell.admission.pass(cell.script.cell(), cell.now()).enabled, lost);
    // It arrives when there is one task less.
    cell.apply("kill ana/load/1");
    cell.apply("enable 1=2");
    cell.follow("pass: 1x1\npass:");
}

/// What a line of a random script says.
fn any_line() -> impl Strategy<Value = String> {
    let job = || {
        (0..3_usize, 0..3_usize).prop_map(|(user, job)| {
            format!("{}/{}", ["ana", "ben", "cid"][user], ["a", "b", "c"][job])
        })
    };
    let instance = || {
        (1..9_u64, 0..3_u32, 1..3_u32)
            .prop_map(|(job, index, generation)| format!("{job}-{index}-{generation}"))
    };
    prop_oneof![
        4 => (job(), 1..4_u32, 1..4_u64, 0..4_u32).prop_map(|(job, tasks, quarters, options)| {
            let more = ["", " gang=yes", " running-at-once=1", " requeue=yes expected-runtime=7"];
            let cpu = quarters * 500;
            let more = more[options as usize];
            format!("submit {job} {tasks} priority=110 appclass=batch cpu={cpu} ram=64{more}")
        }),
        1 => (job(), 0..4_u32).prop_map(|(job, tasks)| format!("resize {job} {tasks}")),
        1 => job().prop_map(|job| format!("kill {job}")),
        6 => (instance(), 1..3_u32).prop_map(|(instance, machine)| format!("assign {instance} m{machine}")),
        4 => instance().prop_map(|instance| format!("started {instance}")),
        4 => (instance(), prop::sample::select(&["exit 0", "exit 1", "lost"][..]))
            .prop_map(|(instance, how)| format!("ended {instance} {how}")),
        1 => (1..3_u32).prop_map(|machine| format!("silent m{machine}")),
        1 => (1..3_u32).prop_map(|machine| format!("back m{machine}")),
        1 => Just("queue off".to_owned()),
        2 => Just("queue on".to_owned()),
        1 => Just("queue on skipped half-life=60".to_owned()),
        1 => (1..4_000_u32).prop_map(|weight| format!("weight ben cpu={weight}")),
        6 => Just("pass".to_owned()),
    ]
}

proptest! {
    /// A queue that has followed every operation is the queue that is made of the cell.
    #[test]
    fn following_a_cell_is_the_same_as_looking_at_it(
        lines in prop::collection::vec(any_line(), 1..60)
    ) {
        let mut cell = QueuedCell::with(&[(2, 4), (3, 4)]);
        for line in lines {
            if line == "pass" {
                cell.pass();
            } else if let Ok(steps) = cell.script.command(&line) {
                for step in steps {
                    cell.admission.follow(cell.script.cell(), &step.op, &step.applied);
                }
            }
            let made = QueueAdmission::of(cell.script.cell());
            prop_assert_eq!(made.room(), cell.admission.room(), "{}", &line);
            for user in ["ana", "ben", "cid"].map(crate::made::user) {
                prop_assert_eq!(
                    made.queue().used(&user), cell.admission.queue().used(&user), "{}", &line
                );
            }
            let waiting = |of: &QueueAdmission| {
                let all = of.waiting(cell.script.cell(), cell.now(), 0);
                all.into_iter().map(|one| (one.job, one.tasks)).collect::<BTreeMap<_, _>>()
            };
            prop_assert_eq!(waiting(&made), waiting(&cell.admission), "{}", &line);
        }
        let violations = cell.script.cell().check();
        prop_assert!(violations.is_empty(), "{:?}", violations);
    }

    /// Nobody with demand and room is left: after a pass no task that waits fits beside what runs.
    #[test]
    fn nobody_with_room_waits(lines in prop::collection::vec(any_line(), 1..60)) {
        let mut cell = QueuedCell::with(&[(2, 4), (3, 4)]);
        for line in lines {
            if line == "pass" {
                cell.pass();
            } else {
                drop(cell.script.command(&line));
            }
        }
        let mut admission = QueueAdmission::of(cell.script.cell());
        let now = cell.now();
        for _ in 0..20 {
            let enabled = admission.pass(cell.script.cell(), now).enabled;
            if enabled.is_empty() {
                break;
            }
            let op = Op::Enable { by: SchedulerName::main(), enabled };
            let step = cell.script.apply(op);
            admission.follow(cell.script.cell(), &step.op, &step.applied);
        }
        prop_assert_eq!(admission.pass(cell.script.cell(), now).enabled, vec![]);
    }
}
