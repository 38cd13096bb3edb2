//! Users: added with certificates, revoked, and added again.

use expect_test::expect;

use crate::script::session;

#[test]
fn a_revoked_user_is_accepted_only_with_certificates_issued_since() {
    session(&expect![[r#"
        > at 100
        > accepts ana 7
        yes
        > certify ana 7
        ADD_USER ana 07 until 7776100 s
        certificate 07 until 7776100 s
        > accepts ana 7
        yes
        > accepts ana 3
        yes
        > revoke-user ana
        REVOKE_USER ana
        revoked
        > accepts ana 7
        no
        > accepts ana 3
        no
        > accepts bob 7
        yes
        > show users
        ana added at 100 s by root revoked at 100 s by root:
        > at 200
        > certify ana 8
        ADD_USER ana 08 until 7776200 s
        certificate 08 until 7776200 s
        > accepts ana 8
        yes
        > accepts ana 7
        no
        > show users
        ana added at 100 s by root revoked at 100 s by root: 08 until 7776200 s
        > revoke-user ana
        REVOKE_USER ana
        revoked
        > accepts ana 8
        no
        > show users
        ana added at 100 s by root revoked at 200 s by root:
    "#]]);
}

#[test]
fn jobs_of_a_revoked_user_keep_running() {
    session(&expect![[r#"
        > submit ana/web 1
        SUBMIT job 1 (new)
        SUBMIT 1-0-1 (new)
        job 1
        > assign 1-0-1 m1
        SCHEDULE job 1 on 1
        SCHEDULE 1-0-1 on 1
        accepted
        > started 1-0-1
        START 1-0-1 on 1
        > revoke-user ana
        REVOKE_USER ana
        revoked
        > show
        0 s
        job 1 ana/web running
          1-0-1 healthy on 1 []
        m1 up [1-0-1] takes 0.1 cores, 64 MiB, ports [], 4 free
        m2 up [] takes 0 cores, 0 B, ports [], 4 free
    "#]]);
}

#[test]
fn only_administrators_add_and_revoke_and_none_themselves() {
    session(&expect![[r#"
        > as ana certify ana 7
        refused: ana may not add user ana: an administrator may
        > as ana revoke-user bob
        refused: ana may not revoke user bob: an administrator may
        > revoke-user root
        refused: root cannot revoke root: another administrator can
        > certify ana 7 for=59
        refused: a certificate can be valid for 1 m to 366 d, not for 59 s
        > certify ana 7 for=60
        ADD_USER ana 07 until 60 s
        certificate 07 until 60 s
        > certify ana 8 for=31622400
        ADD_USER ana 08 until 31622400 s
        certificate 08 until 31622400 s
        > certify ana 8 for=34560000
        refused: a certificate can be valid for 1 m to 366 d, not for 400 d
        > revoke-user nobody
        REVOKE_USER nobody
        revoked, and nothing was known of them
        > show users
        ana added at 0 s by root: 07 until 60 s 08 until 31622400 s
        nobody revoked at 0 s by root:
    "#]]);
}

#[test]
fn certificates_are_bounded_and_those_that_have_expired_make_room() {
    session(&expect![[r#"
        > certify ana 1 for=60
        ADD_USER ana 01 until 60 s
        certificate 01 until 60 s
        > certify ana 2
        ADD_USER ana 02 until 7776000 s
        certificate 02 until 7776000 s
        > certify ana 3
        ADD_USER ana 03 until 7776000 s
        certificate 03 until 7776000 s
        > certify ana 4
        ADD_USER ana 04 until 7776000 s
        certificate 04 until 7776000 s
        > certify ana 5
        ADD_USER ana 05 until 7776000 s
        certificate 05 until 7776000 s
        > certify ana 6
        ADD_USER ana 06 until 7776000 s
        certificate 06 until 7776000 s
        > certify ana 7
        ADD_USER ana 07 until 7776000 s
        certificate 07 until 7776000 s
        > certify ana 8
        ADD_USER ana 08 until 7776000 s
        certificate 08 until 7776000 s
        > certify ana 9
        ADD_USER ana 09 until 7776000 s
        certificate 09 until 7776000 s
        > certify ana 10
        ADD_USER ana 0a until 7776000 s
        certificate 0a until 7776000 s
        > certify ana 11
        ADD_USER ana 0b until 7776000 s
        certificate 0b until 7776000 s
        > certify ana 12
        ADD_USER ana 0c until 7776000 s
        certificate 0c until 7776000 s
        > certify ana 13
        ADD_USER ana 0d until 7776000 s
        certificate 0d until 7776000 s
        > certify ana 14
        ADD_USER ana 0e until 7776000 s
        certificate 0e until 7776000 s
        > certify ana 15
        ADD_USER ana 0f until 7776000 s
        certificate 0f until 7776000 s
        > certify ana 16
        ADD_USER ana 10 until 7776000 s
        certificate 10 until 7776000 s
        > certify ana 17
        refused: the cell has 16 certificates of ana that have not expired, and the maximum is 16
        > at 61
        > certify ana 17
        ADD_USER ana 11 until 7776061 s
        certificate 11 until 7776061 s
        > revoke-user ana
        REVOKE_USER ana
        revoked
        > certify ana 18
        ADD_USER ana 12 until 7776061 s
        certificate 12 until 7776061 s
    "#]]);
}

#[test]
fn a_repeated_request_answers_with_the_same_certificate() {
    session(&expect![[r#"
        > open root
        session 2
        > request 2#1 as root certify ana 7
        ADD_USER ana 07 until 7776000 s
        certificate 07 until 7776000 s
        > at 100
        > request 2#1 as root certify ana 9
        certificate 07 until 7776000 s
        > show users
        ana added at 0 s by root: 07 until 7776000 s
    "#]]);
}

#[test]
fn one_administrator_is_always_heard() {
    session(&expect![[r#"
        > administrators ana root
        > as ana drain m1
        DRAIN machine 1 ()
        0 leave
        > revoke-user ana
        REVOKE_USER ana
        revoked
        > as ana revoke-user root
        refused: root is the last administrator of the cell whose certificates are accepted: nobody would be left to administer it
        > certify ana 7
        ADD_USER ana 07 until 7776000 s
        certificate 07 until 7776000 s
        > as ana revoke-user root
        REVOKE_USER root
        revoked
        > as root revoke-user ana
        refused: ana is the last administrator of the cell whose certificates are accepted: nobody would be left to administer it
        > show users
        ana added at 0 s by root revoked at 0 s by root: 07 until 7776000 s
        root revoked at 0 s by ana:
    "#]]);
}

#[test]
fn an_administrator_makes_others_and_the_last_one_stays() {
    session(&expect![[r#"
        > as ana allow-to bob administer-jobs
        refused: ana may not grant administer-jobs to bob: an administrator may
        > forbid root administer-cell
        refused: root is the last administrator of the cell whose certificates are accepted: nobody would be left to administer it
        > allow-to nobody administer-cell
        GRANT_CAPABILITY nobody administer-cell
        done
        > forbid root administer-cell
        refused: root is the last administrator of the cell whose certificates are accepted: nobody would be left to administer it
        > forbid nobody administer-cell
        REVOKE_CAPABILITY nobody administer-cell
        done
        > allow-to ana administer-cell
        GRANT_CAPABILITY ana administer-cell
        done
        > allow-to ana administer-cell
        done
        > as ana allow-to bob administer-jobs
        GRANT_CAPABILITY bob administer-jobs
        done
        > certify ana 8
        ADD_USER ana 08 until 7776000 s
        certificate 08 until 7776000 s
        > as ana revoke-user root
        REVOKE_USER root
        revoked
        > as ana forbid ana administer-cell
        refused: ana is the last administrator of the cell whose certificates are accepted: nobody would be left to administer it
        > certify root 9
        ADD_USER root 09 until 7776000 s
        certificate 09 until 7776000 s
        > as ana forbid root administer-cell
        REVOKE_CAPABILITY root administer-cell
        done
        > certify bob 7
        refused: root may not add user bob: an administrator may
        > as ana certify bob 7
        ADD_USER bob 07 until 7776000 s
        certificate 07 until 7776000 s
    "#]]);
}
