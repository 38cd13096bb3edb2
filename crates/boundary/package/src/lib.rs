//! Packages: immutable sets of files (paper, sections 2.3 and 3.2).
//!
//! ```text
//! manifest ── one chunk: for each architecture its layers, and the configuration of an image
//!    └─ tree ── the entries of a layer: paths, kinds, modes, owners, times; cut into chunks
//!         └─ chunk ── bytes of a file, at most 256 KiB, by their BLAKE3 digest
//! ```
//!
//! Everything is addressed by the digest of its bytes, and everything is canonical: equal files give equal bytes. So a
//! new version of a package shares the chunks of what did not change, and the digest of a manifest stands for every
//! byte of its package.
//!
//! Deliberately absent: where chunks are kept (`package-store`), how they travel (`client`), what a package is called and
//! who may use it (the cell).
//!
//! - [`chunk`]: digests, and where files are cut
//! - [`tree`]: the entries of a layer
//! - [`manifest`]: what a package consists of
//! - [`directory`]: a directory becomes a package
//! - [`unpack`]: a layer becomes files
//! - [`verify`]: a whole package is checked

pub mod chunk;
pub mod directory;
pub mod manifest;
mod message;
pub mod tree;
pub mod unpack;
pub mod verify;
