//! Output of real tasks on disk: rotation, readers that follow, skip and resume, and a full disk.

use std::fs;
use std::time::{Duration, Instant};

use crate::support::{SmallDisk, Tasks, is_emulated, read_log, wait_until};
use linux::logs::{LogReader, Start, Stream};
use linux::record::{Rotation, Running};
use linux::task::Inspection;

/// Reads until `reader` is at the current end.
fn drain(reader: &mut LogReader) -> (String, u64) {
    let (mut text, mut lost) = (String::new(), 0);
    let mut buffer = [0; 1000];
    loop {
        let outcome = reader.read(&mut buffer).unwrap();
        lost += outcome.lost_bytes;
        if outcome.bytes == 0 {
            return (text, lost);
        }
        text.push_str(std::str::from_utf8(&buffer[..outcome.bytes]).unwrap());
    }
}

#[test]
fn files_rotate_and_a_reader_follows() {
    let tasks = Tasks::new();
    let mut launch = tasks.script(
        "rotate",
        "i=1000; while [ $i -lt 2500 ]; do echo line $i; i=$((i+1)); done
         while [ ! -e go ]; do sleep 0.02; done
         while [ $i -lt 9000 ]; do echo line $i; i=$((i+1)); done",
    );
    launch.log = Rotation { file_bytes_max: 4096, files_max: 6 };
    let task = tasks.start("rotate", &launch);
    task.wait_output("line 2499\n");
    let mut follower = LogReader::open(&task.log_dir(), Stream::Stdout, Start::Tail(2)).unwrap();
    assert_eq!(drain(&mut follower), ("line 2498\nline 2499\n".to_owned(), 0));
    let mut sleeper = LogReader::open(&task.log_dir(), Stream::Stdout, Start::Tail(1)).unwrap();
    let resume = sleeper.read(&mut [0; 5]).unwrap().next_position();
    fs::write(task.directory.path().join("home/go"), "").unwrap();
    let mut followed = String::new();
    let mut lost = 0;
    wait_until("the last line", || {
        let (text, more) = drain(&mut follower);
        followed.push_str(&text);
        lost += more;
        followed.ends_with("line 8999\n")
    });
    task.wait_end();
    assert_eq!(followed.len() as u64 + lost, 6500 * 10);

    let files = fs::read_dir(task.log_dir()).unwrap();
    let mut names: Vec<_> =
        files.map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
    names.sort_unstable();
    assert_eq!(names.len(), 2 * 6, "{names:?}");
    for name in &names {
        let bytes = fs::metadata(task.log_dir().join(name)).unwrap().len();
        assert!(bytes <= 4096, "{name}: {bytes}");
        let content = fs::read(task.log_dir().join(name)).unwrap();
        assert!(name.ends_with(".times") || content.ends_with(b"\n"), "{name} ends with a line");
    }
    // Output deleted before the slow reader reached it is reported as lost, and nothing else is
    // missing.
    let (text, lost) = drain(&mut sleeper);
    assert!(lost > 0);
    assert_eq!(text.len() as u64 + lost, 6500 * 10 + 5);
    assert!(text.ends_with("line 8999\n"));
    let again = LogReader::open(&task.log_dir(), Stream::Stdout, Start::Position(resume));
    let (text_again, lost_again) = drain(&mut again.unwrap());
    assert_eq!(text_again.len() as u64 + lost_again, 6500 * 10 + 5);
    assert!(text.ends_with(&text_again));
    let tail = read_log(&task.log_dir(), Stream::Stdout, Start::Tail(700));
    assert_eq!(tail.lines().count(), 700, "a tail spans files");
    assert!(tail.starts_with("line 8300\n"));
}

#[test]
fn reading_since_a_time_misses_nothing() {
    let tasks = Tasks::new();
    let task = tasks
        .run("since", "echo early; while [ ! -e go ]; do sleep 0.02; done; echo late; sleep 1000");
    task.wait_output("early");
    let mut buffer = [0; 100];
    let mut reader = LogReader::open(&task.log_dir(), Stream::Stdout, Start::Beginning).unwrap();
    let early = reader.read(&mut buffer).unwrap();
    assert_eq!((early.bytes, early.position), (6, 0));
    let now = || std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    wait_until("200 ms to pass", || now().as_micros() > u128::from(early.unix_us) + 200_000);
    fs::write(task.directory.path().join("home/go"), "").unwrap();
    task.wait_output("late");
    let late = reader.read(&mut buffer).unwrap();
    assert!(late.unix_us >= early.unix_us + 200_000, "{early:?} {late:?}");
    let since = |unix_us| read_log(&task.log_dir(), Stream::Stdout, Start::Since(unix_us));
    assert_eq!(since(late.unix_us), "late\n");
    assert_eq!(since(late.unix_us - 50_000), "late\n");
    assert_eq!(since(0), "early\nlate\n");
    assert_eq!(since(late.unix_us + 60_000_000), "");
}

#[test]
fn an_empty_log_is_not_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let starts = [Start::Beginning, Start::Tail(5), Start::Since(1), Start::Position(7)];
    for start in starts {
        assert_eq!(read_log(dir.path(), Stream::Stdout, start), "");
    }
    let error = LogReader::open(&dir.path().join("no"), Stream::Stdout, Start::Beginning);
    assert!(error.unwrap_err().to_string().starts_with("cannot read the logs in"));
}

#[test]
fn a_full_disk_never_blocks_the_task_and_the_gap_is_told() {
    let tasks = Tasks::new();
    let disk = SmallDisk::new("size=512k");
    let directory = linux::task::TaskDirectory::create(disk.0.path(), "full").unwrap();
    fs::write(disk.0.path().join("ballast"), vec![0; 200 << 10]).unwrap();
    let launch = tasks.script(
        "full",
        "head -c 2000000 /dev/zero | tr '\\0' x; echo; echo flooded >&2
         while [ ! -e /home/task/go ]; do sleep 0.02; done; echo after",
    );
    let child = directory.start(&tasks.shims, &launch).unwrap();
    // The ballast is deleted only after all output of the flood was read from the task.
    let flooded = || {
        let status = directory.path().join("logs");
        status.is_dir() && {
            let cgroup = directory.cgroup().unwrap().unwrap();
            let stopped = cgroup.usage().is_ok();
            stopped && sleeping(&directory)
        }
    };
    wait_until("the flood to pass", flooded);
    fs::remove_file(disk.0.path().join("ballast")).unwrap();
    fs::write(directory.path().join("home/go"), "").unwrap();
    crate::support::wait_readable(&child.shim);
    let output = read_log(&directory.path().join("logs"), Stream::Stdout, Start::Beginning);
    let marker = output.find("[bourg: ").expect("a marker line");
    let end = &output[marker..];
    assert!(end.contains("bytes of output were dropped because the disk was full]\n"), "{end}");
    assert!(end.ends_with("after\n"), "{end}");
    directory.remove().unwrap();
}

/// Whether the script has reached its waiting loop.
fn sleeping(directory: &linux::task::TaskDirectory) -> bool {
    let Ok(Inspection::Running(running)) = directory.inspect() else { return false };
    let children = format!("/proc/{0}/task/{0}/children", running.init_pid);
    let Ok(children) = fs::read_to_string(children) else { return false };
    children.split_ascii_whitespace().any(|task| {
        let grand = format!("/proc/{task}/task/{task}/children");
        let grand = fs::read_to_string(grand).unwrap_or_default();
        grand.split_ascii_whitespace().any(|pid| {
            let name = fs::read_to_string(format!("/proc/{pid}/comm"));
            name.is_ok_and(|name| name == "sleep\n")
        })
    })
}

/// A field of a process's `stat`, counted from 1.
fn stat(pid: i32, field: usize) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let (_, rest) = text.rsplit_once(") ").unwrap();
    rest.split(' ').nth(field - 3).unwrap().parse().unwrap()
}

#[test]
fn a_task_that_writes_endlessly_costs_the_machine_little() {
    const MEASURED: Duration = Duration::from_secs(8);
    // That machine is too slow for such a figure.
    if is_emulated() {
        return;
    }
    let tasks = Tasks::new();
    let mut launch =
        tasks.script("yes", "exec yes aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa");
    (launch.limits.cpu_milli, launch.limits.cpu_hard_cap) = (50, true);
    let task = tasks.start("yes", &launch);
    task.wait_ready();
    let Inspection::Running(Running { init_pid, .. }) = task.directory.inspect().unwrap() else {
        panic!("it does not run")
    };
    let shim = i32::try_from(stat(init_pid, 4)).unwrap();
    let begun = Instant::now();
    wait_until("it was measured", || begun.elapsed() >= MEASURED);
    let ticks = stat(shim, 14) + stat(shim, 15);
    // 200 ms at the start and a hundredth of a core; without a bound it is as much as its task uses.
    assert!(ticks <= 20 + 8 + 4, "{ticks} hundredths of a second in {:?}", begun.elapsed());
    let text = read_log(&task.log_dir(), Stream::Stdout, Start::Tail(1));
    assert!(text.starts_with("aaaa"), "{text}");
}
