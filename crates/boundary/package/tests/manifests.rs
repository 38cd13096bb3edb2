//! What manifests are read and written, and what is rejected.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;

use package::manifest::{LayerFault, MAX_LAYERS, MAX_VARIANTS};
use package::{ChunkRef, ImageConfig, Layer, Manifest, ManifestError, Variant, digest_of};

fn layer() -> Layer {
    let chunk = |text: &str, length| ChunkRef { digest: digest_of(text.as_bytes()), length };
    Layer {
        tree: vec![chunk("a", 1), chunk("b", 1 << 24), chunk("a", 1)],
        digest: digest_of(b"tree"),
        stored: 1 << 40,
        unpacked: u64::MAX,
        entries: 2_000_000,
    }
}

fn config() -> ImageConfig {
    let texts = |list: &[&str]| list.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
    ImageConfig {
        entrypoint: texts(&["/bin/sh", "-c"]),
        cmd: texts(&["", "x"]),
        env: texts(&["PATH=/bin", "B=", "A=1=2"]),
        working_dir: "/srv".into(),
        user: "1000:users".into(),
        stop_signal: "SIGINT".into(),
        labels: BTreeMap::from([("a".into(), String::new()), ("b".into(), "ü".into())]),
        exposed_ports: texts(&["80/tcp"]),
    }
}

fn variant(architecture: &str) -> Variant {
    let architecture = architecture.to_owned();
    Variant { architecture, layers: vec![layer(), layer()], config: Some(config()) }
}

fn manifest() -> Manifest {
    Manifest { variants: vec![variant(""), variant("aarch64"), variant("x86_64")] }
}

#[test]
fn a_manifest_is_read_as_it_was_written() {
    let plain = Manifest { variants: vec![Variant::default()] };
    for manifest in [manifest(), plain] {
        let bytes = manifest.encode().unwrap();
        assert_eq!(Manifest::decode(&bytes).as_ref(), Ok(&manifest));
        assert_eq!(manifest.digest(), Ok(digest_of(&bytes)));
        for end in 0..bytes.len() {
            // What is cut off between variants is another manifest, and everything else is none.
            if let Ok(shorter) = Manifest::decode(&bytes[..end]) {
                assert!(shorter.variants.len() < manifest.variants.len(), "cut off at {end}");
            }
        }
    }
    let manifest = manifest();
    assert!(manifest.is_image());
    let found = |name| manifest.variant(name).map(|variant| variant.architecture.as_str());
    assert_eq!((found("x86_64"), found("riscv64")), (Some("x86_64"), Some("")));
    assert_eq!(layer().tree_bytes(), 1 + (1 << 24));
}

#[test]
fn a_manifest_that_breaks_a_rule_is_neither_written_nor_read() {
    type Change = fn(&mut Manifest);
    let last = || "x86_64".to_owned();
    let text = |field| ManifestError::Text { architecture: last(), field };
    let fault = |fault| ManifestError::Layer { architecture: last(), layer: 1, fault };
    let layers = MAX_LAYERS + 1;
    let cases: [(Change, ManifestError); 15] = [
        (|m| m.variants.clear(), ManifestError::Variants(0)),
        (
            |m| m.variants.resize(MAX_VARIANTS + 1, Variant::default()),
            ManifestError::Variants(MAX_VARIANTS + 1),
        ),
        (|m| m.variants.swap(1, 2), ManifestError::Order("aarch64".into())),
        (|m| m.variants[1].architecture.clear(), ManifestError::Order(String::new())),
        (|m| m.variants[2].config = None, ManifestError::Mixed(last())),
        (
            |m| m.variants[2].architecture = "x86/64".into(),
            ManifestError::Architecture("x86/64".into()),
        ),
        (
            |m| m.variants[2].layers.resize(MAX_LAYERS + 1, layer()),
            ManifestError::Layers { architecture: last(), layers },
        ),
        (|m| m.variants[2].layers[1].tree[0].length = 0, fault(LayerFault::Chunk)),
        (|m| m.variants[2].layers[1].tree[0].length = (1 << 24) + 1, fault(LayerFault::Chunk)),
        (
            |m| {
                let tree = &mut m.variants[2].layers[1].tree;
                *tree = vec![tree[1]; 65];
            },
            fault(LayerFault::Tree),
        ),
        (|m| m.variants[2].layers[1].entries += 1, fault(LayerFault::Entries)),
        (|m| config_of(m).user = "a\0".into(), text("user")),
        (|m| config_of(m).cmd = vec![String::new(); 4097], text("cmd")),
        (|m| _ = config_of(m).labels.insert("k".into(), "v".repeat(131_073)), text("labels")),
        (|m| config_of(m).env.push("=x".into()), ManifestError::Environment(last())),
    ];
    for (change, expected) in cases {
        let mut changed = manifest();
        change(&mut changed);
        assert_eq!(changed.encode(), Err(expected.clone()));
        assert_eq!(changed.digest(), Err(expected));
    }
}

fn config_of(manifest: &mut Manifest) -> &mut ImageConfig {
    manifest.variants[2].config.as_mut().unwrap()
}

#[test]
fn bytes_that_no_writer_writes_are_rejected() {
    let layer = |digest: u8| {
        let headers = [0x0a, 4 + digest, 0x12, 2 + digest, 0x12, digest];
        [&headers[..], &vec![1; digest.into()]].concat()
    };
    assert!(Manifest::decode(&layer(32)).is_ok());
    let malformed = Manifest::decode(&layer(31));
    assert!(matches!(malformed, Err(ManifestError::Layer { fault: LayerFault::Digest, .. })));
    // The name of the architecture is not checked yet, and shown.
    let named = [&[0x0a, 4 + 35, 0x0a, 2, b'a', 1], &layer(31)[2..]].concat();
    let refused = Manifest::decode(&named).unwrap_err();
    assert!(refused.to_string().contains("variant 'a\\u{1}'"), "{refused}");
    // An unknown field, an explicit default, and no message.
    assert_eq!(Manifest::decode(&[0x0a, 2, 0x50, 1]), Err(ManifestError::NotCanonical));
    assert_eq!(Manifest::decode(&[0x0a, 2, 0x0a, 0]), Err(ManifestError::NotCanonical));
    assert!(matches!(Manifest::decode(&[0xff]), Err(ManifestError::Malformed(_))));
    // What takes little room until it is decoded.
    let wrapped = |message: Vec<u8>, number: u8| {
        let mut bytes = vec![number];
        prost::encode_length_delimiter(message.len(), &mut bytes).unwrap();
        [bytes, message].concat()
    };
    let variants = Manifest::decode(&[0x0a, 0].repeat(MAX_VARIANTS + 1));
    assert_eq!(variants, Err(ManifestError::Variants(MAX_VARIANTS + 1)));
    let layers = wrapped([0x12, 0].repeat(MAX_LAYERS + 1), 0x0a);
    let chunks = wrapped(wrapped([0x0a, 0].repeat(100), 0x12), 0x0a);
    let texts = wrapped(wrapped([0x0a, 0].repeat(8 * 4096 + 1), 0x1a), 0x0a);
    for bytes in [layers, chunks, texts] {
        let refused = Manifest::decode(&bytes);
        assert!(matches!(refused, Err(ManifestError::Malformed(_))), "{refused:?}");
    }
    let configs = wrapped([0x1a, 0].repeat(2), 0x0a);
    assert_eq!(Manifest::decode(&configs), Err(ManifestError::NotCanonical));
    let long = vec![0; (1 << 24) + 1];
    assert_eq!(Manifest::decode(&long), Err(ManifestError::Long(long.len())));
}
