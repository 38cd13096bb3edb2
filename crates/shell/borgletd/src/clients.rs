//! Client directories of tasks that call the cell's API: the cell's addresses, and a key and
//! certificate of the task's own, in the same form as every client's (design, section 7).
//!
//! They are on a memory file system, one for each instance, and read-only in the task's jail. The
//! key stays the same as long as the task runs. Only the certificate is renewed; it is a single
//! file, so that concurrent readers see either the old or the new one.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, Permissions};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use anyhow::{Context as _, bail, ensure};
use api::v1;
use borglet::CLIENT_DIRECTORY;
use client::{CELL_FILE, CellFile, USER_STEM};
use linux::Isolation;
use linux::record::Bind;
use model::InstanceId;
use process::master_connection::MasterConnection;
use process::renewal::{self, explained};
use rpc::service::enrolment_client::EnrolmentClient;
use rpc::{Credentials, NewKey, Rotating};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, timeout_at};
use tonic::{Code, Status};

use super::tasks::Files;

/// The parent directory: in memory on every Linux, and writable for every user.
const MEMORY: &str = "/dev/shm";
/// How long a starting task waits for its certificate.
const PATIENCE: Duration = Duration::from_secs(4);
/// The timeout of a call to one master.
const TIMEOUT: Duration = Duration::from_secs(2);
/// The delay before all masters are tried again.
const PAUSE: Duration = Duration::from_millis(100);
/// How often to check what is due: the wall clock, which determines expiry, may be set.
const LOOK: Duration = Duration::from_secs(60);

/// The client directories of the tasks on a machine. Clones share their state.
#[derive(Clone)]
pub(super) struct Clients(Arc<Inner>);

struct Inner {
    /// The Borglet's own credentials.
    credentials: Rotating,
    masters: MasterConnection,
    directory: PathBuf,
    isolation: Isolation,
    kept: Mutex<BTreeMap<InstanceId, TaskCertificate>>,
    changed: Notify,
}

/// The certificate of a running task.
#[derive(Clone, Copy, Debug)]
struct TaskCertificate {
    uid: u32,
    due: SystemTime,
    expires: SystemTime,
}

impl Clients {
    pub(super) fn new(files: &Files, credentials: Rotating, masters: MasterConnection) -> Self {
        Self(Arc::new(Inner {
            credentials,
            masters,
            directory: directory(files),
            isolation: files.isolation,
            kept: Mutex::default(),
            changed: Notify::new(),
        }))
    }

    /// Creates the directory of a task that is about to start. Returns its bind mount.
    pub(super) async fn begin(&self, instance: InstanceId, uid: u32) -> anyhow::Result<Bind> {
        let begun = self.first(instance, uid).await;
        if begun.is_err() {
            self.end(instance);
        }
        begun.context("cannot get the API certificate that its job requests (api)")?;
        let (source, target) = (self.of(instance), PathBuf::from(CLIENT_DIRECTORY));
        Ok(Bind { source, target, writable: false })
    }

    /// Deletes the key of a task that has ended.
    pub(super) fn end(&self, instance: InstanceId) {
        lock(&self.0.kept).remove(&instance);
        remove(&self.of(instance));
    }

    /// Adopts the directories of running tasks, and removes all others.
    pub(super) fn adopt(&self, tasks: &[(InstanceId, u32)]) {
        let found = fs::read_dir(&self.0.directory).into_iter().flatten().flatten();
        for entry in found {
            let name = entry.file_name();
            let of = |(id, _): &&(InstanceId, u32)| name.to_str() == Some(&*id.to_string());
            let adopted = tasks.iter().find(of).and_then(|(instance, uid)| {
                let read = Credentials::read(entry.path(), USER_STEM);
                let read = read.inspect_err(|error| {
                    tracing::error!("cannot renew the certificate of {instance}: {error}");
                });
                Some((*instance, *uid, read.ok()?))
            });
            match adopted {
                Some((instance, uid, credentials)) => self.keep(instance, uid, &credentials),
                None => remove(&entry.path()),
            }
        }
    }

    /// Renews the certificates forever.
    pub(super) async fn run(self) -> std::convert::Infallible {
        loop {
            let now = SystemTime::now();
            let all: Vec<_> = lock(&self.0.kept).iter().map(|(id, kept)| (*id, *kept)).collect();
            let due = |kept: &TaskCertificate| kept.due.duration_since(now).unwrap_or_default();
            let next = all.iter().map(|(_, kept)| due(kept)).min().unwrap_or(LOOK).min(LOOK);
            tokio::select! {
                () = sleep(next) => {}
                () = self.0.changed.notified() => continue,
            }
            for (instance, kept) in all.into_iter().filter(|(_, kept)| due(kept) <= next) {
                self.renew(instance, kept).await;
            }
        }
    }

    async fn renew(&self, instance: InstanceId, kept: TaskCertificate) {
        if SystemTime::now() < kept.due {
            return;
        }
        let error = match self.certify(instance, kept.uid).await {
            Ok(()) => return tracing::debug!("renewed the certificate of {instance}"),
            Err(error) => error,
        };
        let refused = error.downcast_ref::<Status>().is_some_and(is_final);
        let now = SystemTime::now();
        let wait = renewal::retry_after(kept.expires, now);
        let wait = if refused { wait.max(LOOK) } else { wait };
        tracing::warn!(
            "cannot renew the certificate of {instance}, retrying in {} s: {}",
            wait.as_secs(),
            explained(&error)
        );
        if let Some(kept) = lock(&self.0.kept).get_mut(&instance) {
            kept.due = now + wait;
        }
    }

    /// Calls the masters until one answers, for as long as a start can wait.
    async fn first(&self, instance: InstanceId, uid: u32) -> anyhow::Result<()> {
        let until = Instant::now() + PATIENCE;
        self.make(instance)?;
        loop {
            let asked = timeout_at(until, self.certify(instance, uid)).await;
            let error = match asked {
                Ok(Ok(())) => return Ok(()),
                Ok(Err(error)) => error,
                Err(_) => bail!("no master answered within {} s", PATIENCE.as_secs()),
            };
            let later = error.downcast_ref::<Status>().is_some_and(|status| !is_final(status));
            if !later || Instant::now() + PAUSE >= until {
                bail!("{}", explained(&error));
            }
            sleep(PAUSE).await;
        }
    }

    /// Creates the directory of a task, inaccessible to other users.
    fn make(&self, instance: InstanceId) -> anyhow::Result<()> {
        let (all, own) = (&self.0.directory, self.of(instance));
        let made = DirBuilder::new().recursive(true).mode(0o700).create(all);
        made.with_context(|| format!("cannot create {}", all.display()))?;
        let found = fs::symlink_metadata(all)?;
        let ours = found.is_dir() && found.uid() == nix::unistd::geteuid().as_raw();
        ensure!(ours, "{} belongs to another user: remove it", all.display());
        fs::set_permissions(all, Permissions::from_mode(0o700))?;
        // Existing content belongs to an earlier instance of that name.
        remove(&own);
        let made = DirBuilder::new().mode(0o700).create(&own);
        made.with_context(|| format!("cannot create {}", own.display()))
    }

    /// Has a task's key certified, and writes the result.
    async fn certify(&self, instance: InstanceId, uid: u32) -> anyhow::Result<()> {
        let path = self.of(instance);
        let key_file = path.join(format!("{USER_STEM}.key"));
        let key = NewKey::kept(&key_file)?;
        let (signing_request, instance_id) = (key.request_pem()?, Some(instance.into()));
        let request = v1::CertifyTaskRequest { signing_request, instance: instance_id };
        let answer = self.ask(request).await?;
        let own = self.0.credentials.credentials();
        let credentials = key.credentials(answer.certificate, own.ca_pem().to_owned())?;
        self.0.masters.masters().told(answer.masters);
        let masters = self.0.masters.masters().all();
        let cell = toml::to_string(&CellFile::new(own.cell().to_owned(), masters))?;
        self.own(&key_file, 0o400, uid)?;
        self.write(&path, CELL_FILE, &cell, uid)?;
        self.write(&path, &format!("{USER_STEM}.ca.pem"), credentials.ca_pem(), uid)?;
        self.write(&path, &format!("{USER_STEM}.pem"), credentials.certificate_pem(), uid)?;
        self.own(&path, 0o700, uid)?;
        self.keep(instance, uid, &credentials);
        Ok(())
    }

    fn keep(&self, instance: InstanceId, uid: u32, credentials: &Credentials) {
        let (due, expires) = (renewal::due(credentials), credentials.expires());
        lock(&self.0.kept).insert(instance, TaskCertificate { uid, due, expires });
        self.0.changed.notify_one();
    }

    /// Calls one master after another.
    async fn ask(
        &self,
        request: v1::CertifyTaskRequest,
    ) -> anyhow::Result<v1::CertifyTaskResponse> {
        ensure!(
            !self.0.masters.masters().all().is_empty(),
            "this machine's Borglet knows no master: start it with --master, or join with a \
             token"
        );
        let certify =
            async |channel, request| EnrolmentClient::new(channel).certify_task(request).await;
        self.0.masters.ask(&request, TIMEOUT, certify, is_final).await
    }

    fn of(&self, instance: InstanceId) -> PathBuf {
        self.0.directory.join(instance.to_string())
    }

    /// Atomically writes a file that the task can read.
    fn write(&self, directory: &Path, name: &str, text: &str, uid: u32) -> anyhow::Result<()> {
        let (path, new) = (directory.join(name), directory.join(format!(".{name}.new")));
        fs::write(&new, text).with_context(|| format!("cannot write {}", new.display()))?;
        self.own(&new, 0o444, uid)?;
        fs::rename(&new, &path).with_context(|| format!("cannot write {}", path.display()))
    }

    /// Gives a file to the user of the task; without root that is the Borglet's own user.
    fn own(&self, path: &Path, mode: u32, uid: u32) -> anyhow::Result<()> {
        fs::set_permissions(path, Permissions::from_mode(mode))?;
        match self.0.isolation {
            Isolation::Jail => chown(path, Some(uid), Some(uid)).with_context(|| {
                format!("cannot change the owner of {} to user id {uid}", path.display())
            }),
            Isolation::Rootless => Ok(()),
        }
    }
}

/// Removes all client directories of a Borglet whose tasks have ended.
pub(super) fn remove_all(files: &Files) {
    remove(&directory(files));
}

fn directory(files: &Files) -> PathBuf {
    Path::new(MEMORY).join(files.cgroup.replace('/', "-"))
}

fn remove(path: &Path) {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            tracing::error!("cannot remove {}: {error}", path.display());
        }
        _ => {}
    }
}

/// Whether a retry, here or at another master, would return the same status.
pub(super) fn is_final(status: &Status) -> bool {
    let answers = [
        Code::PermissionDenied,
        Code::Unauthenticated,
        Code::InvalidArgument,
        Code::FailedPrecondition,
        Code::Unimplemented,
    ];
    answers.contains(&status.code()) || rpc::transport::is_distrust(status)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use process::renewal::Masters;
    use rpc::{Authority, Identity, Validity};

    use super::*;

    fn incarnation(text: &str) -> InstanceId {
        text.parse().expect("an instance")
    }

    /// The client directories of a rootless Borglet in a directory, which knows these masters.
    fn clients(place: &Path, masters: &[&str]) -> (Files, Clients) {
        let files = Files::found(place, Isolation::Rootless).expect("a directory");
        let authority = Authority::create(place, "cc").expect("an authority");
        let identity = Identity::Borglet("m1".to_owned());
        let issued = authority.issue(&identity, Validity::lasting(LOOK)).expect("a certificate");
        let masters = Masters::new(masters.iter().map(ToString::to_string).collect());
        let credentials = Rotating::new(issued).expect("credentials");
        let masters = MasterConnection::new(credentials.clone(), masters);
        (files.clone(), Clients::new(&files, credentials, masters))
    }

    #[tokio::test]
    async fn a_task_without_a_certificate_leaves_no_files() {
        let place = tempfile::tempdir().expect("a temporary directory");
        let (files, clients) = clients(place.path(), &[]);
        let error = clients.begin(incarnation("1-0-1"), 1).await.expect_err("no master is known");
        assert!(format!("{error:#}").contains("knows no master"), "{error:#}");
        assert!(!clients.of(incarnation("1-0-1")).exists());
        remove_all(&files);
        assert!(!directory(&files).exists());
    }

    #[test]
    fn foreign_client_directories_are_not_used_and_unneeded_ones_are_removed() {
        let place = tempfile::tempdir().expect("a temporary directory");
        let (files, clients) = clients(place.path(), &[]);
        std::os::unix::fs::symlink(place.path(), directory(&files)).expect("a trap");
        let error = clients.make(incarnation("1-0-1")).expect_err("it leads elsewhere");
        assert!(error.to_string().contains("belongs to another user"), "{error:#}");
        fs::remove_file(directory(&files)).expect("it was there");

        clients.make(incarnation("1-0-1")).expect("there is room");
        fs::write(clients.of(incarnation("1-0-1")).join("user.key"), "old").expect("there is room");
        clients.make(incarnation("1-0-1")).expect("there is room");
        assert!(
            !clients.of(incarnation("1-0-1")).join("user.key").exists(),
            "another incarnation's key"
        );
        clients.adopt(&[]);
        assert!(!clients.of(incarnation("1-0-1")).exists());
        remove_all(&files);
    }
}
