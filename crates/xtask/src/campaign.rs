//! The fault campaign: simulated cells from their seeds, run by the program that is shipped.
//!
//! `cargo xtask test` runs a few hundred of them, `cargo xtask soak` many thousands, and writes the
//! results to `docs/figures.md`.

use std::process::Stdio;

use anyhow::{Context, ensure};
use serde_json::Value;
use time::OffsetDateTime;

use crate::run::{bourg, cargo, cargo_build, nice, root, succeed};
use crate::{figures, fuzz};

/// The numbers of worlds in every run of the tests, by number of replicas.
const SEEDS: [(u64, u64); 3] = [(1, 150), (3, 30), (5, 15)];
/// The priority of the tests' tier: it is the lowest.
const PRIORITY: i8 = 19;
/// The number of worlds with one replica in a soak, by default; and for more replicas, the divisor
/// of that number.
const SOAK_SEEDS: u64 = 20_000;
const SOAK_REPLICAS: [(u64, u64); 3] = [(1, 1), (3, 4), (5, 4)];
/// The hours of simulated time with faults in each, by default.
const SOAK_HOURS: &str = "0.2";
/// The section of the figures.
pub(crate) const SECTION: &str = "soak";
/// For how many minutes a soak fuzzes each target, by default.
const SOAK_FUZZ_MINUTES: u64 = 20;

/// Runs the worlds of the tests' tier with the program that the tests have built, at the lowest
/// priority. What they print is shown at the end of each run.
///
/// # Errors
/// If one of them fails, with the command that repeats it.
pub(crate) fn campaign() -> anyhow::Result<()> {
    for (replicas, seeds) in SEEDS {
        let (seeds, replicas) = (format!("0..{seeds}"), replicas.to_string());
        let mut sim = nice(PRIORITY, bourg());
        // Shrinking a failure takes longer than all of the tests: the command that repeats it does that.
        sim.args(["sim", "--no-shrink", "--seeds", &seeds, "--replicas", &replicas]);
        let output = sim.output().context("cannot run the program that the tests have built")?;
        let said = [output.stdout, output.stderr].concat();
        print!("{}", String::from_utf8_lossy(&said));
        ensure!(output.status.success(), "worlds with {replicas} replicas failed");
    }
    Ok(())
}

/// Runs many worlds with a release build, and writes the results to the figures; then fuzzes every
/// target for a long time.
///
/// # Errors
/// If a world fails, and the results are written all the same; if a target does.
pub(crate) fn soak(arguments: &[&str]) -> anyhow::Result<()> {
    let (mut seeds, mut hours) = (SOAK_SEEDS, SOAK_HOURS.to_owned());
    let mut fuzz_minutes = SOAK_FUZZ_MINUTES;
    for pair in arguments.chunks(2) {
        match pair {
            ["--seeds", number] => seeds = number.parse().context("--seeds is a number")?,
            ["--hours", number] => hours = (*number).to_owned(),
            ["--fuzz-minutes", number] => {
                fuzz_minutes = number.parse().context("--fuzz-minutes is a number")?;
            }
            _ => {
                anyhow::bail!("usage: cargo xtask soak [--seeds N] [--hours H] [--fuzz-minutes N]")
            }
        }
    }
    succeed(&mut cargo_build(&["build", "--release", "--package", "bourg"]))?;
    let mut runs = Vec::new();
    for (replicas, part) in SOAK_REPLICAS {
        let (seeds, replicas) = (format!("0..{}", seeds / part), replicas.to_string());
        let sim = ["sim", "--seeds", &seeds, "--replicas", &replicas, "--hours", &hours];
        let run = ["run", "--release", "--quiet", "--package", "bourg", "--"];
        let mut played = cargo(&run);
        let output = played.args(sim).arg("--json").stderr(Stdio::inherit()).output()?;
        let found: Value = serde_json::from_slice(&output.stdout)
            .context("the campaign said something that is not JSON")?;
        runs.push((sim.join(" "), found, output.status.success()));
    }
    figures::write(SECTION, &report(&runs))?;
    let fuzzed = match fuzz_minutes {
        0 => Ok(()),
        minutes => fuzz::fuzz(&["--seconds", &(minutes * 60).to_string()]),
    };
    let passed = runs.iter().all(|(_, _, passed)| *passed);
    ensure!(passed, "worlds failed: {} says which", figures::PAGE);
    fuzzed
}

/// The results of the runs, by their arguments, as a section of the figures.
fn report(runs: &[(String, Value, bool)]) -> String {
    let revision = revision(&root()).unwrap_or_else(|| "unknown".to_owned());
    let mut text = format!(
        "## The long campaign\n\n\
         The last result of `cargo xtask soak`, which writes this section: simulated cells under faults, \
         each from its seed (see [the simulated world](simulation.md)).\n\n\
         Program: {revision}. When: {}.\n",
        OffsetDateTime::now_utc().date(),
    );
    for (arguments, found, _) in runs {
        text += &part(arguments, found);
    }
    text
}

fn part(arguments: &str, found: &Value) -> String {
    let number = |name: &str| found[name].as_f64().unwrap_or_default();
    let failures = found["failures"].as_array().map_or(&[][..], Vec::as_slice);
    let mut text = format!(
        "\n### `bourg {arguments}`\n\n\
         | | |\n|---|---|\n\
         | worlds | {} |\n\
         | virtual time | {:.0} days |\n\
         | operations | {} |\n\
         | polls | {} |\n\
         | processes | {} |\n\
         | longest time to settle after the faults | {:.0} s |\n\
         | real time | {:.0} s, {:.0} times as fast |\n\
         | worlds that failed | {} |\n",
        number("worlds"),
        number("virtual_seconds") / 86_400.0,
        number("operations"),
        number("polls"),
        number("processes"),
        number("rested_after_s_max"),
        number("seconds"),
        number("virtual_seconds_per_second"),
        failures.len(),
    );
    for failed in failures {
        let word = |name: &str| failed[name].as_str().unwrap_or_default().to_owned();
        text += &format!("\n`{}`: {}\n", word("command"), word("failure"));
    }
    text
}

/// The checked-out revision.
fn revision(directory: &std::path::Path) -> Option<String> {
    let mut git = std::process::Command::new("git");
    git.args(["describe", "--always", "--dirty"]).current_dir(directory);
    let output = git.output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_written_down_with_its_command() {
        let failed = r#"{"command": "bourg sim --seed 7", "failure": "7-0-1 is started twice"}"#;
        let found = format!(r#"{{"worlds": 3, "failures": [{failed}]}}"#);
        let found: Value = serde_json::from_str(&found).expect("JSON");
        let text = report(&[("sim --seeds 0..3".to_owned(), found, false)]);
        assert!(text.contains("## `bourg sim --seeds 0..3`"), "{text}");
        assert!(text.contains("| worlds that failed | 1 |"), "{text}");
        assert!(text.contains("`bourg sim --seed 7`: 7-0-1 is started twice"), "{text}");
    }
}
