//! A large cell: simulated Borglets that report usage, jobs of several users and bands, and a scheduler
//! that has placed all of their tasks.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use api::v1;
use api::v1::change_quota_request::Change;
use client::Connection;
use command::Failure;
use model::{Band, Bytes, JobName, MilliCores, ReplicaId};
use rpc::{Identity, Rotating};
use spec::{JobSpec, TaskSpec};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::super::super::apply;
use super::super::arrivals::Scheduler;
use super::super::borglets::{self, BorgletsProcess};
use super::super::masters::{LeanClient, Masters};

/// The users that own the jobs.
pub(super) const USERS: u32 = 20;
/// The Borglets of a process: each has a socket that listens, and a connection.
const BORGLETS_OF_A_PROCESS: u32 = 6_500;
/// The tasks do not end by themselves.
const TASK: Duration = Duration::from_secs(86_400);
/// The number of jobs whose tasks fit nowhere, and of the tasks of each.
const STUCK: u32 = 10;
const STUCK_TASKS: u32 = 20;
/// How long to wait until all tasks run.
const PATIENCE: Duration = Duration::from_secs(900);
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// The name of a user by number.
pub(super) fn user(number: u32) -> String {
    format!("u{}", number % USERS)
}

/// A job, by its owner and name, and its number of tasks.
#[derive(Clone, Debug)]
pub(super) struct JobSummary {
    pub(super) user: String,
    pub(super) name: String,
    pub(super) tasks: u32,
}

/// The processes beside the masters, and the jobs.
pub(super) struct Large {
    borglets: Vec<BorgletsProcess>,
    _scheduler: Scheduler,
    /// Of which all tasks run.
    pub(super) jobs: Vec<JobSummary>,
    /// Of which no task runs.
    pub(super) stuck: JobSummary,
}

impl Large {
    /// Adds machines and jobs to a cell, and waits until all tasks run.
    pub(super) async fn make(
        masters: &Masters,
        connection: &mut Connection,
        leader: ReplicaId,
        machines: u32,
        tasks: u32,
    ) -> Result<Self, Failure> {
        let (mut processes, mut addresses) = (Vec::new(), Vec::new());
        for first in (0..machines).step_by(BORGLETS_OF_A_PROCESS as usize) {
            let number = BORGLETS_OF_A_PROCESS.min(machines - first);
            let (process, at) =
                BorgletsProcess::start_used(masters.directory(), first, number, TASK)?;
            processes.push(process);
            addresses.extend(at);
        }
        for (number, address) in addresses.into_iter().enumerate() {
            let (id, name) = (Some(connection.request_id().await?), borglets::name(number));
            let request = v1::AddMachineRequest { id, name, address };
            connection.ask(request, async |mut c, r| c.machines.add(r).await).await?;
        }
        let until = Instant::now() + PATIENCE;
        while connection.cell_status().await?.machines_up < machines {
            in_time(until, "the machines are not up")?;
            tokio::time::sleep(POLL_INTERVAL).await;
        }
        let scheduler = Scheduler::start(masters)?;
        let jobs = jobs(tasks);
        grant(connection, machines).await?;
        submit(masters, leader, &jobs).await?;
        let mut large = Self {
            borglets: processes,
            _scheduler: scheduler,
            stuck: JobSummary { user: user(0), name: "stuck-0".to_owned(), tasks: STUCK_TASKS },
            jobs,
        };
        let until = Instant::now() + PATIENCE;
        let mut started = 0;
        while started < u64::from(tasks) {
            in_time(until, &format!("{started} of {tasks} tasks run"))?;
            tokio::time::sleep(POLL_INTERVAL).await;
            started += large.started()?;
        }
        Ok(large)
    }

    /// How many tasks were started since this was asked.
    pub(super) fn started(&mut self) -> anyhow::Result<u64> {
        let mut started = 0;
        for process in &mut self.borglets {
            started += process.seen()?.started;
        }
        Ok(started)
    }
}

fn in_time(until: Instant, what: &str) -> anyhow::Result<()> {
    ensure!(Instant::now() < until, "this takes too long: {what}");
    Ok(())
}

/// As uneven as those of `bourg bench apply`.
fn jobs(tasks: u32) -> Vec<JobSummary> {
    let (mut jobs, mut left) = (Vec::new(), tasks);
    for number in 1.. {
        if left == 0 {
            break;
        }
        // A small cell, too, has a large job.
        let size = match number {
            1 => 1_000.min(tasks / 2).max(1),
            _ => apply::job_size(number).min(left),
        };
        left -= size;
        jobs.push(JobSummary {
            user: user(scattered(number)),
            name: format!("job-{number}"),
            tasks: size,
        });
    }
    jobs
}

/// A number that depends on the number of a job: its size does, too.
fn scattered(number: u32) -> u32 {
    number.wrapping_mul(0x9e37_79b1) >> 12
}

/// Grants everybody an equal part of the machines for production. Jobs are admitted without it.
async fn grant(connection: &mut Connection, machines: u32) -> Result<(), Failure> {
    let part = |of: u64| i64::try_from(of / u64::from(USERS) * u64::from(machines));
    let all = borglets::CAPACITY;
    let [cpu_milli, ram_bytes, disk_bytes, disk_rate_bytes] =
        [part(all.cpu.0), part(all.ram.0), part(all.disk.0), part(all.disk_rate.0)]
            .map(|part| part.unwrap_or(i64::MAX));
    let mut changes = vec![Change::Meter(false)];
    for number in 0..USERS {
        let amount = v1::Resources { cpu_milli, ram_bytes, disk_bytes, disk_rate_bytes };
        let grant = v1::GrantQuota {
            user: user(number),
            band: Band::Production.to_string(),
            amount: Some(amount),
            from: None,
            until: None,
        };
        changes.insert(0, Change::Grant(grant));
    }
    for change in changes {
        let id = Some(connection.request_id().await?);
        let request = v1::ChangeQuotaRequest { id, change: Some(change) };
        connection.ask(request, async |mut c, r| c.quota.change(r).await).await?;
    }
    Ok(())
}

/// Submits jobs, each as its owner.
async fn submit(masters: &Masters, leader: ReplicaId, jobs: &[JobSummary]) -> Result<(), Failure> {
    let mut submitting = JoinSet::new();
    for number in 0..USERS {
        let client = client(masters, leader, number)?;
        let owned = jobs.iter().filter(|job| job.user == user(number));
        let mut specs: Vec<JobSpec> = owned.map(spec).collect::<anyhow::Result<_>>()?;
        for stuck in (number..STUCK).step_by(USERS as usize) {
            let name = JobName::new(&format!("stuck-{stuck}"));
            let mut task = TaskSpec::of(vec!["simulated".to_owned()]);
            task.limit.cpu = MilliCores(1_000_000);
            let name = name.map_err(anyhow::Error::from)?;
            specs.push(JobSpec::of(name, Band::Free.usual(), STUCK_TASKS, task));
        }
        submitting.spawn(submit_all(client, specs));
    }
    while let Some(ended) = submitting.join_next().await {
        ended.map_err(anyhow::Error::from)??;
    }
    Ok(())
}

/// A client with the certificate of a user.
pub(super) fn client(masters: &Masters, to: ReplicaId, number: u32) -> anyhow::Result<LeanClient> {
    let user = masters.issue(&Identity::User(user(number)))?;
    masters.link(&Rotating::new(user)?, to)
}

async fn submit_all(mut client: LeanClient, specs: Vec<JobSpec>) -> anyhow::Result<()> {
    let session = client.cell.open_session(v1::OpenSessionRequest {}).await?.into_inner().session;
    for (sequence, spec) in (1..).zip(&specs) {
        let id = Some(v1::RequestId { session, sequence });
        let request = v1::SubmitRequest { id, spec: Some(spec.into()) };
        client.jobs.submit(request).await.with_context(|| format!("job {}", spec.name))?;
    }
    Ok(())
}

/// Tasks of one to five cores and 4 to 12 GiB: all together about half of the machines.
fn spec(job: &JobSummary) -> anyhow::Result<JobSpec> {
    let number: u32 = job.name.rsplit('-').next().unwrap_or_default().parse()?;
    let number = scattered(number) / USERS;
    let mut task = TaskSpec::of(vec!["serve".to_owned(), "--index=${task.index}".to_owned()]);
    task.limit.cpu = MilliCores(1_000 * u64::from(1 + number % 5));
    task.limit.ram = Bytes((4 << 30) * u64::from(1 + number % 3));
    let band = match number % 10 {
        0..3 => Band::Production,
        3..6 => Band::BestEffortBatch,
        _ => Band::Free,
    };
    let mut spec = JobSpec::of(JobName::new(&job.name)?, band.usual(), job.tasks, task);
    spec.labels.insert("team".to_owned(), format!("team-{}", number % 50));
    spec.labels.insert("tier".to_owned(), ["front", "back"][number as usize % 2].to_owned());
    Ok(spec)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_have_all_tasks() {
        for (tasks, largest) in [(1, 1), (10, 5), (144_000, 1_000)] {
            let jobs = jobs(tasks);
            assert_eq!(jobs.iter().map(|job| job.tasks).sum::<u32>(), tasks);
            assert_eq!(jobs[0].tasks, largest);
            for job in &jobs {
                spec(job).expect("a description");
            }
        }
    }
}
