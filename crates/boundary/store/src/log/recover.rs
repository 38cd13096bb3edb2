//! Recovers a log in one pass over its segments: finds the end, distinguishes a torn tail from
//! damage, and determines the remaining entries. Changes nothing on the disk.

use std::fs;
use std::path::{Path, PathBuf};

use super::loss::LOST;
use super::newest;
use super::recovered::Repair;
use super::segment::{FORMAT, SegmentInfo};
use super::survivors::Survivors;
use crate::segments::record::Record;
use crate::segments::{self, Extent, Header, Walked};
use crate::{Error, Result};

/// The result of a pass over a log's directory.
pub(super) struct Scan {
    /// In order, without gaps.
    pub(super) segments: Vec<Segment>,
    pub(super) survivors: Survivors,
    pub(super) repair: Repair,
    pub(super) ignored: Vec<String>,
}

pub(super) struct Segment {
    pub(super) info: SegmentInfo,
    pub(super) header: Header,
}

/// Reads the log in `directory`. Segments whose entries are all below `index` are not read if their
/// place in the log is known from the headers. `live` means that another process may append.
pub(super) fn scan(directory: &Path, index: u64, live: bool) -> Result<Scan> {
    // Before the list: another process may create a segment in between.
    let made = newest::read(directory).unwrap_or(0);
    let (names, mut ignored) = segments::list(directory, &FORMAT)?;
    ignored.retain(|file| file != newest::FILE && !file.ends_with(LOST));
    let found = names.last().map(|name| name.sequence);
    if made > found.unwrap_or(0) {
        let directory = directory.to_owned();
        return Err(Error::MissingSegment { directory, made, found });
    }
    let headers = segments::read_headers(directory, &FORMAT, &names)?;
    segments::check_order(&FORMAT, &headers)?;
    // So that the entry before `index` is among those read.
    let first = index.saturating_sub(1);
    let newest = headers.iter().rposition(|(_, header)| header.begin.first_index <= first);
    let mut unread = newest.unwrap_or(0);
    loop {
        let scan = Scan::of(&headers, unread, live, &ignored)?;
        // The term of the last entry is known only if that entry was read.
        let mut read = scan.segments.iter().skip(unread);
        if unread == 0 || read.any(|segment| segment.info.last_index.is_some()) {
            return Ok(scan);
        }
        unread -= 1;
    }
}

impl Scan {
    /// Reads all segments except those of the first `unread` that their headers describe
    /// sufficiently.
    fn of(
        headers: &[(PathBuf, Header)],
        unread: usize,
        live: bool,
        ignored: &[String],
    ) -> Result<Self> {
        let mut scan = Self {
            segments: Vec::with_capacity(headers.len()),
            survivors: Survivors::default(),
            repair: Repair::None,
            ignored: ignored.to_vec(),
        };
        let mut buffer = Vec::new();
        for (i, (path, header)) in headers.iter().enumerate() {
            let next = headers.get(i + 1).map(|(_, next)| next);
            let plain = match next.filter(|_| i < unread) {
                Some(next) => {
                    let found = fs::metadata(path).map_err(|e| Error::reading(path, e))?;
                    SegmentInfo::plain(path, header, next, found.len())
                }
                None => None,
            };
            if let Some(info) = plain {
                scan.survivors.note_plain(&info);
                scan.segments.push(Segment { info, header: *header });
            } else {
                if live && next.is_none() {
                    segments::read_live(&FORMAT, path, header, &mut buffer)?;
                } else {
                    segments::read(path, &mut buffer)?;
                }
                let extent = match next {
                    Some(next) => Extent::Sealed(next.previous.offset),
                    None if live => Extent::Live,
                    None => Extent::Last,
                };
                scan.segment(path, header, &buffer, extent)?;
            }
        }
        Ok(scan)
    }

    /// Processes the records of one segment.
    fn segment(
        &mut self,
        path: &Path,
        header: &Header,
        bytes: &[u8],
        extent: Extent,
    ) -> Result<()> {
        let mut info = SegmentInfo::empty(path, header, 0, bytes.len() as u64);
        let note = |record: &Record<'_>| note(&mut self.survivors, &mut info, record);
        let walked = segments::walk(&FORMAT, path, header, bytes, extent, note)?;
        let Walked { end, torn_bytes } = walked;
        info.end = end;
        if torn_bytes > 0 {
            let (segment, offset) = (path.to_owned(), u64::from(end));
            self.repair = Repair::TornTail { segment, offset, bytes: torn_bytes };
        }
        self.segments.push(Segment { info, header: *header });
        Ok(())
    }
}

/// Processes one record; rejects an entry that leaves a gap.
pub(super) fn note(
    survivors: &mut Survivors,
    info: &mut SegmentInfo,
    record: &Record<'_>,
) -> Result<(), String> {
    let voided_from = survivors.note(record).map_err(|expected| {
        format!("entry {} follows where {expected} was expected", record.index)
    })?;
    info.note(record, voided_from);
    Ok(())
}
