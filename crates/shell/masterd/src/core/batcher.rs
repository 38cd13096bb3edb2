//! Batches of requests: while two batches are on their way to a majority, further requests wait and
//! become the next batch. Each batch costs every replica one write and a few messages, however
//! large it is.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use replica::{Input, Ticket};

/// The maximum number of batches in flight.
const BATCHES: usize = 2;
/// The longest time for which a request is held.
const HELD_MAX: Duration = Duration::from_millis(2);

/// Requests that are not proposed yet, and batches that are proposed and not answered.
#[derive(Debug)]
pub(crate) struct Batcher {
    held: Vec<Input>,
    /// Since when the first is held, and the last one's ticket.
    since: Instant,
    last: Ticket,
    /// The last ticket of each batch.
    proposed: VecDeque<Ticket>,
}

impl Batcher {
    pub(crate) fn new() -> Self {
        let (since, last) = (Instant::now(), Ticket(0));
        Self { held: Vec::new(), since, last, proposed: VecDeque::new() }
    }

    /// Holds a request until it is proposed.
    pub(crate) fn hold(&mut self, now: Instant, ticket: Ticket, ask: Input) {
        if self.held.is_empty() {
            self.since = now;
        }
        self.last = ticket;
        self.held.push(ask);
    }

    /// The number of held requests.
    pub(crate) fn waiting(&self) -> usize {
        self.held.len()
    }

    /// When the held requests have to be proposed; `None` if there are none.
    pub(crate) fn due(&self) -> Option<Instant> {
        let waits = if self.proposed.len() < BATCHES { Duration::ZERO } else { HELD_MAX };
        (!self.held.is_empty()).then(|| self.since + waits)
    }

    /// Moves the held requests into the next step, if it is time.
    pub(crate) fn propose(&mut self, now: Instant, inputs: &mut Vec<Input>) {
        if self.due().is_some_and(|due| due <= now) {
            self.proposed.push_back(self.last);
            inputs.append(&mut self.held);
        }
    }

    /// Stops waiting for the batches in flight.
    pub(crate) fn release(&mut self) {
        self.proposed.clear();
    }

    /// A request was answered; answers have the order of the requests.
    pub(crate) fn answered(&mut self, ticket: Ticket) {
        while self.proposed.pop_front_if(|last| *last <= ticket).is_some() {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_third_batch_waits_for_an_earlier_one_or_a_timeout() {
        let now = Instant::now();
        let mut batcher = Batcher::new();
        let asks = |batcher: &mut Batcher, tickets: std::ops::Range<u64>| {
            tickets.for_each(|ticket| {
                batcher.hold(now, Ticket(ticket), Input::Read(Ticket(ticket)));
            });
        };
        let proposes = |batcher: &mut Batcher, at: Instant| {
            let mut inputs = Vec::new();
            batcher.propose(at, &mut inputs);
            inputs.len()
        };
        assert_eq!(proposes(&mut batcher, now), 0, "nothing is held");
        asks(&mut batcher, 1..4);
        assert_eq!(proposes(&mut batcher, now), 3);
        asks(&mut batcher, 4..5);
        assert_eq!(proposes(&mut batcher, now), 1);
        asks(&mut batcher, 5..8);
        assert_eq!(
            (proposes(&mut batcher, now), batcher.waiting()),
            (0, 3),
            "two are on their way"
        );
        batcher.answered(Ticket(2));
        assert_eq!(proposes(&mut batcher, now), 0, "the first is not answered whole");
        batcher.answered(Ticket(3));
        assert_eq!((proposes(&mut batcher, now), batcher.waiting()), (3, 0));
        asks(&mut batcher, 8..9);
        assert_eq!(batcher.due(), Some(now + HELD_MAX));
        assert_eq!(proposes(&mut batcher, now + HELD_MAX), 1, "none waits for longer");
        asks(&mut batcher, 9..10);
        assert_eq!(proposes(&mut batcher, now), 0);
        batcher.release();
        assert_eq!(proposes(&mut batcher, now), 1, "nothing is on its way any more");
    }
}
