//! Live pages: the parts of a page that change, by server-sent events, and logs as they are written.

use std::convert::Infallible;
use std::time::Duration;

use api::v1;
use axum::Extension;
use axum::extract::{Path, Request, State};
use axum::http::{StatusCode, header};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse as _, Response};
use process::clock::wall_clock;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;

use crate::address::{Address, Place, Query, TaskName};
use crate::app::App;
use crate::asker::PageClient;
use crate::page::{DIGITS, Part, digits};
use crate::pages::{self, logs as log_page};
use crate::problem::Problem;
use crate::session::Session;
use crate::show;

/// How often a page is rendered again while somebody looks at it.
const INTERVAL: Duration = Duration::from_secs(1);
/// How often the page of the cell is, which shows what needs attention: less often while that takes long.
const ALERTS_INTERVAL: Duration = Duration::from_millis(200);
/// So many times as long as it took to render that page is the time until it is rendered again, within bounds.
const TIMES: u32 = 10;
/// The most events that wait for a slow browser. A page is not rendered meanwhile.
const QUEUE: usize = 8;
/// A log is not followed faster than a person can read: so many lines in one event.
const LINES_AT_ONCE: usize = 500;

/// The changes of a page. They end when the session does.
pub(crate) async fn live(
    State(app): State<App>,
    Extension(session): Extension<Session>,
    request: Request,
) -> Response {
    let query = Query::parse(request.uri().query().unwrap_or_default());
    // The past does not change.
    let Some(address) = Address::read(query.get("page")).filter(|address| address.at.is_none())
    else {
        return StatusCode::NOT_FOUND.into_response();
    };
    let Ok(permit) = app.watchers().acquire(session.user.clone()) else {
        let problem = Problem::new(StatusCode::TOO_MANY_REQUESTS, "You watch too many pages.");
        return app.problem(&session, &problem);
    };
    // A browser that has been here before may have missed changes: it gets all parts again.
    let is_again = request.headers().contains_key("last-event-id");
    let had = if is_again { String::new() } else { query.get("have").to_owned() };
    let (events, ready) = mpsc::channel(QUEUE);
    tokio::spawn(async move {
        let _held = permit;
        watch(&app, &session, address, &had, &events).await;
    });
    stream(ready)
}

/// Events, as a response.
pub(crate) fn stream(events: mpsc::Receiver<Event>) -> Response {
    let events = tokio_stream::StreamExt::map(ReceiverStream::new(events), Ok::<_, Infallible>);
    Sse::new(events).keep_alive(KeepAlive::default()).into_response()
}

/// Renders a page again and again, and sends what is different.
async fn watch(
    app: &App,
    session: &Session,
    address: Address,
    had: &str,
    events: &mpsc::Sender<Event>,
) {
    let mut sent: Vec<String> = had
        .as_bytes()
        .chunks(DIGITS)
        .map(|digits| String::from_utf8_lossy(digits).into_owned())
        .collect();
    let place = address.place.clone();
    let (mut asker, mut said): (Option<PageClient>, _) = (None, String::new());
    let (mut pause, mut rights_since) = (Duration::ZERO, Instant::now());
    loop {
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = events.closed() => return,
        }
        let begun = Instant::now();
        if !app.sessions().still(session) {
            return over(events, "Your session is over.").await;
        }
        let page = async {
            let asker = match &mut asker {
                Some(asker) => {
                    // A user who is revoked meanwhile sees nothing more, not even what viewers share.
                    if rights_since.elapsed() + ALERTS_INTERVAL > INTERVAL {
                        rights_since = Instant::now();
                        asker.ask_rights().await?;
                    }
                    asker
                }
                none => none.insert(app.asker(session, address.clone()).await?),
            };
            asker.now = wall_clock();
            pages::page(asker).await
        };
        match page.await {
            // It stays as it is.
            Ok(page) if !page.is_live => return,
            Ok(page) => {
                let digits: Vec<_> = page.parts.iter().map(digits).collect();
                for (number, part) in page.parts.iter().enumerate() {
                    let is_sent = sent.get(number) == digits.get(number);
                    if !is_sent && events.send(changed(part)).await.is_err() {
                        return;
                    }
                }
                sent = digits;
                let now = show::exact(asker.as_ref().map_or(0, |asker| asker.now.0));
                if now != said {
                    said.clone_from(&now);
                    let event = Event::default().event("now").id("1").data(now);
                    if events.send(event).await.is_err() {
                        return;
                    }
                }
            }
            Err(problem) if problem.is_sign_out() => {
                app.sessions().end(session);
                return over(events, &problem.what).await;
            }
            Err(problem) => {
                asker = None;
                let lost = Event::default().event("lost").data(one_line(&problem.what));
                if events.send(lost).await.is_err() {
                    return;
                }
            }
        }
        pause = self::pause(&place, begun.elapsed());
    }
}

/// The time until a page is rendered again that took so long to render.
fn pause(place: &Place, took: Duration) -> Duration {
    match place {
        Place::Cell(_) => (took * TIMES).clamp(ALERTS_INTERVAL, INTERVAL),
        _ => INTERVAL.saturating_sub(took).max(ALERTS_INTERVAL),
    }
}

async fn over(events: &mpsc::Sender<Event>, what: &str) {
    let _gone = events.send(Event::default().event("over").data(one_line(what))).await;
}

fn changed(part: &Part) -> Event {
    let data = serde_json::json!({ "id": format!("part-{}", part.id), "html": part.html });
    Event::default().event("part").data(data.to_string())
}

/// A text as the data of an event: a carriage return would end its line.
pub(crate) fn one_line(text: &str) -> String {
    text.replace(['\r', '\n'], " ")
}

/// The output of a task, as it is written.
pub(crate) async fn logs(
    State(app): State<App>,
    Extension(session): Extension<Session>,
    Path((user, job, index)): Path<(String, String, u32)>,
    request: Request,
) -> Response {
    let query = Query::parse(request.uri().query().unwrap_or_default());
    let Ok(permit) = app.watchers().acquire(session.user.clone()) else {
        let problem = Problem::new(StatusCode::TOO_MANY_REQUESTS, "You watch too many pages.");
        return app.problem(&session, &problem);
    };
    let asked = log_page::request(TaskName { user: &user, job: &job, index }, &query, true);
    let chunks = match open(&app, &session, asked).await {
        Ok(chunks) => chunks,
        Err(problem) => return app.problem(&session, &problem),
    };
    let (events, ready) = mpsc::channel(QUEUE);
    tokio::spawn(async move {
        let _held = permit;
        follow(&app, &session, chunks, &events).await;
    });
    stream(ready)
}

async fn open(
    app: &App,
    session: &Session,
    request: Result<v1::LogsRequest, Problem>,
) -> Result<Streaming<v1::LogChunk>, Problem> {
    let address = Address { place: Place::Help, at: None };
    let mut asker = app.asker(session, address).await?;
    asker.stream(request?, async |mut c, r| c.tasks.logs(r).await).await
}

/// Sends the lines of a log, marked up, until the browser, the session or the log ends.
async fn follow(
    app: &App,
    session: &Session,
    mut chunks: Streaming<v1::LogChunk>,
    events: &mpsc::Sender<Event>,
) {
    let mut lines = log_page::Lines::default();
    let mut ticks = tokio::time::interval(INTERVAL);
    loop {
        let chunk = tokio::select! {
            chunk = chunks.message() => chunk,
            () = events.closed() => return,
            _ = ticks.tick() => match app.sessions().still(session) {
                true => continue,
                false => return over(events, "Your session is over.").await,
            },
        };
        match chunk {
            Ok(Some(chunk)) => {
                let text = lines.add(&chunk);
                for some in text.chunks(LINES_AT_ONCE) {
                    let html: String = some.concat();
                    let data = serde_json::json!({ "html": html }).to_string();
                    if events.send(Event::default().event("lines").data(data)).await.is_err() {
                        return;
                    }
                }
            }
            Ok(None) => {
                let data = serde_json::json!({ "html": lines.end().concat() }).to_string();
                let _gone = events.send(Event::default().event("lines").data(data)).await;
                let _gone = events.send(Event::default().event("end").data("")).await;
                return;
            }
            Err(status) => {
                let problem = Problem::from(client::Error::Answer(status));
                if problem.is_sign_out() {
                    app.sessions().end(session);
                    return over(events, &problem.what).await;
                }
                let lost = Event::default().event("lost").data(one_line(&problem.what));
                let _gone = events.send(lost).await;
                return;
            }
        }
    }
}

/// The output of a task, as a file.
pub(crate) async fn download(
    State(app): State<App>,
    Extension(session): Extension<Session>,
    Path((user, job, index)): Path<(String, String, u32)>,
    request: Request,
) -> Response {
    let query = Query::parse(request.uri().query().unwrap_or_default());
    let asked = log_page::request(
        TaskName { user: &user, job: &job, index },
        &query.with("all", "1"),
        false,
    );
    let chunks = match open(&app, &session, asked).await {
        Ok(chunks) => chunks,
        Err(problem) => return app.problem(&session, &problem),
    };
    let data = tokio_stream::StreamExt::map(chunks, |chunk| chunk.map(|chunk| chunk.data));
    let name = format!("{user}-{job}-{index}.log");
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let name = match name.bytes().all(is_plain) {
        true => name,
        false => "task.log".to_owned(),
    };
    let headers = [
        (header::CONTENT_TYPE, "text/plain; charset=utf-8".to_owned()),
        (header::CONTENT_DISPOSITION, format!("attachment; filename=\"{name}\"")),
    ];
    (headers, axum::body::Body::from_stream(data)).into_response()
}
