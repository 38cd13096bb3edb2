//! The web server: routes, who asks, and what every response has.

use std::net::TcpListener;
use std::time::Instant;

use axum::extract::{DefaultBodyLimit, Request, State};
use axum::http::uri::Authority;
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::{IntoResponse as _, Redirect, Response};
use axum::routing::{get, post};
use axum::{Extension, Router};
use rpc::WebCredentials;
use rpc::transport::{Limits, Refusals, WebOptions};
use tonic::service::Routes;

use crate::address::Address;
use crate::app::{App, Cell};
use crate::problem::Problem;
use crate::session::{Session, Sessions};
use crate::terminal::Terminals;
use crate::{action, assets, layout, live, outputs, pages, sign_in, terminal};

/// The most bytes of a form, or of what is typed into a terminal at once.
const BODY_BYTES_MAX: usize = 64 << 10;
/// What a page may do: only files of this server, no scripts or styles inside a page, and no frames.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
                      connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// The web server of one process.
pub struct Sigma(App);

impl Sigma {
    /// For a cell, and those who are signed in.
    #[must_use]
    pub fn new(cell: impl Cell, sessions: Sessions) -> Self {
        Self(App::new(cell, sessions))
    }

    /// Serves the pages on a listening socket until `shutdown` resolves.
    ///
    /// # Errors
    /// If the socket or the certificate is unusable, or serving fails.
    pub async fn serve(
        self,
        listener: TcpListener,
        credentials: &WebCredentials,
        refusals: &Refusals,
        shutdown: impl Future<Output = ()>,
    ) -> anyhow::Result<()> {
        let cell = self.0.cell().to_owned();
        let pages = Routes::from(self.router());
        let limits = Limits { connections_of_one: 2_048, ..Limits::default() };
        let options = WebOptions { credentials, cell: &cell, limits, refusals };
        Ok(rpc::transport::serve_web(listener, options, pages, shutdown).await?)
    }

    fn router(self) -> Router {
        let app = self.0;
        // What changes something, or runs something, is sent by a page of this server.
        let changes = Router::new()
            .route("/do", post(action::perform))
            .route("/sign-out", post(sign_in::sign_out))
            .route("/terminal", post(terminal::open))
            .route("/terminal/{id}/keys", post(terminal::keys))
            .route("/terminal/{id}/size", post(terminal::size))
            .route("/terminal/{id}/close", post(terminal::close));
        let reads = Router::new()
            .route("/live", get(live::live))
            .route("/search", get(pages::search))
            .route("/map", get(pages::cell::rack))
            .route("/terminal/{id}/screen", get(terminal::screen))
            .route("/jobs/{user}/{job}/{task}/logs/follow", get(live::logs))
            .route("/jobs/{user}/{job}/{task}/logs/download", get(live::download))
            .route("/jobs/{user}/{job}/{task}/outputs", get(outputs::download))
            .fallback(get(page));
        Router::new()
            .merge(changes)
            .merge(reads)
            .layer(Extension(Terminals::default()))
            .layer(from_fn_with_state(app.clone(), signed_in))
            .route("/sign-in", get(sign_in::by_certificate))
            .route("/sign-in/{token}", get(sign_in::ask).post(sign_in::by_link))
            .route("/assets/{name}", get(assets::asset))
            .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
            .layer(from_fn(same_origin))
            .layer(from_fn(finish))
            .with_state(app)
    }
}

/// A page.
async fn page(State(app): State<App>, request: Request) -> Response {
    let Some(session) = request.extensions().get::<Session>().cloned() else {
        return StatusCode::UNAUTHORIZED.into_response();
    };
    let Some(address) = Address::of(request.uri()) else {
        let problem = Problem::not_found("there is no page at this address");
        return app.problem(&session, &problem);
    };
    let now = address.at.is_some().then(|| address.at(None));
    let shown = Box::pin(async {
        let mut asker = app.asker(&session, address).await?;
        let page = pages::page(&mut asker).await?;
        Ok((asker, page))
    });
    match shown.await {
        Ok((asker, page)) => {
            let said = app.sessions().said(&session);
            layout::document(app.cell(), &asker, &page, said.as_ref()).into_response()
        }
        Err(problem) => app.problem(&session, &Problem { now, ..problem }),
    }
}

/// The address of a request, if it is one of a page: what begins with two slashes would be another host.
fn own(request: &Request) -> String {
    Address::of(request.uri()).map_or_else(|| "/".to_owned(), |address| address.to_string())
}

/// Lets only requests of users through who have signed in, with their session.
async fn signed_in(State(app): State<App>, mut request: Request, next: Next) -> Response {
    if let Some(session) = app.session(request.headers()) {
        request.extensions_mut().insert(session);
        return next.run(request).await;
    }
    // A link on another site: such a request never has our cookie, the next one has.
    if sign_in::is_from_another_site(request.headers()) && request.method() == Method::GET {
        return layout::continue_to(app.cell(), &own(&request)).into_response();
    }
    // A browser with a certificate of the cell has shown already who it is.
    if app.peer(&request).is_some() && request.method() == Method::GET {
        let to = crate::address::encoded(&own(&request));
        return Redirect::to(&format!("/sign-in?to={to}")).into_response();
    }
    let problem = Problem::new(StatusCode::UNAUTHORIZED, "You are not signed in.");
    layout::signed_out(app.cell(), &problem).into_response()
}

/// Rejects what another site sends, even with the right cookie.
async fn same_origin(request: Request, next: Next) -> Response {
    let headers = request.headers();
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let host = text("host").or_else(|| request.uri().authority().map(Authority::as_str));
    let is_ours = match (text("sec-fetch-site"), text("origin"), host) {
        (Some(site), _, _) => site == "same-origin",
        (None, Some(origin), Some(host)) => origin.strip_prefix("https://") == Some(host),
        (None, Some(_), None) => false,
        // Not a browser, or an old one: the token in the form decides.
        (None, None, _) => true,
    };
    if request.method() == Method::GET || request.method() == Method::HEAD || is_ours {
        return next.run(request).await;
    }
    (StatusCode::FORBIDDEN, "another site sent this: open Sigma itself\n").into_response()
}

/// Compresses a response, and adds what protects it, and how long it took (W3C Server Timing): the developer
/// tools of a browser show it.
async fn finish(request: Request, next: Next) -> Response {
    let begun = Instant::now();
    let accepted = request.headers().get(header::ACCEPT_ENCODING);
    let accepted = accepted.and_then(|value| value.to_str().ok()).unwrap_or_default();
    let gzip = accepted.split(',').any(|one| {
        let mut parts = one.split(';').map(str::trim);
        let is_off = |quality: &str| {
            let zero = quality.trim_start_matches("q=").parse::<f32>();
            quality.starts_with("q=") && zero.is_ok_and(|quality| quality <= 0.0)
        };
        parts.next() == Some("gzip") && !parts.any(is_off)
    });
    let mut response = next.run(request).await;
    if gzip {
        response = assets::compressed(response).await;
    }
    let headers = response.headers_mut();
    let mut set = |name: &'static str, value: &'static str| {
        headers.insert(name, HeaderValue::from_static(value));
    };
    set("content-security-policy", POLICY);
    set("x-frame-options", "DENY");
    set("x-content-type-options", "nosniff");
    // Without it, browsers send `Origin: null` with our own forms.
    set("referrer-policy", "same-origin");
    set("cross-origin-opener-policy", "same-origin");
    set("cross-origin-resource-policy", "same-origin");
    set("permissions-policy", "camera=(), geolocation=(), microphone=()");
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    let timing = format!("total;dur={:.3}", begun.elapsed().as_secs_f64() * 1e3);
    if let Ok(timing) = HeaderValue::try_from(timing) {
        headers.insert("server-timing", timing);
    }
    response
}
