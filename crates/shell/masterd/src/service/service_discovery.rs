//! `/sd/tasks`: the tasks that serve metrics, as targets for Prometheus' HTTP service discovery.
//!
//! Every replica answers from its own view. A target is the task's own port; its labels are the same
//! names by which tasks are addressed everywhere.

use axum::extract::State;
use axum::http::{StatusCode, Uri, header};
use axum::response::{IntoResponse as _, Response};
use cell::{Cell, Job, Phase, TaskState};
use model::CellName;
use process::health;
use serde::Serialize;

use crate::names::Names;
use crate::service::door::Door;
use crate::service::health::Monitoring;
use crate::service::task_metrics::port_of;

/// The path of the page.
pub(crate) const PATH: &str = "/sd/tasks";
/// The maximum number of targets in one answer.
const TARGETS_MAX: usize = 200_000;

/// A group of targets, in Prometheus' format: here always one.
#[derive(Debug, Serialize)]
struct TargetGroup<'a> {
    targets: [String; 1],
    labels: TaskLabels<'a>,
}

#[derive(Debug, Serialize)]
struct TaskLabels<'a> {
    cell: &'a str,
    user: &'a str,
    job: &'a str,
    task: String,
    machine: &'a str,
    #[serde(rename = "__metrics_path__")]
    path: &'a str,
}

/// Which targets are asked for.
#[derive(Debug, Default, PartialEq, Eq)]
struct Filter {
    user: Option<String>,
    job: Option<String>,
}

/// `/sd/tasks`
pub(crate) async fn tasks(State(monitoring): State<Monitoring>, uri: Uri) -> Response {
    let filter = match Filter::parse(uri.query().unwrap_or_default()) {
        Ok(filter) => filter,
        Err(why) => return health::plain(StatusCode::BAD_REQUEST, format!("{why}\n")),
    };
    answered(&monitoring.door, move |names| match listed(names.cell, &filter, TARGETS_MAX) {
        Ok(json) => in_json(json),
        Err(why) => health::plain(StatusCode::UNPROCESSABLE_ENTITY, format!("{why}\n")),
    })
    .await
}

/// Answers from the newest names, on a thread on which an answer may take its time: as many at once as
/// other answers as large as the cell.
pub(super) async fn answered(
    door: &Door,
    answer: impl FnOnce(Names<'_>) -> Response + Send + 'static,
) -> Response {
    if !door.core.view().caught_up {
        // Readers keep what they have.
        let why = "the log is still being applied: try again later\n".to_owned();
        return health::plain(StatusCode::SERVICE_UNAVAILABLE, why);
    }
    let turn = door.much.of(&None).await;
    let core = door.core.clone();
    let found = tokio::task::spawn_blocking(move || {
        let _held = turn;
        answer(core.view().names())
    });
    found.await.unwrap_or_else(|error| {
        health::plain(StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n"))
    })
}

/// A page of JSON.
pub(super) fn in_json(json: Vec<u8>) -> Response {
    let kind = [(header::CONTENT_TYPE, "application/json"), (header::CACHE_CONTROL, "no-store")];
    (kind, json).into_response()
}

impl Filter {
    /// Names need no percent-encoding.
    fn parse(query: &str) -> Result<Self, String> {
        let mut filter = Self::default();
        for word in query.split('&').filter(|word| !word.is_empty()) {
            let value = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
            match word.split_once('=') {
                Some(("user", user)) => filter.user = value(user),
                Some(("job", job)) => filter.job = value(job),
                _ => {
                    let word = word.escape_debug();
                    return Err(format!(
                        "'{word}' is no parameter: there are user=NAME and job=NAME"
                    ));
                }
            }
        }
        Ok(filter)
    }

    fn includes(&self, job: &Job) -> bool {
        let is = |wanted: &Option<String>, name: &str| {
            wanted.as_ref().is_none_or(|wanted| wanted == name)
        };
        is(&self.user, job.owner.as_str()) && is(&self.job, job.spec.name.as_str())
    }
}

/// The running tasks that serve metrics and are not being stopped, as JSON; an error if there are more than `most`.
fn listed(cell: &Cell, filter: &Filter, most: usize) -> Result<Vec<u8>, String> {
    let (mut json, mut count) = (b"[".to_vec(), 0);
    let name = cell.name().map(CellName::as_str).unwrap_or_default();
    for job in cell.named_jobs().filter(|job| job.is_alive() && filter.includes(job)) {
        for (index, task) in job.tasks() {
            let TaskState::Running(placement) = &task.state else { continue };
            let Phase::Started { .. } = placement.phase else { continue };
            // It is about to end.
            if placement.stop.is_some() {
                continue;
            }
            let Some(page) = &job.described(index).metrics else { continue };
            let Some(port) = port_of(job, index, page, &placement.ports) else { continue };
            let Some(machine) = cell.machine(placement.machine) else { continue };
            let Some((host, _)) = machine.address.rsplit_once(':') else { continue };
            let host =
                placement.address.map_or_else(|| host.to_owned(), |address| address.to_string());
            if count == most {
                return Err(format!(
                    "more than {most} tasks serve metrics: ask for those of a user or a job, with \
                     {PATH}?user=NAME&job=NAME"
                ));
            }
            if count > 0 {
                json.push(b',');
            }
            count += 1;
            let labels = TaskLabels {
                cell: name,
                user: job.owner.as_str(),
                job: job.spec.name.as_str(),
                task: index.to_string(),
                machine: machine.name.as_str(),
                path: &page.path,
            };
            let group = TargetGroup { targets: [format!("{host}:{port}")], labels };
            serde_json::to_writer(&mut json, &group).map_err(|error| error.to_string())?;
        }
    }
    json.push(b']');
    Ok(json)
}
