//! The authority and credentials on disk.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::{Duration, SystemTime};

use rpc::authority::AUTHORITY_VALIDITY;
use rpc::{Authority, Credentials, Error, Identity, NewKey, SigningRequest, Validity};
use support::{CELL, HOUR, authority, issue};

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn an_authority_is_made_once_and_opened_again() {
    let (made, dir) = authority();
    assert_eq!(mode(&dir.path().join("ca.key")), 0o600);
    assert_eq!(mode(&dir.path().join("ca.pem")), 0o644);
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);
    assert!(matches!(Authority::create(dir.path(), "dd"), Err(Error::AlreadyExists { .. })));

    let opened = Authority::open(dir.path()).unwrap();
    assert_eq!((opened.cell(), opened.ca_pem()), (CELL, made.ca_pem()));
    let credentials = issue(&opened, "user/u");
    assert_eq!(credentials.identity().to_string(), "user/u");
    assert_eq!(credentials.cell(), CELL);
    assert!(!format!("{opened:?}").contains("PRIVATE"));
    assert!(!format!("{credentials:?}").contains("PRIVATE"));
}

#[test]
fn a_copied_authority_is_the_same_one() {
    let (made, dir) = authority();
    let to = tempfile::tempdir().unwrap();
    let copied = Authority::copy(dir.path(), to.path()).unwrap();
    assert_eq!((copied.cell(), copied.ca_pem()), (CELL, made.ca_pem()));
    assert_eq!(mode(&to.path().join("ca.key")), 0o600);
    issue(&Authority::open(to.path()).unwrap(), "user/u");
    let again = Authority::copy(dir.path(), to.path());
    assert!(matches!(again, Err(Error::AlreadyExists { .. })));
}

#[test]
fn an_interrupted_creation_can_be_repeated() {
    let (_, dir) = authority();
    fs::remove_file(dir.path().join("ca.pem")).unwrap();
    Authority::create(dir.path(), CELL).unwrap();
    Authority::open(dir.path()).unwrap();
}

#[test]
fn an_authority_that_is_not_whole_or_not_secret_is_refused() {
    let (_, dir) = authority();
    let (_, other) = authority();
    let key = dir.path().join("ca.key");
    fs::set_permissions(&key, Permissions::from_mode(0o640)).unwrap();
    let error = Authority::open(dir.path()).unwrap_err();
    assert!(matches!(error, Error::ExposedKey { mode: 0o640, .. }), "{error}");
    assert!(error.to_string().contains("chmod 600"), "{error}");

    fs::copy(other.path().join("ca.key"), &key).unwrap();
    fs::set_permissions(&key, Permissions::from_mode(0o600)).unwrap();
    assert!(matches!(Authority::open(dir.path()), Err(Error::KeyMismatch { .. })));
    fs::write(&key, "-----BEGIN NOTHING-----").unwrap();
    assert!(matches!(Authority::open(dir.path()), Err(Error::BadCertificate { .. })));
    fs::remove_file(&key).unwrap();
    assert!(matches!(Authority::open(dir.path()), Err(Error::Io { .. })));
    assert!(matches!(Authority::create(other.path(), "Not A Cell"), Err(Error::BadCell { .. })));
}

#[test]
fn credentials_come_back_from_their_files() {
    let (authority, _ca) = authority();
    let dir = tempfile::tempdir().unwrap();
    let written = issue(&authority, "borglet/m1");
    // A leftover file must not lead to wider permissions.
    fs::write(dir.path().join("borglet.next.key.tmp"), "").unwrap();
    fs::set_permissions(dir.path().join("borglet.next.key.tmp"), Permissions::from_mode(0o666))
        .unwrap();
    written.write(dir.path(), "borglet").unwrap();
    assert_eq!(mode(&dir.path().join("borglet.key")), 0o600);
    assert_eq!(mode(&dir.path().join("borglet.pem")), 0o644);

    let read = Credentials::read(dir.path(), "borglet").unwrap();
    assert_eq!(read.identity(), &Identity::Borglet("m1".into()));
    assert_eq!(read.key_pem(), written.key_pem());
    assert_eq!(read.ca_pem(), authority.ca_pem());
    assert!(read.expires() > SystemTime::now() + HOUR - Duration::from_secs(60));

    // A renewal replaces all three files.
    issue(&authority, "borglet/m1").write(dir.path(), "borglet").unwrap();
    let renewed = Credentials::read(dir.path(), "borglet").unwrap();
    assert_ne!(renewed.key_pem(), written.key_pem());
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 3);

    // A partial update by another program is detected.
    fs::write(dir.path().join("borglet.pem"), written.certificate_pem()).unwrap();
    let error = Credentials::read(dir.path(), "borglet").unwrap_err();
    assert!(matches!(error, Error::KeyMismatch { .. }), "{error}");
    fs::set_permissions(dir.path().join("borglet.key"), Permissions::from_mode(0o604)).unwrap();
    let error = Credentials::read(dir.path(), "borglet").unwrap_err();
    assert!(matches!(error, Error::ExposedKey { .. }), "{error}");
}

/// A crash between any two steps of a renewal leaves either the old credentials or the new.
#[test]
fn an_interrupted_renewal_leaves_the_old_or_the_new() {
    let (authority, _ca) = authority();
    let [old, new] = [(); 2].map(|()| issue(&authority, "borglet/m1"));
    let endings = ["ca.pem", "key", "pem"];
    let after = |written: usize, moved: usize| {
        let dir = tempfile::tempdir().unwrap();
        old.write(dir.path(), "borglet").unwrap();
        let elsewhere = tempfile::tempdir().unwrap();
        new.write(elsewhere.path(), "borglet").unwrap();
        for ending in &endings[..written] {
            let from = elsewhere.path().join(format!("borglet.{ending}"));
            fs::copy(from, dir.path().join(format!("borglet.next.{ending}"))).unwrap();
        }
        for ending in &endings[..moved] {
            let from = dir.path().join(format!("borglet.next.{ending}"));
            fs::rename(from, dir.path().join(format!("borglet.{ending}"))).unwrap();
        }
        dir
    };
    for (written, moved, is) in
        [(1, 0, &old), (2, 0, &old), (3, 0, &old), (3, 1, &old), (3, 2, &new), (3, 3, &new)]
    {
        let dir = after(written, moved);
        let read = Credentials::read(dir.path(), "borglet").unwrap();
        assert_eq!(read.key_pem(), is.key_pem(), "{written} were written, {moved} moved");
        // The next renewal succeeds, whatever was left.
        let next = issue(&authority, "borglet/m1");
        next.write(dir.path(), "borglet").unwrap();
        let read = Credentials::read(dir.path(), "borglet").unwrap();
        assert_eq!(read.key_pem(), next.key_pem());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 3);
    }
}

#[test]
fn credentials_are_due_when_a_third_of_their_time_is_left() {
    let (authority, _dir) = authority();
    let credentials = issue(&authority, "borglet/m1");
    let left = credentials.expires().duration_since(credentials.renewal()).unwrap();
    assert!((1_190..=1_210).contains(&left.as_secs()), "{left:?} of an hour");
    let long_ago = SystemTime::now() - 1_000 * HOUR;
    let validity = Validity { from: long_ago, until: SystemTime::now() + HOUR };
    let due = authority.issue(&Identity::Master, validity).unwrap();
    assert!(due.renewal() < SystemTime::now());
}

#[test]
fn a_key_is_made_once_and_kept_for_its_owner() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("joining.key");
    let digest = || {
        let request = NewKey::kept(&path).unwrap().request_pem().unwrap();
        SigningRequest::from_pem(&request).unwrap().key_digest()
    };
    let first = digest();
    assert_eq!(mode(&path), 0o600);
    assert_eq!(digest(), first);
    fs::remove_file(&path).unwrap();
    assert_ne!(digest(), first);
    fs::write(&path, "nothing").unwrap();
    assert!(matches!(NewKey::kept(&path), Err(Error::BadCertificate { .. })));
}

#[test]
fn an_authority_is_handed_over_whole() {
    let (made, _dir) = authority();
    let (_, other) = authority();
    let to = tempfile::tempdir().unwrap();
    let foreign = fs::read_to_string(other.path().join("ca.key")).unwrap();
    let refused = Authority::adopt(to.path(), made.ca_pem(), &foreign);
    assert!(matches!(refused, Err(Error::KeyMismatch { .. })), "{refused:?}");
    assert_eq!(fs::read_dir(to.path()).unwrap().count(), 0);
    Authority::adopt(to.path(), made.ca_pem(), &made.key_pem()).unwrap();
    assert_eq!(mode(&to.path().join("ca.key")), 0o600);
    assert_eq!(Authority::open(to.path()).unwrap().ca_pem(), made.ca_pem());
}

#[test]
fn the_authoritys_certificate_is_nobodys() {
    let (authority, dir) = authority();
    let key = fs::read_to_string(dir.path().join("ca.key")).unwrap();
    let ca = authority.ca_pem().to_owned();
    assert!(matches!(
        Credentials::from_pem(ca.clone(), key, ca),
        Err(Error::BadCertificate { .. })
    ));
}

#[test]
fn no_certificate_outlives_its_authority_or_is_empty() {
    let (authority, _dir) = authority();
    let user = Identity::User("u".into());
    let long = authority.issue(&user, Validity::lasting(Duration::MAX)).unwrap();
    assert!(long.expires() <= SystemTime::now() + AUTHORITY_VALIDITY);
    let now = SystemTime::now();
    let empty = authority.issue(&user, Validity { from: now + HOUR, until: now });
    assert!(matches!(empty, Err(Error::EmptyValidity { .. })), "{empty:?}");
    let bad = authority.issue(&Identity::User("a/b".into()), Validity::lasting(HOUR));
    assert!(matches!(bad, Err(Error::BadIdentity(_))), "{bad:?}");
}
