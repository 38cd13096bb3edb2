//! Tasks whose root is an image.

use std::fs::{self, DirBuilder};
use std::os::unix::fs::{
    DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt, chown, lchown, symlink,
};
use std::path::{Path, PathBuf};

use linux::Isolation;
use linux::disk::unnamed;
use linux::enter::Terminal;
use linux::logs::{Start, Stream};
use linux::record::{
    Bind, ExitReason, IMAGE_DIRECTORY, ImageRoot, Launch, Root, UPPER_DIRECTORY, WORK_DIRECTORY,
};
use linux::session::spawn;
use linux::task::TaskDirectory;
use nix::sys::stat::{Mode, SFlag, makedev, mknod};

use crate::rootless::unprivileged;
use crate::support::{
    SmallDisk, Task, Tasks, UID, executable, is_emulated, read_log, wait_readable, wait_until,
};

/// The program that is all the programs of the images of these tests; it is linked statically.
const BUSYBOX: &str = "busybox";

/// The layers of an image, which a test unpacks by hand.
struct Layers {
    base: tempfile::TempDir,
    paths: Vec<PathBuf>,
}

impl Layers {
    /// An image with a shell and the programs that the tests' scripts run.
    fn new() -> Self {
        let base = tempfile::tempdir().unwrap();
        fs::set_permissions(base.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let mut layers = Self { base, paths: Vec::new() };
        let bottom = layers.add();
        for directory in ["bin", "etc", "usr/bin", "tmp"] {
            fs::create_dir_all(bottom.join(directory)).unwrap();
        }
        let program = bottom.join("bin").join(BUSYBOX);
        fs::copy(busybox(), &program).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        let names = ["sh", "cat", "chmod", "env", "id", "ln", "ls", "mkdir", "readlink", "rm"];
        let more = ["sleep", "stat", "touch", "mount", "grep", "su", "true", "echo", "mknod"];
        for name in names.iter().chain(&more) {
            symlink(BUSYBOX, bottom.join("bin").join(name)).unwrap();
        }
        fs::write(bottom.join("etc/passwd"), "root:x:0:0:root:/root:/bin/sh\n").unwrap();
        fs::write(bottom.join("etc/group"), "root:x:0:\n").unwrap();
        layers
    }

    /// Adds an empty layer on top.
    fn add(&mut self) -> PathBuf {
        // Names that are longer than those in which layers are kept.
        let path = self.base.path().join(format!("{:0>120}", self.paths.len()));
        DirBuilder::new().mode(0o755).create(&path).unwrap();
        self.paths.push(path.clone());
        path
    }

    fn root(&self, user: &str) -> Root {
        Root::Image(ImageRoot { layers: self.paths.clone(), user: user.to_owned() })
    }

    /// A launch record for a script in this image.
    fn script(&self, tasks: &Tasks, name: &str, user: &str, script: &str) -> Launch {
        let mut launch = tasks.launch(name, &["sh", "-c", script]);
        launch.jail.root = self.root(user);
        launch.env = vec![("PATH".to_owned(), "/usr/bin:/bin".to_owned())];
        launch
    }

    /// Runs a script in this image; returns what it said.
    fn output(&self, tasks: &Tasks, name: &str, user: &str, script: &str) -> String {
        ended(&tasks.start(name, &self.script(tasks, name, user, script)))
    }
}

/// What a task said until it ended well.
fn ended(task: &Task) -> String {
    let reason = task.wait_end().reason;
    let output = task.log(Stream::Stdout);
    let (errors, log) = (task.log(Stream::Stderr), task.shim_log());
    assert_eq!(reason, ExitReason::Exited { code: 0 }, "{output}{errors}{log}");
    output
}

/// Why a task was not started.
fn not_started(task: &Task) -> String {
    match task.wait_end().reason {
        ExitReason::NotStarted { reason } => reason,
        other => panic!("{other:?}"),
    }
}

fn busybox() -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut found = std::env::split_paths(&path).map(|directory| directory.join(BUSYBOX));
    found.find(|path| path.is_file()).expect("busybox, of busybox-static")
}

/// Marks a file of lower layers as removed.
fn whiteout(path: &Path) {
    mknod(path, SFlag::S_IFCHR, Mode::empty(), makedev(0, 0)).unwrap();
}

/// Makes a directory hide those of lower layers.
fn make_opaque(directory: &Path, attribute: &str) {
    let path = std::ffi::CString::new(directory.to_str().unwrap()).unwrap();
    let attribute = std::ffi::CString::new(attribute).unwrap();
    crate::support::set_attribute(&path, &attribute, b"y");
}

/// Everything below a directory: paths, owners, modes and sizes.
fn listed(directory: &Path) -> Vec<(PathBuf, u32, u32, u64)> {
    let mut all = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let found = fs::symlink_metadata(&path).unwrap();
        all.push((path.clone(), found.uid(), found.mode(), found.size()));
        if found.is_dir() {
            all.extend(listed(&path));
        }
    }
    all.sort();
    all
}

/// Two layers over the bottom, with all that layers can say.
fn layered(attribute: &str) -> Layers {
    let mut layers = Layers::new();
    let middle = layers.add();
    fs::create_dir_all(middle.join("data/inner")).unwrap();
    fs::write(middle.join("data/removed"), "").unwrap();
    fs::write(middle.join("data/changed"), "old\n").unwrap();
    fs::write(middle.join("data/kept"), "kept\n").unwrap();
    fs::write(middle.join("data/inner/hidden"), "").unwrap();
    let top = layers.add();
    fs::create_dir_all(top.join("data/inner")).unwrap();
    whiteout(&top.join("data/removed"));
    fs::write(top.join("data/changed"), "new\n").unwrap();
    fs::write(top.join("data/inner/own"), "").unwrap();
    make_opaque(&top.join("data/inner"), attribute);
    layers
}

const LOOK: &str = "ls /data /data/inner; cat /data/changed /data/kept";
const SEEN: &str = "/data:\nchanged\ninner\nkept\n\n/data/inner:\nown\nnew\nkept\n";

#[test]
fn layers_are_one_root_and_writes_are_the_tasks_own() {
    let tasks = Tasks::new();
    let layers = layered("trusted.overlay.opaque");
    let before = listed(layers.base.path());
    let script = format!(
        "{LOOK}; touch /new && rm -r /data /bin/mount && mkdir /data && ls /data && ls / && \
         ls -d /bin/busybox && stat -c %u:%g:%a / && echo end; sleep 1000"
    );
    if is_emulated() {
        // Its layers are where owners cannot be mapped.
        assert_eq!(layers.output(&tasks, "look", "", LOOK), SEEN);
        return;
    }
    let one = tasks.start("one", &layers.script(&tasks, "one", "", &script));
    one.wait_output("end\n");
    let root = "bin\ndata\ndev\netc\nhome\nnew\nproc\nrun\nsys\ntmp\nusr\nvar\n";
    let expected = format!("{SEEN}{root}/bin/busybox\n{UID}:{UID}:755\nend\n");
    assert_eq!(one.log(Stream::Stdout), expected, "{}", one.log(Stream::Stderr));
    assert_eq!(one.shim_log(), "");
    assert_eq!(layers.output(&tasks, "two", "", LOOK), SEEN, "another task sees none of it");
    assert_eq!(listed(layers.base.path()), before, "the layers are as they were");
    let upper = one.directory.path().join(UPPER_DIRECTORY);
    assert!(upper.join("new").is_file());
    let removed = fs::symlink_metadata(upper.join("bin/mount")).unwrap();
    assert!(removed.file_type().is_char_device());
    assert_eq!(fs::read_dir(one.directory.path().join("root")).unwrap().count(), 0);
    one.directory.kill().unwrap();
    one.wait_end();
}

#[test]
fn a_task_has_what_every_task_has() {
    let tasks = Tasks::new();
    let layers = Layers::new();
    fs::write(layers.paths[0].join("etc/hosts"), "the image's\n").unwrap();
    symlink("../run/resolve/stub.conf", layers.paths[0].join("etc/resolv.conf")).unwrap();
    let shared = tempfile::tempdir().unwrap();
    fs::write(shared.path().join("hello"), "hello\n").unwrap();
    let script = "cat /etc/hostname /etc/resolv.conf /packages/one/hello; grep -c own-0 /etc/hosts
         test -L /etc/resolv.conf && echo link
         echo cwd=$PWD home=$(stat -c %u /home/task) bourg=$(readlink /usr/bin/bourg)
         touch /home/task/mine /tmp/mine /var/tmp/its /dev/shm/mine && ls /tmp /var/tmp
         (echo x > /packages/one/x) 2>/dev/null && echo written
         (touch /sys/x /dev/x /sys/fs/cgroup/x) 2>/dev/null && echo written
         echo x > /dev/null && test -e /proc/self/status && ls -d /sys/fs/cgroup
         id -u -n; bourg 2>&1 | grep -c usage";
    let mut launch = layers.script(&tasks, "own", "", script);
    launch.jail.resolv_conf = Some("nameserver 127.0.0.9\n".to_owned());
    launch.jail.binds.push(Bind {
        source: shared.path().to_owned(),
        target: "/packages/one".into(),
        writable: false,
    });
    let task = tasks.start("own", &launch);
    let expected = format!(
        "own-0\nnameserver 127.0.0.9\nhello\n1\ncwd=/home/task home={UID} bourg=/run/bourg/bourg\n\
         /tmp:\nits\nmine\n\n/var/tmp:\nits\nmine\n/sys/fs/cgroup\ntask\n0\n"
    );
    let reason = task.wait_end().reason;
    // The program is not linked statically, and the image has no libraries.
    assert_eq!(reason, ExitReason::Exited { code: 1 }, "{}", task.log(Stream::Stderr));
    assert_eq!(task.log(Stream::Stdout), expected, "{}", task.log(Stream::Stderr));
}

/// As which an image's files belong to the task, and which it may therefore change.
#[test]
fn files_of_the_images_user_are_the_tasks() {
    let tasks = Tasks::new();
    let mut layers = Layers::new();
    let top = layers.add();
    fs::create_dir(top.join("etc")).unwrap();
    let users = "root:x:0:0:root:/root:/bin/sh\nnginx:x:101:102::/:/bin/false\n";
    fs::write(top.join("etc/passwd"), users).unwrap();
    fs::write(top.join("etc/group"), "root:x:0:\nnginx:x:102:\nwww:x:33:\n").unwrap();
    fs::create_dir(top.join("data")).unwrap();
    for (name, uid, gid) in [("root", 0, 0), ("nginx", 101, 102), ("www", 33, 33), ("id", UID, UID)]
    {
        let path = top.join("data").join(name);
        fs::write(&path, "").unwrap();
        chown(&path, Some(uid), Some(gid)).unwrap();
    }
    let script = "cd /data; stat -c %n=%u:%g *; for file in *; do
         (echo x > $file) 2>/dev/null && echo $file; done; cat /etc/passwd /etc/group";
    let own = format!("{UID}:{UID}");
    let task = format!("task:x:{UID}:{UID}:task:/home/task:/bin/sh\n");
    let nginx = format!("root:x:0:0:root:/root:/bin/sh\nnginx:x:{UID}:{UID}::/:/bin/false\n");
    let groups = "root:x:0:\nnginx:x:102:\nwww:x:33:\n";
    let table = [
        (
            "",
            format!("id=0:0\nnginx=101:102\nroot={own}\nwww=33:33\nroot\n"),
            format!("{users}{task}{groups}task:x:{UID}:\n"),
        ),
        (
            "nginx",
            format!("id=101:102\nnginx={own}\nroot=0:0\nwww=33:33\nnginx\n"),
            format!("{nginx}{}", groups.replace(":102:", &format!(":{UID}:"))),
        ),
        (
            "101:www",
            format!("id=101:33\nnginx={UID}:102\nroot=0:0\nwww=33:{UID}\nnginx\n"),
            format!("{nginx}{}", groups.replace(":33:", &format!(":{UID}:"))),
        ),
    ];
    for (number, (user, files, accounts)) in table.into_iter().enumerate() {
        let files = if is_emulated() {
            // Linux 6.1 cannot do it on tmpfs.
            format!("id={own}\nnginx=101:102\nroot=0:0\nwww=33:33\nid\n")
        } else {
            files
        };
        let output = layers.output(&tasks, &format!("user-{number}"), user, script);
        assert_eq!(output, files + &accounts, "user {user:?}");
    }
}

#[test]
fn where_owners_cannot_be_mapped_the_shims_log_says_so() {
    let tasks = Tasks::new();
    let disk = SmallDisk::new_of("ramfs", "");
    let mut layers = Layers::new();
    // A file system whose files always have their own owners.
    let top = disk.0.path().join("top");
    fs::create_dir(&top).unwrap();
    fs::write(top.join("file"), "").unwrap();
    layers.paths.push(top);
    let script = "(echo x > /file) 2>/dev/null || stat -c %u:%g / /file; id -u -n; \
                  echo x > /tmp/file && cat /tmp/file";
    let task = tasks.start("plain", &layers.script(&tasks, "plain", "", script));
    task.wait_end();
    let log = task.shim_log();
    assert_eq!(task.log(Stream::Stdout), "0:0\n0:0\ntask\nx\n", "{log}");
    let said = "test/plain/0 generation 1: the files of the image keep their owners, so the task";
    assert!(log.starts_with(said), "{log}");
}

#[test]
fn an_unknown_user_and_a_missing_program_are_the_images_fault() {
    let tasks = Tasks::new();
    let mut layers = Layers::new();
    let top = layers.add();
    fs::create_dir(top.join("etc")).unwrap();
    whiteout(&top.join("etc/group"));
    let start = |name: &str, user: &str, argv: &[&str]| {
        let mut launch = layers.script(&tasks, name, user, "");
        launch.argv = argv.iter().map(|&text| text.to_owned()).collect();
        not_started(&tasks.start(name, &launch))
    };
    let said = start("user", "nginx", &["true"]);
    assert!(
        said.starts_with("the user of the image is `nginx`, but its /etc/passwd has no"),
        "{said}"
    );
    let said = start("group", "root:root", &["true"]);
    assert!(
        said.starts_with("the user of the image is `root:root`, but its /etc/group has"),
        "{said}"
    );
    let said = start("none", "", &["frobnicate"]);
    assert_eq!(said, "no such file: frobnicate (not in the directories of PATH)");
    let said = start("denied", "", &["/etc/passwd"]);
    assert!(said.starts_with("permission denied: /etc/passwd is not executable"), "{said}");
    // Of the machine's own there is nothing.
    let said = start("hosts", "", &["/usr/bin/setsid"]);
    assert_eq!(said, "no such file: /usr/bin/setsid");
    let mut launch = layers.script(&tasks, "gone", "", "");
    launch.jail.root =
        Root::Image(ImageRoot { layers: vec!["/no/such/layer".into()], user: String::new() });
    let exit = tasks.start("gone", &launch).wait_end();
    let ExitReason::NotSetUp { reason } = exit.reason else { panic!("{exit:?}") };
    assert!(reason.starts_with("the layer /no/such/layer of the task's image is not"), "{reason}");
}

#[test]
fn a_task_in_an_image_has_scratch_in_memory() {
    let (tasks, layers) = (Tasks::new(), Layers::new());
    let script = "echo x > /scratch/x && cat /scratch/x; grep -c ' /scratch tmpfs rw,nosuid,nodev' /proc/mounts";
    let mut launch = layers.script(&tasks, "scratch", "", script);
    launch.scratch_bytes_max = Some(4 << 20);
    assert_eq!(ended(&tasks.start("scratch", &launch)), "x\n1\n");
}

/// A directory outside of an image, with what a task would find there if a link led to it.
struct Outside {
    directory: tempfile::TempDir,
    before: Vec<(PathBuf, u32, u32, u64)>,
}

impl Outside {
    fn new(below: &str) -> Self {
        let directory = tempfile::tempdir_in(below).unwrap();
        fs::write(directory.path().join("passwd"), "outside\n").unwrap();
        fs::create_dir(directory.path().join("task")).unwrap();
        let before = listed(directory.path());
        Self { directory, before }
    }

    fn path(&self) -> &Path {
        self.directory.path()
    }

    /// A link to it that climbs beyond every root.
    fn link(&self) -> String {
        format!("/../../../../../..{}", self.path().display())
    }

    fn is_untouched(&self) -> bool {
        listed(self.path()) == self.before
    }
}

/// Links of an image lead wherever it likes, but never out of it.
#[test]
fn no_link_of_an_image_leads_out_of_it() {
    let tasks = Tasks::new();
    let see = "(echo x > /etc/mine) 2>/dev/null; cat /etc/hostname; stat -c home=%u . /home/task; id -u -n
        ls /dev/null; echo x > /tmp/x; test -e /proc/self/status && ls -d /sys/fs/cgroup
        readlink /usr/bin/bourg";
    for name in ["etc", "home", "tmp", "dev", "run", "sys", "var", "proc", "usr"] {
        // Below /tmp, it would be a link to itself.
        let outside = Outside::new(if name == "tmp" { "/dev/shm" } else { "/tmp" });
        let layers = Layers::new();
        let link = layers.paths[0].join(name);
        if link.is_dir() {
            fs::remove_dir_all(&link).unwrap();
        }
        symlink(outside.link(), &link).unwrap();
        let output = layers.output(&tasks, name, "", see);
        let expected = format!(
            "{name}-0\nhome={UID}\nhome={UID}\ntask\n/dev/null\n/sys/fs/cgroup\n/run/bourg/bourg\n"
        );
        assert_eq!(output, expected, "{name}");
        assert!(outside.is_untouched(), "/{name} led out");
    }
}

#[test]
fn no_link_in_etc_leads_out_of_an_image() {
    let tasks = Tasks::new();
    let outside = Outside::new("/tmp");
    let layers = Layers::new();
    for file in ["passwd", "group", "hosts", "hostname", "resolv.conf"] {
        let link = layers.paths[0].join("etc").join(file);
        let _none = fs::remove_file(&link);
        symlink(outside.path().join("passwd"), link).unwrap();
    }
    let output = layers.output(&tasks, "files", "", "cat /etc/passwd /etc/hostname");
    assert_eq!(output, format!("task:x:{UID}:{UID}:task:/home/task:/bin/sh\nfiles-0\n"));
    let named = not_started(&tasks.start("named", &layers.script(&tasks, "named", "root", "")));
    assert!(
        named.starts_with("the user of the image is `root`, but its /etc/passwd has no"),
        "{named}"
    );
    assert!(outside.is_untouched());
}

#[test]
fn binds_and_the_working_directory_stay_in_an_image() {
    let tasks = Tasks::new();
    let outside = Outside::new("/dev/shm");
    let mut layers = Layers::new();
    symlink(outside.link(), layers.add().join("out")).unwrap();
    let out = outside.path().display();
    let script = format!("stat -c %u . {out}/work; cat /out/deep/passwd; ls /out");
    let mut launch = layers.script(&tasks, "points", "", &script);
    let source = outside.path().to_owned();
    launch.jail.binds = vec![Bind { source, target: "/out/deep".into(), writable: false }];
    launch.working_directory = Some("/out/work".into());
    let task = tasks.start("points", &launch);
    // The task's /dev/shm has it now.
    assert_eq!(ended(&task), format!("{UID}\n{UID}\noutside\ndeep\nwork\n"));
    assert!(outside.is_untouched());
    // A link of /proc is not followed: it would lead to what the jail's builder has open.
    symlink("/proc/self/root", layers.add().join("magic")).unwrap();
    let mut launch = layers.script(&tasks, "magic", "", "");
    launch.working_directory = Some("/magic/work".into());
    let said = not_started(&tasks.start("magic", &launch));
    assert!(said.starts_with("the jail cannot have a mount point at /magic/work"), "{said}");
}

#[test]
fn impossible_mount_points_are_the_images_fault() {
    let tasks = Tasks::new();
    let layers = Layers::new();
    fs::create_dir_all(layers.paths[0].join("etc/hosts/x")).unwrap();
    let said = not_started(&tasks.start("hosts", &layers.script(&tasks, "hosts", "", "")));
    assert_eq!(said, "the jail cannot have its own /etc/hosts: Is a directory (os error 21)");
    let deep = "x/".repeat(200);
    let table = [
        ("file", None, "Not a directory (os error 20)"),
        ("loop", Some("tmp"), "Too many levels of symbolic links"),
        ("root", Some("/"), "it leads to the root itself"),
        ("deep", Some(&*deep), "Too many levels of symbolic links"),
    ];
    for (name, leads_to, why) in table {
        let layers = Layers::new();
        let tmp = layers.paths[0].join("tmp");
        fs::remove_dir(&tmp).unwrap();
        match leads_to {
            Some(leads_to) => symlink(leads_to, &tmp).unwrap(),
            None => fs::write(&tmp, "").unwrap(),
        }
        let said = not_started(&tasks.start(name, &layers.script(&tasks, name, "", "")));
        let expected = format!("the jail cannot have a mount point at /tmp: {why}");
        assert!(said.starts_with(&expected), "{name}: {said}");
    }
}

#[test]
fn two_hundred_layers_are_one_root() {
    let tasks = Tasks::new();
    let mut layers = Layers::new();
    for number in 1..200 {
        let layer = layers.add();
        fs::write(layer.join(format!("file-{number}")), "").unwrap();
        fs::write(layer.join("last"), format!("{number}\n")).unwrap();
    }
    let script = "ls / | grep -c file-; cat /last";
    assert_eq!(layers.output(&tasks, "many", "root", script), "199\n199\n");
    while layers.paths.len() < 500 {
        layers.add();
    }
    assert_eq!(layers.output(&tasks, "most", "root", script), "199\n199\n");
}

#[test]
fn programs_of_another_user_and_devices_have_no_power() {
    let tasks = Tasks::new();
    let layers = Layers::new();
    let top = layers.paths[0].clone();
    let powerful = top.join("powerful").join(BUSYBOX);
    fs::create_dir(top.join("powerful")).unwrap();
    fs::copy(busybox(), &powerful).unwrap();
    // Another user than the image's, who is the task.
    lchown(&powerful, Some(33), Some(33)).unwrap();
    fs::set_permissions(&powerful, fs::Permissions::from_mode(0o6755)).unwrap();
    mknod(&top.join("memory"), SFlag::S_IFCHR, Mode::from_bits_truncate(0o666), makedev(1, 1))
        .unwrap();
    let script = "/powerful/busybox id -u; /powerful/busybox grep Eff /proc/self/status
        cat /memory 2>&1; mknod /null c 1 3 2>/dev/null || echo none
        mount -t tmpfs none /data 2>/dev/null || echo unmounted";
    let output = layers.output(&tasks, "power", "", script);
    let nothing = "CapEff:\t0000000000000000\ncat: can't open '/memory': Permission denied\n";
    assert_eq!(output, format!("{UID}\n{nothing}none\nunmounted\n"));
}

#[test]
fn the_image_may_say_where_to_start_and_how_to_stop() {
    let tasks = Tasks::new();
    let layers = Layers::new();
    let script = "trap 'echo asked; exit 5' QUIT; trap 'exit 6' TERM; touch mine
        echo $PWD $(stat -c %u .); while :; do sleep 0.02; done";
    let mut launch = layers.script(&tasks, "start", "33", script);
    launch.working_directory = Some("/var/lib/work".into());
    launch.stop_signal = Some(3);
    let task = tasks.start("start", &launch);
    task.wait_output(&format!("/var/lib/work {UID}\n"));
    let argv = ["sh", "-c", "echo $PWD; ls"].map(str::to_owned);
    let session = spawn(&executable(), task.directory.path(), &argv, &Terminal::Pipes).unwrap();
    let said = session.child.wait_with_output().unwrap();
    assert_eq!(String::from_utf8(said.stdout).unwrap(), "/var/lib/work\nmine\n");
    task.directory.terminate().unwrap();
    assert_eq!(task.wait_end().reason, ExitReason::Exited { code: 5 });
    assert!(task.log(Stream::Stdout).ends_with("asked\n"));
    // So can a task with the machine's own system.
    let mut launch = tasks.script("hosts", "echo $PWD; touch mine && ls");
    launch.working_directory = Some("/srv/work".into());
    let task = tasks.start("hosts", &launch);
    task.wait_end();
    assert_eq!(task.log(Stream::Stdout), "/srv/work\n", "the root is read-only");
}

/// A link of /proc would lead to what the process has open that enters the task.
#[test]
fn a_working_directory_that_became_a_link_of_proc_is_not_entered() {
    let tasks = Tasks::new();
    let layers = Layers::new();
    // In the task's own directory, which it may change wherever owners cannot be mapped, too.
    let script = "cd / && rm -r /home/task/work && ln -s /proc/self/root /home/task/work && echo up
        exec sleep 1000";
    let mut launch = layers.script(&tasks, "link", "", script);
    launch.working_directory = Some("/home/task/work".into());
    let task = tasks.start("link", &launch);
    task.wait_output("up\n");
    let argv = ["echo", "entered"].map(str::to_owned);
    let enter = || {
        let session = spawn(&executable(), task.directory.path(), &argv, &Terminal::Pipes).unwrap();
        session.child.wait_with_output().unwrap()
    };
    let output = enter();
    assert!(!output.status.success() && output.stdout.is_empty(), "{output:?}");
    // The task's directory, as the machine sees it.
    let work = task.directory.path().join("home/work");
    fs::remove_file(&work).unwrap();
    fs::create_dir(&work).unwrap();
    assert_eq!(enter().stdout, b"entered\n");
}

#[test]
fn whatever_a_task_leaves_in_its_root_can_be_removed() {
    let tasks = Tasks::new();
    let layers = layered("trusted.overlay.opaque");
    let task = tasks.start("closed", &layers.script(&tasks, "closed", "", LEAVE));
    assert_eq!(task.wait_end().reason, ExitReason::Exited { code: 0 });
    left_is_removed(&tasks, &task.directory);
}

/// Leaves directories that are deep and closed.
const LEAVE: &str =
    "cd /tmp/../home/..; rm -rf /data 2>/dev/null; mkdir -p /tmp /free 2>/dev/null; true
    cd /home/task && mkdir /x 2>/dev/null && cd /x && touch file && mkdir -p a/b/c && touch a/b/file
    i=0; while [ $i -lt 150 ]; do mkdir d && cd d || break; i=$((i+1)); done
    chmod 000 /x/a/b/c /x/a/b /x/file; chmod 500 /x/a /x; true";

fn left_is_removed(tasks: &Tasks, directory: &TaskDirectory) {
    let path = directory.path().to_owned();
    assert!(path.join(UPPER_DIRECTORY).is_dir() && path.join(WORK_DIRECTORY).is_dir());
    assert!(directory.discard_home().unwrap());
    assert!(!path.join(IMAGE_DIRECTORY).exists() && path.join("exit.json").exists());
    for discarded in linux::task::discarded(tasks.base.path()).unwrap() {
        linux::tree::remove_tree(&discarded).unwrap();
    }
    directory.remove().unwrap();
    assert_eq!(fs::read_dir(tasks.base.path()).unwrap().count(), 0);
}

/// Rootless, an image is unpacked by the user who runs the task, too.
#[test]
fn without_root_it_is_the_same() {
    unprivileged("image::without_root_it_is_the_same", || {
        let tasks = Tasks::new();
        assert_eq!(tasks.launch("isolation", &["true"]).isolation, Isolation::Rootless);
        let see = "touch /new && stat -c %u:%g / /new && id -u -n && cat /etc/hostname && \
                   stat -c %u /home/task";
        let seen = format!("{UID}:{UID}\n{UID}:{UID}\ntask\nown-0\n{UID}\n");
        // The tmpfs of Linux 6.1 has no attributes that a user may set.
        let layers = if is_emulated() { Layers::new() } else { layered("user.overlay.opaque") };
        if is_emulated() {
            assert_eq!(layers.output(&tasks, "own", "", see), seen);
        } else {
            let script = format!("{LOOK}; rm -r /data && {see}");
            assert_eq!(layers.output(&tasks, "own", "", &script), format!("{SEEN}{seen}"));
        }
        let named = layers.script(&tasks, "named", "nobody", "");
        assert!(not_started(&tasks.start("named", &named)).contains("has no such name"));
        tasks.remove("own");
        tasks.remove("named");
        let task = tasks.start("left", &layers.script(&tasks, "left", "", LEAVE));
        assert_eq!(task.wait_end().reason, ExitReason::Exited { code: 0 });
        left_is_removed(&tasks, &task.directory);
    });
}

/// What is written below the root is on an overlay, which is no disk; the layers below are not the task's.
#[test]
fn open_files_without_a_name_are_found_below_the_root_of_an_image() {
    let (tasks, mut layers) = (Tasks::new(), Layers::new());
    // A directory that a task may change wherever owners cannot be mapped, too.
    let free = layers.add().join("free");
    fs::create_dir(&free).unwrap();
    fs::set_permissions(&free, fs::Permissions::from_mode(0o777)).unwrap();
    fs::write(free.join("shared"), vec![1; 2_000_000]).unwrap();
    // On the file system of the layers, as on a machine.
    let directory = TaskDirectory::create(layers.base.path(), "open").unwrap();
    let script = "cd /free; exec 3> hidden 4< shared; cat shared >&3; rm hidden shared; echo up; exec sleep 1000";
    let launch = layers.script(&tasks, "open", "", script);
    let child = directory.start(&tasks.shims, &launch).unwrap();
    let logs = directory.path().join("logs");
    wait_until("it has files without a name", || {
        logs.is_dir() && read_log(&logs, Stream::Stdout, Start::Beginning) == "up\n"
    });
    let cgroup = directory.cgroup().unwrap().unwrap();
    let used = unnamed(&cgroup, layers.base.path()).unwrap();
    assert_eq!((used.files, used.more), (1, false), "{used:?}");
    assert!((2_000_000..2_010_000).contains(&used.bytes), "{used:?}");
    directory.kill().unwrap();
    wait_readable(&child.shim);
    assert_eq!(unnamed(&cgroup, layers.base.path()).unwrap().files, 0);
    directory.discard_home().unwrap();
    directory.remove().unwrap();
}

/// Files of a job are at their paths in the root of an image, too, where the image has files and where not.
#[test]
fn single_files_are_in_the_root_of_an_image() {
    let tasks = Tasks::new();
    let layers = Layers::new();
    fs::write(layers.paths[0].join("etc/app.conf"), "the image's\n").unwrap();
    let given = tempfile::tempdir().unwrap();
    fs::write(given.path().join("file"), "the job's\n").unwrap();
    let script =
        "cat /etc/app.conf /srv/new/file; (echo x > /etc/app.conf) 2>/dev/null || echo kept";
    let mut launch = layers.script(&tasks, "files", "", script);
    for target in ["/etc/app.conf", "/srv/new/file"] {
        let source = given.path().join("file");
        launch.jail.binds.push(Bind { source, target: target.into(), writable: false });
    }
    let task = tasks.start("files", &launch);
    assert_eq!(
        task.wait_end().reason,
        ExitReason::Exited { code: 0 },
        "{}",
        task.log(Stream::Stderr)
    );
    assert_eq!(task.log(Stream::Stdout), "the job's\nthe job's\nkept\n");
}
