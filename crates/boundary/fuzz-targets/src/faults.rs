//! Damage done to a file: what a crash or a bad disk leaves.

use arbitrary::Arbitrary;

/// One fault, at a place that is taken modulo what is there. Too few bytes change at once for a
/// checksum to be forged.
#[derive(Arbitrary, Clone, Copy, Debug)]
pub(crate) enum Fault {
    /// A byte is another.
    Flip {
        /// Which.
        at: u16,
        /// The bits that change.
        bits: u8,
    },
    /// Some bytes are zero, as where a page was never written.
    Zero {
        /// The first of them.
        at: u16,
        /// How many.
        bytes: u8,
    },
    /// The file ends here.
    Cut {
        /// The new length.
        at: u16,
    },
}

/// What a disk writes whole or not at all, in bytes.
const SECTOR_BYTES: usize = 512;

impl Fault {
    /// What a loss of power does to `bytes` from `first` on, which were not synced: the sector where the
    /// fault is was never written.
    pub(crate) fn tear(self, bytes: &mut [u8], first: usize) {
        let room = bytes.len().saturating_sub(first);
        if room == 0 {
            return;
        }
        let (Self::Flip { at, .. } | Self::Zero { at, .. } | Self::Cut { at }) = self;
        let sector = (first + usize::from(at) % room) / SECTOR_BYTES * SECTOR_BYTES;
        let end = bytes.len().min(sector + SECTOR_BYTES);
        bytes[sector.max(first)..end].fill(0);
    }

    /// Does it to `bytes`, but to none before `first`.
    pub(crate) fn damage(self, bytes: &mut Vec<u8>, first: usize) {
        let room = bytes.len().saturating_sub(first);
        if room == 0 {
            return;
        }
        let place = |at: u16| first + usize::from(at) % room;
        match self {
            Self::Flip { at, bits } => bytes[place(at)] ^= bits,
            Self::Zero { at, bytes: count } => {
                let start = place(at);
                let end = bytes.len().min(start + usize::from(count));
                bytes[start..end].fill(0);
            }
            Self::Cut { at } => bytes.truncate(place(at)),
        }
    }
}
