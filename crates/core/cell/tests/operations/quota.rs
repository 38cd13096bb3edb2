//! Quota: what is granted, charged, rejected and released; and the end of a grant stops growth and
//! nothing else.

use expect_test::expect;

use crate::script::session;

#[test]
fn a_job_beyond_its_quota_is_refused_with_shortage_and_suggestion() {
    session(&expect![[r#"
        > metered
        METER_QUOTA on
        > metered
        (nothing)
        > grant ana production cpu=1000 ram=512
        GRANT_QUOTA 1: ana production 1 core and 512 MiB from 0 s by root
        grant 1
        > grant ana 110 cpu=2000 ram=1024
        GRANT_QUOTA 2: ana best-effort-batch 2 cores and 1 GiB from 0 s by root
        grant 2
        > submit ana/web 1 cpu=500 ram=256
        SUBMIT job 1 (new)
        SUBMIT 1-0-1 (new)
        job 1
        > submit ana/api 4 cpu=200 ram=64
        refused: ana's production quota is 0.3 cores short: api requests 0.8 cores, with 0.5 cores of 1 core left; what would be admitted: 2 of its 4 tasks, best-effort-batch(110), or free(25), which is never charged; ask for more: bourg quota grant ana production cpu=0.3 (an administrator or a user with the capability grant-quota may)
        > submit ana/api 4 cpu=200 ram=64 big=1:600
        refused: ana's production quota is 0.7 cores short: api requests 1.2 cores, with 0.5 cores of 1 core left; what would be admitted: 1 of its 4 tasks, best-effort-batch(110), or free(25), which is never charged; ask for more: bourg quota grant ana production cpu=0.7 (an administrator or a user with the capability grant-quota may)
        > submit ana/api 2 cpu=600 ram=64
        refused: ana's production quota is 0.7 cores short: api requests 1.2 cores, with 0.5 cores of 1 core left; what would be admitted: best-effort-batch(110), or free(25), which is never charged; ask for more: bourg quota grant ana production cpu=0.7 (an administrator or a user with the capability grant-quota may)
        > submit bob/api 2 cpu=200
        refused: bob has no production quota: api requests 0.4 cores and 128 MiB; what would be admitted: free(25), which is never charged; ask for more: bourg quota grant bob production cpu=0.4 ram=128MiB (an administrator or a user with the capability grant-quota may)
        > submit ana/api 4 cpu=200 ram=4096
        refused: ana's production quota is 0.3 cores and 15.7 GiB short: api requests 0.8 cores and 16 GiB, with 0.5 cores and 256 MiB of 1 core and 512 MiB left; what would be admitted: free(25), which is never charged; ask for more: bourg quota grant ana production cpu=0.3 ram=16128MiB (an administrator or a user with the capability grant-quota may)
        > submit ana/api 4 cpu=200 priority=360
        refused: ana has no monitoring quota: api requests 0.8 cores and 256 MiB; what would be admitted: best-effort-batch(110), or free(25), which is never charged; ask for more: bourg quota grant ana monitoring cpu=0.8 ram=256MiB (an administrator or a user with the capability grant-quota may)
        > charges
        ana production 0.5 cores and 256 MiB of 1 core and 512 MiB
        1: ana production 1 core and 512 MiB from 0 s by root
        2: ana best-effort-batch 2 cores and 1 GiB from 0 s by root
        > submit ana/api 2 cpu=200 ram=64
        SUBMIT job 2 (new)
        SUBMIT 2-0-1 (new)
        SUBMIT 2-1-1 (new)
        job 2
        > submit ana/batch 4 cpu=200 ram=64 priority=best-effort-batch
        SUBMIT job 3 (new)
        SUBMIT 3-0-1 (new)
        SUBMIT 3-1-1 (new)
        SUBMIT 3-2-1 (new)
        SUBMIT 3-3-1 (new)
        job 3
        > submit ana/free 9 cpu=9000 ram=6400 priority=free
        SUBMIT job 4 (new)
        SUBMIT 4-0-1 (new)
        SUBMIT 4-1-1 (new)
        SUBMIT 4-2-1 (new)
        SUBMIT 4-3-1 (new)
        SUBMIT 4-4-1 (new)
        SUBMIT 4-5-1 (new)
        SUBMIT 4-6-1 (new)
        SUBMIT 4-7-1 (new)
        SUBMIT 4-8-1 (new)
        job 4
        > charges
        ana best-effort-batch 0.8 cores and 256 MiB of 2 cores and 1 GiB
        ana production 0.9 cores and 384 MiB of 1 core and 512 MiB
        1: ana production 1 core and 512 MiB from 0 s by root
        2: ana best-effort-batch 2 cores and 1 GiB from 0 s by root
    "#]]);
}

#[test]
fn updates_are_charged_by_difference_and_deaths_refund_task_by_task() {
    session(&expect![[r#"
        > meter on
        METER_QUOTA on
        done
        > grant ana production cpu=1000 ram=512
        GRANT_QUOTA 1: ana production 1 core and 512 MiB from 0 s by root
        grant 1
        > submit ana/web 2 cpu=200 ram=64 failures=0
        SUBMIT job 1 (new)
        SUBMIT 1-0-1 (new)
        SUBMIT 1-1-1 (new)
        job 1
        > submit ana/web 2 cpu=600 ram=64 failures=0
        refused: ana's production quota is 0.2 cores short: web requests 1.2 cores instead of 0.4 cores, with 1 core of 1 core left; what would be admitted: free(25), which is never charged; ask for more: bourg quota grant ana production cpu=0.2 (an administrator or a user with the capability grant-quota may)
        > submit ana/web 2 cpu=500 ram=64 failures=0
        UPDATE_OPEN job 1
        UPDATE_PENDING job 1
        UPDATE_PENDING 1-0-1
        UPDATE_PENDING 1-1-1
        job 1, updated
        > charges
        ana production 1 core and 128 MiB of 1 core and 512 MiB
        1: ana production 1 core and 512 MiB from 0 s by root
        > kill ana/web/0
        KILL 1-0-1 (by ana)
        killed 1
        > charges
        ana production 0.5 cores and 64 MiB of 1 core and 512 MiB
        1: ana production 1 core and 512 MiB from 0 s by root
        > submit ana/web 2 cpu=900 ram=64 failures=0
        refused: ana's production quota is 0.8 cores short: web requests 1.8 cores instead of 0.5 cores, with 1 core of 1 core left; what would be admitted: free(25), which is never charged; ask for more: bourg quota grant ana production cpu=0.8 (an administrator or a user with the capability grant-quota may)
        > kill ana/web/1
        KILL 1-1-1 (by ana)
        KILL job 1 (by ana)
        killed 1
        > charges
        1: ana production 1 core and 512 MiB from 0 s by root
        > forget 1
        (nothing)
        > charges
        1: ana production 1 core and 512 MiB from 0 s by root
        > submit ana/web 1 cpu=1000 ram=64 priority=free
        SUBMIT job 2 (new)
        SUBMIT 2-0-1 (new)
        job 2
        > submit ana/web 1 cpu=1001 ram=64
        refused: ana's production quota is 0.001 cores short: web requests 1.001 cores, with 1 core of 1 core left; what would be admitted: free(25), which is never charged; ask for more: bourg quota grant ana production cpu=0.001 (an administrator or a user with the capability grant-quota may)
        > submit ana/web 1 cpu=1000 ram=64
        UPDATE_OPEN job 2
        UPDATE_PENDING job 2
        UPDATE_PENDING 2-0-1
        job 2, updated
        > submit ana/web 1 cpu=1000 ram=64 priority=mid
        refused: ana has no mid quota: web requests 1 core and 64 MiB; what would be admitted: production(200), or free(25), which is never charged; ask for more: bourg quota grant ana mid cpu=1 ram=64MiB (an administrator or a user with the capability grant-quota may)
        > submit ana/web 1 cpu=1000 ram=64 priority=free
        UPDATE_OPEN job 2
        UPDATE_PENDING job 2
        UPDATE_PENDING 2-0-1
        job 2, updated
        > charges
        1: ana production 1 core and 512 MiB from 0 s by root
    "#]]);
}

#[test]
fn a_grant_that_ends_kills_nothing_and_stops_growth() {
    session(&expect![[r#"
        > meter on
        METER_QUOTA on
        done
        > at 10
        > grant ana production cpu=600 ram=512 until=100
        GRANT_QUOTA 1: ana production 0.6 cores and 512 MiB from 10 s until 100 s by root
        grant 1
        > grant ana production cpu=200 ram=512 from=50 until=200
        GRANT_QUOTA 2: ana production 0.2 cores and 512 MiB from 50 s until 200 s by root
        grant 2
        > submit ana/web 1 cpu=700
        refused: ana's production quota is 0.1 cores short: web requests 0.7 cores, with 0.6 cores of 0.6 cores left; what would be admitted: free(25), which is never charged; ask for more: bourg quota grant ana production cpu=0.1 (an administrator or a user with the capability grant-quota may)
        > at 50
        > submit ana/web 1 cpu=700
        SUBMIT job 1 (new)
        SUBMIT 1-0-1 (new)
        job 1
        > at 99
        > submit ana/web 1 cpu=800
        UPDATE_OPEN job 1
        UPDATE_PENDING job 1
        UPDATE_PENDING 1-0-1
        job 1, updated
        > at 100
        > submit ana/web 1 cpu=801
        refused: ana's production quota is 0.601 cores short: web requests 0.801 cores instead of 0.8 cores, with 0.2 cores of 0.2 cores left; what would be admitted: free(25), which is never charged; ask for more: bourg quota grant ana production cpu=0.601 (an administrator or a user with the capability grant-quota may)
        > submit ana/web 1 cpu=750
        UPDATE_OPEN job 1
        UPDATE_PENDING job 1
        UPDATE_PENDING 1-0-1
        job 1, updated
        > submit ana/web 1 cpu=750 ram=100
        UPDATE_OPEN job 1
        UPDATE_PENDING job 1
        UPDATE_PENDING 1-0-1
        job 1, updated
        > submit ana/web 1 cpu=750 ram=1000
        refused: ana's production quota is 488 MiB short: web requests 1000 MiB instead of 100 MiB, with 512 MiB of 512 MiB left; what would be admitted: free(25), which is never charged; ask for more: bourg quota grant ana production ram=488MiB (an administrator or a user with the capability grant-quota may)
        > submit ana/other 1
        refused: ana's production quota is 0.65 cores short: other requests 0.1 cores, with nothing of 0.2 cores left; what would be admitted: free(25), which is never charged; ask for more: bourg quota grant ana production cpu=0.65 (an administrator or a user with the capability grant-quota may)
        > charges
        ana production 0.75 cores and 100 MiB of 0.2 cores and 512 MiB
        1: ana production 0.6 cores and 512 MiB from 10 s until 100 s by root
        2: ana production 0.2 cores and 512 MiB from 50 s until 200 s by root
        > at 2592200
        > grant ana production cpu=100
        GRANT_QUOTA 3: ana production 0.1 cores from 2592200 s by root
        grant 3
        > charges
        ana production 0.75 cores and 100 MiB of 0.1 cores
        2: ana production 0.2 cores and 512 MiB from 50 s until 200 s by root
        3: ana production 0.1 cores from 2592200 s by root
        > at 2592201
        > grant ana production cpu=100
        GRANT_QUOTA 4: ana production 0.1 cores from 2592201 s by root
        grant 4
        > charges
        ana production 0.75 cores and 100 MiB of 0.2 cores
        3: ana production 0.1 cores from 2592200 s by root
        4: ana production 0.1 cores from 2592201 s by root
    "#]]);
}

#[test]
fn production_and_monitoring_together_are_within_the_capacity_at_every_moment() {
    session(&expect![[r#"
        > grant ana production cpu=1500 until=100
        GRANT_QUOTA 1: ana production 1.5 cores from 0 s until 100 s by root
        grant 1
        > grant bob monitoring cpu=600
        refused: production and monitoring quota together may not exceed the cell's capacity (2 cores and 2 GiB): asked: 0.6 cores; left for the whole of that time: 0.5 cores and 2 GiB; grant less, revoke a grant (bourg quota show), or add machines
        > grant bob monitoring cpu=600 from=100
        GRANT_QUOTA 2: bob monitoring 0.6 cores from 100 s by root
        grant 2
        > grant bob production cpu=500 until=200
        GRANT_QUOTA 3: bob production 0.5 cores from 0 s until 200 s by root
        grant 3
        > grant cid production cpu=1000 from=100
        refused: production and monitoring quota together may not exceed the cell's capacity (2 cores and 2 GiB): asked: 1 core; left for the whole of that time: 0.9 cores and 2 GiB; grant less, revoke a grant (bourg quota show), or add machines
        > grant cid production cpu=900 from=200 ram=4096
        refused: production and monitoring quota together may not exceed the cell's capacity (2 cores and 2 GiB): asked: 0.9 cores and 4 GiB; left for the whole of that time: 1.4 cores and 2 GiB; grant less, revoke a grant (bourg quota show), or add machines
        > grant cid production cpu=900 from=200
        GRANT_QUOTA 4: cid production 0.9 cores from 200 s by root
        grant 4
        > drain m2
        DRAIN machine 2 ()
        0 leave
        > grant dan production ram=2048
        GRANT_QUOTA 5: dan production 2 GiB from 0 s by root
        grant 5
        > remove m2
        REMOVE machine 2
        done
        > grant eve production cpu=1
        refused: production and monitoring quota together may not exceed the cell's capacity (1 core and 1 GiB): asked: 0.001 cores; left for the whole of that time: nothing; grant less, revoke a grant (bourg quota show), or add machines
        > grant eve production disk=1
        refused: production and monitoring quota together may not exceed the cell's capacity (1 core and 1 GiB): asked: 1 MiB of disk; left for the whole of that time: nothing; grant less, revoke a grant (bourg quota show), or add machines
        > charges
        1: ana production 1.5 cores from 0 s until 100 s by root
        2: bob monitoring 0.6 cores from 100 s by root
        3: bob production 0.5 cores from 0 s until 200 s by root
        4: cid production 0.9 cores from 200 s by root
        5: dan production 2 GiB from 0 s by root
    "#]]);
}

#[test]
fn only_the_lower_bands_are_oversold_up_to_the_set_percentage() {
    session(&expect![[r#"
        > grant ana best-effort-batch cpu=8001
        refused: best-effort-batch quota may be 400 % of the cell's capacity (2 cores and 2 GiB): asked: 8.001 cores; left for the whole of that time: 8 cores and 8 GiB; grant less, revoke a grant (bourg quota show), or oversell it further (bourg quota oversell best-effort-batch PERCENT)
        > grant ana best-effort-batch cpu=8000
        GRANT_QUOTA 1: ana best-effort-batch 8 cores from 0 s by root
        grant 1
        > grant ana mid cpu=4001
        refused: mid quota may be 200 % of the cell's capacity (2 cores and 2 GiB): asked: 4.001 cores; left for the whole of that time: 4 cores and 4 GiB; grant less, revoke a grant (bourg quota show), or oversell it further (bourg quota oversell mid PERCENT)
        > grant ana mid cpu=4000
        GRANT_QUOTA 2: ana mid 4 cores from 0 s by root
        grant 2
        > oversell mid 201
        OVERSELL mid 201 %
        done
        > oversell mid 201
        done
        > grant ana mid cpu=20
        GRANT_QUOTA 3: ana mid 0.02 cores from 0 s by root
        grant 3
        > oversell production 200
        refused: production and monitoring are never oversold
        > oversell free 200
        refused: the free band is never charged and needs no grants
        > oversell mid 0
        refused: a band can be granted up to 1 to 10000 % of the capacity, not 0 %
        > oversell mid 10001
        refused: a band can be granted up to 1 to 10000 % of the capacity, not 10001 %
        > oversell mid 50
        OVERSELL mid 50 %
        done
        > grant ana mid cpu=1
        refused: mid quota may be 50 % of the cell's capacity (2 cores and 2 GiB): asked: 0.001 cores; left for the whole of that time: 1 GiB; grant less, revoke a grant (bourg quota show), or oversell it further (bourg quota oversell mid PERCENT)
        > grant ana free cpu=1
        refused: the free band is never charged and needs no grants
    "#]]);
}

#[test]
fn only_a_successful_grant_forgets_grants_that_ended_30_days_ago() {
    session(&expect![[r#"
        > grant ana production cpu=1000 until=100
        GRANT_QUOTA 1: ana production 1 core from 0 s until 100 s by root
        grant 1
        > grant ana mid cpu=100 until=2592200
        GRANT_QUOTA 2: ana mid 0.1 cores from 0 s until 2592200 s by root
        grant 2
        > at 2592101
        > grant ana production cpu=2001
        refused: production and monitoring quota together may not exceed the cell's capacity (2 cores and 2 GiB): asked: 2.001 cores; left for the whole of that time: 2 cores and 2 GiB; grant less, revoke a grant (bourg quota show), or add machines
        > grant ana production
        refused: a grant needs an amount, such as cpu=2 ram=4GiB
        > charges
        1: ana production 1 core from 0 s until 100 s by root
        2: ana mid 0.1 cores from 0 s until 2592200 s by root
        > grant ana production cpu=2000 from=5
        GRANT_QUOTA 3: ana production 2 cores from 5 s by root
        grant 3
        > charges
        2: ana mid 0.1 cores from 0 s until 2592200 s by root
        3: ana production 2 cores from 5 s by root
    "#]]);
}

#[test]
fn grants_of_a_user_are_bounded_and_long_ended_ones_make_room() {
    session(&expect![[r#"
        > open root
        session 2
        > request 2#1-999 as root grant ana production cpu=1 until=100
        GRANT_QUOTA 999: ana production 0.001 cores from 0 s until 100 s by root
        grant 999
        > grant ana mid cpu=1 until=101
        GRANT_QUOTA 1000: ana mid 0.001 cores from 0 s until 101 s by root
        grant 1000
        > grant ana production cpu=1
        refused: the cell has 1000 grants of ana, and the maximum is 1000
        > grant ben production cpu=1
        GRANT_QUOTA 1001: ben production 0.001 cores from 0 s by root
        grant 1001
        > at 2592100
        > grant ana production cpu=1
        refused: the cell has 1000 grants of ana, and the maximum is 1000
        > at 2592101
        > grant ana production cpu=1
        GRANT_QUOTA 1002: ana production 0.001 cores from 2592101 s by root
        grant 1002
        > charges
        1000: ana mid 0.001 cores from 0 s until 101 s by root
        1001: ben production 0.001 cores from 0 s by root
        1002: ana production 0.001 cores from 2592101 s by root
    "#]]);
}

#[test]
fn invalid_and_unpermitted_grants_are_refused() {
    session(&expect![[r#"
        > as ana grant ana production cpu=100
        refused: ana may not grant quota to ana: an administrator or a user with the capability grant-quota may
        > as ana oversell mid 300
        refused: ana may not oversell mid: an administrator or a user with the capability grant-quota may
        > as ana meter off
        refused: ana may not switch quota metering: an administrator or a user with the capability grant-quota may
        > as ana revoke 1
        refused: ana may not revoke grant 1: an administrator or a user with the capability grant-quota may
        > allow-to ana grant-quota
        GRANT_CAPABILITY ana grant-quota
        done
        > as ana grant ana production cpu=100
        USE_CAPABILITY the cell grant-quota
        GRANT_QUOTA 1: ana production 0.1 cores from 0 s by ana
        grant 1
        > as ana oversell mid 300
        USE_CAPABILITY the cell grant-quota
        OVERSELL mid 300 %
        done
        > as ana meter on
        USE_CAPABILITY the cell grant-quota
        METER_QUOTA on
        done
        > as ana revoke 2
        refused: there is no grant 2: look for it with bourg quota show
        > as ana revoke 1
        USE_CAPABILITY the cell grant-quota
        REVOKE_QUOTA 1: ana production 0.1 cores from 0 s by ana
        done
        > revoke 1
        refused: there is no grant 1: look for it with bourg quota show
        > at 100
        > grant ana production
        refused: a grant needs an amount, such as cpu=2 ram=4GiB
        > grant ana production cpu=1 until=100
        refused: a grant must end after it begins
        > grant ana production cpu=1 from=5 until=50
        refused: the end of the grant is in the past
        > grant ana production cpu=1 from=300 until=200
        refused: a grant must end after it begins
        > grant ana production cpu=1 from=300 until=300
        refused: a grant must end after it begins
        > grant ana production cpu=18446744073709551615
        refused: a grant can be at most 1099511627.776 cores of CPU
        > grant ana production cpu=1 until=253402300800
        refused: a grant must end by the end of the year 9999
        > grant ana production cpu=1 from=5
        GRANT_QUOTA 2: ana production 0.001 cores from 5 s by root
        grant 2
        > charges
        2: ana production 0.001 cores from 5 s by root
    "#]]);
}

#[test]
fn a_kill_or_drain_without_ownership_needs_a_capability() {
    session(&expect![[r#"
        > submit ana/web 1 cpu=100
        SUBMIT job 1 (new)
        SUBMIT 1-0-1 (new)
        job 1
        > charges
        ana production 0.1 cores and 64 MiB of nothing
        > as bob kill ana/web
        refused: bob may not kill ana/web: ana, an administrator or a user with the capability administer-jobs may
        > as bob drain m1
        refused: bob may not drain machine m1: an administrator or a user with the capability drain-machines may
        > as root kill ana/web
        USE_CAPABILITY job 1 administer-jobs
        KILL 1-0-1 (by root)
        KILL job 1 (by root)
        killed 1
    "#]]);
}

#[test]
fn a_capability_covers_property_of_others_and_its_use_is_an_event() {
    session(&expect![[r#"
        > as ana allow-to bob administer-jobs
        refused: ana may not grant administer-jobs to bob: an administrator may
        > submit ana/web 2
        SUBMIT job 1 (new)
        SUBMIT 1-0-1 (new)
        SUBMIT 1-1-1 (new)
        job 1
        > as bob kill ana/web/0
        refused: bob may not kill ana/web: ana, an administrator or a user with the capability administer-jobs may
        > allow-to bob administer-jobs
        GRANT_CAPABILITY bob administer-jobs
        done
        > allow-to bob administer-jobs
        done
        > as bob kill ana/web/0
        USE_CAPABILITY job 1 administer-jobs
        KILL 1-0-1 (by bob)
        killed 1
        > as bob kill ana/web/0
        killed 0
        > as root kill ana/web/1
        USE_CAPABILITY job 1 administer-jobs
        KILL 1-1-1 (by root)
        KILL job 1 (by root)
        killed 1
        > as bob use administer-jobs 1
        USE_CAPABILITY job 1 administer-jobs
        done
        > as bob use exec-tasks 1
        refused: bob may not use exec-tasks on ana/web: an administrator or a user with the capability exec-tasks may
        > as ana use exec-tasks 1
        done
        > as bob use administer-jobs 99
        refused: there is no job 99
        > submit bob/own 1
        SUBMIT job 2 (new)
        SUBMIT 2-0-1 (new)
        job 2
        > as bob kill bob/own
        KILL 2-0-1 (by bob)
        KILL job 2 (by bob)
        killed 1
        > as bob drain m1
        refused: bob may not drain machine m1: an administrator or a user with the capability drain-machines may
        > allow-to bob drain-machines
        GRANT_CAPABILITY bob drain-machines
        done
        > as bob drain m1 broken fan
        DRAIN machine 1 (broken fan)
        USE_CAPABILITY machine 1 drain-machines
        0 leave
        > as bob undrain m1
        UNDRAIN machine 1
        USE_CAPABILITY machine 1 drain-machines
        done
        > as bob remove m1
        refused: bob may not remove machine m1: an administrator may
        > as bob forbid bob drain-machines
        refused: bob may not take drain-machines from bob: an administrator may
        > forbid bob drain-machines
        REVOKE_CAPABILITY bob drain-machines
        done
        > forbid bob drain-machines
        done
        > as bob drain m1
        refused: bob may not drain machine m1: an administrator or a user with the capability drain-machines may
        > as root drain m1
        DRAIN machine 1 ()
        0 leave
    "#]]);
}

#[test]
fn unestimated_jobs_and_kernel_features_take_their_capability_anew_each_time() {
    session(&expect![[r#"
        > submit ana/web 1 estimation=no
        refused: ana may not submit a job with estimation: false: an administrator or a user with the capability no-estimation may
        > submit ana/raw 1 kernel=net-raw,perfmon
        refused: ana may not submit a job with kernelFeatures: an administrator or a user with the capability kernel-features may
        > allow-to ana no-estimation
        GRANT_CAPABILITY ana no-estimation
        done
        > allow-to ana kernel-features
        GRANT_CAPABILITY ana kernel-features
        done
        > submit ana/web 1 estimation=no
        SUBMIT job 1 (new)
        SUBMIT 1-0-1 (new)
        USE_CAPABILITY job 1 no-estimation
        job 1
        > submit ana/raw 1 kernel=net-raw,perfmon
        SUBMIT job 2 (new)
        SUBMIT 2-0-1 (new)
        USE_CAPABILITY job 2 kernel-features
        job 2
        > submit ana/raw 1 kernel=net-raw
        UPDATE_OPEN job 2
        UPDATE_PENDING job 2
        USE_CAPABILITY job 2 kernel-features
        UPDATE_PENDING 2-0-1
        job 2, updated
        > forbid ana no-estimation
        REVOKE_CAPABILITY ana no-estimation
        done
        > submit ana/web 1 estimation=no
        job 1, unchanged
        > submit ana/web 1 estimation=no cpu=101
        refused: ana may not submit a job with estimation: false: an administrator or a user with the capability no-estimation may
        > submit ana/web 1 cpu=101
        UPDATE_OPEN job 1
        UPDATE_PENDING job 1
        UPDATE_PENDING 1-0-1
        job 1, updated
        > submit root/own 1 estimation=no
        SUBMIT job 3 (new)
        SUBMIT 3-0-1 (new)
        job 3
    "#]]);
}

#[test]
fn commands_inside_tasks_are_recorded_for_who_may_run_them() {
    session(&expect![[r#"
        > submit ana/web 2
        SUBMIT job 1 (new)
        SUBMIT 1-0-1 (new)
        SUBMIT 1-1-1 (new)
        job 1
        > as ana exec 1-0-1 ls -l
        EXEC 1-0-1 'ls -l'
        done
        > as bob exec 1-0-1 ls
        refused: bob may not run commands in tasks of ana/web: ana, an administrator or a user with the capability exec-tasks may
        > allow-to bob exec-tasks
        GRANT_CAPABILITY bob exec-tasks
        done
        > as bob exec 1-1-1 ls
        EXEC 1-1-1 'ls'
        done
        > as bob exec 1-1-2 ls
        refused: ana/web/1 has just ended or been restarted: try again
        > as bob exec 1-7-1 ls
        refused: ana/web/7 has just ended or been restarted: try again
        > as bob exec 9-0-1 ls
        refused: there is no job 9
        > forbid bob exec-tasks
        REVOKE_CAPABILITY bob exec-tasks
        done
        > as bob exec-ended 1-1-1 2 137 ls
        EXEC_END 1-1-1 'ls' 137 after 2 s
        done
        > as ana exec-ended 1-0-1 3 - ls -l
        EXEC_END 1-0-1 'ls -l' - after 3 s
        done
    "#]]);
}
