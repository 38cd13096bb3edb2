//! The processes of a dev cell: started, started again when they end by themselves, and stopped.

use std::net::TcpListener;
use std::os::fd::{AsFd, AsRawFd};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::task::Poll;
use std::time::Duration;

use anyhow::Context;
use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use process::{LOG_VARIABLE, PARENT_VARIABLE};
use tokio::process::{Child, Command};
use tokio::sync::oneshot;

use crate::exit::{Code, Failure};

/// The wait before a process is started again; it doubles up to the longest.
const RESTART_WAIT: Duration = Duration::from_millis(100);
const RESTART_WAIT_MAX: Duration = Duration::from_secs(5);
/// A process that has run so long starts again without delay when it ends.
const STEADY: Duration = Duration::from_secs(10);
/// How long a process gets to stop before it is killed.
const STOP_PATIENCE: Duration = Duration::from_secs(15);

/// What a process is started as that waits to be told.
pub(super) struct Begin {
    /// What it is called in messages.
    pub(super) name: String,
    /// Its arguments.
    pub(super) arguments: Vec<String>,
}

/// One process of the cell.
pub(super) struct Process {
    role: &'static str,
    /// It is not started before this says so.
    begins: Option<oneshot::Receiver<Begin>>,
    /// What it is called in messages.
    name: String,
    arguments: Vec<String>,
    listener: Option<TcpListener>,
    log: String,
    /// Where its process id is noted.
    run: PathBuf,
    child: Option<Child>,
    started: tokio::time::Instant,
    wait: Duration,
    /// Without it there is no cell.
    is_alone: bool,
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
            log: log.to_owned(),
            run: directory.to_owned(),
            child: None,
            started: tokio::time::Instant::now(),
            wait: RESTART_WAIT,
            is_alone: false,
        }
    }

    /// The same where the cell has no other of its kind.
    pub(super) fn alone(self, is_alone: bool) -> Self {
        Self { is_alone, ..self }
    }

    /// One that is started when it is told as what.
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
        self.run.join(format!("{}.pid", self.name))
    }

    /// Starts it. It ends with us, however we end, and has a process group of its own, so that
    /// Ctrl-C reaches us alone.
    pub(super) fn start(&mut self) -> anyhow::Result<()> {
        if self.begins.is_some() {
            return Ok(());
        }
        let program = std::env::current_exe().context("cannot find this program")?;
        let mut command = Command::new(program);
        command.arg(self.role).args(&self.arguments);
        command.env(LOG_VARIABLE, &self.log);
        command.env(PARENT_VARIABLE, std::process::id().to_string());
        command.stdin(Stdio::null()).stdout(Stdio::null()).process_group(0);
        if let Some(listener) = &self.listener {
            command.args(["--listen-fd", &listener.as_raw_fd().to_string()]);
            fcntl(listener.as_fd(), FcntlArg::F_SETFD(FdFlag::empty()))?;
        }
        let spawned = command.spawn();
        if let Some(listener) = &self.listener {
            fcntl(listener.as_fd(), FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC))?;
        }
        let child = spawned.with_context(|| format!("cannot start the {}", self.name))?;
        if let Some(pid) = child.id() {
            // For people, and no reason to end the cell where the disk is full.
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

    /// Keeps it running; returns only when it cannot.
    async fn keep(&mut self) -> Failure {
        if let Some(begins) = self.begins.take() {
            // Where nobody says it any more, it is not needed.
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
                            "error: the {name} cannot be started again as it is, and is the only one"
                        ));
                    }
                    eprintln!(
                        "the {name} cannot be started again as it is, and stays ended. To have another one in \
                         its place, stop the cell, remove the directory {name}, and start it again"
                    );
                    // Nobody waits there for it to take a connection.
                    self.listener = None;
                    return std::future::pending().await;
                }
                Ok(Some(status)) => status.to_string(),
                Ok(None) => "it was not running".to_owned(),
                Err(error) => error.to_string(),
            };
            if self.started.elapsed() > STEADY {
                self.wait = RESTART_WAIT;
            }
            eprintln!("the {} ended ({ended}) and is started again", self.name);
            tokio::time::sleep(self.wait).await;
            self.wait = (self.wait * 2).min(RESTART_WAIT_MAX);
            if let Err(error) = self.start() {
                return error.into();
            }
        }
    }

    /// Tells it to stop and waits; kills it where it does not.
    async fn stop(&mut self) -> anyhow::Result<()> {
        let Some(mut child) = self.child.take() else { return Ok(()) };
        if let Some(pid) = child.id().and_then(|pid| i32::try_from(pid).ok()) {
            let _gone = kill(Pid::from_raw(pid), Signal::SIGTERM);
        }
        if tokio::time::timeout(STOP_PATIENCE, child.wait()).await.is_err() {
            eprintln!("the {} does not stop and is killed", self.name);
            child.kill().await?;
        }
        let _absent = std::fs::remove_file(self.pid_file());
        Ok(())
    }
}

impl Processes {
    pub(super) fn start(&mut self) -> anyhow::Result<()> {
        self.0.iter_mut().try_for_each(Process::start)
    }

    /// Keeps all of them running; returns only when one cannot be.
    pub(super) async fn supervise(&mut self) -> Failure {
        let mut kept: Vec<_> = self.0.iter_mut().map(|process| Box::pin(process.keep())).collect();
        std::future::poll_fn(|context| {
            let mut polled = kept.iter_mut().map(|kept| kept.as_mut().poll(context));
            polled.find(Poll::is_ready).unwrap_or(Poll::Pending)
        })
        .await
    }

    /// Stops all of them, the last started first.
    pub(super) async fn stop(&mut self) -> anyhow::Result<()> {
        for process in self.0.iter_mut().rev() {
            process.stop().await?;
        }
        Ok(())
    }
}
