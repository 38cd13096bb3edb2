//! Images as tests make them: blobs, manifests, and OCI layouts of them.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use registry::BlobDigest;
use serde_json::{Value, json};

pub(crate) const OCI_INDEX: &str = "application/vnd.oci.image.index.v1+json";
pub(crate) const OCI_MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
const LAYER: &str = "application/vnd.oci.image.layer.v1.tar+gzip";

/// A manifest or an index with everything below it.
#[derive(Clone, Debug, Default)]
pub(crate) struct TestImage {
    pub(crate) media_type: String,
    pub(crate) manifest: Vec<u8>,
    /// Configurations and layers.
    pub(crate) blobs: BTreeMap<BlobDigest, Vec<u8>>,
    /// The manifests below an index.
    pub(crate) manifests: BTreeMap<BlobDigest, (String, Vec<u8>)>,
    /// The layers of an image, in their order.
    pub(crate) layers: Vec<BlobDigest>,
}

/// Bytes that are the same in every run, and other ones for every seed.
pub(crate) fn bytes(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let step = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()[0]
    };
    std::iter::repeat_with(step).take(length).collect()
}

pub(crate) fn descriptor(media_type: &str, bytes: &[u8]) -> Value {
    json!({ "mediaType": media_type, "digest": BlobDigest::of(bytes).to_string(), "size": bytes.len() })
}

impl TestImage {
    /// An image for Linux on an architecture.
    pub(crate) fn new(architecture: &str, layers: &[Vec<u8>]) -> Self {
        let digests: Vec<String> =
            layers.iter().map(|layer| BlobDigest::of(layer).to_string()).collect();
        let config = json!({
            "architecture": architecture,
            "os": "linux",
            "config": { "Cmd": ["/bin/app"] },
            "rootfs": { "type": "layers", "diff_ids": digests },
        });
        Self::of_config(CONFIG, &config, layers)
    }

    /// A manifest with a configuration of some type.
    pub(crate) fn of_config(media_type: &str, config: &Value, layers: &[Vec<u8>]) -> Self {
        let config = config.to_string().into_bytes();
        let named: Vec<Value> = layers.iter().map(|layer| descriptor(LAYER, layer)).collect();
        let manifest = json!({
            "schemaVersion": 2,
            "mediaType": OCI_MANIFEST,
            "config": descriptor(media_type, &config),
            "layers": named,
        });
        let mut image = Self::of_manifest(OCI_MANIFEST, &manifest);
        image.layers = layers.iter().map(|layer| BlobDigest::of(layer)).collect();
        for blob in layers.iter().cloned().chain([config]) {
            image.blobs.insert(BlobDigest::of(&blob), blob);
        }
        image
    }

    /// A manifest with nothing below it.
    pub(crate) fn of_manifest(media_type: &str, manifest: &Value) -> Self {
        let manifest = manifest.to_string().into_bytes();
        Self { media_type: media_type.to_owned(), manifest, ..Self::default() }
    }

    /// An index of images, each with what the index says of it beside its digest.
    pub(crate) fn index(images: &[(&Self, Value)]) -> Self {
        let mut index = Self::default();
        let mut named = Vec::new();
        for (image, more) in images {
            let mut descriptor = descriptor(&image.media_type, &image.manifest);
            for (key, value) in more.as_object().expect("an object") {
                descriptor[key] = value.clone();
            }
            named.push(descriptor);
            let manifest = (image.media_type.clone(), image.manifest.clone());
            index.manifests.insert(image.digest(), manifest);
            index.manifests.extend(image.manifests.clone());
            index.blobs.extend(image.blobs.clone());
        }
        let manifest = json!({ "schemaVersion": 2, "mediaType": OCI_INDEX, "manifests": named });
        Self {
            manifests: index.manifests,
            blobs: index.blobs,
            ..Self::of_manifest(OCI_INDEX, &manifest)
        }
    }

    pub(crate) fn digest(&self) -> BlobDigest {
        BlobDigest::of(&self.manifest)
    }

    /// The bytes of a layer.
    pub(crate) fn layer(&self, number: usize) -> &[u8] {
        &self.blobs[&self.layers[number]]
    }

    /// Writes it as an OCI layout.
    pub(crate) fn write(&self, directory: &Path, tag: &str) {
        let blobs = directory.join("blobs/sha256");
        fs::create_dir_all(&blobs).unwrap();
        let mut all: Vec<&Vec<u8>> = self.blobs.values().collect();
        all.extend(self.manifests.values().map(|(_, manifest)| manifest));
        all.push(&self.manifest);
        for bytes in all {
            fs::write(blobs.join(BlobDigest::of(bytes).digits()), bytes).unwrap();
        }
        let mut root = descriptor(&self.media_type, &self.manifest);
        root["annotations"] = json!({ "org.opencontainers.image.ref.name": tag });
        let index = json!({ "schemaVersion": 2, "manifests": [root] });
        fs::write(directory.join("index.json"), index.to_string()).unwrap();
        fs::write(directory.join("oci-layout"), r#"{"imageLayoutVersion":"1.0.0"}"#).unwrap();
    }
}

/// What an index says of an image for Linux on an architecture.
pub(crate) fn on(architecture: &str) -> Value {
    json!({ "platform": { "os": "linux", "architecture": architecture } })
}

/// Checks that a directory is an OCI layout in which every blob is right and nothing is missing; returns the
/// platforms of its images and the tags.
pub(crate) fn check_layout(directory: &Path) -> Vec<String> {
    let read = |path: &Path| -> Value { serde_json::from_slice(&fs::read(path).unwrap()).unwrap() };
    assert_eq!(read(&directory.join("oci-layout")), json!({ "imageLayoutVersion": "1.0.0" }));
    let mut names: Vec<_> =
        fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["blobs", "index.json", "oci-layout"]);
    let blobs = directory.join("blobs/sha256");
    for entry in fs::read_dir(&blobs).unwrap() {
        let entry = entry.unwrap();
        let digest = BlobDigest::of(&fs::read(entry.path()).unwrap());
        assert_eq!(digest.digits(), entry.file_name().to_str().unwrap());
    }
    let there = |descriptor: &Value| {
        let digest: BlobDigest = descriptor["digest"].as_str().unwrap().parse().unwrap();
        let path = blobs.join(digest.digits());
        assert_eq!(fs::metadata(&path).unwrap().len(), descriptor["size"].as_u64().unwrap());
        path
    };
    let index = read(&directory.join("index.json"));
    assert_eq!(index["schemaVersion"], 2);
    let manifests = index["manifests"].as_array().unwrap().iter();
    let platforms = manifests.map(|named| {
        let manifest = read(&there(named));
        there(&manifest["config"]);
        manifest["layers"].as_array().unwrap().iter().for_each(|layer| drop(there(layer)));
        let platform = &named["platform"];
        let words = ["os", "architecture", "variant"].map(|key| platform[key].as_str());
        let tag = named["annotations"]["org.opencontainers.image.ref.name"].as_str();
        let platform = words.into_iter().flatten().collect::<Vec<_>>().join("/");
        format!("{platform} {}", tag.unwrap_or("-"))
    });
    platforms.collect()
}
