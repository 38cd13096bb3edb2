//! Gangs: their tasks are placed, stopped and started again together.

use std::sync::Arc;

use cell::{Assignment, Cell, Machine, TaskState};
use expect_test::expect;
use model::{InstanceId, TaskIndex};

use crate::script::session;

/// Assignments of the other pending tasks of an instance's gang, each to another machine in turn.
pub(crate) fn rest_of_gang(cell: &Cell, instance: InstanceId) -> Vec<Assignment> {
    let Some(job) = cell.job(instance.collection).filter(|job| job.is_gang()) else {
        return Vec::new();
    };
    let waits = job.tasks().filter(|(_, task)| matches!(task.state, TaskState::Pending { .. }));
    let others = waits.map(|(index, _)| index).filter(|index| *index != instance.index);
    let assign = |(index, machine): (TaskIndex, &Arc<Machine>)| {
        let ports = machine.free_ports(job.port_count(index), &[]);
        let instance = job.instance(index)?;
        let (machine, alloc, address, victims) = (machine.id, None, None, Vec::new());
        Some(Assignment { instance, alloc, machine, address, ports, victims })
    };
    let machines: Vec<_> = cell.machines().collect();
    others.zip(machines.into_iter().cycle()).filter_map(assign).collect()
}

#[test]
fn a_gang_is_placed_whole_or_not_at_all() {
    session(&expect![[r#"
        > submit ana/train 2 gang=yes cpu=600
        SUBMIT job 1 (new)
        SUBMIT 1-0-1 (new)
        SUBMIT 1-1-1 (new)
        job 1
        > assign 1-0-1 m1
        refused: a gang is placed whole, and 1 of its 2 tasks are assigned
        > assign 1-0-1 m1; 1-1-1 m1
        refused: its gang is placed whole, and task 1/1 was rejected
        refused: it does not fit on machine 1: lacks CPU: 0.6 cores asked, 0.4 cores free
        > show
        0 s
        job 1 ana/train pending
          1-0-1 pending (new), not before 0 s
          1-1-1 pending (new), not before 0 s
        m1 up [] takes 0 cores, 0 B, ports [], 4 free
        m2 up [] takes 0 cores, 0 B, ports [], 4 free
        > submit ana/small 1 cpu=100
        SUBMIT job 2 (new)
        SUBMIT 2-0-1 (new)
        job 2
        > assign 2-0-1 m1; 1-0-1 m1; 1-1-1 m2
        SCHEDULE job 2 on 1
        SCHEDULE 2-0-1 on 1
        SCHEDULE job 1 on 1
        SCHEDULE 1-0-1 on 1
        SCHEDULE 1-1-1 on 2
        accepted
        accepted
        accepted
        > show
        0 s
        job 1 ana/train running
          1-0-1 starting on 1 []
          1-1-1 starting on 2 []
        job 2 ana/small running
          2-0-1 starting on 1 []
        m1 up [1-0-1 2-0-1] takes 0.7 cores, 128 MiB, ports [], 4 free
        m2 up [1-1-1] takes 0.6 cores, 64 MiB, ports [], 4 free
    "#]]);
}

#[test]
fn a_gang_that_no_machines_could_hold_is_rejected() {
    session(&expect![[r#"
        > submit ana/train 3 gang=yes cpu=600
        refused: the gang has 3 tasks of 0.6 cores, 64 MiB, and 2 machines that suit it hold 2 in all, whatever else runs: give it fewer or smaller tasks, or add machines (bourg machines)
        > submit ana/train 3 gang=yes cpu=500
        SUBMIT job 1 (new)
        SUBMIT 1-0-1 (new)
        SUBMIT 1-1-1 (new)
        SUBMIT 1-2-1 (new)
        job 1
        > submit ana/one 3 gang=yes per-machine=1
        refused: the gang has 3 tasks of 0.1 cores, 64 MiB, and 2 machines that suit it hold 2 in all, whatever else runs: give it fewer or smaller tasks, or add machines (bourg machines)
        > submit ana/gpu 1 gang=yes on=gpu
        refused: the gang has 1 task of 0.1 cores, 64 MiB, and 0 machines that suit it hold 0 in all, whatever else runs: give it fewer or smaller tasks, or add machines (bourg machines)
        > update ana/train 5 gang=yes cpu=500
        refused: the gang has 5 tasks of 0.5 cores, 64 MiB, and 2 machines that suit it hold 4 in all, whatever else runs: give it fewer or smaller tasks, or add machines (bourg machines)
    "#]]);
}

#[test]
fn all_start_again_when_one_fails() {
    session(&expect![[r#"
        > submit ana/train 3 gang=yes cpu=300 delay=5 failures=2
        SUBMIT job 1 (new)
        SUBMIT 1-0-1 (new)
        SUBMIT 1-1-1 (new)
        SUBMIT 1-2-1 (new)
        job 1
        > assign 1-0-1 m1; 1-1-1 m2; 1-2-1 m2
        SCHEDULE job 1 on 1
        SCHEDULE 1-0-1 on 1
        SCHEDULE 1-1-1 on 2
        SCHEDULE 1-2-1 on 2
        accepted
        accepted
        accepted
        > ended 1-1-1 exit 1
        FAIL 1-1-1 (exit code 1)
        SUBMIT 1-1-2 (failed, will be retried)
        STOP 1-0-1 (evict, its gang starts again because of task 1)
        STOP 1-2-1 (evict, its gang starts again because of task 1)
        > show
        0 s
        job 1 ana/train running
          1-0-1 starting on 1 [], stopping (evict, its gang starts again because of task 1)
          1-1-2 pending (failed, will be retried), not before 5 s, failures 1, last: exit code 1
          1-2-1 starting on 2 [], stopping (evict, its gang starts again because of task 1)
        m1 up [1-0-1] takes 0.3 cores, 64 MiB, ports [], 4 free
        m2 up [1-2-1] takes 0.3 cores, 64 MiB, ports [], 4 free
        > ended 1-0-1 stopped
        EVICT 1-0-1 (its gang starts again because of task 1)
        SUBMIT 1-0-2 (evicted: its gang starts again because of task 1)
        > assign 1-0-2 m1
        refused: a gang is placed whole, and 1 of its 3 tasks are assigned
        > ended 1-2-1 exit 0
        FINISH 1-2-1
        > show
        0 s
        job 1 ana/train running
          1-0-2 pending (evicted: its gang starts again because of task 1), not before 0 s, last: stopped
          1-1-2 pending (failed, will be retried), not before 5 s, failures 1, last: exit code 1
          1-2-1 finished, last: exit code 0
        m1 up [] takes 0 cores, 0 B, ports [], 4 free
        m2 up [] takes 0 cores, 0 B, ports [], 4 free
        > assign 1-0-2 m1; 1-1-2 m2
        refused: its gang is placed whole, and task 1/1 was rejected
        refused: task 1/1 waits for its next retry
        > at 5
        > assign 1-0-2 m1; 1-1-2 m2
        SCHEDULE 1-0-2 on 1
        SCHEDULE 1-1-2 on 2
        accepted
        accepted
        > started 1-0-2
        START 1-0-2 on 1
        > ended 1-0-2 exit 2
        FAIL 1-0-2 (exit code 2)
        SUBMIT 1-0-3 (failed, will be retried)
        STOP 1-1-2 (evict, its gang starts again because of task 0)
        > ended 1-1-2 stopped
        EVICT 1-1-2 (its gang starts again because of task 0)
        SUBMIT 1-1-3 (evicted: its gang starts again because of task 0)
        > at 60
        > assign 1-0-3 m1; 1-1-3 m2
        SCHEDULE 1-0-3 on 1
        SCHEDULE 1-1-3 on 2
        accepted
        accepted
        > ended 1-1-3 exit 3
        FAIL 1-1-3 (exit code 3)
        STOP 1-0-3 (kill, task 1 of its gang failed)
        > ended 1-0-3 stopped
        KILL 1-0-3 (task 1 of its gang failed)
        FAIL job 1
        > show
        60 s
        job 1 ana/train dead
          1-0-3 killed task 1 of its gang failed, failures 1, last: stopped
          1-1-3 failed, failures 2, last: exit code 3
          1-2-1 finished, last: exit code 0
        m1 up [] takes 0 cores, 0 B, ports [], 4 free
        m2 up [] takes 0 cores, 0 B, ports [], 4 free
    "#]]);
}

#[test]
fn a_gang_that_is_never_restarted_fails_as_a_whole() {
    session(&expect![[r#"
        > submit ana/train 3 gang=yes cpu=300 restart=never
        SUBMIT job 1 (new)
        SUBMIT 1-0-1 (new)
        SUBMIT 1-1-1 (new)
        SUBMIT 1-2-1 (new)
        job 1
        > assign 1-0-1 m1; 1-1-1 m2; 1-2-1 m2
        SCHEDULE job 1 on 1
        SCHEDULE 1-0-1 on 1
        SCHEDULE 1-1-1 on 2
        SCHEDULE 1-2-1 on 2
        accepted
        accepted
        accepted
        > ended 1-2-1 exit 0
        FINISH 1-2-1
        > ended 1-1-1 exit 1
        FAIL 1-1-1 (exit code 1)
        STOP 1-0-1 (kill, task 1 of its gang failed)
        > ended 1-0-1 stopped
        KILL 1-0-1 (task 1 of its gang failed)
        FAIL job 1
        > show
        0 s
        job 1 ana/train dead
          1-0-1 killed task 1 of its gang failed, last: stopped
          1-1-1 failed, failures 1, last: exit code 1
          1-2-1 finished, last: exit code 0
        m1 up [] takes 0 cores, 0 B, ports [], 4 free
        m2 up [] takes 0 cores, 0 B, ports [], 4 free
    "#]]);
}

#[test]
fn a_machine_that_is_lost_takes_the_whole_gang_down() {
    session(&expect![[r#"
        > submit ana/train 3 gang=yes cpu=300
        SUBMIT job 1 (new)
        SUBMIT 1-0-1 (new)
        SUBMIT 1-1-1 (new)
        SUBMIT 1-2-1 (new)
        job 1
        > assign 1-0-1 m1; 1-1-1 m2; 1-2-1 m2
        SCHEDULE job 1 on 1
        SCHEDULE 1-0-1 on 1
        SCHEDULE 1-1-1 on 2
        SCHEDULE 1-2-1 on 2
        accepted
        accepted
        accepted
        > silent m2
        DOWN machine 2
        EVICT 1-1-1 (machine failure)
        SUBMIT 1-1-2 (evicted: machine failure)
        STOP 1-0-1 (evict, its gang starts again because of task 1)
        STOP 1-2-1 (evict, its gang starts again because of task 1)
        EVICT 1-2-1 (machine failure)
        SUBMIT 1-2-2 (evicted: machine failure)
        > ended 1-0-1 stopped
        EVICT 1-0-1 (its gang starts again because of task 1)
        SUBMIT 1-0-2 (evicted: its gang starts again because of task 1)
        > assign 1-0-2 m1; 1-1-2 m1; 1-2-2 m1
        SCHEDULE 1-0-2 on 1
        SCHEDULE 1-1-2 on 1
        SCHEDULE 1-2-2 on 1
        accepted
        accepted
        accepted
        > show
        0 s
        job 1 ana/train running
          1-0-2 starting on 1 [], last: stopped
          1-1-2 starting on 1 [], last: lost: machine m2 went silent
          1-2-2 starting on 1 [], last: lost: machine m2 went silent
        m1 up [1-0-2 1-1-2 1-2-2] takes 0.9 cores, 192 MiB, ports [], 4 free
        m2 down [] takes 0 cores, 0 B, ports [], 4 free
    "#]]);
}

#[test]
fn a_preempted_task_takes_its_gang_with_it_and_a_kill_kills_all() {
    session(&expect![[r#"
        > submit ana/train 2 gang=yes cpu=600 priority=free
        SUBMIT job 1 (new)
        SUBMIT 1-0-1 (new)
        SUBMIT 1-1-1 (new)
        job 1
        > assign 1-0-1 m1; 1-1-1 m2
        SCHEDULE job 1 on 1
        SCHEDULE 1-0-1 on 1
        SCHEDULE 1-1-1 on 2
        accepted
        accepted
        > submit bob/web 1 cpu=900
        SUBMIT job 2 (new)
        SUBMIT 2-0-1 (new)
        job 2
        > assign 2-0-1 m1 evicting 1-0-1
        STOP 1-0-1 (evict, preempted by 2-0-1)
        STOP 1-1-1 (evict, its gang starts again because of task 0)
        SCHEDULE job 2 on 1
        SCHEDULE 2-0-1 on 1
        accepted
        > ended 1-0-1 stopped
        EVICT 1-0-1 (preempted by 2-0-1)
        SUBMIT 1-0-2 (evicted: preempted by 2-0-1)
        > ended 1-1-1 stopped
        EVICT 1-1-1 (its gang starts again because of task 0)
        SUBMIT 1-1-2 (evicted: its gang starts again because of task 0)
        > kill ana/train/1
        KILL 1-0-2 (by ana)
        KILL 1-1-2 (by ana)
        KILL job 1 (by ana)
        killed 2
        > show
        0 s
        job 1 ana/train dead
          1-0-2 killed by ana, last: stopped
          1-1-2 killed by ana, last: stopped
        job 2 bob/web running
          2-0-1 starting on 1 []
        m1 up [2-0-1] takes 0.9 cores, 64 MiB, ports [], 4 free
        m2 up [] takes 0 cores, 0 B, ports [], 4 free
    "#]]);
}

#[test]
fn a_drain_moves_the_whole_gang_as_one_disruption() {
    session(&expect![[r#"
        > submit ana/train 2 gang=yes cpu=300 at-once=1 per-hour=1
        SUBMIT job 1 (new)
        SUBMIT 1-0-1 (new)
        SUBMIT 1-1-1 (new)
        job 1
        > assign 1-0-1 m1; 1-1-1 m2
        SCHEDULE job 1 on 1
        SCHEDULE 1-0-1 on 1
        SCHEDULE 1-1-1 on 2
        accepted
        accepted
        > started 1-0-1
        START 1-0-1 on 1
        > started 1-1-1
        START 1-1-1 on 2
        > drain m1
        DRAIN machine 1 ()
        STOP 1-0-1 (evict, machine shutdown)
        STOP 1-1-1 (evict, its gang starts again because of task 0)
        1 leave
        > ended 1-0-1 stopped
        DRAINED machine 1
        EVICT 1-0-1 (machine shutdown)
        SUBMIT 1-0-2 (evicted: machine shutdown)
        > ended 1-1-1 stopped
        EVICT 1-1-1 (its gang starts again because of task 0)
        SUBMIT 1-1-2 (evicted: its gang starts again because of task 0)
        > assign 1-0-2 m2; 1-1-2 m2
        SCHEDULE 1-0-2 on 2
        SCHEDULE 1-1-2 on 2
        accepted
        accepted
        > started 1-0-2
        START 1-0-2 on 2
        > started 1-1-2
        START 1-1-2 on 2
        > undrain m1
        UNDRAIN machine 1
        done
        > drain m2
        DRAIN machine 2 ()
        0 leave
        > show
        0 s
        job 1 ana/train running
          1-0-2 healthy on 2 [], last: stopped
          1-1-2 healthy on 2 [], last: stopped
        m1 up [] takes 0 cores, 0 B, ports [], 4 free
        m2 up, draining [1-0-2 1-1-2] takes 0.6 cores, 128 MiB, ports [], 4 free
    "#]]);
}

#[test]
fn an_update_restarts_the_whole_gang_at_once() {
    session(&expect![[r#"
        > submit ana/train 3 gang=yes cpu=300 batch=1
        SUBMIT job 1 (new)
        SUBMIT 1-0-1 (new)
        SUBMIT 1-1-1 (new)
        SUBMIT 1-2-1 (new)
        job 1
        > assign 1-0-1 m1; 1-1-1 m2; 1-2-1 m2
        SCHEDULE job 1 on 1
        SCHEDULE 1-0-1 on 1
        SCHEDULE 1-1-1 on 2
        SCHEDULE 1-2-1 on 2
        accepted
        accepted
        accepted
        > started 1-0-1
        START 1-0-1 on 1
        > started 1-1-1
        START 1-1-1 on 2
        > started 1-2-1
        START 1-2-1 on 2
        > update ana/train 3 gang=yes cpu=300 batch=1 cmd=other
        UPDATE_OPEN job 1
        UPDATE_RUNNING job 1
        version 2
        > step 1 2 change=0
        UPDATE_RUNNING 1-0-1
        STOP 1-0-1 (evict, update)
        STOP 1-1-1 (evict, its gang starts again because of task 0)
        STOP 1-2-1 (evict, its gang starts again because of task 0)
        > ended 1-0-1 stopped
        EVICT 1-0-1 (update)
        SUBMIT 1-0-2 (evicted: update)
        > ended 1-1-1 stopped
        EVICT 1-1-1 (its gang starts again because of task 0)
        SUBMIT 1-1-2 (evicted: its gang starts again because of task 0)
        > ended 1-2-1 stopped
        EVICT 1-2-1 (its gang starts again because of task 0)
        SUBMIT 1-2-2 (evicted: its gang starts again because of task 0)
        > show
        0 s
        job 1 ana/train running
          update 1 to 2 rolling, changing 0 1 2, 1 disrupted
          1-0-2 pending (evicted: update), not before 0 s, last: stopped
          1-1-2 pending (evicted: its gang starts again because of task 0), not before 0 s, last: stopped
          1-2-2 pending (evicted: its gang starts again because of task 0), not before 0 s, last: stopped
        m1 up [] takes 0 cores, 0 B, ports [], 4 free
        m2 up [] takes 0 cores, 0 B, ports [], 4 free
    "#]]);
}

#[test]
fn a_gang_that_is_resized_starts_again_in_its_new_size() {
    session(&expect![[r#"
        > submit ana/train 2 gang=yes cpu=300
        SUBMIT job 1 (new)
        SUBMIT 1-0-1 (new)
        SUBMIT 1-1-1 (new)
        job 1
        > assign 1-0-1 m1; 1-1-1 m2
        SCHEDULE job 1 on 1
        SCHEDULE 1-0-1 on 1
        SCHEDULE 1-1-1 on 2
        accepted
        accepted
        > resize ana/train 3
        UPDATE_OPEN job 1
        UPDATE_RUNNING job 1
        SUBMIT 1-2-1 (new)
        STOP 1-0-1 (evict, its gang starts again because of task 2)
        STOP 1-1-1 (evict, its gang starts again because of task 2)
        version 2
        > ended 1-0-1 stopped
        EVICT 1-0-1 (its gang starts again because of task 2)
        SUBMIT 1-0-2 (evicted: its gang starts again because of task 2)
        > ended 1-1-1 stopped
        EVICT 1-1-1 (its gang starts again because of task 2)
        SUBMIT 1-1-2 (evicted: its gang starts again because of task 2)
        > assign 1-0-2 m1; 1-1-2 m2
        refused: a gang is placed whole, and 2 of its 3 tasks are assigned
        refused: a gang is placed whole, and 2 of its 3 tasks are assigned
        > assign 1-0-2 m1; 1-1-2 m2; 1-2-1 m2
        SCHEDULE 1-0-2 on 1
        SCHEDULE 1-1-2 on 2
        SCHEDULE 1-2-1 on 2
        accepted
        accepted
        accepted
        > show
        0 s
        job 1 ana/train running
          update 1 to 2 rolling, changing 2
          1-0-2 starting on 1 [], last: stopped
          1-1-2 starting on 2 [], last: stopped
          1-2-1 starting on 2 []
        m1 up [1-0-2] takes 0.3 cores, 64 MiB, ports [], 4 free
        m2 up [1-1-2 1-2-1] takes 0.6 cores, 128 MiB, ports [], 4 free
    "#]]);
}

/// The eviction of the first task takes the rest of its gang down, which the next assignment names too.
#[test]
fn a_gang_may_evict_another_gang() {
    session(&expect![[r#"
        > submit ana/low 2 gang=yes cpu=600 priority=110
        SUBMIT job 1 (new)
        SUBMIT 1-0-1 (new)
        SUBMIT 1-1-1 (new)
        job 1
        > assign 1-0-1 m1; 1-1-1 m2
        SCHEDULE job 1 on 1
        SCHEDULE 1-0-1 on 1
        SCHEDULE 1-1-1 on 2
        accepted
        accepted
        > submit ben/high 2 gang=yes cpu=600 priority=200
        SUBMIT job 2 (new)
        SUBMIT 2-0-1 (new)
        SUBMIT 2-1-1 (new)
        job 2
        > assign 2-0-1 m1 evicting 1-0-1; 2-1-1 m2 evicting 1-1-1
        STOP 1-0-1 (evict, preempted by 2-0-1)
        STOP 1-1-1 (evict, its gang starts again because of task 0)
        SCHEDULE job 2 on 1
        SCHEDULE 2-0-1 on 1
        SCHEDULE 2-1-1 on 2
        accepted
        accepted
    "#]]);
}
