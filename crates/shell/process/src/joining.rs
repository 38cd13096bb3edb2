//! Joins a cell with a join token (design, section 7).
//!
//! The key is generated here and made durable before it is sent, so that a process that crashes at
//! any point retries with the same key and gets the same answer. Files in the data directory:
//!
//! | file | content |
//! |---|---|
//! | `joining.key` | the key, until its certificate is stored |
//! | `joined.toml` | the token used by this directory, if any, and the addresses of the masters |

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::{Duration, SystemTime};

use anyhow::{Context, bail, ensure};
use api::v1;
use model::{MachineName, ReplicaId, Serial};
use rpc::service::enrolment_client::EnrolmentClient;
use rpc::token::{BadToken, MAX_TOKEN_CHARS};
use rpc::{Authority, Credentials, Expect, JoinToken, NewKey, Role, Rotating};
use serde::{Deserialize, Serialize};
use tonic::transport::Channel;
use tonic::{Code, Request, Status};

const KEY: &str = "joining.key";
const JOINED: &str = "joined.toml";
/// The timeout of a call to one master.
const TIMEOUT: Duration = Duration::from_secs(15);
/// The delay before all masters are tried again.
const RETRY: Duration = Duration::from_millis(500);

/// A join token as given on the command line.
#[derive(Clone, Debug)]
pub enum Given {
    /// The token itself.
    Token(Box<JoinToken>),
    /// A file, which may be deleted once the token was used.
    File(PathBuf),
    /// Standard input.
    Stdin,
}

impl FromStr for Given {
    type Err = BadToken;

    fn from_str(text: &str) -> Result<Self, BadToken> {
        match text.strip_prefix('@') {
            Some(file) => Ok(Self::File(PathBuf::from(file))),
            None if text == "-" => Ok(Self::Stdin),
            None => Ok(Self::Token(Box::new(text.parse()?))),
        }
    }
}

impl Given {
    /// Reads the token; `None` if its file does not exist.
    fn read(&self) -> anyhow::Result<Option<JoinToken>> {
        let mut text = String::new();
        // Read slightly more than the maximum, so that a longer token is rejected.
        let most = MAX_TOKEN_CHARS as u64 + 16;
        match self {
            Self::Token(token) => return Ok(Some(JoinToken::clone(token))),
            Self::Stdin => {
                let read = std::io::stdin().take(most).read_to_string(&mut text);
                read.context("cannot read a join token from standard input")?;
            }
            Self::File(path) => {
                let file = match fs::File::open(path) {
                    Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
                    file => file,
                };
                let read = file.and_then(|file| file.take(most).read_to_string(&mut text));
                read.with_context(|| format!("cannot read {}", path.display()))?;
            }
        }
        Ok(Some(text.parse()?))
    }
}

/// What a directory records about the cell that it joined.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Joined {
    /// The serial number of the token; empty if the directory got its certificate without one.
    token: String,
    /// The addresses of the masters, as they reported them last.
    masters: Vec<String>,
}

impl Joined {
    fn read(directory: &Path) -> anyhow::Result<Option<Self>> {
        let path = directory.join(JOINED);
        match fs::read_to_string(&path) {
            Ok(text) => {
                Ok(Some(toml::from_str(&text).with_context(|| format!("in {}", path.display()))?))
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
        }
    }

    fn write(&self, directory: &Path) -> anyhow::Result<()> {
        let (path, new) = (directory.join(JOINED), directory.join("joined.toml.tmp"));
        let text = toml::to_string(self)?;
        replace(&path, &new, &text).with_context(|| format!("cannot write {}", path.display()))
    }
}

/// Replaces a file atomically and durably; `new` is the temporary name.
pub fn replace(path: &Path, new: &Path, text: &str) -> std::io::Result<()> {
    fs::write(new, text)?;
    fs::File::open(new)?.sync_all()?;
    fs::rename(new, path)?;
    fs::File::open(path.parent().unwrap_or(Path::new(".")))?.sync_all()
}

/// Records the current addresses of the masters.
pub(crate) fn keep_masters(directory: &Path, masters: Vec<String>) -> anyhow::Result<()> {
    let joined = Joined::read(directory)?.unwrap_or_default();
    Joined { masters, ..joined }.write(directory)
}

/// The recorded addresses of the masters.
pub fn masters(directory: &Path) -> anyhow::Result<Vec<String>> {
    Ok(Joined::read(directory)?.map(|joined| joined.masters).unwrap_or_default())
}

/// A token that this directory has not used yet, and the key to join with.
pub struct Joining<'a> {
    directory: &'a Path,
    token: JoinToken,
    serial: String,
}

impl<'a> Joining<'a> {
    /// Prepares to join with the given token. `None` if the directory has already joined with it.
    pub fn new(directory: &'a Path, given: Option<&Given>) -> anyhow::Result<Option<Self>> {
        let Some(token) = given.map(Given::read).transpose()?.flatten() else { return Ok(None) };
        let serial = Serial::from_bytes(token.credentials().serial());
        let serial = serial.context("the join token's number is too long")?.to_string();
        let joined = Joined::read(directory)?;
        let used = joined.is_some_and(|joined| joined.token == serial);
        Ok((!used).then_some(Self { directory, token, serial }))
    }

    /// Whether an earlier process started to join.
    pub fn has_begun(&self) -> bool {
        self.directory.join(KEY).exists()
    }

    /// The cell to join.
    pub fn cell(&self) -> &str {
        self.token.cell()
    }

    /// Joins as the Borglet of a machine; returns after writing its credentials to the directory.
    /// A token for many machines needs the name of this one.
    pub async fn as_machine(
        &self,
        stem: &str,
        name: Option<&MachineName>,
        address: &str,
    ) -> anyhow::Result<Credentials> {
        let signing_request = self.key()?.request_pem()?;
        let machine = name.map(ToString::to_string).unwrap_or_default();
        let request = v1::EnrolRequest { signing_request, address: address.to_owned(), machine };
        let enrol =
            async |mut client: EnrolmentClient<Channel>, request| client.enrol(request).await;
        let answer = self.ask(request, enrol).await?;
        let ca = self.token.credentials().ca_pem().to_owned();
        let credentials = self.key()?.credentials(answer.certificate, ca)?;
        credentials.write(self.directory, stem)?;
        self.done(&answer.masters)?;
        tracing::info!("joined cell {} as {}", credentials.cell(), credentials.identity());
        Ok(credentials)
    }

    /// Joins as a replica of the master; returns when the data directory is complete. Records the
    /// id and the addresses of the others first. The authority comes last, so that a directory
    /// without it counts as incomplete.
    ///
    /// # Errors
    /// If the cell rejects the request, or the directory belongs to another cell or cannot be
    /// written.
    pub async fn as_replica(
        &self,
        tls: &Path,
        keep: impl FnOnce(ReplicaId, Vec<(ReplicaId, String)>) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let request = v1::JoinRequest { signing_request: self.key()?.request_pem()? };
        let join = async |mut client: EnrolmentClient<Channel>, request| client.join(request).await;
        let answer = self.ask(request, join).await?;
        let there = Authority::open(tls).ok();
        let there = there.filter(|there| there.ca_pem() == answer.authority);
        ensure!(
            there.is_some() || !tls.join("ca.pem").exists(),
            "the directory belongs to another cell"
        );
        let others = answer.replicas.into_iter();
        let others = others.filter(|other| other.id != answer.replica && !other.address.is_empty());
        let others: Vec<_> = others.map(|other| (ReplicaId(other.id), other.address)).collect();
        let masters: Vec<_> = others.iter().map(|(_, address)| address.clone()).collect();
        keep(ReplicaId(answer.replica), others)?;
        if there.is_none() {
            Authority::adopt(tls, &answer.authority, &answer.authority_key)?;
        }
        self.done(&masters)?;
        tracing::info!("joined cell {} as replica {}", answer.cell, answer.replica);
        Ok(())
    }

    fn key(&self) -> anyhow::Result<NewKey> {
        Ok(NewKey::kept(self.directory.join(KEY))?)
    }

    /// Records that the join is complete: removes the key and remembers the token.
    fn done(&self, masters: &[String]) -> anyhow::Result<()> {
        // Keep the addresses of the token as well: they are reachable from here.
        let given = self.token.masters().iter().filter(|address| !masters.contains(address));
        let masters = masters.iter().chain(given).cloned().collect();
        Joined { token: self.serial.clone(), masters }.write(self.directory)?;
        let path = self.directory.join(KEY);
        fs::remove_file(&path).with_context(|| format!("cannot remove {}", path.display()))
    }

    /// Calls one master after another until one answers or the token expires.
    async fn ask<M: Clone, T>(
        &self,
        message: M,
        call: impl AsyncFn(EnrolmentClient<Channel>, Request<M>) -> Result<tonic::Response<T>, Status>,
    ) -> anyhow::Result<T> {
        let credentials = Rotating::new(self.token.credentials().clone())?;
        let expect = Expect::Role(Role::Master);
        let client = |master: &String| {
            let channel = rpc::transport::connect(master, &credentials, &expect)?;
            Ok(EnrolmentClient::new(channel))
        };
        let clients = self.token.masters().iter().map(client);
        let clients = clients.collect::<Result<Vec<_>, rpc::Error>>()?;
        let (expires, cell) = (self.token.credentials().expires(), self.cell());
        let mut logged = String::new();
        loop {
            let mut others = 0;
            for client in &clients {
                let mut request = Request::new(message.clone());
                request.set_timeout(TIMEOUT);
                let status = match call(client.clone(), request).await {
                    Ok(answer) => return Ok(answer.into_inner()),
                    Err(status) => status,
                };
                let why = rpc::transport::explain(&status);
                if SystemTime::now() >= expires {
                    bail!("the join token for cell {cell} has expired ({why}): get a new one");
                }
                // A reused address may belong to another cell by now.
                others += usize::from(rpc::transport::distrusts(&status).is_some());
                let elsewhere = others > 0 && others < clients.len();
                if !is_retryable(&status) && !elsewhere {
                    bail!("cannot join cell {cell}: {why}");
                }
                if logged != why {
                    tracing::warn!("cannot join cell {cell} yet: {why}");
                    logged = why;
                }
            }
            tokio::time::sleep(RETRY).await;
        }
    }
}

/// Whether a retry, here or at another master, may succeed.
fn is_retryable(status: &Status) -> bool {
    let later = [
        Code::Unavailable,
        Code::Cancelled,
        Code::DeadlineExceeded,
        Code::ResourceExhausted,
        Code::Unknown,
    ];
    later.contains(&status.code()) && !rpc::transport::is_distrust(status)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_given_itself_or_by_where_it_is() {
        assert!(matches!("-".parse(), Ok(Given::Stdin)));
        assert!(matches!("@token".parse(), Ok(Given::File(path)) if path == Path::new("token")));
        assert!(matches!("token".parse::<Given>(), Err(BadToken::Other)));
        let nowhere: Given = "@/nowhere/at/all".parse().expect("a file's name");
        assert!(nowhere.read().expect("that it is gone is no failure").is_none());
    }

    #[test]
    fn the_token_and_masters_of_a_joined_directory_are_kept() {
        let place = tempfile::tempdir().expect("a directory");
        assert_eq!(masters(place.path()).expect("nothing is there"), Vec::<String>::new());
        let token = "1a02".to_owned();
        let joined = Joined { token, masters: vec!["m1:7800".to_owned()] };
        joined.write(place.path()).expect("there is room");
        keep_masters(place.path(), vec!["m2:7800".to_owned()]).expect("there is room");
        let read = Joined::read(place.path()).expect("it is there").expect("it joined");
        assert_eq!((read.token.as_str(), read.masters), ("1a02", vec!["m2:7800".to_owned()]));
    }
}
