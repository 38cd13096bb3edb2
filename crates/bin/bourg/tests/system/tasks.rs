//! Tasks that end badly: how it is reported, and what happens to them.

use std::collections::BTreeSet;
use std::net::TcpListener;

use crate::cell::Cell;
use crate::eventually::until;
use crate::processes;

/// Writes a file with one job of one task, and submits it.
fn run(cell: &Cell, name: &str, cmd: &str, more: &str) {
    cell.write(
        &format!("{name}.bcl"),
        format!(
            "local borg = import 'borg.libsonnet'; borg.batch('{name}', cmd={cmd}) {{ {more} }}"
        ),
    );
    cell.ok(&format!("bourg run --detach {name}.bcl"));
}

/// How the last incarnation of a job's only task ended, once the job is in a state.
#[track_caller]
fn last_end(cell: &Cell, job: &str, state: &str) -> String {
    let status = cell.job(job, state, |job| job["state"] == state);
    status["tasks"][0]["lastEndText"].as_str().unwrap_or_default().to_owned()
}

#[test]
fn a_failing_task_is_retried_with_growing_delays_until_its_policy_ends() {
    let cell = Cell::start();
    let cmd = "['sh', '-c', 'date +%s%N; exit 3']";
    run(&cell, "fails", cmd, "restart: { failures: 3, delay: '100ms' }");
    assert_eq!(last_end(&cell, "fails", "failed"), "exit code 3");
    assert_eq!(cell.ok("bourg status fails -o tasks.0.failures"), "4\n", "one more than allowed");
    let starts = cell.ok("cat cell/borglet/tasks/1-0-*/logs/stdout.000001");
    let starts: Vec<u64> = starts.lines().map(|line| line.parse().expect("a time")).collect();
    let waits: Vec<u64> = starts.windows(2).map(|pair| (pair[1] - pair[0]) / 1_000_000).collect();
    let at_least = |wait: &u64, ms: u64| *wait >= ms;
    assert!(
        matches!(waits.as_slice(), [one, two, three]
            if at_least(one, 1_000) && at_least(two, 2_000) && at_least(three, 4_000)),
        "no wait is shorter than a second; in ms they were {waits:?}"
    );
}

#[test]
fn instantly_failing_jobs_retry_each_second_without_suspecting_the_machine() {
    let cell = Cell::start();
    let policy = "restart: { failures: 'unlimited', delay: 0, delayMax: 0 }";
    let cmd = "['sh', '-c', 'date +%s%N; exit 1']";
    let names = ["one", "two", "three"];
    names.iter().for_each(|name| run(&cell, name, cmd, policy));
    for name in names {
        let often = |job: &serde_json::Value| job["tasks"][0]["failures"].as_u64() >= Some(4);
        cell.job(name, "has failed four times", often);
    }
    for job in 1..=3 {
        let starts = cell.ok(&format!("cat cell/borglet/tasks/{job}-0-*/logs/stdout.000001"));
        let mut starts: Vec<u64> =
            starts.lines().map(|line| line.parse().expect("a time")).collect();
        starts.sort_unstable();
        let waits = starts.windows(2).map(|pair| (pair[1] - pair[0]) / 1_000_000);
        let shortest = waits.min().expect("it was tried again");
        assert!(shortest >= 1_000, "job {job} was tried again after {shortest} ms");
    }
    assert_eq!(cell.ok("bourg machines -o state"), "up\n");
    let suspect = cell.ok("bourg machines -o suspect");
    assert_eq!(suspect, "false\n", "all jobs are one user's");
}

#[test]
fn a_task_that_can_never_run_says_why() {
    let cell = Cell::start();
    let once = "restart: { failures: 0 }";
    run(&cell, "absent", "['no-such-program']", once);
    run(&cell, "no-file", "['/etc/passwd']", once);
    run(&cell, "eats", "['tail', '/dev/zero']", "ram: '32 MiB', restart: { failures: 0 }");
    let absent = last_end(&cell, "absent", "failed");
    assert!(absent.starts_with("not started: ") && absent.contains("no-such-program"), "{absent}");
    let no_file = last_end(&cell, "no-file", "failed");
    assert!(no_file.starts_with("not started: ") && no_file.contains("/etc/passwd"), "{no_file}");
    let eats = last_end(&cell, "eats", "failed");
    let (used, limit) = eats.split_once(" of its limit of ").expect("both numbers");
    assert!(used.starts_with("out of memory: it used ") && used.ends_with("MiB"), "{eats}");
    assert_eq!(limit, "32 MiB");
    assert!(cell.ok("bourg status eats").contains("out of memory"));
}

/// It has no health check, so it has to run for a moment.
#[test]
fn an_instantly_ending_service_without_a_check_is_not_healthy() {
    let cell = Cell::start();
    let service = |name: &str, script: &str, more: &str| {
        let text = format!(
            "(import 'borg.libsonnet').service('{name}', cmd=['sh', '-c', '{script}']) {{ {more} }}"
        );
        cell.write(&format!("{name}.bcl"), text);
    };
    service("ends", "echo no configuration; exit 3", "");
    let said = cell.fails(1, "bourg run ends.bcl --timeout 3s --keep-waiting");
    for words in [
        "task 0 failed: exit code 3; retrying",
        "  | no configuration",
        "error: 0 of 1 tasks of root/ends are healthy after 3 s: task 0 is ",
        "its last run ended with exit code 3",
    ] {
        assert!(said.contains(words), "{words}: {said}");
    }
    assert!(!said.contains("· healthy"), "{said}");
    cell.ok("bourg kill ends");

    service("once", "echo no configuration; exit 3", "restart: { failures: 0 }");
    let said = cell.fails(1, "bourg run once.bcl");
    assert!(said.contains("error: root/once failed: task 0 exit code 3"), "{said}");
    assert!(said.contains("  | no configuration"), "{said}");

    // A service is started again however it ends, unless its description says otherwise.
    service("again", "exit 0", "");
    let said = cell.fails(1, "bourg run again.bcl --timeout 3s --keep-waiting");
    assert!(said.contains("task 0 ended: exit code 0; starting it again"), "{said}");
    assert!(!said.contains("· healthy"), "{said}");
    cell.ok("bourg kill again");

    service("over", "exit 0", "restart: \"on-failure\"");
    let over = cell.types("bourg run over.bcl");
    assert_eq!(over.code, 0, "{}", over.stderr);
    assert!(over.stderr.contains(" · finished 1/1 "), "{}", over.stderr);
    assert!(!over.stderr.contains("· healthy"), "{}", over.stderr);

    service("stays", "sleep 1000", "");
    cell.ok("bourg run stays.bcl");
    let said = cell.ok("bourg status stays");
    assert!(said.contains("1 of 1 healthy"), "{said}");
}

#[test]
fn an_unhealthy_task_is_restarted_and_says_why() {
    let cell = Cell::start();
    cell.write(
        "sick.bcl",
        "local borg = import 'borg.libsonnet';
         borg.service('sick', cmd=[
           'bourg', 'example-server', '--port', borg.port('http'), '--unhealthy-after', '5'
         ]) {
           healthCheck+: { interval: '100ms', failures: 2 },
           restart: { failures: 'unlimited', delay: '100ms' },
         }",
    );
    cell.ok("bourg run sick.bcl");
    let status = cell
        .job("sick", "has been restarted", |job| job["tasks"][0]["generation"].as_u64() >= Some(3));
    let end = status["tasks"][0]["lastEndText"].as_str().unwrap_or_default();
    assert_eq!(end, "unhealthy: GET / → HTTP 500");
    assert!(cell.ok("bourg status sick").contains("GET / → HTTP 500"));
}

#[test]
fn a_port_that_a_stranger_has_is_found_out() {
    let cell = Cell::start();
    cell.ok("bourg run $EXAMPLES/hello.bcl");
    let status = cell.is_healthy("hello");
    let last = status["tasks"].as_array().into_iter().flatten();
    let last = last.filter_map(|task| task["ports"][0]["port"].as_u64()).max().expect("a port");
    // The next ports for tasks; another program that never answers uses them.
    let strangers: Vec<TcpListener> = (last + 1..=last + 2)
        .filter_map(|port| u16::try_from(port).ok())
        .map(|port| TcpListener::bind(("0.0.0.0", port)).expect("the port is free"))
        .collect();
    cell.ok("sed s/hello/again/ $EXAMPLES/hello.bcl > again.bcl; bourg run --detach again.bcl");
    cell.is_healthy("again");
    let ports = cell.ok("bourg status again -o json | grep '\"port\": [0-9]'");
    for stranger in &strangers {
        let port = stranger.local_addr().expect("an address").port().to_string();
        assert!(!ports.contains(&port), "a task has the stranger's port:\n{ports}");
    }
    // By a task that met it; or by the machine, if that has looked before a task was placed.
    let table = cell.ok("bourg status again");
    let machines = cell.ok("bourg machines -o json");
    let machines: serde_json::Value = serde_json::from_str(&machines).expect("JSON");
    let held = machines[0]["report"]["heldPorts"].as_array();
    let is_told = table.contains("port") || held.is_some_and(|held| !held.is_empty());
    assert!(is_told, "no port of {strangers:?} was taken:\n{table}{machines:#}");
}

#[test]
fn a_user_id_that_a_stranger_has_is_not_a_tasks() {
    let mut cell = Cell::start();
    cell.stop();
    // The first is the limit of a process, the second that of an account.
    let stranger = ["--reuid", "200000", "--regid", "200000", "--clear-groups", "sleep", "1000"];
    let mut stranger = cell.start("setpriv", &stranger);
    until("it is who it is", || processes::uid(stranger.pid()) == 200_000);
    let accounts = cell.ok("cat /etc/passwd") + "zoe:x:200001:200001::/nonexistent:/bin/false\n";
    cell.start_over("/etc/passwd", &accounts, &["--log", "info"]);
    cell.ok("bourg run $EXAMPLES/hello.bcl");
    let tasks = cell.tasks("hello");
    let uids: BTreeSet<u32> = tasks.values().map(|pid| processes::uid(*pid)).collect();
    assert_eq!(uids.len(), 3, "each has its own: {uids:?}");
    assert!(uids.iter().all(|uid| (200_002..210_000).contains(uid)), "{uids:?}");
    let said = cell.dev().stderr();
    assert!(said.contains("a running process uses user id 200000: "), "{said}");
    assert_eq!(
        cell.ok("bourg status hello -o tasks.0.generation"),
        "1\n",
        "no incarnation was lost"
    );
    assert_eq!(stranger.code(), None, "the stranger is left alone");
}

#[test]
fn arbitrary_output_of_a_task_is_harmless() {
    let cell = Cell::start();
    let cmd = r#"['sh', '-c', 'printf "\\033[31m\\000\\377\\n"; head -c 1000000 /dev/zero | tr "\\\\0" x; echo; echo end']"#;
    run(&cell, "noise", cmd, "");
    cell.job("noise", "is finished", |job| job["state"] == "finished");
    until("all is kept", || cell.ok("bourg logs noise/0 | tail -c 4") == "end\n");
    assert_eq!(cell.ok("bourg logs noise/0 | wc -c").trim(), "1000013");
    assert_eq!(cell.ok("bourg logs noise | tail -n 1"), "noise/0  end\n");
}

#[test]
fn the_usage_of_a_task_is_known_after_its_end() {
    let cell = Cell::start();
    // A buffer of 50 MiB that is filled a hundred times.
    let burns = "['dd', 'if=/dev/zero', 'of=/dev/null', 'bs=50M', 'count=100']";
    run(&cell, "burns", burns, "ram: '128 MiB'");
    let job = cell.job("burns", "is finished", |job| job["state"] == "finished");
    let usage = &job["tasks"][0]["lastUsage"];
    let text = |field: &str| usage[field].as_str().unwrap_or_default();
    let cpu_s = text("cpuTime").trim_end_matches('s').parse::<f64>().expect("seconds");
    assert!((0.1..60.0).contains(&cpu_s), "{usage}");
    let peak_bytes = text("memoryPeakBytes").parse::<u64>().expect("bytes");
    assert!((50 << 20..=128 << 20).contains(&peak_bytes), "{usage}");
    let wide = cell.ok("bourg status burns -o wide");
    assert!(wide.contains("LAST CPU TIME") && wide.contains(" MiB"), "{wide}");
    let ended = cell.ok("bourg events burns/0 | grep FINISH");
    assert!(ended.contains(" of CPU time, ") && ended.contains("MiB of memory at most"), "{ended}");

    run(&cell, "absent", "['no-such-program']", "restart: { failures: 0 }");
    let job = cell.job("absent", "has failed", |job| job["state"] == "failed");
    let usage = &job["tasks"][0]["lastUsage"];
    assert_ne!(usage["memoryPeakBytes"], "0", "what was not measured is not shown: {usage}");
}
