//! Replacing credentials in use, over real sockets.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::time::SystemTime;

use rpc::transport::{Limits, connect, explain};
use rpc::{Authority, Credentials, Error, Expect, Identity, Role, Rotating, Validity};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use support::{HOUR, Running, Stranger, ask, ask_serial, authority, follow, issue, within};

const MASTER: Expect = Expect::Role(Role::Master);

fn der(credentials: &Credentials) -> CertificateDer<'static> {
    CertificateDer::from_pem_slice(credentials.certificate_pem().as_bytes()).unwrap()
}

#[tokio::test]
async fn a_server_shows_its_new_certificate_to_new_connections() {
    let (authority, _dir) = authority();
    let [old, new] = [(); 2].map(|()| issue(&authority, "master"));
    let master = Rotating::new(old.clone()).unwrap();
    let running = Running::start_rotating(&master, Limits::default());
    let user = issue(&authority, "user/u");
    let shown = Some((user.certificate_pem(), user.key_pem()));
    let stranger = Stranger::new(&running, authority.ca_pem(), shown);
    let user = Rotating::new(user.clone()).unwrap();
    let before = connect(&running.endpoint(), &user, &MASTER).unwrap();
    let mut stream = follow(before.clone()).await.unwrap();
    assert_eq!(within(20, stranger.sees()).await, der(&old));

    master.replace(new.clone()).unwrap();
    assert_eq!(within(20, stranger.sees()).await, der(&new));
    assert_eq!(master.credentials().certificate_pem(), new.certificate_pem());
    // Existing connections are not affected.
    assert_eq!(within(20, ask(before)).await.unwrap(), "user/u");
    running.stop().await.unwrap();
    assert!(within(20, stream.message()).await.is_err(), "it was open until the end");
}

#[tokio::test]
async fn a_client_shows_its_new_certificate_when_it_dials_again() {
    let (authority, _dir) = authority();
    let master = issue(&authority, "master");
    let running = Running::start(&master, Limits::default());
    let user = Rotating::new(issue(&authority, "user/u")).unwrap();
    let dial = || connect(&running.endpoint(), &user, &MASTER).unwrap();
    let channel = dial();
    let old = within(20, ask_serial(channel.clone())).await.unwrap();
    assert_eq!(within(20, ask_serial(dial())).await.unwrap(), old);

    user.clone().replace(issue(&authority, "user/u")).unwrap();
    assert_eq!(within(20, ask_serial(channel.clone())).await.unwrap(), old, "the old connection");
    let new = within(20, ask_serial(dial())).await.unwrap();
    assert_ne!(new, old);
    // The same channel, after losing its connection.
    let address = running.address;
    running.stop().await.unwrap();
    let running = Running::start_at(address, &Rotating::new(master).unwrap(), Limits::default());
    assert_eq!(within(20, ask_serial(channel)).await.unwrap(), new);
    running.stop().await.unwrap();
}

#[tokio::test]
async fn a_channel_that_was_refused_is_let_in_with_renewed_credentials() {
    let (authority, _dir) = authority();
    let running = Running::start(&issue(&authority, "master"), Limits::default());
    let borglet: Identity = "borglet/m1".parse().unwrap();
    let past = Validity { from: SystemTime::now() - 2 * HOUR, until: SystemTime::now() - HOUR };
    let credentials = Rotating::new(authority.issue(&borglet, past).unwrap()).unwrap();
    let channel = connect(&running.endpoint(), &credentials, &MASTER).unwrap();
    let status = within(20, ask(channel.clone())).await.unwrap_err();
    assert!(explain(&status).contains("not valid now"), "{}", explain(&status));
    credentials.replace(issue(&authority, "borglet/m1")).unwrap();
    assert_eq!(within(20, ask(channel)).await.unwrap(), "borglet/m1");
    running.stop().await.unwrap();
}

#[test]
fn only_the_same_ones_credentials_replace_them() {
    let (cell, _dir) = authority();
    let (impostor, _other) = authority();
    let elsewhere = tempfile::tempdir().unwrap();
    let elsewhere = Authority::create(elsewhere.path(), "dd").unwrap();
    let old = issue(&cell, "borglet/m1");
    let credentials = Rotating::new(old.clone()).unwrap();
    for (given, why) in [
        (issue(&cell, "borglet/m2"), "the identity is borglet/m2, and not borglet/m1"),
        (issue(&elsewhere, "borglet/m1"), "the cell is dd, and not cc"),
        (issue(&impostor, "borglet/m1"), "the authority is another one, and not the one in use"),
    ] {
        let refused = credentials.replace(given).unwrap_err();
        assert!(matches!(refused, Error::NoRenewal { .. }), "{refused:?}");
        assert!(refused.to_string().contains(why), "{why}: {refused}");
        assert_eq!(credentials.credentials().key_pem(), old.key_pem());
    }
    assert!(!format!("{credentials:?}").contains("PRIVATE"));
}
