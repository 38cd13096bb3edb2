//! Images: imported as other programs make them, and the root of tasks.

use std::fs::{Permissions, create_dir_all, set_permissions, write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use nix::sys::signal::Signal;

use crate::cell::Cell;
use crate::eventually::until;
use crate::processes;
use crate::tools::needs;

/// Runs a program of another project in the directory of a cell.
fn run(cell: &Cell, line: &str) {
    let mut words = line.split_whitespace();
    let program = words.next().expect("a program");
    let done = Command::new(program).args(words).current_dir(cell.path(".")).output();
    let done = done.unwrap_or_else(|error| panic!("{program}: {error}"));
    assert!(done.status.success(), "{line}: {}", String::from_utf8_lossy(&done.stderr));
}

/// Makes an OCI layout `box` with one image `box:1`: `busybox`, a user `app`, and what the image says of its start.
fn busybox(cell: &Cell) {
    needs("umoci", "umoci");
    needs("/bin/busybox", "busybox-static");
    let root = cell.path("files");
    for directory in ["bin", "etc", "srv", "data", "tmp"] {
        create_dir_all(root.join(directory)).expect("it is made");
    }
    std::fs::copy("/bin/busybox", root.join("bin/busybox")).expect("busybox-static is installed");
    for name in ["sh", "cat", "id", "pwd", "echo", "touch", "env", "sleep", "stat", "httpd"] {
        symlink("busybox", root.join("bin").join(name)).expect("it is made");
    }
    write(root.join("etc/passwd"), "root:x:0:0:root:/:/bin/sh\napp:x:101:101::/srv:/bin/sh\n")
        .expect("it is written");
    write(root.join("etc/group"), "root:x:0:\napp:x:101:\n").expect("it is written");
    write(root.join("greeting"), "from the image\n").expect("it is written");
    set_permissions(root.join("greeting"), Permissions::from_mode(0o600)).expect("it is set");
    run(cell, "umoci init --layout box");
    run(cell, "umoci new --image box:1");
    for entry in ["bin", "etc", "srv", "data", "tmp", "greeting"] {
        run(cell, &format!("umoci insert --image box:1 files/{entry} /{entry}"));
    }
    let config = "--config.env PATH=/bin --config.env MODE=image --config.workingdir /srv";
    run(cell, &format!("umoci config --image box:1 {config}"));
    let cmd = "echo $MODE $HOME; pwd; cat /greeting";
    let said = Command::new("umoci")
        .args(["config", "--image", "box:1", "--config.entrypoint", "/bin/sh"])
        .args(["--config.entrypoint", "-c", "--config.cmd", cmd])
        .current_dir(cell.path("."))
        .status();
    assert!(said.is_ok_and(|status| status.success()));
}

fn job(cell: &Cell, name: &str, fields: &str) {
    let job = format!(
        "{{ name: '{name}', cpu: 0.1, ram: '32 MiB', priority: 'free', image: 'box@1', {fields} }}"
    );
    cell.write(&format!("{name}.bcl"), job);
}

#[test]
fn a_task_runs_in_the_root_of_its_image() {
    let cell = Cell::start();
    busybox(&cell);
    let said = cell.ok("bourg package import box --name box --version 1");
    assert!(said.contains("box@1: ") && said.contains(" sent, digest "), "{said}");
    assert!(cell.ok("bourg package import box --name box --version 1").contains("is unchanged"));
    assert!(cell.ok("bourg package verify box@1").contains("is complete"));
    assert!(cell.ok("bourg package list").contains("image"));

    // What the job does not say is the image's; a file of root that only root may read is the task's own.
    job(&cell, "plain", "");
    cell.ok("bourg run plain.bcl --wait");
    assert_eq!(cell.ok("bourg logs plain/0").trim(), "image /home/task\n/srv\nfrom the image");

    // The job's own command and variables replace those of the image; the host's programs are not there.
    job(
        &cell,
        "own",
        "env: { MODE: 'job' }, cmd: ['sh', '-c', 'echo $MODE; echo more >> /greeting; cat /greeting; \
         stat -c %U /data; cat /usr/bin/env || echo no host']",
    );
    cell.ok("bourg run own.bcl --wait");
    let said = cell.ok("bourg logs own/0");
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines[..4], ["job", "from the image", "more", "task"], "{said}");
    assert!(said.contains("no host"), "{said}");

    // What one task writes no other sees.
    job(&cell, "next", "cmd: ['cat', '/greeting']");
    cell.ok("bourg run next.bcl --wait");
    assert_eq!(cell.ok("bourg logs next/0").trim(), "from the image");

    // A package of files is no root, and an image is no package of files.
    cell.ok("bourg package build files --name files --version 1");
    cell.write("wrong.bcl", "{ name: 'wrong', image: 'files@1' }");
    assert!(cell.fails(2, "bourg run wrong.bcl").contains("is not an image"));
    cell.write("wrong.bcl", "{ name: 'wrong', cmd: ['true'], packages: ['box@1'] }");
    assert!(cell.fails(2, "bourg run wrong.bcl").contains("is an image"));
}

#[test]
fn images_come_from_archives_of_other_programs() {
    let cell = Cell::start();
    busybox(&cell);
    needs("skopeo", "skopeo");
    run(&cell, "skopeo copy oci:box:1 docker-archive:docker.tar:example/box:1");
    run(&cell, "skopeo copy oci:box:1 oci-archive:oci.tar");
    let digest = |source: &str, version: &str| {
        cell.ok(&format!("bourg package import {source} --name box --version {version}"));
        cell.ok(&format!("bourg package show box@{version} -o digest")).trim().to_owned()
    };
    let [directory, docker, oci] =
        [("box", "1"), ("docker.tar", "2"), ("oci.tar", "3")].map(|(from, to)| digest(from, to));
    // The archive of Docker names no platform's variant otherwise, so all are the same image.
    assert_eq!([&docker, &oci], [&directory, &directory]);

    let truncated = cell.path("oci.tar");
    let length = truncated.metadata().expect("it is there").len();
    let file = std::fs::File::options().write(true).open(&truncated).expect("it is there");
    file.set_len(length / 2).expect("it is cut");
    cell.fails(1, "bourg package import oci.tar --name box --version 4");
    cell.fails(1, "bourg package import nothing --name box --version 4");
    cell.fails(2, "bourg package show box@4");
}

#[test]
fn a_service_runs_from_an_image_as_a_user_of_it() {
    let cell = Cell::start();
    busybox(&cell);
    write(cell.path("index.html"), "served\n").expect("it is written");
    run(&cell, "umoci insert --image box:1 index.html /srv/index.html");
    run(&cell, "umoci config --image box:1 --config.user app --config.stopsignal SIGINT");
    cell.ok("bourg package import box --name box --version 1");
    cell.write(
        "web.bcl",
        "local borg = import 'borg.libsonnet';\n\
         borg.service('web', cmd=['httpd', '-f', '-p', borg.port('http'), '-h', '/srv'])\n\
         { image: 'box@1', cpu: 0.1, ram: '32 MiB', notice: '2 s', healthCheck+: { path: '/index.html' } }",
    );
    cell.ok("bourg run web.bcl");
    cell.is_healthy("web");
    assert_eq!(cell.ok("bourg exec web/0 -- id -un").trim(), "app");
    // Its own directories are the user's, others are root's.
    assert_eq!(cell.ok("bourg exec web/0 -- stat -c %u /data").trim(), "0");

    // Another version restarts the tasks, and the plan says so with both.
    write(cell.path("index.html"), "served again\n").expect("it is written");
    run(&cell, "umoci insert --image box:1 index.html /srv/index.html");
    cell.ok("bourg package import box --name box --version 2");
    let next = std::fs::read_to_string(cell.path("web.bcl")).expect("it is there");
    cell.write("next.bcl", next.replace("box@1", "box@2"));
    let plan = cell.ok("bourg plan next.bcl");
    assert!(plan.contains("box@1") && plan.contains("box@2") && plan.contains("restart"), "{plan}");
    cell.ok("bourg update next.bcl");
    cell.is_healthy("web");
    assert_eq!(cell.ok("bourg exec web/0 -- cat /srv/index.html").trim(), "served again");
    assert!(Path::new("/srv").metadata().is_ok(), "the machine's own is untouched");
}

/// A registry on this machine, which ends with its test.
struct Registry(Child);

impl Registry {
    /// One on a free port, which is returned.
    fn on_a_free_port(cell: &Cell) -> (Self, u16) {
        let free = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let port = free.local_addr().expect("it is bound").port();
        drop(free);
        (Self::start(cell, port), port)
    }

    fn start(cell: &Cell, port: u16) -> Self {
        needs("docker-registry", "docker-registry");
        let config = format!(
            "version: 0.1\nlog: {{ level: error }}\nstorage: {{ filesystem: {{ rootdirectory: {} }} }}\n\
             http: {{ addr: '127.0.0.1:{port}' }}\n",
            cell.path("registry").display()
        );
        cell.write("registry.yml", config);
        let started = Command::new("docker-registry")
            .args(["serve", "registry.yml"])
            .current_dir(cell.path("."))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        let registry = Self(started.expect("docker-registry starts"));
        until("the registry listens", || TcpStream::connect(("127.0.0.1", port)).is_ok());
        registry
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        let _gone = self.0.kill();
        let _status = self.0.wait();
    }
}

#[test]
fn an_image_comes_from_a_registry() {
    let cell = Cell::start();
    busybox(&cell);
    needs("skopeo", "skopeo");
    let (registry, port) = Registry::on_a_free_port(&cell);
    let image = format!("127.0.0.1:{port}/team/box:1.27");
    run(&cell, &format!("skopeo copy --dest-tls-verify=false oci:box:1 docker://{image}"));
    let import = format!("bourg package import {image} --insecure-registry");
    let said = cell.ok(&import);
    assert!(said.contains("/box@1.27: "), "named by the repository and the tag: {said}");
    assert!(cell.ok(&import).contains("is unchanged"));
    cell.write(
        "job.bcl",
        "{ name: 'plain', cpu: 0.1, ram: '32 MiB', priority: 'free', image: 'box@1.27' }",
    );
    cell.ok("bourg run job.bcl --wait");
    assert!(cell.ok("bourg logs plain/0").contains("from the image"));

    let unsafe_one = cell.fails(1, &format!("bourg package import {image}"));
    assert!(unsafe_one.contains("TLS"), "{unsafe_one}");
    let none = format!("bourg package import 127.0.0.1:{port}/team/box:1.28 --insecure-registry");
    assert!(cell.fails(1, &none).contains("1.28"));
    drop(registry);
    cell.fails(1, &import);
}

#[test]
fn a_job_names_its_image_as_a_registry_does() {
    let cell = Cell::start();
    busybox(&cell);
    needs("skopeo", "skopeo");
    let (registry, port) = Registry::on_a_free_port(&cell);
    let image = format!("127.0.0.1:{port}/team/box:1.27");
    let push = format!("skopeo copy --dest-tls-verify=false oci:box:1 docker://{image}");
    run(&cell, &push);
    let fields = "name: 'tagged', cmd: ['/bin/sh', '-c', 'cat /greeting; sleep 1000'], cpu: 0.1, ram: '32 MiB', \
                  priority: 'free', notice: '1 s'";
    cell.write("tagged.bcl", format!("{{ {fields}, image: '{image}' }}"));

    let unsafe_one = cell.fails(1, "bourg run tagged.bcl");
    assert!(
        unsafe_one.contains(&image) && unsafe_one.contains("--insecure-registry"),
        "{unsafe_one}"
    );
    assert_eq!(cell.ok("bourg package list -o name").trim(), "", "nothing is added");
    let evaluated = cell.ok("bourg eval tagged.bcl --insecure-registry");
    assert!(evaluated.contains("box@1.27-"), "the version is known without a cell: {evaluated}");

    cell.ok("bourg run tagged.bcl --insecure-registry");
    until("the image runs", || cell.ok("bourg logs tagged/0").contains("from the image"));
    let first = cell.ok("bourg package list -o name").trim().to_owned();
    assert!(first.contains("/box@1.27-") && !first.contains('\n'), "{first}");
    let again = cell.ok("bourg plan tagged.bcl --insecure-registry");
    assert!(again.contains("unchanged"), "the tag has not moved: {again}");
    assert_eq!(cell.ok("bourg package list -o name").trim(), first);

    cell.write("greeting", "from the next image\n");
    run(&cell, "umoci insert --image box:1 greeting /greeting");
    run(&cell, &push);
    let plan = cell.ok("bourg plan tagged.bcl --insecure-registry");
    let versions = cell.ok("bourg package list -o name");
    for version in versions.lines() {
        let (_, version) = version.split_once('/').expect("USER/NAME@VERSION");
        assert!(plan.contains(version), "{plan}");
    }
    assert_eq!(versions.lines().count(), 2, "{versions}");
    cell.ok("bourg update tagged.bcl --insecure-registry");
    until("the next image runs", || cell.ok("bourg logs tagged/0").contains("from the next image"));

    cell.write("none.bcl", format!("{{ {fields}, image: '127.0.0.1:{port}/team/box' }}"));
    assert!(cell.fails(2, "bourg run none.bcl").contains("neither a tag nor a digest"));
    cell.write("short.bcl", format!("{{ {fields}, image: 'box:1.27' }}"));
    assert!(cell.fails(2, "bourg run short.bcl").contains("docker.io/library/"));
    drop(registry);
    let away = cell.fails(1, "bourg plan tagged.bcl --insecure-registry");
    assert!(away.contains(&format!("127.0.0.1:{port}")), "the registry is named: {away}");
}

/// A server that accepts connections and never answers holds an import until the signal.
#[test]
fn an_import_that_is_interrupted_leaves_no_directory() {
    let cell = Cell::start();
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let port = silent.local_addr().expect("it is bound").port();
    let temporary = cell.path("temporary");
    create_dir_all(&temporary).expect("it is made");
    let holds = || {
        let entries = temporary.read_dir().expect("it is there").flatten();
        let mut names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
        names.any(|name| name.starts_with("bourg-import-"))
    };
    let line = format!(
        "export TMPDIR={}; exec bourg package import 127.0.0.1:{port}/team/box:1 --insecure-registry",
        temporary.display()
    );
    let import = cell.start("sh", &["-c", &line]);
    until("the import has its directory", holds);
    processes::signal(import.pid(), Signal::SIGINT);
    let ended = import.ends();
    assert_eq!(ended.code, 130, "{}", ended.stderr);
    assert!(!holds(), "nothing is left");
}
