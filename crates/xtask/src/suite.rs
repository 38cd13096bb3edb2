//! Every test, tier by tier, each with its time.
//!
//! | tier | what it is |
//! |---|---|
//! | build | everything that is tested, in one profile |
//! | pure | tables, scripts and properties: no process, cgroup or socket of another program |
//! | system | the test binaries of the crates in [`SYSTEM`]: real tasks on the real kernel |
//! | campaign | a few hundred simulated cells under faults, see [`crate::campaign`] |
//! | v2 | the tests of the crate `linux` again, on pure cgroup v2, see [`crate::emulated`] |
//!
//! There are no documentation tests, which would be a build of their own for each crate: a test of
//! the sources holds that.
//!
//! Uses `cargo nextest` if it is installed, else `cargo test`: the tests are the same.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};

use crate::campaign;
use crate::emulated;
use crate::needs;
use crate::run::{cargo_build, root, succeed};

/// The crates whose test binaries (those in `tests/`) start real processes.
const SYSTEM: [&str; 2] = ["bourg", "linux"];

/// The number of concurrent system tests. Nextest has the same number in `.config/nextest.toml`. They mostly wait
/// for real time to pass, so there are more of them than processors.
const SYSTEM_THREADS: &str = "4";

/// A tier and its result.
struct Tier {
    name: &'static str,
    passed: bool,
    time: Duration,
}

/// Runs every test.
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
    let tiers = if nextest { with_nextest() } else { with_cargo(&targets(&root())?) };
    let mut done: Vec<Tier> = Vec::new();
    for (name, commands) in tiers {
        let begun = Instant::now();
        let mut passed = true;
        for mut command in commands {
            if let Err(error) = succeed(&mut command) {
                eprintln!("error: {error:#}");
                passed = false;
            }
        }
        done.push(Tier { name, passed, time: begun.elapsed() });
        if name == "build" && !passed {
            break;
        }
    }
    if done.len() > 1 {
        done.push(timed("campaign", campaign::campaign));
        done.push(timed("v2", || emulated::test(&["--workspace"])));
    }
    println!("\n{}", table(&done));
    ensure!(done.iter().all(|tier| tier.passed), "not every test passed");
    Ok(())
}

/// Runs one tier whose commands are elsewhere.
fn timed(name: &'static str, tier: impl FnOnce() -> anyhow::Result<()>) -> Tier {
    let begun = Instant::now();
    let passed = tier().inspect_err(|error| eprintln!("error: {error:#}")).is_ok();
    Tier { name, passed, time: begun.elapsed() }
}

fn with_nextest() -> Vec<(&'static str, Vec<Command>)> {
    let packages = SYSTEM.map(|name| format!("package({name})")).join(" | ");
    let system = format!("kind(test) & ({packages})");
    let run = ["nextest", "run", "--workspace"];
    let only = |filter: &str| {
        let mut command = cargo_build(&run);
        command.args(["--no-fail-fast", "-E", filter]);
        command
    };
    let mut build = cargo_build(&run);
    build.arg("--no-run");
    let pure = only(&format!("not ({system})"));
    let mut system = only(&system);
    // Its group in the configuration does not raise the number of threads.
    system.args(["--test-threads", SYSTEM_THREADS]);
    vec![("build", vec![build]), ("pure", vec![pure]), ("system", vec![system])]
}

/// Always builds the whole workspace, and selects by test binaries: selecting packages would build
/// their dependencies with other features, and so compile them again.
fn with_cargo(targets: &Targets) -> Vec<(&'static str, Vec<Command>)> {
    let workspace = || cargo_build(&["test", "--workspace", "--no-fail-fast"]);
    let chosen = |names: &BTreeSet<String>| {
        let mut command = workspace();
        command.args(names.iter().flat_map(|name| ["--test", name.as_str()]));
        command
    };
    let mut build = workspace();
    build.arg("--no-run");
    let mut pure = chosen(&targets.pure);
    pure.args(["--lib", "--bins", "--examples"]);
    let mut system = chosen(&targets.system);
    system.args(["--", "--test-threads", SYSTEM_THREADS]);
    vec![("build", vec![build]), ("pure", vec![pure]), ("system", vec![system])]
}

/// The names of the workspace's test binaries.
#[derive(Debug, Default)]
struct Targets {
    pure: BTreeSet<String>,
    system: BTreeSet<String>,
}

/// Finds the test binaries: `crates/LAYER/CRATE/tests/NAME.rs` and `…/tests/NAME/main.rs`. A name
/// that is in both tiers is run in both.
fn targets(root: &Path) -> anyhow::Result<Targets> {
    let mut targets = Targets::default();
    let layers = list(&root.join("crates"))?;
    let crates: Vec<_> = layers.iter().map(|layer| list(layer)).collect::<Result<_, _>>()?;
    // `crates/xtask` is a crate, rather than a layer with several.
    for package in crates.into_iter().flatten().chain(layers) {
        let tests = package.join("tests");
        if !tests.is_dir() {
            continue;
        }
        let system = SYSTEM.iter().any(|name| package.ends_with(name));
        let names = if system { &mut targets.system } else { &mut targets.pure };
        for path in list(&tests)? {
            let alone = path.extension().is_some_and(|extension| extension == "rs");
            if (alone || path.join("main.rs").is_file())
                && let Some(name) = path.file_stem()
            {
                names.insert(name.to_string_lossy().into_owned());
            }
        }
    }
    Ok(targets)
}

fn list(directory: &Path) -> anyhow::Result<Vec<std::path::PathBuf>> {
    let listed = fs::read_dir(directory)
        .and_then(|entries| entries.map(|entry| Ok(entry?.path())).collect());
    listed.with_context(|| format!("cannot list {}", directory.display()))
}

/// The tiers and their times, for the end of the output.
fn table(tiers: &[Tier]) -> String {
    let line = |name: &str, result: &str, time: &str| format!("{name:<10}{result:<8}{time:>9}\n");
    let mut text = line("tier", "result", "time");
    for tier in tiers {
        let result = if tier.passed { "passed" } else { "FAILED" };
        text += &line(tier.name, result, &show(tier.time));
    }
    text + &line("all", "", &show(tiers.iter().map(|tier| tier.time).sum()))
}

fn show(time: Duration) -> String {
    match time.as_secs() {
        0..60 => format!("{:.1} s", time.as_secs_f64()),
        seconds => format!("{} m {} s", seconds / 60, seconds % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_every_tier_and_the_sum() {
        let tier =
            |name, passed, seconds| Tier { name, passed, time: Duration::from_secs(seconds) };
        let text = table(&[tier("build", true, 250), tier("pure", false, 9)]);
        let expected = "tier      result       time\n\
                        build     passed   4 m 10 s\n\
                        pure      FAILED      9.0 s\n\
                        all                4 m 19 s\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn test_binaries_are_found_and_belong_to_a_tier() {
        let targets = targets(&root()).expect("the workspace can be read");
        assert!(targets.pure.contains("operations") && targets.pure.contains("crash"));
        assert!(targets.system.contains("system"));
        assert!(!targets.pure.contains("support"), "a directory without main.rs is no binary");
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
