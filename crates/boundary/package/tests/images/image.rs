//! Makes container images in all forms: layouts, and archives as of `docker save`.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};

use crate::layer::archive;

pub(crate) fn sha256(bytes: &[u8]) -> String {
    let digest = ring::digest::digest(&ring::digest::SHA256, bytes);
    digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

pub(crate) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

pub(crate) fn zstd(bytes: &[u8]) -> Vec<u8> {
    ruzstd::encoding::compress_to_vec(bytes, ruzstd::encoding::CompressionLevel::Fastest)
}

/// The files of a layout by name. Links are values that begin with `→`.
#[derive(Clone, Default)]
pub(crate) struct Files(pub(crate) BTreeMap<String, Vec<u8>>);

impl Files {
    pub(crate) fn add(&mut self, name: &str, bytes: &[u8]) {
        self.0.insert(name.to_owned(), bytes.to_vec());
    }

    /// Adds a blob, and returns its descriptor.
    pub(crate) fn blob(&mut self, kind: &str, bytes: &[u8]) -> Value {
        let digest = sha256(bytes);
        self.add(&format!("blobs/sha256/{digest}"), bytes);
        let media_type = format!("application/vnd.oci.image.{kind}");
        json!({"mediaType": media_type, "digest": format!("sha256:{digest}"), "size": bytes.len()})
    }

    /// Adds an image of layers that are described by lines, and returns its descriptor.
    pub(crate) fn image(
        &mut self,
        architecture: &str,
        layers: &[&str],
        compress: fn(&[u8]) -> Vec<u8>,
    ) -> Value {
        let archives: Vec<Vec<u8>> = layers.iter().map(|lines| archive(lines)).collect();
        let config = configuration(architecture, &archives);
        let config = self.blob("config.v1+json", config.to_string().as_bytes());
        let layers: Vec<Value> =
            archives.iter().map(|archive| self.blob("layer.v1.tar", &compress(archive))).collect();
        let manifest = json!({"schemaVersion": 2, "config": config, "layers": layers});
        self.blob("manifest.v1+json", manifest.to_string().as_bytes())
    }

    /// Adds an index of manifests, and returns its descriptor.
    pub(crate) fn index(&mut self, manifests: &[Value]) -> Value {
        let index = json!({"schemaVersion": 2, "manifests": manifests});
        self.blob("index.v1+json", index.to_string().as_bytes())
    }

    /// Completes a layout.
    pub(crate) fn layout(mut self, manifests: &[Value]) -> Self {
        let index = json!({"schemaVersion": 2, "manifests": manifests});
        self.add("index.json", index.to_string().as_bytes());
        self.add("oci-layout", br#"{"imageLayoutVersion": "1.0.0"}"#);
        self
    }

    pub(crate) fn write(&self, directory: &Path) {
        for (name, bytes) in &self.0 {
            let path = directory.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, bytes).unwrap();
        }
    }

    /// An archive with the files, and with links of the form `→ TARGET`.
    pub(crate) fn archive(&self) -> Vec<u8> {
        let mut builder = tar::Builder::new(Vec::new());
        for (name, bytes) in &self.0 {
            let mut header = tar::Header::new_gnu();
            header.set_mode(0o644);
            let link = str::from_utf8(bytes).ok().and_then(|text| text.strip_prefix("→ "));
            if let Some(target) = link {
                header.set_entry_type(tar::EntryType::Symlink);
                header.set_size(0);
                builder.append_link(&mut header, name, target).unwrap();
            } else {
                header.set_size(bytes.len() as u64);
                builder.append_data(&mut header, name, &bytes[..]).unwrap();
            }
        }
        builder.into_inner().unwrap()
    }

    pub(crate) fn archive_at(&self, directory: &Path, compress: fn(&[u8]) -> Vec<u8>) -> PathBuf {
        let path = directory.join("image.tar");
        fs::write(&path, compress(&self.archive())).unwrap();
        path
    }
}

pub(crate) fn configuration(architecture: &str, archives: &[Vec<u8>]) -> Value {
    let diff_ids: Vec<String> =
        archives.iter().map(|archive| format!("sha256:{}", sha256(archive))).collect();
    json!({
        "architecture": architecture,
        "os": "linux",
        "config": {
            "Entrypoint": ["/bin/tool"], "Cmd": null, "Env": ["PATH=/bin"], "WorkingDir": "/srv",
            "User": "7", "StopSignal": "SIGINT", "Labels": {"b": "2", "a": "1"},
            "ExposedPorts": {"80/tcp": {}, "53/udp": {}},
        },
        "rootfs": {"type": "layers", "diff_ids": diff_ids},
    })
}

/// What `docker save` before version 25 wrote. The second layer is a link to a file elsewhere, as
/// skopeo writes them.
pub(crate) fn saved(images: &[(&[&str], &[&str])]) -> Files {
    let (mut files, mut list) = (Files::default(), Vec::new());
    for (tags, layers) in images {
        let archives: Vec<Vec<u8>> = layers.iter().map(|lines| archive(lines)).collect();
        let config = configuration("amd64", &archives).to_string();
        let config_name = format!("{}.json", sha256(config.as_bytes()));
        files.add(&config_name, config.as_bytes());
        let mut names = Vec::new();
        for (number, archive) in archives.iter().enumerate() {
            let name = format!("{}-{number}/layer.tar", &config_name[..9]);
            if number % 2 == 1 {
                files.add(&format!("{}.tar", sha256(archive)), archive);
                files.add(&name, format!("→ ../{}.tar", sha256(archive)).as_bytes());
            } else {
                files.add(&name, archive);
            }
            names.push(name);
        }
        list.push(json!({"Config": config_name, "RepoTags": tags, "Layers": names}));
    }
    files.add("manifest.json", Value::from(list).to_string().as_bytes());
    files
}
