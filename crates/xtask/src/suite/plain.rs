//! The tests by `cargo test`, where `cargo nextest` is not installed.
//!
//! Always builds the whole workspace, and selects by test binaries: selecting packages would build
//! their dependencies with other features, and so compile them again.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;

use super::{SYSTEM, SYSTEM_THREADS};
use crate::run::cargo_build;

/// The names of the workspace's test binaries.
#[derive(Debug, Default)]
pub(super) struct Targets {
    pure: BTreeSet<String>,
    system: BTreeSet<String>,
}

impl Targets {
    /// The command for the pure tests.
    pub(super) fn pure(&self) -> Command {
        let mut pure = chosen(&self.pure);
        pure.args(["--lib", "--bins", "--examples"]);
        pure
    }

    /// The command for the system tests.
    pub(super) fn system(&self) -> Command {
        let mut system = chosen(&self.system);
        system.args(["--", "--test-threads", SYSTEM_THREADS]);
        system
    }
}

/// The command that builds all tests.
pub(super) fn build() -> Command {
    let mut build = workspace();
    build.arg("--no-run");
    build
}

fn workspace() -> Command {
    cargo_build(&["test", "--workspace", "--no-fail-fast"])
}

fn chosen(names: &BTreeSet<String>) -> Command {
    let mut command = workspace();
    command.args(names.iter().flat_map(|name| ["--test", name.as_str()]));
    command
}

/// Finds the test binaries: `crates/LAYER/CRATE/tests/NAME.rs` and `…/tests/NAME/main.rs`. A name
/// that is in both tiers is run in both.
pub(super) fn targets(root: &Path) -> anyhow::Result<Targets> {
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

fn list(directory: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let listed = fs::read_dir(directory)
        .and_then(|entries| entries.map(|entry| Ok(entry?.path())).collect());
    listed.with_context(|| format!("cannot list {}", directory.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::root;

    #[test]
    fn test_binaries_are_found_and_belong_to_a_tier() {
        let targets = targets(&root()).expect("the workspace can be read");
        assert!(targets.pure.contains("operations") && targets.pure.contains("crash"));
        assert!(targets.system.contains("system"));
        assert!(!targets.pure.contains("support"), "a directory without main.rs is no binary");
    }
}
