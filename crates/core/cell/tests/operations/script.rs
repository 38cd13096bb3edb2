//! Scripts: lines in the language of the crate `script`, and below each what the cell gives.
//!
//! The expected text is the script: lines that begin with `> ` are its commands, so a test is one
//! text that reads like a terminal session, and `UPDATE_EXPECT=1` fills in the answers. Unless a
//! script begins with `> empty`, its cell is bootstrapped, administered by root, and has two machines of
//! 1 core, 1 GiB and 4 ports each, m1 and m2. A machine that the cell does not have is machine 99. After every
//! command the whole cell is checked, every decision of the command, and that its operations give
//! the same on a copy of the cell.
//!
//! These commands are for the tests of the cell alone:
//!
//! ```text
//! empty                       begins with a cell without any operation
//! administrators USER…        loads the cell again, with these administrators
//! show                        jobs, tasks and machines
//! show replicas               the replicas, and their parts in consensus
//! show users                  users who were added or revoked
//! show credentials            join tokens, and the certificates of machines
//! show locks                  files, locks and lock sessions
//! is-current SEQUENCER        whether that lock is still held by that holder
//! show services               the services
//! show packages               the packages
//! show secrets                the secrets
//! show notices                how many tasks had their notice, by reason
//! show ports                  the free ports of each machine, the next one to be given first
//! charges                     charges and quota of each user and band, and every grant
//! accepts USER SERIAL         whether requests with that certificate are accepted
//! trusts MACHINE SERIAL       whether that certificate is the machine's
//! ```

use std::sync::Arc;

use cell::{Cell, DecisionChecker};
use expect_test::Expect;
use model::{MachineId, MachineName, MachineReport, UserName};
use script::{Script, job_spec, machine_report, serial};
use spec::JobSpec;

use crate::shown;

/// Runs the commands of a script and compares what they give.
#[track_caller]
pub(crate) fn session(expected: &Expect) {
    let mut script = Script::default().with_unknown_machine(MachineId(99));
    let lines: Vec<&str> = expected.data().lines().map(str::trim_start).collect();
    let commands = lines.iter().filter_map(|line| line.strip_prefix("> "));
    if commands.clone().next() != Some("empty") {
        for line in
            ["bootstrap cc root", "add m1 m1:1", "add m2 m2:1", "describe m1", "describe m2"]
        {
            command(&mut script, line);
        }
    }
    let mut text = String::new();
    for line in commands {
        let answer = command(&mut script, line);
        let violations = script.cell().check();
        assert!(violations.is_empty(), "after '{line}': {violations:#?}");
        let image = script.cell().image();
        let loaded = Cell::from_image(image.clone()).expect("the image of a cell");
        assert_eq!(loaded.image(), image);
        text.push_str(&format!("> {line}\n{answer}"));
    }
    expected.assert_eq(&text);
}

/// What a line gives.
fn command(script: &mut Script, line: &str) -> String {
    let words: Vec<&str> = line.split_whitespace().collect();
    let yes_or_no = |is| if is { "yes\n" } else { "no\n" }.to_owned();
    let certificate = |number| serial(number).expect("a serial number");
    match words[..] {
        ["empty"] => String::new(),
        ["administrators", ref users @ ..] => {
            let mut image = script.cell().image();
            image.administrators = users.iter().map(|name| user(name)).collect();
            script.replace(Cell::from_image(image).expect("the image of a cell"));
            String::new()
        }
        ["show"] => shown::cell(script.cell()),
        ["show", "replicas"] => shown::replicas(script.cell()),
        ["show", "users"] => shown::users(script.cell()),
        ["show", "credentials"] => shown::credentials(script.cell()),
        ["show", "locks"] => shown::locks(script.cell()),
        ["is-current", sequencer] => {
            yes_or_no(script.cell().is_current(&sequencer.parse().expect("a sequencer")))
        }
        ["show", "services"] => shown::services(script.cell()),
        ["show", "secrets"] => shown::secrets(script.cell()),
        ["show", "packages"] => shown::packages(script.cell()),
        ["show", "notices"] => shown::notices(script.cell()),
        ["show", "ports"] => shown::free_ports(script.cell()),
        ["charges"] => shown::charges(script.cell()),
        ["accepts", name, number] => {
            yes_or_no(script.cell().accepts(&user(name), certificate(number)))
        }
        ["trusts", machine, number] => {
            let machine = MachineName::new(machine).expect("a machine's name");
            yes_or_no(script.cell().accepts_machine(&machine, &certificate(number)))
        }
        _ => applied(script, line),
    }
}

/// What the last operation of a line gives.
fn applied(script: &mut Script, line: &str) -> String {
    let mut copy = script.cell().clone();
    let mut watch = DecisionChecker::from(&copy);
    let steps = script.command(line).unwrap_or_else(|error| panic!("'{line}': {error}"));
    for step in &steps {
        let again = copy.apply(step.at, &step.op);
        assert_eq!(again, step.applied, "'{line}' gives something else on a copy");
        let violations = watch.after(&copy, &again);
        assert!(violations.is_empty(), "'{line}': {violations:#?}");
    }
    steps.last().map_or_else(String::new, |step| shown::applied(&step.op, &step.applied))
}

pub(crate) fn user(text: &str) -> UserName {
    UserName::new(text).expect("a user's name")
}

/// A report with options that are right.
pub(crate) fn report(options: &[&str]) -> Arc<MachineReport> {
    machine_report(options).expect("a report").into()
}

/// A description with options that are right.
pub(crate) fn submitted(name: &str, tasks: u64, options: &[&str]) -> Arc<JobSpec> {
    let tasks = u32::try_from(tasks).expect("a number of tasks");
    job_spec(name, tasks, options).expect("a description").into()
}
