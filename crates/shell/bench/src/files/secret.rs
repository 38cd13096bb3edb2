//! Starts with a secret in a file and in a variable, in turns with the same starts without.

use api::v1;
use command::Failure;
use dev::Client;
use model::{Bytes, JobName, MilliCores, SecretName, Span};
use serde::Serialize;
use spec::{JobSpec, TaskSpec};

use crate::packages::{median_ms, rounded};
use crate::start::{end, until_running};

/// What a secret may add to a start, in milliseconds.
const BOUND_MS: f64 = 2.0;
/// The secret's name.
const SECRET: &str = "key";

/// The results: medians, from submission to running.
#[derive(Debug, Serialize)]
pub(super) struct Figures {
    runs: u32,
    without_secret_ms: f64,
    with_secret_ms: f64,
    /// What the secret adds.
    added_ms: f64,
    /// Whether that is within its bound.
    held: bool,
}

/// Sets a secret, and measures starts of tasks with and without it.
pub(super) async fn measure(client: &mut Client, runs: u32) -> Result<Figures, Failure> {
    let connection = &mut client.connection;
    let id = Some(connection.request_id().await?);
    let set = v1::SetSecretRequest { id, name: SECRET.to_owned(), content: b"x".repeat(1_024) };
    connection.ask(set, async |mut client, request| client.secrets.set(request).await).await?;
    let (mut with, mut without) = (Vec::new(), Vec::new());
    for run in 0..=runs {
        for has_secret in [false, true] {
            let job = job(run, has_secret)?;
            let (took, statuses) = until_running(connection, &job).await?;
            end(connection, &job, statuses).await?;
            // The first opens the connections.
            if run > 0 {
                if has_secret { &mut with } else { &mut without }.push(took);
            }
        }
    }
    let (with_secret_ms, without_secret_ms) = (median_ms(with), median_ms(without));
    let added_ms = rounded(with_secret_ms - without_secret_ms, 2);
    let held = added_ms < BOUND_MS;
    Ok(Figures { runs, without_secret_ms, with_secret_ms, added_ms, held })
}

fn job(run: u32, has_secret: bool) -> Result<JobSpec, Failure> {
    let mut task = TaskSpec::of(vec!["sleep".to_owned(), "3600".to_owned()]);
    task.notice = Span::from_millis(100);
    task.limit.cpu = MilliCores(100);
    task.limit.ram = Bytes(64 << 20);
    let kind = if has_secret { "with" } else { "without" };
    if has_secret {
        let name: SecretName = SECRET.parse().map_err(Failure::failed)?;
        task.secrets.insert("/etc/key".to_owned(), name.clone());
        task.secret_env.insert("KEY".to_owned(), name);
    }
    let name = JobName::new(&format!("{kind}-{run}")).map_err(Failure::failed)?;
    Ok(JobSpec::of(name, model::Band::Production.usual(), 1, task))
}

/// The results as text.
pub(super) fn show(figures: &Figures) -> String {
    format!(
        "secret: median {} ms with a secret, {} ms without: {} ms more (bound {BOUND_MS} ms{}); {} of each\n",
        figures.with_secret_ms,
        figures.without_secret_ms,
        figures.added_ms,
        if figures.held { "" } else { ": NOT HELD" },
        figures.runs,
    )
}
