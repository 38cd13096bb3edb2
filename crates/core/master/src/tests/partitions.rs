//! Partitions, reachabilities, and what a change of leader moves: sessions of a [`Cluster`].
//!
//! [`Cluster`]: super::cluster::Cluster

use cell::AddMachine;
use expect_test::expect;

use super::cluster::session;
use super::*;

#[test]
fn a_change_of_leader_alone_polls_nobody_anew_and_loses_no_poll() {
    session(&expect![[r#"
        > cluster 3 12 1
        > for 1
        > polls
        1: m3 m7 m8 m9 m11
        2: m1 m2 m4 m5 m6
        3: m10 m12
        > for 1
        > lead 2
        > polls
        1:
        2:
        3:
        > for 1
        > polls
        1: m3 m3* m7 m7* m8 m8* m9 m9* m11 m11*
        2: m1 m1* m2 m2* m4 m4* m5 m5* m6 m6*
        3: m10 m10* m12 m12*
        > for 2
        > polls
        1: m3 m7 m8 m9 m11
        2: m1 m2 m4 m5 m6
        3: m10 m12
        > runs m1 m3 m12
        m1: 1-0-1 (term 2, index 53)
        m3: 1-2-1 (term 2, index 53)
        m12: 1-11-1 (term 2, index 53)
        > reachability
        answers: m1 m2 m3 m4 m5 m6 m7 m8 m9 m10 m11 m12
    "#]]);
}

#[test]
fn only_machines_of_a_leaving_replica_are_polled_at_once() {
    session(&expect![[r#"
        > cluster 3 12 1
        > for 1
        > polls
        1: m3 m7 m8 m9 m11
        2: m1 m2 m4 m5 m6
        3: m10 m12
        > active 1 2
        > polls
        1:
        2: m10* m12*
        3:
        > for 2
        > polls
        1: m3 m7 m8 m9 m11
        2: m1 m2 m4 m5 m6 m10 m12
        3:
        > active 1 2 3
        > polls
        1:
        2:
        3: m10* m12*
        > runs m10 m12
        m10: 1-9-1 (term 1, index 38)
        m12: 1-11-1 (term 1, index 40)
        > active
        > polls
        1:
        2:
        3:
        > for 10
        > polls
        1:
        2:
        3:
        > active 3
        > polls
        1:
        2:
        3: m1* m2* m3* m4* m5* m6* m7* m8* m9* m10* m11* m12*
    "#]]);
}

#[test]
fn contacts_are_differences_and_all_of_them_after_a_new_leader() {
    session(&expect![[r#"
        > cluster 3 6 1
        > reachability
        answers: m1 m2 m3 m4 m5 m6
        > silent m2 m3
        > for 3
        > reachability
        answers: m1 m4 m5 m6
        doubtful: m2 m3
        > lead 3
        > reachability
        answers: m1 m4 m5 m6
        doubtful: m2 m3
        > for 8
        17.1 s: unreachable m3
        17.1 s: down m3
        17.1 s: unreachable m2
        17.1 s: down m2
        > reachability
        answers: m1 m4 m5 m6
        silent: m2 m3
        > lead 1
        > reachability
        answers: m1 m4 m5 m6
        doubtful: m2 m3
        > answer m2 m3
        > for 3
        22.1 s: back m3
        22.1 s: back m2
        > reachability
        answers: m1 m2 m3 m4 m5 m6
    "#]]);
}

/// A machine whose shard changes must miss all its polls at the new one.
#[test]
fn a_machine_that_moves_begins_anew() {
    session(&expect![[r#"
        > cluster 2 6 1
        > silent m2
        > for 7
        17.1 s: unreachable m2
        17.1 s: down m2
        > reachability
        answers: m1 m3 m4 m5 m6
        silent: m2
        > active 1
        > reachability
        answers: m3
        unknown: m1 m2 m4 m5 m6
        > for 7
        > for 10
    "#]]);
}

#[test]
fn the_leader_marks_down_what_any_shard_finds_silent() {
    session(&expect![[r#"
        > cluster 3 12 2
        > silent m1 m3 m12
        > for 30
        17.1 s: unreachable m3
        17.1 s: down m3
        17.1 s: unreachable m1
        17.1 s: down m1
        17.1 s: unreachable m12
        17.1 s: down m12
        > reachability
        answers: m2 m4 m5 m6 m7 m8 m9 m10 m11
        silent: m1 m3 m12
        > answer m1-m12
        > for 5
        41.1 s: back m3
        41.1 s: back m1
        41.1 s: back m12
        > reachability
        answers: m1 m2 m3 m4 m5 m6 m7 m8 m9 m10 m11 m12
    "#]]);
}

#[test]
fn a_new_leader_goes_on_from_what_shards_have_seen() {
    session(&expect![[r#"
        > cluster 3 12 2
        > silent m1 m3 m12
        > for 6
        > lead 2
        > for 6
        17.1 s: unreachable m3
        17.1 s: unreachable m1
        17.1 s: unreachable m12
        17.2 s: down m1
        17.4 s: down m3
        17.6 s: down m12
        > reachability
        answers: m2 m4 m5 m6 m7 m8 m9 m10 m11
        silent: m1 m3 m12
    "#]]);
}

#[test]
fn machines_begin_anew_with_every_shard() {
    session(&expect![[r#"
        > cluster 3 9 4
        > for 60
        > silent m1-m4
        > for 30
        77.3 s: unreachable m3
        77.3 s: unreachable m1
        77.3 s: unreachable m2
        77.3 s: unreachable m4
        77.3 s: stop: 4 of 9 are silent
        > answer m1
        > for 3
        101.3 s: back m1
        101.3 s: allow
        > reachability
        answers: m1 m5 m6 m7 m8 m9
        doubtful: m2 m3 m4
        > for 12
        111.3 s: down m3
        111.3 s: down m2
        111.3 s: down m4
        > reachability
        answers: m1 m5 m6 m7 m8 m9
        silent: m2 m3 m4
    "#]]);
}

/// A shard that missed the message reports its machine silent again, and is told again.
#[test]
fn a_shard_that_missed_a_restart_of_machines_is_told_again() {
    session(&expect![[r#"
        > cluster 3 9 4
        > for 60
        > silent m1-m4
        > for 30
        77.3 s: unreachable m3
        77.3 s: unreachable m1
        77.3 s: unreachable m2
        77.3 s: unreachable m4
        77.3 s: stop: 4 of 9 are silent
        > answer m1
        > deaf 2
        > for 5
        101.3 s: back m1
        101.3 s: allow
        > hear 2
        > for 30
        111.3 s: down m3
        117.3 s: down m2
        117.3 s: down m4
        > reachability
        answers: m1 m5 m6 m7 m8 m9
        silent: m2 m3 m4
    "#]]);
}

/// A replica that the leader cannot hear keeps its partition, and the others serve it, too.
#[test]
fn a_replica_that_is_cut_off_does_no_harm() {
    session(&expect![[r#"
        > cluster 3 12 1
        > cut 3
        > active 1 2
        > for 10
        > polls
        1: m3x5 m7x5 m8x5 m9x5 m11x5
        2: m1x5 m2x5 m4x5 m5x5 m6x5 m10x5 m10* m12x5 m12*
        3: m10x5 m12x5
        > kill 9
        > for 3
        > runs m10
        m10: (term 1, index 54)
        > lag 3
        > kill 11
        > for 20
        > runs m12
        m12: (term 1, index 56)
        > go 3
        > heal 3
        > active 1 2 3
        > for 20
        > polls
        1: m3x22 m7x22 m8x22 m9x22 m11x22
        2: m1x22 m2x22 m4x22 m5x22 m6x22 m10x12 m10*x2 m12x12 m12*x2
        3: m10x22 m10*x3 m12x18 m12*x6
        > runs m10 m12
        m10: (term 1, index 54)
        m12: (term 1, index 56)
        > reachability
        answers: m1 m2 m3 m4 m5 m6 m7 m8 m9 m10 m11 m12
    "#]]);
}

#[test]
fn a_lost_report_of_a_replica_is_sent_again() {
    session(&expect![[r#"
        > cluster 3 12 1
        > silent m10
        > for 3
        > cut 3
        > for 12
        > heal 3
        > for 10
        31.1 s: unreachable m10
        31.1 s: down m10
        > reachability
        answers: m1 m2 m3 m4 m5 m6 m7 m8 m9 m11 m12
        silent: m10
    "#]]);
}

/// First polls of many machines are spread over time, and with them everything that follows.
#[test]
fn simultaneous_polls_of_many_machines_taken_over_are_bounded() {
    let mut world = World::new();
    for number in 2..=1_200 {
        let name = MachineName::new(&format!("m{number}")).expect("a name");
        world.request(Mutation::AddMachine(AddMachine { name, address: format!("h:{number}") }));
    }
    world.actions.clear();
    let begun = world.now;
    world.shard.serve(begun, &world.cell, None);
    world.shard.serve(begun, &world.cell, Some(everything()));
    let polls: Vec<(u64, usize)> = [0, 99, 100, 199, 200, 1_999]
        .into_iter()
        .map(|ms| {
            world.now = begun + Span::from_millis(ms);
            world.shard.tick(world.now, &world.cell, &mut world.actions);
            (ms, world.actions.drain(..).count())
        })
        .collect();
    assert_eq!(polls, [(0, 500), (99, 0), (100, 500), (199, 0), (200, 200), (1_999, 0)]);
}
