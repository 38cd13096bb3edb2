//! Certificates that renew themselves in a running process, when a third of their time is left.
//! Connections that are there stay as they are; those that come show the new one.

use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use anyhow::Context;
use proto::v1;
use rpc::service::enrolment_client::EnrolmentClient;
use rpc::{Authority, Credentials, Expect, NewKey, Role, Rotating, Validity};
use tokio::time::sleep;
use tonic::transport::Channel;
use tonic::{Request, Response, Status};

use crate::cli::moment;
use crate::joining;

/// How often it is looked whether a certificate is due: the wall clock, by which it expires, may be
/// set.
const LOOK: Duration = Duration::from_secs(60);
/// How long to wait after a failure, at least and at most.
const RETRY_MIN: Duration = Duration::from_secs(1);
const RETRY_MAX: Duration = Duration::from_secs(600);
/// How long a master may take.
const TIMEOUT: Duration = Duration::from_secs(15);

/// Where the masters answer, as far as a process knows.
#[derive(Debug)]
pub(crate) struct Masters {
    /// As it was told at its start: these are tried last, and never forgotten.
    given: Vec<String>,
    /// As the masters say themselves.
    told: Vec<String>,
}

impl Masters {
    pub(crate) fn new(given: Vec<String>) -> Self {
        Self { given, told: Vec::new() }
    }

    /// Each of them once.
    pub(crate) fn all(&self) -> Vec<String> {
        let given = self.given.iter().filter(|address| !self.told.contains(address));
        self.told.iter().chain(given).cloned().collect()
    }

    /// They say themselves where they are. Whether that is new.
    pub(crate) fn told(&mut self, addresses: Vec<String>) -> bool {
        let new = !addresses.is_empty() && self.told != addresses;
        if new {
            self.told = addresses;
        }
        new
    }
}

/// A process whose certificate the masters renew.
pub(crate) struct Renewed {
    pub(crate) credentials: Rotating,
    /// Where its files are, and what they are called.
    pub(crate) directory: PathBuf,
    pub(crate) stem: String,
    pub(crate) masters: Masters,
    /// Whether it joined with a token: then its directory has where the masters answer.
    pub(crate) joined: bool,
}

impl Renewed {
    /// Renews it for ever.
    pub(crate) async fn run(mut self) -> std::convert::Infallible {
        loop {
            let credentials = self.credentials.credentials();
            is_due(&credentials).await;
            if self.masters.all().is_empty() {
                tracing::warn!(
                    "the certificate expires on {} and is not renewed: no --master is given",
                    shown(credentials.expires())
                );
                std::future::pending::<()>().await;
            }
            if let Err(error) = self.renew().await {
                let expires = credentials.expires();
                let wait = retry_after(expires, SystemTime::now());
                let (expires, s) = (shown(expires), wait.as_secs());
                tracing::warn!(
                    "the certificate expires on {expires} and could not be renewed, which is tried \
                     again in {s} s: {error:#}"
                );
                sleep(wait).await;
            }
        }
    }

    async fn renew(&mut self) -> anyhow::Result<()> {
        let key = NewKey::generate()?;
        let request = v1::RenewRequest { signing_request: key.request_pem()? };
        let renew =
            async |mut client: EnrolmentClient<Channel>, request| client.renew(request).await;
        let masters = self.masters.all();
        // One that lags may not know a certificate that the next one does.
        let answer = ask_each(&masters, &self.credentials, &request, TIMEOUT, renew, |_| false);
        let answer = answer.await.map_err(|error| anyhow::anyhow!(explained(&error)))?;
        let ca = self.credentials.credentials().ca_pem().to_owned();
        let renewed = key.credentials(answer.certificate, ca)?;
        let expires = shown(renewed.expires());
        // Shown before it is kept: what cannot be written is good for this process's life.
        self.credentials.replace(renewed.clone())?;
        tracing::info!("renewed the certificate, which expires on {expires}");
        renewed.write(&self.directory, &self.stem).context("it is not kept")?;
        if self.masters.told(answer.masters) && self.joined {
            joining::keep_masters(&self.directory, self.masters.all())?;
        }
        Ok(())
    }
}

/// Asks one master after the other, for so long each, until one answers, or refuses for all of them.
/// What the last said is a [`Status`] in the error.
pub(crate) async fn ask_each<M: Clone, T>(
    masters: &[String],
    credentials: &Rotating,
    message: &M,
    time: Duration,
    call: impl AsyncFn(EnrolmentClient<Channel>, Request<M>) -> Result<Response<T>, Status>,
    is_final: impl Fn(&Status) -> bool,
) -> anyhow::Result<T> {
    let mut failed = anyhow::anyhow!("no master is known");
    for master in masters {
        let channel = rpc::transport::connect(master, credentials, &Expect::Role(Role::Master))?;
        let mut request = Request::new(message.clone());
        request.set_timeout(time);
        match call(EnrolmentClient::new(channel), request).await {
            Ok(answer) => return Ok(answer.into_inner()),
            Err(status) if is_final(&status) => return Err(status.into()),
            Err(status) => failed = status.into(),
        }
    }
    Err(failed)
}

/// What such an error means, in words.
pub(crate) fn explained(error: &anyhow::Error) -> String {
    match error.downcast_ref::<Status>() {
        Some(status) => rpc::transport::explain(status),
        None => format!("{error:#}"),
    }
}

/// Renews the certificate of whoever has the authority, for ever.
pub(crate) async fn of_authority<T>(
    credentials: &Rotating,
    authority: &Authority,
    validity: Duration,
) -> T {
    loop {
        let identity = {
            let credentials = credentials.credentials();
            is_due(&credentials).await;
            credentials.identity().clone()
        };
        let renewed = authority.issue(&identity, Validity::lasting(validity));
        match renewed.and_then(|renewed| credentials.replace(renewed)) {
            Ok(()) => {
                let expires = shown(credentials.credentials().expires());
                tracing::info!("renewed the own certificate, which expires on {expires}");
            }
            Err(error) => {
                tracing::error!("the own certificate could not be renewed: {error}");
                sleep(LOOK).await;
            }
        }
    }
}

async fn is_due(credentials: &Credentials) {
    let due = due(credentials);
    while let Ok(left) = due.duration_since(SystemTime::now()) {
        sleep(left.min(LOOK)).await;
    }
}

/// When a certificate is renewed: within the first quarter of its last third, each at another moment.
/// Machines that joined together do not all come back together.
pub(crate) fn due(credentials: &Credentials) -> SystemTime {
    let due = credentials.renewal();
    let third = credentials.expires().duration_since(due).unwrap_or_default();
    let part = credentials.serial().last().copied().unwrap_or_default();
    due.checked_add(third / 4 * u32::from(part) / 256).unwrap_or(due)
}

/// A tenth of what is left, within bounds: often enough that one of many is heard in time.
pub(crate) fn retry_after(expires: SystemTime, now: SystemTime) -> Duration {
    let left = expires.duration_since(now).unwrap_or_default();
    (left / 10).clamp(RETRY_MIN, RETRY_MAX)
}

fn shown(moment: SystemTime) -> String {
    let since = moment.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let since = u64::try_from(since.as_micros()).unwrap_or(u64::MAX);
    moment::shown(model::Time(since))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masters_that_were_given_are_tried_last_and_not_forgotten() {
        let text = |all: &[&str]| all.iter().map(ToString::to_string).collect::<Vec<_>>();
        let mut masters = Masters::new(text(&["m1:1", "m9:1"]));
        assert!(!masters.told(Vec::new()));
        assert!(masters.told(text(&["m2:1", "m1:1"])));
        assert!(!masters.told(text(&["m2:1", "m1:1"])));
        assert_eq!(masters.all(), text(&["m2:1", "m1:1", "m9:1"]));
    }

    #[test]
    fn it_is_tried_again_the_more_often_the_less_time_is_left() {
        let now = SystemTime::now();
        for (left, wait) in [(0, 1), (5, 1), (100, 10), (6_000, 600), (1_000_000, 600)] {
            let waits = retry_after(now + Duration::from_secs(left), now);
            assert_eq!(waits.as_secs(), wait, "{left} s are left");
        }
        assert_eq!(retry_after(now - LOOK, now), RETRY_MIN);
    }
}
