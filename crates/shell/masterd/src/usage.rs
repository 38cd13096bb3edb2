//! What tasks and machines use, as the Borglets send it with their answers: the newest samples, and
//! the windows of a while. In memory only: after a restart the Borglets send it again.
//!
//! Each replica has what the machines use that it polls. [`crate::service`] joins the replicas'
//! answers.

use std::collections::{BTreeMap, BTreeSet};
use std::mem::size_of;
use std::ops::Bound;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use api::v1;
use borglet::{Measured, Usage, UsageSample, UsageSubject, UsageWindow};
use master::Samples;
use model::{
    CollectionId, DigestPrefix, GcuFactor, Generation, InstanceId, MachineId, TaskId,
    TaskSelection, Time,
};
use placement::HeldByMachine;
use prost::Message as _;

/// A sample that arrived longer ago is outdated.
const FRESH: Duration = Duration::from_secs(15);
/// A machine that has sent nothing for so long is polled by another replica now, or gone.
const UNHEARD_MAX: Duration = Duration::from_secs(3_600);
/// The most memory for windows: the oldest are forgotten.
const WINDOW_BYTES_MAX: usize = 256 << 20;
/// How many machines are looked at while others wait.
const LOCKED_MAX: usize = 256;
/// The oldest windows are forgotten by their start, in steps of this.
const STEP: u64 = borglet::WINDOW.0;

/// The usage of the machines that a replica polls.
#[derive(Debug)]
pub struct UsageMemory {
    all: Mutex<All>,
    window_bytes_max: usize,
}

#[derive(Debug, Default)]
struct All {
    machines: BTreeMap<MachineId, OfMachine>,
    window_bytes: usize,
    swept: Option<Instant>,
}

#[derive(Debug)]
struct OfMachine {
    heard: Instant,
    known: UsageCursor,
    machine: Option<UsageSample>,
    system: Option<UsageSample>,
    /// Boxed: half of a map's room may be empty.
    instances: BTreeMap<InstanceId, Box<OfInstance>>,
}

#[derive(Debug, Default)]
struct OfInstance {
    sample: Option<UsageSample>,
    /// In the order in which they came.
    windows: Vec<EncodedWindow>,
}

/// A window, encoded: in this form it is small.
#[derive(Debug)]
struct EncodedWindow {
    start: u64,
    end: u64,
    message: Box<[u8]>,
}

impl EncodedWindow {
    fn bytes(&self) -> usize {
        size_of::<Self>() + self.message.len()
    }
}

/// What is known of a machine already.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct UsageCursor {
    /// The cursor of its last window.
    pub(crate) cursor: u64,
    /// The time of its newest samples.
    pub(crate) sampled: Time,
}

/// The sums that every query gives, and what it asked for. CPU is in normalised cores.
#[derive(Clone, Debug, Default)]
pub(crate) struct Used {
    pub(crate) all: Measured,
    pub(crate) system: Measured,
    /// By job: how many tasks were measured, and what they use.
    pub(crate) jobs: BTreeMap<CollectionId, (u32, Measured)>,
    pub(crate) machines: BTreeMap<MachineId, MachineUsed>,
    pub(crate) tasks: BTreeMap<InstanceId, TaskUsed>,
    /// Without the sums: the packages of the machines asked for, and what machines have of the packages asked for.
    pub(crate) held: HeldByMachine,
    /// With the sums: what the replicas have done.
    pub(crate) work: v1::MasterWork,
}

/// What a machine uses.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct MachineUsed {
    pub(crate) at: Time,
    pub(crate) all: Measured,
    pub(crate) system: Measured,
    pub(crate) tasks: Measured,
    pub(crate) measured: u32,
}

/// What a task uses, and has used.
#[derive(Clone, Debug, Default)]
pub(crate) struct TaskUsed {
    pub(crate) newest: Option<(Time, Measured)>,
    /// By their start.
    pub(crate) windows: BTreeMap<Time, v1::UsageWindow>,
}

/// Some tasks of a job.
#[derive(Clone, Copy)]
struct SelectedTasks<'a> {
    job: CollectionId,
    tasks: &'a TaskSelection,
}

/// Some tasks and machines, without the sums: this takes no longer than it is large.
#[derive(Clone, Debug, Default)]
pub(crate) struct Chosen {
    pub(crate) machines: Vec<MachineId>,
    /// The tasks of this job: these.
    pub(crate) job: Option<CollectionId>,
    pub(crate) tasks: TaskSelection,
    /// Where these tasks are now: without windows, only these machines matter.
    pub(crate) places: BTreeSet<MachineId>,
    /// With their windows that ended after this.
    pub(crate) since: Option<Time>,
    /// Which machines have these packages.
    pub(crate) packages: BTreeSet<DigestPrefix>,
}

/// What to give in addition to the sums.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Query {
    pub(crate) machines: bool,
    /// The tasks of this job.
    pub(crate) job: Option<CollectionId>,
    /// With their windows that ended after this.
    pub(crate) since: Option<Time>,
}

impl Default for UsageMemory {
    fn default() -> Self {
        Self { all: Mutex::default(), window_bytes_max: WINDOW_BYTES_MAX }
    }
}

impl UsageMemory {
    /// What is known of a machine already.
    pub(crate) fn known(&self, machine: MachineId) -> UsageCursor {
        self.lock().machines.get(&machine).map(|of_it| of_it.known).unwrap_or_default()
    }

    /// Takes in what came with a machine's answer.
    pub fn take_in(&self, machine: MachineId, usage: &Usage, now: Instant) {
        let mut all = self.lock();
        all.sweep(now);
        let mut added = 0;
        let of_it = all.machines.entry(machine).or_insert_with(|| OfMachine::new(now));
        of_it.take_in_samples(&usage.samples, now);
        for window in &usage.windows {
            added += of_it.take_in_window(window);
        }
        if !usage.windows.is_empty() {
            of_it.known.cursor = usage.cursor;
        }
        all.window_bytes += added;
        if added > 0 && all.window_bytes > self.window_bytes_max {
            all.forget_oldest(self.window_bytes_max);
        }
    }

    /// What is used now, by the newest samples that are not outdated. `gcu` is how fast a machine's
    /// cores are; a machine for which there is nothing is left out.
    pub(crate) fn query(
        &self,
        gcu: impl Fn(MachineId) -> Option<GcuFactor>,
        query: &Query,
        now: Instant,
    ) -> Used {
        let mut used = Used::default();
        let mut after = Bound::Unbounded;
        loop {
            // Borglets answer meanwhile.
            let all = self.lock();
            let mut last = None;
            for (id, of_it) in all.machines.range((after, Bound::Unbounded)).take(LOCKED_MAX) {
                last = Some(*id);
                let Some(gcu) = gcu(*id) else { continue };
                of_it.add_to(&mut used, *id, gcu, query, of_it.is_fresh(now));
            }
            match last {
                Some(id) => after = Bound::Excluded(id),
                None => return used,
            }
        }
    }

    /// What some tasks and machines use, without the sums.
    pub(crate) fn query_chosen(
        &self,
        gcu: impl Fn(MachineId) -> Option<GcuFactor>,
        chosen: &Chosen,
        now: Instant,
    ) -> Used {
        let mut used = Used::default();
        let all = self.lock();
        let known = |id: &MachineId| Some((*id, all.machines.get(id)?, gcu(*id)?));
        for (id, of_it, gcu) in chosen.machines.iter().filter_map(known) {
            used.machines.insert(id, of_it.used(gcu, of_it.is_fresh(now)));
        }
        let Some(job) = chosen.job else { return used };
        let of = SelectedTasks { job, tasks: &chosen.tasks };
        let mut add = |of_it: &OfMachine, gcu| {
            of_it.add_tasks(&mut used, gcu, of, chosen.since, of_it.is_fresh(now));
        };
        match chosen.since {
            None => {
                let places = chosen.places.iter().filter_map(known);
                places.for_each(|(_, of_it, gcu)| add(of_it, gcu));
            }
            // A task may have been on any machine.
            Some(_) => {
                for (id, of_it) in all.machines.iter().filter(|(_, of_it)| of_it.has(of)) {
                    if let Some(gcu) = gcu(*id) {
                        add(of_it, gcu);
                    }
                }
            }
        }
        used
    }

    /// The newest samples of all tasks and allocs, unless they are outdated.
    pub(crate) fn samples(
        &self,
        gcu: impl Fn(MachineId) -> Option<GcuFactor>,
        now: Instant,
    ) -> Vec<(InstanceId, Measured)> {
        let mut found = Vec::new();
        for (id, of_it) in &self.lock().machines {
            let is_fresh = now.saturating_duration_since(of_it.heard) <= FRESH;
            let Some(gcu) = gcu(*id).filter(|_| is_fresh) else { continue };
            found.extend(of_it.instances.iter().filter_map(|(instance, of_it)| {
                Some((*instance, normalised(&of_it.sample.as_ref()?.measured, gcu)))
            }));
        }
        found
    }

    /// Adds the newest samples, unless they are outdated, to those of a round of estimates.
    pub(crate) fn collect(
        &self,
        gcu: impl Fn(MachineId) -> Option<GcuFactor>,
        now: Instant,
        samples: &mut Samples,
    ) {
        for (id, of_it) in &self.lock().machines {
            let is_fresh = now.saturating_duration_since(of_it.heard) <= FRESH;
            let Some(gcu) = gcu(*id).filter(|_| is_fresh) else { continue };
            let newest = of_it.instances.values().filter_map(|of_it| of_it.sample.as_ref());
            newest.for_each(|sample| samples.add(gcu, sample));
        }
    }

    fn lock(&self) -> MutexGuard<'_, All> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl All {
    /// Forgets machines that are gone, now and then.
    fn sweep(&mut self, now: Instant) {
        let since = self.swept.get_or_insert(now);
        if now.saturating_duration_since(*since) < UNHEARD_MAX / 10 {
            return;
        }
        *since = now;
        let is_heard = |of_it: &OfMachine| now.saturating_duration_since(of_it.heard) < UNHEARD_MAX;
        let gone: usize =
            self.machines.values().filter(|of_it| !is_heard(of_it)).map(OfMachine::bytes).sum();
        self.machines.retain(|_, of_it| is_heard(of_it));
        self.window_bytes = self.window_bytes.saturating_sub(gone);
    }

    /// Forgets the oldest windows of all tasks, until the rest has room.
    fn forget_oldest(&mut self, bytes_max: usize) {
        while self.window_bytes > bytes_max {
            let instances = || self.machines.values().flat_map(|of_it| of_it.instances.values());
            let oldest = instances().filter_map(|of_it| of_it.windows.first());
            let Some(oldest) = oldest.map(|window| window.start).min() else { return };
            let until = oldest - oldest % STEP + STEP;
            let mut forgotten = 0;
            for of_it in self.machines.values_mut() {
                for instance in of_it.instances.values_mut() {
                    let is_old = |window: &&EncodedWindow| window.start < until;
                    let old = instance.windows.iter().take_while(is_old).count();
                    forgotten += instance.windows.drain(..old).map(|w| w.bytes()).sum::<usize>();
                }
                of_it.instances.retain(|_, of_it| !of_it.is_empty());
            }
            self.window_bytes = self.window_bytes.saturating_sub(forgotten);
            if forgotten == 0 {
                return;
            }
        }
    }
}

impl OfMachine {
    fn new(now: Instant) -> Self {
        let (known, machine, system, instances) = Default::default();
        Self { heard: now, known, machine, system, instances }
    }

    fn bytes(&self) -> usize {
        self.instances.values().flat_map(|of_it| &of_it.windows).map(EncodedWindow::bytes).sum()
    }

    /// The samples are complete: an instance without one has ended.
    fn take_in_samples(&mut self, samples: &[UsageSample], now: Instant) {
        let Some(newest) = samples.iter().map(|sample| sample.at).max() else { return };
        (self.heard, self.known.sampled) = (now, newest);
        for of_it in self.instances.values_mut() {
            of_it.sample = None;
        }
        for sample in samples {
            match sample.subject {
                UsageSubject::Machine => self.machine = Some(*sample),
                UsageSubject::System => self.system = Some(*sample),
                UsageSubject::Instance(instance) => {
                    self.instances.entry(instance).or_default().sample = Some(*sample);
                }
            }
        }
        self.instances.retain(|_, of_it| !of_it.is_empty());
    }

    /// Keeps a window; returns its size.
    fn take_in_window(&mut self, window: &UsageWindow) -> usize {
        let UsageSubject::Instance(instance) = window.subject else { return 0 };
        let windows = &mut self.instances.entry(instance).or_default().windows;
        let start = window.start.0;
        // Sent again to a replica that polled the machine before.
        if windows.iter().rev().any(|known| known.start == start) {
            return 0;
        }
        let message = v1::UsageWindow::from(window).encode_to_vec().into_boxed_slice();
        let kept = EncodedWindow { start, end: start.saturating_add(window.length.0), message };
        let bytes = kept.bytes();
        windows.reserve_exact(1);
        windows.push(kept);
        bytes
    }

    fn is_fresh(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.heard) <= FRESH
    }

    /// The instances of some tasks of a job.
    fn of_tasks<'a>(
        &'a self,
        selected: SelectedTasks<'a>,
    ) -> impl Iterator<Item = (&'a InstanceId, &'a OfInstance)> {
        let SelectedTasks { job, tasks } = selected;
        // One search for all, and no more of a large job than what is between the selected.
        let (first, last) = tasks.bounds();
        let task = |index| TaskId { collection: job, index };
        let first = task(first).generation(Generation(0));
        let last = task(last).generation(Generation(u32::MAX)).max(first);
        let all = self.instances.range(first..=last);
        all.filter(move |(instance, _)| tasks.contains(instance.index))
            .map(|(instance, of_it)| (instance, &**of_it))
    }

    fn has(&self, tasks: SelectedTasks<'_>) -> bool {
        self.of_tasks(tasks).next().is_some()
    }

    /// What is used on it.
    fn used(&self, gcu: GcuFactor, is_fresh: bool) -> MachineUsed {
        let mut found = MachineUsed::default();
        if let Some((at, all)) = newest(&self.machine, gcu, is_fresh) {
            (found.at, found.all) = (at, all);
        }
        found.system =
            newest(&self.system, gcu, is_fresh).map(|(_, system)| system).unwrap_or_default();
        for of_it in self.instances.values() {
            if let Some((_, measured)) = newest(&of_it.sample, gcu, is_fresh) {
                found.tasks = found.tasks.plus(&measured);
                found.measured += 1;
            }
        }
        found
    }

    /// Adds some tasks of a job, with their windows that ended after a time.
    fn add_tasks(
        &self,
        used: &mut Used,
        gcu: GcuFactor,
        tasks: SelectedTasks<'_>,
        since: Option<Time>,
        is_fresh: bool,
    ) {
        for (instance, of_it) in self.of_tasks(tasks) {
            let task = used.tasks.entry(*instance).or_default();
            task.newest = task.newest.max_by_time(newest(&of_it.sample, gcu, is_fresh));
            task.windows.extend(of_it.windows(since, gcu));
        }
    }

    fn add_to(
        &self,
        used: &mut Used,
        machine: MachineId,
        gcu: GcuFactor,
        query: &Query,
        is_fresh: bool,
    ) {
        let found = self.used(gcu, is_fresh);
        for (instance, of_it) in &self.instances {
            if let Some((_, measured)) = newest(&of_it.sample, gcu, is_fresh) {
                let of_job = used.jobs.entry(instance.collection).or_default();
                *of_job = (of_job.0 + 1, of_job.1.plus(&measured));
            }
        }
        if let Some(job) = query.job {
            let all = SelectedTasks { job, tasks: &TaskSelection::All };
            self.add_tasks(used, gcu, all, query.since, is_fresh);
        }
        used.all = used.all.plus(&found.all);
        used.system = used.system.plus(&found.system);
        if query.machines {
            used.machines.insert(machine, found);
        }
    }
}

impl OfInstance {
    fn is_empty(&self) -> bool {
        self.sample.is_none() && self.windows.is_empty()
    }

    /// The windows that ended after a time; none without one.
    fn windows(
        &self,
        since: Option<Time>,
        gcu: GcuFactor,
    ) -> impl Iterator<Item = (Time, v1::UsageWindow)> {
        let since = since.map_or(u64::MAX, |since| since.0);
        self.windows.iter().filter(move |window| window.end > since).filter_map(move |window| {
            // It was encoded here.
            let message = v1::UsageWindow::decode(&*window.message).ok()?;
            let mut read = UsageWindow::try_from(message).ok()?;
            normalise_window(&mut read, gcu);
            Some((read.start, (&read).into()))
        })
    }
}

/// The later of two samples.
trait Later {
    fn max_by_time(self, other: Self) -> Self;
}

impl Later for Option<(Time, Measured)> {
    fn max_by_time(self, other: Self) -> Self {
        match (self, other) {
            (Some(one), Some(other)) => Some(if one.0 >= other.0 { one } else { other }),
            (one, other) => one.or(other),
        }
    }
}

impl Used {
    /// Adds another replica's answer. Of a machine that two have polled, the newer sample counts for
    /// its tasks; in the sums it may count twice for a moment.
    pub(crate) fn merge(&mut self, other: Self) {
        self.all = self.all.plus(&other.all);
        self.system = self.system.plus(&other.system);
        self.work = self.work.plus(&other.work);
        for (job, (measured, used)) in other.jobs {
            let of_job = self.jobs.entry(job).or_default();
            *of_job = (of_job.0 + measured, of_job.1.plus(&used));
        }
        for (machine, used) in other.machines {
            let known = self.machines.entry(machine).or_default();
            if known.at <= used.at {
                *known = used;
            }
        }
        for (machine, held) in other.held {
            self.held.entry(machine).or_insert(held);
        }
        for (instance, used) in other.tasks {
            let task = self.tasks.entry(instance).or_default();
            task.newest = task.newest.max_by_time(used.newest);
            task.windows.extend(used.windows);
        }
    }
}

/// A sample, unless it is outdated.
fn newest(
    sample: &Option<UsageSample>,
    gcu: GcuFactor,
    is_fresh: bool,
) -> Option<(Time, Measured)> {
    let sample = sample.as_ref().filter(|_| is_fresh)?;
    Some((sample.at, normalised(&sample.measured, gcu)))
}

fn normalised(measured: &Measured, gcu: GcuFactor) -> Measured {
    Measured { cpu: measured.cpu.map(|cpu| gcu.normalised(cpu)), ..*measured }
}

fn normalise_window(window: &mut UsageWindow, gcu: GcuFactor) {
    window.average = normalised(&window.average, gcu);
    window.maximum = normalised(&window.maximum, gcu);
    window.random_cpu = window.random_cpu.map(|cpu| gcu.normalised(cpu));
    if let Some(cpu) = &mut window.cpu {
        for value in cpu.percentiles.iter_mut().chain(&mut cpu.tail) {
            *value = gcu.normalised(*value);
        }
    }
}

#[cfg(test)]
mod tests;
