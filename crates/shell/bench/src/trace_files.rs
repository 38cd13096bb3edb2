//! Reads Google's trace of 2011 from a directory with its files (see docs/traces.md).

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use flate2::read::MultiGzDecoder;
use trace::CellSnapshot;
use trace::google2011::{HistoryBuilder, Scale, Trace, machines, removals};

/// The maximum decompressed size of one file.
const BYTES_MAX: u64 = 4 << 30;

/// Reads everything that the directory has of the trace: the cell at time 0, and the events as far
/// as the files reach.
pub(crate) fn read(directory: &Path) -> anyhow::Result<Trace> {
    let derived = directory.join("derived");
    let path = derived.join("machines-merged.csv.gz");
    let known = machines(unpacked(&path)?).with_context(|| path.display().to_string())?;
    let path = derived.join("machine_remove_events.csv.gz");
    let removed = removals(unpacked(&path)?).with_context(|| path.display().to_string())?;
    let mut history = HistoryBuilder::new(Scale::default(), &known, &removed);
    for path in parts(&directory.join("task_events"))? {
        history.read(unpacked(&path)?).with_context(|| path.display().to_string())?;
    }
    Ok(history.finish())
}

/// A file of text, compressed by gzip if its name ends so.
pub(crate) fn text(path: &Path) -> anyhow::Result<Box<dyn BufRead>> {
    if path.extension().is_some_and(|extension| extension == "gz") {
        return Ok(Box::new(unpacked(path)?));
    }
    let file = File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
    Ok(Box::new(BufReader::new(file.take(BYTES_MAX))))
}

/// Reads only the cell at time 0.
pub(crate) fn snapshot(directory: &Path) -> anyhow::Result<CellSnapshot> {
    let path = directory.join("derived/machines-merged.csv.gz");
    let known = machines(unpacked(&path)?).with_context(|| path.display().to_string())?;
    let mut history = HistoryBuilder::new(Scale::default(), &known, &[]);
    // All of it is at the beginning of the first part.
    let path = parts(&directory.join("task_events"))?.remove(0);
    let mut at_time_0 = Vec::new();
    for line in unpacked(&path)?.split(b'\n') {
        let line = line.with_context(|| path.display().to_string())?;
        if !line.starts_with(b"0,") {
            break;
        }
        at_time_0.extend_from_slice(&line);
        at_time_0.push(b'\n');
    }
    history.read(at_time_0.as_slice()).with_context(|| path.display().to_string())?;
    Ok(history.finish().snapshot)
}

/// The files of a table, in order.
fn parts(directory: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let entries = fs::read_dir(directory)
        .with_context(|| format!("cannot read the trace's {}", directory.display()))?;
    let paths = entries.map(|entry| Ok(entry?.path())).collect::<std::io::Result<Vec<_>>>()?;
    let is_part = |path: &PathBuf| path.to_string_lossy().ends_with(".csv.gz");
    let mut paths: Vec<PathBuf> = paths.into_iter().filter(is_part).collect();
    paths.sort();
    ensure!(!paths.is_empty(), "{} contains no file of the trace", directory.display());
    Ok(paths)
}

fn unpacked(path: &Path) -> anyhow::Result<BufReader<impl Read + use<>>> {
    let file = File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
    Ok(BufReader::with_capacity(1 << 20, MultiGzDecoder::new(file).take(BYTES_MAX)))
}
