//! Task logs, relayed from their machines: those of several tasks in the order of their times, and
//! followed from one incarnation of a task to the next.

mod merge;

use std::sync::Arc;
use std::time::Duration;

use api::v1;
use api::v1::log_start::From;
use cell::{Job, Phase, TaskState};
use model::{
    Capability, CollectionId, Generation, InstanceId, MachineId, TaskIndex, Time, UserName, Version,
};
use rpc::transport::{Limiter, Permit};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::task::JoinSet;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Request, Response, Status};

use self::merge::Merge;
use super::door::split;
use super::machines::revoked;
use super::tasks::{LOG_READERS_OF_ONE_THERE, Tasks};
use super::{Answer, Streamed, gate};
use crate::agents;
use crate::caller::tasks::may_touch;
use crate::handle::Core;
use crate::reads::{Reads, selection_with_ended};
use crate::service::holding::holding;
use crate::streams::StreamHolder;

/// The timeout for a machine's first piece, and for the next one as long as it sends the past.
const PATIENCE: Duration = Duration::from_secs(10);
/// How many tasks of a job are read at once. Of the others, as many are read next; no more can be
/// followed.
const TASKS_AT_ONCE: usize = 256;
/// How many pieces of a task wait for their turn, of 16 KiB.
const PIECES_WAITING: usize = 2;
/// The interval of attempts to go on with a log that is followed.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);
/// How many pieces wait for a slow reader.
const QUEUE: usize = 16;

/// An incarnation of a task whose output is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Wanted {
    instance: InstanceId,
    machine: MachineId,
    /// `None` if the cell does not know it.
    version: Option<Version>,
    /// The incarnation before that one, which only its machine can know.
    previous: bool,
}

/// The incarnations of a task that the cell knows, the newest first.
fn incarnations(job: &Job, index: TaskIndex) -> impl Iterator<Item = Wanted> {
    let id = model::TaskId { collection: job.id, index };
    let task = job.task(index);
    let incarnation = move |generation, machine, version| Wanted {
        instance: id.generation(generation),
        machine,
        version: Some(version),
        previous: false,
    };
    let placed = task.and_then(|task| match &task.state {
        TaskState::Running(placement) => Some((task, placement.machine)),
        _ => None,
    });
    let placed = placed.map(|(task, machine)| incarnation(task.generation, machine, task.version));
    let last = task.and_then(|task| task.last_incarnation.as_deref());
    let last = last.map(|last| incarnation(last.generation, last.machine, last.version));
    placed.into_iter().chain(last)
}

/// The incarnation of a task whose output is wanted first: the newest, the newest with a version, or the
/// one before the newest.
fn wanted(job: &Job, index: TaskIndex, version: Option<Version>, previous: bool) -> Option<Wanted> {
    let mut incarnations = incarnations(job, index)
        .filter(|incarnation| version.is_none_or(|wanted| incarnation.version == Some(wanted)));
    let newest = incarnations.next()?;
    match (previous, incarnations.next()) {
        (false, _) => Some(newest),
        (true, Some(before)) => Some(before),
        (true, None) if newest.instance.generation.0 <= 1 => None,
        (true, None) => Some(Wanted { version: None, previous: true, ..newest }),
    }
}

impl Tasks {
    pub(super) async fn relay_logs(
        &self,
        request: Request<v1::LogsRequest>,
    ) -> Answer<Streamed<v1::LogChunk>> {
        gate::led(&self.door.core).await?;
        let caller = self.door.anyone(&request).await?;
        let user = &caller.user;
        let (asked, asks) = split(request);
        let view = self.door.core.view();
        let reads = Reads::of(&view, &caller);
        let job = reads.find(&asked.job.clone().unwrap_or_default())?;
        self.door.own(&caller, &asks, || may_touch(user, &job.owner, &job.spec.name))?;
        if job.owner != *user && !caller.administers_jobs(&view.cell) {
            return Err(Status::permission_denied(format!(
                "{user} may not read the logs of {}/{}: {}, an administrator or a user with the \
                 capability {} may",
                job.owner,
                job.spec.name,
                job.owner,
                Capability::AdministerJobs
            )));
        }
        let name = format!("{}/{}", job.owner, job.spec.name);
        if job.spec.kind.is_alloc_set() {
            return Err(Status::invalid_argument(format!(
                "{name} is an alloc set, which runs nothing itself: bourg status {name} shows the \
                 jobs in it"
            )));
        }
        if asked.follow && (asked.previous || asked.until > 0) {
            return Err(Status::invalid_argument("what has ended cannot be followed"));
        }
        if job.owner != *user {
            self.door.record_use(&caller, Capability::AdministerJobs, job.id).await?;
        }
        let selected = selection_with_ended(job, asked.tasks.clone())?;
        let version = asked.version.map(Version);
        let tasks: Vec<TaskIndex> = job
            .tasks()
            .map(|(index, _)| index)
            .filter(|index| selected.contains(*index))
            // One that has never run may start while it is followed.
            .filter(|index| {
                (asked.follow && version.is_none())
                    || wanted(job, *index, version, asked.previous).is_some()
            })
            .collect();
        if asked.previous && version.is_none() && tasks.is_empty() {
            return Err(Status::not_found(format!(
                "no such task of {name} has had more than one incarnation: omit --previous"
            )));
        }
        if let Some(version) = version.filter(|_| tasks.is_empty()) {
            return Err(Status::not_found(format!(
                "no such task of {name} runs version {version} or ran it last: bourg update status \
                 {name} shows the versions"
            )));
        }
        if asked.follow && tasks.len() > TASKS_AT_ONCE {
            return Err(Status::resource_exhausted(format!(
                "{} tasks of {name} are selected, and at most {TASKS_AT_ONCE} can be followed at \
                 once: name some of them, such as {name}/0-{}",
                tasks.len(),
                TASKS_AT_ONCE - 1
            )));
        }
        let holder = StreamHolder { user, asker: caller.asker(&view.cell) };
        let place = self.log_readers.begin_as(holder, tasks.len().clamp(1, TASKS_AT_ONCE))?;
        let (to_client, stream) = mpsc::channel(QUEUE);
        let reading = LogReading {
            core: self.door.core.clone(),
            agents: self.agents.clone(),
            there: self.log_readers_there.clone(),
            user: user.clone(),
            job: job.id,
            asked,
        };
        drop(view);
        tokio::spawn(Arc::new(reading).relay(name, tasks, to_client));
        let stream = holding(place, ReceiverStream::new(stream));
        Ok(self.door.while_accepted(caller, Response::new(stream)))
    }
}

/// Logs of a job that somebody reads.
struct LogReading {
    core: Core,
    agents: agents::Handle,
    there: Limiter<(MachineId, UserName)>,
    user: UserName,
    job: CollectionId,
    asked: v1::LogsRequest,
}

/// What a task's log has next.
enum Piece {
    Chunk(v1::LogChunk, OwnedSemaphorePermit),
    CaughtUp,
}

/// Why the log of a task cannot be read.
#[derive(Debug)]
struct NotRead {
    task: TaskIndex,
    code: Code,
    why: String,
}

/// Where a task's pieces go.
struct ToMerge {
    number: usize,
    room: Arc<Semaphore>,
    pieces: mpsc::Sender<(usize, Piece)>,
}

/// Nobody reads any more.
struct Gone;

impl ToMerge {
    async fn send(&self, chunk: v1::LogChunk) -> Result<(), Gone> {
        let room = Arc::clone(&self.room).acquire_owned().await.map_err(|_| Gone)?;
        self.pieces.send((self.number, Piece::Chunk(chunk, room))).await.map_err(|_| Gone)
    }

    async fn caught_up(&self) -> Result<(), Gone> {
        self.pieces.send((self.number, Piece::CaughtUp)).await.map_err(|_| Gone)
    }

    async fn note(&self, instance: InstanceId, note: String) -> Result<(), Gone> {
        let instance = Some(instance.into());
        self.send(v1::LogChunk { instance, note, ..v1::LogChunk::default() }).await
    }
}

type ToClient = mpsc::Sender<Result<v1::LogChunk, Status>>;

impl LogReading {
    /// Relays the logs of these tasks to their reader, then says which could not be read.
    async fn relay(self: Arc<Self>, job: String, tasks: Vec<TaskIndex>, to_client: ToClient) {
        let mut failed = Vec::new();
        for some in tasks.chunks(TASKS_AT_ONCE) {
            match self.relay_some(some, &to_client).await {
                Ok(not_read) => failed.extend(not_read),
                Err(Gone) => return,
            }
        }
        if let Some(status) = explain(&job, failed) {
            let _gone = to_client.send(Err(status)).await;
        }
    }

    /// The same for so many that they are read at once.
    async fn relay_some(
        self: &Arc<Self>,
        tasks: &[TaskIndex],
        to_client: &ToClient,
    ) -> Result<Vec<NotRead>, Gone> {
        // Dropped together: then all relays end.
        let mut relays = JoinSet::new();
        let (pieces, mut relayed) = mpsc::channel(tasks.len().max(1));
        for (number, task) in tasks.iter().enumerate() {
            let room = Arc::new(Semaphore::new(PIECES_WAITING));
            let to_merge = ToMerge { number, room, pieces: pieces.clone() };
            let (reading, task) = (Arc::clone(self), *task);
            relays.spawn(async move {
                let failed = reading.task(task, &to_merge).await;
                let _gone = to_merge.caught_up().await;
                failed
            });
        }
        drop(pieces);
        let mut merge = Merge::new(tasks.len());
        loop {
            let piece = tokio::select! {
                piece = relayed.recv() => piece,
                () = to_client.closed() => return Err(Gone),
            };
            match piece {
                Some((number, Piece::Chunk(chunk, room))) => {
                    merge.push(number, chunk.at, (chunk, room));
                }
                Some((number, Piece::CaughtUp)) => merge.caught_up(number),
                None => break,
            }
            while let Some((chunk, _room)) = merge.pop() {
                to_client.send(Ok(chunk)).await.map_err(|_| Gone)?;
            }
        }
        let mut failed = Vec::new();
        while let Some(relay) = relays.join_next().await {
            failed.extend(relay.ok().and_then(Result::ok).flatten());
        }
        Ok(failed)
    }

    /// Relays the log of one task: of one incarnation, or of this and all later ones.
    async fn task(&self, task: TaskIndex, to: &ToMerge) -> Result<Option<NotRead>, Gone> {
        let mut views = self.core.watch();
        let version = self.asked.version.map(Version);
        let mut read: Option<Generation> = None;
        let mut failed = None;
        loop {
            // No view is held while something is waited for: that would keep a whole cell.
            let (next, over) = {
                let view = Arc::clone(&views.borrow_and_update());
                let Some(job) = view.cell.job(self.job) else { return Ok(failed) };
                let next = match read {
                    None => wanted(job, task, version, self.asked.previous),
                    // The oldest that has not been read: two may have begun meanwhile.
                    Some(read) => incarnations(job, task)
                        .filter(|incarnation| incarnation.instance.generation > read)
                        .filter(|incarnation| version.is_none() || incarnation.version == version)
                        .last(),
                };
                let task = job.task(task);
                let over = task.is_none_or(|task| matches!(task.state, TaskState::Dead { .. }));
                (next, over)
            };
            if let Some(next) = next {
                failed = self.incarnation(task, next, read.is_some(), to).await?;
                read = Some(next.instance.generation);
                // Reading another incarnation would fail, too.
                let hopeless = |failed: &NotRead| {
                    matches!(failed.code, Code::InvalidArgument | Code::ResourceExhausted)
                };
                if failed.as_ref().is_some_and(hopeless) {
                    return Ok(failed);
                }
            }
            if !self.asked.follow || (next.is_none() && over) {
                return Ok(failed);
            }
            if next.is_none() {
                to.caught_up().await?;
                if views.changed().await.is_err() {
                    return Ok(failed);
                }
            }
        }
    }

    /// Relays the log of one incarnation. One that is followed is read on when its machine answers again.
    async fn incarnation(
        &self,
        task: TaskIndex,
        incarnation: Wanted,
        later: bool,
        to: &ToMerge,
    ) -> Result<Option<NotRead>, Gone> {
        let start = self.asked.start.as_ref().and_then(|start| start.from);
        // All of a later incarnation is new.
        let start = start.filter(|from| !later || matches!(from, From::Since(_)));
        let mut at = Place { start, positions: None };
        let mut said = String::new();
        loop {
            // Looked up before the machine is asked, which may start it meanwhile.
            let starting = !incarnation.previous && self.is_starting(incarnation.instance);
            let attempt = self.attempt(incarnation, &mut at, to).await?;
            let is_there = attempt.as_ref().err().is_none_or(|(code, _)| *code != Code::NotFound);
            if starting && self.asked.follow && (attempt.is_ok() || !is_there) {
                // The machine does not know yet that it is to run it.
                to.caught_up().await?;
                tokio::select! {
                    () = self.started(incarnation.instance) => {}
                    () = tokio::time::sleep(RETRY_INTERVAL) => {}
                    () = to.pieces.closed() => return Err(Gone),
                }
                continue;
            }
            let failed = match attempt {
                Err((code, why)) if is_there || !starting => NotRead { task, code, why },
                // It has written nothing yet.
                Ok(()) | Err(_) => return Ok(None),
            };
            let retries = self.asked.follow
                && matches!(failed.code, Code::Aborted)
                && self.is_placed(incarnation.instance);
            if !retries {
                return Ok(Some(failed));
            }
            to.caught_up().await?;
            if said != failed.why {
                said.clone_from(&failed.why);
                to.note(incarnation.instance, failed.why).await?;
            }
            tokio::select! {
                () = tokio::time::sleep(RETRY_INTERVAL) => {}
                () = to.pieces.closed() => return Err(Gone),
            }
        }
    }

    /// Whether an instance is placed, and its machine has not reported it as running yet.
    fn is_starting(&self, instance: InstanceId) -> bool {
        let view = self.core.view();
        let placement = view.cell.placement(instance);
        placement.is_some_and(|placement| matches!(placement.phase, Phase::Starting))
    }

    /// Waits until an instance is not starting any more.
    async fn started(&self, instance: InstanceId) {
        let mut views = self.core.watch();
        while self.is_starting(instance) {
            if views.changed().await.is_err() {
                return;
            }
        }
    }

    fn is_placed(&self, instance: InstanceId) -> bool {
        self.core.view().cell.placement(instance).is_some()
    }

    /// Reads from a machine until it has sent everything, or with the code and the text of an
    /// error.
    async fn attempt(
        &self,
        incarnation: Wanted,
        at: &mut Place,
        to: &ToMerge,
    ) -> Result<Result<(), (Code, String)>, Gone> {
        let (machine, mut client, _permit) = match self.connect(incarnation.machine) {
            Ok(connected) => connected,
            Err(error) => return Ok(Err(error)),
        };
        let request = v1::ReadLogRequest {
            instance: Some(incarnation.instance.into()),
            stream: self.asked.stream,
            start: at.next().map(|from| v1::LogStart { from: Some(from) }),
            follow: self.asked.follow,
            until: self.asked.until,
            grep: self.asked.grep.clone(),
            previous: incarnation.previous,
        };
        let late = || {
            let text = format!(
                "its machine {} did not send its log within {} seconds: it does not answer, or there \
                 are too many readers",
                machine.name,
                PATIENCE.as_secs()
            );
            (Code::Aborted, text)
        };
        let begun = tokio::time::timeout(PATIENCE, client.read_log(request)).await;
        let mut chunks = match begun {
            Ok(Ok(response)) => response.into_inner(),
            Ok(Err(status)) => return Ok(Err(of_machine(&machine.name, &status))),
            Err(_) => return Ok(Err(late())),
        };
        let mut behind = true;
        loop {
            let chunk = tokio::select! {
                chunk = chunks.next() => chunk,
                () = tokio::time::sleep(PATIENCE), if behind => return Ok(Err(late())),
                () = to.pieces.closed() => return Err(Gone),
            };
            let view = self.core.view();
            if view.cell.machine(machine.id).map(revoked) != Some(machine.revoked) {
                let text = "its machine was revoked: nothing more of it is shown".to_owned();
                return Ok(Err((Code::FailedPrecondition, text)));
            }
            drop(view);
            match chunk {
                None => return Ok(Ok(())),
                Some(Ok(chunk)) if chunk.caught_up => {
                    behind = false;
                    to.caught_up().await?;
                }
                Some(Ok(mut chunk)) => {
                    at.reached(&chunk);
                    chunk.version = incarnation.version.map_or(0, |version| version.0);
                    to.send(chunk).await?;
                }
                Some(Err(status)) => return Ok(Err(of_machine(&machine.name, &status))),
            }
        }
    }

    /// A connection to a machine, and a place among the readers of its logs.
    #[expect(clippy::type_complexity, reason = "used in one place, where it is taken apart")]
    fn connect(
        &self,
        machine: MachineId,
    ) -> Result<
        (
            There,
            rpc::service::borglet_client::BorgletClient<rpc::transport::Link>,
            Permit<(MachineId, UserName)>,
        ),
        (Code, String),
    > {
        let view = self.core.view();
        let Some(known) = view.cell.machine(machine) else {
            let text = "its machine is not in the cell any more".to_owned();
            return Err((Code::NotFound, text));
        };
        let permit = self.there.acquire((machine, self.user.clone())).map_err(|_| {
            let text = format!(
                "{} may read {LOG_READERS_OF_ONE_THERE} logs of one machine at once: ask for fewer \
                 tasks, or end others",
                self.user
            );
            (Code::ResourceExhausted, text)
        })?;
        let client = self.agents.client_for_logs(known);
        let client = client.map_err(|error| (Code::Aborted, error.to_string()))?;
        let there = There { id: machine, name: known.name.to_string(), revoked: revoked(known) };
        Ok((there, client, permit))
    }
}

/// The machine of a log.
struct There {
    id: MachineId,
    name: String,
    revoked: Option<Time>,
}

/// Where a log is to be read next.
struct Place {
    start: Option<From>,
    positions: Option<v1::LogPositions>,
}

impl Place {
    fn next(&self) -> Option<From> {
        self.positions.map(From::Positions).or(self.start)
    }

    fn reached(&mut self, chunk: &v1::LogChunk) {
        let positions = self.positions.get_or_insert_default();
        let position = match chunk.stream() {
            v1::LogStream::Stderr => &mut positions.stderr,
            _ => &mut positions.stdout,
        };
        *position = (*position).max(chunk.position);
    }
}

/// What a machine's error means to a reader. The codes differ from those of the master's own.
fn of_machine(machine: &str, status: &Status) -> (Code, String) {
    match status.code() {
        Code::NotFound => (Code::NotFound, format!("on machine {machine}: {}", status.message())),
        Code::InvalidArgument => (Code::InvalidArgument, status.message().to_owned()),
        _ => (Code::Aborted, format!("machine {machine}: {}", rpc::transport::explain(status))),
    }
}

/// The logs that could not be read, after all that could: the first of them, and how many more.
fn explain(job: &str, mut failed: Vec<NotRead>) -> Option<Status> {
    // A failure is said before a log that is not kept.
    failed.sort_by_key(|failed| (failed.code == Code::NotFound, failed.task));
    let [NotRead { task, code, why }, more @ ..] = failed.as_slice() else { return None };
    let more = match more.len() {
        0 => String::new(),
        1 => " and another one of its tasks".to_owned(),
        count => format!(" and {count} more of its tasks"),
    };
    Some(match code {
        Code::InvalidArgument => Status::invalid_argument(why.clone()),
        Code::NotFound => Status::not_found(format!(
            "the logs of {job}/{task}{more} are not kept any more: {why}"
        )),
        code => Status::new(*code, format!("the logs of {job}/{task}{more} cannot be read: {why}")),
    })
}
