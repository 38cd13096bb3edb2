//! How tasks share CPUs and disks: weights by appclass, CPUs of their own, caps, rates of disks.

use std::time::{Duration, Instant};

use crate::support::{Task, Tasks, held, is_v2, wait_until};
use linux::cgroup::{
    CpuSharing, DiskRate, Hierarchy, TaskCgroup, Tier, make_tiers, parent_name, set_shared_cpus,
    try_disk_rate,
};
use linux::cpus::Cpus;
use linux::logs::Stream;

const BUSY: &str = "while :; do :; done";
/// Says on which CPUs it may run whenever that changes.
const SAYS_CPUS: &str = "
    while read -r name value; do [ $name = Cpus_allowed_list: ] && last=$value; done < /proc/self/status
    echo runs on $last.
    while sleep 0.02; do
      while read -r name value; do [ $name = Cpus_allowed_list: ] && now=$value; done < /proc/self/status
      [ $now = $last ] || echo now on $now.
      last=$now
    done";

/// The cgroups of a Borglet.
struct Borglet {
    tasks: Tasks,
    parent: String,
    sharing: CpuSharing,
}

impl Borglet {
    fn new() -> Self {
        let tasks = Tasks::new();
        let parent = parent_name(tasks.base.path());
        let sharing = make_tiers(&Hierarchy::detect().unwrap(), &parent).unwrap();
        Self { tasks, parent, sharing }
    }

    /// Starts a task of a kind, possibly on CPUs of its own.
    fn start(&self, tier: Tier, name: &str, script: &str, cpus: &[u32]) -> Task {
        let mut launch = self.tasks.script(name, script);
        launch.cgroup = format!("{}/{}/{name}", self.parent, tier.group());
        launch.limits.sharing.cpus = cpus.to_vec();
        let task = self.tasks.start(name, &launch);
        task.wait_ready();
        task
    }
}

fn cpu_ms(task: &Task) -> u64 {
    task.cgroup.usage().unwrap().cpu_ns / 1_000_000
}

#[test]
fn batch_gets_little_of_a_busy_core_and_all_when_idle() {
    let borglet = Borglet::new();
    // Both limits are the same, and both tasks are on one CPU.
    let batch = borglet.start(Tier::Batch, "batch", BUSY, &[0]);
    wait_until("it has an idle core", || cpu_ms(&batch) > 200);
    let ls = borglet.start(Tier::LatencySensitive, "ls", BUSY, &[0]);
    let (batch_before, ls_before) = (cpu_ms(&batch), cpu_ms(&ls));
    wait_until("two seconds of CPU", || cpu_ms(&ls) > ls_before + 2_000);
    let (batch_used, ls_used) = (cpu_ms(&batch) - batch_before, cpu_ms(&ls) - ls_before);
    println!("latency-sensitive {ls_used} ms, batch {batch_used} ms, {:?}", borglet.sharing);
    assert!(ls_used > 50 * batch_used, "{ls_used} to {batch_used} ms");
}

#[test]
fn batch_tasks_share_by_their_requests() {
    let borglet = Borglet::new();
    let start = |name: &str, cpu_milli| {
        let mut launch = borglet.tasks.script(name, BUSY);
        launch.cgroup = format!("{}/batch/{name}", borglet.parent);
        (launch.limits.cpu_milli, launch.limits.sharing.cpus) = (cpu_milli, vec![0]);
        borglet.tasks.start(name, &launch)
    };
    let (large, small) = (start("large", 4_000), start("small", 1_000));
    large.wait_ready();
    small.wait_ready();
    let (large_before, small_before) = (cpu_ms(&large), cpu_ms(&small));
    wait_until("two seconds of CPU", || cpu_ms(&large) > large_before + 2_000);
    let (large, small) = (cpu_ms(&large) - large_before, cpu_ms(&small) - small_before);
    assert!((2 * small..8 * small).contains(&large), "4 to 1: {large} to {small} ms");
}

#[test]
fn whole_cores_are_seen_from_inside_and_others_that_share_keep_off() {
    let borglet = Borglet::new();
    assert!(borglet.sharing.cpuset, "this machine has a cpuset controller");
    let cpus = Cpus::discover().unwrap();
    let mut all: Vec<u32> = cpus.cores.concat();
    all.extend(&cpus.rest);
    all.sort_unstable();
    let [first, .., last] = all[..] else { panic!("it takes two CPUs: {all:?}") };
    let rest: Vec<u32> = all.iter().copied().filter(|cpu| *cpu != last).collect();

    let before = borglet.start(Tier::LatencySensitive, "before", SAYS_CPUS, &[]);
    before.wait_output(&format!("runs on {first}"));
    let share =
        |cpus: &[u32]| set_shared_cpus(&Hierarchy::detect().unwrap(), &borglet.parent, cpus);
    share(&rest).unwrap();
    let shown = if rest.len() == 1 { format!("{first}.") } else { format!("{first}-") };
    before.wait_output(&format!("now on {shown}"));
    let exclusive = borglet.start(Tier::Exclusive, "exclusive", SAYS_CPUS, &[last]);
    exclusive.wait_output(&format!("runs on {last}."));
    let after = borglet.start(Tier::LatencySensitive, "after", SAYS_CPUS, &[]);
    after.wait_output(&format!("runs on {shown}"));
    let batch = borglet.start(Tier::Batch, "batch", SAYS_CPUS, &[]);
    batch.wait_output("runs on ");
    let on = batch.log(Stream::Stdout);
    assert!(on.contains(&last.to_string()) && on.contains(&first.to_string()), "everywhere: {on}");
    // Given back.
    share(&all).unwrap();
    before.wait_output(&format!("{last}."));
}

#[test]
fn a_cap_holds_a_running_task_and_lifting_it_restores_the_limit() {
    let tasks = Tasks::new();
    for (name, hard) in [("slack", false), ("hard", true)] {
        let mut launch = tasks.script(name, BUSY);
        (launch.limits.cpu_milli, launch.limits.cpu_hard_cap) = (400, hard);
        let task = tasks.start(name, &launch);
        task.wait_ready();
        let cap = |cpu_milli| task.directory.cap_cpu(cpu_milli).unwrap().expect("it runs");
        let quota = || held(&task.cgroup)[1].clone();
        let of = |milli: Option<u64>| match (milli, is_v2()) {
            (Some(milli), true) => format!("{} 100000", milli * 100),
            (Some(milli), false) => (milli * 100).to_string(),
            (None, true) => "max 100000".to_owned(),
            (None, false) => "-1".to_owned(),
        };
        let limit = hard.then_some(400);
        assert_eq!(quota(), of(limit));
        assert_eq!(cap(Some(100)), launch.label);
        assert_eq!(quota(), of(Some(100)));
        let (before, begin) = (cpu_ms(&task), Instant::now());
        wait_until("100 ms of CPU", || cpu_ms(&task) > before + 100);
        assert!(begin.elapsed() > Duration::from_millis(600), "{:?}", begin.elapsed());
        // More than its limit is no cap for one that is held to that.
        cap(Some(900));
        assert_eq!(quota(), of(limit.or(Some(900))));
        cap(None);
        assert_eq!(quota(), of(limit));
    }
}

#[test]
fn a_task_in_no_hurry_waits_for_the_others_of_its_alloc() {
    let tasks = Tasks::new();
    let hierarchy = Hierarchy::detect().unwrap();
    let alloc = format!("{}/alloc", parent_name(tasks.base.path()));
    let mut limits = tasks.script("limits", "true").limits;
    TaskCgroup::open(&hierarchy, &alloc).unwrap().make_parent(&limits).unwrap();
    limits.sharing.cpus = vec![0];
    let start = |name: &str, batch| {
        let mut launch = tasks.script(name, BUSY);
        (launch.cgroup, launch.in_alloc) = (format!("{alloc}/{name}"), true);
        launch.limits = limits.clone();
        launch.limits.sharing.batch = batch;
        let task = tasks.start(name, &launch);
        task.wait_ready();
        // A change of its limits leaves that as it is.
        launch.limits.cpu_milli += 1;
        task.directory.resize(&launch.limits).unwrap();
        task
    };
    let (batch, ls) = (start("batch", true), start("ls", false));
    // While its shell is read from the disk, it does not compete.
    wait_until("it is busy", || cpu_ms(&ls) > 50);
    let (batch_before, ls_before) = (cpu_ms(&batch), cpu_ms(&ls));
    wait_until("a second of CPU", || cpu_ms(&ls) > ls_before + 1_000);
    let (batch, ls) = (cpu_ms(&batch) - batch_before, cpu_ms(&ls) - ls_before);
    assert!(ls > 50 * batch, "{ls} to {batch} ms");
    TaskCgroup::open(&hierarchy, &alloc).unwrap().kill_all().unwrap();
}

#[test]
fn the_rate_of_a_disk_is_held_where_there_is_one() {
    let tasks = Tasks::new();
    let hierarchy = Hierarchy::detect().unwrap();
    let scratch = format!("{}/scratch", parent_name(tasks.base.path()));
    let rate = |bytes, (major, minor)| DiskRate { major, minor, bytes };
    // There is no such device.
    try_disk_rate(&hierarchy, &scratch, rate(1 << 20, (4_000, 4_000))).unwrap_err();
    assert!(!TaskCgroup::open(&hierarchy, &scratch).unwrap().exists());
    let device = match linux::disk::device(tasks.base.path()) {
        Ok(device) => device,
        Err(error) => {
            // As in the emulated machine, all of which is in memory.
            assert!(error.to_string().contains("/sys/dev/block/0:"), "{error}");
            return;
        }
    };
    try_disk_rate(&hierarchy, &scratch, rate(1 << 30, device)).unwrap();
    let write =
        "dd if=/dev/zero of=$HOME/x bs=64k count=32 oflag=direct 2> /dev/null && echo done;";
    let timed = |name: &str, bytes| {
        let mut launch = tasks.script(name, &format!("echo up; {write} exec sleep 1000"));
        launch.limits.sharing.disk_rate = Some(rate(bytes, device));
        let task = tasks.start(name, &launch);
        task.wait_output("up");
        let begin = Instant::now();
        task.wait_output("done");
        begin.elapsed()
    };
    // Two MiB at one a second, and without a limit.
    let held = timed("held", 1 << 20);
    let free = timed("free", 0);
    println!("2 MiB took {held:?} at 1 MiB/s, and {free:?} without a limit");
    assert!(held > Duration::from_millis(1_300), "{held:?}");
}
