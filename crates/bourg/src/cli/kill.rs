//! `bourg kill`: ends jobs, or some of their tasks.

use std::time::Duration;

use model::TaskIndex;
use proto::v1;

use super::cells::Connection;
use super::exit::{Done, Failure};
use super::{KillArgs, job_address, with_cell};

/// How often a kill that is waited for is looked at.
const LOOK: Duration = Duration::from_millis(50);

pub(super) fn kill(cell: Option<&str>, args: &KillArgs) -> Done {
    with_cell(cell, async |mut connection| {
        let mut waiting = Vec::new();
        for address in &args.jobs {
            let id = Some(connection.request_id().await?);
            let job = job_address(address);
            let tasks = Some((&address.tasks).into());
            let request = v1::KillRequest { id, job: Some(job), tasks };
            let answer = connection
                .ask(request, async |mut client, request| client.kill(request).await)
                .await?;
            let job = v1::JobAddress { user: answer.user, job: address.job.to_string() };
            waiting.push((job, address, answer.killed));
        }
        for (job, address, killed) in waiting {
            let name = format!("{}/{}", job.user, job.job);
            if !args.detach {
                wait(&mut connection, &job, |index| address.tasks.contains(index), args.timeout)
                    .await?;
            }
            match killed {
                0 => eprintln!("{name}: nothing was alive"),
                1 => eprintln!("{name}: 1 task killed"),
                several => eprintln!("{name}: {several} tasks killed"),
            }
        }
        Ok(())
    })
}

async fn wait(
    connection: &mut Connection,
    job: &v1::JobAddress,
    chosen: impl Fn(TaskIndex) -> bool,
    timeout: Duration,
) -> Done {
    let until = tokio::time::Instant::now() + timeout;
    loop {
        let request = v1::StatusRequest {
            jobs: vec![job.clone()],
            tasks: true,
            dead: true,
            ..v1::StatusRequest::default()
        };
        let status = connection
            .ask(request, async |mut client, request| client.status(request).await)
            .await?;
        let tasks = status.jobs.iter().flat_map(|job| &job.tasks);
        let alive = |task: &&v1::TaskStatus| {
            chosen(TaskIndex(task.index))
                && !["finished", "failed", "killed"].contains(&task.state.as_str())
        };
        let alive = tasks.filter(alive).count();
        if alive == 0 {
            return Ok(());
        }
        if tokio::time::Instant::now() >= until {
            return Err(Failure::failed(format!(
                "error: {alive} tasks of {}/{} are not gone after {} s: they are killed, and their \
                 machine has not said that they have ended",
                job.user,
                job.job,
                timeout.as_secs()
            ))
            .next(format!("bourg status {}/{}", job.user, job.job)));
        }
        tokio::time::sleep(LOOK).await;
    }
}
