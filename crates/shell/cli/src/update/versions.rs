//! `bourg versions`: the versions of a job's description that are kept.

use api::v1;
use clap::Args;
use client::Target;
use command::output::{self, Format, Listing};
use command::{Done, Failure, with_cell};
use model::{Address, Time};

use super::whole;
use crate::change::change_text;
use crate::moment::shown;

/// `bourg versions JOB`.
#[derive(Debug, Args)]
pub(crate) struct VersionsArgs {
    /// A job, as user/job or job.
    job: Address,
    /// Output format: table, json, yaml, or the path of a field.
    #[arg(short, long, default_value = "table")]
    output: Format,
}

pub(crate) fn versions(cell: Target<'_>, args: &VersionsArgs) -> Done {
    with_cell(cell, async |mut connection| {
        let jobs = vec![whole(&args.job)?];
        let request =
            v1::StatusRequest { jobs, dead: true, versions: true, ..v1::StatusRequest::default() };
        let answer = connection
            .ask(request, async |mut client, request| client.jobs.status(request).await)
            .await?;
        let Some(job) = answer.jobs.into_iter().next() else {
            return Err(Failure::usage(format!("error: there is no job {}", args.job)));
        };
        output::list(
            &args.output,
            &Listing {
                items: &job.versions,
                name: |version| version.version.to_string(),
                headings: &["VERSION", "STATE", "BY", "SINCE", "CHANGES"],
                wide: 0,
                row,
            },
        )
    })
}

fn row(version: &v1::JobVersion) -> Vec<String> {
    let current = if version.current { " *" } else { "" };
    let changes = version.changes.iter().map(change_text).collect::<Vec<_>>();
    vec![
        format!("{}{current}", version.version),
        version.state.clone(),
        version.by.clone(),
        shown(Time(version.since)).to_string(),
        output::one_line(&changes.join(", ")),
    ]
}
