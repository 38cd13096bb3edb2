//! `bourg dev`: a cell for as long as it runs, and the exit codes of commands on it.

use std::collections::BTreeSet;
use std::fs;

use nix::sys::signal::Signal;

use crate::cell::{Cell, Role};
use crate::eventually::{eventually, until};
use crate::http;
use crate::processes;
use crate::terminal::Terminal;

#[test]
fn dev_ends_with_the_status_of_its_command() {
    let terminal = Terminal::new();
    let there = "test -e $BOURG_CELL/cell.toml && echo $BOURG_CELL && bourg cell -o name";
    let said = terminal.ok(&format!("bourg dev --name blue -- sh -c '{there}'"));
    let (client, name) = said.trim().split_once('\n').expect("two lines");
    assert_eq!(name, "blue");
    assert!(!fs::exists(client).expect("it can be looked for"), "{client} was temporary");
    assert_eq!(terminal.types("bourg dev --dir cell -- sh -c 'exit 7'").code, 7);
    assert_eq!(terminal.types("bourg dev --dir cell -- sh -c 'kill -KILL $$'").code, 128 + 9);
    let said = terminal.fails(2, "bourg dev --dir cell -- no-such-program");
    assert!(said.contains("cannot run no-such-program: "), "{said}");
    let said = terminal.fails(1, "bourg dev --dir cell --name blue -- true");
    assert!(said.contains("holds cell dev: start it with --name dev"), "{said}");
    assert_eq!(terminal.ok("ls config/bourg/cells"), "", "no cell is known any more");
}

#[test]
fn dev_runs_a_file_and_a_command_and_stops_the_tasks() {
    let terminal = Terminal::new();
    let line = "bourg dev --dir cell $EXAMPLES/hello.bcl -- bourg status -o counts.healthy";
    let said = terminal.ok(line);
    assert!(said.ends_with("\n3\n"), "{said}");
    let tasks = linux::cgroup::parent_name(&terminal.path("cell/borglet"));
    assert!(processes::left(&tasks, &terminal.path("cell")).is_empty());
    assert!(processes::cgroups(&tasks).is_empty());
    let said = terminal.fails(2, "bourg dev no-such-file.bcl -- true");
    assert!(said.contains("cannot read no-such-file.bcl"), "{said}");
}

#[test]
fn ctrl_c_stops_the_cell_and_removes_what_was_temporary() {
    let terminal = Terminal::new();
    let examples = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../examples/hello.bcl");
    let dev = terminal.start("bourg", &["dev", examples]);
    until("hello is healthy", || dev.stderr().contains("Ctrl-C stops the cell"));
    let known = terminal.path("config/bourg/cells/dev");
    let client = fs::read_link(&known).expect("the cell is known");
    let directory = client.parent().expect("a directory of the cell").to_owned();
    let tasks = linux::cgroup::parent_name(&directory.join("borglet"));
    assert!(!processes::cgroups(&tasks).is_empty(), "its tasks run");
    processes::signal(dev.pid(), Signal::SIGINT);
    let ended = dev.ends();
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert!(!directory.exists() && !known.is_symlink(), "{}", directory.display());
    assert!(processes::left(&tasks, &directory).is_empty());
    assert!(processes::cgroups(&tasks).is_empty());
}

#[test]
fn no_process_outlives_a_killed_dev_cell() {
    let mut cell = Cell::start();
    cell.ok("bourg run $EXAMPLES/hello.bcl");
    processes::signal(cell.dev().pid(), Signal::SIGKILL);
    until("all is gone", || cell.nothing_is_left());
    assert_eq!(cell.stop_by(Signal::SIGKILL).code, 128 + 9);
    cell.start_again(&[]);
    cell.job("hello", "runs again", |job| {
        job["tasks"][0]["generation"] == 2 && job["counts"]["healthy"] == 3
    });
}

/// Its tasks were stopped or died with it: this is not known before the machine answers.
#[test]
fn a_second_start_calls_healthy_what_answers() {
    let examples = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../examples/hello.bcl");
    let mut cell = Cell::start_with(&[examples]);
    let answers = |cell: &mut Cell| {
        let (said, told) = (cell.dev().stdout(), cell.said());
        assert!(told.contains("healthy 3/3"), "{told}");
        let addresses: Vec<&str> =
            said.lines().filter_map(|line| line.split_once(" → ")).map(|(_, at)| at).collect();
        assert_eq!(addresses.len(), 3, "{said}");
        for address in addresses {
            let answer = http::get(address, "/").expect("it was said to be healthy");
            assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        }
    };
    answers(&mut cell);
    cell.stop();
    cell.start_again(&[examples]);
    answers(&mut cell);
    cell.lose_power();
    cell.start_again(&[examples]);
    answers(&mut cell);
}

#[test]
fn dev_stops_the_tasks_of_a_dead_borglet() {
    let mut cell = Cell::start();
    cell.ok("bourg run $EXAMPLES/hello.bcl");
    // After its third consecutive death the supervisor waits, and is told to stop meanwhile.
    for _ in 0..3 {
        cell.kill(Role::Borglet);
    }
    cell.stop();
    cell.start_again(&[]);
    cell.job("hello", "runs again", |job| {
        job["tasks"][0]["generation"] == 2 && job["counts"]["healthy"] == 3
    });
}

#[test]
fn a_process_that_ends_is_started_again_and_it_says_so() {
    let mut cell = Cell::start();
    let before = cell.pid(Role::Scheduler);
    cell.kill(Role::Scheduler);
    until("it is said", || {
        cell.dev().stderr().contains("the scheduler ended (signal: 9 (SIGKILL))")
    });
    eventually("another runs", || cell.pid(Role::Scheduler).filter(|now| Some(*now) != before));
    cell.ok("bourg run $EXAMPLES/hello.bcl");
}

#[test]
fn every_exit_code_means_what_help_says() {
    let terminal = Terminal::new();
    let help = terminal.ok("bourg --help");
    for line in ["0  done and healthy", "2  usage or invalid file", "6  no master reachable"] {
        assert!(help.contains(line), "{line} is not in\n{help}");
    }
    let help = terminal.ok("bourg run --help").split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(help.contains("waits for a batch job to run, not to end"), "{help}");
    assert!(help.contains("With --wait, the command waits until all jobs have ended"), "{help}");
    let said = terminal.fails(6, "bourg status");
    assert!(said.contains("no cell is registered here") && said.contains("next: "), "{said}");
    terminal.fails(6, "bourg --cell elsewhere status");
    terminal.fails(2, "bourg stauts");

    let directory = terminal.path("cell");
    let mut cell = Cell::start_in(terminal, &directory, &[]);
    cell.write(
        "fails.bcl",
        "local borg = import 'borg.libsonnet';
         borg.batch('fails', cmd=['no-such-program']) { restart: { failures: 0 } }",
    );
    cell.ok("bourg run $EXAMPLES/batch.bcl");
    let said = cell.fails(1, "bourg run fails.bcl");
    assert!(said.contains("error: root/fails failed: task 0 not started: "), "{said}");
    assert!(said.contains("no-such-program"), "{said}");
    for line in ["status hallo", "why hallo", "logs hallo", "kill hallo"] {
        let said = cell.fails(2, &format!("bourg {line}"));
        assert!(said.contains("there is no job root/hallo"), "{said}");
    }
    cell.ok("bourg run $EXAMPLES/hello.bcl");
    let said = cell.fails(2, "bourg status hallo");
    assert!(said.contains("there is no job root/hallo; the nearest is root/hello"), "{said}");
    for line in ["status hello/99", "status hello/2-3 -o json", "why hello/0,99", "logs hello/99"] {
        let said = cell.fails(2, &format!("bourg {line}"));
        assert!(said.contains("root/hello has tasks 0 to 2 only"), "{line}: {said}");
    }
    cell.fails(2, "bourg kill hello/99");
    cell.fails(2, "bourg logs 'hello/5-2'");
    cell.fails(2, "bourg run $EXAMPLES/hello.bcl --timeout soon");
    cell.fails(3, "bourg update undo hello");
    cell.fails(4, "bourg run $EXAMPLES/too-big.bcl --timeout 100ms");
    cell.stop();
    // The client directory remains with the cell's directory; no process answers there.
    let said = cell.fails(6, "bourg --cell cell/client status");
    assert!(said.contains("next: check that the cell is running"), "{said}");
}

#[test]
fn commands_that_other_systems_have_are_answered_with_those_that_are_here() {
    let terminal = Terminal::new();
    for (line, says) in [
        ("apply -f web.yaml", "`bourg run FILE`"),
        ("ps", "`bourg status`"),
        ("--cell ps get pods", "`bourg status`"),
        ("describe job web", "`bourg status JOB -o yaml`"),
        ("delete web", "`bourg kill JOB`"),
        ("stop web", "`bourg kill JOB`"),
        ("submit web.bcl", "`bourg run FILE`"),
        ("sbatch web.sh", "`bourg run --detach FILE`"),
        ("squeue", "`bourg queue`"),
        ("squeue", "`bourg status`"),
        ("cordon m1", "`bourg drain NAME`"),
        ("scale web 5", "`bourg resize JOB N`"),
        ("ssh web/0", "`bourg exec -it JOB/3`"),
        ("stats", "`bourg usage JOB`"),
        ("rollout restart web", "`bourg update FILE`"),
        ("rollback web", "`bourg update undo JOB`"),
        ("cron list", "yet: there are no scheduled jobs"),
    ] {
        let said = terminal.fails(2, &format!("bourg {line}"));
        assert!(said.contains("there is no command '") && said.contains(says), "{line}: {said}");
    }
    // Unknown commands are reported as before, and so are unknown arguments of known commands.
    assert!(terminal.fails(2, "bourg stauts").contains("'status'"));
    assert!(terminal.fails(2, "bourg machine list").contains("unrecognized subcommand 'list'"));
}

#[test]
fn several_cells_live_side_by_side() {
    let mut blue = Cell::start_with(&["--name", "blue"]);
    assert_eq!(blue.ok("bourg cell -o name"), "blue\n");
    let green =
        blue.start("bourg", &["dev", "--dir", "green", "--name", "green", "--", "sleep", "60"]);
    until("green is ready", || green.stderr().contains("cell green"));
    let said = blue.fails(2, "bourg cell");
    assert!(
        said.contains("several cells are registered here (") && said.contains("--cell"),
        "{said}"
    );
    assert_eq!(blue.ok("bourg --cell green cell -o name"), "green\n");
    assert_eq!(blue.ok("BOURG_CELL=blue bourg cell -o name"), "blue\n");
    blue.ok("bourg --cell blue run $EXAMPLES/hello.bcl");
    blue.ok("bourg --cell green run $EXAMPLES/hello.bcl");
    let ports =
        |name| blue.ok(&format!("bourg --cell {name} status hello -o tasks.0.ports.0.port"));
    assert_ne!(ports("blue"), ports("green"));
    let of_green = linux::cgroup::parent_name(&blue.path("green/borglet"));
    let tasks = [blue.tasks("hello"), processes::tasks(&of_green, "hello")];
    let uids = tasks.iter().flat_map(|tasks| tasks.values()).map(|pid| processes::uid(*pid));
    assert_eq!(uids.collect::<BTreeSet<u32>>().len(), 6, "no two tasks have one user id");
    processes::signal(green.pid(), Signal::SIGTERM);
    assert_eq!(green.ends().code, 0);
    assert_eq!(blue.ok("bourg status -o counts.healthy"), "3\n");
    blue.stop();
}
