//! Datagrams and connections.

use std::collections::BTreeSet;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::timeout;

use crate::cell::{PATIENCE, Running, ask_over, receive, request, result, settings, value};

#[tokio::test]
async fn many_datagrams_at_once_are_all_answered() {
    let server = Running::start(settings("cc")).await;
    let client = server.client().await;
    for id in 0..200 {
        client.send(&request(id, "web.ana.cc.borg")).await.expect("it is sent");
    }
    let mut ids = BTreeSet::new();
    for _ in 0..200 {
        let reply = receive(&client).await;
        assert_eq!(result(&reply), (0, 2));
        ids.insert(u16::from_be_bytes([reply[0], reply[1]]));
    }
    assert_eq!(ids, (0..200).collect());
    let metrics = &server.metrics;
    assert_eq!((value(&metrics.queries), value(&metrics.replies[0])), (200, 200));
}

#[tokio::test]
async fn the_server_listens_on_ipv6_too() {
    let address = "[::1]:0".parse().expect("an address");
    let server = Running::start(nameserver::Settings { address, ..settings("cc") }).await;
    let client = tokio::net::UdpSocket::bind("[::1]:0").await.expect("a free port");
    client.connect(server.address).await.expect("a local address");
    client.send(&request(1, "web.ana.cc.borg")).await.expect("it is sent");
    assert_eq!(result(&receive(&client).await), (0, 2));
    let mut stream = server.connect().await;
    let reply = ask_over(&mut stream, &request(2, "web.ana.cc.borg")).await;
    assert_eq!(reply.map(|reply| result(&reply)), Some((0, 2)));
}

#[tokio::test]
async fn misses_are_looked_up_while_others_are_answered() {
    let settings =
        nameserver::Settings { resolve_timeout: Duration::from_secs(1), ..settings("cc") };
    let server = Running::start(settings).await;
    let client = server.client().await;
    for (id, job) in (0..).zip(["hung", "lost", "miss", "old", "web"]) {
        client.send(&request(id, &format!("{job}.ana.cc.borg"))).await.expect("it is sent");
    }
    let mut replies = Vec::new();
    for _ in 0..5 {
        let reply = receive(&client).await;
        replies.push((reply[1], result(&reply)));
    }
    assert_eq!(replies.last(), Some(&(0, (2, 0))), "the lookup that hangs is last: {replies:?}");
    replies.sort_unstable();
    assert_eq!(replies, [(0, (2, 0)), (1, (2, 0)), (2, (0, 1)), (3, (0, 1)), (4, (0, 2))]);
    let metrics = &server.metrics;
    let counted = [&metrics.misses, &metrics.stale, &metrics.replies[2]].map(value);
    assert_eq!(counted, [3, 1, 2]);
}

#[tokio::test]
async fn requests_with_one_question_share_its_lookup() {
    let server = Running::start(settings("cc")).await;
    let client = server.client().await;
    for looked_up in [1, 2] {
        for id in 0..20 {
            client.send(&request(id, "slow.ana.cc.borg")).await.expect("it is sent");
        }
        let all = async {
            while value(&server.metrics.shared_lookups) < 19 * looked_up {
                tokio::task::yield_now().await;
            }
        };
        timeout(PATIENCE, all).await.expect("they are received");
        server.cell.gate.add_permits(1);
        for _ in 0..20 {
            assert_eq!(result(&receive(&client).await), (0, 1));
        }
        assert_eq!(value(&server.cell.resolved), looked_up);
    }
}

#[tokio::test]
async fn a_connection_has_several_requests() {
    let server = Running::start(settings("cc")).await;
    let mut stream = server.connect().await;
    for (name, expected) in [
        ("web.ana.cc.borg", (0, 2)),
        ("none.ana.cc.borg", (3, 0)),
        ("many.ana.cc.borg", (0, 100)),
        ("miss.ana.cc.borg", (0, 1)),
    ] {
        let reply = ask_over(&mut stream, &request(7, name)).await.expect(name);
        assert_eq!((result(&reply), reply[2] & 2), (expected, 0), "{name}");
    }
    // In pieces, and two at once.
    let asked = request(8, "web.ana.cc.borg");
    let framed = [&[0, u8::try_from(asked.len()).unwrap()], &asked[..]].concat();
    for byte in &framed {
        stream.write_all(&[*byte]).await.expect("it is sent");
    }
    stream.write_all(&[framed.clone(), framed].concat()).await.expect("it is sent");
    for _ in 0..3 {
        let length = usize::from(stream.read_u16().await.expect("a reply"));
        let mut reply = vec![0; length];
        stream.read_exact(&mut reply).await.expect("all of it");
        assert_eq!(result(&reply), (0, 2));
    }
}

#[tokio::test]
async fn datagrams_that_are_no_requests_are_dropped() {
    let server = Running::start(settings("cc")).await;
    let client = server.client().await;
    let mut response = request(1, "web.ana.cc.borg");
    response[2] |= 0x80;
    for bytes in [&[][..], &[1, 2, 3], &response] {
        client.send(bytes).await.expect("it is sent");
    }
    client.send(&[0; 12]).await.expect("it is sent");
    client.send(&[0; 9_000]).await.expect("it is sent");
    client.send(&request(2, "web.ana.cc.borg")).await.expect("it is sent");
    let codes = [receive(&client).await, receive(&client).await, receive(&client).await];
    assert_eq!(codes.map(|reply| result(&reply)), [(1, 0), (1, 0), (0, 2)]);
    assert_eq!(value(&server.metrics.dropped), 3);
    // Over a connection it ends that.
    let mut stream = server.connect().await;
    assert_eq!(ask_over(&mut stream, &response).await, None);
    let mut stream = server.connect().await;
    assert_eq!(ask_over(&mut stream, &[0; 4_097]).await, None);
}
