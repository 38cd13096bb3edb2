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
