//! The secrets of tasks: asked from a master when a task starts, in files of a memory file system until it ends.
//!
//! They are on no disk and in no record: the launch record has the paths of these files.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use api::v1;
use borglet::Launch;
use linux::Isolation;
use linux::record::{Bind, SecretVariable};
use model::InstanceId;
use process::master_connection::MasterConnection;
use process::renewal::explained;
use rpc::service::enrolment_client::EnrolmentClient;
use tokio::time::{Instant, sleep};
use tonic::{Code, Status};

use super::task_files;
use super::tasks::Files;

/// The parent directory: in memory on every Linux.
const MEMORY: &str = "/dev/shm";
/// How long a starting task waits for its secrets.
const PATIENCE: Duration = Duration::from_secs(8);
/// The timeout of a call to one master.
const TIMEOUT: Duration = Duration::from_secs(3);
/// The delay before all masters are asked again.
const PAUSE: Duration = Duration::from_millis(200);
/// Who may read a file with a secret.
const MODE: u32 = 0o400;

/// The secrets of the tasks on a machine. Clones share them.
#[derive(Clone)]
pub(super) struct TaskSecrets(Arc<Inner>);

struct Inner {
    masters: MasterConnection,
    directory: PathBuf,
    isolation: Isolation,
}

/// What a task finds of its secrets.
#[derive(Debug, Default)]
pub(super) struct FoundSecrets {
    /// Files.
    pub(super) binds: Vec<Bind>,
    /// Variables.
    pub(super) env: Vec<SecretVariable>,
    /// What the names stand for to which its description refers, by what is in the braces.
    pub(super) names: BTreeMap<String, String>,
}

impl TaskSecrets {
    pub(super) fn new(files: &Files, masters: MasterConnection) -> Self {
        let (directory, isolation) = (directory(files), files.isolation);
        Self(Arc::new(Inner { masters, directory, isolation }))
    }

    /// Gets the secrets of a task that is about to start.
    pub(super) async fn begin(&self, launch: &Launch) -> anyhow::Result<FoundSecrets> {
        if !launch.asks_master() {
            return Ok(FoundSecrets::default());
        }
        let spec = &launch.desired.spec;
        let found = match self.ask(launch.instance, false).await {
            Ok(v1::OpenSecretsResponse { secrets, names }) => {
                let has_secrets = !spec.secrets.is_empty() || !spec.secret_env.is_empty();
                let found = match has_secrets {
                    true => self.write(launch, secrets),
                    false => Ok(FoundSecrets::default()),
                };
                found.map(|found| FoundSecrets { names, ..found })
            }
            Err(error) => Err(error),
        };
        if found.is_err() {
            self.end(launch.instance);
        }
        found.context("cannot get the secrets and addresses that its job names")
    }

    /// Reads the secrets of a running task again, and writes those in files. Notes whether one has another content,
    /// and returns what names stand for now, without those that stand for nothing.
    pub(super) async fn read_again(
        &self,
        launch: &Launch,
        changed: &mut bool,
    ) -> anyhow::Result<BTreeMap<String, String>> {
        let answer = self.ask(launch.instance, true).await?;
        let contents = by_name(answer.secrets);
        let own = self.of(launch.instance);
        for (position, name) in launch.desired.spec.secrets.values().enumerate() {
            let content = contents.get(name.as_str());
            let content = content.with_context(|| format!("no master has sent secret {name}"))?;
            *changed |= task_files::rewrite(&own.join(position.to_string()), content)?;
        }
        Ok(answer.names)
    }

    /// Deletes the secrets of a task that has ended.
    pub(super) fn end(&self, instance: InstanceId) {
        remove(&self.of(instance));
    }

    /// Removes the secrets of all tasks but these.
    pub(super) fn adopt(&self, tasks: &[InstanceId]) {
        for entry in fs::read_dir(&self.0.directory).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let is_it = |instance: &InstanceId| name.to_str() == Some(&*instance.to_string());
            if !tasks.iter().any(is_it) {
                remove(&entry.path());
            }
        }
    }

    /// Asks the masters until one answers, for as long as a start can wait.
    async fn ask(
        &self,
        instance: InstanceId,
        again: bool,
    ) -> anyhow::Result<v1::OpenSecretsResponse> {
        let until = Instant::now() + PATIENCE;
        loop {
            let masters = &self.0.masters;
            ensure!(!masters.masters().all().is_empty(), "this machine's Borglet knows no master");
            let request = v1::OpenSecretsRequest { instance: Some(instance.into()), again };
            let open =
                async |channel, request| EnrolmentClient::new(channel).open_secrets(request).await;
            let error = match masters.ask(&request, TIMEOUT, open, is_final).await {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            let later = error.downcast_ref::<Status>().is_some_and(|status| !is_final(status));
            if !later || Instant::now() + PAUSE >= until {
                bail!("{}", explained(&error));
            }
            sleep(PAUSE).await;
        }
    }

    /// Writes what a master has sent. A variable has its own file, which only the task's init reads.
    fn write(
        &self,
        launch: &Launch,
        secrets: Vec<v1::OpenedSecret>,
    ) -> anyhow::Result<FoundSecrets> {
        let contents = by_name(secrets);
        let content = |name: &model::SecretName| {
            contents.get(name.as_str()).with_context(|| format!("no master has sent secret {name}"))
        };
        let own = self.of(launch.instance);
        // Existing content belongs to an earlier instance of that name.
        remove(&own);
        task_files::make(&own)?;
        let mut found = FoundSecrets::default();
        let spec = &launch.desired.spec;
        for (position, (path, name)) in spec.secrets.iter().enumerate() {
            let source = own.join(position.to_string());
            task_files::write(&source, content(name)?, MODE, launch.uid, self.0.isolation)?;
            found.binds.push(Bind { source, target: PathBuf::from(path), writable: false });
        }
        for (position, (variable, name)) in spec.secret_env.iter().enumerate() {
            let value = content(name)?;
            let is_text = std::str::from_utf8(value).is_ok_and(|value| !value.contains('\0'));
            ensure!(
                is_text,
                "secret {name} is not a text without zero bytes, and cannot be in ${variable}"
            );
            let source = own.join(format!("env-{position}"));
            task_files::write(&source, value, MODE, launch.uid, self.0.isolation)?;
            found.env.push(SecretVariable { name: variable.clone(), source });
        }
        Ok(found)
    }

    fn of(&self, instance: InstanceId) -> PathBuf {
        self.0.directory.join(instance.to_string())
    }
}

fn by_name(secrets: Vec<v1::OpenedSecret>) -> BTreeMap<String, Vec<u8>> {
    secrets.into_iter().map(|secret| (secret.name, secret.content)).collect()
}

/// Whether no master would answer otherwise.
fn is_final(status: &Status) -> bool {
    matches!(
        status.code(),
        Code::PermissionDenied | Code::NotFound | Code::InvalidArgument | Code::FailedPrecondition
    )
}

/// Removes the secrets of a Borglet whose tasks have ended.
pub(super) fn remove_all(files: &Files) {
    remove(&directory(files));
}

fn directory(files: &Files) -> PathBuf {
    Path::new(MEMORY).join(format!("{}-secrets", files.cgroup.replace('/', "-")))
}

fn remove(path: &Path) {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            tracing::error!("cannot remove {}: {error}", path.display());
        }
        _ => {}
    }
}
