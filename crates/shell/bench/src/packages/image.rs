//! Makes images: OCI layouts of layers that are written here.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use flate2::Compression;
use flate2::write::GzEncoder;

use super::make_directory;

/// The length of a block of a tar archive.
const BLOCK: usize = 512;

/// How layers are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Compressed {
    Not,
    Gzip,
}

/// A layer that is being written: a tar archive.
#[derive(Default)]
pub(super) struct LayerArchive(Vec<u8>);

impl LayerArchive {
    pub(super) fn directory(&mut self, name: &str) -> anyhow::Result<()> {
        self.member(name, b'5', 0o755, "", &[])
    }

    pub(super) fn file(&mut self, name: &str, mode: u32, content: &[u8]) -> anyhow::Result<()> {
        self.member(name, b'0', mode, "", content)
    }

    pub(super) fn link(&mut self, name: &str, target: &str) -> anyhow::Result<()> {
        self.member(name, b'2', 0o777, target, &[])
    }

    fn member(
        &mut self,
        name: &str,
        kind: u8,
        mode: u32,
        target: &str,
        content: &[u8],
    ) -> anyhow::Result<()> {
        ensure!(name.len() < 100 && target.len() < 100, "{name}: too long for a header of tar");
        let mut header = [0; BLOCK];
        let mut put = |at: usize, bytes: &[u8]| header[at..at + bytes.len()].copy_from_slice(bytes);
        put(0, name.as_bytes());
        put(100, format!("{mode:07o}").as_bytes());
        put(108, b"0000000");
        put(116, b"0000000");
        put(124, format!("{:011o}", content.len()).as_bytes());
        put(136, b"00000000000");
        put(148, b"        ");
        put(156, &[kind]);
        put(157, target.as_bytes());
        put(257, b"ustar\x0000");
        let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
        header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        self.0.extend_from_slice(&header);
        self.0.extend_from_slice(content);
        let padded = self.0.len().next_multiple_of(BLOCK);
        self.0.resize(padded, 0);
        Ok(())
    }

    /// The whole archive.
    fn end(mut self) -> Vec<u8> {
        self.0.resize(self.0.len() + 2 * BLOCK, 0);
        self.0
    }
}

/// An OCI layout that is being written.
pub(super) struct Layout {
    directory: PathBuf,
    compressed: Compressed,
    /// The files of the layers, for programs to read.
    pub(super) layers: Vec<PathBuf>,
    descriptors: Vec<String>,
    contents: Vec<String>,
}

impl Layout {
    pub(super) fn begin(directory: &Path, compressed: Compressed) -> anyhow::Result<Self> {
        make_directory(&directory.join("blobs/sha256"))?;
        fs::write(directory.join("oci-layout"), r#"{"imageLayoutVersion": "1.0.0"}"#)?;
        let (layers, descriptors, contents) = Default::default();
        Ok(Self { directory: directory.to_owned(), compressed, layers, descriptors, contents })
    }

    /// Adds a layer above the others.
    pub(super) fn add(&mut self, layer: LayerArchive) -> anyhow::Result<()> {
        let archive = layer.end();
        self.contents.push(format!(r#""sha256:{}""#, sha256(&archive)));
        let (bytes, kind) = match self.compressed {
            Compressed::Not => (archive, "tar"),
            Compressed::Gzip => {
                let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
                encoder.write_all(&archive)?;
                (encoder.finish()?, "tar+gzip")
            }
        };
        let media = format!("application/vnd.oci.image.layer.v1.{kind}");
        let (descriptor, path) = self.blob(&bytes, &media)?;
        self.descriptors.push(descriptor);
        self.layers.push(path);
        Ok(())
    }

    /// Completes the layout, with one image for this machine's architecture.
    pub(super) fn end(&self) -> anyhow::Result<()> {
        let architecture = match std::env::consts::ARCH {
            "x86_64" => "amd64",
            "aarch64" => "arm64",
            other => other,
        };
        let config = format!(
            r#"{{"architecture": "{architecture}", "os": "linux", "config": {{"Env": ["PATH=/bin"]}}, "rootfs": {{"type": "layers", "diff_ids": [{}]}}}}"#,
            self.contents.join(", ")
        );
        let (config, _) =
            self.blob(config.as_bytes(), "application/vnd.oci.image.config.v1+json")?;
        let media = "application/vnd.oci.image.manifest.v1+json";
        let manifest = format!(
            r#"{{"schemaVersion": 2, "mediaType": "{media}", "config": {config}, "layers": [{}]}}"#,
            self.descriptors.join(", ")
        );
        let (manifest, _) = self.blob(manifest.as_bytes(), media)?;
        let index = format!(r#"{{"schemaVersion": 2, "manifests": [{manifest}]}}"#);
        fs::write(self.directory.join("index.json"), index).context("cannot write an index")
    }

    /// Writes a blob; returns its descriptor and its file.
    fn blob(&self, bytes: &[u8], media: &str) -> anyhow::Result<(String, PathBuf)> {
        let digest = sha256(bytes);
        let path = self.directory.join("blobs/sha256").join(&digest);
        fs::write(&path, bytes).with_context(|| format!("cannot write {}", path.display()))?;
        let size = bytes.len();
        let descriptor =
            format!(r#"{{"mediaType": "{media}", "digest": "sha256:{digest}", "size": {size}}}"#);
        Ok((descriptor, path))
    }
}

/// A program that is many, and needs no libraries.
pub(super) fn busybox() -> anyhow::Result<&'static str> {
    let places = ["/bin/busybox", "/usr/bin/busybox"];
    let found = places.into_iter().find(|path| Path::new(path).exists());
    found.context("there is no /bin/busybox for an image: install busybox-static")
}

/// Writes an image with a shell and a few programs: those of busybox, which needs no libraries.
pub(super) fn with_programs(directory: &Path) -> anyhow::Result<()> {
    let place = busybox()?;
    let program = fs::read(place).with_context(|| format!("cannot read {place}"))?;
    let mut layout = Layout::begin(directory, Compressed::Gzip)?;
    let mut layer = LayerArchive::default();
    for name in ["bin/", "etc/", "tmp/"] {
        layer.directory(name)?;
    }
    layer.file("bin/busybox", 0o755, &program)?;
    for name in ["sh", "sleep", "echo", "true"] {
        layer.link(&format!("bin/{name}"), "busybox")?;
    }
    layer.file("etc/passwd", 0o644, b"root:x:0:0:root:/:/bin/sh\n")?;
    layer.file("etc/group", 0o644, b"root:x:0:\n")?;
    layout.add(layer)?;
    layout.end()
}

fn sha256(bytes: &[u8]) -> String {
    let digest = ring::digest::digest(&ring::digest::SHA256, bytes);
    digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}
