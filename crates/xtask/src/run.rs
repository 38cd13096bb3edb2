//! Running other programs: cargo, from the workspace's root, with an empty standard input.

use std::env;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Stdio};

use anyhow::{Context, ensure};

/// Variables that cargo sets for the program that it runs. A nested cargo must not see them: build
/// scripts that depend on them would be run again with every change from `cargo xtask` to `cargo`
/// and back.
const SET_BY_CARGO: [&str; 5] =
    ["CARGO_BIN_", "CARGO_CRATE_", "CARGO_MANIFEST_", "CARGO_PKG_", "CARGO_PRIMARY_PACKAGE"];

/// The workspace's root.
pub(crate) fn root() -> PathBuf {
    // Cargo gives the package's path at run time; the path at build time may be stale.
    let package = env::var_os("CARGO_MANIFEST_DIR")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    package.join("../..")
}

/// The directory that cargo builds into.
pub(crate) fn target_directory() -> PathBuf {
    let target = env::var_os("CARGO_TARGET_DIR").map_or_else(|| "target".into(), PathBuf::from);
    root().join(target)
}

/// The directory for what is told of test runs: in the workspace, wherever cargo builds.
pub(crate) fn told_directory() -> PathBuf {
    root().join("target")
}

/// The program `bourg` as the tests run it, once they are built.
pub(crate) fn bourg() -> PathBuf {
    target_directory().join("debug/bourg")
}

/// A command with another priority than this process: from 19, which leaves the processors to what
/// runs beside it, to -20.
pub(crate) fn nice(priority: i8, program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new("nice");
    command.args(["-n", &priority.to_string()]).arg(program).stdin(Stdio::null());
    command
}

/// A cargo command.
pub(crate) fn cargo(arguments: &[&str]) -> Command {
    let program = env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
    let mut command = Command::new(program);
    command.args(arguments).current_dir(root()).stdin(Stdio::null());
    for (name, _) in env::vars_os() {
        let set_by_cargo =
            name.to_str().is_some_and(|name| SET_BY_CARGO.iter().any(|set| name.starts_with(set)));
        if set_by_cargo {
            command.env_remove(&name);
        }
    }
    command
}

/// A cargo command that builds. In continuous integration the lock file must not change.
pub(crate) fn cargo_build(arguments: &[&str]) -> Command {
    let mut command = cargo(arguments);
    if env::var("CI").is_ok_and(|ci| ci == "true" || ci == "1") {
        command.arg("--locked");
    }
    command
}

/// Prints a command and runs it.
///
/// # Errors
/// If it cannot be started, or fails.
pub(crate) fn succeed(command: &mut Command) -> anyhow::Result<()> {
    run(command)?.succeeded()
}

/// Prints a command and runs it, to whatever end.
///
/// # Errors
/// If it cannot be started.
pub(crate) fn run(command: &mut Command) -> anyhow::Result<Ended> {
    let shown = show(command);
    eprintln!("+ {shown}");
    let status = command.status().with_context(|| format!("cannot run `{shown}`"))?;
    Ok(Ended { shown, status })
}

/// How a command ended.
pub(crate) struct Ended {
    shown: String,
    status: ExitStatus,
}

impl Ended {
    /// # Errors
    /// If the command failed.
    pub(crate) fn succeeded(self) -> anyhow::Result<()> {
        ensure!(self.status.success(), "`{}` failed ({})", self.shown, self.status);
        Ok(())
    }
}

/// Whether a command succeeds; its output is not shown.
pub(crate) fn succeeds(command: &mut Command) -> bool {
    let quiet = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    quiet.status().is_ok_and(|status| status.success())
}

/// The command as it would be typed.
fn show(command: &Command) -> String {
    let program = PathBuf::from(command.get_program());
    let name = program.file_name().unwrap_or(program.as_os_str()).to_string_lossy();
    let words = command.get_args().map(|argument| {
        let argument = argument.to_string_lossy();
        match argument.contains(|c: char| c.is_whitespace() || "()|&*'".contains(c)) {
            true => format!("'{argument}'"),
            false => argument.into_owned(),
        }
    });
    std::iter::once(name.into_owned()).chain(words).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_shown_as_they_can_be_typed() {
        let mut command = Command::new("cargo");
        command.args(["nextest", "run", "-E", "not (package(a) | package(b))"]);
        assert_eq!(show(&command), "cargo nextest run -E 'not (package(a) | package(b))'");
    }
}
