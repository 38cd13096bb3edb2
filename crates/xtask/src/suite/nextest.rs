//! Runs tests with `cargo nextest`, and reads from its report which of them failed.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::Context;
use roxmltree::{Document, Node};

use super::SYSTEM_THREADS;
use crate::failed::{Failed, Test};
use crate::run::{cargo_build, run, told_directory};

/// A command that builds all tests.
pub(super) fn build() -> Command {
    cargo_build(&["nextest", "run", "--workspace", "--no-run"])
}

/// A command that runs the tests that a filter selects, all of them to their end.
pub(super) fn command(filter: &str) -> Command {
    let mut command = cargo_build(&["nextest", "run", "--workspace", "--no-fail-fast"]);
    command.args(["-E", filter]);
    command
}

/// A command that runs system tests. Their group in the configuration does not raise the number of
/// threads.
pub(super) fn system_command(filter: &str) -> Command {
    let mut command = command(filter);
    command.args(["--test-threads", SYSTEM_THREADS]);
    command
}

/// A command that runs the given tests one after the other.
pub(super) fn alone(tests: &[Test]) -> Command {
    let each: Vec<String> = tests.iter().map(|test| format!("({})", test.filter())).collect();
    let mut command = command(&each.join(" | "));
    command.args(["--test-threads", "1"]);
    command
}

/// Runs a command, and reads which tests failed.
///
/// # Errors
/// If it failed for another reason than failed tests: a build that fails, a filter that selects
/// nothing.
pub(super) fn failures(mut command: Command) -> anyhow::Result<Vec<Failed>> {
    let report = report();
    // One of an earlier run would be taken for this one's.
    let _absent = fs::remove_file(&report);
    let ended = run(&mut command)?;
    let failed = match fs::read_to_string(&report) {
        Ok(text) => read(&text).with_context(|| format!("cannot read {}", report.display()))?,
        Err(_) => Vec::new(),
    };
    match failed.is_empty() {
        true => ended.succeeded().map(|()| failed),
        false => Ok(failed),
    }
}

/// The report that nextest writes, as `.config/nextest.toml` says.
fn report() -> PathBuf {
    told_directory().join("nextest/default/junit.xml")
}

/// Reads a report in the format of `JUnit`.
fn read(report: &str) -> anyhow::Result<Vec<Failed>> {
    let document = Document::parse(report)?;
    let cases = document.descendants().filter(|node| node.has_tag_name("testcase"));
    let failed = cases.filter(|case| {
        case.children().any(|part| part.has_tag_name("failure") || part.has_tag_name("error"))
    });
    failed.map(failed_test).collect()
}

fn failed_test(case: Node<'_, '_>) -> anyhow::Result<Failed> {
    let attribute = |name: &str| {
        let value = case.attribute(name).map(str::to_owned);
        value.with_context(|| format!("a test without its {name}"))
    };
    let test = Test { binary: attribute("classname")?, name: attribute("name")? };
    let printed = case.children().filter(Node::is_element).filter_map(|part| part.text());
    Ok(Failed { test, output: printed.collect::<Vec<_>>().join("\n") })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failed_tests_are_read_with_their_output() {
        let report = r#"<?xml version="1.0" encoding="UTF-8"?>
            <testsuites name="nextest-run" tests="3" failures="2" errors="0">
              <testsuite name="bourg::system" tests="3" failures="2">
                <testcase name="hello::it_runs" classname="bourg::system" time="1.2"></testcase>
                <testcase name="dev::two &amp; more" classname="bourg::system" time="0.1">
                  <failure type="test failure">thread panicked</failure>
                  <system-out>running 1 test</system-out>
                  <system-err>left: 1 &lt; 2</system-err>
                </testcase>
                <testcase name="cores" classname="linux" time="600">
                  <failure type="test timeout"/>
                </testcase>
              </testsuite>
            </testsuites>"#;
        let failed = |binary: &str, name: &str, output: &str| Failed {
            test: Test { binary: binary.to_owned(), name: name.to_owned() },
            output: output.to_owned(),
        };
        let printed = "thread panicked\nrunning 1 test\nleft: 1 < 2";
        let expected =
            [failed("bourg::system", "dev::two & more", printed), failed("linux", "cores", "")];
        assert_eq!(read(report).expect("a report"), expected);
        assert!(read("<testsuites>").is_err());
    }
}
