//! Formatting, clippy, and the documentation: none of them may have anything to say.

use std::process::Stdio;

use crate::needs;
use crate::run::{cargo, cargo_build, succeed};

/// Where the fuzz targets are described, which are a workspace of their own.
const FUZZ: &str = "fuzz/Cargo.toml";

/// rustfmt and clippy over everything; and the fuzz targets' lock file says what they are built from.
///
/// # Errors
/// Where one of them finds something.
pub(crate) fn lint() -> anyhow::Result<()> {
    needs::for_lints()?;
    succeed(&mut cargo(&["fmt", "--all", "--check"]))?;
    succeed(&mut cargo(&["fmt", "--manifest-path", FUZZ, "--check"]))?;
    let resolved = ["metadata", "--manifest-path", FUZZ, "--format-version", "1", "--locked"];
    succeed(cargo(&resolved).stdout(Stdio::null()))?;
    let mut clippy = cargo_build(&["clippy", "--workspace", "--all-targets"]);
    succeed(clippy.args(["--", "-D", "warnings"]))
}

/// The documentation of our crates, private items included.
///
/// # Errors
/// Where rustdoc finds something.
pub(crate) fn docs() -> anyhow::Result<()> {
    let mut doc = cargo_build(&["doc", "--workspace", "--no-deps", "--document-private-items"]);
    succeed(doc.env("RUSTDOCFLAGS", "-D warnings"))
}
