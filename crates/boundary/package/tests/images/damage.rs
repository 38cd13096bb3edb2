//! Damaged archives and images: an error or another package, and never a panic.

use package::archive::{ImportLimits, ImportOptions, LayerStack, import};
use package::{ChunkSink as _, Manifest, MemoryChunks, Variant, digest_of, verify};
use proptest::prelude::*;

use crate::image::{Files, gzip, saved, zstd};
use crate::layer::archive;

const LAYERS: [&str; 2] = [
    "d bin\nf755 bin/tool old\nl lib bin\nf gone x\nd opt\nf opt/a x\nc null 3",
    "f lib/tool new\nf .wh.gone\nd opt\nf opt/.wh..wh..opq\nh opt/link bin/tool",
];

/// Small, so that damaged numbers do not take long.
fn limits() -> ImportLimits {
    ImportLimits { bytes: 1 << 20, decompressed: 1 << 20, ..ImportLimits::default() }
}

fn changed(mut bytes: Vec<u8>, changes: &[(usize, u8)], checksums: bool) -> Vec<u8> {
    for (place, value) in changes {
        let place = place % bytes.len();
        bytes[place] = *value;
    }
    // With right checksums more of it is looked at.
    for block in
        bytes.chunks_exact_mut(512).filter(|block| checksums && block[257..262] == *b"ustar")
    {
        block[148..156].copy_from_slice(b"        ");
        let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
        block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    }
    bytes
}

fn changes() -> impl Strategy<Value = Vec<(usize, u8)>> {
    let value = prop_oneof![any::<u8>(), prop::sample::select(&b"0127SLKxg/. =\n"[..])];
    prop::collection::vec((any::<usize>(), value), 1..8)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    #[test]
    fn a_damaged_layer_is_an_error_or_another_tree(changes in changes()) {
        let (mut chunks, mut stack) = (MemoryChunks::new(), LayerStack::new(&limits()));
        let mut variant = Variant::default();
        for layer in LAYERS {
            let bytes = changed(archive(layer), &changes, true);
            let Ok(layer) = stack.push(&mut &bytes[..], &mut chunks) else { break };
            variant.layers.push(layer);
        }
        let manifest = Manifest { variants: vec![variant] }.encode().unwrap();
        let digest = digest_of(&manifest);
        chunks.put(digest, &manifest).unwrap();
        let verified = verify(digest, &mut chunks);
        prop_assert!(verified.is_ok(), "{verified:?}");
    }

    #[test]
    fn a_damaged_image_is_an_error_or_the_same(changes in changes(), form in 0..4) {
        let directory = tempfile::tempdir().unwrap();
        let bytes = match form {
            0 => saved(&[(&["a:1"], &LAYERS)]).archive(),
            1 => gzip(&saved(&[(&["a:1"], &LAYERS)]).archive()),
            _ => {
                let mut files = Files::default();
                let image = files.image("amd64", &LAYERS, if form == 2 { gzip } else { zstd });
                files.layout(&[image]).archive()
            }
        };
        let path = directory.path().join("image");
        std::fs::write(&path, changed(bytes, &changes, form != 1)).unwrap();
        let options = ImportOptions { limits: limits(), ..ImportOptions::default() };
        let mut chunks = MemoryChunks::new();
        if let Ok(packed) = import(&path, &options, &mut chunks) {
            verify(packed.digest, &mut chunks).unwrap();
        }
    }
}
