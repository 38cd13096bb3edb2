//! Whether masters poll this machine. A machine that was removed from its cell is told nothing: nobody
//! polls it any more.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::watch;

/// After so long without a poll the machine says so: longer than any master lets pass between two.
pub(super) const UNPOLLED: Duration = Duration::from_secs(120);
/// What is said.
const WHY: &str = "no master polls this machine: it was removed from the cell (bourg machine token has it join \
     again), or no master is up or reaches it; its tasks keep running";

/// Whether nobody polls this machine.
#[derive(Clone, Debug, Default)]
pub(super) struct Unpolled(Arc<AtomicBool>);

impl Unpolled {
    /// The reason why the machine is not ready, if nobody polls it.
    pub(super) fn check(&self) -> Result<(), String> {
        if self.0.load(Ordering::Relaxed) { Err(WHY.to_owned()) } else { Ok(()) }
    }

    /// Follows the number of polls, and logs when there are none for so long and when they are back.
    pub(super) async fn follow(
        self,
        mut polls: watch::Receiver<u64>,
        patience: Duration,
    ) -> Infallible {
        loop {
            match tokio::time::timeout(patience, polls.changed()).await {
                Ok(Ok(())) => {
                    if self.0.swap(false, Ordering::Relaxed) {
                        tracing::info!("a master polls this machine again");
                    }
                }
                // The service has ended, and the process is about to.
                Ok(Err(_)) => return std::future::pending().await,
                Err(_) => {
                    if !self.0.swap(true, Ordering::Relaxed) {
                        tracing::error!("{WHY}");
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_machine_that_nobody_polls_is_not_ready_until_it_is_polled_again() {
        let (polls, followed) = watch::channel(0_u64);
        let unpolled = Unpolled::default();
        assert_eq!(unpolled.check(), Ok(()), "it has just started");
        let following = tokio::spawn(unpolled.clone().follow(followed, Duration::from_millis(1)));
        while unpolled.check().is_ok() {
            tokio::task::yield_now().await;
        }
        let why = unpolled.check().expect_err("nobody has polled it");
        assert!(why.starts_with("no master polls this machine"), "{why}");
        while unpolled.check().is_err() {
            polls.send_modify(|polls| *polls += 1);
            tokio::task::yield_now().await;
        }
        following.abort();
    }
}
