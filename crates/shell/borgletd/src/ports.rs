//! Which programs hold ports of the machine's range: checked every second, and when a start finds a port
//! taken. What follows from it the Borglet decides ([`borglet::HeldPort`]).

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

/// How often the kernel is asked which ports are held.
const INTERVAL: Duration = Duration::from_secs(1);
/// For how long it is believed who has a socket open: a process may hand it to another.
const BELIEVED_FOR: Duration = Duration::from_secs(30);
/// What holds a port and is found in no process that the Borglet may look at.
const UNSEEN: &str = "a program that the Borglet cannot see";

/// Looks for ever, and tells the driver.
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
                    "cannot see who holds the ports {range}, so that tasks can take each other's: \
                     {error}; it may help to load the kernel's module tcp_diag"
                );
            }
            Err(_) => {}
        }
    }
}

/// The holder of a port that a start found taken.
pub(crate) fn holder(files: &Files, port: u16) -> HeldPort {
    let sockets = linux::ports::at(port).unwrap_or_else(|error| {
        tracing::warn!("cannot see who holds port {port}: {error}");
        Vec::new()
    });
    let processes = linux::ports::holders(sockets.into_iter().map(|socket| socket.inode));
    let shims = Shims::of(files);
    let mut holders = processes.values().map(|process| holder_of(files, &shims, process));
    let by = holders.next().or_else(|| task_with_port(files, &shims, port));
    HeldPort { port, by: by.unwrap_or_else(|| Holder::Other(UNSEEN.into())) }
}

/// A task that has a port, also one of which the kernel does not tell.
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
    /// Which process has which socket open, and since when that is known; none where none was found.
    known: HashMap<u32, (Option<Holder>, Instant)>,
}

impl Watcher {
    fn look(&mut self, now: Instant) -> std::io::Result<Vec<HeldPort>> {
        let sockets = match self.range.start() {
            0 => Vec::new(),
            _ => linux::ports::holding(self.range.clone())?,
        };
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
            // One that is found nowhere may have been closed, or handed on, in between.
            let unseen = || (*since < now).then(|| Holder::Other(UNSEEN.into()));
            Some(HeldPort { port: *port, by: holder.clone().or_else(unseen)? })
        });
        Ok(held.collect())
    }

    /// Finds out who has sockets open that are new, or were looked for at a moment before.
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

/// The shims of tasks without control groups, by process id.
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

/// Which task a process is of, or what else it is.
fn holder_of(files: &Files, shims: &Shims, process: &Process) -> Holder {
    let below = format!("{}/", files.cgroup);
    let in_ours = process.cgroups.iter().filter_map(|path| Some(path.split_once(&below)?.1));
    // The group of a task in an alloc is below that of the alloc.
    let mut instances = in_ours
        .filter_map(|path| path.rsplit('/').find_map(|name| name.parse::<InstanceId>().ok()));
    let of_shim = || process.ancestors().find_map(|pid| shims.0.get(&pid).copied());
    match instances.next().or_else(of_shim) {
        Some(instance) => Holder::Instance(instance),
        None => Holder::Other(Arc::from(format!("{} ({})", process.cgroup(), process.name))),
    }
}
