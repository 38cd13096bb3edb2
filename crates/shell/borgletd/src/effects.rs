//! Executes the Borglet's effects. Slow ones run in the background, and their results come back as
//! inputs.

use borglet::{DesiredAlloc, Effect, HeldPort, Input, Launch, Notice, Rule};
use linux::task::{Delivery, ShimChild, TaskDirectory, TaskError};
use linux::uid::Holder;
use model::{End, FinalUsage, InstanceId, Resources, Stamp, UserName};
use process::clock::wall_clock;
use rpc::transport::{Turn, Turns};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::{Semaphore, mpsc};

use super::checks::Checks;
use super::cleanup::Remover;
use super::clients::Clients;
use super::disk;
use super::found_packages::FoundPackages;
use super::message::Message;
use super::notice;
use super::packages::Packages;
use super::ports;
use super::probe;
use super::readable::readable;
use super::secrets::TaskSecrets;
use super::starts::{Starts, Stopped, UnderWay};
use super::tasks::{Files, InstanceState};
use super::uids::Uids;

mod cpu;
mod read_again;
mod savers;

pub(crate) use cpu::CapMetrics;

/// How long a signal to a task that is still being set up is retried, and the delay between.
const DELIVERY_PATIENCE: Duration = Duration::from_secs(60);
const DELIVERY_RETRY: Duration = Duration::from_millis(5);

/// How many tasks are set up at once, those of one user at most half of it, and of how many the ends
/// are looked at. More would take the processors, and the threads for blocking work, from the tasks
/// that run and from their health checks.
const SET_UPS_AT_ONCE: usize = 32;
const LOOKS_AT_ONCE: usize = 16;

/// Executes effects and watches instances.
#[derive(Clone)]
pub(crate) struct Executor {
    files: Files,
    provided: Provided,
    remover: Remover,
    checks: Checks,
    to_driver: mpsc::Sender<Message>,
    /// The newest durable stamp.
    persisted: Stamp,
    /// Whose turn it is to work on the files of kept data.
    data_turn: Arc<tokio::sync::Mutex<()>>,
    /// Whose turn it is to read secrets and names again: what is read first is written first.
    read_turn: Arc<tokio::sync::Mutex<()>>,
    readings: read_again::ReadingsAgain,
    starts: Starts,
    set_ups: Turns<UserName>,
    looks: Arc<Semaphore>,
    uids: Uids,
    cpus: cpu::CpuEffects,
    ended_by_rule: EndedByRule,
}

/// How many tasks each rule has ended.
#[derive(Clone, Debug, Default)]
pub(crate) struct EndedByRule(Arc<[AtomicU64; Rule::ALL.len()]>);

impl EndedByRule {
    /// Each rule with its number.
    pub(crate) fn counts(&self) -> impl Iterator<Item = (Rule, u64)> {
        Rule::ALL.into_iter().zip(self.0.iter().map(|count| count.load(Ordering::Relaxed)))
    }

    fn count(&self, rule: Rule) {
        if let Some(count) = self.0.get(rule as usize) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// What tasks are given by others than their machine.
#[derive(Clone)]
pub(crate) struct Provided {
    /// Their certificates.
    pub(super) clients: Clients,
    /// Their packages.
    pub(super) packages: Packages,
    /// Their secrets.
    pub(super) secrets: TaskSecrets,
}

impl Provided {
    /// Gets what a task needs: packages and image, and last its certificate and secrets, which are among the bind mounts.
    async fn begin(&self, launch: &Launch, uid: u32) -> anyhow::Result<FoundPackages> {
        let mut found = self.packages.begin(&launch.desired).await?;
        let certificate = async {
            match launch.desired.spec.api {
                true => self.clients.begin(launch.instance, uid).await.map(Some),
                false => Ok(None),
            }
        };
        // Each waits for an operation: the two are one wait, and over one connection.
        let (certificate, secrets) = tokio::try_join!(certificate, self.secrets.begin(launch))?;
        found.binds.extend(certificate);
        found.binds.extend(secrets.binds);
        found.secret_env = secrets.env;
        found.names = secrets.names;
        Ok(found)
    }

    /// An instance has ended, or was not started.
    fn end(&self, instance: InstanceId) {
        self.clients.end(instance);
        self.packages.end(instance);
        self.secrets.end(instance);
    }
}

/// The outcome of a start.
enum Begun {
    /// The shim, and the turn of the set-up, which lasts until the program runs.
    Runs(ShimChild, Turn<UserName>),
    PortTaken(HeldPort),
    UidTaken(Holder),
    /// Without its certificate or a package it does not start, which is nobody's failure.
    NotProvided(anyhow::Error),
}

impl Executor {
    pub(crate) fn new(
        files: Files,
        provided: Provided,
        remover: Remover,
        to_driver: mpsc::Sender<Message>,
        persisted: Stamp,
        uids: Uids,
    ) -> Self {
        let (checks, data_turn, read_turn) = (Checks::new(), Arc::default(), Arc::default());
        let (starts, readings) = (Starts::default(), read_again::ReadingsAgain::default());
        let set_ups = Turns::new(SET_UPS_AT_ONCE);
        let looks = Arc::new(Semaphore::new(LOOKS_AT_ONCE));
        let cpus = cpu::CpuEffects::default();
        let ended_by_rule = EndedByRule::default();
        Self {
            files,
            provided,
            remover,
            checks,
            to_driver,
            persisted,
            data_turn,
            read_turn,
            readings,
            starts,
            set_ups,
            looks,
            uids,
            cpus,
            ended_by_rule,
        }
    }

    /// How many tasks each rule has ended.
    pub(crate) fn ended_by_rule(&self) -> &EndedByRule {
        &self.ended_by_rule
    }

    /// Makes a stamp durable, unless a newer one is that it does not overrule.
    ///
    /// # Errors
    /// If it cannot be made durable; then no order with it may be obeyed.
    pub(crate) async fn persist(
        &mut self,
        stamp: Stamp,
        overrules: Option<Stamp>,
    ) -> anyhow::Result<()> {
        if stamp > self.persisted || overrules == Some(self.persisted) {
            let files = self.files.clone();
            tokio::task::spawn_blocking(move || files.write_stamp(stamp)).await??;
            self.persisted = stamp;
        }
        Ok(())
    }

    /// Executes one effect, or starts to.
    pub(crate) fn execute(&self, effect: Effect) {
        match effect {
            // The order was checked before it reached the Borglet.
            Effect::PersistStamp(stamp) => debug_assert!(stamp == self.persisted, "{stamp:?}"),
            Effect::Start(launch) => self.start(*launch),
            Effect::Terminate(instance, notice) => self.terminate(instance, notice),
            Effect::Kill(instance) => {
                if !self.starts.prevent(instance) {
                    let this = self.clone();
                    tokio::spawn(async move {
                        this.deliver(instance, "kill", TaskDirectory::kill).await;
                    });
                }
            }
            Effect::NoteRule { instance, rule, reason } => {
                self.ended_by_rule.count(rule);
                tracing::warn!("{instance} is ended by the rule {}: {reason}", rule.name());
            }
            Effect::Check { instance, kind, user, probe, timeout } => {
                let this = self.clone();
                tokio::spawn(async move {
                    let (checks, files) = (&this.checks, &this.files);
                    let timeout = timeout.to_std();
                    let answer = checks.run(files, instance, &user, probe, timeout).await;
                    this.tell(Input::Checked(instance, kind, answer)).await;
                });
            }
            Effect::Resize { instance, limit } => self.resize(instance, limit, Files::resize),
            Effect::ShareCpus(cpus) => self.share_cpus(cpus),
            Effect::CapCpu { instance, cap } => self.cap_cpu(instance, cap),
            Effect::Probe => {
                let this = self.clone();
                tokio::spawn(async move {
                    let probed = probe::run(&this.files, this.uids).await;
                    if let Err(reason) = &probed {
                        tracing::error!("this machine can run no tasks: {reason}");
                    }
                    this.tell(Input::Probed(probed)).await;
                });
            }
            Effect::MakeAlloc(desired) => self.make_alloc(*desired),
            Effect::ResizeAlloc { instance, limit } => {
                self.resize(instance, limit, Files::resize_alloc);
            }
            Effect::RemoveAlloc { instance, save } => self.remove_alloc(instance, save),
            Effect::MeasureData(instance) => self.measure_data(instance),
            Effect::RunSaver(launch) => self.run_saver(*launch),
            Effect::KillSaver(instance) => self.kill_saver(instance),
            Effect::EndData(kept) => self.end_data(*kept),
            Effect::ForgetData(instance) => self.forget_data(instance),
            Effect::KeepLogs(settings) => self.files.log_settings.set(settings),
            Effect::LookAtVolumes(volumes) => self.files.volumes.set(volumes),
            Effect::ReadAgain(launch) => self.read_again(*launch),
            Effect::Retire { instance, logs } => {
                let files = self.files.clone();
                tokio::task::spawn_blocking(move || {
                    if let Err(error) = files.retire(instance, logs) {
                        tracing::error!("cannot retire {instance}: {error:#}");
                    }
                });
            }
        }
    }

    /// Writes the notice, and then sends SIGTERM: a task that is not told is stopped all the same.
    fn terminate(&self, instance: InstanceId, notice: Notice) {
        if self.starts.prevent(instance) {
            return;
        }
        let this = self.clone();
        tokio::spawn(async move {
            let files = this.files.clone();
            let written = tokio::task::spawn_blocking(move || {
                notice::write(&files.task(instance)?, &notice, wall_clock())
            });
            let written = written.await.map_err(anyhow::Error::from).and_then(|written| written);
            if let Err(error) = &written {
                tracing::error!("cannot give {instance} its notice: {error:#}");
            }
            let sent = this.deliver(instance, "terminate", TaskDirectory::terminate).await;
            if written.is_err() || !sent {
                this.tell(Input::NoticeFailed(instance)).await;
            }
        });
    }

    /// Sends a signal. A task that is still being set up gets it as soon as possible. Returns whether
    /// it was sent, or there is nothing left to signal.
    async fn deliver(
        &self,
        instance: InstanceId,
        what: &'static str,
        send: fn(&TaskDirectory) -> Result<Delivery, TaskError>,
    ) -> bool {
        let until = tokio::time::Instant::now() + DELIVERY_PATIENCE;
        while tokio::time::Instant::now() < until {
            let files = self.files.clone();
            // Asked before: a start that ends meanwhile has left something to signal.
            let without_shim = self.starts.has(instance);
            let sent =
                tokio::task::spawn_blocking(move || anyhow::Ok(send(&files.task(instance)?)?));
            match sent.await.map_err(anyhow::Error::from).and_then(|sent| sent) {
                Ok(Delivery::StillStarting) => tokio::time::sleep(DELIVERY_RETRY).await,
                Ok(Delivery::Gone) if without_shim => tokio::time::sleep(DELIVERY_RETRY).await,
                Ok(Delivery::Sent | Delivery::Gone) => return true,
                Err(error) => {
                    tracing::error!("cannot {what} {instance}: {error:#}");
                    return false;
                }
            }
        }
        tracing::error!("cannot {what} {instance}: it is still starting");
        false
    }

    /// Changes an instance's limit, as soon as the kernel has reclaimed memory for that.
    fn resize(
        &self,
        instance: InstanceId,
        limit: Resources,
        resize: fn(&Files, InstanceId, Resources) -> anyhow::Result<Option<Resources>>,
    ) {
        let this = self.clone();
        tokio::spawn(async move {
            let files = this.files.clone();
            let resized = tokio::task::spawn_blocking(move || resize(&files, instance, limit));
            let held = match resized.await.map_err(anyhow::Error::from).and_then(|held| held) {
                Ok(Some(held)) if held != limit => {
                    let (wanted, ram) = (limit.ram, held.ram);
                    tracing::info!(
                        "{instance} uses more memory than {wanted}: its limit is {ram} for now"
                    );
                    Some(held)
                }
                Ok(held) => held,
                Err(error) => {
                    tracing::error!("cannot change the limit of {instance} to {limit}: {error:#}");
                    None
                }
            };
            this.tell(Input::Resized(instance, held)).await;
        });
    }

    fn make_alloc(&self, desired: DesiredAlloc) {
        let this = self.clone();
        tokio::spawn(async move {
            let (instance, files) = (desired.instance, this.files.clone());
            let made = tokio::task::spawn_blocking(move || files.make_alloc(&desired));
            let made = made.await.map_err(anyhow::Error::from).and_then(|made| made);
            this.tell(Input::AllocMade(instance, made.map_err(|error| format!("{error:#}")))).await;
        });
    }

    fn remove_alloc(&self, instance: InstanceId, save: bool) {
        let this = self.clone();
        tokio::spawn(async move {
            let files = this.files.clone();
            let removed = tokio::task::spawn_blocking(move || {
                let kept = if save { files.keep_alloc(instance) } else { Ok(None) };
                let kept = kept.unwrap_or_else(|error| {
                    tracing::error!("cannot keep the data of {instance} for its saver: {error:#}");
                    None
                });
                anyhow::Ok((kept, files.discard_alloc(instance)))
            });
            let removed = removed.await.map_err(anyhow::Error::from).and_then(|done| done);
            let removed = match removed {
                Ok((kept, discarded)) => {
                    if let Some(kept) = kept {
                        this.tell(Input::Kept(Box::new(kept))).await;
                    }
                    discarded
                }
                Err(error) => Err(error),
            };
            let input = match removed {
                Ok(discarded) => {
                    // Its disk space is available to others only then.
                    if let Some(discarded) = discarded {
                        this.remover.gone(discarded).await;
                    }
                    Input::AllocRemoved(instance)
                }
                Err(error) => {
                    tracing::error!("cannot remove {instance}: {error:#}");
                    Input::AllocStays(instance)
                }
            };
            this.tell(input).await;
        });
    }

    fn start(&self, launch: Launch) {
        let this = self.clone();
        // At once: a stop may be the next effect.
        let start = self.starts.begin(launch.instance);
        tokio::spawn(async move {
            let (instance, uid) = (launch.instance, launch.uid);
            match this.begin(launch, start).await {
                Ok(Begun::Runs(child, turn)) => {
                    this.follow(instance, Some((child.ready, turn)), child.shim).await;
                }
                // Not a failure of the task: its next instance gets another port.
                Ok(Begun::PortTaken(held)) => this.tell(Input::PortTaken(instance, held)).await,
                Ok(Begun::NotProvided(error)) => {
                    this.provided.end(instance);
                    let end = End::Lost { reason: format!("{error:#}") };
                    this.tell(Input::Ended(instance, end, FinalUsage::UNMEASURED)).await;
                }
                Ok(Begun::UidTaken(holder)) => {
                    tracing::info!("{holder} uses user id {uid}: {instance} gets another");
                    this.tell(Input::UidTaken(instance)).await;
                }
                Err(error) => {
                    this.provided.end(instance);
                    let reason = format!("{error:#}");
                    this.tell(match error.downcast_ref::<Stopped>() {
                        // Its end is that of a stopped task.
                        Some(_) => {
                            let end = End::NotStarted { reason };
                            Input::Ended(instance, end, FinalUsage::UNMEASURED)
                        }
                        None => Input::SetUpFailed(instance, reason),
                    })
                    .await;
                }
            }
        });
    }

    /// Creates what a task needs, its certificate last if it requests one, and starts it.
    async fn begin(&self, launch: Launch, mut start: UnderWay) -> anyhow::Result<Begun> {
        let (uid, launch) = (launch.uid, Arc::new(launch));
        let (files, made) = (self.files.clone(), Arc::clone(&launch));
        let mut turn = start.unless_stopped(self.set_ups.of(&launch.desired.user)).await?;
        self.files.owners.add(&launch);
        let task = tokio::task::spawn_blocking(move || {
            if let Some(port) = taken_port(&made) {
                return Ok(Err(Begun::PortTaken(ports::holder(&files, port))));
            }
            if let Some(holder) = files.holder(uid) {
                return Ok(Err(Begun::UidTaken(holder)));
            }
            if let Some(reason) = disk::no_room(&files) {
                anyhow::bail!(reason);
            }
            anyhow::Ok(Ok(files.create(&made)?))
        });
        let task = match task.await?? {
            Ok(task) => task,
            Err(begun) => return Ok(begun),
        };
        let mut provided = FoundPackages::default();
        let spec = &launch.desired.spec;
        let needs_package = spec.image.is_some() || !spec.packages.is_empty();
        if spec.api || needs_package || launch.asks_master() {
            // Masters and stores may take their time.
            drop(turn);
            provided = match start.unless_stopped(self.provided.begin(&launch, uid)).await? {
                Ok(provided) => provided,
                Err(error) => return Ok(Begun::NotProvided(error)),
            };
            self.tell(Input::Fetched(launch.instance, provided.fetched)).await;
            turn = start.unless_stopped(self.set_ups.of(&launch.desired.user)).await?;
        }
        if !launch.desired.volumes.is_empty() {
            let (files, launch) = (self.files.clone(), Arc::clone(&launch));
            let marked = tokio::task::spawn_blocking(move || files.mark_volumes(&launch.desired));
            // A directory is not all of the machine: it stays ready for other tasks.
            if let Err(error) = marked.await? {
                return Ok(Begun::NotProvided(error));
            }
        }
        let files = self.files.clone();
        let started = tokio::task::spawn_blocking(move || {
            let launch = Launch::clone(&launch).told(std::mem::take(&mut provided.names));
            let record = files.launch_record(&launch, provided)?;
            start.commit()?;
            // Until its shim is there.
            let _start = start;
            anyhow::Ok(task.start(files.shims(), &record)?)
        });
        Ok(Begun::Runs(started.await??, turn))
    }

    /// Watches an existing instance.
    pub(crate) fn watch(&self, instance: InstanceId) {
        let this = self.clone();
        tokio::spawn(async move {
            let files = this.files.clone();
            let watched =
                tokio::task::spawn_blocking(move || anyhow::Ok(files.task(instance)?.watch()?));
            match watched.await.map_err(anyhow::Error::from).and_then(|watched| watched) {
                Ok(Some(shim)) => this.follow(instance, None, shim).await,
                Ok(None) => {
                    this.look(instance).await;
                    this.provided.end(instance);
                }
                Err(error) => tracing::error!("cannot watch {instance}: {error:#}"),
            }
        });
    }

    /// Follows an instance from its start to its end, and deletes its key then.
    async fn follow(
        &self,
        instance: InstanceId,
        ready: Option<(OwnedFd, Turn<UserName>)>,
        shim: OwnedFd,
    ) {
        self.follow_to_its_end(instance, ready, shim).await;
        self.provided.end(instance);
    }

    async fn follow_to_its_end(
        &self,
        instance: InstanceId,
        ready: Option<(OwnedFd, Turn<UserName>)>,
        shim: OwnedFd,
    ) {
        let mut ended = std::pin::pin!(readable(shim));
        if let Some((ready, turn)) = ready {
            readable(ready).await;
            drop(turn);
            self.look(instance).await;
        } else {
            // Its starter is gone, and with it the pipe that reports readiness.
            while self.look(instance).await {
                tokio::select! {
                    () = &mut ended => {
                        self.look(instance).await;
                        return;
                    }
                    () = tokio::time::sleep(DELIVERY_RETRY) => {}
                }
            }
        }
        ended.await;
        self.look(instance).await;
    }

    /// Checks an instance and reports news to the Borglet. Returns whether it is still starting.
    async fn look(&self, instance: InstanceId) -> bool {
        let (files, remover) = (self.files.clone(), self.remover.clone());
        let turn = self.looks.acquire().await;
        let looked = tokio::task::spawn_blocking(move || {
            let task = files.task(instance)?;
            let looked = files.look(instance, &task);
            let (mut kept, mut held) = (None, None);
            let lost;
            let end = match &looked {
                InstanceState::Ended(end, _) => Some(end),
                InstanceState::NotSetUp(reason) => {
                    lost = End::Lost { reason: reason.clone() };
                    Some(&lost)
                }
                InstanceState::Starting | InstanceState::Running(_) => None,
            };
            if let Some(end) = end {
                held = held_port(&files, &task, end);
                kept = files.leave(instance, &task, end);
                remover.look();
            }
            anyhow::Ok((looked, kept, held))
        });
        let looked = looked.await.map_err(anyhow::Error::from).and_then(|looked| looked);
        drop(turn);
        let looked = match looked {
            Ok((looked, kept, held)) => {
                if let Some(kept) = kept {
                    self.tell(Input::Kept(Box::new(kept))).await;
                }
                if let Some(held) = held {
                    self.tell(Input::Ports(vec![held])).await;
                }
                Ok(looked)
            }
            Err(error) => Err(error),
        };
        match looked {
            Ok(InstanceState::Starting) => return true,
            Ok(InstanceState::Running(_)) => self.tell(Input::Started(instance)).await,
            Ok(InstanceState::NotSetUp(reason)) => {
                self.tell(Input::SetUpFailed(instance, reason)).await;
            }
            Ok(InstanceState::Ended(end, usage)) => {
                self.tell(Input::Ended(instance, end, usage)).await;
            }
            Err(error) => {
                let reason = format!("cannot inspect it: {error:#}");
                self.tell(Input::Ended(instance, End::Lost { reason }, FinalUsage::UNMEASURED))
                    .await;
            }
        }
        false
    }

    async fn tell(&self, input: Input) {
        let _gone = self.to_driver.send(Message::Input(input)).await;
    }
}

/// The first of the machine's ports assigned to it that is in use.
fn taken_port(launch: &Launch) -> Option<u16> {
    let taken = |port: &u16| match std::net::TcpListener::bind(("0.0.0.0", *port)) {
        Ok(_) => false,
        // A Borglet without root may not bind it either: nobody else has to have it.
        Err(error) => error.kind() != std::io::ErrorKind::PermissionDenied,
    };
    launch.desired.machine_ports().iter().map(|(_, port)| *port).find(taken)
}

/// A port of a task that has failed, if something else holds it now.
fn held_port(files: &Files, task: &TaskDirectory, end: &End) -> Option<HeldPort> {
    let failed = matches!(end, End::Exited { code } if *code != 0);
    let (launch, _) = failed.then(|| files.launched(task))?.ok()??;
    taken_port(&launch).map(|port| ports::holder(files, port))
}
