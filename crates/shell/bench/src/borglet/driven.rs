//! A real Borglet as a process of this program, driven as by a master: it is polled with a hold, and
//! gets an order when something changes.

use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use ::process::{LOG_VARIABLE, PARENT_VARIABLE, SMALL_PAGES};
use anyhow::{Context, ensure};
use api::v1;
use borglet::{Desired, Order, Report, TaskReport, TaskStatus};
use linux::Isolation;
use linux::cgroup::{Hierarchy, Limits, Sharing, TaskCgroup, Tier, parent_name};
use model::{
    Appclass, Band, Bytes, CellName, CollectionId, Generation, InstanceId, JobName, LogIndex,
    MilliCores, PortName, Resources, RestoreEpoch, Span, Stamp, TaskIndex, Term, Time, UserName,
};
use nix::sys::signal::{Signal, kill};
use nix::time::{ClockId, clock_gettime};
use nix::unistd::Pid;
use rpc::service::borglet_client::BorgletClient;
use rpc::transport::Link;
use rpc::{Authority, Expect, Identity, Role, Rotating, Validity};
use spec::{HealthCheck, TaskSpec};
use tokio::time::Instant;

/// The name of the cell, of its user, and of the machine.
const NAME: &str = "bench";
const VALIDITY: Duration = Duration::from_secs(86_400);
/// The longest hold of a poll, as a master's by default.
const HOLD: Span = Span::from_secs(2);
/// No phase takes this long unless something hangs.
const PATIENCE: Duration = Duration::from_secs(300);
const RETRY: Duration = Duration::from_millis(5);
/// The time between the response to a poll and the next one: a master has other machines, too.
const REST: Duration = Duration::from_millis(10);
/// The ports of tasks that have a health check.
const FIRST_PORT: u16 = 20_000;
const LAST_PORT: u16 = 29_999;

/// A Borglet. On drop it is stopped with its tasks, and its directory is removed.
pub(super) struct Driven {
    directory: PathBuf,
    process: Child,
    /// The cgroup of the Borglet and of the shims, and the one of all tasks.
    own: TaskCgroup,
    tasks: TaskCgroup,
    master: BorgletClient<Link>,
    orders: u64,
    order: Option<Order>,
    seen: u64,
    samples: u64,
    windows: u64,
    report: Report,
    polls: u64,
}

impl Driven {
    /// Starts a Borglet in a directory of its own below `place`.
    pub(super) async fn start(place: &Path) -> anyhow::Result<Self> {
        ensure!(
            linux::machine::preflight()? == Isolation::Jail,
            "this benchmark runs tasks in jails with cgroups: start it as root"
        );
        let directory = place.join(format!("bourg-bench-{}", std::process::id()));
        std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o711)
            .create(directory.join("tls"))
            .with_context(|| format!("cannot create {}", directory.display()))?;
        let authority = Authority::create(directory.join("tls"), NAME)?;
        let issue = |identity| authority.issue(&identity, Validity::lasting(VALIDITY));
        issue(Identity::Borglet(NAME.to_owned()))?.write(&directory, "borglet")?;
        let master = Rotating::new(issue(Identity::Master)?)?;
        // Free a moment ago.
        let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?.to_string();
        let hierarchy = Hierarchy::detect()?;
        let own = TaskCgroup::create(
            &hierarchy,
            &format!("bourg-bench-{}", std::process::id()),
            &Limits {
                cpu_milli: 1_000,
                cpu_hard_cap: false,
                memory_bytes: 1 << 50,
                pids_max: u64::MAX,
                sharing: Sharing::default(),
            },
        )?;
        let program = std::env::current_exe().context("cannot find this program")?;
        let mut command = Command::new(program);
        command.args(["borglet", "--stop-tasks", "--listen", &address]);
        command.arg("--dir").arg(&directory);
        command.env(LOG_VARIABLE, "error");
        command.env(PARENT_VARIABLE, std::process::id().to_string());
        command.env(SMALL_PAGES.0, SMALL_PAGES.1);
        command.stdin(Stdio::null()).stdout(Stdio::null());
        let process = command.spawn().context("cannot start a Borglet")?;
        let pid = i32::try_from(process.id())?;
        let link = rpc::transport::link(&address, &master, &Expect::Role(Role::Borglet))?;
        let most = rpc::transport::MAX_STREAM_MESSAGE_BYTES;
        let master = BorgletClient::new(link)
            .max_decoding_message_size(most)
            .max_encoding_message_size(most);
        let tasks = TaskCgroup::open(&hierarchy, &parent_name(&directory))?;
        let (order, report) = (None, Report::default());
        let mut driven = Self {
            directory,
            process,
            own,
            tasks,
            master,
            orders: 0,
            order,
            seen: 0,
            samples: 0,
            windows: 0,
            report,
            polls: 0,
        };
        driven.own.add_process(pid)?;
        let until = Instant::now() + PATIENCE;
        while TcpStream::connect(&address).is_err() {
            ensure!(driven.process.try_wait()?.is_none(), "the Borglet has ended");
            ensure!(Instant::now() < until, "the Borglet does not listen at {address}");
            tokio::time::sleep(RETRY).await;
        }
        driven.poll().await?;
        Ok(driven)
    }

    /// The process id of the Borglet.
    pub(super) fn pid(&self) -> u32 {
        self.process.id()
    }

    /// The number of polls so far.
    pub(super) fn polls(&self) -> u64 {
        self.polls
    }

    /// The CPU time of the Borglet, of the shims, and of all tasks so far, ended ones included. At
    /// least one task must have been started.
    pub(super) fn cpu_time(&self) -> anyhow::Result<Duration> {
        let ns = self.own.usage()?.cpu_ns + self.tasks.usage()?.cpu_ns;
        Ok(Duration::from_nanos(ns))
    }

    /// The CPU time of the Borglet's process.
    pub(super) fn own_cpu_time(&self) -> anyhow::Result<Duration> {
        let clock = ClockId::pid_cpu_clock_id(Pid::from_raw(i32::try_from(self.pid())?))?;
        Ok(clock_gettime(clock)?.into())
    }

    /// Kills every process of a task.
    pub(super) fn kill(&self, instance: InstanceId) -> anyhow::Result<()> {
        let tier = Tier::LatencySensitive.group();
        let name = format!("{}/{tier}/{instance}", self.tasks.name());
        Ok(TaskCgroup::open(&Hierarchy::detect()?, &name)?.kill_all()?)
    }

    /// The directory of a task's output.
    pub(super) fn logs(&self, instance: InstanceId) -> PathBuf {
        self.directory.join("tasks").join(instance.to_string()).join("logs")
    }

    /// Orders these tasks and no others with the next poll.
    pub(super) fn order(&mut self, tasks: Vec<Desired>) {
        self.orders += 1;
        let stamp = Stamp {
            restore_epoch: RestoreEpoch::after(0, 0),
            term: Term(1),
            index: LogIndex(self.orders),
        };
        self.order = Some(Order { stamp, tasks, ..Order::default() });
    }

    /// Polls until the report satisfies a condition.
    pub(super) async fn until(
        &mut self,
        what: &str,
        reached: impl Fn(&Report) -> bool,
    ) -> anyhow::Result<()> {
        let until = Instant::now() + PATIENCE;
        while self.order.is_some() || !reached(&self.report) {
            ensure!(Instant::now() < until, "waited in vain until {what}");
            self.poll().await?;
            tokio::time::sleep(REST).await;
        }
        Ok(())
    }

    /// Polls for this long.
    pub(super) async fn during(&mut self, time: Duration) -> anyhow::Result<()> {
        let until = Instant::now() + time;
        while Instant::now() < until {
            // Cancelled, a poll is one whose response got lost: the next one has the same news.
            let _in_time = tokio::time::timeout_at(until, self.poll()).await;
        }
        Ok(())
    }

    /// The newest report.
    pub(super) fn report(&self) -> &Report {
        &self.report
    }

    async fn poll(&mut self) -> anyhow::Result<()> {
        let request = v1::PollRequest {
            order: self.order.as_ref().map(Into::into),
            hold: Some(api::duration(HOLD)),
            seen: self.seen,
            usage_after: self.windows,
            samples_after: self.samples,
            reservations: Vec::new(),
            masters: Vec::new(),
            packages_seen: 0,
        };
        let response = self.master.poll(request).await?.into_inner();
        ensure!(!response.order_refused, "the Borglet refused an order");
        self.polls += 1;
        self.order = None;
        self.seen = response.version;
        if let Some(usage) = response.usage {
            let newest = usage.samples.iter().map(|sample| sample.at).max();
            self.samples = newest.unwrap_or(self.samples);
            self.windows = self.windows.max(usage.cursor);
        }
        self.report = response.report.context("a response without a report")?.try_into()?;
        Ok(())
    }
}

impl Drop for Driven {
    fn drop(&mut self) {
        let pid = i32::try_from(self.process.id()).map(Pid::from_raw);
        let _gone = pid.map(|pid| kill(pid, Signal::SIGTERM));
        let _status = self.process.wait();
        // What its shims still have to do is little.
        for group in [&self.tasks, &self.own] {
            if let Err(error) = group.kill_all().and_then(|()| group.remove()) {
                eprintln!("{error}");
            }
        }
        if let Err(error) = linux::tree::remove_tree(&self.directory) {
            eprintln!("cannot remove {}: {error}", self.directory.display());
        }
    }
}

/// The instance of a job's task.
pub(super) fn instance(job: u64, index: u32) -> InstanceId {
    InstanceId { collection: CollectionId(job), index: TaskIndex(index), generation: Generation(1) }
}

/// A small task.
pub(super) fn task(instance: InstanceId, argv: &[&str]) -> anyhow::Result<Desired> {
    let mut spec = TaskSpec::of(argv.iter().map(|&word| word.to_owned()).collect());
    spec.limit = Resources { cpu: MilliCores(1), ram: Bytes(8 << 20), ..Resources::default() };
    spec.notice = Span::from_millis(100);
    Ok(Desired {
        instance,
        alloc: None,
        cell: CellName::new(NAME)?,
        user: UserName::new(NAME)?,
        job: JobName::new("job")?,
        priority: Band::Production.usual(),
        appclass: Appclass::LatencySensitive,
        tasks: 1,
        spec: spec.into(),
        ports: Vec::new(),
        address: None,
        volumes: Vec::new(),
        reads_again: 0,
        max_runtime: None,
    })
}

/// A task that runs `work` of this program.
pub(super) fn working(instance: InstanceId, work: &[&str]) -> anyhow::Result<Desired> {
    let mut desired = task(instance, &[&["bourg", "bench", "work"], work].concat())?;
    let mut spec = (*desired.spec).clone();
    spec.limit = Resources { cpu: MilliCores(20), ram: Bytes(64 << 20), ..spec.limit };
    desired.spec = spec.into();
    Ok(desired)
}

/// Tasks that answer a health check every second; a single failure ends one.
pub(super) fn checked(job: u64, number: u32) -> anyhow::Result<Vec<Desired>> {
    let free = free_ports(usize::try_from(number)?)?;
    let one = |(index, port): (u32, u16)| {
        let mut desired = working(instance(job, index), &["serve", "--port", &port.to_string()])?;
        let mut spec = (*desired.spec).clone();
        let name = PortName::new("http")?;
        let mut check = HealthCheck::on(name.clone());
        check.failures_max = 1;
        spec.ports.insert(name.clone());
        spec.health_check = Some(check);
        (desired.spec, desired.ports) = (spec.into(), vec![(name, port)]);
        Ok(desired)
    };
    (0..).zip(free).map(one).collect()
}

/// Ports that nothing on this machine uses.
pub(super) fn free_ports(number: usize) -> anyhow::Result<Vec<u16>> {
    let free =
        (FIRST_PORT..=LAST_PORT).filter(|port| TcpListener::bind(("0.0.0.0", *port)).is_ok());
    let free: Vec<u16> = free.take(number).collect();
    ensure!(free.len() == number, "no port for tasks is free");
    Ok(free)
}

/// How many tasks of a job are in a state.
pub(super) fn count(report: &Report, job: u64, is: impl Fn(&TaskStatus) -> bool) -> usize {
    let of_job = |task: &&TaskReport| task.instance.collection == CollectionId(job);
    report.tasks.iter().filter(of_job).filter(|task| is(&task.status)).count()
}

/// Whether a task runs, and is healthy.
pub(super) fn is_healthy(status: &TaskStatus) -> bool {
    matches!(status, TaskStatus::Running { healthy: Some(true) })
}

/// Whether a task has ended.
pub(super) fn has_ended(status: &TaskStatus) -> bool {
    matches!(status, TaskStatus::Ended(..))
}

/// The time by the clock that all processes of the machine share.
pub(super) fn machine_time() -> Time {
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC).map_or(Duration::ZERO, Duration::from);
    Time(u64::try_from(now.as_micros()).unwrap_or(u64::MAX))
}
