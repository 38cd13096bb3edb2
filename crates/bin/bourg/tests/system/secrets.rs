//! Files and secrets that tasks bring: what they find, what nobody else does, and where a secret is not.

use std::fs;
use std::path::Path;

use crate::cell::Cell;
use crate::eventually::until;
use crate::replicas::Three;

/// What must be nowhere but in memory.
const SECRET: &str = "kestrel-4711-unmistakable";

fn job(cell: &Cell, name: &str, cmd: &str, rest: &str) {
    let job = format!(
        "{{ name: '{name}', cmd: ['sh', '-c', {cmd:?}], cpu: 0.1, ram: '16 MiB', priority: 'free', \
         notice: '1 s', {rest} }}"
    );
    cell.write(&format!("{name}.bcl"), job);
}

/// The files below a directory that contain a text.
fn found(directory: &Path, text: &str, files: &mut Vec<String>) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        let Ok(kind) = entry.file_type() else { continue };
        if kind.is_dir() {
            found(&path, text, files);
        } else if kind.is_file() {
            let bytes = fs::read(&path).unwrap_or_default();
            if bytes.windows(text.len()).any(|window| window == text.as_bytes()) {
                files.push(path.display().to_string());
            }
        }
    }
}

#[track_caller]
fn is_nowhere(cell: &Cell) {
    let mut files = Vec::new();
    found(cell.directory(), SECRET, &mut files);
    assert!(files.is_empty(), "the secret is in {files:?}");
    assert!(!cell.said().contains(SECRET), "the secret is in a log: {}", cell.said());
}

#[test]
fn a_task_finds_the_files_that_its_job_brings() {
    let cell = Cell::start();
    cell.write("app.conf", "task ${task.index} of $${task.job}\n");
    let files = "files: { '/etc/app.conf': importstr 'app.conf', '/srv/app/run.sh': \
                 { content: 'echo script', mode: '0555' }, '/etc/bytes': { base64: 'aGkK' } }";
    let cmd = "cat /etc/app.conf /etc/bytes; /bin/sh /srv/app/run.sh; stat -c %a:%U /etc/app.conf /srv/app/run.sh; \
               (echo x > /etc/app.conf) 2>/dev/null || echo read-only";
    job(&cell, "reader", cmd, files);
    cell.ok("bourg run reader.bcl --wait");
    let said = "task 0 of ${task.job}\nhi\nscript\n444:task\n555:task\nread-only\n";
    assert_eq!(cell.ok("bourg logs reader/0"), said);

    // A change restarts the tasks, and an undo brings the old file back.
    let files = |text: &str| format!("files: {{ '/etc/app.conf': '{text}' }}");
    job(&cell, "keeper", "cat /etc/app.conf; sleep 1000", &files("one "));
    cell.ok("bourg run keeper.bcl");
    job(&cell, "keeper", "cat /etc/app.conf; sleep 1000", &files("two "));
    let plan = cell.types("bourg plan keeper.bcl").stdout;
    assert!(
        plan.contains(
            "files[/etc/app.conf] 4 bytes, mode 0444 → 4 bytes, mode 0444, other content"
        ),
        "{plan}"
    );
    cell.ok("bourg update keeper.bcl");
    until("it has the new file", || cell.types("bourg logs keeper/0").stdout.contains("two"));

    job(&cell, "bad", "true", "files: { '/proc/x': 'x' }");
    let refused = cell.fails(2, "bourg run bad.bcl");
    assert!(refused.contains("is in /proc, where tasks have no files"), "{refused}");
    job(&cell, "bad", "true", "files: { '/etc/x': '${task.nothing}' }");
    let refused = cell.fails(2, "bourg run bad.bcl");
    assert!(refused.contains("refers to nothing"), "{refused}");
}

#[test]
fn a_secret_is_for_its_owners_tasks_alone_and_on_no_disk() {
    let mut cell = Cell::start();
    for user in ["ana", "ben"] {
        cell.ok(&format!("bourg user add {user}"));
    }
    let set = format!("printf %s {SECRET} | bourg --cell ./ana secret set db");
    assert_eq!(cell.ok(&set).trim(), "secret db has version 1");
    // Its content is not printed: a log would be a file with it.
    let cmd = format!(
        "test \"$(cat /etc/db)\" = \"$PASSWORD\" && test $(printf %s \"$PASSWORD\" | wc -c) = {} && \
         stat -c %a:%U /etc/db; sleep 1000",
        SECRET.len()
    );
    let secrets = "secrets: { '/etc/db': 'db' }, secretEnv: { PASSWORD: 'db' }";
    job(&cell, "login", &cmd, secrets);
    let refused = cell.fails(2, "bourg --cell ./ben run login.bcl");
    assert!(refused.contains("ben has no secret db"), "{refused}");
    cell.ok("bourg --cell ./ana run login.bcl");
    until("the task has read it", || {
        cell.types("bourg --cell ./ana logs login/0").stdout == "400:task\n"
    });
    assert_eq!(cell.ok("bourg --cell ./ben secret list -o name").trim(), "");
    let used = cell.fails(3, "bourg --cell ./ana secret rm db");
    assert!(used.contains("job ana/login names secret db"), "{used}");
    let events = cell.ok("bourg events --all");
    for kind in ["SET_SECRET", "READ_SECRET"] {
        assert!(events.contains(kind), "{kind} in {events}");
    }
    // Commands in the task have its variables, as a health check has.
    // What is typed there is in events: it does not have the secret.
    cell.ok("bourg --cell ./ana exec login/0 -- sh -c 'test \"$PASSWORD\" = \"$(cat /etc/db)\"'");
    // A variable is a text: another content is rejected while a live job wants it there.
    let refused = cell.fails(2, "printf 'a\\0b' | bourg --cell ./ana secret set db");
    assert!(refused.contains("job login has secret db in secretEnv"), "{refused}");
    // A crash leaves no copy of the task's memory anywhere.
    let crash = "test -n \"$PASSWORD\"; ulimit -c unlimited; kill -ABRT $$";
    job(&cell, "crash", crash, "secretEnv: { PASSWORD: 'db' }, restart: 'never'");
    cell.types("bourg --cell ./ana run crash.bcl --wait");
    is_nowhere(&cell);
    let shown = [
        "bourg status ana/login -o json",
        "bourg events --all -o json",
        "bourg --cell ./ana secret list -o json",
    ];
    for command in shown {
        let said = cell.ok(command);
        assert!(!said.contains(SECRET), "{command}: {said}");
    }
    cell.ok("bourg checkpoint save saved");
    let saved = fs::read(cell.path("saved")).unwrap_or_default();
    assert!(!saved.windows(SECRET.len()).any(|window| window == SECRET.as_bytes()));
    is_nowhere(&cell);

    // Another key, and then other processes.
    let said = cell.ok("bourg cell rotate-key");
    assert!(said.starts_with("1 secret is sealed with the new key"), "{said}");
    cell.fails(3, "bourg --cell ./ana cell rotate-key");
    cell.stop();
    cell.start_again(&[]);
    cell.ok("bourg --cell ./ana restart login");
    until("the task reads it again", || {
        cell.types("bourg --cell ./ana logs login/0").stdout.contains("400:task\n")
    });
    is_nowhere(&cell);
    cell.ok("bourg --cell ./ana kill login");
    until("it is not used any more", || {
        cell.types("bourg --cell ./ana secret rm db").stdout.contains("secret db deleted")
    });
}

#[test]
fn every_master_has_the_keys() {
    let cell = Three::start();
    cell.ok(&format!("printf %s {SECRET} | bourg secret set db"));
    let secrets = "secrets: { '/etc/db': 'db' }";
    job(&cell, "one", "wc -c < /etc/db", secrets);
    cell.ok("bourg run one.bcl --wait");
    assert_eq!(cell.ok("bourg logs one/0").trim(), SECRET.len().to_string());
    cell.ok("bourg cell rotate-key");
    job(&cell, "two", "wc -c < /etc/db", secrets);
    cell.ok("bourg run two.bcl --wait");
    assert_eq!(cell.ok("bourg logs two/0").trim(), SECRET.len().to_string());
    is_nowhere(&cell);
}

#[test]
fn a_key_that_is_lost_leaves_names_and_is_used_when_it_is_back() {
    let mut cell = Cell::start();
    cell.ok(&format!("printf %s {SECRET} | bourg secret set db"));
    cell.stop();
    let mut keys = Vec::new();
    found_named(cell.directory(), "secrets.keys", &mut keys);
    assert_eq!(keys.len(), 1, "{keys:?}");
    let away = cell.path("away.keys");
    fs::rename(&keys[0], &away).expect("the file with the keys");
    cell.start_again(&[]);
    let listed = cell.ok("bourg secret list");
    assert!(listed.contains("set it again"), "{listed}");
    cell.ok(&format!("printf %s {SECRET} | bourg secret set other"));
    let said = cell.ok("bourg cell rotate-key");
    assert!(said.starts_with("1 secret is sealed"), "{said}");
    assert!(said.contains("/db@1: set the secret again"), "{said}");
    // The old file has no key of what was sealed meanwhile: both are needed.
    let (old, new) = (fs::read(&away).expect("keys"), fs::read(&keys[0]).expect("keys"));
    fs::write(&keys[0], [new, old].concat()).expect("room");
    until("the key is read", || !cell.ok("bourg secret list").contains("set it again"));
    job(&cell, "reader", "wc -c < /etc/db", "secrets: { '/etc/db': 'db' }");
    cell.ok("bourg run reader.bcl --wait");
    assert_eq!(cell.ok("bourg logs reader/0").trim(), SECRET.len().to_string());
}

/// The files of a name below a directory.
fn found_named(directory: &Path, name: &str, files: &mut Vec<std::path::PathBuf>) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            found_named(&path, name, files);
        } else if path.file_name().is_some_and(|file| file == name) {
            files.push(path);
        }
    }
}
