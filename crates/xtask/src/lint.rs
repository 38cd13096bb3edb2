//! Formatting, clippy, and the documentation: none of them may have anything to say.

use crate::needs;
use crate::run::{cargo, cargo_build, succeed};

/// rustfmt and clippy over everything.
///
/// # Errors
/// Where one of them finds something.
pub(crate) fn lint() -> anyhow::Result<()> {
    needs::for_lints()?;
    succeed(&mut cargo(&["fmt", "--all", "--check"]))?;
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
