//! Autoscaling: limits that an autoscaler sets, and what its user's description says.

use expect_test::expect;

use crate::script::session;

#[test]
fn limits_change_in_place_within_bounds_and_by_who_may() {
    session(&expect![[r#"
        > submit ana/web 2 cpu=400 ram=256 autoscale=100:32-400:512
        > assign 1-0-1 m1 ; 1-1-1 m2
        > started 1-0-1
        > started 1-1-1
        > as eva limits ana/web 200 128
        > allow-to eva autoscale
        > as eva limits ana/web 200 513
        > as eva limits ana/web 99 128
        > as eva limits ana/web 200 128 expected=7
        > as eva limits ana/web 200 128 expected=1 "ram 256 MiB → 128 MiB: percentile of 12 windows"
        > show
        > step 1 2 change=0 change=1
        > show
        > as eva limits ana/web 200 128
        > at 5
        > step 1 2 passed=0 passed=1
        > step 1 2 finish
        > show
        > as ana limits ana/web 400 512 "more"
        > show
    "#]]);
}

#[test]
fn a_description_with_the_old_limit_changes_nothing_and_with_another_the_user_decides() {
    session(&expect![[r#"
        > submit ana/web 1 ram=256 autoscale=full
        > assign 1-0-1 m1
        > started 1-0-1
        > as root limits ana/web 100 512
        > step 1 2 finish
        > at 5
        > step 1 2 passed=0 finish
        > submit ana/web 1 ram=256 autoscale=full
        > show
        > submit ana/web 1 ram=256 autoscale=full label=tier:front close=0
        > show
        > at 10
        > step 1 3 passed=0 finish
        > submit ana/web 1 ram=256 autoscale=100:64-200:300 close=0
        > show
        > step 1 4 change=0
        > at 15
        > step 1 4 passed=0 finish
        > show
        > resize ana/web 2
        > show
        > submit ana/web 2 ram=280 autoscale=100:64-200:300 close=0
        > submit ana/web 2 ram=256 close=0
        > show
        > as root limits ana/web 100 512
    "#]]);
}

#[test]
fn limits_wait_for_an_update_that_is_not_complete_and_only_rise_until_it_is_closed() {
    session(&expect![[r#"
        > submit ana/web 1 ram=256 autoscale=full
        > assign 1-0-1 m1
        > started 1-0-1
        > update ana/web 1 ram=256 autoscale=full cmd=new
        > as root limits ana/web 100 512
        > control pause ana/web
        > as root limits ana/web 100 512
        > control resume ana/web
        > step 1 2 change=0
        > ended 1-0-1 stopped
        > started 1-0-2
        > at 5
        > step 1 2 passed=0 finish
        > show
        > as root limits ana/web 100 128
        > at 1805
        > as root limits ana/web 100 512
        > show
        > at 1810
        > step 1 3 passed=0 finish
        > show
        > control undo ana/web
        > as root limits ana/web 100 512
        > step 1 3 change=0
        > show
    "#]]);
}

#[test]
fn memory_that_was_too_little_comes_back_and_more_of_it_stays() {
    session(&expect![[r#"
        > submit ana/web 1 ram=256 autoscale=full failures=unlimited
        > assign 1-0-1 m1
        > started 1-0-1
        > as root limits ana/web 100 64
        > step 1 2 change=0
        > ended 1-0-1 oom
        > step 1 2 fail=1-0-1
        > show
        > as root limits ana/web 100 512
        > assign 1-0-2 m1
        > started 1-0-2
        > ended 1-0-2 oom
        > step 1 3 fail=1-0-2
        > show
        > as root limits ana/web 100 900
        > show
    "#]]);
}

#[test]
fn who_has_no_autoscaling_and_who_has_no_quota_keeps_its_limit() {
    session(&expect![[r#"
        > meter on
        > grant ana production cpu=1000 ram=512
        > submit ana/off 1 ram=128
        > as root limits ana/off 100 256
        > submit ana/web 1 ram=256 autoscale=full
        > as root limits ana/web 100 400
        > as root limits ana/web 100 384
        > charges
        > as root limits ana/web 100 8
        > as root limits ana/none 100 64
        > submit ana/set 1 allocs=none autoscale=full
        > kill ana/web
        > as root limits ana/web 100 128
    "#]]);
}
