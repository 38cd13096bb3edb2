//! Autoscaling: limits that an autoscaler sets, and what its user's description says.

use expect_test::expect;

use crate::script::session;

#[test]
fn limits_change_in_place_within_bounds_and_by_who_may() {
    session(&expect![[r#"
        > submit ana/web 2 cpu=400 ram=256 autoscale=100:32-400:512
        SUBMIT job 1 (new)
        SUBMIT 1-0-1 (new)
        SUBMIT 1-1-1 (new)
        job 1
        > assign 1-0-1 m1 ; 1-1-1 m2
        SCHEDULE job 1 on 1
        SCHEDULE 1-0-1 on 1
        SCHEDULE 1-1-1 on 2
        accepted
        accepted
        > started 1-0-1
        START 1-0-1 on 1
        > started 1-1-1
        START 1-1-1 on 2
        > as eva limits ana/web 200 128
        refused: eva may not set the limits of ana/web: ana, an administrator or a user with the capability autoscale may
        > allow-to eva autoscale
        GRANT_CAPABILITY eva autoscale
        done
        > as eva limits ana/web 200 513
        refused: the limit 0.2 cores, 513 MiB is out of the bounds of ana/web: constrained to 0.1 cores, 32 MiB … 0.4 cores, 512 MiB
        > as eva limits ana/web 99 128
        refused: the limit 0.099 cores, 128 MiB is out of the bounds of ana/web: constrained to 0.1 cores, 32 MiB … 0.4 cores, 512 MiB
        > as eva limits ana/web 200 128 expected=7
        refused: ana/web has changed meanwhile, from version 7 to 1: ; look at it (bourg update status ana/web) and decide again
        > as eva limits ana/web 200 128 expected=1 "ram 256 MiB → 128 MiB: percentile of 12 windows"
        AUTOSCALE job 1
        UPDATE_OPEN job 1
        UPDATE_RUNNING job 1
        USE_CAPABILITY job 1 autoscale
        version 2
        > show
        0 s
        job 1 ana/web running
          update 1 to 2 rolling
          1-0-1 healthy on 1 [], version 1
          1-1-1 healthy on 2 [], version 1
        m1 up [1-0-1] takes 0.4 cores, 256 MiB, ports [], 4 free
        m2 up [1-1-1] takes 0.4 cores, 256 MiB, ports [], 4 free
        > step 1 2 change=0 change=1
        UPDATE_RUNNING 1-0-1
        UPDATE_RUNNING 1-1-1
        > show
        0 s
        job 1 ana/web running
          update 1 to 2 rolling, changing 0 1
          1-0-1 healthy on 1 []
          1-1-1 healthy on 2 []
        m1 up [1-0-1] takes 0.2 cores, 128 MiB, ports [], 4 free
        m2 up [1-1-1] takes 0.2 cores, 128 MiB, ports [], 4 free
        > as eva limits ana/web 200 128
        unchanged, version 2
        > at 5
        > step 1 2 passed=0 passed=1
        (nothing)
        > step 1 2 finish
        UPDATE_SUCCEED job 1
        UPDATE_CLOSE job 1
        > show
        5 s
        job 1 ana/web running
          update 1 to 2 closed
          1-0-1 healthy on 1 []
          1-1-1 healthy on 2 []
        m1 up [1-0-1] takes 0.2 cores, 128 MiB, ports [], 4 free
        m2 up [1-1-1] takes 0.2 cores, 128 MiB, ports [], 4 free
        > as ana limits ana/web 400 512 "more"
        AUTOSCALE job 1
        UPDATE_OPEN job 1
        UPDATE_RUNNING job 1
        UPDATE_RUNNING 1-0-1
        UPDATE_RUNNING 1-1-1
        version 3
        > show
        5 s
        job 1 ana/web running
          update 2 to 3 rolling, changing 0 1
          1-0-1 healthy on 1 []
          1-1-1 healthy on 2 []
        m1 up [1-0-1] takes 0.4 cores, 512 MiB, ports [], 4 free
        m2 up [1-1-1] takes 0.4 cores, 512 MiB, ports [], 4 free
    "#]]);
}

#[test]
fn a_description_overrides_autoscaled_limits_only_with_a_new_limit() {
    session(&expect![[r#"
        > submit ana/web 1 ram=256 autoscale=full
        SUBMIT job 1 (new)
        SUBMIT 1-0-1 (new)
        job 1
        > assign 1-0-1 m1
        SCHEDULE job 1 on 1
        SCHEDULE 1-0-1 on 1
        accepted
        > started 1-0-1
        START 1-0-1 on 1
        > as root limits ana/web 100 512
        AUTOSCALE job 1
        UPDATE_OPEN job 1
        UPDATE_RUNNING job 1
        USE_CAPABILITY job 1 autoscale
        UPDATE_RUNNING 1-0-1
        version 2
        > step 1 2 finish
        (nothing)
        > at 5
        > step 1 2 passed=0 finish
        UPDATE_SUCCEED job 1
        UPDATE_CLOSE job 1
        > submit ana/web 1 ram=256 autoscale=full
        job 1, unchanged
        > show
        5 s
        job 1 ana/web running
          update 1 to 2 closed
          1-0-1 healthy on 1 []
        m1 up [1-0-1] takes 0.1 cores, 512 MiB, ports [], 4 free
        m2 up [] takes 0 cores, 0 B, ports [], 4 free
        > submit ana/web 1 ram=256 autoscale=full label=tier:front close=0
        UPDATE_OPEN job 1
        UPDATE_RUNNING job 1
        UPDATE_RUNNING 1-0-1
        UPDATE_SUCCEED job 1
        UPDATE_CLOSE job 1
        job 1, updated
        > show
        5 s
        job 1 ana/web running
          update 2 to 3 closed
          1-0-1 healthy on 1 []
        m1 up [1-0-1] takes 0.1 cores, 512 MiB, ports [], 4 free
        m2 up [] takes 0 cores, 0 B, ports [], 4 free
        > at 10
        > step 1 3 passed=0 finish
        (nothing)
        > submit ana/web 1 ram=256 autoscale=100:64-200:300 close=0
        UPDATE_OPEN job 1
        UPDATE_RUNNING job 1
        job 1, updated
        > show
        10 s
        job 1 ana/web running
          update 3 to 4 rolling
          1-0-1 healthy on 1 [], version 3
        m1 up [1-0-1] takes 0.1 cores, 512 MiB, ports [], 4 free
        m2 up [] takes 0 cores, 0 B, ports [], 4 free
        > step 1 4 change=0
        UPDATE_RUNNING 1-0-1
        > at 15
        > step 1 4 passed=0 finish
        UPDATE_SUCCEED job 1
        UPDATE_CLOSE job 1
        > show
        15 s
        job 1 ana/web running
          update 3 to 4 closed
          1-0-1 healthy on 1 []
        m1 up [1-0-1] takes 0.1 cores, 300 MiB, ports [], 4 free
        m2 up [] takes 0 cores, 0 B, ports [], 4 free
        > resize ana/web 2
        UPDATE_OPEN job 1
        UPDATE_RUNNING job 1
        SUBMIT 1-1-1 (new)
        UPDATE_RUNNING 1-0-1
        version 5
        > show
        15 s
        job 1 ana/web running
          update 4 to 5 rolling, changing 1
          1-0-1 healthy on 1 []
          1-1-1 pending (new), not before 15 s
        m1 up [1-0-1] takes 0.1 cores, 300 MiB, ports [], 4 free
        m2 up [] takes 0 cores, 0 B, ports [], 4 free
        > submit ana/web 2 ram=280 autoscale=100:64-200:300 close=0
        UPDATE_OPEN job 1
        UPDATE_RUNNING job 1
        UPDATE_PENDING 1-1-1
        job 1, updated
        > submit ana/web 2 ram=256 close=0
        UPDATE_OPEN job 1
        UPDATE_RUNNING job 1
        UPDATE_PENDING 1-1-1
        job 1, updated
        > show
        15 s
        job 1 ana/web running
          update 4 to 7 rolling, changing 1
          1-0-1 healthy on 1 [], version 5
          1-1-1 pending (new), not before 15 s
        m1 up [1-0-1] takes 0.1 cores, 300 MiB, ports [], 4 free
        m2 up [] takes 0 cores, 0 B, ports [], 4 free
        > as root limits ana/web 100 512
        refused: the limits of ana/web are its user's: its description does not have autoscale
    "#]]);
}

#[test]
fn limits_wait_for_an_incomplete_update_and_only_rise_before_its_close() {
    session(&expect![[r#"
        > submit ana/web 1 ram=256 autoscale=full
        SUBMIT job 1 (new)
        SUBMIT 1-0-1 (new)
        job 1
        > assign 1-0-1 m1
        SCHEDULE job 1 on 1
        SCHEDULE 1-0-1 on 1
        accepted
        > started 1-0-1
        START 1-0-1 on 1
        > update ana/web 1 ram=256 autoscale=full cmd=new
        UPDATE_OPEN job 1
        UPDATE_RUNNING job 1
        version 2
        > as root limits ana/web 100 512
        refused: the limits of ana/web do not change now: its update to version 2 is not complete
        > control pause ana/web
        UPDATE_PAUSE job 1
        version 2
        > as root limits ana/web 100 512
        refused: the limits of ana/web do not change now: its update to version 2 is not complete
        > control resume ana/web
        UPDATE_RESUME job 1
        version 2
        > step 1 2 change=0
        UPDATE_RUNNING 1-0-1
        STOP 1-0-1 (evict, update)
        > ended 1-0-1 stopped
        EVICT 1-0-1 (update)
        SUBMIT 1-0-2 (evicted: update)
        SCHEDULE 1-0-2 on 1
        > started 1-0-2
        START 1-0-2 on 1
        > at 5
        > step 1 2 passed=0 finish
        UPDATE_SUCCEED job 1
        > show
        5 s
        job 1 ana/web running
          update 1 to 2 succeeded, 1 disrupted
          1-0-2 healthy on 1 [], last: stopped
        m1 up [1-0-2] takes 0.1 cores, 256 MiB, ports [], 4 free
        m2 up [] takes 0 cores, 0 B, ports [], 4 free
        > as root limits ana/web 100 128
        refused: the limits of ana/web do not change now: its update to version 2 is open, and until it is closed limits only rise
        > at 1805
        > as root limits ana/web 100 512
        AUTOSCALE job 1
        UPDATE_OPEN job 1
        UPDATE_RUNNING job 1
        USE_CAPABILITY job 1 autoscale
        UPDATE_RUNNING 1-0-2
        version 3
        > show
        1805 s
        job 1 ana/web running
          update 1 to 3 rolling, changing 0
          1-0-2 healthy on 1 [], last: stopped
        m1 up [1-0-2] takes 0.1 cores, 512 MiB, ports [], 4 free
        m2 up [] takes 0 cores, 0 B, ports [], 4 free
        > at 1810
        > step 1 3 passed=0 finish
        UPDATE_SUCCEED job 1
        > show
        1810 s
        job 1 ana/web running
          update 1 to 3 succeeded
          1-0-2 healthy on 1 [], last: stopped
        m1 up [1-0-2] takes 0.1 cores, 512 MiB, ports [], 4 free
        m2 up [] takes 0 cores, 0 B, ports [], 4 free
        > control undo ana/web
        UPDATE_UNDO job 1
        version 3
        > as root limits ana/web 100 512
        refused: the limits of ana/web do not change now: its update to version 3 is being undone
        > step 1 3 change=0
        UPDATE_RUNNING 1-0-2
        STOP 1-0-2 (evict, update)
        > show
        1810 s
        job 1 ana/web running
          update 1 to 3 undoing, changing 0
          1-0-2 healthy on 1 [], stopping (evict, update), last: stopped, version 3
        m1 up [1-0-2] takes 0.1 cores, 512 MiB, ports [], 4 free
        m2 up [] takes 0 cores, 0 B, ports [], 4 free
    "#]]);
}

#[test]
fn memory_that_was_too_little_comes_back_and_more_of_it_stays() {
    session(&expect![[r#"
        > submit ana/web 1 ram=256 autoscale=full failures=unlimited
        SUBMIT job 1 (new)
        SUBMIT 1-0-1 (new)
        job 1
        > assign 1-0-1 m1
        SCHEDULE job 1 on 1
        SCHEDULE 1-0-1 on 1
        accepted
        > started 1-0-1
        START 1-0-1 on 1
        > as root limits ana/web 100 64
        AUTOSCALE job 1
        UPDATE_OPEN job 1
        UPDATE_RUNNING job 1
        USE_CAPABILITY job 1 autoscale
        version 2
        > step 1 2 change=0
        UPDATE_RUNNING 1-0-1
        > ended 1-0-1 oom
        FAIL 1-0-1 (out of memory: it used 65 MiB of its limit of 64 MiB)
        SUBMIT 1-0-2 (failed, will be retried)
        > step 1 2 fail=1-0-1
        UPDATE_FAIL 1-0-1
        UPDATE_UNDO job 1
        UPDATE_PENDING 1-0-2
        > show
        0 s
        job 1 ana/web running
          update 1 to 2 undoing, changing 0
          1-0-2 pending (failed, will be retried), not before 0 s, last: out of memory: it used 65 MiB of its limit of 64 MiB
        m1 up [] takes 0 cores, 0 B, ports [], 4 free
        m2 up [] takes 0 cores, 0 B, ports [], 4 free
        > as root limits ana/web 100 200
        refused: the limits of ana/web do not change now: its update to version 2 is open, and until it is closed limits only rise
        > as root limits ana/web 100 512
        AUTOSCALE job 1
        UPDATE_OPEN job 1
        UPDATE_RUNNING job 1
        USE_CAPABILITY job 1 autoscale
        UPDATE_PENDING 1-0-2
        version 3
        > at 9
        > assign 1-0-2 m1
        SCHEDULE 1-0-2 on 1
        accepted
        > ended 1-0-2 oom
        FAIL 1-0-2 (out of memory: it used 65 MiB of its limit of 64 MiB)
        SUBMIT 1-0-3 (failed, will be retried)
        > step 1 3 fail=1-0-2
        UPDATE_FAIL 1-0-2
        UPDATE_PAUSE job 1
        > show
        9 s
        job 1 ana/web running
          update 1 to 3 paused, changing 0
          1-0-3 pending (failed, will be retried), not before 10 s, failures 1, last: out of memory: it used 65 MiB of its limit of 64 MiB
        m1 up [] takes 0 cores, 0 B, ports [], 4 free
        m2 up [] takes 0 cores, 0 B, ports [], 4 free
        > as root limits ana/web 100 900
        AUTOSCALE job 1
        UPDATE_OPEN job 1
        UPDATE_RUNNING job 1
        USE_CAPABILITY job 1 autoscale
        UPDATE_PENDING 1-0-3
        version 4
        > at 20
        > assign 1-0-3 m1
        SCHEDULE 1-0-3 on 1
        accepted
        > started 1-0-3
        START 1-0-3 on 1
        > step 1 4 passed=0 finish
        UPDATE_SUCCEED job 1
        UPDATE_CLOSE job 1
        > show
        20 s
        job 1 ana/web running
          update 1 to 4 closed
          1-0-3 healthy on 1 [], last: out of memory: it used 65 MiB of its limit of 64 MiB
        m1 up [1-0-3] takes 0.1 cores, 900 MiB, ports [], 4 free
        m2 up [] takes 0 cores, 0 B, ports [], 4 free
    "#]]);
}

#[test]
fn a_job_without_autoscaling_or_quota_keeps_its_limit() {
    session(&expect![[r#"
        > meter on
        METER_QUOTA on
        done
        > grant ana production cpu=1000 ram=512
        GRANT_QUOTA 1: ana production 1 core and 512 MiB from 0 s by root
        grant 1
        > submit ana/off 1 ram=128
        SUBMIT job 1 (new)
        SUBMIT 1-0-1 (new)
        job 1
        > as root limits ana/off 100 256
        refused: the limits of ana/off are its user's: its description does not have autoscale
        > submit ana/web 1 ram=256 autoscale=full
        SUBMIT job 2 (new)
        SUBMIT 2-0-1 (new)
        job 2
        > as root limits ana/web 100 400
        refused: ana's production quota is 16 MiB short: web requests 400 MiB instead of 256 MiB, with 384 MiB of 512 MiB left; what would be admitted: free(25), which is never charged; ask for more: bourg quota grant ana production ram=16MiB (an administrator or a user with the capability grant-quota may)
        > as root limits ana/web 100 384
        AUTOSCALE job 2
        UPDATE_OPEN job 2
        UPDATE_PENDING job 2
        USE_CAPABILITY job 2 autoscale
        UPDATE_PENDING 2-0-1
        version 2
        > charges
        ana production 0.2 cores and 512 MiB of 1 core and 512 MiB
        1: ana production 1 core and 512 MiB from 0 s by root
        > as root limits ana/web 100 8
        refused: the limit 0.1 cores, 8 MiB is out of the bounds of ana/web: full
        > as root limits ana/none 100 64
        refused: there is no job ana/none
        > submit ana/set 1 allocs=none autoscale=full
        refused: the job description is not valid: autoscale: applies to tasks only, and an alloc runs no program: leave it out
        > kill ana/web
        KILL 2-0-1 (by ana)
        KILL job 2 (by ana)
        killed 1
        > as root limits ana/web 100 128
        refused: ana/web has ended: run it again (bourg run FILE)
    "#]]);
}
