//! Errors, and notices about a call in progress.

use std::path::PathBuf;
use std::time::Duration;

use model::Span;
use rpc::metadata::{BEING_KILLED, REJECTION};
use tonic::Status;

/// Why a call to a cell failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The given name is neither a client directory nor a registered cell.
    #[error(
        "there is no cell '{}': it is neither a client directory nor a registered cell",
        .0.escape_debug()
    )]
    NoSuchCell(String),
    /// No name was given, and no cell is registered.
    #[error("no cell is registered here")]
    NoneKnown,
    /// No name was given, and none of the registered cells, listed by name, is running.
    #[error("none of the cells registered here ({}) answers", .0.join(", "))]
    NoneRuns(Vec<String>),
    /// No name was given, and several cells, listed by name, are registered.
    #[error("several cells are registered here ({})", .0.join(", "))]
    Several(Vec<String>),
    /// The client directory is unusable.
    #[error("{} is unusable: {why}", .path.display())]
    Unusable {
        /// The file in it.
        path: PathBuf,
        /// The reason.
        why: String,
    },
    /// The certificate has expired.
    #[error("the certificate in {} has expired ({why})", .directory.display())]
    Expired {
        /// The client directory.
        directory: PathBuf,
        /// The error of the call.
        why: String,
    },
    /// No master can be reached.
    #[error(
        "no master answers at {}, as {} says: {}",
        .tried.join(", "),
        said_by(.listed),
        rpc::transport::explain(.status)
    )]
    NoMaster {
        /// Their addresses.
        tried: Vec<String>,
        /// The files of the client directory that list them.
        listed: Vec<PathBuf>,
        /// The failure of the last call.
        status: Status,
    },
    /// A master returned an error.
    #[error("{}", rpc::transport::explain(.0))]
    Answer(Status),
}

fn said_by(files: &[PathBuf]) -> String {
    files.iter().map(|file| file.display().to_string()).collect::<Vec<_>>().join(" or ")
}

impl Error {
    /// Whether the cell rejected the request because the job is being killed: it is accepted when that
    /// has ended.
    #[must_use]
    pub fn is_being_killed(&self) -> bool {
        let Self::Answer(status) = self else { return false };
        status.metadata().get(REJECTION).is_some_and(|which| which == BEING_KILLED)
    }
}

/// A condition to report while a request waits.
#[derive(Clone, Debug)]
pub enum Notice {
    /// The certificate expires soon.
    Expires {
        /// The client directory.
        directory: PathBuf,
        /// The remaining validity.
        left: Span,
    },
    /// An address of the cell belongs to another cell; the client fails over to the next address.
    AnotherCell {
        /// The address.
        address: String,
        /// The expected cell.
        cell: String,
        /// Why the answering server was rejected.
        why: String,
    },
    /// The master is busy; the client retries.
    Busy {
        /// For how long at most.
        patience: Duration,
    },
}

impl std::fmt::Display for Notice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Expires { directory, left } => write!(
                f,
                "the certificate in {} expires in {left}: ask an administrator for another",
                directory.display()
            ),
            Self::AnotherCell { address, cell, why } => write!(
                f,
                "warning: {address} does not belong to cell {cell}, trying another address: {why}"
            ),
            Self::Busy { patience } => {
                let seconds = patience.as_secs();
                write!(f, "the master is overloaded: retrying for up to {seconds} s")
            }
        }
    }
}
