//! Packages: built once, kept in a store, and found by the tasks that use them.

use std::fs::{File, Permissions, create_dir_all, read_dir, set_permissions, write};
use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use crate::cell::{Cell, Role};
use crate::eventually::until;

/// Writes a directory with a program that says what is in its package.
fn files(cell: &Cell, directory: &str, word: &str) {
    let path = cell.path(directory);
    create_dir_all(path.join("bin")).expect("it is made");
    let program = path.join("bin/say");
    write(&program, "#!/bin/sh\ncat /packages/app/word\n").expect("it is written");
    set_permissions(&program, Permissions::from_mode(0o755)).expect("it is executable");
    write(path.join("word"), format!("{word}\n")).expect("it is written");
    set_permissions(path.join("word"), Permissions::from_mode(0o644)).expect("it is readable");
    // More than one chunk.
    let large: Vec<u8> = (0..600_000_u32).flat_map(u32::to_le_bytes).collect();
    write(path.join("large"), large).expect("it is written");
    set_permissions(path.join("large"), Permissions::from_mode(0o644)).expect("it is readable");
}

fn job(cell: &Cell, name: &str, package: &str) {
    let job = format!(
        "{{ name: '{name}', cmd: ['/packages/app/bin/say'], cpu: 0.1, ram: '16 MiB', priority: 'free', \
         packages: ['{package}'] }}"
    );
    cell.write(&format!("{name}.bcl"), job);
}

#[test]
fn a_task_finds_its_packages() {
    let cell = Cell::start();
    files(&cell, "app", "first");
    let said = cell.ok("bourg package build app --name app --version 1");
    assert!(said.contains("app@1: ") && said.contains(" sent, digest "), "{said}");
    let again = cell.ok("bourg package build app --name app --version 1");
    assert!(again.contains("app@1 is unchanged"), "{again}");
    job(&cell, "one", "app@1");
    cell.ok("bourg run one.bcl --wait");
    assert_eq!(cell.ok("bourg logs one/0").trim(), "first");

    // A second version sends what differs, and a version never changes.
    files(&cell, "app", "second");
    let refused = cell.fails(1, "bourg package build app --name app --version 1");
    assert!(refused.contains("a version never changes"), "{refused}");
    let said = cell.ok("bourg package build app --name app --version 2");
    let sent = said.split(", ").find(|part| part.contains("sent")).expect("what was sent");
    assert!(sent.ends_with("B sent") && !sent.contains("MiB"), "few bytes: {said}");
    job(&cell, "two", "app@2");
    cell.ok("bourg run two.bcl --wait");
    assert_eq!(cell.ok("bourg logs two/0").trim(), "second");

    let listed = cell.ok("bourg package list -o name");
    assert_eq!(listed.lines().count(), 2, "{listed}");
    assert!(cell.ok("bourg package verify app@2").contains("is complete"));
    cell.ok("bourg package rm app@1");
    let gone = cell.fails(2, "bourg package show app@1");
    assert!(gone.contains("there is no package"), "{gone}");
    let events = cell.ok("bourg events --all");
    for kind in ["SET_PACKAGE", "DELETE_PACKAGE"] {
        assert!(events.contains(kind), "{kind} in {events}");
    }
}

#[test]
fn machines_report_the_packages_that_they_have() {
    let cell = Cell::start();
    files(&cell, "app", "there");
    cell.ok("bourg package build app --name app --version 1");
    let machine = cell.ok("bourg machines -o name").trim().to_owned();
    let show = format!("bourg machine show {machine}");
    assert!(!cell.ok(&show).contains("app@1"));
    job(&cell, "one", "app@1");
    cell.ok("bourg run one.bcl --wait");
    until("the machine has reported it", || {
        let shown = cell.ok(&show);
        shown.contains("/app@1") && shown.contains("ON THE MACHINE")
    });
    let json = cell.ok(&format!("{show} -o json"));
    assert!(json.contains("packageCount") && json.contains("HELD_USE_"), "{json}");
    let small = "{ name: 'small', cmd: ['/bin/sleep', '600'], cpu: 0.1, ram: '16 MiB', priority: 'free', \
                 packages: ['app@1'] }";
    cell.write("small.bcl", small);
    cell.ok("bourg run small.bcl");
    let why = cell.ok("bourg why small/0 --scores 1");
    assert!(why.contains(" of its packages"), "{why}");
}

#[test]
fn a_package_is_for_its_readers_alone() {
    let cell = Cell::start();
    for user in ["ana", "ben"] {
        cell.ok(&format!("bourg user add {user}"));
    }
    files(&cell, "app", "secret");
    cell.ok("bourg --cell ./ana package build app --name app --version 1");
    job(&cell, "spy", "ana/app@1");
    let refused = cell.fails(3, "bourg --cell ./ben run spy.bcl");
    assert!(refused.contains("ben may not use package ana/app@1"), "{refused}");
    cell.fails(3, "bourg --cell ./ben package verify ana/app@1");
    assert_eq!(cell.ok("bourg --cell ./ben package list -o name").trim(), "");
    cell.fails(3, "bourg --cell ./ben package rm ana/app@1");

    cell.ok("bourg --cell ./ana package share app@1 --reader ben");
    cell.ok("bourg --cell ./ben run spy.bcl --wait");
    assert_eq!(cell.ok("bourg --cell ./ben logs spy/0").trim(), "secret");
    cell.fails(3, "bourg --cell ./ben package rm ana/app@1");
}

#[test]
fn a_machine_fetches_a_package_when_the_store_is_back() {
    let cell = Cell::start();
    files(&cell, "app", "late");
    cell.ok("bourg package build app --name app --version 1");
    let store = cell.path("cell/packages/store");
    assert!(store.is_dir(), "where the packages are: {}", store.display());
    let aside = cell.path("cell/packages/aside");
    std::fs::rename(&store, &aside).expect("it is moved");
    job(&cell, "late", "app@1");
    cell.ok("bourg run late.bcl --detach");
    until("the reason is shown", || {
        let events = cell.ok("bourg events late");
        events.contains("cannot fetch package")
    });
    until("it is tried again and again, and is no failure", || {
        let why = cell.ok("bourg why late");
        why.contains(" could not start: cannot fetch package") && why.contains("tried 2 times")
    });
    // The same reason in the same words, whether it waits or is being tried again.
    until("its status says the same", || {
        let status = cell.ok("bourg status late");
        status.contains("could not start: cannot fetch package") && status.contains("; tried ")
    });
    assert!(!cell.ok("bourg status late").contains("  running  "), "no program of it has run");
    let events = cell.ok("bourg events late");
    assert!(events.contains(", cannot fetch package") && !events.contains("lost: "), "{events}");
    std::fs::rename(&aside, &store).expect("it is moved back");
    until("it runs", || cell.ok("bourg status late -o tasks.0.state").contains("finished"));
}

#[test]
fn a_directory_becomes_a_package_with_the_job() {
    let cell = Cell::start();
    files(&cell, "app", "first");
    let job = "local borg = import 'borg.libsonnet';\n\
               { name: 'say', cmd: ['sh', '-c', '/packages/app/bin/say; sleep 1000'], cpu: 0.1, \
               ram: '16 MiB', priority: 'free', notice: '1 s', packages: [borg.directory('./app')] }";
    cell.write("say.bcl", job);
    let version = cell.ok("bourg eval say.bcl").contains("app@");
    assert!(version, "the version is known without a cell");
    assert_eq!(cell.ok("bourg package list -o name").trim(), "", "and nothing is uploaded");
    cell.ok("bourg run say.bcl");
    until("it says what is in the package", || cell.ok("bourg logs say/0").trim() == "first");
    assert_eq!(cell.ok("bourg package list -o name").lines().count(), 1);
    let plan = cell.ok("bourg plan say.bcl");
    assert!(plan.contains("unchanged"), "{plan}");
    assert_eq!(cell.ok("bourg package list -o name").lines().count(), 1, "unchanged");

    files(&cell, "app", "second");
    let plan = cell.ok("bourg plan say.bcl");
    assert!(plan.contains("packages") && plan.contains("restart"), "{plan}");
    assert_eq!(cell.ok("bourg package list -o name").lines().count(), 2);
    cell.ok("bourg update say.bcl");
    until("it says what is in the package", || cell.ok("bourg logs say/0").contains("second"));

    // What no job uses any more is collected.
    cell.ok("bourg kill say");
    cell.job("say", "is killed", |job| job["state"] == "killed");
    let plan = cell.ok("bourg package gc --plan");
    assert_eq!(plan.lines().count(), 3, "{plan}");
    assert!(cell.ok("bourg package gc").contains("deleted: 2, "));
    assert_eq!(cell.ok("bourg package list -o name").trim(), "");
    assert_eq!(cell.ok("bourg package gc").trim(), "no package is unused");

    // A file takes nothing from outside of its folder.
    create_dir_all(cell.path("jobs")).expect("it is made");
    cell.write("jobs/out.bcl", job.replace("./app", "../app"));
    let refused = cell.fails(2, "bourg run jobs/out.bcl");
    assert!(refused.contains("'../app' cannot become a package"), "{refused}");
    cell.write("jobs/none.bcl", job.replace("./app", "./none"));
    cell.fails(2, "bourg run jobs/none.bcl");
}

#[test]
fn an_upload_ends_with_its_store_and_goes_on_with_the_next() {
    let cell = Cell::start();
    create_dir_all(cell.path("big")).expect("it is made");
    let mut random = vec![0; 96 << 20];
    let urandom = File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut random));
    urandom.expect("there is randomness");
    write(cell.path("big/random"), random).expect("it is written");
    let build = ["package", "build", "big", "--name", "big", "--version", "1"];
    let upload = cell.start("bourg", &build);
    let packs = cell.path("cell/packages/store/packs");
    until("a pack is stored", || read_dir(&packs).is_ok_and(|mut packs| packs.next().is_some()));
    cell.kill(Role::Packages);
    // With an error, unless all of it was there already.
    upload.ends_within(Duration::from_secs(60));
    cell.ok(&format!("bourg {}", build.join(" ")));
    assert!(cell.ok("bourg package verify big@1").contains("is complete"));
}
