//! Sets of the chunks of a layer.

/// Some of the chunks of a layer, by their positions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChunkSet {
    words: Vec<u64>,
    length: u32,
}

impl ChunkSet {
    /// None of so many chunks.
    #[must_use]
    pub fn none(length: u32) -> Self {
        Self { words: vec![0; length.div_ceil(u64::BITS) as usize], length }
    }

    /// All of so many chunks.
    #[must_use]
    pub fn all(length: u32) -> Self {
        let mut words = vec![u64::MAX; length.div_ceil(u64::BITS) as usize];
        if let (Some(last), rest @ 1..) = (words.last_mut(), length % u64::BITS) {
            *last = (1 << rest) - 1;
        }
        Self { words, length }
    }

    /// The chunks whose bits are set, the first the lowest bit of the first byte. What is behind the last chunk does not
    /// count, and what is missing is not set.
    #[must_use]
    pub fn from_bits(length: u32, bits: &[u8]) -> Self {
        let mut set = Self::none(length);
        for (chunk, byte) in (0..length).step_by(8).zip(bits) {
            for bit in 0..8 {
                if byte >> bit & 1 == 1 {
                    set.insert(chunk + bit);
                }
            }
        }
        set
    }

    /// The same as bits.
    #[must_use]
    pub fn to_bits(&self) -> Vec<u8> {
        let mut bits: Vec<u8> = self.words.iter().flat_map(|word| word.to_le_bytes()).collect();
        bits.truncate(self.length.div_ceil(8) as usize);
        bits
    }

    /// How many chunks the layer has.
    #[must_use]
    pub fn length(&self) -> u32 {
        self.length
    }

    /// How many are in the set.
    #[must_use]
    pub fn count(&self) -> usize {
        self.words.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Whether none is.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.words.iter().all(|word| *word == 0)
    }

    /// Whether a chunk is.
    #[must_use]
    pub fn contains(&self, chunk: u32) -> bool {
        let (word, bit) = place(chunk);
        self.word(word) & bit != 0
    }

    /// Adds a chunk of the layer. Returns whether it was not there.
    pub fn insert(&mut self, chunk: u32) -> bool {
        let (word, bit) = place(chunk);
        let Some(word) = self.words.get_mut(word).filter(|_| chunk < self.length) else {
            return false;
        };
        let is_new = *word & bit == 0;
        *word |= bit;
        is_new
    }

    /// Removes a chunk. Returns whether it was there.
    pub fn remove(&mut self, chunk: u32) -> bool {
        let (word, bit) = place(chunk);
        let Some(word) = self.words.get_mut(word) else { return false };
        let was = *word & bit != 0;
        *word &= !bit;
        was
    }

    /// The next 64 chunks from 64 times a number on.
    pub(super) fn word(&self, number: usize) -> u64 {
        self.words.get(number).copied().unwrap_or_default()
    }

    /// At most so many chunks of the set that a mask of each word admits, from one on, and from the first behind the last.
    pub(super) fn from(&self, start: u32, most: usize, mask: impl Fn(usize) -> u64) -> Vec<u32> {
        let mut found = Vec::new();
        let (first, bit) = place(if start < self.length { start } else { 0 });
        let count = self.words.len();
        // The first word twice: from its bit on, and last up to it.
        for step in 0..=count {
            let number = if first + step < count { first + step } else { first + step - count };
            let part = match step {
                0 => !(bit - 1),
                _ if step == count => bit - 1,
                _ => u64::MAX,
            };
            let mut word = self.word(number) & part & mask(number);
            while word != 0 && found.len() < most {
                let bit = word.trailing_zeros();
                word &= word - 1;
                let base = u32::try_from(number).unwrap_or(u32::MAX).saturating_mul(u64::BITS);
                found.push(base.saturating_add(bit));
            }
            if found.len() >= most {
                break;
            }
        }
        found
    }
}

/// The word of a chunk, and its bit.
fn place(chunk: u32) -> (usize, u64) {
    ((chunk / u64::BITS) as usize, 1 << (chunk % u64::BITS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_is_its_bits() {
        for length in [0, 1, 7, 8, 63, 64, 65, 200] {
            let all = ChunkSet::all(length);
            assert_eq!((all.count(), all.length()), (length as usize, length));
            assert_eq!(ChunkSet::from_bits(length, &all.to_bits()), all);
            assert_eq!(
                ChunkSet::from_bits(length, &[0xff; 40]),
                all,
                "what is behind does not count"
            );
            assert_eq!(ChunkSet::from_bits(length, &[]), ChunkSet::none(length));
        }
        let mut set = ChunkSet::none(70);
        assert!(set.insert(69) && !set.insert(69) && !set.insert(70) && !set.insert(4_000_000_000));
        assert!(set.contains(69) && !set.contains(70));
        assert!(set.remove(69) && !set.remove(69) && set.is_empty());
    }

    #[test]
    fn a_search_begins_anywhere_and_goes_around() {
        let all = ChunkSet::all(130);
        for (start, most, found) in [
            (0, 3, vec![0, 1, 2]),
            (127, 5, vec![127, 128, 129, 0, 1]),
            (130, 2, vec![0, 1]),
            (64, 1, vec![64]),
        ] {
            assert_eq!(all.from(start, most, |_| u64::MAX), found, "from {start}");
        }
        assert_eq!(all.from(70, 1_000, |_| u64::MAX).len(), 130, "each once");
        let odd = all.from(127, 3, |word| if word == 0 { 0b10 } else { 0 });
        assert_eq!(odd, [1]);
        assert_eq!(ChunkSet::none(0).from(0, 3, |_| u64::MAX), [0_u32; 0]);
    }
}
