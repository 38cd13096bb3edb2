//! Why a page cannot be shown or a change was rejected.

use axum::http::StatusCode;
use rpc::transport::Cause;
use tonic::Code;

/// What is shown instead of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    pub(crate) status: StatusCode,
    /// What happened, for people.
    pub(crate) what: String,
    /// What to do next; may be empty.
    pub(crate) next: String,
    /// The page as it is now, if another moment was asked for.
    pub(crate) now: Option<String>,
}

impl Problem {
    pub(crate) fn new(status: StatusCode, what: impl Into<String>) -> Self {
        Self { status, what: what.into(), next: String::new(), now: None }
    }

    pub(crate) fn next(self, next: impl Into<String>) -> Self {
        Self { next: next.into(), ..self }
    }

    /// There is nothing at this address.
    pub(crate) fn not_found(what: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, what)
    }

    /// What was typed is not understood.
    pub(crate) fn bad(what: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, what)
    }

    /// Whether the user is not accepted any more, so that the session is over.
    pub(crate) fn is_sign_out(&self) -> bool {
        self.status == StatusCode::UNAUTHORIZED
    }
}

impl From<client::Error> for Problem {
    fn from(error: client::Error) -> Self {
        let what = error.to_string();
        let (client::Error::Answer(status) | client::Error::NoMaster { status, .. }) = &error
        else {
            return Self::new(StatusCode::BAD_GATEWAY, what);
        };
        let cause = status.metadata().get(rpc::metadata::CAUSE);
        let revoked = cause.is_some_and(|cause| cause == Cause::Revoked.as_str());
        match status.code() {
            _ if revoked => Self::new(StatusCode::UNAUTHORIZED, what),
            // A moment that is not kept.
            Code::NotFound | Code::OutOfRange => Self::new(StatusCode::NOT_FOUND, what),
            Code::PermissionDenied => Self::new(StatusCode::FORBIDDEN, what),
            Code::Unauthenticated => Self::new(StatusCode::UNAUTHORIZED, what),
            Code::InvalidArgument => Self::new(StatusCode::BAD_REQUEST, what),
            Code::FailedPrecondition | Code::Aborted | Code::AlreadyExists => {
                Self::new(StatusCode::CONFLICT, what)
            }
            Code::ResourceExhausted => Self::new(StatusCode::TOO_MANY_REQUESTS, what),
            Code::Unavailable => Self::new(StatusCode::SERVICE_UNAVAILABLE, what)
                .next("This page tries again by itself."),
            _ => Self::new(StatusCode::BAD_GATEWAY, what),
        }
    }
}
