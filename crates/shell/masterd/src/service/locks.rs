//! The service for lock sessions, locks and small files.

use std::sync::Arc;

use api::v1;
use api::v1::change_locks_request::Change;
use cell::{Cell, CloseLockSession, File, Mutation, RenewLockSession, Reply};
use model::{FilePath, LockMode, LockSessionId, LogIndex, Sequencer, UserName};
use prost::Message as _;
use rpc::service::locks_server;
use tokio::sync::mpsc::error::SendTimeoutError;
use tokio::sync::{mpsc, watch};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status};

use crate::caller::Caller;
use crate::reads::rejections::rejected;
use crate::service::door::{Door, split};
use crate::service::event_watch::STALLED;
use crate::service::holding::holding;
use crate::service::{Answer, Streamed, gate, malformed, unexpected};
use crate::streams::{StreamHolder, Streams};
use crate::view::View;

/// The maximum number of watches of files and locks, shared by users: each `bourg lock with` that waits
/// has one. A watch of many files counts once more for each thousand.
const WATCHERS_MAX: usize = 8_192;
/// The maximum number of states that wait for a slow watcher: later ones are merged.
const QUEUE: usize = 2;

/// A message to a watcher.
type Sent = Result<v1::FilesResponse, Status>;

/// What a caller asks for: one file, or all whose path begins with a text.
#[derive(Clone, Debug)]
enum FileSelection {
    One(FilePath),
    Below(String),
}

impl FileSelection {
    /// Reads a path; one that ends with a slash stands for all below it. A caller may ask for what is
    /// below their own name, and administrators for everything; tasks only for what is their user's.
    fn new(cell: &Cell, by: &Caller, text: &str) -> Result<Self, Status> {
        if let Some(prefix) = text.strip_suffix('/') {
            let user = prefix.trim_start_matches('/').split('/').next().unwrap_or_default();
            let whole = by.task.is_none() && cell.is_administrator(&by.user);
            if !text.starts_with('/') || (user != by.user.as_str() && !whole) {
                return Err(Status::permission_denied(format!(
                    "{} may only list what is below /{}/",
                    by.user, by.user
                )));
            }
            return Ok(Self::Below(text.to_owned()));
        }
        let path = text.parse::<FilePath>();
        let path = path.map_err(|error| Status::invalid_argument(error.to_string()))?;
        may_use(cell, by, &path)?;
        Ok(Self::One(path))
    }

    /// The files as they are now: their contents only if one is asked for.
    fn files(&self, cell: &Cell) -> Vec<v1::FileState> {
        match self {
            Self::One(path) => cell.file(path).map(|file| state(cell, file)).into_iter().collect(),
            Self::Below(prefix) => {
                let files = cell.files_below(prefix).map(|file| {
                    let mut state = state(cell, file);
                    if let Some(content) = &mut state.content {
                        content.data = Vec::new();
                    }
                    state
                });
                files.collect()
            }
        }
    }

    /// What tells one state from another: the number of files and the newest of their changes.
    fn digest(&self, cell: &Cell) -> (usize, LogIndex) {
        let files = |files: &mut dyn Iterator<Item = &Arc<File>>| {
            files.fold((0, LogIndex(0)), |(count, newest), file| {
                (count + 1, newest.max(file.changed))
            })
        };
        match self {
            Self::One(path) => files(&mut cell.file(path).into_iter()),
            Self::Below(prefix) => files(&mut cell.files_below(prefix)),
        }
    }
}

/// A file with the users of the holders of its lock.
fn state(cell: &Cell, file: &File) -> v1::FileState {
    let mut state = formats::locks::file_message(file);
    for holder in state.lock.iter_mut().flat_map(|lock| &mut lock.holders) {
        let session = cell.lock_session(LockSessionId(holder.session));
        holder.user = session.map(|session| session.user.to_string()).unwrap_or_default();
    }
    state
}

/// Whether a caller may use a file. Tasks have no rights beyond their user's own paths.
fn may_use(cell: &Cell, by: &Caller, path: &FilePath) -> Result<(), Status> {
    if by.task.is_some() && !path.is_of(&by.user) {
        let user = &by.user;
        return Err(Status::permission_denied(format!("a task of {user} may only use /{user}/…")));
    }
    cell.may_use_file(&by.user, path).map_err(|why| rejected(cell, &why))
}

/// The mutation of a request.
fn mutation(change: Change) -> Result<Mutation, api::Malformed> {
    use formats::v1::op::request::Mutation as Message;
    Mutation::try_from(match change {
        Change::OpenSession(open) => Message::OpenLockSession(open),
        Change::RenewSession(id) => {
            return Ok(RenewLockSession { session: LockSessionId(id) }.into());
        }
        Change::CloseSession(id) => {
            return Ok(CloseLockSession { session: LockSessionId(id) }.into());
        }
        Change::Write(write) => Message::WriteFile(write),
        Change::Delete(delete) => Message::DeleteFile(delete),
        Change::Acquire(acquire) => Message::AcquireLock(acquire),
        Change::Release(release) => Message::ReleaseLock(release),
    })
}

/// Rejects a task that names a path of somebody else: its user may be an administrator, it may not.
fn own_paths(user: &UserName, mutation: &Mutation) -> Result<(), String> {
    let (path, sequencer) = match mutation {
        Mutation::WriteFile(write) => (&write.path, write.sequencer.as_ref()),
        Mutation::DeleteFile(delete) => (&delete.path, delete.sequencer.as_ref()),
        Mutation::AcquireLock(acquire) => (&acquire.path, None),
        _ => return Ok(()),
    };
    let mut paths = std::iter::once(path).chain(sequencer.map(|sequencer| &sequencer.path));
    match paths.all(|path| path.is_of(user)) {
        true => Ok(()),
        false => Err(format!("a task of {user} may only use /{user}/…")),
    }
}

/// The service.
#[derive(Clone)]
pub(super) struct Locks {
    door: Door,
    watchers: Streams,
}

impl Locks {
    pub(super) fn new(door: Door) -> Self {
        Self { door, watchers: Streams::new("watch-files", WATCHERS_MAX) }
    }

    /// The limits on those who watch files.
    pub(super) fn watchers(&self) -> &Streams {
        &self.watchers
    }
}

#[tonic::async_trait]
impl locks_server::Locks for Locks {
    type WatchStream = Streamed<v1::FilesResponse>;

    async fn change(
        &self,
        request: Request<v1::ChangeLocksRequest>,
    ) -> Answer<v1::ChangeLocksResponse> {
        let by = self.door.anyone(&request).await?;
        let bytes = request.get_ref().encoded_len();
        let (v1::ChangeLocksRequest { id, change }, asked) = split(request);
        let change = change.ok_or_else(|| Status::invalid_argument("no change is given"))?;
        let mutation = mutation(change).map_err(|error| malformed(&error))?;
        self.door.own(&by, &asked, || own_paths(&by.user, &mutation))?;
        let acquired = match &mutation {
            Mutation::AcquireLock(acquire) => Some((acquire.path.clone(), acquire.mode)),
            _ => None,
        };
        let (index, reply) = self.door.mutate(id, by, mutation, bytes).await?;
        let mut answer = v1::ChangeLocksResponse { index: index.0, ..Default::default() };
        match reply {
            Reply::Done => {}
            Reply::LockSession(session) => answer.session = session.0,
            Reply::FileGeneration(generation) => {
                answer.generation = generation.0;
                let sequencer = |(path, mode): (FilePath, LockMode)| {
                    Sequencer { path, mode, generation }.to_string()
                };
                answer.sequencer = acquired.map(sequencer).unwrap_or_default();
            }
            other => return Err(unexpected(&other)),
        }
        Ok(Response::new(answer))
    }

    /// The answer has everything that was acknowledged anywhere before: a lock that seems to be held, or a
    /// sequencer that seems to be valid, is.
    async fn files(&self, request: Request<v1::FilesRequest>) -> Answer<v1::FilesResponse> {
        let by = self.door.anyone(&request).await?;
        let v1::FilesRequest { path, sequencer } = request.into_inner();
        let view = gate::newest(&self.door.core).await?;
        let cell = &view.cell;
        let mut answer =
            v1::FilesResponse { index: cell.index().0, time: view.now().0, ..Default::default() };
        if !sequencer.is_empty() {
            let sequencer = sequencer.parse::<Sequencer>();
            let sequencer =
                sequencer.map_err(|error| Status::invalid_argument(error.to_string()))?;
            may_use(cell, &by, &sequencer.path)?;
            answer.sequencer_valid = cell.is_current(&sequencer);
        }
        if path.is_empty() {
            return Ok(Response::new(answer));
        }
        let asked = FileSelection::new(cell, &by, &path)?;
        let one = match &asked {
            FileSelection::One(_) => asked.files(cell),
            FileSelection::Below(_) => Vec::new(),
        };
        drop(view);
        match asked {
            FileSelection::One(_) => answer.files = one,
            FileSelection::Below(_) => {
                let files =
                    self.door.read_much(&by, move |reads| Ok(asked.files(reads.cell))).await?;
                answer.files = files.into_inner();
            }
        }
        Ok(Response::new(answer))
    }

    async fn watch(&self, request: Request<v1::WatchFilesRequest>) -> Answer<Self::WatchStream> {
        let by = self.door.anyone(&request).await?;
        let v1::WatchFilesRequest { path, index } = request.into_inner();
        // It has everything that was acknowledged anywhere before.
        gate::newest(&self.door.core).await?;
        let view = gate::reached(&self.door.core, LogIndex(index)).await?;
        let asked = FileSelection::new(&view.cell, &by, &path)?;
        let weight = match &asked {
            FileSelection::One(_) => 1,
            FileSelection::Below(_) => 1 + asked.digest(&view.cell).0 / 1_000,
        };
        let asker = by.asker(&view.cell);
        drop(view);
        let place = self.watchers.begin_as(StreamHolder { user: &by.user, asker }, weight)?;
        let (to_client, stream) = mpsc::channel(QUEUE + 1);
        let no_room = |_| Status::internal("a queue that is new has no room: report this");
        let end = to_client.clone().try_reserve_owned().map_err(no_room)?;
        let views = self.door.core.watch();
        tokio::spawn(async move {
            if let Err(status) = send_changes(views, asked, to_client).await {
                end.send(Err(status));
            }
        });
        let stream = holding(place, ReceiverStream::new(stream));
        Ok(self.door.while_accepted(by, Response::new(stream)))
    }
}

/// Sends the state of what is watched, and again whenever it has changed.
async fn send_changes(
    mut views: watch::Receiver<Arc<View>>,
    asked: FileSelection,
    to_client: mpsc::Sender<Sent>,
) -> Result<(), Status> {
    let (mut last, mut looked) = (None, None);
    loop {
        // No view is held here: that would keep a whole cell as long as a reader takes.
        let message = {
            let view = Arc::clone(&views.borrow_and_update());
            let cell = &view.cell;
            let changed = Some(cell.files_changed());
            if looked == changed {
                None
            } else {
                looked = changed;
                let digest = Some(asked.digest(cell));
                let is_new = std::mem::replace(&mut last, digest) != digest;
                is_new.then(|| v1::FilesResponse {
                    index: cell.index().0,
                    time: view.now().0,
                    files: asked.files(cell),
                    sequencer_valid: false,
                })
            }
        };
        if let Some(message) = message {
            match to_client.send_timeout(Ok(message), STALLED).await {
                Ok(()) => {}
                Err(SendTimeoutError::Closed(_)) => return Ok(()),
                Err(SendTimeoutError::Timeout(_)) => {
                    return Err(Status::deadline_exceeded(format!(
                        "the watcher read nothing for {} seconds: watch again",
                        STALLED.as_secs()
                    )));
                }
            }
        }
        tokio::select! {
            changed = views.changed() => if changed.is_err() { return Ok(()) },
            () = to_client.closed() => return Ok(()),
        }
    }
}
