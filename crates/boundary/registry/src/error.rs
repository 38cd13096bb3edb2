//! The errors of a registry: what happened, where, why, and what to do next.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::digest::BlobDigest;
use crate::platform::Platform;
use crate::words::ServerWords;

/// How many platforms an error names.
const PLATFORMS_SHOWN: usize = 20;

/// Why an image cannot be resolved or downloaded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RegistryError {
    /// The settings cannot be used.
    #[error("cannot use {what}: {why}")]
    Settings {
        /// What was given.
        what: String,
        /// The reason, and what to give instead.
        why: String,
    },

    /// The registry has no such image, or does not say so to everybody.
    #[error(
        "{registry} has no image {image}: check the repository and the tag; if the image is private, log in with \
         `docker login {registry}`{said}"
    )]
    NotFound {
        /// The name of the image.
        image: String,
        /// The registry.
        registry: String,
        /// What the registry says of it, or nothing.
        said: ServerWords,
    },

    /// The registry does not let this user read the image.
    #[error("{registry} refuses access to {image} ({status}): {}{said}", login_advice(*.with_credentials, .registry))]
    Denied {
        /// The name of the image.
        image: String,
        /// The registry.
        registry: String,
        /// The status code.
        status: u16,
        /// Whether there were credentials for the registry.
        with_credentials: bool,
        /// What the registry says of it, or nothing.
        said: ServerWords,
    },

    /// The registry asks to come back later, and later than is waited for, or too often.
    #[error("{host} limits the rate of requests (429){}{said}: try again later, or log in with `docker login`, \
         which often has a higher limit", wait_words(*.after))]
    RateLimited {
        /// The host.
        host: String,
        /// How long it asks to wait.
        after: Option<Duration>,
        /// What it says of it, or nothing.
        said: ServerWords,
    },

    /// A server answers with a status that this request has no use for.
    #[error("{url} answered {status}{said}: {}", status_advice(*.status))]
    Status {
        /// Of the request.
        url: String,
        /// The status code.
        status: u16,
        /// What the server says of it, or nothing.
        said: ServerWords,
        /// How long it asks to wait.
        after: Option<Duration>,
    },

    /// There is no connection, or it broke.
    #[error("cannot read {url}: {why}; check the name of the registry, the network and the proxy")]
    Connection {
        /// Of the request.
        url: String,
        /// The reason.
        why: String,
    },

    /// A server could not prove who it is, or speaks no TLS.
    #[error(
        "no trusted TLS connection to {url}: {why}; give the registry's authority with --registry-ca, or --insecure-registry if the \
         network between is trusted"
    )]
    Tls {
        /// Of the request.
        url: String,
        /// The reason.
        why: String,
    },

    /// A server sends nothing, or less than a KiB a second.
    #[error("{url} made no progress for {} s; try again, and the download continues where it was", .after.as_secs_f32())]
    Stalled {
        /// Of the request.
        url: String,
        /// How long.
        after: Duration,
    },

    /// A server redirects to a place that is not followed.
    #[error("{url} redirects to '{to}', which is not followed: {why}")]
    Redirect {
        /// Of the request.
        url: String,
        /// Where it redirects.
        to: String,
        /// The reason.
        why: &'static str,
    },

    /// A server sends more than it may.
    #[error("{url} sends more than {max} bytes, the maximum of {what}")]
    TooLong {
        /// Of the request.
        url: String,
        /// What was asked for.
        what: &'static str,
        /// The maximum, in bytes.
        max: u64,
    },

    /// A blob or a manifest has another length than the manifest says that names it.
    #[error(
        "{url} has {found} bytes where {expected} were promised: the registry or a proxy between changed it; try \
         again, and tell the registry's operators if it stays"
    )]
    Length {
        /// Of the request.
        url: String,
        /// The length that was promised.
        expected: u64,
        /// The bytes that arrived, or were announced; of a longer body, those until it was left.
        found: u64,
    },

    /// A blob or a manifest has other bytes than its digest says.
    #[error(
        "{url} has the digest {found} and not {expected}: the registry or a proxy between changed it; try again, and \
         tell the registry's operators if it stays"
    )]
    WrongDigest {
        /// Of the request.
        url: String,
        /// The digest that was promised.
        expected: BlobDigest,
        /// That of the bytes.
        found: BlobDigest,
    },

    /// A manifest cannot be used.
    #[error("the manifest {manifest} of {image} {why}")]
    Manifest {
        /// The name of the image.
        image: String,
        /// The digest of the manifest.
        manifest: BlobDigest,
        /// What is wrong.
        why: String,
    },

    /// The image has no variant for a platform.
    #[error("{image} has no variant for {wanted}: it has {}", names(.offered))]
    NoPlatform {
        /// The name of the image.
        image: String,
        /// The platform, or Linux.
        wanted: String,
        /// Its platforms with Linux.
        offered: Vec<Platform>,
    },

    /// The name means something else than an image.
    #[error(
        "{image} is no image of a container: it has the type '{kind}'; give the name of an image"
    )]
    NotAnImage {
        /// The name.
        image: String,
        /// The type of its configuration.
        kind: String,
    },

    /// The image has more bytes than wanted.
    #[error(
        "{image} has {bytes} bytes, of at most {max}; choose fewer platforms, or a smaller image"
    )]
    Big {
        /// The name of the image.
        image: String,
        /// The sum of its blobs, in bytes.
        bytes: u64,
        /// The maximum.
        max: u64,
    },

    /// The service that gives tokens cannot be used.
    #[error("cannot get a token for {registry}: {why}")]
    Token {
        /// The registry.
        registry: String,
        /// The reason.
        why: String,
    },

    /// The credentials of `docker login` cannot be read.
    #[error("cannot read credentials from {}: {why}; mend or remove the file, or log in again with `docker login`", .path.display())]
    CredentialFile {
        /// The file.
        path: PathBuf,
        /// The reason.
        why: String,
    },

    /// The program that keeps credentials fails.
    #[error(
        "cannot get credentials for {registry} from `docker-credential-{name}`: {why}; install or mend it, or remove \
         it from {}", .path.display()
    )]
    CredentialHelper {
        /// Its name, without `docker-credential-`.
        name: String,
        /// The registry.
        registry: String,
        /// The file that names it.
        path: PathBuf,
        /// The reason.
        why: String,
    },

    /// The directory for the image cannot be used.
    #[error("cannot {action} {}: {why}", .path.display())]
    Directory {
        /// What was tried, as a verb.
        action: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The reason.
        why: String,
    },

    /// Another process downloads into the directory.
    #[error("another process downloads into {}: wait for it, or give another directory", .path.display())]
    Busy {
        /// The directory.
        path: PathBuf,
    },
}

impl RegistryError {
    /// Whether the same request may succeed when it is sent again soon.
    pub(crate) fn may_pass(&self) -> bool {
        match self {
            Self::Connection { .. } | Self::Stalled { .. } | Self::RateLimited { .. } => true,
            Self::Status { status, .. } => (500..600).contains(status),
            _ => false,
        }
    }

    /// How long the server asks to wait.
    pub(crate) fn asks_to_wait(&self) -> Option<Duration> {
        match self {
            Self::RateLimited { after, .. } | Self::Status { after, .. } => *after,
            _ => None,
        }
    }

    pub(crate) fn of_file(action: &'static str, path: &Path, error: &std::io::Error) -> Self {
        Self::Directory { action, path: path.to_owned(), why: error.to_string() }
    }
}

fn login_advice(with_credentials: bool, registry: &str) -> String {
    match with_credentials {
        true => format!(
            "check the name, and that the user of your credentials may read it; `docker login {registry}` renews them"
        ),
        false => format!(
            "there are no credentials for it; check the name, and log in with `docker login {registry}` if it is private"
        ),
    }
}

fn wait_words(after: Option<Duration>) -> String {
    after.map_or_else(String::new, |after| format!(" and asks to wait {} s", after.as_secs()))
}

fn status_advice(status: u16) -> &'static str {
    match status {
        404 => "the registry lacks a part of the image; push the image again",
        500.. => "the server fails; try again later",
        _ => "the server is no registry, or a proxy between answers for it",
    }
}

fn names(platforms: &[Platform]) -> String {
    match platforms {
        [] => "none for Linux".to_owned(),
        platforms => {
            let shown = platforms.iter().take(PLATFORMS_SHOWN).map(Platform::to_string);
            let shown = shown.collect::<Vec<_>>().join(", ");
            match platforms.len().saturating_sub(PLATFORMS_SHOWN) {
                0 => shown,
                more => format!("{shown}, and {more} others"),
            }
        }
    }
}
