//! Tasks on a full disk, without room for bytes or for files.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

use crate::support::{SmallDisk, Tasks, read_log, wait_readable, wait_until};
use linux::disk::{Disk, replace, unnamed};
use linux::logs::{Start, Stream};
use linux::record::ExitReason;
use linux::task::{Inspection, TaskDirectory};

/// Leaves no room for a byte or a file.
fn fill(disk: &Path) {
    let mut ballast = File::create(disk.join("ballast")).unwrap();
    let mut size = 64 << 10;
    while size > 0 {
        if ballast.write_all(&vec![0; size]).is_err() {
            size /= 2;
        }
    }
    let mut number = 0;
    while File::create_new(disk.join(format!("file-{number}"))).is_ok() {
        number += 1;
    }
}

#[test]
fn the_end_of_a_task_is_recorded_on_a_full_disk() {
    let tasks = Tasks::new();
    for options in ["size=512k,nr_inodes=1k", "size=2m,nr_inodes=40"] {
        let disk = SmallDisk::new(options);
        let directory = TaskDirectory::create(disk.0.path(), "full").unwrap();
        // Neither its output nor the shim's message about that has room.
        let script = "echo said; exec sleep 1000";
        let child = directory.start(&tasks.shims, &tasks.script("full", script)).unwrap();
        fill(disk.0.path());
        wait_readable(&child.ready);
        assert!(matches!(directory.inspect(), Ok(Inspection::Running(_))), "{options}");
        directory.terminate().unwrap();
        wait_readable(&child.shim);
        let shim_log = fs::read_to_string(directory.path().join("shim.log")).unwrap();
        let inspected = directory.inspect().unwrap();
        let Inspection::Ended(exit) = inspected else {
            panic!("{options}: {inspected:?} {shim_log}")
        };
        assert_eq!(exit.reason, ExitReason::Signalled { signal: 15 }, "{options}: {shim_log}");
        assert!(directory.discard_home().unwrap());
        directory.remove().unwrap();
    }
}

#[test]
fn a_task_without_room_is_not_started_and_says_why() {
    let tasks = Tasks::new();
    let launch = tasks.script("full", "true");
    for options in ["size=512k,nr_inodes=1k", "size=2m,nr_inodes=40"] {
        let disk = SmallDisk::new(options);
        let directory = TaskDirectory::create(disk.0.path(), "full").unwrap();
        fill(disk.0.path());
        let error = directory.start(&tasks.shims, &launch).expect_err("there is no room");
        assert!(error.is_no_room(), "{options}: {error}");
        assert_eq!(directory.shim_pid().unwrap(), None);
        let error = TaskDirectory::create(disk.0.path(), "another").expect_err("there is no room");
        assert!(error.is_no_room(), "{options}: {error}");
        directory.remove().unwrap();
    }
}

#[test]
fn a_file_is_replaced_on_a_full_disk_again_and_again() {
    for options in ["size=512k,nr_inodes=1k", "size=2m,nr_inodes=40"] {
        let disk = SmallDisk::new(options);
        let path = disk.0.path().join("stamp.json");
        replace(&path, b"the first").unwrap();
        fill(disk.0.path());
        for round in 0..20 {
            let content = "x".repeat(1 + round * 211);
            replace(&path, content.as_bytes()).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap().trim_end(), content, "{options}");
        }
        let error = replace(&disk.0.path().join("another"), b"x").expect_err("there is no room");
        assert!(error.is_no_room(), "{options}: {error}");
    }
}

#[test]
fn files_without_a_name_are_found_and_counted_once() {
    let tasks = Tasks::new();
    let disk = SmallDisk::new("size=8m,nr_inodes=1k");
    let directory = TaskDirectory::create(disk.0.path(), "open").unwrap();
    let script =
        "echo seen > seen; exec 3> hidden 4< seen 5< hidden; head -c 1000000 /dev/zero >&3;
                  rm hidden; echo up; exec sleep 1000";
    let child = directory.start(&tasks.shims, &tasks.script("open", script)).unwrap();
    let logs = directory.path().join("logs");
    wait_until("it has a file without a name", || {
        logs.is_dir() && read_log(&logs, Stream::Stdout, Start::Beginning) == "up\n"
    });
    let cgroup = directory.cgroup().unwrap().unwrap();
    let used = unnamed(&cgroup, disk.0.path()).unwrap();
    assert_eq!((used.files, used.more), (1, false));
    assert!((1_000_000..1_010_000).contains(&used.bytes), "{used:?}");
    let elsewhere = unnamed(&cgroup, Path::new("/")).unwrap();
    assert_eq!(elsewhere.files, 0, "of another disk");
    let free = Disk::of(disk.0.path()).unwrap();
    assert_eq!((free.bytes, free.files), (8 << 20, Some(1 << 10)));
    directory.kill().unwrap();
    wait_readable(&child.shim);
    assert_eq!(unnamed(&cgroup, disk.0.path()).unwrap().files, 0);
    assert!(Disk::of(disk.0.path()).unwrap().free_bytes > free.free_bytes + 900_000);
    directory.remove().unwrap();
}
