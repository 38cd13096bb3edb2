//! The polls of a replica: each ends, with an answer or without.

use master::{Answer, Poll};
use model::Span;
use replica::{Codec, Input};

use crate::machine::{Call, MachineEvent};
use crate::network::{Fate, Node};
use crate::world::{Event, World, number_of};

/// How long an answer may take beyond the hold time of the poll.
const PATIENCE: Span = Span::from_secs(3);

impl<C: Codec> World<C> {
    /// Sends a poll; it is eventually answered or given up.
    pub(crate) fn poll(&mut self, host: usize, mut poll: Poll) {
        self.counts.polls += 1;
        self.polls.count(self.age());
        let (number, hold) = (self.next_call(), poll.hold);
        let call = Call {
            number,
            master: host,
            incarnation: self.masters[host].incarnation,
            machine: poll.machine,
            had_order: poll.order.is_some(),
            deadline: self.now + hold + PATIENCE,
            ghost: false,
        };
        self.invariants.orders(&mut poll);
        let Some(machine) = number_of(&poll.address).filter(|number| *number < self.machines.len())
        else {
            return self.agenda.at(call.deadline, Event::Answered { call, answer: Answer::Failed });
        };
        self.poll_intervals.count(machine, self.now);
        match self.network.send(Node::Master(host), Node::Machine(machine)) {
            Fate::Lost => self.gives_call_up(call),
            Fate::Arrives(delay, again) => {
                if let Some(again) = again {
                    let (call, poll) = (Call { ghost: true, ..call }, Box::new(poll.clone()));
                    self.agenda.at(
                        self.now + again,
                        Event::OnMachine { machine, event: MachineEvent::Polled { call, poll } },
                    );
                }
                let poll = Box::new(poll);
                self.agenda.at(
                    self.now + delay,
                    Event::OnMachine { machine, event: MachineEvent::Polled { call, poll } },
                );
            }
        }
    }

    /// The master gets no answer to a call, and gives up when its time is over.
    pub(crate) fn gives_call_up(&mut self, call: Call) {
        if !call.ghost {
            let at = call.deadline.max(self.now);
            self.agenda.at(at, Event::Answered { call, answer: Answer::Failed });
        }
    }

    pub(crate) fn answered(&mut self, call: Call, answer: Answer) {
        let Call { master: host, machine, had_order, .. } = call;
        if call.incarnation == self.masters[host].incarnation && !call.ghost {
            if let Answer::Report { usage, .. } = &answer {
                self.masters[host].seen.borrow_mut().heard(machine, self.now);
                self.masters[host].estimates.take_in(self.now, machine, usage);
            }
            self.tell_master(host, Input::Answered { machine, had_order, answer });
        }
    }
}
