//! `bourg forget`: forgets jobs that have ended.

use api::v1;
use clap::Args;
use client::Target;
use command::{Done, Failure, job_address, with_cell};
use model::{Address, TaskSelection};

#[derive(Debug, Args)]
pub(crate) struct ForgetArgs {
    /// Jobs: user/job, job.
    #[arg(required = true)]
    jobs: Vec<Address>,
}

pub(crate) fn forget(cell: Target<'_>, args: &ForgetArgs) -> Done {
    if let Some(of_tasks) = args.jobs.iter().find(|address| address.tasks != TaskSelection::All) {
        return Err(Failure::usage(format!(
            "error: {of_tasks} names tasks, and only whole jobs are forgotten"
        )));
    }
    with_cell(cell, async |mut connection| {
        for address in &args.jobs {
            let job = job_address(address);
            let (id, name) = (Some(connection.request_id().await?), job.job.clone());
            let request = v1::ForgetRequest { id, job: Some(job) };
            let answer = connection
                .ask(request, async |mut client, request| client.jobs.forget(request).await)
                .await?;
            eprintln!("{}/{name}: forgotten", answer.user);
        }
        Ok(())
    })
}
