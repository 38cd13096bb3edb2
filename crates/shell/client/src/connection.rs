//! A connection to a cell: any of its replicas is asked until one answers.

use std::collections::VecDeque;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use model::Span;
use proto::v1;
use rpc::metadata::{CONSISTENT, RETRY_AFTER};
use rpc::service::borgmaster_client::BorgmasterClient;
use rpc::{Credentials, Expect, Role, Rotating};
use tonic::metadata::MetadataValue;
use tonic::transport::Channel;
use tonic::{Request, Status};

use crate::{CELL_FILE, CellFile, Error, Notice, USER_STEM, known};

/// How long a request may take.
const TIMEOUT: Duration = Duration::from_secs(30);
/// For how long a master that does not answer is asked again.
const PATIENCE: Duration = Duration::from_secs(5);
const RETRY: Duration = Duration::from_millis(50);
/// For how long a master that has too much to do is asked again, where nothing else is said.
const BUSY_PATIENCE: Duration = Duration::from_secs(60);
/// How long a master may ask for, in milliseconds; longer counts as that.
const BUSY_WAIT_MS_MAX: u64 = 60_000;

/// Which cell is asked, and how.
#[derive(Clone, Copy, Debug)]
pub struct Target<'a> {
    /// Its name or the path of a client directory, where one is given.
    pub cell: Option<&'a str>,
    /// Whether the answer is to be what is true now.
    pub consistent: bool,
    /// Receives notices while a request waits.
    pub notify: fn(&Notice),
}

/// A connection to a cell as a user.
#[derive(Clone, Debug)]
pub struct Connection {
    /// To each replica of its master, with its address; the one that is asked first.
    masters: VecDeque<(String, BorgmasterClient<Channel>)>,
    consistent: bool,
    notify: fn(&Notice),
    session: Option<u64>,
    sequence: u64,
    /// The client directory, until when its certificate is valid, and what others need of it.
    directory: PathBuf,
    expires: SystemTime,
    file: CellFile,
    ca_pem: String,
    /// For how long a master that has too much to do is asked again, and whether that was said.
    patience: Duration,
    said_busy: bool,
    /// For how long each master that does not answer is asked again.
    unanswered: Duration,
}

impl Connection {
    /// Connects to a cell. Nothing is sent yet.
    ///
    /// # Errors
    /// Where no such cell is known, or its client directory cannot be used.
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
            return Err(unusable(&"it names no master"));
        }
        let credentials =
            Credentials::read(&directory, USER_STEM).map_err(|error| unusable(&error))?;
        if let Some(notice) = expires_soon(&directory, &credentials) {
            (target.notify)(&notice);
        }
        let (expires, ca_pem) = (credentials.expires(), credentials.ca_pem().to_owned());
        let credentials = Rotating::new(credentials).map_err(|error| unusable(&error))?;
        let client = |master: &String| {
            let expect = Expect::Role(Role::Master);
            let channel = rpc::transport::connect(master, &credentials, &expect)?;
            let most = rpc::transport::MAX_STREAM_MESSAGE_BYTES;
            let client = BorgmasterClient::new(channel).max_decoding_message_size(most);
            Ok((master.clone(), client))
        };
        let masters = file.masters.iter().map(client).collect::<Result<_, rpc::Error>>();
        let masters = masters.map_err(|error| unusable(&error))?;
        Ok(Self {
            masters,
            consistent: target.consistent,
            notify: target.notify,
            session: None,
            sequence: 0,
            directory,
            expires,
            file,
            ca_pem,
            patience: BUSY_PATIENCE,
            said_busy: false,
            unanswered: PATIENCE,
        })
    }

    /// What another client directory of this cell needs: where it answers, and whom to trust.
    pub fn cell_file(&self) -> (CellFile, String) {
        (self.file.clone(), self.ca_pem.clone())
    }

    /// For how long a master that has too much to do is asked again, from now on.
    pub fn set_patience(&mut self, patience: Duration) {
        self.patience = patience;
    }

    /// For how long each master that does not answer is asked again, from now on.
    pub fn set_unanswered_patience(&mut self, patience: Duration) {
        self.unanswered = patience;
    }

    /// What a failed call means. That our certificate has expired is known here, whatever was said.
    fn failure(&self, status: Status) -> Error {
        use tonic::Code as Grpc;
        let refused = [Grpc::Unavailable, Grpc::Unknown, Grpc::Cancelled, Grpc::Unauthenticated];
        if SystemTime::now() < self.expires || !refused.contains(&status.code()) {
            return Error::Answer(status);
        }
        let why = rpc::transport::explain(&status);
        Error::Expired { directory: self.directory.clone(), why }
    }

    /// Asks, and asks again while no master answers or where it has too much to do. What changes
    /// something carries its request id, so that it is done once however often it is sent.
    ///
    /// # Errors
    /// What a master said, or the last one that did not answer.
    pub async fn ask<M: Clone, T>(
        &mut self,
        message: M,
        call: impl AsyncFn(BorgmasterClient<Channel>, Request<M>) -> Result<tonic::Response<T>, Status>,
    ) -> Result<T, Error> {
        let begun = tokio::time::Instant::now();
        let (until, busy_until) = (begun + self.unanswered_patience(), begun + self.patience);
        loop {
            let mut request = self.request(message.clone());
            request.set_timeout(TIMEOUT);
            match call(self.client(), request).await {
                Ok(response) => return Ok(response.into_inner()),
                Err(status) if self.is_of_another_cell(&status) => {}
                Err(status)
                    if self.may_be_answered(&status) && tokio::time::Instant::now() < until =>
                {
                    self.elsewhere();
                    tokio::time::sleep(RETRY).await;
                }
                Err(status) => match busy_wait(&status, rand()) {
                    Some(wait) if tokio::time::Instant::now() + wait <= busy_until => {
                        self.say_busy();
                        tokio::time::sleep(wait).await;
                    }
                    _ => return Err(self.failure(status)),
                },
            }
        }
    }

    /// From now on the next replica is asked: what this one said last was not all.
    pub fn elsewhere(&mut self) {
        self.masters.rotate_left(1);
    }

    /// The replica that is asked now.
    fn client(&self) -> BorgmasterClient<Channel> {
        // There is one at least.
        let (_, client) =
            self.masters.front().unwrap_or_else(|| unreachable!("a cell has a master"));
        client.clone()
    }

    /// Whether whoever was asked is not of this cell, and another address is left to ask: that one is
    /// asked from now on, and no more this one.
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

    /// Whether the next replica may answer, or this one in a moment: one that ends cuts off whoever
    /// asks it.
    fn may_be_answered(&self, status: &Status) -> bool {
        match status.code() {
            tonic::Code::Unavailable => !rpc::transport::is_distrust(status),
            tonic::Code::Cancelled => self.masters.len() > 1,
            // As with a process that is killed.
            tonic::Code::Unknown => rpc::transport::is_broken(status),
            _ => false,
        }
    }

    /// For how long replicas that do not answer are asked again: each of them has its time.
    fn unanswered_patience(&self) -> Duration {
        self.unanswered.saturating_mul(u32::try_from(self.masters.len()).unwrap_or(1))
    }

    fn request<M>(&self, message: M) -> Request<M> {
        let mut request = Request::new(message);
        if self.consistent {
            request.metadata_mut().insert(CONSISTENT, MetadataValue::from_static("true"));
        }
        request
    }

    /// Says once that it takes longer, and why.
    fn say_busy(&mut self) {
        if !std::mem::replace(&mut self.said_busy, true) {
            (self.notify)(&Notice::Busy { patience: self.patience });
        }
    }

    /// Opens a stream, which has no time limit.
    ///
    /// # Errors
    /// As [`ask`](Self::ask).
    pub async fn stream<M: Clone, T>(
        &mut self,
        message: M,
        call: impl AsyncFn(BorgmasterClient<Channel>, Request<M>) -> Result<tonic::Response<T>, Status>,
    ) -> Result<T, Error> {
        let until = tokio::time::Instant::now() + self.unanswered_patience();
        loop {
            match call(self.client(), self.request(message.clone())).await {
                Ok(response) => return Ok(response.into_inner()),
                Err(status) if self.is_of_another_cell(&status) => {}
                Err(status)
                    if self.masters.len() > 1
                        && self.may_be_answered(&status)
                        && tokio::time::Instant::now() < until =>
                {
                    self.elsewhere();
                    tokio::time::sleep(RETRY).await;
                }
                Err(status) => return Err(self.failure(status)),
            }
        }
    }

    /// The id of the next request that changes something.
    ///
    /// # Errors
    /// As [`ask`](Self::ask): the first one opens a session.
    pub async fn request_id(&mut self) -> Result<v1::RequestId, Error> {
        let session = match self.session {
            Some(session) => session,
            None => {
                let opened = self
                    .ask(v1::OpenSessionRequest {}, async |mut client, request| {
                        client.open_session(request).await
                    })
                    .await?;
                *self.session.insert(opened.session)
            }
        };
        self.sequence += 1;
        Ok(v1::RequestId { session, sequence: self.sequence })
    }

    /// How the cell is.
    ///
    /// # Errors
    /// As [`ask`](Self::ask).
    pub async fn cell_status(&mut self) -> Result<v1::CellStatusResponse, Error> {
        let request = v1::CellStatusRequest { at: None };
        self.ask(request, async |mut client, request| client.cell_status(request).await).await
    }
}

/// Where a certificate has not much longer to live: how long.
fn expires_soon(directory: &Path, credentials: &Credentials) -> Option<Notice> {
    let now = SystemTime::now();
    if now < credentials.renewal() || now >= credentials.expires() {
        return None;
    }
    let left = credentials.expires().duration_since(now).unwrap_or_default();
    let left = Span(u64::try_from(left.as_micros()).unwrap_or(u64::MAX));
    Some(Notice::Expires { directory: directory.to_owned(), left })
}

/// How long to wait before a request is repeated that the master refused as it had too much to do: as
/// long as it said, and up to half as much again, so that those who were refused together do not come
/// back together. Nothing for any other refusal.
fn busy_wait(status: &Status, random: u64) -> Option<Duration> {
    if status.code() != tonic::Code::ResourceExhausted {
        return None;
    }
    let said = status.metadata().get(RETRY_AFTER)?.to_str().ok()?;
    let ms = said.parse::<u64>().ok()?.clamp(1, BUSY_WAIT_MS_MAX);
    Some(Duration::from_millis(ms + random % (ms / 2 + 1)))
}

/// A number that another process would not draw.
fn rand() -> u64 {
    RandomState::new().build_hasher().finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_master_that_says_when_is_asked_again() {
        let says = |code, ms: Option<&str>| {
            let mut status = Status::new(code, "");
            if let Some(ms) = ms {
                status.metadata_mut().insert(RETRY_AFTER, ms.parse().expect("metadata"));
            }
            status
        };
        use tonic::Code::{ResourceExhausted, Unavailable};
        for (code, said, random, wait) in [
            (ResourceExhausted, Some("100"), 0, Some(100)),
            (ResourceExhausted, Some("100"), 50, Some(150)),
            (ResourceExhausted, Some("100"), 51, Some(100)),
            (ResourceExhausted, Some("0"), 7, Some(1)),
            (ResourceExhausted, Some("99999999999"), 0, Some(60_000)),
            (ResourceExhausted, Some("soon"), 0, None),
            (ResourceExhausted, None, 0, None),
            (Unavailable, Some("100"), 0, None),
        ] {
            let waits = busy_wait(&says(code, said), random);
            assert_eq!(waits, wait.map(Duration::from_millis), "{code:?} {said:?} {random}");
        }
    }
}
