//! The known failures of other systems do not happen here; and with the bug injected, the scenario
//! fails.

#[path = "../campaign/table.rs"]
mod table;

use sim::{InjectedBug, Played, Scenario};
use table::Table;

fn play(scenario: Scenario, seed: u64) -> Played {
    scenario.play(seed, None, Table::default())
}

fn goes_well(scenario: Scenario) {
    for seed in 0..2 {
        let played = play(scenario, seed);
        let figures: Vec<_> = played.figures.iter().map(ToString::to_string).collect();
        println!(
            "{scenario}, seed {seed}, {}, {:?}:\n  {}",
            played.age,
            played.counts,
            figures.join("\n  ")
        );
        assert_eq!(played.failure, None, "{scenario}, seed {seed}");
    }
}

macro_rules! go_well {
    ($($name:ident: $scenario:ident;)*) => {
        $(
            #[test]
            fn $name() {
                goes_well(Scenario::$scenario);
            }
        )*

        #[test]
        fn every_scenario_is_played_here() {
            assert_eq!(Scenario::ALL.to_vec(), [$(Scenario::$scenario),*]);
        }
    };
}

go_well! {
    every_victim_runs_again: VictimNeverRescheduled;
    evictions_have_an_end: PreemptionLoop;
    scheduler_and_master_agree_again: SchedulerAndMasterDisagree;
    a_flapping_machine_is_its_own_problem: FlappingMachine;
    a_thousand_machines_come_back_at_once: Stampede;
    a_rack_is_lost: RackLost;
    half_of_the_cell_is_silent: HalfTheCellSilent;
    a_herd_that_crashes_gets_rarer: CrashLoopHerd;
    a_master_that_dies_while_it_starts_loses_nothing: MasterDiesWhileItStarts;
}

#[test]
fn names_are_those_of_the_command_line() {
    for scenario in Scenario::ALL {
        let name = scenario.name();
        assert_eq!(Scenario::named(name), Some(scenario));
        assert!(name.chars().all(|c| c.is_ascii_lowercase() || c == '-'), "{name}");
        assert!(scenario.about().ends_with('.') && !scenario.about().contains("  "), "{name}");
    }
    assert_eq!(Scenario::named("something-else"), None);
}

#[test]
fn one_seed_has_one_history() {
    let scenario = Scenario::VictimNeverRescheduled;
    assert_eq!(play(scenario, 3), play(scenario, 3));
    assert_ne!(play(scenario, 3).digest, play(scenario, 4).digest);
}

#[test]
fn planted_mistakes_are_found() {
    for (scenario, injected_bug) in [
        (Scenario::VictimNeverRescheduled, InjectedBug::ForgottenVictim),
        (Scenario::SchedulerAndMasterDisagree, InjectedBug::MissedOperation),
        (Scenario::MasterDiesWhileItStarts, InjectedBug::LostWrite),
        (Scenario::SchedulerAndMasterDisagree, InjectedBug::StaleAssignment),
    ] {
        let played = scenario.play(0, Some(injected_bug), Table::default());
        assert!(played.failure.is_some(), "{scenario} does not find {injected_bug:?}");
    }
}
