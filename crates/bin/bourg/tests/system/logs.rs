//! `bourg logs`: several tasks in the order of time, parts of a log, earlier incarnations, JSON.

use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use serde_json::Value;

use crate::cell::{Cell, Role};
use crate::eventually::{eventually, until};
use crate::processes;

/// A service `steps` that writes when it is asked to: a step on USR1, its end on USR2.
fn write_steps(cell: &Cell, tasks: u32, fields: &str) {
    cell.write(
        "steps.bcl",
        format!(
            "local borg = import 'borg.libsonnet';
             local program = |||
               trap 'n=$((n+1)); echo \"step $n\"; echo \"odd $n\" >&2' USR1
               trap 'echo crash; exit 3' USR2
               trap 'echo stops; exit 0' TERM
               echo \"begins $MODE\"
               while :; do sleep 0.05; done
             |||;
             borg.service('steps', tasks={tasks}, cmd=['sh', '-c', program]) {{
               cpu: 0.05, ram: '16 MiB', env: {{ MODE: 'one' }}, {fields}
             }}"
        ),
    );
}

/// The lines of `bourg logs` as JSON.
#[track_caller]
fn json(cell: &Cell, line: &str) -> Vec<Value> {
    let text = cell.ok(&format!("{line} -o json"));
    text.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect()
}

/// Has a task write a step at a time of its own: times are accurate to 100 ms.
#[track_caller]
fn step(cell: &Cell, task: u32, step: u32) {
    let begun = Instant::now();
    until("time passes", || begun.elapsed() > Duration::from_millis(250));
    processes::signal(cell.tasks("steps")[&task], Signal::SIGUSR1);
    let line = format!("bourg logs steps/{task}");
    until("the step is written", || {
        let said = cell.ok(&line);
        said.contains(&format!("step {step}\n")) && said.contains(&format!("odd {step}\n"))
    });
}

#[test]
fn logs_of_several_tasks_are_ordered_by_time_and_searchable() {
    let cell = Cell::start();
    write_steps(&cell, 3, "");
    cell.ok("bourg run steps.bcl");
    until("all have begun", || cell.ok("bourg logs steps").matches("  begins one\n").count() == 3);
    for (task, number) in [(2, 1), (0, 1), (1, 1), (2, 2)] {
        step(&cell, task, number);
    }
    let ordered = "steps/2  step 1\nsteps/0  step 1\nsteps/1  step 1\nsteps/2  step 2\n";
    assert_eq!(cell.ok("bourg logs steps --grep '^step'"), ordered);
    assert_eq!(cell.ok("bourg logs steps --grep 'step|odd'").lines().count(), 8);
    assert_eq!(cell.ok("bourg logs steps/1-2 --grep step | grep -c step").trim(), "3");
    assert_eq!(cell.ok("bourg logs steps --grep ODD --stream stderr"), "");
    assert_eq!(
        cell.ok("bourg logs steps --grep '(?i)ODD' --stream stderr"),
        ordered.replace("step ", "odd ")
    );

    let lines = json(&cell, "bourg logs steps --grep '^step'");
    let field = |name: &str| lines.iter().map(|line| line[name].clone()).collect::<Vec<_>>();
    assert_eq!(field("task"), [2, 0, 1, 2]);
    assert_eq!(field("text"), ["step 1", "step 1", "step 1", "step 2"]);
    assert_eq!(lines[0]["job"], "steps");
    assert_eq!((&lines[0]["version"], &lines[0]["generation"]), (&1.into(), &1.into()));
    assert_eq!(lines[0]["stream"], "stdout");
    let times: Vec<&str> =
        lines.iter().map(|line| line["time"].as_str().expect("a time")).collect();
    assert!(times.is_sorted(), "{times:?}");
    assert!(times.iter().all(|at| at.ends_with('Z') && at.len() == 24), "{times:?}");
    assert_eq!(
        cell.ok("bourg logs steps/0 --grep step -o wide"),
        format!("{}  step 1\n", times[1].replace('T', " ").trim_end_matches('Z'))
    );
    assert_eq!(cell.ok("bourg logs steps/0 --grep step -o time"), format!("{}\n", times[1]));

    // The time of the third step divides the log.
    let (before, after) = ordered.split_at(2 * "steps/0  step 1\n".len());
    for (bound, expected) in [("until", before), ("since", after)] {
        let line = format!("bourg logs steps --grep ^step --{bound} {}", times[2]);
        assert_eq!(cell.ok(&line), expected, "{line}");
    }
    let line = format!("bourg logs steps --grep ^step --since {} --until 0s", times[2]);
    assert_eq!(cell.ok(&line), after);
    assert_eq!(cell.ok("bourg logs steps --until 1h"), "");

    let huge = "x".repeat(1_025);
    for (arguments, says) in [
        ("--since 2999-01-01T00:00", "error: --since is in the future: nothing is that new"),
        ("--since 1h --until 2h", "error: --since is not before --until"),
        ("--since yesterday", "'yesterday' is not a time: use an age such as 1h"),
        ("-f --until 1h", "cannot be used with"),
        ("-f --previous", "cannot be used with"),
        ("--grep '('", "the regular expression is invalid: "),
        ("-f --grep '('", "the regular expression is invalid: "),
        ("--grep '((a{1,100}){1,100}){1,100}'", "the regular expression is too large: "),
        (&format!("--grep {huge}"), "has 1025 bytes, at most 1024 are allowed"),
        ("--previous", "no such task of root/steps has had more than one incarnation"),
        ("--version 7", "no such task of root/steps runs version 7 or ran it last"),
    ] {
        let said = cell.fails(2, &format!("bourg logs steps {arguments}"));
        assert!(said.contains(says), "{arguments}: {said}");
    }
}

#[test]
fn a_log_is_followed_through_incarnations_and_read_by_each() {
    let cell = Cell::start();
    // The shell says on stderr that its children are terminated.
    let reads =
        |arguments: &str| cell.ok(&format!("bourg logs steps/0 --stream stdout {arguments}"));
    write_steps(&cell, 1, "restart+: { delay: '1s' }");
    cell.write("two.bcl", "(import 'steps.bcl') { env: { MODE: 'two' } }");
    cell.ok("bourg run steps.bcl");
    let followed = cell.start("bourg", &["logs", "-f", "steps", "--stream", "stdout"]);
    let found = cell.start("bourg", &["logs", "-f", "steps/0", "--grep", "crash|stops"]);
    until("the first line is followed", || followed.stdout() == "steps/0  begins one\n");
    processes::signal(cell.tasks("steps")[&0], Signal::SIGUSR2);
    let twice = "steps/0  begins one\nsteps/0  crash\nsteps/0  begins one\n";
    until("the next incarnation is followed", || followed.stdout() == twice);
    assert_eq!(reads(""), "begins one\n");
    assert_eq!(reads("--previous"), "begins one\ncrash\n");

    cell.ok("bourg update two.bcl");
    let thrice = format!("{twice}steps/0  stops\nsteps/0  begins two\n");
    until("the new version is followed", || followed.stdout() == thrice);
    assert_eq!(reads(""), "begins two\n");
    assert_eq!(reads("--version 1"), "begins one\nstops\n");
    assert_eq!(reads("--previous"), "begins one\nstops\n");
    assert_eq!(json(&cell, "bourg logs steps/0")[0]["version"], 2);
    let previous = json(&cell, "bourg logs steps/0 --stream stdout --previous");
    assert_eq!(previous[1]["text"], "stops");
    assert_eq!(
        (&previous[1]["version"], &previous[1]["generation"]),
        (&1.into(), &2.into()),
        "the incarnation after the crash"
    );

    cell.ok("bourg kill steps");
    let followed = followed.ends();
    assert_eq!((followed.code, followed.stderr.as_str()), (0, ""));
    assert_eq!(followed.stdout, format!("{thrice}steps/0  stops\n"));
    let found = found.ends();
    assert_eq!((found.code, found.stdout.as_str()), (0, "crash\nstops\nstops\n"));
    assert_eq!(reads(""), "begins two\nstops\n", "the dead have logs");
    assert_eq!(reads("--previous"), "begins one\nstops\n", "by its machine");
}

#[test]
fn bytes_that_are_no_text_are_replaced_in_json() {
    let cell = Cell::start();
    cell.write(
        "bytes.bcl",
        r#"(import 'borg.libsonnet').batch('bytes', cmd=['printf', '\\377\\033[1m\\303\\251\\n\\177no end'])
             { priority: 'free' }"#,
    );
    cell.ok("bourg run --wait bytes.bcl");
    let text = cell.ok("bourg logs bytes/0 -o json");
    assert!(text.bytes().all(|byte| byte == b'\n' || !byte.is_ascii_control()), "{text:?}");
    let lines = json(&cell, "bourg logs bytes/0");
    assert_eq!(lines.len(), 2, "{text}");
    assert_eq!(lines[0]["text"], "\u{fffd}\u{1b}[1m\u{e9}");
    assert_eq!(lines[1]["text"], "\u{7f}no end");
    assert_eq!(cell.ok("bourg logs bytes/0 -o text | tail -n 1").trim(), "\u{7f}no end");
}

#[test]
fn a_long_line_is_whole_and_a_too_long_one_marked() {
    const LONG: usize = 3_000_000;
    const TOO_LONG: usize = 20_000_000;
    let cell = Cell::start();
    cell.write(
        "long.bcl",
        format!(
            "local script = |||
               head -c {LONG} /dev/zero | tr '\\0' a; echo
               head -c {TOO_LONG} /dev/zero | tr '\\0' b; echo
               echo end
             |||;
             (import 'borg.libsonnet').batch('long', cmd=['sh', '-c', script]) {{ ram: '32 MiB' }}"
        ),
    );
    cell.ok("bourg run --wait long.bcl");
    let lines = json(&cell, "bourg logs long");
    let lengths = |first: &str| -> Vec<(usize, bool)> {
        let is_one = |line: &&Value| line["text"].as_str().is_some_and(|it| it.starts_with(first));
        let length = |line: &Value| line["text"].as_str().map_or(0, str::len);
        let found = lines.iter().filter(is_one);
        found.map(|line| (length(line), line["cut"].as_bool().unwrap_or(false))).collect()
    };
    assert_eq!(lengths("a"), [(LONG, false)]);
    let pieces = lengths("b");
    assert_eq!(pieces.iter().map(|(length, _)| length).sum::<usize>(), TOO_LONG);
    let cut: Vec<bool> = pieces.iter().map(|(_, cut)| *cut).collect();
    assert_eq!(cut, [true, false], "{pieces:?}");
    assert_eq!(lengths("end"), [(3, false)]);
    let first = cell.ok("bourg logs long | head -n 1 | wc -c");
    assert_eq!(first.trim(), (LONG + "long/0  \n".len()).to_string());
}

#[test]
fn a_machine_that_does_not_answer_does_not_end_the_others_output() {
    let cell = Cell::start_with(&["--machines", "2"]);
    write_steps(&cell, 2, "maxPerMachine: { tasks: 1, hard: true }");
    cell.ok("bourg run steps.bcl");
    until("all have begun", || cell.ok("bourg logs steps").matches("  begins one\n").count() == 2);
    let task = *cell.tasks("steps").keys().next().expect("one is on the first machine");
    let borglet = eventually("the Borglet runs", || cell.pid(Role::Borglet));
    processes::signal(borglet, Signal::SIGSTOP);
    let ended = cell.types("bourg logs steps");
    processes::signal(borglet, Signal::SIGCONT);
    assert_eq!(ended.code, 1, "{}", ended.stderr);
    assert_eq!(ended.stdout, format!("steps/{}  begins one\n", 1 - task));
    let says = format!("error: the logs of root/steps/{task} cannot be read: ");
    assert!(ended.stderr.contains(&says), "{}", ended.stderr);
}
