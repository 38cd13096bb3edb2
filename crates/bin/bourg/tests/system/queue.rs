//! The batch queue of a cell with one machine: who waits, and who is next.

use rpc::{Authority, Identity};

use crate::access::client_directory;
use crate::cell::Cell;

/// A cell with a second user, ana, who may use half of its memory for batch jobs; and a tenth of its machine's memory
/// in MiB.
fn with_ana() -> (Cell, u64) {
    let cell = Cell::start();
    let authority = Authority::open(cell.path("cell/master/tls")).expect("the cell's authority");
    client_directory(&cell, "ana", &authority, &Identity::User("ana".to_owned()));
    cell.ok("bourg quota meter off");
    let ram = cell.ok("bourg machines -o capacity.ramBytes");
    let ram: u64 = ram.trim().parse().expect("bytes");
    (cell, (ram / 10) >> 20)
}

/// Writes a batch job of tasks that run until they are killed, each with so many tenths of the machine's memory.
fn write(cell: &Cell, name: &str, tasks: u32, mebibytes: u64, more: &str) {
    cell.write(
        &format!("{name}.bcl"),
        format!(
            "{{ name: '{name}', cmd: ['sleep', '1000'], notice: '1s', appclass: 'batch', priority: 110, tasks: {tasks}, \
             cpu: 0.01, ram: '{mebibytes} MiB', {more} }}"
        ),
    );
}

/// How many tasks of a job wait in the queue, and how many run.
fn counts(cell: &Cell, job: &str) -> (u64, u64) {
    let status = cell.status(job);
    let count = |of: &str| status["counts"][of].as_u64().unwrap_or_default();
    (count("queued"), count("running"))
}

#[track_caller]
fn has(cell: &Cell, job: &str, queued: u64, running: u64) {
    cell.job(job, "has its share", |_| counts(cell, job) == (queued, running));
}

#[test]
fn users_share_the_machine_and_the_rest_waits() {
    let (cell, tenth) = with_ana();
    write(&cell, "load", 20, 2 * tenth, "");
    cell.ok("bourg run load.bcl --detach");
    // Ten tenths, without what the machine keeps for itself.
    cell.job("load", "fills the machine", |_| counts(&cell, "load").1 >= 4);
    let (queued, running) = counts(&cell, "load");
    assert_eq!(queued + running, 20, "nothing is pending for long");

    // The user with the smaller share is next.
    cell.ok("bourg --cell ./ana run load.bcl --detach");
    assert_eq!(cell.ok("bourg status ana/load -o state"), "queued\n");
    // The job that did not fit first keeps its reservation.
    cell.ok("bourg kill load/0");
    has(&cell, "load", queued - 1, running);
    cell.ok("bourg kill load/1");
    has(&cell, "ana/load", 19, 1);
    cell.ok("bourg kill load/2");
    has(&cell, "ana/load", 18, 2);
    // As many each, or one more: twice the weight is twice the share.
    cell.ok("bourg cell weight ana ram=100");
    cell.ok("bourg kill load/3,4");
    cell.job("ana/load", "has its share", |_| counts(&cell, "ana/load").1 >= 3);

    // What is preempted waits again.
    cell.write(
        "web.bcl",
        format!(
            "{{ name: 'web', cmd: ['sleep', '1000'], notice: '1s', priority: 'production', cpu: 0.01, \
             ram: '{} MiB' }}",
            2 * tenth
        ),
    );
    cell.ok("bourg run web.bcl");
    let all = || [counts(&cell, "load"), counts(&cell, "ana/load")].map(|(_, running)| running);
    cell.job("web", "has made room", |_| all().into_iter().sum::<u64>() < running);
    cell.ok("bourg kill web load ana/load");
}

#[test]
fn a_gang_starts_whole_and_the_queue_can_be_switched_off() {
    let (cell, tenth) = with_ana();
    write(&cell, "first", 1, 5 * tenth, "expectedRuntime: '1h'");
    cell.ok("bourg run first.bcl");
    write(&cell, "gang", 4, 2 * tenth, "gang: true");
    cell.ok("bourg run gang.bcl --detach");
    has(&cell, "gang", 4, 0);
    let why = cell.ok("bourg why gang");
    assert!(why.contains("4 tasks queued"), "{why}");
    // It fits beside nothing, and does not delay the gang.
    write(&cell, "short", 1, tenth, "expectedRuntime: '1m'");
    cell.ok("bourg run short.bcl");
    has(&cell, "gang", 4, 0);
    cell.ok("bourg kill first short");
    has(&cell, "gang", 0, 4);
    cell.ok("bourg kill gang");

    write(&cell, "array", 5, tenth, "atOnce: 2, restart: { failures: 0 }");
    cell.ok("bourg run array.bcl --detach");
    has(&cell, "array", 3, 2);
    cell.ok("bourg kill array/0");
    has(&cell, "array", 2, 2);
    cell.ok("bourg kill array");

    let settings = cell.ok("bourg cell queue");
    assert!(settings.starts_with("queue: on\npoorest user: waited-for\n"), "{settings}");
    write(&cell, "many", 20, 2 * tenth, "");
    cell.ok("bourg run many.bcl --detach");
    cell.job("many", "waits", |_| counts(&cell, "many").0 > 10);
    cell.ok("bourg cell queue off");
    has_none_queued(&cell, "many");
    cell.ok("bourg kill many");
    for (code, line, expected) in [
        (2, "bourg cell queue --half-life 0s", "a half-life and an assumed runtime are from"),
        (2, "bourg cell queue --assumed-runtime 0s", "a half-life and an assumed runtime are from"),
        (3, "bourg --cell ./ana cell queue on", "ana may not set how the batch queue decides"),
    ] {
        let said = cell.fails(code, line);
        assert!(said.contains(expected), "{line}: {said}");
    }
    for weight in ["cpu=0", "cpu=-1", "cpu=1000001", "gpu=1"] {
        cell.fails(2, &format!("bourg cell weight ana {weight}"));
    }
}

#[track_caller]
fn has_none_queued(cell: &Cell, job: &str) {
    cell.job(job, "has nothing in the queue", |_| counts(cell, job).0 == 0);
}
