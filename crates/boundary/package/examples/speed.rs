//! Measures the speed of packing, importing and unpacking: `cargo run --release -p package
//! --example speed [MiB]`. It makes its own directory and images, and prints megabytes per second
//! of what the files have.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write as _};
use std::os::fd::AsFd as _;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use model::Digest;
use package::{ChunkSink, Form, ImportOptions, MemoryChunks, PackLimits, import, pack, unpack};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// Keeps nothing.
struct Nowhere;

impl ChunkSink for Nowhere {
    fn put(&mut self, _: Digest, _: &[u8]) -> io::Result<()> {
        Ok(())
    }
}

fn main() -> Result<()> {
    let mebibytes: u64 = std::env::args().nth(1).map_or(Ok(256), |text| text.parse())?;
    let directory = tempfile::tempdir()?;
    let at = |name: &str| directory.path().join(name);
    let bytes = mebibytes << 20;
    make(&at("files"), bytes)?;
    image(&at("plain"), &at("files"), false)?;
    image(&at("gzip"), &at("files"), true)?;
    let measured = |what: &str, begin: Instant| {
        let seconds = begin.elapsed().as_secs_f64();
        #[expect(clippy::cast_precision_loss, reason = "printed with three digits")]
        let speed = bytes as f64 / 1e6 / seconds;
        println!("{what:40} {speed:7.0} MB/s");
    };
    for _ in 0..3 {
        let begin = Instant::now();
        pack(&at("files"), &mut Nowhere, &PackLimits::default())?;
        measured("pack a directory, keep nothing", begin);
        for form in ["plain", "gzip"] {
            let begin = Instant::now();
            import(&at(form), &ImportOptions::default(), &mut Nowhere)?;
            measured(&format!("import, {form}, keep nothing"), begin);
        }
        for program in ["sha256sum", "gzip"] {
            let file = if program == "gzip" { "layer.gz" } else { "layer" };
            let begin = Instant::now();
            let mut command = Command::new(program);
            command.args(if program == "gzip" { &["-dc"][..] } else { &[] }).arg(at(file));
            command.stdout(File::create("/dev/null")?).status()?;
            measured(&format!("{program} of the layer"), begin);
        }
    }
    let mut chunks = MemoryChunks::new();
    let packed = import(&at("plain"), &ImportOptions::default(), &mut chunks)?;
    fs::create_dir(at("root"))?;
    let root = File::open(at("root"))?;
    let begin = Instant::now();
    for layer in &packed.manifest.variants[0].layers {
        unpack(layer, &mut chunks, root.as_fd(), Form::Plain)?;
    }
    measured("unpack from memory", begin);
    small_files(&at("small"), &at("small.root"))
}

/// Packs and unpacks many files, each with a chunk of its own.
fn small_files(files: &Path, root: &Path) -> Result<()> {
    const FILES: u32 = 50_000;
    for number in 0..FILES {
        let path = files.join(format!("{}/{}/{number}", number % 50, number % 20));
        fs::create_dir_all(path.parent().unwrap_or(files))?;
        fs::write(path, number.to_string().repeat(200))?;
    }
    let mut chunks = MemoryChunks::new();
    let begin = Instant::now();
    let packed = pack(files, &mut chunks, &PackLimits::default())?;
    let packing = begin.elapsed();
    fs::create_dir(root)?;
    let opened = File::open(root)?;
    let begin = Instant::now();
    for layer in &packed.manifest.variants[0].layers {
        unpack(layer, &mut chunks, opened.as_fd(), Form::Plain)?;
    }
    let unpacking = begin.elapsed();
    println!("{FILES} small files: packed in {packing:.2?}, unpacked in {unpacking:.2?}");
    Ok(())
}

/// Makes files of all sizes, half of whose bytes compress.
fn make(directory: &Path, bytes: u64) -> Result<()> {
    let mut random = blake3::Hasher::new().finalize_xof();
    let (mut made, mut number, mut block) = (0, 0, vec![0; 64 << 10]);
    while made < bytes {
        let length = (4 << 10) << (number % 14);
        let path = directory.join(format!("{}/{number}", number % 100));
        fs::create_dir_all(path.parent().unwrap_or(directory))?;
        let mut file = BufWriter::new(File::create(path)?);
        let mut left = length.min(bytes - made);
        made += left;
        while left > 0 {
            random.fill(&mut block);
            block[..32 << 10].iter_mut().for_each(|byte| *byte &= 15);
            let part = usize::try_from(left)?.min(block.len());
            file.write_all(&block[..part])?;
            left -= part as u64;
        }
        file.flush()?;
        number += 1;
    }
    Ok(())
}

/// Makes a layout of one layer with GNU tar and gzip.
fn image(layout: &Path, files: &Path, compress: bool) -> Result<()> {
    let blobs = layout.join("blobs/sha256");
    fs::create_dir_all(&blobs)?;
    let above = layout.parent().unwrap_or(layout);
    let (layer, compressed) = (above.join("layer"), above.join("layer.gz"));
    if !layer.exists() {
        let mut tar = Command::new("tar");
        tar.arg("--create").arg("--file").arg(&layer).arg("--directory").arg(files).arg(".");
        tar.status()?;
        Command::new("gzip").args(["--keep", "-6"]).arg(&layer).status()?;
    }
    let add = |bytes: &[u8]| -> Result<String> {
        let digest = hex(bytes);
        fs::write(blobs.join(&digest), bytes)?;
        Ok(format!(r#"{{"digest": "sha256:{digest}", "size": {}}}"#, bytes.len()))
    };
    let archive = fs::read(&layer)?;
    let config = add(format!(
        r#"{{"architecture": "amd64", "os": "linux", "rootfs": {{"diff_ids": ["sha256:{}"]}}}}"#,
        hex(&archive)
    )
    .as_bytes())?;
    let layer = if compress { add(&fs::read(compressed)?)? } else { add(&archive)? };
    let manifest = add(format!(r#"{{"config": {config}, "layers": [{layer}]}}"#).as_bytes())?;
    fs::write(layout.join("index.json"), format!(r#"{{"manifests": [{manifest}]}}"#))?;
    Ok(())
}

fn hex(bytes: &[u8]) -> String {
    let digest = ring::digest::digest(&ring::digest::SHA256, bytes);
    digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}
