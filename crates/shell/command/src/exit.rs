//! Exit codes (design, section 9) and failures with their messages.

use std::error::Error as _;
use std::fmt;
use std::process::ExitCode;

/// The exit codes. `bourg help` prints this table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// The request failed.
    Failed = 1,
    /// The command line or a file is invalid, or names something that does not exist.
    Usage = 2,
    /// Rejected at admission.
    Refused = 3,
    /// Not placed in time, or a lock not acquired in time.
    NotPlaced = 4,
    /// The update failed and was undone.
    Undone = 5,
    /// No master is reachable.
    NoMaster = 6,
    /// Someone else changed it concurrently, or a lock was lost.
    Changed = 7,
    /// Blocked by a disruption budget.
    Budget = 8,
    /// The replica was removed from the cell, or its directory must not be used.
    Dismissed = 9,
}

/// The table of exit codes in `--help`.
pub const TABLE: &str = "\
Exit codes:
  0  done and healthy
  1  failed remotely
  2  usage or invalid file
  3  rejected at admission
  4  not placed in time, or lock not acquired in time
  5  update failed and was undone
  6  no master reachable
  7  changed concurrently, or lock lost
  8  blocked by a disruption budget
  9  replica must not be restarted as is: removed from its cell, older than a restoration, or its
     directory is damaged or copied
With plan --exit-code: 0 nothing changes, 2 something changes, 1 error.
With run --wait, the exit status of the failed task: see bourg run --help.";

/// The failure of a command: message, advice on what to do next, and exit code.
#[derive(Debug)]
pub struct Failure {
    pub(crate) code: Code,
    /// Overrides the code with the exit status of a task.
    status: Option<u8>,
    text: String,
    next: Option<String>,
}

/// The result of a command.
pub type Done = Result<(), Failure>;

impl Failure {
    /// Returns a failure with this code.
    pub fn new(code: Code, text: impl fmt::Display) -> Self {
        Self { code, status: None, text: text.to_string(), next: None }
    }

    /// Returns a failure for invalid input, or for something that does not exist.
    pub fn usage(text: impl fmt::Display) -> Self {
        Self::new(Code::Usage, text)
    }

    /// Returns a failure of the request itself.
    pub fn failed(text: impl fmt::Display) -> Self {
        Self::new(Code::Failed, text)
    }

    /// The same failure with another text.
    #[must_use]
    pub fn reworded(self, reword: impl FnOnce(&str) -> String) -> Self {
        let text = reword(&self.text);
        Self { text, ..self }
    }

    /// Adds the command or action to try next.
    #[must_use]
    pub fn next(mut self, next: impl fmt::Display) -> Self {
        self.next = Some(next.to_string());
        self
    }

    /// Exits with the status of a task instead.
    #[must_use]
    pub fn exit_status(self, status: u8) -> Self {
        Self { status: Some(status), ..self }
    }

    /// The exit code of the command.
    #[must_use]
    pub fn exit_code(&self) -> ExitCode {
        ExitCode::from(self.status.unwrap_or(self.code as u8))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text.trim_end())?;
        match &self.next {
            Some(next) => write!(f, "\nnext: {next}"),
            None => Ok(()),
        }
    }
}

impl From<client::Error> for Failure {
    fn from(error: client::Error) -> Self {
        use client::Error;
        let text = format!("error: {error}");
        match error {
            Error::Answer(status) => status.into(),
            Error::NoMaster { .. } => Self::new(Code::NoMaster, text)
                .next("check that the cell is running; `bourg dev` starts one on this machine"),
            Error::NoSuchCell(_) | Error::NoneKnown => {
                Self::new(Code::NoMaster, text).next("start a cell on this machine: bourg dev")
            }
            Error::NoneRuns(_) => Self::new(Code::NoMaster, text).next(
                "`bourg cells` lists them, `bourg cells --prune` removes stale ones, `bourg dev` starts one",
            ),
            Error::Several(_) => Self::usage(text).next("choose one with --cell"),
            Error::Unusable { .. } => Self::usage(text),
            Error::Expired { .. } => Self::new(Code::NoMaster, text)
                .next("ask an administrator of the cell for a new one"),
        }
    }
}

impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Self {
        Self::failed(format!("error: {error:#}"))
    }
}

impl From<tonic::Status> for Failure {
    fn from(status: tonic::Status) -> Self {
        use tonic::Code as Grpc;
        let text = format!("error: {}", rpc::transport::explain(&status));
        match status.code() {
            _ if rpc::transport::is_distrust(&status) => {
                Self::new(Code::NoMaster, text).next("check that the client directory is of this cell")
            }
            // A moment that is not retained or in the future does not exist, either.
            Grpc::InvalidArgument | Grpc::NotFound | Grpc::OutOfRange => Self::usage(text),
            Grpc::FailedPrecondition | Grpc::PermissionDenied | Grpc::ResourceExhausted => {
                Self::new(Code::Refused, text)
            }
            // A status that a master itself returned has no source error.
            Grpc::Unavailable if status.source().is_none() => Self::new(Code::NoMaster, text)
                .next("the master answers but cannot serve now: try again; `bourg master list` shows the replicas"),
            Grpc::Unavailable => Self::new(Code::NoMaster, text)
                .next("check that the cell is running; `bourg dev` starts one on this machine"),
            Grpc::Unauthenticated => Self::new(Code::Refused, text),
            _ => Self::failed(text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tonic::{Code as Grpc, Status};

    #[test]
    fn a_cell_that_answers_is_not_to_be_started() {
        let said = |status: Status| {
            let failure = Failure::from(status);
            (failure.code, failure.next.unwrap_or_default())
        };
        for (grpc, expected) in [
            (Grpc::Aborted, Code::Failed),
            (Grpc::Internal, Code::Failed),
            (Grpc::DataLoss, Code::Failed),
            (Grpc::DeadlineExceeded, Code::Failed),
            (Grpc::NotFound, Code::Usage),
            (Grpc::FailedPrecondition, Code::Refused),
            (Grpc::ResourceExhausted, Code::Refused),
            (Grpc::Unavailable, Code::NoMaster),
        ] {
            let (code, next) = said(Status::new(grpc, "said"));
            assert_eq!(code, expected, "{grpc:?}");
            assert!(!next.contains("bourg dev"), "{grpc:?}: {next}");
        }
    }
}
