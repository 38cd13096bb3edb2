//! Why an image cannot be imported.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

use super::limits::LimitError;
use super::path::PathError;
use crate::manifest::{ImageStartError, ManifestError};
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
    #[error("the image is incomplete: it has no '{}'; save or copy it again", .name.escape_debug())]
    Missing {
        /// The path in the archive or layout.
        name: String,
    },
    /// A file is too long for its purpose.
    #[error("'{}' of the image has {bytes} bytes, of at most {max}", .name.escape_debug())]
    TooLong {
        /// The path in the archive or layout.
        name: String,
        /// Its length.
        bytes: u64,
        /// The maximum.
        max: u64,
    },
    /// A file is no JSON of the expected form.
    #[error(
        "'{}' of the image is not what the image specification says: {source}",
        .name.escape_debug()
    )]
    Json {
        /// The path in the archive or layout.
        name: String,
        /// What is wrong.
        source: serde_json::Error,
    },
    /// A value in a file is not supported or out of bounds.
    #[error("'{}' of the image is not supported: {why}", .name.escape_debug())]
    Unsupported {
        /// The path in the archive or layout.
        name: String,
        /// What is wrong.
        why: String,
    },
    /// The archive has several images, and none was named.
    #[error("there are {} images: name one of them: {}", names.len(), listed(names, ", "))]
    Several {
        /// Their names.
        names: Vec<String>,
    },
    /// The named image is not there.
    #[error(
        "there is no image '{}': there {} {}",
        .name.escape_debug(), are(names), listed(names, ", ")
    )]
    NoSuchImage {
        /// The name that was given.
        name: String,
        /// The names that there are.
        names: Vec<String>,
    },
    /// The image is not for the wanted architectures.
    #[error("the image is not for {}: it is for {}", listed(wanted, " or "), listed(found, ", "))]
    Architecture {
        /// What was wanted; empty for Linux of any architecture.
        wanted: Vec<String>,
        /// What there is.
        found: Vec<String>,
    },
    /// The bytes of a file do not have its digest or length.
    #[error(
        "'{}' of the image is damaged: expected {expected}, found {found}; save or copy the image \
         again",
        .name.escape_debug()
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
    #[error("'{}' of the image: {source}", .name.escape_debug())]
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
    /// No task could be started as the image says.
    #[error("the image cannot be started: {0}")]
    Start(#[from] ImageStartError),
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

/// The first names, escaped: an image may have any.
fn listed(names: &[String], between: &str) -> String {
    const SHOWN: usize = 20;
    let shown = |name: &String| name.chars().take(100).flat_map(char::escape_debug).collect();
    let mut texts: Vec<String> = names.iter().take(SHOWN).map(shown).collect();
    if names.len() > SHOWN {
        texts.push("…".to_owned());
    }
    texts.join(between)
}

fn are(names: &[String]) -> &'static str {
    match names {
        [] => "are no names",
        [_] => "is",
        _ => "are",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_others_are_shown_without_control_characters() {
        let names = vec!["a\u{1b}[2J".repeat(1000); 1000];
        let name = "\u{1b}\n".to_owned();
        let errors = [
            ImportError::Several { names: names.clone() },
            ImportError::NoSuchImage { name: name.clone(), names: names.clone() },
            ImportError::Architecture { wanted: vec![name.clone()], found: names },
            ImportError::Missing { name },
        ];
        for error in errors {
            let shown = error.to_string();
            assert!(!shown.contains(char::is_control) && shown.len() < 20_000, "{shown}");
        }
    }
}
