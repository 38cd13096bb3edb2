//! The shim's side: appends and rotates, and never makes the task wait for disk space.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::PathBuf;

use super::times::{INTERVAL_US, RECORD_BYTES, TimeRecord};
use super::{Stream, data_path, times_path};
use crate::record::Rotation;

/// Writes one stream of one task. A stream has at most one writer in its lifetime.
#[derive(Debug)]
pub(crate) struct LogWriter {
    dir: PathBuf,
    stream: Stream,
    policy: Rotation,
    current: Option<Current>,
    /// The number of the newest file; 0 before the first.
    number: u64,
    /// Bytes of the stream written so far.
    position: u64,
    /// Bytes dropped since the last successful write.
    dropped_bytes: u64,
}

/// The file being written.
#[derive(Debug)]
struct Current {
    data: File,
    times: Option<File>,
    data_bytes: u64,
    times_bytes: u64,
    last_record_us: u64,
    /// Cut at the end of a line: the next bytes go to the next file.
    full: bool,
    /// Whether the last byte was a newline; false for an empty file.
    ends_with_line: bool,
}

impl LogWriter {
    /// A writer for a stream that has no files yet.
    pub(crate) fn new(dir: PathBuf, stream: Stream, policy: Rotation) -> Self {
        Self { dir, stream, policy, current: None, number: 0, position: 0, dropped_bytes: 0 }
    }

    /// Appends what the task wrote at `now_unix_us`. Bytes that do not fit on the disk are dropped,
    /// and a line with their number is written as soon as there is space again.
    pub(crate) fn append(&mut self, mut bytes: &[u8], now_unix_us: u64) {
        if self.dropped_bytes > 0 && !self.mark_gap(now_unix_us) {
            self.dropped_bytes += bytes.len() as u64;
            return;
        }
        while !bytes.is_empty() {
            match self.append_some(bytes, now_unix_us) {
                Ok(written) => bytes = &bytes[written..],
                Err(_no_room) => {
                    self.dropped_bytes += bytes.len() as u64;
                    return;
                }
            }
        }
    }

    /// Writes the line about the gap; false if there is still no space for it.
    fn mark_gap(&mut self, now_unix_us: u64) -> bool {
        let line = format!(
            "\n[bourg: {} bytes of output were dropped because the disk was full]\n",
            self.dropped_bytes
        );
        let mut rest = line.as_bytes();
        while !rest.is_empty() {
            match self.append_some(rest, now_unix_us) {
                Ok(written) => rest = &rest[written..],
                Err(_no_room) => return false,
            }
        }
        self.dropped_bytes = 0;
        true
    }

    /// Appends as much of `bytes` as fits into the current file, or a new one: at least one byte.
    fn append_some(&mut self, bytes: &[u8], now_unix_us: u64) -> io::Result<usize> {
        let max = self.policy.file_bytes_max;
        let full = |file: &Current| file.full || file.data_bytes + file.times_bytes >= max;
        if self.current.as_ref().is_none_or(full) {
            self.rotate(now_unix_us)?;
        }
        let Some(file) = &mut self.current else { return Err(io::ErrorKind::NotFound.into()) };
        let record_due = now_unix_us.saturating_sub(file.last_record_us) >= INTERVAL_US
            || file.times_bytes <= RECORD_BYTES;
        if record_due {
            file.index(now_unix_us);
        }
        let room = max.saturating_sub(file.data_bytes + file.times_bytes).max(1);
        let room = usize::try_from(room).unwrap_or(usize::MAX);
        let part = if bytes.len() <= room {
            bytes
        } else {
            // Preferably a file ends with a complete line.
            match bytes[..room].iter().rposition(|byte| *byte == b'\n') {
                Some(newline) => &bytes[..=newline],
                None if file.ends_with_line => {
                    file.full = true;
                    return self.append_some(bytes, now_unix_us);
                }
                None => &bytes[..room],
            }
        };
        let written = file.data.write(part)?;
        if written == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        file.data_bytes += written as u64;
        file.ends_with_line = part[..written].ends_with(b"\n");
        self.position += written as u64;
        if part.len() < bytes.len() && written == part.len() {
            file.full = true;
        }
        Ok(written)
    }

    /// Starts the next file and deletes surplus ones.
    fn rotate(&mut self, now_unix_us: u64) -> io::Result<()> {
        let number = self.number + 1;
        let create = |path| File::options().append(true).create_new(true).open(path);
        // The index first: a reader that finds the data file finds its header, too.
        let times_path = times_path(&self.dir, self.stream, number);
        // Left over from an attempt that had no space for the data file.
        let _usually_not_there = fs::remove_file(&times_path);
        let header = TimeRecord { offset: self.position, unix_us: now_unix_us };
        let mut times = create(times_path.clone()).ok();
        if let Some(file) = &mut times
            && !file.write(&header.encode()).is_ok_and(|written| written == 16)
        {
            times = None;
        }
        let data = create(data_path(&self.dir, self.stream, number))?;
        self.current = Some(Current {
            data,
            times,
            data_bytes: 0,
            times_bytes: RECORD_BYTES,
            last_record_us: now_unix_us,
            full: false,
            ends_with_line: false,
        });
        self.number = number;
        if let Some(too_old) = number.checked_sub(u64::from(self.policy.files_max))
            && too_old > 0
        {
            // Readers with open files can continue; a failure is not retried, but the directory is
            // removed with the task.
            let _gone = fs::remove_file(data_path(&self.dir, self.stream, too_old));
            let _gone = fs::remove_file(super::times_path(&self.dir, self.stream, too_old));
        }
        Ok(())
    }

    /// Bytes that were dropped and not yet reported in the log.
    pub(crate) fn dropped_bytes(&self) -> u64 {
        self.dropped_bytes
    }
}

impl Current {
    /// Records that the next byte is written now; if there is no space, the index becomes coarser.
    fn index(&mut self, now_unix_us: u64) {
        let record = TimeRecord { offset: self.data_bytes, unix_us: now_unix_us }.encode();
        let Some(times) = &mut self.times else { return };
        match times.write(&record) {
            Ok(16) => {
                self.times_bytes += RECORD_BYTES;
                self.last_record_us = now_unix_us;
            }
            // A partial record would shift all following ones.
            Ok(_) => self.times = None,
            Err(_no_room) => {}
        }
    }
}
