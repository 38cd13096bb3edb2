//! A link shard's knowledge about one machine beyond the cell's state.

use std::sync::Arc;

use borglet::Report;
use cell::{Cell, MachineState, Op};
use model::{MachineId, MachineReport, Span, Stamp, Time, attribute};

use crate::allowance::Allowance;
use crate::proposal::Proposal;
use crate::{Answer, Poll, Reachability, Settings, order};

/// A replica that has not reached the stamp of a machine's report for this long has another history
/// than the machine.
const AHEAD_FOR: Span = Span::from_secs(10);

/// The link to a machine.
#[derive(Clone, Debug)]
pub(crate) struct Link {
    /// The stamp of the order that the machine should currently obey.
    pub(crate) wanted: Stamp,
    /// Its last report, with its version.
    pub(crate) report: Option<Arc<Report>>,
    seen: u64,
    /// Polls in flight: at most one with an order and one without.
    order_in_flight: Option<InFlight>,
    plain_in_flight: Option<InFlight>,
    /// When to poll it next, unless a new order comes first.
    pub(crate) next_poll: Time,
    /// Consecutive failed polls.
    missed: u32,
    /// Whether a poll was answered since the link began, or began anew.
    heard: bool,
    /// A proposed observation.
    pub(crate) observing: Proposal,
    /// A proposed description.
    pub(crate) describing: Proposal,
    /// How often it may describe itself, and when a description that waits is proposed.
    allowance: Allowance,
    held: Option<Time>,
    /// The last description that was proposed.
    described: Option<Arc<MachineReport>>,
    /// Whether another replica described the machine in another way after its last report here.
    /// That report may be the older one: the machine is asked again first. Otherwise two replicas
    /// would answer each other's descriptions endlessly, if only one of them reaches the machine.
    contradicted: bool,
    /// A proposed change between up and unreachable.
    pub(crate) turning: Proposal,
    /// Whether the cell contains everything in its last report, and neither has changed since.
    pub(crate) agrees: bool,
    /// The stamp of its last report, if the cell has not reached it yet, or never will: that of
    /// another restoration.
    pub(crate) ahead: Option<Stamp>,
    /// Since when.
    pub(crate) ahead_since: Time,
    /// The reachability reported last, and when.
    pub(crate) said: Option<Reachability>,
    pub(crate) noted: Time,
}

/// A poll in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum InFlight {
    Sent,
    /// The other poll in flight was answered first.
    Overtaken,
}

impl Link {
    pub(crate) fn new(first_poll: Time, wanted: Stamp) -> Self {
        Self {
            wanted,
            report: None,
            seen: 0,
            order_in_flight: None,
            plain_in_flight: None,
            next_poll: first_poll,
            missed: 0,
            heard: false,
            observing: Proposal::None,
            describing: Proposal::None,
            allowance: Allowance::new(first_poll),
            held: None,
            described: None,
            contradicted: false,
            turning: Proposal::None,
            agrees: false,
            ahead: None,
            ahead_since: first_poll,
            said: None,
            noted: first_poll,
        }
    }

    /// Its reachability.
    pub(crate) fn reachability(&self, settings: &Settings) -> Reachability {
        match self.missed {
            0 if self.heard => Reachability::Answers,
            0 => Reachability::Unknown,
            missed if missed >= settings.missed_polls_max => Reachability::Silent,
            _ => Reachability::Doubtful,
        }
    }

    /// Requires the machine to miss all its polls again before it counts as silent.
    pub(crate) fn begin_anew(&mut self) {
        self.missed = 0;
        self.heard = false;
    }

    /// Whether the machine has obeyed the newest order.
    pub(crate) fn is_current(&self) -> bool {
        let epoch = self.wanted.restore_epoch;
        let is = |stamp: Stamp| stamp.restore_epoch == epoch && stamp >= self.wanted;
        self.report.as_ref().is_some_and(|report| is(report.stamp))
    }

    /// The poll that is due now, if any.
    pub(crate) fn poll(
        &mut self,
        now: Time,
        cell: &Cell,
        machine: MachineId,
        settings: &Settings,
    ) -> Option<Poll> {
        let known = cell.machine(machine)?;
        let due = self.next_poll <= now;
        // A machine that does not answer is polled at its interval, even with a new order.
        // The cell should have reached what the machine has obeyed: it gets an order, and may reject it.
        let is_lost = self.ahead.is_some() && now.since(self.ahead_since) >= AHEAD_FOR;
        let news = (!self.is_current() || is_lost)
            && self.order_in_flight.is_none()
            && (due || self.missed == 0);
        let plain = due && self.order_in_flight.is_none() && self.plain_in_flight.is_none();
        if !news && !plain {
            return None;
        }
        let order = news.then(|| order::for_machine(cell, machine, self.wanted));
        match order {
            Some(_) => self.order_in_flight = Some(InFlight::Sent),
            None => self.plain_in_flight = Some(InFlight::Sent),
        }
        // A machine that missed a poll is asked for an answer at once: how long it may be silent does
        // not grow with each answer that it may hold.
        let hold = if self.missed == 0 { settings.poll_interval } else { Span::ZERO };
        // Unless it has news before.
        self.next_poll = now + settings.poll_interval;
        let (name, address) = (known.name.clone(), Arc::clone(&known.address));
        let reservations = order::reservations(cell, known);
        Some(Poll { machine, name, address, order, hold, seen: self.seen, reservations })
    }

    pub(crate) fn answered(
        &mut self,
        now: Time,
        had_order: bool,
        answer: &Answer,
        settings: &Settings,
    ) {
        let (own, other) = match had_order {
            true => (&mut self.order_in_flight, &mut self.plain_in_flight),
            false => (&mut self.plain_in_flight, &mut self.order_in_flight),
        };
        let overtaken = own.take() == Some(InFlight::Overtaken);
        *other = other.map(|_| InFlight::Overtaken);
        match answer {
            Answer::Failed => {
                self.missed = self.missed.saturating_add(1);
                // A poll that was waited for is followed by the next one at once.
                self.next_poll = self.next_poll.max(now);
            }
            Answer::Report { report, version, usage: _ } => {
                self.missed = 0;
                self.heard = true;
                self.contradicted = false;
                let soon = now + settings.poll_spacing;
                // A restarted Borglet counts versions from the start: compare the report itself.
                let known = self.report.as_ref().filter(|_| self.seen == *version);
                // Answers to polls that were in flight together may arrive in another order.
                let is_old = overtaken && *version < self.seen;
                let is_known =
                    known.is_some_and(|known| Arc::ptr_eq(known, report) || known == report);
                if !is_old && !is_known {
                    self.seen = *version;
                    self.report = Some(Arc::clone(report));
                    self.agrees = false;
                    self.next_poll = soon;
                } else {
                    // Another poll has ended the hold of this one. If it came from another shard,
                    // polling again at once would make the two shards alternate endlessly.
                    self.next_poll = self.next_poll.max(soon);
                }
            }
        }
    }

    /// Whether its changes are held back.
    pub(crate) fn is_held(&self) -> bool {
        self.held.is_some()
    }

    /// What a machine says, and that its changes are held back if so.
    pub(crate) fn said(&mut self, now: Time, report: Arc<MachineReport>) -> Arc<MachineReport> {
        self.held = self.allowance.exceeded(now);
        if self.held.is_none() {
            return report;
        }
        let mut said = MachineReport::clone(&report);
        let often = "it changes more often than once a second".to_owned();
        said.attributes.insert(attribute::CHANGES_HELD_BACK.to_owned(), often);
        Arc::new(said)
    }

    /// The description to propose, unless one is in flight or it has to wait.
    pub(crate) fn describe(
        &mut self,
        now: Time,
        report: Arc<MachineReport>,
        settings: &Settings,
    ) -> Option<Arc<MachineReport>> {
        if self.contradicted || self.describing.is_awaited(now) {
            return None;
        }
        if let Err(when) = self.allowance.take(now) {
            self.held = Some(when);
            return None;
        }
        self.held = None;
        self.describing.make(now, settings);
        self.described = Some(Arc::clone(&report));
        Some(report)
    }

    /// The change of the machine's state to propose, if any. Call this when a poll has completed or
    /// such a proposal may be lost, but not when an operation is applied: two shards with different
    /// views would answer each other's proposals endlessly.
    pub(crate) fn turn(
        &mut self,
        now: Time,
        cell: &Cell,
        machine: MachineId,
        settings: &Settings,
    ) -> Option<Op> {
        let state = cell.machine(machine)?.state;
        let op = match (self.reachability(settings), state) {
            (Reachability::Silent, MachineState::Up) => Op::MachineUnreachable { machine },
            (
                Reachability::Answers,
                MachineState::Unreachable { .. } | MachineState::Down { .. },
            ) => Op::MachineBack { machine },
            _ => {
                if self.turning.is_overdue(now) {
                    self.turning.end();
                }
                return None;
            }
        };
        if self.turning.is_awaited(now) {
            return None;
        }
        self.turning.make(now, settings);
        Some(op)
    }

    /// A proposed operation about the machine was applied.
    pub(crate) fn settle(&mut self, op: &Op) {
        match op {
            Op::Observe { .. } => self.observing.end(),
            Op::DescribeMachine { report, .. } => {
                self.describing.end();
                if self.described.as_ref() != Some(report) {
                    self.contradicted = true;
                    // The next poll is answered at once.
                    self.seen = 0;
                }
            }
            _ => self.turning.end(),
        }
        // The last report may mean something else now.
        self.agrees = false;
    }

    /// A new term began: proposals under the former leader that are not applied are lost. Returns
    /// whether there are any.
    pub(crate) fn lose_proposals(&mut self, now: Time) -> bool {
        for proposal in [&mut self.observing, &mut self.describing, &mut self.turning] {
            proposal.lose(now);
        }
        self.is_overdue(now)
    }

    /// Whether any proposal is considered lost.
    pub(crate) fn is_overdue(&self, now: Time) -> bool {
        let all = [self.observing, self.describing, self.turning];
        let is_held = self.held.is_some_and(|when| when <= now);
        is_held || all.iter().any(|made| made.is_overdue(now))
    }

    /// When the first of the proposals will be considered lost.
    pub(crate) fn again(&self, now: Time) -> Option<Time> {
        let all = [self.observing, self.describing, self.turning];
        let made = all.iter().filter_map(|made| made.again());
        made.chain(self.held).filter(|again| *again > now).min()
    }
}
