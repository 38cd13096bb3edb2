//! Certificates that renew themselves in a running process, when a third of their time is left.
//! Connections that are there stay as they are; those that come show the new one.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use anyhow::Context;
use cell::{Cell, Member};
use proto::v1;
use rpc::service::enrolment_client::EnrolmentClient;
use rpc::transport::check_address;
use rpc::{Authority, Credentials, Expect, NewKey, Role, Rotating, Validity};
use tokio::time::{sleep, timeout};
use tonic::transport::Channel;
use tonic::{Request, Response, Status};

use crate::joining;
use crate::moment;

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
pub struct Masters {
    /// As it was told at its start: these are tried last, and never forgotten.
    given: Vec<String>,
    /// As the masters say themselves.
    told: Vec<String>,
}

impl Masters {
    /// Those that it was told at its start.
    pub fn new(given: Vec<String>) -> Self {
        Self { given, told: Vec::new() }
    }

    /// Each of them once.
    pub fn all(&self) -> Vec<String> {
        let given = self.given.iter().filter(|address| !self.told.contains(address));
        self.told.iter().chain(given).cloned().collect()
    }

    /// They say themselves where they are. Whether that is new.
    pub fn told(&mut self, addresses: Vec<String>) -> bool {
        let new = !addresses.is_empty() && self.told != addresses;
        if new {
            self.told = addresses;
        }
        new
    }
}

/// Where the replicas answer, as far as the cell knows.
pub fn addresses(cell: &Cell) -> Vec<String> {
    let there = cell.replicas().filter(|replica| {
        // What no token can hold may have been recorded by an older build.
        let is_known = check_address(&replica.address).is_ok();
        replica.member != Member::Waiting && !replica.leaving && is_known
    });
    there.map(|replica| replica.address.to_string()).collect()
}

/// A process whose certificate the masters renew.
pub struct Renewed {
    credentials: Rotating,
    /// Where its files are, and what they are called.
    directory: PathBuf,
    stem: String,
    /// Where the masters answer that renew it.
    pub masters: Masters,
    /// Whether it joined with a token: then its directory has where the masters answer.
    joined: bool,
    /// When the certificate in its files expires, where that is not the one in use.
    old: Option<SystemTime>,
    /// Whether its directory has other masters than are known.
    has_old_masters: bool,
}

impl Renewed {
    /// With files in a directory, which are called after `stem`.
    pub fn new(
        credentials: &Rotating,
        (directory, stem): (&Path, &str),
        masters: Masters,
        joined: bool,
    ) -> Self {
        let (credentials, stem) = (credentials.clone(), stem.to_owned());
        let directory = directory.to_owned();
        Self { credentials, directory, stem, masters, joined, old: None, has_old_masters: false }
    }

    /// Renews it for ever.
    pub async fn run(mut self) -> std::convert::Infallible {
        loop {
            self.keep().await;
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
        let old = self.credentials.credentials().expires();
        self.credentials.replace(renewed)?;
        tracing::info!("renewed the certificate, which expires on {expires}");
        self.old.get_or_insert(old);
        self.has_old_masters |= self.masters.told(answer.masters) && self.joined;
        Ok(())
    }

    /// Writes what is not in the files yet, again and again, until all of it is there or the
    /// certificate is due again.
    async fn keep(&mut self) {
        while let Err(error) = self.write() {
            let credentials = self.credentials.credentials();
            let needed = self.old.unwrap_or_else(|| credentials.expires());
            let wait = retry_after(needed, SystemTime::now());
            tracing::warn!(
                "{error:#}: a process that starts in {} has what was there before, of which the \
                 certificate expires on {}; it is written again in {} s",
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
            written.context("the renewed certificate is not kept")?;
            self.old = None;
        }
        if self.has_old_masters {
            let written = joining::keep_masters(&self.directory, self.masters.all());
            written.context("where the masters answer now is not kept")?;
            self.has_old_masters = false;
        }
        Ok(())
    }
}

/// Asks one master after the other, for so long each, until one answers, or refuses for all of them.
/// What the last said is a [`Status`] in the error.
pub async fn ask_each<M: Clone, T>(
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
            // Another cell answers there: that says nothing of the other masters.
            Err(status) if rpc::transport::distrusts(&status).is_some() => {
                tracing::warn!("passes {master} over: {}", rpc::transport::explain(&status));
                failed = status.into();
            }
            Err(status) if is_final(&status) => return Err(status.into()),
            Err(status) => failed = status.into(),
        }
    }
    Err(failed)
}

/// What such an error means, in words.
pub fn explained(error: &anyhow::Error) -> String {
    match error.downcast_ref::<Status>() {
        Some(status) => rpc::transport::explain(status),
        None => format!("{error:#}"),
    }
}

/// Renews the certificate of whoever has the authority, for ever.
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
pub fn due(credentials: &Credentials) -> SystemTime {
    let due = credentials.renewal();
    let third = credentials.expires().duration_since(due).unwrap_or_default();
    let part = credentials.serial().last().copied().unwrap_or_default();
    due.checked_add(third / 4 * u32::from(part) / 256).unwrap_or(due)
}

/// A tenth of what is left, within bounds: often enough that one of many is heard in time.
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

    /// A machine that joined, and got another certificate and the address of another master a moment
    /// ago: hardly any time is left until its old one expires.
    fn renewed(directory: &Path) -> Renewed {
        let authority = Authority::create(directory, "cc").expect("an authority");
        let issue = || {
            let identity = Identity::Borglet("m1".to_owned());
            authority.issue(&identity, Validity::lasting(LOOK / 2)).expect("a certificate")
        };
        let old = issue();
        old.write(directory, "borglet").expect("there is room");
        joining::keep_masters(directory, vec!["m1:1".to_owned()]).expect("there is room");
        let credentials = Rotating::new(old.clone()).expect("credentials");
        let masters = Masters::new(vec!["m1:1".to_owned()]);
        let mut renewed = Renewed::new(&credentials, (directory, "borglet"), masters, true);
        credentials.replace(issue()).expect("it is a renewal");
        renewed.old = Some(SystemTime::now());
        renewed.has_old_masters = renewed.masters.told(vec!["m2:1".to_owned()]);
        renewed
    }

    #[tokio::test]
    async fn what_could_not_be_written_is_written_until_it_is_there() {
        // Something else is where the new key is to be, or where the masters are.
        for (obstacle, what, is_kept) in [
            ("borglet.next.key", "the renewed certificate is not kept", false),
            ("joined.toml.tmp", "where the masters answer now is not kept", true),
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
            assert_eq!(joining::masters(place.path()).expect("they are kept"), ["m2:1", "m1:1"]);
            assert!(renewed.old.is_none() && !renewed.has_old_masters);
        }
    }
}
