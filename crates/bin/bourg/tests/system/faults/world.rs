//! A cell on virtual hosts: replicas with a disk each, a scheduler, machines.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use nix::mount::{MntFlags, umount2};
use nix::sys::signal::Signal;
use rpc::{Authority, Credentials, Identity, Validity};
use serde_json::Value;
use store::DataDirectory;

use super::network::{HUB, Host, Network, address};
use super::volume::Volume;
use crate::eventually::{eventually, until};
use crate::processes;
use crate::terminal::{Background, Ended, Terminal};

/// The hosts of the machines and of the scheduler.
pub(crate) const MACHINES: [Host; 2] = [21, 22];
const SCHEDULER: Host = 31;

const PORT: u16 = 7_800;
const DAY: Duration = Duration::from_secs(86_400);
/// A log is kept back to the second newest checkpoint; there is one every 256 MiB.
const DISK_MIB: u64 = 1_536;
const MEMORY_MIB: usize = 12_288;
/// A machine that is slow because of other tests must not count as unreachable.
const MISSED_POLLS: &str = "15";

/// The cell.
pub(crate) struct World {
    /// The intended number of replicas.
    pub(crate) size: usize,
    /// The hosts for them: one more.
    pub(crate) places: Vec<Host>,
    /// The replicas, by host.
    pub(crate) replicas: BTreeMap<Host, Replica>,
    pub(crate) network: Network,
    pub(crate) machines: Vec<Machine>,
    scheduler: Option<Background>,
    /// How often a replica exited by itself.
    pub(crate) ended: Vec<String>,
    /// The flags of its replicas.
    flags: &'static [&'static str],
    terminal: Terminal,
}

/// A replica of the master.
pub(crate) struct Replica {
    pub(crate) id: u64,
    pub(crate) volume: Volume,
    process: Option<Background>,
    stopped: bool,
}

/// A machine with its Borglet.
pub(crate) struct Machine {
    host: Host,
    directory: PathBuf,
    cgroup: String,
    borglet: Option<Background>,
}

impl Machine {
    /// The programs of a job's tasks on it: pid by index.
    pub(crate) fn tasks(&self, job: &str) -> BTreeMap<u32, i32> {
        processes::tasks(&self.cgroup, job)
    }
}

/// The address of a replica on a host.
pub(crate) fn endpoint(host: Host) -> String {
    format!("{}:{PORT}", address(host))
}

impl World {
    /// A running cell, with every replica and machine.
    #[track_caller]
    pub(crate) fn start(size: usize) -> Self {
        Self::start_with(size, &["--missed-polls", MISSED_POLLS])
    }

    /// The same with other flags for its replicas.
    #[track_caller]
    pub(crate) fn start_with(size: usize, flags: &'static [&'static str]) -> Self {
        let mut network = Network::new();
        let places: Vec<Host> = (1..).take(size + 1).collect();
        for host in places.iter().copied().chain(MACHINES).chain([SCHEDULER]) {
            network.add(host);
        }
        let mut terminal = Terminal::new();
        // Everything started ends with the test.
        terminal.set("BOURG_PARENT", std::process::id().to_string().into());
        let log = std::env::var("BOURG_FAULTS_LOG").unwrap_or_else(|_| "warn".to_owned());
        terminal.set("BOURG_LOG", log.into());
        Volume::memory(&terminal.path("disks"), MEMORY_MIB);
        let mut world = Self {
            size,
            places,
            replicas: BTreeMap::new(),
            network,
            machines: Vec::new(),
            scheduler: None,
            ended: Vec::new(),
            flags,
            terminal,
        };
        world.found();
        let others = world.places[1..size].to_vec();
        for place in others {
            world.add(place);
        }
        world.starts_scheduler();
        MACHINES.into_iter().for_each(|host| world.adds_machine(host));
        world.has_voters(size);
        world
    }

    fn found(&mut self) {
        let first = self.places[0];
        let volume = self.volume(first);
        let directory = volume.path().join("data");
        let data = DataDirectory::create(&directory).expect("a data directory");
        let authority = Authority::create(data.tls(), "faults").expect("an authority");
        drop(data);
        let issue = |identity| authority.issue(&identity, Validity::lasting(DAY));
        let client = self.terminal.path("client");
        std::fs::create_dir_all(&client).expect("a directory");
        let masters = self.places.iter().map(|host| format!("'{}'", endpoint(*host)));
        let masters = masters.collect::<Vec<_>>().join(", ");
        let text = format!("cell = 'faults'\nmasters = [{masters}]\n");
        std::fs::write(client.join("cell.toml"), text).expect("it can be written");
        let write = |identity, place: &str, stem: &str| {
            let place = self.terminal.path(place);
            std::fs::create_dir_all(&place).expect("a directory");
            issue(identity).expect("a certificate").write(place, stem).expect("it can be written");
        };
        write(Identity::User("root".to_owned()), "client", "user");
        write(Identity::Scheduler("main".to_owned()), "scheduler", "scheduler");
        for host in MACHINES {
            let name = format!("m{host}");
            write(Identity::Borglet(name.clone()), &name, "borglet");
        }
        std::fs::create_dir_all(self.terminal.path("tls")).expect("a directory");
        Authority::copy(directory.join("tls"), self.terminal.path("tls")).expect("a copy");
        volume.syncs();
        let replica = Replica { id: 1, volume, process: None, stopped: false };
        self.replicas.insert(first, replica);
        self.starts(first);
        until("the cell is bootstrapped", || self.types("bourg cell").code == 0);
    }

    fn volume(&self, host: Host) -> Volume {
        let place = |name: &str| self.terminal.path(name);
        let image = place("disks").join(format!("{host}.img"));
        Volume::new(image, place(&format!("replica-{host}")), DISK_MIB)
    }

    /// Types a command of a user of the cell.
    pub(crate) fn types(&self, line: &str) -> Ended {
        let line = line.replacen("bourg ", "bourg --cell client ", 1);
        self.terminal.types(&line)
    }

    /// The same by a user who knows only one replica.
    pub(crate) fn types_to(&self, host: Host, line: &str) -> Ended {
        let only = self.terminal.path("only");
        std::fs::create_dir_all(&only).expect("a directory");
        self.user().write(&only, "user").expect("it can be written");
        let text = format!("cell = 'faults'\nmasters = ['{}']\nlearn = false\n", endpoint(host));
        std::fs::write(only.join("cell.toml"), text).expect("it can be written");
        self.terminal.types(&line.replacen("bourg ", "exec bourg --cell only ", 1))
    }

    /// The same, repeated until it succeeds.
    #[track_caller]
    pub(crate) fn ok(&self, line: &str) -> String {
        let mut said = String::new();
        eventually(line, || {
            let ended = self.types(line);
            if ended.stderr != said {
                eprintln!("$ {line}\n{}", ended.stderr);
                said.clone_from(&ended.stderr);
            }
            (ended.code == 0).then_some(ended.stdout)
        })
    }

    /// Writes a file where commands find it.
    pub(crate) fn write(&self, name: &str, text: &str) {
        self.terminal.write(name, text);
    }

    /// The credentials of its user.
    pub(crate) fn user(&self) -> Credentials {
        Credentials::read(self.terminal.path("client"), "user").expect("it was written")
    }

    /// Adds a replica with an empty disk on an unused host; returns its id.
    #[track_caller]
    pub(crate) fn add(&mut self, host: Host) -> u64 {
        let id = self.enlists(host);
        self.prepares(host, id);
        id
    }

    /// Adds a replica on a host to the cell.
    #[track_caller]
    pub(crate) fn enlists(&self, host: Host) -> u64 {
        let at = endpoint(host);
        // Repeated if the result is unknown.
        eventually("there is to be another replica", || {
            let known = self.listed().into_iter().find(|replica| replica["address"] == *at);
            let known = known.and_then(|replica| replica["id"].as_str()?.parse().ok());
            known.or_else(|| {
                let _later = self.types(&format!("bourg master add {at}"));
                None
            })
        })
    }

    /// Gives a new replica an empty disk, and starts it.
    #[track_caller]
    pub(crate) fn prepares(&mut self, host: Host, id: u64) {
        let volume = match self.replicas.remove(&host) {
            Some(mut before) => {
                before.volume.replace();
                before.volume
            }
            None => self.volume(host),
        };
        self.replicas.insert(host, Replica { id, volume, process: None, stopped: false });
        self.empties(host);
        self.starts(host);
    }

    /// Replaces a replica's directory by that of a replica that was never started.
    #[track_caller]
    pub(crate) fn empties(&mut self, host: Host) {
        let Replica { id, volume, .. } = &self.replicas[&host];
        let directory = volume.path().join("data");
        let _absent = std::fs::remove_dir_all(&directory);
        let data = DataDirectory::create(&directory).expect("a data directory");
        Authority::copy(self.terminal.path("tls"), data.tls()).expect("a copy");
        drop(data);
        let mut text = format!("id = {id}\n[replicas]\n");
        for (other, replica) in self.replicas.iter().filter(|(other, _)| **other != host) {
            text += &format!("{} = '{}'\n", replica.id, endpoint(*other));
        }
        std::fs::write(directory.join("replica.toml"), text).expect("it can be written");
        volume.syncs();
    }

    /// Gives a replica a copy of the directory of another one, which keeps running.
    #[track_caller]
    pub(crate) fn copies_another(&mut self, host: Host) {
        let other = self.replicas.iter().find(|(other, _)| **other != host);
        let (_, other) = other.expect("there are several");
        self.replicas[&host].volume.becomes_a_copy_of(&other.volume);
    }

    /// Removes a replica from the cell, and stops it.
    #[track_caller]
    pub(crate) fn remove(&mut self, host: Host) {
        let id = self.replicas[&host].id.to_string();
        eventually("the replica is out", || {
            let listed = self.listed();
            if !listed.is_empty() && listed.iter().all(|replica| replica["id"] != *id) {
                return Some(());
            }
            let _later = self.types(&format!("bourg master remove {id}"));
            None
        });
        self.kills(host);
        self.replicas.remove(&host);
    }

    /// Starts the process of a replica.
    #[track_caller]
    pub(crate) fn starts(&mut self, host: Host) {
        let directory = self.replicas[&host].volume.path().join("data");
        let directory = directory.to_string_lossy();
        let (at, namespace) = (endpoint(host), self.network.on(host));
        let flags = ["bourg", "master", "--dir", &*directory, "--name", "faults"];
        let more = ["--administrator", "root", "--listen", &at];
        let kept = ["--history-bytes", "192 MiB", "--events-bytes", "64 MiB"];
        let all = [&[&*namespace][..], &flags, &more, &kept, self.flags].concat();
        let process = self.terminal.start("nsenter", &all);
        self.replica(host).process = Some(process);
    }

    pub(crate) fn replica(&mut self, host: Host) -> &mut Replica {
        self.replicas.get_mut(&host).expect("a replica is there")
    }

    fn signal(&mut self, host: Host, signal: Signal) {
        if let Some(process) = &self.replica(host).process {
            processes::signal(process.pid(), signal);
        }
    }

    /// `kill -9` of a replica.
    pub(crate) fn kills(&mut self, host: Host) {
        self.replica(host).stopped = false;
        self.signal(host, Signal::SIGKILL);
        if let Some(process) = self.replica(host).process.take() {
            process.ends();
        }
    }

    /// Stops a replica in an orderly way.
    #[track_caller]
    pub(crate) fn stops(&mut self, host: Host) -> Ended {
        self.signal(host, Signal::SIGTERM);
        self.replica(host).process.take().expect("it runs").ends()
    }

    /// Pauses a replica, or lets it continue.
    pub(crate) fn freezes(&mut self, host: Host, stops: bool) {
        self.replica(host).stopped = stops;
        self.signal(host, if stops { Signal::SIGSTOP } else { Signal::SIGCONT });
    }

    /// A power failure of some hosts at once: unsynced data on their disks is lost.
    pub(crate) fn loses_power(&mut self, hosts: &[Host]) {
        hosts.iter().for_each(|host| self.freezes(*host, true));
        for host in hosts {
            self.replica(*host).volume.loses_power();
            self.kills(*host);
            self.replica(*host).volume.has_power();
        }
    }

    /// Starts everything that is not running. Processes that exited by themselves are counted.
    pub(crate) fn keeps_running(&mut self) {
        for host in self.replicas.keys().copied().collect::<Vec<_>>() {
            let replica = self.replica(host);
            let code = replica.process.as_mut().map(Background::code);
            match code {
                Some(None) => continue,
                Some(Some(code)) => {
                    let process = replica.process.take().expect("there was one");
                    let said = process.stderr();
                    let said = said.lines().last().unwrap_or_default().to_owned();
                    self.ended.push(format!("a replica ended ({code}): {said}"));
                }
                None => {}
            }
            self.starts(host);
        }
    }

    /// Waits until a replica that cannot continue has exited; returns its output.
    #[track_caller]
    pub(crate) fn says_why(&mut self, host: Host) -> String {
        let process = self.replica(host).process.take().expect("it was started");
        let ended = process.ends();
        assert_eq!(ended.code, 9, "{}", ended.stderr);
        ended.stderr
    }

    /// Waits until a replica has caught up with the others, or has exited; returns its output in
    /// that case.
    #[track_caller]
    pub(crate) fn goes_on_or_says_why(&mut self, host: Host) -> Option<String> {
        eventually("it goes on or ends", || {
            let process = self.replica(host).process.as_mut().expect("it was started");
            if process.code().is_some() {
                return Some(Some(self.says_why(host)));
            }
            let asked = self.types_to(host, "bourg --consistent cell -o index");
            (asked.code == 0).then_some(None)
        })
    }

    /// The cell's replicas as listed; empty if nobody answers.
    pub(crate) fn listed(&self) -> Vec<Value> {
        let told = self.types("bourg master list -o json");
        serde_json::from_str(&told.stdout).unwrap_or_default()
    }

    /// Waits until every other replica has everything that is committed by now.
    #[track_caller]
    pub(crate) fn others_have_all(&self, host: Host) {
        let index = |replica: &Value| replica["progress"]["index"].as_str()?.parse::<u64>().ok();
        let id = self.replicas[&host].id.to_string();
        let listed = || self.listed().into_iter().filter(|replica| replica["id"] != *id);
        let newest = eventually("somebody leads", || listed().filter_map(|of| index(&of)).max());
        until("the others have all of it", || {
            let have: Vec<_> = listed().map(|replica| index(&replica)).collect();
            have.len() + 1 == self.size && have.iter().all(|has| *has >= Some(newest))
        });
    }

    /// Waits until this many replicas vote, and no other is listed.
    #[track_caller]
    pub(crate) fn has_voters(&self, voters: usize) {
        until(&format!("{voters} replicas vote"), || {
            let listed = self.listed();
            listed.len() == voters && listed.iter().all(|replica| replica["member"] == "voter")
        });
    }

    /// The host of the leader, if a replica knows it.
    pub(crate) fn leader(&self) -> Option<Host> {
        let told = self.types("bourg master list").stdout;
        let line = told.lines().find(|line| line.contains(" leads "))?.to_owned();
        let id: u64 = line.split_whitespace().next()?.parse().ok()?;
        self.replicas.iter().find(|(_, replica)| replica.id == id).map(|(host, _)| *host)
    }

    fn starts_scheduler(&mut self) {
        let namespace = self.network.on(SCHEDULER);
        let masters: Vec<String> = self.places.iter().copied().map(endpoint).collect();
        let mut all = vec![&*namespace, "bourg", "scheduler", "--credentials", "scheduler"];
        all.extend(masters.iter().flat_map(|master| ["--master", master]));
        self.scheduler = Some(self.terminal.start("nsenter", &all));
    }

    /// `kill -9` of the scheduler, which is restarted.
    pub(crate) fn kills_scheduler(&mut self) {
        let scheduler = self.scheduler.take().expect("it runs");
        processes::signal(scheduler.pid(), Signal::SIGKILL);
        scheduler.ends();
        self.starts_scheduler();
    }

    #[track_caller]
    fn adds_machine(&mut self, host: Host) {
        let directory = self.terminal.path(&format!("m{host}"));
        let cgroup = linux::cgroup::parent_name(&directory);
        let borglet = Some(self.starts_borglet(host));
        self.machines.push(Machine { host, directory, cgroup, borglet });
        self.ok(&format!("bourg machine add m{host} {}", endpoint(host)));
        until("the machine is up", || {
            self.types(&format!("bourg machine show m{host} -o state")).stdout == "up\n"
        });
    }

    fn starts_borglet(&self, host: Host) -> Background {
        let (namespace, name) = (self.network.on(host), format!("m{host}"));
        let directory = self.terminal.path(&name).to_string_lossy().into_owned();
        let at = endpoint(host);
        let all = ["bourg", "borglet", "--dir", &directory, "--credentials", &directory];
        let more = ["--listen", &at, "--stop-tasks"];
        self.terminal.start("nsenter", &[&[&*namespace][..], &all, &more].concat())
    }

    /// `kill -9` of a machine's Borglet, which is restarted.
    pub(crate) fn kills_borglet(&mut self, which: usize) {
        let machine = &mut self.machines[which];
        let (host, borglet) = (machine.host, machine.borglet.take().expect("it runs"));
        processes::signal(borglet.pid(), Signal::SIGKILL);
        borglet.ends();
        let started = self.starts_borglet(host);
        self.machines[which].borglet = Some(started);
    }

    /// Cuts a replica's host off from others, in one or both directions.
    pub(crate) fn cuts(&mut self, host: Host, from: &[Host], sends: bool, hears: bool) {
        for other in from {
            if sends {
                self.network.cut(host, *other);
            }
            if hears {
                self.network.cut(*other, host);
            }
        }
    }

    /// All hosts except the replicas.
    pub(crate) fn others() -> Vec<Host> {
        MACHINES.into_iter().chain([SCHEDULER, HUB]).collect()
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.network.heal();
        let panics = std::thread::panicking();
        if panics {
            let told = self.types("bourg master list; df -h replica-*; ls -l replica-*/data/*");
            eprintln!("{}{}", told.stdout, told.stderr);
        }
        for (host, replica) in &mut self.replicas {
            if let Some(process) = &replica.process {
                if panics {
                    let said = process.stderr();
                    let last = said.lines().rev().take(20).collect::<Vec<_>>();
                    eprintln!("replica {} on {host} said last:", replica.id);
                    last.iter().rev().for_each(|line| eprintln!("  {line}"));
                }
                processes::signal(process.pid(), Signal::SIGKILL);
            }
        }
        for machine in &mut self.machines {
            if let Some(borglet) = machine.borglet.take() {
                processes::signal(borglet.pid(), Signal::SIGTERM);
                let ends = std::panic::AssertUnwindSafe(|| borglet.ends());
                let _ended = std::panic::catch_unwind(ends);
            }
            let left = processes::left(&machine.cgroup, &machine.directory);
            let cgroups = processes::cgroups(&machine.cgroup);
            left.keys().for_each(|pid| processes::signal(*pid, Signal::SIGKILL));
            assert!(panics || (left.is_empty() && cgroups.is_empty()), "{left:?} {cgroups:?}");
        }
        self.replicas.clear();
        let _gone = umount2(&self.terminal.path("disks"), MntFlags::MNT_DETACH);
    }
}
