//! Users who are added, use the cell, and are revoked.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::cell::{Cell, Role};
use crate::eventually::until;

const JOB: &str = "local borg = import 'borg.libsonnet';
borg.service('hello', tasks=1, cmd=['bourg', 'example-server', '--port', borg.port('http')])
    { cpu: 0.1, ram: '64 MiB', priority: 'free' }";

#[test]
fn a_user_is_revoked_and_added_again_while_their_jobs_run() {
    let cell = Cell::start();
    cell.write("hello.bcl", JOB);
    let said = cell.types("bourg user add ana --for 30d");
    assert_eq!(said.code, 0, "{}", said.stderr);
    assert!(said.stderr.contains("next: bourg --cell ./ana status"), "{}", said.stderr);
    let mode = |file: &str| {
        let found = fs::metadata(cell.path(file)).expect("a file");
        found.permissions().mode() & 0o777
    };
    assert_eq!((mode("ana"), mode("ana/user.key")), (0o700, 0o600));
    assert_eq!(cell.ok("bourg --cell ./ana cell -o user"), "ana\n");
    cell.ok("bourg --cell ./ana run hello.bcl");
    let before = cell.tasks("ana/hello");
    assert_eq!(cell.ok("bourg user list -o name"), "ana\nroot\n");

    let said = cell.fails(2, "bourg user add ana");
    assert!(said.contains("cannot create ./ana") && said.contains("--dir"), "{said}");
    let said = cell.fails(3, "bourg --cell ./ana user add bob");
    assert!(said.contains("ana may not add user bob: an administrator may"), "{said}");
    assert!(!cell.path("bob").exists(), "nothing is left of what was refused");
    let said = cell.fails(2, "bourg user add bob --for 400d");
    assert!(said.contains("a certificate can be valid for 1 m to 366 d, not for 400 d"), "{said}");
    let said = cell.fails(3, "bourg --cell ./ana user revoke root");
    assert!(said.contains("ana may not revoke user root"), "{said}");
    let said = cell.fails(3, "bourg user revoke root");
    assert!(said.contains("root cannot revoke root: another administrator can"), "{said}");

    let follower = cell.start("bourg", &["--cell", "./ana", "events", "--follow"]);
    let logs = cell.start("bourg", &["--cell", "./ana", "logs", "--follow", "hello"]);
    until("she follows", || follower.stdout().contains("ana/hello"));
    let said = cell.types("bourg user revoke ana");
    assert_eq!(said.code, 0, "{}", said.stderr);
    assert!(said.stderr.contains("1 running job is not affected"), "{}", said.stderr);
    for stream in [follower.ends(), logs.ends()] {
        assert_eq!(stream.code, 3, "{}", stream.stderr);
        assert!(stream.stderr.contains("the certificates that ana had were revoked"));
    }
    let refused = || {
        let said = cell.fails(3, "bourg --cell ./ana status");
        assert!(said.contains("were revoked") && said.contains("by root: ask an admini"), "{said}");
        assert!(said.contains("(bourg user add ana)"), "{said}");
    };
    refused();
    cell.kill(Role::Master);
    until("a new master answers", || cell.types("bourg cell").code == 0);
    refused();

    cell.ok("bourg user add ana --dir hers/new");
    assert_eq!(cell.ok("bourg --cell hers/new status -o name"), "ana/hello\n");
    refused();
    assert_eq!(cell.tasks("ana/hello"), before, "the job has not noticed");
    let events = cell.ok("bourg events --all");
    for expected in ["ADD_USER", "REVOKE_USER"] {
        assert!(events.contains(expected), "{expected} is not in\n{events}");
    }
    let said = cell.types("bourg user revoke anna").stderr;
    assert!(said.contains("user anna did not exist before. Did you mean ana?"), "{said}");
    let list = cell.ok("bourg user list");
    assert!(list.lines().any(|line| line.starts_with("anna ") && line.contains("none")), "{list}");
    cell.ok("bourg --cell hers/new kill hello");
}
