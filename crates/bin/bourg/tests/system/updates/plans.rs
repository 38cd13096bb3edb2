//! `bourg plan`: what a change would do. It changes nothing.

use super::{WEB, change, json, says, versions, write_web};
use crate::cell::Cell;

#[test]
fn a_plan_says_what_happens_to_each_task_and_changes_nothing() {
    let cell = Cell::start();
    write_web(&cell, 3, "update: { healthyFor: '200ms' }");
    let fresh = cell.ok("bourg plan web.bcl");
    assert!(fresh.starts_with("+ root/web  3 tasks  0.3 cores, 96 MiB\n"), "{fresh}");
    assert!(fresh.contains("\nfits now, within quota\nnobody else is affected\n"), "{fresh}");
    assert!(cell.fails(2, "bourg status web").contains("there is no job root/web"));
    cell.ok("bourg run web.bcl");
    let before = cell.status(WEB);
    let (pids, index) = (cell.tasks(WEB), cell.ok("bourg cell -o index"));
    let events = cell.ok("bourg events web");

    let table: &[(&str, &[&str])] = &[
        ("", &["= root/web  unchanged, version 1\n"]),
        (
            "cmd+: ['--unhealthy-after', '0']",
            &[
                "~ root/web  cmd bourg ",
                "   restart on the same machine\n",
                "  restart    3 tasks: 0-2\n",
                "disruptions 3 (at most 1 down at once)\n",
                "fits now, within quota; no task moves\n",
            ],
        ),
        (
            "ram: '48 MiB'",
            &[
                "~ root/web  ram 32 MiB → 48 MiB   in place where the task fits its machine, else it moves\n",
                "3 tasks: 0-2\n",
                "disruptions 0 (at most 1 down at once)\n",
            ],
        ),
        (
            "labels: { team: 'search' }, priority: 210",
            &[
                "  labels.team + search   in place, no restart\n",
                "  priority production(200) → production(210)   in place",
            ],
        ),
        (
            "tasks: 5",
            &[
                "~ root/web  tasks 3 → 5   adds or removes tasks\n",
                "  add        2 tasks: 3-4\n",
                "; 2 tasks to place\n",
            ],
        ),
        (
            "tasks: 1",
            &["~ root/web  tasks 3 → 1   adds or removes tasks\n", "  remove     2 tasks: 1-2\n"],
        ),
        (
            "overrides: { '1': { env: { MODE: 'new' } } }",
            &[
                "  overrides.env   restart on the same machine\n",
                "  restart    1 task: 1\n",
                "disruptions 1 ",
            ],
        ),
        (
            "env: { MODE: 'new' }, disruptions: { atOnce: 0 }",
            &[
                "disruptions 3 (at most 0 down at once)\n",
                "note: its disruption budget has atOnce: 0: ",
            ],
        ),
        (
            "env: { MODE: 'new' }, disruptions: { perHour: 0 }",
            &[
                "disruptions 0 (at most 1 down at once), 3 tasks skipped\n",
                "note: its disruption budget has perHour: 0, which allows no restart ever: ",
            ],
        ),
        (
            "constraints: [(import 'borg.libsonnet').attribute('gpu')]",
            &[
                "  constraints + ",
                "  move       3 tasks: 0-2\n",
                "within quota, but ",
                " would stay pending: ",
            ],
        ),
    ];
    for (fields, expected) in table {
        change(&cell, "new", fields);
        let plan = cell.ok("bourg plan new.bcl");
        for text in *expected {
            assert!(plan.contains(text), "{fields}: {text} is not in\n{plan}");
        }
        assert_eq!(cell.ok("bourg run new.bcl --plan"), plan, "{fields}");
    }
    // Only some tasks.
    let plan = cell.ok("bourg plan env.bcl --tasks 0,2");
    assert!(plan.contains("  restart    2 tasks: 0,2\n"), "{plan}");
    let plan = cell.ok("bourg plan env.bcl --disruptions 1");
    assert!(plan.contains("disruptions 1 (at most 1 down at once), 2 tasks skipped\n"), "{plan}");

    let plan = json(&cell.types("bourg plan env.bcl -o json"));
    assert_eq!(plan["version"], 1);
    assert_eq!(plan["unchanged"], false);
    assert_eq!(plan["changes"][0]["change"]["field"], "env.MODE");
    assert_eq!(plan["changes"][0]["effect"], "restart on the same machine");
    let kinds = serde_json::json!([
        { "kind": "restart", "count": 3, "tasks": [{ "first": 0, "last": 2 }] }
    ]);
    assert_eq!(plan["tasks"], kinds);
    assert_eq!((&plan["disruptions"], &plan["atOnce"]), (&3.into(), &1.into()));
    assert!(!plan.to_string().contains(":\"new\""), "values of variables are not shown: {plan}");

    // What would be rejected is exit code 3.
    change(&cell, "new", "after: ['other']");
    assert!(cell.fails(3, "bourg plan new.bcl").contains("would be rejected: "));

    assert_eq!(cell.tasks(WEB), pids);
    assert_eq!(cell.ok("bourg cell -o index"), index, "nothing was written");
    assert_eq!(cell.ok("bourg events web"), events);
    let after = cell.status(WEB);
    assert_eq!(after["tasks"], before["tasks"]);
    assert_eq!(versions(&cell), [1, 1, 1]);
}

#[test]
fn a_plan_names_who_would_be_evicted() {
    let cell = Cell::start();
    cell.ok("bourg quota meter off");
    let cores = cell.ok("bourg machines -o capacity.cpuMilli");
    let cores: u64 = cores.trim().parse().expect("a number");
    let most = cores * 8 / 10;
    cell.write(
        "low.bcl",
        format!(
            "(import 'borg.libsonnet').batch('low', cmd=['sleep', '1d']) {{ cpu: {}.{:03} }}",
            most / 1_000,
            most % 1_000
        ),
    );
    cell.ok("bourg run low.bcl");
    write_web(&cell, 1, "");
    cell.ok("bourg run web.bcl");
    change(&cell, "new", &format!("cpu: {}.{:03}", most / 1_000, most % 1_000));
    let plan = cell.ok("bourg plan new.bcl");
    assert!(
        plan.contains("evicts 1 task:\n  root/low/0 on ") && plan.contains(", priority 110\n"),
        "{plan}"
    );
    let said = says(&cell, "bourg update new.bcl --healthy-for 100ms");
    assert!(said.contains("updated: 1/1 tasks on version 2"), "{said}");
    let why = cell.ok("bourg events low");
    assert!(why.contains("preempted by "), "{why}");
}
