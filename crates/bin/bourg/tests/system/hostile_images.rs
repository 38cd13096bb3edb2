//! Images that nobody builds by accident. What is wrong with one is said, and changes nothing; what is legal does no
//! harm to the machine.
//!
//! What takes long or other limits is beside the code: bombs, many files, damaged layouts (`package`), and registries
//! that fail, redirect and never end (`registry`).

use std::fs::create_dir;
use std::path::Path;

use crate::cell::Cell;
use crate::tools::needs;

/// Debian's Python.
const PYTHON: &str = "/usr/bin/python3";
const BUSYBOX: &str = "/bin/busybox";

/// Archives that are rejected, and why.
const REJECTED: [(&str, &str); 14] = [
    ("parent", "it has a component '..'"),
    ("parent-below", "it has a component '..'"),
    ("hard-link-out", "'../../etc/passwd' is not a path in a package"),
    ("hard-link-nowhere", "it is a hard link to 'b', which is not there"),
    ("link-loop", "more than 40 symbolic links are above it, or a loop"),
    ("other-digest", "is damaged: expected sha256:0000"),
    ("fewer-digests", "it has 1 diff_ids for 2 layers"),
    ("bad-variable", "a variable that is not KEY=VALUE"),
    ("unknown-kind", "its type is 'Z'"),
    ("layer-outside", "passwd"),
    ("deep-json", "manifest.json"),
    ("no-json", "manifest.json"),
    ("ten-terabytes", "10995116277760 bytes"),
    ("cut", "error: "),
];

/// Archives that are legal, what a task does in their root, and what it says.
const HARMLESS: [(&str, &str, &str); 4] = [
    // The links lead into the image, where there is nothing; the task's own files are in their places.
    (
        "links",
        "cat /absolute /etc/shadow 2> /dev/null; \
         test -e /out/hostile-image-was-here && echo inside; test -d /home/task && echo home",
        "inside\nhome\n",
    ),
    (
        "devices",
        "head -c 1 /mem 2> /dev/null && echo memory; head -c 1 /disk 2> /dev/null && echo disk; \
         test $(id -u) = $(busybox-rooted id -u) && echo nobody",
        "nobody\n",
    ),
    ("names", "cd /names; set -- *; echo $#", "253\n"),
    ("again-and-again", "echo once", "once\n"),
];

fn archives() -> Cell {
    needs(PYTHON, "python3");
    needs(BUSYBOX, "busybox-static");
    let cell = Cell::start();
    cell.write("hostile.py", include_str!("hostile_images.py"));
    create_dir(cell.path("hostile")).expect("it is made");
    cell.ok(&format!("{PYTHON} hostile.py hostile {BUSYBOX}"));
    cell
}

#[test]
fn what_is_wrong_with_an_archive_is_said_and_nothing_is_kept() {
    let cell = archives();
    for (name, why) in REJECTED {
        let line = format!("bourg package import hostile/{name}.tar --name {name} --version 1");
        let said = cell.fails(1, &line);
        assert!(said.contains(why) && !said.contains("panicked"), "{name}: {said}");
        assert!(said.len() < 1_000, "{name}: {said}");
    }
    assert_eq!(cell.ok("bourg package list -o name").trim(), "");
    assert!(!Path::new("/escaped").exists() && !cell.path("escaped").exists());
}

#[test]
fn what_is_legal_does_no_harm() {
    let cell = archives();
    for (name, script, says) in HARMLESS {
        cell.ok(&format!("bourg package import hostile/{name}.tar --name {name} --version 1"));
        let job = format!(
            "{{ name: '{name}', cpu: 0.1, ram: '32 MiB', priority: 'free', image: '{name}@1', \
             cmd: ['sh', '-c', |||\n  {script}\n|||] }}"
        );
        cell.write(&format!("{name}.bcl"), job);
        // The status of the last test counts; what it says is compared.
        cell.types(&format!("bourg run {name}.bcl --wait"));
        assert_eq!(cell.ok(&format!("bourg logs {name}/0")), says, "{name}");
    }
    for path in ["/srv/hostile-image-was-here", "/hostile-image-was-here"] {
        assert!(!Path::new(path).exists(), "{path} is on the machine");
    }
    // A version never changes, whatever its content would be.
    let refused = cell.fails(1, "bourg package import hostile/names.tar --name links --version 1");
    assert!(refused.contains("a version never changes"), "{refused}");
}
