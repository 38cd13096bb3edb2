//! Why tasks are pending, what would start them, what would start at once, and how what has ended did so.

use crate::cell::Cell;

#[test]
fn why_names_all_causes_and_a_change_that_starts_all() {
    let cell = Cell::start();
    cell.write(
        "wants.bcl",
        "local borg = import 'borg.libsonnet';
         borg.batch('wants', tasks=2, cmd=['sleep', '1000'])
           { cpu: 0.01, ram: '16 MiB', maxPerMachine: { tasks: 1, hard: true },
             constraints: [borg.attribute('archh').equal('x')] }",
    );
    let planned = cell.ok("bourg plan wants.bcl");
    let unknown = "no machine has the attribute archh: did you mean arch, which 1 machine has?";
    assert!(planned.contains(&format!("note: {unknown}\n")), "{planned}");
    let run = cell.types("bourg run wants.bcl --detach");
    assert!(run.stderr.contains(&format!("note: {unknown}\n")), "{}", run.stderr);

    let why = cell.ok("bourg why wants");
    assert!(why.contains(" does not match archh = \"x\""), "{why}");
    assert!(why.contains(" smallest change that starts one now: without archh = \"x\"\n"), "{why}");
    let all =
        " smallest change that starts all 2 now: without archh = \"x\" and maxPerMachine 1 → 2\n";
    assert!(why.contains(all), "{why}");
    assert!(why.contains(&format!(" {unknown}\n")), "{why}");
    let rule = " at most 1 task of the job on a machine: 0 of 1 machine have so many\n";
    assert!(why.contains(rule), "{why}");
    assert_eq!(cell.ok("bourg why wants -o groups.0.fitAtOnce"), "0\n");

    let history = cell.ok("bourg why wants --history 3");
    assert!(
        history.contains("2 tasks pending: of 1 machines, 1 does not match archh"),
        "{history}"
    );
    let refused = cell.fails(2, "bourg why wants --history 3 --at 1m");
    assert!(refused.contains("cannot be used with"), "{refused}");

    cell.ok("bourg kill wants");
    let why = cell.ok("bourg why wants");
    assert!(why.starts_with("root/wants: killed by root\n"), "{why}");
    assert!(why.contains(" 2 of 2 tasks: killed by root, "), "{why}");
}

#[test]
fn shapes_show_what_would_start_at_once() {
    let cell = Cell::start();
    let shapes = cell.ok("bourg shapes");
    let head = shapes.lines().next().unwrap_or_default();
    assert!(head.starts_with("BAND ") && head.contains("LARGEST TASK"), "{shapes}");
    assert_eq!(shapes.lines().count(), 6, "one line for each band: {shapes}");
    assert_eq!(cell.ok("bourg shapes --band production -o band"), "production\n");
    let refused = cell.fails(2, "bourg shapes --band prod");
    assert!(refused.contains("there is no band prod: the bands are free, "), "{refused}");
}
