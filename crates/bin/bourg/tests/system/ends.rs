//! How tasks end: what they are told before, and what is saved of them afterwards.

use std::io::Read as _;
use std::net::TcpListener;

use crate::cell::{Cell, Role};
use crate::eventually::{eventually, until};

/// A job of one task that runs a script with bash.
fn job(cell: &Cell, name: &str, script: &str, fields: &str) {
    cell.write(&format!("{name}.sh"), script);
    let text = format!(
        "(import 'borg.libsonnet').batch('{name}', cmd=['bash', '-c', importstr '{name}.sh'])
           {{ ram: '16 MiB', restart: {{ failures: 0 }}, {fields} }}"
    );
    cell.write(&format!("{name}.bcl"), text);
}

/// A port that nobody listens at.
fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("it is bound").port()
}

/// What one connection to a port sends.
fn received(port: u16) -> String {
    let listener = TcpListener::bind(("127.0.0.1", port)).expect("the port is free");
    let (mut connection, _) = listener.accept().expect("a connection");
    let mut text = String::new();
    connection.read_to_string(&mut text).expect("text");
    text
}

#[test]
fn a_task_reads_why_it_is_stopped_and_until_when() {
    let cell = Cell::start();
    let told = "trap 'cat \"$BOURG_NOTICE\"; exit 0' TERM
                test -e \"$BOURG_NOTICE\" && echo too early
                echo ready
                while :; do sleep 0.1; done";
    job(&cell, "told", told, "notice: '20s'");
    cell.ok("bourg run --detach told.bcl");
    until("its handler is there", || cell.types("bourg logs told").stdout.contains("ready"));
    cell.ok("bourg kill told");
    cell.job("told", "is dead", |job| job["state"] == "killed");
    let said = cell.ok("bourg logs --stream stdout told/0");
    let notice = said.strip_prefix("ready\n").expect("it was not told earlier");
    let notice: serde_json::Value = serde_json::from_str(notice).expect("JSON");
    assert_eq!(notice["reason"], "killed");
    assert_eq!(notice["cause"], "killed by root");
    assert_eq!(notice["noticeSeconds"], 20.0);
    let deadline = notice["deadline"].as_str().expect("a time");
    assert!(deadline.starts_with("20") && deadline.ends_with('Z'), "{deadline}");
    let said = cell.ok("bourg cell");
    assert!(said.contains("100.0% of 1 in full (killed 1 of 1)"), "{said}");
    let said = cell.ok("bourg events told");
    assert!(said.contains("notice in full"), "{said}");
}

/// Tasks that end a little apart: the order that follows the first end must not lose the others.
#[test]
fn every_end_of_tasks_that_are_killed_together_is_told() {
    let cell = Cell::start();
    job(&cell, "together", "sleep 1d", "tasks: 6, cpu: 0.05");
    for round in 1..=4 {
        cell.ok("bourg run together.bcl");
        cell.ok("bourg kill together");
        cell.job("together", "is dead", |job| job["state"] == "killed");
        let said = cell.ok("bourg events together -n 500");
        assert_eq!(said.matches("notice in full").count(), round * 6, "round {round}: {said}");
    }
}

/// Tasks that are stopped while their machine sets them up, some of them while they wait for their turn:
/// each would run to the end of its notice, which is longer than the test, if its signal were lost.
#[test]
fn a_stop_right_after_a_start_is_not_lost() {
    let cell = Cell::start();
    let fields = "ram: '8 MiB', cpu: 0.001, notice: '1h'";
    cell.write(
        "many.bcl",
        format!(
            "local borg = import 'borg.libsonnet';
             [borg.service('many-%d' % i, tasks=10, cmd=['sleep', '100000'])
                {{ {fields}, labels: {{ app: 'many' }} }} for i in std.range(1, 4)]"
        ),
    );
    let jobs = || {
        let jobs = cell.types("bourg status -a -l app=many -o json").stdout;
        serde_json::from_str::<Vec<serde_json::Value>>(&jobs).unwrap_or_default()
    };
    let running = || jobs().iter().filter_map(|job| job["counts"]["running"].as_u64()).sum::<u64>();
    for begun in [0, 1, 10, 25] {
        cell.ok("bourg run --detach many.bcl");
        until("some of them run", || running() >= begun);
        cell.ok("bourg kill --detach -l app=many");
        until("all have ended", || jobs().iter().all(|job| job["state"] == "killed"));
    }
}

#[test]
fn a_preempting_job_bounds_the_notice() {
    let cell = Cell::start();
    let stays = "trap 'cat \"$BOURG_NOTICE\"' TERM
                 echo ready
                 while :; do sleep 0.1; done";
    let cpu = cell.ok("bourg machines -o capacity.cpuMilli");
    let cpu: u64 = cpu.trim().parse().expect("a number");
    let most = format!("priority: 'free', notice: '1h', cpuMilli: {}", cpu - 50);
    job(&cell, "victim", stays, &most);
    cell.ok("bourg run --detach victim.bcl");
    until("its handler is there", || cell.types("bourg logs victim").stdout.contains("ready"));
    let needs = format!("cpuMilli: {}, preemption: {{ noticeMax: '1.5s' }}", cpu - 50);
    job(&cell, "urgent", "sleep 1000", &format!("priority: 200, {needs}"));
    cell.ok("bourg run --detach urgent.bcl");
    until("it has left", || cell.ok("bourg events victim").contains("EVICT"));
    let said = cell.ok("bourg logs victim");
    assert!(said.contains("\"reason\": \"preempted\""), "{said}");
    assert!(said.contains("\"cause\": \"preempted by root/urgent/0\""), "{said}");
    assert!(said.contains("\"noticeSeconds\": 1.500"), "{said}");
    let said = cell.ok("bourg cell");
    assert!(said.contains("preempted 1 of 1"), "{said}");
}

#[test]
fn a_saver_is_tried_until_it_has_saved_what_its_task_left() {
    let cell = Cell::start();
    let port = free_port();
    let saver = format!(
        "echo \"attempt by $(id -u)\" >> attempts
         {{ cat result; echo \"$BOURG_END of $BORG_JOB/$BORG_TASK\"; wc -l < attempts; }} > all
         cat all > /dev/tcp/127.0.0.1/{port}"
    );
    cell.write("save.sh", saver);
    let saver =
        "saver: { cmd: ['bash', '-c', importstr 'save.sh'], timeLimit: '10m', interval: 1 }";
    job(&cell, "made", "echo precious > result; echo written; sleep 1000", saver);
    cell.ok("bourg run --detach made.bcl");
    until("it has written", || cell.types("bourg logs made").stdout.contains("written"));
    cell.ok("bourg kill made");
    cell.job("made", "is dead", |job| job["state"] == "killed");
    let attempts = || {
        let show = "bourg machine show $(bourg machines -o name) -o saving.0.attempts";
        cell.types(show).stdout.trim().parse::<u32>().unwrap_or_default()
    };
    let before = eventually("two attempts have failed", || Some(attempts()).filter(|n| *n >= 2));
    let shown = cell.ok("bourg machine show $(bourg machines -o name)");
    assert!(shown.contains("the data of 1 ended instance, "), "{shown}");
    assert!(shown.contains("root/made/0"), "{shown}");
    cell.kill(Role::Borglet);
    until("the next Borglet goes on", || attempts() > before);
    let said = received(port);
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines[..2], ["precious", "signal 15 of made/0"], "{said}");
    assert!(lines[2].trim().parse::<u32>().expect("a number") > before, "{said}");
    let events = || cell.ok("bourg events made");
    until("it is an event", || events().contains("SAVED"));
    until("nothing is kept", || {
        let shown = cell.ok("bourg machine show $(bourg machines -o name)");
        let kept = std::fs::read_dir(cell.directory().join("borglet/savers")).expect("a directory");
        !shown.contains("root/made/0") && kept.count() == 0
    });
    assert_eq!(events().matches("SAVED").count(), 1, "{}", events());
}

#[test]
fn data_that_cannot_be_saved_is_given_up_and_says_why() {
    let cell = Cell::start();
    let saver =
        "saver: { cmd: ['sh', '-c', 'echo no route >&2; exit 3'], timeLimit: 2, interval: 1 }";
    job(&cell, "lost", "exit 7", saver);
    cell.types("bourg run --wait lost.bcl");
    let said = eventually("it is given up", || {
        Some(cell.ok("bourg events lost")).filter(|said| said.contains("SAVER_GIVEN_UP"))
    });
    assert!(said.contains("it did not succeed within 2 s"), "{said}");
    assert!(said.contains("the last: exit code 3: no route"), "{said}");
}

#[test]
fn an_alloc_is_saved_when_it_leaves() {
    let cell = Cell::start();
    let port = free_port();
    cell.write("save.sh", format!("cat shared > /dev/tcp/127.0.0.1/{port}"));
    cell.write(
        "room.bcl",
        "(import 'borg.libsonnet').allocSet('room')
           { cpu: 0.2, ram: '64 MiB', saver: { cmd: ['bash', '-c', importstr 'save.sh'], interval: 1 } }",
    );
    cell.ok("bourg run room.bcl");
    let writes = "echo together > /alloc/shared; echo written; sleep 1000";
    job(&cell, "inside", writes, "allocSet: 'room', priority: 200");
    cell.ok("bourg run --detach inside.bcl");
    until("it has written", || cell.types("bourg logs inside").stdout.contains("written"));
    cell.ok("bourg kill room");
    assert_eq!(received(port), "together\n");
    until("it is an event", || cell.ok("bourg events room").contains("SAVED"));
}

/// A task that ignores SIGTERM and wants a day before SIGKILL holds its room no longer than others say.
#[test]
fn a_long_notice_holds_nobody_up() {
    let cell = Cell::start();
    let machine = cell.ok("bourg machines -o name").trim().to_owned();
    let script = "trap '' TERM; echo ready; while :; do sleep 0.1; done";
    job(&cell, "hog", script, "notice: '1d', priority: 'free'");
    let runs = || {
        cell.ok("bourg run --detach hog.bcl");
        until("it runs", || cell.types("bourg logs hog/0").stdout.contains("ready"));
    };
    assert_eq!(cell.ok("bourg cell notice-max"), "5 m\n");

    // The operator's maximum holds for what is being stopped already.
    runs();
    cell.ok("bourg kill --detach hog");
    cell.ok("bourg cell notice-max 1s");
    cell.job("hog", "is dead", |job| job["state"] == "killed");
    cell.ok("bourg cell notice-max 5m");
    let events = cell.ok("bourg events --from 1");
    assert!(events.contains("NOTICE_MAX"), "{events}");
    cell.fails(2, "bourg cell notice-max 2d");

    // Who is in a hurry says so, also when it was killed before.
    runs();
    cell.ok("bourg kill --detach hog");
    cell.ok("bourg kill --now hog");

    // A forced drain ends at its deadline.
    runs();
    cell.ok(&format!("bourg machine drain {machine} --by 2s --force"));
    assert_eq!(cell.ok("bourg machines -o state"), "drained\n");
}
