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
mod task;
mod terminal;
mod users;
mod why;

use axum::Extension;
use axum::extract::{Request, State};
use axum::response::{IntoResponse as _, Redirect, Response};
use maud::Markup;

use crate::address::{Address, Place, Query};
use crate::asker::Asker;
use crate::problem::Problem;
use crate::server::App;
use crate::session::Session;

/// What a page shows.
#[derive(Debug)]
pub(crate) struct Page {
    /// For the tab of the browser.
    pub(crate) title: String,
    /// The heading with what does not change while the page is open.
    pub(crate) heading: Markup,
    /// The command that gives the same data; empty if there is none.
    pub(crate) command: String,
    /// What changes, from top to bottom.
    pub(crate) parts: Vec<Part>,
    /// Whether it is rendered again while it is open.
    pub(crate) is_live: bool,
}

/// A part of a page that is replaced as a whole when it changes.
#[derive(Debug)]
pub(crate) struct Part {
    /// Unique on the page.
    pub(crate) id: String,
    pub(crate) class: Option<&'static str>,
    pub(crate) html: String,
}

impl Part {
    pub(crate) fn new(id: impl Into<String>, html: Markup) -> Self {
        Self { id: id.into(), class: None, html: html.into_string() }
    }

    pub(crate) fn class(self, class: &'static str) -> Self {
        Self { class: Some(class), ..self }
    }
}

impl Page {
    /// A live page.
    pub(crate) fn live(
        title: impl Into<String>,
        heading: Markup,
        command: impl Into<String>,
        parts: Vec<Part>,
    ) -> Self {
        Self { title: title.into(), heading, command: command.into(), parts, is_live: true }
    }

    /// The same, but it stays as it is.
    pub(crate) fn still(self) -> Self {
        Self { is_live: false, ..self }
    }
}

/// The page at the address of the asker.
pub(crate) async fn page(asker: &mut Asker) -> Result<Page, Problem> {
    // As large as the largest page, and part of every response.
    Box::pin(page_of(asker)).await
}

async fn page_of(asker: &mut Asker) -> Result<Page, Problem> {
    match asker.address.place.clone() {
        Place::Cell(query) => cell::page(asker, &query).await,
        Place::Jobs(query) => jobs::page(asker, &query).await,
        Place::Job { user, job } => job::page(asker, &user, &job).await,
        Place::Description { user, job } => description::page(asker, &user, &job).await,
        Place::Why { user, job } => why::page(asker, &user, &job).await,
        Place::Task { user, job, index } => task::page(asker, (&user, &job, index)).await,
        Place::Logs { user, job, index, query } => {
            logs::page(asker, (&user, &job, index), &query).await
        }
        Place::Terminal { user, job, index } => terminal::page(asker, (&user, &job, index)).await,
        Place::Machines(query) => machines::page(asker, &query).await,
        Place::Machine { name } => machine::page(asker, &name).await,
        Place::Pending => pending::page(asker).await,
        Place::Users => users::page(asker).await,
        Place::User { name } => users::user(asker, &name).await,
        Place::Names => names::page(asker).await,
        Place::NamesOf { user } => names::of(asker, &user).await,
        Place::Events(query) => events::page(asker, &query).await,
        Place::Help => Ok(help::page()),
    }
}

/// Adds ` --at MOMENT` to a command on a page of the past.
pub(crate) fn at(asker: &Asker, command: String) -> String {
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

async fn find(asker: &mut Asker, text: &str) -> Result<Place, Problem> {
    let of = |text: &str| text.to_owned();
    let jobs = asker.jobs().await?;
    let is_job = |user: &str, job: &str| {
        let name = |found: &proto::v1::JobStatus| {
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
