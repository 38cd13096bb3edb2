//! Volumes of machines: `PostgreSQL` keeps its data over everything that ends a task.

use std::fs::create_dir_all;

use crate::cell::Cell;
use crate::eventually::until;
use crate::tools::needs;

/// The only machine of a dev cell.
fn machine(cell: &Cell) -> String {
    cell.ok("bourg machines -o name").trim().to_owned()
}

/// Gives the machine a new directory as a volume.
fn add(cell: &Cell, name: &str) -> String {
    let (machine, path) = (machine(cell), cell.path(&format!("volume-{name}")));
    create_dir_all(&path).expect("it is made");
    cell.ok(&format!("bourg machine volume add {machine} {name} {}", path.display()));
    machine
}

/// The line that runs a statement in the database.
fn psql(statement: &str) -> String {
    format!("bourg exec postgres/0 -- /usr/lib/postgresql/15/bin/psql -Atc \"{statement}\"")
}

/// Waits until the database answers, and holds what was written.
fn holds(cell: &Cell, when: &str) {
    cell.is_healthy("postgres");
    until(&format!("the database answers {when}"), || cell.types(&psql("select 1")).code == 0);
    assert_eq!(cell.ok(&psql("select word from kept")).trim(), "here", "{when}");
}

#[test]
fn postgres_keeps_its_data() {
    needs("/usr/lib/postgresql/15/bin/postgres", "postgresql-15");
    let cell = Cell::start();
    let m = add(&cell, "pgdata");
    cell.ok("bourg run $EXAMPLES/postgres.bcl");
    cell.is_healthy("postgres");
    let make = psql("create table if not exists kept (word text)");
    until("the database takes a table", || cell.types(&make).code == 0);
    cell.ok(&psql("insert into kept values ('here')"));
    assert!(cell.ok("bourg machine volume list").contains("root/postgres/0"));
    let said = cell.fails(3, &format!("bourg machine volume rm {m} pgdata --force"));
    assert!(said.contains("is in use by root/postgres/0"), "{said}");

    cell.ok("bourg restart postgres");
    holds(&cell, "after a restart");

    cell.ok("bourg kill postgres");
    until("it has ended", || cell.status("postgres")["state"] == "killed");
    cell.ok("bourg run $EXAMPLES/postgres.bcl");
    holds(&cell, "after a kill");

    cell.ok(&format!("bourg machine drain {m} --by 30s --force"));
    let why = cell.ok("bourg why postgres");
    assert!(why.contains("is draining"), "{why}");
    cell.ok(&format!("bourg machine undrain {m}"));
    holds(&cell, "after a drain");
}

#[test]
fn a_missing_directory_is_no_failure_of_the_task() {
    let cell = Cell::start();
    let m = machine(&cell);
    let path = cell.path("absent");
    cell.ok(&format!("bourg machine volume add {m} data {}", path.display()));
    cell.write(
        "job.bcl",
        "{ name: 'job', cmd: ['cat', '/data/x'], volumes: [{ volume: 'data', path: '/data' }] }",
    );
    cell.types("bourg run job.bcl --timeout 1s");
    until("the reason is shown", || {
        cell.ok("bourg events job").contains("the volume data") && {
            let status = cell.status("job");
            status["tasks"][0]["failures"] == 0
        }
    });
    create_dir_all(&path).expect("it is made");
    std::fs::write(path.join("x"), "found\n").expect("it is written");
    std::os::unix::fs::chown(&path, Some(12_345), Some(12_345)).expect("it is given away");
    std::os::unix::fs::chown(path.join("x"), Some(12_345), Some(12_345)).expect("given away");
    until("the task has run", || cell.ok("bourg logs job/0").contains("found"));
}

#[test]
fn a_task_waits_for_the_volume_that_another_claims() {
    let cell = Cell::start();
    let m = add(&cell, "data");
    let job = |name: &str| {
        format!(
            "{{ name: '{name}', cmd: ['sleep', '1d'], volumes: [{{ volume: 'data', path: '/d' }}] }}"
        )
    };
    cell.write("one.bcl", job("one"));
    cell.write("two.bcl", job("two"));
    cell.ok("bourg run one.bcl");
    cell.fails(4, "bourg run two.bcl --timeout 500ms");
    let why = cell.ok("bourg why two");
    assert!(why.contains("has the volume data claimed by root/one/0"), "{why}");
    cell.write("other.bcl", job("other").replace("'data'", "'nothing'"));
    cell.fails(4, "bourg run other.bcl --timeout 500ms");
    let why = cell.ok("bourg why other");
    assert!(why.contains("has no volume nothing"), "{why}");
    cell.ok("bourg kill one");
    until("it has ended", || cell.status("one")["state"] == "killed");
    let said = cell.fails(3, &format!("bourg machine volume rm {m} data"));
    assert!(said.contains("is claimed by root/one/0"), "{said}");
    cell.ok(&format!("bourg machine volume release {m} data"));
    until("the other task has it", || cell.status("two")["state"] == "running");
}
