//! Volumes of machines: `PostgreSQL` keeps its data over everything that ends a task.

use std::fs::create_dir_all;
use std::path::Path;

use rpc::{Authority, Identity};

use crate::access::client_directory;
use crate::cell::{Cell, Role};
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
        cell.ok("bourg why job").contains("missing") && {
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

/// Runs a program of the machine.
fn host(program: &str, arguments: &[&str]) {
    let ended = std::process::Command::new(program).args(arguments).output().expect("it runs");
    assert!(ended.status.success(), "{program} {arguments:?}: {ended:?}");
}

/// A mount that ends with the test.
struct Mounted(String);

impl Mounted {
    fn new(options: &[&str], from: &str, on: &Path) -> Self {
        let on = on.display().to_string();
        host("mount", &[options, &[from, &on]].concat());
        Self(on)
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ended = std::process::Command::new("umount").args(["-l", &self.0]).output();
    }
}

/// A job that adds a line to a file of the volume `data`, says how many there are, and stays.
fn counter(cell: &Cell, name: &str) {
    cell.write(
        &format!("{name}.bcl"),
        format!(
            "{{ name: '{name}', priority: 'production', cpu: 0.1, ram: '16 MiB', notice: '1 s',
               cmd: ['sh', '-c', 'echo run >> /data/runs; wc -l < /data/runs; exec sleep 1d'],
               volumes: [{{ volume: 'data', path: '/data' }}] }}"
        ),
    );
}

/// Ends the job, and waits until its task has ended.
fn ends(cell: &Cell, job: &str) {
    cell.ok(&format!("bourg kill {job}"));
    until("it has ended", || cell.status(job)["state"] == "killed");
}

/// Waits until the task of the job cannot start, for this reason, which is no failure of it.
fn waits_because(cell: &Cell, job: &str, why: &str) {
    until(&format!("{job} waits because {why}"), || {
        ["why", "events"]
            .iter()
            .any(|command| cell.types(&format!("bourg {command} {job}")).stdout.contains(why))
    });
    assert_eq!(cell.status(job)["tasks"][0]["failures"], 0);
    until("the reason is shown", || {
        cell.types(&format!("bourg why {job}")).stdout.contains(why)
            || cell.types(&format!("bourg status {job}/0")).stdout.contains(why)
    });
}

#[test]
fn a_disk_that_is_not_mounted_is_no_new_volume() {
    let cell = Cell::start();
    let m = machine(&cell);
    let (disk, path) = (cell.path("disk"), cell.path("mount-point"));
    for directory in [&disk, &path] {
        create_dir_all(directory).expect("it is made");
    }
    let mounted = Mounted::new(&["--bind"], &disk.display().to_string(), &path);
    cell.ok(&format!("bourg machine volume add {m} data {}", path.display()));
    counter(&cell, "counter");
    cell.ok("bourg run counter.bcl");
    until("it has counted", || cell.types("bourg logs counter/0").stdout == "1\n");
    ends(&cell, "counter");
    drop(mounted);
    cell.types("bourg run counter.bcl --timeout 1s");
    waits_because(&cell, "counter", "its disk may not be mounted");
    until("it is a problem of the cell", || cell.ok("bourg cell").contains("counter/0"));
    let below = std::fs::read_dir(&path).expect("it is there").count();
    assert_eq!(below, 0, "nothing was written below the mount point");

    let _mounted = Mounted::new(&["--bind"], &disk.display().to_string(), &path);
    until("it goes on", || cell.types("bourg logs counter/0").stdout == "2\n");
}

#[test]
fn a_restored_directory_is_accepted_by_an_operator() {
    let cell = Cell::start();
    let m = add(&cell, "data");
    counter(&cell, "counter");
    cell.ok("bourg run counter.bcl");
    until("it has counted", || cell.types("bourg logs counter/0").stdout == "1\n");
    ends(&cell, "counter");
    let path = cell.path("volume-data").display().to_string();
    // As from a backup: the files, and no mark.
    host("mv", &[&path, &format!("{path}-broken")]);
    host("cp", &["-r", "--preserve=ownership,mode", &format!("{path}-broken"), &path]);
    cell.types("bourg run counter.bcl --timeout 1s");
    let accept = format!("bourg machine volume accept {m} data");
    waits_because(&cell, "counter", &accept);
    let said = cell.fails(3, &format!("bourg machine volume accept {m} nothing"));
    assert!(said.contains("has no volume nothing"), "{said}");
    cell.ok(&accept);
    until("it goes on", || cell.types("bourg logs counter/0").stdout == "2\n");
}

#[test]
fn a_directory_that_is_given_again_is_not_shown_to_another_user() {
    let cell = Cell::start();
    let authority = Authority::open(cell.path("cell/master/tls")).expect("the cell has it");
    client_directory(&cell, "ana", &authority, &Identity::User("ana".to_owned()));
    let m = add(&cell, "data");
    let path = cell.path("volume-data").display().to_string();
    counter(&cell, "counter");
    cell.ok("bourg run counter.bcl");
    until("it has counted", || cell.types("bourg logs counter/0").stdout == "1\n");
    ends(&cell, "counter");
    let said = cell.fails(3, &format!("bourg machine volume rm {m} data"));
    assert!(said.contains("is claimed by root/counter/0"), "{said}");
    let removed = cell.types(&format!("bourg machine volume rm {m} data --force"));
    let ended = "the claim of root/counter/0 on volume data ended";
    assert!(removed.code == 0 && removed.stderr.contains(ended), "{}", removed.stderr);
    cell.ok(&format!("bourg machine volume add {m} data {path}"));
    let job = "{ name: 'reader', priority: 'free', cpu: 0.1, ram: '16 MiB',
                 cmd: ['cat', '/data/runs'], volumes: [{ volume: 'data', path: '/data' }] }";
    cell.write("reader.bcl", job);
    cell.types("bourg --cell ./ana run reader.bcl --timeout 1s");
    until("the reason is shown", || {
        cell.types("bourg --cell ./ana events reader").stdout.contains("it has the data of root")
    });
    cell.ok(&format!("bourg machine volume add {m} data {path} --reuse"));
    until("she reads it", || cell.types("bourg --cell ./ana logs reader/0").stdout == "run\n");
}

#[test]
fn it_is_shown_how_full_a_volume_is() {
    let cell = Cell::start();
    let m = machine(&cell);
    let path = cell.path("volume-data");
    create_dir_all(&path).expect("it is made");
    let _mounted = Mounted::new(&["-t", "tmpfs", "-o", "size=8m"], "none", &path);
    cell.ok(&format!("bourg machine volume add {m} data {}", path.display()));
    // A tmpfs shows other owners only with Linux 6.3 and newer: its owner is the first task's.
    cell.write(
        "filler.bcl",
        "{ name: 'filler', cpu: 0.1, ram: '32 MiB', priority: 'free',
           cmd: ['sh', '-c', 'head -c 4m /dev/zero > /data/half; head -c 9m /dev/zero > /data/rest; \
         exec sleep 1d'],
           volumes: [{ volume: 'data', path: '/data' }] }",
    );
    cell.ok("bourg run filler.bcl");
    until("the task is told that it is full", || {
        cell.types("bourg logs filler/0 --stderr").stdout.contains("No space left on device")
            || cell.types("bourg logs filler/0").stdout.contains("No space left on device")
    });
    for line in ["bourg machine volume list".to_owned(), format!("bourg machine show {m}")] {
        until("it is full", || cell.ok(&line).contains("8 MiB of 8 MiB"));
    }
}

#[test]
fn a_volume_that_cannot_be_used_is_no_failure_of_its_task() {
    let cell = Cell::start();
    let m = machine(&cell);
    let (file, read_only) = (cell.path("a-file"), cell.path("read-only"));
    std::fs::write(&file, "").expect("it is written");
    create_dir_all(&read_only).expect("it is made");
    let _mounted = Mounted::new(&["-t", "tmpfs", "-o", "size=1m,ro"], "none", &read_only);
    for (name, path, why) in [
        ("file", file.display().to_string(), "not a directory"),
        ("fixed", read_only.display().to_string(), "read-only"),
        ("gone", cell.path("gone").display().to_string(), "missing"),
    ] {
        cell.ok(&format!("bourg machine volume add {m} {name} {path}"));
        cell.write(
            &format!("{name}.bcl"),
            format!(
                "{{ name: '{name}', cmd: ['true'], cpu: 0.1, ram: '16 MiB', priority: 'free',
                   volumes: [{{ volume: '{name}', path: '/data' }}] }}"
            ),
        );
        cell.types(&format!("bourg run {name}.bcl --timeout 1s"));
        waits_because(&cell, name, why);
    }
    // The machine is ready for others all the same.
    cell.write("other.bcl", "{ name: 'other', cmd: ['true'], cpu: 0.1, ram: '16 MiB' }");
    cell.ok("bourg run other.bcl --wait");
    for (twice, why) in [
        (format!("bourg machine volume add {m} again {}/below", file.display()), "or one is below"),
        (format!("bourg machine volume add {m} again /etc/data"), "is a directory of the system"),
    ] {
        let said = cell.types(&twice);
        assert!(said.code != 0 && said.stderr.contains(why), "{twice}: {}", said.stderr);
    }
    cell.write(
        "twice.bcl",
        "{ name: 'twice', cmd: ['true'], volumes: [{ volume: 'file', path: '/data' },
           { volume: 'gone', path: '/data' }] }",
    );
    let said = cell.fails(2, "bourg run twice.bcl");
    assert!(said.contains("is at or below /data, where the task has another volume"), "{said}");
}

#[test]
fn postgres_keeps_its_data_over_restarts_of_the_borglet_and_the_machine() {
    needs("/usr/lib/postgresql/15/bin/postgres", "postgresql-15");
    let mut cell = Cell::start();
    add(&cell, "pgdata");
    cell.ok("bourg run $EXAMPLES/postgres.bcl");
    cell.is_healthy("postgres");
    let make = psql("create table if not exists kept (word text)");
    until("the database takes a table", || cell.types(&make).code == 0);
    cell.ok(&psql("insert into kept values ('here')"));

    let before = cell.tasks("postgres");
    cell.kill(Role::Borglet);
    until("the Borglet is back", || cell.pid(Role::Borglet).is_some());
    holds(&cell, "after a restart of the Borglet");
    assert_eq!(cell.tasks("postgres"), before, "its task went on");

    cell.lose_power();
    cell.start_over(
        "/proc/sys/kernel/random/boot_id",
        "00000000-0000-4000-8000-000000000000\n",
        &[],
    );
    holds(&cell, "after a restart of the machine");
    assert_eq!(cell.status("postgres")["tasks"][0]["failures"], 0);
}

#[test]
fn scratch_is_in_memory_and_gone_with_the_task() {
    let cell = Cell::start();
    let job = |name: &str, cmd: &str, scratch: &str| {
        cell.write(
            &format!("{name}.bcl"),
            format!(
                "{{ name: '{name}', cpu: 0.1, ram: '32 MiB', priority: 'free', cmd: ['sh', '-c', {cmd:?}], \
                 scratch: '{scratch}' }}"
            ),
        );
    };
    let cmd = "stat -f -c %T /scratch; ls -A /scratch | wc -l; head -c 9m /dev/zero > /scratch/x 2>/dev/null || \
               echo full; stat -c %s /scratch/x";
    job("sorter", cmd, "8 MiB");
    for _ in 0..2 {
        cell.ok("bourg run sorter.bcl --wait");
        assert_eq!(cell.ok("bourg logs sorter/0"), "tmpfs\n0\nfull\n8388608\n");
    }
    // What is in it is the task's memory.
    job("greedy", "head -c 31m /dev/zero > /scratch/x; tail /dev/zero", "32 MiB");
    cell.types("bourg run greedy.bcl --timeout 5s");
    until("it has no memory left", || cell.ok("bourg events greedy").contains("out of memory"));
    job("large", "true", "33 MiB");
    let said = cell.fails(2, "bourg run large.bcl");
    assert!(said.contains("is 33 MiB, more than the ram of the job, 32 MiB"), "{said}");
}
