//! The replicas of a dev cell's master: creates their directories and grows the cell to the
//! requested number. A replica whose directory is gone is not recreated: it is removed, and a new
//! one is added.

use std::collections::BTreeSet;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, ensure};
use api::v1;
use api::v1::change_replicas_request::Change;
use client::{CELL_FILE, CellFile, Connection};
use command::Failure;
use masterd::identity::{FIRST, ReplicaIdentity};
use model::{CellName, ReplicaId, UserName};
use rpc::{Authority, Identity, Validity};
use store::DataDirectory;
use tokio::sync::oneshot;

use super::addresses::Addresses;
use super::machines::DevMachine;
use super::names::{OTHERS, process_name};
use super::supervise::Begin;

/// The validity of the certificates that a dev cell issues at each start.
const VALIDITY: Duration = Duration::from_secs(30 * 86_400);

/// A replica with a directory.
pub(super) struct Replica {
    pub(super) id: ReplicaId,
    pub(super) directory: PathBuf,
    pub(super) address: String,
    pub(super) listener: TcpListener,
}

/// A slot for a replica that the cell does not have yet.
pub(super) struct Spare {
    pub(super) address: String,
    pub(super) listener: TcpListener,
}

/// The running replicas and the slots for new ones.
pub(super) struct Replicas {
    /// The directory of the dev cell.
    pub(super) directory: PathBuf,
    /// The directory of the cell's authority.
    pub(super) tls: PathBuf,
    /// The flags of every master.
    pub(super) flags: Vec<String>,
    /// Where new replicas serve Sigma.
    pub(super) pages: Vec<SocketAddr>,
    /// The replicas that have directories, with their addresses.
    pub(super) present: Vec<(ReplicaId, String)>,
    /// The addresses for new replicas, and the channels that start them.
    pub(super) to_begin: Vec<(String, oneshot::Sender<Begin>)>,
    pub(super) addresses: Addresses,
}

fn place(directory: &Path, id: ReplicaId) -> PathBuf {
    match id {
        FIRST => directory.join("master"),
        id => directory.join(format!("{OTHERS}{id}")),
    }
}

/// The arguments of a master with this directory.
pub(super) fn arguments(flags: &[String], directory: &Path) -> Vec<String> {
    let directory = directory.to_string_lossy().into_owned();
    [flags, &["--dir".to_owned(), directory]].concat()
}

/// Finds the replicas that have directories, including the first one of a new cell, and creates
/// slots for the missing ones.
pub(super) fn prepare(
    directory: &Path,
    requested: usize,
    addresses: &mut Addresses,
) -> anyhow::Result<(Vec<Replica>, Vec<Spare>)> {
    let there = there(directory)?;
    let before = before(directory).max(there.len());
    let ids = if before == 0 { [FIRST].into() } else { there };
    let shown = directory.display();
    ensure!(
        !ids.is_empty(),
        "{shown} belongs to a cell whose master directories are all gone: use another directory, or \
         remove {shown} to start with an empty cell"
    );
    let restored = ids.iter().any(|id| {
        ReplicaIdentity::read(&place(directory, *id)).is_ok_and(|itself| itself.is_restored())
    });
    let any = ids.first().map(|id| place(directory, *id)).unwrap_or_default();
    ensure!(
        restored || ids.len() * 2 > before,
        "only {} of the {before} replicas of this cell's master are left in {shown}; a majority is needed. \
         To continue from the state of one of them: bourg master restore --dir {}",
        ids.len(),
        any.display()
    );
    let mut present = Vec::new();
    for id in &ids {
        let listener = addresses.listen(&process_name(*id))?;
        let (directory, address) = (place(directory, *id), listener.local_addr()?.to_string());
        present.push(Replica { id: *id, directory, address, listener });
    }
    let mut spare = Vec::new();
    for _ in ids.len()..requested.max(before) {
        let is_here = |name: &str| ids.iter().any(|id| process_name(*id) == name);
        let listener = addresses.listen_instead(is_here)?;
        spare.push(Spare { address: listener.local_addr()?.to_string(), listener });
    }
    Ok((present, spare))
}

/// The number of replicas when the cell was last started; 0 for a new cell.
fn before(directory: &Path) -> usize {
    let text = std::fs::read_to_string(directory.join("client").join(CELL_FILE));
    let file = text.ok().and_then(|text| toml::from_str::<CellFile>(&text).ok());
    file.map_or(0, |file| file.masters.len())
}

/// The replicas that have directories.
fn there(directory: &Path) -> anyhow::Result<BTreeSet<ReplicaId>> {
    let mut ids = BTreeSet::new();
    for entry in std::fs::read_dir(directory)? {
        let name = entry?.file_name();
        let id = match name.to_str() {
            Some("master") => Some(FIRST),
            Some(name) => name.strip_prefix(OTHERS).and_then(|id| id.parse().ok()).map(ReplicaId),
            None => None,
        };
        ids.extend(id.filter(|id| place(directory, *id).join("tls/ca.pem").exists()));
    }
    Ok(ids)
}

/// Creates the cell's authority at the first start, and issues all certificates. Returns the
/// authority's directory.
pub(super) fn certify(
    directory: &Path,
    name: &CellName,
    user: &UserName,
    machines: &[DevMachine],
    masters: &[Replica],
) -> anyhow::Result<PathBuf> {
    let first = masters.first().context("a master has at least one replica")?;
    // Locked while the authority is created; the master holds the lock while it runs.
    let data = DataDirectory::open_or_create(&first.directory)?;
    let tls = data.tls();
    let authority = match tls.join("ca.pem").exists() {
        true => Authority::open(&tls)?,
        false => Authority::create(&tls, name.as_str())?,
    };
    ensure!(
        authority.cell() == name.as_str(),
        "{} holds cell {}: start it with --name {}",
        directory.display(),
        authority.cell(),
        authority.cell()
    );
    let issue = |identity| authority.issue(&identity, Validity::lasting(VALIDITY));
    for machine in machines {
        issue(Identity::Borglet(machine.name.to_string()))?
            .write(machine.directory(directory), "borglet")?;
    }
    issue(Identity::Scheduler("main".to_owned()))?
        .write(directory.join("scheduler"), "scheduler")?;
    issue(Identity::Packages("main".to_owned()))?.write(directory.join("packages"), "packages")?;
    for replica in masters {
        let others = masters.iter().filter(|other| other.id != replica.id);
        let others = others.map(|other| (other.id, other.address.clone()));
        match ReplicaIdentity::read(&replica.directory) {
            // A restored replica first checks whether the others are gone.
            Ok(itself) if itself.is_restored() => {}
            // The master reports a damaged identity, or one of another replica.
            Err(_) => {}
            Ok(itself) if itself.id() != replica.id => {}
            Ok(_) => ReplicaIdentity::new(replica.id, others).write(&replica.directory)?,
        }
    }
    let addresses = masters.iter().map(|replica| replica.address.clone());
    let file = CellFile::new(name.to_string(), addresses.collect());
    client::write(&directory.join("client"), &file, &issue(Identity::User(user.to_string()))?)?;
    Ok(tls)
}

impl Replicas {
    /// The number of replicas, present and planned.
    pub(super) fn count(&self) -> usize {
        self.present.len() + self.to_begin.len()
    }

    /// Grows the cell to the requested number of replicas, and removes those whose directories are
    /// gone.
    pub(super) async fn grow(&mut self, connection: &mut Connection) -> Result<(), Failure> {
        if self.to_begin.is_empty() {
            return Ok(());
        }
        let recorded = recorded(connection).await?;
        let is_here = |id: u64| self.present.iter().any(|(present, _)| present.0 == id);
        let gone = recorded.iter().filter(|replica| !replica.leaving && !is_here(replica.id));
        for gone in gone.map(|replica| replica.id) {
            let place = place(&self.directory, ReplicaId(gone));
            eprintln!(
                "the directory of replica {gone} is gone ({}): replacing the replica",
                place.display()
            );
            connection.change_replicas(Change::Remove(gone)).await?;
        }
        for (address, begin) in std::mem::take(&mut self.to_begin) {
            let added = connection.change_replicas(Change::Add(address.clone())).await?;
            let id = ReplicaId(added.replica);
            let arguments = self.make(id)?;
            self.addresses.keep_as(process_name(id), &address)?;
            self.present.push((id, address));
            // The receiver is gone only if the cell is stopping.
            let _gone = begin.send(Begin { name: process_name(id), arguments });
        }
        let (file, _) = connection.cell_file();
        let addresses = self.present.iter().map(|(_, address)| address.clone());
        let file = CellFile { masters: addresses.collect(), ..file };
        Ok(client::write_file(&self.directory.join("client"), &file)?)
    }

    /// Creates the directory of a new replica; returns the arguments that start it.
    fn make(&mut self, id: ReplicaId) -> anyhow::Result<Vec<String>> {
        let directory = place(&self.directory, id);
        let data = DataDirectory::open_or_create(&directory)?;
        if !data.tls().join("ca.pem").exists() {
            Authority::copy(&self.tls, data.tls())?;
        }
        ReplicaIdentity::new(id, self.present.iter().cloned()).write(&directory)?;
        let mut arguments = arguments(&self.flags, &directory);
        if let Some(address) = self.pages.pop() {
            arguments.extend(["--sigma".to_owned(), address.to_string()]);
        }
        Ok(arguments)
    }

    /// Whether enough replicas are voters.
    pub(super) async fn all_vote(&self, connection: &mut Connection) -> Result<bool, Failure> {
        let requested = self.count();
        if requested < 2 {
            return Ok(true);
        }
        let recorded = recorded(connection).await?;
        let votes = |replica: &&v1::ReplicaStatus| {
            replica.member() == v1::MemberState::Voter && !replica.leaving
        };
        Ok(recorded.iter().filter(votes).count() >= requested)
    }
}

async fn recorded(connection: &mut Connection) -> Result<Vec<v1::ReplicaStatus>, Failure> {
    let request = v1::ReplicasRequest {};
    let answer =
        connection.ask(request, async |mut client, request| client.replicas.list(request).await);
    Ok(answer.await?.replicas)
}
