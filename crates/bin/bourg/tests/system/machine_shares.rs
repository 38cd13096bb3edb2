//! What users share on one machine: a greedy user takes all it can, and the ordinary work of others goes on.

use std::time::{Duration, Instant};

use crate::cell::Cell;
use crate::eventually::until;
use crate::tools::needs;

/// The longest that the work of the others may take. Alone it takes a second.
const PATIENCE: Duration = Duration::from_secs(20);

/// A cell with a greedy user and another one.
fn two_users() -> Cell {
    let cell = Cell::start();
    for user in ["mal", "ana"] {
        cell.ok(&format!("bourg user add {user}"));
    }
    cell
}

/// Submits a job of a user.
fn run(cell: &Cell, user: &str, name: &str, job: &str) {
    let file = format!("{user}-{name}.bcl");
    cell.write(&file, format!("local borg = import 'borg.libsonnet'; {job}"));
    cell.ok(&format!("bourg --cell ./{user} run --detach {file}"));
}

/// Waits for what is not to take long.
fn soon(what: &str, condition: impl Fn() -> bool) {
    let begun = Instant::now();
    until(what, condition);
    assert!(begun.elapsed() < PATIENCE, "{what} took {:?}", begun.elapsed());
}

#[test]
fn savers_that_hang_take_no_data_of_others() {
    let cell = two_users();
    let small = "priority: 'free', cpu: 0.01, ram: '4 MiB'";
    // Hers is the oldest, and fails for now.
    run(
        &cell,
        "ana",
        "early",
        &format!(
            "borg.batch('early', cmd=['true']) {{ {small}, saver: {{ cmd: ['false'], interval: '1s' }} }}"
        ),
    );
    let kept = || cell.ok("bourg machine show $(bourg machines -o name)");
    until("her data is kept", || kept().contains("ana/early/0"));
    run(
        &cell,
        "mal",
        "junk",
        &format!(
            "borg.batch('junk', tasks=120, cmd=['true'])
               {{ {small}, saver: {{ cmd: ['sleep', '86400'], timeLimit: '1d', interval: '1d' }} }}"
        ),
    );
    until("the greedy user loses data", || {
        cell.ok("bourg events mal/junk").contains("SAVER_GIVEN_UP")
    });
    cell.job("mal/junk", "has ended", |job| job["state"] == "finished");
    run(
        &cell,
        "ana",
        "late",
        &format!("borg.batch('late', cmd=['true']) {{ {small}, saver: {{ cmd: ['true'] }} }}"),
    );
    soon("her data is saved", || cell.ok("bourg events ana/late").contains("SAVED"));
    assert!(kept().contains("ana/early/0"), "{}", kept());
    let events = cell.ok("bourg events ana/early");
    assert!(!events.contains("SAVER_GIVEN_UP"), "{events}");

    // The greedy user is revoked, and an administrator ends what it has left.
    let said = cell.fails(3, "bourg --cell ./ana saver end mal/junk");
    assert!(said.contains("ana may not end savers of mal"), "{said}");
    cell.ok("bourg user revoke mal");
    cell.ok("bourg saver end mal");
    soon("nothing of it is kept", || cell.ok("bourg saver list mal -o name").is_empty());
    assert_eq!(cell.ok("bourg saver list -o name"), "ana/early/0\n");
    cell.ok("bourg --cell ./ana saver end ana/early");
    soon("an owner ends their own", || cell.ok("bourg saver list -o name").is_empty());
    let events = cell.ok("bourg events ana/early");
    assert!(events.contains("SAVER_GIVEN_UP") && events.contains("ana has ended it"), "{events}");
    let said = cell.fails(2, "bourg saver end ana/early/0");
    assert!(said.contains("no machine keeps data of ana/early/0"), "{said}");
}

#[test]
fn commands_and_checks_that_hang_leave_those_of_others() {
    let cell = two_users();
    let small = "priority: 'free', cpu: 0.005, ram: '8 MiB'";
    run(
        &cell,
        "mal",
        "hc",
        &format!(
            "borg.service('hc', tasks=70, cmd=['sleep', '100000']) {{ {small}, healthCheck:
               {{ exec: ['sleep', '59'], timeout: '60s', interval: '1s', startGrace: '1h' }} }}"
        ),
    );
    cell.job("mal/hc", "runs", |job| job["counts"]["running"] == 70);
    run(
        &cell,
        "ana",
        "web",
        &format!(
            "borg.service('web', tasks=2, cmd=['sleep', '100000'])
               {{ {small}, healthCheck: {{ exec: ['true'] }} }}"
        ),
    );
    let begun = Instant::now();
    cell.is_healthy("ana/web");
    assert!(begun.elapsed() < PATIENCE, "{:?}", begun.elapsed());

    // Commands of the greedy user, in several tasks, until it gets no more.
    let mut running = Vec::new();
    let refused = (0..40).find_map(|number| {
        let task = format!("hc/{}", number % 10);
        let words = ["--cell", "./mal", "exec", &task, "--", "sh", "-c", "echo on; sleep 10000"];
        let command = cell.start("bourg", &words);
        until("it runs or is refused", || {
            command.stdout().contains("on") || !command.stderr().is_empty()
        });
        let said = command.stderr();
        running.push(command);
        said.contains("gets no more of the").then_some(said)
    });
    let said = refused.expect("one user does not get all");
    assert!(said.contains("mal runs 28 commands inside tasks of this machine"), "{said}");
    let begun = Instant::now();
    assert_eq!(cell.ok("bourg --cell ./ana exec web/0 -- echo hers"), "hers\n");
    // An administrator enters the tasks of a user who has reached its share.
    assert_eq!(cell.ok("bourg exec mal/hc/0 -- echo repair"), "repair\n");
    assert!(begun.elapsed() < PATIENCE);
}

/// Starts threads until it gets no more, and says how many.
const THREADS: &str = "
import threading, time
threading.stack_size(32768)
n = 0
try:
  while n < 4000:
    threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
    n += 1
except RuntimeError:
  pass
print('threads', n, flush=True)
time.sleep(600)
";

#[test]
fn threads_are_bounded_per_task_by_memory_and_in_total() {
    needs("python3", "python3");
    let cell = two_users();
    cell.write("threads.py", THREADS);
    run(
        &cell,
        "mal",
        "thr",
        "borg.service('thr', tasks=4, cmd=['python3', '-c', importstr 'threads.py'])
           { priority: 'free', cpu: 0.01, ram: '48 MiB' }",
    );
    until("they have all they get", || {
        (0..4).all(|task| cell.ok(&format!("bourg logs mal/thr/{task}")).contains("threads"))
    });
    for task in 0..4 {
        let said = cell.ok(&format!("bourg logs mal/thr/{task}"));
        let threads = said.split_whitespace().last().and_then(|number| number.parse().ok());
        // One for each 256 KiB, or fewer where the machine has fewer for its memory.
        assert!(threads.is_some_and(|threads: u32| (20..=192).contains(&threads)), "{said}");
    }
    run(
        &cell,
        "ana",
        "web",
        "borg.service('web', cmd=['sleep', '100000']) { priority: 'free', cpu: 0.01, ram: '8 MiB' }",
    );
    cell.is_healthy("ana/web");
    assert_eq!(cell.ok("bourg --cell ./ana exec web/0 -- echo hers"), "hers\n");
    // All tasks of the host together leave some to it.
    let number = |path: &str| {
        let text = std::fs::read_to_string(path).ok()?;
        text.trim().parse::<u64>().ok()
    };
    let files = ["/sys/fs/cgroup/pids/bourg/pids.max", "/sys/fs/cgroup/bourg/pids.max"];
    let all = files.into_iter().find_map(number).expect("a maximum of all tasks");
    let kernel = number("/proc/sys/kernel/pid_max").expect("the kernel's maximum");
    assert!(all < kernel, "{all} of {kernel}");
}
