//! Decodes trees, piece by piece.

use model::Digest;
use prost::Message as _;
use prost::encoding::decode_varint;

use super::check::Checker;
use super::path::PathError;
use super::wire::{WireError, from_wire, to_wire};
use super::{ENTRY_BYTES_MAX, EntryPath, Layer, Tree, TreeEntry};
use crate::chunk::{ChunkSource, fetch};
use crate::proto;

/// The maximum length of the varint before an entry.
const VARINT_BYTES_MAX: usize = 10;

/// The bytes are not an encoded tree. Entries are counted from 0.
#[derive(Debug, thiserror::Error)]
pub enum DecodeError {
    /// The bytes end within an entry.
    #[error("the tree ends within its entry {index}: it is truncated")]
    Truncated {
        /// The number of the entry.
        index: u64,
    },
    /// An entry is too long.
    #[error("entry {index} of the tree has {bytes} bytes, more than the maximum of 64 MiB")]
    TooLong {
        /// The number of the entry.
        index: u64,
        /// Its length.
        bytes: u64,
    },
    /// An entry is no message.
    #[error("entry {index} of the tree is not a message of the format: {source}")]
    Message {
        /// The number of the entry.
        index: u64,
        /// The error of the format.
        source: prost::DecodeError,
    },
    /// The path of an entry, or the target of a hard link, is invalid.
    #[error("entry {index} of the tree: {source}")]
    Path {
        /// The number of the entry.
        index: u64,
        /// What is wrong with it.
        source: PathError,
    },
    /// A value of an entry is out of range.
    #[error("entry {index} of the tree: {why}")]
    Value {
        /// The number of the entry.
        index: u64,
        /// What is wrong.
        why: &'static str,
    },
    /// An entry breaks a rule of trees.
    #[error("entry {index} of the tree, '{path}': {why}")]
    TreeEntry {
        /// The number of the entry.
        index: u64,
        /// Its path.
        path: EntryPath,
        /// The rule.
        why: &'static str,
    },
}

/// Decodes the bytes of a tree as they come, and checks the rules of trees.
///
/// It has at most one entry and the bytes of one [`Decoder::feed`] in memory, and of earlier
/// entries what the rules need: 16 bytes for each.
#[derive(Debug, Default)]
pub struct Decoder {
    checker: Checker,
    /// The bytes that are not decoded yet begin at `begin`.
    bytes: Vec<u8>,
    begin: usize,
    index: u64,
    again: Vec<u8>,
}

impl Decoder {
    /// Adds the next bytes of the tree.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.bytes.drain(..self.begin);
        self.begin = 0;
        self.bytes.extend_from_slice(bytes);
    }

    /// The next entry, or `None` if its bytes are not all there.
    ///
    /// # Errors
    /// What is wrong with it. The decoder must not be used afterwards.
    #[expect(clippy::should_implement_trait, reason = "more bytes may follow a None")]
    pub fn next(&mut self) -> Result<Option<TreeEntry>, DecodeError> {
        let index = self.index;
        let waiting = &self.bytes[self.begin..];
        let mut rest = waiting;
        let length = match decode_varint(&mut rest) {
            Ok(length) => length,
            Err(_) if waiting.len() < VARINT_BYTES_MAX => return Ok(None),
            Err(source) => return Err(DecodeError::Message { index, source }),
        };
        let length = usize::try_from(length).ok().filter(|length| *length <= ENTRY_BYTES_MAX);
        let Some(length) = length else {
            let bytes = decode_varint(&mut &waiting[..]).unwrap_or(u64::MAX);
            return Err(DecodeError::TooLong { index, bytes });
        };
        let Some(message) = rest.get(..length) else { return Ok(None) };
        let encoded = &waiting[..waiting.len() - rest.len() + length];
        let entry = proto::Entry::decode(message)
            .map_err(|source| DecodeError::Message { index, source })?;
        let entry = from_wire(entry).map_err(|error| match error {
            WireError::Path(source) => DecodeError::Path { index, source },
            WireError::Why(why) => DecodeError::Value { index, why },
        })?;
        let fault = |why| DecodeError::TreeEntry { index, path: entry.path.clone(), why };
        self.again.clear();
        let same = to_wire(&entry).encode_length_delimited(&mut self.again).is_ok()
            && self.again == encoded;
        if !same {
            return Err(fault("it is not encoded in the canonical way"));
        }
        self.checker.next(&entry).map_err(fault)?;
        self.begin += encoded.len();
        self.index += 1;
        Ok(Some(entry))
    }

    /// Ends the tree, and returns the number of entries.
    ///
    /// # Errors
    /// [`DecodeError::Truncated`] if bytes are left.
    pub fn finish(self) -> Result<u64, DecodeError> {
        match self.begin == self.bytes.len() {
            true => Ok(self.index),
            false => Err(DecodeError::Truncated { index: self.index }),
        }
    }
}

/// Decodes a whole tree.
///
/// # Errors
/// What is wrong with its first wrong entry.
pub fn decode(bytes: &[u8]) -> Result<Tree, DecodeError> {
    let mut decoder = Decoder::default();
    decoder.feed(bytes);
    let mut entries = Vec::new();
    while let Some(entry) = decoder.next()? {
        entries.push(entry);
    }
    decoder.finish()?;
    Ok(Tree { entries })
}

/// The tree of a layer cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// A chunk of the tree is missing or damaged.
    #[error("cannot get a chunk of the tree {tree}: {source}")]
    Source {
        /// The digest of the tree.
        tree: Digest,
        /// The error of the source.
        source: std::io::Error,
    },
    /// The tree is not valid.
    #[error("the tree {tree} is not valid: {source}")]
    Decode {
        /// The digest of the tree.
        tree: Digest,
        /// What is wrong.
        source: DecodeError,
    },
    /// The manifest does not describe the tree.
    #[error(
        "the manifest does not describe the tree {tree}: {why}; the package is damaged, \
             import it again"
    )]
    Manifest {
        /// The digest in the manifest.
        tree: Digest,
        /// What is different.
        why: String,
    },
}

/// Reads the entries of a layer's tree from a source, chunk by chunk.
#[derive(Debug)]
pub struct TreeReader<'a> {
    layer: &'a Layer,
    next_chunk: usize,
    decoder: Decoder,
    hasher: blake3::Hasher,
    chunk: Vec<u8>,
}

impl<'a> TreeReader<'a> {
    /// Begins with the first entry.
    #[must_use]
    pub fn new(layer: &'a Layer) -> Self {
        Self {
            layer,
            next_chunk: 0,
            decoder: Decoder::default(),
            hasher: blake3::Hasher::new(),
            chunk: Vec::new(),
        }
    }

    /// The next entry, or `None` after the last one. By then the digest and the number of entries
    /// have been compared with those of the layer; what came before is verified chunk by chunk.
    ///
    /// # Errors
    /// A missing or damaged chunk, or an invalid tree. The reader must not be used afterwards.
    pub fn next<S>(&mut self, source: &mut S) -> Result<Option<TreeEntry>, ReadError>
    where
        S: ChunkSource + ?Sized,
    {
        let tree = self.layer.digest;
        let decode = |source| ReadError::Decode { tree, source };
        loop {
            if let Some(entry) = self.decoder.next().map_err(decode)? {
                return Ok(Some(entry));
            }
            let Some(chunk) = self.layer.chunks.get(self.next_chunk) else { break };
            fetch(source, chunk, &mut self.chunk)
                .map_err(|source| ReadError::Source { tree, source })?;
            self.hasher.update(&self.chunk);
            self.decoder.feed(&self.chunk);
            self.next_chunk += 1;
        }
        let entries = std::mem::take(&mut self.decoder).finish().map_err(decode)?;
        let digest = Digest::from_bytes(*self.hasher.finalize().as_bytes());
        if digest != tree {
            let why = format!("its digest is {digest}");
            return Err(ReadError::Manifest { tree, why });
        }
        if entries != self.layer.entries {
            let why = format!("it has {entries} entries instead of {}", self.layer.entries);
            return Err(ReadError::Manifest { tree, why });
        }
        Ok(None)
    }
}
