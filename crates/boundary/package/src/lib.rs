//! Packages: what tasks run from, as chunks, trees and manifests that are named by their digest.
pub mod archive;
pub mod chunk;
pub mod directory;
pub mod layer;
mod limits;
pub mod manifest;
mod sys;
pub mod tree;
pub mod unpack;

pub use limits::{LimitError, Limits};

/// The messages of the formats, generated from `package.proto`. Only this crate uses them.
mod proto {
    #![allow(missing_docs, clippy::all, clippy::doc_markdown, unreachable_pub)]
    include!(concat!(env!("OUT_DIR"), "/bourg.package.v1.rs"));
}
