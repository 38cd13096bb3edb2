//! What the files of tasks, and those that the tasks of an alloc share, take: counted in turn and a
//! bounded number of entries each second. While the free space falls quickly, they are counted sooner.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use linux::disk::Disk;
use linux::tree::Measure;
use model::{Bytes, InstanceId};

use crate::tasks::Files;

/// How many entries are counted in each round, and in each step of one.
const ENTRIES: usize = 2_000;
const STEP: usize = ENTRIES / 20;
/// The time from the start of one count of an instance's files to the next, and the one where a single
/// step counts them.
const REST: Duration = Duration::from_secs(30);
const REST_OF_FEW: Duration = Duration::from_secs(5);
/// The same, and how many times as much is counted in a round, while the free space falls quickly: by this
/// many bytes, or this part of it, from one round to the next.
const REST_IN_HURRY: Duration = Duration::from_millis(900);
const TIMES_IN_HURRY: usize = 4;
const FALL_BYTES: u64 = 64 << 20;
const FALL_PART: u64 = 32;
/// How many rounds the hurry lasts after that.
const HURRY_ROUNDS: u32 = 3;

/// The sizes that are known, and the count under way.
#[derive(Default)]
pub(super) struct DiskScan {
    known: BTreeMap<InstanceId, DirectorySize>,
    under_way: Option<Count>,
    /// The free space in the last round.
    free: Option<u64>,
    /// The rounds for which more is counted, because it fell.
    hurry: u32,
}

/// The result of the last count.
struct DirectorySize {
    since: Instant,
    next: Instant,
    bytes: Bytes,
}

/// A count of the directories of one instance.
struct Count {
    instance: InstanceId,
    since: Instant,
    steps: usize,
    /// The directories that are left.
    left: VecDeque<(PathBuf, Holds)>,
    measure: Option<(Measure, Holds)>,
    /// What its own files take, and everything.
    own: Option<u64>,
    all: u64,
}

/// What a directory of an instance holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Holds {
    OwnFiles,
    Logs,
}

impl DiskScan {
    /// The size of a task's files and logs, when they were last counted.
    pub(super) fn of(&self, instance: InstanceId) -> Option<Bytes> {
        self.known.get(&instance).map(|known| known.bytes)
    }

    pub(super) fn forget(&mut self, instance: InstanceId) {
        self.known.remove(&instance);
        self.under_way.take_if(|count| count.instance == instance);
    }

    /// Counts on, and begins with further instances while there is time: the tasks, and the allocs in
    /// which they run. Returns what was counted completely: what the own files of an instance take, with
    /// those that are open and have no name. Logs are not among them: they have a maximum of their own.
    pub(super) fn advance(
        &mut self,
        files: &Files,
        tasks: impl Iterator<Item = (InstanceId, Option<InstanceId>)>,
    ) -> Vec<(InstanceId, Bytes)> {
        let now = Instant::now();
        let (tasks, mut allocs): (Vec<_>, BTreeSet<_>) = (tasks.collect(), BTreeSet::new());
        allocs.extend(tasks.iter().filter_map(|(_, alloc)| *alloc));
        let tasks: BTreeSet<InstanceId> = tasks.into_iter().map(|(task, _)| task).collect();
        self.known.retain(|known, _| tasks.contains(known) || allocs.contains(known));
        let in_hurry = self.looks_at_free_space(files);
        let entries = if in_hurry { ENTRIES * TIMES_IN_HURRY } else { ENTRIES };
        let is_due = |instance: &InstanceId| {
            let known = self.known.get(instance);
            known.is_none_or(|known| {
                known.next <= now || in_hurry && known.since + REST_IN_HURRY <= now
            })
        };
        // A count of few files takes a part of a round only.
        let of_tasks = tasks.iter().filter(|task| is_due(task)).take(entries / 20);
        let mut due: Vec<_> = of_tasks.map(|task| (*task, false)).collect();
        due.extend(allocs.iter().filter(|alloc| is_due(alloc)).map(|alloc| (*alloc, true)));
        let mut counted = Vec::new();
        let mut left = entries;
        while left > 0 {
            let mut count = match self.under_way.take() {
                Some(under_way) => under_way,
                None => match due.pop() {
                    Some((instance, is_alloc)) => Count::of(files, instance, is_alloc, now),
                    None => break,
                },
            };
            left = left.saturating_sub(STEP);
            if !count.advance() {
                self.under_way = Some(count);
                continue;
            }
            let Count { instance, since, steps, own, all, .. } = count;
            let rest = if steps <= 2 { REST_OF_FEW } else { REST };
            self.known
                .insert(instance, DirectorySize { since, next: since + rest, bytes: Bytes(all) });
            if let Some(own) = own {
                let unnamed = match allocs.contains(&instance) {
                    true => 0,
                    false => files.unnamed(instance).bytes,
                };
                counted.push((instance, Bytes(own.saturating_add(unnamed))));
            }
        }
        counted
    }

    /// Whether the free space falls quickly, or did lately.
    fn looks_at_free_space(&mut self, files: &Files) -> bool {
        let Ok(disk) = Disk::of(&files.directory) else { return false };
        let before = self.free.replace(disk.free_bytes).unwrap_or(disk.free_bytes);
        let fell = before.saturating_sub(disk.free_bytes);
        self.hurry = match fell >= FALL_BYTES.min(before / FALL_PART).max(1) {
            true => HURRY_ROUNDS,
            false => self.hurry.saturating_sub(1),
        };
        self.hurry > 0
    }
}

impl Count {
    fn of(files: &Files, instance: InstanceId, is_alloc: bool, since: Instant) -> Self {
        let mut left = VecDeque::new();
        if is_alloc {
            left.push_back((files.shared(instance), Holds::OwnFiles));
        } else if let Ok(task) = files.filled(instance) {
            left.extend(task.own.map(|own| (own, Holds::OwnFiles)));
            left.push_back((task.logs, Holds::Logs));
        }
        Self { instance, since, steps: 0, left, measure: None, own: None, all: 0 }
    }

    /// Counts some entries; returns whether all are counted. What cannot be counted is left out.
    fn advance(&mut self) -> bool {
        self.steps += 1;
        let say = |instance, error| {
            tracing::debug!("cannot count the files of {instance}: {error}");
        };
        let next = match self.measure.take() {
            Some(under_way) => Some(Ok(under_way)),
            None => self.left.pop_front().map(|(path, holds)| Ok((Measure::of(&path)?, holds))),
        };
        let (mut measure, holds) = match next {
            None => return true,
            Some(Ok(next)) => next,
            Some(Err(error)) => {
                say(self.instance, error);
                return self.left.is_empty();
            }
        };
        match measure.advance(STEP) {
            Ok(false) => {
                self.measure = Some((measure, holds));
                return false;
            }
            Ok(true) => {
                let bytes = measure.used().bytes;
                if holds == Holds::OwnFiles {
                    self.own = Some(self.own.unwrap_or_default().saturating_add(bytes));
                }
                self.all = self.all.saturating_add(bytes);
            }
            Err(error) => say(self.instance, error),
        }
        self.left.is_empty()
    }
}
