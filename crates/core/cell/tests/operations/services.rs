//! Services, and the names that they share with jobs.

use cell::bounds::{SERVICES_OF_A_USER_MAX, USERS_OF_A_SERVICE_MAX};
use cell::{Cell, Op, Outcome, Rejection, RequestId, Service, SetService};
use expect_test::expect;
use model::{SessionId, UserName};
use std::collections::BTreeSet;
use std::sync::Arc;

use crate::script::session;

#[test]
fn a_service_is_set_replaced_and_deleted() {
    session(&expect![[r#"
        > service ana/web http app=web
        SET_SERVICE ana/web http app=web
        new
        > service ana/web http app=web
        was ana/web http app=web
        > service ana/web grpc app=web,!canary bob
        SET_SERVICE ana/web grpc app=web,!canary bob replaced
        was ana/web http app=web
        > service bob/web http app=web
        SET_SERVICE bob/web http app=web
        new
        > show services
        ana/web grpc app=web,!canary bob
        bob/web http app=web
        > delete-service ana/web
        DELETE_SERVICE ana/web
        done
        > delete-service ana/web
        refused: there is no service ana/web
        > show services
        bob/web http app=web
    "#]]);
}

#[test]
fn a_job_and_a_service_of_one_user_have_different_names() {
    session(&expect![[r#"
        > machine m1
        (nothing)
        > submit ana/web 1
        SUBMIT job 1 (new)
        SUBMIT 1-0-1 (new)
        job 1
        > service ana/web http app=web
        refused: ana/web is a job, and web.ana means that job in BNS and DNS: give the service another name
        > service bob/web http app=web
        SET_SERVICE bob/web http app=web
        new
        > service ana/all http app=web
        SET_SERVICE ana/all http app=web
        new
        > submit ana/all 1
        refused: ana/all is a service, and all.ana means that service in BNS and DNS: give the job another name, or delete the service (bourg service delete all)
        > submit bob/all 1
        SUBMIT job 2 (new)
        SUBMIT 2-0-1 (new)
        job 2
        > kill ana/web
        KILL 1-0-1 (by ana)
        KILL job 1 (by ana)
        killed 1
        > service ana/web http app=web
        SET_SERVICE ana/web http app=web
        new
        > submit ana/web 1
        refused: ana/web is a service, and web.ana means that service in BNS and DNS: give the job another name, or delete the service (bourg service delete web)
        > delete-service ana/web
        DELETE_SERVICE ana/web
        done
        > submit ana/web 1
        SUBMIT job 3 (new)
        SUBMIT 3-0-1 (new)
        job 3
    "#]]);
}

#[test]
fn services_are_their_owners() {
    session(&expect![[r#"
        > as bob service ana/web http app=web
        refused: bob may not set service ana/web: ana, an administrator or a user with the capability administer-jobs may
        > service ana/web http app=web
        SET_SERVICE ana/web http app=web
        new
        > as bob delete-service ana/web
        refused: bob may not delete service ana/web: ana, an administrator or a user with the capability administer-jobs may
        > as root service ana/web grpc app=web
        SET_SERVICE ana/web grpc app=web replaced
        was ana/web http app=web
        > allow-to bob administer-jobs
        GRANT_CAPABILITY bob administer-jobs
        done
        > as bob delete-service ana/web
        USE_CAPABILITY the cell administer-jobs
        DELETE_SERVICE ana/web
        done
        > show services
        (nothing)
    "#]]);
}

#[test]
fn a_service_names_labels_and_only_other_users() {
    session(&expect![[r#"
        > service ana/web http app=web ana
        refused: the jobs of ana may be behind service ana/web already: name only others
        > service ana/web http app=web bob eve
        SET_SERVICE ana/web http app=web bob eve
        new
        > show services
        ana/web http app=web bob eve
    "#]]);
}

fn name<T: std::str::FromStr<Err: std::fmt::Debug>>(text: &str) -> T {
    text.parse().expect("a name")
}

fn set(cell: &mut Cell, sequence: u64, service: Service) -> Result<(), Rejection> {
    let id = RequestId { session: SessionId(1), sequence };
    let mutation = SetService(Arc::new(service)).into();
    match cell.apply(cell.time(), &Op::Request { id, by: name("ana"), mutation }).outcome {
        Outcome::Request(answer) => answer.map(drop),
        other => panic!("no answer: {other:?}"),
    }
}

fn service(number: usize, users: BTreeSet<UserName>) -> Service {
    Service {
        owner: name("ana"),
        name: name(&format!("s{number}")),
        port: name("http"),
        labels: name("app=web"),
        users,
    }
}

#[test]
fn services_are_bounded() {
    let mut cell = Cell::empty();
    let begin = Op::Bootstrap { name: name("lab"), administrator: name("ana") };
    cell.apply(cell.time(), &begin);
    cell.apply(cell.time(), &Op::OpenSession { user: name("ana") });
    let mut sequence = 0;
    let mut refused = |service: Service| {
        sequence += 1;
        set(&mut cell, sequence, service).err().map(|rejection| diagnostics::sentence(&rejection))
    };
    let users = |count: usize| (0..count).map(|user| name(&format!("u{user}"))).collect();
    assert_eq!(refused(service(0, users(USERS_OF_A_SERVICE_MAX))), None);
    expect!["service ana/s0 has 101 other users: the maximum is 100"]
        .assert_eq(&refused(service(0, users(USERS_OF_A_SERVICE_MAX + 1))).expect("too many"));
    let none = Service { labels: Default::default(), ..service(0, BTreeSet::new()) };
    expect!["service ana/s0 has no labels: all jobs would be behind it"]
        .assert_eq(&refused(none).expect("no labels"));
    let long = format!("app={}", "x".repeat(1_100));
    let long = Service { labels: name(&long), ..service(0, BTreeSet::new()) };
    expect![
        "the labels of a service must be 1 to 1024 characters, none of them a control character"
    ]
    .assert_eq(&refused(long).expect("long labels"));
    for number in 1..SERVICES_OF_A_USER_MAX {
        assert_eq!(refused(service(number, BTreeSet::new())), None);
    }
    expect!["the cell has 1000 services of ana, and the maximum is 1000"]
        .assert_eq(&refused(service(9_999, BTreeSet::new())).expect("too many"));
    assert_eq!(refused(service(5, users(1))), None, "one that exists is replaced");
    assert_eq!(cell.check(), []);
}
