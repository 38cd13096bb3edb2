//! `bourg bench arrivals`: the time of tasks from arrival to running, in a cell with simulated
//! Borglets.
//!
//! The masters and the scheduler are processes of this program, as in any cell, and polls, orders
//! and reports use mutual TLS. Only the execution of orders is simulated ([`super::borglets`]): a
//! task runs at once, and succeeds after a given time. Three quarters of the jobs have one task,
//! the others a thousand. A client submits them at a given rate, all in the free band. A task has
//! started when its Borglet reports it running; the benchmark waits for all of them at the end.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use ::process::clock::wall_clock;
use ::process::{LOG_VARIABLE, PARENT_VARIABLE};
use anyhow::Context;
use api::v1;
use clap::Args;
use command::{Done, Failure, output};
use model::{Band, Bytes, JobName, MilliCores};
use rpc::Identity;
use serde::Serialize;
use spec::{JobSpec, TaskSpec};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::borglets::{self, BorgletsProcess};
use super::masters::{LeanClient, Masters};
use super::{CommonOptions, Disk, agents, micros_each, process, rate, run};

/// The options.
#[derive(Clone, Debug, Args)]
pub(crate) struct Options {
    /// The number of tasks arriving per second.
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..))]
    rate: u32,
    /// The duration of arrivals, in seconds.
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=3_600))]
    seconds: u64,
    /// The number of tasks of large jobs.
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..))]
    large: u32,
    /// The number of Borglets.
    #[arg(long, default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    agents: u32,
    /// The running time of a task, in seconds.
    #[arg(long, default_value_t = 2)]
    task_seconds: u64,
    /// The number of replicas of the master.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=7))]
    replicas: u8,
    #[command(flatten)]
    common: CommonOptions,
}

/// The results.
#[derive(Debug, Serialize)]
struct Figures {
    rate: u32,
    seconds: u64,
    replicas: u8,
    agents: u32,
    jobs: u64,
    tasks: u64,
    /// Tasks that arrived, and that started, per second of the given time.
    arrived_per_second: f64,
    started_per_second: f64,
    /// How many had arrived but not started at its end.
    behind: u64,
    /// How long after that the last of them started.
    drained_ms: f64,
    /// From sending the job until a task of it runs, over all tasks.
    start_p50_ms: f64,
    start_p99_ms: f64,
    masters_cpu_us_per_task: f64,
    scheduler_cpu_us_per_task: f64,
    agents_cpu_us_per_task: f64,
    #[serde(flatten)]
    disk: Disk,
}

/// The maximum number of unacknowledged submissions.
const IN_FLIGHT_MAX: usize = 64;
const PATIENCE: Duration = Duration::from_secs(120);
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Runs the benchmark and prints the results.
pub(crate) fn measure(options: &Options) -> Done {
    let figures = run(measured(options))?;
    let format = options.common.format();
    output::object(&format, &figures, "arrivals", || {
        format!(
            "{} tasks in {} jobs: {:.0} arrived and {:.0} started per second, for {} s; {} behind at \
             the end, started within {:.0} ms; from arrival to running p50 {:.0} ms, p99 {:.0} ms\n",
            figures.tasks,
            figures.jobs,
            figures.arrived_per_second,
            figures.started_per_second,
            figures.seconds,
            figures.behind,
            figures.drained_ms,
            figures.start_p50_ms,
            figures.start_p99_ms,
        )
    })
}

async fn measured(options: &Options) -> Result<Figures, Failure> {
    let place = options.common.below();
    let mut masters = Masters::prepare(&place, options.replicas, None, &[])?;
    masters.start()?;
    let mut connection = masters.connect()?;
    let leader = masters.form(&mut connection).await?;
    let disk = Disk::measure(&masters)?;
    let task = Duration::from_secs(options.task_seconds);
    let mut agents = BorgletsProcess::start(masters.directory(), options.agents, task)?;
    agents::add(&mut connection, &masters, options.agents).await?;
    let scheduler = Scheduler::start(&masters)?;
    while connection.cell_status().await?.schedulers == 0 {
        tokio::time::sleep(POLL_INTERVAL).await;
    }
    agents.seen()?;
    let pids = [scheduler.pid(), agents.pid()];
    let cpu = || -> anyhow::Result<[Duration; 3]> {
        let others = pids.map(process::cpu_time);
        let [scheduler, agents] = others;
        Ok([masters.cpu_time()?, scheduler?, agents?])
    };
    let before = cpu()?;
    let client = masters.clients(leader, 1, 1)?.pop().context("no client")?;
    let begun = Instant::now();
    let (jobs, tasks) = arrive(client, options).await?;
    let lasted = begun.elapsed();
    let mut seen = agents.seen()?;
    let in_time = seen.started;
    let (start_p50_ms, start_p99_ms) = (seen.start_p50_ms, seen.start_p99_ms);
    let mut started = in_time;
    while started < tasks && begun.elapsed() < lasted + PATIENCE {
        tokio::time::sleep(POLL_INTERVAL).await;
        seen = agents.seen()?;
        started += seen.started;
    }
    let drained = begun.elapsed().saturating_sub(lasted);
    if started < tasks {
        let text = format!("error: only {started} of {tasks} tasks started");
        return Err(Failure::failed(text));
    }
    let after = cpu()?;
    let [masters_cpu, scheduler_cpu, agents_cpu] =
        std::array::from_fn(|place| micros_each(after[place].saturating_sub(before[place]), tasks));
    Ok(Figures {
        rate: options.rate,
        seconds: options.seconds,
        replicas: options.replicas,
        agents: options.agents,
        jobs,
        tasks,
        arrived_per_second: rate(tasks, lasted),
        started_per_second: rate(in_time, lasted),
        behind: tasks.saturating_sub(in_time),
        drained_ms: super::milliseconds(drained),
        start_p50_ms,
        start_p99_ms,
        masters_cpu_us_per_task: masters_cpu,
        scheduler_cpu_us_per_task: scheduler_cpu,
        agents_cpu_us_per_task: agents_cpu,
        disk,
    })
}

/// Submits jobs at the given rate for the given time; returns the number of jobs and of tasks.
async fn arrive(mut client: LeanClient, options: &Options) -> Result<(u64, u64), Failure> {
    let session = client.cell.open_session(v1::OpenSessionRequest {}).await?.into_inner().session;
    let begun = Instant::now();
    let (mut jobs, mut tasks, mut waiting) = (0, 0, JoinSet::new());
    loop {
        let due = begun + Duration::from_secs_f64(tasks as f64 / f64::from(options.rate));
        if due >= begun + Duration::from_secs(options.seconds) {
            break;
        }
        tokio::time::sleep_until(due).await;
        while waiting.len() >= IN_FLIGHT_MAX {
            acknowledged(waiting.join_next().await)?;
        }
        jobs += 1;
        let spec = job(jobs, if jobs % 4 == 0 { options.large } else { 1 })?;
        tasks += u64::from(spec.tasks);
        let id = Some(v1::RequestId { session, sequence: jobs });
        let request = v1::SubmitRequest { id, spec: Some((&spec).into()) };
        let mut service = client.jobs.clone();
        waiting.spawn(async move { service.submit(request).await });
    }
    while let Some(answer) = waiting.join_next().await {
        acknowledged(Some(answer))?;
    }
    Ok((jobs, tasks))
}

fn acknowledged(
    answer: Option<
        Result<Result<tonic::Response<v1::SubmitResponse>, tonic::Status>, tokio::task::JoinError>,
    >,
) -> Result<(), Failure> {
    if let Some(answer) = answer {
        answer.map_err(anyhow::Error::from)??;
    }
    Ok(())
}

fn job(number: u64, tasks: u32) -> anyhow::Result<JobSpec> {
    let mut task = TaskSpec::of(vec!["simulated".to_owned()]);
    (task.limit.cpu, task.limit.ram) = (MilliCores(100), Bytes(64 << 20));
    let name = JobName::new(&format!("{}{}-{number}", borglets::ARRIVED, wall_clock().0))?;
    Ok(JobSpec::of(name, Band::Free.usual(), tasks, task))
}

/// The scheduler's process, killed on drop.
pub(super) struct Scheduler(Child);

impl Scheduler {
    pub(super) fn start(masters: &Masters) -> anyhow::Result<Self> {
        let directory = masters.directory().join("scheduler");
        std::fs::create_dir(&directory)?;
        let identity = Identity::Scheduler("main".to_owned());
        masters.issue(&identity)?.write(&directory, "scheduler")?;
        let program = std::env::current_exe().context("cannot find this program")?;
        let mut command = Command::new(program);
        command.args(["scheduler", "--credentials"]).arg(&directory);
        for address in masters.addresses() {
            command.args(["--master", &address]);
        }
        command.env(LOG_VARIABLE, "off");
        command.env(PARENT_VARIABLE, std::process::id().to_string());
        command.stdin(Stdio::null()).stdout(Stdio::null());
        Ok(Self(command.spawn().context("cannot start the scheduler")?))
    }

    fn pid(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Scheduler {
    fn drop(&mut self) {
        let _gone = self.0.kill().and_then(|()| self.0.wait());
    }
}
