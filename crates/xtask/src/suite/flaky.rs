//! Tests that failed at first and then passed. A race does not make a run red, and does not hide: the
//! test is named at the end of the run, and the output of its first failure is kept.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};

use super::nextest;
use crate::emulated;
use crate::failed::{Failed, Test};
use crate::needs;
use crate::run::{succeeds, told_directory};

/// How often a failed test is tried again.
const RETRIES: usize = 2;
/// More failed tests than this are not chance: none is tried again.
const FAILED_MAX: usize = 20;
/// For how long failed tests are tried again: a test that hangs takes ten minutes each time.
const RETRY_TIME: Duration = Duration::from_secs(15 * 60);
/// How often `cargo xtask flaky` runs each test.
const RUNS: usize = 20;

/// The directory for the outputs of the last run, a file for each flaky test.
fn directory() -> PathBuf {
    told_directory().join("flaky")
}

/// Removes what an earlier run kept.
///
/// # Errors
/// If it cannot be removed.
pub(super) fn forget() -> anyhow::Result<()> {
    let directory = directory();
    match fs::remove_dir_all(&directory) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", directory.display()))
        }
        _ => Ok(()),
    }
}

/// What became of failed tests when they were tried again.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Retried {
    /// Those that passed then, with the output of their first failure.
    pub(super) flaky: Vec<Failed>,
    /// Those that failed each time.
    pub(super) failed: Vec<Failed>,
}

/// Tries failed tests again with a function that runs some of them, one after the other with nothing
/// beside them, and returns those that failed.
pub(super) fn retry(
    failed: Vec<Failed>,
    mut attempt: impl FnMut(&[Test]) -> anyhow::Result<Vec<Failed>>,
) -> anyhow::Result<Retried> {
    if failed.len() > FAILED_MAX {
        eprintln!("{} tests failed, which is no chance: none is tried again", failed.len());
        return Ok(Retried { flaky: Vec::new(), failed });
    }
    let mut left: Vec<Test> = failed.iter().map(|failed| failed.test.clone()).collect();
    let begun = Instant::now();
    for _ in 0..RETRIES {
        if left.is_empty() || begun.elapsed() >= RETRY_TIME {
            break;
        }
        left = attempt(&left)?.into_iter().map(|failed| failed.test).collect();
    }
    let (failed, flaky) = failed.into_iter().partition(|failed| left.contains(&failed.test));
    Ok(Retried { flaky, failed })
}

/// Keeps the outputs of flaky tests.
///
/// # Errors
/// If a file cannot be written.
pub(super) fn keep(flaky: &[Failed]) -> anyhow::Result<()> {
    let directory = directory();
    for Failed { test, output } in flaky {
        let path = directory.join(format!("{test}.txt"));
        fs::create_dir_all(&directory)
            .and_then(|()| fs::write(&path, output))
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

/// The tests whose outputs the last run kept.
fn kept() -> anyhow::Result<Vec<Test>> {
    let directory = directory();
    let Ok(entries) = fs::read_dir(&directory) else { return Ok(Vec::new()) };
    let mut tests = Vec::new();
    for entry in entries {
        let name = entry?.file_name().to_string_lossy().into_owned();
        tests.extend(name.strip_suffix(".txt").and_then(Test::parse));
    }
    tests.sort();
    Ok(tests)
}

/// Runs each test of the last run's list many times under load, and counts its failures.
///
/// # Errors
/// If one fails, or cannot be run.
pub(crate) fn flaky() -> anyhow::Result<()> {
    let tests = kept()?;
    if tests.is_empty() {
        println!("the last `cargo xtask test` found no flaky test");
        return Ok(());
    }
    needs::for_tests()?;
    let (emulated, here): (Vec<_>, Vec<_>) =
        tests.into_iter().partition(|test| test.binary == emulated::BINARY);
    let load = BackgroundLoad::start()?;
    let mut counts = Vec::new();
    for test in here {
        counts.push(count(test, |test| {
            Ok(!nextest::failures(nextest::alone(std::slice::from_ref(test)))?.is_empty())
        })?);
    }
    for test in emulated {
        counts.push(count(test, |test| {
            Ok(!emulated::attempt(std::slice::from_ref(test))?.is_empty())
        })?);
    }
    drop(load);
    println!();
    for (test, failures) in &counts {
        println!("{failures} of {RUNS} failed: {test}");
    }
    ensure!(counts.iter().all(|(_, failures)| *failures == 0), "these tests lose races");
    Ok(())
}

fn count(
    test: Test,
    fails: impl Fn(&Test) -> anyhow::Result<bool>,
) -> anyhow::Result<(Test, usize)> {
    let mut failures = 0;
    for _ in 0..RUNS {
        failures += usize::from(fails(&test)?);
    }
    Ok((test, failures))
}

/// Other work on this machine, twice as many busy processes as there are cores, until it is dropped.
struct BackgroundLoad(std::process::Child);

impl BackgroundLoad {
    fn start() -> anyhow::Result<Self> {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        let mut stress = Command::new("stress-ng");
        stress.args(["--quiet", "--cpu", &(2 * cores).to_string()]);
        stress.stdin(Stdio::null());
        Ok(Self(stress.spawn().context("cannot run stress-ng")?))
    }
}

impl Drop for BackgroundLoad {
    fn drop(&mut self) {
        // Its workers end with it at SIGTERM, and not at SIGKILL.
        if !succeeds(Command::new("kill").arg(self.0.id().to_string())) {
            let _gone = self.0.kill();
        }
        let _gone = self.0.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed(name: &str) -> Failed {
        let test = Test { binary: "bourg::system".to_owned(), name: name.to_owned() };
        Failed { test, output: format!("the output of {name}") }
    }

    fn names(failed: &[Failed]) -> Vec<&str> {
        failed.iter().map(|failed| failed.test.name.as_str()).collect()
    }

    #[test]
    fn a_test_that_passes_on_retry_is_flaky_and_three_failures_fail() {
        let mut attempts = [vec!["b", "c"], vec!["c"]].into_iter();
        let mut tried = Vec::new();
        let all = vec![failed("a"), failed("b"), failed("c")];
        let retried = retry(all, |tests| {
            tried.push(tests.len());
            Ok(attempts.next().expect("two more attempts").into_iter().map(failed).collect())
        });
        let retried = retried.expect("the attempts run");
        assert_eq!(tried, [3, 2]);
        assert_eq!((names(&retried.flaky), names(&retried.failed)), (vec!["a", "b"], vec!["c"]));
        assert_eq!(retried.flaky[0].output, "the output of a");
    }

    #[test]
    fn an_empty_or_excessive_list_of_failures_is_not_retried() {
        let never = |_: &[Test]| panic!("nothing is tried again");
        assert_eq!(retry(Vec::new(), never).expect("no attempt"), Retried::default());
        let many: Vec<Failed> =
            (0..=FAILED_MAX).map(|number| failed(&number.to_string())).collect();
        let retried = retry(many.clone(), never).expect("no attempt");
        assert_eq!(retried, Retried { flaky: Vec::new(), failed: many });
    }
}
