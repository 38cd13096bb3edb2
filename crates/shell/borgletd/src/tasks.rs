//! The files of a Borglet: one directory for each task, the newest stamp, and the program that
//! tasks find as `bourg`. [`super::allocs`] has those of allocs.

mod filled;
mod privileges;

use std::fs;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use anyhow::Context;
use api::v1;
use borglet::{Desired, DesiredAlloc, KeptData, Launch, Recovered, RecoveredStatus};
use linux::Isolation;
use linux::cgroup::{self, Hierarchy, TaskCgroup};
use linux::record::{self, BindablePorts, Jail, Root, Rotation};
use linux::task::{Inspection, LostReason, Resized, ShimServer, TaskDirectory};
use linux::uid::Holder;
use model::{
    Bytes, End, FinalUsage, InstanceId, LogIndex, Resources, RestoreEpoch, Span, Stamp, Subnet,
    Term, Time, UserName,
};
use process::clock::wall_clock;
use spec::{LogPolicy, LogSettings};

use self::privileges::{capabilities, hostname};
use super::cpu_isolation::MachineIsolation;
use super::deleted_logs::DeletedLogs;
use super::end_records::{end, lost, usage};
use super::found_packages::FoundPackages;
use super::kept_outputs::OutputsHere;
use super::known_volumes::KnownVolumes;
use super::log_settings::KnownLogSettings;
use super::names::TaskResolver;
use super::owners::Owners;
use super::port_isolation::{PortIsolation, WantedPortIsolation};
use super::wanted_ports::WantedPorts;
use super::{notice, oom, program, task_files};

/// An instance's specification from the order, with the newest limit applied to it. It is stored
/// beside the launch record, for recovery after a restart.
const DESIRED_FILE: &str = "desired.json";
/// The name of [`DESIRED_FILE`] once the instance is retired.
const RETIRED_FILE: &str = "retired";
/// Exists if an instance was stopped only because the Borglet stopped: however the program exited,
/// its work is not done.
const STOPPED_FILE: &str = "stopped";
/// The newest stamp obeyed.
const STAMP_FILE: &str = "stamp.json";
/// The maximum size of a file of ours that is read back.
const FILE_BYTES_MAX: u64 = 16 << 20;

/// The number of files of each of a task's two streams.
const LOG_FILES: u32 = 4;
/// The size of a task's /tmp; its content counts as the task's memory.
const TMP_BYTES_MAX: u64 = 1 << 30;

/// The state of an instance, from its records.
#[derive(Debug)]
pub(crate) enum InstanceState {
    /// Its program has not been executed yet.
    Starting,
    /// It is running.
    Running(record::Running),
    /// It has ended, with all its processes, and its usage.
    Ended(End, FinalUsage),
    /// The machine could not set it up, with the reason.
    NotSetUp(String),
}

/// The layout of the data directory.
#[derive(Clone, Debug)]
pub(crate) struct Files {
    pub(super) directory: Arc<Path>,
    executable: Arc<Path>,
    shims: Arc<ShimServer>,
    pub(super) cgroup: Arc<str>,
    pub(super) isolation: Isolation,
    pub(super) port_isolation: PortIsolation,
    pub(super) machine_isolation: MachineIsolation,
    /// Why logs of ended instances were deleted, as far as this process did it.
    pub(super) deleted_logs: DeletedLogs,
    /// How long logs are kept, as the last order said.
    pub(super) log_settings: KnownLogSettings,
    /// The resolver of tasks.
    pub(super) resolver: TaskResolver,
    /// Whose tasks have which user ids and addresses.
    pub(super) owners: Owners,
    /// Static ports that starts have found in use.
    pub(super) wanted_ports: WantedPorts,
    /// The addresses of tasks with a network of their own.
    pub(super) task_network: Option<Subnet>,
    /// What is known of kept outputs.
    pub(super) outputs: OutputsHere,
    /// The volumes that tasks have had.
    pub(super) volumes: KnownVolumes,
    /// The name of the machine, once it has joined a cell.
    pub(super) machine: Option<Arc<str>>,
}

impl Files {
    /// Creates the directories and installs the running program for tasks and shims; finds out whether
    /// the kernel can check which ports tasks bind, unless that is not wanted.
    pub(crate) fn open(
        directory: &Path,
        isolation: Isolation,
        wanted: WantedPortIsolation,
    ) -> anyhow::Result<Self> {
        let directory = std::path::absolute(directory)?;
        for name in ["", "tasks", "allocs", "savers", "outputs", "bin"] {
            let path = directory.join(name);
            let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(&path);
            made.with_context(|| format!("cannot create {}", path.display()))?;
        }
        // A task accesses the executable through its directory, as an unprivileged user.
        let bin = directory.join("bin");
        fs::set_permissions(&bin, std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
        program::install(&bin)?;
        let mut files = Self::found(&directory, isolation)?;
        files.port_isolation = wanted.find(isolation, &files.cgroup)?;
        files.machine_isolation =
            MachineIsolation::find(isolation, &files.cgroup, &files.directory);
        // Reserve disk space for the files that must always be writable.
        if let Err(error) = files.read_stamp().and_then(|stamp| files.write_stamp(stamp)) {
            tracing::error!("cannot reserve space on the disk: {error:#}");
        }
        Ok(files)
    }

    /// The layout of an existing data directory, unchanged.
    pub(crate) fn found(directory: &Path, isolation: Isolation) -> anyhow::Result<Self> {
        let directory = std::path::absolute(directory)?;
        let executable = directory.join("bin").join(program::NAME);
        let cgroup = cgroup::parent_name(&directory);
        Ok(Self {
            directory: directory.into(),
            shims: Arc::new(ShimServer::new(&executable)),
            executable: executable.into(),
            cgroup: cgroup.into(),
            isolation,
            port_isolation: PortIsolation::Watched,
            machine_isolation: MachineIsolation::default(),
            deleted_logs: DeletedLogs::default(),
            log_settings: KnownLogSettings::default(),
            resolver: TaskResolver::default(),
            owners: Owners::default(),
            wanted_ports: WantedPorts::default(),
            task_network: None,
            outputs: OutputsHere::default(),
            volumes: KnownVolumes::default(),
            machine: None,
        })
    }

    /// The same, whose tasks hold a file open until they end.
    pub(crate) fn holding(self, file: Option<OwnedFd>) -> Self {
        let Some(file) = file else { return self };
        let shims = Arc::new(ShimServer::new(&self.executable).holding(file));
        Self { shims, ..self }
    }

    /// The same on a machine with addresses for tasks.
    pub(crate) fn for_tasks_in(self, task_network: Option<Subnet>) -> Self {
        Self { task_network, ..self }
    }

    /// The same that keeps outputs as this says.
    pub(crate) fn keeping(self, outputs: OutputsHere) -> Self {
        Self { outputs, ..self }
    }

    pub(crate) fn tasks(&self) -> PathBuf {
        self.directory.join("tasks")
    }

    /// The process that uses the user id intended for an instance. Without root no id of the host
    /// is used.
    pub(crate) fn holder(&self, uid: u32) -> Option<Holder> {
        (self.isolation == Isolation::Jail).then(|| linux::uid::holder(uid)).flatten()
    }

    pub(crate) fn executable(&self) -> &Path {
        &self.executable
    }

    /// What starts the shims of tasks.
    pub(crate) fn shims(&self) -> &ShimServer {
        &self.shims
    }

    pub(crate) fn task(&self, instance: InstanceId) -> anyhow::Result<TaskDirectory> {
        Ok(TaskDirectory::open(&self.tasks(), &instance.to_string())?)
    }

    /// Removes the parent cgroup of all tasks, once they have ended.
    pub(crate) fn remove_cgroup(&self) -> anyhow::Result<()> {
        if self.isolation == Isolation::Rootless {
            return Ok(());
        }
        let hierarchy = Hierarchy::detect()?;
        Ok(TaskCgroup::open(&hierarchy, &self.cgroup)?.remove()?)
    }

    /// The directory of an instance's output.
    pub(crate) fn logs(&self, instance: InstanceId) -> anyhow::Result<PathBuf> {
        Ok(self.task(instance)?.path().join(record::LOG_DIRECTORY))
    }

    /// The newest stamp obeyed; the lowest if there is none.
    pub(crate) fn read_stamp(&self) -> anyhow::Result<Stamp> {
        let path = self.directory.join(STAMP_FILE);
        let Some(text) = read(&path)? else { return Ok(Stamp::default()) };
        let stamp: v1::Stamp = serde_json::from_str(&text).with_context(|| {
            format!(
                "{} is damaged: remove it only if no master of this cell can send an older order",
                path.display()
            )
        })?;
        Ok(Stamp {
            restore_epoch: RestoreEpoch {
                counter: stamp.restore_epoch,
                random: stamp.restore_random,
            },
            term: Term(stamp.term),
            index: LogIndex(stamp.index),
        })
    }

    /// Makes the newest stamp durable, even on a full disk: two preallocated files alternate.
    pub(crate) fn write_stamp(&self, stamp: Stamp) -> anyhow::Result<()> {
        let text = serde_json::to_string(&v1::Stamp::from(stamp))?;
        let path = self.directory.join(STAMP_FILE);
        let written = linux::disk::replace(&path, text.as_bytes());
        written.with_context(|| format!("cannot write {}", path.display()))
    }

    /// Creates an instance's directory, with its specification.
    pub(crate) fn create(&self, launch: &Launch) -> anyhow::Result<TaskDirectory> {
        let name = launch.instance.to_string();
        // A cell restored from an older checkpoint reuses instance numbers: remove the kept output
        // of an earlier instance of that name.
        let left = TaskDirectory::open(&self.tasks(), &name)?;
        if left.path().exists() {
            tracing::warn!("removing the remains of an earlier {}", launch.instance);
            left.discard()?;
        }
        self.discard_outputs(launch.instance)?;
        let task = TaskDirectory::create(&self.tasks(), &name)?;
        notice::prepare(&task)?;
        // Without a durable directory the instance would be started again after a power failure. It is
        // synced when all of it is there, so that a journal needs one commit: the specification may
        // be incomplete after a power failure, but then nothing was started.
        let text = desired_text(&launch.desired)?;
        let desired = write_unsynced(task.path(), DESIRED_FILE, &text)?;
        let sync = |path: &Path| fs::File::open(path).and_then(|directory| directory.sync_all());
        desired
            .sync_all()
            .and_then(|()| sync(task.path()))
            .and_then(|()| sync(&self.tasks()))
            .with_context(|| format!("cannot sync {}", task.path().display()))?;
        Ok(task)
    }

    /// Changes the limit of a running instance and records it for the next Borglet. Returns the
    /// limit in force, with more memory than requested if the task uses more; `None` if it is not
    /// running.
    pub(crate) fn resize(
        &self,
        instance: InstanceId,
        limit: Resources,
    ) -> anyhow::Result<Option<Resources>> {
        let task = self.task(instance)?;
        let Some(mut desired) = read_desired(&task, DESIRED_FILE)? else { return Ok(None) };
        let launched = record::Launch::read(task.path())?;
        let cpus = launched.map(|launch| launch.limits.sharing.cpus).unwrap_or_default();
        let held = match task.resize(&self.limits_of(&desired, limit, cpus))? {
            Resized::Done => limit,
            Resized::Refused { memory_bytes } => Resources { ram: Bytes(memory_bytes), ..limit },
            Resized::StillStarting | Resized::Gone => return Ok(None),
        };
        if desired.spec.limit != held {
            Arc::make_mut(&mut desired.spec).limit = held;
            write_desired(&task, &desired)?;
        }
        Ok(Some(held))
    }

    /// The ports that a task with these may bind.
    pub(super) fn bindable(&self, given: impl IntoIterator<Item = u16>) -> BindablePorts {
        match self.port_isolation {
            PortIsolation::Enforced => BindablePorts::Only(given.into_iter().collect()),
            PortIsolation::Watched => BindablePorts::Any,
        }
    }

    /// The launch record for the shim, with what others provide for the task.
    pub(crate) fn launch_record(
        &self,
        launch: &Launch,
        provided: FoundPackages,
    ) -> anyhow::Result<record::Launch> {
        let Desired { instance, alloc, user, job, priority, spec, ports, .. } = &launch.desired;
        let (index, generation) = (instance.index, instance.generation);
        let mut completed = launch.clone();
        let mut jail = Jail::host(self.executable().to_owned());
        let (mut working_directory, mut stop_signal) = (None, None);
        if let Some(image) = provided.image {
            completed.complete(image.defaults);
            jail.root = Root::Image(image.root);
            working_directory = Some(image.working_directory);
            stop_signal = image.stop_signal;
        }
        jail.binds.extend(alloc.map(|alloc| self.shown_alloc(alloc)).transpose()?);
        jail.binds.extend(provided.binds);
        let task = self.task(*instance)?;
        jail.binds.push(notice::bind(&task));
        jail.binds.extend(task_files::prepare(&task, launch, self.isolation)?);
        jail.volumes = self.volumes_of(&launch.desired)?;
        let network = self.network_of(&launch.desired)?;
        jail.resolv_conf = self.resolver.of(user.as_str(), network.as_ref().map(|its| its.gateway));
        Ok(record::Launch {
            label: format!("{user}/{job}/{index} generation {generation}"),
            argv: completed.argv,
            env: completed.env,
            isolation: self.isolation,
            uid: launch.uid,
            gid: launch.uid,
            hostname: hostname(job.as_str(), index.0),
            cgroup: self.cgroup_of_task(&launch.desired, launch.is_exclusive())?,
            in_alloc: alloc.is_some(),
            limits: self.limits_of(&launch.desired, spec.limit, launch.cpus.clone()),
            oom_score_adj: oom::score_adj(*priority, spec.memory_slack),
            log: rotation(spec.logs),
            tmp_bytes_max: TMP_BYTES_MAX.min(spec.limit.ram.0),
            scratch_bytes_max: spec.scratch.map(|size| size.0),
            notice_ms: spec.notice.as_millis(),
            stop_signal,
            working_directory,
            jail,
            secret_env: provided.secret_env,
            // In a network of its own every port is the task's.
            bindable_ports: match network {
                Some(_) => BindablePorts::Any,
                None => self.bindable(ports.iter().map(|(_, port)| *port)),
            },
            network,
            capabilities: capabilities(&launch.desired, self.isolation),
        })
    }

    /// What an instance sees besides its machine's files, by the paths on its machine.
    pub(crate) fn binds(
        &self,
        instance: InstanceId,
    ) -> anyhow::Result<impl Iterator<Item = PathBuf> + use<>> {
        let record = record::Launch::read(self.task(instance)?.path())?;
        let jail = record.map(|record| record.jail);
        let (binds, layers) = match jail {
            None => (Vec::new(), Vec::new()),
            Some(Jail { binds, root: Root::HostSystem, .. }) => (binds, Vec::new()),
            Some(Jail { binds, root: Root::Image(image), .. }) => (binds, image.layers),
        };
        Ok(binds.into_iter().map(|bind| bind.source).chain(layers))
    }

    /// Every instance that an earlier Borglet left and that still matters. `now` is the current
    /// time.
    pub(crate) fn recover(&self, now: Time) -> anyhow::Result<Vec<Recovered>> {
        let mut found = Vec::new();
        for name in linux::task::scan(&self.tasks())? {
            let Ok(instance) = name.parse::<InstanceId>() else {
                tracing::warn!("{} is not the directory of an instance", name.escape_debug());
                continue;
            };
            let task = self.task(instance)?;
            if task.path().join(RETIRED_FILE).exists() {
                discard_home(instance, &task);
                continue;
            }
            match self.recover_one(now, instance, &task) {
                Ok(recovered) => found.extend(recovered),
                // The master considers an unreported instance lost, and reschedules the task.
                Err(error) => tracing::error!("cannot adopt {instance}: {error:#}"),
            }
        }
        Ok(found)
    }

    /// Recovers one instance; `None` if it was never started, in which case its remains are
    /// removed.
    fn recover_one(
        &self,
        now: Time,
        instance: InstanceId,
        task: &TaskDirectory,
    ) -> anyhow::Result<Option<Recovered>> {
        let launched = match self.launched(task) {
            // The machine lost power before the specification was durable.
            Err(_) if is_never_started(task) => None,
            launched => launched?,
        };
        let Some((launch, _)) = launched else {
            // The Borglet died after creating the directory.
            task.discard()?;
            return Ok(None);
        };
        let status = match self.look(instance, task) {
            InstanceState::Starting => RecoveredStatus::Starting,
            InstanceState::Running(running) => {
                let age = running.age().unwrap_or_default().as_micros();
                let age = Span(u64::try_from(age).unwrap_or(u64::MAX));
                RecoveredStatus::Running(now - age)
            }
            InstanceState::Ended(_, usage) if task.path().join(STOPPED_FILE).exists() => {
                RecoveredStatus::Ended(End::Stopped, usage)
            }
            InstanceState::Ended(end, usage) => RecoveredStatus::Ended(end, usage),
            InstanceState::NotSetUp(reason) => {
                RecoveredStatus::Ended(End::Lost { reason }, FinalUsage::UNMEASURED)
            }
        };
        self.volumes.note(&launch.desired);
        if let RecoveredStatus::Ended(end, _) = &status {
            self.leave(instance, task, end);
        }
        Ok(Some(Recovered { launch, status }))
    }

    /// How an instance was launched, from its records, and the alloc in which it ran.
    pub(super) fn launched(
        &self,
        task: &TaskDirectory,
    ) -> anyhow::Result<Option<(Launch, Option<DesiredAlloc>)>> {
        let Some(desired) = read_desired(task, DESIRED_FILE)? else { return Ok(None) };
        let record = record::Launch::read(task.path()).ok().flatten();
        let (uid, cpus) =
            record.map(|record| (record.uid, record.limits.sharing.cpus)).unwrap_or_default();
        let alloc = desired.alloc.and_then(|alloc| self.read_alloc(alloc).ok().flatten());
        Ok(Some((Launch { cpus, ..Launch::new(desired, alloc.as_ref(), uid) }, alloc)))
    }

    /// An instance has ended: keeps its outputs, keeps its home directory if it has a saver, and discards it
    /// otherwise. Returns what is kept from now on.
    pub(super) fn leave(
        &self,
        instance: InstanceId,
        task: &TaskDirectory,
        end: &End,
    ) -> Option<KeptData> {
        if let Err(error) = self.keep_outputs(instance, task) {
            tracing::error!("cannot keep the outputs of {instance}: {error:#}");
        }
        let keep = || {
            let Some((launch, alloc)) = self.launched(task)? else { return Ok(None) };
            let kept = KeptData::of_task(&launch, alloc.as_ref(), end, wall_clock());
            // Without a launch record nobody owns it.
            match kept.filter(|kept| kept.uid != Some(0)) {
                Some(kept) => self.keep(&task.path().join(record::HOME_DIRECTORY), kept),
                None => Ok(None),
            }
        };
        let kept = keep().unwrap_or_else(|error: anyhow::Error| {
            tracing::error!("cannot keep the data of {instance} for its saver: {error:#}");
            None
        });
        discard_home(instance, task);
        kept
    }

    /// The state of an instance, from its records. Makes sure that nothing of an ended instance
    /// runs, even if the records do not tell.
    pub(crate) fn look(&self, instance: InstanceId, task: &TaskDirectory) -> InstanceState {
        let (end, cleared) = match task.inspect() {
            Ok(Inspection::Starting) => return InstanceState::Starting,
            Ok(Inspection::Running(running)) => return InstanceState::Running(running),
            Ok(Inspection::Ended(exit)) => {
                return match end(&exit.reason) {
                    Ok(end) => InstanceState::Ended(end, usage(&exit)),
                    Err(reason) => InstanceState::NotSetUp(reason),
                };
            }
            Ok(Inspection::Lost { reason }) => {
                (lost(reason), task.kill().map(drop).map_err(anyhow::Error::from))
            }
            // For example after a power failure: only essential files are synced.
            Err(error) => {
                let reason = format!("its record cannot be read: {error}");
                (End::Lost { reason }, self.put_down(instance, task))
            }
        };
        if let Err(error) = cleared {
            tracing::error!("{instance} is lost, and cannot be cleaned up: {error:#}");
        }
        InstanceState::Ended(end, FinalUsage::UNMEASURED)
    }

    /// Kills all processes of an instance without reading its records.
    fn put_down(&self, instance: InstanceId, task: &TaskDirectory) -> anyhow::Result<()> {
        task.kill_shim()?;
        if self.isolation == Isolation::Rootless {
            return Ok(());
        }
        // The record of its alloc may be damaged, too.
        let allocs = self.alloc_names()?;
        let within = |tier: String| {
            let inside: Vec<_> = allocs.iter().map(|alloc| format!("{tier}/{alloc}")).collect();
            inside.into_iter().chain([tier])
        };
        for above in self.tiers().flat_map(within) {
            let name = format!("{above}/{instance}");
            let cgroup = TaskCgroup::open(&Hierarchy::detect()?, &name)?;
            cgroup.kill_all()?;
            cgroup.remove()?;
        }
        Ok(())
    }

    /// The specification of an instance, from its records; `None` if it was never started.
    pub(super) fn desired_of(&self, task: &TaskDirectory) -> anyhow::Result<Option<Desired>> {
        read_desired(task, DESIRED_FILE)
    }

    /// The alloc in which a task runs, from its records.
    pub(super) fn alloc_of(&self, task: &TaskDirectory) -> anyhow::Result<Option<InstanceId>> {
        Ok(read_desired(task, DESIRED_FILE)?.and_then(|desired| desired.alloc))
    }

    /// Retires an instance: its record is no longer needed. Its directory is deleted later.
    /// `logs` is what its job says of its logs, if that has changed since its start.
    pub(crate) fn retire(
        &self,
        instance: InstanceId,
        logs: Option<LogPolicy>,
    ) -> anyhow::Result<()> {
        let task = self.task(instance)?;
        if let Some(logs) = logs
            && let Err(error) = note_logs(&task, logs)
        {
            tracing::error!("the logs of {instance} are kept as its job said before: {error:#}");
        }
        // Renaming needs no space on a full disk, and preserves the owner.
        let (desired, retired) = (task.path().join(DESIRED_FILE), task.path().join(RETIRED_FILE));
        match fs::rename(&desired, &retired) {
            Ok(()) => Ok(fs::File::open(&retired)?.set_modified(SystemTime::now())?),
            // An instance without any files leaves nothing to keep.
            Err(error) if error.kind() == io::ErrorKind::NotFound && !retired.exists() => {
                Ok(task.discard()?)
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => {
                Err(error).with_context(|| format!("cannot create {}", retired.display()))
            }
        }
    }

    /// The owner of a retired instance, and what its job said of its logs; `None` if unknown.
    pub(crate) fn retired_as(&self, instance: InstanceId) -> Option<(UserName, LogPolicy)> {
        let desired = read_desired(&self.task(instance).ok()?, RETIRED_FILE).ok()??;
        Some((desired.user, desired.spec.logs))
    }

    /// The owner of an instance whose files are here.
    pub(crate) fn owner(&self, instance: InstanceId) -> Option<UserName> {
        let desired = read_desired(&self.task(instance).ok()?, DESIRED_FILE).ok()?;
        let user = desired.map(|desired| desired.user);
        user.or_else(|| self.retired_as(instance).map(|(user, _)| user))
    }

    /// Records that an instance was stopped only because the Borglet is stopping.
    pub(crate) fn note_stopped(&self, name: &str) -> anyhow::Result<()> {
        let directory = self.tasks().join(name);
        write(&directory, STOPPED_FILE, "").or_else(|error| {
            // On a full disk, an obsolete record is renamed to become the marker.
            let running = directory.join(record::RUNNING_FILE);
            fs::rename(running, directory.join(STOPPED_FILE)).map_err(|_| error)
        })
    }

    /// The retired instances, with the moments of their retirement.
    pub(crate) fn retired(&self) -> anyhow::Result<Vec<(InstanceId, SystemTime)>> {
        let noted = |name: String| {
            let metadata = fs::metadata(self.tasks().join(&name).join(RETIRED_FILE)).ok()?;
            Some((name.parse().ok()?, metadata.modified().ok()?))
        };
        Ok(linux::task::scan(&self.tasks())?.into_iter().filter_map(noted).collect())
    }

    /// Discards the directory of an ended instance, with its logs.
    pub(crate) fn discard(&self, instance: InstanceId) -> anyhow::Result<()> {
        Ok(self.task(instance)?.discard()?)
    }
}

/// Discards the home directory of an ended instance. An empty one goes with the instance's directory:
/// where many tasks come and go, deleting each takes more than it gives.
pub(super) fn discard_home(instance: InstanceId, task: &TaskDirectory) {
    task_files::remove(task);
    let home = fs::read_dir(task.path().join(record::HOME_DIRECTORY));
    let is_empty = home.is_ok_and(|mut entries| entries.next().is_none());
    if is_empty && !task.path().join(record::IMAGE_DIRECTORY).exists() {
        return;
    }
    if let Err(error) = task.discard_home() {
        tracing::error!("cannot remove the files of {instance}: {error}");
    }
}

/// How the output of a task rotates.
fn rotation(logs: LogPolicy) -> Rotation {
    let (_, max) = LogSettings::default().of(logs);
    let file_bytes_max = max.0 / 2 / u64::from(LOG_FILES);
    Rotation { file_bytes_max, files_max: LOG_FILES }
}

/// An instance's specification, with its limit in force; `None` if it was never started.
fn read_desired(task: &TaskDirectory, name: &str) -> anyhow::Result<Option<Desired>> {
    let Some(text) = read(&task.path().join(name))? else { return Ok(None) };
    let desired: v1::Desired = serde_json::from_str(&text)?;
    Ok(Some(desired.try_into()?))
}

/// Records what a job says of an instance's logs now.
fn note_logs(task: &TaskDirectory, logs: LogPolicy) -> anyhow::Result<()> {
    let Some(mut desired) = read_desired(task, DESIRED_FILE)? else { return Ok(()) };
    Arc::make_mut(&mut desired.spec).logs = logs;
    write_desired(task, &desired)
}

fn write_desired(task: &TaskDirectory, desired: &Desired) -> anyhow::Result<()> {
    write(task.path(), DESIRED_FILE, &desired_text(desired)?)
}

fn desired_text(desired: &Desired) -> anyhow::Result<String> {
    Ok(serde_json::to_string(&v1::Desired::from(desired))?)
}

/// Whether no shim has ever locked the directory of an instance.
fn is_never_started(task: &TaskDirectory) -> bool {
    matches!(task.inspect(), Ok(Inspection::Lost { reason: LostReason::NeverStarted }))
}

pub(super) fn read(path: &Path) -> anyhow::Result<Option<String>> {
    use std::io::Read;
    let file = match fs::File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error).with_context(|| format!("cannot open {}", path.display())),
    };
    let mut text = String::new();
    file.take(FILE_BYTES_MAX)
        .read_to_string(&mut text)
        .with_context(|| format!("cannot read {}", path.display()))?;
    Ok(Some(text))
}

/// Writes a file, of which no earlier version exists, complete or not at all; after a power failure it
/// may be incomplete unless it is synced.
fn write_unsynced(directory: &Path, name: &str, text: &str) -> anyhow::Result<fs::File> {
    let (path, new) = (directory.join(name), directory.join(format!(".{name}.new")));
    let written = || -> io::Result<fs::File> {
        let mut file = fs::File::create(&new)?;
        file.write_all(text.as_bytes())?;
        fs::rename(&new, &path)?;
        Ok(file)
    };
    written().with_context(|| format!("cannot write {}", path.display()))
}

pub(super) fn write(directory: &Path, name: &str, text: &str) -> anyhow::Result<()> {
    let (path, new) = (directory.join(name), directory.join(format!(".{name}.new")));
    let written = (|| {
        let mut file = fs::File::create(&new)?;
        file.write_all(text.as_bytes())?;
        file.sync_data()?;
        fs::rename(&new, &path)?;
        fs::File::open(directory)?.sync_all()
    })();
    written.with_context(|| format!("cannot write {}", path.display()))
}
