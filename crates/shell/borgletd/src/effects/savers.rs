//! Runs savers, and carries out what becomes of the data of ended instances.

use borglet::{Input, KeptData, SaverLaunch};
use model::InstanceId;

use super::Executor;
use crate::readable::readable;

impl Executor {
    /// Runs a saver to its end.
    pub(super) fn run_saver(&self, launch: SaverLaunch) {
        let this = self.clone();
        tokio::spawn(async move {
            let (instance, files) = (launch.kept.instance, this.files.clone());
            let started = tokio::task::spawn_blocking(move || {
                let (attempt, record) = files.prepare_saver(&launch)?;
                anyhow::Ok(attempt.start(files.shims(), &record)?)
            });
            match started.await.map_err(anyhow::Error::from).and_then(|started| started) {
                Ok(child) => {
                    readable(child.shim).await;
                    this.tell_saver_end(instance).await;
                }
                Err(error) => {
                    let failure = format!("not started: {error:#}");
                    this.tell(Input::SaverEnded(instance, Err(failure))).await;
                }
            }
        });
    }

    /// Watches a saver that an earlier Borglet started.
    pub(crate) fn watch_saver(&self, instance: InstanceId) {
        let this = self.clone();
        tokio::spawn(async move {
            let files = this.files.clone();
            let watched =
                tokio::task::spawn_blocking(move || anyhow::Ok(files.attempt(instance)?.watch()?));
            match watched.await.map_err(anyhow::Error::from).and_then(|watched| watched) {
                Ok(Some(shim)) => readable(shim).await,
                Ok(None) => {}
                Err(error) => tracing::error!("cannot watch the saver of {instance}: {error:#}"),
            }
            this.tell_saver_end(instance).await;
        });
    }

    async fn tell_saver_end(&self, instance: InstanceId) {
        let files = self.files.clone();
        let ended = tokio::task::spawn_blocking(move || files.saver_end(instance));
        let ended = match ended.await.map_err(anyhow::Error::from).and_then(|ended| ended) {
            Ok(Some(ended)) => ended,
            Ok(None) => Err("it cannot be watched".to_owned()),
            Err(error) => Err(format!("{error:#}")),
        };
        self.tell(Input::SaverEnded(instance, ended)).await;
    }

    pub(super) fn kill_saver(&self, instance: InstanceId) {
        self.in_order("kill the saver", instance, move |files| {
            Ok(files.attempt(instance)?.kill().map(drop)?)
        });
    }

    pub(super) fn measure_data(&self, instance: InstanceId) {
        let this = self.clone();
        tokio::spawn(async move {
            let files = this.files.clone();
            let measured = tokio::task::spawn_blocking(move || files.measure_data(instance));
            match measured.await.map_err(anyhow::Error::from).and_then(|measured| measured) {
                Ok(bytes) => this.tell(Input::DataMeasured(instance, bytes)).await,
                Err(error) => tracing::warn!("cannot measure the data of {instance}: {error:#}"),
            }
        });
    }

    pub(super) fn end_data(&self, kept: KeptData) {
        let (instance, remover) = (kept.instance, self.remover.clone());
        self.in_order("delete the data", instance, move |files| {
            files.end_data(&kept)?;
            remover.look();
            Ok(())
        });
    }

    pub(super) fn forget_data(&self, instance: InstanceId) {
        self.in_order("forget the data", instance, move |files| files.forget_data(instance));
    }

    /// Works on the files of data, one after the other.
    fn in_order(
        &self,
        what: &'static str,
        instance: InstanceId,
        work: impl FnOnce(&super::Files) -> anyhow::Result<()> + Send + 'static,
    ) {
        let this = self.clone();
        tokio::spawn(async move {
            let _turn = this.data_turn.lock().await;
            let files = this.files.clone();
            let done = tokio::task::spawn_blocking(move || work(&files));
            if let Err(error) = done.await.map_err(anyhow::Error::from).and_then(|done| done) {
                tracing::error!("cannot {what} of {instance}: {error:#}");
            }
        });
    }
}
