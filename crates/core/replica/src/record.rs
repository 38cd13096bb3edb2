//! The persistent data of a replica.

use bytes::Bytes;
use model::{Level, LogIndex, Term};
use thiserror::Error;

/// One record of the replicated log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogEntry {
    /// The term in which it was proposed.
    pub term: Term,
    /// Its index in the log.
    pub index: LogIndex,
    /// The level of the state machine that it requires.
    pub level: Level,
    /// The encoded operation and its time; empty for the first entry of a term.
    pub data: Bytes,
}

/// The state of elections and membership that a replica must not forget.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HardState {
    /// The highest term seen.
    pub term: Term,
    /// The replica it voted for in that term; 0 for none.
    pub vote: u64,
    /// The commit index as far as membership is concerned: a record that changes the membership is
    /// applied only after this is durable. 0 if there never was one.
    pub agreed: LogIndex,
    /// The commit index known when this was written. A leader with other records up to here was
    /// elected by replicas that lost acknowledged records.
    pub committed: LogIndex,
}

impl HardState {
    /// The encoded size: without [`Self::agreed`] and [`Self::committed`], with the first, and with
    /// both.
    const BYTES: [usize; 3] = [16, 24, 32];

    /// The encoding on disk: term, vote, `agreed` and `committed`, little-endian; trailing zeros of
    /// the last two are omitted, because older builds do not know them.
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

    /// Decodes that encoding; `None` if it is invalid.
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

/// A committed record that this build cannot apply. The replica must stop: skipping it would make
/// its state differ from the others'.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum UnknownOperation {
    /// The record requires a level that this build does not support.
    #[error(
        "record {index} needs level {needs} of the state machine, this program supports {knows}: start a newer one"
    )]
    Level {
        /// The record's index.
        index: LogIndex,
        /// The required level.
        needs: Level,
        /// The highest supported level.
        knows: Level,
    },
    /// The record cannot be decoded.
    #[error("record {index} cannot be read ({what})")]
    Malformed {
        /// The record's index.
        index: LogIndex,
        /// The problem.
        what: String,
    },
}
