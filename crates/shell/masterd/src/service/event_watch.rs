//! Serving the stored events: from a position or a time on, filtered, and as they occur.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::time::Duration;

use api::event::StoredNames;
use api::v1;
use api::v1::events_request::From;
use api::v1::moment::At;
use cell::Subject;
use model::{LabelQuery, TaskSelection, UserName};
use prost::Message as _;
use store::events::{Cursor, Limit, Reader};
use tokio::sync::mpsc::error::SendTimeoutError;
use tokio::sync::{mpsc, watch};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Response, Status};

use crate::caller::Caller;
use crate::handle::Core;
use crate::reads::{Reads, job_has, labels, selection, task_has};
use crate::service::event_digests::{self as digests, Digest, Digests, Name};
use crate::service::history::History;
use crate::service::holding::holding;
use crate::service::{Answer, Streamed};
use crate::streams::{StreamHolder, Streams};

/// How many events are read at once, and how many bytes of them.
const AT_ONCE: Limit = Limit { events: 1_000, bytes: 1 << 20 };
/// The most events that can be requested as the newest.
const LAST_MAX: u32 = 100_000;
/// The maximum number of followers of events, shared by users.
const FOLLOWERS_MAX: usize = 256;
/// The maximum number of single reads of events, shared by users: the newest of many events are all in
/// memory.
const READERS_MAX: usize = 64;
/// The maximum number of messages that wait for a slow reader.
const QUEUE: usize = 4;
/// The time after which a stalled reader is dropped.
pub(crate) const STALLED: Duration = Duration::from_secs(30);

/// The stored events, and a way to learn of new ones.
#[derive(Clone)]
pub(crate) struct EventSource {
    directory: PathBuf,
    more: watch::Receiver<u64>,
    followers: Streams,
    readers: Streams,
    digests: Digests,
}

impl EventSource {
    /// The limits on those who follow events.
    pub(crate) fn followers(&self) -> &Streams {
        &self.followers
    }

    /// The limits on those who read events once.
    pub(crate) fn readers(&self) -> &Streams {
        &self.readers
    }

    pub(crate) fn new(directory: &Path, more: watch::Receiver<u64>) -> Self {
        let followers = Streams::new("follow-the-events", FOLLOWERS_MAX);
        let readers = Streams::new("read-events", READERS_MAX);
        let digests = Digests::default();
        Self { directory: directory.to_owned(), more, followers, readers, digests }
    }

    /// A reader of the stored events.
    pub(super) fn reader(&self) -> Reader {
        Reader::open(&self.directory)
    }

    /// A counter that increases whenever there is more to read.
    pub(super) fn more(&self) -> watch::Receiver<u64> {
        self.more.clone()
    }
}

/// A client's filter.
struct Wanted {
    job: Option<(UserName, model::JobName)>,
    tasks: TaskSelection,
    machine: Option<String>,
    labels: LabelQuery,
    until: Option<At>,
    /// The error if nothing is found: no such job is known. A forgotten job may still have events.
    unknown: Option<Status>,
}

impl Wanted {
    fn of(asked: &v1::EventsRequest, by: &Caller, core: &Core) -> Result<Self, Status> {
        let view = core.view();
        let reads = Reads::of(&view, by);
        let mut unknown = None;
        let mut named = |job: &v1::JobAddress| -> Result<_, Status> {
            match reads.find(job) {
                Ok(job) => return Ok((job.owner.clone(), job.spec.name.clone())),
                Err(status) if status.code() == Code::NotFound => unknown = Some(status),
                Err(status) => return Err(status),
            }
            let bad = |error: model::NameError| Status::invalid_argument(error.to_string());
            let user =
                if job.user.is_empty() { Ok(by.user.clone()) } else { UserName::new(&job.user) };
            Ok((user.map_err(bad)?, model::JobName::new(&job.job).map_err(bad)?))
        };
        let machine = (!asked.machine.is_empty()).then_some(asked.machine.as_str());
        Ok(Self {
            job: asked.job.as_ref().map(&mut named).transpose()?,
            tasks: selection(asked.tasks.clone())?,
            // A removed machine may still have events.
            machine: machine.map(str::to_owned),
            labels: labels(&asked.labels)?,
            until: asked.until.and_then(|moment| moment.at),
            unknown,
        })
    }

    /// Whether nothing from this event on is wanted.
    fn is_past(&self, record: &v1::EventRecord) -> bool {
        match self.until {
            None => false,
            Some(At::Index(index)) => record.index > index,
            Some(At::Time(time)) => record.time > time,
        }
    }

    /// The names that a wanted event has.
    fn names(&self) -> Vec<Name> {
        let job = self.job.as_ref();
        let job =
            job.map(|(user, job)| Name::of_job(user.as_str().as_bytes(), job.as_str().as_bytes()));
        let machine = self.machine.as_ref().map(|name| Name::of_machine(name.as_bytes()));
        job.into_iter().chain(machine).collect()
    }

    /// Whether an event may be wanted, by the names in it.
    fn may_want(&self, payload: &[u8]) -> bool {
        // What cannot be read is said elsewhere, and where the end is, a whole event tells.
        let Some(names) = StoredNames::find(payload).filter(|_| self.until.is_none()) else {
            return true;
        };
        let job = self.job.as_ref().is_none_or(|(user, job)| {
            names.user == user.as_str().as_bytes() && names.job == job.as_str().as_bytes()
        });
        job && self.machine.as_ref().is_none_or(|wanted| names.machine == wanted.as_bytes())
    }

    fn wants(&self, record: &v1::EventRecord, core: &Core) -> bool {
        let subject = || Subject::try_from(record.subject?).ok();
        let job = self
            .job
            .as_ref()
            .is_none_or(|(user, job)| record.user == user.as_str() && record.job == job.as_str());
        let task = match &self.tasks {
            TaskSelection::All => true,
            tasks => matches!(subject(), Some(Subject::Task(id)) if tasks.contains(id.index)),
        };
        let machine = self.machine.as_ref().is_none_or(|wanted| record.machine == *wanted);
        let labels = || subject().is_some_and(|subject| self.has_labels(subject, core));
        job && task && machine && (self.labels.is_empty() || labels())
    }

    /// Whether the event's subject has the labels now.
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

impl History {
    pub(super) fn follow(
        &self,
        by: &Caller,
        asked: &v1::EventsRequest,
    ) -> Answer<Streamed<v1::EventsResponse>> {
        let wanted = Wanted::of(asked, by, &self.door.core)?;
        let EventSource { followers, readers, .. } = &self.events;
        let holder = StreamHolder { user: &by.user, asker: by.asker(&self.door.core.view().cell) };
        let place = if asked.follow { followers } else { readers }.begin(holder)?;
        // One more, for the final status.
        let (to_client, stream) = mpsc::channel(QUEUE + 1);
        let no_room = |_| Status::internal("a queue that is new has no room: report this");
        let end = to_client.clone().try_reserve_owned().map_err(no_room)?;
        let reader = Reader::open(&self.events.directory);
        let digests = self.events.digests.clone();
        let reading = Reading { core: self.door.core.clone(), reader, wanted, digests, since: 0 };
        let sending = Sending { reading: Some(reading), told: None, to_client };
        let (from, follow, more) = (asked.from, asked.follow, self.events.more.clone());
        tokio::spawn(async move {
            if let Err(StreamEnd::Told(status)) = sending.run(from, follow, more).await {
                end.send(Err(status));
            }
        });
        Ok(Response::new(holding(place, ReceiverStream::new(stream))))
    }
}

/// Why a stream ends.
enum StreamEnd {
    /// The client is gone.
    Gone,
    /// The client gets this status.
    Told(Status),
}

impl std::convert::From<Status> for StreamEnd {
    fn from(status: Status) -> Self {
        Self::Told(status)
    }
}

struct Sending {
    /// `None` while a thread reads.
    reading: Option<Reading>,
    /// Where the client continues, as far as it knows.
    told: Option<Cursor>,
    to_client: mpsc::Sender<Result<v1::EventsResponse, Status>>,
}

impl Sending {
    async fn run(
        mut self,
        from: Option<From>,
        follow: bool,
        mut more: watch::Receiver<u64>,
    ) -> Result<(), StreamEnd> {
        let mut at = match from {
            Some(From::Last(count)) => self.newest(count.min(LAST_MAX)).await?,
            from => self.read(move |reading| reading.begin(from)).await?,
        };
        loop {
            more.mark_unchanged();
            let past;
            (at, past) = self.rest(at).await?;
            if past || !follow {
                let reading = self.reading.as_mut();
                if let Some(unknown) = reading.and_then(|reading| reading.wanted.unknown.take()) {
                    return Err(StreamEnd::Told(unknown));
                }
                // It need not look at the events again of which it wants none.
                if self.told != Some(at) {
                    self.send(None, Vec::new(), at).await?;
                }
                return Ok(());
            }
            tokio::select! {
                changed = more.changed() => changed.map_err(|_| StreamEnd::Gone)?,
                () = self.to_client.closed() => return Err(StreamEnd::Gone),
            }
        }
    }

    /// Reads files, which blocks: briefly, and on a thread for blocking work.
    async fn read<T: Send + 'static>(
        &mut self,
        what: impl FnOnce(&mut Reading) -> Result<T, Status> + Send + 'static,
    ) -> Result<T, StreamEnd> {
        if self.to_client.is_closed() {
            return Err(StreamEnd::Gone);
        }
        // It is missing only after a panic, or when the master stops.
        let mut reading = self.reading.take().ok_or(StreamEnd::Gone)?;
        let read = tokio::task::spawn_blocking(move || {
            let found = what(&mut reading);
            (reading, found)
        });
        let (reading, found) = read.await.map_err(|_| StreamEnd::Gone)?;
        self.reading = Some(reading);
        Ok(found?)
    }

    /// Sends the newest matching events, and returns where to continue.
    async fn newest(&mut self, count: u32) -> Result<Cursor, StreamEnd> {
        let most = usize::try_from(count).unwrap_or(usize::MAX);
        let mut found: VecDeque<Item> = VecDeque::new();
        let (mut end, mut begin, mut below) = (None, None, None);
        loop {
            let wanted = most.saturating_sub(found.len());
            let read = self.read(move |reading| reading.older(below, wanted)).await?;
            let Some(EventPartition { number, mut items, next, is_empty }) = read else { break };
            // Events are stored a little later than their operations are applied: where there are none yet,
            // the end is before that.
            match is_empty {
                false => _ = end.get_or_insert(next),
                true => _ = begin.get_or_insert(next),
            }
            // A gap may reach over the border between two parts.
            if let (Some(Item::Gap(older)), Some(Item::Gap(newer))) = (items.back(), found.front())
                && newer.from <= older.until
            {
                found.pop_front();
            }
            items.append(&mut found);
            found = items;
            if found.len() >= most {
                break;
            }
            below = Some(number);
        }
        let end = end.or(begin).unwrap_or(Cursor::START);
        self.send_all(found.into(), end).await?;
        Ok(end)
    }

    /// Sends everything from a position on, and returns where to continue, and whether no later
    /// event is wanted.
    async fn rest(&mut self, mut at: Cursor) -> Result<(Cursor, bool), StreamEnd> {
        loop {
            let Batch { events, next, past, gap } =
                self.read(move |reading| reading.batch(at, None, None)).await?;
            if !events.is_empty() || gap.is_some() {
                self.send(gap, events, next).await?;
            }
            if next == at || past {
                return Ok((next, past));
            }
            at = next;
        }
    }

    /// Sends any number of events and gaps, in messages of bounded size.
    async fn send_all(&mut self, items: Vec<Item>, next: Cursor) -> Result<(), StreamEnd> {
        let (mut gap, mut some, mut bytes) = (None, Vec::new(), 0);
        for item in items {
            let is_full = some.len() >= AT_ONCE.events || bytes >= AT_ONCE.bytes;
            let is_gap = matches!(item, Item::Gap(_));
            if is_full || (is_gap && (gap.is_some() || !some.is_empty())) {
                self.send(gap.take(), std::mem::take(&mut some), item.begin()).await?;
                bytes = 0;
            }
            match item {
                Item::Gap(found) => gap = Some(found),
                Item::Event(event) => {
                    bytes += event.encoded_len();
                    some.push(*event);
                }
            }
        }
        self.send(gap, some, next).await
    }

    async fn send(
        &mut self,
        gap: Option<Gap>,
        events: Vec<v1::EventRecord>,
        next: Cursor,
    ) -> Result<(), StreamEnd> {
        if let (false, Some(reading)) = (events.is_empty(), &mut self.reading) {
            reading.wanted.unknown = None;
        }
        self.told = Some(next);
        let message =
            v1::EventsResponse { events, next: Some(place(next)), gap: gap.map(Into::into) };
        match self.to_client.send_timeout(Ok(message), STALLED).await {
            Ok(()) => Ok(()),
            Err(SendTimeoutError::Closed(_)) => Err(StreamEnd::Gone),
            Err(SendTimeoutError::Timeout(_)) => {
                Err(StreamEnd::Told(Status::deadline_exceeded(format!(
                    "the reader read nothing for {} seconds: continue after the last event received \
                 (--from)",
                    STALLED.as_secs()
                ))))
            }
        }
    }
}

/// The reader of the files.
struct Reading {
    core: Core,
    reader: Reader,
    wanted: Wanted,
    digests: Digests,
    /// The earliest wanted time.
    since: u64,
}

impl Reading {
    /// The starting position.
    fn begin(&mut self, from: Option<From>) -> Result<Cursor, Status> {
        match from {
            Some(From::Cursor(cursor)) => Ok(Cursor { index: cursor.index, sub: cursor.sub_index }),
            Some(From::Since(time)) => self.since(time),
            None | Some(From::Last(_)) => self.oldest(),
        }
    }

    /// A position before which everything is older than a time.
    fn since(&mut self, time: u64) -> Result<Cursor, Status> {
        self.since = time;
        match self.reader.first_at(time) {
            Ok(Some(cursor)) => return Ok(cursor),
            // The events before those that are left are a gap.
            Err(store::Error::EventsTooLate { .. }) => return Ok(Cursor::START),
            Ok(None) => {}
            Err(error) => return Err(lost(&error)),
        }
        // Nothing stored is that new. Newer operations may be applied and not stored yet: the last
        // stored event is certainly not after the wanted position.
        let mut back = 1_000_000;
        while back < time {
            match self.reader.first_at(time - back) {
                Ok(Some(cursor)) => return Ok(cursor),
                Ok(None) => back = back.saturating_mul(4),
                Err(store::Error::EventsTooLate { oldest }) => return Ok(oldest),
                Err(error) => return Err(lost(&error)),
            }
        }
        self.oldest()
    }

    fn oldest(&self) -> Result<Cursor, Status> {
        let oldest = self.reader.oldest().map_err(|error| lost(&error))?;
        Ok(oldest.unwrap_or(Cursor::START))
    }

    /// The newest operation of which an event may be wanted.
    fn newest(&self) -> u64 {
        let newest = self.core.view().cell.index().0;
        let until = match self.wanted.until {
            None => None,
            Some(At::Index(index)) => Some(index),
            Some(At::Time(time)) => {
                let first = self.reader.first_at(time.saturating_add(1));
                // Otherwise all are earlier, or are read until one is not.
                first.ok().flatten().map(|after| after.index)
            }
        };
        until.map_or(newest, |until| until.min(newest))
    }

    /// The newest part of the events, or the next older one that may have wanted events, with the newest of
    /// those, at most so many. `None` if there is no such part.
    fn older(&mut self, below: Option<u64>, most: usize) -> Result<Option<EventPartition>, Status> {
        let oldest = self.oldest()?;
        let number = match below {
            None => Some(digests::part_of(self.newest()).max(digests::part_of(oldest.index))),
            Some(below) => {
                let parts = digests::part_of(oldest.index)..below;
                self.digests.newest(parts, &self.wanted.names())
            }
        };
        let Some(number) = number else { return Ok(None) };
        let begin = Cursor::at(digests::first_of(number));
        // The newest part has no end yet.
        let before = below.map(|_| Cursor::at(digests::first_of(number + 1)));
        let mut digest = (before.is_some() && oldest <= begin).then(Digest::default);
        let mut items = VecDeque::new();
        let mut at = begin.max(oldest);
        loop {
            let Batch { events, next, past, gap } = self.batch(at, before, digest.as_mut())?;
            items.extend(gap.map(Item::Gap));
            items.extend(events.into_iter().map(|event| Item::Event(Box::new(event))));
            items.drain(..items.len().saturating_sub(most));
            let is_last = next == at || past;
            at = next;
            let is_whole = before.is_some_and(|before| at >= before);
            if is_whole && let Some(digest) = digest.take() {
                self.digests.keep(number, digest);
            }
            if is_last || is_whole {
                let is_empty = at == begin.max(oldest);
                return Ok(Some(EventPartition { number, items, next: at, is_empty }));
            }
        }
    }

    /// The wanted events among the next stored ones, up to another position; all up to there are added to
    /// the digest.
    fn batch(
        &mut self,
        at: Cursor,
        before: Option<Cursor>,
        mut digest: Option<&mut Digest>,
    ) -> Result<Batch, Status> {
        let Self { core, reader, wanted, since, .. } = self;
        let (mut events, mut past) = (Vec::new(), false);
        let next = reader.read(at, AT_ONCE, |event| {
            let cursor = Cursor { index: event.index, sub: event.sub };
            if event.time_us < *since || before.is_some_and(|before| cursor >= before) {
                return Ok(());
            }
            if let Some(digest) = &mut digest {
                digest.add(event.payload);
            }
            if !wanted.may_want(event.payload) {
                return Ok(());
            }
            // An event of a kind that only a newer master knows is shown without its kind.
            match v1::EventRecord::decode(event.payload) {
                Ok(record) if wanted.is_past(&record) => past = true,
                Ok(record) if wanted.wants(&record, core) => events.push(record),
                Ok(_) => {}
                Err(error) => tracing::warn!("event {cursor} cannot be read: {error}"),
            }
            Ok::<(), store::Error>(())
        });
        match next {
            Ok(next) => Ok(Batch { events, next, past, gap: None }),
            // Nothing was read: what was before it came with an earlier call.
            Err(error) => match error.goes_on().filter(|until| *until > at) {
                Some(until) => {
                    let gap = Some(Gap { from: at, until });
                    Ok(Batch { events, next: until, past, gap })
                }
                None => Err(lost(&error)),
            },
        }
    }
}

/// The wanted events of a part of all events.
struct EventPartition {
    number: u64,
    items: VecDeque<Item>,
    /// Behind what was read.
    next: Cursor,
    /// Nothing was read: nothing of it is stored yet.
    is_empty: bool,
}

struct Batch {
    events: Vec<v1::EventRecord>,
    next: Cursor,
    past: bool,
    /// What is missing; there are no events then.
    gap: Option<Gap>,
}

/// Events that are not stored here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Gap {
    from: Cursor,
    until: Cursor,
}

/// What a reader is shown.
enum Item {
    Event(Box<v1::EventRecord>),
    Gap(Gap),
}

impl Item {
    /// The position of the event, or of the first one that is missing.
    fn begin(&self) -> Cursor {
        match self {
            Self::Event(event) => Cursor { index: event.index, sub: event.sub_index },
            Self::Gap(gap) => gap.from,
        }
    }
}

fn place(cursor: Cursor) -> v1::EventCursor {
    v1::EventCursor { index: cursor.index, sub_index: cursor.sub }
}

impl std::convert::From<Gap> for v1::EventGap {
    fn from(gap: Gap) -> Self {
        Self { from: Some(place(gap.from)), until: Some(place(gap.until)) }
    }
}

/// The error for events that cannot be read.
fn lost(error: &store::Error) -> Status {
    Status::data_loss(error.to_string())
}

#[cfg(test)]
mod tests;
