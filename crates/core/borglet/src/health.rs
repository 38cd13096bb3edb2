//! Health checks (paper, section 2.6): when to ask next, and what the answers mean.

use model::{Span, Time};
use spec::HealthCheck;

/// The wait before the first check, and the shortest between two. Until the first good answer the
/// wait doubles up to the check's interval, so that a task that is quick to start is soon seen as
/// healthy.
const FIRST_WAIT: Span = Span::from_millis(10);

/// One task's health, followed from its start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HealthTracker {
    started: Time,
    next: Option<Time>,
    wait: Span,
    failures: u32,
    pub(crate) healthy: Option<bool>,
}

/// What an answer means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It may run on.
    Fine,
    /// It has failed too often: it is to be stopped.
    Hopeless,
}

impl HealthTracker {
    /// A task that started at a moment. Without a check it is healthy as long as it runs.
    pub(crate) fn new(check: Option<&HealthCheck>, started: Time) -> Self {
        Self {
            started,
            next: check.map(|_| started + FIRST_WAIT),
            wait: FIRST_WAIT,
            failures: 0,
            healthy: check.is_none().then_some(true),
        }
    }

    /// When to ask next; nothing while an answer is awaited.
    pub(crate) fn next(&self) -> Option<Time> {
        self.next
    }

    /// The check has been sent.
    pub(crate) fn asked(&mut self) {
        self.next = None;
    }

    /// An answer came, or did not.
    pub(crate) fn answered(&mut self, check: &HealthCheck, now: Time, good: bool) -> Verdict {
        if good {
            self.failures = 0;
            self.healthy = Some(true);
            self.wait = check.interval;
            self.next = Some(now + check.interval);
            return Verdict::Fine;
        }
        let starting = self.healthy.is_none() && now.since(self.started) < check.start_grace;
        self.wait = match starting {
            true => self.wait.saturating_mul(2).min(check.interval),
            false => check.interval,
        };
        self.next = Some(now + self.wait);
        if starting {
            return Verdict::Fine;
        }
        self.failures += 1;
        self.healthy = Some(false);
        if self.failures >= check.failures_max { Verdict::Hopeless } else { Verdict::Fine }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::PortName;

    /// Asks whenever it is due and answers as told; gives the moments (ms) and what was thought.
    fn history(answers: &[bool]) -> Vec<(u64, Option<bool>, Verdict)> {
        let mut check = HealthCheck::on(PortName::new("http").expect("a name"));
        check.start_grace = Span::from_millis(100);
        let mut watch = HealthTracker::new(Some(&check), Time::ZERO);
        let ask = |good: &bool| {
            let now = watch.next().expect("a check is due");
            watch.asked();
            assert_eq!(watch.next(), None);
            let verdict = watch.answered(&check, now, *good);
            (now.0 / 1_000, watch.healthy, verdict)
        };
        answers.iter().map(ask).collect()
    }

    #[test]
    fn a_quick_task_is_soon_healthy_and_then_asked_at_its_interval() {
        use Verdict::Fine;
        let seen = history(&[false, false, true, true]);
        let expected =
            [(10, None, Fine), (30, None, Fine), (70, Some(true), Fine), (1_070, Some(true), Fine)];
        assert_eq!(seen, expected);
    }

    #[test]
    fn one_that_never_answers_is_given_up_after_its_grace() {
        use Verdict::{Fine, Hopeless};
        let seen = history(&[false; 7]);
        let expected = [
            (10, None, Fine),
            (30, None, Fine),
            (70, None, Fine),
            (150, Some(false), Fine),
            (1_150, Some(false), Fine),
            (2_150, Some(false), Hopeless),
        ];
        assert_eq!(seen[..6], expected);
    }

    #[test]
    fn failures_count_only_in_a_row() {
        let seen = history(&[true, false, false, true, false, false, false]);
        let verdicts: Vec<bool> =
            seen.iter().map(|(_, _, verdict)| *verdict == Verdict::Hopeless).collect();
        assert_eq!(verdicts, [false, false, false, false, false, false, true]);
    }
}
