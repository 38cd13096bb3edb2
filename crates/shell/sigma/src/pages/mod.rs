//! The pages. Each asks the cell for what it shows, and names the command that gives the same data.

mod bands;
pub(crate) mod cell;
mod description;
mod events;
mod help;
mod job;
mod jobs;
pub(crate) mod logs;
mod machine;
mod machines;
mod names;
mod pending;
mod queue;
mod task;
mod terminal;
mod users;
mod why;

use axum::Extension;
use axum::extract::{Request, State};
use axum::response::{IntoResponse as _, Redirect, Response};

use crate::address::{Address, Place, Query, TaskName};
use crate::app::App;
use crate::asker::PageClient;
pub(crate) use crate::page::{Page, Part};
use crate::problem::Problem;
use crate::session::Session;

/// The page at the address of the asker.
pub(crate) async fn page(asker: &mut PageClient) -> Result<Page, Problem> {
    // Each boxed by itself: a function needs stack for all that it may hold, used or not.
    match asker.address.place.clone() {
        Place::Cell(query) => Box::pin(cell::page(asker, &query)).await,
        Place::Jobs(query) => Box::pin(jobs::page(asker, &query)).await,
        Place::Job { user, job } => Box::pin(job::page(asker, &user, &job)).await,
        Place::Description { user, job } => Box::pin(description::page(asker, &user, &job)).await,
        Place::Why { user, job } => Box::pin(why::page(asker, &user, &job)).await,
        Place::Task { user, job, index } => {
            Box::pin(task::page(asker, TaskName { user: &user, job: &job, index })).await
        }
        Place::Logs { user, job, index, query } => {
            let task = TaskName { user: &user, job: &job, index };
            Box::pin(logs::page(asker, task, &query)).await
        }
        Place::Terminal { user, job, index } => {
            Box::pin(terminal::page(asker, TaskName { user: &user, job: &job, index })).await
        }
        Place::Machines(query) => Box::pin(machines::page(asker, &query)).await,
        Place::Machine { name } => Box::pin(machine::page(asker, &name)).await,
        Place::Pending => Box::pin(pending::page(asker)).await,
        Place::Queue => Box::pin(queue::page(asker)).await,
        Place::Users => Box::pin(users::page(asker)).await,
        Place::User { name } => Box::pin(users::user(asker, &name)).await,
        Place::Names => Box::pin(names::page(asker)).await,
        Place::NamesOf { user } => Box::pin(names::of(asker, &user)).await,
        Place::Events(query) => Box::pin(events::page(asker, &query)).await,
        Place::Help => Ok(help::page()),
    }
}

/// Adds ` --at MOMENT` to a command on a page of the past.
pub(crate) fn at(asker: &PageClient, command: String) -> String {
    match &asker.address.at {
        Some(at) => format!("{command} --at {}", quoted(at)),
        None => command,
    }
}

/// A text as one word of a shell's command.
pub(crate) fn quoted(text: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./:=,+@%".contains(&byte);
    match !text.is_empty() && text.bytes().all(is_plain) {
        true => text.to_owned(),
        false => format!("'{}'", text.replace('\'', r"'\''")),
    }
}

/// Goes to what was searched: a machine or a user by name, a job or a task by address; else to the jobs
/// that match.
pub(crate) async fn search(
    State(app): State<App>,
    Extension(session): Extension<Session>,
    request: Request,
) -> Response {
    let query = Query::parse(request.uri().query().unwrap_or_default());
    let text = query.get("q").trim().to_owned();
    let at = Some(query.get("at").to_owned()).filter(|at| !at.is_empty());
    let address = Address { place: Place::Cell(Query::default()), at };
    let found = async {
        let mut asker = app.asker(&session, address.clone()).await?;
        find(&mut asker, &text).await
    };
    match found.await {
        Ok(place) => Redirect::to(&address.to(place)).into_response(),
        Err(problem) => app.problem(&session, &problem),
    }
}

async fn find(asker: &mut PageClient, text: &str) -> Result<Place, Problem> {
    let of = |text: &str| text.to_owned();
    let jobs = asker.jobs().await?;
    let is_job = |user: &str, job: &str| {
        let name = |found: &api::v1::JobStatus| {
            found.spec.as_ref().is_some_and(|spec| spec.name == job) && found.user == user
        };
        jobs.jobs.iter().any(name)
    };
    if let [user, job, rest @ ..] = text.split('/').collect::<Vec<_>>().as_slice()
        && is_job(user, job)
    {
        return Ok(match rest.first().and_then(|index| index.parse().ok()) {
            Some(index) => Place::Task { user: of(user), job: of(job), index },
            None => Place::Job { user: of(user), job: of(job) },
        });
    }
    let own = asker.rights.user.clone();
    if is_job(&own, text) {
        return Ok(Place::Job { user: own, job: of(text) });
    }
    let machines = asker.machines().await?;
    if machines.machines.iter().any(|machine| machine.name == text) {
        return Ok(Place::Machine { name: of(text) });
    }
    Ok(Place::Jobs(Query::default().with("q", text)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_quoted_for_a_shell_if_it_must_be() {
        for (text, expected) in [
            ("10m", "10m"),
            ("2026-11-19 03:10", "'2026-11-19 03:10'"),
            ("it's", r"'it'\''s'"),
            ("$(reboot)", "'$(reboot)'"),
            ("", "''"),
        ] {
            assert_eq!(quoted(text), expected);
        }
    }
}
