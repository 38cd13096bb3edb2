//! From an image to a package, without a store: reading, checking, decompressing, cutting.

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use model::Digest;
use package::{ChunkSink, ImportOptions};
use serde::Serialize;

use super::image::{Compressed, LayerArchive, Layout};
use super::{DrawnBytes, has, mb_per_second, or_not_here, rounded};

/// How often each is measured; the median counts.
const ROUNDS: usize = 3;
/// The number of layers of an image.
const LAYERS: u64 = 4;
/// The length of a file.
const FILE: usize = 256 << 10;

/// The results, in MB of the archives of the layers, uncompressed.
#[derive(Debug, Serialize)]
pub(super) struct Figures {
    image_bytes: u64,
    plain_mb_per_second: f64,
    /// `sha256sum` of the same layers.
    #[serde(skip_serializing_if = "Option::is_none")]
    sha256sum_mb_per_second: Option<f64>,
    gzip_mb_per_second: f64,
    /// `gzip -dc` of the same layers.
    #[serde(skip_serializing_if = "Option::is_none")]
    gzip_dc_mb_per_second: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ratio_to_gzip_dc: Option<f64>,
}

/// Keeps nothing.
struct Nowhere;

impl ChunkSink for Nowhere {
    fn put(&mut self, _: Digest, _: &[u8]) -> io::Result<()> {
        Ok(())
    }
}

/// Makes the images and imports them.
pub(super) fn measure(place: &Path, bytes: u64, seed: u64) -> anyhow::Result<Figures> {
    let (plain, gzip) = (place.join("plain"), place.join("gzip"));
    let plain_layers = image(&plain, Compressed::Not, bytes, seed)?;
    let gzip_layers = image(&gzip, Compressed::Gzip, bytes, seed)?;
    let sizes = plain_layers.iter().map(|layer| layer.metadata().map(|found| found.len()));
    let image_bytes = sizes.sum::<io::Result<u64>>()?;
    let (mut imports, mut others) = ([Vec::new(), Vec::new()], [Vec::new(), Vec::new()]);
    for _ in 0..ROUNDS {
        for (layout, times) in [&plain, &gzip].into_iter().zip(&mut imports) {
            let begun = Instant::now();
            let imported = package::import(layout, &ImportOptions::default(), &mut Nowhere);
            let packed = imported.with_context(|| format!("cannot import {}", layout.display()))?;
            times.push(begun.elapsed());
            ensure!(
                packed.manifest.variants.len() == 1,
                "the image has another number of variants"
            );
        }
        let programs = [("sha256sum", &[][..], &plain_layers), ("gzip", &["-dc"], &gzip_layers)];
        for ((program, arguments, layers), times) in programs.into_iter().zip(&mut others) {
            if has(program) {
                times.push(of_program(program, arguments, layers)?);
            }
        }
    }
    let rate = |mut times: Vec<Duration>| {
        times.sort_unstable();
        mb_per_second(image_bytes, crate::nearest_rank(&times, 50))
    };
    let other = |times: Vec<Duration>| (!times.is_empty()).then(|| rate(times));
    let ([of_plain, of_gzip], [sha256sum, gzip_dc]) = (imports, others);
    let (gzip_mb_per_second, gzip_dc) = (rate(of_gzip), other(gzip_dc));
    Ok(Figures {
        image_bytes,
        plain_mb_per_second: rate(of_plain),
        sha256sum_mb_per_second: other(sha256sum),
        gzip_mb_per_second,
        gzip_dc_mb_per_second: gzip_dc,
        ratio_to_gzip_dc: gzip_dc.map(|gzip_dc| rounded(gzip_mb_per_second / gzip_dc, 2)),
    })
}

/// Makes an image of about this size. Returns the files of its layers.
fn image(
    directory: &Path,
    compressed: Compressed,
    bytes: u64,
    seed: u64,
) -> anyhow::Result<Vec<PathBuf>> {
    let mut layout = Layout::begin(directory, compressed)?;
    let (mut drawn, mut block) = (DrawnBytes::new(seed), vec![0; FILE]);
    for number in 0..LAYERS {
        let mut layer = LayerArchive::default();
        let mut left = bytes / LAYERS;
        let mut file = 0;
        while left > 0 {
            drawn.fill(&mut block);
            let part = usize::try_from(left).unwrap_or(FILE).min(FILE);
            layer.file(&format!("layer-{number}-file-{file}"), 0o644, &block[..part])?;
            (left, file) = (left - part as u64, file + 1);
        }
        layout.add(layer)?;
    }
    layout.end()?;
    Ok(layout.layers)
}

/// How long a program takes to read files.
fn of_program(program: &str, arguments: &[&str], files: &[PathBuf]) -> anyhow::Result<Duration> {
    let begun = Instant::now();
    for file in files {
        // From its input: a program may mind the name of a file.
        let input = std::fs::File::open(file)?;
        let mut command = Command::new(program);
        command.args(arguments).stdin(input).stdout(Stdio::null());
        let status = command.status().with_context(|| format!("cannot run {program}"))?;
        ensure!(status.success(), "{program} failed: {status}");
    }
    Ok(begun.elapsed())
}

/// The results as text.
pub(super) fn show(figures: &Figures) -> String {
    let unit = "MB/s";
    format!(
        "import of {} MB: plain layers {} {unit} (sha256sum: {}), gzip layers {} {unit} (gzip -dc: {})\n",
        figures.image_bytes / 1_000_000,
        figures.plain_mb_per_second,
        or_not_here(figures.sha256sum_mb_per_second, unit),
        figures.gzip_mb_per_second,
        or_not_here(figures.gzip_dc_mb_per_second, unit),
    )
}
