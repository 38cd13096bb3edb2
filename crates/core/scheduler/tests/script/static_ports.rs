//! Tasks with static ports are spread, wait for their ports, and take them from less important ones.

use expect_test::expect;
use model::{CollectionId, TaskSelection, Time};
use placement::why;

use crate::{arriving, cell, plan};

const TWO: &str = "machine m1 cpu=1000 ram=1000 ports=1000-1001
    machine m2 cpu=1000 ram=1000 ports=1000-1001
    allow-to ana static-ports
    allow-to bob static-ports";

#[test]
fn tasks_with_one_static_port_go_to_different_machines() {
    plan(
        TWO,
        "submit ana/web 2 cpu=100 ram=100 static-ports=https:443 ports=admin
         submit bob/proxy 1 cpu=100 ram=100 static-ports=http:443
         submit bob/other 1 cpu=100 ram=100 static-ports=http:80",
        &expect![[r#"
            ana/web/0 -> m1 1000
            bob/proxy/0 -> m2
            bob/other/0 -> m1
            unplaced 1
        "#]],
    );
}

#[test]
fn a_static_port_is_taken_from_a_less_important_task_and_from_nobody_else() {
    arriving(
        "machine m1 cpu=1000 ram=1000 ports=1000-1001\nallow-to ana static-ports",
        &[
            "submit ana/small 1 priority=100 cpu=10 ram=10",
            "submit ana/low 1 priority=110 cpu=100 ram=100 static-ports=https:443",
            "submit ana/equal 1 priority=110 cpu=100 ram=100 static-ports=https:443",
            "submit ana/web 1 priority=200 cpu=100 ram=100 static-ports=https:443",
            "submit ana/next 1 priority=210 cpu=100 ram=100 static-ports=https:443",
        ],
        &expect![[r#"
            > submit ana/small 1 priority=100 cpu=10 ram=10
            ana/small/0 -> m1
            > submit ana/low 1 priority=110 cpu=100 ram=100 static-ports=https:443
            ana/low/0 -> m1
            > submit ana/equal 1 priority=110 cpu=100 ram=100 static-ports=https:443
            > submit ana/web 1 priority=200 cpu=100 ram=100 static-ports=https:443
            ana/web/0 -> m1 evicting ana/low/0
            > submit ana/next 1 priority=210 cpu=100 ram=100 static-ports=https:443
        "#]],
    );
}

#[test]
fn why_says_who_has_a_static_port() {
    let mut cell = cell(TWO, "submit ana/web 2 cpu=100 ram=100 static-ports=https:443");
    crate::apply(&mut cell, "assign 1-0-1 m1 ; 1-1-1 m2");
    crate::apply(&mut cell, "submit bob/proxy 1 cpu=100 ram=100 static-ports=http:443");
    let job = cell.job(CollectionId(2)).expect("the job");
    let groups = why(&cell, job, &TaskSelection::All, Time(2_000_000)).groups;
    let shown = |reason: &why::Reason| {
        format!("{} {} ({})", reason.machines, reason.text, reason.nearest_text)
    };
    let reasons: Vec<String> = groups[0].reasons.iter().map(shown).collect();
    assert_eq!(reasons, ["2 have port 443 taken by another task (ana/web/0 on m1, …)"]);
    assert_eq!(groups[0].smallest_change, None);
}
