//! The lightweight client against a real server.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::time::{Duration, SystemTime};

use rpc::transport::{Cause, Limits, Link, distrusts, explain, is_distrust, link};
use rpc::{Credentials, Expect, Identity, Role, Rotating, Validity};
use support::{CELL, HOUR, Running, ask, ask_serial, authority, call, follow, issue, say, within};
use tonic::{Code, Request, Status};

const MASTER: Expect = Expect::Role(Role::Master);

fn to(running: &Running, credentials: &Credentials) -> Link {
    link(&running.endpoint(), &Rotating::new(credentials.clone()).unwrap(), &MASTER).unwrap()
}

/// A server, and a link to it as a user.
fn linked(limits: Limits) -> (Running, Link, tempfile::TempDir) {
    let (authority, dir) = authority();
    let running = Running::start(&issue(&authority, "master"), limits);
    let link = to(&running, &issue(&authority, "user/u"));
    (running, link, dir)
}

async fn echo(link: &Link, said: &str) -> Result<String, Status> {
    within(60, say(link.clone(), "/bourg.test.Who/Echo", Request::new(said.to_owned()))).await
}

#[tokio::test]
async fn calls_are_answered_with_messages_of_any_size() {
    let (running, link, _dir) = linked(Limits::default());
    assert_eq!(within(20, ask(link.clone())).await.unwrap(), "user/u");
    // Around the sizes of frames and windows.
    for length in [0, 1, 16_370, 16_384, 65_535, 65_536, 70_000, 1 << 20, 3 << 20] {
        let said: String = ('a'..='z').cycle().take(length).collect();
        let heard = echo(&link, &said).await.unwrap();
        assert!(heard == said, "{length}: {} come back", heard.len());
    }
    let status = echo(&link, "refuse ünwilling, 100 %").await.unwrap_err();
    assert_eq!(status.code(), Code::FailedPrecondition);
    assert_eq!(status.message(), "ünwilling, 100 %");
    let status = within(20, call(link.clone(), "/bourg.test.Nobody/Ask")).await.unwrap_err();
    assert_eq!(status.code(), Code::Unimplemented, "{status:?}");
    running.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_calls_share_one_connection() {
    let limits =
        Limits { connections: 1, for_masters: 0, calls_per_connection: 7, ..Limits::default() };
    let (running, link, _dir) = linked(limits);
    let calls: Vec<_> = (0..200)
        .map(|number| {
            let link = link.clone();
            tokio::spawn(async move {
                let said = number.to_string().repeat(number * 20);
                assert_eq!(echo(&link, &said).await.unwrap(), said);
            })
        })
        .collect();
    for call in calls {
        within(60, call).await.unwrap();
    }
    running.stop().await.unwrap();
}

#[tokio::test]
async fn a_call_that_nobody_waits_for_gives_its_place_back() {
    let limits = Limits { calls_per_connection: 1, ..Limits::default() };
    let (running, link, _dir) = linked(limits);
    let stream = within(20, follow(link.clone())).await.unwrap();
    let second = tokio::spawn(ask(link.clone()));
    tokio::task::yield_now().await;
    assert!(!second.is_finished());
    drop(stream);
    assert_eq!(within(20, second).await.unwrap().unwrap(), "user/u");
    // Cancelled before its answer.
    let never = tokio::spawn(call(link.clone(), "/bourg.test.Who/Never"));
    tokio::task::yield_now().await;
    never.abort();
    assert_eq!(within(20, ask(link.clone())).await.unwrap(), "user/u");
    running.stop().await.unwrap();
}

#[tokio::test]
async fn a_stream_that_nobody_reads_holds_up_no_other_call() {
    let (running, link, _dir) = linked(Limits::default());
    let mut streams = Vec::new();
    for _ in 0..20 {
        let path = "/bourg.test.Who/Flood";
        streams.push(within(20, support::stream(link.clone(), path)).await.unwrap());
    }
    for _ in 0..20 {
        assert_eq!(echo(&link, &"x".repeat(200_000)).await.unwrap().len(), 200_000);
    }
    // Its data is still delivered when read.
    for mut stream in streams {
        for _ in 0..100 {
            assert_eq!(within(20, stream.message()).await.unwrap().unwrap().len(), 50_000);
        }
    }
    running.stop().await.unwrap();
}

#[tokio::test]
async fn a_call_takes_no_longer_than_it_may() {
    let (running, link, _dir) = linked(Limits::default());
    let mut request = Request::new(String::new());
    request.set_timeout(Duration::from_millis(50));
    let status = within(20, say(link.clone(), "/bourg.test.Who/Never", request)).await.unwrap_err();
    assert!([Code::DeadlineExceeded, Code::Cancelled].contains(&status.code()), "{status:?}");
    running.stop().await.unwrap();
}

#[tokio::test]
async fn a_link_finds_a_server_that_came_back() {
    let (authority, _dir) = authority();
    let master = Rotating::new(issue(&authority, "master")).unwrap();
    let limits = Limits { drain: Duration::from_millis(200), ..Limits::default() };
    let running = Running::start_rotating(&master, limits);
    let user = Rotating::new(issue(&authority, "user/u")).unwrap();
    let link = link(&running.endpoint(), &user, &MASTER).unwrap();
    let old = within(20, ask_serial(link.clone())).await.unwrap();
    let mut stream = within(20, follow(link.clone())).await.unwrap();
    let address = running.address;
    running.stop().await.unwrap();
    let status = within(20, stream.message()).await.unwrap_err();
    assert_eq!(status.code(), Code::Unavailable, "{status:?}");
    let status = within(20, ask(link.clone())).await.unwrap_err();
    assert_eq!(status.code(), Code::Unavailable, "{status:?}");
    assert!(explain(&status).contains("refused"), "{}", explain(&status));
    assert!(!is_distrust(&status));

    user.replace(issue(&authority, "user/u")).unwrap();
    let running = Running::start_at(address, &master, limits);
    assert_ne!(within(20, ask_serial(link.clone())).await.unwrap(), old, "it shows the new one");
    running.stop().await.unwrap();
}

#[tokio::test]
async fn concurrent_calls_share_one_dial() {
    let (running, link, _dir) =
        linked(Limits { connections: 1, for_masters: 0, ..Limits::default() });
    let calls: Vec<_> = (0..50).map(|_| tokio::spawn(ask(link.clone()))).collect();
    for call in calls {
        assert_eq!(within(20, call).await.unwrap().unwrap(), "user/u");
    }
    // A connection closes with its last user, and there is one permit.
    drop(link);
    running.stop().await.unwrap();
}

#[tokio::test]
async fn a_link_that_is_dropped_closes_its_connection() {
    let (authority, _dir) = authority();
    let limits = Limits { connections: 1, for_masters: 0, ..Limits::default() };
    let running = Running::start(&issue(&authority, "master"), limits);
    for user in ["user/a", "user/b", "user/c"] {
        let link = to(&running, &issue(&authority, user));
        assert_eq!(within(20, ask(link)).await.unwrap(), user);
    }
    running.stop().await.unwrap();
}

#[tokio::test]
async fn an_untrusted_peer_is_reported_as_on_every_connection() {
    let (cell, _dir) = authority();
    let (impostor, _other) = authority();
    let running = Running::start(&issue(&cell, "master"), Limits::default());
    let now = SystemTime::now();
    let past = Validity { from: now - 2 * HOUR, until: now - HOUR };
    let late = cell.issue(&Identity::User("late".to_owned()), past).unwrap();
    let borglet = Expect::Identity(Identity::Borglet("m1".to_owned()));
    let (foreign, wrong) = (Some(Cause::WrongAuthority), Some(Cause::WrongIdentity));
    for (credentials, expect, said, cause) in [
        (
            issue(&impostor, "user/eve"),
            &MASTER,
            "its certificate was issued by another authority",
            foreign,
        ),
        (issue(&cell, "user/u"), &borglet, "belongs to master instead of borglet/m1", wrong),
        (late, &MASTER, "the certificate of user/late, which is not valid now", None),
    ] {
        let credentials = Rotating::new(credentials).unwrap();
        let link = link(&running.endpoint(), &credentials, expect).unwrap();
        let status = within(20, ask(link.clone())).await.unwrap_err();
        assert_eq!(status.code(), Code::Unavailable);
        assert!(is_distrust(&status), "{status:?}");
        assert_eq!(distrusts(&status), cause);
        assert!(explain(&status).contains(said), "{}", explain(&status));
        assert!(within(20, link.dial()).await.is_err(), "{CELL}");
    }
    running.stop().await.unwrap();
}

#[tokio::test]
async fn a_server_whose_certificate_is_not_accepted_is_asked_nothing() {
    let (authority, _dir) = authority();
    let old = issue(&authority, "master");
    let master = Rotating::new(old.clone()).unwrap();
    let running = Running::start_rotating(&master, Limits::default());
    let link = to(&running, &issue(&authority, "user/u"));
    assert_eq!(within(20, ask(link.clone())).await.unwrap(), "user/u");
    // Also on an existing connection.
    let revoked = old.serial().to_vec();
    let judging = link.where_accepted(move |serial| serial != revoked);
    let status = within(20, ask(judging.clone())).await.unwrap_err();
    assert_eq!(distrusts(&status), Some(Cause::Revoked), "{status:?}");
    assert!(explain(&status).contains("its certificate was revoked"), "{status:?}");
    // It reconnects, and sees another certificate.
    master.replace(issue(&authority, "master")).unwrap();
    assert_eq!(within(20, ask(judging)).await.unwrap(), "user/u");
    running.stop().await.unwrap();
}
