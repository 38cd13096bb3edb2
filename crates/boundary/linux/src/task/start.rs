//! Starts a task: writes the launch record and starts a shim that outlives the caller.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::process::{Command, Stdio};

use nix::fcntl::OFlag;
use nix::unistd::pipe2;

use super::{TaskDirectory, TaskError};
use crate::error::At;
use crate::record::{self, HOME_DIRECTORY, LOG_DIRECTORY, Launch, ROOT_DIRECTORY, SHIM_LOG_FILE};
use crate::sys;

/// A started shim. Dropping this does not affect the shim.
#[derive(Debug)]
pub struct ShimChild {
    /// Becomes readable (end of file) when the task runs or has ended: inspect it then.
    pub ready: OwnedFd,
    /// A pidfd: becomes readable when the shim has ended, which is after `exit.json` is written.
    pub shim: OwnedFd,
    /// The shim's process id, for messages. It is not a child of the caller: nothing to reap.
    pub shim_pid: i32,
}

impl TaskDirectory {
    /// Starts the task: runs `bourg_executable` as `bourg shim DIR`, which leaves the caller's
    /// session.
    ///
    /// Returns when the shim holds the directory's lock, so from then on an inspection never
    /// mistakes the task for lost; [`ShimChild::ready`] tells when its program runs.
    ///
    /// # Errors
    /// [`TaskError::Invalid`] before anything is done; [`TaskError::NoShim`] when the directory has
    /// been used before, or the executable is not valid.
    pub fn start(&self, bourg_executable: &Path, launch: &Launch) -> Result<ShimChild, TaskError> {
        launch
            .check()
            .map_err(|source| TaskError::Invalid { label: launch.label.clone(), source })?;
        if let Some(shim_pid) = self.shim_pid()? {
            return Err(TaskError::InUse { dir: self.path().to_owned(), shim_pid });
        }
        launch.write(self.path())?;
        self.make_room()?;
        let log_path = self.path().join(SHIM_LOG_FILE);
        let no_shim = |reason: String| TaskError::NoShim {
            label: launch.label.clone(),
            reason,
            log: log_path.clone(),
        };
        let log = File::options().create(true).append(true).mode(0o600).open(&log_path);
        let log = log.at("open", &log_path)?;
        let pipe = || pipe2(OFlag::O_CLOEXEC).map_err(|error| no_shim(error.to_string()));
        let (go_read, go_write) = pipe()?;
        let (ready_read, ready_write) = pipe()?;
        let mut command = Command::new(bourg_executable);
        // An empty environment, so that nothing of the Borglet's reaches a task by mistake.
        let dir = std::path::absolute(self.path()).at("find", self.path())?;
        command.arg("shim").arg(dir).env_clear().current_dir("/");
        command.stdin(go_read).stdout(ready_write).stderr(Stdio::from(log));
        let mut starter = command
            .spawn()
            .map_err(|error| no_shim(format!("{}: {error}", bourg_executable.display())))?;
        // The command holds the far ends of the pipes, which would keep them open.
        drop(command);
        let mut ready = File::from(ready_read);
        let hello = read_line(&mut ready);
        // The shim proper is its child; this process has returned at once.
        let _status = starter.wait();
        let hello = hello.map_err(|error| no_shim(error.to_string()))?;
        let Some(shim_pid) = hello.strip_prefix("pid ").and_then(|pid| pid.parse().ok()) else {
            let said = hello.strip_prefix("error ").unwrap_or(&hello);
            let said = if said.is_empty() { "it ended without a message" } else { said };
            return Err(no_shim(said.to_owned()));
        };
        // The shim waits for the go-ahead, so the pid still refers to it.
        let shim = sys::pidfd_open(shim_pid).map_err(|error| no_shim(error.to_string()))?;
        drop(go_write);
        Ok(ShimChild { ready: ready.into(), shim, shim_pid })
    }

    /// Reserves the space for everything that the task and its shim must write, or starts nothing:
    /// later the disk may be full.
    fn make_room(&self) -> Result<(), TaskError> {
        record::reserve(self.path())?;
        for name in [LOG_DIRECTORY, HOME_DIRECTORY, ROOT_DIRECTORY] {
            let path = self.path().join(name);
            match fs::create_dir(&path) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                result => result.at("create directory", &path)?,
            }
            let mode = fs::Permissions::from_mode(0o755);
            fs::set_permissions(&path, mode).at("open to its task", &path)?;
        }
        Ok(())
    }
}

/// Reads up to a newline, byte by byte: what follows belongs to another reader.
fn read_line(file: &mut File) -> io::Result<String> {
    let mut line = Vec::new();
    let mut byte = [0];
    while line.len() < 4096 && file.read(&mut byte)? == 1 && byte[0] != b'\n' {
        line.push(byte[0]);
    }
    Ok(String::from_utf8_lossy(&line).into_owned())
}
