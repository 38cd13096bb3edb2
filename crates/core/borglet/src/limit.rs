//! Limits that change while a task runs: the applied limit, and when to retry applying the desired
//! one.

use model::{Resources, Span, Time};

/// The delay after the machine refused a limit, as it does for memory that is in use.
const FIRST_WAIT: Span = Span::from_secs(1);
/// The delay doubles with each refusal up to this maximum. Retries never stop, because memory may
/// be freed at any time and others count on it.
const WAIT_MAX: Span = Span::from_secs(60);

/// The limit of one instance since its start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Limit {
    /// The applied limit, as far as is known.
    pub(crate) current: Resources,
    /// Whether `current` is known for certain.
    certain: bool,
    attempt: Attempt,
}

/// The last attempt to apply another limit.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Attempt {
    /// No attempt yet, or the last one succeeded.
    Done,
    /// A result is pending.
    Pending { limit: Resources, wait: Span },
    /// The limit was not applied.
    Refused { limit: Resources, wait: Span, next: Time },
}

impl Limit {
    /// The limit of an instance started with it.
    pub(crate) fn new(current: Resources) -> Self {
        Self { current, certain: true, attempt: Attempt::Done }
    }

    /// The limit of a recovered instance: the previous Borglet may have died while changing it.
    pub(crate) fn recovered(current: Resources) -> Self {
        Self { certain: false, ..Self::new(current) }
    }

    /// When to request the target; `None` if there is nothing to do or a result is pending. A new
    /// target is due at once.
    pub(crate) fn next(&self, target: Resources) -> Option<Time> {
        match &self.attempt {
            Attempt::Pending { .. } => None,
            Attempt::Refused { limit, next, .. } if *limit == target => Some(*next),
            _ => (!self.certain || self.current != target).then_some(Time::ZERO),
        }
    }

    /// The target was requested.
    pub(crate) fn asked(&mut self, target: Resources) {
        let wait = match &self.attempt {
            Attempt::Refused { limit, wait, .. } if *limit == target => *wait,
            _ => FIRST_WAIT,
        };
        self.attempt = Attempt::Pending { limit: target, wait };
    }

    /// The limit that is applied now; `None` if unknown.
    pub(crate) fn answered(&mut self, now: Time, current: Option<Resources>) {
        let Attempt::Pending { limit, wait } = self.attempt else { return };
        (self.current, self.certain) = (current.unwrap_or(self.current), current.is_some());
        self.attempt = if current == Some(limit) {
            Attempt::Done
        } else {
            let next = now + wait;
            Attempt::Refused { limit, wait: wait.saturating_mul(2).min(WAIT_MAX), next }
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{Bytes, MilliCores};

    fn limit(cpu: u64, ram: u64) -> Resources {
        Resources { cpu: MilliCores(cpu), ram: Bytes(ram), ..Resources::default() }
    }

    /// Makes each attempt when it is due, with the given results; returns the times (s).
    fn moments(mut held: Limit, target: Resources, answers: &[Option<Resources>]) -> Vec<u64> {
        let mut now = Time::ZERO;
        let attempt = |answer: &Option<Resources>| {
            now = now.max(held.next(target).expect("a try is due"));
            held.asked(target);
            assert_eq!(held.next(target), None, "one try at a time");
            held.answered(now, *answer);
            now.0 / 1_000_000
        };
        let moments = answers.iter().map(attempt).collect();
        assert_eq!(held.next(target), None, "in the end the target is applied");
        moments
    }

    #[test]
    fn a_refused_limit_is_retried_with_growing_waits() {
        let (from, to) = (limit(100, 64), limit(200, 16));
        let refused = Some(limit(200, 64));
        let table: [(&[Option<Resources>], &[u64]); 3] = [
            (&[Some(to)], &[0]),
            (&[refused, None, Some(to)], &[0, 1, 3]),
            (
                &[refused, None, None, refused, None, None, None, None, None, Some(to)],
                &[0, 1, 3, 7, 15, 31, 63, 123, 183, 243],
            ),
        ];
        for (answers, expected) in table {
            assert_eq!(moments(Limit::new(from), to, answers), expected);
        }
    }

    #[test]
    fn a_new_limit_is_tried_at_once_unless_already_in_force() {
        let (from, less, more) = (limit(100, 64), limit(100, 16), limit(100, 96));
        let mut held = Limit::new(from);
        assert_eq!(held.next(from), None);
        held.asked(less);
        assert_eq!(held.next(more), None, "not before the answer");
        held.answered(Time(7), Some(from));
        assert_eq!(held.next(less), Some(Time(1_000_007)));
        assert_eq!(held.next(more), Some(Time::ZERO));
        assert_eq!(held.next(from), None);
        held.asked(more);
        held.answered(Time(8), Some(more));
        assert_eq!((held.current, held.next(more)), (more, None));
        held.answered(Time(9), Some(less));
        assert_eq!(held.current, more, "nothing was asked");
    }

    #[test]
    fn an_uncertain_limit_is_set_again() {
        let (from, to) = (limit(100, 64), limit(100, 16));
        assert_eq!(moments(Limit::recovered(from), from, &[None, Some(from)]), [0, 1]);
        assert_eq!(moments(Limit::recovered(from), to, &[Some(to)]), [0]);
        let mut held = Limit::new(from);
        held.asked(to);
        held.answered(Time(7), None);
        assert_eq!(held.next(from), Some(Time::ZERO), "it may have been done");
        assert_eq!(held.current, from);
    }
}
