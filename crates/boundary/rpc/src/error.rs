//! Errors of identities, credentials and connections.

use std::io;
use std::path::{Path, PathBuf};

/// The result type of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error while creating, reading or using credentials.
///
/// Calls over an established channel fail with a [`tonic::Status`] instead; see
/// [`crate::transport::explain`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file operation failed.
    #[error("cannot {action} {}: {source}; check that the path exists and belongs to you",
            path.display())]
    Io {
        /// The action, as a verb.
        action: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },

    /// An authority already exists.
    #[error("{} exists: a cell has one authority for its life; open it, or remove it together \
             with every certificate that it issued", path.display())]
    AlreadyExists {
        /// The authority's certificate.
        path: PathBuf,
    },

    /// Others can read a secret key.
    #[error("{} has mode {mode:03o}: other users can read this secret key; if none \
             did, `chmod 600` it; otherwise issue new credentials", path.display())]
    ExposedKey {
        /// The key's file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },

    /// A file or a peer's bytes are not a valid certificate of a cell.
    #[error("{origin} is not a usable certificate: {why}; issue new credentials")]
    BadCertificate {
        /// The path, or another origin of the certificate.
        origin: String,
        /// The reason.
        why: String,
    },

    /// A key does not match its certificate.
    #[error(
        "the key in {origin} does not match its certificate, possibly after an \
             interrupted renewal; issue new credentials"
    )]
    KeyMismatch {
        /// The origin of the key.
        origin: String,
    },

    /// A cell's name cannot be part of a host name.
    #[error(
        "{cell:?} is not a valid cell name: use 1 to 40 of a-z, 0-9 and -, without - \
             at either end"
    )]
    BadCell {
        /// The name.
        cell: String,
    },

    /// The identity is invalid.
    #[error(transparent)]
    BadIdentity(#[from] BadIdentity),

    /// A certificate would never be valid.
    #[error(
        "the certificate would end ({until} s) before it begins ({from} s, both since 1970); \
             check the clock and the expiry of the authority"
    )]
    EmptyValidity {
        /// The start, in seconds since 1970.
        from: i64,
        /// The end, in seconds since 1970.
        until: i64,
    },

    /// A text is not an acceptable signing request.
    #[error("not an acceptable certificate request: {why}; create it with `bourg user add`")]
    BadRequest {
        /// The reason.
        why: String,
    },

    /// The certificate library failed.
    #[error("cannot create a certificate: {0}; this is a bug, please report it")]
    Issue(#[from] rcgen::Error),

    /// An endpoint is not a valid address.
    #[error("{endpoint:?} is not an address to connect to: {why}; write it as HOST:PORT")]
    BadEndpoint {
        /// The address as given.
        endpoint: String,
        /// The reason.
        why: String,
    },

    /// TLS could not be set up from the credentials.
    #[error("cannot set up TLS from these credentials: {}; issue new credentials", .0)]
    Tls(#[source] rustls::Error),

    /// The new credentials are of another identity, cell or authority.
    #[error(
        "these credentials do not renew those in use: {why}; restart the process to use another identity"
    )]
    NoRenewal {
        /// The difference.
        why: String,
    },

    /// A server failed.
    #[error("the server ended: {}", chain(.0))]
    Serve(#[source] tonic::transport::Error),

    /// A listening socket is unusable.
    #[error("cannot use the listening socket: {0}; check the bound address")]
    Listener(#[source] io::Error),
}

/// A text or a value that is not an identity.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{text:?} is not an identity: {why}; write master, borglet/MACHINE, scheduler/NAME, \
         packages/NAME, user/NAME or task/USER/JOB/INDEX"
)]
pub struct BadIdentity {
    /// The text.
    pub text: String,
    /// The reason.
    pub why: &'static str,
}

impl Error {
    /// For `map_err`: adds the action and the path of a failed operation.
    pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { action, path, source }
    }
}

/// The message of an error with its causes.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        append_cause(&mut text, cause);
        source = cause.source();
    }
    text
}

/// Appends the message of a cause.
pub(crate) fn append_cause(text: &mut String, cause: &dyn std::error::Error) {
    let cause = cause.to_string();
    // Skip repetitions of other layers, and tonic's text without information.
    if text.contains(&cause) || cause == "transport error" && !text.is_empty() {
        return;
    }
    if !text.is_empty() {
        text.push_str(": ");
    }
    text.push_str(&cause);
}
