//! Starts, restarts and stops the processes of a dev cell.

use std::net::TcpListener;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::Duration;

use anyhow::Context;
use command::{Code, Failure};
use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use process::{LOG_VARIABLE, PARENT_VARIABLE, SMALL_PAGES};
use tokio::process::{Child, Command};
use tokio::sync::oneshot;

/// The initial delay before a restart; it doubles up to `RESTART_WAIT_MAX`.
const RESTART_WAIT: Duration = Duration::from_millis(100);
const RESTART_WAIT_MAX: Duration = Duration::from_secs(5);
/// A process that ran this long is restarted without delay.
const STEADY: Duration = Duration::from_secs(10);
/// So often may a process fail to start, one after the other, before the cell is ready for the first
/// time.
const FAILED_STARTS_MAX: u32 = 4;
/// The grace period between SIGTERM and SIGKILL.
const STOP_PATIENCE: Duration = Duration::from_secs(15);

/// The role of the processes that stop together: each waits for its tasks.
pub(super) const BORGLET: &str = "borglet";

/// The name and arguments of a process that starts later.
pub(super) struct Begin {
    /// Its name in messages.
    pub(super) name: String,
    /// Its arguments.
    pub(super) arguments: Vec<String>,
}

/// One process of the cell.
pub(super) struct Process {
    role: &'static str,
    /// Delays the start until a message arrives.
    begins: Option<oneshot::Receiver<Begin>>,
    /// Its name in messages.
    name: String,
    arguments: Vec<String>,
    listener: Option<TcpListener>,
    /// A file that it inherits, with the flag that names its descriptor.
    file: Option<(&'static str, OwnedFd)>,
    log: String,
    /// The directory for its pid file.
    run: PathBuf,
    child: Option<Child>,
    started: tokio::time::Instant,
    wait: Duration,
    /// Whether the cell has no other process of this kind.
    is_alone: bool,
    /// Whether it was asked to stop.
    is_stopping: bool,
}

/// The file with the pid of a process, in the directory for pid files.
pub(super) fn pid_file(run: &Path, process: &str) -> PathBuf {
    run.join(format!("{process}.pid"))
}

/// Removes what earlier processes have left beside their pid files: each keeps the blocks of the file before, and a kill
/// leaves both.
pub(super) fn remove_leftovers(run: &Path) {
    for entry in std::fs::read_dir(run).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let is_left = |name: &str| name.starts_with('.') && name.ends_with(".pid.new");
        if name.to_str().is_some_and(is_left)
            && let Err(error) = std::fs::remove_file(entry.path())
        {
            eprintln!("cannot remove {}: {error}", entry.path().display());
        }
    }
}

/// The processes of the cell.
pub(super) struct Processes(pub(super) Vec<Process>);

impl Process {
    pub(super) fn new(
        role: &'static str,
        name: &str,
        arguments: Vec<String>,
        listener: Option<TcpListener>,
        log: &str,
        directory: &Path,
    ) -> Self {
        Self {
            role,
            begins: None,
            name: name.to_owned(),
            arguments,
            listener,
            file: None,
            log: log.to_owned(),
            run: directory.to_owned(),
            child: None,
            started: tokio::time::Instant::now(),
            wait: RESTART_WAIT,
            is_alone: false,
            is_stopping: false,
        }
    }

    /// Sets whether the cell has no other process of this kind.
    pub(super) fn alone(self, is_alone: bool) -> Self {
        Self { is_alone, ..self }
    }

    /// Sets a file that it inherits, and the flag that names its descriptor.
    pub(super) fn inheriting(self, flag: &'static str, file: OwnedFd) -> Self {
        Self { file: Some((flag, file)), ..self }
    }

    /// A process whose name and arguments arrive later.
    pub(super) fn waiting(
        role: &'static str,
        listener: TcpListener,
        log: &str,
        directory: &Path,
    ) -> (Self, oneshot::Sender<Begin>) {
        let (begin, begins) = oneshot::channel();
        let process = Self::new(role, role, Vec::new(), Some(listener), log, directory);
        (Self { begins: Some(begins), ..process }, begin)
    }

    fn pid_file(&self) -> PathBuf {
        pid_file(&self.run, &self.name)
    }

    /// Starts the process. It is killed when this process ends for any reason, and has a process
    /// group of its own so that Ctrl-C reaches only this process.
    pub(super) fn start(&mut self) -> anyhow::Result<()> {
        if self.begins.is_some() {
            return Ok(());
        }
        let program = std::env::current_exe().context("cannot find this program")?;
        let mut command = Command::new(program);
        command.arg(self.role).args(&self.arguments);
        command.env(LOG_VARIABLE, &self.log);
        command.env(PARENT_VARIABLE, std::process::id().to_string());
        if self.role == BORGLET {
            command.env(SMALL_PAGES.0, SMALL_PAGES.1);
        }
        command.stdin(Stdio::null()).stdout(Stdio::null()).process_group(0);
        let listener = self.listener.as_ref().map(|listener| ("--listen-fd", listener.as_fd()));
        let file = self.file.as_ref().map(|(flag, file)| (*flag, file.as_fd()));
        let inherited: Vec<_> = listener.into_iter().chain(file).collect();
        for (flag, file) in &inherited {
            command.args([*flag, &file.as_raw_fd().to_string()]);
            fcntl(file, FcntlArg::F_SETFD(FdFlag::empty()))?;
        }
        let spawned = command.spawn();
        for (_, file) in &inherited {
            fcntl(file, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC))?;
        }
        let child = spawned.with_context(|| format!("cannot start the {}", self.name))?;
        if let Some(pid) = child.id() {
            // The pid file is informational: a full disk does not stop the cell.
            let pid = format!("{pid}\n");
            let written = linux::disk::replace(&self.pid_file(), pid.as_bytes());
            if let Err(error) = written {
                eprintln!("{error}");
            }
        }
        self.child = Some(child);
        self.started = tokio::time::Instant::now();
        Ok(())
    }

    /// Keeps the process running; returns only if it cannot be restarted. What cannot even start in a cell
    /// that is not ready yet will not start later either.
    async fn keep(&mut self, is_ready: &AtomicBool) -> Failure {
        let mut failed_starts = 0;
        if let Some(begins) = self.begins.take() {
            // The sender is dropped: the process is not needed.
            let Ok(Begin { name, arguments }) = begins.await else {
                return std::future::pending().await;
            };
            (self.name, self.arguments) = (name, arguments);
            if let Err(error) = self.start() {
                return error.into();
            }
        }
        loop {
            let ended = match &mut self.child {
                Some(child) => child.wait().await.map(Some),
                None => Ok(None),
            };
            let ended = match ended {
                Ok(Some(status)) if status.code() == Some(Code::Dismissed as i32) => {
                    let name = &self.name;
                    if self.is_alone {
                        return Failure::failed(format!(
                            "error: the {name} cannot be restarted in its current state, and the cell has no other"
                        ));
                    }
                    eprintln!(
                        "the {name} cannot be restarted in its current state and stays stopped. To replace it, \
                         stop the cell, remove the directory {name}, and start the cell again"
                    );
                    // Nothing accepts connections on this socket any more.
                    self.listener = None;
                    return std::future::pending().await;
                }
                Ok(Some(status)) => {
                    failed_starts = if status.code().is_some() { failed_starts + 1 } else { 0 };
                    status.to_string()
                }
                Ok(None) => "it was not running".to_owned(),
                Err(error) => error.to_string(),
            };
            if self.started.elapsed() > STEADY {
                self.wait = RESTART_WAIT;
                failed_starts = 0;
            }
            if failed_starts >= FAILED_STARTS_MAX && !is_ready.load(Ordering::Relaxed) {
                return Failure::failed(format!(
                    "error: the {} cannot start ({ended}): its own error is above",
                    self.name
                ));
            }
            eprintln!("the {} ended ({ended}) and is restarted", self.name);
            tokio::time::sleep(self.wait).await;
            self.wait = (self.wait * 2).min(RESTART_WAIT_MAX);
            if let Err(error) = self.start() {
                return error.into();
            }
        }
    }

    /// Asks the process to stop, once.
    fn ask_to_stop(&mut self) {
        let pid = self.child.as_ref().and_then(Child::id);
        if let (Some(pid), false) = (pid.and_then(|pid| i32::try_from(pid).ok()), self.is_stopping)
        {
            let _gone = kill(Pid::from_raw(pid), Signal::SIGTERM);
        }
        self.is_stopping = true;
    }

    /// Asks the process to stop and waits; kills it after the grace period.
    async fn stop(&mut self) -> anyhow::Result<()> {
        self.ask_to_stop();
        let Some(mut child) = self.child.take() else { return Ok(()) };
        if tokio::time::timeout(STOP_PATIENCE, child.wait()).await.is_err() {
            eprintln!("the {} does not stop: killing it", self.name);
            child.kill().await?;
        }
        let file = self.pid_file();
        let _absent = std::fs::remove_file(&file);
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        let _absent = std::fs::remove_file(file.with_file_name(format!(".{name}.new")));
        Ok(())
    }
}

impl Processes {
    pub(super) fn start(&mut self) -> anyhow::Result<()> {
        self.0.iter_mut().try_for_each(Process::start)
    }

    /// Keeps all processes running; returns only if one cannot be restarted. `is_ready` tells whether the
    /// cell was ready already.
    pub(super) async fn supervise(&mut self, is_ready: &AtomicBool) -> Failure {
        let processes = self.0.iter_mut();
        let mut kept: Vec<_> = processes.map(|process| Box::pin(process.keep(is_ready))).collect();
        std::future::poll_fn(|context| {
            let mut polled = kept.iter_mut().map(|kept| kept.as_mut().poll(context));
            polled.find(Poll::is_ready).unwrap_or(Poll::Pending)
        })
        .await
    }

    /// Stops all processes in the reverse order of their start, and all Borglets at once.
    pub(super) async fn stop(&mut self) -> anyhow::Result<()> {
        for at in (0..self.0.len()).rev() {
            let (before, rest) = self.0.split_at_mut(at);
            let Some(process) = rest.first_mut() else { continue };
            if process.role == BORGLET {
                let others = before.iter_mut().filter(|other| other.role == BORGLET);
                others.for_each(Process::ask_to_stop);
            }
            process.stop().await?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_left_beside_pid_files_is_removed() {
        let run = tempfile::tempdir().expect("a temporary directory");
        for name in [".master.pid.new", ".m1.pid.new", "master.pid", ".other.new"] {
            std::fs::write(run.path().join(name), "7").expect("there is room");
        }
        remove_leftovers(run.path());
        let left = std::fs::read_dir(run.path()).expect("it is there").flatten();
        let mut left: Vec<_> = left.map(|entry| entry.file_name()).collect();
        left.sort();
        assert_eq!(left, [".other.new", "master.pid"]);
    }
}
