//! `bourg restart`: restarts tasks that run, and starts those that have ended.

use std::time::Duration;

use api::v1;
use clap::Args;
use client::{Connection, Target};
use command::{Done, Failure, job_address, output, with_cell};
use model::{Address, TaskIndex};
use process::arguments::duration;

use super::run::is_service;
use super::selection::Selected;
use super::update::{Awaited, current, watch};
use crate::change::tasks;

/// The polling interval while waiting for tasks to be healthy.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

#[derive(Debug, Args)]
pub(crate) struct RestartArgs {
    /// Jobs, or some of their tasks: user/job, job, user/job/7, user/job/0-4.
    #[arg(required = true)]
    jobs: Vec<Address>,
    /// How many running tasks are restarted at once. Default: what the disruption budget allows.
    #[arg(long, value_name = "TASKS", value_parser = clap::value_parser!(u32).range(1..))]
    batch: Option<u32>,
    /// Start only tasks that failed for good, such as the failed ones of a batch job.
    #[arg(long, conflicts_with = "batch")]
    failed: bool,
    /// Return as soon as the restart has begun.
    #[arg(long)]
    detach: bool,
    /// How long to wait for it; it goes on afterwards.
    #[arg(long, default_value = "10m", value_parser = duration)]
    timeout: Duration,
}

pub(crate) fn restart(cell: Target<'_>, args: &RestartArgs) -> Done {
    with_cell(cell, async |mut connection| {
        let mut begun = Vec::new();
        for address in &args.jobs {
            let chosen = Selected { job: job_address(address), tasks: address.tasks.clone() };
            let answer = send(&mut connection, &chosen, args).await?;
            let job = v1::JobAddress { user: answer.user.clone(), job: chosen.job.job };
            let chosen = Selected { job, tasks: chosen.tasks };
            say(&chosen, &answer, args.failed);
            begun.push((chosen, answer));
        }
        if args.detach {
            return Ok(());
        }
        let mut failed = Ok(());
        for (chosen, answer) in begun {
            let timeout = args.timeout;
            let done = match answer.version {
                Some(version) => {
                    let (job, timeout) = (&chosen.job, Some(timeout));
                    watch(&mut connection, job, version, Awaited::Restarted, timeout).await
                }
                None if answer.started > 0 => wait(&mut connection, &chosen, timeout).await,
                None => Ok(()),
            };
            match (&failed, done) {
                (Ok(()), done) => failed = done,
                (Err(_), Err(another)) => output::say(&format!("{another}\n")),
                (Err(_), Ok(())) => {}
            }
        }
        failed
    })
}

async fn send(
    connection: &mut Connection,
    chosen: &Selected,
    args: &RestartArgs,
) -> Result<v1::RestartResponse, Failure> {
    let request = v1::RestartRequest {
        id: Some(connection.request_id().await?),
        job: Some(chosen.job.clone()),
        tasks: Some((&chosen.tasks).into()),
        failed: args.failed,
        batch: args.batch,
    };
    Ok(connection
        .ask(request, async |mut client, request| client.jobs.restart(request).await)
        .await?)
}

fn say(chosen: &Selected, answer: &v1::RestartResponse, failed: bool) {
    let (name, started) = (chosen.address(), answer.started);
    let verb = if started == 1 { "starts" } else { "start" };
    match (answer.version, started) {
        (Some(version), 0) => eprintln!("{name}: restarting, as version {version}"),
        (Some(version), _) => {
            eprintln!("{name}: restarting, as version {version}; {} {verb} again", tasks(started));
        }
        (None, 0) if failed => eprintln!("{name}: no task has failed for good"),
        (None, 0) => eprintln!("{name}: no task runs or has ended"),
        (None, _) => eprintln!("{name}: {} {verb} again", tasks(started)),
    }
}

/// Waits until the tasks of a service that have started again are healthy. Other tasks run as long as
/// they take: their job can be waited for elsewhere.
async fn wait(connection: &mut Connection, chosen: &Selected, timeout: Duration) -> Done {
    let until = tokio::time::Instant::now() + timeout;
    loop {
        let (job, _) = current(connection, &chosen.job).await?;
        if !is_service(&job) {
            return Ok(());
        }
        let is_up = |task: &&v1::TaskStatus| {
            task.health() == v1::Health::Healthy || task.state() == v1::TaskState::Finished
        };
        let mine = |task: &&v1::TaskStatus| chosen.tasks.contains(TaskIndex(task.index));
        let Some(task) = job.tasks.iter().filter(mine).find(|task| !is_up(task)) else {
            return Ok(());
        };
        let (name, index) = (chosen.address(), task.index);
        let error = if task.state().is_dead() {
            format!("error: task {index} of {name} has ended: {}", task.last_end_text)
        } else if tokio::time::Instant::now() >= until {
            format!("error: task {index} of {name} is not healthy after {} s", timeout.as_secs())
        } else {
            tokio::time::sleep(POLL_INTERVAL).await;
            continue;
        };
        let next = format!("bourg status {name} · bourg logs {name}");
        return Err(Failure::failed(error).next(next));
    }
}
