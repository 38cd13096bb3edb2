//! The service for secrets. Contents are sealed here, before anything is proposed to the cell.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use api::v1;
use api::v1::past_question::Question;
use cell::bounds::SEALED_BYTES_MAX;
use cell::{
    Cell, CellPermission, DeleteSecret, Job, Op, Outcome, Permission, Permitted, Rejection, Reply,
    RequestId, ResealSecret, ResealedVersion, SetSecret,
};
use model::{InstanceId, JobName, MachineName, Secret, SecretName, SecretVersion, UserName};
use prost::Message as _;
use rpc::Identity;
use rpc::service::secrets_server;
use rpc::transport::Cause;
use spec::NameReference;
use tonic::{Request, Response, Status};

use crate::caller::Caller;
use crate::handle::Core;
use crate::reads::Reads;
use crate::reads::rejections::rejected;
use crate::reads::starting::waits_for;
use crate::request;
use crate::secret_keys::SecretKeys;
use crate::service::door::{Door, SMALL_BYTES};
use crate::service::{Answer, gate, unexpected};

/// How often a replica looks for keys that it misses or does not need.
const LOOK: Duration = Duration::from_secs(5);
/// The maximum number of versions that an answer names.
const UNREADABLE_SHOWN_MAX: usize = 100;
/// What a seal adds to a content, in bytes.
const SEAL_BYTES: u64 = 16;

/// The service for secrets.
#[derive(Clone)]
pub(super) struct Secrets {
    door: Door,
    keys: SecretKeys,
}

impl Secrets {
    pub(super) fn new(door: Door, keys: SecretKeys) -> Self {
        Self { door, keys }
    }

    /// The keys of this replica.
    pub(super) fn keys(&self) -> SecretKeys {
        self.keys.clone()
    }

    /// Seals the versions of a secret with the newest key. The numbers of those that cannot be opened are returned:
    /// they stay as they are, so that a key that is found again opens them.
    async fn reseal(
        &self,
        id: RequestId,
        by: &Caller,
        secret: &Secret,
    ) -> Result<Vec<u32>, Status> {
        let (owner, name) = (secret.owner.clone(), secret.name.clone());
        let (mut versions, mut unreadable) = (Vec::new(), Vec::new());
        for SecretVersion { number, sealed, .. } in &secret.versions {
            let content = match self.keys.open_sealed(&owner, &name, sealed) {
                Ok(content) => content,
                Err(why) => {
                    tracing::warn!("version {number} is not sealed with the new key: {why:#}");
                    unreadable.push(*number);
                    continue;
                }
            };
            let new = self.keys.seal(&self.door.core, &owner, &name, &content).await;
            let (number, from) = (*number, sealed.key);
            let sealed = new.map_err(|why| failed(&why))?;
            versions.push(ResealedVersion { number, from, sealed });
        }
        if !versions.is_empty() {
            let bytes = usize::try_from(secret.bytes()).unwrap_or(usize::MAX).max(SMALL_BYTES);
            let reseal = ResealSecret { owner, name, versions };
            self.door.mutate(Some(id.into()), by.clone(), reseal.into(), bytes).await?;
        }
        Ok(unreadable)
    }
}

fn failed(why: &anyhow::Error) -> Status {
    Status::failed_precondition(format!("{why:#}"))
}

fn named(name: &str) -> Result<SecretName, Status> {
    SecretName::new(name).map_err(|error| Status::invalid_argument(error.to_string()))
}

/// The name of a live job of a user that has a secret in a variable.
fn with_variable<'a>(cell: &'a Cell, user: &UserName, name: &SecretName) -> Option<&'a JobName> {
    let has = |job: &&Arc<Job>| {
        let mut named = job.spec.task.secret_env.values();
        job.owner == *user && job.is_alive() && named.any(|named| named == name)
    };
    cell.jobs().find(has).map(|job| &job.spec.name)
}

/// The secrets of a user, with the live jobs that name each.
fn infos(cell: &Cell, user: &UserName, keys: Option<&SecretKeys>) -> Vec<v1::SecretInfo> {
    let jobs = cell.jobs().filter(|job| job.owner == *user && job.is_alive());
    let jobs: Vec<&Arc<Job>> = jobs.collect();
    cell.secrets_of(user).map(|secret| info(&jobs, keys, secret)).collect()
}

fn info(jobs: &[&Arc<Job>], keys: Option<&SecretKeys>, secret: &Secret) -> v1::SecretInfo {
    let version = |version: &SecretVersion| v1::SecretVersionInfo {
        number: version.number,
        set: version.set.0,
        size: (version.sealed.bytes.len() as u64).saturating_sub(SEAL_BYTES),
        unreadable: keys.is_some_and(|keys| !keys.has(version.sealed.key)),
    };
    let names_it = |job: &&&Arc<Job>| job.spec.secrets().any(|name| *name == secret.name);
    v1::SecretInfo {
        user: secret.owner.to_string(),
        name: secret.name.to_string(),
        versions: secret.versions.iter().map(version).collect(),
        jobs: jobs.iter().filter(names_it).map(|job| job.spec.name.to_string()).collect(),
    }
}

impl Reads<'_> {
    /// The secrets of the caller in a cell of the past.
    pub(crate) fn secrets(&self) -> v1::SecretsResponse {
        let secrets = infos(self.cell, self.me, None);
        v1::SecretsResponse { index: self.cell.index().0, secrets }
    }
}

#[tonic::async_trait]
impl secrets_server::Secrets for Secrets {
    async fn list(&self, request: Request<v1::SecretsRequest>) -> Answer<v1::SecretsResponse> {
        let by = self.door.caller(&request)?;
        if let Some(at) = request.get_ref().at {
            return self.door.past(&by, at, Question::Secrets(request.into_inner())).await;
        }
        let (me, core, keys) = (by.user.clone(), self.door.core.clone(), self.keys.clone());
        let answer = move |_: &Reads<'_>| {
            let view = core.view();
            let cell = &view.cell;
            let secrets = infos(cell, &me, Some(&keys));
            Ok(v1::SecretsResponse { index: cell.index().0, secrets })
        };
        self.door.read_much(&by, answer).await
    }

    async fn set(&self, request: Request<v1::SetSecretRequest>) -> Answer<v1::SetSecretResponse> {
        let by = self.door.caller(&request)?;
        let asked = request.into_inner();
        let bytes = asked.encoded_len();
        let name = named(&asked.name)?;
        let sealed_bytes = (asked.content.len() as u64).saturating_add(SEAL_BYTES);
        if sealed_bytes > SEALED_BYTES_MAX {
            let why = cell::OutOfBounds::SealedBytes(sealed_bytes);
            return Err(rejected(&self.door.core.view().cell, &Rejection::OutOfBounds(why)));
        }
        let view = gate::newest(&self.door.core).await?;
        let is_text = std::str::from_utf8(&asked.content).is_ok_and(|text| !text.contains('\0'));
        if !is_text && let Some(job) = with_variable(&view.cell, &by.user, &name) {
            return Err(Status::invalid_argument(format!(
                "job {job} has secret {name} in secretEnv, and a variable cannot have this content: only texts \
                 without zero bytes can be in variables; update the job to have it in a file (secrets), or set a text"
            )));
        }
        let sealed = self.keys.seal(&self.door.core, &by.user, &name, &asked.content).await;
        let sealed = sealed.map_err(|why| Status::unavailable(format!("{why:#}")))?;
        let text = name.to_string();
        self.door
            .change(asked.id, by, SetSecret { name, sealed }, bytes, |index, reply| match reply {
                Reply::SecretSet { version } => {
                    Some(v1::SetSecretResponse { index, name: text, version: *version })
                }
                _ => None,
            })
            .await
    }

    async fn delete(
        &self,
        request: Request<v1::DeleteSecretRequest>,
    ) -> Answer<v1::DeleteSecretResponse> {
        let by = self.door.caller(&request)?;
        let asked = request.into_inner();
        let bytes = asked.encoded_len();
        let delete = DeleteSecret(named(&asked.name)?);
        self.door
            .change(asked.id, by, delete, bytes, |index, reply| match reply {
                Reply::Done => Some(v1::DeleteSecretResponse { index }),
                _ => None,
            })
            .await
    }

    async fn rotate_key(
        &self,
        request: Request<v1::RotateSecretKeyRequest>,
    ) -> Answer<v1::RotateSecretKeyResponse> {
        let by = self.door.caller(&request)?;
        let view = gate::newest(&self.door.core).await?;
        if !view.cell.is_administrator(&by.user) {
            let what = Permission::OfCell(CellPermission::RotateSecretKey);
            let (by, who) = (by.user, Permitted::Administrators);
            return Err(rejected(&view.cell, &Rejection::NotAllowed { by, what, who }));
        }
        let key = self.keys.renew(&self.door.core).await;
        let key = key.map_err(|why| Status::unavailable(format!("{why:#}")))?;
        let opened = self.door.ask(request::Request::OpenSession(by.clone()), SMALL_BYTES).await?;
        let session = match opened.1 {
            Outcome::Request(Ok(Reply::Session(session))) => session,
            other => return Err(unexpected(&other)),
        };
        let (mut sequence, mut secrets, mut unreadable) = (0, 0, Vec::new());
        let all: Vec<Arc<Secret>> = view.cell.secrets().cloned().collect();
        for secret in all {
            sequence += 1;
            match self.reseal(RequestId { session, sequence }, &by, &secret).await {
                Ok(left) => {
                    secrets += u64::from(left.len() < secret.versions.len());
                    let Secret { owner, name, .. } = &*secret;
                    let left = left.iter().map(|number| format!("{owner}/{name}@{number}"));
                    let room = UNREADABLE_SHOWN_MAX.saturating_sub(unreadable.len());
                    unreadable.extend(left.take(room));
                }
                // It was deleted meanwhile.
                Err(status) if status.code() == tonic::Code::NotFound => {}
                Err(status) => return Err(status),
            }
        }
        Ok(Response::new(v1::RotateSecretKeyResponse { key: key.to_string(), secrets, unreadable }))
    }
}

/// Keeps the keys that the cell needs, and no others. Never ends.
pub(super) async fn keep(core: Core, keys: SecretKeys) {
    loop {
        tokio::time::sleep(LOOK).await;
        // What a replica that lags does not know yet would be deleted.
        let Ok(view) = gate::newest(&core).await else { continue };
        let needed = view.cell.secret_keys();
        keys.fetch(&core, &needed).await;
        keys.forget(&needed);
    }
}

/// Opens the secrets of a task for the machine on which it is placed, and says what the names stand for to which its
/// description refers. That is recorded first.
pub(super) async fn open(
    door: &Door,
    keys: &SecretKeys,
    request: Request<v1::OpenSecretsRequest>,
) -> Answer<v1::OpenSecretsResponse> {
    let machine = door.machine(&request)?;
    let v1::OpenSecretsRequest { instance, again } = *request.get_ref();
    let instance = instance.ok_or_else(|| Status::invalid_argument("no instance is given"))?.into();
    // What cannot be opened here is not read, and so not recorded as read.
    let view = door.core.view();
    if view.cell.placed_on(&machine, instance).is_ok() {
        opened(&view.cell, keys, &machine, instance)?;
        named_in(&view.cell, &machine, instance, again)?;
    }
    let op = Op::ReadSecrets { machine: machine.clone(), instance };
    let index = match door.ask(request::Request::Enrolment(op), SMALL_BYTES).await? {
        (index, Outcome::Request(Ok(Reply::Done))) => index,
        (_, Outcome::Request(Err(why))) => return Err(rejected(&door.core.view().cell, &why)),
        (_, other) => return Err(unexpected(&other)),
    };
    door.seen(index).await;
    let view = door.core.view();
    let secrets = opened(&view.cell, keys, &machine, instance)?;
    let names = named_in(&view.cell, &machine, instance, again)?;
    Ok(Response::new(v1::OpenSecretsResponse { secrets, names }))
}

/// What the names stand for to which the description of an instance refers, by what is in the braces. One that runs
/// already gets what there is: it is told once the other names stand for something again.
fn named_in(
    cell: &Cell,
    machine: &MachineName,
    instance: InstanceId,
    again: bool,
) -> Result<BTreeMap<String, String>, Status> {
    let (owner, spec) = cell.placed_on(machine, instance).map_err(|why| rejected(cell, &why))?;
    let told = |name: &NameReference| match cell.resolve(owner, name) {
        Ok(value) => Some(Ok((name.to_string(), value))),
        Err(_) if again => None,
        // It may be there in a moment.
        Err(why) => Some(Err(Status::unavailable(waits_for(owner, name, &why)))),
    };
    spec.task(instance.index).names().iter().filter_map(told).collect()
}

/// The newest versions of the secrets that the job of an instance names, which is placed on a machine.
fn opened(
    cell: &Cell,
    keys: &SecretKeys,
    machine: &MachineName,
    instance: InstanceId,
) -> Result<Vec<v1::OpenedSecret>, Status> {
    let (owner, spec) = cell.placed_on(machine, instance).map_err(|why| rejected(cell, &why))?;
    let mut secrets: Vec<v1::OpenedSecret> = Vec::new();
    for name in spec.secrets() {
        if secrets.iter().any(|opened| opened.name == name.as_str()) {
            continue;
        }
        let secret = cell.secret(owner, name);
        let Some(newest) = secret.and_then(|secret| secret.newest()) else {
            let (owner, name) = (owner.clone(), name.clone());
            return Err(rejected(cell, &Rejection::NoSuchSecret { owner, name }));
        };
        // Another master may have the key.
        let content = keys.open_sealed(owner, name, &newest.sealed);
        let content = content.map_err(|why| Status::unavailable(format!("{why:#}")))?;
        let (name, version) = (name.to_string(), newest.number);
        secrets.push(v1::OpenedSecret { name, version, content });
    }
    Ok(secrets)
}

/// Takes the keys of another replica, and gives it those that this one has.
pub(super) fn share(
    door: &Door,
    keys: &SecretKeys,
    request: Request<v1::ShareSecretKeysRequest>,
) -> Answer<v1::ShareSecretKeysResponse> {
    match rpc::transport::peer_identity(&request, &door.cell)? {
        Identity::Master => {}
        other => {
            let why = format!("{other} may not have the keys of secrets: only masters may");
            return Err(rpc::transport::refuse(&request, Cause::WrongRole, why));
        }
    }
    keys.merge(request.into_inner().keys).map_err(|why| failed(&why))?;
    Ok(Response::new(v1::ShareSecretKeysResponse { keys: keys.messages() }))
}
