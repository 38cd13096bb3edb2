//! The core: one thread that takes every step of the replica. All waiting messages are drained
//! before a step, so that they become durable together; after it, a view of the cell is published.

mod batcher;
mod leadership;
mod rescheduling;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use cell::Rescheduling;
use checkpoint::Origin;
use model::{ReplicaId, RestoreEpoch, Term};
use process::clock::Clock;
use process::renewal;
use replica::{Bootstrap, Input, LogEntry, Output, Recovered, Replica, Settings, Ticket};
use tokio::sync::{mpsc, oneshot, watch};

use self::batcher::Batcher;
use self::leadership::LeadershipHistory;
use crate::admission::Admission;
use crate::disk::checkpointer::Checkpoints;
use crate::disk::events::Recorder;
use crate::disk::log::{LogTask, ToLog};
use crate::handle::Core;
use crate::identity::Dismissed;
use crate::message::{Answered, Following, Message, PendingCall, Written};
use crate::metrics::Metrics;
use crate::records::CountedRecords;
use crate::request::Request;
use crate::threads::Component;
use crate::view::View;
use crate::{agents, peers};

/// The maximum number of records that wait for a follower. One that lags further goes on with those that
/// consensus has in memory.
const FOLLOWER_QUEUE: usize = 1_024;
/// The maximum age of a view whose only outdated part is the other replicas' progress.
const VIEW_AGE: Duration = Duration::from_millis(50);
/// The maximum number of messages in a step.
const STEP_MAX: usize = 4_096;

pub(crate) struct Components {
    pub(crate) settings: Settings,
    pub(crate) recovered: Recovered,
    pub(crate) bootstrap: Option<Bootstrap>,
    pub(crate) from_all: mpsc::Receiver<Message>,
    pub(crate) to_core: mpsc::Sender<Message>,
    pub(crate) to_log: ToLog,
    pub(crate) agents: agents::Handle,
    pub(crate) peers: peers::Handle,
    pub(crate) checkpoints: Checkpoints,
    pub(super) recorder: Recorder,
    pub(crate) admission: Arc<Admission>,
    pub(crate) metrics: Arc<Metrics>,
}

/// This replica's own read, which tells when it has caught up.
const OWN_READ: Ticket = Ticket(0);

struct Thread {
    clock: Clock,
    replica: Replica<CountedRecords>,
    from_all: mpsc::Receiver<Message>,
    to_log: ToLog,
    agents: agents::Handle,
    peers: peers::Handle,
    checkpoints: Checkpoints,
    recorder: Recorder,
    waiting: HashMap<Ticket, PendingCall>,
    reading: HashMap<Ticket, oneshot::Sender<()>>,
    /// Reads that the next view can serve.
    readable: Vec<Ticket>,
    /// The answers of a step. They are sent after its view is published: a client that has an
    /// answer finds the result in the view.
    answers: Vec<(Ticket, Answered)>,
    last_ticket: u64,
    batcher: Batcher,
    followers: Vec<mpsc::Sender<LogEntry>>,
    me: ReplicaId,
    leader: Option<ReplicaId>,
    term: Term,
    leads: Option<Term>,
    standing: LeadershipHistory,
    caught_up: bool,
    origin: Origin,
    violations: u64,
    view: watch::Sender<Arc<View>>,
    published: Instant,
    metrics: Arc<Metrics>,
}

/// Starts the core's thread. Returns when the log has been read and applied up to what was known to
/// be committed.
pub(crate) fn start(parts: Components) -> anyhow::Result<Core> {
    let Components { settings, recovered, bootstrap, from_all, to_core, to_log, agents, .. } =
        parts;
    let Components { mut checkpoints, recorder, admission, metrics, peers, .. } = parts;
    let me = settings.id;
    let clock = Clock::start();
    let records = recovered.entries.len();
    if let Some((cell, _)) = &recovered.checkpoint {
        checkpoints.began_at(cell.index());
    }
    let term = recovered.checkpoint.as_ref().map_or(Term(0), |(_, term)| *term);
    let origin = Origin { term, restore_epoch: recovered.restore_epoch };
    let codec = CountedRecords {
        evictions: Arc::clone(&metrics.evictions),
        starts: metrics.starts.clone(),
    };
    let replica = Replica::new(settings, codec, clock.now(), recovered, bootstrap)?;
    tracing::info!("read {records} records after index {}", replica.cell().index());
    let cell = replica.cell().clone();
    let first = View::first(cell, origin, me, clock);
    let (view, views) = watch::channel(Arc::new(first));
    let (ended, has_ended) = watch::channel(None);
    let log = to_log.clone();
    let core = Core::new(to_core, views, has_ended, log, admission);
    let thread = Thread {
        clock,
        replica,
        from_all,
        to_log,
        agents,
        peers,
        checkpoints,
        recorder,
        waiting: HashMap::new(),
        reading: HashMap::new(),
        readable: Vec::new(),
        answers: Vec::new(),
        last_ticket: 0,
        batcher: Batcher::new(),
        followers: Vec::new(),
        me,
        leader: None,
        term: Term(0),
        leads: None,
        standing: LeadershipHistory::default(),
        caught_up: false,
        origin,
        violations: 0,
        view,
        published: Instant::now(),
        metrics: Arc::clone(&metrics),
    };
    let alive = metrics.threads.alive(Component::Core);
    let run = move || {
        let _alive = alive;
        if let Err(error) = run(thread) {
            tracing::error!("the master cannot continue: {error:#}");
            ended.send_replace(Some(Arc::new(error)));
        }
    };
    std::thread::Builder::new()
        .name("core".to_owned())
        .spawn(run)
        .context("cannot start the core's thread")?;
    Ok(core)
}

fn run(mut thread: Thread) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    let mut inputs = vec![Input::Read(OWN_READ)];
    let mut outputs = Vec::new();
    thread.know_peers();
    loop {
        let (now, begun) = (thread.clock.now(), Instant::now());
        thread.batcher.propose(begun, &mut inputs);
        let stepped = thread.replica.step(now, inputs.drain(..), &mut outputs);
        stepped.map_err(Dismissed::or)?;
        let changed = thread.is_to_be_seen(&outputs);
        thread.measure(&outputs);
        for output in outputs.drain(..) {
            thread.handle(output)?;
        }
        if let Some(note) = thread.replica.note() {
            // The next note is newer.
            let _later = thread.to_log.send(LogTask::Note(note));
        }
        // The clock of the previous leader was ahead of ours, or ours was set back while nobody
        // led: timers of that time must not wait until our clock reaches it.
        thread.clock.advance_to(thread.replica.cell().time());
        if changed {
            thread.publish();
        }
        thread.answer();
        thread.metrics.core.step.add(begun.elapsed());
        let due = thread.clock.instant(thread.replica.next_step());
        let due = thread.batcher.due().map_or(due, |at| due.min(at.into()));
        let waiting = thread.from_all.recv();
        let Ok(message) = runtime.block_on(async { tokio::time::timeout_at(due, waiting).await })
        else {
            continue;
        };
        let Some(message) = message else { return Ok(()) };
        let mut next = Some(message);
        while let Some(message) = next.take() {
            match message {
                Message::Stop => return Ok(()),
                Message::Fail(error) => return Err(error),
                Message::Superseded(by, why) => {
                    let (now, leader) = (Instant::now(), thread.leader);
                    thread.standing.superseded(now, by, &why, leader, &thread.metrics)?;
                }
                other => inputs.extend(thread.take_in(other)),
            }
            if inputs.len() + thread.batcher.waiting() < STEP_MAX {
                next = thread.from_all.try_recv().ok();
            }
        }
    }
}

impl Thread {
    fn take_in(&mut self, message: Message) -> Option<Input> {
        match message {
            Message::Input(input) => Some(input),
            Message::Request(ask, asker) => {
                self.last_ticket += 1;
                let ticket = Ticket(self.last_ticket);
                self.waiting.insert(ticket, asker);
                let ask = match ask {
                    Request::OpenSession(by) => Input::OpenSession(ticket, by.user),
                    Request::Mutate(id, by, mutation) => {
                        Input::Request(ticket, id, by.user, mutation)
                    }
                    Request::Enrolment(op) => Input::Enrolment(ticket, op),
                    Request::Enable(by, enabled) => Input::Enable(ticket, by, enabled),
                    Request::Propose(by, assignments, began) => {
                        Input::Propose(ticket, by, assignments, began)
                    }
                };
                self.batcher.hold(Instant::now(), ticket, ask);
                None
            }
            Message::Read(answer) => {
                self.last_ticket += 1;
                let ticket = Ticket(self.last_ticket);
                self.reading.insert(ticket, answer);
                Some(Input::Read(ticket))
            }
            Message::Follow(has, answer) => {
                let (to_follower, entries) = mpsc::channel(FOLLOWER_QUEUE);
                let origin = self.origin;
                let has = has.filter(|has| has.restore_epoch == origin.restore_epoch);
                let records = has.and_then(|has| self.replica.records_after(has.index, has.term));
                let cell = records.is_none().then(|| self.replica.cell().clone());
                let records = records.unwrap_or_default();
                let following = Following { cell, origin, records, entries };
                if answer.send(following).is_ok() {
                    self.followers.push(to_follower);
                    self.publish();
                }
                None
            }
            Message::Checkpointed(Ok(Written { needed_from, log_from })) => {
                // If it is not accepted, the next one includes it.
                let _later = self.to_log.send(LogTask::Truncate(log_from));
                Some(self.checkpoints.written(needed_from))
            }
            Message::Checkpointed(Err(error)) => {
                self.checkpoints.failed(&error);
                None
            }
            Message::Checked(violations) => {
                self.violations = violations;
                self.publish();
                None
            }
            Message::Stop | Message::Fail(_) | Message::Superseded(..) => None,
        }
    }

    fn handle(&mut self, output: Output) -> anyhow::Result<()> {
        match output {
            Output::Persist(persist) => self.to_log.send(LogTask::Persist(persist))?,
            Output::Reply(ticket, index, outcome) => {
                self.answers.push((ticket, Ok((index, outcome))));
            }
            Output::Refused(ticket, refusal) => self.answers.push((ticket, Err(refusal))),
            Output::Poll(poll) => {
                let cell = self.replica.cell();
                let said = cell.credentials(&poll.name).cloned();
                self.agents.poll(poll, said, renewal::addresses(cell.member_addresses()));
            }
            Output::Committed { entry, at, events } => {
                self.recorder.record(entry.index, at, events);
                self.committed(&entry);
            }
            Output::Leads(term) => {
                self.leads = Some(term);
                self.metrics.core.elections_won.inc();
                leadership::say_leads(term, self.replica.cell());
                // The log file of an older process has the earlier message.
                rescheduling::tell(&Rescheduling::Allowed, self.replica.cell());
            }
            Output::Follows => {
                self.leads = None;
                // It is rejected now rather than proposed in a later term.
                self.batcher.release();
                self.metrics.core.leaderships_lost.inc();
            }
            Output::Leader(leader, term) => {
                (self.leader, self.term) = (leader, term);
                self.standing.led_by(Instant::now(), leader, term);
            }
            Output::Replaced { from, records } => {
                self.metrics.core.replaced.inc_by(records as u64);
                leadership::say_replaced(from, records);
            }
            Output::Send(message) => self.peers.send(message),
            Output::Readable(OWN_READ, _) => self.caught_up = true,
            Output::Readable(ticket, _) => self.readable.push(ticket),
            Output::Restored { term, restore_epoch } => self.restored(term, restore_epoch),
            Output::Dismissed => {
                let (me, what) = (self.me, "its directory is no longer usable");
                let why = format!("replica {me} was removed from the cell: {what}");
                return Err(Dismissed(why).into());
            }
        }
        Ok(())
    }

    /// The cell is replaced by another replica's snapshot, which is durable as a checkpoint.
    fn restored(&mut self, term: Term, restore_epoch: RestoreEpoch) {
        let index = self.replica.cell().index();
        tracing::info!("continues from the cell of index {index}, which another replica sent");
        self.origin = Origin { term, restore_epoch };
        self.checkpoints.began_at(index);
        // They have the events before.
        self.know_peers();
        self.recorder.resume(index.next(), restore_epoch);
        // They go on from an image.
        self.followers.clear();
    }

    /// Updates the list of the other replicas.
    fn know_peers(&self) {
        let cell = self.replica.cell();
        let recorded = cell.replicas().map(|replica| (replica.id, &replica.address));
        self.peers.know(recorded, cell.last_replica());
    }

    fn committed(&mut self, entry: &LogEntry) {
        self.checkpoints.committed(entry.data.len());
        self.origin.term = entry.term;
        // A follower whose queue is full asks for the records that it lacks.
        self.followers.retain(|follower| follower.try_send(entry.clone()).is_ok());
    }

    /// Whether a step changed what readers see. The other replicas' progress is published only now
    /// and then, and how many machines have answered with the first and with the last of them: the
    /// next operations copy whatever a view shares.
    fn is_to_be_seen(&self, outputs: &[Output]) -> bool {
        use Output::{Persist, Poll, Send};
        let old = self.published.elapsed() > VIEW_AGE;
        let (heard, seen) = (self.replica.machines_heard(), self.view.borrow().machines_heard);
        (heard > 0) != (seen > 0)
            || heard != seen && self.replica.are_all_machines_heard()
            || outputs.iter().any(|output| old || !matches!(output, Persist(_) | Send(_) | Poll(_)))
    }

    /// Updates the metrics with a step's outputs.
    fn measure(&self, outputs: &[Output]) {
        let metrics = &self.metrics;
        metrics.threads.steps();
        let applied = |output: &&Output| matches!(output, Output::Committed { .. });
        let applied = outputs.iter().filter(applied).count();
        if applied > 0 {
            metrics.core.applied.add(applied);
        }
        metrics.core.term.set(self.replica.term().0);
        metrics.core.commit_index.set(self.replica.commit_index().0);
    }

    fn answer(&mut self) {
        for ticket in self.readable.drain(..) {
            // The client may be gone.
            let _gone = self.reading.remove(&ticket).map(|answer| answer.send(()));
        }
        for (ticket, answered) in self.answers.drain(..) {
            self.batcher.answered(ticket);
            // Dropping a rejected read's channel reports the rejection.
            self.reading.remove(&ticket);
            if let Some(PendingCall { answer, counted, since, .. }) = self.waiting.remove(&ticket) {
                drop(counted);
                if answered.is_ok() {
                    self.metrics.core.commit.add(since.elapsed());
                }
                // The client may be gone.
                let _gone = answer.send(answered);
            }
        }
    }

    fn publish(&mut self) {
        self.published = Instant::now();
        self.followers.retain(|follower| !follower.is_closed());
        let caught_up = self.caught_up || self.leads.is_some();
        if caught_up {
            self.metrics.evictions.begin();
            self.metrics.starts.begin();
        }
        let cell = self.replica.cell();
        rescheduling::tell(self.view.borrow().cell.rescheduling(), cell);
        self.checkpoints.consider(cell, self.origin, &mut self.recorder);
        self.recorder.flush();
        if !self.view.borrow().cell.replicas().eq(cell.replicas()) {
            self.know_peers();
        }
        self.view.send_replace(Arc::new(View {
            cell: cell.clone(),
            name_changes: self.replica.names().clone(),
            origin: self.origin,
            me: self.me,
            leader: self.leader,
            term: self.term,
            leads: self.leads,
            progress: self.replica.progress(self.clock.now()).into(),
            spread: Arc::clone(self.replica.spread()),
            machines_heard: self.replica.machines_heard(),
            caught_up,
            followers: self.followers.len(),
            clock: self.clock,
            violations: self.violations,
        }));
    }
}
