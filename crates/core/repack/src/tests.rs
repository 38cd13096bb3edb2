//! Cells in the language of the crate `script`, and what is moved in them.

use std::collections::{BTreeMap, BTreeSet};

use cell::{Cell, Outcome};
use expect_test::{Expect, expect};
use model::{Band, InstanceId, MachineId, Span, TaskId, Time};
use proptest::prelude::*;
use script::Script;

use crate::{PackingGain, PackingPlan, PackingSettings, plan, worth};

/// Two hours after the beginning of each cell.
const NOW: Time = Time(7_200_000_000);

/// A cell at 0 s, administered by root, after these lines. None of them is rejected.
fn cell(lines: &str) -> Cell {
    let mut script = Script::default();
    for line in ["bootstrap test root"].into_iter().chain(lines.lines().map(str::trim)) {
        let steps = script.command(line).unwrap_or_else(|error| panic!("'{line}': {error}"));
        for step in steps {
            let outcome = &step.applied.outcome;
            let accepted = match outcome {
                Outcome::Request(Err(_)) => false,
                Outcome::Assigned(all) => all.iter().all(Result::is_ok),
                _ => true,
            };
            assert!(accepted, "'{line}': {outcome:?}");
        }
    }
    script.cell().clone()
}

fn name(cell: &Cell, id: InstanceId) -> String {
    let job = cell.job(id.collection).expect("a job");
    format!("{}/{}", job.spec.name, id.index)
}

fn machine(cell: &Cell, id: MachineId) -> String {
    cell.machine(id).expect("a machine").name.to_string()
}

fn shown(cell: &Cell, plan: &PackingPlan) -> String {
    let mut text = String::new();
    for proposal in &plan.proposals {
        let gain = match proposal.gain {
            PackingGain::Fits { task, on } => {
                format!("{} fits on {}", name(cell, task), machine(cell, on))
            }
            PackingGain::Empties(id) => format!("{} becomes empty", machine(cell, id)),
        };
        text.push_str(&format!("{gain}, worth {}:", proposal.worth));
        for step in &proposal.moves {
            let (from, to) = (machine(cell, step.from), machine(cell, step.to));
            let task = name(cell, step.instance);
            text.push_str(&format!(" {task} {from} → {to} for {}", step.cost));
        }
        text.push('\n');
    }
    for task in &plan.unhelped {
        text.push_str(&format!("nothing helps {}\n", name(cell, *task)));
    }
    if !plan.is_complete {
        text.push_str("not complete\n");
    }
    if text.is_empty() { "nothing\n".to_owned() } else { text }
}

fn moves_with(settings: &PackingSettings, lines: &str, expected: &Expect) {
    let cell = cell(lines);
    let found = plan(&cell, NOW, &BTreeMap::new(), settings);
    expected.assert_eq(&shown(&cell, &found));
}

fn moves(lines: &str, expected: &Expect) {
    moves_with(&PackingSettings::default(), lines, expected);
}

/// Two machines of 1 core, each with tasks of 0.3 and 0.2 cores; a task of 0.7 cores waits.
const FRAGMENTED: &str = "machine m1
    machine m2
    submit ana/small 2 priority=100 cpu=200 ram=10
    submit ana/large 2 priority=100 cpu=300 ram=10
    assign 1-0-1 m1 ; 1-1-1 m2 ; 2-0-1 m1 ; 2-1-1 m2
    started 1-0-1
    started 1-1-1
    started 2-0-1
    started 2-1-1
    submit ana/train 1 priority=110 cpu=700 ram=10";

#[test]
fn a_pending_task_fits_after_the_cheapest_move() {
    moves(
        FRAGMENTED,
        &expect![[r#"
        train/0 fits on m1, worth 147000: small/0 m1 → m2 for 24800
    "#]],
    );
    // It fits already, or nothing is pending.
    moves(
        &FRAGMENTED.replace("cpu=700", "cpu=500"),
        &expect![[r#"
        nothing
    "#]],
    );
    // Nothing makes so much room.
    moves(
        &FRAGMENTED.replace("cpu=700", "cpu=1100"),
        &expect![[r#"
        nothing helps train/0
    "#]],
    );
    // Both tasks of a machine have to leave.
    moves(
        &FRAGMENTED.replace("cpu=700", "cpu=1000"),
        &expect![[r#"
        train/0 fits on m1, worth 210000: small/0 m1 → m2 for 24800 large/0 m1 → m2 for 37200
    "#]],
    );
    // They go where the least room is left.
    let more = FRAGMENTED
        .replace("cpu=700", "cpu=1000")
        .replace("machine m2", "machine m2\nmachine m3 cpu=600");
    moves(
        &more,
        &expect![[r#"
        train/0 fits on m1, worth 210000: small/0 m1 → m2 for 24800 large/0 m1 → m2 for 37200
    "#]],
    );
}

#[test]
fn a_move_costs_at_most_what_it_gains() {
    // It is of priority 0, and so worth less.
    let free = FRAGMENTED.replace("priority=110 cpu=700", "priority=0 cpu=550");
    moves(
        &free,
        &expect![[r#"
        train/0 fits on m1, worth 55000: small/0 m1 → m2 for 24800
    "#]],
    );
    moves(
        &free.replace("priority=100", "priority=119"),
        &expect![[r#"
        train/0 fits on m1, worth 55000: small/0 m1 → m2 for 27156
    "#]],
    );
    // Moving tasks of a high priority costs more than it gains.
    moves(
        &free.replace("priority=100", "priority=350"),
        &expect![[r#"
        nothing helps train/0
    "#]],
    );
    // Latency-sensitive tasks of production stay, unless their band is named.
    let serving = FRAGMENTED
        .replace("priority=100", "priority=200 appclass=latency-sensitive")
        .replace("priority=110", "priority=350")
        .replace("started 2-1-1", "started 2-1-1\nhealth 1-0-1 good\nhealth 1-1-1 good\nhealth 2-0-1 good\nhealth 2-1-1 good");
    moves(
        &serving,
        &expect![[r#"
        nothing helps train/0
    "#]],
    );
    let bands = Some(BTreeSet::from([Band::Production]));
    let named = PackingSettings { bands, ..PackingSettings::default() };
    moves_with(
        &named,
        &serving,
        &expect![[r#"
        train/0 fits on m1, worth 315000: small/0 m1 → m2 for 30000
    "#]],
    );
    moves_with(
        &named,
        FRAGMENTED,
        &expect![[r#"
        nothing helps train/0
    "#]],
    );
}

#[test]
fn budgets_drains_updates_and_moves_of_the_last_hour_are_kept_to() {
    let no_budget =
        FRAGMENTED.replace("cpu=200", "at-once=0 cpu=200").replace("cpu=300", "at-once=0 cpu=300");
    moves(
        &no_budget,
        &expect![[r#"
        nothing helps train/0
    "#]],
    );
    let drained = FRAGMENTED.to_owned() + "\ndrain m2";
    moves(
        &drained,
        &expect![[r#"
        nothing helps train/0
    "#]],
    );
    let updated = FRAGMENTED.to_owned()
        + "\nupdate ana/small 2 priority=100 cpu=200 ram=10 cmd=new\nupdate ana/large 2 priority=100 cpu=300 ram=10 cmd=new";
    moves(
        &updated,
        &expect![[r#"
        nothing helps train/0
    "#]],
    );
    // Its tasks have just begun.
    let unsettled =
        PackingSettings { settled: Span::from_secs(7_201), ..PackingSettings::default() };
    moves_with(
        &unsettled,
        FRAGMENTED,
        &expect![[r#"
        nothing helps train/0
    "#]],
    );
    let impatient =
        PackingSettings { waited: Span::from_secs(7_201), ..PackingSettings::default() };
    moves_with(
        &impatient,
        FRAGMENTED,
        &expect![[r#"
        nothing
    "#]],
    );
    // Each was moved within the hour.
    let cell = cell(FRAGMENTED);
    let all = cell.machines().flat_map(|machine| machine.instances());
    let tasks: Vec<TaskId> = all.map(|instance| instance.task()).collect();
    let ago = |seconds| tasks.iter().map(|task| (*task, NOW - Span::from_secs(seconds))).collect();
    let settings = PackingSettings { settled: Span::ZERO, ..PackingSettings::default() };
    assert_eq!(plan(&cell, NOW, &ago(3_599), &settings).proposals, []);
    assert_eq!(plan(&cell, NOW, &ago(3_600), &settings).proposals.len(), 1);
}

#[test]
fn moves_under_way_are_counted_and_not_made_twice() {
    let moving = FRAGMENTED.to_owned() + "\nmove 1-0-1 m2 for 3-0-1";
    moves(
        &moving,
        &expect![[r#"
        nothing
    "#]],
    );
    moves(
        &(moving.clone() + "\nended 1-0-1 stopped"),
        &expect![[r#"
        nothing
    "#]],
    );
    // Of two tasks that wait, the first gets a machine, and the other the next.
    let two = FRAGMENTED.replace("train 1", "train 2");
    moves(
        &two,
        &expect![[r#"
        train/0 fits on m1, worth 147000: small/0 m1 → m2 for 24800
        nothing helps train/1
    "#]],
    );
    let four = "machine m3 cpu=500\nmachine m4 cpu=500\n".to_owned() + &two;
    moves(
        &four,
        &expect![[r#"
        train/0 fits on m1, worth 147000: small/0 m1 → m2 for 24800
        train/1 fits on m2, worth 147000: small/1 m2 → m3 for 24800 large/1 m2 → m3 for 37200
    "#]],
    );
    let one_move = PackingSettings { moves: 1, ..PackingSettings::default() };
    moves_with(
        &one_move,
        &four,
        &expect![[r#"
        train/0 fits on m1, worth 147000: small/0 m1 → m2 for 24800
    "#]],
    );
}

#[test]
fn a_machine_is_emptied_if_that_is_asked_for() {
    let empties = PackingSettings { empties: true, ..PackingSettings::default() };
    let sparse = "machine m1
        machine m2
        machine m3
        submit ana/index 3 priority=100 cpu=200 ram=10
        assign 1-0-1 m1 ; 1-1-1 m2 ; 1-2-1 m2
        started 1-0-1
        started 1-1-1
        started 1-2-1";
    moves(
        sparse,
        &expect![[r#"
        nothing
    "#]],
    );
    moves_with(
        &empties,
        sparse,
        &expect![[r#"
        m1 becomes empty, worth 100000: index/0 m1 → m2 for 24800
    "#]],
    );
    moves_with(
        &empties,
        &sparse.replace("ana/index 3", "ana/index 3 at-once=0"),
        &expect![[r#"
        nothing
    "#]],
    );
}

/// What becomes of a task that is moved to a machine, and of one that is then placed where it was: as the cell does it.
fn is_real(cell: &Cell, moved: InstanceId, to: MachineId, pending: InstanceId) -> bool {
    let (from, mut script) =
        (cell.placement(moved).expect("it runs").machine, Script::on(cell.clone()));
    let mut does = |line: String| {
        let steps = script.command(&line).unwrap_or_else(|error| panic!("'{line}': {error}"));
        steps.iter().all(|step| match &step.applied.outcome {
            Outcome::Request(answer) => answer.is_ok(),
            Outcome::Assigned(all) => all.iter().all(Result::is_ok),
            _ => true,
        })
    };
    let next = moved.task().generation(model::Generation(moved.generation.0 + 1));
    let (to, from) = (machine(cell, to), machine(cell, from));
    does(format!("move {moved} {to} for {pending}"))
        && does(format!("ended {moved} stopped"))
        && does(format!("assign {next} {to}"))
        && does(format!("assign {pending} {from}"))
}

fn fits_somewhere(cell: &Cell, pending: InstanceId) -> bool {
    cell.machines().any(|machine| {
        let mut script = Script::on(cell.clone());
        let steps = script.command(&format!("assign {pending} {}", machine.name)).expect("a line");
        let assigned = |outcome: &Outcome| match outcome {
            Outcome::Assigned(all) => all.iter().all(Result::is_ok),
            _ => true,
        };
        steps.iter().all(|step| assigned(&step.applied.outcome))
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Tried on the cell itself, no single move is cheaper than the one that is proposed; and where none is proposed,
    /// there is none. Several moves are proposed only where no single one helps, and each of them has its room.
    #[test]
    fn no_single_move_is_cheaper(
        tasks in prop::collection::vec((1..9_u64, 0..3_usize, 0..3_usize), 1..8),
        wanted in 2..11_u64,
        at_once in prop::option::of(0..2_u32),
    ) {
        let mut lines = "machine m1\nmachine m2\nmachine m3 cpu=700".to_owned();
        let mut used = [0; 3];
        let mut number = 0;
        for (tenths, at, kind) in tasks {
            if used[at] + tenths > [10, 10, 7][at] {
                continue;
            }
            used[at] += tenths;
            number += 1;
            let priority = [50, 100, 200][kind];
            let budget = at_once.filter(|_| kind == 1).map_or(String::new(), |most| format!(" at-once={most}"));
            lines += &format!(
                "\nsubmit ana/j{number} 1 priority={priority} cpu={} ram=4{budget}\nassign {number}-0-1 m{}\nstarted {number}-0-1",
                tenths * 100,
                at + 1,
            );
        }
        let waits = number + 1;
        lines += &format!("\nsubmit ana/waits 1 priority=110 cpu={} ram=4", wanted * 100);
        let cell = cell(&lines);
        let pending: InstanceId = format!("{waits}-0-1").parse().expect("an instance");
        let found = plan(&cell, NOW, &BTreeMap::new(), &PackingSettings::default());
        if fits_somewhere(&cell, pending) {
            prop_assert_eq!(found.proposals, []);
            return Ok(());
        }
        let largest = worth::largest(&cell);
        let job = cell.job(pending.collection).expect("a job");
        let gain = worth::of_task(job, pending.index, largest);
        let mut cheapest: Option<u64> = None;
        for from in cell.machines() {
            for (instance, to) in from.instances().iter().flat_map(|id| cell.machines().map(move |to| (*id, to.id))) {
                let job = cell.job(instance.collection).expect("a job");
                let cost = worth::of_move(job, instance.index, NOW.since(Time::ZERO), largest);
                if cost < gain && is_real(&cell, instance, to, pending) {
                    cheapest = Some(cheapest.map_or(cost, |least| least.min(cost)));
                }
            }
        }
        match (found.proposals.as_slice(), cheapest) {
            ([], None) => {}
            ([one], Some(cheapest)) => {
                prop_assert_eq!(one.moves.len(), 1);
                prop_assert_eq!(one.cost(), cheapest);
                prop_assert!(is_real(&cell, one.moves[0].instance, one.moves[0].to, pending));
            }
            ([several], None) => {
                prop_assert!(several.moves.len() > 1 && several.cost() < several.worth);
                for step in &several.moves {
                    let to = cell.machine(step.to).expect("a machine");
                    prop_assert_eq!(cell.may_move(step.instance), Ok(()));
                    prop_assert_eq!(cell.may_move_to(step.instance, to), Ok(()));
                }
            }
            (proposals, cheapest) => prop_assert!(false, "{proposals:?}, and {cheapest:?} by trial:\n{lines}"),
        }
    }
}
