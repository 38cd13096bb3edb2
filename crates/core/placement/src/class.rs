//! Equivalence classes (paper, section 3.4): tasks with the same requests are treated as one.
//!
//! Single-task jobs share a class whoever owns them. The tasks of a larger job are a class of their
//! own, because they are spread relative to each other; so is a task that crashed recently, because
//! it avoids machines that others do not.

use std::collections::{BTreeMap, BTreeSet};

use cell::feasibility::{Request, VariantsOfPackage};
use cell::{Cell, Demand, Job, VolumeAsk};
use model::{
    CollectionId, Dimension, InstanceId, MachineId, PackageId, PackingPolicy, PortName, Priority,
    Resources, TaskIndex, Time,
};
use spec::{Constraint, Maximum, Network};

use crate::Settings;
use crate::held::ClassHeld;
use crate::machines::{Machines, Slot};
use crate::pool::{Pool, Scan};

/// A network of a task's own. Only in an alloc do its ports matter, and no class is for those.
static OWN_NETWORK: Network = Network::Own { ports: BTreeMap::new() };

/// A class, while it is used ([`Engine::join`](crate::Engine::join)): its index in the table.
pub type ClassId = usize;

/// The key of a class.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    job: Option<CollectionId>,
    /// For tasks that are scheduled individually.
    instance: Option<InstanceId>,
    priority: Priority,
    limit: [u64; 4],
    reservation: [u64; 4],
    ports: usize,
    static_ports: BTreeMap<PortName, u16>,
    own_network: bool,
    exclusive: bool,
    pub(crate) constraints: Vec<Constraint>,
    variants: Vec<VariantsOfPackage>,
    /// The task's own; its class is its own, too.
    volumes: Option<Box<VolumeAsk>>,
    /// The only machine for it; its class is its own, too.
    pub(crate) machine: Option<MachineId>,
    max_per_machine: Option<Maximum>,
    max_per_switch: Option<Maximum>,
    /// The packages and the image.
    pub(crate) packages: Vec<PackageId>,
}

/// Where tasks of a class may be placed.
#[derive(Clone, Debug)]
pub(crate) enum Where {
    /// Not examined yet.
    Unknown,
    /// On machines of a window, which can be widened.
    Pool(Box<Pool>),
    /// At most on these machines, which have gained room since the class was last examined.
    Few(Vec<Slot>),
    /// Nowhere, until a machine gains room.
    Nowhere,
}

/// An equivalence class.
#[derive(Clone, Debug)]
pub(crate) struct Class {
    pub(crate) key: Key,
    pub(crate) demand: Demand,
    /// Machines that it avoids, and until when.
    pub(crate) avoids: Vec<(MachineId, Time)>,
    pub(crate) scan: Scan,
    pub(crate) places: Where,
    /// What machines have of its packages; `None` if it has none.
    pub(crate) held: Option<ClassHeld>,
    /// The version of the machines' reports from which that is.
    pub(crate) held_seen: Option<u64>,
    /// Number of its uses.
    uses: usize,
}

/// The current incarnation of a task that is scheduled individually.
fn alone(job: &Job, index: TaskIndex, settings: &Settings) -> Option<InstanceId> {
    let crashed = job.task(index)?.crashes.is_some();
    // Where its volumes are differs from task to task.
    let has_volumes = !job.described(index).task.volumes.is_empty();
    let has_machine = job.machine_of(index).is_some();
    job.instance(index).filter(|_| crashed || has_volumes || has_machine || !settings.classes)
}

fn amounts(resources: &Resources) -> [u64; 4] {
    Dimension::ALL.map(|dimension| resources.get(dimension))
}

impl Key {
    pub(crate) fn of(cell: &Cell, job: &Job, index: TaskIndex, settings: &Settings) -> Self {
        let demand = job.demand(index);
        let together =
            job.spec.tasks > 1 || job.spec.has_maxima() || job.spec.max_per_switch.is_some();
        Self {
            job: together.then_some(job.id),
            instance: alone(job, index, settings),
            priority: job.described(index).priority,
            limit: amounts(&demand.limit),
            reservation: amounts(&demand.reservation),
            ports: job.port_count(index),
            static_ports: job.static_ports(index).clone(),
            own_network: job.network(index).is_own(),
            exclusive: demand.exclusive,
            constraints: job.described(index).constraints(index).to_vec(),
            variants: VariantsOfPackage::of(cell, &job.owner, job.described(index)),
            volumes: VolumeAsk::of(job, index).map(Box::new),
            machine: job.machine_of(index),
            max_per_machine: job.spec.max_per_machine,
            max_per_switch: job.spec.max_per_switch,
            packages: job.described(index).packages(&job.owner).collect(),
        }
    }

    /// Whether the class is dropped as soon as none of its tasks is pending.
    fn is_temporary(&self) -> bool {
        self.job.is_some() || self.instance.is_some()
    }
}

impl Class {
    fn new(
        key: Key,
        job: &Job,
        index: TaskIndex,
        machines: &Machines,
        settings: &Settings,
        policy: PackingPolicy,
    ) -> Self {
        let demand = job.demand(index);
        let scan = Scan {
            policy,
            packing: 0,
            mixing: 0,
            soft: 0,
            prod: demand.prod,
            reservation: machines.asked(&demand.reservation),
            limit: machines.asked(&demand.limit),
            ports: i32::try_from(key.ports).unwrap_or(i32::MAX),
            addresses: key.own_network.into(),
        };
        let crashes = job.task(index).and_then(|task| task.crashes.as_deref());
        let avoids = key.instance.and(crashes).into_iter().flatten();
        Self {
            avoids: avoids.map(|crash| (crash.machine, crash.avoided_until())).collect(),
            scan: scan.weighted(&settings.weights),
            places: Where::Unknown,
            held: None,
            held_seen: None,
            uses: 0,
            demand,
            key,
        }
    }

    pub(crate) fn job(&self) -> Option<CollectionId> {
        self.key.job
    }

    pub(crate) fn priority(&self) -> Priority {
        self.key.priority
    }

    pub(crate) fn ask(&self) -> Request<'_> {
        Request {
            demand: self.demand,
            ports: self.key.ports,
            static_ports: &self.key.static_ports,
            network: if self.key.own_network { &OWN_NETWORK } else { &Network::Host },
            constraints: &self.key.constraints,
            variants: self.key.variants.as_slice().into(),
            volumes: self.key.volumes.clone(),
            machine: self.key.machine,
            max_per_machine: self.key.max_per_machine,
            max_per_switch: self.key.max_per_switch,
        }
    }

    /// Whether a task belongs to the class; cheaper than computing its key.
    pub(crate) fn has(
        &self,
        cell: &Cell,
        job: &Job,
        index: TaskIndex,
        settings: &Settings,
    ) -> bool {
        let key = &self.key;
        key.instance == alone(job, index, settings)
            && key.priority == job.described(index).priority
            && self.demand == job.demand(index)
            && key.ports == job.port_count(index)
            && key.static_ports == *job.static_ports(index)
            && key.own_network == job.network(index).is_own()
            && key.max_per_machine == job.spec.max_per_machine
            && key.max_per_switch == job.spec.max_per_switch
            && key.constraints == job.described(index).constraints(index)
            && key.variants == VariantsOfPackage::of(cell, &job.owner, job.described(index))
            && job.described(index).packages(&job.owner).eq(key.packages.iter().cloned())
            && key.machine == job.machine_of(index)
            && key.volumes.as_deref() == VolumeAsk::of(job, index).as_ref()
    }

    /// Whether it still avoids a machine.
    pub(crate) fn avoids(&self, machine: MachineId, now: Time) -> bool {
        self.avoids.iter().any(|(avoided, until)| *avoided == machine && *until > now)
    }
}

/// The classes of the pending tasks, and some recently used ones.
#[derive(Clone, Debug, Default)]
pub(crate) struct Classes {
    all: Vec<Option<Class>>,
    unused: Vec<ClassId>,
    by_key: BTreeMap<Key, ClassId>,
    /// Those of only one job's tasks.
    by_job: BTreeMap<CollectionId, Vec<ClassId>>,
    /// Number of classes without a use.
    idle: usize,
    /// Classes whose tasks fit nowhere or on few machines: they are checked when a machine gains
    /// room.
    pub(crate) limited: BTreeSet<ClassId>,
    /// Unused windows, kept to reuse their memory.
    spare: Vec<Pool>,
    /// Memory used by all windows, in bytes.
    pub(crate) window_bytes: usize,
}

impl Class {
    /// Changes where its tasks may be placed; returns the window that it had, if any.
    fn set_places(&mut self, places: Where) -> Option<Pool> {
        match std::mem::replace(&mut self.places, places) {
            Where::Pool(pool) => Some(*pool),
            _ => None,
        }
    }
}

/// Maximum number of classes without a pending task that are kept for later tasks.
const IDLE_MAX: usize = 10_000;

impl Classes {
    pub(crate) fn get(&self, id: ClassId) -> Option<&Class> {
        self.all.get(id)?.as_ref()
    }

    pub(crate) fn get_mut(&mut self, id: ClassId) -> Option<&mut Class> {
        self.all.get_mut(id)?.as_mut()
    }

    /// The classes of only one job's tasks.
    pub(crate) fn of_job(&self, job: CollectionId) -> Vec<ClassId> {
        self.by_job.get(&job).cloned().unwrap_or_default()
    }

    /// Number of jobs with classes of their own.
    pub(crate) fn job_count(&self) -> usize {
        self.by_job.len()
    }

    /// Whether a job has classes of its own.
    pub(crate) fn has(&self, job: CollectionId) -> bool {
        self.by_job.contains_key(&job)
    }

    /// The class of a task, with one more use of it.
    pub(crate) fn join(
        &mut self,
        cell: &Cell,
        job: &Job,
        index: TaskIndex,
        machines: &Machines,
        settings: &Settings,
    ) -> ClassId {
        let key = Key::of(cell, job, index, settings);
        let id = match self.by_key.get(&key) {
            Some(id) => *id,
            None => {
                let class = Class::new(
                    key.clone(),
                    job,
                    index,
                    machines,
                    settings,
                    settings.policy_for(cell),
                );
                let id = match self.unused.pop() {
                    Some(id) => {
                        self.all[id] = Some(class);
                        id
                    }
                    None => {
                        self.all.push(Some(class));
                        self.all.len() - 1
                    }
                };
                self.idle += 1;
                if let Some(job) = key.job {
                    self.by_job.entry(job).or_default().push(id);
                }
                self.by_key.insert(key, id);
                id
            }
        };
        if let Some(class) = self.get_mut(id) {
            class.uses += 1;
            self.idle -= usize::from(self.all[id].as_ref().is_some_and(|class| class.uses == 1));
        }
        id
    }

    /// Ends a use of a class.
    pub(crate) fn leave(&mut self, id: ClassId) {
        let Some(class) = self.get_mut(id) else { return };
        class.uses = class.uses.saturating_sub(1);
        if class.uses > 0 {
            return;
        }
        let passing = class.key.is_temporary();
        self.idle += 1;
        if self.limited.contains(&id) {
            // From now on nothing tracks which machines gain room for it.
            self.set_places(id, Where::Unknown);
        }
        if passing {
            self.remove(id);
        } else if self.idle > IDLE_MAX {
            self.remove_idle();
        }
    }

    fn remove(&mut self, id: ClassId) {
        if let Some(mut class) = self.all.get_mut(id).and_then(Option::take) {
            self.spare.extend(class.set_places(Where::Unknown));
            self.by_key.remove(&class.key);
            if let Some(job) = class.job()
                && let Some(of_job) = self.by_job.get_mut(&job)
            {
                of_job.retain(|other| *other != id);
                if of_job.is_empty() {
                    self.by_job.remove(&job);
                }
            }
            self.limited.remove(&id);
            self.unused.push(id);
            self.idle -= 1;
        }
    }

    fn remove_idle(&mut self) {
        let idle =
            self.all.iter().enumerate().filter_map(|(id, class)| {
                class.as_ref().filter(|class| class.uses == 0).map(|_| id)
            });
        let idle: Vec<ClassId> = idle.collect();
        idle.into_iter().for_each(|id| self.remove(id));
    }

    /// Changes where the tasks of a class may be placed.
    pub(crate) fn set_places(&mut self, id: ClassId, places: Where) {
        if let Some(class) = self.all.get_mut(id).and_then(Option::as_mut) {
            match places {
                Where::Nowhere | Where::Few(_) => self.limited.insert(id),
                Where::Unknown | Where::Pool(_) => self.limited.remove(&id),
            };
            self.spare.extend(class.set_places(places));
        }
    }

    /// An empty window. If windows use too much memory, the least recently used one is recycled.
    pub(crate) fn window(&mut self, bytes_max: usize) -> Pool {
        if let Some(pool) = self.spare.pop() {
            return pool;
        }
        if self.window_bytes < bytes_max {
            return Pool::default();
        }
        let pools = self.all.iter().enumerate().filter_map(|(id, class)| {
            let Where::Pool(pool) = &class.as_ref()?.places else { return None };
            Some((pool.seen, id))
        });
        let mut pools: Vec<(u64, ClassId)> = pools.collect();
        // Half of them at once, so that not every new window has to search for another.
        pools.sort_unstable();
        for (_, id) in pools.iter().take(pools.len().div_ceil(2)) {
            self.set_places(*id, Where::Unknown);
        }
        self.spare.pop().unwrap_or_default()
    }

    /// Marks all placements as not examined.
    pub(crate) fn forget_places(&mut self, machines: &Machines) {
        self.limited.clear();
        for class in self.all.iter_mut().flatten() {
            class.places = Where::Unknown;
            class.scan.reservation = machines.asked(&class.demand.reservation);
            class.scan.limit = machines.asked(&class.demand.limit);
        }
    }
}
