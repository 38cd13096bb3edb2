use model::{Level, Term};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use store::log::Options;

use replica::LogEntry;

use super::*;

/// A small disk, unmounted on drop.
struct SmallDisk(tempfile::TempDir);

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _busy = umount2(self.0.path(), MntFlags::MNT_DETACH);
    }
}

fn records(number: u64) -> LogTask {
    let data = vec![7; 500_000].into();
    let entry = LogEntry { term: Term(1), index: LogIndex(number), level: Level(1), data };
    LogTask::Persist(Persist { number, restart: None, entries: vec![entry], hard_state: None })
}

#[test]
fn a_log_on_a_full_disk_continues_once_a_checkpoint_frees_room() {
    let disk = SmallDisk(tempfile::tempdir().expect("a directory"));
    let (tmpfs, size) = (Some("tmpfs"), Some("size=4m"));
    mount(tmpfs, disk.0.path(), tmpfs, MsFlags::empty(), size).expect("root can mount");
    let options = Options { segment_bytes: 1 << 20, keep_bytes: 0 };
    let (log, _) = Log::open(disk.0.path(), options).expect("a log");
    let (to_core, mut from_log) = mpsc::channel(64);
    let (to_log, thread) = start(log, None, to_core, Arc::default()).expect("a thread");
    let mut says = |expected: &str| {
        let said = |message| match message {
            Message::Input(input) => format!("{input:?}") == expected,
            _ => false,
        };
        while !said(from_log.blocking_recv().expect("it goes on")) {}
    };
    // Two segments, whose sizes do not depend on the batch sizes.
    for number in 1..=6 {
        to_log.send(records(number)).expect("there is room in the queue");
        says(&format!("Persisted({number})"));
    }
    // There is no room for these until the task behind them is done.
    let waits = (7..=10).try_for_each(|number| to_log.send(records(number)));
    waits.expect("there is room in the queue");
    // Another replica should lead.
    says("Transfer(None)");
    let why = to_log.trouble().expect("it is known already");
    assert!(why.contains("no room"), "{why}");
    to_log.send(LogTask::Truncate(LogIndex(7))).expect("there is room in the queue");
    says("Persisted(10)");
    assert_eq!(to_log.trouble(), None);
    drop(to_log);
    thread.join().expect("it ends");
}

#[test]
fn a_send_to_a_full_log_queue_fails_at_once() {
    let (tasks, waiting) = sync_channel(1);
    let to_log = ToLog { tasks, trouble: Arc::default(), metrics: Arc::default() };
    to_log.send(records(1)).expect("there is room");
    let said = to_log.send(records(2)).expect_err("there is none").to_string();
    assert!(said.ends_with("writes of the log wait: the disk is too slow"), "{said}");
    waiting.recv().expect("the first is there");
    to_log.send(records(2)).expect("there is room again");
}
