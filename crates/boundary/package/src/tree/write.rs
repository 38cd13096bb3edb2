//! Writing a tree.

use std::io::Write;

use prost::Message as _;

use super::check::Checker;
use super::{MAX_MESSAGE_BYTES, Malformed, TreeEntry, TreeError, wire};

/// Encodes the entries of a tree, which have to come in the order of their paths.
#[derive(Debug)]
pub struct TreeWriter<W> {
    into: W,
    checker: Checker,
    encoded: Vec<u8>,
}

impl<W: Write> TreeWriter<W> {
    /// A tree without entries, the encoding of which is no bytes.
    pub fn new(into: W) -> Self {
        Self { into, checker: Checker::default(), encoded: Vec::new() }
    }

    /// Adds an entry.
    ///
    /// # Errors
    ///
    /// The entry breaks a rule of trees, and nothing was written; or it cannot be written.
    pub fn write(&mut self, entry: &TreeEntry) -> Result<(), TreeError> {
        let message = wire::encode(entry);
        if message.encoded_len() > MAX_MESSAGE_BYTES {
            return Err(self.checker.malformed(Malformed::Length));
        }
        self.encoded.clear();
        self.encoded.reserve(message.encoded_len());
        message
            .encode_length_delimited(&mut self.encoded)
            .map_err(|error| self.checker.malformed(Malformed::Message(error.to_string())))?;
        let number = self.checker.entry();
        self.checker.next(entry, self.encoded.len())?;
        self.into.write_all(&self.encoded).map_err(|source| TreeError::Io { entry: number, source })
    }

    /// How many entries there are.
    pub fn entries(&self) -> u64 {
        self.checker.entry()
    }

    /// What the tree is written to.
    pub fn get_mut(&mut self) -> &mut W {
        &mut self.into
    }

    /// Ends the tree. Returns what it was written to, which is not flushed.
    pub fn into_inner(self) -> W {
        self.into
    }
}
