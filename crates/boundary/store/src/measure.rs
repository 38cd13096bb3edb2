//! Measures the cost of durability on a disk: the physical limit for the log.
//!
//! For the bench command; not used in serving.

use std::fs;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::log::{Log, Options, RecordKind, RecordRef};
use crate::{Error, Result, disk, segments};

/// How long single writes took to become durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FsyncTimes {
    /// The median.
    pub p50: Duration,
    /// The 99th percentile; the maximum for fewer than 100 runs.
    pub p99: Duration,
}

impl FsyncTimes {
    fn of(mut times: Vec<Duration>) -> Self {
        times.sort_unstable();
        let at = |percent: usize| {
            times.get(times.len() * percent / 100).copied().unwrap_or(Duration::ZERO)
        };
        Self { p50: at(50), p99: at(99) }
    }
}

/// Writes `bytes` and calls fdatasync, `runs` times in sequence, in a file preallocated like a
/// segment. The file is created in `directory` and deleted again. Both counts are at least 1.
///
/// # Errors
/// [`Error::NoRoom`], [`Error::TooLarge`] if the file would be 4 GiB or more, and [`Error::Io`].
pub fn measure_fsync(directory: impl AsRef<Path>, bytes: usize, runs: usize) -> Result<FsyncTimes> {
    let (bytes, runs) = (bytes.max(1), runs.max(1));
    let path = directory.as_ref().join(format!("measure-{}.tmp", std::process::id()));
    let total = bytes.saturating_mul(runs);
    let size = u32::try_from(total).map_err(|_| Error::TooLarge {
        what: "a measurement",
        bytes: total as u64,
        limit: u64::from(u32::MAX),
    })?;
    let measure = || {
        let file = disk::create_unfinished(&path)?;
        let content = vec![0xB0; bytes];
        let failed = || Error::io("measure writes to", &path, u64::from(size));
        segments::preallocate(&file, size).and_then(|()| file.sync_all()).map_err(failed())?;
        let mut times = Vec::with_capacity(runs);
        for run in 0..runs {
            let begin = Instant::now();
            file.write_all_at(&content, (run * bytes) as u64)
                .and_then(|()| file.sync_data())
                .map_err(failed())?;
            times.push(begin.elapsed());
        }
        Ok(FsyncTimes::of(times))
    };
    let measured = measure();
    let _ = fs::remove_file(&path);
    measured
}

/// Appends one record with `bytes` of payload and syncs, `runs` times, to a log created in its own
/// directory below `directory` and deleted again. Both counts are at least 1.
///
/// # Errors
/// Those of [`Log::append`].
pub fn measure_append(
    directory: impl AsRef<Path>,
    bytes: usize,
    runs: usize,
) -> Result<FsyncTimes> {
    let (bytes, runs) = (bytes.max(1), runs.max(1));
    let path = directory.as_ref().join(format!("measure-{}", std::process::id()));
    fs::create_dir(&path).map_err(Error::io("create the directory", &path, 4096))?;
    let measure = || {
        let (mut log, _) = Log::open(&path, Options::default())?;
        let payload = vec![0xB0; bytes];
        let mut times = Vec::with_capacity(runs);
        // The first append creates the segment, which is not part of the cost of an append.
        for index in 0..=runs {
            let begin = Instant::now();
            let (kind, index) = (RecordKind::Entry, index as u64);
            log.append(&[RecordRef { kind, term: 1, index, level: 1, payload: &payload }])?;
            log.sync()?;
            times.push(begin.elapsed());
        }
        times.remove(0);
        Ok(FsyncTimes::of(times))
    };
    let measured = measure();
    let _ = fs::remove_dir_all(&path);
    measured
}
