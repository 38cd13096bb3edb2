//! Reading a tree.

use std::io::{self, Read};

use prost::Message as _;

use super::check::Checker;
use super::{MAX_MESSAGE_BYTES, Malformed, TreeEntry, TreeError, wire};

/// The entries of an encoded tree, each of them checked. Nothing follows an error.
///
/// It reads byte by byte between entries: give it a reader with a buffer.
#[derive(Debug)]
pub struct TreeReader<R> {
    from: R,
    checker: Checker,
    /// The encoded entry, and its canonical encoding.
    buffers: (Vec<u8>, Vec<u8>),
    done: bool,
}

impl<R: Read> TreeReader<R> {
    /// At the first entry of a tree.
    pub fn new(from: R) -> Self {
        Self { from, checker: Checker::default(), buffers: Default::default(), done: false }
    }

    /// How many entries were read.
    pub fn entries(&self) -> u64 {
        self.checker.entry()
    }

    /// What the tree is read from.
    pub fn get_ref(&self) -> &R {
        &self.from
    }

    fn read(&mut self) -> Result<Option<TreeEntry>, TreeError> {
        let number = self.checker.entry();
        let io = |source| TreeError::Io { entry: number, source };
        let Some(length) = self.length()? else { return Ok(None) };
        let (encoded, canonical) = &mut self.buffers;
        encoded.clear();
        self.from.by_ref().take(length as u64).read_to_end(encoded).map_err(io)?;
        if encoded.len() < length {
            return Err(io(io::ErrorKind::UnexpectedEof.into()));
        }
        wire::scan(encoded).map_err(|malformed| self.checker.malformed(malformed))?;
        let message = wire::WireEntry::decode(encoded.as_slice())
            .map_err(|error| self.checker.malformed(Malformed::Message(error.to_string())))?;
        let entry = wire::decode(message).map_err(|fault| self.checker.malformed(fault))?;
        canonical.clear();
        wire::encode(&entry)
            .encode(canonical)
            .map_err(|error| self.checker.malformed(Malformed::Message(error.to_string())))?;
        if encoded != canonical {
            return Err(self.checker.malformed(Malformed::NotCanonical));
        }
        self.checker.next(&entry, prost::length_delimiter_len(length) + length)?;
        Ok(Some(entry))
    }

    /// The length in front of an entry: none at the end of the stream.
    fn length(&mut self) -> Result<Option<usize>, TreeError> {
        let number = self.checker.entry();
        let (mut length, mut shift) = (0_usize, 0_u32);
        loop {
            let mut byte = [0];
            let read = loop {
                match self.from.read(&mut byte) {
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    read => {
                        break read.map_err(|source| TreeError::Io { entry: number, source })?;
                    }
                }
            };
            if read == 0 && shift == 0 {
                return Ok(None);
            } else if read == 0 {
                let source = io::ErrorKind::UnexpectedEof.into();
                return Err(TreeError::Io { entry: number, source });
            }
            length |= usize::from(byte[0] & 0x7f) << shift;
            shift += 7;
            let last = byte[0] & 0x80 == 0;
            // A zero at the end is a longer encoding than needed, and an entry has at least a path.
            if length > MAX_MESSAGE_BYTES || shift > 28 || (last && byte[0] == 0) {
                return Err(self.checker.malformed(Malformed::Length));
            }
            if last {
                return Ok(Some(length));
            }
        }
    }
}

impl<R: Read> Iterator for TreeReader<R> {
    type Item = Result<TreeEntry, TreeError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.done {
            return None;
        }
        let next = self.read().transpose();
        self.done = !matches!(next, Some(Ok(_)));
        next
    }
}
