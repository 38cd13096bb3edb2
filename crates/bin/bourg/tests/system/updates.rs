//! Running a changed file again: what can change in place does, and nothing is restarted.

use linux::cgroup::{Hierarchy, TaskCgroup};

use crate::cell::Cell;
use crate::eventually::until;

/// The memory limit in MiB that the kernel enforces for the first task of a job.
fn memory_mib(cell: &Cell, job: &str) -> u64 {
    let instance = cell.instance_of(cell.tasks(job)[&0]);
    let hierarchy = Hierarchy::detect().expect("cgroups");
    let cgroup = TaskCgroup::open(&hierarchy, &format!("{}/{instance}", cell.cgroup()));
    cgroup.expect("a name").memory_limit_bytes().expect("the group is there") >> 20
}

#[test]
fn limits_change_while_the_task_runs() {
    let cell = Cell::start();
    cell.ok("bourg run $EXAMPLES/hello.bcl");
    let pids = cell.tasks("hello");
    assert_eq!(memory_mib(&cell, "hello"), 64);
    cell.ok("cp $EXAMPLES/hello.bcl .");
    let change = |what: &str| cell.write("new.bcl", format!("(import 'hello.bcl') + {{ {what} }}"));

    change("ram: '96 MiB', labels: { team: 'search' }");
    let updated = cell.types("bourg run new.bcl");
    assert_eq!(updated.code, 0, "{}", updated.stderr);
    assert!(updated.stderr.contains("  updated: RAM 64 MiB → 96 MiB, labels\n"), "{updated:?}");
    until("the kernel knows", || memory_mib(&cell, "hello") == 96);
    assert_eq!(cell.tasks("hello"), pids, "nothing was restarted");
    assert_eq!(cell.ok("bourg status -l team=search -o spec.ramBytes"), "100663296\n");
    assert_eq!(cell.ok("bourg machines -o taken.ramBytes"), "301989888\n", "3 × 96 MiB");
    assert!(cell.ok("bourg events hello").contains("  UPDATE_RUNNING "));
    let again = cell.types("bourg run new.bcl");
    assert!(again.stderr.contains("  unchanged\n"), "{}", again.stderr);

    change("cmd+: ['--quiet'], tasks: 4");
    let said = cell.fails(3, "bourg run new.bcl");
    let fields = "root/hello is alive and differs in tasks, cmd, which cannot change while it runs";
    assert!(said.contains(fields), "{said}");
    // There is no quota for what no machine has.
    cell.ok("bourg quota meter off");
    change("ram: '900 TiB'");
    let said = cell.fails(3, "bourg run new.bcl");
    assert!(said.contains("root/hello/0 would no longer fit where it runs: "), "{said}");
    assert!(said.contains(" is too small: ") && said.contains("nothing was changed"), "{said}");
    assert_eq!(cell.ok("bourg status hello -o spec.ramBytes"), "100663296\n");
    assert_eq!(cell.tasks("hello"), pids);
}
