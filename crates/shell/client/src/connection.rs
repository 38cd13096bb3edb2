//! A connection to a cell, with failover between its replicas.

use std::collections::VecDeque;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::time::{Duration, SystemTime};

use api::v1;
use model::Span;
use rpc::metadata::{CONSISTENT, MASTERS, RETRY_AFTER};
use rpc::service::access_client::AccessClient;
use rpc::service::cell_client::CellClient;
use rpc::service::history_client::HistoryClient;
use rpc::service::jobs_client::JobsClient;
use rpc::service::locks_client::LocksClient;
use rpc::service::machines_client::MachinesClient;
use rpc::service::names_client::NamesClient;
use rpc::service::packages_client::PackagesClient;
use rpc::service::quota_client::QuotaClient;
use rpc::service::replicas_client::ReplicasClient;
use rpc::service::secrets_client::SecretsClient;
use rpc::service::services_client::ServicesClient;
use rpc::service::tasks_client::TasksClient;
use rpc::service::updates_client::UpdatesClient;
use rpc::service::usage_client::UsageClient;
use rpc::{Credentials, Expect, Identity, Role, Rotating};
use tonic::client::GrpcService;
use tonic::codegen::{Body, Bytes, StdError};
use tonic::metadata::{MetadataMap, MetadataValue};
use tonic::transport::Channel;
use tonic::{Request, Status};

use crate::masters::Masters;
use crate::{CELL_FILE, CellFile, Error, Notice, USER_STEM, known};

/// The timeout of a request.
const TIMEOUT: Duration = Duration::from_secs(30);
/// How long to retry a master that does not answer.
const PATIENCE: Duration = Duration::from_secs(5);
const RETRY: Duration = Duration::from_millis(50);
/// How long to retry a busy master, by default.
const BUSY_PATIENCE: Duration = Duration::from_secs(60);
/// How long the addresses that a master reported are not asked for again, while it answers.
const LEARNED_FOR: Duration = Duration::from_secs(60);
/// The maximum retry delay that a master can request, in milliseconds; longer ones are cut to this.
const BUSY_WAIT_MS_MAX: u64 = 60_000;

/// Which cell to call, and how.
#[derive(Clone, Copy, Debug)]
pub struct Target<'a> {
    /// The cell's name or the path of a client directory; `None` for the only registered cell.
    pub cell: Option<&'a str>,
    /// Whether reads are linearizable; otherwise they may be stale.
    pub consistent: bool,
    /// Receives notices while a request waits.
    pub notify: fn(&Notice),
}

/// The services of one replica of a master, one client for each of them.
#[derive(Clone, Debug)]
pub struct MasterClient<T = Channel> {
    /// Jobs: submitting, killing and restarting them, and how they are.
    pub jobs: JobsClient<T>,
    /// Updates of live jobs.
    pub updates: UpdatesClient<T>,
    /// What runs inside tasks: logs, their own metrics, commands.
    pub tasks: TasksClient<T>,
    /// Machines and their platforms.
    pub machines: MachinesClient<T>,
    /// The cell as a whole: sessions, its state and its settings.
    pub cell: CellClient<T>,
    /// Who may use the cell.
    pub access: AccessClient<T>,
    /// Quota.
    pub quota: QuotaClient<T>,
    /// What tasks, jobs, machines and the cell use.
    pub usage: UsageClient<T>,
    /// Events, and the cell as a checkpoint.
    pub history: HistoryClient<T>,
    /// The names of tasks.
    pub names: NamesClient<T>,
    /// Versions of packages.
    pub packages: PackagesClient<T>,
    /// Secrets of the user.
    pub secrets: SecretsClient<T>,
    /// Services: one name and one port for the tasks of several jobs.
    pub services: ServicesClient<T>,
    /// Locks and small files.
    pub locks: LocksClient<T>,
    /// The replicas of the master.
    pub replicas: ReplicasClient<T>,
}

impl MasterClient {
    /// A client of the master at an address, which connects lazily.
    fn connect(master: &str, credentials: &Rotating) -> Result<Self, rpc::Error> {
        let expect = Expect::Role(Role::Master);
        Ok(Self::over(rpc::transport::connect(master, credentials, &expect)?))
    }
}

impl<T> MasterClient<T>
where
    T: GrpcService<tonic::body::Body> + Clone,
    T::Error: Into<StdError>,
    T::ResponseBody: Body<Data = Bytes> + Send + 'static,
    <T::ResponseBody as Body>::Error: Into<StdError> + Send,
{
    /// A client of the master at the other end of a channel.
    pub fn over(channel: T) -> Self {
        let most = rpc::transport::MAX_STREAM_MESSAGE_BYTES;
        macro_rules! client {
            ($client:ident) => {
                $client::new(channel.clone()).max_decoding_message_size(most)
            };
        }
        Self {
            jobs: client!(JobsClient),
            updates: client!(UpdatesClient),
            tasks: client!(TasksClient),
            machines: client!(MachinesClient),
            cell: client!(CellClient),
            access: client!(AccessClient),
            quota: client!(QuotaClient),
            usage: client!(UsageClient),
            history: client!(HistoryClient),
            names: client!(NamesClient),
            services: client!(ServicesClient),
            packages: client!(PackagesClient),
            secrets: client!(SecretsClient),
            locks: client!(LocksClient),
            replicas: ReplicasClient::new(channel).max_decoding_message_size(most),
        }
    }
}

/// What a call answers with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Call {
    /// One message.
    Unary,
    /// A stream: a master that is alone or busy is not tried again.
    Stream,
}

/// A connection to a cell as a user.
#[derive(Clone, Debug)]
pub struct Connection {
    /// The replicas of its master with their addresses; the first one is called first.
    masters: VecDeque<(String, MasterClient)>,
    /// Their addresses, and when a master reported them last.
    addresses: Masters,
    learned: Option<tokio::time::Instant>,
    /// For connections to masters that are learned; `None` over a given channel.
    credentials: Option<Rotating>,
    /// The user, or the owner of the task, that the certificate names.
    user: Option<String>,
    consistent: bool,
    notify: fn(&Notice),
    session: Option<u64>,
    sequence: u64,
    /// The client directory, the expiry of its certificate, and what other client directories need
    /// from it.
    directory: PathBuf,
    expires: Option<SystemTime>,
    file: CellFile,
    ca_pem: String,
    /// How long to retry a busy master, and whether that was reported.
    patience: Duration,
    busy_reported: bool,
    /// How long to retry each master that does not answer.
    unanswered: Duration,
}

impl Connection {
    /// Connects to a cell lazily: nothing is sent yet.
    ///
    /// # Errors
    /// If the cell is not registered, or its client directory is unusable.
    pub fn open(target: Target<'_>) -> Result<Self, Error> {
        let directory = known::find(target.cell)?;
        let path = directory.join(CELL_FILE);
        let unusable = |error: &dyn std::fmt::Display| Error::Unusable {
            path: path.clone(),
            why: error.to_string(),
        };
        let text = std::fs::read_to_string(&path).map_err(|error| unusable(&error))?;
        let file: CellFile = toml::from_str(&text).map_err(|error| unusable(&error))?;
        if file.masters.is_empty() {
            return Err(unusable(&"it lists no master"));
        }
        let credentials =
            Credentials::read(&directory, USER_STEM).map_err(|error| unusable(&error))?;
        if let Some(notice) = expires_soon(&directory, &credentials) {
            (target.notify)(&notice);
        }
        let user = match credentials.identity() {
            Identity::User(user) | Identity::Task { user, .. } => Some(user.clone()),
            _ => None,
        };
        let (expires, ca_pem) = (Some(credentials.expires()), credentials.ca_pem().to_owned());
        let credentials = Rotating::new(credentials).map_err(|error| unusable(&error))?;
        let addresses = Masters::read(&directory, &file);
        let client = |master: String| {
            let client = MasterClient::connect(&master, &credentials)?;
            Ok((master, client))
        };
        let masters = addresses.in_order().into_iter().map(client);
        let masters = masters.collect::<Result<_, rpc::Error>>();
        let masters = masters.map_err(|error| unusable(&error))?;
        Ok(Self {
            masters,
            addresses,
            learned: None,
            credentials: Some(credentials),
            user,
            consistent: target.consistent,
            notify: target.notify,
            session: None,
            sequence: 0,
            directory,
            expires,
            file,
            ca_pem,
            patience: BUSY_PATIENCE,
            busy_reported: false,
            unanswered: PATIENCE,
        })
    }

    /// A connection over a channel to a replica that is authenticated already, as `user`.
    #[must_use]
    pub fn over(channel: Channel, user: String, cell: String, notify: fn(&Notice)) -> Self {
        Self {
            masters: VecDeque::from([(String::new(), MasterClient::over(channel))]),
            addresses: Masters::default(),
            learned: None,
            credentials: None,
            user: Some(user),
            consistent: false,
            notify,
            session: None,
            sequence: 0,
            directory: PathBuf::new(),
            // The replica checks it.
            expires: None,
            file: CellFile::new(cell, Vec::new()),
            ca_pem: String::new(),
            patience: BUSY_PATIENCE,
            busy_reported: false,
            unanswered: PATIENCE,
        }
    }

    /// What another client directory of this cell needs: the cell file, with the masters that are
    /// known now, and the CA certificate.
    pub fn cell_file(&self) -> (CellFile, String) {
        let file = CellFile::new(self.file.cell.clone(), self.addresses.current());
        (file, self.ca_pem.clone())
    }

    /// The client directory; empty for a connection [`over`](Self::over) a channel.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The user whose jobs are the caller's own; `None` for a certificate that names none.
    #[must_use]
    pub fn user(&self) -> Option<&str> {
        self.user.as_deref()
    }

    /// The certificate with which it calls, and would call others in the cell; `None` within a process.
    #[must_use]
    pub fn credentials(&self) -> Option<&Rotating> {
        self.credentials.as_ref()
    }

    /// Sets how long to retry a busy master.
    pub fn set_patience(&mut self, patience: Duration) {
        self.patience = patience;
    }

    /// Sets how long to retry each master that does not answer.
    pub fn set_unanswered_patience(&mut self, patience: Duration) {
        self.unanswered = patience;
    }

    /// Maps a failed call to an error. An expired certificate is detected here, whatever the
    /// status.
    fn failure(&self, status: Status) -> Error {
        use tonic::Code as Grpc;
        let refused = [Grpc::Unavailable, Grpc::Unknown, Grpc::Cancelled, Grpc::Unauthenticated];
        if self.expires.is_none_or(|expires| SystemTime::now() < expires)
            || !refused.contains(&status.code())
        {
            return match self.credentials {
                Some(_) if is_unreachable(&status) => Error::NoMaster {
                    tried: self.masters.iter().map(|(address, _)| address.clone()).collect(),
                    listed: self.addresses.files(&self.directory),
                    status,
                },
                _ => Error::Answer(status),
            };
        }
        let why = rpc::transport::explain(&status);
        Error::Expired { directory: self.directory.clone(), why }
    }

    /// Sends a request, and retries while no master answers or the master is busy. Mutations carry
    /// a request id, so that retries take effect once.
    ///
    /// # Errors
    /// The master's status, or that of the last attempt if none answered.
    pub async fn ask<M: Clone, T>(
        &mut self,
        message: M,
        call: impl AsyncFn(MasterClient, Request<M>) -> Result<tonic::Response<T>, Status>,
    ) -> Result<T, Error> {
        let begun = tokio::time::Instant::now();
        loop {
            let mut request = self.request(message.clone());
            request.set_timeout(TIMEOUT);
            match Box::pin(call(self.client(), request)).await {
                Ok(response) => {
                    self.learn(response.metadata());
                    return Ok(response.into_inner());
                }
                Err(status) => self.before_another(Call::Unary, begun, status).await?,
            }
        }
    }

    /// Waits until a call that failed may be tried again, and chooses the replica for that.
    ///
    /// Behind a pointer, as each call is: a caller's own future contains neither, and the compiler
    /// writes this once instead of once for each method of the API.
    fn before_another(
        &mut self,
        call: Call,
        begun: tokio::time::Instant,
        status: Status,
    ) -> Pin<Box<dyn Future<Output = Result<(), Error>> + Send + '_>> {
        Box::pin(async move {
            let (until, busy_until) = (begun + self.unanswered_patience(), begun + self.patience);
            let now = tokio::time::Instant::now();
            if self.is_of_another_cell(&status) {
                return Ok(());
            }
            let elsewhere = call == Call::Unary || self.masters.len() > 1;
            if elsewhere && self.is_retryable(&status) && now < until {
                self.elsewhere();
                tokio::time::sleep(RETRY).await;
                return Ok(());
            }
            match busy_wait(&status, rand()).filter(|_| call == Call::Unary) {
                Some(wait) if now + wait <= busy_until => {
                    self.report_busy();
                    tokio::time::sleep(wait).await;
                    Ok(())
                }
                _ => Err(self.failure(status)),
            }
        })
    }

    /// Fails over to the next replica, since this one's last answer was incomplete.
    pub fn elsewhere(&mut self) {
        self.masters.rotate_left(1);
        self.learned = None;
    }

    /// Learns the addresses of the masters from an answer, and keeps them in the client directory. One
    /// that cannot be written is not an error: the next command learns them again.
    fn learn(&mut self, answer: &MetadataMap) {
        let told = answer.get(MASTERS).and_then(|told| told.to_str().ok());
        let (Some(told), Some(credentials)) = (told, &self.credentials) else { return };
        self.learned = Some(tokio::time::Instant::now());
        let Some((here, client)) = self.masters.front().cloned() else { return };
        if !self.addresses.learn(told, &here) {
            return;
        }
        let _read_only = self.addresses.write(&self.directory, rand());
        let mut before: Vec<_> = self.masters.drain(..).skip(1).collect();
        let others = self.addresses.in_order().into_iter().filter(|address| *address != here);
        let others = others.filter_map(|address| {
            let known = before.iter().position(|(known, _)| *known == address);
            let client = match known {
                Some(known) => before.swap_remove(known).1,
                None => MasterClient::connect(&address, credentials).ok()?,
            };
            Some((address, client))
        });
        self.masters.extend(others);
        self.masters.push_front((here, client));
    }

    /// The replica to call next.
    fn client(&self) -> MasterClient {
        // `open` rejects an empty list.
        let (_, client) =
            self.masters.front().unwrap_or_else(|| unreachable!("a cell has a master"));
        client.clone()
    }

    /// Whether the called address belongs to another cell and others are left; if so, drops that
    /// address.
    fn is_of_another_cell(&mut self, status: &Status) -> bool {
        if self.masters.len() < 2 || rpc::transport::distrusts(status).is_none() {
            return false;
        }
        if let Some((address, _)) = self.masters.pop_front() {
            let (cell, why) = (self.file.cell.clone(), rpc::transport::explain(status));
            (self.notify)(&Notice::AnotherCell { address, cell, why });
        }
        true
    }

    /// Whether a retry may succeed: at the next replica, or at this one shortly, since a replica
    /// that shuts down cuts its connections.
    fn is_retryable(&self, status: &Status) -> bool {
        match status.code() {
            tonic::Code::Unavailable => !rpc::transport::is_distrust(status),
            // A broken connection, for example when the master's process is killed.
            tonic::Code::Cancelled => self.masters.len() > 1 || rpc::transport::is_broken(status),
            tonic::Code::Unknown => rpc::transport::is_broken(status),
            _ => false,
        }
    }

    /// How long to retry replicas that do not answer: the patience for each of them, added up.
    fn unanswered_patience(&self) -> Duration {
        self.unanswered.saturating_mul(u32::try_from(self.masters.len()).unwrap_or(1))
    }

    fn request<M>(&self, message: M) -> Request<M> {
        let mut request = Request::new(message);
        if self.consistent {
            request.metadata_mut().insert(CONSISTENT, MetadataValue::from_static("true"));
        }
        let is_known = self.learned.is_some_and(|learned| learned.elapsed() < LEARNED_FOR);
        if self.addresses.learns() && !is_known {
            request.metadata_mut().insert(MASTERS, MetadataValue::from_static("true"));
        }
        request
    }

    /// Reports once that the master is busy.
    fn report_busy(&mut self) {
        if !std::mem::replace(&mut self.busy_reported, true) {
            (self.notify)(&Notice::Busy { patience: self.patience });
        }
    }

    /// Opens a stream, without a timeout.
    ///
    /// # Errors
    /// As for [`ask`](Self::ask).
    pub async fn stream<M: Clone, T>(
        &mut self,
        message: M,
        call: impl AsyncFn(MasterClient, Request<M>) -> Result<tonic::Response<T>, Status>,
    ) -> Result<T, Error> {
        let begun = tokio::time::Instant::now();
        loop {
            match Box::pin(call(self.client(), self.request(message.clone()))).await {
                Ok(response) => {
                    self.learn(response.metadata());
                    return Ok(response.into_inner());
                }
                Err(status) => self.before_another(Call::Stream, begun, status).await?,
            }
        }
    }

    /// Opens another session for the next mutation, after the cell has closed this one.
    pub fn new_session(&mut self) {
        (self.session, self.sequence) = (None, 0);
    }

    /// Returns the id for the next mutation.
    ///
    /// # Errors
    /// As for [`ask`](Self::ask): the first call opens a session.
    pub async fn request_id(&mut self) -> Result<v1::RequestId, Error> {
        let session = match self.session {
            Some(session) => session,
            None => {
                let opened = self
                    .ask(v1::OpenSessionRequest {}, async |mut client, request| {
                        client.cell.open_session(request).await
                    })
                    .await?;
                *self.session.insert(opened.session)
            }
        };
        self.sequence += 1;
        Ok(v1::RequestId { session, sequence: self.sequence })
    }

    /// Requests the status of the cell, without the digest of its state.
    ///
    /// # Errors
    /// As for [`ask`](Self::ask).
    pub async fn cell_status(&mut self) -> Result<v1::CellStatusResponse, Error> {
        let request = v1::CellStatusRequest { at: None, state_hash: false };
        self.ask(request, async |mut client, request| client.cell.status(request).await).await
    }
}

/// A notice if the certificate expires soon.
fn expires_soon(directory: &Path, credentials: &Credentials) -> Option<Notice> {
    let now = SystemTime::now();
    if now < credentials.renewal() || now >= credentials.expires() {
        return None;
    }
    let left = credentials.expires().duration_since(now).unwrap_or_default();
    let left = Span(u64::try_from(left.as_micros()).unwrap_or(u64::MAX));
    Some(Notice::Expires { directory: directory.to_owned(), left })
}

/// Whether a call failed because there is no connection to the master: a status that a master itself
/// returned has no source.
fn is_unreachable(status: &Status) -> bool {
    use std::error::Error as _;
    let has_cause = status.source().is_some();
    has_cause && status.code() == tonic::Code::Unavailable && !rpc::transport::is_distrust(status)
}

/// How long to wait before retrying a request that a busy master rejected: the delay that the
/// master requested plus up to half of it at random, to spread the clients that were rejected
/// together. `None` for any other status.
fn busy_wait(status: &Status, random: u64) -> Option<Duration> {
    if status.code() != tonic::Code::ResourceExhausted {
        return None;
    }
    let delay = status.metadata().get(RETRY_AFTER)?.to_str().ok()?;
    let ms = delay.parse::<u64>().ok()?.clamp(1, BUSY_WAIT_MS_MAX);
    Some(Duration::from_millis(ms + random % (ms / 2 + 1)))
}

/// A random number, different in every process.
fn rand() -> u64 {
    RandomState::new().build_hasher().finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_master_that_says_when_is_asked_again() {
        let status = |code, ms: Option<&str>| {
            let mut status = Status::new(code, "");
            if let Some(ms) = ms {
                status.metadata_mut().insert(RETRY_AFTER, ms.parse().expect("metadata"));
            }
            status
        };
        use tonic::Code::{ResourceExhausted, Unavailable};
        for (code, delay, random, wait) in [
            (ResourceExhausted, Some("100"), 0, Some(100)),
            (ResourceExhausted, Some("100"), 50, Some(150)),
            (ResourceExhausted, Some("100"), 51, Some(100)),
            (ResourceExhausted, Some("0"), 7, Some(1)),
            (ResourceExhausted, Some("99999999999"), 0, Some(60_000)),
            (ResourceExhausted, Some("soon"), 0, None),
            (ResourceExhausted, None, 0, None),
            (Unavailable, Some("100"), 0, None),
        ] {
            let waits = busy_wait(&status(code, delay), random);
            assert_eq!(waits, wait.map(Duration::from_millis), "{code:?} {delay:?} {random}");
        }
    }
}
