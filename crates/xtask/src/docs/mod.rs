//! The Markdown files of the repository: the book that is made of them, the reference that is made
//! of the sources, and what holds all of them.
//!
//! A page that is generated is checked in and compared by a test. With [`UPDATE`] set, the test
//! writes the page instead.

mod api;
mod book;
mod markdown;
#[cfg(test)]
mod tests;

pub(crate) use self::book::book;

use crate::run::{cargo_build, succeed};

/// The variable that makes tests write what they would compare.
const UPDATE: &str = "UPDATE_DOCS";

/// Writes the generated pages again: the command line, the API and the tables of features.
///
/// # Errors
/// Where one of them cannot be generated.
pub(crate) fn reference() -> anyhow::Result<()> {
    for arguments in [
        &["test", "--quiet", "--package", "xtask", "--bin", "xtask", "docs::tests::the_api"][..],
        &["test", "--quiet", "--package", "xtask", "--test", "features", "the_tables"],
        &["test", "--quiet", "--package", "bourg", "--bin", "bourg", "docs::the_reference"],
    ] {
        succeed(cargo_build(arguments).env(UPDATE, "1"))?;
    }
    Ok(())
}
