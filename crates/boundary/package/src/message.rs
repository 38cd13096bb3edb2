//! The messages of trees and manifests. Their bytes are hashed: fields are written in the order of their numbers, and
//! what has its default value is left out, as protobuf encoders do that are deterministic.

/// A chunk.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Chunk {
    #[prost(bytes = "vec", tag = "1")]
    pub(crate) digest: Vec<u8>,
    #[prost(uint32, tag = "2")]
    pub(crate) length: u32,
}

/// A part of a file: a chunk, or a hole.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Segment {
    #[prost(message, optional, tag = "1")]
    pub(crate) chunk: Option<Chunk>,
    #[prost(uint64, tag = "2")]
    pub(crate) hole: u64,
}

/// An extended attribute.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Attribute {
    #[prost(bytes = "vec", tag = "1")]
    pub(crate) name: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    pub(crate) value: Vec<u8>,
}

/// An entry of a tree.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Entry {
    #[prost(bytes = "vec", tag = "1")]
    pub(crate) path: Vec<u8>,
    #[prost(uint32, tag = "2")]
    pub(crate) kind: u32,
    #[prost(uint32, tag = "3")]
    pub(crate) mode: u32,
    #[prost(uint32, tag = "4")]
    pub(crate) uid: u32,
    #[prost(uint32, tag = "5")]
    pub(crate) gid: u32,
    #[prost(int64, tag = "6")]
    pub(crate) seconds: i64,
    #[prost(uint32, tag = "7")]
    pub(crate) nanos: u32,
    #[prost(message, repeated, tag = "8")]
    pub(crate) attributes: Vec<Attribute>,
    #[prost(message, repeated, tag = "9")]
    pub(crate) segments: Vec<Segment>,
    /// Of a symbolic link, or of a hard link.
    #[prost(bytes = "vec", tag = "10")]
    pub(crate) target: Vec<u8>,
    #[prost(uint32, tag = "11")]
    pub(crate) major: u32,
    #[prost(uint32, tag = "12")]
    pub(crate) minor: u32,
    #[prost(bool, tag = "13")]
    pub(crate) opaque: bool,
}

/// A layer.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Layer {
    #[prost(message, repeated, tag = "1")]
    pub(crate) tree: Vec<Chunk>,
    #[prost(bytes = "vec", tag = "2")]
    pub(crate) digest: Vec<u8>,
    #[prost(uint64, tag = "3")]
    pub(crate) stored: u64,
    #[prost(uint64, tag = "4")]
    pub(crate) unpacked: u64,
    #[prost(uint64, tag = "5")]
    pub(crate) entries: u64,
}

/// The configuration of an image.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Config {
    #[prost(string, repeated, tag = "1")]
    pub(crate) entrypoint: Vec<String>,
    #[prost(string, repeated, tag = "2")]
    pub(crate) cmd: Vec<String>,
    #[prost(string, repeated, tag = "3")]
    pub(crate) env: Vec<String>,
    #[prost(string, tag = "4")]
    pub(crate) working_dir: String,
    #[prost(string, tag = "5")]
    pub(crate) user: String,
    #[prost(string, tag = "6")]
    pub(crate) stop_signal: String,
    #[prost(btree_map = "string, string", tag = "7")]
    pub(crate) labels: std::collections::BTreeMap<String, String>,
    #[prost(string, repeated, tag = "8")]
    pub(crate) exposed_ports: Vec<String>,
}

/// What a package is on one architecture.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Variant {
    #[prost(string, tag = "1")]
    pub(crate) architecture: String,
    #[prost(message, repeated, tag = "2")]
    pub(crate) layers: Vec<Layer>,
    #[prost(message, optional, tag = "3")]
    pub(crate) config: Option<Config>,
}

/// A manifest.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Manifest {
    #[prost(message, repeated, tag = "1")]
    pub(crate) variants: Vec<Variant>,
}
