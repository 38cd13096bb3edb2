//! The hash of a cell's state.

use std::fmt;

use cell::Cell;

use super::write_image;

/// A digest of the whole state of a cell: equal on every replica and after every replay, and
/// different after every operation, because the index is part of the state.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct StateHash(pub [u8; 32]);

/// The hash of a cell's state: BLAKE3 over its encoded image. Takes a pass over the whole cell.
#[must_use]
pub fn state_hash(cell: &Cell) -> StateHash {
    let mut hasher = StateHasher::default();
    write_image(&cell.image(), &mut |part| hasher.update(part));
    hasher.finish()
}

/// Computes the hash of a state from its encoded image, in pieces of any size.
#[derive(Clone, Debug, Default)]
pub struct StateHasher(blake3::Hasher);

impl StateHasher {
    /// Adds the next piece.
    pub fn update(&mut self, piece: &[u8]) {
        self.0.update(piece);
    }

    /// The hash, after the whole image was added.
    #[must_use]
    pub fn finish(&self) -> StateHash {
        StateHash(self.0.finalize().into())
    }
}

impl StateHash {
    /// The first 16 digits, for display.
    #[must_use]
    pub fn short(&self) -> String {
        let mut digits = self.to_string();
        digits.truncate(16);
        digits
    }
}

/// All 64 hexadecimal digits.
impl fmt::Display for StateHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for StateHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StateHash({self})")
    }
}
