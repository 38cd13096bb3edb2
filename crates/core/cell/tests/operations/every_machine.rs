//! Jobs with one task on every machine: they grow and shrink with the cell.

use expect_test::expect;

use crate::script::session;

/// The task of a machine begins with the operation that adds it, and nowhere else.
#[test]
fn a_machine_that_joins_gets_its_task() {
    session(&expect![[r#"
        > submit ana/exporter 1 everywhere=yes
        SUBMIT job 1 (new)
        SUBMIT 1-0-1 (new)
        SUBMIT 1-1-1 (new)
        job 1
        > assign 1-1-1 m1
        refused: it does not fit on machine 1: is not its machine
        > assign 1-0-1 m1
        SCHEDULE job 1 on 1
        SCHEDULE 1-0-1 on 1
        accepted
        > assign 1-1-1 m2
        SCHEDULE 1-1-1 on 2
        accepted
        > machine m3 cpu=4000 ram=8192
        UPDATE machine 3 to 4 cores, 8 GiB
        SUBMIT 1-2-1 (new)
        > assign 1-2-1 m3
        SCHEDULE 1-2-1 on 3
        accepted
        > resize ana/exporter 5
        refused: ana/exporter has one task on every machine that its constraints match, and so many tasks as there are such machines: change its constraints (bourg update), or give it a number of tasks and submit it anew
    "#]]);
}

/// An attribute that no longer matches ends the task; when it matches again, the row is used again.
#[test]
fn constraints_decide_which_machines_have_one() {
    session(&expect![[r#"
        > say m1 gpu=H200
        ATTRIBUTE machine 1 gpu = H200
        done
        > submit ana/exporter 1 everywhere=yes on=gpu
        SUBMIT job 1 (new)
        SUBMIT 1-0-1 (new)
        job 1
        > assign 1-0-1 m1
        SCHEDULE job 1 on 1
        SCHEDULE 1-0-1 on 1
        accepted
        > started 1-0-1
        START 1-0-1 on 1
        > say m2 gpu=A100
        ATTRIBUTE machine 2 gpu = A100
        SUBMIT 1-1-1 (new)
        done
        > say m1 gpu
        ATTRIBUTE machine 1 gpu gone
        STOP 1-0-1 (kill, its machine m1 was removed or no longer matches its job)
        done
        > ended 1-0-1 stopped
        KILL 1-0-1 (its machine m1 was removed or no longer matches its job)
        > say m1 gpu=H200
        ATTRIBUTE machine 1 gpu = H200
        SUBMIT 1-0-2 (new)
        done
        > say m2 gpu
        ATTRIBUTE machine 2 gpu gone
        KILL 1-1-1 (its machine m2 was removed or no longer matches its job)
        done
    "#]]);
}

/// A job without a machine goes on; killed, it ends.
#[test]
fn a_job_without_machines_waits_for_some() {
    session(&expect![[r#"
        > submit ana/exporter 1 everywhere=yes on=gpu
        SUBMIT job 1 (new)
        job 1
        > submit ana/exporter 1 everywhere=yes on=gpu
        job 1, unchanged
        > submit ana/exporter 3
        refused: ana/exporter is alive and differs in everyMachine, which cannot change while it is: kill it first (bourg kill ana/exporter)
        > say m1 gpu=H200
        ATTRIBUTE machine 1 gpu = H200
        SUBMIT 1-0-1 (new)
        done
        > say m1 gpu
        ATTRIBUTE machine 1 gpu gone
        KILL 1-0-1 (its machine m1 was removed or no longer matches its job)
        done
        > kill ana/exporter
        KILL job 1 (by ana)
        killed 0
    "#]]);
}

/// Where quota does not suffice, a machine is left out until it does.
#[test]
fn growth_beyond_the_quota_waits_for_quota() {
    session(&expect![[r#"
        > grant ana production cpu=300 ram=1024
        GRANT_QUOTA 1: ana production 0.3 cores and 1 GiB from 0 s by root
        grant 1
        > meter on
        METER_QUOTA on
        done
        > submit ana/exporter 1 everywhere=yes cpu=150
        SUBMIT job 1 (new)
        SUBMIT 1-0-1 (new)
        SUBMIT 1-1-1 (new)
        job 1
        > machine m3 cpu=4000 ram=8192
        UPDATE machine 3 to 4 cores, 8 GiB
        > grant ana production cpu=150 ram=64
        GRANT_QUOTA 2: ana production 0.15 cores and 64 MiB from 0 s by root
        SUBMIT 1-2-1 (new)
        grant 2
    "#]]);
}

/// A dead job keeps no list of the machines without a task: its restart decides that again, and waits for quota again.
#[test]
fn what_was_left_out_before_a_restart_is_taken_up_after_it() {
    session(&expect![[r#"
        > grant ana production cpu=300 ram=1024
        GRANT_QUOTA 1: ana production 0.3 cores and 1 GiB from 0 s by root
        grant 1
        > meter on
        METER_QUOTA on
        done
        > submit ana/exporter 1 everywhere=yes cpu=150
        SUBMIT job 1 (new)
        SUBMIT 1-0-1 (new)
        SUBMIT 1-1-1 (new)
        job 1
        > machine m3 cpu=4000 ram=8192
        UPDATE machine 3 to 4 cores, 8 GiB
        > kill ana/exporter
        KILL 1-0-1 (by ana)
        KILL 1-1-1 (by ana)
        KILL job 1 (by ana)
        killed 2
        > restart ana/exporter
        SUBMIT job 1 (new)
        SUBMIT 1-0-2 (new)
        SUBMIT 1-1-2 (new)
        2 start
        > grant ana production cpu=150 ram=64
        GRANT_QUOTA 2: ana production 0.15 cores and 64 MiB from 0 s by root
        SUBMIT 1-2-1 (new)
        grant 2
    "#]]);
}

/// Everything else leaves a machine first.
#[test]
fn its_task_leaves_a_drained_machine_last() {
    session(&expect![[r#"
        > submit ana/exporter 1 everywhere=yes
        SUBMIT job 1 (new)
        SUBMIT 1-0-1 (new)
        SUBMIT 1-1-1 (new)
        job 1
        > submit ana/web 1
        SUBMIT job 2 (new)
        SUBMIT 2-0-1 (new)
        job 2
        > assign 1-0-1 m1
        SCHEDULE job 1 on 1
        SCHEDULE 1-0-1 on 1
        accepted
        > assign 2-0-1 m1
        SCHEDULE job 2 on 1
        SCHEDULE 2-0-1 on 1
        accepted
        > drain m1
        DRAIN machine 1 ()
        STOP 2-0-1 (evict, machine shutdown)
        1 leave
        > evict m1 1-0-1
        (nothing)
        > ended 2-0-1 stopped
        EVICT 2-0-1 (machine shutdown)
        SUBMIT 2-0-2 (evicted: machine shutdown)
        > evict m1 1-0-1
        STOP 1-0-1 (evict, machine shutdown)
        > ended 1-0-1 stopped
        DRAINED machine 1
        EVICT 1-0-1 (machine shutdown)
        SUBMIT 1-0-2 (evicted: machine shutdown)
        > assign 1-0-2 m2
        refused: it does not fit on machine 2: is not its machine
        > undrain m1
        UNDRAIN machine 1
        done
        > assign 1-0-2 m1
        SCHEDULE 1-0-2 on 1
        accepted
    "#]]);
}
