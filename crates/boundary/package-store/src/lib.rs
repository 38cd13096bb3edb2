//! The bytes of packages: chunks, found by their digest, in immutable packs.
//!
//! A chunk is a piece of a file, a tree or a manifest: 1 byte to 16 MiB, named by its BLAKE3 digest. Chunks
//! are stored in *packs*: objects of at most 32 MiB that are written once, on a directory or an S3-compatible
//! store. The footer of a pack is an index of its chunks, with the user who uploaded them and the moment. It has a
//! digest of its own, which is also the pack's name: an object that is cut off or that something else wrote is
//! recognized and set aside.
//!
//! Any number of processes may use one store. Each keeps the indexes of all packs in memory (at most 64 bytes a
//! chunk), reads them at its start, and lists the packs again before it reports that a chunk is missing. Nothing
//! else is remembered between processes: who uploaded what is in the packs ([`PackageStore::has_of`]).
//!
//! A pack is durable once it is written; on a directory its data and its name are synced. An upload that ends
//! early keeps the packs written so far.
//!
//! [`PackageStore::collect`] removes what is not needed any more. What an upload relies on without having sent
//! it is *held* by an entry without bytes in a pack of its own ([`Upload::rely`]), which every collector sees.
//!
//! Deliberately absent: what a manifest refers to, who may read a package, names and versions, the network.
//!
//! - [`location`]: a directory or a bucket
//! - [`settings`]: bounds and timeouts
//! - [`store`]: a handle on the store
//! - [`upload`]: chunks of one user on their way into packs
//! - [`collect`]: removal of what is not needed

pub mod collect;
mod error;
mod index;
pub mod location;
mod objects;
mod pack;
mod refresh;
pub mod settings;
pub mod store;
pub mod upload;

pub use collect::Collected;
pub use error::{Error, StoreResult};
pub use location::StoreLocation;
pub use pack::{MAX_CHUNK_BYTES, MAX_PACK_BYTES, PackId};
pub use settings::{Clock, Settings};
pub use store::{PackageStore, Totals};
pub use upload::Upload;
