//! What every command has in common: how it fails, with which exit code, how it prints, and how it asks a
//! cell.
//!
//! Not here: the commands themselves (`cli`, `dev`, `offline`, `bench` and the processes), and how a cell is
//! found and called (`client`).

mod exit;
pub mod output;

use api::v1;
use client::{Connection, Target};
use model::Address;

pub use self::exit::{Code, Done, Failure, TABLE};

/// The target of calls from a terminal.
#[must_use]
pub fn target(cell: Option<&str>, consistent: bool) -> Target<'_> {
    Target { cell, consistent, notify: |notice| eprintln!("{notice}") }
}

/// Connects to a cell and runs `work` with the connection, on this thread.
///
/// # Errors
/// If the cell cannot be found, or the work fails.
pub fn with_cell<T>(
    cell: Target<'_>,
    work: impl AsyncFnOnce(Connection) -> Result<T, Failure>,
) -> Result<T, Failure> {
    process::block_on(&runtime()?, async { work(Connection::open(cell)?).await })
}

/// A runtime for asynchronous calls on this thread.
///
/// # Errors
/// If the system has no room for one.
pub fn runtime() -> Result<tokio::runtime::Runtime, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(|error| Failure::failed(format!("error: {error}")))
}

/// An address as in a request; the master fills in a missing owner.
#[must_use]
pub fn job_address(address: &Address) -> v1::JobAddress {
    v1::JobAddress {
        user: address.user.as_ref().map(ToString::to_string).unwrap_or_default(),
        job: address.job.to_string(),
    }
}
