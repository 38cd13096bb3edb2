//! Formatting, clippy, and the documentation: none of them may report anything.

use std::process::Stdio;

use crate::needs;
use crate::run::{cargo, cargo_build, succeed};

/// The manifest of the fuzz targets, which are a separate workspace.
const FUZZ: &str = "fuzz/Cargo.toml";

/// Runs rustfmt and clippy on everything, and checks that the fuzz targets' lock file is up to
/// date.
///
/// # Errors
/// If one of them reports something.
pub(crate) fn lint() -> anyhow::Result<()> {
    needs::for_lints()?;
    succeed(&mut cargo(&["fmt", "--all", "--check"]))?;
    succeed(&mut cargo(&["fmt", "--manifest-path", FUZZ, "--check"]))?;
    let resolved = ["metadata", "--manifest-path", FUZZ, "--format-version", "1", "--locked"];
    succeed(cargo(&resolved).stdout(Stdio::null()))?;
    let mut clippy = cargo_build(&["clippy", "--workspace", "--all-targets"]);
    succeed(clippy.args(["--", "-D", "warnings"]))
}

/// Builds the documentation of our crates, including private items.
///
/// # Errors
/// If rustdoc reports something.
pub(crate) fn docs() -> anyhow::Result<()> {
    let mut doc = cargo_build(&["doc", "--workspace", "--no-deps", "--document-private-items"]);
    succeed(doc.env("RUSTDOCFLAGS", "-D warnings"))
}
