//! Process startup: logging, supervision and the listening socket.

use std::net::TcpListener;
use std::os::fd::{BorrowedFd, OwnedFd, RawFd};
use std::pin::Pin;

use anyhow::Context;
use tokio::runtime::Runtime;
use tracing_subscriber::EnvFilter;

use crate::arguments::ListenArgs;

/// The variable with the id of the process whose death ends this one: the supervisor of a dev cell.
pub const PARENT_VARIABLE: &str = "BOURG_PARENT";
/// The variable with the log level.
pub const LOG_VARIABLE: &str = "BOURG_LOG";
/// A variable for the environment of a Borglet, of which every machine has one: the allocator, which
/// reads it before anything else happens, then gives free memory back in small pieces. Otherwise it
/// keeps those that are smaller than a huge page.
pub const SMALL_PAGES: (&str, &str) = ("MIMALLOC_ALLOW_THP", "0");

/// Logs to stderr, one line per event with time and level.
fn log_to_stderr() {
    let filter = EnvFilter::try_from_env(LOG_VARIABLE).unwrap_or_else(|_| EnvFilter::new("info"));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(false)
        .with_target(false)
        // If the disk is full, drop the line: reporting that would end the process.
        .log_internal_errors(false)
        .init();
}

/// The first step of every process: sets up logging, and death with its supervisor, if any.
pub fn begin() -> anyhow::Result<()> {
    log_to_stderr();
    let Ok(parent) = std::env::var(PARENT_VARIABLE) else { return Ok(()) };
    nix::sys::prctl::set_pdeathsig(nix::sys::signal::Signal::SIGTERM)?;
    let alive = nix::unistd::getppid().to_string() == parent;
    anyhow::ensure!(alive, "the supervising process {parent} is gone");
    Ok(())
}

/// Runs a future to its end on this thread.
///
/// The future is behind a pointer: the compiler copies a runtime's loop several times for each type of
/// future, and the whole future with it.
pub fn block_on<T>(runtime: &Runtime, future: impl Future<Output = T>) -> T {
    let future: Pin<Box<dyn Future<Output = T> + '_>> = Box::pin(future);
    runtime.block_on(future)
}

impl ListenArgs {
    /// Opens the socket that the flags name; it listens from now on.
    ///
    /// # Errors
    /// If the socket cannot be opened.
    pub fn listener(&self) -> anyhow::Result<TcpListener> {
        let listener = match self.listen_fd {
            Some(descriptor) => TcpListener::from(inherited(descriptor)?),
            None => TcpListener::bind(self.listen)
                .with_context(|| format!("cannot listen on {}", self.listen))?,
        };
        tracing::info!("listening on {}", listener.local_addr()?);
        Ok(listener)
    }
}

/// Takes an inherited file or socket. Its descriptor stays open for the whole life of the process.
///
/// # Errors
/// If this process has no such descriptor.
#[expect(unsafe_code, reason = "the descriptor is inherited by number")]
pub fn inherited(descriptor: RawFd) -> anyhow::Result<OwnedFd> {
    let open = nix::fcntl::fcntl(
        // SAFETY: the descriptor is only inspected; the kernel rejects one that is not open.
        unsafe { BorrowedFd::borrow_raw(descriptor) },
        nix::fcntl::FcntlArg::F_GETFD,
    );
    open.with_context(|| format!("this process did not inherit descriptor {descriptor}"))?;
    // SAFETY: it is open, as just checked, and nothing closes it.
    let descriptor = unsafe { BorrowedFd::borrow_raw(descriptor) };
    Ok(descriptor.try_clone_to_owned()?)
}

/// The address at which others reach this listener: with this machine's name if it listens on all
/// interfaces.
pub fn reached_at(listener: &TcpListener) -> anyhow::Result<String> {
    let address = listener.local_addr()?;
    if !address.ip().is_unspecified() {
        return Ok(address.to_string());
    }
    let host = nix::unistd::gethostname()?;
    Ok(format!("{}:{}", host.to_string_lossy(), address.port()))
}
