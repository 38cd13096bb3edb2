//! The replicas of a master as processes of this program: started, killed, restarted.

use std::net::TcpStream;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use ::process::{LOG_VARIABLE, PARENT_VARIABLE};
use anyhow::{Context, ensure};
use api::v1;
use api::v1::change_replicas_request::Change;
use cell::Image;
use checkpoint::Origin;
use client::{CellFile, Connection, MasterClient};
use command::Failure;
use masterd::identity::{FIRST, ReplicaIdentity};
use model::{ReplicaId, RestoreEpoch, Term};
use rpc::transport::Link;
use rpc::{Authority, Credentials, Expect, Identity, Role, Rotating, Validity};
use store::DataDirectory;
use store::log::{Log, Options};
use tokio::time::Instant;

use super::process;

/// The name of the cell, and of its administrator, the benchmark's user.
const NAME: &str = "bench";
/// The validity of the certificates.
const VALIDITY: Duration = Duration::from_secs(30 * 86_400);
/// How many clients share a user: each has a session, and the number of sessions per user is
/// limited.
const CLIENTS_OF_A_USER: u16 = 64;
/// How long to wait for a master to become ready.
const PATIENCE: Duration = Duration::from_secs(60);
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// The replicas of a cell's master. On drop they are killed, and their directory is removed.
pub(super) struct Masters {
    directory: PathBuf,
    replicas: Vec<ReplicaProcess>,
    flags: Vec<String>,
    authority: Authority,
}

/// A replica, running or not.
struct ReplicaProcess {
    id: ReplicaId,
    address: String,
    directory: PathBuf,
    process: Option<Child>,
    /// Whether it was killed; its process may still exist.
    killed: bool,
}

impl Masters {
    /// Creates the replicas' directories. The first one starts from an image, if given; the others
    /// receive it from the first. The flags are those of `bourg master`.
    pub(super) fn prepare(
        place: &Path,
        replicas: u8,
        image: Option<&Image>,
        flags: &[(&str, String)],
    ) -> anyhow::Result<Self> {
        let directory = place.join(format!("bourg-bench-{}", std::process::id()));
        std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(directory.join("tls"))
            .with_context(|| format!("cannot create {}", directory.display()))?;
        let authority = Authority::create(directory.join("tls"), NAME)?;
        let flags = flags.iter().flat_map(|(flag, value)| [format!("--{flag}"), value.clone()]);
        let mut masters =
            Self { directory, replicas: Vec::new(), flags: flags.collect(), authority };
        for id in 1..=u64::from(replicas) {
            let directory = masters.directory.join(format!("master-{id}"));
            let data = DataDirectory::create(&directory)?;
            Authority::copy(masters.directory.join("tls"), data.tls())?;
            if let Some(image) = image.filter(|_| ReplicaId(id) == FIRST) {
                let (mut log, _) = Log::open(data.log(), Options::default())?;
                let origin = Origin { term: Term(1), restore_epoch: RestoreEpoch::after(0, 0) };
                checkpoint::begin_anew(&data, &mut log, image, origin)?;
            }
            let id = ReplicaId(id);
            let address = address(id);
            masters.replicas.push(ReplicaProcess {
                id,
                address,
                directory,
                process: None,
                killed: false,
            });
        }
        // The first one bootstraps the cell, and knows no others yet.
        for replica in masters.replicas.iter().filter(|replica| replica.id != FIRST) {
            let others = masters.replicas.iter().filter(|other| other.id != replica.id);
            let others = others.map(|other| (other.id, other.address.clone()));
            ReplicaIdentity::new(replica.id, others).write(&replica.directory)?;
        }
        let file = CellFile::new(NAME.to_owned(), masters.addresses());
        let user = masters.issue(&Identity::User(NAME.to_owned()))?;
        client::write(&masters.client(), &file, &user)?;
        Ok(masters)
    }

    /// The benchmark's directory.
    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    fn client(&self) -> PathBuf {
        self.directory.join("client")
    }

    /// The addresses of the replicas.
    pub(super) fn addresses(&self) -> Vec<String> {
        self.replicas.iter().map(|replica| replica.address.clone()).collect()
    }

    /// The ids of the replicas.
    pub(super) fn ids(&self) -> Vec<ReplicaId> {
        self.replicas.iter().map(|replica| replica.id).collect()
    }

    /// The certificate of the cell's authority.
    pub(super) fn ca_pem(&self) -> &str {
        self.authority.ca_pem()
    }

    /// Issues a certificate of the cell.
    pub(super) fn issue(&self, identity: &Identity) -> anyhow::Result<Credentials> {
        Ok(self.authority.issue(identity, Validity::lasting(VALIDITY))?)
    }

    /// Starts all replicas, the first one first: it has the cell, and the others wait for it.
    pub(super) fn start(&mut self) -> anyhow::Result<()> {
        let until = Instant::now() + PATIENCE;
        for (id, address) in self.ids().into_iter().zip(self.addresses()) {
            self.start_one(id)?;
            while id == FIRST && TcpStream::connect(&address).is_err() {
                ensure!(Instant::now() < until, "the first master does not listen at {address}");
                std::thread::sleep(POLL_INTERVAL);
            }
        }
        Ok(())
    }

    /// Starts a stopped replica. It is killed when this process ends.
    pub(super) fn start_one(&mut self, id: ReplicaId) -> anyhow::Result<()> {
        let program = std::env::current_exe().context("cannot find this program")?;
        let flags = self.flags.clone();
        let replica = self.replica(id)?;
        if let Some(mut killed) = replica.process.take_if(|_| replica.killed) {
            killed.wait()?;
        }
        ensure!(replica.process.is_none(), "replica {id} is already running");
        let mut command = Command::new(program);
        command.arg("master").arg("--dir").arg(&replica.directory);
        command.args(["--name", NAME, "--administrator", NAME]);
        command.args(["--listen", &replica.address]).args(flags);
        // Its log is not interesting while others are killed.
        command.env(LOG_VARIABLE, "off");
        command.env(PARENT_VARIABLE, std::process::id().to_string());
        command.stdin(Stdio::null()).stdout(Stdio::null());
        replica.process = Some(command.spawn().context("cannot start a master")?);
        replica.killed = false;
        Ok(())
    }

    /// Kills a replica like `kill -9`; returns when that was.
    pub(super) fn kill(&mut self, id: ReplicaId) -> anyhow::Result<Instant> {
        let replica = self.replica(id)?;
        let process = replica.process.as_mut().context("it is not running")?;
        let killed = Instant::now();
        process.kill()?;
        replica.killed = true;
        Ok(killed)
    }

    fn replica(&mut self, id: ReplicaId) -> anyhow::Result<&mut ReplicaProcess> {
        let mut replicas = self.replicas.iter_mut();
        replicas.find(|replica| replica.id == id).with_context(|| format!("no replica {id}"))
    }

    /// Stops all running replicas.
    pub(super) fn stop(&mut self) {
        for replica in &mut self.replicas {
            if let Some(mut process) = replica.process.take() {
                let _gone = process.kill().and_then(|()| process.wait());
            }
        }
    }

    fn pids(&self) -> impl Iterator<Item = u32> {
        self.replicas.iter().filter_map(|replica| replica.process.as_ref()).map(Child::id)
    }

    /// The CPU time of all running replicas.
    pub(super) fn cpu_time(&self) -> anyhow::Result<Duration> {
        self.pids().map(process::cpu_time).sum()
    }

    /// The resident memory of all running replicas, in bytes.
    pub(super) fn resident(&self) -> anyhow::Result<u64> {
        self.pids().map(process::resident).sum()
    }

    /// A connection like that of commands.
    pub(super) fn connect(&self) -> Result<Connection, Failure> {
        let client = self.client();
        Ok(Connection::open(command::target(Some(&client.to_string_lossy()), false))?)
    }

    /// A connection to a single replica, with minimal overhead.
    pub(super) fn link(&self, user: &Rotating, to: ReplicaId) -> anyhow::Result<LeanClient> {
        let replica = self.replicas.iter().find(|replica| replica.id == to);
        let address = &replica.with_context(|| format!("no replica {to}"))?.address;
        let link = rpc::transport::link(address, user, &Expect::Role(Role::Master))?;
        Ok(MasterClient::over(link))
    }

    /// Creates clients of one replica, with enough users to stay below the session limit. A user's
    /// clients share a connection.
    pub(super) fn clients(
        &self,
        to: ReplicaId,
        number: u16,
        share: u16,
    ) -> anyhow::Result<Vec<LeanClient>> {
        let mut clients: Vec<LeanClient> = Vec::new();
        for first in (0..number).step_by(CLIENTS_OF_A_USER.into()) {
            let user = self.issue(&Identity::User(format!("{NAME}-{first}")))?;
            let user = Rotating::new(user)?;
            for place in 0..CLIENTS_OF_A_USER.min(number - first) {
                let last = clients.last().filter(|_| place % share.max(1) > 0);
                clients.push(last.map_or_else(|| self.link(&user, to), |last| Ok(last.clone()))?);
            }
        }
        Ok(clients)
    }

    /// Makes all of them replicas of the cell; returns the leader when all are voters.
    pub(super) async fn form(&self, connection: &mut Connection) -> Result<ReplicaId, Failure> {
        let until = Instant::now() + PATIENCE;
        if self.replicas.len() > 1 {
            let known = listed(connection).await?.replicas.len().max(1);
            for replica in self.replicas.iter().skip(known) {
                let add = Change::Add(replica.address.clone());
                connection.change_replicas(add).await?;
            }
        }
        loop {
            let answer = listed(connection).await?;
            let voters =
                answer.replicas.iter().filter(|replica| replica.member() == v1::MemberState::Voter);
            if answer.leader > 0
                && (self.replicas.len() == 1 || voters.count() >= self.replicas.len())
            {
                return Ok(ReplicaId(answer.leader));
            }
            if Instant::now() > until {
                return Err(Failure::failed("error: the masters did not all become voters"));
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    /// Waits until every replica has caught up with the leader; returns the leader.
    pub(super) async fn agree(&self, connection: &mut Connection) -> Result<ReplicaId, Failure> {
        let until = Instant::now() + PATIENCE;
        loop {
            // A replica may not know yet that the leader is gone.
            let answer = match listed(connection).await {
                Err(error) if Instant::now() > until => return Err(error),
                Err(_) => continue,
                Ok(answer) => answer,
            };
            let has = |replica: &v1::ReplicaStatus| {
                replica.progress.filter(|progress| progress.answers).map(|progress| progress.index)
            };
            let newest = answer.replicas.iter().filter_map(has).max();
            let mut replicas = answer.replicas.iter().map(has);
            let all = answer.replicas.len() == self.replicas.len()
                && replicas.all(|index| index.is_some() && index == newest);
            if answer.leader > 0 && all {
                return Ok(ReplicaId(answer.leader));
            }
            if Instant::now() > until {
                return Err(Failure::failed("error: the masters did not catch up"));
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }
}

/// A client without any buffering between frames.
pub(super) type LeanClient = MasterClient<Link>;

/// The replicas as seen by one of them.
async fn listed(connection: &mut Connection) -> Result<v1::ReplicasResponse, Failure> {
    let request = v1::ReplicasRequest {};
    let asked =
        connection.ask(request, async |mut client, request| client.replicas.list(request).await);
    Ok(asked.await?)
}

/// The address of a replica: on a loopback address unique to this process, so that nothing else
/// listens there. A restarted master keeps its address; meanwhile connections are refused, which an
/// open inherited socket would not do.
fn address(id: ReplicaId) -> String {
    local(7_800 + id.0)
}

/// Such an address.
pub(super) fn local(port: u64) -> String {
    // A process id has at most 22 bits.
    let [_, a, b, c] = std::process::id().to_be_bytes();
    format!("127.{}.{b}.{c}:{port}", 64 | a)
}

impl Drop for Masters {
    fn drop(&mut self) {
        self.stop();
        if let Err(error) = std::fs::remove_dir_all(&self.directory) {
            eprintln!("cannot remove {}: {error}", self.directory.display());
        }
    }
}
