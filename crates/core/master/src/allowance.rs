//! How often a machine may describe itself anew. A description is an operation and its events in the
//! log of the whole cell, so a machine whose attributes or capacity flap must not make many.

use model::{Span, Time};

/// The time in which a machine may describe itself once more.
const INTERVAL: Span = Span::from_secs(1);
/// The maximum number of descriptions of a machine at once, after as many intervals without any.
/// Beyond it, only the last of the changes in an interval counts, and the machine's attribute
/// `changes-held-back` says so until it has been calm for as long.
const DESCRIPTIONS_MAX: u64 = 30;

/// The allowance of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Allowance {
    /// When all of it is there again.
    whole: Time,
    /// Whether a change was held back since all of it was there.
    exceeded: bool,
}

impl Allowance {
    pub(crate) fn new(now: Time) -> Self {
        Self { whole: now, exceeded: false }
    }

    /// Takes one description. The error is when there will be one.
    pub(crate) fn take(&mut self, now: Time) -> Result<(), Time> {
        let after = self.whole.max(now) + INTERVAL;
        let most = INTERVAL.saturating_mul(DESCRIPTIONS_MAX);
        if after.since(now) > most {
            self.exceeded = true;
            return Err(now + Span(after.since(now).0.saturating_sub(most.0)));
        }
        self.whole = after;
        Ok(())
    }

    /// Whether changes are held back; and when they are no more, if none follows.
    pub(crate) fn exceeded(&mut self, now: Time) -> Option<Time> {
        self.exceeded &= now < self.whole;
        self.exceeded.then_some(self.whole)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Time {
        Time::ZERO + Span::from_secs(seconds)
    }

    #[test]
    fn an_allowance_permits_a_burst_and_then_one_per_interval() {
        let mut allowance = Allowance::new(at(100));
        let taken = |allowance: &mut Allowance, now| {
            (0..1_000).take_while(|_| allowance.take(now).is_ok()).count()
        };
        assert_eq!(taken(&mut allowance, at(100)), 30);
        assert_eq!(allowance.take(at(100)), Err(at(101)));
        assert!(allowance.exceeded(at(100)).is_some());
        assert_eq!(taken(&mut allowance, at(101)), 1);
        assert_eq!(taken(&mut allowance, at(104)), 3);
        assert!(allowance.exceeded(at(133)).is_some());
        // It was calm.
        assert_eq!(allowance.exceeded(at(134)), None);
        assert_eq!(allowance.take(at(134)), Ok(()));
        assert_eq!(allowance.exceeded(at(134)), None);
        assert_eq!(taken(&mut allowance, at(10_000)), 30);
    }
}
