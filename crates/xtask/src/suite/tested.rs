//! What was tested: `cargo xtask test` ends by writing down the tree that it tested, and each tier's
//! result; `cargo xtask tested` compares that with the tree of HEAD.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail, ensure};
use serde_json::{Value, json};

use super::{TIERS, Tier};
use crate::run::{root, told_directory};

/// The state of the checkout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Tree {
    /// The tree of HEAD.
    hash: String,
    /// Whether files differ from it: changed, added, or removed, and not ignored.
    differs: bool,
}

impl Tree {
    /// Reads the state of the checkout.
    ///
    /// # Errors
    /// If this is no git repository.
    pub(super) fn read() -> anyhow::Result<Self> {
        let hash = git(&["rev-parse", "HEAD^{tree}"])?.trim().to_owned();
        Ok(Self { hash, differs: !git(&["status", "--porcelain"])?.is_empty() })
    }
}

/// The standard output of a git command.
pub(super) fn git(arguments: &[&str]) -> anyhow::Result<String> {
    let shown = arguments.join(" ");
    let output = Command::new("git").args(arguments).current_dir(root()).output();
    let output = output.with_context(|| format!("cannot run `git {shown}`"))?;
    let stderr = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    ensure!(output.status.success(), "`git {shown}` failed: {stderr}");
    Ok(String::from_utf8(output.stdout)?)
}

/// The file with the last result.
fn path() -> PathBuf {
    told_directory().join("xtask/tested.json")
}

/// Writes down what was tested: the checkout as it was before the tests and as it is after them.
///
/// # Errors
/// If the file cannot be written.
pub(super) fn write(before: &Tree, after: &Tree, tiers: &[Tier]) -> anyhow::Result<()> {
    let path = path();
    let directory = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(directory)
        .and_then(|()| fs::write(&path, format!("{:#}\n", told(before, after, tiers))))
        .with_context(|| format!("cannot write {}", path.display()))
}

fn told(before: &Tree, after: &Tree, tiers: &[Tier]) -> Value {
    let tier = |tier: &Tier| {
        let flaky: Vec<String> = tier.flaky.iter().map(|failed| failed.test.to_string()).collect();
        json!({ "name": tier.name, "passed": tier.passed, "seconds": tier.time.as_secs(), "flaky": flaky })
    };
    json!({
        "tree": before.hash,
        "differs": before.differs || before != after,
        "tiers": tiers.iter().map(tier).collect::<Vec<_>>(),
    })
}

/// Says whether the tree of HEAD was tested whole, and passed.
///
/// # Errors
/// What was not tested, or did not pass.
pub(crate) fn tested() -> anyhow::Result<()> {
    let path = path();
    let text = fs::read_to_string(&path).with_context(|| {
        format!(
            "nothing was tested here yet, as {} is missing: run `cargo xtask test`",
            path.display()
        )
    })?;
    let told = serde_json::from_str(&text)
        .with_context(|| format!("{} is not what `cargo xtask test` writes", path.display()))?;
    let missing = missing(&told, &Tree::read()?);
    if missing.is_empty() {
        println!("the tree of HEAD was tested whole, and passed");
        return Ok(());
    }
    bail!("the tree of HEAD was not tested whole:\n{missing}next: cargo xtask test")
}

/// What is missing for the current tree to be tested, a line for each reason.
fn missing(told: &Value, now: &Tree) -> String {
    let mut lines = String::new();
    let mut add = |line: &str| {
        let _infallible = writeln!(lines, "- {line}");
    };
    if told["tree"].as_str() != Some(&now.hash) {
        let tested = told["tree"].as_str().unwrap_or("unknown");
        add(&format!("the last test was of tree {tested}, and HEAD has {}", now.hash));
    }
    if told["differs"].as_bool() != Some(false) {
        add("files differed from the committed ones when they were tested");
    }
    let tiers = told["tiers"].as_array().map_or(&[][..], Vec::as_slice);
    for name in TIERS {
        match tiers.iter().find(|tier| tier["name"] == name) {
            None => add(&format!("the tier {name} did not run")),
            Some(tier) if tier["passed"] == true => {}
            Some(_) => add(&format!("the tier {name} failed")),
        }
    }
    if now.differs {
        add("files differ from the committed ones now; they are not part of HEAD");
    }
    lines
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn tree(hash: &str, differs: bool) -> Tree {
        Tree { hash: hash.to_owned(), differs }
    }

    fn tiers(failed: &str) -> Vec<Tier> {
        let tier = |name: &&'static str| Tier::new(name, *name != failed, Duration::from_secs(9));
        TIERS.iter().map(tier).collect()
    }

    #[test]
    fn only_a_whole_test_of_this_tree_counts() {
        let (clean, all) = (tree("a1", false), tiers(""));
        let no_v2 = &all[..all.len() - 1];
        for (before, after, tiers, now, reasons) in [
            (&clean, &clean, &all[..], &clean, &[][..]),
            (&clean, &clean, &all, &tree("b2", false), &["of tree a1, and HEAD has b2"]),
            (&tree("a1", true), &tree("a1", true), &all, &clean, &["files differed"]),
            (&clean, &tree("a1", true), &all, &clean, &["files differed"]),
            (&clean, &tree("b2", false), &all, &clean, &["files differed"]),
            (&clean, &clean, &all, &tree("a1", true), &["not part of HEAD"]),
            (&clean, &clean, &tiers("pure"), &clean, &["the tier pure failed"]),
            (&clean, &clean, no_v2, &clean, &["the tier v2 did not run"]),
        ] {
            let missing = missing(&told(before, after, tiers), now);
            assert_eq!(missing.lines().count(), reasons.len(), "{missing}");
            for reason in reasons {
                assert!(missing.contains(reason), "{missing}");
            }
        }
    }

    #[test]
    fn a_file_of_something_else_counts_for_nothing() {
        let missing = missing(&json!({ "tiers": 7 }), &tree("a1", false));
        assert_eq!(missing.lines().count(), 2 + TIERS.len(), "{missing}");
    }
}
