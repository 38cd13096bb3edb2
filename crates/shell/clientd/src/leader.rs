//! Leadership: of several clients with one task, the holder of a lock does it, and the others wait.

use std::time::Duration;

use client::{Connection, Target};
use command::{Done, Failure, output};
use model::FilePath;

use super::RETRY;
use super::held::{Held, Lost};

/// What a client does while it holds a lock.
#[derive(Clone, Debug)]
pub struct Role {
    /// What it is, such as `autoscaler`.
    pub name: &'static str,
    /// What it does while it holds the lock, such as `sets limits`.
    pub acts: &'static str,
    /// What follows if it cannot, such as `limits stay as they are`.
    pub rests: &'static str,
    /// The lock.
    pub lock: FilePath,
    /// How long others wait for the lock after this process or its machine is dead: 5 s to 60 s.
    pub lease: Duration,
}

/// Why a client acts no more.
enum End {
    /// It was told to stop.
    Stopped,
    /// It no longer has its lock session.
    Lost(String),
}

impl Role {
    /// Waits for the lock and acts while it is held, again and again until `stop`. `act` gets a connection and
    /// the lock's sequencer, and returns only with a failure.
    ///
    /// # Errors
    /// The failure before it has held the lock for the first time. After that it tries again.
    pub async fn lead(
        &self,
        cell: Target<'_>,
        stop: &mut (impl Future<Output = ()> + Unpin),
        mut act: impl AsyncFnMut(Connection, String) -> Failure,
    ) -> Done {
        let lock = &self.lock;
        let mut acted = false;
        loop {
            match Box::pin(self.stand_by_and_act(cell, stop, &mut act, &mut acted)).await {
                Ok(End::Stopped) => return Ok(()),
                Ok(End::Lost(why)) => output::say(&format!("the lock {lock} is lost: {why}\n")),
                Err(failure) if acted => {
                    output::say(&format!("{}: {failure}\n", self.rests));
                }
                Err(failure) => return Err(failure),
            }
            tokio::select! {
                () = tokio::time::sleep(RETRY) => {}
                () = &mut *stop => return Ok(()),
            }
        }
    }

    async fn stand_by_and_act(
        &self,
        cell: Target<'_>,
        stop: &mut (impl Future<Output = ()> + Unpin),
        act: &mut impl AsyncFnMut(Connection, String) -> Failure,
        acted: &mut bool,
    ) -> Result<End, Failure> {
        let (lock, acts) = (&self.lock, self.acts);
        // Another connection has the newest certificate, if that is renewed.
        let connection = Connection::open(cell)?;
        let mut held = Held::open(connection.clone(), self.lease).await?;
        let acquired = tokio::select! {
            acquired = self.acquire(&mut held) => acquired,
            () = &mut *stop => Ok(Err(End::Stopped)),
        };
        let ended = match acquired {
            Ok(Ok(sequencer)) => {
                *acted = true;
                output::print(&format!("holds {lock} and {acts}\n"))?;
                Box::pin(hold_while(&mut held, act(connection, sequencer), stop)).await
            }
            Ok(Err(end)) => Ok(end),
            Err(failure) => Err(failure),
        };
        if !matches!(ended, Ok(End::Lost(_))) {
            held.close().await;
        }
        ended
    }

    /// Waits for the lock.
    async fn acquire(&self, held: &mut Held) -> Result<Result<String, End>, Failure> {
        let (lock, name) = (&self.lock, self.name);
        let mut said = false;
        loop {
            if let Some(sequencer) = held.acquire(lock.as_str(), false).await? {
                return Ok(Ok(sequencer));
            }
            if !said {
                output::say(&format!("another {name} holds {lock}; this one waits for it\n"));
                said = true;
            }
            if let Err(Lost(why)) = held.wait_until_free(lock.as_str(), false).await? {
                return Ok(Err(End::Lost(why)));
            }
        }
    }
}

/// Renews the lease until the work fails, the session is lost, or the process is to stop.
async fn hold_while(
    held: &mut Held,
    work: impl Future<Output = Failure>,
    stop: &mut (impl Future<Output = ()> + Unpin),
) -> Result<End, Failure> {
    let mut work = std::pin::pin!(work);
    loop {
        let due = held.due();
        tokio::select! {
            biased;
            () = &mut *stop => return Ok(End::Stopped),
            () = tokio::time::sleep_until(due) => {
                if let Err(Lost(why)) = held.renew().await {
                    return Ok(End::Lost(why));
                }
            }
            failure = &mut work => return Err(failure),
        }
    }
}
