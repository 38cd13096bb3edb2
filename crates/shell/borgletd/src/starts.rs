//! Starts that are under way, from the Borglet's decision until a shim holds the task's directory.
//!
//! A task without a shim can get no signal. If it is stopped meanwhile, it is not started as long as
//! that can be prevented; later its signal waits for the shim.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use model::InstanceId;
use tokio::sync::watch;

/// The starts of a Borglet that are under way. Clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Starts(Arc<Mutex<BTreeMap<InstanceId, StartStage>>>);

/// How far a start has got.
#[derive(Debug)]
enum StartStage {
    /// It can still be prevented.
    Preparing(watch::Sender<bool>),
    /// A shim is being started.
    Committed,
}

/// One start; it is over when this is dropped.
#[derive(Debug)]
pub(crate) struct UnderWay {
    starts: Starts,
    instance: InstanceId,
    stopped: watch::Receiver<bool>,
}

/// The instance is to be stopped, so it is not started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stopped;

impl std::fmt::Display for Stopped {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("it was stopped before it started")
    }
}

impl std::error::Error for Stopped {}

impl Starts {
    /// Begins a start.
    pub(crate) fn begin(&self, instance: InstanceId) -> UnderWay {
        let (stop, stopped) = watch::channel(false);
        self.all().insert(instance, StartStage::Preparing(stop));
        UnderWay { starts: self.clone(), instance, stopped }
    }

    /// Prevents a start that is under way. Returns whether the instance will not run.
    pub(crate) fn prevent(&self, instance: InstanceId) -> bool {
        match self.all().get(&instance) {
            Some(StartStage::Preparing(stop)) => {
                stop.send_replace(true);
                true
            }
            Some(StartStage::Committed) | None => false,
        }
    }

    /// Whether an instance has no shim yet, but may get one.
    pub(crate) fn has(&self, instance: InstanceId) -> bool {
        self.all().contains_key(&instance)
    }

    fn all(&self) -> MutexGuard<'_, BTreeMap<InstanceId, StartStage>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl UnderWay {
    /// Does a part of the start that takes long, until it is prevented.
    pub(crate) async fn unless_stopped<T>(
        &mut self,
        part: impl Future<Output = T>,
    ) -> Result<T, Stopped> {
        tokio::select! {
            biased;
            // The sender exists until the start is over.
            _ = self.stopped.wait_for(|stopped| *stopped) => Err(Stopped),
            done = part => Ok(done),
        }
    }

    /// From here on the instance gets signals, and the start is not prevented any more.
    pub(crate) fn commit(&self) -> Result<(), Stopped> {
        let mut all = self.starts.all();
        if *self.stopped.borrow() {
            return Err(Stopped);
        }
        all.insert(self.instance, StartStage::Committed);
        Ok(())
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.starts.all().remove(&self.instance);
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use super::*;

    fn instance() -> InstanceId {
        "1-0-1".parse().expect("an instance")
    }

    #[tokio::test]
    async fn a_start_is_prevented_until_it_is_committed() {
        let starts = Starts::default();
        assert!(!starts.prevent(instance()) && !starts.has(instance()));

        let mut start = starts.begin(instance());
        assert_eq!(start.unless_stopped(ready(7)).await, Ok(7));
        assert!(starts.prevent(instance()));
        assert_eq!(start.unless_stopped(pending::<()>()).await, Err(Stopped));
        assert_eq!(start.unless_stopped(ready(7)).await, Err(Stopped), "it does not go on");
        assert_eq!(start.commit(), Err(Stopped));
        drop(start);
        assert!(!starts.has(instance()));

        let start = starts.begin(instance());
        assert_eq!(start.commit(), Ok(()));
        assert!(!starts.prevent(instance()), "its signal waits for the shim");
        assert!(starts.has(instance()));
        drop(start);
        assert!(!starts.has(instance()));
    }

    #[tokio::test]
    async fn a_stop_wakes_what_waits() {
        let starts = Starts::default();
        let mut start = starts.begin(instance());
        let waits = tokio::spawn(async move { start.unless_stopped(pending::<()>()).await });
        tokio::task::yield_now().await;
        assert!(starts.prevent(instance()));
        assert_eq!(waits.await.expect("it ends"), Err(Stopped));
    }
}
