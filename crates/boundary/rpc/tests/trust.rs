//! Which peers are accepted and rejected, over real sockets.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, SystemTime};

use rcgen::{CertificateParams, DnType, Issuer, KeyPair, SanType};
use rpc::transport::{Cause, Limits, explain, is_distrust};
use rpc::{Authority, Credentials, Expect, Identity, Role, Rotating, Validity};
use support::{CELL, HOUR, Running, Stranger, ask, authority, connect, follow, issue, within};
use tonic::Code;
use tonic::transport::Endpoint;

const MASTER: Expect = Expect::Role(Role::Master);

/// A serving master, and its authority.
fn master() -> (Authority, Running, tempfile::TempDir) {
    let (authority, dir) = authority();
    let running = Running::start(&issue(&authority, "master"), Limits::default());
    (authority, running, dir)
}

/// The error of a client that does not trust the server, or is not trusted by it.
async fn refused(running: &Running, credentials: &Credentials, expect: &Expect) -> String {
    let channel = connect(&running.endpoint(), credentials, expect).unwrap();
    let status = within(20, ask(channel)).await.expect_err("it was let through");
    assert_eq!(status.code(), Code::Unavailable, "{status:?}");
    assert!(is_distrust(&status), "{status:?}");
    explain(&status).replace(&running.endpoint(), "ADDRESS")
}

#[tokio::test]
async fn every_client_of_the_cell_is_known_by_name() {
    let (authority, running, _dir) = master();
    for identity in ["master", "borglet/m-1", "scheduler/batch", "user/zoë r", "task/ubar/jfoo/50"]
    {
        let credentials = issue(&authority, identity);
        let channel = connect(&running.endpoint(), &credentials, &MASTER).unwrap();
        assert_eq!(within(20, ask(channel)).await.unwrap(), identity);
    }
    running.stop().await.unwrap();
}

#[tokio::test]
async fn a_client_without_a_certificate_is_refused() {
    let (authority, running, _dir) = master();
    let stranger = Stranger::new(&running, authority.ca_pem(), None);
    let status = within(20, ask(stranger.channel())).await.unwrap_err();
    assert!(explain(&status).contains("CertificateRequired"), "{}", explain(&status));
    running.counts(&[(Cause::NoCertificate, 1)]).await;
}

#[tokio::test]
async fn certificates_of_another_authority_are_refused_by_both_ends() {
    let (cell, running, _dir) = master();
    let (impostor, _other) = authority();
    assert_eq!(impostor.cell(), cell.cell());

    // The client does not trust the server …
    let eve = issue(&impostor, "user/eve");
    let text = refused(&running, &eve, &MASTER).await;
    assert_eq!(text, "ADDRESS is not trusted: its certificate was issued by another authority");
    running.counts(&[(Cause::Distrusted, 1)]).await;
    // … and if it did, the server would not trust the client.
    let shown = Some((eve.certificate_pem(), eve.key_pem()));
    let stranger = Stranger::new(&running, cell.ca_pem(), shown);
    let status = within(20, ask(stranger.channel())).await.unwrap_err();
    assert!(
        explain(&status).contains("UnknownCA") || explain(&status).contains("DecryptError"),
        "{}",
        explain(&status)
    );
    running.counts(&[(Cause::WrongAuthority, 1), (Cause::Distrusted, 1)]).await;
}

#[tokio::test]
async fn expired_and_future_certificates_are_refused() {
    let (authority, running, _dir) = master();
    let now = SystemTime::now();
    let user: Identity = "user/late".parse().unwrap();
    for (from, until) in [(now - 2 * HOUR, now - HOUR), (now + HOUR, now + 2 * HOUR)] {
        let credentials = authority.issue(&user, Validity { from, until }).unwrap();
        let text = refused(&running, &credentials, &MASTER).await;
        let wanted = "ADDRESS rejects the certificate of user/late, which is not valid now";
        assert_eq!(text, wanted);
    }
    running.counts(&[(Cause::Expired, 2)]).await;
    // A server too.
    let master =
        authority.issue(&Identity::Master, Validity { from: now - 2 * HOUR, until: now - HOUR });
    let expired = Running::start(&master.unwrap(), Limits::default());
    let text = refused(&expired, &issue(&authority, "user/u"), &MASTER).await;
    let wanted = "ADDRESS is not trusted: its certificate is not valid now: certificate expired";
    assert!(text.starts_with(wanted), "{text}");
}

#[tokio::test]
async fn a_connection_lasts_as_long_as_its_first_certificate() {
    let (authority, running, _dir) = master();
    let now = SystemTime::now();
    let soon = Validity { from: now - HOUR, until: now + Duration::from_secs(3) };
    let mut connected = Vec::new();
    for identity in ["user/u", "task/u/j/0", "scheduler/s", "borglet/m1", "join/master/2", "master"]
    {
        let credentials = authority.issue(&identity.parse().unwrap(), soon).unwrap();
        let credentials = Rotating::new(credentials).unwrap();
        let dial = rpc::transport::connect(&running.endpoint(), &credentials, &MASTER);
        let channel = dial.unwrap();
        let first = within(20, ask(channel.clone())).await;
        assert_eq!(first.is_ok(), identity != "join/master/2", "{identity}: {first:?}");
        connected.push((identity, credentials, channel));
    }
    let expired = async {
        while SystemTime::now() < soon.until {
            tokio::task::yield_now().await;
        }
    };
    within(20, expired).await;
    for (identity, credentials, channel) in connected {
        let asked = within(20, ask(channel.clone())).await;
        if identity == "master" {
            // It renews its certificate without reconnecting.
            assert_eq!(asked.unwrap(), identity);
            continue;
        }
        let said = format!(
            "the certificate of {identity} has expired since it connected: reconnect with a \
             renewed certificate"
        );
        // Opening a stream counts as a request, and the connection keeps its certificate.
        credentials.replace(issue(&authority, identity)).unwrap();
        for status in [asked.unwrap_err(), within(20, follow(channel)).await.unwrap_err()] {
            assert_eq!((status.code(), status.message()), (Code::Unauthenticated, &*said));
        }
        let again = rpc::transport::connect(&running.endpoint(), &credentials, &MASTER).unwrap();
        let asked = within(20, ask(again)).await;
        assert_eq!(asked.is_ok(), identity != "join/master/2", "{identity}: {asked:?}");
    }
    running.counts(&[(Cause::Expired, 10), (Cause::WrongRole, 2)]).await;
    running.stop().await.unwrap();
}

/// A certificate signed by the cell's authority with the given URIs, which `issue` would not
/// create.
fn signed_by_hand(directory: &std::path::Path, uris: &[&str]) -> [String; 2] {
    let read = |name: &str| std::fs::read_to_string(directory.join(name)).unwrap();
    let ca_key = KeyPair::from_pem(&read("ca.key")).unwrap();
    let issuer = Issuer::from_ca_cert_pem(&read("ca.pem"), ca_key).unwrap();
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, "user/eve");
    let uri = |uri: &&str| SanType::URI((*uri).try_into().unwrap());
    params.subject_alt_names = uris.iter().map(uri).collect();
    params.subject_alt_names.push(SanType::DnsName("x.cc.borg".try_into().unwrap()));
    let key = KeyPair::generate().unwrap();
    let certificate = params.signed_by(&key, &issuer).unwrap();
    [certificate.pem(), key.serialize_pem()]
}

#[tokio::test]
async fn another_cell_no_identity_and_two_identities_are_refused() {
    let (authority, running, dir) = master();
    let table: [(&[&str], &str); 5] = [
        (&["borg://dd/user/eve"], "belongs to cell dd, this is cell cc"),
        (&[], "contains no identity"),
        (&["borg://cc/user/eve", "borg://cc/master"], "more than one identity"),
        (&["https://cc/master"], "not an identity"),
        (&["borg://cc/root"], "no such role"),
    ];
    for (uris, why) in table {
        let [certificate, key] = signed_by_hand(dir.path(), uris);
        let stranger = Stranger::new(&running, authority.ca_pem(), Some((&certificate, &key)));
        let channel = stranger.channel();
        // Services that do not check identities reject them as well.
        let status = within(20, follow(channel.clone())).await.unwrap_err();
        assert_eq!(status.code(), Code::Unauthenticated, "{uris:?}: {status:?}");
        let status = within(20, ask(channel)).await.unwrap_err();
        assert_eq!(status.code(), Code::Unauthenticated, "{uris:?}: {status:?}");
        assert!(status.message().contains(why), "{uris:?}: {status:?}");
    }
    // Each connection counts once, whatever it sends.
    running.counts(&[(Cause::WrongCell, 1), (Cause::BadCertificate, 4)]).await;
}

#[tokio::test]
async fn a_server_must_be_the_one_that_was_wanted() {
    let (authority, _dir) = authority();
    let user = issue(&authority, "user/u");
    let borglet = Running::start(&issue(&authority, "borglet/m1"), Limits::default());
    let of = |text: &str| Expect::Identity(text.parse().unwrap());

    for expect in [Expect::Role(Role::Borglet), of("borglet/m1")] {
        let channel = connect(&borglet.endpoint(), &user, &expect).unwrap();
        assert_eq!(within(20, ask(channel)).await.unwrap(), "user/u");
    }
    for (expect, whom) in [
        (MASTER, "a master"),
        (of("borglet/m2"), "borglet/m2"),
        (of("master"), "master"),
        (Expect::Role(Role::Scheduler), "a scheduler"),
    ] {
        let text = refused(&borglet, &user, &expect).await;
        let found = "ADDRESS is not trusted: its certificate belongs to borglet/m1 instead of";
        assert_eq!(text, format!("{found} {whom}"));
    }
    borglet.counts(&[(Cause::Distrusted, 4)]).await;

    // Identities that never serve cannot: even clients that expect them reject them.
    for (identity, role) in [("user/u", Role::User), ("task/u/j/0", Role::Task)] {
        let running = Running::start(&issue(&authority, identity), Limits::default());
        let text = refused(&running, &user, &Expect::Role(role)).await;
        assert!(text.starts_with("ADDRESS is not trusted: its certificate is unusable"), "{text}");
    }
}

#[tokio::test]
async fn credentials_of_another_cell_do_not_reach_a_master() {
    let (_cell, running, _dir) = master();
    let dir = tempfile::tempdir().unwrap();
    let other = Authority::create(dir.path(), "dd").unwrap();
    assert_ne!(other.cell(), CELL);
    let text = refused(&running, &issue(&other, "user/u"), &MASTER).await;
    assert_eq!(text, "ADDRESS is not trusted: its certificate was issued by another authority");
}

#[tokio::test]
async fn plaintext_is_refused() {
    let (_authority, running, _dir) = master();
    let channel = Endpoint::from_shared(format!("http://{}", running.address)).unwrap();
    within(20, ask(channel.connect_lazy())).await.unwrap_err();

    let address = running.address;
    let answer = tokio::task::spawn_blocking(move || {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").unwrap();
        let mut answer = Vec::new();
        // A reset is acceptable, too.
        let _ = stream.read_to_end(&mut answer);
        answer
    });
    let answer = within(20, answer).await.unwrap();
    // At most a TLS alert.
    assert!(answer.is_empty() || answer[0] == 0x15, "{answer:?}");
    running.counts(&[(Cause::NoTls, 2)]).await;
}
