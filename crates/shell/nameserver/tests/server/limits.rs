//! What is beyond a limit.

use std::time::Duration;

use dns::Rate;
use nameserver::Settings;
use tokio::io::AsyncReadExt as _;
use tokio::time::timeout;

use crate::cell::{PATIENCE, Running, ask_over, receive, request, result, settings, value};

#[tokio::test]
async fn a_client_over_its_rate_is_refused() {
    let rate = Rate { per_second: 1, burst: 5 };
    let server = Running::start(Settings { rate, ..settings("cc") }).await;
    let mut refused = 0;
    for id in 0..20 {
        let (code, _) = result(&server.ask(&request(id, "web.ana.cc.borg")).await);
        refused += u64::from(code == 5);
    }
    assert!((10..=15).contains(&refused), "{refused}");
    assert_eq!(value(&server.metrics.limited), refused);
    // Another client has a rate of its own.
    let other = tokio::net::UdpSocket::bind("127.0.0.2:0").await.expect("a free port");
    other.send_to(&request(1, "web.ana.cc.borg"), server.address).await.expect("it is sent");
    assert_eq!(result(&receive(&other).await), (0, 2));
}

#[tokio::test]
async fn requests_that_wait_are_bounded_and_shared() {
    let limits = Settings { waiting_max: 6, resolve_timeout: PATIENCE, ..settings("cc") };
    let server = Running::start(limits).await;
    let client = server.client().await;
    for id in 0..5 {
        client.send(&request(id, "hung.ana.cc.borg")).await.expect("it is sent");
    }
    let ids = [receive(&client).await, receive(&client).await].map(|reply| {
        assert_eq!(result(&reply), (2, 0));
        reply[1]
    });
    assert_eq!(ids, [3, 4], "one client has half of them");
    assert_eq!(value(&server.metrics.overloaded), 2);
    // What is known is answered all the same.
    assert_eq!(result(&server.ask(&request(9, "web.ana.cc.borg")).await), (0, 2));
}

#[tokio::test]
async fn a_flooding_client_leaves_room_for_other_lookups() {
    let limits = Settings { waiting_max: 40, resolve_timeout: PATIENCE, ..settings("cc") };
    let server = Running::start(limits).await;
    let flood = server.client().await;
    for id in 0..100 {
        flood.send(&request(id, "hung.ana.cc.borg")).await.expect("it is sent");
    }
    receive(&flood).await;
    let other = tokio::net::UdpSocket::bind("127.0.0.2:0").await.expect("a free port");
    for id in 0..5 {
        let asked = request(id, "miss.ana.cc.borg");
        other.send_to(&asked, server.address).await.expect("it is sent");
        assert_eq!(result(&receive(&other).await), (0, 1), "{id}");
    }
}

#[tokio::test]
async fn connections_are_bounded() {
    let server = Running::start(Settings { connections_max: 8, ..settings("cc") }).await;
    let asked = request(1, "web.ana.cc.borg");
    let mut open = Vec::new();
    for number in 0..6 {
        let mut stream = server.connect().await;
        let reply = ask_over(&mut stream, &asked).await;
        assert_eq!(reply.is_some(), number < 4, "a client has half: {number}");
        open.push(stream);
    }
    assert_eq!(value(&server.metrics.connections_rejected), 2);
    // A closed one makes room, once the server has seen that.
    drop(open);
    timeout(PATIENCE, async {
        while ask_over(&mut server.connect().await, &asked).await.is_none() {
            tokio::task::yield_now().await;
        }
    })
    .await
    .expect("there is room again");
}

#[tokio::test]
async fn a_connection_is_closed_at_its_limits() {
    let server = Running::start(Settings { requests_per_connection: 2, ..settings("cc") }).await;
    let asked = request(1, "web.ana.cc.borg");
    let mut stream = server.connect().await;
    let mut answered = 0;
    while ask_over(&mut stream, &asked).await.is_some() {
        answered += 1;
    }
    assert_eq!(answered, 2);
    let idle_timeout = Duration::from_millis(200);
    let server = Running::start(Settings { idle_timeout, ..settings("cc") }).await;
    let mut idle = server.connect().await;
    let end = timeout(PATIENCE, idle.read(&mut [0; 8])).await.expect("it is closed in time");
    assert_eq!(end.expect("it is closed"), 0);
}
