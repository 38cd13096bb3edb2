//! Recovers the state of a stream when it is opened.

use std::fs;
use std::path::{Path, PathBuf};

use super::append::Events;
use super::{Cursor, Event, FORMAT, Options, Segment};
use crate::log::Repair;
use crate::segments::record::{Position, Record, RecordKind};
use crate::segments::{self, Active, Appender, Extent, Header, SEGMENT_HEADER_BYTES, Walked};
use crate::{Error, Result};

/// What was found when a stream was opened, for logging.
#[derive(Debug)]
pub struct Opened {
    /// Whether a torn tail was cut.
    pub repair: Repair,
    /// The damage found. Not every segment is read, so there may be more.
    pub damage: Vec<Error>,
}

/// The file of a segment; without a header if that is damaged.
struct File {
    path: PathBuf,
    sequence: u64,
    header: Option<Header>,
    bytes: u64,
}

/// What is known from the records read so far.
#[derive(Default)]
struct Content {
    last: Option<Cursor>,
    last_time_us: u64,
    mark: u64,
}

/// How far the newest segment is intact.
enum Newest {
    Whole(Walked),
    /// Damage starts here, so the next record goes into a new segment.
    Damaged(u32),
}

pub(super) fn open(directory: &Path, options: Options) -> Result<(Events, Opened)> {
    segments::remove_unfinished(directory, &FORMAT)?;
    let mut damage = Vec::new();
    let files = files(directory, &mut damage)?;
    let settled = match files.last() {
        Some(newest) => Some(segments::settle(&newest.path)?),
        None => None,
    };
    let (content, newest) = read_back(&files, &mut damage)?;

    let mut repair = Repair::None;
    let appender = match (settled, files.last(), newest) {
        (
            Some(file),
            Some(File { path, header: Some(header), bytes, .. }),
            Newest::Whole(walked),
        ) => {
            let Walked { end, torn_bytes } = walked;
            if torn_bytes > 0 {
                let (segment, offset) = (path.clone(), u64::from(end));
                repair = Repair::TornTail { segment, offset, bytes: torn_bytes };
            }
            let active = Active::recovered(file, path, header, end, *bytes);
            Appender::resume(directory, &FORMAT, active, torn_bytes)?
        }
        (_, Some(newest), Newest::Damaged(offset)) => {
            let before = Position { segment: newest.sequence, offset };
            Appender::after(directory, &FORMAT, before)
        }
        _ => Appender::after(directory, &FORMAT, Position::default()),
    };

    let begin = files.last().and_then(|newest| newest.header.as_ref());
    let (begin, time_before) =
        begin.map_or((Cursor::START, 0), |header| (Cursor::begin(header), header.begin.note));
    let next = content.last.map_or(Cursor::START, Cursor::after).max(begin);
    let last_time_us = content.last_time_us.max(time_before);
    let events = Events {
        options,
        appender,
        segments: described(&files, last_time_us),
        last: content.last,
        next,
        last_time_us,
        through: content.mark.max(next.index.saturating_sub(1)),
        mark: content.mark,
    };
    Ok((events, Opened { repair, damage }))
}

/// The segments' files, oldest first.
fn files(directory: &Path, damage: &mut Vec<Error>) -> Result<Vec<File>> {
    let mut files = Vec::new();
    for name in segments::list(directory, &FORMAT)?.0 {
        let path = directory.join(name.file(&FORMAT));
        let header = match segments::read_header(&FORMAT, &path, name) {
            Ok(header) => Some(header),
            Err(error) if error.damaged_at().is_some() => {
                damage.push(error);
                None
            }
            Err(error) => return Err(error),
        };
        let found = fs::metadata(&path).map_err(Error::io("look at", &path, 0))?;
        files.push(File { path, sequence: name.sequence, header, bytes: found.len() });
    }
    Ok(files)
}

/// Reads backwards from the newest segment to one that contains an event.
fn read_back(files: &[File], damage: &mut Vec<Error>) -> Result<(Content, Newest)> {
    let mut content = Content::default();
    let mut newest = Newest::Damaged(SEGMENT_HEADER_BYTES);
    let mut buffer = Vec::new();
    for (i, file) in files.iter().enumerate().rev() {
        let Some(header) = &file.header else { continue };
        segments::read(&file.path, &mut buffer)?;
        let next = files.get(i + 1).and_then(|next| next.header.as_ref());
        let next = next.filter(|next| next.previous.segment == file.sequence);
        let extent = next.map_or(Extent::Last, |next| Extent::Sealed(next.previous.offset));
        let found = match content.walk(file, header, &buffer, extent) {
            Ok(walked) => Newest::Whole(walked),
            Err(error) => {
                let Some(offset) = error.damaged_at() else { return Err(error) };
                damage.push(error);
                Newest::Damaged(u32::try_from(offset).unwrap_or(SEGMENT_HEADER_BYTES))
            }
        };
        if i + 1 == files.len() {
            newest = found;
        }
        if content.last.is_some() {
            break;
        }
    }
    Ok((content, newest))
}

impl Content {
    /// Processes the records of a segment up to damage, if there is any.
    fn walk(
        &mut self,
        file: &File,
        header: &Header,
        bytes: &[u8],
        extent: Extent,
    ) -> Result<Walked> {
        let mut next = Cursor::begin(header);
        let note = |record: &Record<'_>| {
            match record.kind {
                RecordKind::Entry => {
                    let event = Event::of(record);
                    if event.cursor() < next {
                        return Err(format!("event {} follows later events", event.cursor()));
                    }
                    next = event.cursor().after();
                    self.last = Some(event.cursor());
                    self.last_time_us = event.time_us;
                }
                RecordKind::HardState => self.mark = self.mark.max(record.index),
                RecordKind::Restart => return Err("this is a record of a log".to_owned()),
            }
            Ok(())
        };
        segments::walk(&FORMAT, &file.path, header, bytes, extent, note)
    }
}

/// The information that retention needs about each segment.
fn described(files: &[File], last_time_us: u64) -> Vec<Segment> {
    let mut last_time_us = last_time_us;
    let mut segments: Vec<_> = files
        .iter()
        .rev()
        .map(|file| {
            let File { path, header, bytes, .. } = file;
            let segment = Segment { path: path.clone(), last_time_us, file_bytes: *bytes };
            // Without a header that states it, the segment was not later than its successor.
            last_time_us = header.as_ref().map_or(last_time_us, |header| header.begin.note);
            segment
        })
        .collect();
    segments.reverse();
    segments
}
