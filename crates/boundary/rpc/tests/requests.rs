//! Certificates for keys that stay with their owners.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use rcgen::{CertificateParams, DnType, KeyPair, PKCS_ECDSA_P384_SHA384, PKCS_ED25519, SanType};
use rpc::request::MAX_REQUEST_CHARS;
use rpc::transport::Limits;
use rpc::{Error, Expect, Identity, NewKey, Role, SigningRequest, Validity};
use support::{HOUR, Running, ask, authority, connect, issue, within};

fn ana() -> Identity {
    Identity::User("ana".to_owned())
}

#[tokio::test]
async fn a_key_that_never_left_its_owner_is_let_in() {
    let (authority, _dir) = authority();
    let running = Running::start(&issue(&authority, "master"), Limits::default());
    let key = NewKey::generate().unwrap();
    let text = key.request_pem().unwrap();
    assert!(!text.contains("PRIVATE"), "{text}");
    let request = SigningRequest::from_pem(&text).unwrap();
    let certificate =
        authority.certify(&request, &ana(), Validity::lasting(HOUR), &request.serial(b"1"));
    let certificate = certificate.unwrap();
    let credentials = key.credentials(certificate, authority.ca_pem().to_owned()).unwrap();
    assert_eq!(*credentials.identity(), ana());
    let channel = connect(&running.endpoint(), &credentials, &Expect::Role(Role::Master)).unwrap();
    assert_eq!(within(20, ask(channel)).await.unwrap(), "user/ana");
    running.stop().await.unwrap();
}

#[test]
fn the_names_in_a_signing_request_are_ignored() {
    let (authority, _dir) = authority();
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, "user/root");
    params.subject_alt_names = vec![SanType::URI("borg://cc/user/root".try_into().unwrap())];
    let text = params.serialize_request(&key).unwrap().pem().unwrap();
    let request = SigningRequest::from_pem(&text).unwrap();
    let validity = Validity::lasting(HOUR);
    let certificate = authority.certify(&request, &ana(), validity, &request.serial(b"")).unwrap();
    let ca = authority.ca_pem().to_owned();
    let credentials = rpc::Credentials::from_pem(certificate, key.serialize_pem(), ca).unwrap();
    assert_eq!(*credentials.identity(), ana());
}

#[test]
fn a_forged_or_unsupported_signing_request_is_refused() {
    let request_of = |algorithm| {
        let key = KeyPair::generate_for(algorithm).unwrap();
        CertificateParams::default().serialize_request(&key).unwrap().pem().unwrap()
    };
    let good = NewKey::generate().unwrap().request_pem().unwrap();
    // Another signature: its last characters precede the padding and the last line.
    let place = good.find("-----END").unwrap() - 12;
    let mut forged = good.clone();
    let other = if &good[place..=place] == "A" { "B" } else { "A" };
    forged.replace_range(place..=place, other);
    for (text, why) in [
        (String::new(), "parse"),
        ("ana".to_owned(), "parse"),
        (good.replace('M', "-"), "parse"),
        (forged, "signature"),
        (request_of(&PKCS_ED25519), "its key is not ECDSA P-256"),
        (request_of(&PKCS_ECDSA_P384_SHA384), "its key is not ECDSA P-256"),
        (" ".repeat(MAX_REQUEST_CHARS + 1), "more than 4096 characters"),
    ] {
        let refused = SigningRequest::from_pem(&text).unwrap_err();
        assert!(matches!(refused, Error::BadRequest { .. }), "{refused:?}");
        assert!(refused.to_string().contains(why), "{why}: {refused}");
    }
}

#[test]
fn names_and_validity_are_the_authoritys() {
    let (authority, _dir) = authority();
    let key = NewKey::generate().unwrap();
    let request = SigningRequest::from_pem(&key.request_pem().unwrap()).unwrap();
    let long = Validity::lasting(HOUR * 24 * 365 * 100);
    let serial = request.serial(b"");
    let certificate = authority.certify(&request, &ana(), long, &serial).unwrap();
    let credentials = key.credentials(certificate, authority.ca_pem().to_owned()).unwrap();
    let most = std::time::SystemTime::now() + rpc::authority::AUTHORITY_VALIDITY;
    assert!(credentials.expires() <= most, "it does not outlive its authority");
    for name in ["", "a/b", "a\nb"] {
        let identity = Identity::User(name.to_owned());
        let refused = authority.certify(&request, &identity, Validity::lasting(HOUR), &serial);
        assert!(matches!(refused, Err(Error::BadIdentity(_))), "{name:?}");
    }
}

#[test]
fn a_serial_number_is_that_of_a_key_and_a_context() {
    let request = || SigningRequest::from_pem(&NewKey::generate().unwrap().request_pem().unwrap());
    let (one, other) = (request().unwrap(), request().unwrap());
    assert_eq!(one.serial(b"7"), one.serial(b"7"));
    assert_ne!(one.serial(b"7"), one.serial(b"8"));
    assert_ne!(one.serial(b"7"), other.serial(b"7"));
}
