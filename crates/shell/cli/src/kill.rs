//! `bourg kill`: kills jobs, or some of their tasks.

use std::time::Duration;

use api::v1;
use client::Connection;
use client::Target;
use command::{Done, Failure, output, with_cell};
use model::{TaskIndex, TaskSelection};

use super::KillArgs;
use super::run::is_service;
use super::selection::{Among, Selected, choose};

/// The polling interval while waiting for tasks to end.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

pub(super) fn kill(cell: Target<'_>, args: &KillArgs) -> Done {
    with_cell(cell, async |mut connection| {
        let labels = args.labels.as_ref();
        let chosen = choose(&mut connection, &args.jobs, labels, &Among::MineAlive).await?;
        if let Some(labels) = labels {
            let names: Vec<String> = chosen.iter().map(Selected::name).collect();
            let has = if names.len() == 1 { "has" } else { "have" };
            eprintln!("{} {has} the labels {labels}", names.join(", "));
        }
        let mut waiting = Vec::new();
        for chosen in chosen {
            let id = Some(connection.request_id().await?);
            let (job, tasks) = (Some(chosen.job.clone()), Some((&chosen.tasks).into()));
            let request = v1::KillRequest { id, job, tasks, now: args.now };
            let answer = connection
                .ask(request, async |mut client, request| client.jobs.kill(request).await)
                .await?;
            let job = v1::JobAddress { user: answer.user, job: chosen.job.job };
            waiting.push((Selected { job, tasks: chosen.tasks }, answer.killed));
        }
        for (chosen, killed) in waiting {
            if !args.detach {
                wait(&mut connection, &chosen, args.timeout).await?;
            }
            let name = chosen.name();
            match killed {
                0 => eprintln!("{name}: no task was alive"),
                1 => eprintln!("{name}: 1 task killed"),
                several => eprintln!("{name}: {several} tasks killed"),
            }
            if killed > 0 && chosen.tasks != TaskSelection::All {
                say_what_follows(&mut connection, &chosen, killed).await?;
            }
        }
        Ok(())
    })
}

/// Tasks of a service that were killed one by one do not come back, unlike those that end by
/// themselves: says so, and how they do.
async fn say_what_follows(connection: &mut Connection, chosen: &Selected, killed: u32) -> Done {
    let request = v1::StatusRequest {
        jobs: vec![chosen.job.clone()],
        dead: true,
        ..v1::StatusRequest::default()
    };
    let status = connection
        .ask(request, async |mut client, request| client.jobs.status(request).await)
        .await?;
    if status.jobs.first().is_some_and(is_service) {
        let name = chosen.address();
        let text = match killed {
            1 => format!("it does not come back by itself: bourg restart {name} starts it again"),
            _ => format!(
                "they do not come back by themselves: bourg restart {name} starts them again"
            ),
        };
        output::say(&format!("note: {text}\n"));
    }
    Ok(())
}

async fn wait(connection: &mut Connection, chosen: &Selected, timeout: Duration) -> Done {
    let until = tokio::time::Instant::now() + timeout;
    loop {
        let request = v1::StatusRequest {
            jobs: vec![chosen.job.clone()],
            tasks: true,
            dead: true,
            ..v1::StatusRequest::default()
        };
        let status = connection
            .ask(request, async |mut client, request| client.jobs.status(request).await)
            .await?;
        let tasks = status.jobs.iter().flat_map(|job| &job.tasks);
        let alive = |task: &&v1::TaskStatus| {
            chosen.tasks.contains(TaskIndex(task.index)) && !task.state().is_dead()
        };
        let alive = tasks.filter(alive).count();
        if alive == 0 {
            return Ok(());
        }
        if tokio::time::Instant::now() >= until {
            let name = chosen.name();
            return Err(Failure::failed(format!(
                "error: {alive} tasks of {name} have not ended after {} s: they are marked killed, but their \
                 machine has not reported their end",
                timeout.as_secs()
            ))
            .next(format!("bourg status {name}")));
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}
