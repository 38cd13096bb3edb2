//! What tasks, jobs, machines and the cell use: `bourg usage`, and the columns of other commands.

mod history;
mod sparkline;
mod table;

use std::time::Duration;

use api::v1;
use api::v1::usage_request::{Cell, Of, Tasks};
use clap::Args;
use client::{Connection, Target};
use command::output::{self, Format};
use command::{Done, job_address, with_cell};
use model::Address;

use crate::moment::Since;

pub(crate) use table::missing;

/// How long to wait for the usage where it is an addition to another answer.
const PATIENCE: Duration = Duration::from_secs(2);

#[derive(Debug, Args)]
pub(crate) struct UsageArgs {
    /// A job, or some of its tasks: user/job, job, user/job/7, user/job/0-4. Default: the cell.
    job: Option<Address>,
    /// Show the usage since then: an age (1h) or a time (2026-11-19 03:10, UTC). The master keeps
    /// usage in memory only, and may have less.
    #[arg(long, default_value = "1h", value_name = "TIME")]
    since: Since,
    /// Output format: table, json, yaml, or the path of a field.
    #[arg(short, long, default_value = "table")]
    output: Format,
}

/// Implements `bourg usage`.
pub(crate) fn usage(cell: Target<'_>, args: &UsageArgs) -> Done {
    let Since(since) = args.since;
    with_cell(cell, async |mut connection| {
        let notes = match &args.job {
            Some(job) => {
                let (tasks, asked) = (Some((&job.tasks).into()), Some(job_address(job)));
                let of = Of::Tasks(Tasks { job: asked, tasks, since: Some(since.0) });
                let answer = ask_all(&mut connection, of).await?;
                let show = || table::table(&answer, since);
                output::object(&args.output, &answer, &job.to_string(), show)?;
                table::notes(&answer, since)
            }
            None => {
                let of = Of::Cell(Cell { since: Some(since.0) });
                let answer = ask_all(&mut connection, of).await?;
                output::object(&args.output, &answer, "cell", || history::shown(&answer))?;
                history::notes(&answer, since)
            }
        };
        for note in notes {
            output::say(&format!("note: {note}\n"));
        }
        Ok(())
    })
}

/// Requests usage: of some machines or tasks, without the totals of the cell.
pub(crate) async fn ask(
    connection: &mut Connection,
    of: Of,
) -> Result<v1::UsageResponse, client::Error> {
    request(connection, v1::UsageRequest { of: Some(of), without_totals: true }).await
}

/// Requests usage, and the totals of the cell.
pub(crate) async fn ask_all(
    connection: &mut Connection,
    of: Of,
) -> Result<v1::UsageResponse, client::Error> {
    request(connection, v1::UsageRequest { of: Some(of), without_totals: false }).await
}

async fn request(
    connection: &mut Connection,
    request: v1::UsageRequest,
) -> Result<v1::UsageResponse, client::Error> {
    connection.ask(request, async |mut client, request| client.usage.get(request).await).await
}

/// Requests usage as an addition to an answer that is there already: without patience, and without
/// failing. Returns what to say about it, too.
pub(crate) async fn beside(connection: &Connection, of: Of) -> (v1::UsageResponse, Option<String>) {
    let mut connection = connection.clone();
    connection.set_unanswered_patience(PATIENCE / 2);
    connection.set_patience(PATIENCE / 2);
    let why = match tokio::time::timeout(PATIENCE, ask(&mut connection, of)).await {
        Ok(Ok(answer)) => {
            let note = missing(&answer);
            return (answer, note);
        }
        Ok(Err(error)) => why(&error),
        Err(_) => format!("no answer within {} s", PATIENCE.as_secs()),
    };
    (v1::UsageResponse::default(), Some(format!("usage is not shown: {why}")))
}

/// The text of an error.
pub(crate) fn why(error: &client::Error) -> String {
    match error {
        client::Error::Answer(status) => rpc::transport::explain(status),
        error => error.to_string(),
    }
}
