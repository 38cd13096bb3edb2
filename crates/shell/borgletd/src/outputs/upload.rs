//! Makes versions of packages of kept outputs, one upload at a time, until a store has them or their time is over.
//!
//! What is to be uploaded is on disk, so that another process of the Borglet goes on. Users take turns.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use api::v1;
use client::packages::{MissingChunks, Sending, StoreError};
use model::{Digest, InstanceId, Time, UserName};
use package::chunk::ChunkSink;
use package::directory::{self, PackError, PackLimits, Packed};
use process::clock::wall_clock;
use process::renewal::{Masters, ask_each, explained};
use rpc::Rotating;
use rpc::service::packages_client::PackagesClient;
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep_until};
use tonic::{Code, Status};

use super::{COMPLETE_FILE, OUTPUTS_DIRECTORY, OutputRecord};
use crate::deleted_logs::{Cause, Deleted};
use crate::tasks::Files;

/// The timeout of a call to one master.
const TIMEOUT: Duration = Duration::from_secs(5);
/// The delay before the second attempt; it doubles with each up to the longest.
const FIRST_DELAY: Duration = Duration::from_millis(200);
const LONGEST_DELAY: Duration = Duration::from_secs(600);
/// The interval in which outputs are looked for without news.
const INTERVAL: Duration = Duration::from_secs(60);

/// Outputs that become a version, and when they are tried.
#[derive(Debug)]
struct PendingUpload {
    user: UserName,
    since: Time,
    attempts: u32,
    /// `None`: never again.
    due: Option<Instant>,
}

/// What is on the disk.
struct OutputsFound {
    /// The instances whose outputs become versions.
    here: BTreeSet<InstanceId>,
    /// The records of those that were not known.
    new: Vec<(InstanceId, OutputRecord)>,
}

/// The outputs that become versions, and whose turn it is.
#[derive(Debug, Default)]
struct UploadQueue {
    pending: BTreeMap<InstanceId, PendingUpload>,
    /// The number of the last turn of each user.
    turns: BTreeMap<UserName, u64>,
    turn: u64,
}

impl UploadQueue {
    /// Takes note of what is here, with the records of what is new.
    fn update(&mut self, here: &BTreeSet<InstanceId>, new: Vec<(InstanceId, OutputRecord)>) {
        self.pending.retain(|instance, _| here.contains(instance));
        let now = Instant::now();
        for (instance, record) in new {
            let (user, since) = (record.user, record.since);
            let pending = PendingUpload { user, since, attempts: 0, due: Some(now) };
            self.pending.insert(instance, pending);
        }
        let pending = &self.pending;
        self.turns.retain(|user, _| pending.values().any(|one| one.user == *user));
    }

    /// What is tried now: the oldest of the user whose last turn is longest ago.
    fn next(&mut self, now: Instant) -> Option<InstanceId> {
        let due = self.pending.iter().filter(|(_, one)| one.due.is_some_and(|due| due <= now));
        let turn = |user: &UserName| self.turns.get(user).copied().unwrap_or_default();
        let first = due.min_by_key(|(instance, one)| (turn(&one.user), one.since, **instance));
        let (instance, user) = first.map(|(instance, one)| (*instance, one.user.clone()))?;
        self.turn += 1;
        self.turns.insert(user, self.turn);
        Some(instance)
    }

    /// When the next one is due.
    fn wakes(&self, now: Instant) -> Instant {
        let latest = now + INTERVAL;
        self.pending.values().filter_map(|one| one.due).min().map_or(latest, |due| due.min(latest))
    }

    /// An attempt has failed.
    fn later(&mut self, instance: InstanceId, now: Instant) {
        let Some(one) = self.pending.get_mut(&instance) else { return };
        one.due = Some(now + delay(one.attempts));
        one.attempts = one.attempts.saturating_add(1);
    }

    /// It is never tried again.
    fn give_up(&mut self, instance: InstanceId) {
        if let Some(one) = self.pending.get_mut(&instance) {
            one.due = None;
        }
    }
}

fn delay(attempts: u32) -> Duration {
    FIRST_DELAY.saturating_mul(1_u32 << attempts.min(16)).min(LONGEST_DELAY)
}

/// What became of an attempt.
enum UploadAttempt {
    /// A store has them.
    Uploaded,
    /// The task has left nothing.
    Nothing,
}

/// Uploads outputs, forever.
pub(crate) async fn upload(files: Files, credentials: Rotating, masters: Masters) -> Infallible {
    let uploader = Uploader { files, credentials, masters };
    let mut queue = UploadQueue::default();
    loop {
        queue = uploader.look(queue).await;
        let Some(instance) = queue.next(Instant::now()) else {
            tokio::select! {
                () = sleep_until(queue.wakes(Instant::now())) => {}
                () = uploader.files.outputs.to_upload.notified() => {}
            }
            continue;
        };
        let waiting = &uploader.files.outputs.waiting;
        match uploader.attempt(instance).await {
            Ok(UploadAttempt::Uploaded) => {
                queue.pending.remove(&instance);
                waiting.lock().remove(&instance);
            }
            Ok(UploadAttempt::Nothing) => queue.give_up(instance),
            Err(error) => {
                let why = explained(&error);
                tracing::info!("the outputs of {instance} are not in their package yet: {why}");
                waiting.lock().insert(instance, why);
                match is_final(&error) {
                    true => queue.give_up(instance),
                    false => queue.later(instance, Instant::now()),
                }
            }
        }
    }
}

/// Whether another attempt would fail, too: the cell wants no version of them, or no package can have such files.
fn is_final(error: &anyhow::Error) -> bool {
    match error.downcast_ref::<PackError>() {
        Some(PackError::Io { .. } | PackError::Sink { .. }) => false,
        Some(_) => true,
        None => {
            error.downcast_ref::<Status>().is_some_and(|status| status.code() == Code::NotFound)
        }
    }
}

struct Uploader {
    files: Files,
    credentials: Rotating,
    masters: Masters,
}

impl Uploader {
    /// Looks for outputs that become versions.
    async fn look(&self, mut queue: UploadQueue) -> UploadQueue {
        let known: BTreeSet<InstanceId> = queue.pending.keys().copied().collect();
        let files = self.files.clone();
        let looked = tokio::task::spawn_blocking(move || files.to_upload(&known));
        match looked.await.map_err(anyhow::Error::from).flatten() {
            Ok(OutputsFound { here, new }) => {
                self.files.outputs.waiting.lock().retain(|instance, _| here.contains(instance));
                queue.update(&here, new);
            }
            Err(error) => tracing::error!("cannot list the outputs of ended tasks: {error:#}"),
        }
        queue
    }

    async fn attempt(&self, instance: InstanceId) -> anyhow::Result<UploadAttempt> {
        let request = v1::UploadOutputsRequest { instance: Some(instance.into()) };
        let upload =
            async |channel, request| PackagesClient::new(channel).upload_outputs(request).await;
        let (masters, credentials) = (self.masters.all(), &self.credentials);
        let allowed = ask_each(&masters, credentials, &request, TIMEOUT, upload, is_answer);
        let allowed = allowed.await?;
        let root = self.files.outputs_of(instance).join(OUTPUTS_DIRECTORY);
        if fs::read_dir(&root)?.next().is_none() {
            return Ok(UploadAttempt::Nothing);
        }
        let has_store = allowed.exists.is_some() || !allowed.stores.is_empty();
        ensure!(has_store, StoreError::none(&allowed.silent_stores));
        let (packed, Digests(digests)) = packed(root.clone(), Digests::default()).await?;
        let digest = packed.digest.to_string();
        match allowed.exists.clone() {
            Some(exists) if exists.digest == digest => {}
            Some(exists) => {
                bail!("{} exists with another content: delete it, or copy the outputs", exists.id)
            }
            None => self.send(instance, allowed, root, packed.digest, digests).await?,
        }
        self.files.discard_outputs(instance)?;
        let deleted = Deleted { at: wall_clock(), cause: Cause::InPackage, user: None };
        self.files.outputs.deleted.note(instance, deleted);
        self.files.outputs.news.notify_one();
        Ok(UploadAttempt::Uploaded)
    }

    /// Sends what a store lacks, and has a master add the version.
    async fn send(
        &self,
        instance: InstanceId,
        allowed: v1::UploadPackageResponse,
        root: PathBuf,
        digest: Digest,
        digests: BTreeSet<Digest>,
    ) -> anyhow::Result<()> {
        let none = || StoreError::none(&allowed.silent_stores);
        let store = allowed.stores.first().ok_or_else(none)?;
        let right = allowed.right.unwrap_or_default();
        let mut sending = Sending::begin(store, &self.credentials, right, allowed.bases).await?;
        let digests: Vec<Digest> = digests.into_iter().collect();
        let offered = sending.offer(&digests).await?;
        if !offered.is_empty() {
            // The sink ends with the reading: until then the transfer waits for further chunks.
            let read =
                async |chunks| packed(root, ToStore(chunks)).await.map(|(packed, _sink)| packed);
            let (again, transferred) = sending.transfer(offered, read).await;
            transferred?;
            let again = again?;
            ensure!(again.digest == digest, "they changed while they were read");
        }
        let receipt = sending.commit(digest).await?;
        let request =
            v1::AddOutputsRequest { instance: Some(instance.into()), receipt: Some(receipt) };
        let add = async |channel, request| PackagesClient::new(channel).add_outputs(request).await;
        let (masters, credentials) = (self.masters.all(), &self.credentials);
        let added = ask_each(&masters, credentials, &request, TIMEOUT, add, is_answer);
        added.await.map(drop)
    }
}

/// Whether another master would say the same.
fn is_answer(status: &Status) -> bool {
    let answers = [
        Code::NotFound,
        Code::PermissionDenied,
        Code::InvalidArgument,
        Code::FailedPrecondition,
        Code::ResourceExhausted,
        Code::AlreadyExists,
    ];
    answers.contains(&status.code())
}

impl Files {
    /// The instances whose outputs are here and become versions, and the records of those that are not known yet.
    fn to_upload(&self, known: &BTreeSet<InstanceId>) -> anyhow::Result<OutputsFound> {
        let complete =
            |instance: &InstanceId| self.outputs_of(*instance).join(COMPLETE_FILE).exists();
        let here = self.with_outputs()?.into_iter().filter(complete);
        let here: BTreeSet<InstanceId> = here.collect();
        let mut new = Vec::new();
        for instance in here.difference(known) {
            match self.output_record(*instance) {
                Ok(Some(record)) => new.push((*instance, record)),
                // They were removed meanwhile.
                Ok(None) => {}
                Err(error) => {
                    tracing::error!(
                        "the record of the outputs of {instance} is damaged: {error:#}"
                    );
                }
            }
        }
        Ok(OutputsFound { here, new })
    }
}

/// Remembers which chunks a package has.
#[derive(Debug, Default)]
struct Digests(BTreeSet<Digest>);

impl ChunkSink for Digests {
    fn put(&mut self, digest: Digest, _: &[u8]) -> io::Result<()> {
        self.0.insert(digest);
        Ok(())
    }
}

/// Passes on the chunks that a store lacks.
struct ToStore(MissingChunks);

impl ChunkSink for ToStore {
    fn put(&mut self, digest: Digest, bytes: &[u8]) -> io::Result<()> {
        self.0.put(digest, bytes)
    }
}

/// Makes a package of a directory, on a thread of its own: a store may be slow.
async fn packed<S: ChunkSink + Send + 'static>(
    root: PathBuf,
    mut sink: S,
) -> anyhow::Result<(Packed, S)> {
    let (sender, done) = oneshot::channel();
    let thread = std::thread::Builder::new().name("pack".to_owned());
    let begun = thread.spawn(move || {
        let packed = directory::pack(&root, &mut sink, &PackLimits::default());
        // Nobody waits for it when the Borglet stops.
        let _gone = sender.send(packed.map(|packed| (packed, sink)));
    });
    begun.context("cannot start a thread")?;
    Ok(done.await.context("the thread that reads them has ended")??)
}

#[cfg(test)]
mod tests {
    use spec::OutputPolicy;

    use super::*;

    fn record(user: &str, since: u64) -> OutputRecord {
        let policy = OutputPolicy {
            paths: ["out".parse().expect("a path")].into(),
            package: Some("words".parse().expect("a name")),
            keep: None,
        };
        OutputRecord { user: user.parse().expect("a name"), policy, since: Time(since) }
    }

    #[test]
    fn users_take_turns_and_what_failed_waits() {
        let instance = |text: &str| text.parse::<InstanceId>().expect("an instance");
        let all =
            [("1-0-1", "ana", 1), ("1-1-1", "ana", 2), ("1-2-1", "ana", 3), ("2-0-1", "ben", 4)];
        let new = all.map(|(name, user, since)| (instance(name), record(user, since)));
        let here: BTreeSet<_> = new.iter().map(|(instance, _)| *instance).collect();
        let mut queue = UploadQueue::default();
        queue.update(&here, new.into());
        let now = Instant::now();
        let mut order = Vec::new();
        while let Some(next) = queue.next(now) {
            order.push(next.to_string());
            queue.later(next, now);
        }
        assert_eq!(order, ["1-0-1", "2-0-1", "1-1-1", "1-2-1"]);
        assert_eq!(queue.wakes(now), now + FIRST_DELAY);
        assert_eq!(queue.next(now + FIRST_DELAY), Some(instance("2-0-1")));
        queue.update(&BTreeSet::new(), Vec::new());
        assert_eq!((queue.next(now + INTERVAL), queue.turns.len()), (None, 0));
    }

    #[test]
    fn delays_grow_to_a_bound() {
        let delays = [0, 1, 2, 11, 12, 1_000].map(|attempts| delay(attempts).as_millis());
        assert_eq!(delays, [200, 400, 800, 409_600, 600_000, 600_000]);
    }
}
