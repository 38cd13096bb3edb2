//! Changes of the cell by buttons: each is a mutation of the API, with the user's own identity.

use api::v1;
use api::v1::change_machine_request::{Change, Drain, Undrain};
use axum::extract::rejection::FormRejection;
use axum::extract::{FromRequest, Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Redirect, Response};
use axum::{Extension, RequestExt as _};
use maud::{Markup, html};

use crate::address::Address;
use crate::app::App;
use crate::asker::PageClient;
use crate::problem::Problem;
use crate::session::{Said, Session};

/// The fields of a form.
pub(crate) struct Form(pub(crate) Fields);

/// By name.
pub(crate) struct Fields(Vec<(String, String)>);

impl Fields {
    /// A field; empty if it is absent.
    pub(crate) fn get(&self, name: &str) -> &str {
        self.0.iter().find(|(field, _)| field == name).map_or("", |(_, value)| value)
    }
}

impl<S: Send + Sync> FromRequest<S> for Form {
    type Rejection = FormRejection;

    async fn from_request(request: Request, _: &S) -> Result<Self, FormRejection> {
        let axum::Form(fields) = request.extract::<axum::Form<Vec<(String, String)>>, _>().await?;
        Ok(Self(Fields(fields)))
    }
}

/// A change that a button makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    PauseUpdate,
    ResumeUpdate,
    UndoUpdate,
    CloseUpdate,
    KillJob,
    KillTask,
    DrainMachine,
    UndrainMachine,
}

impl Action {
    const ALL: [(Self, &'static str, &'static str); 8] = [
        (Self::PauseUpdate, "pause-update", "Pause"),
        (Self::ResumeUpdate, "resume-update", "Resume"),
        (Self::UndoUpdate, "undo-update", "Undo"),
        (Self::CloseUpdate, "close-update", "Close"),
        (Self::KillJob, "kill-job", "Kill job"),
        (Self::KillTask, "kill-task", "Kill task"),
        (Self::DrainMachine, "drain-machine", "Drain"),
        (Self::UndrainMachine, "undrain-machine", "Undrain"),
    ];

    fn of(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|(_, known, _)| *known == word).map(|(action, _, _)| action)
    }

    fn words(self) -> (&'static str, &'static str) {
        let found = Self::ALL.into_iter().find(|(action, _, _)| *action == self);
        found.map_or(("", ""), |(_, word, label)| (word, label))
    }

    /// A question, for what cannot be taken back.
    fn asks(self) -> Option<&'static str> {
        match self {
            Self::KillJob => Some("Kill all tasks of this job?"),
            Self::KillTask => Some("Kill this task? It is not started again."),
            Self::DrainMachine => Some("Move all tasks away from this machine?"),
            _ => None,
        }
    }
}

/// A button that performs an action, with the fields that it needs.
pub(crate) fn button(asker: &PageClient, action: Action, fields: &[(&str, &str)]) -> Markup {
    let (word, label) = action.words();
    html! {
        form method="post" action="/do" class="action" data-asks=[action.asks()] {
            input type="hidden" name="csrf" value=(asker.csrf);
            input type="hidden" name="what" value=(word);
            input type="hidden" name="back" value=(asker.address.to_string());
            @for (name, value) in fields { input type="hidden" name=(name) value=(value); }
            @if action == Action::DrainMachine {
                label { span class="hidden" { "Reason" } input name="reason" placeholder="reason" maxlength="200"; }
            }
            button type="submit" class=[action.asks().map(|_| "danger")] { (label) }
        }
    }
}

/// The answer to a form that no page of this session contains.
pub(crate) fn forged() -> Problem {
    Problem::new(StatusCode::FORBIDDEN, "This form is not of your session: nothing was changed.")
        .next("Go back, load the page again, and repeat what you did.")
}

/// Performs an action, and goes back to the page.
pub(crate) async fn perform(
    State(app): State<App>,
    Extension(session): Extension<Session>,
    Form(form): Form,
) -> Response {
    if form.get("csrf") != session.csrf.as_str() {
        return app.problem(&session, &forged());
    }
    let (Some(action), Some(back)) =
        (Action::of(form.get("what")), Address::read(form.get("back")))
    else {
        return app.problem(&session, &Problem::bad("this button is unknown: load the page again"));
    };
    let to = back.to_string();
    let done = async { change(&mut app.asker(&session, back).await?, action, &form).await };
    let said = match done.await {
        Ok(text) => Said { text, is_bad: false },
        Err(problem) if problem.is_sign_out() => return app.problem(&session, &problem),
        Err(problem) => Said { text: problem.what, is_bad: true },
    };
    app.sessions().say(&session, said);
    Redirect::to(&to).into_response()
}

async fn change(asker: &mut PageClient, action: Action, form: &Fields) -> Result<String, Problem> {
    let (user, job) = (form.get("user").to_owned(), form.get("job").to_owned());
    let name = format!("{user}/{job}");
    let machine = form.get("machine").to_owned();
    let id = Some(asker.request_id().await?);
    let control = |action: v1::UpdateAction| v1::ControlUpdateRequest {
        id,
        job: Some(v1::JobAddress { user: user.clone(), job: job.clone() }),
        action: action.into(),
        to: None,
        expected: form.get("version").parse().ok(),
    };
    let change =
        |change| v1::ChangeMachineRequest { id, machine: machine.clone(), change: Some(change) };
    Ok(match action {
        Action::PauseUpdate => {
            let version = update(asker, control(v1::UpdateAction::PauseUpdate)).await?;
            format!("The update of {name} to version {version} is paused.")
        }
        Action::ResumeUpdate => {
            let version = update(asker, control(v1::UpdateAction::ResumeUpdate)).await?;
            format!("The update of {name} to version {version} continues.")
        }
        Action::UndoUpdate => {
            let version = update(asker, control(v1::UpdateAction::UndoUpdate)).await?;
            format!("The update of {name} to version {version} is being undone.")
        }
        Action::CloseUpdate => {
            let version = update(asker, control(v1::UpdateAction::CloseUpdate)).await?;
            format!("The update of {name} to version {version} is closed.")
        }
        Action::KillJob => {
            let job = v1::JobAddress { user: user.clone(), job: job.clone() };
            let tasks = v1::TaskSelection { all: true, ranges: Vec::new() };
            let request = v1::KillRequest { id, job: Some(job), tasks: Some(tasks), now: false };
            let killed = asker.ask(request, async |mut c, r| c.jobs.kill(r).await).await?.killed;
            let tasks = present::event_words::tasks(killed);
            format!("{name}: {tasks} killed.")
        }
        Action::KillTask => {
            let task = form.get("task");
            let index = task.parse().map_err(|_| Problem::bad("this is no task of a job"))?;
            let ranges = vec![v1::IndexRange { first: index, last: index }];
            let job = v1::JobAddress { user: user.clone(), job: job.clone() };
            let tasks = v1::TaskSelection { all: false, ranges };
            let request = v1::KillRequest { id, job: Some(job), tasks: Some(tasks), now: false };
            let killed = asker.ask(request, async |mut c, r| c.jobs.kill(r).await).await?.killed;
            match killed {
                0 => format!("{name}/{task} had ended already."),
                _ => format!("{name}/{task} killed."),
            }
        }
        Action::DrainMachine => {
            let reason = form.get("reason").to_owned();
            let drain = Change::Drain(Drain { reason, deadline: None, force: false });
            let request = change(drain);
            let leaving =
                asker.ask(request, async |mut c, r| c.machines.change(r).await).await?.leaving;
            format!("{machine} is draining: {} must leave.", present::event_words::tasks(leaving))
        }
        Action::UndrainMachine => {
            let request = change(Change::Undrain(Undrain {}));
            asker.ask(request, async |mut c, r| c.machines.change(r).await).await?;
            format!("{machine} is available again.")
        }
    })
}

async fn update(asker: &mut PageClient, request: v1::ControlUpdateRequest) -> Result<u32, Problem> {
    Ok(asker.ask(request, async |mut c, r| c.updates.control(r).await).await?.version)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_action_has_a_word_of_its_own() {
        for (action, word, _) in Action::ALL {
            assert_eq!(Action::of(word), Some(action), "{word}");
            assert_eq!(action.words().0, word);
        }
        assert_eq!(Action::of("format-disk"), None);
    }
}
