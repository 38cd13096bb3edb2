//! What a replica keeps on its disk.

use bytes::Bytes;
use model::{Level, LogIndex, Term};
use thiserror::Error;

/// One record of the replicated log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogEntry {
    /// The term in which it was proposed.
    pub term: Term,
    /// Its place in the log.
    pub index: LogIndex,
    /// The level of the state machine that it needs.
    pub level: Level,
    /// The operation and its moment, encoded; empty for the entry with which a term begins.
    pub data: Bytes,
}

/// What a replica must not forget about elections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HardState {
    /// The newest term it has seen.
    pub term: Term,
    /// For which replica it voted in that term; 0 for none.
    pub vote: u64,
}

impl HardState {
    /// How many bytes [`HardState::to_bytes`] gives.
    pub const BYTES: usize = 16;

    /// Its form on disk: term and vote, little-endian.
    #[must_use]
    pub fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..8].copy_from_slice(&self.term.0.to_le_bytes());
        bytes[8..].copy_from_slice(&self.vote.to_le_bytes());
        bytes
    }

    /// Reads that form; none where it is not one.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (term, vote) = (bytes.get(..8)?, bytes.get(8..16)?);
        (bytes.len() == Self::BYTES).then_some(Self {
            term: Term(u64::from_le_bytes(term.try_into().ok()?)),
            vote: u64::from_le_bytes(vote.try_into().ok()?),
        })
    }
}

/// A committed record that this build cannot apply. The replica must stop: going on without it
/// would make its state differ from the others'.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum UnknownOperation {
    /// The record needs a level that this build does not know.
    #[error(
        "record {index} needs level {needs} of the state machine, this program knows {knows}: start a newer one"
    )]
    Level {
        /// Which record.
        index: LogIndex,
        /// The level it needs.
        needs: Level,
        /// The level there is.
        knows: Level,
    },
    /// The record cannot be decoded.
    #[error(
        "record {index} cannot be read ({what}): restore this replica from a checkpoint, or from another replica"
    )]
    Malformed {
        /// Which record.
        index: LogIndex,
        /// What is wrong with it.
        what: String,
    },
}
