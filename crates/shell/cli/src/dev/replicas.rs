//! The replicas of a dev cell's master: their directories, and how the cell gets as many as it is to
//! have. A replica whose directory is gone is not made anew: it is removed, and another one is added.

use std::collections::BTreeSet;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, ensure};
use client::{CELL_FILE, CellFile, Connection};
use masterd::itself::{FIRST, Itself};
use model::{CellName, MachineName, ReplicaId, UserName};
use proto::v1;
use proto::v1::change_replicas_request::Change;
use rpc::{Authority, Identity, Validity};
use store::DataDirectory;
use tokio::sync::oneshot;

use super::addresses::Addresses;
use super::supervise::Begin;
use crate::exit::Failure;
use crate::master;

/// How long the certificates are valid that a dev cell makes at each start.
const VALIDITY: Duration = Duration::from_secs(30 * 86_400);
/// The first one's process, and how the names of all begin.
pub(super) const MASTER: &str = "master";
/// How the directories of replicas but the first begin.
const OTHERS: &str = "master-";

/// A replica whose directory is there.
pub(super) struct Replica {
    pub(super) id: ReplicaId,
    pub(super) directory: PathBuf,
    pub(super) address: String,
    pub(super) listener: TcpListener,
}

/// A place for a replica that the cell does not have yet.
pub(super) struct Spare {
    pub(super) address: String,
    pub(super) listener: TcpListener,
}

/// The replicas that run, and those that may be added.
pub(super) struct Replicas {
    /// That of the dev cell.
    pub(super) directory: PathBuf,
    /// Where the cell's authority is.
    pub(super) tls: PathBuf,
    /// The flags of every master.
    pub(super) flags: Vec<String>,
    /// Where those answer whose directories are there.
    pub(super) present: Vec<(ReplicaId, String)>,
    /// Where others will, and how to begin them.
    pub(super) to_begin: Vec<(String, oneshot::Sender<Begin>)>,
    pub(super) addresses: Addresses,
}

fn place(directory: &Path, id: ReplicaId) -> PathBuf {
    match id {
        FIRST => directory.join("master"),
        id => directory.join(format!("{OTHERS}{id}")),
    }
}

/// What a replica's process is called in messages and in the file of addresses.
pub(super) fn process_name(id: ReplicaId) -> String {
    match id {
        FIRST => MASTER.to_owned(),
        id => format!("{OTHERS}{id}"),
    }
}

/// The arguments of a master in a directory.
pub(super) fn arguments(flags: &[String], directory: &Path) -> Vec<String> {
    let directory = directory.to_string_lossy().into_owned();
    [flags, &["--dir".to_owned(), directory]].concat()
}

/// The replicas whose directories are there, the first one of a new cell included, and places for as
/// many as are missing.
pub(super) fn prepare(
    directory: &Path,
    wanted: usize,
    addresses: &mut Addresses,
) -> anyhow::Result<(Vec<Replica>, Vec<Spare>)> {
    let there = there(directory)?;
    let before = before(directory).max(there.len());
    let ids = if before == 0 { [FIRST].into() } else { there };
    let shown = directory.display();
    ensure!(
        !ids.is_empty(),
        "{shown} held a cell, and no directory of its master is there any more: give another directory, or \
         remove {shown} to begin with an empty one"
    );
    let restored = ids
        .iter()
        .any(|id| Itself::read(&place(directory, *id)).is_ok_and(|itself| itself.is_restored()));
    let any = ids.first().map(|id| place(directory, *id)).unwrap_or_default();
    ensure!(
        restored || ids.len() * 2 > before,
        "of the {before} replicas of this cell's master {} are left in {shown}, and a majority is needed. \
         To go on from what one of them has, alone: bourg master restore --dir {}",
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
    for _ in ids.len()..wanted.max(before) {
        let is_here = |name: &str| ids.iter().any(|id| process_name(*id) == name);
        let listener = addresses.listen_instead(is_here)?;
        spare.push(Spare { address: listener.local_addr()?.to_string(), listener });
    }
    Ok((present, spare))
}

/// How many replicas the cell of this directory had when it was last started; none where it is new.
fn before(directory: &Path) -> usize {
    let text = std::fs::read_to_string(directory.join("client").join(CELL_FILE));
    let file = text.ok().and_then(|text| toml::from_str::<CellFile>(&text).ok());
    file.map_or(0, |file| file.masters.len())
}

/// The replicas whose directories are there.
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

/// The cell's authority, made at the first start, and a certificate for everyone. Where it is.
pub(super) fn certify(
    directory: &Path,
    (name, user, machine): (&CellName, &UserName, &MachineName),
    masters: &[Replica],
) -> anyhow::Result<PathBuf> {
    let first = masters.first().context("a master has a replica")?;
    // Locked as long as the authority is made; the master locks it for its whole life.
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
    issue(Identity::Borglet(machine.to_string()))?.write(directory.join("borglet"), "borglet")?;
    issue(Identity::Scheduler("main".to_owned()))?
        .write(directory.join("scheduler"), "scheduler")?;
    for replica in masters {
        let others = masters.iter().filter(|other| other.id != replica.id);
        let others = others.map(|other| (other.id, other.address.clone()));
        match Itself::read(&replica.directory) {
            // It looks first whether the others are gone.
            Ok(itself) if itself.is_restored() => {}
            // The master says what is wrong with it, or that it is of another replica.
            Err(_) => {}
            Ok(itself) if itself.id() != replica.id => {}
            Ok(_) => Itself::new(replica.id, others).write(&replica.directory)?,
        }
    }
    let addresses = masters.iter().map(|replica| replica.address.clone());
    let file = CellFile { cell: name.to_string(), masters: addresses.collect() };
    client::write(&directory.join("client"), &file, &issue(Identity::User(user.to_string()))?)?;
    Ok(tls)
}

impl Replicas {
    /// How many there are, or are to be.
    pub(super) fn count(&self) -> usize {
        self.present.len() + self.to_begin.len()
    }

    /// Brings the cell to as many replicas as it is to have. Those whose directories are gone leave it.
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
                "replica {gone} has no directory any more ({}): another one takes its place",
                place.display()
            );
            master::change(connection, Change::Remove(gone)).await?;
        }
        for (address, begin) in std::mem::take(&mut self.to_begin) {
            let added = master::change(connection, Change::Add(address.clone())).await?;
            let id = ReplicaId(added.replica);
            let arguments = self.make(id)?;
            self.addresses.keep_as(process_name(id), &address)?;
            self.present.push((id, address));
            // Where nobody waits for it, the cell ends.
            let _gone = begin.send(Begin { name: process_name(id), arguments });
        }
        let (file, _) = connection.cell_file();
        let addresses = self.present.iter().map(|(_, address)| address.clone());
        let file = CellFile { masters: addresses.collect(), ..file };
        Ok(client::write_file(&self.directory.join("client"), &file)?)
    }

    /// Makes the directory of a replica that was added, and says how it is started.
    fn make(&self, id: ReplicaId) -> anyhow::Result<Vec<String>> {
        let directory = place(&self.directory, id);
        let data = DataDirectory::open_or_create(&directory)?;
        if !data.tls().join("ca.pem").exists() {
            Authority::copy(&self.tls, data.tls())?;
        }
        Itself::new(id, self.present.iter().cloned()).write(&directory)?;
        Ok(arguments(&self.flags, &directory))
    }

    /// Whether every replica has a vote.
    pub(super) async fn all_vote(&self, connection: &mut Connection) -> Result<bool, Failure> {
        let wanted = self.count();
        if wanted < 2 {
            return Ok(true);
        }
        let recorded = recorded(connection).await?;
        let votes = |replica: &&v1::ReplicaStatus| {
            replica.member() == v1::MemberState::Voter && !replica.leaving
        };
        Ok(recorded.iter().filter(votes).count() >= wanted)
    }
}

async fn recorded(connection: &mut Connection) -> Result<Vec<v1::ReplicaStatus>, Failure> {
    let request = v1::ReplicasRequest {};
    let asked = connection.ask(request, async |mut client, request| client.replicas(request).await);
    Ok(asked.await?.replicas)
}
