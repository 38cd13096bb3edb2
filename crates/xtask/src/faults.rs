//! Runs real replicas under faults for a given time, and writes the result as a page of `docs/`.
//!
//! The test that `cargo xtask test` runs for a minute does this: `faults` among the system tests of
//! the crate `bourg`.

use std::fs;

use anyhow::{Context, ensure};

use crate::run::{cargo_build, succeed};
use crate::{figures, needs};

/// The test.
const TEST: &str = "faults::real_replicas_stand_faults_and_nothing_acknowledged_is_lost";
/// The cells' numbers of replicas, run one after the other; each gets its share of the time.
const REPLICAS: [u64; 2] = [3, 5];
/// The default time.
const MINUTES: u64 = 60;
const SEED: u64 = 1;
/// The section of the figures.
pub(crate) const SECTION: &str = "faults";

/// Injects faults into real replicas, and writes a report.
///
/// # Errors
/// If something is wrong; the report is written all the same.
pub(crate) fn soak(arguments: &[&str]) -> anyhow::Result<()> {
    let (mut minutes, mut seed) = (MINUTES, SEED);
    for pair in arguments.chunks(2) {
        match pair {
            ["--minutes", number] => minutes = number.parse().context("--minutes is a number")?,
            ["--seed", number] => seed = number.parse().context("--seed is a number")?,
            _ => anyhow::bail!("usage: cargo xtask soak --real [--minutes N] [--seed N]"),
        }
    }
    needs::for_tests()?;
    let seconds = minutes * 60 / REPLICAS.len() as u64;
    let mut text = INTRODUCTION.to_owned();
    let mut passed = true;
    for replicas in REPLICAS {
        let part = std::env::temp_dir().join(format!("bourg-faults-{}.md", std::process::id()));
        let mut played = cargo_build(&["test", "--release", "--package", "bourg"]);
        played.args(["--test", "system", "--", "--exact", TEST, "--nocapture"]);
        played.env("BOURG_TEST_SEED", seed.to_string());
        played.env("BOURG_FAULTS_SECONDS", seconds.to_string());
        played.env("BOURG_FAULTS_REPLICAS", replicas.to_string());
        played.env("BOURG_FAULTS_REPORT", &part);
        let ended = succeed(&mut played);
        passed &= ended.is_ok();
        let told = fs::read_to_string(&part);
        let told = told.with_context(|| format!("{replicas} replicas did not come to an end"))?;
        fs::remove_file(&part).context("cannot remove what was reported")?;
        text += &format!("\n### {replicas} replicas\n\n{told}");
    }
    figures::write(SECTION, &text)?;
    ensure!(passed, "something is wrong: {} says what", figures::PAGE);
    Ok(())
}

const INTRODUCTION: &str = "\
## The long run of faults on real replicas

The last result of `cargo xtask soak --real` (see [real replicas under faults](faults.md)), which writes
this section. A client tries a change every 100 ms. A change belongs to a fault from the fault's begin until
a second after its end, or until the next fault. The longest pause of a fault is the longest time in it
without an acknowledgement.
";
