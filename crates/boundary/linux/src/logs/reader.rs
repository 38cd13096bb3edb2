//! Reads a stream while it grows, across rotation, from any position that still exists.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::times::{INTERVAL_US, Times};
use super::{LogError, Stream, data_path, numbers, times_path};

/// Where to start reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// At the oldest existing output.
    Beginning,
    /// At the last this many lines.
    Tail(u64),
    /// At the output written at this time or later, in microseconds since 1970, or up to 100 ms
    /// before.
    Since(u64),
    /// At this position in the stream, to continue from [`ReadOutcome::next_position`].
    Position(u64),
}

/// The result of one call of [`LogReader::read`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadOutcome {
    /// The number of bytes read; 0 at the current end of the stream, which may still grow.
    pub bytes: usize,
    /// The stream position of the first of them.
    pub position: u64,
    /// When they were written, in microseconds since 1970, accurate to 100 ms; 0 if unknown.
    pub unix_us: u64,
    /// The number of bytes before them that were deleted before this reader reached them.
    pub lost_bytes: u64,
}

impl ReadOutcome {
    /// Where the next read continues.
    #[must_use]
    pub fn next_position(&self) -> u64 {
        self.position + self.bytes as u64
    }
}

/// Reads one stream of one task. Never blocks: at the end it returns 0 bytes, and more later.
#[derive(Debug)]
pub struct LogReader {
    dir: PathBuf,
    stream: Stream,
    open: Option<OpenFile>,
    lost_bytes: u64,
    /// The position of the next byte, used when no file is open.
    position: u64,
}

/// The file being read.
#[derive(Debug)]
struct OpenFile {
    number: u64,
    data: File,
    times: Times,
    /// The stream position of the file's first byte.
    base: u64,
    /// The offset of the next byte in the file.
    offset: u64,
    /// The index record after `offset`.
    next_record: u64,
    /// The time of the record before it.
    unix_us: u64,
}

impl LogReader {
    /// Opens `stream` in the log directory `dir` of a task. As long as there is no output, reads
    /// return 0 bytes.
    ///
    /// # Errors
    /// When the directory does not exist or cannot be read.
    pub fn open(dir: &Path, stream: Stream, start: Start) -> Result<Self, LogError> {
        let mut reader =
            Self { dir: dir.to_owned(), stream, open: None, lost_bytes: 0, position: 0 };
        let prepared = match start {
            Start::Beginning => reader.numbers().map(drop),
            Start::Tail(lines) => reader.seek_tail(lines),
            Start::Since(unix_us) => reader.seek_time(unix_us),
            Start::Position(position) => reader.seek_position(position),
        };
        match prepared {
            Ok(()) => Ok(reader),
            Err(source) => Err(LogError { dir: dir.to_owned(), source }),
        }
    }

    /// Reads the next bytes, all with the same time.
    ///
    /// # Errors
    /// When the disk fails.
    pub fn read(&mut self, buf: &mut [u8]) -> io::Result<ReadOutcome> {
        if self.open.is_none() {
            let first = self.numbers()?.first().copied();
            if let Some(first) = first {
                self.switch_to(first)?;
            }
        }
        loop {
            let Some(open) = &mut self.open else { return Ok(self.outcome(0, 0)) };
            let bytes = open.read(buf)?;
            if bytes > 0 || buf.is_empty() {
                let unix_us = open.unix_us;
                let outcome = self.outcome(bytes, unix_us);
                self.position += bytes as u64;
                self.lost_bytes = 0;
                return Ok(outcome);
            }
            // A file is complete when a later one exists, so check for that before checking again
            // whether more was written to this one.
            let number = open.number;
            let Some(next) = self.after(number)? else {
                let unix_us = self.open.as_ref().map_or(0, |open| open.unix_us);
                return Ok(self.outcome(0, unix_us));
            };
            let Some(open) = &mut self.open else { return Ok(self.outcome(0, 0)) };
            if open.data.metadata()?.len() <= open.offset {
                self.switch_to(next)?;
            }
        }
    }

    fn outcome(&self, bytes: usize, unix_us: u64) -> ReadOutcome {
        ReadOutcome { bytes, position: self.position, unix_us, lost_bytes: self.lost_bytes }
    }

    fn numbers(&self) -> io::Result<Vec<u64>> {
        numbers(&self.dir, self.stream)
    }

    /// The file that follows `number` now: usually the next number, else the oldest existing one.
    fn after(&self, number: u64) -> io::Result<Option<u64>> {
        if data_path(&self.dir, self.stream, number + 1).exists() {
            return Ok(Some(number + 1));
        }
        Ok(self.numbers()?.into_iter().find(|later| *later > number))
    }

    /// Continues with file `number`, or with the oldest existing one if that has been deleted.
    fn switch_to(&mut self, number: u64) -> io::Result<()> {
        let mut number = number;
        let open = loop {
            match OpenFile::new(&self.dir, self.stream, number, self.position) {
                Ok(open) => break open,
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    let Some(later) = self.after(number)? else { return Ok(()) };
                    number = later;
                }
                Err(error) => return Err(error),
            }
        };
        self.lost_bytes += open.base.saturating_sub(self.position);
        self.position = open.base;
        self.open = Some(open);
        Ok(())
    }

    /// Starts with file `number` at `offset`, without counting earlier bytes as lost.
    fn begin_at(&mut self, number: u64, offset: u64) -> io::Result<()> {
        self.switch_to(number)?;
        self.lost_bytes = 0;
        if let Some(open) = &mut self.open
            && open.number == number
        {
            open.seek(offset)?;
            self.position = open.base + open.offset;
        }
        Ok(())
    }

    fn seek_tail(&mut self, lines: u64) -> io::Result<()> {
        let mut wanted = lines;
        let mut buffer = vec![0; 16 << 10];
        let mut last_byte_of_all = true;
        let numbers = self.numbers()?;
        for &number in numbers.iter().rev() {
            let Ok(file) = File::open(data_path(&self.dir, self.stream, number)) else { break };
            let mut end = file.metadata()?.len();
            if lines == 0 {
                return self.begin_at(number, end);
            }
            while end > 0 {
                let begin = end.saturating_sub(buffer.len() as u64);
                let part = &mut buffer[..usize::try_from(end - begin).unwrap_or(0)];
                file.read_exact_at(part, begin)?;
                for (index, byte) in part.iter().enumerate().rev() {
                    // The newline that ends the last line does not start another.
                    if *byte == b'\n' && !last_byte_of_all {
                        wanted -= 1;
                        if wanted == 0 {
                            return self.begin_at(number, begin + index as u64 + 1);
                        }
                    }
                    last_byte_of_all = false;
                }
                end = begin;
            }
        }
        match numbers.first() {
            Some(first) => self.begin_at(*first, 0),
            None => Ok(()),
        }
    }

    fn seek_time(&mut self, unix_us: u64) -> io::Result<()> {
        let numbers = self.numbers()?;
        // Bytes after a record may be up to one interval later than the record.
        let reached = |time: u64| time.saturating_add(INTERVAL_US) > unix_us;
        for &number in &numbers {
            let Ok(file) = OpenFile::new(&self.dir, self.stream, number, 0) else { continue };
            let index = file.times.first(|record| reached(record.unix_us))?;
            if let Some(record) = file.times.get(index) {
                return self.begin_at(number, record.offset);
            }
        }
        // Nothing that late exists: start at the end, where it will appear.
        self.seek_tail(0)
    }

    fn seek_position(&mut self, position: u64) -> io::Result<()> {
        self.position = position;
        let mut place = None;
        for number in self.numbers()? {
            let Ok(file) = OpenFile::new(&self.dir, self.stream, number, position) else {
                continue;
            };
            if file.base <= position {
                place = Some((number, position - file.base));
            }
        }
        match place {
            Some((number, offset)) => self.begin_at(number, offset),
            // Everything that still exists is later, so the first read goes there and counts the
            // loss.
            None => Ok(()),
        }
    }
}

impl OpenFile {
    /// Opens a file; `position` is its start if its index does not contain it.
    fn new(dir: &Path, stream: Stream, number: u64, position: u64) -> io::Result<Self> {
        let data = File::open(data_path(dir, stream, number))?;
        let times = Times::new(File::open(times_path(dir, stream, number)).ok());
        let header = times.header();
        Ok(Self {
            number,
            data,
            base: header.map_or(position, |header| header.offset),
            offset: 0,
            next_record: 0,
            unix_us: header.map_or(0, |header| header.unix_us),
            times,
        })
    }

    fn seek(&mut self, offset: u64) -> io::Result<()> {
        self.offset = offset.min(self.data.metadata()?.len());
        self.next_record = self.times.first(|record| record.offset > self.offset)?;
        if let Some(before) = self.next_record.checked_sub(1).and_then(|i| self.times.get(i)) {
            self.unix_us = before.unix_us;
        }
        Ok(())
    }

    /// Reads at most up to the next record, so that all of it has one time.
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let mut end = u64::MAX;
        while let Some(record) = self.times.get(self.next_record) {
            if record.offset > self.offset {
                end = record.offset;
                break;
            }
            self.unix_us = record.unix_us;
            self.next_record += 1;
        }
        let most = usize::try_from(end - self.offset).unwrap_or(usize::MAX).min(buf.len());
        let bytes = self.data.read_at(&mut buf[..most], self.offset)?;
        self.offset += bytes as u64;
        Ok(bytes)
    }
}
