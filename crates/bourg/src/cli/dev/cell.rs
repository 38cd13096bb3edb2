//! A dev cell: its directory, its certificates, its processes.

use std::net::TcpListener;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use model::{CellName, MachineName, ReplicaId, UserName};
use proto::v1;
use proto::v1::change_replicas_request::Change;
use rpc::{Authority, Identity, Validity};
use store::DataDirectory;

use super::ports::{self, Reserved};
use super::supervise::{Process, Processes};
use crate::borglet;
use crate::cli::cells::{self, CellFile, Connection, Target};
use crate::cli::exit::Failure;
use crate::cli::master;
use crate::master::itself::{FIRST, Itself};

/// How a dev cell is made.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    /// Where it is kept; a temporary directory where nothing is said.
    pub(crate) directory: Option<PathBuf>,
    /// Its name.
    pub(crate) name: CellName,
    /// How many replicas its master has; a directory may have more from before.
    pub(crate) replicas: usize,
    /// How much its processes log.
    pub(crate) log: String,
    /// More flags of its master, with their values.
    pub(crate) master: Vec<(&'static str, String)>,
}

/// How long the certificates are valid that a dev cell makes at each start.
const VALIDITY: Duration = Duration::from_secs(30 * 86_400);
/// How long a cell may take until it is ready.
const READY_PATIENCE: Duration = Duration::from_secs(30);
const READY_LOOK: Duration = Duration::from_millis(5);

/// A dev cell, prepared or running.
pub(crate) struct DevCell {
    directory: PathBuf,
    temporary: bool,
    processes: Processes,
    client: PathBuf,
    machine: MachineName,
    borglet: String,
    /// Where its master's replicas answer, by their ids.
    replicas: Vec<(ReplicaId, String)>,
    known: Option<PathBuf>,
    _ports: Reserved,
}

/// A client of a dev cell.
pub(crate) struct Client {
    /// Its client directory.
    pub(crate) directory: PathBuf,
    /// A connection as the user who started it.
    pub(crate) connection: Connection,
    machine: MachineName,
    borglet: String,
    replicas: Vec<(ReplicaId, String)>,
}

impl DevCell {
    /// Makes the directory, the certificates and the sockets.
    pub(crate) fn prepare(options: Options) -> Result<Self, Failure> {
        Ok(Self::prepared(options)?)
    }

    fn prepared(options: Options) -> anyhow::Result<Self> {
        let Options { directory, name, replicas, log, master: more } = options;
        let temporary = directory.is_none();
        let directory = match directory {
            Some(directory) => std::path::absolute(directory)?,
            None => temporary_directory()?,
        };
        let of = |part: &str| directory.join(part);
        for part in ["", "borglet", "scheduler", "client", "run"] {
            std::fs::DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(of(part))
                .with_context(|| format!("cannot make {}", of(part).display()))?;
        }
        let user = user();
        let machine = machine_name();
        let borglet = TcpListener::bind("127.0.0.1:0")?;
        let borglet_address = borglet.local_addr()?.to_string();
        let masters = masters(&directory, replicas)?;
        certify(&directory, &name, &user, &machine, &masters)?;
        let ports = ports::reserve()?;
        let text = |path: PathBuf| path.to_string_lossy().into_owned();
        let flags = |flags: &[(&str, String)]| {
            flags.iter().flat_map(|(flag, value)| [format!("--{flag}"), value.clone()]).collect()
        };
        let master_flags = |directory: &Path| {
            let mut all: Vec<String> = flags(&[
                ("dir", text(directory.to_owned())),
                ("name", name.to_string()),
                ("administrator", user.to_string()),
            ]);
            all.extend(flags(&more));
            all
        };
        let mut borglet_flags: Vec<String> =
            flags(&[("dir", text(of("borglet"))), ("ports", ports.range.to_string())]);
        borglet_flags.push("--stop-tasks".to_owned());
        let mut scheduler_flags: Vec<String> = flags(&[("credentials", text(of("scheduler")))]);
        let run = of("run");
        let mut processes = Vec::new();
        let mut replicas = Vec::new();
        for Replica { id, directory, address, listener } in masters {
            for flags in [&mut scheduler_flags, &mut borglet_flags] {
                flags.extend(["--master".to_owned(), address.clone()]);
            }
            let (flags, name) = (master_flags(&directory), process_name(id));
            processes.push(Process::new("master", &name, flags, Some(listener), &log, &run));
            replicas.push((id, address));
        }
        processes.push(Process::new(
            "borglet",
            "borglet",
            borglet_flags,
            Some(borglet),
            &log,
            &run,
        ));
        processes.push(Process::new("scheduler", "scheduler", scheduler_flags, None, &log, &run));
        let processes = Processes(processes);
        let client = of("client");
        let known = make_known(&name, &client);
        Ok(Self {
            directory,
            temporary,
            processes,
            client,
            machine,
            borglet: borglet_address,
            replicas,
            known,
            _ports: ports,
        })
    }

    /// Starts the processes; they are kept running as long as they are supervised.
    pub(crate) fn start(&mut self) -> Result<(Client, Supervisor<'_>), Failure> {
        self.processes.start()?;
        let client = Client {
            directory: self.client.clone(),
            connection: Connection::open(Target {
                cell: Some(&self.client.to_string_lossy()),
                consistent: false,
            })?,
            replicas: self.replicas.clone(),
            machine: self.machine.clone(),
            borglet: self.borglet.clone(),
        };
        Ok((client, Supervisor(&mut self.processes)))
    }

    /// Stops the cell and its tasks, and removes what was temporary.
    pub(crate) async fn stop(mut self) -> anyhow::Result<()> {
        if let Some(known) = &self.known {
            let _absent = std::fs::remove_file(known);
        }
        self.processes.stop().await?;
        // A Borglet that was dead at that moment has left its tasks running.
        let borglet = self.directory.join("borglet");
        tokio::task::spawn_blocking(move || borglet::end_tasks(&borglet)).await??;
        if self.temporary {
            linux::task::remove_tree(&self.directory)
                .with_context(|| format!("cannot remove {}", self.directory.display()))?;
        }
        Ok(())
    }
}

/// Keeps the processes of a cell running.
pub(crate) struct Supervisor<'a>(&'a mut Processes);

impl Supervisor<'_> {
    /// Returns only when a process cannot be started.
    pub(crate) async fn supervise(&mut self) -> Failure {
        self.0.supervise().await
    }
}

impl Client {
    /// Adds the machine and waits until it is up and a scheduler follows.
    pub(crate) async fn wait_until_ready(&mut self) -> Result<v1::CellStatusResponse, Failure> {
        let until = tokio::time::Instant::now() + READY_PATIENCE;
        let request = v1::AddMachineRequest {
            id: Some(self.connection.request_id().await?),
            name: self.machine.to_string(),
            address: self.borglet.clone(),
        };
        self.connection
            .ask(request, async |mut client, request| client.add_machine(request).await)
            .await?;
        self.add_replicas().await?;
        loop {
            let status = self.connection.cell_status().await?;
            if status.machines_up > 0 && status.schedulers > 0 && self.all_vote().await? {
                return Ok(status);
            }
            if tokio::time::Instant::now() > until {
                return Err(Failure::failed(format!(
                    "error: the cell is not ready after {} s: {} of {} machines are up, {} \
                     schedulers follow",
                    READY_PATIENCE.as_secs(),
                    status.machines_up,
                    status.machines,
                    status.schedulers
                ))
                .next("start it again with --log info"));
            }
            tokio::time::sleep(READY_LOOK).await;
        }
    }
}

impl Client {
    /// Adds the replicas that the cell does not have yet, in the order of their ids.
    async fn add_replicas(&mut self) -> Result<(), Failure> {
        if self.replicas.len() < 2 {
            return Ok(());
        }
        let known = self.replicas().await?;
        for (id, address) in self.replicas.clone() {
            if known.iter().all(|replica| replica.id != id.0) {
                master::change(&mut self.connection, Change::Add(address)).await?;
            }
        }
        Ok(())
    }

    /// Of how many replicas its master is.
    pub(crate) fn masters(&self) -> String {
        match self.replicas.len() {
            1 => "1 master".to_owned(),
            replicas => format!("{replicas} masters"),
        }
    }

    /// Whether every replica has a vote.
    async fn all_vote(&mut self) -> Result<bool, Failure> {
        let wanted = self.replicas.len();
        Ok(wanted < 2
            || self.replicas().await?.iter().filter(|of| of.member == "voter").count() >= wanted)
    }

    async fn replicas(&mut self) -> Result<Vec<v1::ReplicaStatus>, Failure> {
        let answer = self
            .connection
            .ask(v1::ReplicasRequest {}, async |mut client, request| client.replicas(request).await)
            .await?;
        Ok(answer.replicas)
    }
}

/// A replica of the master, prepared.
struct Replica {
    id: ReplicaId,
    directory: PathBuf,
    address: String,
    listener: TcpListener,
}

/// The replicas: as many as are asked for, and those that the directory has from before.
fn masters(directory: &Path, wanted: usize) -> anyhow::Result<Vec<Replica>> {
    let place = |id: u64| match id {
        1 => directory.join("master"),
        id => directory.join(format!("master-{id}")),
    };
    let ids = (1..).take_while(|id| *id <= wanted as u64 || place(*id).exists());
    ids.map(|id| {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?.to_string();
        Ok(Replica { id: ReplicaId(id), directory: place(id), address, listener })
    })
    .collect()
}

/// What a replica's process is called in messages.
fn process_name(id: ReplicaId) -> String {
    match id {
        FIRST => "master".to_owned(),
        id => format!("master-{id}"),
    }
}

/// The cell's authority, made at the first start, and a certificate for everyone.
fn certify(
    directory: &Path,
    name: &CellName,
    user: &UserName,
    machine: &MachineName,
    masters: &[Replica],
) -> anyhow::Result<()> {
    // Locked as long as the authority is made; the master locks it for its whole life.
    let data = DataDirectory::open_or_create(directory.join("master"))?;
    let tls = data.tls();
    let authority = match tls.join("ca.pem").exists() {
        true => Authority::open(&tls)?,
        false => Authority::create(&tls, name.as_str())?,
    };
    anyhow::ensure!(
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
    let addresses = || masters.iter().map(|replica| (replica.id, replica.address.clone()));
    for replica in masters {
        if replica.id != FIRST {
            let data = DataDirectory::open_or_create(&replica.directory)?;
            if !data.tls().join("ca.pem").exists() {
                Authority::copy(&tls, data.tls())?;
            }
        }
        let others = addresses().filter(|(id, _)| *id != replica.id);
        Itself::new(replica.id, others).write(&replica.directory)?;
    }
    let masters = addresses().map(|(_, address)| address).collect();
    let file = CellFile { cell: name.to_string(), masters };
    cells::write(&directory.join("client"), &file, &issue(Identity::User(user.to_string()))?)
}

/// Makes the cell known under its name, so that commands elsewhere find it; not where another
/// cell has that name and still runs.
fn make_known(name: &CellName, client: &Path) -> Option<PathBuf> {
    let cells = cells::known_cells()?;
    std::fs::create_dir_all(&cells).ok()?;
    let known = cells.join(name.as_str());
    if known.is_symlink() && !cells::answers(&known) {
        let _absent = std::fs::remove_file(&known);
    }
    std::os::unix::fs::symlink(client, &known).ok()?;
    Some(known)
}

fn temporary_directory() -> anyhow::Result<PathBuf> {
    let base = std::env::temp_dir();
    for attempt in 0..1_000 {
        let path = base.join(format!("bourg-dev-{}-{attempt}", std::process::id()));
        match std::fs::DirBuilder::new().mode(0o700).create(&path) {
            Ok(()) => return Ok(path),
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(error) => {
                return Err(error).with_context(|| format!("cannot make {}", path.display()));
            }
        }
    }
    anyhow::bail!("cannot find a free name in {}", base.display())
}

/// Who starts the cell: its administrator.
fn user() -> UserName {
    let by_id = nix::unistd::User::from_uid(nix::unistd::getuid()).ok().flatten();
    UserName::nearest(&by_id.map(|user| user.name).unwrap_or_default())
}

fn machine_name() -> MachineName {
    let host = nix::unistd::gethostname().ok();
    let host = host.as_deref().and_then(std::ffi::OsStr::to_str).unwrap_or_default();
    let short = host.split('.').next().unwrap_or_default();
    let near = UserName::nearest(short);
    let name = if short.is_empty() { "machine" } else { near.as_str() };
    MachineName::new(name).unwrap_or_else(|_| unreachable!("a label is a machine's name"))
}
