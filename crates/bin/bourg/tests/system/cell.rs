//! A dev cell in the background, with the terminal from which it was started.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Deref;
use std::path::{Path, PathBuf};

use nix::sys::signal::Signal;
use serde_json::Value;

use crate::eventually::{eventually, until};
use crate::processes;
use crate::terminal::{Background, Ended, Terminal};

/// The processes of a dev cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Master,
    Scheduler,
    Borglet,
    Packages,
}

/// A cell that runs in the background; methods type commands into its terminal.
pub(crate) struct Cell {
    terminal: Terminal,
    directory: PathBuf,
    dev: Option<Background>,
    /// The parent cgroup of its tasks.
    cgroup: String,
}

impl Deref for Cell {
    type Target = Terminal;

    fn deref(&self) -> &Terminal {
        &self.terminal
    }
}

impl Cell {
    /// `bourg dev --dir cell`, ready to take commands.
    #[track_caller]
    pub(crate) fn start() -> Self {
        Self::start_with(&[])
    }

    /// The same with more arguments.
    #[track_caller]
    pub(crate) fn start_with(arguments: &[&str]) -> Self {
        let terminal = Terminal::new();
        let directory = terminal.path("cell");
        Self::start_in(terminal, &directory, arguments)
    }

    /// The same in an existing terminal and directory.
    #[track_caller]
    pub(crate) fn start_in(terminal: Terminal, directory: &Path, arguments: &[&str]) -> Self {
        let (directory, cgroup, dev) = (directory.to_owned(), String::new(), None);
        let mut cell = Self { terminal, directory, dev, cgroup };
        cell.start_again(arguments);
        cell
    }

    /// The same with other content of a system file, for this cell only: that of the file `over`, which
    /// may change.
    #[track_caller]
    pub(crate) fn start_with_file(file: &str, content: &str, arguments: &[&str]) -> Self {
        let mut cell = Self::of_mounts();
        cell.start_over(file, content, arguments);
        cell
    }

    /// Restarts it after a stop.
    #[track_caller]
    pub(crate) fn start_again(&mut self, arguments: &[&str]) {
        self.begin(arguments);
        self.is_ready();
    }

    /// The same with other content of a system file, for this cell only.
    #[track_caller]
    pub(crate) fn start_over(&mut self, file: &str, content: &str, arguments: &[&str]) {
        self.write("over", content);
        self.begin_after(&format!("mount --bind over {file}"), arguments);
        self.is_ready();
    }

    /// `bourg dev --dir cell` with mounts of its own, which a shell line makes before; ready to take
    /// commands.
    #[track_caller]
    pub(crate) fn start_after(line: &str, arguments: &[&str]) -> Self {
        let mut cell = Self::of_mounts();
        cell.begin_after(line, arguments);
        cell.is_ready();
        cell
    }

    /// The same for a cell that cannot start: what it says, and its exit code.
    #[track_caller]
    pub(crate) fn fails_after(line: &str, arguments: &[&str]) -> Ended {
        let mut cell = Self::of_mounts();
        cell.begin_after(line, arguments);
        cell.dev.take().expect("it was started").ends()
    }

    fn of_mounts() -> Self {
        let (terminal, cgroup) = (Terminal::new(), String::new());
        let directory = terminal.path("cell");
        Self { terminal, directory, dev: None, cgroup }
    }

    fn begin_after(&mut self, line: &str, arguments: &[&str]) {
        let line = format!("{line} && exec \"$@\"");
        self.begin_by(&["unshare", "--mount", "sh", "-c", &line, "sh"], arguments);
    }

    /// Starts it without waiting for it.
    pub(crate) fn begin(&mut self, arguments: &[&str]) {
        self.begin_by(&[], arguments);
    }

    /// The same, wrapped in a command that executes its arguments.
    fn begin_by(&mut self, command: &[&str], arguments: &[&str]) {
        assert!(self.dev.is_none(), "the cell runs already");
        let directory = self.directory.to_string_lossy().into_owned();
        let dev = ["bourg", "dev", "--dir", &directory];
        let all: Vec<&str> = [command, &dev, arguments].concat();
        self.dev = Some(self.terminal.start(all[0], &all[1..]));
    }

    #[track_caller]
    fn is_ready(&mut self) {
        until("the cell is ready", || {
            let ended = self.dev().code();
            assert_eq!(ended, None, "the cell ended: {}", self.dev().stderr());
            self.dev().stderr().contains("Ctrl-C stops the cell")
        });
        self.cgroup = linux::cgroup::parent_name(&self.directory.join("borglet"));
    }

    /// The program that runs the cell.
    pub(crate) fn dev(&mut self) -> &mut Background {
        self.dev.as_mut().expect("the cell runs")
    }

    /// The output of its processes so far.
    pub(crate) fn said(&self) -> String {
        self.dev.as_ref().expect("the cell runs").stderr()
    }

    /// The cell's data directory.
    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Sends the cell a signal and waits until it has stopped; only its directory is left then.
    #[track_caller]
    pub(crate) fn stop_by(&mut self, signal: Signal) -> Ended {
        let dev = self.dev.take().expect("the cell runs");
        processes::signal(dev.pid(), signal);
        let ended = dev.ends();
        self.leaves_nothing();
        ended
    }

    /// Marks it as stopped after it has ended by itself.
    #[track_caller]
    pub(crate) fn stop_ended(&mut self) {
        self.dev.take().expect("it was started").ends();
    }

    /// Kills all processes of the cell and of its tasks at once, like a power failure: no process
    /// sees another end, and none can clean up. The cgroups stay.
    #[track_caller]
    pub(crate) fn lose_power(&mut self) {
        let dev = self.dev.take().expect("the cell runs");
        for signal in [Signal::SIGSTOP, Signal::SIGKILL] {
            let mut known = BTreeSet::new();
            until("no process is new", || {
                let all = processes::left(&self.cgroup, &self.directory).into_keys();
                let new: Vec<i32> = all.filter(|pid| known.insert(*pid)).collect();
                new.iter().for_each(|pid| processes::signal(*pid, signal));
                new.is_empty()
            });
        }
        dev.ends();
        until("all are dead", || processes::left(&self.cgroup, &self.directory).is_empty());
    }

    /// Stops the cell.
    #[track_caller]
    pub(crate) fn stop(&mut self) {
        let ended = self.stop_by(Signal::SIGTERM);
        assert_eq!(ended.code, 0, "{}", ended.stderr);
    }

    /// Asserts that neither a process nor a cgroup is left.
    #[track_caller]
    pub(crate) fn leaves_nothing(&self) {
        let processes = processes::left(&self.cgroup, &self.directory);
        assert!(processes.is_empty(), "left running: {processes:?}");
        let cgroups = processes::cgroups(&self.cgroup);
        assert!(cgroups.is_empty(), "left behind: {cgroups:?}");
    }

    /// Whether neither a process nor a cgroup is left.
    pub(crate) fn nothing_is_left(&mut self) -> bool {
        // The program that runs the cell may be a zombie: its command line is empty then.
        processes::left(&self.cgroup, &self.directory).is_empty()
            && processes::cgroups(&self.cgroup).is_empty()
    }

    /// The pid of one of its processes, as recorded by the supervisor; `None` while it is not
    /// running.
    pub(crate) fn pid(&self, role: Role) -> Option<i32> {
        let name = format!("{role:?}").to_lowercase();
        let path = self.directory.join(format!("run/{name}.pid"));
        let pid: i32 = std::fs::read_to_string(path).ok()?.trim().parse().ok()?;
        // The pid may have been reused.
        let command = processes::command(pid);
        let is_it = command.get(1) == Some(&name)
            && command.iter().any(|word| Path::new(word).starts_with(&self.directory));
        is_it.then_some(pid)
    }

    /// `kill -9` of one of its processes. The supervisor restarts it.
    #[track_caller]
    pub(crate) fn kill(&self, role: Role) {
        let pid = eventually(&format!("the {role:?} runs"), || self.pid(role));
        processes::signal(pid, Signal::SIGKILL);
    }

    /// The programs of a job's tasks: pid by index.
    pub(crate) fn tasks(&self, job: &str) -> BTreeMap<u32, i32> {
        processes::tasks(&self.cgroup, job)
    }

    /// The instance of a process, from the name of its cgroup and directory.
    pub(crate) fn instance_of(&self, pid: i32) -> String {
        processes::cgroup_below(&self.cgroup, pid).expect("the process is a task's")
    }

    /// The cgroup of a task's process.
    pub(crate) fn cgroup_of(&self, pid: i32) -> String {
        processes::cgroup_of(&self.cgroup, pid).expect("the process is a task's")
    }

    /// The name of the parent cgroup of its tasks.
    pub(crate) fn cgroup(&self) -> &str {
        &self.cgroup
    }

    /// `bourg status JOB -o json`; null if that fails, as it does while no master answers.
    pub(crate) fn status(&self, job: &str) -> Value {
        let ended = self.types(&format!("bourg status {job} -o json"));
        let jobs: Value = serde_json::from_str(&ended.stdout).unwrap_or_default();
        jobs[0].clone()
    }

    /// Waits until a job's status meets a condition, and returns it.
    #[track_caller]
    pub(crate) fn job(&self, job: &str, what: &str, is_so: impl Fn(&Value) -> bool) -> Value {
        let mut last = Value::Null;
        let begun = std::time::Instant::now();
        eventually(&format!("{job} {what}"), || {
            last = self.status(job);
            if !is_so(&last) && begun.elapsed() > crate::eventually::PATIENCE * 9 / 10 {
                eprintln!("{job} is still {last:#}");
            }
            is_so(&last).then(|| last.clone())
        })
    }

    /// Waits until all tasks of a job are healthy.
    #[track_caller]
    pub(crate) fn is_healthy(&self, job: &str) -> Value {
        self.job(job, "is healthy", |status| {
            let counts = &status["counts"];
            counts["tasks"].is_u64() && counts["tasks"] == counts["healthy"]
        })
    }
}

impl Drop for Cell {
    fn drop(&mut self) {
        let Some(dev) = self.dev.take() else { return };
        if !std::thread::panicking() {
            self.dev = Some(dev);
            return self.stop();
        }
        eprintln!("the cell said:\n{}", dev.stderr());
        processes::signal(dev.pid(), Signal::SIGTERM);
        let _ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| dev.ends()));
        for pid in processes::left(&self.cgroup, &self.directory).into_keys() {
            processes::signal(pid, Signal::SIGKILL);
        }
    }
}
