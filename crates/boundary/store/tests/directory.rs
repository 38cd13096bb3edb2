//! The data directory: its layout, modes, version and lock.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use store::{DataDirectory, Error};

const HELD: &str = "STORE_TEST_HOLD_DIRECTORY";

#[test]
fn a_new_directory_is_private_and_complete() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("data");
    let made = DataDirectory::create(&path).unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    for below in [
        made.path().to_owned(),
        made.log(),
        made.checkpoints(),
        made.events(),
        made.tls(),
        made.tasks(),
        made.packages(),
    ] {
        assert_eq!(mode(&below), 0o700, "{}", below.display());
    }
    drop(made);
    assert!(matches!(DataDirectory::create(&path), Err(Error::AlreadyExists { .. })));

    // Modes that became too open are made private again, missing directories are created.
    fs::set_permissions(path.join("tls"), fs::Permissions::from_mode(0o755)).unwrap();
    fs::remove_dir(path.join("events")).unwrap();
    fs::write(path.join("checkpoints/x.checkpoint.tmp"), b"torn").unwrap();
    let opened = DataDirectory::open_or_create(&path).unwrap();
    assert_eq!(mode(&opened.tls()), 0o700);
    assert!(opened.events().is_dir());
    assert_eq!(fs::read_dir(opened.checkpoints()).unwrap().count(), 0);
}

#[test]
fn an_interrupted_creation_can_be_repeated() {
    let dir = tempfile::tempdir().unwrap();
    drop(DataDirectory::create(dir.path()).unwrap());
    fs::rename(dir.path().join("format"), dir.path().join("format.tmp")).unwrap();
    assert!(matches!(DataDirectory::open(dir.path()), Err(Error::NotADataDirectory { .. })));
    DataDirectory::create(dir.path()).unwrap();
}

#[test]
fn a_path_that_is_no_data_directory_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("thesis.tex"), b"").unwrap();
    for result in [DataDirectory::create(dir.path()), DataDirectory::open(dir.path())] {
        assert!(matches!(result, Err(Error::NotADataDirectory { .. })), "{result:?}");
    }
    let file = dir.path().join("thesis.tex");
    assert!(matches!(DataDirectory::create(&file), Err(Error::NotADataDirectory { .. })));

    let path = dir.path().join("data");
    drop(DataDirectory::create(&path).unwrap());
    fs::write(path.join("format"), "something else").unwrap();
    assert!(matches!(DataDirectory::open(&path), Err(Error::NotADataDirectory { .. })));
}

#[test]
fn a_newer_format_is_refused_with_what_to_do() {
    let dir = tempfile::tempdir().unwrap();
    drop(DataDirectory::create(dir.path()).unwrap());
    fs::write(dir.path().join("format"), "bourg data directory, format 7\n").unwrap();
    let error = DataDirectory::open(dir.path()).unwrap_err();
    assert!(matches!(error, Error::NewerFormat { found: 7, known: 1, .. }), "{error}");
    assert!(error.to_string().contains("run the newer program"), "{error}");
}

#[test]
fn a_second_holder_is_refused_and_told_who_holds_it() {
    let dir = tempfile::tempdir().unwrap();
    drop(DataDirectory::create(dir.path()).unwrap());
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "a_second_process_holds_the_given_directory", "--nocapture"])
        .env(HELD, dir.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().contains("holding")), "the child does not hold it");

    let error = DataDirectory::open(dir.path()).unwrap_err();
    let Error::Locked { pid, .. } = &error else { panic!("{error}") };
    assert_eq!(*pid, Some(child.id()));
    assert!(error.to_string().contains(&format!("process {}", child.id())), "{error}");

    // However the holder ends, the lock is released.
    child.kill().unwrap();
    child.wait().unwrap();
    let held = DataDirectory::open(dir.path()).unwrap();

    // The same process is no exception.
    let error = DataDirectory::open(dir.path()).unwrap_err();
    assert!(error.to_string().contains(&format!("process {}", std::process::id())), "{error}");
    drop(held);
    DataDirectory::open(dir.path()).unwrap();
}

/// The other process of the test above; does nothing on its own.
#[test]
fn a_second_process_holds_the_given_directory() {
    let Some(path) = std::env::var_os(HELD) else { return };
    let _held = DataDirectory::open(path).unwrap();
    println!("holding");
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).unwrap();
}

/// Copies a directory with everything that `cp` can preserve.
fn copy(from: &Path, to: &Path) {
    let copied = Command::new("cp").arg("-a").arg(from).arg(to).status().unwrap();
    assert!(copied.success());
}

#[test]
fn a_copy_is_told_from_what_it_is_a_copy_of() {
    let dir = tempfile::tempdir().unwrap();
    let of = |name: &str| dir.path().join(name);
    let doubt = |name: &str| {
        let opened = DataDirectory::open(of(name)).unwrap();
        (opened.id(), opened.doubt().map(ToOwned::to_owned))
    };
    let made = DataDirectory::create(of("data")).unwrap();
    made.log_begins().unwrap().note().unwrap();
    let id = made.id();
    drop(made);
    assert!(id > 0 && DataDirectory::open(of("data")).unwrap().log_begun());
    let copied = Some("it was copied or restored from a copy since it was last used".to_owned());

    copy(&of("data"), &of("copy"));
    assert_eq!(doubt("data"), (id, None));
    assert_eq!(doubt("copy"), (id, copied.clone()));
    assert_eq!(doubt("copy"), (id, copied.clone()), "and stays so");

    // A renamed directory keeps its identity.
    fs::rename(of("data"), of("elsewhere")).unwrap();
    assert_eq!(doubt("elsewhere"), (id, None));

    // Restored from a copy.
    fs::rename(of("copy"), of("data")).unwrap();
    assert_eq!(doubt("data"), (id, copied.clone()));
    let mut opened = DataDirectory::open(of("data")).unwrap();
    assert!(opened.log_begun() && opened.log_begins().is_none());
    opened.renew_id().unwrap();
    let renewed = opened.id();
    drop(opened);
    assert!(renewed != id && renewed > 0);
    assert_eq!(doubt("data"), (renewed, None));

    // Only the log is restored from a copy.
    copy(&of("data/log"), &of("log"));
    fs::remove_dir_all(of("data/log")).unwrap();
    fs::rename(of("log"), of("data/log")).unwrap();
    assert_eq!(doubt("data"), (renewed, copied));
}

#[test]
fn an_emptied_directory_is_another_one() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("data");
    let first = DataDirectory::create(&path).unwrap().id();
    fs::remove_dir_all(&path).unwrap();
    let made = DataDirectory::open_or_create(&path).unwrap();
    assert!(made.id() != first && !made.log_begun() && made.doubt().is_none());
}

#[test]
fn a_missing_directory_id_is_recreated_and_a_damaged_one_is_doubted() {
    let dir = tempfile::tempdir().unwrap();
    drop(DataDirectory::create(dir.path()).unwrap());
    let file = dir.path().join("directory-id");
    fs::remove_file(&file).unwrap();
    let id = DataDirectory::open(dir.path()).unwrap().id();
    assert!(id > 0);
    assert_eq!(DataDirectory::open(dir.path()).unwrap().id(), id);
    for garbage in [&b""[..], b"directory 1\n", b"\xff\xff"] {
        fs::write(&file, garbage).unwrap();
        let opened = DataDirectory::open(dir.path()).unwrap();
        assert_eq!((opened.id(), opened.doubt()), (0, Some("its file directory-id is damaged")));
    }
}
