//! The state machine.

use std::collections::BTreeMap;
use std::sync::Arc;

use batch::{AdmissionPass, QueueAdmission};
use cell::{Assignment, Cell, Op};
use model::{CellCopy, Enabled, HeldPackage, InstanceId, LogIndex, MachineId, Span, Term, Time};
use scheduler::Scheduler;
use thiserror::Error;

/// The delay before another replica is tried, after one that does not answer or closed the stream.
pub const RETRY_DELAY: Span = Span::from_millis(100);
/// The delay after a rejection: the copy may have to catch up before a plan makes sense again.
pub const REJECTED_DELAY: Span = Span::from_millis(20);
/// How long an answer to a proposal is awaited.
pub const PROPOSAL_TIMEOUT: Span = Span::from_secs(10);

/// What arrived.
#[derive(Debug)]
pub enum Input {
    /// The stream begins with the image of a cell, because the copy is of no use: it makes room.
    Loading,
    /// The image is complete. The stream goes on with the records after it.
    Loaded(Box<Cell>, CellCopy),
    /// The stream begins with the records after the copy, which has to be there.
    Resumed,
    /// The next record.
    Record {
        /// Its index.
        index: LogIndex,
        /// Its term.
        term: Term,
        /// Its operation and the time of that; `None` in a record without one.
        operation: Option<(Time, Op)>,
    },
    /// A record or an image cannot be read: nobody knows what the copy is worth. The driver closes the
    /// stream.
    Unreadable,
    /// There is no stream (any more): it ended, could not be opened, or the replica on its other end
    /// does not get a proposal to the leader, and the driver closes it.
    Disconnected,
    /// The packages that a machine reports, all of them. They are no part of the cell's copy, and are kept when that is
    /// replaced.
    Held(MachineId, Arc<[HeldPackage]>),
    /// A proposal was decided.
    Decided {
        /// The number of the proposal.
        number: u64,
        /// Whether anything in it was rejected.
        rejected: bool,
    },
    /// It is not known what became of a proposal, and the stream is open.
    Undecided {
        /// The number of the proposal.
        number: u64,
    },
}

/// What the driver does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Follow a replica, in place of the one before. It is answered with [`Input::Loading`] and
    /// [`Input::Loaded`], with [`Input::Resumed`], or with [`Input::Disconnected`].
    Follow {
        /// The number of the attempt, from 0. Of N replicas, it goes to number `attempt` modulo N: to
        /// each in turn.
        attempt: u64,
        /// The copy that is there: the records after it are enough.
        has: Option<CellCopy>,
    },
    /// Propose a plan to the replica that is followed, and wait for the answer for at most
    /// [`PROPOSAL_TIMEOUT`]: [`Input::Decided`] or [`Input::Undecided`]. The answer of the one before
    /// is not awaited any more.
    Propose(Proposal),
}

/// A plan on its way to the master.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proposal {
    /// Its number, from 1, by which it is answered.
    pub number: u64,
    /// The index of the copy on which it was made.
    pub made_at: LogIndex,
    /// When the pass that made them began.
    pub began: Time,
    /// What is enabled of the batch queue; each is accepted or rejected on its own.
    pub enabled: Vec<Enabled>,
    /// The assignments; each is accepted or rejected on its own.
    pub assignments: Vec<Assignment>,
}

/// A record is not the one after the copy: the copy is discarded, and the driver closes the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("received record {received} instead of {expected}")]
pub struct OutOfOrder {
    /// The index of the record.
    pub received: LogIndex,
    /// The index that comes next.
    pub expected: LogIndex,
}

/// The process of a scheduler.
#[derive(Debug)]
pub struct Follower {
    stream: ReplicaStream,
    copy: Option<Copied>,
    /// The proposal on its way; while there is no stream, one whose outcome is unknown.
    proposed: Option<Proposed>,
    proposals: u64,
    attempts: u64,
    /// No pass before this time.
    rest_until: Time,
    /// When the next pass is due, if nothing happens before.
    next_pass: Option<Time>,
    /// The packages that machines have.
    held: BTreeMap<MachineId, Arc<[HeldPackage]>>,
}

/// The connection to a replica.
#[derive(Debug)]
enum ReplicaStream {
    /// There is none before this time.
    Closed { until: Time },
    /// A replica is asked, and has not yet answered.
    Requested,
    /// Records come.
    Open,
}

/// The scheduler, and what its copy of the cell is.
#[derive(Debug)]
struct Copied {
    scheduler: Scheduler,
    admission: QueueAdmission,
    is: CellCopy,
}

/// A proposal on its way.
#[derive(Debug)]
struct Proposed {
    number: u64,
    enabled: Vec<Enabled>,
    instances: Vec<InstanceId>,
    until: Time,
}

impl Default for Follower {
    fn default() -> Self {
        Self {
            stream: ReplicaStream::Closed { until: Time::ZERO },
            copy: None,
            proposed: None,
            proposals: 0,
            attempts: 0,
            rest_until: Time::ZERO,
            next_pass: None,
            held: BTreeMap::new(),
        }
    }
}

impl Follower {
    /// Its copy of the cell, if it has one.
    #[must_use]
    pub fn cell(&self) -> Option<&Cell> {
        self.copy.as_ref().map(|copy| copy.scheduler.cell())
    }

    /// The number of the proposal whose answer it awaits. An answer to any other counts for nothing.
    #[must_use]
    pub fn awaits(&self) -> Option<u64> {
        let is_open = matches!(self.stream, ReplicaStream::Open);
        self.proposed.as_ref().filter(|_| is_open).map(|proposed| proposed.number)
    }

    /// When the next [`Follower::tick`] is due if nothing arrives before: after a tick always later than
    /// that. `None` if only an input can change anything.
    #[must_use]
    pub fn next_tick(&self) -> Option<Time> {
        match (&self.stream, &self.proposed) {
            (ReplicaStream::Closed { until }, _) => Some(*until),
            (ReplicaStream::Requested, _) => None,
            // What is due meanwhile is done when it is answered.
            (ReplicaStream::Open, Some(proposed)) => Some(proposed.until),
            (ReplicaStream::Open, None) => self.next_pass,
        }
    }

    /// Takes an input in. What follows from it is done by the next [`Follower::tick`]. `now` is the
    /// cell's time, which never runs back while a stream is open.
    ///
    /// # Errors
    /// If a record is not the next one. The follower goes on with another replica, as after
    /// [`Input::Unreadable`].
    pub fn take_in(&mut self, now: Time, input: Input) -> Result<(), OutOfOrder> {
        match input {
            Input::Loading => self.copy = None,
            Input::Loaded(cell, is) => {
                // What was proposed is in the image, or is proposed again.
                self.proposed = None;
                self.held.retain(|machine, _| cell.machine(*machine).is_some());
                let admission = QueueAdmission::of(&cell);
                let mut scheduler = Scheduler::new(*cell);
                self.held.iter().for_each(|(machine, held)| scheduler.set_held(*machine, held));
                self.copy = Some(Copied { scheduler, admission, is });
                self.open(now);
            }
            Input::Resumed if self.copy.is_some() => self.open(now),
            Input::Resumed => self.close(now),
            Input::Record { index, term, operation } => {
                return self.record(now, index, term, operation);
            }
            Input::Unreadable => {
                self.copy = None;
                self.close(now);
            }
            Input::Disconnected => self.close(now),
            Input::Held(machine, held) => {
                if let Some(copy) = &mut self.copy {
                    copy.scheduler.set_held(machine, &held);
                }
                match held.is_empty() {
                    true => drop(self.held.remove(&machine)),
                    false => drop(self.held.insert(machine, held)),
                }
            }
            Input::Decided { number, rejected } => {
                // The copy shows the effect of each assignment with the record that decided it.
                if self.answered(number).is_some() && rejected {
                    self.rest(now);
                }
            }
            Input::Undecided { number } => {
                if let Some(proposed) = self.answered(number) {
                    self.give_up(now, proposed);
                }
            }
        }
        Ok(())
    }

    /// Does what is due. It is called when everything that has arrived was taken in, so that a pass knows
    /// it, and when [`Follower::next_tick`] is reached.
    #[must_use]
    pub fn tick(&mut self, now: Time) -> Option<Effect> {
        match self.stream {
            ReplicaStream::Closed { until } if until <= now => {
                let (attempt, has) = (self.attempts, self.copy.as_ref().map(|copy| copy.is));
                self.stream = ReplicaStream::Requested;
                self.attempts += 1;
                Some(Effect::Follow { attempt, has })
            }
            ReplicaStream::Closed { .. } | ReplicaStream::Requested => None,
            ReplicaStream::Open => {
                if let Some(late) = self.proposed.take_if(|proposed| proposed.until <= now) {
                    self.give_up(now, late);
                }
                if self.proposed.is_some() {
                    return None;
                }
                self.pass(now).map(Effect::Propose)
            }
        }
    }

    /// Applies a record to the copy. Records of a stream that is closed come too late.
    fn record(
        &mut self,
        now: Time,
        index: LogIndex,
        term: Term,
        operation: Option<(Time, Op)>,
    ) -> Result<(), OutOfOrder> {
        let (ReplicaStream::Open, Some(copy)) = (&self.stream, &mut self.copy) else {
            return Ok(());
        };
        let expected = copy.is.index.next();
        if index != expected {
            self.copy = None;
            self.close(now);
            return Err(OutOfOrder { received: index, expected });
        }
        let (at, op) = operation.unwrap_or((copy.scheduler.cell().time(), Op::Nothing));
        let applied = copy.scheduler.follow(at, &op);
        copy.admission.follow(copy.scheduler.cell(), &op, &applied);
        (copy.is.index, copy.is.term) = (index, term);
        Ok(())
    }

    /// The stream is open: everything begins with what the replica says now.
    fn open(&mut self, now: Time) {
        (self.stream, self.rest_until, self.next_pass) = (ReplicaStream::Open, now, None);
        if let Some(lost) = self.proposed.take() {
            // What became of it may be in the records that come.
            self.give_up(now, lost);
        }
    }

    fn close(&mut self, now: Time) {
        self.stream = ReplicaStream::Closed { until: now + RETRY_DELAY };
    }

    /// The proposal that was answered; `None` if that is not awaited any more.
    fn answered(&mut self, number: u64) -> Option<Proposed> {
        let is_awaited = self.awaits() == Some(number);
        self.proposed.take_if(|_| is_awaited)
    }

    fn give_up(&mut self, now: Time, proposed: Proposed) {
        if let Some(copy) = &mut self.copy {
            copy.admission.not_judged(copy.scheduler.cell(), proposed.enabled);
            copy.scheduler.not_judged(proposed.instances);
        }
        self.rest(now);
    }

    fn rest(&mut self, now: Time) {
        self.rest_until = now + REJECTED_DELAY;
    }

    /// Runs a pass, unless the follower rests.
    fn pass(&mut self, now: Time) -> Option<Proposal> {
        if now < self.rest_until {
            // Whatever was due before is done then.
            self.next_pass = Some(self.rest_until);
            return None;
        }
        let copy = self.copy.as_mut()?;
        let AdmissionPass { enabled, next } = copy.admission.pass(copy.scheduler.cell(), now);
        let plan = copy.scheduler.pass(now);
        self.next_pass = plan.next.into_iter().chain(next).min();
        if plan.assignments.is_empty() && enabled.is_empty() {
            return None;
        }
        self.proposals += 1;
        let (number, until) = (self.proposals, now + PROPOSAL_TIMEOUT);
        let instances = plan.assignments.iter().map(|assignment| assignment.instance).collect();
        self.proposed = Some(Proposed { number, enabled: enabled.clone(), instances, until });
        let (made_at, assignments) = (plan.made_at, plan.assignments);
        Some(Proposal { number, made_at, began: now, enabled, assignments })
    }
}
