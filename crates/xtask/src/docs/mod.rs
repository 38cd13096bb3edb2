//! The Markdown files of the repository: the book, the generated reference, and checks of all
//! pages.
//!
//! Generated pages are checked in and compared by tests; `cargo xtask reference` writes them.

mod api;
mod book;
mod markdown;
#[cfg(test)]
mod tests;

pub(crate) use self::book::book;

use std::fs;

use anyhow::Context as _;

use crate::run::{cargo_build, root, succeed};

/// If this variable is set, tests write the pages instead of comparing them.
const UPDATE: &str = "UPDATE_DOCS";
/// The page of the API.
const API: &str = "docs/reference/api.md";

/// Writes the generated pages: the command line, the API, the limits and the tables of features, also in
/// the README.
///
/// # Errors
/// If one of them cannot be generated.
pub(crate) fn reference() -> anyhow::Result<()> {
    fs::write(root().join(API), api::page(&root())?).context("cannot write the page of the API")?;
    for arguments in [
        ["test", "--quiet", "--package", "xtask", "--test", "features", "the_table"],
        ["test", "--quiet", "--package", "xtask", "--test", "limits", "the_page"],
        ["test", "--quiet", "--package", "bourg", "--bin", "bourg", "docs::the_reference"],
    ] {
        succeed(cargo_build(&arguments).env(UPDATE, "1"))?;
    }
    Ok(())
}
