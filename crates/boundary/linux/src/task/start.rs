//! Starts a task: writes the launch record and starts a shim that outlives the caller.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

use nix::fcntl::OFlag;
use nix::unistd::pipe2;

use super::{ShimServer, TaskDirectory, TaskError};
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
    /// Starts the task: has `shims` fork a shim for it, which leaves every session and outlives both.
    ///
    /// Returns when the shim holds the directory's lock, so from then on an inspection never
    /// mistakes the task for lost; [`ShimChild::ready`] tells when its program runs.
    ///
    /// # Errors
    /// [`TaskError::Invalid`] before anything is done; [`TaskError::NoShim`] when the directory has
    /// been used before, or the server's executable is not valid.
    pub fn start(&self, shims: &ShimServer, launch: &Launch) -> Result<ShimChild, TaskError> {
        launch
            .check()
            .map_err(|source| TaskError::Invalid { label: launch.label.clone(), source })?;
        if let Some(shim_pid) = self.shim_pid()? {
            return Err(TaskError::InUse { dir: self.path().to_owned(), shim_pid });
        }
        launch.write(self.path())?;
        self.make_room()?;
        let log_path = self.path().join(SHIM_LOG_FILE);
        let log = File::options().create(true).append(true).mode(0o600).open(&log_path);
        let log = log.at("open", &log_path)?;
        let dir = std::path::absolute(self.path()).at("find", self.path())?;
        let start = || -> io::Result<Result<ShimChild, String>> {
            let mut said = request(shims, &dir, &log)?;
            if said.hello.is_empty() {
                // The server died before it had forked. Had there been a shim, it could do nothing
                // before its first word, and the lock admits only one. A dying server's socket can
                // close after the files that it was given: wait for its end, lest it gets this
                // request, too.
                shims.stop();
                said = request(shims, &dir, &log)?;
            }
            said.shim()
        };
        let no_shim = |reason: String| TaskError::NoShim {
            label: launch.label.clone(),
            reason,
            log: log_path.clone(),
        };
        start().map_err(|error| no_shim(error.to_string()))?.map_err(no_shim)
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

/// What a shim, or whoever failed to start it, said first.
struct Said {
    hello: String,
    ready: File,
    go_ahead: OwnedFd,
}

/// Requests a shim and waits for its first word.
fn request(shims: &ShimServer, dir: &Path, log: &File) -> io::Result<Said> {
    let (go_read, go_ahead) = pipe2(OFlag::O_CLOEXEC)?;
    let (ready, ready_write) = pipe2(OFlag::O_CLOEXEC)?;
    let requested = shims.request(dir, [go_read.as_fd(), ready_write.as_fd(), log.as_fd()]);
    requested.map_err(|error| {
        let what = format!("{}: {error}", shims.executable().display());
        io::Error::new(error.kind(), what)
    })?;
    // The near ends of what the shim has would keep its pipes open.
    drop((go_read, ready_write));
    let mut ready = File::from(ready);
    let hello = read_line(&mut ready)?;
    Ok(Said { hello, ready, go_ahead })
}

impl Said {
    /// The shim that said its process id, and now goes ahead; otherwise the reason why there is none.
    fn shim(self) -> io::Result<Result<ShimChild, String>> {
        let Self { hello, ready, go_ahead } = self;
        let Some(shim_pid) = hello.strip_prefix("pid ").and_then(|pid| pid.parse().ok()) else {
            let said = hello.strip_prefix("error ").unwrap_or(&hello);
            let said = if said.is_empty() { "it ended without a message" } else { said };
            return Ok(Err(said.to_owned()));
        };
        // The shim waits for the go-ahead, so the pid still refers to it.
        let shim = sys::pidfd_open(shim_pid)?;
        drop(go_ahead);
        Ok(Ok(ShimChild { ready: ready.into(), shim, shim_pid }))
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
