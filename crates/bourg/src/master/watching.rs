//! Serving the kept events: from a place or a time on, filtered, and as they come.

use std::path::{Path, PathBuf};

use cell::Subject;
use model::{LabelQuery, LogIndex, TaskSelection, UserName};
use proto::event::Record;
use proto::v1;
use proto::v1::events_request::From;
use proto::v1::moment::At;
use store::events::{Cursor, Limit, Reader};
use tokio::sync::{mpsc, watch};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Response, Status};

use super::core::Core;
use super::reads::{Reads, job_has, labels, selection, task_has};
use super::service::{Answer, STREAM_QUEUE, Service, Streamed};

/// How many events are read at once, and how many bytes of them.
const AT_ONCE: Limit = Limit { events: 1_000, bytes: 1 << 20 };
/// How many operations back the newest events are looked for at first.
const BACK: u64 = 1_000;
/// The most events that can be asked for as the newest.
const LAST_MAX: u32 = 100_000;

/// Where the events are, and how to see that there are more.
#[derive(Clone)]
pub(super) struct Kept {
    directory: PathBuf,
    more: watch::Receiver<u64>,
}

impl Kept {
    pub(super) fn new(directory: &Path, more: watch::Receiver<u64>) -> Self {
        Self { directory: directory.to_owned(), more }
    }
}

/// What somebody wants to see.
struct Wanted {
    job: Option<(UserName, model::JobName)>,
    tasks: TaskSelection,
    machine: Option<String>,
    labels: LabelQuery,
    until: Option<At>,
    /// What to say where nothing is found: no such job is known. One that has been forgotten has its
    /// events still.
    unknown: Option<Status>,
}

impl Wanted {
    fn of(asked: &v1::EventsRequest, me: &UserName, core: &Core) -> Result<Self, Status> {
        let view = core.view();
        let reads = Reads { cell: &view.cell, now: view.now(), me };
        let mut unknown = None;
        let mut named = |job: &v1::JobAddress| -> Result<_, Status> {
            match reads.find(job) {
                Ok(job) => return Ok((job.owner.clone(), job.spec.name.clone())),
                Err(status) if status.code() == Code::NotFound => unknown = Some(status),
                Err(status) => return Err(status),
            }
            let bad = |error: model::NameError| Status::invalid_argument(error.to_string());
            let user = if job.user.is_empty() { Ok(me.clone()) } else { UserName::new(&job.user) };
            Ok((user.map_err(bad)?, model::JobName::new(&job.job).map_err(bad)?))
        };
        let machine = (!asked.machine.is_empty()).then_some(asked.machine.as_str());
        Ok(Self {
            job: asked.job.as_ref().map(&mut named).transpose()?,
            tasks: selection(asked.tasks.clone())?,
            // One that was removed has its events still.
            machine: machine.map(str::to_owned),
            labels: labels(&asked.labels)?,
            until: asked.until.and_then(|moment| moment.at),
            unknown,
        })
    }

    /// Whether nothing of what comes from here on is wanted.
    fn is_past(&self, record: &Record) -> bool {
        match self.until {
            None => false,
            Some(At::Index(index)) => record.index.0 > index,
            Some(At::Time(time)) => record.at.0 > time,
        }
    }

    fn wants(&self, record: &Record, core: &Core) -> bool {
        let Record { event, names, .. } = record;
        let job = self.job.as_ref().is_none_or(|(user, job)| {
            names.user.as_ref() == Some(user) && names.job.as_ref() == Some(job)
        });
        let task = match (&self.tasks, event.subject) {
            (TaskSelection::All, _) => true,
            (tasks, Subject::Task(id)) => tasks.contains(id.index),
            _ => false,
        };
        let machine = self.machine.as_ref().is_none_or(|wanted| {
            names.machine.as_ref().is_some_and(|name| name.as_str() == wanted)
        });
        job && task && machine && (self.labels.is_empty() || self.has_labels(event.subject, core))
    }

    /// Whether that to which it happened has the labels now.
    fn has_labels(&self, subject: Subject, core: &Core) -> bool {
        let view = core.view();
        match subject {
            Subject::Cell => false,
            Subject::Job(id) => view.cell.job(id).is_some_and(|job| job_has(job, &self.labels)),
            Subject::Task(id) => view
                .cell
                .job(id.collection)
                .is_some_and(|job| task_has(job, id.index, &self.labels)),
            Subject::Machine(id) => view
                .cell
                .machine(id)
                .is_some_and(|machine| self.labels.holds(|key| machine.attribute(key))),
        }
    }
}

impl Service {
    pub(super) fn follow_events(
        &self,
        me: &UserName,
        asked: &v1::EventsRequest,
    ) -> Answer<Streamed<v1::EventsResponse>> {
        let wanted = Wanted::of(asked, me, &self.core)?;
        let (to_client, stream) = mpsc::channel(STREAM_QUEUE);
        let sending = Sending {
            core: self.core.clone(),
            reader: Reader::open(&self.events.directory),
            wanted,
            to_client,
        };
        let (from, follow, more) = (asked.from, asked.follow, self.events.more.clone());
        // Reading files blocks.
        tokio::task::spawn_blocking(move || sending.run(from, follow, more));
        Ok(Response::new(Box::pin(ReceiverStream::new(stream))))
    }
}

struct Sending {
    core: Core,
    reader: Reader,
    wanted: Wanted,
    to_client: mpsc::Sender<Result<v1::EventsResponse, Status>>,
}

/// The client is gone.
struct Gone;

impl Sending {
    fn run(mut self, from: Option<From>, follow: bool, mut more: watch::Receiver<u64>) {
        let runtime = tokio::runtime::Handle::current();
        let begun = self.begin(from);
        let mut at = match begun {
            Ok(Ok(at)) => at,
            Ok(Err(status)) => return drop(self.to_client.blocking_send(Err(status))),
            Err(Gone) => return,
        };
        loop {
            more.mark_unchanged();
            match self.rest(at) {
                Ok(Ok((next, past))) => {
                    at = next;
                    if past || !follow {
                        if let Some(unknown) = self.wanted.unknown.take() {
                            drop(self.to_client.blocking_send(Err(unknown)));
                        }
                        return;
                    }
                }
                Ok(Err(status)) => return drop(self.to_client.blocking_send(Err(status))),
                Err(Gone) => return,
            }
            let goes_on = runtime.block_on(async {
                tokio::select! {
                    changed = more.changed() => changed.is_ok(),
                    () = self.to_client.closed() => false,
                }
            });
            if !goes_on {
                return;
            }
        }
    }

    /// Where to begin; the newest so many are sent at once.
    fn begin(&mut self, from: Option<From>) -> Result<Result<Cursor, Status>, Gone> {
        Ok(match from {
            None => match self.reader.oldest() {
                Ok(oldest) => Ok(oldest.unwrap_or(Cursor::START)),
                Err(error) => Err(lost(&error)),
            },
            Some(From::Cursor(cursor)) => Ok(Cursor { index: cursor.index, sub: cursor.sub_index }),
            Some(From::Since(time)) => match self.reader.first_at(time) {
                Ok(Some(cursor)) => Ok(cursor),
                // Nothing is that new: what comes next is.
                Ok(None) => Ok(Cursor::at(self.core.view().cell.index().0.saturating_add(1))),
                Err(error) => Err(lost(&error)),
            },
            Some(From::Last(count)) => return self.newest(count.min(LAST_MAX)),
        })
    }

    /// Sends the newest so many that are wanted, and gives where to go on.
    fn newest(&mut self, count: u32) -> Result<Result<Cursor, Status>, Gone> {
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        let oldest = match self.reader.oldest() {
            Ok(oldest) => oldest.unwrap_or(Cursor::START),
            Err(error) => return Ok(Err(lost(&error))),
        };
        let newest = self.core.view().cell.index();
        let mut back = BACK;
        loop {
            let from = Cursor::at(newest.0.saturating_sub(back)).max(oldest);
            let mut found = std::collections::VecDeque::new();
            let mut at = from;
            loop {
                let batch = match self.batch(at) {
                    Ok(batch) => batch,
                    Err(status) => return Ok(Err(status)),
                };
                found.extend(batch.events);
                let surplus = found.len().saturating_sub(count);
                found.drain(..surplus);
                if batch.next == at || batch.past {
                    break;
                }
                at = batch.next;
            }
            if found.len() >= count || from == oldest {
                self.send(found.into(), at)?;
                return Ok(Ok(at));
            }
            back = back.saturating_mul(4);
        }
    }

    /// Sends all there is from a place on, and gives where to go on, and whether nothing that comes
    /// is wanted.
    fn rest(&mut self, mut at: Cursor) -> Result<Result<(Cursor, bool), Status>, Gone> {
        loop {
            let batch = match self.batch(at) {
                Ok(batch) => batch,
                Err(status) => return Ok(Err(status)),
            };
            if !batch.events.is_empty() {
                self.send(batch.events, batch.next)?;
            }
            if batch.next == at || batch.past {
                return Ok(Ok((batch.next, batch.past)));
            }
            if self.to_client.is_closed() {
                return Err(Gone);
            }
            at = batch.next;
        }
    }

    fn batch(&mut self, at: Cursor) -> Result<Batch, Status> {
        let (wanted, core) = (&self.wanted, &self.core);
        let (mut events, mut past) = (Vec::new(), false);
        let read = self.reader.read(at, AT_ONCE, |event| {
            match proto::event::decode(event.payload) {
                Ok(record) if wanted.is_past(&record) => past = true,
                Ok(record) if wanted.wants(&record, core) => events.push((&record).into()),
                Ok(_) => {}
                Err(error) => return Err(Unread::Malformed(LogIndex(event.index), error)),
            }
            Ok(())
        });
        match read {
            Ok(next) => Ok(Batch { events, next, past }),
            Err(Unread::Store(error)) => Err(lost(&error)),
            Err(Unread::Malformed(index, error)) => Err(Status::data_loss(format!(
                "an event of operation {index} cannot be read: {error}"
            ))),
        }
    }

    fn send(&mut self, events: Vec<v1::EventRecord>, next: Cursor) -> Result<(), Gone> {
        if !events.is_empty() {
            self.wanted.unknown = None;
        }
        let next = Some(v1::EventCursor { index: next.index, sub_index: next.sub });
        let message = v1::EventsResponse { events, next };
        self.to_client.blocking_send(Ok(message)).map_err(|_| Gone)
    }
}

struct Batch {
    events: Vec<v1::EventRecord>,
    next: Cursor,
    past: bool,
}

enum Unread {
    Store(store::Error),
    Malformed(LogIndex, proto::Malformed),
}

impl std::convert::From<store::Error> for Unread {
    fn from(error: store::Error) -> Self {
        Self::Store(error)
    }
}

/// What a reader is told whose place is not there, or no longer.
fn lost(error: &store::Error) -> Status {
    match error {
        store::Error::EventsTooLate { oldest } => Status::out_of_range(format!(
            "the events before {oldest} have been removed: ask for those from {oldest} on (--from {oldest})"
        )),
        store::Error::EventsLost { from, complete_from } => Status::out_of_range(format!(
            "the events from {from} on were lost; they are complete again from {complete_from} on \
             (--from {complete_from})"
        )),
        error => Status::data_loss(error.to_string()),
    }
}
