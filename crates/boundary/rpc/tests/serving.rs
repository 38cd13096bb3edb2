//! A server under clients that are slow, many, or never disconnect.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use rpc::transport::{Cause, Limits, Refusals, explain, serve};
use rpc::{Expect, Role, Rotating};
use support::{Running, ask, authority, connect, follow, issue, within};

const MASTER: Expect = Expect::Role(Role::Master);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slow_handshakes_do_not_hold_up_others_and_are_ended() {
    let (authority, _dir) = authority();
    let limits = Limits { handshake: Duration::from_millis(700), ..Limits::default() };
    let running = Running::start(&issue(&authority, "master"), limits);
    // The first bytes of a TLS record that never ends.
    let slow: Vec<_> = (0..100)
        .map(|_| {
            let mut stream = TcpStream::connect(running.address).unwrap();
            stream.write_all(&[0x16, 3, 1]).unwrap();
            stream
        })
        .collect();

    let channel = connect(&running.endpoint(), &issue(&authority, "user/u"), &MASTER).unwrap();
    assert_eq!(within(5, ask(channel)).await.unwrap(), "user/u");

    let ended = tokio::task::spawn_blocking(move || {
        for mut stream in slow {
            stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
            // Zero bytes or a reset, but no timeout.
            match stream.read(&mut [0; 100]) {
                Ok(0) => {}
                Err(e) if e.kind() == std::io::ErrorKind::ConnectionReset => {}
                other => panic!("{other:?}"),
            }
        }
    });
    within(30, ended).await.unwrap();
    running.counts(&[(Cause::Slow, 100)]).await;
    running.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn handshakes_above_the_limit_wait_for_a_place() {
    let (authority, _dir) = authority();
    let handshake = Duration::from_millis(300);
    let limits = Limits { handshakes: 1, handshake, ..Limits::default() };
    let running = Running::start(&issue(&authority, "master"), limits);
    let _idle: Vec<_> = (0..3).map(|_| TcpStream::connect(running.address).unwrap()).collect();
    let channel = connect(&running.endpoint(), &issue(&authority, "user/u"), &MASTER).unwrap();
    assert_eq!(within(20, ask(channel)).await.unwrap(), "user/u");
    // One after another, and all of them before.
    running.counts(&[(Cause::Slow, 3)]).await;
    running.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_above_the_limit_wait_for_a_place() {
    let (authority, _dir) = authority();
    let limits = Limits { connections: 2, for_masters: 0, ..Limits::default() };
    let running = Running::start(&issue(&authority, "master"), limits);
    let user = issue(&authority, "user/u");
    let channel = || connect(&running.endpoint(), &user, &MASTER).unwrap();
    let first = follow(channel()).await.unwrap();
    let second = follow(channel()).await.unwrap();

    let third = tokio::spawn(ask(channel()));
    tokio::task::yield_now().await;
    assert!(!third.is_finished());
    drop((first, second));
    assert_eq!(within(20, third).await.unwrap().unwrap(), "user/u");
    running.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_cannot_exceed_its_maximum_of_connections() {
    let (authority, _dir) = authority();
    let limits = Limits { connections_of_one: 2, drain: Duration::ZERO, ..Limits::default() };
    let running = Running::start(&issue(&authority, "master"), limits);
    let dial = |who| connect(&running.endpoint(), &issue(&authority, who), &MASTER).unwrap();
    let first = within(20, follow(dial("user/ana"))).await.unwrap();
    let second = within(20, follow(dial("user/ana"))).await.unwrap();
    let refused = within(20, ask(dial("user/ana"))).await.unwrap_err();
    assert_eq!(refused.code(), tonic::Code::Unavailable, "{refused:?}");
    assert!(
        explain(&refused).contains("clients over the limit are rejected"),
        "{}",
        explain(&refused)
    );
    running.counts(&[(Cause::TooMany, 1)]).await;

    // Other identities have limits of their own, and masters have none.
    let mut others = Vec::new();
    for who in ["user/ben", "task/ana/j/0", "master", "master", "master"] {
        others.push(within(20, follow(dial(who))).await.unwrap());
    }
    drop((first, second));
    let again = async { while ask(dial("user/ana")).await.is_err() {} };
    within(20, again).await;
    running.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn masters_get_in_where_all_places_are_taken() {
    let (authority, _dir) = authority();
    let limits =
        Limits { connections: 2, for_masters: 2, drain: Duration::ZERO, ..Limits::default() };
    let running = Running::start(&issue(&authority, "master"), limits);
    let dial = |who| connect(&running.endpoint(), &issue(&authority, who), &MASTER).unwrap();
    let _streams = [
        within(20, follow(dial("user/ana"))).await.unwrap(),
        within(20, follow(dial("user/ben"))).await.unwrap(),
    ];
    for _ in 0..3 {
        assert!(within(20, ask(dial("user/eve"))).await.is_err());
    }
    assert_eq!(within(20, ask(dial("master"))).await.unwrap(), "master");
    running.counts(&[(Cause::TooMany, 3)]).await;
    running.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_that_stays_does_not_hold_up_the_shutdown() {
    let (authority, _dir) = authority();
    let limits = Limits { drain: Duration::from_millis(200), ..Limits::default() };
    let running = Running::start(&issue(&authority, "master"), limits);
    let address = running.address;
    let channel = connect(&running.endpoint(), &issue(&authority, "user/u"), &MASTER).unwrap();
    let mut stream = follow(channel).await.unwrap();
    // Another client that has not even begun its handshake.
    let _idle = TcpStream::connect(address).unwrap();
    within(10, running.stop()).await.unwrap();
    assert!(within(10, stream.message()).await.is_err());
    assert!(TcpStream::connect(address).is_err(), "the port is free again");
}

#[tokio::test]
async fn a_channel_finds_a_server_that_came_back() {
    let (authority, _dir) = authority();
    let master = issue(&authority, "master");
    let running = Running::start(&master, Limits::default());
    let master = Rotating::new(master).unwrap();
    let channel = connect(&running.endpoint(), &issue(&authority, "user/u"), &MASTER).unwrap();
    ask(channel.clone()).await.unwrap();
    let address = running.address;
    running.stop().await.unwrap();
    let status = within(20, ask(channel.clone())).await.unwrap_err();
    assert!(explain(&status).contains("refused"), "{}", explain(&status));

    let listener = std::net::TcpListener::bind(address).unwrap();
    let served = tokio::spawn(async move {
        let routes = tonic::service::Routes::default();
        let (limits, refusals) = (Limits::default(), Refusals::default());
        serve(listener, &master, routes, limits, &refusals, std::future::pending()).await
    });
    // The service is gone, but there is a server.
    let status = within(20, ask(channel)).await.unwrap_err();
    assert_eq!(status.code(), tonic::Code::Unimplemented, "{status:?}");
    served.abort();
}
