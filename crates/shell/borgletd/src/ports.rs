//! Finds out which programs use ports of the machine's range: every second, and when a start finds
//! a port in use. The Borglet decides what follows ([`borglet::HeldPort`]).

use std::collections::HashMap;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::{Duration, Instant};

use borglet::{HeldPort, Holder, Input};
use linux::Isolation;
use linux::ports::{Process, Socket};
use model::{InstanceId, PortRange};
use tokio::sync::mpsc;
use tokio::time::MissedTickBehavior;

use super::message::Message;
use super::tasks::Files;

/// The interval between queries of the kernel.
const INTERVAL: Duration = Duration::from_secs(1);
/// How long the owner of a socket is cached: a process may pass it to another.
const BELIEVED_FOR: Duration = Duration::from_secs(30);
/// The holder of a port that belongs to no process visible to the Borglet.
const UNSEEN: &str = "a program that the Borglet cannot see";

/// Watches forever, and reports to the driver.
pub(crate) async fn watch(files: Files, range: PortRange, to_driver: mpsc::Sender<Message>) {
    let mut watcher = Watcher { files, range: range.first..=range.last, known: HashMap::new() };
    let mut interval = tokio::time::interval(INTERVAL);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut failing = false;
    loop {
        interval.tick().await;
        let look = move || {
            let held = watcher.look(Instant::now());
            (watcher, held)
        };
        let Ok((same, held)) = tokio::task::spawn_blocking(look).await else { return };
        watcher = same;
        match held {
            Ok(held) => {
                failing = false;
                if to_driver.send(Message::Input(Input::Ports(held))).await.is_err() {
                    return;
                }
            }
            Err(error) if !failing => {
                failing = true;
                tracing::error!(
                    "cannot see who uses the ports {range}, so tasks may take each other's: \
                     {error}; loading the kernel module tcp_diag may help"
                );
            }
            Err(_) => {}
        }
    }
}

/// The holder of a port that a start found in use.
pub(crate) fn holder(files: &Files, port: u16) -> HeldPort {
    files.wanted_ports.add(port);
    let sockets = linux::ports::at(port).unwrap_or_else(|error| {
        tracing::warn!("cannot see who uses port {port}: {error}");
        Vec::new()
    });
    let processes = linux::ports::holders(sockets.into_iter().map(|socket| socket.inode));
    let shims = Shims::of(files);
    let mut holders = processes.values().map(|process| holder_of(files, &shims, process));
    let by = holders.next().or_else(|| task_with_port(files, &shims, port));
    HeldPort { port, by: by.unwrap_or_else(|| Holder::Other(UNSEEN.into())) }
}

/// A task that owns a port, including ports that the kernel does not report.
fn task_with_port(files: &Files, shims: &Shims, port: u16) -> Option<Holder> {
    let processes = linux::ports::processes().into_iter().map(Process::read);
    let tasks = processes.filter_map(|process| match holder_of(files, shims, &process) {
        task @ Holder::Instance(_) => Some((process, task)),
        Holder::Other(_) => None,
    });
    tasks.filter(|(process, _)| process.has_port(port)).map(|(_, task)| task).next()
}

struct Watcher {
    files: Files,
    range: RangeInclusive<u16>,
    /// The process that owns each socket, and when that was found; `None` if none was found.
    known: HashMap<u32, (Option<Holder>, Instant)>,
}

impl Watcher {
    fn look(&mut self, now: Instant) -> std::io::Result<Vec<HeldPort>> {
        let mut sockets = match self.range.start() {
            0 => Vec::new(),
            _ => linux::ports::holding(self.range.clone())?,
        };
        for port in self.files.wanted_ports.all() {
            let holding = match self.range.contains(&port) {
                true => Vec::new(),
                false => linux::ports::holding(port..=port)?,
            };
            if holding.is_empty() {
                self.files.wanted_ports.remove(port);
            }
            sockets.extend(holding);
        }
        let mut before = std::mem::take(&mut self.known);
        let mut new = Vec::new();
        for Socket { inode, .. } in &sockets {
            match before.remove(inode) {
                Some((Some(holder), since)) if now.duration_since(since) < BELIEVED_FOR => {
                    self.known.insert(*inode, (Some(holder), since));
                }
                Some((_, since)) => new.push((*inode, Some(since))),
                None => new.push((*inode, None)),
            }
        }
        self.find(now, &new);
        let held = sockets.iter().filter_map(|Socket { port, inode }| {
            let (holder, since) = self.known.get(inode)?;
            // A socket without a process may have been closed or passed on in between.
            let unseen = || (*since < now).then(|| Holder::Other(UNSEEN.into()));
            Some(HeldPort { port: *port, by: holder.clone().or_else(unseen)? })
        });
        Ok(held.collect())
    }

    /// Finds the processes of sockets that are new, or were last looked up at the given moment.
    fn find(&mut self, now: Instant, new: &[(u32, Option<Instant>)]) {
        if new.is_empty() {
            return;
        }
        let processes = linux::ports::holders(new.iter().map(|(inode, _)| *inode));
        let shims = Shims::of(&self.files);
        for (inode, before) in new {
            let found = processes.get(inode);
            let holder = found.map(|process| holder_of(&self.files, &shims, process));
            let since = if holder.is_some() { now } else { before.unwrap_or(now) };
            self.known.insert(*inode, (holder, since));
        }
    }
}

/// The shims of tasks without cgroups, by process id.
struct Shims(HashMap<i32, InstanceId>);

impl Shims {
    fn of(files: &Files) -> Self {
        if files.isolation != Isolation::Rootless {
            return Self(HashMap::new());
        }
        let names = linux::task::scan(&files.tasks()).unwrap_or_default();
        let shim = |name: String| {
            let instance = name.parse().ok()?;
            Some((files.task(instance).ok()?.shim_pid().ok()??, instance))
        };
        Self(names.into_iter().filter_map(shim).collect())
    }
}

/// The task that a process belongs to, or a description of the process.
fn holder_of(files: &Files, shims: &Shims, process: &Process) -> Holder {
    let below = format!("{}/", files.cgroup);
    let in_ours = process.cgroups.iter().filter_map(|path| Some(path.split_once(&below)?.1));
    // The cgroup of a task in an alloc is below that of the alloc.
    let mut instances = in_ours
        .filter_map(|path| path.rsplit('/').find_map(|name| name.parse::<InstanceId>().ok()));
    let of_shim = || process.ancestors().find_map(|pid| shims.0.get(&pid).copied());
    match instances.next().or_else(of_shim) {
        Some(instance) => Holder::Instance(instance),
        None => Holder::Other(Arc::from(format!("{} ({})", process.cgroup(), process.name))),
    }
}
