//! Tasks on a disk that has no room left, for bytes or for files.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

use crate::support::{SmallDisk, Tasks, executable, wait_readable};
use linux::record::How;
use linux::task::{Inspection, TaskDirectory};

/// Leaves no room for a byte, nor for a file.
fn fill(disk: &Path) {
    let mut ballast = File::create(disk.join("ballast")).unwrap();
    let mut size = 64 << 10;
    while size > 0 {
        if ballast.write_all(&vec![0; size]).is_err() {
            size /= 2;
        }
    }
    while File::create_new(disk.join(format!("file-{}", size))).is_ok() {
        size += 1;
    }
}

#[test]
fn how_a_task_ended_is_recorded_on_a_full_disk() {
    let tasks = Tasks::new();
    for options in ["size=512k,nr_inodes=1k", "size=2m,nr_inodes=40"] {
        let disk = SmallDisk::new(options);
        let directory = TaskDirectory::create(disk.0.path(), "full").unwrap();
        // What it says has no room either, nor has what the shim says of that.
        let script = "echo said; exec sleep 1000";
        let child = directory.start(&executable(), &tasks.script("full", script)).unwrap();
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
        assert_eq!(exit.how, How::Signalled { signal: 15 }, "{options}: {shim_log}");
        assert!(directory.discard_home().unwrap());
        directory.remove().unwrap();
    }
}

#[test]
fn a_task_that_finds_no_room_is_not_begun_and_it_is_said_why() {
    let tasks = Tasks::new();
    let launch = tasks.script("full", "true");
    for options in ["size=512k,nr_inodes=1k", "size=2m,nr_inodes=40"] {
        let disk = SmallDisk::new(options);
        let directory = TaskDirectory::create(disk.0.path(), "full").unwrap();
        fill(disk.0.path());
        let error = directory.start(&executable(), &launch).expect_err("there is no room");
        assert!(error.is_no_room(), "{options}: {error}");
        assert_eq!(directory.shim_pid().unwrap(), None);
        let error = TaskDirectory::create(disk.0.path(), "another").expect_err("there is no room");
        assert!(error.is_no_room(), "{options}: {error}");
        directory.remove().unwrap();
    }
}
