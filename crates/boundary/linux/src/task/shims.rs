//! The Borglet's end of the process that forks shims ([`crate::shim::serve`]).

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::{Mutex, PoisonError};

use nix::sys::socket::{
    AddressFamily, ControlMessage, MsgFlags, SockFlag, SockType, sendmsg, socketpair,
};

use crate::shim::{REQUEST_BYTES_MAX, REQUEST_FILES, command_line};

/// Starts shims through one process, which it starts when the first shim is needed, and again when
/// it is gone. Shims outlive both.
#[derive(Debug)]
pub struct ShimServer {
    executable: PathBuf,
    /// Each shim holds it open until it ends.
    held: Option<OwnedFd>,
    process: Mutex<Option<ShimProcess>>,
}

/// A server that runs, or ran. Dropping this closes its socket, on which it ends.
#[derive(Debug)]
struct ShimProcess {
    socket: Option<OwnedFd>,
    child: Child,
}

impl ShimServer {
    /// A server that runs `bourg_executable` as `bourg shims`. Nothing is started yet.
    #[must_use]
    pub fn new(bourg_executable: &Path) -> Self {
        Self { executable: bourg_executable.to_owned(), held: None, process: Mutex::new(None) }
    }

    /// The same, whose shims hold a file open until they end. A lock on it (of the kind of `flock`)
    /// is then held until the last of their tasks has ended, whatever becomes of this process.
    #[must_use]
    pub fn holding(self, file: OwnedFd) -> Self {
        Self { held: Some(file), ..self }
    }

    /// Ends the process, if it runs; its shims stay. The next request starts another.
    pub fn stop(&self) {
        *self.process.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// The executable.
    pub(super) fn executable(&self) -> &Path {
        &self.executable
    }

    /// Requests a shim for the task in `dir`, an absolute path, with these standard files. What
    /// becomes of it is told through them; if they close without a word, the server died.
    pub(super) fn request(
        &self,
        dir: &Path,
        files: [BorrowedFd<'_>; REQUEST_FILES],
    ) -> io::Result<()> {
        let dir = dir.as_os_str().as_bytes();
        if dir.len() > REQUEST_BYTES_MAX {
            return Err(io::Error::from_raw_os_error(libc::ENAMETOOLONG));
        }
        // It is valid whenever it is unlocked, even by a panic.
        let mut process = self.process.lock().unwrap_or_else(PoisonError::into_inner);
        let mut files: Vec<RawFd> = files.iter().map(AsRawFd::as_raw_fd).collect();
        files.extend(self.held.as_ref().map(AsRawFd::as_raw_fd));
        if process.as_ref().is_some_and(|running| running.send(dir, &files).is_ok()) {
            return Ok(());
        }
        // Reaps the one that is gone.
        *process = None;
        process.insert(ShimProcess::start(&self.executable)?).send(dir, &files)
    }
}

impl ShimProcess {
    fn start(executable: &Path) -> io::Result<Self> {
        let packets = SockType::SeqPacket;
        let (own, other) = socketpair(AddressFamily::Unix, packets, None, SockFlag::SOCK_CLOEXEC)?;
        let mut command = command_line(executable);
        // An empty environment, so that nothing of the Borglet's reaches a task by mistake.
        command.env_clear().current_dir("/");
        command.stdin(other).stdout(Stdio::null());
        Ok(Self { socket: Some(own), child: command.spawn()? })
    }

    fn send(&self, dir: &[u8], files: &[RawFd]) -> io::Result<()> {
        let Some(socket) = &self.socket else { return Err(io::ErrorKind::NotConnected.into()) };
        let rights = [ControlMessage::ScmRights(files)];
        let packet = [io::IoSlice::new(dir)];
        let flags = MsgFlags::MSG_NOSIGNAL;
        loop {
            match sendmsg::<()>(socket.as_raw_fd(), &packet, &rights, flags, None) {
                Ok(_) => return Ok(()),
                Err(nix::Error::EINTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

impl Drop for ShimProcess {
    fn drop(&mut self) {
        self.socket = None;
        // It ends by itself, unless it was stopped by a signal; its shims do not mind.
        let _gone = self.child.kill().and_then(|()| self.child.wait());
    }
}
