//! How a command ends: the exit codes (design, section 9) and what is said with them.

use std::error::Error as _;
use std::fmt;
use std::process::ExitCode;

/// The exit codes. `bourg help` prints this table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// It ran, and failed there.
    Failed = 1,
    /// The command line or a file is not valid, or names what does not exist.
    Usage = 2,
    /// Refused at admission.
    Refused = 3,
    /// Not placed in time.
    NotPlaced = 4,
    /// No master can be reached.
    NoMaster = 6,
    /// Somebody else changed it meanwhile.
    Changed = 7,
    /// A replica that is no part of the cell any more, or whose directory must not be used.
    Dismissed = 9,
}

/// The table of exit codes as `--help` shows it.
pub const TABLE: &str = "\
Exit codes:
  0  done and healthy
  1  failed remotely
  2  usage or invalid file
  3  refused at admission
  4  not placed in time
  5  update failed and was undone
  6  no master reachable
  7  changed meanwhile
  8  blocked by a disruption budget
  9  a replica that must not be started again as it is: removed from its cell, from before a
     restoration, or with a directory that is damaged or copied
With run --wait, the exit status of a task that failed: see bourg run --help.";

/// A command that did not succeed: what happened and why, what to do next, and the code.
#[derive(Debug)]
pub struct Failure {
    pub(crate) code: Code,
    /// Instead of the code, where somebody else's exit status is passed on.
    status: Option<u8>,
    text: String,
    next: Option<String>,
}

/// What a command gives.
pub type Done = Result<(), Failure>;

impl Failure {
    /// A failure with this code.
    pub fn new(code: Code, text: impl fmt::Display) -> Self {
        Self { code, status: None, text: text.to_string(), next: None }
    }

    /// What was typed is wrong, or what it names is not there.
    pub fn usage(text: impl fmt::Display) -> Self {
        Self::new(Code::Usage, text)
    }

    /// It ran, and failed.
    pub fn failed(text: impl fmt::Display) -> Self {
        Self::new(Code::Failed, text)
    }

    /// What to do about it.
    pub fn next(mut self, next: impl fmt::Display) -> Self {
        self.next = Some(next.to_string());
        self
    }

    /// Ends with the exit status of a task.
    pub(crate) fn exit_status(self, status: u8) -> Self {
        Self { status: Some(status), ..self }
    }

    /// The code that the command ends with.
    pub(crate) fn exit_code(&self) -> ExitCode {
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
            Error::NoSuchCell(_) | Error::NoneKnown => {
                Self::new(Code::NoMaster, text).next("start a cell on this machine: bourg dev")
            }
            Error::NoneRuns(_) => Self::new(Code::NoMaster, text).next(
                "bourg cells shows them, bourg cells --prune forgets them, bourg dev starts one",
            ),
            Error::Several(_) => Self::usage(text).next("name one with --cell"),
            Error::Unusable { .. } => Self::usage(text),
            Error::Expired { .. } => Self::new(Code::NoMaster, text)
                .next("get a new one from an administrator of the cell"),
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
                Self::new(Code::NoMaster, text).next("is the client directory this cell's?")
            }
            // A moment that is not kept, or not there yet, does not exist either.
            Grpc::InvalidArgument | Grpc::NotFound | Grpc::OutOfRange => Self::usage(text),
            Grpc::FailedPrecondition | Grpc::PermissionDenied | Grpc::ResourceExhausted => {
                Self::new(Code::Refused, text)
            }
            // What a master says itself has no cause beneath it.
            Grpc::Unavailable if status.source().is_none() => Self::new(Code::NoMaster, text)
                .next("a master answers but cannot serve now: try again; `bourg master list` shows the replicas"),
            Grpc::Unavailable => Self::new(Code::NoMaster, text)
                .next("is the cell running? `bourg dev` starts one on this machine"),
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
