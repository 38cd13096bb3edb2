//! `bourg wait`: waits until jobs are in a state.

use std::time::Duration;

use api::v1;
use clap::{Args, ValueEnum};
use client::Target;
use command::{Done, Failure, job_address, with_cell};
use model::{Address, TaskSelection};
use process::arguments::duration;

use crate::run::{Wait, wait_for};

#[derive(Debug, Args)]
pub(crate) struct WaitArgs {
    /// Jobs, as user/job or job.
    #[arg(required = true)]
    jobs: Vec<Address>,
    /// What to wait for. A task that has finished counts as running and healthy.
    #[arg(long = "for", value_enum, value_name = "STATE", default_value = "healthy")]
    state: Awaited,
    /// How long to wait for each job. Default: without end.
    #[arg(long, value_parser = duration)]
    timeout: Option<Duration>,
}

/// What is waited for.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Awaited {
    /// Every task runs.
    Running,
    /// Every task is healthy.
    Healthy,
    /// Every task has ended, and the exit status says how, as of bourg run --wait.
    Finished,
    /// The job is dead, however it ended.
    Dead,
}

/// A wait without end, as a timeout.
const FOREVER: Duration = Duration::from_secs(10 * 365 * 86_400);

impl WaitArgs {
    fn wait(&self) -> Wait {
        match self.state {
            Awaited::Running => Wait::Running(self.timeout),
            Awaited::Healthy => Wait::Healthy(self.timeout.unwrap_or(FOREVER)),
            Awaited::Finished => Wait::Ended(self.timeout),
            Awaited::Dead => Wait::Dead(self.timeout),
        }
    }
}

pub(crate) fn wait(cell: Target<'_>, args: &WaitArgs) -> Done {
    if let Some(tasks) = args.jobs.iter().find(|job| job.tasks != TaskSelection::All) {
        return Err(Failure::usage(format!(
            "error: '{tasks}' names tasks: wait for the whole job"
        )));
    }
    with_cell(cell, async |mut connection| {
        if let Some(timeout) = args.timeout {
            connection.set_patience(timeout);
        }
        for job in &args.jobs {
            let address = job_address(job);
            // A job that does not exist is an error at once.
            let request = v1::StatusRequest {
                jobs: vec![address],
                dead: true,
                ..v1::StatusRequest::default()
            };
            let answer = connection
                .ask(request, async |mut client, request| client.jobs.status(request).await)
                .await?;
            let found = answer.jobs.into_iter().next();
            let found =
                found.ok_or_else(|| Failure::usage(format!("error: there is no job {job}")))?;
            let address = v1::JobAddress { user: found.user, job: job.job.to_string() };
            let name = format!("{}/{}", address.user, address.job);
            Box::pin(wait_for(&mut connection, address, &name, args.wait())).await?;
        }
        Ok(())
    })
}
