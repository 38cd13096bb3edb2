//! Health checks of every kind, what they say, and restarts.

use crate::cell::Cell;
use crate::eventually::{eventually, until};
use crate::tools::needs;

/// Submits a batch job with one task.
fn run(cell: &Cell, name: &str, cmd: &str, more: &str) {
    cell.write(
        &format!("{name}.bcl"),
        format!("(import 'borg.libsonnet').batch('{name}', cmd={cmd}) {{ {more} }}"),
    );
    cell.ok(&format!("bourg run --detach {name}.bcl"));
}

/// The last end of a job's only task, once it has one.
#[track_caller]
fn last_end(cell: &Cell, job: &str) -> String {
    let status = cell.job(job, "has ended once", |job| job["tasks"][0]["lastEndText"] != "");
    status["tasks"][0]["lastEndText"].as_str().unwrap_or_default().to_owned()
}

/// What the last check said that changed the health of a job's only task.
fn check(cell: &Cell, job: &str) -> String {
    cell.status(job)["tasks"][0]["check"].as_str().unwrap_or_default().to_owned()
}

const SLEEPS: &str = "['sleep', '1000']";

#[test]
fn a_check_command_runs_inside_the_task_and_shows_one_line() {
    let cell = Cell::start();
    let exec = "exec: ['sh', '-c', 'test -e good && echo as $(id -u) on $PORT_WEB && exit 0; \
                echo disk full; echo more; exit 2']";
    let check_text = || check(&cell, "web");
    run(
        &cell,
        "web",
        "['sh', '-c', 'touch good; sleep 1000']",
        &format!("ports: ['web'], healthCheck: {{ {exec}, interval: '100ms', failures: 50 }}"),
    );
    let status = cell.is_healthy("web");
    let said = check_text();
    let port = &status["tasks"][0]["ports"][0]["port"];
    let end = format!(" on {port}");
    let user = said.strip_prefix("exit code 0: as ").and_then(|rest| rest.strip_suffix(&end));
    assert!(user.is_some_and(|user| user.parse::<u32>().is_ok_and(|id| id >= 200_000)), "{said}");
    let home = cell.ok("echo -n cell/borglet/tasks/*/home/good");
    std::fs::remove_file(cell.path(&home)).expect("the task's file");
    until("it is unhealthy", || check_text() == "exit code 2: disk full");
    let table = cell.ok("bourg status web");
    assert!(table.contains("unhealthy: exit code 2: disk full"), "{table}");
    let events = cell.ok("bourg events web");
    assert!(
        events.lines().any(|line| line.contains("UNHEALTHY") && line.contains("code 2: disk full")),
        "{events}"
    );
    assert_eq!(last_end(&cell, "web"), "unhealthy: sh → exit code 2: disk full");
}

#[test]
fn a_task_that_is_not_ready_leaves_its_name_and_is_not_restarted() {
    needs("dig", "bind9-dnsutils");
    let cell = Cell::start();
    run(
        &cell,
        "web",
        "['sh', '-c', 'touch ready; exec bourg example-server --port $PORT_HTTP']",
        "ports: ['http'], appclass: 'latency-sensitive',
         readiness: { exec: ['sh', '-c', 'test -e ready || { echo no database; exit 1; }'],
                      interval: '100ms', failures: 2 }",
    );
    cell.is_healthy("web");
    let (host, port) = crate::dns::address(&cell);
    let dig =
        format!("dig +tries=2 +time=5 +short @{host} -p {port} SRV _http._tcp.web.root.dev.borg.");
    let served = || cell.ok(&dig).lines().count();
    until("it is under its name", || served() == 1);
    let home = cell.ok("echo -n cell/borglet/tasks/*/home/ready");
    std::fs::remove_file(cell.path(&home)).expect("the task's file");
    cell.job("web", "is not ready", |job| job["tasks"][0]["health"] == "UNREADY");
    assert!(cell.ok("bourg bns get web").contains("unready"));
    until("it is not under its name", || served() == 0);
    let table = cell.ok("bourg status web");
    assert!(table.contains("not ready: exit code 1: no database"), "{table}");
    cell.ok("bourg exec web/0 -- touch ready");
    let status = cell.is_healthy("web");
    assert_eq!(status["tasks"][0]["generation"], 1);
    until("it is under its name again", || served() == 1);
    let events = cell.ok("bourg events web");
    assert!(
        events.lines().any(|line| line.contains("UNREADY") && line.contains("no database")),
        "{events}"
    );
}

#[test]
fn an_endless_check_command_is_killed_at_its_timeout() {
    let mut cell = Cell::start();
    cell.ok("bourg run $EXAMPLES/hello.bcl");
    let quick = "interval: '100ms', timeout: '500ms', startGrace: 0, failures: 2";
    for (name, exec) in [
        ("waits", "['sleep', '1000']"),
        ("prints", "['yes']"),
        ("leaves", "['sh', '-c', 'sleep 1000 & exit 3']"),
        ("absent", "['no-such-program']"),
    ] {
        run(&cell, name, SLEEPS, &format!("healthCheck: {{ exec: {exec}, {quick} }}"));
    }
    assert_eq!(last_end(&cell, "waits"), "unhealthy: sleep → no end within 500 ms");
    let prints = last_end(&cell, "prints");
    assert_eq!(prints, "unhealthy: yes → printed more than 1024 KiB: y");
    let leaves = last_end(&cell, "leaves");
    assert_eq!(leaves, "unhealthy: sh → exit code 3", "what it leaves running is not waited for");
    let absent = last_end(&cell, "absent");
    assert!(absent.starts_with("unhealthy: no-such-program → exit code 127: "), "{absent}");
    let hello = cell.status("hello");
    for task in hello["tasks"].as_array().expect("tasks") {
        assert_eq!((&task["generation"], &task["health"]), (&1.into(), &"HEALTHY".into()));
        assert_eq!(task["check"], "HTTP 200");
    }
    cell.stop();
    until("nothing is left", || cell.nothing_is_left());
}

#[test]
fn processes_of_a_check_command_end_with_it() {
    let cell = Cell::start();
    let names = ["late", "prints", "ends"];
    // At its timeout, at the bound of its output, and at its own end.
    let scripts = ["sleep 777 & sleep 778", "sleep 777 & yes", "(setsid sleep 777 &); exit 1"];
    for (name, script) in names.iter().zip(scripts) {
        let exec = format!("['sh', '-c', 'echo x >> tries; {script}']");
        let quick = "interval: '100ms', timeout: '300ms', startGrace: 0, failures: 100000";
        run(&cell, name, SLEEPS, &format!("healthCheck: {{ exec: {exec}, {quick} }}"));
    }
    for name in names {
        // Those that have ended, and that their init has not reaped yet, do not count.
        let look = format!(
            "bourg exec {name} -- sh -c 'wc -l < tries; \
             cat /proc/[0-9]*/stat | grep -c \"(sleep) [RSDT]\"'"
        );
        let sleeping = eventually("it was checked some times", || {
            let said = cell.types(&look).stdout;
            let (tries, sleeping) = said.trim().split_once('\n')?;
            let sleeping = sleeping.parse::<u32>().expect("a number");
            (tries.parse::<u32>().expect("a number") >= 6).then_some(sleeping)
        });
        assert!(sleeping <= 3, "{name}: the task and one check, not {sleeping}");
    }
}

#[test]
fn a_tcp_check_passes_where_something_listens_and_says_what_failed() {
    let cell = Cell::start();
    let server = "['bourg', 'example-server', '--port', '${port.web}']";
    run(&cell, "open", server, "healthCheck: { tcp: 'web' }");
    let port = cell.is_healthy("open")["tasks"][0]["ports"][0]["port"].to_string();
    assert_eq!(check(&cell, "open"), format!("connected to port {port}"));
    let closed = "healthCheck: { tcp: 'web', interval: '100ms', startGrace: 0 }";
    run(&cell, "closed", SLEEPS, closed);
    let end = last_end(&cell, "closed");
    assert!(end.starts_with("unhealthy: connection to web → cannot connect to port "), "{end}");
    assert!(end.contains("Connection refused"), "{end}");
}

/// Each check says something else; the log has a record of one of them.
#[test]
fn an_unhealthy_task_says_why_without_a_record_per_check() {
    let cell = Cell::start();
    run(
        &cell,
        "slow",
        SLEEPS,
        "healthCheck: {
           exec: ['sh', '-c', 'echo x >> tries; echo attempt $(wc -l < tries); exit 1'],
           interval: '100ms', startGrace: '10m', successes: 2,
         }",
    );
    let said = eventually("it says why", || {
        Some(check(&cell, "slow")).filter(|said| said.starts_with("exit code 1: attempt "))
    });
    let table = cell.ok("bourg status slow");
    assert!(table.contains(&format!("not yet: {said}")), "{table}");
    let home = cell.ok("echo -n cell/borglet/tasks/*/home/tries");
    let tries = || std::fs::read_to_string(cell.path(&home)).unwrap_or_default().lines().count();
    let index = || cell.ok("bourg cell -o index").trim().parse::<u64>().expect("an index");
    let (first, before) = (tries(), index());
    until("it was checked thirty times more", || tries() >= first + 30);
    let records = index() - before;
    assert!(records <= 5, "{records} records for 30 checks");
    assert_eq!(check(&cell, "slow"), said);
}

#[test]
fn a_task_that_is_restarted_always_runs_again_after_exit_code_0() {
    let cell = Cell::start();
    run(&cell, "again", "['true']", "restart: 'always'");
    let status =
        cell.job("again", "runs for the third time", |job| job["tasks"][0]["restarts"] == 2);
    assert_eq!(status["tasks"][0]["failures"], 0);
    let waits = || cell.ok("bourg status again").contains("exit code 0, restarts in ");
    until("it says when it runs again", waits);
    let task = cell.job("again", "waits", |job| job["tasks"][0]["notBefore"] != "0");
    assert_eq!(task["tasks"][0]["state"], "pending");
    let wide = cell.ok("bourg status again -o wide");
    assert!(wide.contains("RESTARTS") && wide.contains("finished, will be restarted"), "{wide}");
    let events = cell.ok("bourg events again/0");
    assert!(events.contains("FINISH"), "{events}");
}

#[test]
fn a_task_that_is_never_restarted_is_dead_at_its_first_failure() {
    let cell = Cell::start();
    run(&cell, "once", "['sh', '-c', 'exit 3']", "restart: 'never'");
    let status = cell.job("once", "has failed", |job| job["state"] == "failed");
    let task = &status["tasks"][0];
    assert_eq!((&task["failures"], &task["restarts"]), (&1.into(), &0.into()));
    assert_eq!(task["generation"], 1);
    run(&cell, "good", "['true']", "restart: 'never'");
    cell.job("good", "has finished", |job| job["state"] == "finished");
}

#[test]
fn an_invalid_health_check_or_restart_is_rejected_with_its_place() {
    let cell = Cell::start();
    for (wrong, says) in [
        ("restart: 'sometimes'", "use never, on-failure or always"),
        ("healthCheck: { grpc: 'web' }", "'grpc' is not a field of a health check"),
        ("healthCheck: { tcp: 'web', exec: ['true'] }", "'exec' does not go with 'tcp'"),
        ("metrics: { port: 'web' }", "'web' is not a port of the tasks"),
    ] {
        let job = format!("{{ name: 'wrong', cmd: ['true'], {wrong} }}");
        cell.write("wrong.bcl", job);
        let said = cell.fails(2, "bourg run wrong.bcl");
        assert!(said.contains(says) && said.contains("wrong.bcl:1:"), "{said}");
    }
    assert_eq!(cell.ok("bourg status -a -o name"), "");
}
