//! Two users in a cell: their quota, and what one may do to the other's jobs.

use rpc::{Authority, Identity};

use crate::access::client_directory;
use crate::cell::Cell;

/// A cell with a second user, whose commands begin with `bourg --cell ./ana`.
fn with_ana() -> Cell {
    let cell = Cell::start();
    let authority = Authority::open(cell.path("cell/master/tls")).expect("the cell's authority");
    client_directory(&cell, "ana", &authority, &Identity::User("ana".to_owned()));
    cell
}

fn job(cell: &Cell, name: &str, fields: &str) {
    let text = format!("{{ name: '{name}', cmd: ['sleep', '1000'], notice: '1s', {fields} }}");
    cell.write(&format!("{name}.bcl"), &text);
}

#[test]
fn a_quota_shortage_is_reported_and_the_suggested_size_passes() {
    let cell = with_ana();
    // Production quota, which is entirely granted to root at first.
    cell.ok("bourg quota revoke 1");
    cell.ok("bourg quota grant ana production cpu=0.2 ram=64MiB");
    let web = |tasks: u32, more: &str| {
        job(&cell, "web", &format!("tasks: {tasks}, cpu: 0.1, ram: '16 MiB', priority: {more}"));
    };
    web(3, "'production'");
    let short = "ana's production quota is 0.1 cores short: web requests 0.3 cores, with 0.2 cores of \
                 0.2 cores left; what would be admitted: 2 of its 3 tasks, or free(25), which is never \
                 charged; ask for more: bourg quota grant ana production cpu=0.1";
    let checked = cell.types("bourg --cell ./ana quota check web.bcl");
    assert_eq!(checked.code, 3, "{}", checked.stderr);
    assert!(checked.stdout.contains(short), "{}", checked.stdout);
    let said = cell.fails(3, "bourg --cell ./ana run web.bcl");
    assert!(said.contains(short), "{said}");
    assert_eq!(cell.ok("bourg status -o name"), "", "nothing was admitted");

    web(2, "'production'");
    let checked = cell.ok("bourg --cell ./ana quota check web.bcl");
    assert_eq!(checked, "web: within quota, 0.2 cores and 32 MiB in production\n");
    cell.ok("bourg --cell ./ana run web.bcl");
    job(&cell, "spare", "tasks: 3, cpu: 0.1, ram: '16 MiB', priority: 'free'");
    cell.ok("bourg --cell ./ana run spare.bcl");
    let charged = cell.ok("bourg quota show ana -o users.0.charged.cpuMilli");
    assert_eq!(charged, "200\n", "and nothing for the free band");

    // As the error proposed.
    let said = cell.fails(3, "bourg --cell ./ana quota grant ana production cpu=0.1");
    assert!(said.contains("ana may not grant quota to ana"), "{said}");
    cell.ok("bourg quota grant ana production cpu=0.1 --for 2d");
    job(&cell, "more", "cpu: 0.1, ram: '16 MiB', priority: 'production'");
    let ended = cell.types("bourg --cell ./ana run more.bcl");
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert!(ended.stderr.contains("note: ana's production quota falls on "), "{}", ended.stderr);
    let shown = cell.ok("bourg quota show ana");
    assert!(
        shown.contains("enforced: ") && shown.contains("0.1 cores above the quota from "),
        "{shown}"
    );
    cell.ok("bourg --cell ./ana kill web spare more");
    assert_eq!(cell.ok("bourg quota show ana -o users.0.charged.cpuMilli"), "0\n");

    let said = cell.fails(3, "bourg quota grant ana production cpu=100000");
    assert!(said.contains("may not exceed the cell's capacity"), "{said}");
    cell.ok("bourg quota meter off");
    cell.ok("bourg --cell ./ana quota check $EXAMPLES/hello.bcl");
}

/// `bourg dev` grants its user all production capacity.
#[test]
fn an_impossible_grant_is_not_suggested() {
    let cell = with_ana();
    job(&cell, "web", "cpu: 0.1, ram: '16 MiB', priority: 'production'");
    let none = "more cannot be granted now (nothing left to grant in production): revoke a grant first \
                (bourg quota show), or add machines";
    let said = cell.fails(3, "bourg --cell ./ana run web.bcl");
    assert!(said.contains(none) && !said.contains("bourg quota grant"), "{said}");
    let checked = cell.types("bourg --cell ./ana quota check web.bcl");
    assert!(checked.code == 3 && checked.stdout.contains(none), "{}", checked.stdout);
    cell.fails(3, "bourg quota grant ana production cpu=0.1 ram=16MiB");

    // The command that an error proposes works as written, once there is room.
    cell.ok("bourg quota revoke 1");
    let said = cell.fails(3, "bourg --cell ./ana run web.bcl");
    let proposed = said.split("ask for more: ").nth(1).expect("there is a way");
    let (proposed, _) = proposed.split_once(" (an administrator").expect("and who may go it");
    assert_eq!(proposed, "bourg quota grant ana production cpu=0.1 ram=16MiB");
    cell.ok(proposed);
    cell.ok("bourg --cell ./ana run web.bcl");
}

#[test]
fn acting_on_the_job_of_another_user_needs_a_recorded_capability() {
    let cell = with_ana();
    cell.ok("bourg run $EXAMPLES/hello.bcl");
    let said = cell.fails(3, "bourg --cell ./ana kill root/hello");
    let who = "root, an administrator or a user with the capability administer-jobs may";
    assert!(said.contains(&format!("ana may not kill root/hello: {who}")), "{said}");
    cell.fails(3, "bourg --cell ./ana logs root/hello");
    cell.fails(3, "bourg --cell ./ana capability grant ana administer-jobs");

    cell.ok("bourg capability grant ana administer-jobs");
    assert!(cell.ok("bourg capability list").contains("administer-jobs"));
    cell.ok("bourg --cell ./ana logs root/hello");
    let events = cell.ok("bourg events hello");
    let read = |line: &str| line.contains(" USE_CAPABILITY ") && line.ends_with(", by ana");
    assert_eq!(events.lines().filter(|line| read(line)).count(), 1, "{events}");
    cell.ok("bourg --cell ./ana kill root/hello");
    let events = cell.ok("bourg events root/hello");
    assert!(events.contains("USE_CAPABILITY") && events.contains("administer-jobs"), "{events}");
    assert!(cell.ok("bourg events").contains("GRANT_CAPABILITY"), "who gave it, too");
    cell.ok("bourg capability revoke ana administer-jobs");
    assert!(!cell.ok("bourg capability list").contains("administer-jobs"));
}

#[test]
fn a_task_keeps_a_kernel_feature_where_its_owner_may_give_it() {
    let cell = with_ana();
    let program = "cmd: ['sh', '-c', 'grep CapEff /proc/self/status; sleep 1000']";
    cell.write(
        "bind.bcl",
        format!(
            "{{ name: 'bind', {program}, notice: '1s', priority: 'free', \
               kernelFeatures: ['net-bind-service'] }}"
        ),
    );
    let said = cell.fails(3, "bourg --cell ./ana run bind.bcl");
    assert!(
        said.contains("ana may not submit a job with kernelFeatures: an administrator"),
        "{said}"
    );
    cell.ok("bourg capability grant ana kernel-features");
    cell.ok("bourg --cell ./ana run bind.bcl");
    crate::eventually::until("it says what it has", || {
        cell.ok("bourg --cell ./ana logs bind").contains("0000000000000400")
    });
    let events = cell.ok("bourg events ana/bind");
    assert!(events.contains("USE_CAPABILITY") && events.contains("kernel-features"), "{events}");
    cell.ok("bourg --cell ./ana kill bind");
}
