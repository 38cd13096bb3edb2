//! Secrets and addresses that have changed while a task runs: its files are written again, and it gets SIGHUP.
//!
//! The masters record what a task has read before they say it. So a note in the task's directory remains until all of it
//! is written: a Borglet that ends meanwhile finds the note at its next start, and reads again.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use borglet::Launch;
use linux::task::{Inspection, TaskDirectory};
use model::InstanceId;

use super::{Executor, Files};
use crate::task_files;

/// The delay between two attempts, which go on as long as the task runs.
const RETRY: Duration = Duration::from_secs(5);
/// After so many it is longer.
const FREQUENT_ATTEMPTS: u32 = 60;
const RARE_RETRY: Duration = Duration::from_secs(60);

/// The tasks whose files are being read again. Clones share them.
#[derive(Clone, Debug, Default)]
pub(super) struct ReadingsAgain(Arc<Mutex<ReadingNumbers>>);

/// The newest reading of each task: an older one gives up.
#[derive(Debug, Default)]
struct ReadingNumbers {
    last: u64,
    newest: BTreeMap<InstanceId, u64>,
}

impl ReadingsAgain {
    fn begin(&self, instance: InstanceId) -> u64 {
        let mut numbers = self.lock();
        numbers.last += 1;
        let number = numbers.last;
        numbers.newest.insert(instance, number);
        number
    }

    /// Notes it in the task's directory, as [`task_files::begin_reading`] does.
    fn note(&self, files: &Files, instance: InstanceId) -> anyhow::Result<bool> {
        let _numbers = self.lock();
        task_files::begin_reading(&files.task(instance)?)
    }

    fn is_newest(&self, instance: InstanceId, number: u64) -> bool {
        self.lock().newest.get(&instance) == Some(&number)
    }

    /// A reading is over; all was written, or the task has ended.
    fn end(&self, files: &Files, instance: InstanceId, number: u64) -> anyhow::Result<()> {
        let mut numbers = self.lock();
        if numbers.newest.get(&instance) != Some(&number) {
            return Ok(());
        }
        numbers.newest.remove(&instance);
        task_files::end_reading(&files.task(instance)?)
    }

    fn lock(&self) -> MutexGuard<'_, ReadingNumbers> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Executor {
    /// Writes the files of a running task again, and tells it.
    pub(super) fn read_again(&self, launch: Launch) {
        let (this, number) = (self.clone(), self.readings.begin(launch.instance));
        tokio::spawn(async move {
            let instance = launch.instance;
            this.read_until_written(&launch, number).await;
            let (files, readings) = (this.files.clone(), this.readings.clone());
            let ended = tokio::task::spawn_blocking(move || readings.end(&files, instance, number));
            if let Err(error) = ended.await.map_err(anyhow::Error::from).and_then(|ended| ended) {
                tracing::error!("{instance} will read again what it has read: {error:#}");
            }
        });
    }

    /// Reads again what a Borglet that has ended was reading.
    pub(crate) fn read_what_was_interrupted(&self, launch: Launch) {
        let is_reading = |task: TaskDirectory| task_files::is_reading(&task);
        if self.files.task(launch.instance).is_ok_and(is_reading) {
            tracing::info!(
                "{} reads again what has changed: that was interrupted",
                launch.instance
            );
            self.read_again(launch);
        }
    }

    async fn read_until_written(&self, launch: &Launch, number: u64) {
        let instance = launch.instance;
        let (files, readings) = (self.files.clone(), self.readings.clone());
        let noted = tokio::task::spawn_blocking(move || readings.note(&files, instance));
        let noted = noted.await.map_err(anyhow::Error::from).and_then(|noted| noted);
        let mut changed = noted.unwrap_or_else(|error| {
            tracing::warn!("if this Borglet ends now, {instance} keeps what it has: {error:#}");
            false
        });
        let mut attempt = 0;
        while self.readings.is_newest(instance, number) {
            match self.write_again(launch, &mut changed).await {
                Ok(()) if changed => {
                    self.deliver(instance, "signal", TaskDirectory::hang_up).await;
                    return;
                }
                // What has changed are its variables, which it keeps.
                Ok(()) => return,
                Err(error) => tracing::warn!("cannot tell {instance} what changed: {error:#}"),
            }
            attempt += 1;
            let is_frequent = attempt < FREQUENT_ATTEMPTS;
            tokio::time::sleep(if is_frequent { RETRY } else { RARE_RETRY }).await;
            if !self.is_there(instance).await {
                return;
            }
        }
    }

    /// Writes the files, and notes whether one has another content now, also when a later one fails.
    async fn write_again(&self, launch: &Launch, changed: &mut bool) -> anyhow::Result<()> {
        let _turn = self.read_turn.lock().await;
        let names = self.provided.secrets.read_again(launch, changed).await?;
        let (files, launch) = (self.files.clone(), launch.clone().told(names));
        let rewritten = tokio::task::spawn_blocking(move || {
            let mut changed = false;
            let task = files.task(launch.instance);
            let written =
                task.and_then(|task| task_files::rewrite_all(&task, &launch, &mut changed));
            (written, changed)
        });
        let (written, rewritten) = rewritten.await?;
        *changed |= rewritten;
        written
    }

    /// Whether a task has not ended.
    async fn is_there(&self, instance: InstanceId) -> bool {
        let files = self.files.clone();
        let inspected =
            tokio::task::spawn_blocking(move || anyhow::Ok(files.task(instance)?.inspect()?));
        let inspected = inspected.await.map_err(anyhow::Error::from).and_then(|found| found);
        !matches!(inspected, Ok(Inspection::Ended(_) | Inspection::Lost { .. }))
    }
}

#[cfg(test)]
mod tests {
    use linux::Isolation;

    use super::*;

    #[test]
    fn what_a_borglet_was_reading_is_noted_until_the_newest_reading_ends() {
        let place = tempfile::tempdir().expect("a temporary directory");
        let files = Files::found(place.path(), Isolation::Rootless).expect("a directory");
        let instance: InstanceId = "1-0-1".parse().expect("an instance");
        std::fs::create_dir(files.tasks()).expect("it is new");
        TaskDirectory::create(&files.tasks(), &instance.to_string()).expect("it is new");
        let is_noted = || task_files::is_reading(&files.task(instance).expect("it is there"));
        let readings = ReadingsAgain::default();

        let older = readings.begin(instance);
        assert!(!is_noted());
        assert!(
            !readings.note(&files, instance).expect("it is there"),
            "nothing is left of others"
        );
        let newer = readings.begin(instance);
        assert!(readings.note(&files, instance).expect("it is there"), "the older is not over");
        assert!(!readings.is_newest(instance, older) && readings.is_newest(instance, newer));
        readings.end(&files, instance, older).expect("it is there");
        assert!(is_noted());

        let restarted = ReadingsAgain::default();
        let number = restarted.begin(instance);
        assert!(restarted.note(&files, instance).expect("it is there"), "it was interrupted");
        restarted.end(&files, instance, number).expect("it is there");
        assert!(!is_noted());
    }
}
