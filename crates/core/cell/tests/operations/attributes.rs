//! Attributes of machines, constraints of tasks, and updates of live jobs.

use expect_test::expect;

use crate::script::session;

#[test]
fn a_machine_says_what_it_is_and_its_operators_say_more() {
    session(&expect![[r#"
        > describe m1 is=kernel:6.1 is=rack:r1
        ATTRIBUTE machine 1 kernel = 6.1
        ATTRIBUTE machine 1 rack = r1
        > describe m1 is=kernel:6.12 is=rack:r1
        ATTRIBUTE machine 1 kernel = 6.12
        > say m1 rack=r7 power-domain=p1
        ATTRIBUTE machine 1 power-domain = p1
        ATTRIBUTE machine 1 rack = r7
        done
        > say m1 rack=r7
        done
        > describe m1 is=kernel:6.12 is=rack:r2
        (nothing)
        > say m1 rack power-domain nothing
        ATTRIBUTE machine 1 power-domain gone
        ATTRIBUTE machine 1 rack = r2
        done
        > as ana say m1 rack=r1
        refused: ana may not set attributes of machine m1: an administrator may
        > say m9 rack=r1
        refused: there is no machine m9
        > say m1 =r1
        refused: an attribute's name must be 1 to 256 characters, none of them a control character
    "#]]);
}

/// A machine speaks for itself only: what others have, and what administrators decide, is not its to say.
#[test]
fn a_machine_is_not_believed_about_others() {
    session(&expect![[r#"
        > describe m1 network=10.64.5.0/24 is=gpu:none
        ATTRIBUTE machine 1 gpu = none
        > say m1 admin/gpu=H200
        ATTRIBUTE machine 1 admin/gpu = H200
        done
        > describe m2 network=10.64.5.128/25 is=admin/gpu:H200 is=gpu:H200 cpu=99999999999
        UPDATE machine 2 to 8192 cores, 1 GiB
        ATTRIBUTE machine 2 gpu = H200
        ATTRIBUTE machine 2 rejected-report = task network 10.64.5.128/25: machine m1 has it; cpu 99999999.999 cores: the maximum is 8192 cores; attribute admin/gpu: only administrators set it
        > describe m2 network=10.64.0.0/16 is=gpu:H200
        UPDATE machine 2 to 1 core, 1 GiB
        ATTRIBUTE machine 2 rejected-report = task network 10.64.0.0/16: machine m1 has it
        > describe m2 network=10.64.5.0/24 is=gpu:H200
        ATTRIBUTE machine 2 rejected-report = task network 10.64.5.0/24: machine m1 has it
        > describe m2 network=10.64.6.0/24 is=gpu:H200
        ATTRIBUTE machine 2 rejected-report gone
        > describe m2 network=10.64.5.0/24 is=gpu:H200
        ATTRIBUTE machine 2 rejected-report = task network 10.64.5.0/24: machine m1 has it
        > describe m1 is=admin/gpu:none
        ATTRIBUTE machine 1 gpu gone
        ATTRIBUTE machine 1 rejected-report = attribute admin/gpu: only administrators set it
        > show
        0 s
        m1 up [] takes 0 cores, 0 B, ports [], 4 free
        m2 up [] takes 0 cores, 0 B, ports [], 4 free
        > describe m2 network=10.64.5.0/24 is=gpu:H200
        ATTRIBUTE machine 2 rejected-report gone
        > describe m1 network=10.64.5.0/24
        ATTRIBUTE machine 1 rejected-report = task network 10.64.5.0/24: machine m2 has it
        > remove m2
        REMOVE machine 2
        done
        > describe m1 network=10.64.5.0/24
        ATTRIBUTE machine 1 rejected-report gone
    "#]]);
}

#[test]
fn tasks_are_placed_where_their_hard_constraints_hold() {
    session(&expect![[r#"
        > say m1 gpu=H200 cores=8
        ATTRIBUTE machine 1 cores = 8
        ATTRIBUTE machine 1 gpu = H200
        done
        > submit ana/train 1 on=gpu=h200
        SUBMIT job 1 (new)
        SUBMIT 1-0-1 (new)
        job 1
        > submit ana/serve 1 on=gpu,cores>=8,ssd?
        SUBMIT job 2 (new)
        SUBMIT 2-0-1 (new)
        job 2
        > submit ana/small 1 on=!gpu,cores<8
        SUBMIT job 3 (new)
        SUBMIT 3-0-1 (new)
        job 3
        > assign 1-0-1 m1
        refused: it does not fit on machine 1: does not match gpu = "h200": it has "H200"
        > assign 2-0-1 m2
        refused: it does not fit on machine 2: does not match gpu is present: it does not have that attribute
        > assign 2-0-1 m1
        SCHEDULE job 2 on 1
        SCHEDULE 2-0-1 on 1
        accepted
        > assign 3-0-1 m1
        refused: it does not fit on machine 1: does not match gpu is not present: it has "H200"
        > assign 3-0-1 m2
        SCHEDULE job 3 on 2
        SCHEDULE 3-0-1 on 2
        accepted
        > say m1 gpu
        ATTRIBUTE machine 1 gpu gone
        done
        > show
        0 s
        job 1 ana/train pending
          1-0-1 pending (new), not before 0 s
        job 2 ana/serve running
          2-0-1 starting on 1 []
        job 3 ana/small running
          3-0-1 starting on 2 []
        m1 up [2-0-1] takes 0.1 cores, 64 MiB, ports [], 4 free
        m2 up [3-0-1] takes 0.1 cores, 64 MiB, ports [], 4 free
    "#]]);
}

#[test]
fn the_cores_of_a_platform_count_for_more_or_less() {
    session(&expect![[r#"
        > describe m1 is=platform:fast
        ATTRIBUTE machine 1 platform = fast
        > submit ana/web 1 cpu=1500
        SUBMIT job 1 (new)
        SUBMIT 1-0-1 (new)
        job 1
        > assign 1-0-1 m1
        refused: it does not fit on machine 1: is too small: 1.5 cores of CPU asked, it has 1 core
        > platform fast 1.5
        PLATFORM fast 1.5
        UPDATE machine 1 to 1.5 cores, 1 GiB
        done
        > assign 1-0-1 m1
        SCHEDULE job 1 on 1
        SCHEDULE 1-0-1 on 1
        accepted
        > platform fast 1
        PLATFORM fast 1
        UPDATE machine 1 to 1 core, 1 GiB
        done
        > platform fast 1
        done
        > as ana platform fast 2
        refused: ana may not set a platform's factor: an administrator may
        > show
        0 s
        job 1 ana/web running
          1-0-1 starting on 1 []
        m1 up [1-0-1] takes 1.5 cores, 64 MiB, ports [], 4 free
        m2 up [] takes 0 cores, 0 B, ports [], 4 free
    "#]]);
}

#[test]
fn whole_cores_count_apart_from_cpu_by_the_machines_speed() {
    session(&expect![[r#"
        > describe m1 cpu=8000 is=exclusive-cores:2 is=threads-per-core:1 is=platform:slow
        UPDATE machine 1 to 8 cores, 1 GiB
        ATTRIBUTE machine 1 exclusive-cores = 2
        ATTRIBUTE machine 1 platform = slow
        ATTRIBUTE machine 1 threads-per-core = 1
        > describe m2 cpu=8000
        UPDATE machine 2 to 8 cores, 1 GiB
        > submit ana/own 2 cpu=1000 cores=exclusive appclass=latency-sensitive
        SUBMIT job 1 (new)
        SUBMIT 1-0-1 (new)
        SUBMIT 1-1-1 (new)
        job 1
        > submit ana/two 1 cpu=2000 cores=exclusive appclass=latency-sensitive
        SUBMIT job 2 (new)
        SUBMIT 2-0-1 (new)
        job 2
        > submit ana/wrong 1 cpu=1000 cores=exclusive
        refused: the job description is not valid: cores: can be 'exclusive' for latency-sensitive tasks only, because batch tasks run on every core: add appclass: 'latency-sensitive', or leave it out
        > submit ana/wrong 1 cpu=1500 cores=exclusive appclass=latency-sensitive
        refused: the job description is not valid: cpu: must be a whole number of cores with cores: 'exclusive', is 1.5 cores
        > say m2 exclusive-cores=4
        ATTRIBUTE machine 2 exclusive-cores = 4
        done
        > assign 1-0-1 m2
        refused: it does not fit on machine 2: offers no whole cores: its Borglet has no cpuset controller or only a part of the machine, or there is only one core
        > assign 1-0-1 m1
        SCHEDULE job 1 on 1
        SCHEDULE 1-0-1 on 1
        accepted
        > assign 2-0-1 m1
        refused: it does not fit on machine 1: lacks whole cores: 2 asked, 1 free of 2
        > assign 1-1-1 m1
        SCHEDULE 1-1-1 on 1
        accepted
        > kill ana/own
        STOP 1-0-1 (kill, by ana)
        STOP 1-1-1 (kill, by ana)
        killed 2
        > ended 1-0-1 stopped
        KILL 1-0-1 (by ana)
        > ended 1-1-1 stopped
        KILL 1-1-1 (by ana)
        KILL job 1 (by ana)
        > platform slow 0.8
        PLATFORM slow 0.8
        UPDATE machine 1 to 6.4 cores, 1 GiB
        done
        > assign 2-0-1 m1
        refused: it does not fit on machine 1: lacks whole cores: 3 asked, 2 free of 2
        > platform slow 1
        PLATFORM slow 1
        UPDATE machine 1 to 8 cores, 1 GiB
        done
        > assign 2-0-1 m1
        SCHEDULE job 2 on 1
        SCHEDULE 2-0-1 on 1
        accepted
        > show
        0 s
        job 1 ana/own dead
          1-0-1 killed by ana, last: stopped
          1-1-1 killed by ana, last: stopped
        job 2 ana/two running
          2-0-1 starting on 1 []
        m1 up [2-0-1] takes 2 cores, 64 MiB, ports [], 4 free
        m2 up [] takes 0 cores, 0 B, ports [], 4 free
    "#]]);
}

#[test]
fn requests_of_a_living_job_change_in_place() {
    session(&expect![[r#"
        > submit ana/web 3 cpu=300
        SUBMIT job 1 (new)
        SUBMIT 1-0-1 (new)
        SUBMIT 1-1-1 (new)
        SUBMIT 1-2-1 (new)
        job 1
        > assign 1-0-1 m1; 1-1-1 m1
        SCHEDULE job 1 on 1
        SCHEDULE 1-0-1 on 1
        SCHEDULE 1-1-1 on 1
        accepted
        accepted
        > submit ana/web 3 cpu=400 priority=130 label=team:search
        UPDATE_OPEN job 1
        UPDATE_RUNNING job 1
        UPDATE_RUNNING 1-0-1
        UPDATE_RUNNING 1-1-1
        UPDATE_PENDING 1-2-1
        job 1, updated
        > show
        0 s
        job 1 ana/web running
          update 1 to 2 rolling, changing 0 1 2
          1-0-1 starting on 1 []
          1-1-1 starting on 1 []
          1-2-1 pending (new), not before 0 s
        m1 up [1-0-1 1-1-1] takes 0.8 cores, 128 MiB, ports [], 4 free
        m2 up [] takes 0 cores, 0 B, ports [], 4 free
        > submit ana/web 3 cpu=600
        UPDATE_OPEN job 1
        UPDATE_RUNNING job 1
        UPDATE_RUNNING 1-0-1
        UPDATE_PENDING 1-2-1
        job 1, updated
        > submit ana/web 3 cpu=400 on=gpu
        UPDATE_OPEN job 1
        UPDATE_RUNNING job 1
        UPDATE_PENDING 1-2-1
        job 1, updated
        > submit ana/web 3 cpu=100 on=gpu?
        UPDATE_OPEN job 1
        UPDATE_RUNNING job 1
        UPDATE_PENDING 1-2-1
        job 1, updated
        > show
        0 s
        job 1 ana/web running
          update 1 to 5 rolling, changing 2
          1-0-1 starting on 1 [], version 3
          1-1-1 starting on 1 [], version 2
          1-2-1 pending (new), not before 0 s
        m1 up [1-0-1 1-1-1] takes 1 core, 128 MiB, ports [], 4 free
        m2 up [] takes 0 cores, 0 B, ports [], 4 free
        > submit ana/web 3 cpu=100 cmd=other
        UPDATE_OPEN job 1
        UPDATE_RUNNING job 1
        UPDATE_PENDING 1-2-1
        job 1, updated
        > submit ana/web 3 cpu=100 big=1:800
        UPDATE_OPEN job 1
        UPDATE_RUNNING job 1
        UPDATE_PENDING 1-2-1
        job 1, updated
        > submit ana/web 3 cpu=100 big=1:950
        UPDATE_OPEN job 1
        UPDATE_RUNNING job 1
        UPDATE_PENDING 1-2-1
        job 1, updated
        > describe m1 cpu=500
        UPDATE machine 1 to 0.5 cores, 1 GiB
        > submit ana/web 3 cpu=100 big=1:700
        UPDATE_OPEN job 1
        UPDATE_RUNNING job 1
        UPDATE_PENDING 1-2-1
        job 1, updated
        > show
        0 s
        job 1 ana/web running
          update 1 to 9 rolling, changing 2
          1-0-1 starting on 1 [], version 3
          1-1-1 starting on 1 [], version 2
          1-2-1 pending (new), not before 0 s
        m1 up [1-0-1 1-1-1] takes 1 core, 128 MiB, ports [], 4 free
        m2 up [] takes 0 cores, 0 B, ports [], 4 free
    "#]]);
}

#[test]
fn crashes_make_a_machine_or_a_task_suspect() {
    session(&expect![[r#"
        > submit ana/a 1 failures=9 delay=0
        SUBMIT job 1 (new)
        SUBMIT 1-0-1 (new)
        job 1
        > submit ana/b 1 failures=9 delay=0
        SUBMIT job 2 (new)
        SUBMIT 2-0-1 (new)
        job 2
        > submit ben/c 1 failures=9 delay=0
        SUBMIT job 3 (new)
        SUBMIT 3-0-1 (new)
        job 3
        > add m3 m3:1
        ADD machine 3
        machine 3
        > describe m3
        UPDATE machine 3 to 1 core, 1 GiB
        > assign 1-0-1 m1; 2-0-1 m1; 3-0-1 m1
        SCHEDULE job 1 on 1
        SCHEDULE 1-0-1 on 1
        SCHEDULE job 2 on 1
        SCHEDULE 2-0-1 on 1
        SCHEDULE job 3 on 1
        SCHEDULE 3-0-1 on 1
        accepted
        accepted
        accepted
        > ended 1-0-1 exit 1
        FAIL 1-0-1 (exit code 1)
        SUBMIT 1-0-2 (failed, will be retried)
        > ended 2-0-1 exit 2
        FAIL 2-0-1 (exit code 2)
        SUBMIT 2-0-2 (failed, will be retried)
        > ended 3-0-1 signal 11
        FAIL 3-0-1 (signal 11)
        SUBMIT 3-0-2 (failed, will be retried)
        SUSPECT machine 1
        > at 1
        > assign 2-0-2 m2
        SCHEDULE 2-0-2 on 2
        accepted
        > ended 2-0-2 oom on m2
        FAIL 2-0-2 (out of memory: it used 65 MiB of its limit of 64 MiB)
        SUBMIT 2-0-3 (failed, will be retried)
        > assign 1-0-2 m2
        SCHEDULE 1-0-2 on 2
        accepted
        > ended 1-0-2 exit 1 on m2
        FAIL 1-0-2 (exit code 1)
        SUBMIT 1-0-3 (failed, will be retried)
        > at 2
        > assign 1-0-3 m3
        refused: task 1/0 waits for its next retry
        > ended 1-0-3 exit 1 on m3
        refused: 1-0-3: FAIL is not allowed from pending; allowed: QUEUE, SCHEDULE, FAIL, KILL, LOST, UPDATE_PENDING
    "#]]);
}

#[test]
fn a_machine_is_suspect_where_jobs_of_several_users_crash() {
    session(&expect![[r#"
        > submit ana/a 1 failures=9
        SUBMIT job 1 (new)
        SUBMIT 1-0-1 (new)
        job 1
        > submit ana/b 1 failures=9
        SUBMIT job 2 (new)
        SUBMIT 2-0-1 (new)
        job 2
        > submit ana/c 1 failures=9
        SUBMIT job 3 (new)
        SUBMIT 3-0-1 (new)
        job 3
        > submit ben/d 1 failures=9
        SUBMIT job 4 (new)
        SUBMIT 4-0-1 (new)
        job 4
        > assign 1-0-1 m1; 2-0-1 m1; 3-0-1 m1; 4-0-1 m1
        SCHEDULE job 1 on 1
        SCHEDULE 1-0-1 on 1
        SCHEDULE job 2 on 1
        SCHEDULE 2-0-1 on 1
        SCHEDULE job 3 on 1
        SCHEDULE 3-0-1 on 1
        SCHEDULE job 4 on 1
        SCHEDULE 4-0-1 on 1
        accepted
        accepted
        accepted
        accepted
        > ended 1-0-1 exit 1
        FAIL 1-0-1 (exit code 1)
        SUBMIT 1-0-2 (failed, will be retried)
        > ended 2-0-1 exit 1
        FAIL 2-0-1 (exit code 1)
        SUBMIT 2-0-2 (failed, will be retried)
        > ended 3-0-1 exit 1
        FAIL 3-0-1 (exit code 1)
        SUBMIT 3-0-2 (failed, will be retried)
        > ended 4-0-1 exit 1
        FAIL 4-0-1 (exit code 1)
        SUBMIT 4-0-2 (failed, will be retried)
        SUSPECT machine 1
    "#]]);
}

#[test]
fn the_level_only_rises_and_only_as_far_as_this_build() {
    session(&expect![[r#"
        > level 0
        (nothing)
        > level 1
        (nothing)
        > level 2
        (nothing)
        > level 1000001
        (nothing)
        > level 1000000
        LEVEL 1000000
        > level 1
        (nothing)
        > level 1000001
        (nothing)
    "#]]);
}
