//! Health checks (paper, section 2.6): when to send the next one and how to interpret the results.

use model::{Span, Time};
use spec::HealthCheck;

/// The delay before the first check and the minimum between two. Until the first success the delay
/// doubles up to the check's interval, so that a task that starts quickly is soon known to be
/// healthy.
const FIRST_WAIT: Span = Span::from_millis(10);

/// The health of one task since its start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HealthTracker {
    pub(crate) started: Time,
    next: Option<Time>,
    wait: Span,
    failures: u32,
    pub(crate) healthy: Option<bool>,
}

/// What a check's result means for the task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The task may continue.
    Continue,
    /// The check failed too often: the task must be stopped.
    Stop,
}

impl HealthTracker {
    /// The tracker of a task with the given start time. Without a check the task is healthy while
    /// it runs.
    pub(crate) fn new(check: Option<&HealthCheck>, started: Time) -> Self {
        Self {
            started,
            next: check.map(|_| started + FIRST_WAIT),
            wait: FIRST_WAIT,
            failures: 0,
            healthy: check.is_none().then_some(true),
        }
    }

    /// Whether the task was started within `span`, or has a check and was never healthy.
    pub(crate) fn is_starting(&self, now: Time, span: Span) -> bool {
        self.healthy.is_none() || now.since(self.started) < span
    }

    /// When to send the next check; `None` while a result is pending.
    pub(crate) fn next(&self) -> Option<Time> {
        self.next
    }

    /// A check was sent.
    pub(crate) fn asked(&mut self) {
        self.next = None;
    }

    /// A check succeeded or failed.
    pub(crate) fn answered(&mut self, check: &HealthCheck, now: Time, good: bool) -> Verdict {
        if good {
            self.failures = 0;
            self.healthy = Some(true);
            self.wait = check.interval;
            self.next = Some(now + check.interval);
            return Verdict::Continue;
        }
        let starting = self.healthy.is_none() && now.since(self.started) < check.start_grace;
        self.wait = match starting {
            true => self.wait.saturating_mul(2).min(check.interval),
            false => check.interval,
        };
        self.next = Some(now + self.wait);
        if starting {
            return Verdict::Continue;
        }
        self.failures += 1;
        self.healthy = Some(false);
        if self.failures >= check.failures_max { Verdict::Stop } else { Verdict::Continue }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::PortName;

    /// Sends each check when it is due, with the given results; returns the times (ms), the health
    /// and the verdicts.
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
        use Verdict::Continue;
        let seen = history(&[false, false, true, true]);
        let expected = [
            (10, None, Continue),
            (30, None, Continue),
            (70, Some(true), Continue),
            (1_070, Some(true), Continue),
        ];
        assert_eq!(seen, expected);
    }

    #[test]
    fn one_that_never_answers_is_given_up_after_its_grace() {
        use Verdict::{Continue, Stop};
        let seen = history(&[false; 7]);
        let expected = [
            (10, None, Continue),
            (30, None, Continue),
            (70, None, Continue),
            (150, Some(false), Continue),
            (1_150, Some(false), Continue),
            (2_150, Some(false), Stop),
        ];
        assert_eq!(seen[..6], expected);
    }

    #[test]
    fn failures_count_only_in_a_row() {
        let seen = history(&[true, false, false, true, false, false, false]);
        let verdicts: Vec<bool> =
            seen.iter().map(|(_, _, verdict)| *verdict == Verdict::Stop).collect();
        assert_eq!(verdicts, [false, false, false, false, false, false, true]);
    }
}
