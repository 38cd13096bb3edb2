//! Why an image cannot be imported.

use std::io;
use std::path::PathBuf;

use model::Bytes;

use crate::layer::LayerError;
use crate::limits::LimitError;
use crate::manifest::ManifestError;
use crate::tree::EncodeError;

/// An image cannot be imported.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
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
        source: LayerError,
    },
    /// A file of the image is missing.
    #[error("the image is incomplete: it has no '{name}'; save or copy it again")]
    Missing {
        /// The path in the archive or layout.
        name: String,
    },
    /// A file is too long for its purpose.
    #[error("'{name}' of the image has {bytes}, more than the maximum of {max}")]
    TooLong {
        /// The path in the archive or layout.
        name: String,
        /// Its length.
        bytes: Bytes,
        /// The maximum.
        max: Bytes,
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
        source: LayerError,
    },
    /// The image is too large.
    #[error("the image is too large: {0}")]
    Limit(#[from] LimitError),
    /// A tree cannot be encoded or kept.
    #[error(transparent)]
    Encode(#[from] EncodeError),
    /// The manifest would not be valid.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
}

fn are(names: &[String]) -> &'static str {
    match names {
        [] => "are no names",
        [_] => "is",
        _ => "are",
    }
}
