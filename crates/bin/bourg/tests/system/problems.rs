//! `bourg cell` names what needs attention, and no longer when it is over.

use crate::cell::Cell;
use crate::eventually::until;

#[test]
fn the_cell_names_a_job_that_fails_again_and_again_and_production_that_is_pending() {
    let cell = Cell::start();
    let shown = cell.ok("bourg cell");
    assert!(!shown.contains("problems"), "{shown}");
    cell.write(
        "jobs.bcl",
        "local borg = import 'borg.libsonnet';
         [
           borg.service('crashes', cmd=['false']),
           borg.service('large', cmd=['true']) { constraints: [borg.attribute('blender').present] },
         ]",
    );
    cell.ok("bourg run jobs.bcl --detach");
    until("the job that crashes is named", || {
        let shown = cell.ok("bourg cell");
        shown.contains("/crashes/0 ends again and again") && shown.contains(": bourg logs ")
    });
    until("production that is pending is named", || {
        cell.ok("bourg cell").contains("/large/0, which is production, is pending")
    });
    cell.ok("bourg kill crashes large");
    until("nothing is named any more", || !cell.ok("bourg cell").contains("problems"));
}

/// It runs for longer than a service without a health check needs to be healthy.
#[test]
fn a_task_that_ends_again_and_again_is_not_healthy_between_two_ends() {
    let cell = Cell::start();
    cell.write(
        "crashes.bcl",
        "(import 'borg.libsonnet').service('crashes', cmd=['sh', '-c', 'sleep 2; exit 1'])
           { cpu: 0.1, ram: '16 MiB' }",
    );
    cell.ok("bourg run crashes.bcl --detach");
    until("it has failed three times", || {
        cell.ok("bourg status crashes -o tasks.0.failures").trim().parse().unwrap_or(0) >= 3
    });
    until("it runs for the fourth time", || {
        cell.ok("bourg status crashes -o counts.running") == "1\n"
    });
    until("and ends once more", || {
        assert_eq!(cell.ok("bourg status crashes -o counts.healthy"), "0\n");
        cell.ok("bourg status crashes -o tasks.0.failures").trim().parse().unwrap_or(0) >= 4
    });
}
