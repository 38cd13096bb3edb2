//! Every test, tier by tier, each with its time.
//!
//! | tier | what it is |
//! |---|---|
//! | build | everything that is tested, in one profile |
//! | pure | tables, scripts and properties: no process, cgroup or socket of another program |
//! | system | the test binaries of the crates in [`SYSTEM`]: real tasks on the real kernel |
//! | campaign | simulated cells under faults, see [`crate::campaign`] |
//! | v2 | the tests of the crate `linux` again, on pure cgroup v2, see [`crate::emulated`] |
//!
//! The system tests mostly wait for real time to pass. The campaign, at a low priority, and the
//! emulated machine run beside them.
//!
//! A test of the tiers `system` and `v2` that fails is tried again, alone ([`flaky`]). Pure tests and
//! the campaign are deterministic: they are not.
//!
//! There are no documentation tests, which would be a build of their own for each crate: a test of
//! the sources holds that.
//!
//! Uses `cargo nextest` if it is installed, else `cargo test`: the tests are the same, and none is
//! tried again.

pub(crate) mod changed;
pub(crate) mod flaky;
pub(crate) mod nextest;
mod plain;
pub(crate) mod tested;

use std::thread;
use std::time::{Duration, Instant};

use anyhow::ensure;

use crate::campaign;
use crate::emulated::{self, Console, EmulatedMachine};
use crate::failed::{Failed, Test};
use crate::needs;
use crate::run::{root, succeed};
use flaky::Retried;
use tested::Tree;

/// The crates whose test binaries (those in `tests/`) start real processes.
const SYSTEM: [&str; 2] = ["bourg", "linux"];

/// The number of concurrent system tests. Nextest has the same number in `.config/nextest.toml`. They mostly wait
/// for real time to pass, so there are more of them than processors.
const SYSTEM_THREADS: &str = "4";

/// The tiers, in order.
const TIERS: [&str; 5] = ["build", "pure", "system", "campaign", "v2"];

/// A tier and its result.
struct Tier {
    name: &'static str,
    passed: bool,
    time: Duration,
    /// Tests that failed at first and then passed.
    flaky: Vec<Failed>,
}

impl Tier {
    fn new(name: &'static str, passed: bool, time: Duration) -> Self {
        Self { name, passed, time, flaky: Vec::new() }
    }

    /// Runs one tier.
    fn run(name: &'static str, tier: impl FnOnce() -> anyhow::Result<()>) -> Self {
        let begun = Instant::now();
        let passed = tier().inspect_err(|error| eprintln!("error: {error:#}")).is_ok();
        Self::new(name, passed, begun.elapsed())
    }

    /// Tries what failed in it again; without anything to try the result stands.
    fn retry(
        &mut self,
        failed: Vec<Failed>,
        attempt: impl FnMut(&[Test]) -> anyhow::Result<Vec<Failed>>,
    ) {
        if failed.is_empty() {
            return;
        }
        let begun = Instant::now();
        let retried = flaky::retry(failed, attempt).and_then(|retried| {
            flaky::keep(&retried.flaky)?;
            Ok(retried)
        });
        match retried {
            Ok(Retried { flaky, failed }) => {
                self.passed = failed.is_empty();
                self.flaky = flaky;
            }
            Err(error) => {
                eprintln!("error: {error:#}");
                self.passed = false;
            }
        }
        self.time += begun.elapsed();
    }
}

/// Runs every test, and writes down what was tested.
///
/// # Errors
/// If something is missing, does not build, or fails. A failure does not stop the rest of its tier,
/// nor later tiers.
pub(crate) fn test() -> anyhow::Result<()> {
    needs::for_tests()?;
    let nextest = needs::has_nextest();
    if !nextest {
        eprintln!("cargo-nextest is not here: `cargo test` runs the tests");
    }
    let begun = Instant::now();
    let before = Tree::read();
    flaky::forget()?;
    let tiers = if nextest { with_nextest() } else { with_cargo()? };
    println!("\n{}", table(&tiers, begun.elapsed()));
    match (before, Tree::read()) {
        (Ok(before), Ok(after)) => tested::write(&before, &after, &tiers)?,
        (before, after) => {
            let error = before.and(after).err();
            eprintln!(
                "what was tested is not written down: {:#}",
                error.unwrap_or_else(|| anyhow::anyhow!("no git"))
            );
        }
    }
    ensure!(tiers.iter().all(|tier| tier.passed), "not every test passed");
    Ok(())
}

fn with_nextest() -> Vec<Tier> {
    let packages = SYSTEM.map(|name| format!("package({name})")).join(" | ");
    let system = format!("kind(test) & ({packages})");
    let mut tiers = vec![Tier::run("build", || succeed(&mut nextest::build()))];
    if !tiers[0].passed {
        return tiers;
    }
    tiers.push(Tier::run("pure", || succeed(&mut nextest::command(&format!("not ({system})")))));
    let mut failed = Vec::new();
    let (mut system, campaign, mut v2, failed_v2) = beside_each_other(|| {
        failed = nextest::failures(nextest::system_command(&system))?;
        ensure!(failed.is_empty(), "{} system tests failed", failed.len());
        Ok(())
    });
    system.retry(failed, |tests| nextest::failures(nextest::alone(tests)));
    v2.retry(failed_v2, emulated::attempt);
    tiers.extend([system, campaign, v2]);
    tiers
}

fn with_cargo() -> anyhow::Result<Vec<Tier>> {
    let targets = plain::targets(&root())?;
    let mut tiers = vec![Tier::run("build", || succeed(&mut plain::build()))];
    if tiers[0].passed {
        tiers.push(Tier::run("pure", || succeed(&mut targets.pure())));
        let (system, campaign, v2, _) = beside_each_other(|| succeed(&mut targets.system()));
        tiers.extend([system, campaign, v2]);
    }
    Ok(tiers)
}

/// Runs the system tests, and the campaign and the emulated machine beside them; also returns the
/// tests that failed in the machine.
fn beside_each_other(
    system: impl FnOnce() -> anyhow::Result<()>,
) -> (Tier, Tier, Tier, Vec<Failed>) {
    // Built before, because two builds would wait for each other.
    let machine = EmulatedMachine::prepare(&["--workspace"]);
    thread::scope(|scope| {
        let v2 = scope.spawn(|| {
            let mut failed = Vec::new();
            let tier = Tier::run("v2", || {
                failed = machine?.run_or_fail(&[], Console::Beside);
                ensure!(failed.is_empty(), "{} tests failed on cgroup v2", failed.len());
                Ok(())
            });
            (tier, failed)
        });
        let campaign = scope.spawn(|| Tier::run("campaign", campaign::campaign));
        let system = Tier::run("system", system);
        let lost = |name| Tier::new(name, false, Duration::ZERO);
        let (v2, failed) = v2.join().unwrap_or_else(|_| (lost("v2"), Vec::new()));
        (system, campaign.join().unwrap_or_else(|_| lost("campaign")), v2, failed)
    })
}

/// The tiers with their times and the flaky tests, for the end of the output. The last three tiers
/// overlap.
fn table(tiers: &[Tier], all: Duration) -> String {
    let line = |name: &str, result: &str, time: &str| format!("{name:<10}{result:<8}{time:>9}\n");
    let mut text = line("tier", "result", "time");
    for tier in tiers {
        let result = if tier.passed { "passed" } else { "FAILED" };
        text += &line(tier.name, result, &show(tier.time));
    }
    text += &line("all", "", &show(all));
    let flaky: Vec<&Failed> = tiers.iter().flat_map(|tier| &tier.flaky).collect();
    for failed in &flaky {
        text += &format!("FLAKY     {}\n", failed.test);
    }
    match flaky.len() {
        0 => text + "no flaky test\n",
        number => {
            text + &format!(
                "{number} flaky: failed at first, then passed alone; target/flaky has the outputs, and \
                 `cargo xtask flaky` runs them under load\n"
            )
        }
    }
}

fn show(time: Duration) -> String {
    match time.as_secs() {
        0..60 => format!("{:.1} s", time.as_secs_f64()),
        seconds => format!("{} m {} s", seconds / 60, seconds % 60),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_table_has_every_tier_and_the_whole_time() {
        let tier = |name, passed, seconds| Tier::new(name, passed, Duration::from_secs(seconds));
        let tiers = [tier("build", true, 250), tier("pure", false, 9)];
        let expected = "tier      result       time\n\
                        build     passed   4 m 10 s\n\
                        pure      FAILED      9.0 s\n\
                        all                4 m 20 s\n\
                        no flaky test\n";
        assert_eq!(table(&tiers, Duration::from_secs(260)), expected);
    }

    #[test]
    fn the_table_names_flaky_tests_and_counts_them() {
        let mut tier = Tier::new("system", true, Duration::from_secs(600));
        let test = Test { binary: "bourg::system".to_owned(), name: "ports::both".to_owned() };
        tier.flaky.push(Failed { test, output: String::new() });
        let text = table(&[tier], Duration::from_secs(600));
        assert!(text.contains("system    passed   10 m 0 s\n"), "{text}");
        assert!(text.contains("\nFLAKY     bourg::system ports::both\n1 flaky: "), "{text}");
    }

    #[test]
    fn nextest_runs_as_many_system_tests_at_once() {
        let path = root().join(".config/nextest.toml");
        let configuration = fs::read_to_string(path).expect("nextest has a configuration");
        let threads = format!("max-threads = {SYSTEM_THREADS}");
        assert!(configuration.contains(&threads), "{threads}");
        for package in SYSTEM {
            assert!(configuration.contains(&format!("package({package})")), "{package}");
        }
    }
}
