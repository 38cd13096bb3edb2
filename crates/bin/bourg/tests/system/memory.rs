//! A machine that runs out of memory: its tasks are evicted in order, and production stays.

use std::io::Write;
use std::process::{Child, Command, Stdio};

use linux::cgroup::{Hierarchy, Limits, TaskCgroup};
use serde_json::Value;

use crate::cell::{Cell, Role};
use crate::eventually::{eventually, until};
use crate::pages::{Of, metrics, value};

/// What a cell's processes read as `/proc/meminfo`, of which the content may change.
pub(crate) const MEMINFO: &str = "/proc/meminfo";

/// A machine with so much memory for tasks on a host that has so much available, in MiB.
pub(crate) fn meminfo(total: u64, available: u64) -> String {
    let kib = |mib: u64| mib * 1_024;
    format!(
        "MemTotal: {} kB\nMemFree: {} kB\nMemAvailable: {} kB\n",
        kib(total),
        kib(available),
        kib(available)
    )
}

fn start() -> Cell {
    Cell::start_with_file(MEMINFO, &meminfo(400, 8_000), &[])
}

/// Holds so much memory, in MiB, for ever.
fn holds(mib: u64) -> String {
    format!("(head -c {mib}M /dev/zero; exec sleep 100000) | exec tail -c {mib}M")
}

/// Holds more and more, 8 MiB each 100 ms, up to a maximum, each time that it is started.
fn grows(mib: u64) -> String {
    format!(
        "(for i in $(seq {}); do head -c 8M /dev/zero; sleep 0.1; done; exec sleep 100000) | exec tail -c {mib}M",
        mib / 8
    )
}

/// Runs a job of one task with a priority, a limit in MiB, and more fields.
fn runs(cell: &Cell, name: &str, priority: &str, ram: u64, script: &str, more: &str) {
    cell.write(
        &format!("{name}.bcl"),
        format!(
            "{{ name: '{name}', cmd: ['sh', '-c', '{script}'], priority: '{priority}', cpu: 0.1,
                ram: '{ram} MiB', restart: {{ delay: '1s' }}, {more} }}"
        ),
    );
    cell.ok(&format!("bourg run --detach {name}.bcl"));
    cell.is_healthy(name);
}

/// Waits until all tasks together use so much, in MiB.
pub(crate) fn use_together(cell: &Cell, mib: u64) {
    let hierarchy = Hierarchy::detect().expect("a hierarchy of cgroups");
    let all = TaskCgroup::open(&hierarchy, cell.cgroup()).expect("the cgroup of all tasks");
    until(&format!("tasks use {mib} MiB"), || {
        all.unreclaimable_bytes().is_ok_and(|used| used >= mib << 20)
    });
}

/// A program beside the tasks that uses memory of their part of the machine, and that the kernel spares.
struct Hog {
    group: TaskCgroup,
    program: Child,
}

impl Hog {
    fn start(cell: &Cell, mib: u64) -> Self {
        let hierarchy = Hierarchy::detect().expect("a hierarchy of cgroups");
        let limits = Limits {
            cpu_milli: 1_000,
            cpu_hard_cap: false,
            memory_bytes: u64::MAX,
            pids_max: 64,
            sharing: linux::cgroup::Sharing::default(),
        };
        let group = TaskCgroup::create(&hierarchy, &format!("{}/beside", cell.cgroup()), &limits);
        let group = group.expect("a cgroup");
        let script = format!("read go; echo -1000 > /proc/self/oom_score_adj; {}", holds(mib));
        let program = Command::new("sh").args(["-c", &script]).stdin(Stdio::piped()).spawn();
        let mut program = program.expect("a shell");
        let pid = i32::try_from(program.id()).expect("a process id");
        group.add_process(pid).expect("it runs");
        let mut stdin = program.stdin.take().expect("a pipe");
        writeln!(stdin, "go").expect("it reads");
        Self { group, program }
    }

    fn end(mut self) {
        self.group.kill_all().expect("its processes end");
        self.program.wait().expect("it has ended");
        self.group.remove().expect("it is empty");
    }
}

/// How often a job was evicted because its machine ran out of resources.
pub(crate) fn evictions(cell: &Cell, job: &str) -> usize {
    cell.ok(&format!("bourg events {job}")).matches("the machine ran out of resources").count()
}

/// How the only task of a job ended before.
pub(crate) fn last_end(status: &Value) -> String {
    status["tasks"][0]["lastEnd"]["outOfResources"].as_str().unwrap_or_default().to_owned()
}

#[test]
fn a_task_with_slack_memory_is_evicted_first_and_returns() {
    let mut cell = start();
    runs(&cell, "serve", "production", 100, &holds(40), "appclass: 'latency-sensitive'");
    runs(&cell, "low", "free", 64, &holds(40), "");
    let stay = (cell.tasks("serve"), cell.tasks("low"));
    runs(&cell, "greedy", "best-effort-batch", 32, &grows(400), "memorySlack: true");
    until("it is evicted", || evictions(&cell, "greedy") > 0);
    let status = cell.job("greedy", "says why", |status| !last_end(status).is_empty());
    let why = last_end(&status);
    assert!(why.contains("its limit is 32 MiB"), "{why}");
    assert_eq!(status["tasks"][0]["failures"].as_u64().unwrap_or(0), 0, "{status:#}");
    assert!(cell.ok("bourg status greedy/0").contains("out of resources"), "in its status");
    until("it is started again", || !cell.tasks("greedy").is_empty());
    until("and evicted again", || evictions(&cell, "greedy") > 1);
    assert_eq!((cell.tasks("serve"), cell.tasks("low")), stay, "nobody else: {}", cell.said());
    assert!(cell.said().contains("memory is short"), "{}", cell.said());
    // The kernel chose it if it was faster than the Borglet.
    let page = metrics(&cell, Of::Borglet);
    assert!(value(&page, "bourg_borglet_memory_shortages_total") > Some(0.0), "{page}");
    cell.stop();
}

#[test]
fn tasks_within_limits_are_evicted_by_priority_and_production_never() {
    let mut cell = start();
    runs(&cell, "serve", "production", 100, &holds(80), "appclass: 'latency-sensitive'");
    runs(&cell, "low", "free", 50, &holds(40), "");
    runs(&cell, "mid", "mid", 50, &holds(40), "");
    let (serve, mid) = (cell.tasks("serve"), cell.tasks("mid"));
    use_together(&cell, 160);
    // 400 MiB and the reserve are for tasks. With what the first one frees the reserve is there, and
    // what the others have not used yet.
    let hog = Hog::start(&cell, 240);
    until("the lowest priority is evicted", || evictions(&cell, "low") > 0);
    let status = cell.job("low", "says why", |status| !last_end(status).is_empty());
    let why = last_end(&status);
    assert!(why.contains("of memory available, and 12.5 MiB must stay available"), "{why}");
    until("and again", || evictions(&cell, "low") > 1);
    assert!(cell.tasks("serve") == serve && cell.tasks("mid") == mid, "{}", cell.said());
    hog.end();
    cell.is_healthy("low");
    use_together(&cell, 160);
    // A machine that shrinks: 190 MiB are used.
    cell.write("over", meminfo(200, 8_000));
    let (before, low) = (evictions(&cell, "low"), cell.tasks("low"));
    let borglet = eventually("the Borglet runs", || cell.pid(Role::Borglet));
    cell.kill(Role::Borglet);
    until("it runs again", || cell.pid(Role::Borglet).is_some_and(|pid| pid != borglet));
    let machine = cell.ok("bourg machines -o name");
    until("the machine is smaller", || {
        let shown = cell.ok(&format!("bourg machine show {}", machine.trim()));
        shown.contains("200 MiB")
    });
    assert_eq!((evictions(&cell, "low"), cell.tasks("low")), (before, low), "all fit");
    cell.stop();
}

#[test]
fn files_beyond_a_request_end_a_task_on_a_disk_with_room() {
    let mut cell = Cell::start();
    let script = "head -c 9M /dev/zero > f; exec sleep 1000";
    cell.write(
        "fills.bcl",
        format!(
            "{{ name: 'fills', cmd: ['sh', '-c', '{script}'], disk: '4 MiB', restart: {{ delay: '1s' }} }}"
        ),
    );
    cell.write("free.bcl", format!("{{ name: 'unbounded', cmd: ['sh', '-c', '{script}'] }}"));
    cell.ok("bourg run --detach free.bcl; bourg run --detach fills.bcl");
    let events = eventually("it is ended for it", || {
        let events = cell.ok("bourg events fills");
        events.contains("its request is 4 MiB").then_some(events)
    });
    assert!(events.contains("FAIL") && events.contains("it used 9 MiB of disk"), "{events}");
    assert!(!cell.ok("bourg events unbounded").contains("FAIL"), "it asked for no disk");
    let machine = cell.ok("bourg machines -o name");
    let attribute = |name: &str| {
        cell.ok(&format!("bourg machine show {} -o attributes.{name}", machine.trim()))
    };
    assert_eq!(attribute("disk-isolation"), "measured\n");
    assert_eq!(attribute("memory-isolation"), "enforced\n");
    cell.stop();
}
