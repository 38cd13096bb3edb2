//! A connection to a master that calls one after the other use, so that each does not pay for a handshake.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use rpc::{Credentials, Expect, Role, Rotating};
use tokio::time::{Instant, sleep_until};
use tonic::transport::Channel;
use tonic::{Request, Response, Status};

use crate::renewal::Masters;

/// How long a connection is kept without a call: masters have many clients, most of them idle.
const IDLE_MAX: Duration = Duration::from_secs(30);

/// The connection of a process to one of the masters. Clones share it.
#[derive(Clone)]
pub struct MasterConnection(Arc<SharedConnection>);

struct SharedConnection {
    credentials: Rotating,
    masters: Masters,
    kept: Mutex<KeptConnection>,
}

#[derive(Default)]
struct KeptConnection {
    connected: Option<Connected>,
    /// Whether something will close it when it is idle.
    is_watched: bool,
}

/// A connection over which a master has answered.
#[derive(Clone)]
struct Connected {
    master: String,
    channel: Channel,
    /// The certificate that it shows.
    shown: Arc<Credentials>,
    used: Instant,
}

impl MasterConnection {
    /// Connects with the first call.
    pub fn new(credentials: Rotating, masters: Masters) -> Self {
        let kept = Mutex::default();
        Self(Arc::new(SharedConnection { credentials, masters, kept }))
    }

    /// The known masters.
    pub fn masters(&self) -> &Masters {
        &self.0.masters
    }

    /// Calls the master that has answered last, and then the others, each with the timeout, until one answers, or
    /// returns an error that is final for all.
    ///
    /// # Errors
    /// If none has answered. The error contains the last [`Status`].
    pub async fn ask<M: Clone, T>(
        &self,
        message: &M,
        time: Duration,
        call: impl AsyncFn(Channel, Request<M>) -> Result<Response<T>, Status>,
        is_final: impl Fn(&Status) -> bool,
    ) -> anyhow::Result<T> {
        let mut masters = self.0.masters.all();
        let kept = self.0.usable(&masters);
        if let Some(kept) = &kept {
            let at = masters.iter().position(|master| *master == kept.master).unwrap_or_default();
            masters.swap(0, at);
        }
        let mut failed = anyhow::anyhow!("no master is known");
        for master in masters {
            let connected = match kept.as_ref().filter(|kept| kept.master == master) {
                Some(kept) => kept.clone(),
                None => self.0.connect(master)?,
            };
            let mut request = Request::new(message.clone());
            request.set_timeout(time);
            match call(connected.channel.clone(), request).await {
                Ok(answer) => {
                    self.keep(connected);
                    return Ok(answer.into_inner());
                }
                // The address belongs to another cell: the other masters may still answer.
                Err(status) if rpc::transport::distrusts(&status).is_some() => {
                    let why = rpc::transport::explain(&status);
                    tracing::warn!("skipping {}: {why}", connected.master);
                    self.0.drop_kept(&connected.master);
                    failed = status.into();
                }
                Err(status) if is_final(&status) => return Err(status.into()),
                Err(status) => {
                    self.0.drop_kept(&connected.master);
                    failed = status.into();
                }
            }
        }
        Err(failed)
    }

    fn keep(&self, connected: Connected) {
        let mut kept = self.0.lock();
        kept.connected = Some(Connected { used: Instant::now(), ..connected });
        if !std::mem::replace(&mut kept.is_watched, true) {
            tokio::spawn(close_idle(Arc::downgrade(&self.0)));
        }
    }
}

impl SharedConnection {
    /// The kept connection, if it is one to a known master with the present certificate.
    fn usable(&self, masters: &[String]) -> Option<Connected> {
        let mut kept = self.lock();
        let present = self.credentials.credentials();
        kept.connected = kept.connected.take().filter(|connected| {
            masters.contains(&connected.master) && Arc::ptr_eq(&connected.shown, &present)
        });
        kept.connected.clone()
    }

    fn connect(&self, master: String) -> anyhow::Result<Connected> {
        let shown = self.credentials.credentials();
        let expect = Expect::Role(Role::Master);
        let channel = rpc::transport::connect(&master, &self.credentials, &expect)?;
        Ok(Connected { master, channel, shown, used: Instant::now() })
    }

    fn drop_kept(&self, master: &str) {
        let mut kept = self.lock();
        kept.connected = kept.connected.take().filter(|connected| connected.master != master);
    }

    /// Closes the connection if it is idle. Returns until when it is not; `None`: there is none.
    fn close_if_idle(&self) -> Option<Instant> {
        let mut kept = self.lock();
        let until = kept.connected.as_ref().map(|connected| connected.used + IDLE_MAX);
        let until = until.filter(|until| *until > Instant::now());
        if until.is_none() {
            *kept = KeptConnection::default();
        }
        until
    }

    fn lock(&self) -> MutexGuard<'_, KeptConnection> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Closes the connection once it is idle.
async fn close_idle(shared: Weak<SharedConnection>) {
    while let Some(until) = shared.upgrade().and_then(|shared| shared.close_if_idle()) {
        sleep_until(until).await;
    }
}

#[cfg(test)]
mod tests {
    use rpc::{Authority, Identity, Validity};

    use super::*;

    const TIMEOUT: Duration = Duration::from_secs(1);

    fn issued(authority: &Authority) -> Credentials {
        let validity = Validity::lasting(Duration::from_secs(3_600));
        authority.issue(&Identity::Borglet("m1".to_owned()), validity).expect("a certificate")
    }

    /// Asks while the first masters that are called do not answer. Returns how many were called.
    async fn asked(connection: &MasterConnection, silent: usize) -> usize {
        let calls = std::sync::atomic::AtomicUsize::new(0);
        let call = async |_: Channel, request: Request<u32>| {
            let call = calls.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            match call < silent {
                true => Err(Status::unavailable("it is dead")),
                false => Ok(Response::new(request.into_inner() + 1)),
            }
        };
        let answer = connection.ask(&7, TIMEOUT, call, |_| false).await;
        assert_eq!(answer.expect("one answers"), 8);
        calls.into_inner()
    }

    fn kept(connection: &MasterConnection) -> Option<String> {
        connection.0.lock().connected.as_ref().map(|connected| connected.master.clone())
    }

    #[tokio::test]
    async fn the_master_that_has_answered_is_asked_again_until_it_does_not() {
        let place = tempfile::tempdir().expect("a temporary directory");
        let authority = Authority::create(place.path(), "cc").expect("an authority");
        let credentials = Rotating::new(issued(&authority)).expect("credentials");
        let masters = ["m0:1", "m1:1", "m2:1"].map(ToOwned::to_owned);
        let connection = MasterConnection::new(credentials.clone(), Masters::new(masters.to_vec()));
        let is = |master: &str| assert_eq!(kept(&connection).as_deref(), Some(master));

        assert_eq!(asked(&connection, 1).await, 2);
        is("m1:1");
        assert_eq!(asked(&connection, 0).await, 1);
        is("m1:1");
        assert_eq!(asked(&connection, 2).await, 3, "the other two are asked after it");
        is("m2:1");

        credentials.replace(issued(&authority)).expect("it is renewed");
        assert_eq!(asked(&connection, 0).await, 1);
        is("m0:1");

        connection.0.lock().connected.as_mut().expect("it is kept").used -= IDLE_MAX;
        assert_eq!(connection.0.close_if_idle(), None);
        assert_eq!(kept(&connection), None);
    }
}
