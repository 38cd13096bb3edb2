//! A second version of a package, of which few files differ.

use std::fs;
use std::path::Path;
use std::time::Instant;

use anyhow::Context;
use command::Failure;
use dev::Client;
use serde::Serialize;

use super::{DrawnBytes, Transferred, make_directory, ratio, rounded};

/// The length of a file.
const FILE: usize = 64 << 10;
/// One file in so many differs.
const CHANGED: u32 = 100;
/// The files of one directory.
const OF_A_DIRECTORY: u32 = 100;

/// The results.
#[derive(Debug, Serialize)]
pub(super) struct Figures {
    files: u32,
    changed_files: u32,
    /// What the store received for the first version, and for the second.
    first_bytes: u64,
    second_bytes: u64,
    sent_share: f64,
    first_seconds: f64,
    second_seconds: f64,
}

/// Builds a package, changes files of it, and builds the next version.
pub(super) async fn measure(
    client: &mut Client,
    place: &Path,
    files: u32,
    seed: u64,
) -> Result<Figures, Failure> {
    let mut drawn = DrawnBytes::new(seed);
    for number in 0..files {
        write(place, number, &mut drawn)?;
    }
    let shown = place.to_string_lossy().into_owned();
    let mut at = Transferred::of(&mut client.connection).await?;
    let mut received = Vec::new();
    for version in ["1", "2"] {
        let begun = Instant::now();
        let build = ["build", &shown, "--name", "bench", "--version", version];
        super::package(client, &build).await?;
        let seconds = rounded(begun.elapsed().as_secs_f64(), 3);
        let now = Transferred::of(&mut client.connection).await?;
        received.push((now.received.saturating_sub(at.received), seconds));
        at = now;
        for number in (0..files).step_by(CHANGED as usize) {
            write(place, number, &mut drawn)?;
        }
    }
    let ((first_bytes, first_seconds), (second_bytes, second_seconds)) = (received[0], received[1]);
    Ok(Figures {
        files,
        changed_files: files.div_ceil(CHANGED),
        first_bytes,
        second_bytes,
        sent_share: ratio(second_bytes, first_bytes),
        first_seconds,
        second_seconds,
    })
}

fn write(place: &Path, number: u32, drawn: &mut DrawnBytes) -> anyhow::Result<()> {
    let directory = place.join(format!("part-{}", number / OF_A_DIRECTORY));
    make_directory(&directory)?;
    let mut content = vec![0; FILE];
    drawn.fill(&mut content);
    let path = directory.join(format!("file-{number}"));
    fs::write(&path, content).with_context(|| format!("cannot write {}", path.display()))
}

/// The results as text.
pub(super) fn show(figures: &Figures) -> String {
    format!(
        "upload: {} of {} files changed: {} of {} bytes sent, {} %; {} s, the first version {} s\n",
        figures.changed_files,
        figures.files,
        figures.second_bytes,
        figures.first_bytes,
        rounded(figures.sent_share * 100.0, 2),
        figures.second_seconds,
        figures.first_seconds,
    )
}
