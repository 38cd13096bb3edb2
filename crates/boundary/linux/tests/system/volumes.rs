//! Volumes: directories of the machine that outlive tasks.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::Path;

use linux::logs::Stream;
use linux::record::{Bind, ExitReason, Launch};

use nix::sys::statfs::{EXT4_SUPER_MAGIC, XFS_SUPER_MAGIC, statfs};

use crate::support::{Tasks, UID};

/// A launch record of a script that has `source` at `/data`, and runs as this user.
fn script(tasks: &Tasks, name: &str, uid: u32, source: &Path, text: &str) -> Launch {
    let mut launch = tasks.script(name, text);
    (launch.uid, launch.gid) = (uid, uid);
    let (source, target) = (source.to_owned(), "/data".into());
    launch.jail.volumes = vec![Bind { source, target, writable: true }];
    launch
}

/// Whether files below a directory can be shown with other owners: not on a tmpfs before Linux 6.3, where the start
/// says so.
fn owners_can_be_mapped(tasks: &Tasks, directory: &Path) -> bool {
    let place = tempfile::tempdir_in(directory).unwrap();
    chown(place.path(), Some(12_345), Some(12_345)).unwrap();
    let task = tasks.start("mapped", &script(tasks, "mapped", UID, place.path(), "true"));
    match task.wait_end().reason {
        ExitReason::Exited { code: 0 } => true,
        ExitReason::NotSetUp { reason } => {
            assert!(reason.contains("cannot be shown as the task's"), "{reason}");
            let kind = statfs(directory).unwrap().filesystem_type();
            assert!(![EXT4_SUPER_MAGIC, XFS_SUPER_MAGIC].contains(&kind), "{reason}");
            false
        }
        other => panic!("{other:?}"),
    }
}

fn said(tasks: &Tasks, name: &str, launch: &Launch) -> String {
    let task = tasks.start(name, launch);
    let reason = task.wait_end().reason;
    assert_eq!(reason, ExitReason::Exited { code: 0 }, "{}", task.log(Stream::Stderr));
    task.log(Stream::Stdout)
}

#[test]
fn files_belong_to_each_task_and_on_disk_to_one_user() {
    let tasks = Tasks::new();
    let directory = tempfile::tempdir().unwrap();
    if !owners_can_be_mapped(&tasks, directory.path()) {
        return;
    }
    let source = directory.path().join("data");
    fs::create_dir(&source).unwrap();
    // An empty directory of root is given to the first task.
    let first = script(&tasks, "first", UID, &source, "echo kept > /data/x; stat -c %u /data");
    assert_eq!(said(&tasks, "first", &first).trim(), UID.to_string());
    let on_disk = fs::metadata(source.join("x")).unwrap();
    assert_eq!((on_disk.uid(), on_disk.gid()), (UID, UID));
    assert_eq!(fs::metadata(&source).unwrap().permissions().mode() & 0o777, 0o700);
    // The next has another id, and owns the same files.
    let text = "cat /data/x; stat -c %u /data /data/x; echo more >> /data/x; touch /data/y";
    let next = script(&tasks, "next", UID + 1, &source, text);
    let (one, two) = (UID + 1, UID + 1);
    assert_eq!(said(&tasks, "next", &next), format!("kept\n{one}\n{two}\n"));
    let on_disk = fs::metadata(source.join("y")).unwrap();
    assert_eq!((on_disk.uid(), on_disk.gid()), (UID, UID));
    assert_eq!(fs::read_to_string(source.join("x")).unwrap(), "kept\nmore\n");
}

#[test]
fn a_volume_is_without_set_uid_programs_and_may_be_read_only() {
    let tasks = Tasks::new();
    let directory = tempfile::tempdir().unwrap();
    if !owners_can_be_mapped(&tasks, directory.path()) {
        return;
    }
    chown(directory.path(), Some(12_345), Some(12_345)).unwrap();
    let text = "grep ' /data ' /proc/self/mounts";
    let launch = script(&tasks, "flags", UID, directory.path(), text);
    let mounts = said(&tasks, "flags", &launch);
    assert!(mounts.contains("nosuid") && mounts.contains("nodev"), "{mounts}");
    let text = "touch /data/x 2>/dev/null || echo refused";
    let mut launch = script(&tasks, "reads", UID, directory.path(), text);
    launch.jail.volumes[0].writable = false;
    assert_eq!(said(&tasks, "reads", &launch), "refused\n");
}

#[test]
fn a_directory_that_is_no_volume_is_the_machines_fault() {
    let tasks = Tasks::new();
    let directory = tempfile::tempdir().unwrap();
    let of_root = directory.path().join("of-root");
    fs::create_dir_all(of_root.join("full")).unwrap();
    fs::write(directory.path().join("file"), "").unwrap();
    for (name, why) in [
        ("missing", "No such file or directory"),
        ("file", "is not a directory"),
        ("of-root", "belongs to root and is not empty"),
    ] {
        let launch = script(&tasks, name, UID, &directory.path().join(name), "true");
        let task = tasks.start(name, &launch);
        match task.wait_end().reason {
            ExitReason::NotSetUp { reason } => assert!(reason.contains(why), "{name}: {reason}"),
            other => panic!("{name}: {other:?}"),
        }
    }
}
