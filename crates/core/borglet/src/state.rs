//! The state of a Borglet and its one step.

mod disk;
mod ports;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::sync::Arc;

use model::{End, FinalUsage, InstanceId, MachineReport, Resources, Span, Stamp, Time};

use crate::alloc::{Allocs, REMOVE_AGAIN};
use crate::health::{HealthTracker, Verdict};
use crate::limit::Limit;
use crate::room::Rooms;
use crate::{
    Desired, DesiredAlloc, Launch, Order, OrderRefused, RecoveredAlloc, Report, TaskReport,
    TaskStatus,
};
pub use disk::{DiskAmount, DiskReport, DiskUse};
use ports::Ports;
pub use ports::{HeldPort, Holder};

/// What a Borglet is set to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The first of the user ids that tasks run as; each instance has its own.
    pub first_uid: u32,
    /// How many user ids there are, and so how many instances can be here at once.
    pub uids: u32,
    /// How long after SIGKILL a task that is still there is killed again.
    pub kill_again: Span,
}

impl Default for Settings {
    fn default() -> Self {
        Self { first_uid: 200_000, uids: 10_000, kill_again: Span::from_secs(5) }
    }
}

impl Settings {
    fn all_uids(&self) -> RangeInclusive<u32> {
        self.first_uid..=self.first_uid.saturating_add(self.uids.saturating_sub(1))
    }
}

/// Something that happened on the machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// The moment alone: whatever is due by now is done.
    Tick,
    /// An instance's program runs.
    Started(InstanceId),
    /// An instance has ended, with everything it started, and used that until then.
    Ended(InstanceId, End, FinalUsage),
    /// An instance was not started, because somebody else on the machine has its user id.
    UidTaken(InstanceId),
    /// An instance was not started, because one of its ports is taken.
    PortTaken(InstanceId, HeldPort),
    /// The ports of the machine's range that anything holds, all of them.
    Ports(Vec<HeldPort>),
    /// A health check was answered well, or not, with what was said.
    Checked(InstanceId, Result<(), String>),
    /// What an instance is held to now, after [`Effect::Resize`] or [`Effect::ResizeAlloc`]: what was
    /// asked for, or something else where the machine refuses that for now; none where that is not
    /// known.
    Resized(InstanceId, Option<Resources>),
    /// An alloc is made, or is not, for a reason. Nothing is left of one that is not.
    AllocMade(InstanceId, Result<(), String>),
    /// An alloc is removed, with its files.
    AllocRemoved(InstanceId),
    /// Something of an alloc could not be removed yet.
    AllocStays(InstanceId),
    /// How full the machine's disk is, and of what; of interest where it is nearly full.
    Disk(DiskReport),
    /// The machine is found to be something else than before.
    Machine(Arc<MachineReport>),
}

/// Something to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Write the stamp of the newest order to disk, before anything that follows.
    PersistStamp(Stamp),
    /// Start an instance; [`Input::Started`], [`Input::Ended`], [`Input::UidTaken`] or
    /// [`Input::PortTaken`] must follow.
    Start(Box<Launch>),
    /// Send SIGTERM.
    Terminate(InstanceId),
    /// Send SIGKILL to all of it.
    Kill(InstanceId),
    /// Ask an instance's health check; [`Input::Checked`] must follow, at the latest after the
    /// check's timeout.
    Check {
        /// Whose.
        instance: InstanceId,
        /// The port's number.
        port: u16,
        /// The path.
        path: String,
        /// How long the answer may take.
        timeout: Span,
    },
    /// Hold an instance that runs to another limit, and make that known to whoever adopts it;
    /// [`Input::Resized`] must follow.
    Resize {
        /// Which.
        instance: InstanceId,
        /// The most it may use from now on.
        limit: Resources,
    },
    /// Nobody needs an instance's record any more; its logs are kept for a while.
    Retire(InstanceId),
    /// Make an alloc, or what is missing of it; [`Input::AllocMade`] must follow.
    MakeAlloc(Box<DesiredAlloc>),
    /// Hold an alloc to another limit, as [`Effect::Resize`] does an instance that runs.
    ResizeAlloc {
        /// Which.
        instance: InstanceId,
        /// The most that its tasks may use together from now on.
        limit: Resources,
    },
    /// Remove an alloc, in which nobody is any more, with its files; [`Input::AllocRemoved`] or
    /// [`Input::AllocStays`] must follow.
    RemoveAlloc(InstanceId),
}

/// An instance that was found when the Borglet started: it outlived the one before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recovered {
    /// How it had been started; the limit in it is the newest that it was held to.
    pub launch: Launch,
    /// How it is.
    pub status: RecoveredStatus,
}

/// How an instance was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecoveredStatus {
    /// Being started; its start or end will be reported.
    Starting,
    /// Running since a moment; its end will be reported.
    Running(Time),
    /// Ended while nobody looked.
    Ended(End, FinalUsage),
}

#[derive(Clone, Debug)]
struct Local {
    launch: Launch,
    limit: Limit,
    phase: Phase,
    /// The ports that it was seen to hold and was not given, and since when it does.
    grabbed: Option<(Time, Vec<u16>)>,
}

#[derive(Clone, Debug)]
enum Phase {
    /// It waits for somebody else's end, whose port or room it is to have.
    Waiting,
    Starting,
    Running(HealthTracker),
    Stopping {
        next: Time,
        why: StopCause,
    },
    Ended(End, FinalUsage),
}

#[derive(Clone, Debug)]
enum StopCause {
    NotDesired,
    Unhealthy(String),
    BrokeRule(String),
}

/// A Borglet.
#[derive(Clone, Debug)]
pub struct Borglet {
    settings: Settings,
    machine: Arc<MachineReport>,
    stamp: Stamp,
    allocs: Allocs,
    tasks: BTreeMap<InstanceId, Local>,
    /// User ids that others have been found to have.
    foreign_uids: BTreeSet<u32>,
    disk: disk::Watched,
    ports: Ports,
}

impl Borglet {
    /// A Borglet with what it finds on its machine: the newest order it had obeyed, and the allocs
    /// and instances that are still there.
    #[must_use]
    pub fn new(
        settings: Settings,
        machine: Arc<MachineReport>,
        stamp: Stamp,
        allocs: Vec<RecoveredAlloc>,
        recovered: Vec<Recovered>,
    ) -> Self {
        let local = |found: Recovered| {
            let check = found.launch.desired.spec.health_check.as_ref();
            let phase = match found.status {
                RecoveredStatus::Starting => Phase::Starting,
                RecoveredStatus::Running(since) => Phase::Running(HealthTracker::new(check, since)),
                RecoveredStatus::Ended(end, usage) => Phase::Ended(end, usage),
            };
            let limit = Limit::found(found.launch.desired.spec.limit);
            (found.launch.instance, Local { limit, ..Local::new(found.launch, phase) })
        };
        let tasks = recovered.into_iter().map(local).collect();
        let allocs = Allocs::new(allocs);
        let (foreign_uids, disk, ports) = Default::default();
        Self { settings, machine, stamp, allocs, tasks, foreign_uids, disk, ports }
    }

    /// Obeys an order: starts what is new in it, stops what is no longer in it, and takes over
    /// what changes of the rest without a restart.
    ///
    /// # Errors
    /// Where an order with a higher stamp has been obeyed; nothing is changed then.
    pub fn obey(
        &mut self,
        now: Time,
        order: Order,
        effects: &mut Vec<Effect>,
    ) -> Result<(), OrderRefused> {
        if order.stamp < self.stamp {
            return Err(OrderRefused { given: order.stamp, obeyed: self.stamp });
        }
        if order.stamp > self.stamp {
            self.stamp = order.stamp;
            effects.push(Effect::PersistStamp(order.stamp));
        }
        let allocs: BTreeMap<InstanceId, DesiredAlloc> =
            order.allocs.into_iter().map(|desired| (desired.instance, desired)).collect();
        self.allocs.obey(&allocs);
        // Never in the wrong place, and not on where its place goes.
        let has_place = |task: &Desired| task.alloc.is_none_or(|alloc| allocs.contains_key(&alloc));
        let desired: BTreeMap<InstanceId, Desired> = order
            .tasks
            .into_iter()
            .filter(has_place)
            .map(|desired| (desired.instance, desired))
            .collect();
        self.retire_ended(&desired, effects);
        for (instance, local) in &mut self.tasks {
            if !desired.contains_key(instance) {
                local.stop(now, StopCause::NotDesired, effects);
            }
        }
        for (instance, desired) in desired {
            if let Some(local) = self.tasks.get_mut(&instance) {
                local.adopt(&desired);
            } else {
                // Without a free one it is not started: somebody is found to have this one.
                let uid = self.free_uid().unwrap_or(self.settings.first_uid);
                let alloc = desired.alloc.and_then(|alloc| allocs.get(&alloc));
                let launch = Launch::new(desired, alloc, uid);
                self.tasks.insert(instance, Local::new(launch, Phase::Waiting));
            }
        }
        self.settle(now, effects);
        Ok(())
    }

    /// Takes in what happened, and says what is to be done.
    pub fn step(&mut self, now: Time, input: Input, effects: &mut Vec<Effect>) {
        match input {
            Input::Tick => {}
            Input::Machine(report) => self.machine = report,
            Input::Disk(report) => self.see_disk(now, &report, effects),
            Input::Started(instance) => self.started(now, instance),
            Input::Ended(instance, end, usage) => self.ended(instance, end, usage),
            Input::UidTaken(instance) => self.uid_taken(instance, effects),
            Input::PortTaken(instance, held) => self.port_taken(now, instance, &held, effects),
            Input::Ports(held) => self.see_ports(now, &held, effects),
            Input::Checked(instance, answer) => self.checked(now, instance, answer, effects),
            Input::Resized(instance, limit) => match self.tasks.get_mut(&instance) {
                Some(local) => local.limit.answered(now, limit),
                None => self.allocs.resized(now, instance, limit),
            },
            Input::AllocMade(instance, made) => self.allocs.made(instance, made),
            Input::AllocRemoved(instance) => self.allocs.removed(instance, None),
            Input::AllocStays(instance) => self.allocs.removed(instance, Some(now + REMOVE_AGAIN)),
        }
        self.do_what_is_due(now, effects);
        self.settle(now, effects);
        let held = self.ports.reported(now, self.machine.ports);
        if self.machine.held_ports != held {
            Arc::make_mut(&mut self.machine).held_ports = held;
        }
    }

    /// What follows from a change, whatever it was.
    fn settle(&mut self, now: Time, effects: &mut Vec<Effect>) {
        self.resize(now, effects);
        let here = self.tasks.values().filter(|local| local.is_here());
        let occupied = here.filter_map(|local| local.launch.desired.alloc).collect();
        self.allocs.remove(now, &occupied, effects);
        self.start_waiting(now, effects);
    }

    /// Everything it knows.
    #[must_use]
    pub fn report(&self) -> Report {
        let task = |(instance, local): (&InstanceId, &Local)| {
            let status = match &local.phase {
                Phase::Waiting | Phase::Starting => TaskStatus::Starting,
                Phase::Running(watch) => TaskStatus::Running { healthy: watch.healthy },
                Phase::Stopping { .. } => TaskStatus::Stopping,
                Phase::Ended(end, usage) => TaskStatus::Ended(end.clone(), *usage),
            };
            TaskReport { instance: *instance, status }
        };
        let mut tasks: Vec<_> = self.tasks.iter().map(task).chain(self.allocs.report()).collect();
        tasks.sort_unstable_by_key(|report| report.instance);
        // An order says again which allocs of before a reboot are to be made anew: it has to come,
        // however long ago it was that something changed here.
        let stamp = if self.allocs.need_order() { Stamp::default() } else { self.stamp };
        Report { stamp, machine: Arc::clone(&self.machine), tasks }
    }

    /// When the next [`Input::Tick`] is due, if nothing else happens before.
    #[must_use]
    pub fn next_tick(&self) -> Option<Time> {
        let due = |local: &Local| match &local.phase {
            Phase::Running(watch) => watch.next().into_iter().chain(local.next_resize()).min(),
            Phase::Stopping { next, .. } => Some(*next),
            _ => None,
        };
        self.tasks.values().filter_map(due).chain(self.allocs.next_tick()).min()
    }

    /// How an instance here had been started; none where it is not here.
    #[must_use]
    pub fn launch(&self, instance: InstanceId) -> Option<&Launch> {
        self.tasks.get(&instance).map(|local| &local.launch)
    }

    /// What an instance here is held to, as far as is known: while its machine refuses what is
    /// desired, not that. None where it is not here.
    #[must_use]
    pub fn limit(&self, instance: InstanceId) -> Option<Resources> {
        let task = self.tasks.get(&instance).map(|local| local.limit.present);
        task.or_else(|| self.allocs.limit(instance))
    }

    fn retire_ended(&mut self, desired: &BTreeMap<InstanceId, Desired>, effects: &mut Vec<Effect>) {
        let gone = |local: &Local| matches!(local.phase, Phase::Waiting | Phase::Ended(..));
        self.tasks.retain(|instance, local| {
            let keep = desired.contains_key(instance) || !gone(local);
            if !keep && matches!(local.phase, Phase::Ended(..)) {
                effects.push(Effect::Retire(*instance));
            }
            keep
        });
    }

    /// A user id that no instance here has, and nobody else as far as is known.
    fn free_uid(&self) -> Option<u32> {
        let mut taken: Vec<u32> = self.tasks.values().map(|local| local.launch.uid).collect();
        taken.sort_unstable();
        let free =
            |uid: &u32| taken.binary_search(uid).is_err() && !self.foreign_uids.contains(uid);
        self.settings.all_uids().find(free)
    }

    /// An instance was not started: it gets another user id, if it is still wanted.
    fn uid_taken(&mut self, instance: InstanceId, effects: &mut Vec<Effect>) {
        let Some(local) = self.tasks.get(&instance) else { return };
        let is_wanted = matches!(local.phase, Phase::Starting);
        self.foreign_uids.insert(local.launch.uid);
        let free = self.free_uid();
        match (self.tasks.get_mut(&instance), free) {
            (Some(local), Some(uid)) if is_wanted => {
                local.launch.uid = uid;
                local.limit = Limit::new(local.wanted());
                effects.push(Effect::Start(Box::new(local.launch.clone())));
            }
            (_, Some(_)) => self.ended(instance, End::Stopped, FinalUsage::UNMEASURED),
            (_, None) => {
                // By the next time some may be free again.
                self.foreign_uids.clear();
                let all = self.settings.all_uids();
                let reason = format!(
                    "no user id is free on its machine: all from {} to {} are taken",
                    all.start(),
                    all.end()
                );
                self.ended(instance, End::Lost { reason }, FinalUsage::UNMEASURED);
            }
        }
    }

    /// Makes the allocs and starts the tasks that waited for a port or for room, where it is free now.
    fn start_waiting(&mut self, now: Time, effects: &mut Vec<Effect>) {
        let mut rooms = Rooms::new(self.machine.capacity);
        self.allocs.take_room(&mut rooms);
        for local in self.tasks.values() {
            let stopping = matches!(local.phase, Phase::Stopping { .. });
            if local.is_here() {
                let alloc = local.launch.desired.alloc;
                let ports = local.ports().chain(local.grabbed(now).iter().copied());
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
            {
                rooms.take(alloc, local.takes(), local.ports(), false);
                local.phase = Phase::Starting;
                effects.push(Effect::Start(Box::new(local.launch.clone())));
            }
        }
    }

    /// Asks for the limits that are desired and not in force.
    fn resize(&mut self, now: Time, effects: &mut Vec<Effect>) {
        for (instance, local) in &mut self.tasks {
            let due = local.next_resize().is_some_and(|next| next <= now);
            if due && matches!(local.phase, Phase::Running(_)) {
                let limit = local.wanted();
                local.limit.asked(limit);
                effects.push(Effect::Resize { instance: *instance, limit });
            }
        }
        self.allocs.resize(now, effects);
    }

    fn started(&mut self, now: Time, instance: InstanceId) {
        let Some(local) = self.tasks.get_mut(&instance) else { return };
        if let Phase::Starting = local.phase {
            let check = local.launch.desired.spec.health_check.as_ref();
            local.phase = Phase::Running(HealthTracker::new(check, now));
        }
    }

    fn ended(&mut self, instance: InstanceId, end: End, usage: FinalUsage) {
        let Some(local) = self.tasks.get_mut(&instance) else { return };
        let end = match &local.phase {
            Phase::Waiting | Phase::Ended(..) => return,
            Phase::Stopping { why: StopCause::Unhealthy(reason), .. } => {
                End::Unhealthy { reason: reason.clone() }
            }
            Phase::Stopping { why: StopCause::BrokeRule(reason), .. } => {
                End::BrokeRule { reason: reason.clone() }
            }
            // Many programs exit with 0 when they are told to stop: that is not their work done.
            Phase::Stopping { why: StopCause::NotDesired, .. } => End::Stopped,
            Phase::Starting | Phase::Running(_) => end,
        };
        local.phase = Phase::Ended(end, usage);
    }

    fn checked(
        &mut self,
        now: Time,
        instance: InstanceId,
        answer: Result<(), String>,
        effects: &mut Vec<Effect>,
    ) {
        let Some(local) = self.tasks.get_mut(&instance) else { return };
        let Phase::Running(watch) = &mut local.phase else { return };
        let Some(check) = &local.launch.desired.spec.health_check else { return };
        let verdict = watch.answered(check, now, answer.is_ok());
        if let (Verdict::Hopeless, Err(said)) = (verdict, answer) {
            let reason = format!("GET {} → {said}", check.path);
            local.stop(now, StopCause::Unhealthy(reason), effects);
        }
    }

    fn do_what_is_due(&mut self, now: Time, effects: &mut Vec<Effect>) {
        for (instance, local) in &mut self.tasks {
            match &mut local.phase {
                Phase::Running(watch) if watch.next().is_some_and(|next| next <= now) => {
                    let Some(check) = &local.launch.desired.spec.health_check else { continue };
                    let port = local.launch.desired.ports.iter();
                    let Some((_, port)) = port.clone().find(|(name, _)| *name == check.port) else {
                        continue;
                    };
                    watch.asked();
                    effects.push(Effect::Check {
                        instance: *instance,
                        port: *port,
                        path: check.path.clone(),
                        timeout: check.timeout,
                    });
                }
                Phase::Stopping { next, .. } if *next <= now => {
                    *next = now + self.settings.kill_again;
                    effects.push(Effect::Kill(*instance));
                }
                _ => {}
            }
        }
    }
}

impl Local {
    fn new(launch: Launch, phase: Phase) -> Self {
        let limit = Limit::new(launch.desired.spec.limit);
        Self { launch, limit, phase, grabbed: None }
    }

    /// Takes over what changes without a restart, and nothing else. One that has not been started
    /// will be with the new limit, and is never held to another.
    fn adopt(&mut self, new: &Desired) {
        let own = &mut self.launch.desired;
        (own.priority, own.appclass) = (new.priority, new.appclass);
        if own.spec.limit != new.spec.limit || own.spec.constraints != new.spec.constraints {
            let spec = Arc::make_mut(&mut own.spec);
            spec.limit = new.spec.limit;
            spec.constraints.clone_from(&new.spec.constraints);
        }
        if matches!(self.phase, Phase::Waiting) {
            self.limit = Limit::new(new.spec.limit);
        }
    }

    fn wanted(&self) -> Resources {
        self.launch.desired.spec.limit
    }

    /// When to ask for the limit that is desired; nothing while it is in force or awaited.
    fn next_resize(&self) -> Option<Time> {
        self.limit.next(self.wanted())
    }

    /// The most that it may use, now or as soon as its new limit is in force.
    fn takes(&self) -> Resources {
        let present = self.limit.present;
        present.plus(self.wanted().minus(present))
    }

    fn ports(&self) -> impl Iterator<Item = u16> {
        self.launch.desired.ports.iter().map(|(_, port)| *port)
    }

    /// Whether something of it is on the machine.
    fn is_here(&self) -> bool {
        !matches!(self.phase, Phase::Waiting | Phase::Ended(..))
    }

    /// Ends it without notice, as what it has is not its own. One that stops already has no more notice,
    /// and ends for the reason that it stops for.
    fn broke_rule(&mut self, now: Time, again: Span, reason: String, effects: &mut Vec<Effect>) {
        match &mut self.phase {
            Phase::Starting | Phase::Running(_) => {
                effects.push(Effect::Kill(self.launch.instance));
                let why = StopCause::BrokeRule(reason);
                self.phase = Phase::Stopping { next: now + again, why };
            }
            Phase::Stopping { next, why: StopCause::NotDesired | StopCause::Unhealthy(_) }
                if *next > now + again =>
            {
                *next = now;
            }
            Phase::Stopping { .. } | Phase::Waiting | Phase::Ended(..) => {}
        }
    }

    /// Tells it to stop, once: SIGTERM now, SIGKILL when its notice is over.
    fn stop(&mut self, now: Time, why: StopCause, effects: &mut Vec<Effect>) {
        if let Phase::Starting | Phase::Running(_) = self.phase {
            effects.push(Effect::Terminate(self.launch.instance));
            let next = now + self.launch.desired.spec.notice;
            self.phase = Phase::Stopping { next, why };
        }
    }
}
