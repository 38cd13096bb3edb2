//! A full disk: nothing is lost, and the log continues when there is space again.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::fs::{self, File};
use std::io::Write as _;
use std::path::Path;
use std::time::Duration;

use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use store::checkpoint::{self, CheckpointWriter};
use store::events::{self, Cursor, Event, Events, Limit};
use store::log::{Log, Options, Recovered};
use store::retention::Retention;
use store::{DataDirectory, Error};
use support::{append, entries, entry};

/// Runs a test on a tmpfs of `bytes`, mounted in the test's thread only.
fn on_small_disk(bytes: u64, test: impl FnOnce(&Path) + Send) {
    let mount_point = tempfile::tempdir().unwrap();
    let path = mount_point.path();
    std::thread::scope(|scope| {
        let body = || {
            unshare(CloneFlags::CLONE_NEWNS).expect("this test mounts a tmpfs: run it as root");
            let nothing = None::<&str>;
            mount(nothing, "/", nothing, MsFlags::MS_REC | MsFlags::MS_PRIVATE, nothing).unwrap();
            let size = format!("size={bytes}");
            mount(Some("none"), path, Some("tmpfs"), MsFlags::empty(), Some(&*size)).unwrap();
            test(path);
        };
        scope.spawn(body).join().unwrap();
    });
}

fn fill(directory: &Path) {
    let mut file = File::create(directory.join("ballast")).unwrap();
    let block = [1; 4096];
    while file.write_all(&block).is_ok() {}
}

#[test]
fn appends_fail_at_a_full_segment_and_succeed_with_room_again() {
    on_small_disk(1 << 20, |path| {
        let options = Options { segment_bytes: 64 << 10, keep_bytes: 0 };
        let directory = path.join("log");
        fs::create_dir(&directory).unwrap();
        let (mut log, _) = Log::open(&directory, options).unwrap();
        append(&mut log, 1, 1..=1);
        fill(path);

        // The preallocated segment is the reserve.
        let mut index = 1;
        let (error, refused) = loop {
            let next = entry(index + 1, 1, &[7; 1000]);
            match log.append(&[next]) {
                Ok(()) => {
                    log.sync().unwrap();
                    index += 1;
                }
                Err(error) => break (error, log.end()),
            }
        };
        assert!(index > 55, "only {index} entries fitted");
        let Error::NoRoom { path: full, needed_bytes } = &error else { panic!("{error}") };
        assert!(full.starts_with(&directory), "{error}");
        assert_eq!(*needed_bytes, 64 << 10);
        assert!(error.is_no_room());

        // Again, still full: the same error, and nothing changed. What fits is appended.
        assert!(log.append(&[entry(index + 1, 1, &[7; 1000])]).unwrap_err().is_no_room());
        assert_eq!((log.end(), log.last_index()), (refused, Some(index)));
        assert_eq!(log.segments().count(), 1);
        log.append(&[entry(index + 1, 1, b"small")]).unwrap();
        log.sync().unwrap();
        index += 1;
        assert_eq!(Recovered::inspect(&directory).unwrap().last(), Some((index, 1)));

        fs::remove_file(path.join("ballast")).unwrap();
        log.append(&[entry(index + 1, 1, &[7; 1000])]).unwrap();
        log.sync().unwrap();
        drop(log);
        let (log, recovered) = Log::open(&directory, options).unwrap();
        assert_eq!(recovered.last(), Some((index + 1, 1)));
        assert_eq!(recovered.entries(), index + 1);
        assert_eq!(log.segments().count(), 2);
    });
}

#[test]
fn cutting_the_log_needs_no_room() {
    on_small_disk(1 << 20, |path| {
        let directory = path.join("log");
        fs::create_dir(&directory).unwrap();
        let options = Options { segment_bytes: 64 << 10, keep_bytes: 0 };
        let (mut log, _) = Log::open(&directory, options).unwrap();
        for index in 1..=200 {
            log.append(&[entry(index, 1, &[7; 1000])]).unwrap();
        }
        fill(path);
        assert!(log.truncate_prefix(150).unwrap() > 0);
        for index in 201..=300 {
            log.append(&[entry(index, 1, &[7; 1000])]).unwrap();
        }
        log.sync().unwrap();
    });
}

#[test]
fn events_wait_for_room_and_come_once() {
    on_small_disk(1 << 20, |path| {
        let directory = path.join("events");
        fs::create_dir(&directory).unwrap();
        let options = events::Options { segment_bytes: 64 << 10, bytes_max: u64::MAX };
        let (mut events, _) = Events::open(&directory, options).unwrap();
        let payload = [7; 1000];
        let event = |index| Event { index, sub: 0, time_us: index, payload: &payload };
        let batch: Vec<_> = (1..=300).map(event).collect();
        events.append(&batch[..1]).unwrap();
        fill(path);
        let error = events.append(&batch).unwrap_err();
        assert!(error.is_no_room(), "{error}");
        let last = events.last().unwrap().index;
        assert!((56..300).contains(&last), "what fits is there, up to {last}");
        assert!(events.append(&batch).unwrap_err().is_no_room());
        events.sync(last).unwrap();

        // Retention frees usable space.
        fs::remove_file(path.join("ballast")).unwrap();
        let appended = events.append(&batch).unwrap();
        assert_eq!(u64::try_from(appended).unwrap(), 300 - last);
        fill(path);
        let retention = Retention::new(128 << 10, Duration::MAX);
        assert!(events.retain(&retention, 0).unwrap() > 0);
        let more: Vec<_> = (301..=350).map(event).collect();
        assert_eq!(events.append(&more).unwrap(), 50);
        let mut expected = events.reader().oldest().unwrap().unwrap().index + 1;
        let mut reader = events.reader();
        let from = Cursor::at(expected);
        reader
            .read(from, Limit::NONE, |event| {
                assert_eq!(event.index, expected);
                expected += 1;
                Ok::<_, Error>(())
            })
            .unwrap();
        assert_eq!(expected, 351);
    });
}

#[test]
fn a_checkpoint_that_finds_no_room_leaves_nothing_behind() {
    on_small_disk(1 << 20, |path| {
        let mut writer = CheckpointWriter::create(path, 1, 1).unwrap();
        writer.section(1, &[3; 1000]).unwrap();
        writer.finish().unwrap();
        fill(path);
        let failed = CheckpointWriter::create(path, 2, 1).and_then(|mut writer| {
            writer.section(1, &vec![3; 2 << 20])?;
            writer.finish()
        });
        assert!(failed.unwrap_err().is_no_room());
        assert_eq!(checkpoint::list(path).unwrap().len(), 1);
        assert_eq!(fs::read_dir(path).unwrap().count(), 2);
    });
}

#[test]
fn a_full_disk_does_not_keep_a_replica_from_opening() {
    on_small_disk(1 << 20, |path| {
        let data = path.join("data");
        let directory = DataDirectory::create(&data).unwrap();
        let (mut log, _) = Log::open(directory.log(), support::SMALL).unwrap();
        append(&mut log, 1, 1..=5);
        drop((log, directory));
        fill(path);
        let directory = DataDirectory::open(&data).unwrap();
        let (_, recovered) = Log::open(directory.log(), support::SMALL).unwrap();
        assert_eq!(entries(&recovered).len(), 5);
    });
}
