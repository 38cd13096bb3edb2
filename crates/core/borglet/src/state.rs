//! The state of a Borglet and its step function.

mod alloc;
mod checks;
mod cpu;
mod disk;
mod disk_request;
mod effect;
mod local;
mod memory;
mod notice;
mod ports;
mod readiness;
mod rejected;
mod rule;
mod runtime;
mod saver;
mod uids;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::sync::Arc;

use model::{
    Bytes, End, FinalUsage, InstanceId, MachineReport, Resources, Span, Stamp, StartLatency, Time,
    VolumeFill, VolumePath,
};
use poll::{
    Desired, DesiredAlloc, Order, OrderRefused, Report, Stop, TaskReport, TaskStatus,
    VolumeDirectory,
};
use spec::LogSettings;

use crate::Launch;
use crate::capacity::{Endpoint, Rooms};
use crate::health::CheckKind;
use crate::limit::Limit;
use crate::shortage::Shortages;
pub use alloc::RecoveredAlloc;
use alloc::{Allocs, REMOVE_AGAIN};
pub use checks::Probe;
use cpu::Cpus;
pub use cpu::{CpuReading, CpuRound};
pub use disk::{DiskAmount, DiskReport, DiskUse};
pub use effect::Effect;
use local::{Local, Phase, StartTimer, StopCause};
pub use memory::{MemoryReport, memory_reserve};
use notice::GivenNotice;
use ports::Ports;
pub use ports::{HeldPort, Holder};
use readiness::Readiness;
pub use rule::Rule;
use runtime::Runtime;
use saver::Savers;
pub use saver::{
    ATTEMPT_TIME_MAX, KEPT_DATA_MAX, KeptData, RecoveredAttempt, RecoveredData, SAVERS_MAX,
    SaverLaunch,
};

/// The configuration of a Borglet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The first user id for tasks; each instance has its own.
    pub first_uid: u32,
    /// The number of user ids, which is the maximum number of instances on the machine.
    pub uids: u32,
    /// The delay after which SIGKILL is repeated for a task that is still there.
    pub kill_again: Span,
    /// How long a task that serves goes on after it was told to stop, before SIGTERM: clients find out
    /// meanwhile that it is under its names no more.
    pub leave: Span,
    /// The maximum size of the data that is kept for savers.
    pub kept_data: Bytes,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            first_uid: 200_000,
            uids: 10_000,
            kill_again: Span::from_secs(5),
            leave: Span::from_millis(1_500),
            kept_data: Bytes(10 << 30),
        }
    }
}

impl Settings {
    fn all_uids(&self) -> RangeInclusive<u32> {
        self.first_uid..=self.first_uid.saturating_add(self.uids.saturating_sub(1))
    }
}

/// An event on the machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// Time passed: does everything that is due.
    Tick,
    /// What an instance needs was fetched, and how long that took: nothing if it was there. Comes before
    /// [`Input::Started`].
    Fetched(InstanceId, Span),
    /// An instance's program is running.
    Started(InstanceId),
    /// An instance could not be given its notice.
    NoticeFailed(InstanceId),
    /// An instance has ended, with all its processes, and its usage.
    Ended(InstanceId, End, FinalUsage),
    /// An instance could not be set up, so that its program was never tried, with the reason.
    SetUpFailed(InstanceId, String),
    /// An order could not be obeyed, because the machine cannot keep its stamp.
    OrderNotKept,
    /// A probe task worked, or failed, with the reason.
    Probed(Result<(), String>),
    /// An instance was not started because a foreign process uses its user id.
    UidTaken(InstanceId),
    /// An instance was not started because one of its ports is in use.
    PortTaken(InstanceId, HeldPort),
    /// All ports of the machine's range that are in use.
    Ports(Vec<HeldPort>),
    /// A check succeeded or failed, with what it said.
    Checked(InstanceId, CheckKind, Result<String, String>),
    /// The limit that now applies to an instance, after [`Effect::Resize`] or
    /// [`Effect::ResizeAlloc`]: the requested one, or another if the machine refuses that for now;
    /// `None` if unknown.
    Resized(InstanceId, Option<Resources>),
    /// An alloc was created, or could not be, with the reason. A failed creation leaves nothing
    /// behind.
    AllocMade(InstanceId, Result<(), String>),
    /// An alloc was removed with its files.
    AllocRemoved(InstanceId),
    /// Part of an alloc could not be removed yet.
    AllocStays(InstanceId),
    /// What tasks used of the CPUs, about every second.
    Cpu(CpuRound),
    /// The usage of the machine's disk; needed when it is nearly full.
    Disk(DiskReport),
    /// The files of a task, or those that the tasks of an alloc share, were counted.
    DiskCounted(InstanceId, Bytes),
    /// The state of the machine's memory; needed when it is low.
    Memory(MemoryReport),
    /// The memory reserved for each task that has less than its limit; they replace all earlier ones.
    Reservations(Vec<(InstanceId, Bytes)>),
    /// How full the volumes are, and whether tasks can have them.
    Volumes(Vec<VolumeFill>),
    /// The machine's description changed.
    Machine(Arc<MachineReport>),
    /// The data of an instance that has ended is kept for its saver.
    Kept(Box<KeptData>),
    /// A saver has ended; the error says how it failed.
    SaverEnded(InstanceId, Result<(), String>),
    /// The size of data that is kept.
    DataMeasured(InstanceId, Bytes),
}

/// An instance that outlived the previous Borglet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recovered {
    /// How it was started; its limit is the last one applied.
    pub launch: Launch,
    /// Its status.
    pub status: RecoveredStatus,
}

/// The status of a recovered instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecoveredStatus {
    /// Being started; its start or end will be reported.
    Starting,
    /// Running since the given time; its end will be reported.
    Running(Time),
    /// Ended while no Borglet was running, with its usage.
    Ended(End, FinalUsage),
}

/// The state of a Borglet.
#[derive(Clone, Debug)]
pub struct Borglet {
    settings: Settings,
    machine: Arc<MachineReport>,
    stamp: Stamp,
    allocs: Allocs,
    tasks: BTreeMap<InstanceId, Local>,
    /// User ids known to be in use by foreign processes.
    foreign_uids: BTreeSet<u32>,
    disk: disk::DiskState,
    counts: disk_request::DiskCounts,
    memory: memory::MemoryState,
    ports: Ports,
    savers: Savers,
    cpus: Cpus,
    shortages: Shortages,
    readiness: Readiness,
    /// The settings for logs; `None` before an order said them.
    logs: Option<LogSettings>,
    /// The volumes of the machine, as the last order said.
    volumes: Vec<VolumeDirectory>,
    /// Since when every order was rejected.
    rejects_since: Option<Time>,
    reports_rejection: bool,
}

impl Borglet {
    /// A Borglet with its recovered state: the newest order obeyed, and the allocs and instances
    /// that still exist.
    #[must_use]
    pub fn new(
        settings: Settings,
        machine: Arc<MachineReport>,
        stamp: Stamp,
        allocs: Vec<RecoveredAlloc>,
        recovered: Vec<Recovered>,
    ) -> Self {
        let local = |found: Recovered| {
            let runtime = Runtime::recovered(&found.status);
            let phase = match found.status {
                RecoveredStatus::Starting => Phase::Starting,
                RecoveredStatus::Running(since) => {
                    Phase::Running(checks::tracker(&found.launch.desired, since))
                }
                RecoveredStatus::Ended(end, usage) => Phase::Ended(end, usage),
            };
            let limit = Limit::recovered(found.launch.desired.spec.limit);
            (found.launch.instance, Local { limit, runtime, ..Local::new(found.launch, phase) })
        };
        let tasks = recovered.into_iter().map(local).collect();
        let allocs = Allocs::new(allocs);
        let (foreign_uids, disk, counts, memory) = Default::default();
        let (ports, savers, cpus, shortages, logs) = Default::default();
        let (readiness, volumes) = (Readiness::default(), Vec::new());
        Self {
            settings,
            machine,
            stamp,
            allocs,
            tasks,
            foreign_uids,
            disk,
            counts,
            memory,
            ports,
            savers,
            cpus,
            shortages,
            readiness,
            logs,
            volumes,
            rejects_since: None,
            reports_rejection: false,
        }
    }

    /// Adopts the data that an earlier Borglet kept for savers.
    #[must_use]
    pub fn with_data(mut self, now: Time, found: Vec<RecoveredData>) -> Self {
        self.savers.adopt(now, found);
        self.tell_saving();
        self
    }

    /// Obeys an order: starts new instances, stops instances that are no longer listed, and applies
    /// changes that need no restart to the others.
    ///
    /// # Errors
    /// When an order with a higher stamp has been obeyed, or one of another restoration, unless the
    /// order overrules that one; nothing changes then.
    pub fn obey(
        &mut self,
        now: Time,
        order: Order,
        effects: &mut Vec<Effect>,
    ) -> Result<(), OrderRefused> {
        if !self.may_obey(&order) {
            self.rejected(now);
            return Err(OrderRefused { given: order.stamp, obeyed: self.stamp });
        }
        self.obeyed();
        if order.stamp != self.stamp {
            if order.stamp.restore_epoch != self.stamp.restore_epoch {
                // The cell counts again from where it was.
                self.tasks.values_mut().for_each(Local::forget_reads);
            }
            self.stamp = order.stamp;
            effects.push(Effect::PersistStamp(order.stamp));
        }
        if let Some(logs) = order.logs.filter(|logs| self.logs != Some(*logs)) {
            self.logs = Some(logs);
            effects.push(Effect::KeepLogs(logs));
        }
        if self.volumes != order.volumes {
            self.volumes.clone_from(&order.volumes);
            effects.push(Effect::LookAtVolumes(order.volumes));
        }
        let allocs: BTreeMap<InstanceId, DesiredAlloc> =
            order.allocs.into_iter().map(|desired| (desired.instance, desired)).collect();
        self.allocs.obey(&allocs);
        // A task never runs outside its alloc, nor longer than its alloc.
        let has_place = |task: &Desired| task.alloc.is_none_or(|alloc| allocs.contains_key(&alloc));
        let desired: BTreeMap<InstanceId, Desired> = order
            .tasks
            .into_iter()
            .filter(has_place)
            .map(|desired| (desired.instance, desired))
            .collect();
        self.savers.settled(&order.settled, effects);
        self.savers.end_by_order(&order.saver_ends);
        let mut stops: BTreeMap<InstanceId, Stop> =
            order.stops.into_iter().map(|stop| (stop.instance, stop)).collect();
        self.retire_ended(&desired, &stops, effects);
        for (instance, local) in &mut self.tasks {
            if !desired.contains_key(instance) {
                let stop = stops.remove(instance);
                local.stop(now, StopCause::NotDesired, stop, self.settings.leave, effects);
            }
        }
        for (instance, desired) in desired {
            if let Some(local) = self.tasks.get_mut(&instance) {
                local.adopt(&desired);
                effects.extend(local.reads_again(&desired));
            } else {
                // Without a free user id the start fails, because this one is found to be in use.
                let uid = self.free_uid().unwrap_or(self.settings.first_uid);
                let alloc = desired.alloc.and_then(|alloc| allocs.get(&alloc));
                let launch = Launch::new(desired, alloc, uid);
                let start = Some(StartTimer::ordered(now));
                let local = Local { start, ..Local::new(launch, Phase::Waiting) };
                self.tasks.insert(instance, local);
            }
        }
        self.settle(now, effects);
        Ok(())
    }

    /// Handles an input and appends the resulting effects.
    pub fn step(&mut self, now: Time, input: Input, effects: &mut Vec<Effect>) {
        match input {
            Input::Tick => {}
            Input::Machine(report) => {
                let not_ready = self.machine.not_ready.clone();
                let volumes = self.machine.volumes.clone();
                self.machine = report;
                if self.machine.volumes != volumes {
                    Arc::make_mut(&mut self.machine).volumes = volumes;
                }
                self.report_readiness(not_ready);
                self.report_shortage();
                self.report_rejection();
            }
            Input::Volumes(volumes) => {
                if self.machine.volumes != volumes {
                    Arc::make_mut(&mut self.machine).volumes = volumes;
                }
            }
            Input::Cpu(round) => self.handle_cpu(now, &round, effects),
            Input::Disk(report) => self.handle_disk(now, &report, effects),
            Input::DiskCounted(instance, bytes) => {
                self.disk_counted(now, instance, bytes, effects);
            }
            Input::Memory(report) => self.handle_memory(now, &report, effects),
            Input::Reservations(reservations) => self.reserve_memory(reservations),
            Input::Fetched(instance, took) => {
                let local = self.tasks.get_mut(&instance);
                if let Some(start) = local.and_then(|local| local.start.as_mut()) {
                    start.fetched(took);
                }
            }
            Input::Started(instance) => self.started(now, instance),
            Input::NoticeFailed(instance) => self.notice_failed(instance),
            Input::Ended(instance, end, usage) => {
                let end = self.end_without_port(now, instance, end);
                self.ended(instance, end, usage);
            }
            Input::SetUpFailed(instance, reason) => {
                self.set_up_failed(now, instance, reason, effects);
            }
            Input::OrderNotKept => self.doubt(effects),
            Input::Probed(probed) => self.probed(now, probed),
            Input::UidTaken(instance) => self.uid_taken(instance, effects),
            Input::PortTaken(instance, held) => self.port_taken(now, instance, &held, effects),
            Input::Ports(held) => self.handle_ports(now, &held, effects),
            Input::Checked(instance, kind, answer) => {
                self.checked(now, instance, kind, answer, effects);
            }
            Input::Resized(instance, limit) => match self.tasks.get_mut(&instance) {
                Some(local) => {
                    local.limit.answered(now, limit);
                    self.cap_again(instance, effects);
                }
                None => self.allocs.resized(now, instance, limit),
            },
            Input::AllocMade(instance, made) => self.allocs.made(instance, made),
            Input::AllocRemoved(instance) => self.allocs.removed(instance, None),
            Input::AllocStays(instance) => self.allocs.removed(instance, Some(now + REMOVE_AGAIN)),
            Input::Kept(kept) => self.savers.keep(now, *kept),
            Input::SaverEnded(instance, ended) => {
                self.savers.ended(now, instance, ended, effects);
            }
            Input::DataMeasured(instance, bytes) => self.savers.measured(instance, bytes),
        }
        self.do_what_is_due(now, effects);
        self.settle(now, effects);
        let held = self.ports.reported(now, self.machine.ports);
        if self.machine.held_ports != held {
            Arc::make_mut(&mut self.machine).held_ports = held;
        }
    }

    /// The consequences of any change.
    fn settle(&mut self, now: Time, effects: &mut Vec<Effect>) {
        self.resize(now, effects);
        let here = self.tasks.values().filter(|local| local.is_here());
        let occupied = here.filter_map(|local| local.launch.desired.alloc).collect();
        self.allocs.remove(now, &occupied, effects);
        self.start_waiting(now, effects);
        let mut savers = std::mem::take(&mut self.savers);
        let room = self.settings.kept_data;
        savers.settle(now, room, |savers| self.free_uid_beside(savers), effects);
        self.savers = savers;
        self.tell_saving();
    }

    fn tell_saving(&mut self) {
        let saving = self.savers.reported();
        if self.machine.saving != saving {
            Arc::make_mut(&mut self.machine).saving = saving;
        }
    }

    /// The full state.
    #[must_use]
    pub fn report(&self) -> Report {
        let task = |(instance, local): (&InstanceId, &Local)| {
            let status = match &local.phase {
                Phase::Waiting | Phase::Starting => TaskStatus::Starting,
                Phase::Running(watch) => watch.status(),
                Phase::Stopping { .. } => TaskStatus::Stopping,
                Phase::Ended(end, usage) => TaskStatus::Ended(end.clone(), *usage),
            };
            let check = match &local.phase {
                Phase::Running(watch) => watch.said(),
                _ => String::new(),
            };
            let latency = local.start.map_or(StartLatency::UNKNOWN, StartTimer::latency);
            TaskReport { instance: *instance, status, check, latency }
        };
        let mut tasks: Vec<_> = self.tasks.iter().map(task).chain(self.allocs.report()).collect();
        tasks.sort_unstable_by_key(|report| report.instance);
        // An order must decide which allocs from before a reboot to recreate: request one, however
        // long ago the last change was.
        let stamp = if self.allocs.need_order() { Stamp::default() } else { self.stamp };
        Report { stamp, machine: Arc::clone(&self.machine), tasks }
    }

    /// When the next [`Input::Tick`] is due if nothing else happens before.
    #[must_use]
    pub fn next_tick(&self) -> Option<Time> {
        let due = |local: &Local| match &local.phase {
            Phase::Running(watch) => {
                let other = local.next_resize().into_iter().chain(local.must_end_at());
                watch.next().into_iter().chain(other).min()
            }
            Phase::Stopping { next, .. } => Some(*next),
            _ => None,
        };
        let others = self.allocs.next_tick().into_iter().chain(self.savers.next_tick());
        let others = others.chain(self.readiness.next());
        self.tasks.values().filter_map(due).chain(others).min()
    }

    /// How an instance was started; `None` if it is not on this machine.
    #[must_use]
    pub fn launch(&self, instance: InstanceId) -> Option<&Launch> {
        self.tasks.get(&instance).map(|local| &local.launch)
    }

    /// The limit applied to an instance, as far as is known; it differs from the desired one while
    /// the machine refuses that. `None` if the instance is not on this machine.
    #[must_use]
    pub fn limit(&self, instance: InstanceId) -> Option<Resources> {
        let task = self.tasks.get(&instance).map(|local| local.limit.current);
        task.or_else(|| self.allocs.limit(instance))
    }

    /// Forgets the tasks that are not wanted here and do not run. One that is still to be stopped has
    /// ended meanwhile, and the cell does not know yet how.
    fn retire_ended(
        &mut self,
        desired: &BTreeMap<InstanceId, Desired>,
        stops: &BTreeMap<InstanceId, Stop>,
        effects: &mut Vec<Effect>,
    ) {
        self.tasks.retain(|instance, local| match local.phase {
            Phase::Waiting => desired.contains_key(instance),
            Phase::Ended(..) => {
                let keep = desired.contains_key(instance) || stops.contains_key(instance);
                if !keep {
                    let policy = local.launch.desired.spec.logs;
                    let logs = local.logs_changed.then_some(policy);
                    effects.push(Effect::Retire { instance: *instance, logs });
                }
                keep
            }
            _ => true,
        });
    }

    /// Creates the allocs and starts the tasks that waited for a port or resources that are free
    /// now.
    fn start_waiting(&mut self, now: Time, effects: &mut Vec<Effect>) {
        let begin = effects.len();
        let mut rooms = Rooms::new(self.machine.capacity);
        let mut cpus = self.cpus_taken();
        self.allocs.take_room(&mut rooms);
        // An earlier incarnation of a task may still be here, and write.
        let mut held: BTreeSet<VolumePath> = BTreeSet::new();
        for local in self.tasks.values().filter(|local| local.is_here()) {
            held.extend(local.exclusive_volumes().cloned());
        }
        for local in self.tasks.values() {
            let stopping = matches!(local.phase, Phase::Stopping { .. });
            if local.is_here() {
                let alloc = local.launch.desired.alloc;
                let grabbed = local.grabbed(now).iter().copied().map(Endpoint::host);
                let ports = local.ports().chain(grabbed);
                rooms.take(alloc, local.takes(), ports, stopping);
            }
        }
        self.allocs.make_waiting(&mut rooms, effects);
        for local in self.tasks.values_mut() {
            let alloc = local.launch.desired.alloc;
            let open = alloc.is_none_or(|alloc| self.allocs.is_open(alloc));
            if matches!(local.phase, Phase::Waiting)
                && open
                && rooms.has(alloc, local.takes(), local.ports())
                && !local.exclusive_volumes().any(|volume| held.contains(volume))
                && self.cpus.give(local, &mut cpus)
            {
                rooms.take(alloc, local.takes(), local.ports(), false);
                held.extend(local.exclusive_volumes().cloned());
                local.phase = Phase::Starting;
                effects.push(Effect::Start(Box::new(local.launch.clone())));
            }
        }
        self.tell_shared_cpus(begin, effects);
    }

    /// Requests limits that are desired but not applied.
    fn resize(&mut self, now: Time, effects: &mut Vec<Effect>) {
        for (instance, local) in &mut self.tasks {
            let due = local.next_resize().is_some_and(|next| next <= now);
            if due && matches!(local.phase, Phase::Running(_)) {
                let limit = local.target();
                local.limit.asked(limit);
                effects.push(Effect::Resize { instance: *instance, limit });
            }
        }
        self.allocs.resize(now, effects);
    }

    fn started(&mut self, now: Time, instance: InstanceId) {
        self.readiness.started();
        let Some(local) = self.tasks.get_mut(&instance) else { return };
        if let Some(start) = &mut local.start {
            start.started(now);
        }
        match &mut local.phase {
            Phase::Starting => {
                local.phase = Phase::Running(checks::tracker(&local.launch.desired, now));
                local.runtime = Runtime::Since(now);
            }
            Phase::Stopping { notice, .. } => notice.started(),
            Phase::Waiting | Phase::Running(_) | Phase::Ended(..) => {}
        }
    }

    fn ended(&mut self, instance: InstanceId, end: End, usage: FinalUsage) {
        let Some(local) = self.tasks.get_mut(&instance) else { return };
        let notice = match &local.phase {
            Phase::Stopping { notice, .. } => notice.delivery(),
            _ => None,
        };
        let usage = FinalUsage { notice, ..usage };
        let end = match &local.phase {
            Phase::Waiting | Phase::Ended(..) => return,
            Phase::Stopping { why: StopCause::Unhealthy(reason), .. } => {
                End::Unhealthy { reason: reason.clone() }
            }
            Phase::Stopping { why: StopCause::BrokeRule(reason), .. } => {
                End::BrokeRule { reason: reason.clone() }
            }
            Phase::Stopping { why: StopCause::OutOfResources(reason), .. } => {
                End::OutOfResources { reason: reason.clone() }
            }
            Phase::Stopping { why: StopCause::OverRuntime(most), .. } => {
                End::OverRuntime { most: *most }
            }
            // Many programs exit with 0 on SIGTERM, which does not mean that their work is done.
            Phase::Stopping { why: StopCause::NotDesired, .. } => End::Stopped,
            Phase::Starting | Phase::Running(_) => end,
        };
        local.phase = Phase::Ended(end, usage);
    }

    fn do_what_is_due(&mut self, now: Time, effects: &mut Vec<Effect>) {
        self.probe_if_due(now, effects);
        for (instance, local) in &mut self.tasks {
            local.end_over_runtime(now, effects);
            match &mut local.phase {
                Phase::Running(watch) if watch.next().is_some_and(|next| next <= now) => {
                    checks::due(now, *instance, &local.launch.desired, watch, effects);
                }
                Phase::Stopping { next, notice, untold, .. } if *next <= now => {
                    if let Some(told) = untold.take() {
                        *next = now + told.length;
                        *notice = GivenNotice::due(now, *next, true);
                        effects.push(Effect::Terminate(*instance, told));
                        continue;
                    }
                    notice.killed(now);
                    *next = now + self.settings.kill_again;
                    effects.push(Effect::Kill(*instance));
                }
                _ => {}
            }
        }
    }
}
