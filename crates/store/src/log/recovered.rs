//! What a recovery found: borrowed by the caller to rebuild its state, then dropped.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::record::{self, Found, Kind, Position, Record};
use super::recover::{self, Scan};
use super::segment::{self, Header, Name};
use super::survivors::{HardState, Survivors};
use crate::{Error, Result};

/// Whether a recovery had to cut something, to be logged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Repair {
    /// The log ended with a whole record.
    None,
    /// A write that was never synced, and so never acknowledged, was cut.
    TornTail {
        /// The segment's file.
        segment: PathBuf,
        /// Where the cut begins, in bytes from the start of the file.
        offset: u64,
        /// How many bytes from there to the last one that was not zero.
        bytes: u64,
    },
}

/// The content of a log as a recovery found it, in order, without what later records replaced.
///
/// Entries are read from the segments when asked for. Read them before the log is appended to or
/// truncated: what is deleted meanwhile is an error here, what is appended is not seen.
#[derive(Debug)]
pub struct Recovered {
    pub(super) survivors: Survivors,
    pub(super) segments: BTreeMap<u64, PathBuf>,
    pub(super) repair: Repair,
    pub(super) ignored: Vec<String>,
}

impl Recovered {
    /// Reads a log that another process may have open, changing nothing: for tools that look into
    /// the past. A torn tail is reported, and left alone.
    ///
    /// # Errors
    /// [`Error::DamagedLog`], [`Error::NewerFormat`] and [`Error::Io`].
    pub fn inspect(directory: impl AsRef<Path>) -> Result<Self> {
        recover::scan(directory.as_ref()).map(Self::of)
    }

    pub(super) fn of(scan: Scan) -> Self {
        let segments = scan.segments.into_iter().map(|s| (s.info.sequence, s.info.path)).collect();
        let Scan { survivors, repair, ignored, .. } = scan;
        Self { survivors, segments, repair, ignored }
    }

    /// The index of the first entry. `None` if there is no entry.
    #[must_use]
    pub fn first_index(&self) -> Option<u64> {
        self.survivors.first_index()
    }

    /// Index and term of the last entry, or those of the restart if no entry followed it.
    #[must_use]
    pub fn last(&self) -> Option<(u64, u64)> {
        self.survivors.last
    }

    /// Index and term of the last restart, unless its segment is deleted by now.
    #[must_use]
    pub fn restart(&self) -> Option<(u64, u64)> {
        self.survivors.restart
    }

    /// How many entries there are.
    #[must_use]
    pub fn entries(&self) -> u64 {
        self.survivors.entries()
    }

    /// The newest hard state.
    #[must_use]
    pub fn hard_state(&self) -> Option<&HardState> {
        self.survivors.hard_state.as_ref()
    }

    /// Whether something was cut.
    #[must_use]
    pub fn repair(&self) -> &Repair {
        &self.repair
    }

    /// Names in the directory that are not ours, left where they are.
    #[must_use]
    pub fn ignored_files(&self) -> &[String] {
        &self.ignored
    }

    /// Shows every entry from index `from` on, in order, with its payload borrowed. Segments are
    /// read whole, one after the other; nothing is allocated for a record.
    ///
    /// # Errors
    /// Those of `visit`, [`Error::Io`], and [`Error::DamagedLog`] if the files changed since the
    /// recovery.
    pub fn for_each<E: From<Error>>(
        &self,
        from: u64,
        mut visit: impl FnMut(Record<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut buffer = Vec::new();
        let mut current: Option<(&Path, Header)> = None;
        for run in &self.survivors.runs {
            if run.first_index.saturating_add(run.entries) <= from {
                continue;
            }
            let sequence = run.start.segment;
            let (path, header) = match current {
                Some(open) if open.1.sequence == sequence => open,
                _ => self.load(sequence, &mut buffer)?,
            };
            current = Some((path, header));

            let mut position = run.start;
            let mut left = run.entries;
            while left > 0 {
                let Found::Record(record) = record::decode(&buffer, header.seed(), position) else {
                    return Err(changed(path, position).into());
                };
                position.offset = record.end();
                if record.kind == Kind::Entry {
                    left -= 1;
                    if record.index >= from {
                        visit(record)?;
                    }
                }
            }
        }
        Ok(())
    }

    fn load(&self, sequence: u64, buffer: &mut Vec<u8>) -> Result<(&Path, Header)> {
        let Some(path) = self.segments.get(&sequence) else {
            let position = Position { segment: sequence, offset: 0 };
            return Err(changed(Path::new("(deleted)"), position));
        };
        segment::read(path, buffer)?;
        let name = path.file_name().and_then(|n| n.to_str()).and_then(Name::parse);
        let Some(name) = name else {
            return Err(changed(path, Position { segment: sequence, offset: 0 }));
        };
        Ok((path, Header::decode(path, name, buffer)?))
    }
}

fn changed(path: &Path, position: Position) -> Error {
    let why = "this record was whole when the log was opened".to_owned();
    Error::DamagedLog { path: path.to_owned(), offset: u64::from(position.offset), why }
}
