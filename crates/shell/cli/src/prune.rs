//! `--prune`: kills the jobs of the user that have labels and that the files no longer describe.

use std::collections::BTreeSet;
use std::io::{BufRead as _, IsTerminal as _, Write as _};

use api::v1;
use clap::Args;
use client::Connection;
use command::{Done, Failure, output};
use model::{LabelQuery, LabelQueryError, LabelTerm};
use spec::JobSpec;

/// Which jobs go.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct PruneArgs {
    /// Also kill your jobs with these labels that the files do not describe, such as app=shop. Jobs without the
    /// labels are never killed.
    #[arg(long, value_name = "LABELS", value_parser = labels_to_have)]
    prune: Option<LabelQuery>,
    /// Kill them without asking. Without a terminal, --prune needs it.
    #[arg(long, requires = "prune")]
    yes: bool,
}

/// Labels of which jobs have to have at least one: otherwise all jobs without labels would go.
pub(crate) fn labels_to_have(text: &str) -> Result<LabelQuery, String> {
    let query: LabelQuery = text.parse().map_err(|error: LabelQueryError| error.to_string())?;
    let has = |term: &LabelTerm| matches!(term, LabelTerm::Is { .. } | LabelTerm::Has(_));
    match query.terms().iter().any(has) {
        true => Ok(query),
        false => {
            Err("name a label that the jobs have, such as app=shop: others would go, too"
                .to_owned())
        }
    }
}

impl PruneArgs {
    /// Only for showing them.
    pub(crate) fn of(prune: Option<LabelQuery>) -> Self {
        Self { prune, yes: false }
    }

    /// An error if it cannot be asked.
    pub(crate) fn check(&self) -> Done {
        if self.prune.is_some() && !self.yes && !std::io::stdin().is_terminal() {
            return Err(Failure::usage(
                "error: --prune kills jobs, and there is no terminal to ask at",
            )
            .next("bourg plan FILE --prune LABELS shows which; add --yes to kill them"));
        }
        Ok(())
    }
}

/// The jobs that go: those with the labels that are alive, and that are not among the described ones.
async fn surplus(
    connection: &mut Connection,
    args: &PruneArgs,
    described: &[JobSpec],
) -> Result<Vec<v1::JobAddress>, Failure> {
    let Some(labels) = &args.prune else { return Ok(Vec::new()) };
    let request = v1::StatusRequest {
        labels: labels.to_string(),
        mine: true,
        ..v1::StatusRequest::default()
    };
    let answer = connection
        .ask(request, async |mut client, request| client.jobs.status(request).await)
        .await?;
    Ok(left_over(answer.jobs, labels, described))
}

/// Of the jobs those that have the labels themselves, and not only some of their tasks, and that are not described.
fn left_over(
    jobs: Vec<v1::JobStatus>,
    labels: &LabelQuery,
    described: &[JobSpec],
) -> Vec<v1::JobAddress> {
    let described: BTreeSet<&str> = described.iter().map(|job| job.name.as_str()).collect();
    let goes = |job: v1::JobStatus| {
        let spec = job.spec.as_ref()?;
        let has = labels.holds(|key| spec.labels.get(key).map(String::as_str));
        (has && !job.state().is_dead() && !described.contains(spec.name.as_str()))
            .then(|| v1::JobAddress { user: job.user.clone(), job: spec.name.clone() })
    };
    jobs.into_iter().filter_map(goes).collect()
}

/// Prints what would be killed. Whether that is something.
pub(crate) async fn show(
    connection: &mut Connection,
    args: &PruneArgs,
    described: &[JobSpec],
) -> Result<bool, Failure> {
    let surplus = surplus(connection, args, described).await?;
    let lines =
        surplus.iter().map(|job| format!("- {}/{}  killed by --prune\n", job.user, job.job));
    output::print(&lines.collect::<String>())?;
    Ok(!surplus.is_empty())
}

/// The jobs that go, once the user has agreed.
pub(crate) async fn confirmed(
    connection: &mut Connection,
    args: &PruneArgs,
    described: &[JobSpec],
) -> Result<Vec<v1::JobAddress>, Failure> {
    let surplus = surplus(connection, args, described).await?;
    if surplus.is_empty() || args.yes {
        return Ok(surplus);
    }
    let names: Vec<_> = surplus.iter().map(|job| format!("{}/{}", job.user, job.job)).collect();
    eprint!("--prune kills {}. Type yes to go on: ", names.join(", "));
    let _shown = std::io::stderr().flush();
    let mut answer = String::new();
    let read = std::io::stdin().lock().read_line(&mut answer);
    read.map_err(|error| Failure::failed(format!("error: cannot read the answer: {error}")))?;
    match answer.trim() {
        "yes" => Ok(surplus),
        _ => Err(Failure::failed("error: not confirmed: nothing was changed")),
    }
}

/// Kills the jobs.
pub(crate) async fn kill(connection: &mut Connection, surplus: Vec<v1::JobAddress>) -> Done {
    for job in surplus {
        let name = format!("{}/{}", job.user, job.job);
        let id = Some(connection.request_id().await?);
        let tasks = Some((&model::TaskSelection::All).into());
        let request = v1::KillRequest { id, job: Some(job), tasks, now: false };
        let answer = connection
            .ask(request, async |mut client, request| client.jobs.kill(request).await)
            .await?;
        let s = if answer.killed == 1 { "" } else { "s" };
        eprintln!("{name}: pruned, {} task{s} killed", answer.killed);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_have_to_have_a_label_to_go() {
        for (text, is) in [
            ("app=shop", true),
            ("app", true),
            ("app,!keep", true),
            ("!app", false),
            ("app!=x", false),
        ] {
            assert_eq!(labels_to_have(text).is_ok(), is, "{text}");
        }
    }

    #[test]
    fn only_jobs_with_the_labels_that_no_file_describes_go() {
        let job = |name: &str, app: &str, of_task: &str| {
            let labels = |value: &str| match value {
                "" => [].into(),
                value => [("app".to_owned(), value.to_owned())].into(),
            };
            let change =
                v1::TaskOverride { labels: labels(of_task), ..v1::TaskOverride::default() };
            let spec = v1::JobSpec {
                name: name.to_owned(),
                labels: labels(app),
                overrides: [(0, change)].into(),
                ..v1::JobSpec::default()
            };
            v1::JobStatus { spec: Some(spec), user: "ana".to_owned(), ..v1::JobStatus::default() }
        };
        let jobs = vec![
            job("web", "shop", ""),
            job("old", "shop", ""),
            job("other", "blog", ""),
            job("none", "", ""),
            job("one-task", "", "shop"),
        ];
        let source = "{ name: 'web', cmd: ['a'] }";
        let described =
            bcl::evaluate("x", source.as_bytes(), &mut bcl::NoImports, &bcl::Settings::default());
        let described = described.expect("a job");
        let labels: LabelQuery = "app=shop".parse().expect("labels");
        let gone: Vec<_> =
            left_over(jobs, &labels, &described).into_iter().map(|job| job.job).collect();
        assert_eq!(gone, ["old"]);
    }
}
