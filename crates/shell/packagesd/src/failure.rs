//! Errors of the store as statuses of calls.

use package_store::Error;
use tonic::{Code, Status};

/// The status for an error of the store.
pub(crate) fn of_store(error: &Error) -> Status {
    let code = match error {
        Error::NotFound { .. } => Code::NotFound,
        Error::WrongBytes { .. } => Code::DataLoss,
        Error::WrongDigest { .. } | Error::Length { .. } => Code::InvalidArgument,
        Error::Full { .. } | Error::Chunks { .. } | Error::Bytes { .. } | Error::Packs { .. } => {
            Code::ResourceExhausted
        }
        Error::Slow { .. } | Error::Object { .. } => Code::Unavailable,
        Error::Collecting { .. } => Code::Aborted,
        _ => Code::Internal,
    };
    if matches!(code, Code::DataLoss | Code::Internal | Code::Unavailable) {
        tracing::error!("{error}");
    }
    Status::new(code, error.to_string())
}
