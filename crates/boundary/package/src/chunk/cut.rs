//! Where contents are cut into chunks: content-defined chunking.
//!
//! A cut depends on the 64 bytes before it, so two files with a common part have common chunks,
//! wherever that part begins. The method is that of `FastCDC` (Xia and others, USENIX ATC 2016): a
//! gear hash, no cut below a minimum, and two masks, a strict one before the normal length and a
//! loose one after it.
//!
//! **The cuts must never change**: other cuts make other digests of the same package, and stores
//! would hold everything twice. This is why it is not a library, whose major versions have moved
//! cuts before; a golden test keeps it.

/// No chunk but the last one of its contents is shorter: 16 KiB.
pub const BYTES_MIN: usize = 16 << 10;

/// No chunk is longer: 256 KiB.
pub const BYTES_MAX: usize = 256 << 10;

/// The length from which on the loose mask holds. With it the average over random bytes is about
/// 64 KiB.
const BYTES_NORMAL: usize = 52 << 10;

/// Before the normal length, one of 2^18 positions is a cut.
const STRICT_BITS: u32 = 18;

/// After it, one of 2^14.
const LOOSE_BITS: u32 = 14;

/// A random number for each value of a byte: the outputs of `SplitMix64` with the state 0, whose
/// increment is 2^64 divided by the golden ratio.
const GEAR: [u64; 256] = gear();

const fn gear() -> [u64; 256] {
    let mut table = [0; 256];
    let mut state: u64 = 0;
    let mut index = 0;
    while index < table.len() {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        table[index] = mixed ^ (mixed >> 31);
        index += 1;
    }
    table
}

/// The length of the first chunk of `contents`, which are either [`BYTES_MAX`] and more, or all
/// that is left of the contents: fewer bytes would give another cut. Nothing is left of empty
/// contents, and their length is 0.
#[must_use]
pub fn first(contents: &[u8]) -> usize {
    if contents.len() <= BYTES_MIN {
        return contents.len();
    }
    let within = &contents[..contents.len().min(BYTES_MAX)];
    let normal = within.len().min(BYTES_NORMAL);
    let mut hash = 0_u64;
    // The hash has seen 64 bytes, and so forgotten what was before them, when it first counts.
    for byte in &within[BYTES_MIN - 64..BYTES_MIN] {
        hash = (hash << 1).wrapping_add(GEAR[usize::from(*byte)]);
    }
    for (range, bits) in [(BYTES_MIN..normal, STRICT_BITS), (normal..within.len(), LOOSE_BITS)] {
        let begin = range.start;
        // The highest bits depend on the most bytes.
        let below = 1_u64 << (64 - bits);
        for (index, byte) in within[range].iter().enumerate() {
            hash = (hash << 1).wrapping_add(GEAR[usize::from(*byte)]);
            if hash < below {
                return begin + index + 1;
            }
        }
    }
    within.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOLDEN_GEAR: u64 = 0x5a58_32bb_47bc_f19e;
    const GOLDEN_CUTS: &[usize] = &[
        65_491, 54_464, 76_624, 54_479, 54_386, 21_384, 39_668, 66_670, 76_157, 47_270, 63_356,
        54_841, 74_064, 53_636, 66_818, 69_950, 87_108, 22_210,
    ];

    /// Bytes that look random and are the same everywhere.
    fn noise(length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        blake3::Hasher::new().finalize_xof().fill(&mut bytes);
        bytes
    }

    fn lengths(mut contents: &[u8]) -> Vec<usize> {
        let mut lengths = Vec::new();
        while !contents.is_empty() {
            let length = first(contents);
            lengths.push(length);
            contents = &contents[length..];
        }
        lengths
    }

    #[test]
    fn the_cuts_never_change() {
        assert_eq!((GEAR[0], GEAR[255]), (0xe220_a839_7b1d_cdaf, GOLDEN_GEAR));
        assert_eq!(lengths(&noise(1 << 20)), GOLDEN_CUTS);
    }

    #[test]
    fn short_contents_are_one_chunk_and_all_lengths_are_within_bounds() {
        for length in [0, 1, BYTES_MIN - 1, BYTES_MIN] {
            assert_eq!(first(&vec![7; length]), length);
        }
        // Nothing to cut at: all chunks are of the maximum.
        assert_eq!(lengths(&vec![0; BYTES_MAX * 2 + 5]), [BYTES_MAX, BYTES_MAX, 5]);
        let lengths = lengths(&noise(64 << 20));
        let within = |length: &usize| (BYTES_MIN..=BYTES_MAX).contains(length);
        assert!(lengths[..lengths.len() - 1].iter().all(within));
        let average = (64 << 20) / lengths.len();
        assert!((60 << 10..68 << 10).contains(&average), "{average}");
    }

    #[test]
    fn contents_that_moved_have_the_same_chunks() {
        let (contents, shift) = (noise(4 << 20), 1_001);
        let moved = [&noise(shift)[..], &contents].concat();
        let ends = |lengths: Vec<usize>, shift: usize| -> Vec<usize> {
            let end = |end: &mut usize, length: usize| {
                *end += length;
                Some(*end)
            };
            lengths.into_iter().scan(0, end).filter_map(|end| end.checked_sub(shift)).collect()
        };
        let (before, after) = (ends(lengths(&contents), 0), ends(lengths(&moved), shift));
        let same = before.iter().filter(|end| after.contains(end)).count();
        assert!(same * 10 > before.len() * 9, "{same} of {} cuts", before.len());
    }
}
