//! Limits that change while a task runs: what it is held to, and when to try for what is wanted.

use model::{Resources, Span, Time};

/// The wait after the machine refused a limit, as it does with memory that is in use.
const FIRST_WAIT: Span = Span::from_secs(1);
/// The wait doubles with each further refusal up to this: there is no end to the tries, because
/// memory may come free at any time and somebody counts on it.
const WAIT_MAX: Span = Span::from_secs(60);

/// One instance's limit, followed from its start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Limit {
    /// What the machine holds it to, as far as is known.
    pub(crate) present: Resources,
    /// Whether that is known for certain.
    certain: bool,
    attempt: Attempt,
}

/// The last attempt to hold it to something else.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Attempt {
    /// There was none, or it went well.
    Done,
    /// An answer is awaited.
    Asked { limit: Resources, wait: Span },
    /// It was not done.
    Refused { limit: Resources, wait: Span, next: Time },
}

impl Limit {
    /// That of one that is started with it.
    pub(crate) fn new(present: Resources) -> Self {
        Self { present, certain: true, attempt: Attempt::Done }
    }

    /// That of one that was found: whoever held it to this may have died while changing it.
    pub(crate) fn found(present: Resources) -> Self {
        Self { certain: false, ..Self::new(present) }
    }

    /// When to try for what is wanted; nothing where there is nothing to do, or while an answer is
    /// awaited. What was not tried yet is due at once.
    pub(crate) fn next(&self, wanted: Resources) -> Option<Time> {
        match &self.attempt {
            Attempt::Asked { .. } => None,
            Attempt::Refused { limit, next, .. } if *limit == wanted => Some(*next),
            _ => (!self.certain || self.present != wanted).then_some(Time::ZERO),
        }
    }

    /// What is wanted has been asked for.
    pub(crate) fn asked(&mut self, wanted: Resources) {
        let wait = match &self.attempt {
            Attempt::Refused { limit, wait, .. } if *limit == wanted => *wait,
            _ => FIRST_WAIT,
        };
        self.attempt = Attempt::Asked { limit: wanted, wait };
    }

    /// What it is held to now; none where that is not known.
    pub(crate) fn answered(&mut self, now: Time, present: Option<Resources>) {
        let Attempt::Asked { limit, wait } = self.attempt else { return };
        (self.present, self.certain) = (present.unwrap_or(self.present), present.is_some());
        self.attempt = if present == Some(limit) {
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

    /// Tries whenever it is due, with answers as told; gives the moments (s).
    fn moments(mut held: Limit, wanted: Resources, answers: &[Option<Resources>]) -> Vec<u64> {
        let mut now = Time::ZERO;
        let attempt = |answer: &Option<Resources>| {
            now = now.max(held.next(wanted).expect("a try is due"));
            held.asked(wanted);
            assert_eq!(held.next(wanted), None, "one try at a time");
            held.answered(now, *answer);
            now.0 / 1_000_000
        };
        let moments = answers.iter().map(attempt).collect();
        assert_eq!(held.next(wanted), None, "in the end it is as wanted");
        moments
    }

    #[test]
    fn what_is_refused_is_tried_again_later_and_later() {
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
    fn something_else_is_tried_at_once_and_nothing_where_it_is_so_already() {
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
        assert_eq!((held.present, held.next(more)), (more, None));
        held.answered(Time(9), Some(less));
        assert_eq!(held.present, more, "nothing was asked");
    }

    #[test]
    fn what_is_not_known_for_certain_is_set_again() {
        let (from, to) = (limit(100, 64), limit(100, 16));
        assert_eq!(moments(Limit::found(from), from, &[None, Some(from)]), [0, 1]);
        assert_eq!(moments(Limit::found(from), to, &[Some(to)]), [0]);
        let mut held = Limit::new(from);
        held.asked(to);
        held.answered(Time(7), None);
        assert_eq!(held.next(from), Some(Time::ZERO), "it may have been done");
        assert_eq!(held.present, from);
    }
}
