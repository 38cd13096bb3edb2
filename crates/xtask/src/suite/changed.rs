//! Only the tests that a change can reach: those of the crates that changed, and of every crate above
//! them in the architecture. For use while working; what is committed was tested whole.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Context;
use cargo_metadata::{Metadata, MetadataCommand};

use super::tested::git;
use super::{SYSTEM, SYSTEM_THREADS, nextest};
use crate::needs;
use crate::run::{cargo_build, root, succeed};

/// The crate whose tests are of the repository as a whole: each change reaches them.
const REPOSITORY: &str = "xtask";

/// Files outside of the crates, by the beginning of their path, and the crates whose tests read them.
/// Any other file reaches every crate.
const OUTSIDE: &[(&str, &[&str])] = &[
    ("docs/", &["bourg"]),
    ("examples/", &["bourg"]),
    ("packaging/", &["bourg"]),
    ("fuzz/seeds/", &["fuzz-targets"]),
    ("fuzz/", &[]),
    (".ci/", &[]),
    (".gitignore", &[]),
    ("LICENSE", &[]),
    ("rustfmt.toml", &[]),
];

/// Runs the tests that the changes since a commit can reach.
///
/// # Errors
/// If the commit does not exist, or a test fails.
pub(crate) fn test(base: &str) -> anyhow::Result<()> {
    let mut files: BTreeSet<String> = lines(&git(&["diff", "--name-only", base, "--"])?);
    files.extend(lines(&git(&["ls-files", "--others", "--exclude-standard"])?));
    if files.is_empty() {
        println!("nothing has changed since {base}");
        return Ok(());
    }
    let manifest = root().join("Cargo.toml");
    let metadata = MetadataCommand::new().manifest_path(manifest).no_deps().exec();
    let house = House::of(&metadata.context("cannot read the workspace")?);
    let reached = house.reached(&files);
    let names = reached.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
    eprintln!("{} changed files reach the tests of {names}", files.len());
    if reached.iter().any(|name| SYSTEM.contains(&name.as_str())) {
        needs::for_tests()?;
    }
    if needs::has_nextest() {
        let packages = reached.iter().map(|name| format!("package(={name})"));
        let filter = packages.collect::<Vec<_>>().join(" | ");
        return succeed(&mut nextest::command(&filter));
    }
    let mut plain = cargo_build(&["test", "--no-fail-fast"]);
    plain.args(reached.iter().flat_map(|name| ["--package", name.as_str()]));
    succeed(plain.args(["--", "--test-threads", SYSTEM_THREADS]))
}

fn lines(text: &str) -> BTreeSet<String> {
    text.lines().map(str::to_owned).collect()
}

/// Our crates: the directory of each, relative to the root, and those that depend on it directly.
struct House {
    directories: BTreeMap<String, String>,
    above: BTreeMap<String, BTreeSet<String>>,
}

impl House {
    fn of(metadata: &Metadata) -> Self {
        let packages = metadata.workspace_packages();
        let mut house = Self { directories: BTreeMap::new(), above: BTreeMap::new() };
        for package in &packages {
            let directory = package.manifest_path.strip_prefix(&metadata.workspace_root);
            let directory = directory.ok().and_then(|manifest| manifest.parent());
            let directory = directory.map(|path| format!("{path}/")).unwrap_or_default();
            house.directories.insert(package.name.to_string(), directory);
            for below in &package.dependencies {
                let above = house.above.entry(below.name.clone()).or_default();
                above.insert(package.name.to_string());
            }
        }
        house
    }

    /// The crates whose tests a change of these files can reach.
    fn reached(&self, files: &BTreeSet<String>) -> BTreeSet<String> {
        let all = || self.directories.keys().cloned().collect();
        let mut reached = BTreeSet::from([REPOSITORY.to_owned()]);
        for file in files {
            let within = self.directories.iter().find(|(_, place)| file.starts_with(*place));
            let outside = OUTSIDE.iter().find(|(place, _)| file.starts_with(place));
            match (within, outside) {
                (Some((name, _)), _) => self.climb(name, &mut reached),
                (None, Some((_, readers))) => {
                    readers.iter().for_each(|name| self.climb(name, &mut reached));
                }
                // A page of text at the root, which the tests of the printed commands read.
                (None, None) if file.ends_with(".md") => self.climb("bourg", &mut reached),
                (None, None) => return all(),
            }
        }
        reached
    }

    /// Adds a crate and every crate above it.
    fn climb(&self, name: &str, reached: &mut BTreeSet<String>) {
        if reached.insert(name.to_owned()) {
            let above = self.above.get(name).into_iter().flatten();
            above.for_each(|above| self.climb(above, reached));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_reaches_what_stands_above_it() {
        let crates = [
            ("model", "crates/words/model/", &["cell", "dns"][..]),
            ("cell", "crates/core/cell/", &["bourg"]),
            ("dns", "crates/boundary/dns/", &["bourg"]),
            ("bourg", "crates/bin/bourg/", &[]),
            ("xtask", "crates/xtask/", &[]),
        ];
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let house = House {
            directories: crates
                .iter()
                .map(|(name, at, _)| ((*name).into(), (*at).into()))
                .collect(),
            above: crates.iter().map(|(name, _, above)| ((*name).into(), owned(above))).collect(),
        };
        for (files, reached) in [
            (&["crates/words/model/src/lib.rs"][..], "bourg cell dns model xtask"),
            (&["crates/boundary/dns/src/zone.rs"], "bourg dns xtask"),
            (&["docs/dns.md"], "bourg xtask"),
            (&["README.md"], "bourg xtask"),
            (&[".ci/run", "crates/xtask/src/main.rs"], "xtask"),
            (&["Cargo.lock"], "bourg cell dns model xtask"),
            (&["crates/words/clippy.toml", ".ci/run"], "bourg cell dns model xtask"),
        ] {
            let found = house.reached(&owned(files));
            assert_eq!(found.into_iter().collect::<Vec<_>>().join(" "), reached, "{files:?}");
        }
    }

    #[test]
    fn the_house_is_read_from_the_workspace() {
        let manifest = root().join("Cargo.toml");
        let metadata = MetadataCommand::new().manifest_path(manifest).no_deps().exec();
        let house = House::of(&metadata.expect("the workspace can be read"));
        let reached = house.reached(&BTreeSet::from(["crates/words/model/src/lib.rs".to_owned()]));
        for name in ["model", "cell", "masterd", "cli", "bourg"] {
            assert!(reached.contains(name), "{name} stands above `model`");
        }
        assert!(!reached.contains("linux"), "`linux` knows no other crate");
        for readers in OUTSIDE.iter().flat_map(|(_, readers)| *readers) {
            assert!(house.directories.contains_key(*readers), "{readers} is a crate");
        }
    }
}
