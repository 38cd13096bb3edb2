//! The examples that run container images, which are made of Debian's packages on this machine.

use crate::cell::Cell;
use crate::eventually::until;
use crate::tools::needs;

/// Makes the image of an example as its script does, and imports it.
#[track_caller]
pub(crate) fn import(cell: &Cell, name: &str) {
    needs("umoci", "umoci");
    needs("/usr/sbin/nginx", "nginx");
    needs("/usr/lib/python3/dist-packages/flask/__init__.py", "python3-flask");
    cell.ok(&format!("$EXAMPLES/images/{name}.sh {name}-image"));
    cell.ok(&format!("bourg package import {name}-image --name {name} --version 1"));
}

/// The page that a job's task serves.
fn page(cell: &Cell, job: &str) -> String {
    cell.ok(&format!("curl -s 127.0.0.1:$(bourg status {job} -o tasks.0.ports.0.port)"))
}

#[test]
fn services_run_from_images_behind_health_checks() {
    let cell = Cell::start();
    for (name, says) in [("nginx", "hello from nginx"), ("python", "hello from task 0")] {
        import(&cell, name);
        cell.ok(&format!("bourg run $EXAMPLES/{name}.bcl"));
        cell.is_healthy(name);
        assert_eq!(page(&cell, name).trim(), says);
        // The host's programs are not there, and the task is not root.
        cell.fails(127, &format!("bourg exec {name}/0 -- /usr/bin/env true"));
        assert!(cell.ok("bourg package list").contains(&format!("{name}@1")));
    }
    // What a task has written is gone when it starts again: its root is the image as it was.
    let restarts = |cell: &Cell| cell.status("nginx")["tasks"][0]["generation"].as_u64();
    let before = restarts(&cell);
    cell.ok(
        "bourg exec nginx/0 -- /bin/sh -c 'exec 3> /srv/www/index.html; kill -QUIT -1' || true",
    );
    until("nginx serves again", || restarts(&cell) != before);
    cell.is_healthy("nginx");
    assert_eq!(page(&cell, "nginx").trim(), "hello from nginx");
}

#[test]
fn the_same_files_are_the_same_image() {
    let cell = Cell::start();
    import(&cell, "python");
    cell.ok("$EXAMPLES/images/python.sh again");
    let said = cell.ok("bourg package import again --name python --version 1");
    assert!(said.contains("python@1 is unchanged"), "{said}");
}
