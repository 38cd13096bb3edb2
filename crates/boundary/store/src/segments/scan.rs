//! Lists the segments of a directory, and walks through the records of one: where they end, and
//! whether a torn tail or damage follows. Changes nothing on the disk.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use super::file;
use super::header::{Format, Header, Name, SEGMENT_HEADER_BYTES};
use super::record::{self, ALIGNMENT, Found, Position, Record};
use crate::{Error, Result, disk};

/// The segments in a directory, ordered by sequence, and the foreign names.
pub(crate) fn list(directory: &Path, format: &Format) -> Result<(Vec<Name>, Vec<String>)> {
    let (mut names, mut ignored) = (Vec::new(), Vec::new());
    for file in disk::names(directory)? {
        match Name::parse(format, &file) {
            Some(name) => names.push(name),
            None => ignored.push(file),
        }
    }
    names.sort_unstable();
    Ok((names, ignored))
}

/// The headers of these segments, with their files.
pub(crate) fn read_headers(
    directory: &Path,
    format: &Format,
    names: &[Name],
) -> Result<Vec<(PathBuf, Header)>> {
    let read = |name: &Name| {
        let path = directory.join(name.file(format));
        let header = read_header(format, &path, *name)?;
        Ok((path, header))
    };
    names.iter().map(read).collect()
}

pub(crate) fn read_header(format: &Format, path: &Path, name: Name) -> Result<Header> {
    let mut bytes = Vec::with_capacity(SEGMENT_HEADER_BYTES as usize);
    let file = File::open(path).map_err(|e| Error::reading(path, e))?;
    let read = file.take(u64::from(SEGMENT_HEADER_BYTES)).read_to_end(&mut bytes);
    read.map_err(Error::io("read", path, 0))?;
    Header::decode(format, path, name, &bytes)
}

/// Checks the order of segments. They are deleted oldest first, so the first one may follow
/// anything.
pub(crate) fn check_order(format: &Format, headers: &[(PathBuf, Header)]) -> Result<()> {
    for pair in headers.windows(2) {
        let [(before, first), (after, second)] = pair else { continue };
        if second.sequence == first.sequence {
            let why = format!("{} has the same sequence number", before.display());
            return Err(format.damaged(after, 16, why));
        }
        if second.previous.segment != first.sequence {
            let missing = second.previous.segment;
            let why = format!("it follows segment {missing}, whose file is missing");
            return Err(format.damaged(after, 40, why));
        }
    }
    Ok(())
}

/// What was found after the last complete record of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Walked {
    /// The end of the records.
    pub(crate) end: u32,
    /// The number of bytes that a torn write left after that; 0 in a sealed segment.
    pub(crate) torn_bytes: u64,
}

/// Which bytes of a segment must be intact.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Extent {
    /// Everything before this offset was durable when the next segment was created.
    Sealed(u32),
    /// This is the last segment, and nothing writes to it.
    Last,
    /// This is the last segment, and another process may be writing to it.
    Live,
}

/// Visits every record of a segment with the bytes `bytes`. `visit` may reject a record with a
/// reason.
pub(crate) fn walk(
    format: &Format,
    path: &Path,
    header: &Header,
    bytes: &[u8],
    extent: Extent,
    mut visit: impl FnMut(&Record<'_>) -> Result<(), String>,
) -> Result<Walked> {
    let seed = header.seed();
    let durable_end = match extent {
        Extent::Sealed(end) => Some(end),
        Extent::Last | Extent::Live => None,
    };
    let mut position = Position { segment: header.sequence, offset: SEGMENT_HEADER_BYTES };
    while durable_end != Some(position.offset) {
        let why = match record::decode(bytes, seed, position) {
            Found::Record(record) => {
                if durable_end.is_some_and(|end| record.end() > end) {
                    let why = "according to the next segment, the records end before this one does";
                    return Err(format.damaged(path, position.offset, why));
                }
                visit(&record).map_err(|why| format.damaged(path, position.offset, why))?;
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
            return Err(format.damaged(path, position.offset, why));
        }
        if bytes.len() < header.file_bytes as usize {
            let (is, was) = (bytes.len(), header.file_bytes);
            let why = format!("{why}, and the file has {is} bytes and was made with {was}");
            return Err(format.damaged(path, position.offset, why));
        }
        let strict = format.irreplaceable && extent == Extent::Last;
        let torn_bytes = judge_tail(format, path, bytes, seed, position, why, strict)?;
        return Ok(Walked { end: position.offset, torn_bytes });
    }
    Ok(Walked { end: position.offset, torn_bytes: 0 })
}

/// Reads the last segment into `buffer` while another process may append to it, and returns where
/// its records end.
///
/// A write may happen during the read, so that a record is visible and the one before it is not: it
/// is damage only if a second read finds the same.
pub(crate) fn read_live(
    format: &Format,
    path: &Path,
    header: &Header,
    buffer: &mut Vec<u8>,
) -> Result<Walked> {
    let mut suspected = None;
    loop {
        file::read(path, buffer)?;
        let error = match walk(format, path, header, buffer, Extent::Live, |_| Ok(())) {
            Ok(walked) => return Ok(walked),
            Err(error) => error,
        };
        let at = error.damaged_at();
        if at.is_none() || at == suspected {
            return Err(error);
        }
        suspected = at;
    }
}

/// Examines what follows the last complete record: the number of bytes that a torn write left
/// there.
///
/// An incomplete record is damaged if an intact record proves that it was durable. If `strict`, it
/// is also damaged if every sector of it was written: a disk writes a sector atomically, and
/// unwritten sectors still contain the zeros with which the file was created.
fn judge_tail(
    format: &Format,
    path: &Path,
    bytes: &[u8],
    seed: u32,
    bad: Position,
    why: &str,
    strict: bool,
) -> Result<u64> {
    let rest = bytes.get(bad.offset as usize..).unwrap_or_default();
    if record::is_zero(rest) {
        return Ok(0);
    }
    let torn = rest.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    if let Some(offset) = find_testimony(rest, torn, seed, bad) {
        let why = format!(
            "{why}, and the record at offset {offset} was written when this \
            place was durable"
        );
        return Err(format.damaged(path, bad.offset, why));
    }
    if strict && !has_missing_sector(rest, seed, bad.offset) {
        let why = format!("{why}, and all of it was written");
        return Err(format.damaged(path, bad.offset, why));
    }
    Ok(torn as u64)
}

/// The largest unit that every disk writes atomically, in bytes.
const SECTOR_BYTES: usize = 512;

/// Whether some sector of the record at `offset`, or of what follows it, was never written. `rest`
/// starts with the incomplete record.
fn has_missing_sector(rest: &[u8], seed: u32, offset: u32) -> bool {
    let head = record::intact_head(rest, seed, offset);
    let length = head.map_or(record::HEADER_BYTES, |head| head.stored_bytes() as usize);
    let first = SECTOR_BYTES - offset as usize % SECTOR_BYTES;
    let ends = std::iter::successors(Some(first), |end| end.checked_add(SECTOR_BYTES));
    let starts = std::iter::once(0).chain(ends.clone());
    starts.zip(ends).take_while(|(start, _)| *start < length.min(rest.len())).any(|(start, end)| {
        record::is_zero(rest.get(start..end.min(rest.len())).unwrap_or_default())
    })
}

/// The offset of an intact record among the first `bytes` of `rest` which proves that the position
/// `bad`, where `rest` starts, was durable.
pub(super) fn find_testimony(rest: &[u8], bytes: usize, seed: u32, bad: Position) -> Option<u32> {
    (0..bytes).step_by(ALIGNMENT).find_map(|from| {
        let offset = bad.offset.saturating_add(u32::try_from(from).unwrap_or(u32::MAX));
        let synced = record::testimony(rest.get(from..)?, seed, offset)?;
        (synced > bad).then_some(offset)
    })
}
