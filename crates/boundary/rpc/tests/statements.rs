//! Statements: accepted from the right signer, for their time, unchanged.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::time::{Duration, SystemTime};

use api::v1;
use rpc::statement::{Invalid, MAX_PAYLOAD_BYTES, Stated, Verifier, sign};
use rpc::{Credentials, Role};
use support::{HOUR, authority, issue};

fn micros(at: SystemTime) -> u64 {
    at.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_micros().try_into().unwrap()
}

fn right(until: SystemTime) -> v1::Right {
    let upload = v1::UploadRight { user: "ana".to_owned(), bytes_max: 1 << 30 };
    let what = Some(v1::right::What::Upload(upload));
    v1::Right { what, holder: "user/ana".to_owned(), until: micros(until) }
}

fn receipt(until: SystemTime) -> v1::Receipt {
    v1::Receipt { user: "ana".to_owned(), until: micros(until), ..v1::Receipt::default() }
}

/// The outcome for a statement that was changed by a test.
fn outcome<M: Stated>(
    verifier: &Verifier,
    statement: &v1::Statement,
    now: SystemTime,
) -> Result<(), &'static str> {
    verifier.verify::<M>(statement, now).map(drop).map_err(|invalid| match invalid {
        Invalid::Malformed { .. } => "malformed",
        Invalid::Certificate { .. } => "certificate",
        Invalid::Signer { .. } => "signer",
        Invalid::Signature { .. } => "signature",
        Invalid::Ended { .. } => "ended",
        _ => "another reason",
    })
}

#[test]
fn a_statement_says_what_was_signed_and_by_whom() {
    let (authority, _dir) = authority();
    let verifier = Verifier::new(authority.ca_pem()).unwrap();
    assert_eq!(verifier.cell(), "cc");
    let now = SystemTime::now();
    let stated = right(now + HOUR);
    let statement = sign(&issue(&authority, "master"), &stated).unwrap();
    let verified = verifier.verify::<v1::Right>(&statement, now).unwrap();
    assert_eq!((verified.message, verified.signer.role()), (stated, Role::Master));
    let stated = receipt(now + HOUR);
    let statement = sign(&issue(&authority, "packages/p1"), &stated).unwrap();
    let verified = verifier.verify::<v1::Receipt>(&statement, now).unwrap();
    assert_eq!((verified.message, verified.signer.to_string()), (stated, "packages/p1".to_owned()));
}

#[test]
fn what_is_changed_or_of_another_kind_or_late_is_not_accepted() {
    let (authority, _dir) = authority();
    let verifier = Verifier::new(authority.ca_pem()).unwrap();
    let now = SystemTime::now();
    let of_right = sign(&issue(&authority, "master"), &right(now + HOUR)).unwrap();
    let of_receipt = sign(&issue(&authority, "packages/p1"), &receipt(now + HOUR)).unwrap();
    type Change = fn(&mut v1::Statement, &v1::Statement);
    let table: &[(&str, Change, Result<(), &str>)] = &[
        ("nothing", |_, _| {}, Ok(())),
        ("the payload", |this, _| this.payload[3] ^= 1, Err("signature")),
        ("the payload's end", |this, _| this.payload.push(0), Err("signature")),
        ("the signature", |this, _| this.signature[20] ^= 1, Err("signature")),
        ("its signature", |this, other| this.signature = other.signature.clone(), Err("signature")),
        (
            "its certificate",
            |this, other| this.certificate = other.certificate.clone(),
            Err("signer"),
        ),
        ("a byte of the certificate", |this, _| this.certificate[200] ^= 1, Err("certificate")),
        ("no certificate", |this, _| this.certificate.clear(), Err("malformed")),
        ("no signature", |this, _| this.signature.clear(), Err("malformed")),
        (
            "a long payload",
            |this, _| this.payload.resize(MAX_PAYLOAD_BYTES + 1, 0),
            Err("malformed"),
        ),
        ("a long certificate", |this, _| this.certificate.resize(5_000, 0), Err("malformed")),
        ("no payload", |this, _| this.payload.clear(), Err("malformed")),
    ];
    for (what, change, expected) in table {
        let mut changed = of_right.clone();
        change(&mut changed, &of_receipt);
        assert_eq!(outcome::<v1::Right>(&verifier, &changed, now), *expected, "{what}");
    }
    assert_eq!(outcome::<v1::Right>(&verifier, &of_receipt, now), Err("signer"));
    assert_eq!(outcome::<v1::Receipt>(&verifier, &of_right, now), Err("signer"));
    let second = Duration::from_secs(1);
    for (at, expected) in [
        (now + HOUR - second, Ok(())),
        (now + HOUR + second, Err("certificate")),
        (now + 48 * HOUR, Err("certificate")),
        (now - 48 * HOUR, Err("certificate")),
    ] {
        let found = outcome::<v1::Right>(&verifier, &of_right, at);
        assert_eq!(found, expected);
    }
    let ended = sign(&issue(&authority, "master"), &right(now - second)).unwrap();
    assert_eq!(outcome::<v1::Right>(&verifier, &ended, now), Err("ended"));
    let never = v1::Right { until: u64::MAX, ..right(now) };
    let never = sign(&issue(&authority, "master"), &never).unwrap();
    assert_eq!(outcome::<v1::Right>(&verifier, &never, now), Ok(()));
}

/// Signs like a program that does not care about roles.
fn forged(credentials: &Credentials, by: &Credentials, now: SystemTime) -> v1::Statement {
    let mut statement = sign(by, &right(now + HOUR)).unwrap();
    let der = pem(credentials.certificate_pem());
    statement.certificate = der;
    statement
}

fn pem(text: &str) -> Vec<u8> {
    use rustls::pki_types::CertificateDer;
    use rustls::pki_types::pem::PemObject as _;
    CertificateDer::from_pem_slice(text.as_bytes()).unwrap().to_vec()
}

#[test]
fn only_the_right_role_of_this_cell_is_accepted() {
    let ((ours, _dir), (theirs, _other)) = (authority(), authority());
    let verifier = Verifier::new(ours.ca_pem()).unwrap();
    let now = SystemTime::now();
    let master = issue(&ours, "master");
    for who in ["user/ana", "borglet/m1", "scheduler/main", "packages/p1", "join/master/2"] {
        let statement = forged(&issue(&ours, who), &master, now);
        assert_eq!(outcome::<v1::Right>(&verifier, &statement, now), Err("signer"), "{who}");
    }
    let foreign = sign(&issue(&theirs, "master"), &right(now + HOUR)).unwrap();
    assert_eq!(outcome::<v1::Right>(&verifier, &foreign, now), Err("certificate"));
    let other_key = forged(&issue(&ours, "master"), &master, now);
    assert_eq!(outcome::<v1::Right>(&verifier, &other_key, now), Err("signature"));
    // The authority's own certificate names no master.
    let statement = v1::Statement { certificate: pem(ours.ca_pem()), ..foreign };
    assert_eq!(outcome::<v1::Right>(&verifier, &statement, now), Err("certificate"));
}
