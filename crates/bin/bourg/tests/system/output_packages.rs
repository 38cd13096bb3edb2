//! Outputs of ended tasks that become versions of packages.

use std::fs;

use crate::cell::{Cell, Role};
use crate::eventually::until;

fn train(name: &str, then: &str) -> String {
    format!(
        "(import 'borg.libsonnet').batch('{name}', tasks=2, cmd=['sh', '-c',
           'mkdir model; echo weights of {name} $BORG_TASK > model/w; echo x > scratch; {then}'])
           {{ cpu: 0.02, ram: '16 MiB', restart: 'never', outputs: {{ paths: ['model'], package: 'model' }} }}"
    )
}

/// The versions that are there.
fn versions(cell: &Cell) -> Vec<String> {
    cell.ok("bourg package list model -o name").lines().map(str::to_owned).collect()
}

#[test]
fn outputs_become_a_version_that_a_second_job_reads() {
    let cell = Cell::start();
    cell.write("train.bcl", train("train", "true"));
    cell.ok("bourg run --wait train.bcl");
    until("both tasks have a version", || versions(&cell).len() == 2);
    let versions = versions(&cell);
    let second = versions.iter().find(|version| version.ends_with("-1-1")).expect("that of task 1");
    assert!(second.starts_with("root/model@"), "{second}");
    let said = cell.ok("bourg status train/1");
    assert!(said.contains(&format!("task 1: outputs in package {second}")), "{said}");
    assert!(!said.contains("task 0: outputs"), "{said}");

    cell.write(
        "serve.bcl",
        format!(
            "{{ name: 'serve', cmd: ['sh', '-c', 'ls /packages/model; cat /packages/model/model/w'], cpu: 0.02, \
             ram: '16 MiB', priority: 'free', restart: 'never', packages: ['{second}'] }}"
        ),
    );
    cell.ok("bourg run --wait serve.bcl");
    assert_eq!(cell.ok("bourg logs serve/0"), "model\nweights of train 1\n");

    // They are in one place.
    let said = cell.types("bourg results train/1 --to all");
    assert_eq!(said.code, 0, "{}", said.stderr);
    let says = format!("task 1: its outputs are package {second}");
    assert!(said.stderr.contains(&says), "{}", said.stderr);
    assert!(!cell.path("all/1").exists());
    let said = cell.fails(2, "bourg cp train/1:model got");
    assert!(said.contains(&format!("are package {second}")), "{said}");
    let events = cell.ok("bourg events train/1");
    assert!(events.contains(second.as_str()), "{events}");

    // Deleted is gone: the machine has them no more.
    cell.ok(&format!("bourg package rm {second}"));
    let said = cell.fails(1, "bourg results train/1 --to all");
    assert!(said.contains("a version of the package"), "{said}");
}

#[test]
fn what_cannot_be_uploaded_stays_and_is_tried_again_over_a_restart() {
    let cell = Cell::start();
    cell.write("slow.bcl", train("slow", "while [ ! -e /home/task/end ]; do sleep 0.05; done"));
    cell.ok("bourg run --detach slow.bcl");
    let job = cell.is_healthy("slow");
    // Somebody has taken the name of a version.
    let id = job["collection"].to_string().replace('"', "");
    fs::create_dir(cell.path("other")).expect("a directory");
    cell.write("other/file", "other");
    cell.ok(&format!("bourg package build other --name model --version {id}-0-1"));
    cell.ok("bourg exec slow/0 -- touch /home/task/end; bourg exec slow/1 -- touch /home/task/end");
    cell.job("slow", "has ended", |job| job["state"] == "finished");
    until("the other has a version", || versions(&cell).len() == 2);
    until("the reason is said", || {
        let said = cell.types("rm -rf all; bourg results slow/0 --to all");
        said.stderr.contains("not in package model yet: ")
            && said.stderr.contains("exists with another content")
    });
    let read = || fs::read_to_string(cell.path("all/0/model/w")).expect("it was fetched");
    assert_eq!(read(), "weights of slow 0\n");

    cell.kill(Role::Borglet);
    cell.ok(&format!("bourg package rm model@{id}-0-1"));
    until("it is uploaded by another process of the Borglet", || versions(&cell).len() == 2);
    let said = cell.ok("bourg status slow/0");
    assert!(said.contains(&format!("task 0: outputs in package root/model@{id}-0-1")), "{said}");
}
