//! The core: one thread that takes every step of the replica. Whatever waits is drained before a
//! step, so that it becomes durable together; a view of the cell is published after it.

#[cfg(test)]
mod stalled;
mod standing;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use cell::{Assignment, Cell, Mutation, Op, Outcome, RequestId, Rescheduling};
use checkpoint::Origin;
use model::{LogIndex, ReplicaId, Term};
use process::clock::Clock;
use replica::{Bootstrap, Input, LogEntry, Output, Recovered, Refusal, Replica, Settings, Ticket};
use tokio::sync::{mpsc, oneshot, watch};

use self::standing::Standing;
use super::admission::{Admission, Asked, Counted, Principal, Shed};
use super::batcher::Batcher;
use super::checkpointer::{Checkpoints, Written};
use super::events::Recorder;
use super::itself::Dismissed;
use super::log::{Task, ToLog};
use super::metrics::Metrics;
pub(crate) use super::records::Records;
use super::threads::Component;
use super::users::Caller;
pub(crate) use super::view::View;
use super::{agents, bounds, peers, rescheduling};

/// Something for the core.
pub(crate) enum Message {
    /// For the replica.
    Input(Input),
    /// Somebody asks and waits.
    Request(Request, Asker),
    /// Somebody waits until the view has all that was acknowledged anywhere before.
    Read(oneshot::Sender<()>),
    /// Somebody wants to follow the cell.
    Follow(oneshot::Sender<Following>),
    /// A checkpoint was written, or not.
    Checkpointed(anyhow::Result<Written>),
    /// The cell was looked at, and contradicted itself in so many places.
    Checked(u64),
    /// A replica says that the cell was restored, and goes on without this one: why.
    Superseded(ReplicaId, String),
    /// The process cannot go on.
    Fail(anyhow::Error),
    /// The process ends.
    Stop,
}

/// What somebody asks.
#[derive(Clone, Debug)]
pub(crate) enum Request {
    /// A session.
    OpenSession(Caller),
    /// A request in a session.
    Mutate(RequestId, Caller, Mutation),
    /// What a machine asks that joins or renews its certificate, or a replica that joins.
    Enrolment(Op),
    /// That assignments are judged.
    Propose(Vec<Assignment>),
}

impl Request {
    /// Whose it is; nobody's where it is a scheduler's.
    fn by(&self) -> Option<Principal> {
        match self {
            Self::OpenSession(by) | Self::Mutate(_, by, _) => {
                Some(Principal::User(by.user.clone()))
            }
            Self::Enrolment(
                Op::Enrol { token: serial, .. }
                | Op::JoinReplica { token: serial, .. }
                | Op::RenewMachine { old: serial, .. },
            ) => Some(Principal::Certificate(*serial)),
            Self::Enrolment(_) | Self::Propose(_) => None,
        }
    }
}

/// Who asked, and counts among those who wait for as long.
pub(crate) struct Asker {
    answer: oneshot::Sender<Answered>,
    /// Shared with whoever asks, where that may ask again.
    counted: Arc<Counted>,
    since: Instant,
}

/// The answer, with the index at which it was given.
pub(crate) type Answered = Result<(LogIndex, Outcome), Refusal>;

/// The cell at an index, and every record after it. The channel is closed on a follower that
/// falls too far behind.
pub(crate) struct Following {
    pub(crate) cell: Cell,
    pub(crate) entries: mpsc::Receiver<LogEntry>,
}

/// How far a follower may be behind, in records.
const FOLLOWER_QUEUE: usize = 16_384;
/// How often whoever waits for an answer looks whether the disk is full.
const TROUBLE_LOOK: Duration = Duration::from_millis(200);
/// For how long a leader that stops waits for another to lead.
const HAND_OVER: Duration = Duration::from_secs(2);
/// How old a view gets while it shows all but how far the others are.
const VIEW_AGE: Duration = Duration::from_millis(50);
/// How many messages are taken into one step.
const STEP_MAX: usize = 4_096;

/// A handle on the core.
#[derive(Clone, Debug)]
pub(crate) struct Core {
    to_core: mpsc::Sender<Message>,
    view: watch::Receiver<Arc<View>>,
    ended: watch::Receiver<Option<Arc<anyhow::Error>>>,
    to_log: ToLog,
    admission: Arc<Admission>,
}

/// Why the core does not take a question.
#[derive(Debug)]
pub(crate) enum NotTaken {
    /// Too much waits for it already.
    Overloaded(Shed),
    /// Nothing can be made durable now.
    NoRoom(String),
    /// It is refused whatever is in the cell.
    Invalid(String),
    /// The process ends.
    Stopping,
}

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

impl Core {
    /// The newest view.
    pub(crate) fn view(&self) -> Arc<View> {
        Arc::clone(&self.view.borrow())
    }

    /// A receiver that sees every change of the view, or the newest of several.
    pub(crate) fn watch(&self) -> watch::Receiver<Arc<View>> {
        self.view.clone()
    }

    /// Asks by a message of so many bytes, unless the core has too much to do.
    pub(crate) async fn ask(&self, ask: Request, bytes: usize) -> Result<Answered, NotTaken> {
        let counted = self.count(&ask, bytes)?;
        self.ask_counted(ask, counted).await
    }

    /// The same for what counts already. All that anybody asks comes this way, and nothing is proposed
    /// that is refused here.
    pub(super) async fn ask_counted(
        &self,
        ask: Request,
        counted: Arc<Counted>,
    ) -> Result<Answered, NotTaken> {
        if let Some(why) = self.to_log.trouble() {
            return Err(NotTaken::NoRoom(why));
        }
        bounds::check(&ask).map_err(NotTaken::Invalid)?;
        let asked = counted.asked();
        let (answer, mut answered) = oneshot::channel();
        let asker = Asker { answer, counted, since: Instant::now() };
        self.to_core.try_send(Message::Request(ask, asker)).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => {
                NotTaken::Overloaded(self.admission.shed(asked, None, 1))
            }
            mpsc::error::TrySendError::Closed(_) => NotTaken::Stopping,
        })?;
        loop {
            tokio::select! {
                answered = &mut answered => return answered.map_err(|_| NotTaken::Stopping),
                () = tokio::time::sleep(TROUBLE_LOOK) => {}
            }
            // The disk was full when it came to this one: it is in the queue, and nobody knows for
            // how long.
            if let Some(why) = self.to_log.trouble() {
                let why = format!("{why}. What was asked may still be done when there is room");
                return Err(NotTaken::NoRoom(why));
            }
        }
    }

    /// Counts a question of so many bytes among what waits, for as long as what is given lives.
    pub(super) fn count(&self, ask: &Request, bytes: usize) -> Result<Arc<Counted>, NotTaken> {
        let view = self.view();
        let asked = Asked::of(ask, &view.cell, view.now());
        self.count_as(asked, ask.by(), bytes)
    }

    /// The same before it is known what exactly is asked.
    pub(super) fn count_as(
        &self,
        asked: Asked,
        by: Option<Principal>,
        bytes: usize,
    ) -> Result<Arc<Counted>, NotTaken> {
        let counted = self.admission.admit(asked, by, bytes);
        counted.map(Arc::new).map_err(|shed| match self.to_log.trouble() {
            // What waits does so for the disk.
            Some(why) => NotTaken::NoRoom(why),
            None => NotTaken::Overloaded(shed),
        })
    }

    /// Hands something over, as soon as there is room for it.
    pub(super) async fn tell(&self, message: Message) -> Result<(), ()> {
        self.to_core.send(message).await.map_err(drop)
    }

    /// Waits until the newest view has all that was acknowledged anywhere before this was called.
    pub(super) async fn read(&self) -> Option<()> {
        let (answer, answered) = oneshot::channel();
        self.tell(Message::Read(answer)).await.ok()?;
        answered.await.ok()
    }

    /// Follows the cell.
    pub(crate) async fn follow(&self) -> Option<Following> {
        let (answer, answered) = oneshot::channel();
        self.to_core.send(Message::Follow(answer)).await.ok()?;
        answered.await.ok()
    }

    /// Waits until the cell is what the whole log gives: from then on it can be read. Whether that
    /// came to be before the core ended.
    pub(crate) async fn caught_up(&self) -> bool {
        let mut view = self.view.clone();
        view.wait_for(|view| view.caught_up).await.is_ok()
    }

    /// Whether the cell is that already.
    pub(crate) fn has_caught_up(&self) -> bool {
        self.view.borrow().caught_up
    }

    /// Waits until this replica has heard of no leader for so long: what it knows may be old, and
    /// others may go on without it.
    pub(super) async fn led_by_nobody(&self, time: Duration) {
        let mut view = self.view.clone();
        loop {
            let left = view.wait_for(|view| view.leader.is_none()).await.is_ok();
            let led = async { view.wait_for(|view| view.leader.is_some()).await.is_ok() };
            match tokio::time::timeout(time, led).await {
                Ok(true) if left => {}
                // The core has ended, and with it all that anybody follows.
                Ok(_) => std::future::pending().await,
                Err(_) => return,
            }
        }
    }

    /// Before an orderly end: lets another replica lead, where this one does and there is another.
    pub(crate) async fn hand_over(&self) {
        let view = self.view();
        if view.leads.is_none() || view.cell.voters().count() < 2 {
            return;
        }
        let _gone = self.tell(Message::Input(Input::Transfer(None))).await;
        let mut view = self.view.clone();
        let led = view.wait_for(|view| view.leads.is_none());
        let _in_vain = tokio::time::timeout(HAND_OVER, led).await;
    }

    /// How much waits in its queue, and for how much there is room.
    pub(super) fn queue(&self) -> (usize, usize) {
        let most = self.to_core.max_capacity();
        (most.saturating_sub(self.to_core.capacity()), most)
    }

    /// Whether its queue and what waits for an answer leave room for more, and why not.
    pub(super) fn has_room(&self) -> Result<(), String> {
        let (used, most) = self.queue();
        match used < most && self.admission.has_room() {
            true => Ok(()),
            false => Err(format!(
                "{used} of {most} places are taken, and {} requests wait",
                self.admission.waiting().0
            )),
        }
    }

    /// Why nothing can be made durable now, where that is so.
    pub(super) fn trouble(&self) -> Option<String> {
        self.to_log.trouble()
    }

    pub(super) fn admission(&self) -> &Admission {
        &self.admission
    }

    /// Waits until the core has ended by itself.
    pub(crate) async fn stopped(&self) {
        let mut ended = self.ended.clone();
        let _gone = ended.wait_for(Option::is_some).await;
    }

    /// Ends the core; the error with which it had ended by itself, if it had.
    pub(crate) fn stop(self) -> anyhow::Result<()> {
        let _gone = self.to_core.blocking_send(Message::Stop);
        let ended = self.ended.borrow().clone();
        match ended {
            Some(error) => Err(match error.downcast_ref::<Dismissed>() {
                Some(dismissed) => dismissed.clone().into(),
                None => anyhow::anyhow!("{error:#}"),
            }),
            None => Ok(()),
        }
    }
}

/// The read that this replica asks for itself, to know when it has caught up.
const OWN_READ: Ticket = Ticket(0);

struct Thread {
    clock: Clock,
    replica: Replica<Records>,
    from_all: mpsc::Receiver<Message>,
    to_log: ToLog,
    agents: agents::Handle,
    peers: peers::Handle,
    checkpoints: Checkpoints,
    recorder: Recorder,
    waiting: HashMap<Ticket, Asker>,
    reading: HashMap<Ticket, oneshot::Sender<()>>,
    /// Reads that can be made from the next view on.
    readable: Vec<Ticket>,
    /// The answers of a step. They go out after its view: whoever has one finds in the view what
    /// was done.
    answers: Vec<(Ticket, Answered)>,
    last_ticket: u64,
    batcher: Batcher,
    followers: Vec<mpsc::Sender<LogEntry>>,
    me: ReplicaId,
    leader: Option<ReplicaId>,
    term: Term,
    leads: Option<Term>,
    standing: Standing,
    caught_up: bool,
    origin: Origin,
    violations: u64,
    view: watch::Sender<Arc<View>>,
    published: Instant,
    metrics: Arc<Metrics>,
}

/// Starts the core's thread. Returns when the log has been read and applied as far as it was
/// known to be committed.
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
    let replica = Replica::new(settings, Records, clock.now(), recovered, bootstrap)?;
    tracing::info!("read {records} records after index {}", replica.cell().index());
    let cell = replica.cell().clone();
    let first = View::first(cell, origin, me, clock);
    let (view, views) = watch::channel(Arc::new(first));
    let (ended, has_ended) = watch::channel(None);
    let log = to_log.clone();
    let core = Core { to_core, view: views, ended: has_ended, to_log: log, admission };
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
        standing: Standing::default(),
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
            tracing::error!("the master cannot go on: {error:#}");
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
            // The next one says more.
            let _later = thread.to_log.send(Task::Note(note));
        }
        // The clock of whoever led before was ahead of ours, or ours was set back while nobody led:
        // what waits for a moment of that time must not wait until ours is there.
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
                    thread.standing.superseded(now, (by, why), leader, &thread.metrics)?;
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
                    Request::Propose(assignments) => Input::Propose(ticket, assignments),
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
            Message::Follow(answer) => {
                let (to_follower, entries) = mpsc::channel(FOLLOWER_QUEUE);
                let following = Following { cell: self.replica.cell().clone(), entries };
                if answer.send(following).is_ok() {
                    self.followers.push(to_follower);
                    self.publish();
                }
                None
            }
            Message::Checkpointed(Ok(Written { needed_from, log_from })) => {
                // Where it is not taken, it goes with the next.
                let _later = self.to_log.send(Task::Truncate(log_from));
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
            Output::Persist(persist) => self.to_log.send(Task::Persist(persist))?,
            Output::Reply(ticket, index, outcome) => {
                self.answers.push((ticket, Ok((index, outcome))));
            }
            Output::Refused(ticket, refusal) => self.answers.push((ticket, Err(refusal))),
            Output::Poll(poll) => {
                let said = self.replica.cell().credentials(&poll.name).cloned();
                self.agents.poll(poll, said);
            }
            Output::Committed { entry, at, events } => {
                self.recorder.record(entry.index, at, events);
                self.committed(&entry);
            }
            Output::Leads(term) => {
                self.leads = Some(term);
                self.metrics.core.elections_won.inc();
                standing::say_leads(term, self.replica.cell());
                // Whatever was said about it before is in the log of an older process.
                rescheduling::tell(&Rescheduling::Allowed, self.replica.cell());
            }
            Output::Follows => {
                self.leads = None;
                // It is refused now, and not done in a later term.
                self.batcher.release();
                self.metrics.core.leaderships_lost.inc();
            }
            Output::Leader(leader, term) => {
                (self.leader, self.term) = (leader, term);
                self.standing.led_by(Instant::now(), leader, term);
            }
            Output::Replaced { from, records } => {
                self.metrics.core.replaced.inc_by(records as u64);
                standing::say_replaced(from, records);
            }
            Output::Send(message) => self.peers.send(message),
            Output::Readable(OWN_READ, _) => self.caught_up = true,
            Output::Readable(ticket, _) => self.readable.push(ticket),
            Output::Restored { term, restore_epoch } => self.restored(term, restore_epoch),
            Output::Dismissed => {
                let (me, what) = (self.me, "its directory is of no use any more");
                let why = format!("replica {me} was removed from the cell: {what}");
                return Err(Dismissed(why).into());
            }
        }
        Ok(())
    }

    /// The cell is another's snapshot from now on, which is durable as a checkpoint.
    fn restored(&mut self, term: Term, restore_epoch: u64) {
        let index = self.replica.cell().index();
        tracing::info!("goes on from the cell of index {index}, which another replica sent");
        self.origin = Origin { term, restore_epoch };
        self.checkpoints.began_at(index);
        self.recorder.resume(index.next());
        // They begin anew.
        self.followers.clear();
        self.know_peers();
    }

    /// Who the other replicas are.
    fn know_peers(&self) {
        let cell = self.replica.cell();
        let recorded = cell.replicas().map(|replica| (replica.id, &replica.address));
        self.peers.know(recorded, cell.last_replica());
    }

    fn committed(&mut self, entry: &LogEntry) {
        self.checkpoints.committed(entry.data.len());
        self.origin.term = entry.term;
        // A follower whose queue is full has fallen too far behind and begins anew.
        self.followers.retain(|follower| follower.try_send(entry.clone()).is_ok());
    }

    /// Whether a step changed what readers see. How far the others are is shown now and then: what a
    /// view has, the next operations copy.
    fn is_to_be_seen(&self, outputs: &[Output]) -> bool {
        use Output::{Persist, Poll, Send};
        let old = self.published.elapsed() > VIEW_AGE;
        let heard = self.replica.machines_heard() > 0;
        heard != (self.view.borrow().machines_heard > 0)
            || outputs.iter().any(|output| old || !matches!(output, Persist(_) | Send(_) | Poll(_)))
    }

    /// Counts what a step gave.
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
            // Whoever asked may be gone.
            let _gone = self.reading.remove(&ticket).map(|answer| answer.send(()));
        }
        for (ticket, answered) in self.answers.drain(..) {
            self.batcher.answered(ticket);
            // A read that is refused is dropped, which says so.
            self.reading.remove(&ticket);
            if let Some(Asker { answer, counted, since, .. }) = self.waiting.remove(&ticket) {
                drop(counted);
                if answered.is_ok() {
                    self.metrics.core.commit.add(since.elapsed());
                }
                // Whoever asked may be gone.
                let _gone = answer.send(answered);
            }
        }
    }

    fn publish(&mut self) {
        self.published = Instant::now();
        self.followers.retain(|follower| !follower.is_closed());
        let cell = self.replica.cell();
        rescheduling::tell(self.view.borrow().cell.rescheduling(), cell);
        self.checkpoints.consider(cell, self.origin, &mut self.recorder);
        self.recorder.flush();
        if !self.view.borrow().cell.replicas().eq(cell.replicas()) {
            self.know_peers();
        }
        self.view.send_replace(Arc::new(View {
            cell: cell.clone(),
            origin: self.origin,
            me: self.me,
            leader: self.leader,
            term: self.term,
            leads: self.leads,
            progress: self.replica.progress(self.clock.now()).into(),
            spread: Arc::clone(self.replica.spread()),
            machines_heard: self.replica.machines_heard(),
            caught_up: self.caught_up || self.leads.is_some(),
            followers: self.followers.len(),
            clock: self.clock,
            violations: self.violations,
        }));
    }
}
