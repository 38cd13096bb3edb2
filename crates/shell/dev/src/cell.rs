//! A dev cell: directory, certificates and processes.

use std::net::SocketAddr;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Context;
use api::v1;
use client::Connection;
use client::known::Registration;
use command::Failure;
use model::{CellName, MachineName, Resources, UserName};

use super::addresses::Addresses;
use super::machines::{self, DevMachine};
use super::names::process_name;
use super::replicas::{self, Replica, Replicas, Spare};
use super::reserved::{self, Reserved};
use super::supervise::{BORGLET, Process, Processes, pid_file, remove_leftovers};

/// Options of a dev cell.
#[derive(Clone, Debug)]
pub struct Options {
    /// The cell's directory; a temporary one if `None`.
    pub directory: Option<PathBuf>,
    /// The cell's name.
    pub name: CellName,
    /// The number of replicas of the master; an existing directory may have more.
    pub replicas: usize,
    /// The number of machines; as many as the directory has if `None`, and one for a new cell.
    pub machines: Option<u8>,
    /// The log level of its processes.
    pub log: String,
    /// Additional flags of the master, with their values.
    pub master: Vec<(&'static str, String)>,
}

/// How long the cell may take to become ready.
const READY_PATIENCE: Duration = Duration::from_secs(30);
const READY_LOOK: Duration = Duration::from_millis(5);

/// A dev cell, prepared or running.
pub struct DevCell {
    directory: PathBuf,
    temporary: bool,
    processes: Processes,
    client: PathBuf,
    machines: Vec<DevMachine>,
    /// The address of each machine's Borglet.
    borglets: Vec<String>,
    /// The replicas of its master; taken by `start`.
    replicas: Option<Replicas>,
    /// Where its first replica serves DNS.
    dns: Option<Reserved>,
    /// Where its replicas serve Sigma.
    sigma: Vec<Reserved>,
    known: Option<Registration>,
}

/// A machine of a dev cell.
#[derive(Clone, Debug)]
pub(super) struct Member {
    pub(super) name: MachineName,
    /// The address of its Borglet.
    address: String,
    /// The file with the pid of its Borglet.
    pub(super) pid_file: PathBuf,
    /// What it has of this host; `None` if it has all of it.
    pub(super) share: Option<Resources>,
}

/// A client of a dev cell.
pub struct Client {
    /// The client directory.
    pub directory: PathBuf,
    /// A connection as the user who started the cell.
    pub connection: Connection,
    machines: Vec<Member>,
    replicas: Replicas,
    /// Where DNS is served.
    pub(super) dns: Option<SocketAddr>,
    /// Where its first replica serves Sigma.
    pub(super) sigma: Option<SocketAddr>,
    /// Whether the cell was ready once.
    is_ready: Arc<AtomicBool>,
}

impl DevCell {
    /// Creates the directory, the certificates and the sockets.
    pub fn prepare(options: Options) -> Result<Self, Failure> {
        Ok(Self::prepared(options)?)
    }

    fn prepared(options: Options) -> anyhow::Result<Self> {
        let Options { directory, name, replicas, machines, log, master: more } = options;
        let temporary = directory.is_none();
        let directory = directory.map(std::path::absolute).transpose()?;
        // Before anything is created: this host may have too little for that many.
        let machines = machines::plan(directory.as_deref(), machines)?;
        let directory = directory.map_or_else(temporary_directory, Ok)?;
        let of = |part: &str| directory.join(part);
        let borglets = machines.iter().map(|machine| machine.borglet.as_str());
        for part in ["", "scheduler", "packages", "client", "run"].into_iter().chain(borglets) {
            std::fs::DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(of(part))
                .with_context(|| format!("cannot create {}", of(part).display()))?;
        }
        let user = user();
        let mut kept = Addresses::of((!temporary).then_some(&directory))?;
        let (masters, spare) = replicas::prepare(&directory, replicas, &mut kept)?;
        let mut listeners = Vec::new();
        let mut borglets = Vec::new();
        for machine in &machines {
            let listener = kept.listen_somewhere(&machine.borglet)?;
            borglets.push(listener.local_addr()?.to_string());
            listeners.push(listener);
        }
        let addresses: Vec<_> = masters.iter().map(|master| master.address.clone()).collect();
        let addresses =
            [addresses, spare.iter().map(|spare| spare.address.clone()).collect()].concat();
        let tls = replicas::certify(&directory, &name, &user, &machines, &masters)?;
        let text = |path: PathBuf| path.to_string_lossy().into_owned();
        let flags = |flags: &[(&str, String)]| {
            flags.iter().flat_map(|(flag, value)| [format!("--{flag}"), value.clone()]).collect()
        };
        let mut master_flags: Vec<String> =
            flags(&[("name", name.to_string()), ("administrator", user.to_string())]);
        master_flags.extend(flags(&more));
        // A replica whose directory was deleted is replaced by a new one.
        master_flags.push("--existing".to_owned());
        let store = kept.listen_somewhere("packages")?;
        let packages = of("packages");
        let mut packages_flags: Vec<String> = flags(&[
            ("dir", text(packages.join("store"))),
            ("credentials", text(packages)),
            ("address", store.local_addr()?.to_string()),
        ]);
        let mut scheduler_flags: Vec<String> = flags(&[("credentials", text(of("scheduler")))]);
        let run = of("run");
        let mut processes = Vec::new();
        let alone = addresses.len() == 1;
        let dns = reserved::reserve(reserved::DNS);
        let sigma: Vec<_> = std::iter::repeat_with(|| reserved::reserve(reserved::SIGMA))
            .take(masters.len() + spare.len())
            .flatten()
            .collect();
        let mut pages = sigma.iter().map(|reserved| reserved.address);
        let mut present = Vec::new();
        for Replica { id, directory, address, listener } in masters {
            let (name, mut arguments) =
                (process_name(id), replicas::arguments(&master_flags, &directory));
            if let Some(dns) = dns.as_ref().filter(|_| present.is_empty()) {
                arguments.extend(flags(&[("dns", dns.address.to_string())]));
            }
            if let Some(address) = pages.next() {
                arguments.extend(flags(&[("sigma", address.to_string())]));
            }
            let process = Process::new("master", &name, arguments, Some(listener), &log, &run);
            processes.push(process.alone(alone));
            for flags in [&mut scheduler_flags, &mut packages_flags] {
                flags.extend(["--master".to_owned(), address.clone()]);
            }
            present.push((id, address));
        }
        let mut to_begin = Vec::new();
        for Spare { address, listener } in spare {
            let (process, begin) = Process::waiting("master", listener, &log, &run);
            processes.push(process);
            to_begin.push((address, begin));
        }
        let replicas = Replicas {
            directory: directory.clone(),
            tls,
            flags: master_flags,
            pages: pages.collect(),
            present,
            to_begin,
            addresses: kept,
        };
        for (machine, listener) in machines.iter().zip(listeners) {
            let (name, flags) = (&machine.borglet, machine.flags(&directory, &addresses));
            let borglet = Process::new(BORGLET, name, flags, Some(listener), &log, &run);
            processes.push(borglet.inheriting("--ports-lock-fd", machine.ports_lock()?));
        }
        processes.push(Process::new("scheduler", "scheduler", scheduler_flags, None, &log, &run));
        let store = Process::new("packages", "packages", packages_flags, Some(store), &log, &run);
        processes.push(store);
        let processes = Processes(processes);
        let client = of("client");
        let known = Registration::new(name.as_str(), &client);
        Ok(Self {
            directory,
            temporary,
            processes,
            client,
            machines,
            borglets,
            replicas: Some(replicas),
            dns,
            sigma,
            known,
        })
    }

    /// The name by which other commands find the cell; `None` if it could not be registered.
    pub fn known_as(&self) -> Option<String> {
        self.known.as_ref().map(Registration::name)
    }

    /// Starts the processes. They are restarted as long as `Supervisor::supervise` runs.
    pub fn start(&mut self) -> Result<(Client, Supervisor<'_>), Failure> {
        remove_leftovers(&self.directory.join("run"));
        self.processes.start()?;
        let is_ready = Arc::new(AtomicBool::new(false));
        let client = Client {
            is_ready: Arc::clone(&is_ready),
            directory: self.client.clone(),
            connection: connect(&self.client)?,
            replicas: self
                .replicas
                .take()
                .ok_or_else(|| Failure::failed("the cell is already running"))?,
            machines: self.members(),
            dns: self.dns.as_ref().map(|dns| dns.address),
            sigma: self.sigma.first().map(|sigma| sigma.address),
        };
        Ok((client, Supervisor { processes: &mut self.processes, is_ready }))
    }

    fn members(&self) -> Vec<Member> {
        let run = self.directory.join("run");
        let member = |(machine, address): (&DevMachine, &String)| Member {
            name: machine.name.clone(),
            address: address.clone(),
            pid_file: pid_file(&run, &machine.borglet),
            share: machine.share.as_ref().map(|share| share.resources),
        };
        self.machines.iter().zip(&self.borglets).map(member).collect()
    }

    /// Stops the cell and its tasks, and removes temporary files.
    pub async fn stop(mut self) -> anyhow::Result<()> {
        self.known.iter().for_each(Registration::end);
        self.processes.stop().await?;
        // A Borglet that was not running at that moment left its tasks running.
        for machine in &self.machines {
            let borglet = machine.directory(&self.directory);
            tokio::task::spawn_blocking(move || borgletd::end_tasks(&borglet)).await??;
        }
        if self.temporary {
            linux::tree::remove_tree(&self.directory)
                .with_context(|| format!("cannot remove {}", self.directory.display()))?;
        }
        Ok(())
    }
}

fn connect(client: &Path) -> Result<Connection, Failure> {
    Ok(Connection::open(command::target(Some(&client.to_string_lossy()), false))?)
}

/// Keeps the processes of a cell running.
pub struct Supervisor<'a> {
    processes: &'a mut Processes,
    is_ready: Arc<AtomicBool>,
}

impl Supervisor<'_> {
    /// Returns only if a process cannot be started.
    pub async fn supervise(&mut self) -> Failure {
        self.processes.supervise(&self.is_ready).await
    }
}

impl Client {
    /// Adds the machines and waits until they are up and a scheduler is connected.
    pub async fn wait_until_ready(&mut self) -> Result<v1::CellStatusResponse, Failure> {
        let until = tokio::time::Instant::now() + READY_PATIENCE;
        // A restored replica first checks whether it may start.
        self.connection.set_unanswered_patience(READY_PATIENCE);
        for machine in &self.machines {
            let request = v1::AddMachineRequest {
                id: Some(self.connection.request_id().await?),
                name: machine.name.to_string(),
                address: machine.address.clone(),
            };
            self.connection
                .ask(request, async |mut client, request| client.machines.add(request).await)
                .await?;
        }
        self.replicas.grow(&mut self.connection).await?;
        self.connection = connect(&self.directory)?;
        let (mut heard, mut followed) = (0, false);
        let machines = self.machines.len();
        loop {
            let status = self.connection.cell_status().await?;
            // The state of a machine that has not answered yet may be outdated: its tasks may be
            // gone. Only the leader knows which machines have answered, and only it counts
            // schedulers.
            heard = heard.max(status.machines_heard as usize);
            followed |= status.schedulers > 0;
            // What a machine reports is in the cell only when it is up.
            let up = status.machines_up as usize >= machines;
            if heard >= machines
                && up
                && followed
                && self.replicas.all_vote(&mut self.connection).await?
            {
                self.can_run_tasks().await?;
                self.is_ready.store(true, Ordering::Relaxed);
                return Ok(status);
            }
            self.connection.elsewhere();
            if tokio::time::Instant::now() > until {
                return Err(Failure::failed(format!(
                    "error: the cell is not ready after {} s: {}, and {}",
                    READY_PATIENCE.as_secs(),
                    match (machines, heard) {
                        (1, 0) => "its machine does not answer".to_owned(),
                        (1, _) => "its machine answers".to_owned(),
                        (all, heard) => format!("{} of its {all} machines answer", heard.min(all)),
                    },
                    match followed {
                        true => "a replica is not a voter yet",
                        false => "no scheduler is connected",
                    }
                ))
                .next("start it again with --log info"));
            }
            tokio::time::sleep(READY_LOOK).await;
        }
    }
}

impl Client {
    /// Fails if none of the machines can run tasks.
    async fn can_run_tasks(&mut self) -> Result<(), Failure> {
        let request = v1::MachinesRequest::default();
        let ask = self
            .connection
            .ask(request, async |mut client, request| client.machines.list(request).await);
        let machines = ask.await?.machines;
        let why = |machine: &v1::MachineStatus| machine.report.as_ref()?.not_ready.clone();
        let not_ready: Vec<String> = machines.iter().filter_map(why).collect();
        match not_ready.first() {
            Some(reason) if not_ready.len() == machines.len() => Err(Failure::failed(format!(
                "error: this machine can run no tasks: {}",
                reason.escape_debug()
            ))),
            _ => Ok(()),
        }
    }

    /// The number of masters, in words.
    pub fn masters(&self) -> String {
        match self.replicas.count() {
            1 => "1 master".to_owned(),
            replicas => format!("{replicas} masters"),
        }
    }

    /// Its machines.
    pub(super) fn machines(&self) -> &[Member] {
        &self.machines
    }
}

fn temporary_directory() -> anyhow::Result<PathBuf> {
    let base = std::env::temp_dir();
    for attempt in 0..1_000 {
        let path = base.join(format!("bourg-dev-{}-{attempt}", std::process::id()));
        match std::fs::DirBuilder::new().mode(0o700).create(&path) {
            Ok(()) => return Ok(path),
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(error) => {
                return Err(error).with_context(|| format!("cannot create {}", path.display()));
            }
        }
    }
    anyhow::bail!("no free name in {}", base.display())
}

/// The user who starts the cell, its administrator.
fn user() -> UserName {
    let by_id = nix::unistd::User::from_uid(nix::unistd::getuid()).ok().flatten();
    UserName::nearest(&by_id.map(|user| user.name).unwrap_or_default())
}
