//! `bourg cp`: files go into a task and out of it, as the task's user.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};

use crate::cell::Cell;
use crate::processes;

#[test]
fn files_and_directories_go_into_a_task_and_out_of_it() {
    let cell = Cell::start();
    cell.write(
        "idle.bcl",
        "local borg = import 'borg.libsonnet';
         [borg.service('idle', tasks=2, cmd=['sleep', '100000']), borg.service('one', cmd=['sleep', '100000'])]",
    );
    cell.ok("bourg run idle.bcl");
    let inside = |line: &str| cell.ok(&format!("bourg exec idle/1 -- sh -c '{line}'"));

    // A file, whatever its bytes, under a new name and into a directory.
    let bytes: Vec<u8> =
        (0..3_000_001_u32).map(|at| at.wrapping_mul(2_654_435_761).to_le_bytes()[2]).collect();
    cell.write("sent", &bytes);
    let said = cell.types("bourg cp sent idle/1:kept");
    assert_eq!((said.code, said.stderr.as_str()), (0, "copied 1 file, 2.8 MiB\n"));
    cell.ok("mkdir back && bourg cp --quiet root/idle/1:kept back");
    assert!(fs::read(cell.path("back/kept")).expect("it was copied") == bytes);
    let uid = processes::uid(cell.tasks("idle")[&1]);
    assert_eq!(inside("stat -c %u:%a kept; ls -A").trim(), format!("{uid}:644\nkept"));
    let found = fs::metadata(cell.path("back/kept")).expect("it was copied");
    assert_eq!((found.uid(), found.permissions().mode() & 0o777), (0, 0o644));

    // A directory with links; a job with one task needs no index, an empty path is where the task works.
    cell.ok("mkdir -p tree/sub && echo a > tree/sub/a && echo b > tree/b && chmod 700 tree/sub");
    symlink("../b", cell.path("tree/sub/link")).expect("a link");
    cell.ok("bourg cp tree one:");
    let seen = cell.ok("bourg exec one -- sh -c 'find tree | sort; cat tree/sub/link'");
    assert_eq!(seen, "tree\ntree/b\ntree/sub\ntree/sub/a\ntree/sub/link\nb\n");
    cell.ok("bourg exec one -- sh -c 'ln -s /etc/passwd tree/evil; mkfifo tree/pipe'");
    let said = cell.types("bourg cp one:tree copied");
    assert_eq!(said.code, 1);
    let mut lines: Vec<&str> = said.stderr.lines().collect();
    lines.sort_unstable();
    let expected = [
        "copied 2 files, 4 B",
        "skipped /home/task/tree/evil: a link to what is not copied with it",
        "skipped /home/task/tree/pipe: neither a file nor a directory",
    ];
    assert_eq!(lines, expected);
    assert_eq!(fs::read_to_string(cell.path("copied/sub/link")).expect("it was copied"), "b\n");

    // What fails says where and why, and leaves what was there.
    for (line, code, says) in [
        ("bourg cp absent idle/1:x", 2, "cannot read absent: No such file"),
        ("bourg cp idle/1:absent x", 1, "cannot read absent: No such file"),
        ("bourg cp sent idle/1:/usr/x", 1, "cannot write /usr/x: "),
        ("bourg cp sent idle/1:absent/x", 1, "cannot write absent/x: No such file"),
        ("bourg cp idle/1:kept absent/x", 1, "cannot write absent/x: No such file"),
        ("bourg cp idle/1:kept tree", 0, "copied 1 file"),
        ("bourg cp tree idle/1:kept", 1, "kept is there and no directory"),
        ("bourg cp sent x", 2, "both are here"),
        ("bourg cp idle/0:x idle/1:x", 2, "both are in tasks"),
        ("bourg cp idle:kept x", 2, "next: bourg cp idle/0:PATH"),
        ("bourg cp sent idle/7:x", 2, "idle"),
        ("bourg cp sent nowhere/0:x", 2, "nowhere"),
    ] {
        let said = cell.types(line);
        assert_eq!(said.code, code, "{line}: {}", said.stderr);
        assert!(said.stderr.contains(says), "{line}: {}", said.stderr);
    }
    assert!(!cell.path("x").exists());
    assert_eq!(inside("ls -A").trim(), "kept", "nothing is left behind");
    // Only those who may, and it is recorded.
    cell.ok("bourg user add ben");
    let said = cell.fails(3, "bourg --cell ben cp root/idle/1:kept stolen");
    assert!(said.contains("ben may not run commands in tasks of root/idle"), "{said}");
    assert!(!cell.path("stolen").exists());
    let events = cell.ok("bourg events idle");
    assert!(events.contains("/usr/bin/bourg unpack -- kept"), "{events}");
}
