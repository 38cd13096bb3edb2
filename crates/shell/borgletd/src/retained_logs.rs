//! The logs of retired instances, which are kept for a while. Crate `borglet` decides which of them
//! to keep.

use std::collections::HashMap;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use borglet::{Exceeded, KeepAtMost, outdated};
use linux::tree::{Measure, Used};
use model::{Bytes, InstanceId, Span, UserName};
use nix::sys::statvfs::{Statvfs, statvfs};
use process::clock::wall_clock;
use spec::LogSettings;
use tonic::Status;

use super::cleanup::Remover;
use super::deleted_logs::{Cause, Deleted};
use super::disk;
use super::tasks::Files;

/// How many disk checks pass between two scans, ...
const INTERVAL: u32 = 10;
/// ... and the interval of those checks: when disk space is short, the scan happens at once.
const LOOK: Duration = Duration::from_secs(1);
/// The maximum size of kept logs if the cell does not say, and their maximum fraction of a small disk.
const BYTES_MAX: u64 = 1 << 30;
const BYTES_PART: u64 = 20;
/// The maximum number of instances with kept logs, and the number of files on a small disk per
/// instance.
const INSTANCES_MAX: u64 = 2_000;
const FILES_EACH: u64 = 100;

/// The retired instances that are known.
#[derive(Debug, Default)]
struct KeptIndex {
    known: HashMap<InstanceId, RetainedLog>,
}

#[derive(Debug)]
struct RetainedLog {
    /// When this process first saw it. The timestamp of its file is from the wall clock, by which a
    /// day may pass at once.
    since: Instant,
    user: Option<UserName>,
    keep: Option<Span>,
    used: Used,
}

/// The limits on kept logs on the disk of a directory.
fn at_most(directory: &Path, settings: &LogSettings) -> KeepAtMost {
    let disk = statvfs(directory).ok();
    let bytes = |disk: &Statvfs| disk.blocks().saturating_mul(disk.fragment_size()) / BYTES_PART;
    // Some file systems allocate inodes dynamically and report 0.
    let files = |disk: &Statvfs| Some(disk.files() / FILES_EACH).filter(|_| disk.files() > 0);
    let instances = disk.as_ref().and_then(files).map_or(INSTANCES_MAX, |n| n.min(INSTANCES_MAX));
    KeepAtMost {
        age: settings.keep,
        bytes: settings.machine.unwrap_or_else(|| {
            Bytes(disk.as_ref().map_or(BYTES_MAX, |disk| bytes(disk).min(BYTES_MAX)))
        }),
        instances: usize::try_from(instances).unwrap_or(usize::MAX),
    }
}

/// The same for users: the explanation of why a machine does not have some logs any more.
fn explained(at_most: &KeepAtMost) -> String {
    format!(
        "a machine keeps the logs of ended tasks for {} unless their job says otherwise, of at most {} tasks \
         and {} in total; the oldest of the user with the most are deleted first",
        at_most.age, at_most.instances, at_most.bytes
    )
}

/// The same with the limits of a machine.
fn explained_here(files: &Files) -> String {
    explained(&at_most(&files.directory, &files.log_settings.get().unwrap_or_default()))
}

/// Why the log of an instance is not here.
pub(crate) fn why_not_kept(files: &Files, instance: InstanceId) -> String {
    match files.deleted_logs.of(instance) {
        Some(deleted) => deleted.to_string(),
        None => explained_here(files),
    }
}

/// The newest instance of the same task before this one.
///
/// # Errors
/// If none is kept here.
pub(crate) fn before(files: &Files, instance: InstanceId) -> Result<InstanceId, Status> {
    let names = linux::task::scan(&files.tasks());
    let names = names.map_err(|error| Status::internal(error.to_string()))?;
    let found = names.iter().filter_map(|name| name.parse::<InstanceId>().ok());
    let earlier = found
        .filter(|other| other.task() == instance.task() && other.generation < instance.generation);
    earlier.max_by_key(|other| other.generation).ok_or_else(|| {
        let why = match files.deleted_logs.before(instance) {
            Some(deleted) => deleted.to_string(),
            None if instance.generation.0 <= 1 => {
                "the task has had one incarnation only".to_owned()
            }
            None => format!(
                "the machine has no incarnation of the task before generation {}; {}",
                instance.generation,
                explained_here(files)
            ),
        };
        Status::not_found(why)
    })
}

/// Discards expired logs, forever.
pub(crate) async fn clean(files: Files, remover: Remover) {
    let mut interval = tokio::time::interval(LOOK);
    let (mut kept, mut applied) = (KeptIndex::default(), None);
    for look in 0_u32.. {
        interval.tick().await;
        let files = files.clone();
        let settings = files.log_settings.get();
        let is_new = std::mem::replace(&mut applied, settings) != settings;
        let cleaned = tokio::task::spawn_blocking(move || {
            let missing = disk::missing(&files);
            if missing == Bytes(0) && !is_new && !look.is_multiple_of(INTERVAL) {
                return kept;
            }
            let limits = match settings {
                Some(settings) => at_most(&files.directory, &settings),
                // Nothing is deleted by the defaults before the master has said what the cell keeps.
                None if missing == Bytes(0) => return kept,
                None => KeepAtMost {
                    age: Span(u64::MAX),
                    bytes: Bytes(u64::MAX),
                    instances: usize::MAX,
                },
            };
            if let Err(error) = kept.clean(&files, limits, missing) {
                tracing::error!("cannot list the logs of ended tasks: {error:#}");
            }
            kept
        });
        kept = cleaned.await.unwrap_or_default();
        remover.look();
    }
}

impl KeptIndex {
    /// Discards logs beyond the limits, and as much as the reserve of the disk is short of.
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
            self.known.entry(instance).or_insert_with(|| {
                let (user, logs) = files.retired_as(instance).unzip();
                let keep = logs.and_then(|logs| logs.keep);
                RetainedLog { since: now, user, keep, used: measured(files, instance) }
            });
        }
        // Instances older than this process are ordered by the timestamps of their files.
        there.sort_unstable_by_key(|(instance, noted)| {
            (self.known.get(instance).map(|known| known.since), *noted, *instance)
        });
        let kept = |(instance, _): &(InstanceId, SystemTime)| {
            let known = self.known.get(instance)?;
            let age = u64::try_from((now - known.since).as_micros()).unwrap_or(u64::MAX);
            Some(borglet::KeptLog {
                instance: *instance,
                user: known.user.clone(),
                age: Span(age),
                keep: known.keep,
                bytes: Bytes(known.used.bytes),
            })
        };
        let kept: Vec<_> = there.iter().filter_map(kept).collect();
        if missing > Bytes(0) {
            let all = kept.iter().fold(0, |sum: u64, kept| sum.saturating_add(kept.bytes.0));
            at_most.bytes = at_most.bytes.min(Bytes(all.saturating_sub(missing.0)));
        }
        for (instance, exceeded) in outdated(&kept, &at_most) {
            // Retried later; keep processing the others.
            if let Err(error) = files.discard(instance) {
                tracing::error!("cannot remove {instance}: {error:#}");
                continue;
            }
            let cause = match exceeded {
                Exceeded::Age(keep) => Cause::Age(keep),
                Exceeded::Instances => Cause::Instances(at_most.instances),
                Exceeded::Bytes if missing > Bytes(0) => Cause::DiskIsFull,
                Exceeded::Bytes => Cause::Bytes(at_most.bytes),
            };
            let user = self.known.get(&instance).and_then(|known| known.user.clone());
            files.deleted_logs.note(instance, Deleted { at: wall_clock(), cause, user });
        }
        Ok(())
    }
}

/// The disk usage of an instance's logs and records.
fn measured(files: &Files, instance: InstanceId) -> Used {
    let count = || {
        let mut measure = Measure::of(files.task(instance)?.path())?;
        while !measure.advance(usize::MAX)? {}
        anyhow::Ok(measure.used())
    };
    count().unwrap_or_else(|error| {
        tracing::error!("cannot measure the disk usage of {instance}: {error:#}");
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
    fn retained_logs_depend_on_process_time_and_fair_shares() {
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
        for (name, expected) in [
            ("1-0-1", "the logs of ended tasks on the machine had more than 64 KiB"),
            ("1-0-2", "the machine had the logs of more than 2 ended tasks"),
            ("1-0-3", "the machine's disk was short of space"),
            ("1-0-4", "logs of ended tasks are kept for 0 s"),
            ("9-0-4", "a machine keeps the logs of ended tasks for 1 d"),
        ] {
            let said = why_not_kept(&files, name.parse().expect("an instance"));
            assert!(said.contains(expected), "{name}: {said}");
        }
    }

    #[test]
    fn a_small_disk_keeps_less() {
        let place = tempfile::tempdir().expect("a temporary directory");
        let settings = LogSettings::default();
        let large = at_most(place.path(), &settings);
        let said = LogSettings { machine: Some(Bytes(1 << 50)), ..settings };
        assert_eq!(at_most(place.path(), &said).bytes, Bytes(1 << 50), "it was said so");
        assert!(large.bytes <= Bytes(BYTES_MAX) && large.instances <= 2_000);
        assert_eq!(
            explained(&KeepAtMost {
                age: settings.keep,
                bytes: Bytes(BYTES_MAX),
                instances: 2_000
            }),
            "a machine keeps the logs of ended tasks for 1 d unless their job says otherwise, of at most \
             2000 tasks and 1 GiB in total; the oldest of the user with the most are deleted first"
        );
    }
}
