//! Pictures of every page of Sigma, in both themes, as wide as a window and as a phone.
//!
//! The test that looks at every page in a real browser takes them: `sigma` among the system tests of the
//! crate `bourg`.

use std::fs;

use anyhow::Context as _;

use crate::needs;
use crate::run::{cargo_build, root, succeed};

/// The test.
const TEST: &str =
    "sigma::pages::every_page_is_accessible_has_no_complaints_and_asks_no_other_host";
const DIRECTORY: &str = "target/screenshots";

/// Takes the pictures.
///
/// # Errors
/// If the test fails; the pictures until then are there.
pub(crate) fn screenshots() -> anyhow::Result<()> {
    needs::for_tests()?;
    let directory = root().join(DIRECTORY);
    if directory.exists() {
        fs::remove_dir_all(&directory).with_context(|| format!("cannot empty {DIRECTORY}"))?;
    }
    let mut test = cargo_build(&["test", "--package", "bourg", "--test", "system"]);
    test.args(["--", "--exact", TEST]).env("BOURG_SCREENSHOTS", &directory);
    succeed(&mut test)?;
    println!("in {DIRECTORY}");
    Ok(())
}
