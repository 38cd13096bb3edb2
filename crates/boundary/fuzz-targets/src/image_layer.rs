//! Layers of an image as archives of changes: headers of all formats, whiteouts, links, sparse files. Each
//! is refused, or a layer that is right, on top of the one before it. The first byte is how many blocks
//! the first of two archives has; the checksums of headers are made right here.

use package::archive::{ImportLimits, LayerStack};
use package::{ChunkSink as _, Manifest, MemoryChunks, Variant, digest_of, verify};

use crate::assert_harmless;

/// The length of a block of an archive, in bytes.
const BLOCK_BYTES: usize = 512;

pub(crate) fn run(input: &[u8]) {
    let Some((first, archives)) = input.split_first() else { return };
    let mut archives = archives.to_vec();
    archives.chunks_exact_mut(BLOCK_BYTES).for_each(sum);
    let blocks = usize::from(*first) * BLOCK_BYTES;
    let (lower, upper) = archives.split_at(blocks.min(archives.len()));
    // So little that nothing takes long.
    let limits =
        ImportLimits { bytes: 1 << 30, entries: 1_000, decompressed: 0, metadata: 1 << 20 };
    let (mut chunks, mut stack) = (MemoryChunks::new(), LayerStack::new(&limits));
    let mut variant = Variant::default();
    for mut archive in [lower, upper] {
        match stack.push(&mut archive, &mut chunks) {
            Ok(layer) => variant.layers.push(layer),
            Err(error) => assert_harmless(&error.to_string()),
        }
    }
    let manifest = Manifest { variants: vec![variant] }.encode().expect("layers are within bounds");
    let digest = digest_of(&manifest);
    chunks.put(digest, &manifest).expect("memory keeps everything");
    verify(digest, &mut chunks).expect("a layer is right");
}

/// Makes the checksum of a block right, if it is a header.
fn sum(block: &mut [u8]) {
    if block[257..262] != *b"ustar" {
        return;
    }
    block[148..156].copy_from_slice(b"        ");
    let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
    block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
}
