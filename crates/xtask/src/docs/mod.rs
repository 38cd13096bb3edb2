//! The Markdown files of the repository: the book that is made of them, the reference that is made
//! of the sources, and what holds all of them.
//!
//! A page that is generated is checked in and compared by a test; `cargo xtask reference` writes it.

mod api;
mod book;
mod markdown;
#[cfg(test)]
mod tests;

pub(crate) use self::book::book;

use std::fs;

use anyhow::Context as _;

use crate::run::{cargo_build, root, succeed};

/// The variable that makes tests write the pages that they would compare.
const UPDATE: &str = "UPDATE_DOCS";
/// The page of the API.
const API: &str = "docs/reference/api.md";

/// Writes the generated pages again: the command line, the API and the tables of features.
///
/// # Errors
/// Where one of them cannot be generated.
pub(crate) fn reference() -> anyhow::Result<()> {
    fs::write(root().join(API), api::page(&root())?).context("cannot write the page of the API")?;
    for arguments in [
        ["test", "--quiet", "--package", "xtask", "--test", "features", "the_tables"],
        ["test", "--quiet", "--package", "bourg", "--bin", "bourg", "docs::the_reference"],
    ] {
        succeed(cargo_build(&arguments).env(UPDATE, "1"))?;
    }
    Ok(())
}
