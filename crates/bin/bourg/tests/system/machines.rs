//! Administration of machines: drain, attributes, platforms, removal.

use nix::sys::signal::Signal;
use rpc::{Authority, Identity};
use serde_json::Value;

use crate::access::client_directory;
use crate::cell::Cell;
use crate::eventually::until;
use crate::processes;

/// The only machine of a dev cell.
fn machine(cell: &Cell) -> String {
    cell.ok("bourg machines -o name").trim().to_owned()
}

/// Types a line that succeeds; returns its stderr.
#[track_caller]
fn says(cell: &Cell, line: &str) -> String {
    let ended = cell.types(line);
    assert_eq!(ended.code, 0, "$ {line}\n{}{}", ended.stdout, ended.stderr);
    ended.stderr
}

/// `bourg machine show` as JSON.
fn shown(cell: &Cell, machine: &str) -> Value {
    let json = cell.ok(&format!("bourg machine show {machine} -o json"));
    serde_json::from_str(&json).expect("this is JSON")
}

#[test]
fn a_drained_machine_is_empty_until_it_is_used_again() {
    let cell = Cell::start();
    let m = machine(&cell);
    cell.ok("bourg run $EXAMPLES/hello.bcl");
    let plan = cell.ok(&format!("bourg drain {m} --plan"));
    assert!(
        plan.starts_with("0 tasks move, 0 wait, 3 find no room elsewhere (root/hello/0: "),
        "{plan}"
    );
    assert_eq!(cell.ok("bourg machines -o state"), "up\n", "a plan changes nothing");
    let drain = format!("bourg machine drain {m} --reason 'a new kernel' --by 1s --force");
    let said = says(&cell, &drain);
    assert!(said.starts_with(&format!("simulated first: {plan}{m}: draining, 1 task")), "{said}");
    assert!(said.ends_with(&format!("{m}: empty, safe to power off\n")), "{said}");
    assert_eq!(cell.tasks("hello"), [].into(), "they have left");

    assert_eq!(cell.ok("bourg machines -o state"), "drained\n");
    assert_eq!(cell.ok("bourg status hello -o tasks.0.state"), "pending\n");
    let why = cell.ok("bourg why hello");
    assert!(why.contains("of 1 machine  1 is draining"), "{why}");
    assert!(why.contains(" evicted: machine shutdown\n"), "{why}");
    let text = cell.ok(&format!("bourg machine show {m}"));
    assert!(text.contains("ago by root: a new kernel\n"), "{text}");
    let table = cell.ok("bourg machines");
    assert!(table.contains("  drained  0 "), "{table}");
    let events = cell.ok(&format!("bourg events --machine {m}"));
    assert!(events.contains("  DRAIN           a new kernel, by root\n"), "{events}");

    assert_eq!(
        says(&cell, &format!("bourg machine undrain {m}")),
        format!("{m}: available again\n")
    );
    let status = cell.is_healthy("hello");
    assert_eq!(status["tasks"][0]["generation"], 2);
    assert_eq!(status["tasks"][0]["failures"], 0, "to leave is no failure");
    let again = says(&cell, &format!("bourg machine undrain {m}"));
    assert_eq!(again, format!("{m}: was not drained\n"));
    let text = cell.ok(&format!("bourg machine show {m}"));
    assert!(text.contains("\nroot/hello/2  running "), "{text}");
    // The task that replaced one that had to leave ends only after it is healthy again.
    until("the replacement has left", || {
        cell.ok(&format!("bourg machine show {m}")).contains(", 3 of them taken\n")
    });
}

#[test]
fn a_drain_reports_the_remaining_tasks_and_waits_a_bounded_time() {
    let cell = Cell::start();
    let m = machine(&cell);
    cell.write(
        "deaf.bcl",
        r"(import 'borg.libsonnet').service('deaf', cmd=[
            'sh', '-c', 'trap \'echo stays\' TERM; echo ready; while :; do sleep 0.1; done'
          ]) { notice: '5m' }",
    );
    cell.ok("bourg run deaf.bcl");
    until("it listens to signals", || cell.ok("bourg logs deaf/0") == "ready\n");
    let said = cell.fails(1, &format!("bourg machine drain {m} --timeout 1s"));
    assert!(said.contains("1 task leaves\n1 task is left: root/deaf/0 is stopping\n"), "{said}");
    assert!(said.contains(&format!("error: 1 task is still on {m} after 1 s")), "{said}");
    assert!(said.contains(&format!("next: bourg machine show {m}")), "{said}");
    let shown = shown(&cell, &m);
    assert_eq!(shown["placed"][0]["task"]["state"], "stopping", "{shown:#}");
    assert_eq!(shown["placed"][0]["task"]["reason"], "evicted: machine shutdown");

    // It can be undrained before it is empty, and waiting commands are told.
    let mut waits = cell.start("bourg", &["machine", "drain", &m]);
    until("it waits", || waits.stderr().contains("1 task is left"));
    assert_eq!(waits.code(), None);
    cell.ok(&format!("bourg machine undrain {m}"));
    let ended = waits.ends();
    assert_eq!(ended.code, 7, "{}", ended.stderr);
    assert!(ended.stderr.contains(&format!("error: {m} is no longer drained")), "{ended:?}");
    processes::signal(cell.tasks("deaf")[&0], Signal::SIGKILL);
    let again =
        |job: &Value| job["tasks"][0]["generation"] == 2 && job["tasks"][0]["state"] == "running";
    let status = cell.job("deaf", "runs again", again);
    assert_eq!(status["tasks"][0]["failures"], 0, "however it left");

    let said = says(&cell, &format!("bourg machine drain -l isolation=jail --detach; echo {m}"));
    assert!(said.ends_with(&format!("{m}: draining, 1 task leaves\n")), "{said}");
    processes::signal(cell.tasks("deaf")[&0], Signal::SIGKILL);
    let said = cell.fails(2, "bourg machine drain -l isolation=none");
    assert!(said.contains("error: no machine matches the attributes isolation=none"), "{said}");
    let said = cell.fails(2, &format!("bourg machine drain {m} {m}x"));
    assert!(said.contains(&format!("no machine {m}x; the nearest is {m}")), "{said}");
}

#[test]
fn attributes_set_by_an_operator_decide_which_tasks_run() {
    let cell = Cell::start();
    let m = machine(&cell);
    cell.write(
        "train.bcl",
        "local borg = import 'borg.libsonnet';
         borg.service('train', cmd=['bourg', 'example-server', '--port', borg.port('http')]) {
           constraints: [borg.attribute('gpu').equal('H200')],
         }",
    );
    let said = cell.fails(4, "bourg run train.bcl --timeout 3s");
    assert!(said.contains(r#"1 does not match gpu = "H200""#), "{said}");
    let said = says(&cell, &format!("bourg machine set {m} gpu=H200 rack=r7 kernel=theirs"));
    assert_eq!(said, format!("{m}: gpu = H200\n{m}: rack = r7\n{m}: kernel = theirs\n"));
    cell.is_healthy("train");
    assert_eq!(cell.ok("bourg machines -l gpu=H200,rack=r7 -o name").trim(), m);
    assert_eq!(cell.ok("bourg machines -l '!gpu' -o name"), "");
    let wide = cell.ok("bourg machines -o wide");
    assert!(wide.contains("  RACK  ADDRESS  ") && wide.contains("  r7    "), "{wide}");
    assert!(!cell.ok("bourg machines").contains("RACK"));

    let text = cell.ok(&format!("bourg machine show {m}"));
    let said_by = |attribute: &str| {
        let mut lines = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
        let line = lines.find(|words| words.first() == Some(&attribute));
        line.unwrap_or_else(|| panic!("{attribute} is not in\n{text}")).join(" ")
    };
    assert_eq!(said_by("gpu"), "gpu H200 an operator");
    assert!(
        said_by("kernel").starts_with("kernel theirs an operator; the machine reports "),
        "{text}"
    );
    assert!(said_by("arch").ends_with(" the machine"), "{text}");

    let said = says(&cell, &format!("bourg machine set {m} kernel- gpu-"));
    assert!(said.contains(&format!("{m}: kernel is no longer overridden\n")), "{said}");
    let now = shown(&cell, &m);
    assert_eq!(now["attributes"]["kernel"], now["report"]["attributes"]["kernel"]);
    assert_eq!(now["attributes"]["gpu"], Value::Null);
    assert_eq!(now["operatorAttributes"], serde_json::json!({"rack": "r7"}));
    assert_eq!(cell.ok("bourg status train -o counts.healthy"), "1\n", "what runs there stays");

    let said = cell.fails(2, &format!("bourg machine set {m} gpu"));
    assert!(said.contains("no attribute is given: use gpu=H200"), "{said}");
    let planned = cell.ok("bourg machine set -l rack=r7 rack=r8 tier=1 --plan");
    assert_eq!(
        planned,
        format!("{m}: rack would be r8, is r7\n{m}: tier would be 1, is not set\n")
    );
    let said = says(&cell, "bourg machine set -l rack=r7,!gpu tier=1");
    assert!(said.contains(&format!("{m}: tier = 1\n")), "{said}");
    assert_eq!(shown(&cell, &m)["operatorAttributes"]["rack"], "r7", "a plan changes nothing");
    says(&cell, "bourg machine set -l tier=1 tier-");
    let said = cell.fails(2, "bourg machine set -l rack=nowhere tier=1");
    assert!(said.contains("no machine matches the attributes rack=nowhere"), "{said}");
    let said = cell.fails(2, &format!("bourg machine set {m} a=b a-"));
    assert!(said.contains("error: a is given twice"), "{said}");
    let said = cell.fails(2, &format!("bourg machine set {m}x a=b"));
    assert!(said.contains(&format!("no machine {m}x; the nearest is {m}")), "{said}");

    let authority = Authority::open(cell.path("cell/master/tls")).expect("the cell's authority");
    client_directory(&cell, "eve", &authority, &Identity::User("eve".to_owned()));
    for command in ["set vm a=b", "drain vm", "undrain vm", "remove vm", "add vm 127.0.0.1:1"] {
        let line = format!("bourg --cell ./eve machine {}", command.replace("vm", &m));
        let said = cell.fails(3, &line);
        assert!(said.contains("eve may not ") && said.contains(": an administrator"), "{said}");
    }
    assert_eq!(cell.ok("bourg machines -o state"), "up\n");
}

#[test]
fn a_faster_platform_gives_more_of_the_cells_cores() {
    let cell = Cell::start();
    let m = machine(&cell);
    let capacity = || {
        let text = cell.ok("bourg machines -o capacity.cpuMilli");
        text.trim().parse::<u64>().expect("thousandths of a core")
    };
    let (before, platform) = (capacity(), cell.ok("bourg machines -o attributes.platform"));
    let platform = platform.trim();
    let said = says(&cell, &format!("bourg machine platform '{platform}' 1.25"));
    let says_so = format!("{platform}: a core counts as 1.25 of the cell's cores, on 1 machine\n");
    assert_eq!(said, says_so);
    assert_eq!(capacity(), before * 5 / 4);
    assert_eq!(cell.ok("bourg machine platform -o factorMilli"), "1250\n");
    let table = cell.ok(&format!("bourg machine platform '{platform}'"));
    assert!(table.lines().nth(1).is_some_and(|row| row.ends_with("  1.25    1")), "{table}");
    let text = cell.ok(&format!("bourg machine show {m}"));
    let core = format!("counts as 1.25 of the cell's cores (platform {platform})\n");
    assert!(text.contains(&core), "{text}");

    let said = says(&cell, "bourg machine platform 'AMD K6' 0.1");
    assert!(said.contains("no machine reports this platform"), "{said}");
    assert_eq!(cell.ok("bourg machine platform 'AMD K6' -o machines"), "0\n");
    let said = cell.fails(2, "bourg machine platform 'AMD K7'");
    assert!(said.contains("error: no machine reports platform 'AMD K7'"), "{said}");
    let said = cell.fails(2, "bourg machine platform 'AMD K6' fast");
    assert!(said.contains("'fast' is not"), "{said}");
    cell.ok(&format!("bourg machine platform '{platform}' 1"));
    assert_eq!(capacity(), before, "1 is a core like any other");
}

#[test]
fn a_machine_is_added_and_one_that_is_empty_removed() {
    let cell = Cell::start();
    let m = machine(&cell);
    cell.ok("bourg run $EXAMPLES/hello.bcl");
    let said = says(&cell, "bourg machine add spare 127.0.0.1:1");
    assert!(
        said.contains("spare: available as soon as its Borglet answers at 127.0.0.1:1"),
        "{said}"
    );
    let added = shown(&cell, "spare");
    assert!(added["state"] == "joining" || added["state"] == "down", "nobody is there: {added:#}");
    let said = cell.fails(3, "bourg machine add other 127.0.0.1:1");
    assert!(said.contains("machine spare already has that address"), "{said}");

    let said = cell.fails(3, &format!("bourg machine remove {m}"));
    assert!(said.contains(&format!("machine {m} still has tasks (3): drain it first")), "{said}");
    assert_eq!(says(&cell, "bourg machine remove spare"), "spare: removed\n");
    assert_eq!(cell.ok("bourg machines -o name").trim(), m);
    assert!(cell.fails(2, "bourg machine show spare").contains("there is no machine spare"));
    cell.ok(&format!("bourg machine drain {m} --by 1s --force; bourg machine remove {m}"));
    assert!(cell.ok("bourg why hello").contains(" the cell has no machines\n"));
    assert_eq!(cell.ok("bourg cell -o machines"), "0\n");
}
