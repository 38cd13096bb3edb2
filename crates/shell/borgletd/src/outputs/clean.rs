//! Removes outputs: the old ones, and those for which there is no room.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use borglet::{Exceeded, KeepAtMost, KeptLog, outdated};
use linux::tree::Used;
use model::{Bytes, InstanceId, Span};
use process::clock::wall_clock;
use spec::OutputPolicy;

use super::{INSTANCES_MAX, OutputRecord};
use crate::cleanup::Remover;
use crate::deleted_logs::{Cause, Deleted};
use crate::disk;
use crate::tasks::Files;

/// The interval of checks; what is kept anew is checked at once.
const INTERVAL: Duration = Duration::from_secs(5);
/// How long outputs are measured again after they were found: they may still be moved there.
const SETTLES: Duration = Duration::from_secs(60);

/// The outputs that are known.
#[derive(Debug, Default)]
struct OutputIndex {
    known: HashMap<InstanceId, KnownOutputs>,
    /// Whether the disk was short of space at the last check. Logs go first.
    was_short: bool,
}

#[derive(Debug)]
struct KnownOutputs {
    record: OutputRecord,
    /// When this process first saw them, and their age then: a wall clock that is set ends none of them
    /// while this process runs.
    seen: Instant,
    age_then: Span,
    bytes: Bytes,
}

impl KnownOutputs {
    fn kept(&self, instance: InstanceId, now: Instant) -> KeptLog {
        let since = u64::try_from((now - self.seen).as_micros()).unwrap_or(u64::MAX);
        KeptLog {
            instance,
            user: Some(self.record.user.clone()),
            age: Span(self.age_then.0.saturating_add(since)),
            keep: Some(self.record.policy.kept_for()),
            bytes: self.bytes,
        }
    }
}

/// Removes outputs beyond the limits, forever.
pub(crate) async fn clean(files: Files, remover: Remover) {
    let mut interval = tokio::time::interval(INTERVAL);
    let mut index = OutputIndex::default();
    loop {
        tokio::select! {
            _ = interval.tick() => {}
            () = files.outputs.news.notified() => {}
        }
        let files = files.clone();
        let cleaned = tokio::task::spawn_blocking(move || {
            if let Err(error) = index.clean(&files, disk::missing(&files)) {
                tracing::error!("cannot list the outputs of ended tasks: {error:#}");
            }
            index
        });
        index = cleaned.await.unwrap_or_default();
        remover.look();
    }
}

impl OutputIndex {
    fn clean(&mut self, files: &Files, missing: Bytes) -> anyhow::Result<()> {
        let now = Instant::now();
        let there: HashSet<InstanceId> = files.with_outputs()?.into_iter().collect();
        self.known.retain(|instance, _| there.contains(instance));
        for instance in there {
            if let Some(known) = self.known.get_mut(&instance) {
                if now - known.seen < SETTLES {
                    known.bytes = measured(files, instance);
                }
                continue;
            }
            let record = match files.output_record(instance) {
                Ok(Some(record)) => record,
                // They are being moved here now.
                Ok(None) => continue,
                // Perhaps it can be read the next time.
                Err(error) if error.root_cause().is::<std::io::Error>() => {
                    tracing::error!(
                        "cannot read the record of the outputs of {instance}: {error:#}"
                    );
                    continue;
                }
                Err(error) => {
                    tracing::error!(
                        "the outputs of {instance} are removed, for their record is damaged: {error:#}"
                    );
                    if let Err(error) = files.discard_outputs(instance) {
                        tracing::error!("cannot remove the outputs of {instance}: {error:#}");
                    }
                    continue;
                }
            };
            let bytes = measured(files, instance);
            let age_then = wall_clock().since(record.since);
            self.known.insert(instance, KnownOutputs { record, seen: now, age_then, bytes });
        }
        let kept = self.known.iter().map(|(instance, known)| known.kept(*instance, now));
        let mut kept: Vec<KeptLog> = kept.collect();
        kept.sort_by_key(|kept| (Reverse(kept.age), kept.instance));
        let all = kept.iter().fold(0, |sum: u64, kept| sum.saturating_add(kept.bytes.0));
        let mut at_most = KeepAtMost {
            age: OutputPolicy::KEEP,
            bytes: files.outputs.room(&files.directory),
            instances: INSTANCES_MAX,
        };
        let is_short = missing > Bytes(0) && self.was_short;
        self.was_short = missing > Bytes(0);
        if is_short {
            at_most.bytes = at_most.bytes.min(Bytes(all.saturating_sub(missing.0)));
        }
        for (instance, exceeded) in outdated(&kept, &at_most) {
            // Retried later.
            if let Err(error) = files.discard_outputs(instance) {
                tracing::error!("cannot remove the outputs of {instance}: {error:#}");
                continue;
            }
            let cause = match exceeded {
                Exceeded::Age(keep) => Cause::Age(keep),
                Exceeded::Instances => Cause::Instances(at_most.instances),
                Exceeded::Bytes if is_short => Cause::DiskIsFull,
                Exceeded::Bytes => Cause::Bytes(at_most.bytes),
            };
            let user = self.known.remove(&instance).map(|known| known.record.user);
            files.outputs.deleted.note(instance, Deleted { at: wall_clock(), cause, user });
        }
        let left = self.known.values().fold(0, |sum: u64, known| sum.saturating_add(known.bytes.0));
        files.outputs.bytes.set(i64::try_from(left).unwrap_or(i64::MAX));
        Ok(())
    }
}

/// How much the outputs of an instance take; nothing if that cannot be told.
fn measured(files: &Files, instance: InstanceId) -> Bytes {
    let used = files.measure_outputs(instance).unwrap_or_else(|error| {
        tracing::error!("cannot measure the outputs of {instance}: {error:#}");
        Used::default()
    });
    Bytes(used.bytes)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use linux::Isolation;
    use model::Time;

    use super::super::{KEPT_FILE, OUTPUTS_DIRECTORY};
    use super::*;
    use crate::kept_outputs::OutputsHere;

    fn keep(files: &Files, instance: &str, user: &str, minutes_ago: u64, kib: usize) {
        let directory = files.outputs().join(instance);
        fs::create_dir_all(directory.join(OUTPUTS_DIRECTORY)).expect("a directory");
        let policy = OutputPolicy {
            paths: ["out".parse().expect("a path")].into(),
            keep: Some(Span::from_secs(3_600)),
            package: None,
        };
        let since = Time(wall_clock().0 - minutes_ago * 60_000_000);
        let record = OutputRecord { user: user.parse().expect("a name"), policy, since };
        let text = serde_json::to_string(&record.message()).expect("it is JSON");
        fs::write(directory.join(KEPT_FILE), text).expect("there is room");
        fs::write(directory.join(OUTPUTS_DIRECTORY).join("out"), vec![1; kib << 10])
            .expect("there is room");
    }

    #[test]
    fn old_outputs_and_the_oldest_of_the_user_with_most_are_removed() {
        let place = tempfile::tempdir().expect("a temporary directory");
        let files = Files::found(place.path(), Isolation::Rootless).expect("a directory");
        let files = files.keeping(OutputsHere::at_most(Some(Bytes(300 << 10))));
        for (instance, user, minutes_ago, kib) in [
            ("1-0-1", "ana", 61, 1),
            ("1-1-1", "ana", 30, 1),
            ("2-0-1", "ben", 20, 100),
            ("2-1-1", "ben", 10, 100),
            ("2-2-1", "ben", 5, 100),
        ] {
            keep(&files, instance, user, minutes_ago, kib);
        }
        let there = || linux::task::scan(&files.outputs()).expect("a list").join(" ");
        let mut index = OutputIndex::default();
        let mut clean = |missing| index.clean(&files, Bytes(missing)).expect("it can be cleaned");
        clean(0);
        assert_eq!(there(), "1-1-1 2-1-1 2-2-1", "one was old, and ben had too much");
        clean(1);
        assert_eq!(there(), "1-1-1 2-1-1 2-2-1", "logs go first");
        clean(1);
        assert_eq!(there(), "1-1-1 2-2-1", "a byte is missing of what is to stay free");
        for (instance, says) in [
            ("1-0-1", "outputs of the job are kept for 1 h (keepOutputs)"),
            ("2-0-1", "had more than 300 KiB, and the user had most of them"),
            ("2-1-1", "the machine's disk was short of space"),
            ("9-0-1", "kept for 1 d unless the job says otherwise (keepOutputs)"),
        ] {
            let said = files.why_no_outputs(instance.parse().expect("an instance"));
            assert!(said.contains(says), "{instance}: {said}");
        }
        assert!(files.outputs.bytes.get() >= 100 << 10);
        let record = files.output_record("1-1-1".parse().expect("an instance"));
        let record = record.expect("it can be read").expect("it is there");
        assert_eq!(OutputRecord::of_message(&record.message()).expect("valid"), record);
    }
}
