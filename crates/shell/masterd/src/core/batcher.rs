//! What is asked, in lots: while two of them are on their way to a majority, what is asked waits and
//! becomes the next. Each lot costs every replica a write and a few messages, however large it is.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use replica::{Input, Ticket};

/// So many lots are on their way at once.
const BATCHES: usize = 2;
/// None waits longer than this.
const HELD_MAX: Duration = Duration::from_millis(2);

/// What is asked and not proposed yet, and the lots that are proposed and not answered.
#[derive(Debug)]
pub(crate) struct Batcher {
    held: Vec<Input>,
    /// Since when the first of them is held, and the ticket of the last.
    since: Instant,
    last: Ticket,
    /// The last ticket of each lot.
    proposed: VecDeque<Ticket>,
}

impl Batcher {
    pub(crate) fn new() -> Self {
        let (since, last) = (Instant::now(), Ticket(0));
        Self { held: Vec::new(), since, last, proposed: VecDeque::new() }
    }

    /// Holds something that is asked until it is proposed.
    pub(crate) fn hold(&mut self, now: Instant, ticket: Ticket, ask: Input) {
        if self.held.is_empty() {
            self.since = now;
        }
        self.last = ticket;
        self.held.push(ask);
    }

    /// How many are held.
    pub(crate) fn waiting(&self) -> usize {
        self.held.len()
    }

    /// When what is held is to be proposed, at the latest; nothing where nothing is.
    pub(crate) fn due(&self) -> Option<Instant> {
        let waits = if self.proposed.len() < BATCHES { Duration::ZERO } else { HELD_MAX };
        (!self.held.is_empty()).then(|| self.since + waits)
    }

    /// Adds what is held to what goes into the next step, where it is time.
    pub(crate) fn propose(&mut self, now: Instant, inputs: &mut Vec<Input>) {
        if self.due().is_some_and(|due| due <= now) {
            self.proposed.push_back(self.last);
            inputs.append(&mut self.held);
        }
    }

    /// What is on its way is not waited for any more.
    pub(crate) fn release(&mut self) {
        self.proposed.clear();
    }

    /// Something was answered, which is in the order in which it was asked.
    pub(crate) fn answered(&mut self, ticket: Ticket) {
        while self.proposed.pop_front_if(|last| *last <= ticket).is_some() {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_lots_are_on_their_way_and_the_third_waits_for_one_of_them_or_for_so_long() {
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
        assert_eq!(proposes(&mut batcher, now), 0, "nothing is asked");
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
