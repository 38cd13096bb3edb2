//! Packages: the files that tasks run from, as chunks, trees and manifests named by their digest.
//!
//! A package is a [`manifest`]. It names the [`tree`] of each layer, and a tree names the
//! [`chunk`]s of its files, each by the BLAKE3 digest of its bytes. So a package never changes
//! under its digest, files with common parts are stored once, and whoever has the digest of a
//! package can verify everything that it receives.
//!
//! - [`directory`]: packs a directory
//! - [`archive`]: imports a container image
//! - [`layer`]: reads one layer of an image
//! - [`unpack`]: writes layers into a directory, for overlay mounts or as one root
//! - [`verify`]: compares a whole package with what a source has
//!
//! Callers provide where chunks are kept ([`chunk::ChunkSink`]) and where they come from
//! ([`chunk::ChunkSource`]).
//!
//! Deliberately absent: names and versions of packages, a store and its garbage collection,
//! transfers between machines, registries, mounts, and what an image's configuration means for a
//! task. Everything blocks; a shell runs it on a thread of its own.

pub mod archive;
pub mod chunk;
pub mod directory;
pub mod layer;
mod limits;
pub mod manifest;
mod sys;
pub mod tree;
pub mod unpack;
pub mod verify;

pub use limits::{LimitError, PackageLimits};

/// The messages of the formats, generated from `package.proto`. Only this crate uses them.
mod proto {
    #![allow(missing_docs, clippy::all, clippy::doc_markdown, unreachable_pub)]
    include!(concat!(env!("OUT_DIR"), "/bourg.package.v1.rs"));
}
