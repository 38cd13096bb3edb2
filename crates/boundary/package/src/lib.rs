//! What a package is: its chunks, its trees of files and its manifest, and the way from directories and
//! container images, and to directories.
//!
//! The bytes of a package are *chunks*, named by their BLAKE3 digest. A *tree* is the list of the
//! files of one layer, with their metadata and the chunks of their content. A *manifest* names the
//! layers for each architecture, and its digest is the name of the package: who knows it can check
//! every byte that it is given.
//!
//! The same content is the same bytes on every machine: encodings have one form only, and readers
//! reject every other. Everything that is read is believed to be hostile: it is bounded and checked
//! before it is used.
//!
//! Deliberately absent: where chunks are kept, the network, names and versions of packages, registries
//! of images, what an image's configuration means for a task. Everything blocks; a shell runs it on a
//! thread of its own.
//!
//! - [`chunk`]: digests, the cutter, where chunks go to and come from
//! - [`tree`]: the files of a layer, and their encoding
//! - [`layer`]: what can be wrong with the tree of a layer
//! - [`located`]: where chunks are in an unpacked layer
//! - [`manifest`]: the layers of a package, and how an image is started
//! - [`directory`]: from a directory to a package
//! - [`archive`]: from a container image to a package
//! - [`unpack`]: from a layer to a directory
//! - [`verify`]: whether all of a package is there and right

pub mod archive;
mod beneath;
pub mod chunk;
mod contents;
pub mod directory;
mod fields;
pub mod layer;
pub mod located;
pub mod manifest;
mod sys;
pub mod tree;
pub mod unpack;
pub mod verify;

pub use archive::{ImportError, ImportOptions, import};
pub use chunk::{ChunkRef, ChunkSink, ChunkSource, MemoryChunks, digest_of};
pub use directory::{PackError, PackLimits, Packed, pack};
pub use layer::LayerError;
pub use located::{ChunkPlaces, LocateError};
pub use manifest::{ImageConfig, Layer, Manifest, ManifestError, Variant};
pub use tree::{EntryAttributes, EntryKind, Segment, TreeEntry, TreeError, TreeReader, TreeWriter};
pub use unpack::{Form, UnpackError, Unpacked, unpack};
pub use verify::{Verified, VerifyError, reachable, verify};
