//! Renews certificates in a running process when a third of their validity is left. Existing
//! connections are not affected; new ones use the new certificate.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use anyhow::Context;
use api::v1;
use rpc::service::enrolment_client::EnrolmentClient;
use rpc::transport::check_address;
use rpc::{Authority, Credentials, Expect, NewKey, Role, Rotating, Validity};
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};
use tonic::transport::Channel;
use tonic::{Request, Response, Status};

use crate::joining;
use crate::moment;

/// How often to check whether a certificate is due: the wall clock, which determines expiry, may be
/// set.
const CHECK_INTERVAL: Duration = Duration::from_secs(60);
/// The delay after a failure, at least and at most.
const RETRY_MIN: Duration = Duration::from_secs(1);
const RETRY_MAX: Duration = Duration::from_secs(600);
/// The timeout of a call to one master.
const TIMEOUT: Duration = Duration::from_secs(15);

/// The most addresses of masters that are kept.
const MASTERS_MAX: usize = 32;

/// The known addresses of the masters. Clones share them.
#[derive(Clone, Debug)]
pub struct Masters(Arc<MastersState>);

#[derive(Debug)]
struct MastersState {
    known: Mutex<KnownAddresses>,
    changed: Notify,
}

#[derive(Debug)]
struct KnownAddresses {
    /// From the flags at startup: tried last, and never dropped.
    given: Vec<String>,
    /// As reported by the masters.
    told: Vec<String>,
}

impl Masters {
    /// Starts with the addresses from the flags.
    pub fn new(given: Vec<String>) -> Self {
        let known = Mutex::new(KnownAddresses { given, told: Vec::new() });
        Self(Arc::new(MastersState { known, changed: Notify::new() }))
    }

    /// All addresses, without duplicates.
    pub fn all(&self) -> Vec<String> {
        let known = self.known();
        let given = known.given.iter().filter(|address| !known.told.contains(address));
        known.told.iter().chain(given).cloned().collect()
    }

    /// Replaces the reported addresses. Returns whether they changed.
    pub fn told(&self, mut addresses: Vec<String>) -> bool {
        addresses.truncate(MASTERS_MAX);
        let mut known = self.known();
        let new = !addresses.is_empty() && known.told != addresses;
        if new {
            tracing::info!("the masters are at {}", addresses.join(", "));
            known.told = addresses;
            self.0.changed.notify_one();
        }
        new
    }

    /// The addresses that the masters reported last; empty before they have.
    fn last_told(&self) -> Vec<String> {
        self.known().told.clone()
    }

    /// Waits until other addresses are reported. For one waiter.
    async fn changed(&self) {
        self.0.changed.notified().await;
    }

    fn known(&self) -> MutexGuard<'_, KnownAddresses> {
        self.0.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Those of the recorded addresses of replicas that a process can connect to. An older build may have
/// recorded an address that does not fit into a token.
pub fn addresses<'a>(recorded: impl Iterator<Item = &'a str>) -> Vec<String> {
    recorded.filter(|address| check_address(address).is_ok()).map(str::to_owned).collect()
}

/// A process whose certificate the masters renew.
pub struct Renewed {
    credentials: Rotating,
    /// The directory and the stem of its certificate files.
    directory: PathBuf,
    stem: String,
    /// The masters that renew it. Its directory records the addresses that they report.
    pub masters: Masters,
    /// When the certificate on disk expires, if it is not the one in use.
    old: Option<SystemTime>,
    /// The reported addresses that its directory records.
    recorded: Vec<String>,
}

impl Renewed {
    /// Renews the certificate in `directory` whose file names begin with `stem`.
    pub fn new(credentials: &Rotating, directory: &Path, stem: &str, masters: Masters) -> Self {
        let (credentials, stem) = (credentials.clone(), stem.to_owned());
        let directory = directory.to_owned();
        Self { credentials, directory, stem, masters, old: None, recorded: Vec::new() }
    }

    /// Renews the certificate, and records where the masters are, forever.
    pub async fn run(mut self) -> std::convert::Infallible {
        loop {
            self.keep().await;
            let credentials = self.credentials.credentials();
            tokio::select! {
                () = is_due(&credentials) => {}
                () = self.masters.changed() => continue,
            }
            if self.masters.all().is_empty() {
                tracing::warn!(
                    "the certificate expires on {} and no master is known that could renew it: \
                     pass --master",
                    shown(credentials.expires())
                );
                self.masters.changed().await;
            }
            if let Err(error) = self.renew().await {
                let expires = credentials.expires();
                let wait = retry_after(expires, SystemTime::now());
                let (expires, s) = (shown(expires), wait.as_secs());
                tracing::warn!(
                    "cannot renew the certificate, which expires on {expires}; retrying \
                     in {s} s: {error:#}"
                );
                sleep(wait).await;
            }
        }
    }

    async fn renew(&mut self) -> anyhow::Result<()> {
        let key = NewKey::generate()?;
        let request = v1::RenewRequest { signing_request: key.request_pem()? };
        let renew = async |channel, request| EnrolmentClient::new(channel).renew(request).await;
        let masters = self.masters.all();
        // A lagging replica may not know a certificate that the next one does.
        let answer = ask_each(&masters, &self.credentials, &request, TIMEOUT, renew, |_| false);
        let answer = answer.await.map_err(|error| anyhow::anyhow!(explained(&error)))?;
        let ca = self.credentials.credentials().ca_pem().to_owned();
        let renewed = key.credentials(answer.certificate, ca)?;
        let expires = shown(renewed.expires());
        // Use it before writing it: if writing fails, it still serves this process.
        let old = self.credentials.credentials().expires();
        self.credentials.replace(renewed)?;
        tracing::info!("renewed the certificate, which expires on {expires}");
        self.old.get_or_insert(old);
        self.masters.told(answer.masters);
        Ok(())
    }

    /// Writes the unsaved state to disk, with retries, until that succeeds or the certificate is
    /// due again.
    async fn keep(&mut self) {
        while let Err(error) = self.write() {
            let credentials = self.credentials.credentials();
            let needed = self.old.unwrap_or_else(|| credentials.expires());
            let wait = retry_after(needed, SystemTime::now());
            tracing::warn!(
                "{error:#}: a process started in {} would use the previous state, whose \
                 certificate expires on {}; retrying in {} s",
                self.directory.display(),
                shown(needed),
                wait.as_secs()
            );
            if timeout(wait, is_due(&credentials)).await.is_ok() {
                return;
            }
        }
    }

    fn write(&mut self) -> anyhow::Result<()> {
        if self.old.is_some() {
            let written = self.credentials.credentials().write(&self.directory, &self.stem);
            written.context("cannot store the renewed certificate")?;
            self.old = None;
        }
        let told = self.masters.last_told();
        if self.recorded != told {
            let written = joining::keep_masters(&self.directory, told.clone());
            written.context("cannot store the addresses of the masters")?;
            self.recorded = told;
        }
        Ok(())
    }
}

/// Calls one master after another, each with the timeout, until one answers, or returns an error
/// that is final for all. The error contains the last [`Status`].
pub async fn ask_each<M: Clone, T>(
    masters: &[String],
    credentials: &Rotating,
    message: &M,
    time: Duration,
    call: impl AsyncFn(Channel, Request<M>) -> Result<Response<T>, Status>,
    is_final: impl Fn(&Status) -> bool,
) -> anyhow::Result<T> {
    let mut failed = anyhow::anyhow!("no master is known");
    for master in masters {
        let channel = rpc::transport::connect(master, credentials, &Expect::Role(Role::Master))?;
        let mut request = Request::new(message.clone());
        request.set_timeout(time);
        match call(channel, request).await {
            Ok(answer) => return Ok(answer.into_inner()),
            // The address belongs to another cell: the other masters may still answer.
            Err(status) if rpc::transport::distrusts(&status).is_some() => {
                tracing::warn!("skipping {master}: {}", rpc::transport::explain(&status));
                failed = status.into();
            }
            Err(status) if is_final(&status) => return Err(status.into()),
            Err(status) => failed = status.into(),
        }
    }
    Err(failed)
}

/// Formats an error of [`ask_each`].
pub fn explained(error: &anyhow::Error) -> String {
    match error.downcast_ref::<Status>() {
        Some(status) => rpc::transport::explain(status),
        None => format!("{error:#}"),
    }
}

/// Renews the certificate of a process that has the authority, forever.
pub async fn of_authority<T>(
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
                tracing::info!("renewed its own certificate, which expires on {expires}");
            }
            Err(error) => {
                tracing::error!("cannot renew its own certificate: {error}");
                sleep(CHECK_INTERVAL).await;
            }
        }
    }
}

async fn is_due(credentials: &Credentials) {
    let due = due(credentials);
    while let Ok(left) = due.duration_since(SystemTime::now()) {
        sleep(left.min(CHECK_INTERVAL)).await;
    }
}

/// When to renew a certificate: at a random moment in the first quarter of its last third, so that
/// machines that joined together do not renew together.
pub fn due(credentials: &Credentials) -> SystemTime {
    let due = credentials.renewal();
    let third = credentials.expires().duration_since(due).unwrap_or_default();
    let part = credentials.serial().last().copied().unwrap_or_default();
    due.checked_add(third / 4 * u32::from(part) / 256).unwrap_or(due)
}

/// A tenth of the remaining time, within bounds: frequent enough that one attempt succeeds in time.
pub fn retry_after(expires: SystemTime, now: SystemTime) -> Duration {
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
    use rpc::Identity;

    use super::*;

    #[test]
    fn masters_that_were_given_are_tried_last_and_not_forgotten() {
        let text = |all: &[&str]| all.iter().map(ToString::to_string).collect::<Vec<_>>();
        let masters = Masters::new(text(&["m1:1", "m9:1"]));
        assert!(!masters.told(Vec::new()));
        assert!(masters.told(text(&["m2:1", "m1:1"])));
        assert!(!masters.told(text(&["m2:1", "m1:1"])));
        assert_eq!(masters.all(), text(&["m2:1", "m1:1", "m9:1"]));
    }

    #[test]
    fn renewal_is_retried_more_often_as_expiry_approaches() {
        let now = SystemTime::now();
        for (left, wait) in [(0, 1), (5, 1), (100, 10), (6_000, 600), (1_000_000, 600)] {
            let waits = retry_after(now + Duration::from_secs(left), now);
            assert_eq!(waits.as_secs(), wait, "{left} s are left");
        }
        assert_eq!(retry_after(now - CHECK_INTERVAL, now), RETRY_MIN);
    }

    /// A machine that joined and has just got a new certificate and another master's address, with
    /// little time left until the old certificate expires.
    fn renewed(directory: &Path) -> Renewed {
        let authority = Authority::create(directory, "cc").expect("an authority");
        let issue = || {
            let identity = Identity::Borglet("m1".to_owned());
            authority
                .issue(&identity, Validity::lasting(CHECK_INTERVAL / 2))
                .expect("a certificate")
        };
        let old = issue();
        old.write(directory, "borglet").expect("there is room");
        joining::keep_masters(directory, vec!["m1:1".to_owned()]).expect("there is room");
        let credentials = Rotating::new(old.clone()).expect("credentials");
        let masters = Masters::new(vec!["m1:1".to_owned()]);
        let mut renewed = Renewed::new(&credentials, directory, "borglet", masters);
        credentials.replace(issue()).expect("it is a renewal");
        renewed.old = Some(SystemTime::now());
        assert!(renewed.masters.told(vec!["m2:1".to_owned()]));
        renewed
    }

    #[tokio::test]
    async fn a_failed_write_of_renewed_credentials_is_retried_until_it_succeeds() {
        // Something blocks the path of the new key, or of the masters.
        for (obstacle, what, is_kept) in [
            ("borglet.next.key", "cannot store the renewed certificate", false),
            ("joined.toml.tmp", "cannot store the addresses of the masters", true),
        ] {
            let place = tempfile::tempdir().expect("a directory");
            let mut renewed = renewed(place.path());
            let serial = renewed.credentials.credentials().serial().to_vec();
            let kept = || Credentials::read(place.path(), "borglet").expect("a certificate");
            let obstacle = place.path().join(obstacle);
            std::fs::create_dir(&obstacle).expect("there is room");
            let error = format!("{:#}", renewed.write().expect_err("it is in the way"));
            assert!(error.starts_with(what), "{error}");
            assert!(error.contains(&*place.path().to_string_lossy()), "{error}");
            {
                let mut keep = std::pin::pin!(renewed.keep());
                assert!(timeout(Duration::ZERO, &mut keep).await.is_err(), "it is given up");
                assert_eq!(kept().serial() == serial, is_kept);
                std::fs::remove_dir(&obstacle).expect("it is empty");
                keep.await;
            }
            assert_eq!(kept().serial(), serial);
            assert_eq!(joining::masters(place.path()).expect("they are kept"), ["m2:1"]);
            assert!(renewed.old.is_none() && renewed.recorded == ["m2:1"]);
        }
    }
}
