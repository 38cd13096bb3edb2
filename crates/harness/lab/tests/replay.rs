//! Replays of drawn and of recorded usage.

use lab::replay::{ReplayPlan, replay};
use lab::usage::{Curve, Held, Load, Shape, Subject, Window, Workload, draw, read};
use lab::{Outcome, Totals};
use model::Reclamation;
use model::{Bytes, MilliCores, Priority, Resources, Span};
use proptest::prelude::*;

const HOUR: Span = Span::from_secs(3_600);

fn resources(cpu: u64, ram: u64) -> Resources {
    Resources { cpu: MilliCores(cpu), ram: Bytes(ram), ..Resources::default() }
}

/// A task with a window of 5 minutes for each of these pairs of CPU and memory.
fn subject(priority: i64, limit: (u64, u64), windows: &[(u64, u64)]) -> Subject {
    let held = windows.iter().zip(0..).map(|((cpu, ram), nth)| Held {
        from: Span::from_secs(nth * 300),
        until: Span::from_secs((nth + 1) * 300),
        nth,
        window: Some(Window { cpu: Load::new(*cpu, *cpu), ram: Load::new(*ram, *ram) }),
    });
    Subject {
        limit: resources(limit.0, limit.1),
        priority: Priority::new(priority).expect("a priority"),
        arrives: Span::ZERO,
        age: Span::ZERO,
        stays: None,
        curve: Curve::Recorded(held.collect()),
    }
}

fn plan(machines: usize, capacity: (u64, u64), setting: Reclamation, hours: u64) -> ReplayPlan {
    ReplayPlan {
        machines: vec![resources(capacity.0, capacity.1); machines],
        schedule: vec![(setting, HOUR.saturating_mul(hours))],
        every: Span::from_secs(30),
        lead_in: Span::ZERO,
        seed: 1,
    }
}

fn totals(outcome: &Outcome) -> Totals {
    outcome.totals.first().expect("one setting").1
}

/// A production task that uses a tenth of a machine that it fills by its limit, and batch tasks of
/// a tenth.
fn half_idle() -> Workload {
    Workload {
        production: vec![subject(200, (1_000, 1_000), &[(100, 100)])],
        queue: vec![subject(25, (100, 100), &[(90, 90)])],
    }
}

#[test]
fn batch_runs_in_reclaimed_resources_only_with_reclamation() {
    let run = |setting, hours| replay(&half_idle(), &plan(1, (1_000, 1_000), setting, hours));
    let off = run(Reclamation::Off, 8);
    assert_eq!((off.timeline.len(), totals(&off).reclaimed_permille()), (96, 0));
    assert_eq!(off.timeline.last().map(|slot| slot.running), Some(1));
    for setting in [Reclamation::Baseline, Reclamation::Medium, Reclamation::Aggressive] {
        let outcome = run(setting, 8);
        let last = outcome.timeline.last().expect("a slot");
        // The reservation of production is near its usage at last; what is left is full of batch.
        assert!((7..=9).contains(&last.running), "{setting}: {last:?}");
        let [limit, reservation, used] = last.production;
        assert_eq!((limit.ram, used.ram), (1_000, 100), "{setting}");
        assert!(reservation.ram >= 100 && reservation.ram < 300, "{setting}: {last:?}");
        assert!(totals(&outcome).reclaimed_permille() > 250, "{setting}");
        assert_eq!(totals(&outcome).events(), 0, "{setting}");
    }
}

#[test]
fn a_spike_of_production_ends_batch_and_never_production() {
    // Idle for four hours, then everything at once.
    let mut windows = vec![(100, 100); 48];
    windows.extend([(1_000, 1_000); 12]);
    let workload = Workload {
        production: vec![subject(200, (1_000, 1_000), &windows)],
        queue: vec![subject(25, (100, 100), &[(90, 90)])],
    };
    let outcome = replay(&workload, &plan(1, (1_000, 1_000), Reclamation::Baseline, 5));
    let found = totals(&outcome);
    let before = outcome.timeline.get(47).expect("the last slot before");
    assert_eq!((before.ooms, found.ooms_above_limit, found.production_killed), (0, 0, 0));
    // All batch tasks that ran are killed, once: none is placed while production needs it all.
    assert_eq!(found.ooms, before.running - 1);
    assert_eq!(
        outcome.timeline.last().map(|slot| (slot.running, slot.ooms)),
        Some((1, found.ooms))
    );
    let off = replay(&workload, &plan(1, (1_000, 1_000), Reclamation::Off, 5));
    assert_eq!(totals(&off).events(), 0);
}

#[test]
fn a_schedule_changes_the_setting_within_one_replay() {
    let week = HOUR.saturating_mul(6);
    let schedule = [
        Reclamation::Baseline,
        Reclamation::Aggressive,
        Reclamation::Medium,
        Reclamation::Baseline,
    ];
    let plan = ReplayPlan {
        schedule: schedule.into_iter().map(|setting| (setting, week)).collect(),
        ..plan(1, (1_000, 1_000), Reclamation::Off, 0)
    };
    let production = vec![subject(200, (1_000, 1_000), &[(500, 500)])];
    let outcome = replay(&Workload { production, queue: Vec::new() }, &plan);
    let ends = [71, 143, 215, 287].map(|nth| {
        let slot = outcome.timeline.get(nth).expect("a slot");
        (slot.setting, slot.production[1].ram)
    });
    let settings = ends.map(|(setting, _)| setting);
    assert_eq!(settings, schedule);
    let [first, aggressive, medium, last] = ends.map(|(_, reservation)| reservation);
    assert!(aggressive < medium && medium < last, "{ends:?}");
    assert!(first.abs_diff(last) <= 50, "{ends:?}");
    assert_eq!(outcome.totals.len(), 4);
}

#[test]
fn production_that_arrives_late_takes_its_place_from_batch() {
    let mut late = subject(200, (900, 900), &[(100, 100)]);
    late.arrives = HOUR;
    let workload =
        Workload { production: vec![late], queue: vec![subject(25, (100, 100), &[(90, 90)])] };
    let outcome = replay(&workload, &plan(1, (1_000, 1_000), Reclamation::Off, 2));
    let found = totals(&outcome);
    assert_eq!((found.preempted, found.unplaced, found.events()), (9, 0, 0));
    let none =
        Workload { production: vec![subject(200, (1_001, 1), &[(1, 1)])], queue: Vec::new() };
    let found = totals(&replay(&none, &plan(1, (1_000, 1_000), Reclamation::Off, 1)));
    assert_eq!((found.unplaced, found.placed), (1, 0));
}

#[test]
fn a_gap_in_a_table_silences_a_task_and_raises_its_reservation() {
    // An hour of usage, and nothing for the next 40 minutes.
    let header = lab::usage::HEADERS[0];
    let mut table = format!("{header}\n");
    for start in (0..12).chain(20..24) {
        let (start, end) = (start * 300_000_000_u64, (start + 1) * 300_000_000_u64);
        table += &format!("ana/web/0,200,,{start},{end},1000,1000,100,100,100,100\n");
    }
    let table = read(table.as_bytes()).expect("a table");
    let outcome = replay(&table.workload, &plan(1, (1_000, 1_000), Reclamation::Baseline, 2));
    let reserved = |nth: usize| outcome.timeline.get(nth).map(|slot| slot.production[1].cpu);
    assert!(reserved(11).is_some_and(|cpu| cpu < 350), "{:?}", reserved(11));
    assert_eq!(reserved(19), Some(1_000), "silent for half an hour");
}

#[test]
fn a_seed_has_one_outcome_and_another_seed_another() {
    let cell = |seed| {
        let shape = trace::shapes::Shape::named("2019-a").expect("a shape");
        trace::shapes::generate(&shape, 20, 200, seed)
    };
    let run = |shape, seed| {
        let cell = cell(seed);
        let machines = cell.machines.iter().map(|machine| machine.capacity).collect();
        let plan = ReplayPlan { machines, seed, ..plan(0, (0, 0), Reclamation::Baseline, 2) };
        let outcome = replay(&draw(&cell, shape, seed), &plan);
        (totals(&outcome), outcome.timeline)
    };
    for shape in Shape::ALL {
        assert_eq!(run(shape, 7), run(shape, 7), "{shape}");
        assert_ne!(run(shape, 7), run(shape, 8), "{shape}");
    }
}

/// Windows of a task, as shares of its limit in percent. CPU may be above it, as the paper has it.
fn usage() -> impl Strategy<Value = Vec<(u64, u64, u64, u64)>> {
    prop::collection::vec((0..150_u64, 0..300_u64, 0..100_u64, 0..20_u64), 1..24)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever tasks use: no reservation above its limit, none below the usage after a round, and
    /// no production task within its limit killed.
    #[test]
    fn reservations_are_between_usage_and_limit_and_production_survives(
        production in prop::collection::vec((usage(), 1..40_u64), 1..6),
        batch in prop::collection::vec((usage(), 1..60_u64, 60..7_200_u64), 1..6),
        setting in prop::sample::select(Reclamation::ALL.to_vec()),
        every in prop::sample::select(vec![5_u64, 30, 60]),
    ) {
        let make = |priority, windows: &[(u64, u64, u64, u64)], size: u64| {
            let limit = (size * 100, size * 1_000);
            let mut subject = subject(priority, limit, &vec![(0, 0); windows.len()]);
            let Curve::Recorded(held) = &mut subject.curve else { unreachable!("recorded") };
            for (held, (cpu, cpu_more, ram, ram_more)) in held.iter_mut().zip(windows) {
                let load = |limit: u64, average: u64, most: u64| {
                    Load::new(limit * average / 100, limit * most / 100)
                };
                held.window = Some(Window {
                    cpu: load(limit.0, *cpu, cpu + cpu_more),
                    ram: load(limit.1, *ram, (ram + ram_more).min(100)),
                });
            }
            subject
        };
        let workload = Workload {
            production: production.iter().map(|(windows, size)| make(200, windows, *size)).collect(),
            queue: batch.iter().map(|(windows, size, stays)| {
                Subject { stays: Some(Span::from_secs(*stays)), ..make(25, windows, *size) }
            }).collect(),
        };
        let plan = ReplayPlan {
            every: Span::from_secs(every),
            ..plan(3, (10_000, 100_000), setting, 2)
        };
        let outcome = replay(&workload, &plan);
        let found = totals(&outcome);
        prop_assert_eq!(found.above_limit, 0);
        prop_assert_eq!(found.below_usage, 0);
        prop_assert_eq!(found.production_killed, 0);
        prop_assert_eq!(found.rejected, 0);
        if setting == Reclamation::Off {
            prop_assert_eq!(found.events(), 0);
            prop_assert_eq!(found.reclaimed_permille(), 0);
        }
        prop_assert_eq!(outcome.timeline.len(), 24);
    }
}
