//! Lock sessions, locks and small files.

use expect_test::expect;

use crate::script::session;

#[test]
fn an_exclusive_lock_has_one_holder() {
    session(&expect![[r#"
        > at 10
        > as ana lock-session
        lock session 1
        > as ana lock-session lease=60
        lock session 2
        > as ana lock /ana/leader 1
        LOCK /ana/leader exclusive 10 by ana, session 1
        generation 10
        > as ana lock /ana/leader 1
        generation 10
        > as ana lock /ana/leader 2
        refused: the lock of /ana/leader is held by ana (exclusive, session 1)
        > as ana lock /ana/leader 2 shared
        refused: the lock of /ana/leader is held by ana (exclusive, session 1)
        > as ana lock /ana/leader 1 shared
        refused: session 1 holds the lock of /ana/leader exclusive already: release it first
        > show locks
        /ana/leader locked exclusive: session 1 (10)
        session 1 of ana until 22 s
        session 2 of ana until 70 s
        > as ana unlock /ana/leader 2
        refused: session 2 does not hold the lock of /ana/leader
        > as ana unlock /ana/leader 1
        UNLOCK /ana/leader exclusive 10 by ana, session 1
        done
        > show locks
        session 1 of ana until 22 s
        session 2 of ana until 70 s
        > as ana lock /ana/leader 2
        LOCK /ana/leader exclusive 17 by ana, session 2
        generation 17
        > as ana unlock /ana/leader 1
        refused: session 1 does not hold the lock of /ana/leader
        > as ana close-lock 2
        UNLOCK /ana/leader exclusive 17 by ana, session 2
        done
        > show locks
        session 1 of ana until 22 s
    "#]]);
}

#[test]
fn a_shared_lock_has_several_and_is_free_after_the_last() {
    session(&expect![[r#"
        > as ana lock-session
        lock session 1
        > as ana lock-session
        lock session 2
        > as ana lock /ana/l 1 shared
        LOCK /ana/l shared 10 by ana, session 1
        generation 10
        > as ana lock /ana/l 2 shared
        LOCK /ana/l shared 11 by ana, session 2
        generation 11
        > as ana lock-session
        lock session 3
        > as ana lock /ana/l 3
        refused: the lock of /ana/l is held by ana (shared, session 1)
        > as ana unlock /ana/l 1
        UNLOCK /ana/l shared 10 by ana, session 1
        done
        > show locks
        /ana/l locked shared: session 2 (11)
        session 1 of ana until 12 s
        session 2 of ana until 12 s
        session 3 of ana until 12 s
        > is-current /ana/l:shared:10
        no
        > is-current /ana/l:shared:11
        yes
        > as ana unlock /ana/l 2
        UNLOCK /ana/l shared 11 by ana, session 2
        done
        > as ana lock /ana/l 3
        LOCK /ana/l exclusive 16 by ana, session 3
        generation 16
        > show locks
        /ana/l locked exclusive: session 3 (16)
        session 1 of ana until 12 s
        session 2 of ana until 12 s
        session 3 of ana until 12 s
    "#]]);
}

#[test]
fn a_session_whose_lease_has_passed_loses_its_locks_and_ephemeral_files() {
    session(&expect![[r#"
        > at 100
        > as ana lock-session
        lock session 1
        > as ana lock-session lease=30
        lock session 2
        > as ana lock /ana/leader 1
        LOCK /ana/leader exclusive 10 by ana, session 1
        generation 10
        > as ana write /ana/members/1 here session=1
        generation 11
        > as ana write /ana/members/2 here session=2
        generation 12
        > as ana write /ana/stays here
        generation 13
        > as ana lock /ana/members/2 1
        LOCK /ana/members/2 exclusive 14 by ana, session 1
        generation 14
        > at 110
        > as ana renew-lock 1
        done
        > at 121
        > expire-locks 1 2
        (nothing)
        > show locks
        /ana/leader locked exclusive: session 1 (10)
        /ana/members/1 here (11) with session 1
        /ana/members/2 here (12) with session 2 locked exclusive: session 1 (14)
        /ana/stays here (13)
        session 1 of ana until 122 s
        session 2 of ana until 130 s
        > at 122
        > expire-locks 1 2 7
        LOCK_EXPIRED /ana/leader exclusive 10 by ana, session 1
        LOCK_EXPIRED /ana/members/2 exclusive 14 by ana, session 1
        > show locks
        /ana/members/2 here (12) with session 2
        /ana/stays here (13)
        session 2 of ana until 130 s
        > as ana renew-lock 1
        refused: lock session 1 is lost: its lease has passed, or it was closed; its locks are released
        > as ana lock /ana/leader 1
        refused: lock session 1 is lost: its lease has passed, or it was closed; its locks are released
        > as ana write /ana/members/1 back session=1
        refused: lock session 1 is lost: its lease has passed, or it was closed; its locks are released
    "#]]);
}

#[test]
fn the_late_write_of_a_holder_that_lost_the_lock_is_rejected() {
    session(&expect![[r#"
        > at 100
        > as ana lock-session
        lock session 1
        > as ana lock-session lease=60
        lock session 2
        > as ana lock /ana/leader 1
        LOCK /ana/leader exclusive 10 by ana, session 1
        generation 10
        > as ana write /ana/data one if=/ana/leader:exclusive:10
        generation 11
        > at 112
        > expire-locks 1
        LOCK_EXPIRED /ana/leader exclusive 10 by ana, session 1
        > as ana write /ana/data between if=/ana/leader:exclusive:10
        refused: sequencer /ana/leader:exclusive:10 is not valid any more: that holder has lost the lock
        > as ana lock /ana/leader 2
        LOCK /ana/leader exclusive 14 by ana, session 2
        generation 14
        > as ana write /ana/data two if=/ana/leader:exclusive:14
        generation 15
        > as ana write /ana/data late if=/ana/leader:exclusive:10
        refused: sequencer /ana/leader:exclusive:10 is not valid any more: that holder has lost the lock
        > as ana delete /ana/data if=/ana/leader:exclusive:10
        refused: sequencer /ana/leader:exclusive:10 is not valid any more: that holder has lost the lock
        > as ana write /ana/data wrong if=/ana/leader:shared:14
        refused: sequencer /ana/leader:shared:14 is not valid any more: that holder has lost the lock
        > show locks
        /ana/data two (15)
        /ana/leader locked exclusive: session 2 (14)
        session 2 of ana until 160 s
    "#]]);
}

#[test]
fn a_write_can_expect_a_generation_which_never_goes_back() {
    session(&expect![[r#"
        > as ana write /ana/a one expected=0
        generation 8
        > as ana write /ana/a two expected=0
        refused: /ana/a has generation 8, not 0: it has changed meanwhile (bourg lock show /ana/a)
        > as ana write /ana/a two expected=8
        generation 10
        > as ana delete /ana/a expected=8
        refused: /ana/a has generation 10, not 8: it has changed meanwhile (bourg lock show /ana/a)
        > as ana delete /ana/a expected=10
        done
        > as ana delete /ana/a
        refused: there is no file /ana/a
        > as ana write /ana/a three expected=10
        refused: /ana/a has generation 0, not 10: it has changed meanwhile (bourg lock show /ana/a)
        > as ana write /ana/a three expected=0
        generation 15
        > show locks
        /ana/a three (15)
    "#]]);
}

#[test]
fn a_bare_lock_file_has_no_content_and_content_is_deleted_alone() {
    session(&expect![[r#"
        > as ana lock-session
        lock session 1
        > as ana lock /ana/a 1
        LOCK /ana/a exclusive 9 by ana, session 1
        generation 9
        > as ana delete /ana/a
        refused: there is no file /ana/a
        > as ana write /ana/a text
        generation 11
        > as ana delete /ana/a
        done
        > show locks
        /ana/a locked exclusive: session 1 (9)
        session 1 of ana until 12 s
        > as ana unlock /ana/a 1
        UNLOCK /ana/a exclusive 9 by ana, session 1
        done
        > show locks
        session 1 of ana until 12 s
    "#]]);
}

#[test]
fn paths_and_sessions_are_their_users_own() {
    session(&expect![[r#"
        > as ana lock-session
        lock session 1
        > as bob lock-session
        lock session 2
        > as bob write /ana/a text
        refused: bob may not use /ana/a: ana or an administrator may
        > as bob write /bob/a text if=/ana/l:exclusive:1
        refused: bob may not use /ana/l: ana or an administrator may
        > as bob lock /ana/a 2
        refused: bob may not use /ana/a: ana or an administrator may
        > as bob lock /bob/a 1
        refused: bob may not use lock session 1: ana may
        > as bob renew-lock 1
        refused: bob may not use lock session 1: ana may
        > as bob close-lock 1
        refused: bob may not use lock session 1: ana may
        > as bob write /bob/a text session=1
        refused: bob may not use lock session 1: ana may
        > write /ana/a text
        generation 18
        > renew-lock 1
        refused: root may not use lock session 1: ana may
        > show locks
        /ana/a text (18)
        session 1 of ana until 12 s
        session 2 of bob until 12 s
    "#]]);
}

#[test]
fn leases_are_bounded() {
    session(&expect![[r#"
        > as ana lock-session lease=4
        refused: the lease of a lock session is 5 s to 1 m, not 4 s
        > as ana lock-session lease=61
        refused: the lease of a lock session is 5 s to 1 m, not 1 m 1 s
        > as ana lock-session lease=5
        lock session 1
        > as ana lock-session lease=60
        lock session 2
    "#]]);
}
