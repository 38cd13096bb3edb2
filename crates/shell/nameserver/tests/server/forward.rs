//! Foreign names: the resolver is another server of ours, or a socket that misbehaves.

use std::net::SocketAddr;
use std::time::Duration;

use nameserver::Settings;
use tokio::net::UdpSocket;

use crate::cell::{PATIENCE, Running, ask_over, receive, request, result, settings, value};

/// A server whose resolvers are these, each of which may take so long.
async fn before(resolvers: Vec<SocketAddr>, resolver_timeout: Duration) -> Running {
    Running::start(Settings { resolvers, resolver_timeout, ..settings("cc") }).await
}

/// A socket that never answers.
async fn silent() -> (UdpSocket, SocketAddr) {
    let socket = UdpSocket::bind("127.0.0.1:0").await.expect("a free port");
    let address = socket.local_addr().expect("it is bound");
    (socket, address)
}

#[tokio::test]
async fn foreign_names_are_asked_at_a_resolver() {
    let other = Running::start(settings("other")).await;
    let server = before(vec![other.address], PATIENCE).await;
    let reply = server.ask(&request(0x1234, "WEB.ana.other.borg")).await;
    assert_eq!((&reply[..2], result(&reply)), (&[0x12, 0x34][..], (0, 2)));
    let mut stream = server.connect().await;
    let reply = ask_over(&mut stream, &request(1, "many.ana.other.borg")).await.expect("a reply");
    assert_eq!(result(&reply), (0, 100), "over TCP it asks over TCP");
    assert_eq!(value(&other.metrics.queries), 2);
    assert_eq!(value(&server.metrics.forwarded), 2);
}

#[tokio::test]
async fn the_next_resolver_is_asked_where_one_does_not_answer() {
    let other = Running::start(settings("other")).await;
    let (_silent, first) = silent().await;
    // The second does not know the name and fails: it has no resolver.
    let fails = Running::start(settings("third")).await;
    let server = before(vec![first, fails.address, other.address], Duration::from_secs(1)).await;
    assert_eq!(result(&server.ask(&request(1, "web.ana.other.borg")).await), (0, 2));
}

#[tokio::test]
async fn a_missing_answer_of_the_resolvers_is_a_failure() {
    let (_silent, first) = silent().await;
    for (resolvers, forwarded) in [(vec![], 1), (vec![first], 1)] {
        let server = before(resolvers, Duration::from_millis(200)).await;
        assert_eq!(result(&server.ask(&request(1, "example.com")).await), (2, 0));
        assert_eq!(value(&server.metrics.forwarded), forwarded);
        assert_eq!(value(&server.metrics.unanswered), 1);
    }
}

#[tokio::test]
async fn only_the_response_to_the_request_is_taken() {
    let (resolver, address) = silent().await;
    let server = before(vec![address], PATIENCE).await;
    let client = server.client().await;
    client.send(&request(7, "example.com")).await.expect("it is sent");
    let mut asked = vec![0; 512];
    let (length, peer) = resolver.recv_from(&mut asked).await.expect("it is asked");
    asked.truncate(length);
    assert_eq!(asked[2..], request(7, "example.com")[2..]);
    let response = |at: usize, change: u8| {
        let mut bytes = asked.clone();
        bytes[2] |= 0x80;
        bytes[3] = 3;
        bytes[at] ^= change;
        bytes
    };
    // Another id, another name, another case, a request, and from elsewhere.
    for (at, change) in [(0, 1), (1, 0x80), (14, 1), (14, 0x20), (2, 0x80)] {
        resolver.send_to(&response(at, change), peer).await.expect("it is sent");
    }
    let (elsewhere, _) = silent().await;
    elsewhere.send_to(&response(3, 0), peer).await.expect("it is sent");
    let mut right = response(3, 0);
    right[3] = 0;
    resolver.send_to(&right, peer).await.expect("it is sent");
    let reply = receive(&client).await;
    assert_eq!((&reply[..2], result(&reply)), (&[0, 7][..], (0, 0)));
}

#[tokio::test]
async fn a_reply_that_is_too_long_is_truncated() {
    let (resolver, address) = silent().await;
    let server = before(vec![address], PATIENCE).await;
    let client = server.client().await;
    client.send(&request(7, "example.com")).await.expect("it is sent");
    let mut asked = vec![0; 512];
    let (length, peer) = resolver.recv_from(&mut asked).await.expect("it is asked");
    asked.truncate(length);
    asked[2] |= 0x80;
    asked.resize(1_000, 0);
    resolver.send_to(&asked, peer).await.expect("it is sent");
    let reply = receive(&client).await;
    assert_eq!((reply[2] & 2, reply.len()), (2, length));
}
