//! Visits entries whose segments are known.

use std::ops::RangeInclusive;
use std::path::Path;

use super::segment::{FORMAT, SegmentInfo};
use super::survivors::EntryRun;
use crate::segments::record::{Found, Record, RecordKind};
use crate::segments::{Chunks, Name};
use crate::{Error, Result};

/// Visits the entries of these runs whose index is in the range, in order. `segments` are ordered
/// by sequence number.
pub(super) fn for_each<E: From<Error>>(
    directory: &Path,
    segments: &[SegmentInfo],
    runs: &[EntryRun],
    range: RangeInclusive<u64>,
    mut visit: impl FnMut(Record<'_>) -> Result<(), E>,
) -> Result<(), E> {
    let mut open: Option<Chunks> = None;
    for run in runs {
        if run.first_index.saturating_add(run.entries) <= *range.start() {
            continue;
        }
        if run.first_index > *range.end() {
            break;
        }
        let mut chunks = match open.take() {
            Some(chunks) if chunks.header().sequence == run.start.segment => chunks,
            _ => {
                let sequence = run.start.segment;
                let found = segments.binary_search_by_key(&sequence, |s| s.sequence);
                let info = found.ok().and_then(|found| segments.get(found));
                let info = info.ok_or_else(|| Error::Deleted { path: directory.to_owned() })?;
                let name = Name { sequence, first_index: info.first_index };
                Chunks::open(&FORMAT, directory, name)?
            }
        };
        chunks.seek(run.start.offset);
        let mut next = run.first_index;
        let after = run.first_index.saturating_add(run.entries);
        while next < after && next <= *range.end() {
            let offset = chunks.position().offset;
            let (found, why) = match chunks.next()? {
                Found::Record(record) if record.kind != RecordKind::Entry => continue,
                Found::Record(record) if record.index == next => (Some(record), ""),
                Found::Record(_) => (None, "a different entry is here now"),
                Found::Nothing => (None, "there is no record here any more"),
                Found::Bad(why) => (None, why),
            };
            let Some(record) = found else {
                let why = format!("{why}: entry {next} was complete when the log was opened");
                return Err(FORMAT.damaged(chunks.path(), offset, why).into());
            };
            next += 1;
            if range.contains(&record.index) {
                visit(record)?;
            }
        }
        open = Some(chunks);
    }
    Ok(())
}
