//! Layers that are unpacked by who is not root: a user, and root of a user namespace.
//!
//! Root drops its privileges: each test runs itself again as a user without any.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;
use std::process::{Command, Stdio};

use nix::mount::{MsFlags, mount};
use package::unpack::needs_userxattr;
use package::{EntryKind, Form, MemoryChunks, TreeEntry};
use support::{directory, entry, file, layer, unpack_into, whiteout};

mod support;

/// The user who unpacks.
const CALLER: &str = "61237";
/// Says to a test that it is the one that has no privileges.
const DROPPED: &str = "PACKAGE_TEST_DROPPED";

/// Runs the body of the test `name` as a user who is not root, behind other programs.
fn unprivileged(name: &str, behind: &[&str], body: impl FnOnce()) {
    if std::env::var_os(DROPPED).is_some() {
        return body();
    }
    // A copy, because the user may not be able to read the build directory.
    let base = tempfile::tempdir().unwrap();
    fs::set_permissions(base.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let test = base.path().join("test");
    fs::copy(std::env::current_exe().unwrap(), &test).unwrap();
    let output = Command::new("setpriv")
        .args(["--reuid", CALLER, "--regid", CALLER, "--clear-groups"])
        .args(behind)
        .arg(test)
        .args(["--exact", name, "--nocapture", "--test-threads=1"])
        .env(DROPPED, "1")
        .current_dir("/")
        .stdin(Stdio::null())
        .output()
        .expect("setpriv, of util-linux");
    let said = String::from_utf8_lossy(&output.stdout);
    let complained = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "as uid {CALLER}:\n{said}\n{complained}");
    assert!(said.contains("1 passed"), "{name} is not the name of this test: {said}");
}

/// Entries with what only root may create.
fn entries(chunks: &mut MemoryChunks) -> Vec<TreeEntry> {
    let mut entries = vec![
        entry("disk", EntryKind::BlockDevice { major: 8, minor: 0 }),
        entry("null", EntryKind::CharDevice { major: 1, minor: 3 }),
        entry("opaque", EntryKind::Directory { opaque: true }),
        file("opaque/new", "new", chunks),
        entry("pipe", EntryKind::Fifo),
        whiteout("removed"),
        file("tool", "tool", chunks),
    ];
    for (entry, uid) in entries.iter_mut().zip(0..) {
        if entry.kind != EntryKind::Whiteout {
            (entry.attributes.uid, entry.attributes.gid) = (uid, 1000);
        }
    }
    let capability = b"\x01\0\0\x02\0\x04\0\0\0\0\0\0\0\0\0\0\0\0\0\0";
    let xattrs = &mut entries.last_mut().unwrap().attributes.xattrs;
    xattrs.insert(b"security.capability".to_vec(), capability.to_vec());
    xattrs.insert(b"trusted.test".to_vec(), b"x".to_vec());
    xattrs.insert(b"user.test".to_vec(), b"x".to_vec());
    entries
}

/// Unpacks two layers in the form for overlayfs, and checks the upper one.
fn check(lower: &Path, upper: &Path) {
    let mut chunks = MemoryChunks::new();
    let old = [
        directory("opaque"),
        file("opaque/old", "old", &mut chunks),
        file("removed", "old", &mut chunks),
    ];
    let old = layer(&old, &mut chunks);
    unpack_into(&old, &mut chunks, lower, Form::Overlay).unwrap();
    let entries = entries(&mut chunks);
    let new = layer(&entries, &mut chunks);
    // The second time, everything is replaced.
    for _ in 0..2 {
        let unpacked = unpack_into(&new, &mut chunks, upper, Form::Overlay).unwrap();
        assert_eq!(unpacked.entries, entries.len() as u64);
    }
    assert!(needs_userxattr());
    let mut names: Vec<_> =
        fs::read_dir(upper).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["opaque", "pipe", "removed", "tool"]);
    assert_eq!(fs::symlink_metadata(upper.join("removed")).unwrap().rdev(), 0);
    for path in ["opaque", "opaque/new", "pipe", "tool"] {
        let found = fs::symlink_metadata(upper.join(path)).unwrap();
        let own = (nix::unistd::geteuid().as_raw(), nix::unistd::getegid().as_raw());
        assert_eq!((found.uid(), found.gid()), own, "{path}");
    }
    let mut value = [0; 8];
    let length = rustix::fs::getxattr(upper.join("opaque"), "user.overlay.opaque", &mut value);
    assert_eq!(&value[..length.unwrap()], b"y");
    rustix::fs::getxattr(upper.join("tool"), "user.test", &mut value).unwrap();
}

#[test]
fn a_user_unpacks_what_it_may_create() {
    unprivileged("a_user_unpacks_what_it_may_create", &[], || {
        let (lower, upper) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        check(lower.path(), upper.path());
    });
}

#[test]
fn overlayfs_of_a_user_namespace_reads_what_its_root_unpacks() {
    let name = "overlayfs_of_a_user_namespace_reads_what_its_root_unpacks";
    let behind = ["unshare", "--user", "--map-root-user", "--mount"];
    unprivileged(name, &behind, || {
        let (lower, upper) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        check(lower.path(), upper.path());
        let merged = tempfile::tempdir().unwrap();
        let (kind, flags) = (Some("overlay"), MsFlags::MS_RDONLY);
        let (lower, upper) = (lower.path().display(), upper.path().display());
        let options = format!("lowerdir={upper}:{lower},userxattr");
        mount(kind, merged.path(), kind, flags, Some(&options[..])).unwrap();
        // Nothing of the lower layer.
        assert_eq!(fs::read_dir(merged.path().join("opaque")).unwrap().count(), 1);
        assert!(!merged.path().join("removed").exists());
        assert!(File::open(merged.path().join("tool")).is_ok());
        nix::mount::umount(merged.path()).unwrap();
    });
}
