//! What a task finds of its packages and its image, once they are on this machine.

use std::collections::BTreeMap;
use std::path::PathBuf;

use borglet::ImageDefaults;
use linux::record::{Bind, ImageRoot, SecretVariable};
use model::Span;

/// What a task finds of its packages.
#[derive(Debug, Default)]
pub(super) struct FoundPackages {
    /// Its packages of files.
    pub(super) binds: Vec<Bind>,
    /// Its variables with secrets.
    pub(super) secret_env: Vec<SecretVariable>,
    /// What the names stand for to which its description refers.
    pub(super) names: BTreeMap<String, String>,
    /// Its root, if that is an image.
    pub(super) image: Option<FoundImage>,
    /// How long it took until they were here; zero if they were.
    pub(super) fetched: Span,
}

/// An image on this machine.
#[derive(Debug)]
pub(super) struct FoundImage {
    /// The directories of its layers, and its user.
    pub(super) root: ImageRoot,
    /// How a task is started if its job does not say it.
    pub(super) defaults: ImageDefaults,
    /// Where it is started.
    pub(super) working_directory: PathBuf,
    /// The number of the signal that asks it to stop; `None`: SIGTERM.
    pub(super) stop_signal: Option<u8>,
}
