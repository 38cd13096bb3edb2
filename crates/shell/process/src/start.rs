//! How a process begins.

use std::net::TcpListener;
use std::os::fd::{BorrowedFd, RawFd};

use anyhow::Context;
use tracing_subscriber::EnvFilter;

use crate::arguments::ListenArgs;

/// The variable that names the process with which this one is to end: the supervisor of a dev
/// cell.
pub const PARENT_VARIABLE: &str = "BOURG_PARENT";
/// The variable that says how much a process logs.
pub const LOG_VARIABLE: &str = "BOURG_LOG";

/// Logs go to stderr: a line each, with its time and level.
fn log_to_stderr() {
    let filter = EnvFilter::try_from_env(LOG_VARIABLE).unwrap_or_else(|_| EnvFilter::new("info"));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(false)
        .with_target(false)
        // A line that finds no room on a full disk is lost; to say so there would end the process.
        .log_internal_errors(false)
        .init();
}

/// What every process of a cell does first: it logs, and ends with its supervisor, if it has one.
pub fn begin() -> anyhow::Result<()> {
    log_to_stderr();
    let Ok(parent) = std::env::var(PARENT_VARIABLE) else { return Ok(()) };
    nix::sys::prctl::set_pdeathsig(nix::sys::signal::Signal::SIGTERM)?;
    let alive = nix::unistd::getppid().to_string() == parent;
    anyhow::ensure!(alive, "process {parent}, with which this one was to end, is gone");
    Ok(())
}

impl ListenArgs {
    /// The socket that these name, which listens from now on.
    ///
    /// # Errors
    /// Where it cannot be had.
    pub fn listener(&self) -> anyhow::Result<TcpListener> {
        let listener = match self.listen_fd {
            Some(descriptor) => given(descriptor)?,
            None => TcpListener::bind(self.listen)
                .with_context(|| format!("cannot listen on {}", self.listen))?,
        };
        tracing::info!("listens on {}", listener.local_addr()?);
        Ok(listener)
    }
}

/// A listening socket that this process was started with. Its own descriptor is left open: it is
/// ours for our whole life.
#[expect(unsafe_code, reason = "a descriptor that was given by number")]
fn given(descriptor: RawFd) -> anyhow::Result<TcpListener> {
    let open = nix::fcntl::fcntl(
        // SAFETY: the descriptor is only looked at; the kernel refuses one that is not open.
        unsafe { BorrowedFd::borrow_raw(descriptor) },
        nix::fcntl::FcntlArg::F_GETFD,
    );
    open.with_context(|| format!("descriptor {descriptor} was not given to this process"))?;
    // SAFETY: it is open, as has just been seen, and nothing closes it.
    let descriptor = unsafe { BorrowedFd::borrow_raw(descriptor) };
    Ok(TcpListener::from(descriptor.try_clone_to_owned()?))
}

/// Where others reach who listens there: by this machine's name, where it listens everywhere.
pub fn reached_at(listener: &TcpListener) -> anyhow::Result<String> {
    let address = listener.local_addr()?;
    if !address.ip().is_unspecified() {
        return Ok(address.to_string());
    }
    let host = nix::unistd::gethostname()?;
    Ok(format!("{}:{}", host.to_string_lossy(), address.port()))
}
