//! Reading a log back: one pass over all segments that finds the end, tells a torn tail from
//! damage, and says which entries remain. Changes nothing on the disk.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use super::record::{self, ALIGNMENT, Found, Position};
use super::recovered::Repair;
use super::segment::{self, Header, Name, SEGMENT_HEADER_BYTES, SegmentInfo};
use super::survivors::Survivors;
use crate::{Error, Result, disk};

/// What a pass over a log's directory found.
pub(super) struct Scan {
    /// In order, without gaps.
    pub(super) segments: Vec<Segment>,
    pub(super) survivors: Survivors,
    pub(super) repair: Repair,
    pub(super) ignored: Vec<String>,
}

pub(super) struct Segment {
    pub(super) info: SegmentInfo,
    pub(super) seed: u32,
}

/// Reads the whole log in `directory`.
pub(super) fn scan(directory: &Path) -> Result<Scan> {
    let (names, ignored) = list(directory)?;
    let mut headers = Vec::with_capacity(names.len());
    for name in names {
        let path = directory.join(name.to_string());
        let header = read_header(&path, name)?;
        headers.push((path, header));
    }
    check_order(&headers)?;

    let mut scan = Scan {
        segments: Vec::with_capacity(headers.len()),
        survivors: Survivors::default(),
        repair: Repair::None,
        ignored,
    };
    let mut buffer = Vec::new();
    for (i, (path, header)) in headers.iter().enumerate() {
        segment::read(path, &mut buffer)?;
        let durable_end = headers.get(i + 1).map(|(_, next)| next.previous.offset);
        scan.segment(path, header, &buffer, durable_end)?;
    }
    Ok(scan)
}

/// The segments in a directory, in order of their sequence, and the names that are not ours.
pub(super) fn list(directory: &Path) -> Result<(Vec<Name>, Vec<String>)> {
    let (mut names, mut ignored) = (Vec::new(), Vec::new());
    for name in disk::names(directory)? {
        match Name::parse(&name) {
            Some(name) => names.push(name),
            None => ignored.push(name),
        }
    }
    names.sort_unstable();
    Ok((names, ignored))
}

fn read_header(path: &Path, name: Name) -> Result<Header> {
    let mut bytes = Vec::with_capacity(SEGMENT_HEADER_BYTES as usize);
    File::open(path)
        .and_then(|file| file.take(u64::from(SEGMENT_HEADER_BYTES)).read_to_end(&mut bytes))
        .map_err(Error::io("read", path, 0))?;
    Header::decode(path, name, &bytes)
}

/// Segments are deleted from the oldest on, so that the first one may follow anything.
fn check_order(headers: &[(PathBuf, Header)]) -> Result<()> {
    for pair in headers.windows(2) {
        let [(before, first), (after, second)] = pair else { continue };
        if second.sequence == first.sequence {
            let why = format!("{} has the same sequence number", before.display());
            return Err(Error::DamagedLog { path: after.clone(), offset: 16, why });
        }
        if second.previous.segment != first.sequence {
            let missing = second.previous.segment;
            let why = format!("it follows segment {missing}, whose file is missing");
            return Err(Error::DamagedLog { path: after.clone(), offset: 40, why });
        }
    }
    Ok(())
}

impl Scan {
    /// Takes the records of one segment. `durable_end` is what the next segment says about this
    /// one; the last segment has none.
    fn segment(
        &mut self,
        path: &Path,
        header: &Header,
        bytes: &[u8],
        durable_end: Option<u32>,
    ) -> Result<()> {
        let seed = header.seed();
        let damaged = |offset: u32, why: String| Error::DamagedLog {
            path: path.to_owned(),
            offset: u64::from(offset),
            why,
        };
        let mut position = Position { segment: header.sequence, offset: SEGMENT_HEADER_BYTES };
        let mut last_index: Option<u64> = None;
        while durable_end != Some(position.offset) {
            let why = match record::decode(bytes, seed, position) {
                Found::Record(record) => {
                    if durable_end.is_some_and(|end| record.end() > end) {
                        let why = "the next segment says that records end before this one does";
                        return Err(damaged(position.offset, why.to_owned()));
                    }
                    if record.kind == record::Kind::Entry {
                        last_index = last_index.max(Some(record.index));
                    }
                    self.survivors.note(&record).map_err(|expected| {
                        let found = record.index;
                        let why = format!("entry {found} follows where {expected} was expected");
                        damaged(position.offset, why)
                    })?;
                    position.offset = record.end();
                    continue;
                }
                Found::Nothing => "there is no record",
                Found::Bad(why) => why,
            };
            if let Some(end) = durable_end {
                let why = format!(
                    "{why}, and all before offset {end} was durable when the next \
                    segment was made"
                );
                return Err(damaged(position.offset, why));
            }
            self.repair = tail(path, bytes, seed, position, why)?;
            break;
        }
        let info = SegmentInfo {
            sequence: header.sequence,
            path: path.to_owned(),
            first_index: header.first_index,
            last_index,
            end: position.offset,
            file_bytes: bytes.len() as u64,
        };
        self.segments.push(Segment { info, seed });
        Ok(())
    }
}

/// Judges what lies behind the last whole record of the log.
fn tail(path: &Path, bytes: &[u8], seed: u32, bad: Position, why: &str) -> Result<Repair> {
    let rest = bytes.get(bad.offset as usize..).unwrap_or_default();
    if record::is_zero(rest) {
        return Ok(Repair::None);
    }
    let torn = rest.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    let end = bad.offset.saturating_add(u32::try_from(torn).unwrap_or(u32::MAX));
    for offset in (bad.offset..end).step_by(ALIGNMENT) {
        if record::testimony(bytes, seed, offset).is_some_and(|synced| synced > bad) {
            let why = format!(
                "{why}, and the record at offset {offset} was written when this \
                place was durable"
            );
            let (path, offset) = (path.to_owned(), u64::from(bad.offset));
            return Err(Error::DamagedLog { path, offset, why });
        }
    }
    let (segment, offset) = (path.to_owned(), u64::from(bad.offset));
    Ok(Repair::TornTail { segment, offset, bytes: torn as u64 })
}
