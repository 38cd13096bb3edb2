//! `bourg metrics`: the page with metrics that a task serves itself.

use api::v1;
use clap::Args;
use client::Target;
use command::{Done, Failure, job_address, output, with_cell};

use super::Address;
use super::exec::one_task;

/// The maximum size of a page. Its machine has the same.
const PAGE_BYTES_MAX: usize = 8 << 20;

#[derive(Debug, Args)]
pub(super) struct MetricsArgs {
    /// A task, as user/job/7 or job/7; of a job with one task also user/job or job.
    task: Address,
}

/// Prints a page when all of it is there: half a page would be read as a whole one.
pub(super) fn metrics(cell: Target<'_>, args: &MetricsArgs) -> Done {
    with_cell(cell, async |mut connection| {
        let task = one_task(&mut connection, &args.task, "metrics").await?;
        let job = job_address(&args.task);
        let request = v1::TaskMetricsRequest { job: Some(job), task };
        let mut pieces = connection
            .stream(request, async |mut client, request| client.tasks.metrics(request).await)
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
