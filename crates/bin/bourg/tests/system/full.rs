//! Tasks that fill their machine's disk, with bytes or with files: they are stopped for it, and
//! nobody else is affected.

use std::fs::File;
use std::path::Path;

use nix::sys::statvfs::statvfs;

use crate::cell::{Cell, Role};
use crate::disk::{SmallDisk, program_mib};
use crate::eventually::{eventually, until};
use crate::faults::volume::Volume;
use crate::terminal::Terminal;

/// A job in the free band with 1 MiB of disk.
fn job(cell: &Cell, name: &str, script: &str) {
    cell.write(
        &format!("{name}.bcl"),
        format!(
            "(import 'borg.libsonnet').batch('{name}', cmd=['sh', '-c', |||
               {script}
             |||]) {{ priority: 'free', cpu: 0.2, ram: '400 MiB', disk: '1 MiB',
                      restart: {{ delay: '2s' }} }}"
        ),
    );
    cell.ok(&format!("bourg run --detach {name}.bcl"));
}

/// Creates empty files forever.
const FILES: &str = "i=0; while :; do printf '' > f$i; i=$((i+1)); done 2>/dev/null";
/// Writes bytes forever, as fast as possible.
const BYTES: &str = "echo begins; while :; do cat /dev/zero >> f; sleep 0.02; done 2>/dev/null";
/// The same to a deleted file.
const HIDDEN: &str = "exec 3> f; rm f; while :; do cat /dev/zero >&3; sleep 0.02; done 2>/dev/null";

fn free(disk: &Path) -> (u64, u64) {
    let found = statvfs(disk).expect("it is mounted");
    (found.blocks_available() * found.fragment_size(), found.files_available())
}

/// Runs a task that fills the disk; it is stopped with an error that contains `words`, and no other
/// task is.
fn is_ended_for_it(cell: &Cell, disk: &Path, script: &str, words: &[&str]) {
    let borglet = eventually("the Borglet runs", || cell.pid(Role::Borglet));
    cell.ok("bourg run $EXAMPLES/hello.bcl");
    let others = cell.tasks("hello");
    let before = free(disk);
    job(cell, "filler", script);
    let said = eventually("the task that fills the disk is ended for it", || {
        let said = cell.types("bourg events filler").stdout;
        said.contains("ran out of").then_some(said)
    });
    for word in words {
        assert!(said.contains(word), "{word:?} is not in {said}");
    }
    let status = cell.status("filler");
    let tried = status["tasks"][0]["failures"].as_u64();
    assert!(tried >= Some(1), "it failed: {status:#}");
    for line in ["bourg why filler", "bourg status filler/0"] {
        until(&format!("{line} says so"), || cell.ok(line).contains("ran out of"));
    }
    // Others find room, also while it is restarted.
    cell.ok("sed s/hello/another/ $EXAMPLES/hello.bcl > another.bcl; bourg run another.bcl");
    cell.ok("bourg kill filler");
    cell.job("filler", "is dead", |job| job["state"] == "dead" || job["state"] == "killed");
    cell.ok("bourg kill another");
    until("what it had is free again", || {
        let (bytes, files) = free(disk);
        bytes + (8 << 20) > before.0 && files + 200 > before.1
    });
    assert_eq!(cell.tasks("hello"), others, "nobody else was ended");
    assert_eq!(cell.pid(Role::Borglet), Some(borglet), "the Borglet is the same: {}", cell.said());
    let events = cell.ok("bourg events");
    for event in ["UNREACHABLE", "DOWN"] {
        assert!(!events.contains(event), "{event} in {events}");
    }
    let events = cell.ok("bourg events hello");
    assert!(!events.contains("LOST") && !events.contains("FAIL"), "{events}");
}

#[test]
fn a_task_that_takes_all_inodes_is_ended_and_the_machine_continues() {
    let terminal = Terminal::new();
    let (image, at) = (terminal.path("image"), terminal.path("disk"));
    let volume = Volume::with_files(image, at, 232 + program_mib(), Some(6_000));
    let mut cell = Cell::start_in(terminal, &volume.path().join("cell"), &[]);
    is_ended_for_it(&cell, volume.path(), FILES, &["files", "its request of 1 MiB of disk"]);
    cell.stop();
}

#[test]
fn a_task_that_takes_all_bytes_is_ended_and_the_machine_continues() {
    let disk = SmallDisk::mount(282, "");
    let mut cell = Cell::start_in(Terminal::new(), &disk.path("cell"), &[]);
    is_ended_for_it(&cell, &disk.path(""), BYTES, &["MiB of disk, its request is 1 MiB"]);
    cell.stop();
}

#[test]
fn a_file_without_a_name_hides_nothing() {
    let disk = SmallDisk::mount(282, "");
    let mut cell = Cell::start_in(Terminal::new(), &disk.path("cell"), &[]);
    is_ended_for_it(&cell, &disk.path(""), HIDDEN, &["MiB of disk, its request is 1 MiB"]);
    cell.stop();
}

/// Fills a disk, with bytes and with files, without any task.
fn fill(disk: &Path) {
    let mut ballast = File::create(disk.join("ballast")).expect("a file");
    let mut size = 1 << 20;
    while size > 0 {
        if std::io::Write::write_all(&mut ballast, &vec![0; size]).is_err() {
            size /= 2;
        }
    }
    let mut number = 0;
    while File::create(disk.join(format!("ballast-{number}"))).is_ok() {
        number += 1;
    }
}

#[test]
fn a_borglet_started_on_a_full_disk_adopts_and_kills_tasks() {
    let disk = SmallDisk::mount(282, ",nr_inodes=20k");
    starts_on_a_full_disk(Terminal::new(), &disk.path(""));
}

/// After truncation, a file on such a disk uses less than what was reserved for it.
#[test]
fn a_borglet_started_on_a_full_disk_of_small_blocks_works() {
    let terminal = Terminal::new();
    let (image, at) = (terminal.path("image"), terminal.path("disk"));
    let volume = Volume::with_files(image, at, 232 + program_mib(), Some(6_000));
    let blocks = statvfs(volume.path()).expect("it is mounted").block_size();
    assert_eq!(blocks, 1_024, "the blocks of this disk are small");
    starts_on_a_full_disk(terminal, volume.path());
}

fn starts_on_a_full_disk(terminal: Terminal, disk: &Path) {
    let mut cell = Cell::start_in(terminal, &disk.join("cell"), &[]);
    cell.ok("bourg run $EXAMPLES/hello.bcl");
    let before = cell.tasks("hello");
    fill(disk);
    let borglet = eventually("the Borglet runs", || cell.pid(Role::Borglet));
    cell.kill(Role::Borglet);
    let borglet =
        eventually("another one runs", || cell.pid(Role::Borglet).filter(|pid| *pid != borglet));
    assert_eq!(cell.tasks("hello"), before, "they run on");
    cell.ok("bourg kill hello/0");
    cell.job("hello", "has one less", |job| job["counts"]["healthy"] == 2);
    until("it is dead", || cell.tasks("hello").len() == 2);
    // A task without room waits, and does not fail.
    cell.ok(
        "sed s/hello/another/ $EXAMPLES/hello.bcl > another.bcl; bourg run --detach another.bcl",
    );
    cell.job("another", "is told that there is no room", |job| {
        job["tasks"][0]["lastEndText"].as_str().is_some_and(|end| end.contains("no space"))
    });
    assert_eq!(cell.status("another")["tasks"][0]["failures"], 0);
    cell.ok(&format!("rm {}*", disk.join("ballast").display()));
    cell.is_healthy("another");
    assert_eq!(cell.pid(Role::Borglet), Some(borglet), "it is the same: {}", cell.said());
    cell.stop();
}

#[test]
fn disk_used_by_tasks_does_not_reduce_capacity_after_a_restart() {
    let disk = SmallDisk::mount(282, "");
    let mut cell = Cell::start_in(Terminal::new(), &disk.path("cell"), &[]);
    let has = || {
        let machines = cell.ok("bourg machines -o json");
        let machines: serde_json::Value = serde_json::from_str(&machines).expect("machines");
        let bytes = machines[0]["capacity"]["diskBytes"].as_str().map(str::parse::<u64>);
        bytes.expect("a capacity").expect("a number") >> 20
    };
    let before = has();
    job(&cell, "writer", "head -c 60m /dev/zero > f; echo written; exec sleep 1000");
    until("it has written", || cell.types("bourg logs writer/0").stdout == "written\n");
    let borglet = eventually("the Borglet runs", || cell.pid(Role::Borglet));
    cell.kill(Role::Borglet);
    until("another one runs", || cell.pid(Role::Borglet).is_some_and(|pid| pid != borglet));
    job(&cell, "next", "true");
    cell.job("next", "is finished", |job| job["state"] == "finished");
    let after = has();
    assert!(after + 20 > before, "{after} MiB for tasks after a restart, {before} MiB before");
    cell.stop();
}

#[test]
fn an_alloc_that_fills_the_disk_is_emptied_and_its_tasks_restart() {
    let disk = SmallDisk::mount(282, "");
    let mut cell = Cell::start_in(Terminal::new(), &disk.path("cell"), &[]);
    cell.write(
        "room.bcl",
        "local borg = import 'borg.libsonnet';
         local task(name, script) = borg.batch(name, cmd=['sh', '-c', script])
             { allocSet: 'room', priority: 'free', cpu: 0.1, ram: '400 MiB' };
         [
           borg.allocSet('room', allocs=1)
               { priority: 'free', cpu: 0.3, ram: '1 GiB', disk: '1 MiB' },
           task('filler', 'while :; do cat /dev/zero >> /alloc/f; sleep 0.1; done'),
           task('other', 'echo begins; touch /alloc/begun; exec sleep 1000'),
         ]",
    );
    cell.ok("bourg run --detach room.bcl");
    let said = eventually("its tasks are ended for it", || {
        let said = cell.types("bourg events other").stdout;
        said.contains("ran out of disk").then_some(said)
    });
    assert!(said.contains("its alloc used "), "{said}");
    assert!(said.contains("MiB of disk, its request is 1 MiB"), "{said}");
    cell.ok("bourg kill filler");
    let shared = || {
        let files = std::fs::read_dir(cell.directory().join("borglet/allocs/1-0-1/shared"));
        let names = files.into_iter().flatten().flatten().map(|file| file.file_name());
        names.map(|name| name.to_string_lossy().into_owned()).collect::<Vec<_>>()
    };
    until("the other one runs in an alloc that was emptied", || {
        let runs = cell.tasks("other").len() == 1;
        runs && cell.status("other")["tasks"][0]["failures"].as_u64() >= Some(1)
            && shared() == ["begun"]
    });
    until("there is room", || free(&disk.path("")).0 > 50 << 20);
    assert_eq!(cell.ok("bourg status room -o counts.healthy"), "1\n");
    assert!(!cell.ok("bourg events room").contains("FAIL"), "the alloc itself has not ended");
    cell.stop();
}
