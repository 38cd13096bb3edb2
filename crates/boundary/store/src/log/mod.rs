//! The replicated log on a replica's own disk: segment files that are appended, replayed and cut.
//!
//! There is one writer and no read path, because the state is in memory. [`Log::append`] writes a
//! batch, [`Log::sync`] makes everything appended durable; the caller drains its queue into appends
//! and syncs once (group commit). [`Log::open`] recovers after any crash.
//!
//! # Segments
//! A segment is one file, `<sequence, 16 digits>-<first index, 20 digits>.log`, created under a
//! temporary name, preallocated, synced and then renamed: a file with a segment's name always has a
//! complete header. All integers are little-endian.
//!
//! | offset | bytes | segment header (64 bytes) |
//! |---|---|---|
//! | 0 | 8 | magic `BOURGLOG` |
//! | 8 | 4 | version of the format, 1 |
//! | 12 | 4 | crc32c of the bytes 8–12 and 16–64 |
//! | 16 | 8 | sequence number, from 1, without gaps |
//! | 24 | 8 | index that the next entry had when the segment was made |
//! | 32 | 8 | salt of this segment's record checksums, random |
//! | 40 | 8 | sequence number of the segment before, 0 in the first one |
//! | 48 | 4 | where that segment's records end; all of it was synced before this file was made |
//! | 52 | 4 | with how many bytes the file was made; zero where it is not known |
//! | 56 | 8 | the lowest index from which entries of that segment replaced earlier ones: all ones if none did, 0 if a restart is in it, or if it is not known |
//!
//! Records follow, each at a multiple of 8, then zeros to the end of the file.
//!
//! | offset | bytes | record |
//! |---|---|---|
//! | 0 | 4 | header checksum: crc32c of salt, sequence, own offset and the bytes 4–48 |
//! | 4 | 4 | payload checksum: crc32c of the payload with its padding |
//! | 8 | 8 | term |
//! | 16 | 8 | index |
//! | 24 | 8 | `synced`: sequence of the segment … |
//! | 32 | 4 | … and the offset before which everything was durable when this was written |
//! | 36 | 4 | length of the payload, without padding |
//! | 40 | 4 | level of the state machine that the payload needs |
//! | 44 | 1 | kind: 1 entry, 2 hard state, 3 restart |
//! | 45 | 3 | zero |
//! | 48 | … | payload, padded with zeros to a multiple of 8 |
//!
//! A segment starts with a copy of the newest hard state, so that older ones may be deleted.
//!
//! # Torn tail or damage
//! A crash may leave any part of what was not synced: nothing, a torn record, or a later record of
//! a batch without an earlier one. Such a tail is cut and reported as [`Repair::TornTail`]. Synced
//! data must still be there. The log is damaged, and [`Log::open`] rejects it, if a record is
//! incomplete and
//!
//! - an intact header of a later record has a `synced` behind the incomplete record, which was
//!   therefore durable. The header has its own checksum so that a record with a bad payload can
//!   still serve as evidence, and the salt and position in it prevent bytes inside a payload (or
//!   left from a deleted file) from passing as a record;
//! - or a later segment exists;
//! - or every sector of the record was written. A disk writes 512 bytes atomically, and the file
//!   was created with zeros: a torn record lacks a whole sector. A record within one sector is
//!   never torn;
//! - or the file is shorter than when it was created;
//!
//! and if a segment is missing: in between, or, according to `newest-segment`, at the end.
//! [`accept_loss`] cuts such a log when the caller names the damage.
//!
//! The limit of this scheme: a sector of the very last batch that turned into zeros, with no later
//! record as evidence, cannot be distinguished from one that was never written, and is cut.
//! Therefore a caller should append the hard state again, without a sync, when it is idle: that
//! record is evidence for everything before it.
//!
//! # Conflicts
//! An entry whose index is not above the last one replaces the suffix from there on, as in raft. A
//! restart record means that a snapshot was installed: all entries before it are void, and the next
//! entry has the record's index plus one. Recovery returns the remaining entries.

mod append;
mod cut;
mod loss;
mod newest;
mod options;
mod recover;
mod recovered;
mod replay;
mod segment;
mod survivors;

pub use append::Log;
pub use loss::{LOST, accept_loss};
#[cfg(test)]
pub(crate) use segment::FORMAT;

pub use crate::segments::record::{MAX_PAYLOAD_BYTES, Position, Record, RecordKind, RecordRef};
pub use options::{MAX_BATCH_BYTES, Options};
pub use recovered::{Recovered, Repair};
pub use segment::SegmentInfo;
pub use survivors::HardState;
