//! The project's own tasks, in Rust instead of shell scripts with logic:
//!
//! - `cargo xtask test`: every test, after checking that what they need is installed; with
//!   `--changed` only those that a change can reach
//! - `cargo xtask tested`: whether the tree of HEAD was tested whole
//! - `cargo xtask flaky`: the tests that failed once in the last run and then passed, many times
//!   under load
//! - `cargo xtask emulated`: of these, only the tests with real tasks on pure cgroup v2
//! - `cargo xtask fuzz`: fuzz tests of everything that reads outside data, for a given time
//! - `cargo xtask soak`: the fault campaign over many thousand seeds, then hours of fuzzing; with
//!   `--real` faults on real replicas for an hour
//! - `cargo xtask size`: the size of the program that is shipped, and its bound
//! - `cargo xtask lint`: rustfmt and clippy, without warnings
//! - `cargo xtask trace`: compares the whole of Google's trace with its known figures, and the
//!   repository's slice of it
//! - `cargo xtask screenshots`: pictures of every page of Sigma
//! - `cargo xtask docs`: the documentation of our crates, without warnings
//! - `cargo xtask book`: the pages of `docs/` as a book
//! - `cargo xtask reference`: the pages that are generated from the sources
//!
//! Tests of the repository as a whole (its layers, its list of features, its sources) are this
//! crate's tests.

mod campaign;
mod docs;
mod emulated;
mod failed;
mod faults;
mod figures;
mod fuzz;
mod lint;
mod needs;
mod run;
mod screenshots;
mod size;
mod suite;
mod trace_data;

use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo xtask TASK

  test      run every test; missing tools are installed if possible:
            test --changed [BASE] runs the tests that the changes since a commit can reach,
            default HEAD
  tested    tell whether the tree of HEAD was tested whole, and passed
  flaky     run the tests that the last `test` found flaky 20 times under load
  emulated  run the tests with real tasks on pure cgroup v2, in an emulated machine
  fuzz      run the fuzz targets, as many at once as there are cores:
            fuzz [--seconds N] [TARGET]..., default 60 s each
  soak      run the fault campaign over many seeds, and write a report; then fuzz:
            soak [--seeds N] [--hours H] [--fuzz-minutes N], default 20,000 seeds of 0.2
            hours, and 20 minutes for each target
            soak --real [--minutes N] [--seed N]: faults on real replicas instead, default
            an hour
  trace     trace check DIR: compare the whole trace of 2011 with its known figures
            trace slice DIR: regenerate the repository's slice of it
            trace shapes DIR: regenerate the repository's tables of the cells of 2019
  screenshots
            write pictures of every page of Sigma, in both themes and two widths, to
            target/screenshots
  size      build the release, print its size, and fail if it is too large
  lint      check the formatting, and clippy without warnings
  docs      build the documentation of our crates without warnings
  book      build the book from the Markdown pages, and check its links; mdBook is installed
            in target/tools if it is missing
  reference write the generated pages: command line, API, tables of features";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match arguments[..] {
        ["test"] => suite::test(),
        ["test", "--changed"] => suite::changed::test("HEAD"),
        ["test", "--changed", base] => suite::changed::test(base),
        ["tested"] => suite::tested::tested(),
        ["flaky"] => suite::flaky::flaky(),
        ["size"] => size::size(),
        ["emulated"] => emulated::test(&["--package", "linux"]),
        ["fuzz", ref rest @ ..] => fuzz::fuzz(rest),
        ["soak", "--real", ref rest @ ..] => faults::soak(rest),
        ["soak", ref rest @ ..] => campaign::soak(rest),
        ["trace", "check", directory] => trace_data::check(directory.as_ref()),
        ["trace", "slice", directory] => trace_data::slice(directory.as_ref()),
        ["trace", "shapes", directory] => trace_data::shapes(directory.as_ref()),
        ["screenshots"] => screenshots::screenshots(),
        ["lint"] => lint::lint(),
        ["docs"] => lint::docs(),
        ["book"] => docs::book(),
        ["reference"] => docs::reference(),
        ["help" | "--help" | "-h"] => {
            println!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
