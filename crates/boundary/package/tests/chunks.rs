//! The cutter and what goes through it.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use package::chunk::{self, AVERAGE_CUT_BYTES, ChunkError, Chunker, MAX_CUT_BYTES, MIN_CUT_BYTES};
use package::{ChunkRef, ChunkSink as _, ChunkSource as _, MemoryChunks, digest_of};

/// The same bytes on every machine: what follows one another in a linear congruential generator.
fn noise(length: usize) -> Vec<u8> {
    let mut state = 0x853c_49e6_748f_ea9b_u64;
    let mut next = || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state.to_be_bytes()[0]
    };
    (0..length).map(|_| next()).collect()
}

fn chunks_of(bytes: &[u8], piece: usize) -> (Vec<ChunkRef>, MemoryChunks) {
    let (mut sink, mut chunker) = (MemoryChunks::new(), Chunker::new());
    for piece in bytes.chunks(piece) {
        chunker.push(piece, &mut sink).unwrap();
    }
    (chunker.finish(&mut sink).unwrap(), sink)
}

/// The cuts are part of the format. If this fails, change the cutter back.
#[test]
fn the_cuts_never_change() {
    let (chunks, _) = chunks_of(&noise(4 << 20), usize::MAX);
    let lengths: Vec<_> = chunks.iter().map(|chunk| chunk.length).collect();
    assert_eq!(lengths, GOLDEN);
}

const GOLDEN: &[u32] = &[
    90454, 56556, 88545, 71611, 149576, 69107, 103018, 72403, 102514, 55346, 66782, 81584, 68110,
    70003, 103989, 89371, 61558, 83420, 44186, 104853, 72187, 118463, 65740, 56271, 64347, 68554,
    75341, 93218, 66083, 78589, 69337, 67537, 56883, 90907, 39949, 76051, 41322, 24074, 39918,
    75417, 73950, 69579, 90489, 74571, 77154, 71726, 85110, 116811, 72558, 66860, 93748, 75984,
    68329, 133008, 51253,
];

#[test]
fn chunks_do_not_depend_on_how_the_bytes_arrive() {
    let bytes = noise(3_000_001);
    let (chunks, mut kept) = chunks_of(&bytes, usize::MAX);
    for piece in [1009, MAX_CUT_BYTES, 1 << 20] {
        assert_eq!(chunks_of(&bytes, piece).0, chunks, "in pieces of {piece}");
    }
    let (mut sink, mut chunker) = (MemoryChunks::new(), Chunker::new());
    assert_eq!(chunker.read(&mut bytes.as_slice(), &mut sink).unwrap(), 3_000_001);
    assert_eq!(chunker.finish(&mut sink).unwrap(), chunks);
    assert_eq!(sink, kept);

    let (mut all, mut one) = (Vec::new(), Vec::new());
    for chunk in &chunks {
        chunk::fetch(&mut kept, chunk, &mut one).unwrap();
        all.extend_from_slice(&one);
    }
    assert_eq!(all, bytes);
    let average = bytes.len() / chunks.len();
    assert!((AVERAGE_CUT_BYTES / 2..AVERAGE_CUT_BYTES * 2).contains(&average), "{average}");
    for chunk in &chunks[..chunks.len() - 1] {
        assert!((MIN_CUT_BYTES..=MAX_CUT_BYTES).contains(&(chunk.length as usize)));
    }
}

#[test]
fn what_is_inserted_changes_only_the_chunks_around_it() {
    let mut bytes = noise(4 << 20);
    let (_, before) = chunks_of(&bytes, usize::MAX);
    bytes.splice(2_000_000..2_000_000, *b"inserted");
    let (after, _) = chunks_of(&bytes, usize::MAX);
    let known: Vec<_> = before.iter().map(|(digest, _)| *digest).collect();
    let new = after.iter().filter(|chunk| !known.contains(&chunk.digest)).count();
    assert!((1..=3).contains(&new), "{new} new chunks");
}

#[test]
fn short_streams_are_one_chunk_or_none() {
    for (length, expected) in [(0, 0), (1, 1), (MIN_CUT_BYTES, 1)] {
        assert_eq!(chunks_of(&noise(length), usize::MAX).0.len(), expected, "{length} bytes");
    }
    let zeros = vec![0; 10 * MAX_CUT_BYTES];
    assert_eq!(chunks_of(&zeros, usize::MAX).1.len(), 1);
}

#[test]
fn a_chunk_that_is_not_the_one_asked_for_is_an_error() {
    let mut chunks = MemoryChunks::new();
    let digest = digest_of(b"abc");
    let mut into = b"old".to_vec();
    let missing = chunk::fetch(&mut chunks, &ChunkRef { digest, length: 3 }, &mut into);
    assert!(matches!(missing, Err(ChunkError::Unreadable { .. })), "{missing:?}");
    chunks.put(digest, b"abc").unwrap();
    for length in [0, 3] {
        chunk::fetch(&mut chunks, &ChunkRef { digest, length }, &mut into).unwrap();
        assert_eq!(into, b"abc");
    }
    let long = chunk::fetch(&mut chunks, &ChunkRef { digest, length: 4 }, &mut into);
    assert!(matches!(long, Err(ChunkError::Length { expected: 4, found: 3, .. })), "{long:?}");
    chunks.put(digest, b"abd").unwrap();
    let damaged = chunk::fetch(&mut chunks, &ChunkRef { digest, length: 3 }, &mut into);
    assert!(matches!(damaged, Err(ChunkError::Damaged { .. })), "{damaged:?}");
    assert!(chunks.get(&ChunkRef::of_unknown_length(digest_of(b"")), &mut into).is_err());
}
