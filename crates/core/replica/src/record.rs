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

/// What a replica must not forget about elections and who takes part in them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HardState {
    /// The newest term it has seen.
    pub term: Term,
    /// For which replica it voted in that term; 0 for none.
    pub vote: u64,
    /// Up to here it knows that all agree, as far as it matters who takes part: a record that
    /// changes that is applied only after this is durable. 0 where none ever was.
    pub agreed: LogIndex,
    /// Up to here it knew all records to be committed when this was noted. A leader that has other
    /// records there was elected by replicas that lost what they had acknowledged.
    pub committed: LogIndex,
}

impl HardState {
    /// How many bytes the form has: without [`Self::agreed`] and [`Self::committed`], with the
    /// first, and with both.
    const BYTES: [usize; 3] = [16, 24, 32];

    /// Its form on disk: term, vote, what is agreed upon and what is committed, little-endian; the
    /// last of them left out where they are 0, as builds before them do not know them.
    #[must_use]
    pub fn to_bytes(self) -> Vec<u8> {
        let mut bytes = [self.term.0.to_le_bytes(), self.vote.to_le_bytes()].concat();
        if self.agreed.max(self.committed) > LogIndex(0) {
            bytes.extend(self.agreed.0.to_le_bytes());
        }
        if self.committed > LogIndex(0) {
            bytes.extend(self.committed.0.to_le_bytes());
        }
        bytes
    }

    /// Reads that form; none where it is not one.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let number = |at: usize| Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?));
        Self::BYTES.contains(&bytes.len()).then_some(Self {
            term: Term(number(0)?),
            vote: number(8)?,
            agreed: LogIndex(number(16).unwrap_or(0)),
            committed: LogIndex(number(24).unwrap_or(0)),
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
        "record {index} cannot be read ({what}): remove this replica (`bourg master remove`) and add it anew with an empty directory"
    )]
    Malformed {
        /// Which record.
        index: LogIndex,
        /// What is wrong with it.
        what: String,
    },
}
