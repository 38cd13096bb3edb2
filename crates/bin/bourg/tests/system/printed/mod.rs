//! Runs what the pages of the repository show: the blocks of a page one after the other against one
//! cell, as a reader would type them.
//!
//! A block of `console` has commands after `$ `, and below each its expected output; one of `sh` is
//! a script; one of `jsonnet` is a file that evaluates. A comment above a block marks exceptions:
//!
//! - `<!-- not run: WHY -->`: it is not run
//! - `<!-- fails: CODE -->`: its last command exits with this code
//! - `<!-- file: NAME -->`: it is first saved as this file
//! - `<!-- fragment -->`: it is part of a file, and is put into a job
//!
//! A command's output is compared word by word. A word with a digit stands for any word with a
//! digit, `…` for the rest of the line, and the user `ana` for the user who runs the test.

mod blocks;
mod examples;
mod session;

use std::path::{Path, PathBuf};

use self::blocks::{Block, What};
use self::session::Session;

/// The number of blocks that are not run, each with a reason. A page that needs another one raises
/// this number.
const NOT_RUN: usize = 54;

/// Runs all blocks of a page.
#[track_caller]
fn page(path: &str) {
    let blocks = blocks::of(&root().join(path));
    let run: Vec<&Block> = blocks.iter().filter(|block| block.is_run()).collect();
    assert!(!run.is_empty(), "{path} has nothing to run");
    let mut session = Session::new(path, &run);
    run.into_iter().for_each(|block| session.runs(block));
    session.ends();
}

macro_rules! pages {
    ($($name:ident: $path:literal,)*) => {
        $(#[test] fn $name() { page($path); })*

        /// The pages with blocks that run.
        const PAGES: &[&str] = &[$($path),*];
    };
}

pages! {
    readme: "README.md",
    tutorial: "docs/tutorial.md",
    jobs: "docs/jobs.md",
    batch: "docs/batch.md",
    updates: "docs/updates.md",
    gangs: "docs/gangs.md",
    isolation: "docs/isolation.md",
    allocs: "docs/allocs.md",
    pending: "docs/pending.md",
    queue: "docs/queue.md",
    watching: "docs/watching.md",
    usage: "docs/usage.md",
    reclamation: "docs/reclamation.md",
    autoscaling: "docs/autoscaling.md",
    exec: "docs/exec.md",
    names: "docs/names.md",
    networks: "docs/networks.md",
    services: "docs/services.md",
    metrics: "docs/metrics.md",
    access: "docs/access.md",
    dev: "docs/dev.md",
    packages: "docs/packages.md",
    containers: "docs/containers.md",
    files_and_secrets: "docs/files-and-secrets.md",
    volumes: "docs/volumes.md",
    results: "docs/results.md",
    machines: "docs/machines.md",
    replicas: "docs/replicas.md",
    quota: "docs/quota.md",
    tasks: "docs/tasks.md",
    simulation: "docs/simulation.md",
    estimator_lab: "docs/estimator-lab.md",
}

#[test]
fn every_block_of_every_page_is_run_or_says_why_not() {
    let mut not_run = Vec::new();
    for path in blocks::pages(&root()) {
        let shown = path.strip_prefix(root()).expect("a page of ours").display().to_string();
        for block in blocks::of(&path) {
            if let What::NotRun(why) = &block.what {
                assert!(!why.is_empty(), "{shown}:{}: it is not said why", block.line);
                not_run.push(format!("{shown}:{}: {why}", block.line));
            } else {
                let is_page = PAGES.contains(&shown.as_str());
                assert!(is_page, "{shown}:{} is not run, and does not say why", block.line);
            }
        }
    }
    println!("{} blocks are not run:\n{}", not_run.len(), not_run.join("\n"));
    assert_eq!(not_run.len(), NOT_RUN, "blocks that are not run:\n{}", not_run.join("\n"));
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..")
}
