//! Simulated cells, run by the program.

use crate::terminal::Terminal;

#[test]
fn a_seed_has_one_history_and_another_seed_another() {
    let terminal = Terminal::new();
    let digest = |seed: u64| {
        let said = terminal.ok(&format!("bourg sim --seed {seed} --hours 0.2 --machines 6 --json"));
        let found: serde_json::Value = serde_json::from_str(&said).expect("JSON");
        assert_eq!(found["failures"].as_array().map(Vec::len), Some(0), "{said}");
        found["digest"].as_str().expect("a digest").to_owned()
    };
    let first = digest(11);
    assert_eq!(first.len(), 64);
    assert_eq!(digest(11), first);
    assert_ne!(digest(12), first);
}

#[test]
fn faults_can_be_chosen_and_what_is_no_choice_is_told() {
    let terminal = Terminal::new();
    let said = terminal.ok("bourg sim --seeds 0..4 --hours 0.1 --faults network,disk");
    assert!(said.starts_with("4 worlds, "), "{said}");
    assert!(terminal.ok("bourg sim --seed 3 --hours 0.1 --faults none").contains("\nevents "));
    for (wrong, told) in [
        ("--seeds 4..4", "a range such as 0..300"),
        ("--seeds four", "a range such as 0..300"),
        ("--seed 1 --faults fire", "network, machines, master, scheduler, disk"),
        ("--seed 1 --hours 0", "must be from 0.01 to 10000"),
        ("--seed 1 --machines 0", "1..=10000"),
        ("--hours 1", "--seed"),
        ("--seed 1 --only 0,999", "there is no fault 999"),
    ] {
        let said = terminal.fails(2, &format!("bourg sim {wrong}"));
        assert!(said.contains(told), "{wrong}: {said}");
    }
}

#[test]
fn failures_that_others_are_known_for_are_played_by_name() {
    let terminal = Terminal::new();
    let said = terminal.ok("bourg sim --scenario flapping-machine");
    assert!(said.starts_with("flapping-machine: passed\n"), "{said}");
    assert!(said.contains(", at most "), "{said}");
    let said = terminal.fails(2, "bourg sim --scenario flaping-machine");
    assert!(said.contains("all, victim-never-rescheduled, "), "{said}");
}
