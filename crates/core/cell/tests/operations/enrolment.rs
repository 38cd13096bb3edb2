//! Machines join with tokens, renew their certificates, and are revoked.

use cell::{Actor, Cell, IssueToken, Mutation, Op, Outcome, Rejection, Reply, RequestId};
use expect_test::expect;
use model::{CellName, KeyDigest, MachineId, MachineName, Serial, SessionId, Span, Time};

use crate::script::{session, user};

#[test]
fn a_machine_joins_with_a_token() {
    session(&expect![[r#"
        > at 100
        > token m3 7
        ISSUE_TOKEN m3 07 until 3700 s
        token 07 until 3700 s
        > show credentials
        token 07 for m3 at 100 s by root until 3700 s
        > at 200
        > enrol 7 1 m3:1 8
        ADD machine 3
        ENROL machine 3 with 07: 08 until 3800 s
        machine 3, certificate 08 until 3800 s
        > show credentials
        token 07 for m3 at 100 s by root until 3700 s, used by 1 for 08 until 3800 s
        m3: 08 until 3800 s
        > trusts m3 8
        yes
        > describe m3
        UPDATE machine 3 to 1 core, 1 GiB
        > submit ana/web 1
        SUBMIT job 1 (new)
        SUBMIT 1-0-1 (new)
        job 1
        > assign 1-0-1 m3
        SCHEDULE job 1 on 3
        SCHEDULE 1-0-1 on 3
        accepted
    "#]]);
}

#[test]
fn a_token_for_many_machines_admits_new_ones_until_it_is_spent() {
    session(&expect![[r#"
        > tokens 2 rack 7
        ISSUE_TOKEN 2 of rack 07 until 3600 s
        token 07 until 3600 s
        > enrol-as rack-1 7 1 r1:1 21
        ADD machine 3
        ENROL machine 3 with 07: 15 until 3600 s
        machine 3, certificate 15 until 3600 s
        > enrol-as rack-1 7 1 r1:1 22
        machine 3, certificate 15 until 3600 s
        > enrol-as rack-1 7 2 r9:1 23
        refused: the join token for machine rack-1 was already used with another key: if that was not you, have the machine revoked (bourg machine revoke rack-1); ask an administrator for another token (bourg machine token rack-1)
        > enrol 7 3 r2:1 24
        refused: the join token is for machines whose names begin with rack: give the name of this one with --name
        > enrol-as rock-2 7 3 r2:1 24
        refused: the join token is for rack, or for machines whose names begin with it, not for rock-2: give the machine's name with --name
        > enrol-as rack 7 3 r2:1 24
        refused: the join token is for machines whose names begin with rack: give the name of this one with --name
        > add rack-9 r9:1
        ADD machine 4
        machine 4
        > enrol-as rack-9 7 3 r9:1 24
        refused: there is a machine rack-9, or its name is revoked, and this join token is for new machines: ask an administrator for a token of its own (bourg machine token rack-9)
        > enrol-as rack-2 7 3 r2:1 24
        ADD machine 5
        ENROL machine 5 with 07: 18 until 3600 s
        machine 5, certificate 18 until 3600 s
        > enrol-as rack-3 7 4 r3:1 25
        refused: the join token for machines rack* has admitted 2 machines, as many as it may: ask an administrator for another (bourg machine token rack --uses NUMBER)
        > remove rack-1
        REMOVE machine 3
        done
        > enrol-as rack-3 7 4 r3:1 25
        refused: the join token for machines rack* has admitted 2 machines, as many as it may: ask an administrator for another (bourg machine token rack --uses NUMBER)
        > enrol-as rack-1 7 1 r1:1 26
        refused: there is a machine rack-1, or its name is revoked, and this join token is for new machines: ask an administrator for a token of its own (bourg machine token rack-1)
        > enrol-as rack-1 7 5 r1:1 26
        refused: the join token for machine rack-1 was already used with another key: if that was not you, have the machine revoked (bourg machine revoke rack-1); ask an administrator for another token (bourg machine token rack-1)
        > show credentials
        token 07 for rack at 0 s by root until 3600 s, at most 2: rack-1 rack-2
        rack-2: 18 until 3600 s
        > revoke-machine rack
        REVOKE_MACHINE the cell (rack)
        revoked
        > show credentials
        rack-2: 18 until 3600 s
        > enrol-as rack-2 7 3 r2:1 24
        refused: join token 07 is unknown: it has expired, or the machine or replica it was issued for was revoked or removed; ask an administrator for another (bourg machine token NAME, bourg master token REPLICA)
        > tokens 0 rack 8
        refused: a join token admits 1 to 1000 machines, not 0
        > tokens 1001 rack 8
        refused: a join token admits 1 to 1000 machines, not 1001
    "#]]);
}

#[test]
fn a_token_is_the_keys_that_used_it_first() {
    session(&expect![[r#"
        > token m3 7
        ISSUE_TOKEN m3 07 until 3600 s
        token 07 until 3600 s
        > enrol 7 1 m3:1 8
        ADD machine 3
        ENROL machine 3 with 07: 08 until 3600 s
        machine 3, certificate 08 until 3600 s
        > at 100
        > enrol 7 1 m3:1 8
        machine 3, certificate 08 until 3600 s
        > enrol 7 1 m3:1 9 for=60
        machine 3, certificate 08 until 3600 s
        > enrol 7 2 m3:1 9
        refused: the join token for machine m3 was already used with another key: if that was not you, have the machine revoked (bourg machine revoke m3); ask an administrator for another token (bourg machine token m3)
        > enrol 7 2 m3:2 8
        refused: the join token for machine m3 was already used with another key: if that was not you, have the machine revoked (bourg machine revoke m3); ask an administrator for another token (bourg machine token m3)
        > enrol 7 1 m3:2 8
        ADD machine 3
        machine 3, certificate 08 until 3600 s
        > enrol 7 1 m1:1 8
        refused: machine m1 already has that address
        > show credentials
        token 07 for m3 at 0 s by root until 3600 s, used by 1 for 08 until 3600 s
        m3: 08 until 3600 s
    "#]]);
}

#[test]
fn a_replicas_process_joins_with_a_token_once() {
    session(&expect![[r#"
        > add-replica h2:1
        REPLICA_DESCRIBED 1 at '' level 1
        REPLICA_ADDED 2 at h2:1
        replica 2
        > replica-token 2 7
        ISSUE_TOKEN replica 2 07 until 3600 s
        token 07 until 3600 s
        > join 2 8 1
        refused: join token 08 is unknown: it has expired, or the machine or replica it was issued for was revoked or removed; ask an administrator for another (bourg machine token NAME, bourg master token REPLICA)
        > join 3 7 1
        refused: join token 07 is unknown: it has expired, or the machine or replica it was issued for was revoked or removed; ask an administrator for another (bourg machine token NAME, bourg master token REPLICA)
        > join 2 7 1
        REPLICA_JOINED 2 with 07
        done
        > join 2 7 1
        done
        > join 2 7 2
        refused: the join token for replica 2 was already used with another key: if that was not you, whoever used it has the cell's authority; remove the replica (bourg master remove 2) and add another (bourg master add)
        > show replicas
        1 voter at '' level 1
        2 waiting at 'h2:1' level 0, token 07 used by 1
        voters 1; learners; last id 2
        > replica-token 2 9
        refused: replica 2 has joined already: where its directory is lost, remove it (bourg master remove 2) and add another (bourg master add)
        > add-replica h3:1
        REPLICA_ADDED 3 at h3:1
        replica 3
        > as bob replica-token 3 4
        refused: bob may not issue a join token for replica 3: an administrator may
        > replica-token 3 4 for=59
        refused: a join token can be valid for 1 m to 7 d, not for 59 s
        > replica-token 3 4 for=60
        ISSUE_TOKEN replica 3 04 until 60 s
        token 04 until 60 s
        > replica-token 3 5 for=60
        ISSUE_TOKEN replica 3 05 until 60 s
        token 05 until 60 s
        > join 3 4 1
        refused: join token 04 is unknown: it has expired, or the machine or replica it was issued for was revoked or removed; ask an administrator for another (bourg machine token NAME, bourg master token REPLICA)
        > at 60
        > join 3 5 1
        refused: join token 05 is unknown: it has expired, or the machine or replica it was issued for was revoked or removed; ask an administrator for another (bourg machine token NAME, bourg master token REPLICA)
        > replica-token 3 6
        ISSUE_TOKEN replica 3 06 until 3660 s
        token 06 until 3660 s
        > replica 3 has 3
        REPLICA_DESCRIBED 3 at 'h3:1' level 3
        > replica-token 3 8
        refused: replica 3 has joined already: where its directory is lost, remove it (bourg master remove 3) and add another (bourg master add)
        > remove-replica 3
        REPLICA_REMOVED 3
        done
        > join 3 6 1
        refused: join token 06 is unknown: it has expired, or the machine or replica it was issued for was revoked or removed; ask an administrator for another (bourg machine token NAME, bourg master token REPLICA)
        > replica-token 9 6
        refused: there is no replica 9: look for it with bourg master list
    "#]]);
}

#[test]
fn a_token_that_is_unknown_or_has_expired_lets_nobody_join() {
    session(&expect![[r#"
        > enrol 7 1 m3:1 8
        refused: join token 07 is unknown: it has expired, or the machine or replica it was issued for was revoked or removed; ask an administrator for another (bourg machine token NAME, bourg master token REPLICA)
        > token m3 7 for=60
        ISSUE_TOKEN m3 07 until 60 s
        token 07 until 60 s
        > token m4 6 for=61
        ISSUE_TOKEN m4 06 until 61 s
        token 06 until 61 s
        > token m5 5 for=600
        ISSUE_TOKEN m5 05 until 600 s
        token 05 until 600 s
        > enrol 6 1 m4:1 8
        ADD machine 3
        ENROL machine 3 with 06: 08 until 3600 s
        machine 3, certificate 08 until 3600 s
        > at 60
        > enrol 7 1 m3:1 9
        refused: the join token for machine m3 has expired: ask an administrator for another (bourg machine token m3)
        > show credentials
        token 05 for m5 at 0 s by root until 600 s
        token 06 for m4 at 0 s by root until 61 s, used by 1 for 08 until 3600 s
        token 07 for m3 at 0 s by root until 60 s
        m4: 08 until 3600 s
        > token m3 4
        ISSUE_TOKEN m3 04 until 3660 s
        token 04 until 3660 s
        > show credentials
        token 04 for m3 at 60 s by root until 3660 s
        token 05 for m5 at 0 s by root until 600 s
        token 06 for m4 at 0 s by root until 61 s, used by 1 for 08 until 3600 s
        m4: 08 until 3600 s
        > enrol 7 1 m3:1 9
        refused: join token 07 is unknown: it has expired, or the machine or replica it was issued for was revoked or removed; ask an administrator for another (bourg machine token NAME, bourg master token REPLICA)
        > at 61
        > enrol 6 1 m4:1 8
        refused: the join token for machine m4 has expired: ask an administrator for another (bourg machine token m4)
        > enrol 5 1 m5:1 3
        ADD machine 4
        ENROL machine 4 with 05: 03 until 3661 s
        machine 4, certificate 03 until 3661 s
        > show credentials
        token 04 for m3 at 60 s by root until 3660 s
        token 05 for m5 at 0 s by root until 600 s, used by 1 for 03 until 3661 s
        m4: 08 until 3600 s
        m5: 03 until 3661 s
    "#]]);
}

#[test]
fn a_machine_that_is_there_gets_its_new_address_and_another_certificate() {
    session(&expect![[r#"
        > token m2 7
        ISSUE_TOKEN m2 07 until 3600 s
        token 07 until 3600 s
        > enrol 7 1 m1:1 8
        refused: machine m1 already has that address
        > enrol 7 1 m2:9 8
        ADD machine 2
        ENROL machine 2 with 07: 08 until 3600 s
        machine 2, certificate 08 until 3600 s
        > trusts m2 3
        yes
        > token m2 6
        ISSUE_TOKEN m2 06 until 3600 s
        token 06 until 3600 s
        > enrol 6 2 m2:9 9
        ENROL machine 2 with 06: 09 until 3600 s
        machine 2, certificate 09 until 3600 s
        > show credentials
        token 06 for m2 at 0 s by root until 3600 s, used by 2 for 09 until 3600 s
        token 07 for m2 at 0 s by root until 3600 s, used by 1 for 08 until 3600 s
        m2: 08 until 3600 s 09 until 3600 s
        > show
        0 s
        m1 up [] takes 0 cores, 0 B, ports [], 4 free
        m2 up [] takes 0 cores, 0 B, ports [], 4 free
    "#]]);
}

#[test]
fn a_manually_added_machine_is_trusted_until_it_is_revoked() {
    session(&expect![[r#"
        > trusts m1 3
        yes
        > at 100
        > token m1 7
        ISSUE_TOKEN m1 07 until 3700 s
        token 07 until 3700 s
        > revoke-machine m1
        REVOKE_MACHINE machine 1 (m1)
        revoked
        > trusts m1 3
        no
        > trusts m2 3
        yes
        > enrol 7 1 m1:1 8
        refused: join token 07 is unknown: it has expired, or the machine or replica it was issued for was revoked or removed; ask an administrator for another (bourg machine token NAME, bourg master token REPLICA)
        > renew m1 3 9
        refused: the certificates of machine m1 are revoked: ask an administrator for a join token (bourg machine token m1)
        > show credentials
        m1 revoked at 100 s by root:
        > show
        100 s
        m1 up [] takes 0 cores, 0 B, ports [], 4 free
        m2 up [] takes 0 cores, 0 B, ports [], 4 free
        > at 200
        > token m1 6
        ISSUE_TOKEN m1 06 until 3800 s
        token 06 until 3800 s
        > enrol 6 1 m1:1 8
        ENROL machine 1 with 06: 08 until 3800 s
        machine 1, certificate 08 until 3800 s
        > trusts m1 8
        yes
        > trusts m1 3
        no
        > trusts m1 7
        no
        > show credentials
        token 06 for m1 at 200 s by root until 3800 s, used by 1 for 08 until 3800 s
        m1 revoked at 100 s by root: 08 until 3800 s
        > revoke-machine m1
        REVOKE_MACHINE machine 1 (m1)
        revoked
        > trusts m1 8
        no
        > enrol 6 1 m1:1 8
        refused: join token 06 is unknown: it has expired, or the machine or replica it was issued for was revoked or removed; ask an administrator for another (bourg machine token NAME, bourg master token REPLICA)
        > show credentials
        m1 revoked at 200 s by root:
    "#]]);
}

#[test]
fn a_revocation_outlives_the_machine_and_its_tokens_do_not() {
    session(&expect![[r#"
        > token m1 6
        ISSUE_TOKEN m1 06 until 3600 s
        token 06 until 3600 s
        > remove m1
        REMOVE machine 1
        done
        > enrol 6 1 m1:1 8
        refused: join token 06 is unknown: it has expired, or the machine or replica it was issued for was revoked or removed; ask an administrator for another (bourg machine token NAME, bourg master token REPLICA)
        > add m1 m1:1
        ADD machine 3
        machine 3
        > trusts m1 3
        yes
        > revoke-machine m1
        REVOKE_MACHINE machine 3 (m1)
        revoked
        > token m1 7
        ISSUE_TOKEN m1 07 until 3600 s
        token 07 until 3600 s
        > enrol 7 1 m1:1 8
        ENROL machine 3 with 07: 08 until 3600 s
        machine 3, certificate 08 until 3600 s
        > remove m1
        REMOVE machine 3
        done
        > show credentials
        gone: m1 revoked at 0 s by root: 08 until 3600 s
        > trusts m1 8
        yes
        > trusts m1 3
        no
        > enrol 7 1 m1:1 8
        refused: join token 07 is unknown: it has expired, or the machine or replica it was issued for was revoked or removed; ask an administrator for another (bourg machine token NAME, bourg master token REPLICA)
        > add m1 m1:1
        ADD machine 4
        machine 4
        > show credentials
        m1 revoked at 0 s by root: 08 until 3600 s
        > trusts m1 8
        yes
        > trusts m1 3
        no
        > remove m1
        REMOVE machine 4
        done
        > token m1 5
        ISSUE_TOKEN m1 05 until 3600 s
        token 05 until 3600 s
        > enrol 5 2 m1:1 9
        ADD machine 5
        ENROL machine 5 with 05: 09 until 3600 s
        machine 5, certificate 09 until 3600 s
        > trusts m1 3
        no
        > trusts m1 9
        yes
        > show credentials
        token 05 for m1 at 0 s by root until 3600 s, used by 2 for 09 until 3600 s
        m1 revoked at 0 s by root: 08 until 3600 s 09 until 3600 s
    "#]]);
}

#[test]
fn a_name_that_no_machine_has_can_be_revoked() {
    session(&expect![[r#"
        > revoke-machine m9
        REVOKE_MACHINE the cell (m9)
        revoked, and nothing was known of it
        > trusts m9 3
        no
        > revoke-machine m9
        REVOKE_MACHINE the cell (m9)
        revoked
        > token m8 7
        ISSUE_TOKEN m8 07 until 3600 s
        token 07 until 3600 s
        > revoke-machine m8
        REVOKE_MACHINE the cell (m8)
        revoked
        > show credentials
        gone: m8 revoked at 0 s by root:
        gone: m9 revoked at 0 s by root:
        > add m9 m9:1
        ADD machine 3
        machine 3
        > trusts m9 3
        no
        > show credentials
        m9 revoked at 0 s by root:
        gone: m8 revoked at 0 s by root:
    "#]]);
}

#[test]
fn a_certificate_is_renewed_before_it_expires() {
    session(&expect![[r#"
        > renew m9 1 2
        refused: there is no machine m9
        > renew m1 1 2
        RENEW machine 1 02 until 3600 s
        certificate 02 until 3600 s
        > at 100
        > renew m1 1 2 for=60
        certificate 02 until 3600 s
        > renew m1 2 3 for=0
        refused: a certificate can be valid for 1 m to 366 d, not for 0 s
        > renew m1 2 3
        RENEW machine 1 03 until 3700 s
        certificate 03 until 3700 s
        > show credentials
        m1: 02 until 3600 s 03 until 3700 s
        > at 3600
        > renew m1 3 2
        RENEW machine 1 02 until 7200 s
        certificate 02 until 7200 s
        > show credentials
        m1: 03 until 3700 s 02 until 7200 s
        > revoke-machine m1
        REVOKE_MACHINE machine 1 (m1)
        revoked
        > renew m1 3 4
        refused: the certificates of machine m1 are revoked: ask an administrator for a join token (bourg machine token m1)
    "#]]);
}

#[test]
fn the_oldest_surplus_certificate_is_dropped_never_the_one_in_use() {
    session(&expect![[r#"
        > revoke-machine m1
        REVOKE_MACHINE machine 1 (m1)
        revoked
        > token m1 50
        ISSUE_TOKEN m1 32 until 3600 s
        token 32 until 3600 s
        > enrol 50 1 m1:1 1
        ENROL machine 1 with 32: 01 until 3600 s
        machine 1, certificate 01 until 3600 s
        > renew m1 1 2
        RENEW machine 1 02 until 3600 s
        certificate 02 until 3600 s
        > renew m1 1 3
        RENEW machine 1 03 until 3600 s
        certificate 03 until 3600 s
        > renew m1 1 4
        RENEW machine 1 04 until 3600 s
        certificate 04 until 3600 s
        > renew m1 1 5
        RENEW machine 1 05 until 3600 s
        certificate 05 until 3600 s
        > renew m1 1 6
        RENEW machine 1 06 until 3600 s
        certificate 06 until 3600 s
        > renew m1 1 7
        RENEW machine 1 07 until 3600 s
        certificate 07 until 3600 s
        > renew m1 1 8
        RENEW machine 1 08 until 3600 s
        certificate 08 until 3600 s
        > renew m1 1 9
        RENEW machine 1 09 until 3600 s
        certificate 09 until 3600 s
        > show credentials
        token 32 for m1 at 0 s by root until 3600 s, used by 1 for 01 until 3600 s
        m1 revoked at 0 s by root: 01 until 3600 s 03 until 3600 s 04 until 3600 s 05 until 3600 s 06 until 3600 s 07 until 3600 s 08 until 3600 s 09 until 3600 s
        > trusts m1 1
        yes
        > renew m1 3 10
        RENEW machine 1 0a until 3600 s
        certificate 0a until 3600 s
        > trusts m1 1
        no
        > trusts m1 2
        no
        > trusts m1 3
        yes
    "#]]);
}

#[test]
fn only_administrators_issue_and_revoke_and_within_bounds() {
    session(&expect![[r#"
        > as ana token m3 7
        refused: ana may not issue a join token for machine m3: an administrator may
        > as ana revoke-machine m1
        refused: ana may not revoke machine m1: an administrator may
        > token m3 7 for=59
        refused: a join token can be valid for 1 m to 7 d, not for 59 s
        > token m3 7 for=604801
        refused: a join token can be valid for 1 m to 7 d, not for 7 d
        > token m3 7 for=604800
        ISSUE_TOKEN m3 07 until 604800 s
        token 07 until 604800 s
        > token m3 7
        refused: there is a join token with the number 07: make another
        > token m4 7
        refused: there is a join token with the number 07: make another
        > enrol 7 1 m3:1 8 for=0
        refused: a certificate can be valid for 1 m to 366 d, not for 0 s
        > enrol 7 1 m3:1 8 for=34560000
        refused: a certificate can be valid for 1 m to 366 d, not for 400 d
        > enrol 7 1 m3:1 8 for=31622400
        ADD machine 3
        ENROL machine 3 with 07: 08 until 31622400 s
        machine 3, certificate 08 until 31622400 s
        > at 604800
        > token m4 7
        ISSUE_TOKEN m4 07 until 608400 s
        token 07 until 608400 s
        > show credentials
        token 07 for m4 at 604800 s by root until 608400 s
        m3: 08 until 31622400 s
    "#]]);
}

#[test]
fn a_machine_cannot_join_a_cell_before_bootstrap() {
    session(&expect![[r#"
        > empty
        > enrol 7 1 m3:1 8
        refused: the cell is not bootstrapped yet
        > renew m1 1 2
        refused: the cell is not bootstrapped yet
    "#]]);
}

fn name(text: &str) -> MachineName {
    MachineName::new(text).expect("a machine's name")
}

fn serial(number: u64) -> Serial {
    Serial::from_bytes(&number.to_be_bytes()).expect("short enough")
}

fn bootstrapped() -> Cell {
    let mut cell = Cell::empty();
    let name = CellName::new("cc").expect("a name");
    cell.apply(Time::ZERO, &Op::Bootstrap { name, administrator: user("root") });
    cell.apply(Time::ZERO, &Op::OpenSession { user: user("root") });
    cell
}

fn issue(cell: &mut Cell, at: u64, number: u64) -> Outcome {
    let id = RequestId { session: SessionId(1), sequence: cell.index().0 };
    let (machine, serial) = (name("m1"), serial(number));
    let validity = Span::from_secs(60);
    let mutation = Mutation::IssueToken(IssueToken { machine, serial, validity, most: None });
    cell.apply(Time(at * 1_000_000), &Op::Request { id, by: user("root"), mutation }).outcome
}

fn enrol(number: u64) -> Op {
    let (token, certificate) = (serial(number), serial(9));
    let (key, validity) = (KeyDigest([1; KeyDigest::BYTES]), Span::from_secs(600));
    Op::Enrol { token, key, machine: None, address: "m1:1".to_owned(), certificate, validity }
}

/// Enrolments and renewals have the machine as their actor if the cell knows it.
#[test]
fn enrolments_and_renewals_have_the_machine_as_actor() {
    let mut cell = bootstrapped();
    issue(&mut cell, 0, 7);
    assert_eq!(cell.apply(Time::ZERO, &enrol(6)).by, Actor::Master);
    assert_eq!(cell.apply(Time::ZERO, &enrol(7)).by, Actor::Machine(MachineId(1)));
    let renew = |machine: &str| Op::RenewMachine {
        machine: name(machine),
        old: serial(9),
        certificate: serial(10),
        validity: Span::from_secs(600),
    };
    assert_eq!(cell.apply(Time::ZERO, &renew("m1")).by, Actor::Machine(MachineId(1)));
    assert_eq!(cell.apply(Time::ZERO, &renew("m2")).by, Actor::Master);
}

#[test]
fn tokens_are_bounded_and_those_that_have_expired_make_room() {
    let mut cell = bootstrapped();
    let refused = |what: &Outcome| {
        matches!(what, Outcome::Request(Err(Rejection::Full { has: 10_000, most: 10_000, .. })))
    };
    // Half of them expire a second before the others.
    for number in 0..10_000 {
        let issued = issue(&mut cell, number / 5_000, number);
        assert!(matches!(issued, Outcome::Request(Ok(Reply::TokenIssued(_)))), "{issued:?}");
    }
    assert!(refused(&issue(&mut cell, 59, 10_000)));
    assert_eq!(cell.tokens().count(), 10_000);
    assert!(!refused(&issue(&mut cell, 60, 10_001)));
    assert_eq!((cell.tokens().count(), cell.check()), (5_001, vec![]));
}

/// A token used in the lost period cannot be told from an unused one.
#[test]
fn a_restored_cell_has_no_tokens() {
    let mut cell = bootstrapped();
    issue(&mut cell, 0, 7);
    let mut restored = cell.restored();
    assert_eq!((restored.tokens().count(), restored.check()), (0, vec![]));
    let refused = Outcome::Request(Err(Rejection::NoSuchToken(serial(7))));
    assert_eq!(restored.apply(Time::ZERO, &enrol(7)).outcome, refused);
}
