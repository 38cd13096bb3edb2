//! The image of a cell: all state that is not derived, as plain data. Snapshots, state hashes and a
//! scheduler's first copy are made from it; its encoding on disk and on the wire is in `formats`.

mod restored;

use std::collections::BTreeSet;
use std::sync::Arc;

use model::{
    Capability, CellName, CollectionId, GcuFactor, Grant, GrantId, Level, LockSessionId, LogIndex,
    MachineId, MachineName, Member, Package, PackingPolicy, QueueSettings, Reclamation, ReplicaId,
    Secret, Serial, Service, SessionId, ShareWeights, Span, Time, UserName, attribute,
};
use spec::LogSettings;
use thiserror::Error;

use crate::apply::quota::charges;
use crate::bounds::{INDEX_MAX, TIME_MAX};
use crate::state::{FIRST, Quota, Replicas, Session, Tallied};
use crate::{
    Cell, Credentials, File, Job, KeptRuntimes, LEVEL, LastBackup, LockSession, Machine, Metering,
    Notices, Replica, Rescheduling, TaskState, Token, User,
};

/// Everything in a cell that is not derived from something else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    /// The cell's name.
    pub name: Option<CellName>,
    /// The cell's level.
    pub level: Level,
    /// The administrators.
    pub administrators: Vec<UserName>,
    /// The platforms whose cores have a factor other than 1 to the cell's normalised core.
    pub platforms: Vec<(String, GcuFactor)>,
    /// Whether the tasks of machines that do not answer are rescheduled.
    pub rescheduling: Rescheduling,
    /// How many of the tasks that were stopped had their notice.
    pub notices: Notices,
    /// How long the output of tasks is kept, and how much of it.
    pub logs: LogSettings,
    /// The longest notice of tasks.
    pub notice_max: Span,
    /// How near to the usage reservations may come.
    pub reclamation: Reclamation,
    /// The packing policy.
    pub packing: PackingPolicy,
    /// When it was bootstrapped; `None` if it began before this was recorded.
    pub bootstrapped: Option<Time>,
    /// The last backup, if one is known.
    pub last_backup: Option<LastBackup>,
    /// The users who were added or revoked, by name.
    pub users: Vec<(UserName, Arc<User>)>,
    /// Settings of quota.
    pub metering: Metering,
    /// The settings of the batch queue.
    pub queue: QueueSettings,
    /// The users with other weights than 1 in the batch queue, by name.
    pub share_weights: Vec<(UserName, ShareWeights)>,
    /// How long tasks of best-effort batch jobs took, by user and name.
    pub runtimes: Vec<Arc<KeptRuntimes>>,
    /// The capabilities of users, by user; no entry is empty.
    pub capabilities: Vec<(UserName, BTreeSet<Capability>)>,
    /// The replicas that are recorded, by id.
    pub replicas: Vec<Replica>,
    /// The join tokens, by the numbers of their certificates.
    pub tokens: Vec<(Serial, Arc<Token>)>,
    /// The names of revoked machines that no longer exist.
    pub revoked_machines: Vec<(MachineName, Arc<Credentials>)>,
    /// The index of the last operation applied.
    pub index: LogIndex,
    /// The time of that operation.
    pub time: Time,
    /// The last id assigned to a job.
    pub last_collection: CollectionId,
    /// The last id assigned to a machine.
    pub last_machine: MachineId,
    /// The last id assigned to a session.
    pub last_session: SessionId,
    /// The last id assigned to a grant.
    pub last_grant: GrantId,
    /// The last id assigned to a replica: at least 1, the replica that the cell was bootstrapped
    /// with.
    pub last_replica: ReplicaId,
    /// The jobs, by id.
    pub jobs: Vec<Arc<Job>>,
    /// The machines, by id.
    pub machines: Vec<Arc<Machine>>,
    /// The sessions, by id.
    pub sessions: Vec<(SessionId, Arc<Session>)>,
    /// The quota grants, by id.
    pub grants: Vec<Arc<Grant>>,
    /// The last id assigned to a lock session.
    pub last_lock_session: LockSessionId,
    /// The lock sessions, by id.
    pub lock_sessions: Vec<(LockSessionId, Arc<LockSession>)>,
    /// The files, by path.
    pub files: Vec<Arc<File>>,
    /// The index at which a file or a lock last changed.
    pub files_changed: LogIndex,
    /// The services, by owner and name.
    pub services: Vec<Arc<Service>>,
    /// The versions of packages, by owner, name and version.
    pub packages: Vec<Arc<Package>>,
    /// The secrets, by owner and name.
    pub secrets: Vec<Arc<Secret>>,
}

/// The image of the cell before its first operation.
impl Default for Image {
    fn default() -> Self {
        Cell::empty().image()
    }
}

/// Why an image is rejected.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ImageError {
    /// An object has an id that was never assigned.
    #[error("{what} {id} is greater than the last id assigned ({last})")]
    IdNotGiven {
        /// What kind of object.
        what: &'static str,
        /// Its id.
        id: u64,
        /// The last id assigned.
        last: u64,
    },
    /// The index or time is too late for a cell to continue from.
    #[error("the {what} is {is}, and the maximum is {most}")]
    TooLate {
        /// Index or time.
        what: &'static str,
        /// Its value.
        is: u64,
        /// The maximum.
        most: u64,
    },
    /// The cell is bootstrapped and has no administrator.
    #[error("the cell has no administrator: name at least one user in the head's administrators")]
    NobodyAdministers,
    /// Replicas are recorded, but none is a voter.
    #[error(
        "none of the replicas in the head votes: let at least one be a voter that is not leaving"
    )]
    NobodyVotes,
    /// Two objects share what must be unique.
    #[error("{what} {which} appears twice")]
    Twice {
        /// The kind of object, or what they share.
        what: &'static str,
        /// Its id or name.
        which: String,
    },
    /// A job has fewer tasks than its description says.
    #[error("job {id} has {has} tasks, its description says {wants}")]
    WrongTaskCount {
        /// The job.
        id: CollectionId,
        /// Number of tasks it has.
        has: usize,
        /// Number of tasks it should have.
        wants: u32,
    },
    /// This build does not implement the cell's level.
    #[error(
        "the cell is at level {level} of the state machine, and this build has 1 to {LEVEL}: use a newer bourg"
    )]
    Level {
        /// The cell's level.
        level: Level,
    },
    /// A task is placed on a machine that does not exist.
    #[error("a task of job {id} is on machine {machine}, which does not exist")]
    NoSuchMachine {
        /// The job.
        id: CollectionId,
        /// The machine.
        machine: MachineId,
    },
}

impl Cell {
    /// The image of this cell. Costs one pointer per object.
    #[must_use]
    pub fn image(&self) -> Image {
        Image {
            name: self.name.clone(),
            level: self.level,
            administrators: self.administrators.iter().cloned().collect(),
            platforms: self.platforms.iter().map(|(name, by)| (name.clone(), *by)).collect(),
            rescheduling: self.rescheduling.clone(),
            notices: self.notices,
            logs: self.logs,
            notice_max: self.notice_max,
            reclamation: self.reclamation,
            packing: self.packing,
            bootstrapped: self.bootstrapped,
            last_backup: self.last_backup.clone(),
            users: self.users.iter().map(|(name, user)| (name.clone(), user.clone())).collect(),
            metering: self.quota.metering,
            queue: self.queue.settings,
            share_weights: self
                .all_share_weights()
                .map(|(user, weights)| (user.clone(), weights))
                .collect(),
            runtimes: self.all_runtimes().cloned().collect(),
            capabilities: self
                .capabilities()
                .map(|(user, held)| (user.clone(), held.collect()))
                .collect(),
            replicas: self.replicas().cloned().collect(),
            tokens: self.tokens().map(|(serial, token)| (serial, token.clone())).collect(),
            revoked_machines: self
                .revoked_machines()
                .map(|(name, said)| (name.clone(), said.clone()))
                .collect(),
            index: self.index,
            time: self.time,
            last_collection: self.last_collection,
            last_machine: self.last_machine,
            last_session: self.last_session,
            last_grant: self.quota.last_grant,
            last_replica: self.replicas.last,
            jobs: self.jobs.iter().cloned().collect(),
            machines: self.machines.iter().cloned().collect(),
            sessions: self.sessions.iter().map(|(id, session)| (*id, session.clone())).collect(),
            grants: self.grants().cloned().collect(),
            last_lock_session: self.locks.last_session,
            lock_sessions: self.locks.sessions.iter().map(|(id, it)| (*id, it.clone())).collect(),
            files: self.locks.files.values().cloned().collect(),
            files_changed: self.locks.changed,
            services: self.services().cloned().collect(),
            packages: self.packages().cloned().collect(),
            secrets: self.secrets().cloned().collect(),
        }
    }

    /// The cell of an image; everything derived is computed anew. An image from another source may
    /// contradict itself in more ways than are rejected here: [`Cell::check`] finds them.
    ///
    /// # Errors
    /// If the image contradicts itself.
    pub fn from_image(image: Image) -> Result<Self, ImageError> {
        if !crate::has_level(image.level) {
            return Err(ImageError::Level { level: image.level });
        }
        let (index, time) =
            (("index", image.index.0, INDEX_MAX), ("time", image.time.0, TIME_MAX.0));
        if let Some((what, is, most)) = [index, time].into_iter().find(|(_, is, most)| is > most) {
            return Err(ImageError::TooLate { what, is, most });
        }
        let administers =
            |(_, held): &(_, BTreeSet<Capability>)| held.contains(&Capability::AdministerCell);
        let nobody = image.administrators.is_empty() && !image.capabilities.iter().any(administers);
        if image.name.is_some() && nobody {
            return Err(ImageError::NobodyAdministers);
        }
        let mut cell = Self {
            name: image.name,
            level: image.level,
            administrators: image.administrators.into_iter().collect(),
            platforms: image.platforms.into_iter().collect(),
            rescheduling: image.rescheduling,
            notices: image.notices,
            logs: image.logs,
            notice_max: image.notice_max,
            reclamation: image.reclamation,
            packing: image.packing,
            bootstrapped: image.bootstrapped,
            last_backup: image.last_backup,
            quota: Quota {
                metering: image.metering,
                last_grant: image.last_grant,
                ..Quota::default()
            },
            index: image.index,
            time: image.time,
            last_collection: image.last_collection,
            last_machine: image.last_machine,
            last_session: image.last_session,
            ..Self::empty()
        };
        for (name, user) in image.users {
            let which = name.to_string();
            if cell.users.insert(name, user).is_some() {
                return Err(ImageError::Twice { what: "user", which });
            }
        }
        cell.queue.settings = image.queue;
        for (user, weights) in image.share_weights {
            let which = user.to_string();
            if cell.queue.weights.insert(user, weights).is_some() {
                return Err(ImageError::Twice { what: "the weights of", which });
            }
        }
        for kept in image.runtimes {
            let which = format!("{}/{}", kept.user, kept.name);
            if cell.queue.runtimes.keep(kept).is_some() {
                return Err(ImageError::Twice { what: "the runtimes of", which });
            }
        }
        for (user, held) in image.capabilities {
            let which = user.to_string();
            if cell.capabilities.insert(user, held.into_iter().collect()).is_some() {
                return Err(ImageError::Twice { what: "the capabilities of", which });
            }
        }
        cell.replicas = replicas(image.replicas, image.last_replica)?;
        for (serial, token) in image.tokens {
            if cell.token(serial).is_some() {
                return Err(ImageError::Twice { what: "join token", which: serial.to_string() });
            }
            cell.tokens.keep(serial, token);
        }
        for (name, said) in image.revoked_machines {
            let which = name.to_string();
            if cell.revoked_machines.insert(name, said).is_some() {
                return Err(ImageError::Twice { what: "the revoked name", which });
            }
        }
        for grant in image.grants {
            given("grant", grant.id.0, cell.quota.last_grant.0)?;
            if cell.quota.grants.contains_key(&grant.id) {
                return Err(ImageError::Twice { what: "grant", which: grant.id.to_string() });
            }
            cell.quota.keep(grant);
        }
        for machine in image.machines {
            given("machine", machine.id.0, cell.last_machine.0)?;
            let twice = |what, which: &dyn std::fmt::Display| {
                Err(ImageError::Twice { what, which: which.to_string() })
            };
            if cell.machines.get(machine.id).is_some() {
                return twice("machine", &machine.id);
            }
            if cell.machine_names.insert(machine.name.clone(), machine.id).is_some() {
                return twice("machine", &machine.name);
            }
            let address = Arc::clone(&machine.address);
            if cell.machine_addresses.insert(address, machine.id).is_some() {
                return twice("the address", &machine.address);
            }
            let mut bare = Machine::clone(&machine);
            bare.instances.clear();
            bare.taken = model::Resources::default();
            bare.reserved = model::Resources::default();
            bare.taken_by_prod = model::Resources::default();
            bare.ports_taken.clear();
            bare.addresses_taken.clear();
            bare.exclusive.clear();
            bare.used.clear();
            bare.derive(&cell.platforms);
            if let Some(switch) = bare.attribute(attribute::SWITCH) {
                cell.switches.insert((switch.into(), bare.id));
            }
            if let Some(range) = bare.report.task_network {
                cell.task_networks.insert(range.network().to_bits(), bare.id);
            }
            if bare.drain.is_some() {
                cell.draining.insert(bare.id);
            }
            if bare.report.not_ready.is_some() {
                cell.not_ready.insert(bare.id);
            }
            cell.machines.insert(machine.id, Arc::new(bare));
        }
        cell.set_machines_aside();
        cell.claims = cell.derived_claims();
        for job in image.jobs {
            given("job", job.id.0, cell.last_collection.0)?;
            cell.restore_job(job)?;
        }
        for (id, session) in image.sessions {
            given("session", id.0, cell.last_session.0)?;
            if cell.sessions.contains_key(&id) {
                return Err(ImageError::Twice { what: "session", which: id.to_string() });
            }
            cell.add_session(id, session);
        }
        cell.locks.last_session = image.last_lock_session;
        for (id, session) in image.lock_sessions {
            given("lock session", id.0, cell.locks.last_session.0)?;
            if cell.locks.sessions.contains_key(&id) {
                return Err(ImageError::Twice { what: "lock session", which: id.to_string() });
            }
            cell.locks.keep_session(id, LockSession::clone(&session));
        }
        for file in image.files {
            if cell.locks.files.contains_key(&file.path) {
                return Err(ImageError::Twice { what: "file", which: file.path.to_string() });
            }
            cell.locks.put(File::clone(&file));
        }
        cell.locks.changed = image.files_changed;
        for service in image.services {
            if cell.service(&service.owner, &service.name).is_some() {
                let which = format!("{}/{}", service.owner, service.name);
                return Err(ImageError::Twice { what: "service", which });
            }
            cell.services.put(service);
        }
        for package in image.packages {
            if cell.package(&package.id).is_some() {
                return Err(ImageError::Twice { what: "package", which: package.id.to_string() });
            }
            cell.packages.put(package);
        }
        for secret in image.secrets {
            if cell.secret(&secret.owner, &secret.name).is_some() {
                let which = format!("{}/{}", secret.owner, secret.name);
                return Err(ImageError::Twice { what: "secret", which });
            }
            cell.secrets.put(secret);
        }
        Ok(cell)
    }

    fn restore_job(&mut self, job: Arc<Job>) -> Result<(), ImageError> {
        let id = job.id;
        if self.jobs.get(id).is_some() {
            return Err(ImageError::Twice { what: "job", which: id.to_string() });
        }
        let (has, wants) = (job.tasks().count(), job.spec.tasks);
        if has < wants as usize {
            return Err(ImageError::WrongTaskCount { id, has, wants });
        }
        for (index, task) in job.tasks() {
            let TaskState::Running(placement) = &task.state else { continue };
            let instance = model::TaskId { collection: id, index }.generation(task.generation);
            let machine = self
                .machines
                .get_mut(placement.machine)
                .ok_or(ImageError::NoSuchMachine { id, machine: placement.machine })?;
            machine.place(instance, &job.demand(index), placement);
            if let Some(alloc) = placement.alloc() {
                machine.enter(alloc, job.limit(index), placement.alloc_ports());
            }
        }
        if job.pending() > 0 {
            self.pending.insert(id);
        }
        if job.is_alive() {
            for other in job.waits_or_follows() {
                self.waiting.insert((other, id));
            }
            for with in job.parent.into_iter().chain(job.alloc_set) {
                self.children.insert((with, id));
            }
        }
        self.recharge(&job.owner, &[], &charges(&job));
        if job.open_update().is_some() {
            self.updating.insert(id);
        }
        if job.is_alive() && job.spec.is_on_every_machine() {
            self.every_machine.insert(id);
            if job.machine_tasks().is_some_and(|tasks| tasks.left_out().next().is_some()) {
                self.lacking.insert(id);
            }
        }
        if job.is_replaced() {
            self.replaced.insert(id);
        }
        self.tasks = self.tasks.saturating_add(job.rows().into());
        self.tally.add(&job.owner, Tallied::of(&job));
        self.job_names.insert((job.owner.clone(), job.spec.name.clone(), id));
        let claims = self.claims_of_jobs(&job.owner, &job.spec.name);
        let mut job = job;
        if job.claims != claims {
            Arc::make_mut(&mut job).claims = claims;
        }
        self.jobs.insert(id, job);
        Ok(())
    }
}

fn replicas(of_image: Vec<Replica>, last: ReplicaId) -> Result<Replicas, ImageError> {
    given("replica", FIRST.0, last.0)?;
    let mut replicas = Replicas { last, ..Replicas::default() };
    let recorded = !of_image.is_empty();
    for replica in of_image {
        let id = replica.id;
        given("replica", id.0, last.0)?;
        if replicas.records.insert(id, replica).is_some() {
            return Err(ImageError::Twice { what: "replica", which: id.to_string() });
        }
    }
    let votes = |replica: &Replica| replica.member == Member::Voter && !replica.leaving;
    if recorded && !replicas.records.values().any(votes) {
        return Err(ImageError::NobodyVotes);
    }
    Ok(replicas)
}

fn given(what: &'static str, id: u64, last: u64) -> Result<(), ImageError> {
    if id == 0 || id > last {
        return Err(ImageError::IdNotGiven { what, id, last });
    }
    Ok(())
}
