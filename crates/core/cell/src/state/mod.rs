//! The objects of a cell, and the cell that contains them.

mod backup;
pub mod crashes;
mod credentials;
mod every_machine;
mod inputs;
mod job;
mod locks;
mod machine;
mod notices;
mod packages;
mod queue;
mod quota;
mod relations;
mod replicas;
mod rescheduling;
mod reservation;
mod secrets;
mod services;
mod session;
mod shared_use;
mod tally;
mod update;
mod user;
mod volumes;

pub use backup::LastBackup;
pub(crate) use credentials::Tokens;
pub use credentials::{Admission, Credentials, Token, TokenUse};
pub use every_machine::{LeftOut, MachineTasks};
pub(crate) use inputs::InputChanges;
pub use inputs::{Inputs, NoAddress};
pub use job::{
    Counts, Demand, Health, Job, JobParts, JobState, LastIncarnation, Phase, Placement, Task,
    TaskState,
};
pub(crate) use locks::Locks;
pub use locks::{Content, File, Holder, Lock, LockSession};
pub use machine::{Drain, FailureDomain, Machine, MachineState};
pub use notices::Notices;
pub(crate) use packages::Packages;
pub use queue::{EnableRefused, KeptRuntimes, QueueState};
pub use quota::Metering;
pub(crate) use quota::{Quota, sharing_capacity};
pub use relations::RunsAfter;
pub(crate) use replicas::{FIRST, Replicas};
pub use replicas::{Replica, ReplicaToken};
pub use rescheduling::Rescheduling;
pub use reservation::Reserved;
pub(crate) use secrets::Secrets;
pub(crate) use services::Services;
pub use session::Session;
pub use shared_use::SharedUse;
pub use tally::Stages;
pub(crate) use tally::{Taken, Tallied, Tally};
pub use update::{Changing, PastVersion, Update, UpdateState, VersionEnd};
pub use user::{Act, User};
pub use volumes::{NoVolume, Volume, VolumeAsk};

use std::collections::BTreeMap;
use std::sync::Arc;

use imbl::{OrdMap, OrdSet};
use model::{
    Band, Capability, CellName, ClaimedVolumes, CollectionId, GcuFactor, Grant, GrantId,
    InstanceId, JobName, Level, LogIndex, MachineId, MachineName, PackingPolicy, Reclamation,
    Serial, SessionId, Span, TaskId, TaskIndex, Time, UserName,
};
use spec::LogSettings;

use crate::Total;
use crate::cow::Numbered;

/// The state of a cell. A clone is an immutable view: it shares everything with the cell, so it is
/// nearly free.
#[derive(Clone, Debug)]
pub struct Cell {
    pub(crate) name: Option<CellName>,
    pub(crate) administrators: OrdSet<UserName>,
    pub(crate) level: Level,
    pub(crate) platforms: OrdMap<String, GcuFactor>,
    pub(crate) rescheduling: Rescheduling,
    pub(crate) notices: Notices,
    pub(crate) logs: LogSettings,
    pub(crate) notice_max: Span,
    pub(crate) reclamation: Reclamation,
    pub(crate) packing: PackingPolicy,
    pub(crate) bootstrapped: Option<Time>,
    pub(crate) last_backup: Option<LastBackup>,
    pub(crate) users: OrdMap<UserName, Arc<User>>,
    pub(crate) quota: Quota,
    pub(crate) queue: QueueState,
    /// The capabilities of users; users without any have no entry.
    pub(crate) capabilities: OrdMap<UserName, OrdSet<Capability>>,
    pub(crate) replicas: Replicas,
    pub(crate) tokens: Tokens,
    /// For names that no machine has; a machine holds its own.
    pub(crate) revoked_machines: OrdMap<MachineName, Arc<Credentials>>,
    pub(crate) index: LogIndex,
    pub(crate) time: Time,
    pub(crate) last_collection: CollectionId,
    pub(crate) last_machine: MachineId,
    pub(crate) last_session: SessionId,
    pub(crate) jobs: Numbered<CollectionId, Job>,
    pub(crate) machines: Numbered<MachineId, Machine>,
    pub(crate) sessions: OrdMap<SessionId, Arc<Session>>,
    pub(crate) locks: Locks,
    pub(crate) services: Services,
    pub(crate) packages: Packages,
    pub(crate) secrets: Secrets,

    // Derived: recomputed when an image is loaded.
    pub(crate) job_names: OrdSet<(UserName, JobName, CollectionId)>,
    pub(crate) machine_names: OrdMap<MachineName, MachineId>,
    pub(crate) machine_addresses: OrdMap<Arc<str>, MachineId>,
    pub(crate) pending: OrdSet<CollectionId>,
    /// The jobs with an open update.
    pub(crate) updating: OrdSet<CollectionId>,
    /// The jobs for which replacements were started.
    pub(crate) replaced: OrdSet<CollectionId>,
    /// The live jobs with one task on every machine.
    pub(crate) every_machine: OrdSet<CollectionId>,
    /// Those of them that lack a task for a machine.
    pub(crate) lacking: OrdSet<CollectionId>,
    /// The machines that are to be drained.
    pub(crate) draining: OrdSet<MachineId>,
    /// The machines that can run no tasks.
    pub(crate) not_ready: OrdSet<MachineId>,
    /// The machines that have addresses for tasks, by the first address. They do not overlap.
    pub(crate) task_networks: OrdMap<u32, MachineId>,
    /// Pairs of a switch and a machine that is connected to it.
    pub(crate) switches: OrdSet<(Arc<str>, MachineId)>,
    /// Pairs of a job and a job that waits for it.
    pub(crate) waiting: OrdSet<(CollectionId, CollectionId)>,
    /// Pairs of a job and a live job that ends with it.
    pub(crate) children: OrdSet<(CollectionId, CollectionId)>,
    pub(crate) sessions_by_use: OrdSet<(LogIndex, SessionId)>,
    pub(crate) sessions_of_users: OrdSet<(UserName, LogIndex, SessionId)>,
    /// Users with sessions, by the number of them.
    pub(crate) users_by_sessions: OrdSet<(usize, UserName)>,
    /// Where tasks claim volumes, by owner and name of their jobs: from the volumes of machines.
    pub(crate) claims: OrdMap<(UserName, JobName), ClaimsOfJobs>,
    pub(crate) tasks: u64,
    pub(crate) tally: Tally,
}

/// The claims of the jobs of a name, by the index of the task.
pub(crate) type ClaimsOfJobs = Arc<BTreeMap<TaskIndex, Arc<ClaimedVolumes>>>;

impl Default for Cell {
    fn default() -> Self {
        Self::empty()
    }
}

impl Cell {
    /// The cell before its first operation.
    #[must_use]
    pub fn empty() -> Self {
        Self {
            name: None,
            administrators: OrdSet::new(),
            level: Level(1),
            platforms: OrdMap::new(),
            rescheduling: Rescheduling::Allowed,
            notices: Notices::default(),
            logs: LogSettings::default(),
            notice_max: crate::bounds::NOTICE_MAX_DEFAULT,
            reclamation: Reclamation::default(),
            packing: PackingPolicy::default(),
            bootstrapped: None,
            last_backup: None,
            users: OrdMap::new(),
            quota: Quota::default(),
            queue: QueueState::default(),
            capabilities: OrdMap::new(),
            replicas: Replicas::default(),
            tokens: Tokens::default(),
            revoked_machines: OrdMap::new(),
            index: LogIndex(0),
            time: Time::ZERO,
            last_collection: CollectionId(0),
            last_machine: MachineId(0),
            last_session: SessionId(0),
            jobs: Numbered::default(),
            machines: Numbered::default(),
            sessions: OrdMap::new(),
            locks: Locks::default(),
            services: Services::default(),
            packages: Packages::default(),
            secrets: Secrets::default(),
            job_names: OrdSet::new(),
            machine_names: OrdMap::new(),
            machine_addresses: OrdMap::new(),
            pending: OrdSet::new(),
            updating: OrdSet::new(),
            replaced: OrdSet::new(),
            every_machine: OrdSet::new(),
            lacking: OrdSet::new(),
            draining: OrdSet::new(),
            not_ready: OrdSet::new(),
            task_networks: OrdMap::new(),
            switches: OrdSet::new(),
            waiting: OrdSet::new(),
            children: OrdSet::new(),
            sessions_by_use: OrdSet::new(),
            sessions_of_users: OrdSet::new(),
            users_by_sessions: OrdSet::new(),
            claims: OrdMap::new(),
            tasks: 0,
            tally: Tally::default(),
        }
    }

    /// Its name; `None` before it is bootstrapped.
    #[must_use]
    pub fn name(&self) -> Option<&CellName> {
        self.name.as_ref()
    }

    /// The index of the last operation applied; what is read from the cell holds at this index.
    #[must_use]
    pub fn index(&self) -> LogIndex {
        self.index
    }

    /// The time of the last operation.
    #[must_use]
    pub fn time(&self) -> Time {
        self.time
    }

    /// The level of the state machine that it is at: which operations it understands and how it
    /// behaves.
    #[must_use]
    pub fn level(&self) -> Level {
        self.level
    }

    /// The platforms with a factor of their own.
    pub fn platforms(&self) -> impl Iterator<Item = (&str, GcuFactor)> {
        self.platforms.iter().map(|(platform, factor)| (platform.as_str(), *factor))
    }

    /// Whether the tasks of machines that do not answer are rescheduled.
    #[must_use]
    pub fn rescheduling(&self) -> &Rescheduling {
        &self.rescheduling
    }

    /// How many of the tasks that were stopped had their notice.
    #[must_use]
    pub fn notices(&self) -> &Notices {
        &self.notices
    }

    /// How long the output of tasks is kept, and how much of it.
    #[must_use]
    pub fn log_settings(&self) -> &LogSettings {
        &self.logs
    }

    /// How near to the usage reservations may come.
    #[must_use]
    pub fn reclamation(&self) -> Reclamation {
        self.reclamation
    }

    /// How tasks are packed onto machines.
    #[must_use]
    pub fn packing(&self) -> PackingPolicy {
        self.packing
    }

    /// The administrators.
    pub fn administrators(&self) -> impl Iterator<Item = &UserName> {
        let granted = self.capabilities.iter().filter(|(user, held)| {
            held.contains(&Capability::AdministerCell) && !self.administrators.contains(*user)
        });
        self.administrators.iter().chain(granted.map(|(user, _)| user))
    }

    /// The quota settings.
    #[must_use]
    pub fn metering(&self) -> &Metering {
        &self.quota.metering
    }

    /// Every stored grant, ended ones included, oldest first.
    pub fn grants(&self) -> impl Iterator<Item = &Arc<Grant>> {
        self.quota.grants.values()
    }

    /// The last id assigned to a grant; 0 before the first.
    #[must_use]
    pub fn last_grant(&self) -> GrantId {
        self.quota.last_grant
    }

    /// What a user is granted in a band at a given time.
    #[must_use]
    pub fn granted(&self, user: &UserName, band: Band, at: Time) -> Total {
        self.quota.granted(user, band, at)
    }

    /// The grants of a user in a band, ended ones included.
    pub fn grants_of(&self, user: &UserName, band: Band) -> impl Iterator<Item = &Arc<Grant>> {
        self.quota.of(user, band)
    }

    /// The maximum granted in a band at any one time from now on; production and monitoring are
    /// counted together.
    #[must_use]
    pub fn most_granted(&self, band: Band) -> Total {
        self.quota.most_granted(sharing_capacity(band), self.time, None)
    }

    /// What a user is charged in a band.
    #[must_use]
    pub fn charged(&self, user: &UserName, band: Band) -> Total {
        self.quota.charged(user, band)
    }

    /// Everything that is charged, by user and band.
    pub fn charges(&self) -> impl Iterator<Item = (&UserName, Band, &Total)> {
        self.quota.charged.iter().map(|((user, band), charged)| (user, *band, charged))
    }

    /// The capabilities granted to users; administrators have all of them implicitly.
    pub fn capabilities(
        &self,
    ) -> impl Iterator<Item = (&UserName, impl Iterator<Item = Capability>)> {
        self.capabilities.iter().map(|(user, held)| (user, held.iter().copied()))
    }

    /// Whether no session was ever opened: it has never received a request.
    #[must_use]
    pub fn is_untouched(&self) -> bool {
        self.last_session == SessionId(0)
    }

    /// The live jobs that end with a job.
    pub fn children(&self, of: CollectionId) -> impl Iterator<Item = CollectionId> {
        self.children.range((of, CollectionId(0))..=(of, CollectionId(u64::MAX))).map(|pair| pair.1)
    }

    /// The jobs that wait for a job.
    pub fn waiting_for(&self, job: CollectionId) -> impl Iterator<Item = CollectionId> {
        self.waiting
            .range((job, CollectionId(0))..=(job, CollectionId(u64::MAX)))
            .map(|pair| pair.1)
    }

    /// Whether a user is an administrator.
    #[must_use]
    pub fn is_administrator(&self, user: &UserName) -> bool {
        self.administrators.contains(user) || self.holds(user, Capability::AdministerCell)
    }

    /// The record of a user; `None` if they were neither added nor revoked.
    #[must_use]
    pub fn user(&self, name: &UserName) -> Option<&Arc<User>> {
        self.users.get(name)
    }

    /// Every user that was added or revoked, by name.
    pub fn users(&self) -> impl Iterator<Item = (&UserName, &Arc<User>)> {
        self.users.iter()
    }

    /// Whether a user's certificate of the cell's authority is accepted: any if they were never
    /// revoked, else only those that the cell has issued since.
    #[must_use]
    pub fn accepts(&self, user: &UserName, serial: Serial) -> bool {
        self.users.get(user).is_none_or(|user| user.accepts(serial))
    }

    /// A job by its id.
    #[must_use]
    pub fn job(&self, id: CollectionId) -> Option<&Arc<Job>> {
        self.jobs.get(id)
    }

    /// The newest job of that name, dead or alive.
    #[must_use]
    pub fn job_named(&self, user: &UserName, name: &JobName) -> Option<&Arc<Job>> {
        let last = (user.clone(), name.clone(), CollectionId(u64::MAX));
        let (owner, named, newest) = self.job_names.get_prev(&last)?;
        ((owner, named) == (user, name)).then(|| self.jobs.get(*newest))?
    }

    /// Every stored job, oldest first.
    pub fn jobs(&self) -> impl Iterator<Item = &Arc<Job>> {
        self.jobs.iter()
    }

    /// The newest job of each name, by owner and name.
    pub fn named_jobs(&self) -> impl Iterator<Item = &Arc<Job>> {
        let mut names = self.job_names.iter().peekable();
        std::iter::from_fn(move || {
            loop {
                let (owner, name, id) = names.next()?;
                let newer = names.peek().is_some_and(|next| (&next.0, &next.1) == (owner, name));
                if !newer && let Some(job) = self.jobs.get(*id) {
                    return Some(job);
                }
            }
        })
    }

    /// Every stored job of a user, by name.
    pub fn jobs_of(&self, user: &UserName) -> impl Iterator<Item = &Arc<Job>> {
        let first = (user.clone(), JobName::first(), CollectionId(0));
        let of = self.job_names.range(first..).take_while(move |(owner, ..)| owner == user);
        of.filter_map(|(.., id)| self.jobs.get(*id))
    }

    /// The jobs that have a pending task, oldest first.
    pub fn jobs_with_pending_tasks(&self) -> impl Iterator<Item = &Arc<Job>> {
        self.pending.iter().filter_map(|id| self.jobs.get(*id))
    }

    /// Number of jobs that have a pending task.
    #[must_use]
    pub fn pending_job_count(&self) -> usize {
        self.pending.len()
    }

    /// The jobs with an open update, oldest first.
    pub fn jobs_with_open_updates(&self) -> impl Iterator<Item = &Arc<Job>> {
        self.updating.iter().filter_map(|id| self.jobs.get(*id))
    }

    /// The jobs for which replacements were started and not removed yet, oldest first.
    pub fn jobs_with_replacements(&self) -> impl Iterator<Item = &Arc<Job>> {
        self.replaced.iter().filter_map(|id| self.jobs.get(*id))
    }

    /// The live jobs with one task on every machine, oldest first.
    pub fn every_machine_jobs(&self) -> impl Iterator<Item = &Arc<Job>> {
        self.every_machine.iter().filter_map(|id| self.jobs.get(*id))
    }

    /// The machines that are being drained or were, in the order in which they were added.
    pub fn drained_machines(&self) -> impl Iterator<Item = &Arc<Machine>> {
        self.draining.iter().filter_map(|id| self.machines.get(*id))
    }

    /// Number of tasks in each stage, per band, lowest band first.
    pub fn stages(&self) -> impl Iterator<Item = (Band, Stages)> {
        Band::ALL.into_iter().zip(self.tally.bands)
    }

    /// Number of tasks of a user in each stage.
    #[must_use]
    pub fn stages_of(&self, user: &UserName) -> Stages {
        self.tally.of_user(user).stages
    }

    /// A task.
    #[must_use]
    pub fn task(&self, id: TaskId) -> Option<&Task> {
        self.jobs.get(id.collection)?.task(id.index)
    }

    /// The placement of an instance; `None` if it is not the task's current incarnation, or has no
    /// machine.
    #[must_use]
    pub fn placement(&self, instance: InstanceId) -> Option<&Placement> {
        let task = self.task(instance.task())?;
        match &task.state {
            TaskState::Running(placement) if task.generation == instance.generation => {
                Some(placement)
            }
            _ => None,
        }
    }

    /// A machine by its id.
    #[must_use]
    pub fn machine(&self, id: MachineId) -> Option<&Arc<Machine>> {
        self.machines.get(id)
    }

    /// A machine by its name.
    #[must_use]
    pub fn machine_named(&self, name: &MachineName) -> Option<&Arc<Machine>> {
        self.machines.get(*self.machine_names.get(name)?)
    }

    /// Every machine, in the order in which they were added.
    pub fn machines(&self) -> impl Iterator<Item = &Arc<Machine>> {
        self.machines.iter()
    }

    /// The machines that are connected to a switch, in the order in which they were added.
    pub fn machines_of_switch<'a>(
        &'a self,
        switch: &str,
    ) -> impl Iterator<Item = &'a Arc<Machine>> {
        let switch: Arc<str> = switch.into();
        let range = (Arc::clone(&switch), MachineId(0))..=(switch, MachineId(u64::MAX));
        self.switches.range(range).filter_map(|(_, machine)| self.machines.get(*machine))
    }

    /// Number of open sessions.
    #[must_use]
    pub fn session_count(&self) -> usize {
        self.sessions.len()
    }

    /// Number of machines.
    #[must_use]
    pub fn machine_count(&self) -> usize {
        self.machines.len()
    }

    /// Number of stored jobs, dead ones included.
    #[must_use]
    pub fn job_count(&self) -> usize {
        self.jobs.len()
    }

    /// Number of stored tasks, dead ones included.
    #[must_use]
    pub fn task_count(&self) -> u64 {
        self.tasks
    }
}
