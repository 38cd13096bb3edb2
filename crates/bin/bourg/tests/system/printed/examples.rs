//! Runs the examples.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::cell::Cell;
use crate::eventually::until;

/// The expected state of an example.
#[derive(Clone, Copy)]
enum Becomes {
    /// Every task is healthy.
    Healthy,
    /// Every job ends with status 0.
    Finished,
    /// It fits nowhere: exit code 4.
    Pending,
}

/// Every example, with its jobs.
const EXAMPLES: [(&str, Becomes, &[&str]); 14] = [
    ("hello.bcl", Becomes::Healthy, &["hello"]),
    ("batch.bcl", Becomes::Finished, &["pi"]),
    ("pipeline.bcl", Becomes::Finished, &["extract", "transform", "load"]),
    ("overrides.bcl", Becomes::Healthy, &["shards", "index"]),
    ("workers.bcl", Becomes::Healthy, &["crawler", "crawler-workers"]),
    ("allocs.bcl", Becomes::Healthy, &["room", "web", "saver"]),
    ("own-network.bcl", Becomes::Healthy, &["site"]),
    ("leader.bcl", Becomes::Healthy, &["elected"]),
    ("gang.bcl", Becomes::Finished, &["allreduce"]),
    ("nginx.bcl", Becomes::Healthy, &["nginx"]),
    ("python.bcl", Becomes::Healthy, &["python"]),
    ("proxy.bcl", Becomes::Healthy, &["blue", "green", "balancer"]),
    // No machine has its volume.
    ("postgres.bcl", Becomes::Pending, &["postgres"]),
    ("too-big.bcl", Becomes::Pending, &["too-big"]),
];

#[test]
fn every_example_runs() {
    let cell = Cell::start();
    // On a machine with two cores, `workers.bcl` needs what the others would use.
    // What `proxy.bcl` says is needed.
    cell.ok("bourg service set front --port http -l app=front");
    for image in ["nginx", "python"] {
        crate::example_images::import(&cell, image);
    }
    for (file, becomes, jobs) in EXAMPLES {
        let line = match becomes {
            Becomes::Healthy => format!("bourg run $EXAMPLES/{file}"),
            Becomes::Finished => format!("bourg run --wait $EXAMPLES/{file}"),
            Becomes::Pending => format!("bourg run --timeout 500ms $EXAMPLES/{file}"),
        };
        match becomes {
            Becomes::Pending => drop(cell.fails(4, &line)),
            _ => drop(cell.ok(&line)),
        }
        for job in jobs {
            let status: Value = cell.status(job);
            let is = |state: &str| status["state"] == state;
            let right = match becomes {
                Becomes::Healthy => is("running") || is("finished"),
                Becomes::Finished => is("finished"),
                Becomes::Pending => is("pending"),
            };
            assert!(right, "{job} of {file} is {status:#}");
        }
        if let Some(logs) = jobs.iter().find(|job| **job == "saver") {
            until("the log is saved", || {
                cell.ok(&format!("bourg logs {logs}")).contains("listening")
            });
        }
        // Killing an alloc set kills its jobs.
        let killed = format!("bourg kill {}", jobs.join(" "));
        cell.types(&killed);
    }
}

#[test]
fn no_example_is_without_a_run() {
    let directory = super::root().join("examples");
    let entries = std::fs::read_dir(directory).expect("the examples can be listed");
    // Directories hold no jobs; their files have tests of their own.
    let files = entries.map(|entry| entry.expect("an entry").path()).filter(|path| path.is_file());
    let names = files.filter_map(|path| path.file_name().map(ToOwned::to_owned));
    let names: BTreeSet<String> = names.map(|n| n.to_string_lossy().into_owned()).collect();
    let run: BTreeSet<String> = EXAMPLES.iter().map(|(file, ..)| (*file).to_owned()).collect();
    assert_eq!(names, run);
}
