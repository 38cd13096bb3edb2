//! Secrets and addresses that have changed while a task runs: its files are written again, and it gets SIGHUP.

use std::time::Duration;

use borglet::Launch;
use linux::task::TaskDirectory;

use super::Executor;
use crate::task_files;

/// How often it is tried, and the delay between.
const ATTEMPTS_MAX: u32 = 60;
const RETRY: Duration = Duration::from_secs(5);

impl Executor {
    /// Writes the files of a running task again, and tells it.
    pub(super) fn read_again(&self, launch: Launch) {
        let this = self.clone();
        tokio::spawn(async move {
            let (instance, mut changed) = (launch.instance, false);
            for _ in 0..ATTEMPTS_MAX {
                match this.write_again(&launch, &mut changed).await {
                    Ok(()) if changed => {
                        this.deliver(instance, "signal", TaskDirectory::hang_up).await;
                        return;
                    }
                    // What has changed are its variables, which it keeps.
                    Ok(()) => return,
                    Err(error) => tracing::warn!("cannot tell {instance} what changed: {error:#}"),
                }
                tokio::time::sleep(RETRY).await;
                if !this.is_there(&launch) {
                    return;
                }
            }
        });
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

    fn is_there(&self, launch: &Launch) -> bool {
        self.files.task(launch.instance).is_ok_and(|task| task.path().exists())
    }
}
