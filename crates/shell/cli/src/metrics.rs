//! `bourg metrics`: the page with metrics that a task serves itself.

use clap::Args;
use client::Target;
use model::TaskSelection;
use proto::v1;

use super::exit::{Done, Failure};
use super::{Address, job_address, output, with_cell};

/// The maximum size of a page. Its machine has the same.
const PAGE_BYTES_MAX: usize = 8 << 20;

#[derive(Debug, Args)]
pub(super) struct MetricsArgs {
    /// A task, as user/job/7 or job/7; of a job with one task also user/job or job.
    task: Address,
}

/// Prints a page when all of it is there: half a page would be read as a whole one.
pub(super) fn metrics(cell: Target<'_>, args: &MetricsArgs) -> Done {
    let task = match &args.task.tasks {
        TaskSelection::Some(ranges) => match ranges.as_slice() {
            [(first, last)] if first == last => first.0,
            _ => return Err(one_task(&args.task)),
        },
        TaskSelection::All => 0,
    };
    with_cell(cell, async |mut connection| {
        let job = job_address(&args.task);
        if args.task.tasks == TaskSelection::All {
            let request = v1::StatusRequest { jobs: vec![job.clone()], ..Default::default() };
            let answer = connection
                .ask(request, async |mut client, request| client.status(request).await)
                .await?;
            if answer.jobs.iter().any(|job| job.counts.unwrap_or_default().tasks != 1) {
                return Err(one_task(&args.task));
            }
        }
        let request = v1::TaskMetricsRequest { job: Some(job), task };
        let mut pieces = connection
            .stream(request, async |mut client, request| client.task_metrics(request).await)
            .await?;
        let mut page = Vec::new();
        while let Some(piece) = pieces.message().await? {
            if page.len() + piece.data.len() > PAGE_BYTES_MAX {
                return Err(Failure::failed("error: the page is larger than its machine may send"));
            }
            page.extend_from_slice(&piece.data);
        }
        output::print_from_outside(&page)
    })
}

fn one_task(address: &Address) -> Failure {
    let job = &address.job;
    Failure::usage(format!("error: name one task of {job}")).next(format!("bourg metrics {job}/0"))
}
