//! The output of one task that writes as fast as it can, through its shim to the kept files.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use linux::logs::{LogReader, Start, Stream};
use serde::Serialize;

use super::driven::{Driven, count, has_ended, instance, working};
use super::rounded;
use super::work::{DIGITS, LINE_BYTES, write_line};

/// The results.
#[derive(Debug, Serialize)]
pub(super) struct Figures {
    mib: u64,
    lines: u64,
    /// Bytes a second in millions, as the task sees it: it waits for its shim.
    mb_per_second: f64,
    /// CPU time of the shim, the Borglet and the task, in seconds for each GB.
    cpu_s_per_gb: f64,
    /// The same bytes written into files of the same size by one process.
    page_cache_mb_per_second: f64,
    ratio_to_page_cache: f64,
    /// The lines that are kept, all whole and in order.
    kept_lines: u64,
}

const JOB: u64 = 1;
const WARM: u64 = 2;
/// The size of the files of a log.
const FILE_BYTES: u64 = 8 << 20;
const FILES: u64 = 4;
/// The size of the writes in the comparison.
const BLOCK_BYTES: usize = 64 << 10;

/// Runs the section.
pub(super) async fn measure(place: &Path, mib: u64) -> anyhow::Result<Figures> {
    let mut driven = Driven::start(place).await?;
    let warm = working(instance(WARM, 0), &["lines", "--mib", "1"])?;
    driven.order(vec![warm.clone()]);
    driven.until("the first has ended", |report| count(report, WARM, has_ended) == 1).await?;
    let cpu = driven.cpu_time()?;
    let task = working(instance(JOB, 0), &["lines", "--mib", &mib.to_string()])?;
    driven.order(vec![warm, task]);
    driven.until("it has ended", |report| count(report, JOB, has_ended) == 1).await?;
    let cpu = driven.cpu_time()? - cpu;
    let logs = driven.logs(instance(JOB, 0));
    let said = fs::read_to_string(logs.join("stderr.000001")).context("it did not end well")?;
    let (lines, nanos) = said.trim().split_once(' ').context("it said something else")?;
    let (lines, time) = (lines.parse::<u64>()?, Duration::from_nanos(nanos.parse()?));
    let kept_lines = kept(&logs, lines)?;
    let bytes = lines * LINE_BYTES as u64;
    let page_cache = page_cache(&logs, bytes)?;
    let of = |time: Duration| megabytes(bytes) / time.as_secs_f64().max(1e-9);
    Ok(Figures {
        mib,
        lines,
        mb_per_second: rounded(of(time), 0),
        cpu_s_per_gb: rounded(cpu.as_secs_f64() / megabytes(bytes) * 1e3, 2),
        page_cache_mb_per_second: rounded(of(page_cache), 0),
        ratio_to_page_cache: rounded(page_cache.as_secs_f64() / time.as_secs_f64().max(1e-9), 2),
        kept_lines,
    })
}

#[expect(clippy::cast_precision_loss, reason = "a size, rounded")]
fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}

/// The number of lines that are kept: every one must be whole, and they must be the last ones.
fn kept(logs: &Path, written: u64) -> anyhow::Result<u64> {
    let mut reader = LogReader::open(logs, Stream::Stdout, Start::Beginning)?;
    let mut text = Vec::new();
    let mut part = vec![0; 1 << 20];
    loop {
        match reader.read(&mut part)?.bytes {
            0 => break,
            bytes => text.extend(&part[..bytes]),
        }
    }
    let lines = text.chunks(LINE_BYTES);
    let kept = u64::try_from(lines.len())?;
    let mut expected = [0; LINE_BYTES];
    for (number, line) in (written.saturating_sub(kept)..).zip(lines) {
        write_line(number, &mut expected);
        let shown = || String::from_utf8_lossy(&line[..line.len().min(DIGITS)]).into_owned();
        ensure!(line == expected, "line {number} is torn or in the wrong place: {}", shown());
    }
    ensure!(kept > 0, "nothing is kept");
    Ok(kept)
}

/// How long one process takes to write as much into files of the same size, of which as many are
/// kept.
fn page_cache(directory: &Path, bytes: u64) -> anyhow::Result<Duration> {
    let block = vec![b'.'; BLOCK_BYTES];
    let path = |number: u64| directory.join(format!("compared.{number}"));
    let begun = Instant::now();
    let (mut left, mut number) = (bytes, 0);
    while left > 0 {
        let mut file = File::create(path(number))?;
        let mut room = FILE_BYTES.min(left);
        left -= room;
        while room > 0 {
            let part = room.min(BLOCK_BYTES as u64);
            file.write_all(&block[..usize::try_from(part)?])?;
            room -= part;
        }
        if let Some(old) = number.checked_sub(FILES) {
            fs::remove_file(path(old))?;
        }
        number += 1;
    }
    Ok(begun.elapsed())
}

/// The results as text.
pub(super) fn show(figures: &Figures) -> String {
    format!(
        "logs: {} MB a second through one shim ({} MiB, {} s of CPU for each GB); {} times the page \
         cache's {} MB a second; {} lines are kept, all whole and in order\n",
        figures.mb_per_second,
        figures.mib,
        figures.cpu_s_per_gb,
        figures.ratio_to_page_cache,
        figures.page_cache_mb_per_second,
        figures.kept_lines
    )
}
