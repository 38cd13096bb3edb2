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
            let instance = launch.instance;
            for _ in 0..ATTEMPTS_MAX {
                match this.write_again(&launch).await {
                    Ok(true) => {
                        this.deliver(instance, "signal", TaskDirectory::hang_up).await;
                        return;
                    }
                    // What has changed are its variables, which it keeps.
                    Ok(false) => return,
                    Err(error) => tracing::warn!("cannot tell {instance} what changed: {error:#}"),
                }
                tokio::time::sleep(RETRY).await;
                if !this.is_there(&launch) {
                    return;
                }
            }
        });
    }

    /// Whether a file has another content now.
    async fn write_again(&self, launch: &Launch) -> anyhow::Result<bool> {
        let _turn = self.read_turn.lock().await;
        let (names, changed) = self.provided.secrets.read_again(launch).await?;
        let (files, launch) = (self.files.clone(), launch.clone().told(names));
        let rewritten = tokio::task::spawn_blocking(move || {
            task_files::rewrite_all(&files.task(launch.instance)?, &launch)
        });
        Ok(rewritten.await?? || changed)
    }

    fn is_there(&self, launch: &Launch) -> bool {
        self.files.task(launch.instance).is_ok_and(|task| task.path().exists())
    }
}
