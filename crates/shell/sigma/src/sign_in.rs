//! Signing in by a link or by a certificate, and signing out.

use axum::Extension;
use axum::extract::{Path, Request, State};
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::response::{AppendHeaders, IntoResponse as _, Redirect, Response};

use crate::action::Form;
use crate::address::{Address, Query};
use crate::app::App;
use crate::layout;
use crate::problem::Problem;
use crate::session::{NoSignIn, Session};

/// Shows the user of a link. Only the button uses the link, because chat programs and mail scanners
/// open links too.
pub(crate) async fn ask(State(app): State<App>, Path(token): Path<String>) -> Response {
    match app.sessions().whose(&token) {
        Some(user) => layout::sign_in(app.cell(), &user, &token).into_response(),
        None => layout::signed_out(app.cell(), &used_up()).into_response(),
    }
}

/// Uses a link.
pub(crate) async fn by_link(State(app): State<App>, Path(token): Path<String>) -> Response {
    match app.sessions().sign_in(&token) {
        Ok(Some(secret)) => {
            let cookie = AppendHeaders([(header::SET_COOKIE, app.cookie(secret.as_str()))]);
            (cookie, Redirect::to("/")).into_response()
        }
        Ok(None) => layout::signed_out(app.cell(), &used_up()).into_response(),
        Err(why) => layout::signed_out(app.cell(), &no_sign_in(why)).into_response(),
    }
}

/// Whether a browser says that another site has made it send a request.
pub(crate) fn is_from_another_site(headers: &HeaderMap) -> bool {
    headers.get("sec-fetch-site").is_some_and(|value| value == "cross-site")
}

/// Signs in with the certificate that the browser has shown, and goes on to a page.
pub(crate) async fn by_certificate(State(app): State<App>, request: Request) -> Response {
    let query = Query::parse(request.uri().query().unwrap_or_default());
    // Only to a page of this server.
    let to = Address::read(query.get("to")).map_or_else(|| "/".to_owned(), |to| to.to_string());
    // What another site loads begins no session, which would end the oldest one; what it links to does, in the
    // next step.
    if is_from_another_site(request.headers()) || request.method() == Method::HEAD {
        return layout::continue_to(app.cell(), &to).into_response();
    }
    let Some(peer) = app.peer(&request) else {
        let problem =
            Problem::new(StatusCode::UNAUTHORIZED, "Your browser has shown no certificate.");
        return layout::signed_out(app.cell(), &problem).into_response();
    };
    match app.sessions().begin(peer) {
        Ok(secret) => {
            let cookie = AppendHeaders([(header::SET_COOKIE, app.cookie(secret.as_str()))]);
            (cookie, layout::continue_to(app.cell(), &to)).into_response()
        }
        Err(why) => layout::signed_out(app.cell(), &no_sign_in(why)).into_response(),
    }
}

/// Ends the session.
pub(crate) async fn sign_out(
    State(app): State<App>,
    Extension(session): Extension<Session>,
    Form(form): Form,
) -> Response {
    if form.get("csrf") != session.csrf.as_str() {
        return app.problem(&session, &crate::action::forged());
    }
    app.sessions().end(&session);
    let problem = Problem::new(StatusCode::OK, "You have signed out.");
    let cookie = AppendHeaders([(header::SET_COOKIE, app.cookie(""))]);
    (cookie, layout::signed_out(app.cell(), &problem)).into_response()
}

fn used_up() -> Problem {
    Problem::new(
        StatusCode::UNAUTHORIZED,
        "This link has been used, or is older than five minutes.",
    )
}

fn no_sign_in(why: NoSignIn) -> Problem {
    let status = match why {
        NoSignIn::NoUser => StatusCode::FORBIDDEN,
        NoSignIn::Full => StatusCode::SERVICE_UNAVAILABLE,
        NoSignIn::NoRandom => StatusCode::INTERNAL_SERVER_ERROR,
    };
    Problem::new(status, why.to_string())
}
