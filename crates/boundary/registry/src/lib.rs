//! Images of a registry, by the OCI distribution protocol: what a name means, and the download of an image into an
//! [OCI layout](https://github.com/opencontainers/image-spec/blob/main/image-layout.md), a directory with `oci-layout`,
//! `index.json` and `blobs/sha256/…`.
//!
//! A registry is a server of others, and everything that it sends is bounded and checked: each manifest and each
//! blob against its digest and its length while it is read, each wait against a time. Nothing incomplete has its final
//! name, and a download that breaks continues where it was.
//!
//! Credentials are those of `docker login`. They are sent to the registry and to the token service that it names, and
//! to no other host: a redirect to another one is followed without them.
//!
//! Deliberately absent: unpacking, what a package is, uploads, a cell.
//!
//! - [`mod@reference`]: names of images
//! - [`digest`]: digests of blobs
//! - [`platform`]: which variants of an image are wanted
//! - [`settings`]: trusted certificates, credentials, timeouts
//! - [`credentials`]: where user names and passwords come from
//! - [`client`]: resolving and downloading
//! - [`error`]: what can go wrong

mod authentication;
mod blob;
mod challenge;
pub mod client;
mod collect;
mod connect;
pub mod credentials;
pub mod digest;
pub mod error;
mod exchange;
mod layout;
mod manifest;
pub mod platform;
mod progress;
pub mod reference;
mod session;
pub mod settings;
mod trust;
mod words;

pub use client::{DownloadedImage, RegistryClient};
pub use credentials::{CredentialSource, RegistryCredentials};
pub use digest::BlobDigest;
pub use error::RegistryError;
pub use platform::{Platform, PlatformError, Platforms};
pub use progress::{DownloadProgress, ProgressReport};
pub use reference::{ImageReference, ReferenceError};
pub use settings::{Patience, ProxyChoice, RegistrySettings};
pub use words::ServerWords;
