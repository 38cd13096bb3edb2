//! Machines that do not answer, and the breaker that prevents them from being marked down.

use expect_test::expect;

use crate::script::session;

#[test]
fn an_unreachable_machine_keeps_its_tasks_and_gets_no_others() {
    session(&expect![[r#"
        > submit ana/web 3 ports=http
        SUBMIT job 1 (new)
        SUBMIT 1-0-1 (new)
        SUBMIT 1-1-1 (new)
        SUBMIT 1-2-1 (new)
        job 1
        > assign 1-0-1 m1 31000 ; 1-1-1 m2 31000
        SCHEDULE job 1 on 1
        SCHEDULE 1-0-1 on 1
        SCHEDULE 1-1-1 on 2
        accepted
        accepted
        > started 1-0-1
        START 1-0-1 on 1
        > at 7
        > unreachable m1
        UNREACHABLE machine 1
        > unreachable m1
        (nothing)
        > assign 1-2-1 m1 31001
        refused: it does not fit on machine 1: is unreachable
        > show
        7 s
        job 1 ana/web running
          1-0-1 healthy on 1 [31000]
          1-1-1 starting on 2 [31000]
          1-2-1 pending (new), not before 0 s
        m1 unreachable [1-0-1] takes 0.1 cores, 64 MiB, ports [31000], 3 free
        m2 up [1-1-1] takes 0.1 cores, 64 MiB, ports [31000], 3 free
        > back m1
        BACK machine 1
        > back m1
        (nothing)
        > assign 1-2-1 m1 31001
        SCHEDULE 1-2-1 on 1
        accepted
    "#]]);
}

#[test]
fn an_unreachable_machine_goes_down_and_its_tasks_restart() {
    session(&expect![[r#"
        > submit ana/web 2 ports=http
        SUBMIT job 1 (new)
        SUBMIT 1-0-1 (new)
        SUBMIT 1-1-1 (new)
        job 1
        > assign 1-0-1 m1 31000 ; 1-1-1 m1 31001
        SCHEDULE job 1 on 1
        SCHEDULE 1-0-1 on 1
        SCHEDULE 1-1-1 on 1
        accepted
        accepted
        > unreachable m1
        UNREACHABLE machine 1
        > at 9
        > silent m1
        DOWN machine 1
        EVICT 1-0-1 (machine failure)
        SUBMIT 1-0-2 (evicted: machine failure)
        EVICT 1-1-1 (machine failure)
        SUBMIT 1-1-2 (evicted: machine failure)
        > unreachable m1
        (nothing)
        > show
        9 s
        job 1 ana/web running
          1-0-2 pending (evicted: machine failure), not before 9 s, last: lost: machine m1 went silent
          1-1-2 pending (evicted: machine failure), not before 9 s, last: lost: machine m1 went silent
        m1 down [] takes 0 cores, 0 B, ports [], 4 free
        m2 up [] takes 0 cores, 0 B, ports [], 4 free
        > assign 1-0-2 m2 31000
        SCHEDULE 1-0-2 on 2
        accepted
        > back m1
        BACK machine 1
        > ended 1-0-1 stopped
        refused: 1-0-1 is not the current incarnation of a task
        > show
        9 s
        job 1 ana/web running
          1-0-2 starting on 2 [31000], last: lost: machine m1 went silent
          1-1-2 pending (evicted: machine failure), not before 9 s, last: lost: machine m1 went silent
        m1 up [] takes 0 cores, 0 B, ports [], 4 free
        m2 up [1-0-2] takes 0.1 cores, 64 MiB, ports [31000], 3 free
    "#]]);
}

#[test]
fn only_a_machine_that_is_up_becomes_unreachable() {
    session(&expect![[r#"
        > add m3 m3:1
        ADD machine 3
        machine 3
        > unreachable m3
        (nothing)
        > unreachable m9
        (nothing)
        > silent m3
        DOWN machine 3
        > unreachable m3
        (nothing)
    "#]]);
}

#[test]
fn a_kill_on_an_unreachable_machine_awaits_its_report_or_failure() {
    session(&expect![[r#"
        > submit ana/web 2
        SUBMIT job 1 (new)
        SUBMIT 1-0-1 (new)
        SUBMIT 1-1-1 (new)
        job 1
        > assign 1-0-1 m1 ; 1-1-1 m1
        SCHEDULE job 1 on 1
        SCHEDULE 1-0-1 on 1
        SCHEDULE 1-1-1 on 1
        accepted
        accepted
        > unreachable m1
        UNREACHABLE machine 1
        > kill ana/web
        STOP 1-0-1 (kill, by ana)
        STOP 1-1-1 (kill, by ana)
        killed 2
        > show
        0 s
        job 1 ana/web running
          1-0-1 starting on 1 [], stopping (kill, by ana)
          1-1-1 starting on 1 [], stopping (kill, by ana)
        m1 unreachable [1-0-1 1-1-1] takes 0.2 cores, 128 MiB, ports [], 4 free
        m2 up [] takes 0 cores, 0 B, ports [], 4 free
        > back m1
        BACK machine 1
        > ended 1-0-1 stopped
        KILL 1-0-1 (by ana)
        > unreachable m1
        UNREACHABLE machine 1
        > silent m1
        DOWN machine 1
        KILL 1-1-1 (by ana)
        KILL job 1 (by ana)
    "#]]);
}

#[test]
fn an_unreachable_machine_is_drained_described_and_removed_like_any_other() {
    session(&expect![[r#"
        > submit ana/web 2
        SUBMIT job 1 (new)
        SUBMIT 1-0-1 (new)
        SUBMIT 1-1-1 (new)
        job 1
        > assign 1-0-1 m1 ; 1-1-1 m1
        SCHEDULE job 1 on 1
        SCHEDULE 1-0-1 on 1
        SCHEDULE 1-1-1 on 1
        accepted
        accepted
        > unreachable m1
        UNREACHABLE machine 1
        > drain m1 broken
        DRAIN machine 1 (broken)
        STOP 1-0-1 (evict, machine shutdown)
        STOP 1-1-1 (evict, machine shutdown)
        2 leave
        > remove m1
        refused: machine m1 still has tasks (2): drain it first (bourg machine drain m1), and wait until they have left
        > say m1 rack=r9
        ATTRIBUTE machine 1 rack = r9
        done
        > describe m1 cpu=2000
        UPDATE machine 1 to 2 cores, 1 GiB
        > undrain m1
        UNDRAIN machine 1
        done
        > show
        0 s
        job 1 ana/web running
          1-0-1 starting on 1 [], stopping (evict, machine shutdown)
          1-1-1 starting on 1 [], stopping (evict, machine shutdown)
        m1 unreachable [1-0-1 1-1-1] takes 0.2 cores, 128 MiB, ports [], 4 free
        m2 up [] takes 0 cores, 0 B, ports [], 4 free
        > drain m1
        DRAIN machine 1 ()
        0 leave
        > ended 1-0-1 stopped
        EVICT 1-0-1 (machine shutdown)
        SUBMIT 1-0-2 (evicted: machine shutdown)
        > silent m1
        DOWN machine 1
        DRAINED machine 1
        EVICT 1-1-1 (machine failure)
        SUBMIT 1-1-2 (evicted: machine failure)
        > remove m1
        REMOVE machine 1
        done
        > show
        0 s
        job 1 ana/web running
          1-0-2 pending (evicted: machine shutdown), not before 0 s, last: stopped
          1-1-2 pending (evicted: machine failure), not before 0 s, last: lost: machine m1 went silent
        m2 up [] takes 0 cores, 0 B, ports [], 4 free
    "#]]);
}

#[test]
fn a_task_on_an_unreachable_machine_is_updated_in_place() {
    session(&expect![[r#"
        > submit ana/web 1
        SUBMIT job 1 (new)
        SUBMIT 1-0-1 (new)
        job 1
        > assign 1-0-1 m1
        SCHEDULE job 1 on 1
        SCHEDULE 1-0-1 on 1
        accepted
        > unreachable m1
        UNREACHABLE machine 1
        > submit ana/web 1 cpu=200
        UPDATE_OPEN job 1
        UPDATE_RUNNING job 1
        UPDATE_RUNNING 1-0-1
        job 1, updated
        > submit ana/web 1 cpu=2000
        UPDATE_OPEN job 1
        UPDATE_RUNNING job 1
        job 1, updated
        > show
        0 s
        job 1 ana/web running
          update 1 to 3 rolling
          1-0-1 starting on 1 [], version 2
        m1 unreachable [1-0-1] takes 0.2 cores, 64 MiB, ports [], 4 free
        m2 up [] takes 0 cores, 0 B, ports [], 4 free
    "#]]);
}

#[test]
fn no_task_is_evicted_from_an_unreachable_machine() {
    session(&expect![[r#"
        > submit ana/train 1 cpu=900 priority=free
        SUBMIT job 1 (new)
        SUBMIT 1-0-1 (new)
        job 1
        > assign 1-0-1 m1
        SCHEDULE job 1 on 1
        SCHEDULE 1-0-1 on 1
        accepted
        > submit ana/web 1 cpu=900
        SUBMIT job 2 (new)
        SUBMIT 2-0-1 (new)
        job 2
        > unreachable m1
        UNREACHABLE machine 1
        > assign 2-0-1 m1 evicting 1-0-1
        refused: it does not fit on machine 1: is unreachable
    "#]]);
}

#[test]
fn the_breaker_stops_rescheduling_until_the_cell_answers_again() {
    session(&expect![[r#"
        > allow
        (nothing)
        > at 5
        > stop 3 8
        STOP_RESCHEDULING 3 of 8
        > stop 4 8
        (nothing)
        > show
        5 s
        Stopped { since: Time(5000000), silent: 3, of: 8 }
        m1 up [] takes 0 cores, 0 B, ports [], 4 free
        m2 up [] takes 0 cores, 0 B, ports [], 4 free
        > allow
        ALLOW_RESCHEDULING the cell
        > allow
        (nothing)
        > show
        5 s
        m1 up [] takes 0 cores, 0 B, ports [], 4 free
        m2 up [] takes 0 cores, 0 B, ports [], 4 free
    "#]]);
}

#[test]
fn a_person_resumes_rescheduling_and_the_breaker_is_armed_anew() {
    session(&expect![[r#"
        > resume
        refused: rescheduling is not stopped: there is nothing to resume
        > stop 3 8
        STOP_RESCHEDULING 3 of 8
        > as ana resume
        refused: ana may not resume rescheduling: an administrator may
        > at 6
        > resume
        RESUME_RESCHEDULING the cell
        done
        > resume
        refused: rescheduling is not stopped: there is nothing to resume
        > stop 4 8
        (nothing)
        > show
        6 s
        Resumed { since: Time(6000000), by: UserName(root) }
        m1 up [] takes 0 cores, 0 B, ports [], 4 free
        m2 up [] takes 0 cores, 0 B, ports [], 4 free
        > allow
        ALLOW_RESCHEDULING the cell
        > stop 4 8
        STOP_RESCHEDULING 4 of 8
    "#]]);
}
