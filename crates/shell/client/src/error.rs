//! What can go wrong, and what is worth a word while it does not.

use std::path::PathBuf;
use std::time::Duration;

use model::Span;
use tonic::Status;

/// Why a cell was not asked, or did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The name that was given is neither a client directory nor a cell that is known.
    #[error(
        "there is no cell '{}': it is neither a client directory nor a cell known by that name",
        .0.escape_debug()
    )]
    NoSuchCell(String),
    /// No name was given, and no cell is known.
    #[error("no cell is known here")]
    NoneKnown,
    /// No name was given, and of the cells that are known, by their names, none runs.
    #[error("of the cells that are known here ({}) none answers", .0.join(", "))]
    NoneRuns(Vec<String>),
    /// No name was given, and several cells are known, by their names.
    #[error("several cells are known here ({})", .0.join(", "))]
    Several(Vec<String>),
    /// The client directory cannot be used.
    #[error("{} cannot be used: {why}", .path.display())]
    Unusable {
        /// The file in it.
        path: PathBuf,
        /// Why not.
        why: String,
    },
    /// The certificate is not valid any more.
    #[error("the certificate in {} has expired ({why})", .directory.display())]
    Expired {
        /// The client directory.
        directory: PathBuf,
        /// What happened with it.
        why: String,
    },
    /// A master refused or failed, or none answered.
    #[error("{}", rpc::transport::explain(.0))]
    Answer(Status),
}

/// What happens on the way to an answer.
#[derive(Clone, Debug)]
pub enum Notice {
    /// The certificate has not much longer to live.
    Expires {
        /// The client directory that it is in.
        directory: PathBuf,
        /// How long.
        left: Span,
    },
    /// At an address of the cell another one answers: the next address is asked.
    AnotherCell {
        /// The address.
        address: String,
        /// The cell that was to answer.
        cell: String,
        /// What was wrong with the one that did.
        why: String,
    },
    /// A master has too much to do, and is asked again.
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
                "warning: {address} is not cell {cell}, and another address is asked: {why}"
            ),
            Self::Busy { patience } => {
                let seconds = patience.as_secs();
                write!(f, "the master has too much to do: asking again for up to {seconds} s")
            }
        }
    }
}
