//! The process that forks the shims of one Borglet: small, with one thread, so that a fork is safe and
//! cheap, and a start executes no large program.
//!
//! It holds no state. Its shims outlive it: each leaves its session and is alone from its first step
//! on. It ends when the Borglet closes the socket or dies; a Borglet whose server is gone starts
//! another.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use nix::sys::prctl;
use nix::unistd::{ForkResult, dup2_stderr, dup2_stdin, dup2_stdout, setsid};

use super::{begin, supervise_to_the_end};
use crate::cgroup::Hierarchy;
use crate::process::boot_id;
use crate::shim_log::message;
use crate::sys::{self, SingleThread};

/// A request is the path of a task directory, at most this long.
pub(crate) const REQUEST_BYTES_MAX: usize = 4_096;
/// With it come the standard input, output and error of the shim. A fourth file is one that the shim
/// holds open until it ends.
pub(crate) const REQUEST_FILES: usize = 3;
/// The command, as on the command line.
pub(crate) const COMMAND: &str = "shims";

/// The implementation of `bourg shims PADDING`; call it before the process has a second thread or
/// opens a file. Standard input is a socket of packets: each is a request for a shim.
///
/// Returns in the server, when its client is gone, and in each shim, when its task has ended. The
/// padding is overwritten with the command line that a shim shows.
#[must_use]
pub fn serve() -> ExitCode {
    let prepared = || -> io::Result<(OwnedFd, SingleThread)> {
        sys::close_from(3)?;
        // A child of a process group's leader could not leave the session.
        let _leader = setsid();
        for signal in [libc::SIGHUP, libc::SIGINT, libc::SIGTERM, libc::SIGPIPE] {
            sys::ignore_signal(signal);
        }
        // The Borglet may do without; its tasks shall not.
        let _as_before = sys::allow_huge_pages(true);
        // The kernel then reaps the shims that end before this process.
        sys::ignore_signal(libc::SIGCHLD);
        let _cosmetic = prctl::set_name(c"bourg-shims");
        // Its forks remember both. What is missing is told where it is needed.
        let _known = (Hierarchy::detect(), boot_id());
        let socket = io::stdin().as_fd().try_clone_to_owned()?;
        dup2_stdin(File::open("/dev/null")?)?;
        Ok((socket, SingleThread::check()?))
    };
    let program = std::env::args_os().next().unwrap_or_default();
    show_command(&[program.as_bytes(), COMMAND.as_bytes()]);
    let (socket, proof) = match prepared() {
        Ok(ready) => ready,
        Err(error) => {
            message(&format_args!("cannot start the server of shims: {error}"));
            return ExitCode::FAILURE;
        }
    };
    loop {
        let request = match receive(socket.as_fd()) {
            Ok(Some(request)) => request,
            Ok(None) => return ExitCode::SUCCESS,
            Err(error) => {
                message(&format_args!("cannot read a request for a shim: {error}"));
                return ExitCode::FAILURE;
            }
        };
        let ShimRequest { dir, input, output, error, held } = request;
        match sys::fork(proof) {
            Ok(ForkResult::Parent { .. }) => {}
            Ok(ForkResult::Child) => {
                sys::default_signal(libc::SIGCHLD);
                drop(socket);
                show_command(&[program.as_bytes(), b"shim", dir.as_os_str().as_bytes()]);
                let code = take_files(input, output, error, held.as_ref())
                    .map_err(begin::BeginError::Detach)
                    .and_then(|()| begin::become_shim(dir.clone(), held));
                return match code {
                    Ok(shim) => supervise_to_the_end(shim),
                    Err(error) => {
                        message(&format_args!("the shim of {}: {error}", dir.display()));
                        ExitCode::FAILURE
                    }
                };
            }
            Err(error) => {
                let said = format!("error cannot fork a shim: {error}\n");
                let _starter_is_gone = File::from(output).write_all(said.as_bytes());
            }
        }
    }
}

/// A request for a shim.
struct ShimRequest {
    dir: PathBuf,
    input: OwnedFd,
    output: OwnedFd,
    error: OwnedFd,
    held: Option<OwnedFd>,
}

/// The next request; `None` when the client is gone. Malformed ones are skipped: their starter sees
/// the pipes close.
fn receive(socket: BorrowedFd<'_>) -> io::Result<Option<ShimRequest>> {
    let mut buffer = [0; REQUEST_BYTES_MAX];
    loop {
        let (bytes, mut files) = sys::receive_files(socket, &mut buffer)?;
        if bytes == 0 {
            return Ok(None);
        }
        let dir = PathBuf::from(std::ffi::OsString::from_vec(buffer[..bytes].to_vec()));
        let held = if files.len() > REQUEST_FILES { files.pop() } else { None };
        if let Ok([input, output, error]) = <[OwnedFd; REQUEST_FILES]>::try_from(files)
            && dir.is_absolute()
        {
            return Ok(Some(ShimRequest { dir, input, output, error, held }));
        }
        message(&format_args!("a request for a shim of {} is incomplete", dir.display()));
    }
}

/// Makes these the standard files of this process, and closes everything else but what it holds.
fn take_files(
    input: OwnedFd,
    output: OwnedFd,
    error: OwnedFd,
    held: Option<&OwnedFd>,
) -> io::Result<()> {
    dup2_stdin(&input)?;
    dup2_stdout(&output)?;
    dup2_stderr(&error)?;
    drop((input, output, error));
    let mut keep = vec![0, 1, 2];
    keep.extend(held.map(AsRawFd::as_raw_fd));
    sys::close_all_but(&mut keep)
}

/// Shows a command line to `ps`, as far as there is room for it.
fn show_command(words: &[&[u8]]) {
    sys::rename_arguments(&words.join(&0));
}

/// The command line that starts a server, with room for that of a shim.
pub(crate) fn command_line(executable: &Path) -> std::process::Command {
    let mut command = std::process::Command::new(executable);
    command.arg(COMMAND).arg("-".repeat(1_024));
    command
}
