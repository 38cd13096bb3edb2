//! What the leader knows about one machine beside the cell's state.

use std::sync::Arc;

use borglet::Report;
use cell::{Cell, Op};
use model::{LogIndex, MachineId, Stamp, Time};

use crate::lost::Standing;
use crate::{Answer, Poll, Settings, order};

/// The link to a machine.
#[derive(Clone, Debug)]
pub(crate) struct Link {
    /// The index at which the set of instances it is to run changed last.
    pub(crate) reordered: LogIndex,
    /// Its last report, with its version.
    pub(crate) report: Option<Arc<Report>>,
    seen: u64,
    /// Polls in flight: one that carries an order and one that does not, at most.
    order_in_flight: bool,
    plain_in_flight: bool,
    /// When it is to be polled next, if there is no new order before.
    pub(crate) next_poll: Time,
    /// Polls that failed in a row.
    pub(crate) missed: u32,
    /// An observation is proposed and not yet applied.
    pub(crate) observing: bool,
    /// A description is proposed and not yet applied.
    pub(crate) describing: bool,
    /// Its being unreachable, down or back is proposed and not yet applied.
    pub(crate) state_proposed: bool,
    /// The cell was seen to have all of its last report, and neither has changed since.
    pub(crate) agrees: bool,
    /// What it counts as.
    pub(crate) standing: Standing,
}

impl Link {
    pub(crate) fn new(now: Time, reordered: LogIndex) -> Self {
        Self {
            reordered,
            report: None,
            seen: 0,
            order_in_flight: false,
            plain_in_flight: false,
            next_poll: now,
            missed: 0,
            observing: false,
            describing: false,
            state_proposed: false,
            agrees: false,
            standing: Standing::Away,
        }
    }

    /// Whether its last poll was answered.
    pub(crate) fn answers(&self) -> bool {
        self.report.is_some() && self.missed == 0
    }

    /// The stamp of the order that reflects what the machine is to run now.
    pub(crate) fn wanted(&self, since: Stamp) -> Stamp {
        Stamp { index: self.reordered.max(since.index), ..since }
    }

    /// Whether the machine has obeyed the newest order.
    pub(crate) fn is_current(&self, since: Stamp) -> bool {
        self.report.as_ref().is_some_and(|report| report.stamp >= self.wanted(since))
    }

    /// The poll that is due now, if one is.
    pub(crate) fn poll(
        &mut self,
        now: Time,
        cell: &Cell,
        machine: MachineId,
        since: Stamp,
        settings: &Settings,
    ) -> Option<Poll> {
        let known = cell.machine(machine)?;
        let due = self.next_poll <= now;
        // A machine that does not answer is asked at its interval, new order or not.
        let news = !self.is_current(since) && !self.order_in_flight && (due || self.missed == 0);
        let plain = due && !self.order_in_flight && !self.plain_in_flight;
        if !news && !plain {
            return None;
        }
        let order = news.then(|| order::for_machine(cell, machine, self.wanted(since)));
        match order {
            Some(_) => self.order_in_flight = true,
            None => self.plain_in_flight = true,
        }
        let (name, address) = (known.name.clone(), Arc::clone(&known.address));
        let hold = settings.poll_interval;
        Some(Poll { machine, name, address, order, hold, seen: self.seen })
    }

    pub(crate) fn answered(
        &mut self,
        now: Time,
        had_order: bool,
        answer: &Answer,
        settings: &Settings,
    ) {
        match had_order {
            true => self.order_in_flight = false,
            false => self.plain_in_flight = false,
        }
        match answer {
            Answer::Failed => {
                self.missed = self.missed.saturating_add(1);
                self.next_poll = now + settings.poll_interval;
            }
            Answer::Report { report, version } => {
                self.missed = 0;
                // A version is counted anew when a Borglet starts: the report itself decides.
                let known = self.report.as_ref().filter(|_| self.seen == *version);
                if known.is_none_or(|known| !Arc::ptr_eq(known, report) && known != report) {
                    self.seen = *version;
                    self.report = Some(Arc::clone(report));
                    self.agrees = false;
                }
                self.next_poll = now + settings.poll_spacing;
            }
        }
    }

    /// Something that was proposed about the machine is applied.
    pub(crate) fn settle(&mut self, op: &Op) {
        match op {
            Op::Observe { .. } => self.observing = false,
            Op::DescribeMachine { .. } => self.describing = false,
            _ => self.state_proposed = false,
        }
    }
}
