//! The fault campaign: simulated cells by their seeds, through the program that ships.
//!
//! `cargo xtask test` plays a few hundred, `cargo xtask soak` many thousands, and writes into
//! `docs/soak.md` what came of them.

use std::fs;
use std::process::Stdio;

use anyhow::{Context, ensure};
use serde_json::Value;
use time::OffsetDateTime;

use crate::run::{cargo, cargo_build, root, succeed};

/// How many worlds are played with every run of the tests.
const SEEDS: u64 = 300;
/// How many are played by a soak, unless another number is said.
const SOAK_SEEDS: u64 = 20_000;
/// For how many hours of its own time each has faults, unless it is said.
const SOAK_HOURS: &str = "0.2";

/// Plays the worlds of the tests' tier.
///
/// # Errors
/// Where one of them fails, with the command that plays it again.
pub(crate) fn campaign() -> anyhow::Result<()> {
    let seeds = format!("0..{SEEDS}");
    let run = ["run", "--quiet", "--package", "bourg"];
    succeed(cargo_build(&run).args(["--", "sim", "--seeds", &seeds]))
}

/// Plays many worlds with a release build, and writes down what came of them.
///
/// # Errors
/// Where one of them fails: then it is written down all the same.
pub(crate) fn soak(arguments: &[&str]) -> anyhow::Result<()> {
    let (mut seeds, mut hours) = (SOAK_SEEDS, SOAK_HOURS.to_owned());
    for pair in arguments.chunks(2) {
        match pair {
            ["--seeds", number] => seeds = number.parse().context("--seeds is a number")?,
            ["--hours", number] => hours = (*number).to_owned(),
            _ => anyhow::bail!("usage: cargo xtask soak [--seeds N] [--hours H]"),
        }
    }
    succeed(&mut cargo_build(&["build", "--release", "--package", "bourg"]))?;
    let range = format!("0..{seeds}");
    let run = ["run", "--release", "--quiet", "--package", "bourg", "--"];
    let mut played = cargo(&run);
    let arguments = ["sim", "--seeds", &range, "--hours", &hours];
    let output = played.args(arguments).arg("--json").stderr(Stdio::inherit()).output()?;
    let found: Value = serde_json::from_slice(&output.stdout)
        .context("the campaign said something that is not JSON")?;
    let path = root().join("docs/soak.md");
    fs::write(&path, report(&arguments.join(" "), &found)).context("cannot write docs/soak.md")?;
    ensure!(output.status.success(), "worlds failed: {} says which", path.display());
    println!("written down in docs/soak.md");
    Ok(())
}

/// What came of it, for `docs/`.
fn report(arguments: &str, found: &Value) -> String {
    let number = |name: &str| found[name].as_f64().unwrap_or_default();
    let failures = found["failures"].as_array().map_or(&[][..], Vec::as_slice);
    let revision = revision(&root());
    let mut text = format!(
        "# The long campaign\n\n\
         What `cargo xtask soak` played last: simulated cells under faults, each from its seed (see \
         [simulation.md](simulation.md)). This page is written by that command.\n\n\
         | | |\n|---|---|\n\
         | program | {} |\n\
         | when | {} |\n\
         | command | `bourg {arguments}` |\n\
         | worlds | {} |\n\
         | of their time | {:.0} days |\n\
         | operations | {} |\n\
         | polls | {} |\n\
         | processes | {} |\n\
         | the longest that a cell took to come to rest after its faults | {:.0} s |\n\
         | took | {:.0} s, {:.0} times as fast as real time |\n\
         | worlds that failed | {} |\n",
        revision.unwrap_or_else(|| "unknown".to_owned()),
        OffsetDateTime::now_utc().date(),
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

/// The revision that is checked out.
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
        let text = report("sim --seeds 0..3", &found);
        assert!(text.contains("| worlds that failed | 1 |"), "{text}");
        assert!(text.contains("`bourg sim --seed 7`: 7-0-1 is started twice"), "{text}");
    }
}
