//! Reads the stream while it is being appended to.

use std::path::{Path, PathBuf};

use super::{Cursor, Event, FORMAT, MAX_EVENT_BYTES};
use crate::segments::record::{Found, Head, RecordKind, stored_bytes};
use crate::segments::{self, Chunks, Header, Name};
use crate::{Error, Result, directory};

/// How often the directory is listed again when segments disappear during a read.
const ATTEMPTS: usize = 5;

/// The limit of a [`Reader::read`], which ends after the event that reaches either maximum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit {
    /// The maximum number of events.
    pub events: usize,
    /// The maximum number of payload bytes.
    pub bytes: usize,
}

impl Limit {
    /// No limit.
    pub const NONE: Self = Self { events: usize::MAX, bytes: usize::MAX };

    /// A maximum number of events of any size.
    #[must_use]
    pub fn events(events: usize) -> Self {
        Self { events, ..Self::NONE }
    }
}

/// A reader of an event stream that this process or another one appends to; it neither locks nor
/// changes anything. It remembers its position, so continuing needs no search.
#[derive(Debug)]
pub struct Reader {
    directory: PathBuf,
    open: Option<OpenSegment>,
    /// The highest mark that was read.
    marked: Option<u64>,
}

/// A segment being read.
#[derive(Debug)]
struct OpenSegment {
    chunks: Chunks,
    /// All earlier events have been returned or were not requested.
    at: Cursor,
    /// The end of its records, once the next segment states it.
    end: Option<u32>,
}

impl Reader {
    /// A reader of the stream in this directory.
    #[must_use]
    pub fn open(directory: impl AsRef<Path>) -> Self {
        Self { directory: directory.as_ref().to_owned(), open: None, marked: None }
    }

    /// A reader of the stream in a data directory, which another process may hold.
    ///
    /// # Errors
    /// [`Error::NotADataDirectory`], [`Error::NewerFormat`] and [`Error::Io`].
    pub fn of_data_directory(path: impl AsRef<Path>) -> Result<Self> {
        directory::look(path.as_ref(), directory::EVENTS).map(Self::open)
    }

    /// Visits the events from a position on, in order, and returns the position from which to
    /// continue. That is the same position if there are no more events yet.
    ///
    /// An event's payload is borrowed from the reader's buffer.
    ///
    /// # Errors
    /// Those of `visit`. [`Error::EventsTooLate`] if the next events were deleted,
    /// [`Error::EventsLost`] if they were lost, [`Error::DamagedEvents`]: each tells where the
    /// stream continues, and all earlier events were visited by an earlier call.
    /// [`Error::NewerFormat`] and [`Error::Io`].
    pub fn read<E: From<Error>>(
        &mut self,
        from: Cursor,
        limit: Limit,
        mut visit: impl FnMut(Event<'_>) -> Result<(), E>,
    ) -> Result<Cursor, E> {
        let mut open = match self.open.take() {
            Some(open) if open.at == from => open,
            _ => match self.seek(from)? {
                Some(open) => open,
                None => return Ok(from),
            },
        };
        let (mut events, mut bytes) = (0, 0);
        while events < limit.events && bytes < limit.bytes {
            let event = match open.next()? {
                Next::Event(event) => event,
                Next::Passed => continue,
                Next::Mark(through) => {
                    self.marked = self.marked.max(Some(through));
                    continue;
                }
                Next::End => match self.go_on(open, events > 0)? {
                    NextStep::On(next) => {
                        open = next;
                        continue;
                    }
                    NextStep::Waits(last) => {
                        open = last;
                        break;
                    }
                    NextStep::Ended(at) => return Ok(at),
                },
            };
            let (cursor, payload_bytes) = (event.cursor(), event.payload.len());
            visit(event)?;
            open.at = cursor.after();
            events += 1;
            bytes = bytes.saturating_add(payload_bytes);
        }
        let at = open.at;
        self.open = Some(open);
        Ok(at)
    }

    /// The highest index up to which all events are stored or recorded as lost, as far as the files
    /// read until now say.
    pub(super) fn marked(&self) -> Option<u64> {
        self.marked
    }

    /// The position of the first event at or after a time, in microseconds since 1970. `None` if
    /// there is none yet.
    ///
    /// # Errors
    /// [`Error::EventsTooLate`] if events of that time were deleted, [`Error::DamagedEvents`],
    /// [`Error::NewerFormat`] and [`Error::Io`].
    pub fn first_at(&self, time_us: u64) -> Result<Option<Cursor>> {
        again(|| {
            let names = self.names()?;
            let Some((oldest, later)) = names.split_first() else { return Ok(None) };
            // The newest segment before which every event was earlier.
            let header = self.header(*oldest)?;
            let is_first = Cursor::begin(&header) == Cursor::START;
            if !is_first && header.begin.note >= time_us {
                return Err(Error::EventsTooLate { oldest: Cursor::begin(&header) });
            }
            let (mut low, mut high) = (0, later.len());
            while low < high {
                let middle = usize::midpoint(low, high);
                match self.header(later[middle])?.begin.note < time_us {
                    true => low = middle + 1,
                    false => high = middle,
                }
            }
            let mut open = self.open_segment(&names, low)?;
            open.narrow(|head| head.term < time_us)?;
            loop {
                match open.next()? {
                    Next::Event(event) if event.time_us >= time_us => {
                        return Ok(Some(event.cursor()));
                    }
                    Next::Event(_) | Next::Passed | Next::Mark(_) => {}
                    Next::End => break,
                }
            }
            // Only damage can remove such an event when the next segment states that there was one.
            let next = names.get(low + 1).map(|name| self.header(*name)).transpose()?;
            Ok(next.map(|header| Cursor::begin(&header)))
        })
    }

    /// The position of the first retained event: [`Cursor::START`] if none was ever deleted. `None`
    /// if there are no events yet.
    ///
    /// # Errors
    /// [`Error::DamagedEvents`], [`Error::NewerFormat`] and [`Error::Io`].
    pub fn oldest(&self) -> Result<Option<Cursor>> {
        again(|| {
            let names = self.names()?;
            if names.is_empty() {
                return Ok(None);
            }
            self.sound_header(&names).map(|header| Some(Cursor::begin(&header)))
        })
    }

    /// Opens the segment that contains `from`, positioned near it.
    fn seek(&self, from: Cursor) -> Result<Option<OpenSegment>> {
        again(|| {
            let names = self.names()?;
            for (i, name) in names.iter().enumerate().rev() {
                if name.first_index > from.index {
                    continue;
                }
                if Cursor::begin(&self.sound_header(&names[i..])?) <= from {
                    let mut open = self.open_segment(&names, i)?;
                    open.at = from;
                    open.narrow(|head| Cursor::of(head) < from)?;
                    return Ok(Some(open));
                }
            }
            if names.is_empty() {
                return Ok(None);
            }
            let oldest = Cursor::begin(&self.sound_header(&names)?);
            Err(Error::EventsTooLate { oldest })
        })
    }

    /// Continues where a segment has no more events: in the next segment, or in this one if it was
    /// written meanwhile. `shown` tells whether events were visited, so that an error can wait for
    /// the next call.
    fn go_on(&self, open: OpenSegment, shown: bool) -> Result<NextStep> {
        let at = open.at;
        match self.step(open) {
            Ok(step) => Ok(step),
            // The next call finds the error again.
            Err(_) if shown => Ok(NextStep::Ended(at)),
            Err(Error::Deleted { .. }) => {
                let sought = self.seek(at)?;
                Ok(sought.map_or(NextStep::Ended(at), NextStep::On))
            }
            Err(error) => Err(error),
        }
    }

    fn step(&self, mut open: OpenSegment) -> Result<NextStep> {
        let at = open.at;
        let (sequence, offset) = (open.chunks.header().sequence, open.chunks.position().offset);
        let names = self.names()?;
        let later = names.partition_point(|name| name.sequence <= sequence);
        let Sound { next, damage } = self.first_header(&names[later..])?;
        let Some((skipped, next)) = next else {
            return match damage.or(open.damage()?) {
                Some(error) => Err(error),
                None => Ok(NextStep::Waits(open)),
            };
        };
        let follows = next.previous.segment == sequence;
        let whole = !follows || offset >= next.previous.offset;
        if !whole && open.end.is_none() {
            // Meanwhile the segment may have been written: read it again.
            open.end = Some(next.previous.offset);
            return Ok(NextStep::On(open));
        }
        let begin = Cursor::begin(&next);
        if begin <= at {
            // Whatever may be damaged before, no event is missing.
            let next = self.open_segment(&names, later + skipped)?;
            return Ok(NextStep::On(OpenSegment { at, ..next }));
        }
        let why = "there is no complete event, and there was one when the next segment was created";
        let damaged = || FORMAT.damaged(open.chunks.path(), offset, why);
        Err(match damage.or_else(|| (!whole).then(damaged)) {
            Some(damage) => goes_on(damage, begin),
            None if !follows => Error::EventsTooLate { oldest: begin },
            None => Error::EventsLost { from: at, complete_from: begin },
        })
    }

    /// Opens one of the segments, positioned at its first event.
    fn open_segment(&self, names: &[Name], i: usize) -> Result<OpenSegment> {
        let deleted = || Error::Deleted { path: self.directory.clone() };
        let name = names.get(i).ok_or_else(deleted)?;
        let chunks = Chunks::open(&FORMAT, &self.directory, *name)?;
        let end = match names.get(i + 1).map(|next| self.header(*next)) {
            Some(Ok(next)) if next.previous.segment == name.sequence => Some(next.previous.offset),
            _ => None,
        };
        Ok(OpenSegment { at: Cursor::begin(chunks.header()), chunks, end })
    }

    fn names(&self) -> Result<Vec<Name>> {
        Ok(segments::list(&self.directory, &FORMAT)?.0)
    }

    fn header(&self, name: Name) -> Result<Header> {
        segments::read_header(&FORMAT, &self.directory.join(name.file(&FORMAT)), name)
    }

    /// Finds the first undamaged header among these segments.
    fn first_header(&self, names: &[Name]) -> Result<Sound> {
        let mut damage = None;
        for (skipped, name) in names.iter().enumerate() {
            match self.header(*name) {
                Ok(header) => return Ok(Sound { next: Some((skipped, header)), damage }),
                Err(error) if error.damaged_at().is_some() => damage = damage.or(Some(error)),
                Err(error) => return Err(error),
            }
        }
        Ok(Sound { next: None, damage })
    }

    /// The first of these headers, or an error that tells where the stream continues if it is
    /// damaged.
    fn sound_header(&self, names: &[Name]) -> Result<Header> {
        match self.first_header(names)? {
            Sound { next: Some((_, header)), damage: None } => Ok(header),
            Sound { next: Some((_, header)), damage: Some(damage) } => {
                Err(goes_on(damage, Cursor::begin(&header)))
            }
            Sound { next: None, damage } => {
                Err(damage.unwrap_or_else(|| Error::Deleted { path: self.directory.clone() }))
            }
        }
    }
}

/// The result of searching some segments for an intact header.
struct Sound {
    /// The first intact header, and the number of segments before it.
    next: Option<(usize, Header)>,
    /// The damage of the first damaged one.
    damage: Option<Error>,
}

/// Adds to a damage error where the stream continues.
fn goes_on(damage: Error, begin: Cursor) -> Error {
    match damage {
        Error::DamagedEvents { path, offset, why, .. } => {
            Error::DamagedEvents { path, offset, why, next: Some(begin) }
        }
        other => other,
    }
}

/// The next step when a segment has no more events.
enum NextStep {
    /// More events, or a segment to read again.
    On(OpenSegment),
    /// No more events yet.
    Waits(OpenSegment),
    /// No more events in this call.
    Ended(Cursor),
}

/// The next item of a segment.
enum Next<'a> {
    Event(Event<'a>),
    /// An event that was not requested.
    Passed,
    /// A mark: all events up to this index are there, or stated as lost.
    Mark(u64),
    /// Nothing that is complete.
    End,
}

impl OpenSegment {
    fn next(&mut self) -> Result<Next<'_>> {
        if self.end.is_some_and(|end| self.chunks.position().offset >= end) {
            return Ok(Next::End);
        }
        Ok(match self.chunks.next()? {
            Found::Record(record) if record.kind == RecordKind::Entry => match Event::of(&record) {
                event if event.cursor() >= self.at => Next::Event(event),
                _ => Next::Passed,
            },
            Found::Record(record) if record.kind == RecordKind::HardState => {
                Next::Mark(record.index)
            }
            Found::Record(_) => Next::Passed,
            Found::Nothing | Found::Bad(_) => Next::End,
        })
    }

    /// Moves near the first event for which `before` does not hold.
    fn narrow(&mut self, before: impl Fn(&Head) -> bool) -> Result<()> {
        let file_bytes = u32::try_from(self.chunks.file_bytes()?).unwrap_or(u32::MAX);
        let end = self.end.map_or(file_bytes, |end| end.min(file_bytes));
        segments::narrow(&mut self.chunks, end, stored_bytes(MAX_EVENT_BYTES), before)
    }

    /// Whether the newest segment ends here because of damage, as later records prove.
    fn damage(&mut self) -> Result<Option<Error>> {
        if self.chunks.testimony().is_none() {
            return Ok(None);
        }
        // A write may have happened during the read: it is damage only if a second read finds the
        // same.
        let offset = self.chunks.position().offset;
        let why = match self.chunks.next()? {
            Found::Record(_) => None,
            Found::Nothing => Some("there is no event"),
            Found::Bad(why) => Some(why),
        };
        self.chunks.seek(offset);
        let Some((why, later)) = why.zip(self.chunks.testimony()) else { return Ok(None) };
        let why = format!("{why}, and what is at offset {later} was written when one was durable");
        Ok(Some(FORMAT.damaged(self.chunks.path(), offset, why)))
    }
}

/// Retries when a file disappeared between two steps of reading the directory.
fn again<T>(mut attempt: impl FnMut() -> Result<T>) -> Result<T> {
    for _ in 1..ATTEMPTS {
        match attempt() {
            Err(Error::Deleted { .. }) => {}
            done => return done,
        }
    }
    attempt()
}
