//! Helpers for tests with real tasks: a directory of tasks that cleans up after itself.

use std::fs;
use std::os::fd::{AsFd, AsRawFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use linux::Isolation;
use linux::cgroup::{Hierarchy, Limits, TaskCgroup, parent_name};
use linux::logs::{LogReader, Start, Stream};
use linux::record::{BindablePorts, Exit, ExitReason, Jail, Launch, Rotation};
use linux::task::{Inspection, ShimChild, ShimServer, TaskDirectory, sweep};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

/// No step of any test takes this long unless something hangs, not even in an emulated machine on a
/// busy host.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

pub(crate) const UID: u32 = 61_234;

/// The program that stands in for `bourg`.
pub(crate) fn executable() -> PathBuf {
    let own = PathBuf::from(env!("CARGO_BIN_EXE_bare-shim"));
    std::env::var_os(EXECUTABLE_VARIABLE).map_or(own, PathBuf::from)
}

/// Names a copy of that program, for tests whose user may not read the build directory.
pub(crate) const EXECUTABLE_VARIABLE: &str = "BOURG_TEST_EXECUTABLE";

/// Whether the tests run in the emulated machine, which is slow and has few programs.
pub(crate) fn is_emulated() -> bool {
    std::env::var_os("BOURG_TEST_EMULATED").is_some()
}

/// A directory of tasks; tasks that still run are killed in the end.
pub(crate) struct Tasks {
    pub(crate) base: tempfile::TempDir,
    pub(crate) shims: ShimServer,
    isolation: Isolation,
}

/// One started task.
pub(crate) struct Task {
    pub(crate) directory: TaskDirectory,
    pub(crate) shim: ShimChild,
    pub(crate) cgroup: TaskCgroup,
}

impl Tasks {
    pub(crate) fn new() -> Self {
        match linux::machine::preflight() {
            Ok(isolation) => {
                let shims = ShimServer::new(&executable());
                Self { base: tempfile::tempdir().unwrap(), shims, isolation }
            }
            Err(missing) => panic!("these tests run real tasks on the real kernel: {missing}"),
        }
    }

    /// A launch record for a shell script.
    pub(crate) fn script(&self, name: &str, script: &str) -> Launch {
        self.launch(name, &["sh", "-c", script])
    }

    pub(crate) fn launch(&self, name: &str, argv: &[&str]) -> Launch {
        Launch {
            network: None,
            label: format!("test/{name}/0 generation 1"),
            argv: argv.iter().map(|&text| text.to_owned()).collect(),
            env: Vec::new(),
            isolation: self.isolation,
            uid: UID,
            gid: UID,
            hostname: format!("{name}-0"),
            cgroup: format!("{}/{name}", parent_name(self.base.path())),
            in_alloc: false,
            oom_score_adj: 0,
            limits: Limits {
                cpu_milli: 500,
                cpu_hard_cap: false,
                memory_bytes: 64 << 20,
                pids_max: 64,
                sharing: linux::cgroup::Sharing::default(),
            },
            log: Rotation { file_bytes_max: 1 << 20, files_max: 3 },
            tmp_bytes_max: 1 << 20,
            scratch_bytes_max: None,
            notice_ms: 10_000,
            stop_signal: None,
            working_directory: None,
            jail: Jail::host(executable()),
            capabilities: Vec::new(),
            secret_env: Vec::new(),
            bindable_ports: BindablePorts::Any,
        }
    }

    pub(crate) fn start(&self, name: &str, launch: &Launch) -> Task {
        let directory = TaskDirectory::create(self.base.path(), name).unwrap();
        let shim = directory.start(&self.shims, launch).unwrap();
        let hierarchy = Hierarchy::detect().unwrap();
        let cgroup = TaskCgroup::open(&hierarchy, &launch.cgroup).unwrap();
        Task { directory, shim, cgroup }
    }

    /// Starts a script and waits until it runs.
    pub(crate) fn run(&self, name: &str, script: &str) -> Task {
        let task = self.start(name, &self.script(name, script));
        task.wait_ready();
        task
    }

    /// Runs a script to its end; returns how it ended, and its standard output.
    pub(crate) fn output(&self, name: &str, script: &str) -> (ExitReason, String) {
        let task = self.start(name, &self.script(name, script));
        let reason = task.wait_end().reason;
        (reason, task.log(Stream::Stdout))
    }
}

impl Tasks {
    /// Removes a task that has ended.
    pub(crate) fn remove(&self, name: &str) {
        TaskDirectory::open(self.base.path(), name).unwrap().remove().unwrap();
    }
}

impl Drop for Tasks {
    fn drop(&mut self) {
        let swept = sweep(self.base.path(), 0);
        let parent = parent_name(self.base.path());
        let parent = Hierarchy::detect().and_then(|h| TaskCgroup::open(&h, &parent)?.remove());
        if !std::thread::panicking() {
            assert_eq!(swept.unwrap().failed, []);
            parent.unwrap();
        }
    }
}

impl Task {
    pub(crate) fn wait_ready(&self) {
        wait_readable(&self.shim.ready);
    }

    /// Waits for the shim's end; the exit record must exist.
    pub(crate) fn wait_end(&self) -> Exit {
        wait_readable(&self.shim.shim);
        match self.directory.inspect().unwrap() {
            Inspection::Ended(exit) => exit,
            other => panic!("the shim has ended, but the task is {other:?}: {}", self.shim_log()),
        }
    }

    pub(crate) fn shim_log(&self) -> String {
        fs::read_to_string(self.directory.path().join("shim.log")).unwrap_or_default()
    }

    pub(crate) fn log_dir(&self) -> PathBuf {
        self.directory.path().join("logs")
    }

    pub(crate) fn log(&self, stream: Stream) -> String {
        read_log(&self.log_dir(), stream, Start::Beginning)
    }

    /// Waits until the task has written `text` to standard output.
    pub(crate) fn wait_output(&self, text: &str) {
        wait_until(&format!("{text:?} in the output"), || {
            self.log_dir().is_dir() && self.log(Stream::Stdout).contains(text)
        });
    }
}

/// The kernel's limit files: CPU share, CPU cap, processes, and the kill of the whole cgroup.
pub(crate) fn held(group: &TaskCgroup) -> [String; 4] {
    let paths: [Option<PathBuf>; 4] = match Hierarchy::detect().unwrap() {
        Hierarchy::V1(mounts) => [
            Some(mounts.cpu.join(group.name()).join("cpu.shares")),
            Some(mounts.cpu.join(group.name()).join("cpu.cfs_quota_us")),
            Some(mounts.pids.join(group.name()).join("pids.max")),
            None,
        ],
        Hierarchy::V2 { root } => ["cpu.weight", "cpu.max", "pids.max", "memory.oom.group"]
            .map(|file| Some(root.join(group.name()).join(file))),
    };
    paths
        .map(|path| path.map_or_else(String::new, |path| fs::read_to_string(path).unwrap()))
        .map(|content| content.trim().to_owned())
}

pub(crate) fn is_v2() -> bool {
    Hierarchy::detect().unwrap().name() == "v2"
}

pub(crate) fn read_log(dir: &Path, stream: Stream, start: Start) -> String {
    let mut reader = LogReader::open(dir, stream, start).unwrap();
    let mut all = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        let outcome = reader.read(&mut buffer).unwrap();
        if outcome.bytes == 0 {
            return String::from_utf8(all).unwrap();
        }
        all.extend(&buffer[..outcome.bytes]);
    }
}

pub(crate) fn wait_readable(fd: &impl AsFd) {
    let timeout = PollTimeout::try_from(PATIENCE).unwrap();
    let mut fds = [PollFd::new(fd.as_fd(), PollFlags::POLLIN)];
    let ready = poll(&mut fds, timeout).unwrap();
    assert_eq!(ready, 1, "descriptor {} is not readable in time", fd.as_fd().as_raw_fd());
}

/// Waits for something for which the kernel has no event.
pub(crate) fn wait_until(what: &str, mut reached: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !reached() {
        assert!(begin.elapsed() < PATIENCE, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// A separate small file system, unmounted in the end.
pub(crate) struct SmallDisk(pub(crate) tempfile::TempDir);

impl SmallDisk {
    pub(crate) fn new(options: &str) -> Self {
        Self::new_of("tmpfs", options)
    }

    /// Of the type `kind`.
    pub(crate) fn new_of(kind: &str, options: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let flags = nix::mount::MsFlags::empty();
        nix::mount::mount(Some(kind), dir.path(), Some(kind), flags, Some(options)).unwrap();
        Self(dir)
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _busy = nix::mount::umount2(self.0.path(), nix::mount::MntFlags::MNT_DETACH);
    }
}

/// Sets an extended attribute of a file.
#[expect(unsafe_code, reason = "neither std nor nix has it")]
pub(crate) fn set_attribute(path: &std::ffi::CStr, name: &std::ffi::CStr, value: &[u8]) {
    // SAFETY: all three live for the call, and the length is that of the value.
    let result = unsafe {
        libc::setxattr(path.as_ptr(), name.as_ptr(), value.as_ptr().cast(), value.len(), 0)
    };
    assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
}
