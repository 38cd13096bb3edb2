//! Finding a cell: where its master answers, and as whom we ask.
//!
//! A *client directory* has `cell.toml` (the cell's name and its master's addresses) and a user's
//! certificate. It is given by `--cell`, as its path or by a name under which it is known, or by
//! `BOURG_CELL`; without either, the only cell that is known is taken.

use std::collections::VecDeque;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rpc::service::borgmaster_client::BorgmasterClient;
use rpc::{Credentials, Expect, Role, Rotating};
use serde::{Deserialize, Serialize};
use tonic::metadata::MetadataValue;
use tonic::transport::Channel;
use tonic::{Request, Status};

use super::exit::{Code, Failure};
use super::known;
use crate::master::RETRY_AFTER;
use crate::master::gate::CONSISTENT;
use proto::v1;

/// The stem of a user's certificate in a client directory.
pub(crate) const USER_STEM: &str = "user";
/// Where a cell answers, in a client directory.
pub(crate) const CELL_FILE: &str = "cell.toml";
/// How long a request may take.
const TIMEOUT: Duration = Duration::from_secs(30);
/// For how long a master that does not answer is asked again.
const PATIENCE: Duration = Duration::from_secs(5);
const RETRY: Duration = Duration::from_millis(50);
/// For how long a master that has too much to do is asked again, where nothing else is said.
const BUSY_PATIENCE: Duration = Duration::from_secs(60);
/// How long a master may ask for, in milliseconds; longer counts as that.
const BUSY_WAIT_MS_MAX: u64 = 60_000;

/// Where a cell answers.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CellFile {
    /// Its name.
    pub(crate) cell: String,
    /// Where its masters answer, as `host:port`.
    pub(crate) masters: Vec<String>,
}

/// Which cell is asked, and how.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target<'a> {
    /// Its name or the path of a client directory, where one is given.
    pub(crate) cell: Option<&'a str>,
    /// Whether the answer is to be what is true now.
    pub(crate) consistent: bool,
}

/// A connection to a cell as a user.
#[derive(Clone)]
pub(crate) struct Connection {
    /// To each replica of its master, with its address; the one that is asked first.
    masters: VecDeque<(String, BorgmasterClient<Channel>)>,
    consistent: bool,
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

/// Writes a client directory.
pub(crate) fn write(directory: &Path, file: &CellFile, user: &Credentials) -> anyhow::Result<()> {
    std::fs::create_dir_all(directory)?;
    user.write(directory, USER_STEM)?;
    write_file(directory, file)
}

/// Writes where a cell answers into a client directory, whole: others read it at any time.
pub(crate) fn write_file(directory: &Path, file: &CellFile) -> anyhow::Result<()> {
    let (path, new) = (directory.join(CELL_FILE), directory.join("cell.toml.tmp"));
    std::fs::write(&new, toml::to_string(file)?)?;
    Ok(std::fs::rename(new, path)?)
}

fn find(cell: Option<&str>) -> Result<PathBuf, Failure> {
    let none = |text: String| {
        Failure::new(Code::NoMaster, text).next("start a cell on this machine: bourg dev")
    };
    if let Some(cell) = cell {
        let path = PathBuf::from(cell);
        if path.join(CELL_FILE).exists() {
            return Ok(path);
        }
        return known::named(cell).ok_or_else(|| {
            none(format!("error: there is no cell '{}': it is neither a client directory nor a cell known by that name", cell.escape_debug()))
        });
    }
    let mut known = known::all();
    let names = |of: &[PathBuf]| {
        let names = of.iter().filter_map(|path| path.file_name()?.to_str());
        names.collect::<Vec<_>>().join(", ")
    };
    let all = names(&known);
    if known.len() > 1 {
        // One that was killed is known still.
        known.retain(|path| known::is_there(path));
    }
    match known.as_slice() {
        [] if all.is_empty() => Err(none("error: no cell is known here".to_owned())),
        [] => Err(none(format!("error: of the cells that are known here ({all}) none answers"))
            .next(
                "bourg cells shows them, bourg cells --prune forgets them, bourg dev starts one",
            )),
        [only] => Ok(only.clone()),
        several => {
            let names = names(several);
            Err(Failure::usage(format!("error: several cells are known here ({names})"))
                .next("name one with --cell"))
        }
    }
}

impl Connection {
    /// Connects to a cell. Nothing is sent yet.
    pub(crate) fn open(target: Target<'_>) -> Result<Self, Failure> {
        let directory = find(target.cell)?;
        let path = directory.join(CELL_FILE);
        let unusable = |error: &dyn std::fmt::Display| {
            Failure::usage(format!("error: {} cannot be used: {error}", path.display()))
        };
        let text = std::fs::read_to_string(&path).map_err(|error| unusable(&error))?;
        let file: CellFile = toml::from_str(&text).map_err(|error| unusable(&error))?;
        if file.masters.is_empty() {
            return Err(unusable(&"it names no master"));
        }
        let credentials =
            Credentials::read(&directory, USER_STEM).map_err(|error| unusable(&error))?;
        say_if_due(&directory, &credentials);
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
    pub(crate) fn cell_file(&self) -> (CellFile, String) {
        (self.file.clone(), self.ca_pem.clone())
    }

    /// For how long a master that has too much to do is asked again, from now on.
    pub(crate) fn set_patience(&mut self, patience: Duration) {
        self.patience = patience;
    }

    /// For how long each master that does not answer is asked again, from now on.
    pub(crate) fn set_unanswered_patience(&mut self, patience: Duration) {
        self.unanswered = patience;
    }

    /// What a failed call means. That our certificate has expired is known here, whatever was said.
    fn failure(&self, status: Status) -> Failure {
        use tonic::Code as Grpc;
        let refused = [Grpc::Unavailable, Grpc::Unknown, Grpc::Cancelled, Grpc::Unauthenticated];
        if SystemTime::now() < self.expires || !refused.contains(&status.code()) {
            return status.into();
        }
        let (directory, said) = (self.directory.display(), rpc::transport::explain(&status));
        let text = format!("error: the certificate in {directory} has expired ({said})");
        Failure::new(Code::NoMaster, text).next("get a new one from an administrator of the cell")
    }

    /// Asks, and asks again while no master answers or where it has too much to do. What changes
    /// something carries its request id, so that it is done once however often it is sent.
    pub(crate) async fn ask<M: Clone, T>(
        &mut self,
        message: M,
        call: impl AsyncFn(BorgmasterClient<Channel>, Request<M>) -> Result<tonic::Response<T>, Status>,
    ) -> Result<T, Failure> {
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
    pub(crate) fn elsewhere(&mut self) {
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
            let (cell, why) = (&self.file.cell, rpc::transport::explain(status));
            eprintln!("warning: {address} is not cell {cell}, and another address is asked: {why}");
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
            let seconds = self.patience.as_secs();
            eprintln!("the master has too much to do: asking again for up to {seconds} s");
        }
    }

    /// Opens a stream, which has no time limit.
    pub(crate) async fn stream<M: Clone, T>(
        &mut self,
        message: M,
        call: impl AsyncFn(BorgmasterClient<Channel>, Request<M>) -> Result<tonic::Response<T>, Status>,
    ) -> Result<T, Failure> {
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
    pub(crate) async fn request_id(&mut self) -> Result<v1::RequestId, Failure> {
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
    pub(crate) async fn cell_status(&mut self) -> Result<v1::CellStatusResponse, Failure> {
        let request = v1::CellStatusRequest { at: None };
        self.ask(request, async |mut client, request| client.cell_status(request).await).await
    }
}

/// Says of a certificate that has not much longer to live until when that is.
fn say_if_due(directory: &Path, credentials: &Credentials) {
    let now = SystemTime::now();
    if now < credentials.renewal() || now >= credentials.expires() {
        return;
    }
    let left = credentials.expires().duration_since(now).unwrap_or_default();
    let left = model::Span(u64::try_from(left.as_micros()).unwrap_or(u64::MAX));
    let directory = directory.display();
    eprintln!("the certificate in {directory} expires in {left}: ask an administrator for another");
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
