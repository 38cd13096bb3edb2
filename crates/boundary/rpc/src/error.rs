//! What can go wrong with identities, credentials and connections.

use std::io;
use std::path::{Path, PathBuf};

/// The result of everything in this crate that may fail.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A failure to make, read or use credentials.
///
/// A call over an established channel fails with a [`tonic::Status`] instead; see
/// [`crate::transport::explain`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The operating system refused an operation on a file.
    #[error("cannot {action} {}: {source}; check that the path exists and belongs to you",
            path.display())]
    Io {
        /// What was attempted, as a verb.
        action: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },

    /// There is an authority where one was to be made.
    #[error("{} exists: a cell has one authority for its life; open it, or remove it together \
             with every certificate that it issued", path.display())]
    AlreadyExists {
        /// The authority's certificate.
        path: PathBuf,
    },

    /// A secret key can be read by others.
    #[error("{} has mode {mode:03o}: others than its owner can read this secret key; if nobody \
             did, `chmod 600` it, else issue new credentials", path.display())]
    ExposedKey {
        /// The key's file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },

    /// A file or a peer's bytes are no certificate of ours.
    #[error("{origin} is not a usable certificate: {why}; issue new credentials")]
    BadCertificate {
        /// A path, or where else the certificate came from.
        origin: String,
        /// What is wrong with it.
        why: String,
    },

    /// A key does not belong to the certificate beside it.
    #[error(
        "the key in {origin} is not that of the certificate beside it, as after an \
             interrupted renewal; issue new credentials"
    )]
    KeyMismatch {
        /// Where the key came from.
        origin: String,
    },

    /// A cell's name cannot be part of a host name.
    #[error(
        "{cell:?} cannot be the name of a cell: it takes 1 to 40 of a-z, 0-9 and -, and no - \
             at an end"
    )]
    BadCell {
        /// The name.
        cell: String,
    },

    /// An identity cannot be written.
    #[error(transparent)]
    BadIdentity(#[from] BadIdentity),

    /// A certificate would be valid at no time.
    #[error(
        "the certificate would end ({until} s) before it begins ({from} s, both since 1970); \
             check the clock and when the authority expires"
    )]
    EmptyValidity {
        /// The begin, in seconds since 1970.
        from: i64,
        /// The end, in seconds since 1970.
        until: i64,
    },

    /// A text is no request for a certificate that can be granted.
    #[error(
        "that is not a request for a certificate that can be granted: {why}; make it with `bourg user add`"
    )]
    BadRequest {
        /// What is wrong with it.
        why: String,
    },

    /// The library that writes certificates refused.
    #[error("cannot make a certificate: {0}; this is an error of the program, report it")]
    Issue(#[from] rcgen::Error),

    /// An address to connect to is none.
    #[error("{endpoint:?} is not an address to connect to: {why}; write it as HOST:PORT")]
    BadEndpoint {
        /// The address as given.
        endpoint: String,
        /// What is wrong with it.
        why: String,
    },

    /// TLS could not be set up from the credentials.
    #[error("cannot set up TLS from these credentials: {}; issue new credentials", .0)]
    Tls(#[source] rustls::Error),

    /// Credentials were to replace those of somebody else.
    #[error("these credentials do not renew those in use: {why}; start anew to be somebody else")]
    NoRenewal {
        /// In what they differ.
        why: String,
    },

    /// A server ended with an error.
    #[error("the server ended: {}", chain(.0))]
    Serve(#[source] tonic::transport::Error),

    /// A listening socket could not be used.
    #[error("cannot use the listening socket: {0}; check the address that was bound")]
    Listener(#[source] io::Error),
}

/// A text or a value that is no identity.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{text:?} is not an identity: {why}; write master, borglet/MACHINE, scheduler/NAME, \
         user/NAME or task/USER/JOB/INDEX"
)]
pub struct BadIdentity {
    /// What was given.
    pub text: String,
    /// What is wrong with it.
    pub why: &'static str,
}

impl Error {
    /// For `map_err`: names the action and the path of a failed operation.
    pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { action, path, source }
    }
}

/// An error with the causes beneath it.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        append_cause(&mut text, cause);
        source = cause.source();
    }
    text
}

/// Appends a cause to the text of what it caused.
pub(crate) fn append_cause(text: &mut String, cause: &dyn std::error::Error) {
    let cause = cause.to_string();
    // Many layers repeat the text of another; tonic's own says no more than this.
    if text.contains(&cause) || cause == "transport error" && !text.is_empty() {
        return;
    }
    if !text.is_empty() {
        text.push_str(": ");
    }
    text.push_str(&cause);
}
