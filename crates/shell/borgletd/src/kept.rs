//! The directories of instances whose records nobody needs any more: their logs are kept for a
//! while. How much of whose, the crate `borglet` decides.

use std::collections::HashMap;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use borglet::{KeepAtMost, outdated};
use linux::tree::{Measure, Used};
use model::{Bytes, InstanceId, Span, UserName};
use nix::sys::statvfs::{Statvfs, statvfs};

use super::disk;
use super::remover::Remover;
use super::tasks::Files;

/// How often they are looked through, in looks at the disk, ...
const INTERVAL: u32 = 10;
/// ... and how often that is: where it is short of room, they are looked through at once.
const LOOK: Duration = Duration::from_secs(1);
/// How long logs are kept at most.
const AGE_MAX: Span = Span::from_secs(24 * 3_600);
/// How many bytes they take at most, and which part of a small disk.
const BYTES_MAX: u64 = 1 << 30;
const BYTES_PART: u64 = 20;
/// How many instances have some at most, and for how many of a small disk's files there is one.
const INSTANCES_MAX: u64 = 2_000;
const FILES_EACH: u64 = 100;

/// What is known of each.
#[derive(Debug, Default)]
struct KeptIndex {
    known: HashMap<InstanceId, Known>,
}

#[derive(Debug)]
struct Known {
    /// Since when this process knows of it. The moment that its file has is the wall clock's, by which
    /// a day may be over at once.
    since: Instant,
    user: Option<UserName>,
    used: Used,
}

/// How much is kept at most on the disk of a directory.
pub(crate) fn at_most(directory: &Path) -> KeepAtMost {
    let disk = statvfs(directory).ok();
    let bytes = |disk: &Statvfs| disk.blocks().saturating_mul(disk.fragment_size()) / BYTES_PART;
    // Some file systems have as many files as there is room for, and say 0.
    let files = |disk: &Statvfs| Some(disk.files() / FILES_EACH).filter(|_| disk.files() > 0);
    let instances = disk.as_ref().and_then(files).map_or(INSTANCES_MAX, |n| n.min(INSTANCES_MAX));
    KeepAtMost {
        age: AGE_MAX,
        bytes: Bytes(disk.as_ref().map_or(BYTES_MAX, |disk| bytes(disk).min(BYTES_MAX))),
        instances: usize::try_from(instances).unwrap_or(usize::MAX),
    }
}

/// The same as users read it, of a machine that does not have some logs any more.
pub(crate) fn explained(at_most: &KeepAtMost) -> String {
    format!(
        "a machine keeps those of ended tasks for {}, and of {} tasks or {} at most, where the oldest \
         of the user who has the most go first",
        at_most.age, at_most.instances, at_most.bytes
    )
}

/// Discards what is not to be kept any longer, for ever.
pub(crate) async fn clean(files: Files, remover: Remover) {
    let mut interval = tokio::time::interval(LOOK);
    let mut kept = KeptIndex::default();
    for look in 0_u32.. {
        interval.tick().await;
        let files = files.clone();
        let cleaned = tokio::task::spawn_blocking(move || {
            let missing = disk::missing(&files);
            if missing == Bytes(0) && !look.is_multiple_of(INTERVAL) {
                return kept;
            }
            if let Err(error) = kept.clean(&files, at_most(&files.directory), missing) {
                tracing::error!("the logs of ended tasks cannot be listed: {error:#}");
            }
            kept
        });
        kept = cleaned.await.unwrap_or_default();
        remover.look();
    }
}

impl KeptIndex {
    /// Discards what is too much, and as much as is missing of what is to stay free of the disk.
    fn clean(
        &mut self,
        files: &Files,
        mut at_most: KeepAtMost,
        missing: Bytes,
    ) -> anyhow::Result<()> {
        let now = Instant::now();
        let mut there = files.retired()?;
        let found: HashMap<InstanceId, SystemTime> = there.iter().copied().collect();
        self.known.retain(|instance, _| found.contains_key(instance));
        for instance in found.into_keys() {
            self.known.entry(instance).or_insert_with(|| Known {
                since: now,
                user: files.owner_of_retired(instance),
                used: measured(files, instance),
            });
        }
        // Of what was there already when this process began, the moments that the files have.
        there.sort_unstable_by_key(|(instance, noted)| {
            (self.known.get(instance).map(|known| known.since), *noted, *instance)
        });
        let kept = |(instance, _): &(InstanceId, SystemTime)| {
            let known = self.known.get(instance)?;
            let age = u64::try_from((now - known.since).as_micros()).unwrap_or(u64::MAX);
            let (user, bytes) = (known.user.clone(), Bytes(known.used.bytes));
            Some(borglet::KeptLog { instance: *instance, user, age: Span(age), bytes })
        };
        let kept: Vec<_> = there.iter().filter_map(kept).collect();
        if missing > Bytes(0) {
            let all = kept.iter().fold(0, |sum: u64, kept| sum.saturating_add(kept.bytes.0));
            at_most.bytes = at_most.bytes.min(Bytes(all.saturating_sub(missing.0)));
        }
        for instance in outdated(&kept, &at_most) {
            // It is tried again, and is no reason to keep the others.
            if let Err(error) = files.discard(instance) {
                tracing::error!("{instance} cannot be removed: {error:#}");
            }
        }
        Ok(())
    }
}

/// What the logs and records of one take.
fn measured(files: &Files, instance: InstanceId) -> Used {
    let count = || {
        let mut measure = Measure::of(files.task(instance)?.path())?;
        while !measure.go_on(usize::MAX)? {}
        anyhow::Ok(measure.used())
    };
    count().unwrap_or_else(|error| {
        tracing::error!("what {instance} takes of the disk is not known: {error:#}");
        Used::default()
    })
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};

    use linux::Isolation;

    use super::*;

    const AT_MOST: KeepAtMost =
        KeepAtMost { age: Span::from_secs(3_600), bytes: Bytes(1 << 30), instances: 200 };

    #[test]
    fn what_is_kept_is_a_matter_of_this_processs_time_and_of_fair_shares() {
        let place = tempfile::tempdir().expect("a temporary directory");
        let files = Files::found(place.path(), Isolation::Rootless).expect("a directory");
        let directory = |name: &str| {
            let directory = files.tasks().join(name);
            fs::create_dir_all(&directory).expect("a task directory");
            directory
        };
        for (index, (name, log)) in
            [("1-0-1", 64), ("1-0-2", 1), ("1-0-3", 1), ("1-0-4", 1)].into_iter().enumerate()
        {
            let directory = directory(name);
            fs::write(directory.join("stdout"), vec![0; log << 10]).expect("there is room");
            let retired = File::create(directory.join("retired")).expect("a file");
            let noted = SystemTime::UNIX_EPOCH + Duration::from_secs(index as u64);
            retired.set_modified(noted).expect("its time can be set");
        }
        directory("2-0-1");
        let there = || linux::task::scan(&files.tasks()).expect("a list").join(" ");
        let mut kept = KeptIndex::default();
        let mut clean_for = |at_most, missing| {
            kept.clean(&files, at_most, Bytes(missing)).expect("it can be cleaned");
        };
        let mut clean = |at_most| clean_for(at_most, 0);
        clean(AT_MOST);
        assert_eq!(there(), "1-0-1 1-0-2 1-0-3 1-0-4 2-0-1", "nobody knows since when");
        clean(KeepAtMost { bytes: Bytes(64 << 10), ..AT_MOST });
        assert_eq!(there(), "1-0-2 1-0-3 1-0-4 2-0-1", "the large one");
        clean(KeepAtMost { instances: 2, ..AT_MOST });
        assert_eq!(there(), "1-0-3 1-0-4 2-0-1", "the oldest is one too many");
        clean_for(AT_MOST, 1);
        assert_eq!(there(), "1-0-4 2-0-1", "a byte is missing of what is to stay free");
        clean_for(KeepAtMost { age: Span::ZERO, ..AT_MOST }, 0);
        assert_eq!(there(), "2-0-1", "known for longer than no time");
        assert_eq!(files.discarded().expect("a list").len(), 4);
    }

    #[test]
    fn a_small_disk_keeps_less() {
        let place = tempfile::tempdir().expect("a temporary directory");
        let large = at_most(place.path());
        assert!(large.bytes <= Bytes(BYTES_MAX) && large.instances <= 2_000);
        assert_eq!(
            explained(&KeepAtMost { age: AGE_MAX, bytes: Bytes(BYTES_MAX), instances: 2_000 }),
            "a machine keeps those of ended tasks for 1 d, and of 2000 tasks or 1 GiB at most, where \
             the oldest of the user who has the most go first"
        );
    }
}
