//! What all requests share, and who asks.

use std::sync::Arc;

use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse as _, Response};
use client::Connection;
use rpc::transport::{Limiter, Peer};

use crate::address::Address;
use crate::asker::{PageCache, PageClient};
use crate::layout;
use crate::problem::Problem;
use crate::session::{Session, Sessions};

/// The most pages that are watched at once, and by one user.
const WATCHERS_MAX: usize = 2_048;
const WATCHERS_OF_ONE: usize = 64;

/// A cell, as Sigma sees it.
pub trait Cell: Send + Sync + 'static {
    /// Its name.
    fn name(&self) -> &str;

    /// A connection to the cell with the rights of this user, and no others.
    ///
    /// # Errors
    /// If there can be none.
    fn connect(&self, peer: &Peer) -> Result<Connection, client::Error>;
}

/// What all requests share.
#[derive(Clone)]
pub(crate) struct App(Arc<Inner>);

struct Inner {
    cell: Box<dyn Cell>,
    sessions: Sessions,
    shared: Arc<PageCache>,
    watchers: Limiter<String>,
    /// The name of the cookie: browsers do not separate cookies by port.
    cookie: String,
}

impl App {
    /// For a cell, and those who are signed in.
    pub(crate) fn new(cell: impl Cell, sessions: Sessions) -> Self {
        let port = sessions.origin().rsplit_once(':').map_or("443", |(_, port)| port);
        let cookie = format!("__Host-bourg-sigma-{port}");
        let inner = Inner {
            cell: Box::new(cell),
            sessions,
            shared: Arc::default(),
            watchers: Limiter::new(WATCHERS_MAX, WATCHERS_OF_ONE),
            cookie,
        };
        Self(Arc::new(inner))
    }

    pub(crate) fn cell(&self) -> &str {
        self.0.cell.name()
    }

    pub(crate) fn sessions(&self) -> &Sessions {
        &self.0.sessions
    }

    pub(crate) fn watchers(&self) -> &Limiter<String> {
        &self.0.watchers
    }

    /// The session of a request, by its cookie.
    pub(crate) fn session(&self, headers: &HeaderMap) -> Option<Session> {
        let cookies = headers.get_all(header::COOKIE).into_iter();
        let cookies = cookies.filter_map(|value| value.to_str().ok());
        let mut pairs = cookies.flat_map(|value| value.split(';')).map(str::trim);
        let ours =
            |pair: &str| pair.strip_prefix(&self.0.cookie)?.strip_prefix('=').map(str::to_owned);
        self.0.sessions.session(&pairs.find_map(ours)?)
    }

    /// The cookie of a new session; an empty secret removes it.
    pub(crate) fn cookie(&self, secret: &str) -> HeaderValue {
        let name = &self.0.cookie;
        let age = if secret.is_empty() { "; Max-Age=0" } else { "" };
        let text = format!("{name}={secret}; Path=/; Secure; HttpOnly; SameSite=Strict{age}");
        HeaderValue::from_str(&text).unwrap_or_else(|_| HeaderValue::from_static(""))
    }

    /// The user of a request that shows a certificate.
    pub(crate) fn peer(&self, request: &Request) -> Option<Peer> {
        rpc::transport::web_peer(request.extensions(), self.cell())
    }

    /// Asks the cell for a page, as the user of a session.
    pub(crate) async fn asker(
        &self,
        session: &Session,
        address: Address,
    ) -> Result<PageClient, Problem> {
        let connection = self.0.cell.connect(&session.peer)?;
        let csrf = session.csrf.as_str().to_owned();
        PageClient::new(connection, Arc::clone(&self.0.shared), address, csrf).await
    }

    /// A document that says why there is no page. If the user is not accepted any more, the session is
    /// over.
    pub(crate) fn problem(&self, session: &Session, problem: &Problem) -> Response {
        if problem.is_sign_out() {
            self.sessions().end(session);
            return layout::signed_out(self.cell(), problem).into_response();
        }
        let body = layout::problem(self.cell(), session, problem);
        (problem.status, body).into_response()
    }
}
