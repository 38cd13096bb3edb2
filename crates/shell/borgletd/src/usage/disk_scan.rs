//! What the files of tasks take, counted in turn and a bounded number of entries each second.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use linux::tree::Measure;
use model::{Bytes, InstanceId};

use crate::tasks::Files;

/// How many entries are counted in each round.
const ENTRIES: usize = 2_000;
/// The time from the start of one count of a task's files to the next.
const REST: Duration = Duration::from_secs(30);

/// The sizes that are known, and the count under way.
#[derive(Default)]
pub(super) struct DiskScan {
    known: BTreeMap<InstanceId, (Instant, Bytes)>,
    under_way: Option<(InstanceId, Instant, Measure)>,
}

impl DiskScan {
    /// The size of a task's files, when they were last counted.
    pub(super) fn of(&self, instance: InstanceId) -> Option<Bytes> {
        self.known.get(&instance).map(|(_, bytes)| *bytes)
    }

    pub(super) fn forget(&mut self, instance: InstanceId) {
        self.known.remove(&instance);
        self.under_way.take_if(|(of, ..)| *of == instance);
    }

    /// Counts on, and begins with further tasks while there is time.
    pub(super) fn advance(&mut self, files: &Files, tasks: impl Iterator<Item = InstanceId>) {
        let now = Instant::now();
        let is_due = |instance: &InstanceId| {
            self.known.get(instance).is_none_or(|(since, _)| now.duration_since(*since) >= REST)
        };
        // A count of few files takes a part of a round only.
        let mut due: Vec<_> = tasks.filter(is_due).take(ENTRIES / 20).collect();
        let mut left = ENTRIES;
        while left > 0 {
            let (instance, since, mut measure) = match self.under_way.take() {
                Some(under_way) => under_way,
                None => {
                    let Some(next) = due.pop() else { return };
                    let begun = files.task(next).map(|task| Measure::of(task.path()));
                    let Ok(Ok(measure)) = begun else { continue };
                    (next, now, measure)
                }
            };
            let part = left.min(ENTRIES / 20);
            left -= part;
            match measure.advance(part) {
                Ok(false) => self.under_way = Some((instance, since, measure)),
                Ok(true) => {
                    let bytes = Bytes(measure.used().bytes);
                    self.known.insert(instance, (since, bytes));
                }
                Err(error) => {
                    tracing::debug!("cannot count the files of {instance}: {error}");
                    let before = self.of(instance).unwrap_or_default();
                    self.known.insert(instance, (since, before));
                }
            }
        }
    }
}
