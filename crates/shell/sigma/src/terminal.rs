//! Terminals in tasks: a command with a terminal of its own, interpreted here. A browser gets rows of
//! markup and sends bytes of keys.
//!
//! A terminal belongs to the session that opened it, and ends with it. It is run by one task, which has
//! all of its state; requests are messages to that task.

mod clamp;
mod screen;
#[cfg(test)]
mod tests;

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use api::v1;
use api::v1::exec_input::Input;
use api::v1::exec_output::Output;
use api::v1::exec_request::Message;
use axum::Extension;
use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::sse::Event;
use axum::response::{IntoResponse as _, Response};
use client::Connection;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Status, Streaming};

use self::screen::{Interpreter, Size, changed};
use crate::action::{Fields, Form, forged};
use crate::address::{Address, Place};
use crate::app::App;
use crate::live;
use crate::problem::Problem;
use crate::session::Session;

/// The most terminals: in all, of one user, and of one session.
const TERMINALS_MAX: usize = 256;
const TERMINALS_OF_USER: usize = 8;
const TERMINALS_OF_ONE: usize = 4;
/// How long nobody may type, and how long no browser may look at it.
const IDLE_MAX: Duration = Duration::from_secs(30 * 60);
const AWAY_MAX: Duration = Duration::from_secs(60);
/// The least time between two renderings, how long output may be interpreted meanwhile, in pieces of so many
/// bytes, and how many bytes of it may wait. Output beyond stays where it is, and with it the program.
const FRAME: Duration = Duration::from_millis(40);
const FRAME_WORK: Duration = Duration::from_millis(10);
const WORK_BYTES: usize = 512;
const UNREAD_BYTES_MAX: usize = 256 << 10;
/// How often it is checked whether a terminal has to end.
const CHECK: Duration = Duration::from_secs(1);
/// The most bytes of keys in a request, and of those that the command has not read yet.
const KEYS_BYTES_MAX: usize = 16 << 10;
const WAITING_BYTES_MAX: usize = 64 << 10;
/// The most bytes of a piece of input.
const PIECE_BYTES: usize = 32 << 10;
/// The most bytes of a command.
const COMMAND_BYTES_MAX: usize = 4 << 10;
/// How long the start of a command is waited for.
const PATIENCE: Duration = Duration::from_secs(10);
/// Messages that wait: to the task of a terminal, to the master, to a browser.
const QUEUE: usize = 4;
/// What programs take the terminal for.
const TERM: &str = "xterm-256color";
/// The header with the token of the session: another site cannot set it.
const CSRF: &str = "x-csrf";

/// The terminals that are open.
#[derive(Clone, Debug, Default)]
pub(crate) struct Terminals(Arc<Mutex<All>>);

#[derive(Debug, Default)]
struct All {
    last: u64,
    open: HashMap<u64, Entry>,
}

#[derive(Debug)]
struct Entry {
    /// The session that opened it, and its user.
    session: [u8; 32],
    user: String,
    messages: mpsc::Sender<ToTerminal>,
}

/// A request to a terminal.
enum ToTerminal {
    /// Keys, and whether there was room for them.
    Keys(Bytes, oneshot::Sender<bool>),
    Resize(Size),
    /// A browser shows it from now on, instead of any other.
    Show(mpsc::Sender<Event>),
    Close,
}

impl fmt::Debug for ToTerminal {
    /// Omits keys, which may be a password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ToTerminal")
    }
}

/// A place among the terminals, until it is dropped.
struct Open {
    terminals: Terminals,
    id: u64,
}

impl Drop for Open {
    fn drop(&mut self) {
        self.terminals.lock().open.remove(&self.id);
    }
}

impl Terminals {
    fn lock(&self) -> MutexGuard<'_, All> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place for a terminal of a session.
    fn open(
        &self,
        session: [u8; 32],
        user: &str,
        messages: mpsc::Sender<ToTerminal>,
    ) -> Result<Open, Problem> {
        let full = |what: &str| Problem::new(StatusCode::TOO_MANY_REQUESTS, what);
        let mut all = self.lock();
        let count = |is: &dyn Fn(&Entry) -> bool| all.open.values().filter(|one| is(one)).count();
        if count(&|open| open.session == session) >= TERMINALS_OF_ONE {
            return Err(full("Too many terminals are open in this browser: close one of them."));
        }
        if count(&|open| open.user == user) >= TERMINALS_OF_USER {
            return Err(full("You have too many terminals in all browsers: close one of them."));
        }
        if all.open.len() >= TERMINALS_MAX {
            return Err(full("Too many terminals are open here: try again later."));
        }
        all.last += 1;
        let id = all.last;
        let user = user.to_owned();
        all.open.insert(id, Entry { session, user, messages });
        Ok(Open { terminals: self.clone(), id })
    }

    /// The way to a terminal of a session.
    fn find(&self, session: [u8; 32], id: u64) -> Option<mpsc::Sender<ToTerminal>> {
        let all = self.lock();
        let open = all.open.get(&id).filter(|open| open.session == session)?;
        Some(open.messages.clone())
    }
}

/// What was typed, until the command may get it.
#[derive(Debug, Default)]
struct Typed {
    waiting: VecDeque<u8>,
    /// How much the command's terminal takes.
    granted: u64,
}

impl Typed {
    /// Adds keys if there is room for all of them.
    fn add(&mut self, keys: &[u8]) -> bool {
        let fits = self.waiting.len() + keys.len() <= WAITING_BYTES_MAX;
        if fits {
            self.waiting.extend(keys);
        }
        fits
    }

    fn is_ready(&self) -> bool {
        self.granted > 0 && !self.waiting.is_empty()
    }

    /// The next piece, as far as it is granted.
    fn take(&mut self) -> Vec<u8> {
        let granted = usize::try_from(self.granted).unwrap_or(usize::MAX);
        let length = granted.min(PIECE_BYTES).min(self.waiting.len());
        self.granted -= length as u64;
        self.waiting.drain(..length).collect()
    }
}

/// Says in a line why something is not done: a script reads it.
fn refused(app: &App, session: &Session, problem: &Problem) -> Response {
    if problem.is_sign_out() {
        app.sessions().end(session);
    }
    (problem.status, problem.what.clone()).into_response()
}

/// Opens a terminal: its number.
pub(crate) async fn open(
    State(app): State<App>,
    Extension(terminals): Extension<Terminals>,
    Extension(session): Extension<Session>,
    Form(form): Form,
) -> Response {
    if form.get("csrf") != session.csrf.as_str() {
        return refused(&app, &session, &forged());
    }
    match begin(&app, &terminals, &session, &form).await {
        Ok(id) => {
            let kind = [(header::CONTENT_TYPE, "application/json")];
            (kind, serde_json::json!({ "id": id }).to_string()).into_response()
        }
        Err(problem) => refused(&app, &session, &problem),
    }
}

async fn begin(
    app: &App,
    terminals: &Terminals,
    session: &Session,
    form: &Fields,
) -> Result<u64, Problem> {
    let size = Size::read(form.get("rows"), form.get("columns"));
    let start = start(form, size)?;
    let owner = form.get("user");
    let (messages, requests) = mpsc::channel(QUEUE);
    let place = terminals.open(session.id, &session.user, messages)?;
    let asker = app.asker(session, Address { place: Place::Help, at: None }).await?;
    if !asker.rights.may_run_in_tasks_of(owner) {
        let what = format!("{} may not run commands in tasks of {owner}.", asker.rights.user);
        return Err(Problem::new(StatusCode::FORBIDDEN, what));
    }
    let Call { to_task, mut outputs } = call(asker.into_connection()).await?;
    let start = v1::ExecRequest { message: Some(Message::Start(start)) };
    let _gone = to_task.send(start).await;
    // The first message tells whether it has been started.
    let late = |_| Problem::new(StatusCode::BAD_GATEWAY, "The task's machine does not answer.");
    let first = timeout(PATIENCE, outputs.message()).await.map_err(late)?;
    let first = first.map_err(client::Error::Answer)?;
    let id = place.id;
    let mut terminal = Terminal {
        screen: Interpreter::new(size),
        typed: Typed::default(),
        is_resized: false,
        is_changed: true,
        unread: VecDeque::new(),
        viewer: None,
        seen: Instant::now(),
        used: Instant::now(),
        end: None,
    };
    terminal.take(Ok(first));
    let (app, session) = (app.clone(), session.clone());
    tokio::spawn(async move {
        let _held = place;
        terminal.run(&app, &session, requests, Call { to_task, outputs }).await;
    });
    Ok(id)
}

/// What to run, and where.
fn start(form: &Fields, size: Size) -> Result<v1::ExecStart, Problem> {
    let task = form.get("index").parse().map_err(|_| Problem::bad("this is no task of a job"))?;
    let command = form.get("command").trim();
    if command.len() > COMMAND_BYTES_MAX {
        return Err(Problem::bad(format!("A command has at most {COMMAND_BYTES_MAX} bytes.")));
    }
    let argv = match command {
        "" => Vec::new(),
        command => ["/bin/sh", "-c", command].map(str::to_owned).to_vec(),
    };
    let terminal = v1::ExecTerminal { window: Some(window(size)), term: TERM.to_owned() };
    let job = v1::JobAddress { user: form.get("user").to_owned(), job: form.get("job").to_owned() };
    let execution = v1::Execution { argv, terminal: Some(terminal) };
    Ok(v1::ExecStart { job: Some(job), task, execution: Some(execution) })
}

fn window(size: Size) -> v1::ExecWindow {
    v1::ExecWindow { rows: size.rows.into(), columns: size.columns.into() }
}

/// Both ends of a call.
struct Call {
    to_task: mpsc::Sender<v1::ExecRequest>,
    outputs: Streaming<v1::ExecOutput>,
}

/// Opens a call. Nothing is sent before it is accepted: it can be tried at another replica, and the command
/// is never executed twice.
async fn call(mut connection: Connection) -> Result<Call, Problem> {
    let opened = connection.stream((), async |mut client, request| {
        let (to_task, requests) = mpsc::channel(QUEUE);
        let response = client.tasks.exec(request.map(|()| ReceiverStream::new(requests))).await?;
        let (metadata, outputs, extensions) = response.into_parts();
        Ok(tonic::Response::from_parts(metadata, Call { to_task, outputs }, extensions))
    });
    Ok(opened.await?)
}

/// The next output; never if the call has ended.
async fn next(
    outputs: &mut Option<Streaming<v1::ExecOutput>>,
) -> Result<Option<v1::ExecOutput>, Status> {
    match outputs {
        Some(outputs) => outputs.message().await,
        None => std::future::pending().await,
    }
}

/// Room for a message to the command; never if the call has ended.
async fn room(
    to_task: Option<&mpsc::Sender<v1::ExecRequest>>,
) -> Result<mpsc::Permit<'_, v1::ExecRequest>, mpsc::error::SendError<()>> {
    match to_task {
        Some(to_task) => to_task.reserve().await,
        None => std::future::pending().await,
    }
}

/// The browser that shows a terminal.
struct Viewer {
    events: mpsc::Sender<Event>,
    /// What it has.
    rows: Vec<String>,
    size: Option<Size>,
    modes: (bool, bool),
}

/// An open terminal.
struct Terminal {
    screen: Interpreter,
    typed: Typed,
    /// Whether the command does not know the size yet.
    is_resized: bool,
    /// Whether the browser may have to be told something.
    is_changed: bool,
    /// Output that is not interpreted yet.
    unread: VecDeque<u8>,
    viewer: Option<Viewer>,
    /// When a browser showed it last, and when somebody typed last.
    seen: Instant,
    used: Instant,
    /// Why it is over, as the name of an event and a text.
    end: Option<(&'static str, String)>,
}

impl Terminal {
    /// Runs until the command, the session or the browser ends.
    async fn run(
        mut self,
        app: &App,
        session: &Session,
        mut requests: mpsc::Receiver<ToTerminal>,
        call: Call,
    ) {
        let (mut to_task, mut outputs) = (Some(call.to_task), Some(call.outputs));
        let mut frames = interval(FRAME);
        frames.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut checks = interval(CHECK);
        checks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            if self.end.is_some() {
                // The command is killed with the call.
                (to_task, outputs) = (None, None);
            }
            let has_input = self.is_resized || self.typed.is_ready();
            tokio::select! {
                output = next(&mut outputs), if self.unread.len() < UNREAD_BYTES_MAX => {
                    if let Some(problem) = self.take(output)
                        && problem.is_sign_out()
                    {
                        app.sessions().end(session);
                    }
                }
                request = requests.recv() => match request {
                    Some(ToTerminal::Close) | None => return,
                    Some(request) => self.obey(request),
                },
                permit = room(to_task.as_ref()), if has_input => match permit {
                    Ok(permit) => permit.send(self.input()),
                    Err(_) => self.ended("end", "The connection to the task has ended."),
                },
                _ = frames.tick(), if self.is_changed || !self.unread.is_empty() => {
                    self.interpret(FRAME_WORK);
                    if self.show() {
                        return;
                    }
                }
                _ = checks.tick() => {
                    if !app.sessions().still(session) {
                        self.unread.clear();
                        self.ended("over", "Your session is over.");
                    } else if self.used.elapsed() >= IDLE_MAX {
                        let minutes = IDLE_MAX.as_secs() / 60;
                        self.ended("end", &format!("Closed: nothing was typed for {minutes} minutes."));
                    }
                    if self.is_abandoned() {
                        return;
                    }
                }
            }
        }
    }

    fn ended(&mut self, event: &'static str, why: &str) {
        if self.end.is_none() {
            self.end = Some((event, why.to_owned()));
            self.is_changed = true;
        }
    }

    /// Takes what the command's end of the call says. Returns the problem if it has failed.
    fn take(&mut self, output: Result<Option<v1::ExecOutput>, Status>) -> Option<Problem> {
        let output = match output {
            Ok(Some(message)) => message.output,
            Ok(None) => {
                self.ended("end", "The connection to the task has ended.");
                return None;
            }
            Err(status) => {
                let problem = Problem::from(client::Error::Answer(status));
                let event = if problem.is_sign_out() { "over" } else { "end" };
                self.ended(event, &problem.what);
                return Some(problem);
            }
        };
        match output {
            Some(Output::Stdout(bytes) | Output::Stderr(bytes)) => {
                self.unread.extend(bytes);
            }
            Some(Output::Granted(bytes)) => self.typed.granted += u64::from(bytes),
            Some(Output::Exited(0)) => self.ended("end", "The command has ended."),
            Some(Output::Exited(status)) => {
                self.ended("end", &format!("The command has ended with exit status {status}."));
            }
            None => {}
        }
        None
    }

    /// Interprets output, for so long.
    fn interpret(&mut self, time: Duration) {
        let begun = std::time::Instant::now();
        // Most of what a program writes very fast is never seen.
        let away = self.screen.scrolled_away(self.unread.make_contiguous());
        self.unread.drain(..away);
        while !self.unread.is_empty() && begun.elapsed() < time {
            let length = self.unread.len().min(WORK_BYTES);
            let piece: Vec<u8> = self.unread.drain(..length).collect();
            self.screen.write(&piece);
            let answers = self.screen.take_answers();
            self.typed.add(&answers);
            self.is_changed = true;
        }
    }

    fn obey(&mut self, request: ToTerminal) {
        match request {
            ToTerminal::Keys(keys, fits) => {
                self.used = Instant::now();
                let _gone = fits.send(self.typed.add(&keys));
            }
            ToTerminal::Resize(size) if size != self.screen.size() => {
                self.screen.resize(size);
                (self.is_resized, self.is_changed) = (true, true);
            }
            ToTerminal::Show(events) => {
                let (rows, size) = (Vec::new(), None);
                self.viewer = Some(Viewer { events, rows, size, modes: (false, false) });
                self.is_changed = true;
            }
            ToTerminal::Resize(_) | ToTerminal::Close => {}
        }
    }

    /// The next message for the command.
    fn input(&mut self) -> v1::ExecRequest {
        let input = match std::mem::take(&mut self.is_resized) {
            true => Input::Window(window(self.screen.size())),
            false => Input::Stdin(self.typed.take()),
        };
        v1::ExecRequest { message: Some(Message::Input(v1::ExecInput { input: Some(input) })) }
    }

    /// Tells the browser what is different, unless it is slow: then later. Returns whether that was all.
    fn show(&mut self) -> bool {
        self.is_changed = false;
        let Some(viewer) = &mut self.viewer else { return false };
        let rows = self.screen.rows();
        let (size, modes) = (self.screen.size(), self.screen.modes());
        let changed = changed(&viewer.rows, &rows);
        if !changed.is_empty() || viewer.size != Some(size) || viewer.modes != modes {
            let data = serde_json::json!({
                "rows": changed,
                "count": size.rows,
                "columns": size.columns,
                "application": modes.0,
                "paste": modes.1,
            });
            let event = Event::default().event("screen").data(data.to_string());
            if viewer.events.try_send(event).is_err() {
                self.is_changed = true;
                return false;
            }
            (viewer.rows, viewer.size, viewer.modes) = (rows, Some(size), modes);
        }
        let Some((event, why)) = self.end.as_ref().filter(|_| self.unread.is_empty()) else {
            return false;
        };
        let event = Event::default().event(*event).data(live::one_line(why));
        let is_told = viewer.events.try_send(event).is_ok();
        self.is_changed = !is_told;
        is_told
    }

    /// Whether no browser has shown it for too long.
    fn is_abandoned(&mut self) -> bool {
        if self.viewer.as_ref().is_some_and(|viewer| !viewer.events.is_closed()) {
            self.seen = Instant::now();
        } else {
            self.viewer = None;
        }
        self.seen.elapsed() >= AWAY_MAX
    }
}

/// The way to a terminal of this session, for a request that this session's page has sent.
fn of_session(
    terminals: &Terminals,
    session: &Session,
    id: u64,
    headers: &HeaderMap,
) -> Result<mpsc::Sender<ToTerminal>, Problem> {
    let token = headers.get(CSRF).and_then(|token| token.to_str().ok());
    if token != Some(session.csrf.as_str()) {
        return Err(forged());
    }
    terminals.find(session.id, id).ok_or_else(gone)
}

fn gone() -> Problem {
    Problem::not_found("This terminal is closed.")
}

/// Types.
pub(crate) async fn keys(
    State(app): State<App>,
    Extension(terminals): Extension<Terminals>,
    Extension(session): Extension<Session>,
    Path(id): Path<u64>,
    headers: HeaderMap,
    keys: Bytes,
) -> Response {
    let typed = async {
        let terminal = of_session(&terminals, &session, id, &headers)?;
        if keys.len() > KEYS_BYTES_MAX {
            let what = format!("At most {KEYS_BYTES_MAX} bytes are typed at once.");
            return Err(Problem::new(StatusCode::PAYLOAD_TOO_LARGE, what));
        }
        let (fits, answer) = oneshot::channel();
        terminal.send(ToTerminal::Keys(keys, fits)).await.map_err(|_| gone())?;
        match answer.await.map_err(|_| gone())? {
            true => Ok(StatusCode::NO_CONTENT.into_response()),
            false => {
                let what = "The command does not read what is typed.";
                Err(Problem::new(StatusCode::TOO_MANY_REQUESTS, what))
            }
        }
    };
    typed.await.unwrap_or_else(|problem| refused(&app, &session, &problem))
}

/// Changes the size.
pub(crate) async fn size(
    State(app): State<App>,
    Extension(terminals): Extension<Terminals>,
    Extension(session): Extension<Session>,
    Path(id): Path<u64>,
    headers: HeaderMap,
    Form(form): Form,
) -> Response {
    let size = Size::read(form.get("rows"), form.get("columns"));
    let told = tell(&terminals, &session, id, &headers, ToTerminal::Resize(size)).await;
    told.unwrap_or_else(|problem| refused(&app, &session, &problem))
}

/// Closes a terminal, and kills its command.
pub(crate) async fn close(
    State(app): State<App>,
    Extension(terminals): Extension<Terminals>,
    Extension(session): Extension<Session>,
    Path(id): Path<u64>,
    headers: HeaderMap,
) -> Response {
    let told = tell(&terminals, &session, id, &headers, ToTerminal::Close).await;
    told.unwrap_or_else(|problem| refused(&app, &session, &problem))
}

async fn tell(
    terminals: &Terminals,
    session: &Session,
    id: u64,
    headers: &HeaderMap,
    what: ToTerminal,
) -> Result<Response, Problem> {
    let terminal = of_session(terminals, session, id, headers)?;
    terminal.send(what).await.map_err(|_| gone())?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// The screen, as it changes.
pub(crate) async fn screen(
    State(app): State<App>,
    Extension(terminals): Extension<Terminals>,
    Extension(session): Extension<Session>,
    Path(id): Path<u64>,
) -> Response {
    let Some(terminal) = terminals.find(session.id, id) else {
        return refused(&app, &session, &gone());
    };
    let (events, ready) = mpsc::channel(QUEUE);
    if terminal.send(ToTerminal::Show(events)).await.is_err() {
        return refused(&app, &session, &gone());
    }
    live::stream(ready)
}
