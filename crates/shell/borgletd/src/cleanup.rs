//! Deletes what tasks and allocs leave behind, on a thread of its own: one of them can have
//! millions of files, and nothing waits for that.
//!
//! Discarded directories were renamed ([`linux::task::discarded`]), so that the next Borglet finds
//! them again. All of them are processed in turn, so that a large one does not block the rest.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::mpsc::{RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::time::Duration;

use anyhow::Context;
use linux::tree::Removal;
use tokio::sync::watch;

use super::tasks::Files;

/// How many entries of one directory are deleted before the next one continues.
const TURN: usize = 10_000;
/// The delay before a failed deletion is retried.
const AGAIN: Duration = Duration::from_secs(30);

/// A handle to the thread, which ends when the last handle is dropped.
#[derive(Clone, Debug)]
pub(crate) struct Remover {
    wake: SyncSender<()>,
    /// Changes whenever a directory is gone.
    gone: watch::Receiver<u64>,
}

impl Remover {
    /// Starts the thread, which begins with the existing directories.
    pub(crate) fn start(files: Files) -> anyhow::Result<Self> {
        let (wake, woken) = sync_channel(1);
        let (to_gone, gone) = watch::channel(0);
        let run = move || {
            let mut work =
                Work { files, to_gone, under_way: BTreeMap::new(), said: BTreeSet::new() };
            loop {
                match work.turn() {
                    Turn::More => {
                        if woken.try_recv() == Err(std::sync::mpsc::TryRecvError::Disconnected) {
                            return;
                        }
                    }
                    Turn::Nothing => match woken.recv() {
                        Ok(()) => {}
                        Err(_) => return,
                    },
                    Turn::Stuck => match woken.recv_timeout(AGAIN) {
                        Ok(()) | Err(RecvTimeoutError::Timeout) => {}
                        Err(RecvTimeoutError::Disconnected) => return,
                    },
                }
            }
        };
        let thread = std::thread::Builder::new().name("remover".to_owned());
        thread.spawn(run).context("cannot start the thread that deletes files")?;
        Ok(Self { wake, gone })
    }

    /// Wakes the thread: something was discarded.
    pub(crate) fn look(&self) {
        // If the channel is full, the thread is awake and has not scanned yet.
        let (Ok(()) | Err(TrySendError::Full(()) | TrySendError::Disconnected(()))) =
            self.wake.try_send(());
    }

    /// Waits until a discarded directory is gone.
    pub(crate) async fn gone(&self, discarded: PathBuf) {
        let mut gone = self.gone.clone();
        self.look();
        let _ends = gone.wait_for(|_| !discarded.exists()).await;
    }
}

/// The outcome of one turn.
enum Turn {
    /// More is left to delete.
    More,
    Nothing,
    /// The rest cannot be deleted now.
    Stuck,
}

struct Work {
    files: Files,
    to_gone: watch::Sender<u64>,
    under_way: BTreeMap<PathBuf, Removal>,
    /// The failures that were logged.
    said: BTreeSet<PathBuf>,
}

impl Work {
    /// Processes a part of every discarded directory.
    fn turn(&mut self) -> Turn {
        let found = match self.files.discarded() {
            Ok(found) => found,
            Err(error) => {
                tracing::error!("cannot list discarded files: {error:#}");
                return Turn::Stuck;
            }
        };
        self.under_way.retain(|path, _| found.contains(path));
        self.said.retain(|path| found.contains(path));
        let (mut more, mut stuck) = (false, false);
        for path in found {
            let removal =
                self.under_way.entry(path).or_insert_with_key(|path| Removal::of(path.clone()));
            match removal.advance(TURN) {
                Ok(done) => {
                    more |= !done;
                    if done {
                        self.to_gone.send_modify(|count| *count += 1);
                    }
                }
                Err(error) => {
                    stuck = true;
                    let path = removal.path();
                    if self.said.insert(path.to_owned()) {
                        tracing::error!("cannot delete {} yet: {error}", path.display());
                    }
                }
            }
        }
        match (more, stuck) {
            (true, _) => Turn::More,
            (false, true) => Turn::Stuck,
            (false, false) => Turn::Nothing,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use linux::Isolation;
    use linux::task::TaskDirectory;

    use super::*;
    use crate::port_isolation::WantedPortIsolation;

    #[tokio::test]
    async fn discarded_directories_are_deleted_by_this_process_or_the_next() {
        let place = tempfile::tempdir().expect("a temporary directory");
        let files = Files::open(place.path(), Isolation::Rootless, WantedPortIsolation::Watched)
            .expect("a directory");
        let left = files.tasks().join(".removing-1-0-7-0-1");
        fs::create_dir_all(left.join("home/a")).expect("what another process began to delete");
        let remover = Remover::start(files.clone()).expect("a thread");
        remover.gone(left.clone()).await;
        assert!(!left.exists());
        let task = TaskDirectory::create(&files.tasks(), "7-0-2").expect("a directory");
        fs::create_dir_all(task.path().join("home/a/b")).expect("files");
        assert!(task.discard_home().expect("it can be renamed"));
        let [discarded] = files.discarded().expect("a list").try_into().expect("one");
        remover.gone(discarded).await;
        assert_eq!(fs::read_dir(task.path()).expect("it stays").count(), 0);
        assert!(files.discarded().expect("a list").is_empty());
    }
}
