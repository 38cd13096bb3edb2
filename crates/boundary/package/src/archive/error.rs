//! Why an image cannot be imported.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

use super::limits::LimitError;
use super::path::PathError;
use crate::manifest::ManifestError;
use crate::tree::TreeError;

/// An image cannot be imported.
#[derive(Debug, Error)]
pub enum ImportError {
    /// A file operation failed.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// The attempted action.
        action: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The kernel's error.
        source: io::Error,
    },
    /// The source is something else.
    #[error("{} is not a container image: {why}; give an OCI layout (a directory or an archive), \
             or what `docker save` writes", path.display())]
    NotAnImage {
        /// The source.
        path: PathBuf,
        /// What is missing or wrong.
        why: String,
    },
    /// The archive itself is not valid.
    #[error("{} is not a valid archive of images: {source}", path.display())]
    Archive {
        /// The archive.
        path: PathBuf,
        /// What is wrong.
        source: ArchiveError,
    },
    /// A file of the image is missing.
    #[error("the image is incomplete: it has no '{name}'; save or copy it again")]
    Missing {
        /// The path in the archive or layout.
        name: String,
    },
    /// A file is too long for its purpose.
    #[error("'{name}' of the image has {bytes} bytes, of at most {max}")]
    TooLong {
        /// The path in the archive or layout.
        name: String,
        /// Its length.
        bytes: u64,
        /// The maximum.
        max: u64,
    },
    /// A file is no JSON of the expected form.
    #[error("'{name}' of the image is not what the image specification says: {source}")]
    Json {
        /// The path in the archive or layout.
        name: String,
        /// What is wrong.
        source: serde_json::Error,
    },
    /// A value in a file is not supported or out of bounds.
    #[error("'{name}' of the image is not supported: {why}")]
    Unsupported {
        /// The path in the archive or layout.
        name: String,
        /// What is wrong.
        why: String,
    },
    /// The archive has several images, and none was named.
    #[error("there are {} images: name one of them: {}", names.len(), names.join(", "))]
    Several {
        /// Their names.
        names: Vec<String>,
    },
    /// The named image is not there.
    #[error("there is no image '{name}': there {} {}", are(names), names.join(", "))]
    NoSuchImage {
        /// The name that was given.
        name: String,
        /// The names that there are.
        names: Vec<String>,
    },
    /// The image is not for the wanted architectures.
    #[error("the image is not for {}: it is for {}", wanted.join(" or "), found.join(", "))]
    Architecture {
        /// What was wanted; empty for Linux of any architecture.
        wanted: Vec<String>,
        /// What there is.
        found: Vec<String>,
    },
    /// The bytes of a file do not have its digest or length.
    #[error(
        "'{name}' of the image is damaged: expected {expected}, found {found}; save or copy \
             the image again"
    )]
    Damaged {
        /// The path in the archive or layout.
        name: String,
        /// The digest or length that the image says.
        expected: String,
        /// That of the bytes.
        found: String,
    },
    /// A layer is not valid.
    #[error("'{name}' of the image: {source}")]
    Layer {
        /// The path in the archive or layout.
        name: String,
        /// What is wrong.
        source: ArchiveError,
    },
    /// The image is too large.
    #[error("the image is too large for a package: {0}")]
    Limit(#[from] LimitError),
    /// A chunk cannot be kept.
    #[error("the chunks of the image cannot be kept: {0}")]
    Sink(#[source] io::Error),
    /// A manifest cannot have what the image says.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
}

/// A layer of an image, or an archive of images, cannot be read.
#[derive(Debug, Error)]
pub enum ArchiveError {
    /// The stream could not be read.
    #[error("the archive cannot be read at byte {offset}: {source}")]
    Read {
        /// The offset in the archive, in bytes.
        offset: u64,
        /// The error of the stream.
        source: io::Error,
    },
    /// The stream is not a valid archive.
    #[error("it is no valid tar archive at byte {offset}: {why}")]
    Tar {
        /// The offset in the archive, in bytes.
        offset: u64,
        /// What is wrong.
        why: String,
    },
    /// A member cannot be in a package.
    #[error("'{path}' cannot be in a package: {why}")]
    Member {
        /// The path in the archive, escaped and not longer than a line.
        path: String,
        /// Why.
        why: String,
    },
    /// A path is none of a package.
    #[error(transparent)]
    Path(#[from] PathError),
    /// The content of a file cannot be read.
    #[error("the content of '{path}' cannot be read: {source}")]
    Content {
        /// The path in the archive, escaped and not longer than a line.
        path: String,
        /// The error of the stream.
        source: io::Error,
    },
    /// There is too much.
    #[error(transparent)]
    Limit(#[from] LimitError),
    /// A chunk cannot be kept.
    #[error("a chunk cannot be kept: {0}")]
    Sink(#[source] io::Error),
    /// A tree cannot have an entry.
    #[error(transparent)]
    Tree(#[from] TreeError),
}

impl ArchiveError {
    /// The limit that ended the stream.
    pub(super) fn limit(&self) -> Option<LimitError> {
        let (Self::Read { source, .. } | Self::Content { source, .. }) = self else { return None };
        source.get_ref().and_then(|error| error.downcast_ref::<LimitError>()).cloned()
    }
}

fn are(names: &[String]) -> &'static str {
    match names {
        [] => "are no names",
        [_] => "is",
        _ => "are",
    }
}
