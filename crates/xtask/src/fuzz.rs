//! Runs the fuzz targets, each for a given time. They are the crate `fuzz-targets`; a separate
//! workspace, `fuzz/`, runs them under libFuzzer, and its README says how.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fmt::{self, Write as _};
use std::fs;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};

use crate::needs;
use crate::run::{cargo_build, root, succeed};

/// The variable that names the target to the program.
const CHOSEN: &str = "FUZZ_TARGET";

/// The default time for each target.
const SECONDS: u64 = 60;

/// The time limit per input, in seconds.
const TIMEOUT_S: u32 = 10;

/// The memory limit per target, in MiB.
const MEMORY_MIB: u32 = 2048;

/// Targets whose inputs may take any time and memory, because only other failures count: each is
/// run in child processes, and a child that exceeds a limit is ignored.
const BOUNDLESS: [&str; 1] = ["bcl"];

/// The parsed arguments.
#[derive(Debug, PartialEq, Eq)]
struct FuzzArguments {
    time: Duration,
    /// Empty for all targets.
    targets: Vec<String>,
}

impl FuzzArguments {
    /// Parses the arguments; `None` if they are invalid.
    fn parse(arguments: &[&str]) -> Option<Self> {
        let mut request = Self { time: Duration::from_secs(SECONDS), targets: Vec::new() };
        let mut rest = arguments.iter();
        while let Some(argument) = rest.next() {
            match *argument {
                "--seconds" => {
                    let seconds = rest.next()?.parse().ok().filter(|seconds| *seconds > 0)?;
                    request.time = Duration::from_secs(seconds);
                }
                target if !target.starts_with('-') => request.targets.push(target.to_owned()),
                _ => return None,
            }
        }
        Some(request)
    }
}

/// Runs the targets that the arguments name, or all: as many at once as there are cores.
///
/// # Errors
/// If the arguments are wrong, a target does not exist, a build fails, or a target fails on an
/// input: then the input and the command that repeats it are printed.
pub(crate) fn fuzz(arguments: &[&str]) -> anyhow::Result<()> {
    let usage = "usage: cargo xtask fuzz [--seconds N] [TARGET]...";
    let request = FuzzArguments::parse(arguments).context(usage)?;
    let directory = root().join("fuzz").canonicalize().context("there is no fuzz/")?;
    let all = targets(&directory)?;
    let unknown = request.targets.iter().find(|target| !all.contains(*target));
    if let Some(unknown) = unknown {
        let all = all.into_iter().collect::<Vec<_>>().join(", ");
        bail!("there is no target {unknown}; those that there are: {all}");
    }
    let chosen: BTreeSet<String> =
        if request.targets.is_empty() { all } else { request.targets.into_iter().collect() };

    needs::for_fuzzing()?;
    let mut build = fuzz_cargo(&directory, &["build", "--release"]);
    succeed(&mut build)?;
    let cores = thread::available_parallelism().map_or(1, NonZero::get);
    eprintln!("{} targets, {} s each, {cores} at once", chosen.len(), request.time.as_secs());
    let mut failed = Vec::new();
    at_once(
        cores,
        chosen,
        |target| (run(&directory, &target, request.time), target),
        |done| {
            let (done, target) = done;
            match done {
                Ok(done) => eprintln!("{target}: {done}"),
                Err(error) => {
                    eprintln!("\nerror: {target}: {error:#}\n");
                    failed.push(target);
                }
            }
        },
    );
    ensure!(failed.is_empty(), "targets that failed: {}", failed.join(", "));
    Ok(())
}

/// Applies a function to each item, several at a time; `each` receives the results in order of
/// completion.
fn at_once<T: Send, R: Send>(
    number: usize,
    things: impl IntoIterator<Item = T, IntoIter: Send>,
    work: impl Fn(T) -> R + Sync,
    each: impl FnMut(R),
) {
    let things = Mutex::new(things.into_iter());
    let next = || things.lock().unwrap_or_else(PoisonError::into_inner).next();
    let (done, results) = mpsc::channel();
    thread::scope(|scope| {
        for _ in 0..number {
            let done = done.clone();
            let (next, work) = (&next, &work);
            scope.spawn(move || {
                while let Some(thing) = next() {
                    let _nobody_listens_after_a_panic = done.send(work(thing));
                }
            });
        }
        drop(done);
        results.into_iter().for_each(each);
    });
}

/// The result of a target that found nothing.
struct Done {
    /// `None` if it could not be read from the output.
    executions: Option<u64>,
    took: Duration,
}

impl fmt::Display for Done {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.took.as_secs().max(1);
        match self.executions {
            Some(all) => write!(f, "{all} executions in {seconds} s, {}/s", all / seconds),
            None => write!(f, "done in {seconds} s"),
        }
    }
}

/// Runs one target on its seeds and on what it found earlier here.
///
/// # Errors
/// If it cannot be run or fails; the error then contains all its output.
fn run(directory: &Path, target: &str, time: Duration) -> anyhow::Result<Done> {
    let [corpus, artifacts] = ["corpus", "artifacts"].map(|kind| format!("{kind}/{target}"));
    for made in [&corpus, &artifacts] {
        let made = directory.join(made);
        fs::create_dir_all(&made).with_context(|| format!("cannot make {}", made.display()))?;
    }
    let before = names(&directory.join(&artifacts))?;

    let mut command = fuzz_cargo(directory, &["run", "--quiet", "--release"]);
    command.env(CHOSEN, target);
    command.args(["--", "-verbosity=0", "-print_final_stats=1"]);
    command.arg(format!("-max_total_time={}", time.as_secs()));
    command.arg(format!("-timeout={TIMEOUT_S}"));
    command.arg(format!("-rss_limit_mb={MEMORY_MIB}"));
    command.arg(format!("-artifact_prefix={artifacts}/"));
    if BOUNDLESS.contains(&target) {
        command.args(["-fork=1", "-ignore_timeouts=1", "-ignore_ooms=1"]);
    }
    command.args([corpus, format!("seeds/{target}")]);
    let begun = Instant::now();
    let output = command.output().context("cannot run it")?;
    let took = begun.elapsed();
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    if output.status.success() {
        return Ok(Done { executions: executions(&said), took });
    }
    let mut told = format!("failed ({})\n\n{}\n", output.status, said.trim_end());
    for name in names(&directory.join(&artifacts))?.difference(&before) {
        let input = PathBuf::from(&artifacts).join(name);
        let path = directory.join(&input);
        let (path, input) = (path.display(), input.display());
        let repeat = format!("cd fuzz && {CHOSEN}={target} cargo run --release -- {input}");
        let _infallible = write!(told, "\ninput:  {path}\nrepeat: {repeat}");
    }
    bail!(told)
}

/// The number of executed inputs, which libFuzzer prints at its end, or repeatedly if it runs in
/// child processes: `#8857: cov: 6676 …`.
fn executions(said: &str) -> Option<u64> {
    let last = said.lines().rev().find_map(|line| {
        let total = line.strip_prefix("stat::number_of_executed_units:");
        total.or_else(|| Some(line.strip_prefix('#')?.split_once(": cov: ")?.0))
    });
    last?.trim().parse().ok()
}

/// A cargo command in the workspace of the targets. Its own configuration has the compiler flags,
/// which flags in the environment would override.
fn fuzz_cargo(directory: &Path, arguments: &[&str]) -> std::process::Command {
    let mut command = cargo_build(&arguments[..1]);
    command.args(&arguments[1..]).current_dir(directory);
    for name in ["RUSTFLAGS", "CARGO_ENCODED_RUSTFLAGS", "CARGO_BUILD_TARGET"] {
        command.env_remove(name);
    }
    // A panic's message has its location; stack frames of an optimised build add little, and take
    // long.
    command.env("RUST_BACKTRACE", "0");
    command
}

/// The names of the targets: each has kept inputs, which a test of the crate `fuzz-targets` holds.
fn targets(directory: &Path) -> anyhow::Result<BTreeSet<String>> {
    let kept = names(&directory.join("seeds"))?;
    Ok(kept.iter().filter_map(|name| Some(name.to_str()?.to_owned())).collect())
}

fn names(directory: &Path) -> anyhow::Result<BTreeSet<OsString>> {
    let listed = fs::read_dir(directory)
        .and_then(|entries| entries.map(|entry| Ok(entry?.file_name())).collect());
    listed.with_context(|| format!("cannot list {}", directory.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_read() {
        let request = |seconds, targets: &[&str]| {
            let targets = targets.iter().map(|target| (*target).to_owned()).collect();
            Some(FuzzArguments { time: Duration::from_secs(seconds), targets })
        };
        assert_eq!(FuzzArguments::parse(&[]), request(60, &[]));
        assert_eq!(FuzzArguments::parse(&["--seconds", "20", "wire"]), request(20, &["wire"]));
        assert_eq!(FuzzArguments::parse(&["wire", "ops"]), request(60, &["wire", "ops"]));
        for bad in [&["--seconds"][..], &["--seconds", "0"], &["--seconds", "x"], &["--help"]] {
            assert_eq!(FuzzArguments::parse(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn each_thing_is_done_once_however_many_at_once() {
        for number in [1, 2, 3, 20] {
            let mut done = Vec::new();
            at_once(number, 0..10, |thing| thing * 2, |twice| done.push(twice));
            done.sort_unstable();
            assert_eq!(done, [0, 2, 4, 6, 8, 10, 12, 14, 16, 18], "{number} at once");
        }
    }

    #[test]
    fn executions_are_read_from_what_a_target_says() {
        for (said, line) in [
            (
                "###### End\nstat::number_of_executed_units: 281169\nstat::peak_rss_mb: 38\n",
                "281169 executions in 9 s, 31241/s",
            ),
            (
                "#1916: cov: 6306 ft: 14438\n#8857: cov: 6676 ft: 15862\nINFO: exiting: 0\n",
                "8857 executions in 9 s, 984/s",
            ),
            ("#include\n", "done in 9 s"),
            ("", "done in 9 s"),
        ] {
            let done = Done { executions: executions(said), took: Duration::from_millis(9_400) };
            assert_eq!(done.to_string(), line, "{said}");
        }
    }

    #[test]
    fn targets_are_found() {
        let targets = targets(&root().join("fuzz")).expect("the targets can be listed");
        assert!(BOUNDLESS.iter().all(|target| targets.contains(*target)));
    }
}
