//! Health checks (paper, section 2.6): when to send the next one and how to interpret the results.

use model::{Span, Time};
use poll::TaskStatus;
use spec::{HealthCheck, TaskSpec};

/// The delay before the first check and the minimum between two. Until the first success the delay
/// doubles up to the check's interval, so that a task that starts quickly is soon known to be
/// healthy.
const FIRST_WAIT: Span = Span::from_millis(10);

/// How long a task of a service without a health check has to run until it is healthy: a program that
/// does not find its configuration, its libraries or its port ends before.
const SETTLING: Span = Span::from_secs(1);

/// How long after its start a task that is not healthy yet is said to be so, and why. Most tasks fail
/// their first checks, and each such text becomes a record in the cell's log.
const SILENCE: Span = Span::from_secs(5);
/// A healthy task becomes unhealthy after this many failures in a row, or as many as stop it: under load a
/// single check may be late, and the other tasks would have to take its share.
const FAILURES_UNHEALTHY: u32 = 3;
/// The maximum length of what a check said.
const TEXT_BYTES_MAX: usize = 200;

/// Which of a task's checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CheckKind {
    /// The health check: a task that fails it too often is restarted.
    Health,
    /// The readiness check: while a task fails it, clients should not come to it.
    Readiness,
}

/// What the checks of one task say since its start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Watch {
    pub(crate) health: HealthTracker,
    /// `None` if it has no readiness check.
    pub(crate) readiness: Option<HealthTracker>,
}

impl Watch {
    /// The watch of a task with the given start time; without a health check as in
    /// [`HealthTracker::new`].
    pub(crate) fn new(task: &TaskSpec, serves: bool, started: Time) -> Self {
        let ready = |check| HealthTracker::new(CheckKind::Readiness, Some(check), true, started);
        Self {
            health: HealthTracker::new(
                CheckKind::Health,
                task.health_check.as_ref(),
                serves,
                started,
            ),
            readiness: task.readiness.as_ref().map(ready),
        }
    }

    /// The tracker of a check.
    pub(crate) fn of(&mut self, kind: CheckKind) -> Option<&mut HealthTracker> {
        match kind {
            CheckKind::Health => Some(&mut self.health),
            CheckKind::Readiness => self.readiness.as_mut(),
        }
    }

    /// When the next check is due; `None` while results are pending.
    pub(crate) fn next(&self) -> Option<Time> {
        let ready = self.readiness.as_ref().and_then(HealthTracker::next);
        self.health.next().into_iter().chain(ready).min()
    }

    /// Its status: healthy if it is ready as well.
    pub(crate) fn status(&self) -> TaskStatus {
        let ready = self.readiness.as_ref().map(|ready| ready.healthy);
        match (self.health.healthy, ready) {
            (Some(true), Some(Some(false))) => TaskStatus::Unready,
            (Some(true), Some(None)) => TaskStatus::Running { healthy: None },
            (healthy, _) => TaskStatus::Running { healthy },
        }
    }

    /// Whether clients should come to it.
    pub(crate) fn is_good(&self) -> bool {
        matches!(self.status(), TaskStatus::Running { healthy: Some(true) })
    }

    /// What the check said that decides on its status.
    pub(crate) fn said(&self) -> String {
        match &self.readiness {
            Some(ready) if self.health.healthy == Some(true) => match ready.healthy {
                None if !ready.check.is_empty() => format!("not ready: {}", ready.check),
                _ => ready.check.clone(),
            },
            _ => self.health.check.clone(),
        }
    }
}

/// The state of one check of a task since its start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HealthTracker {
    kind: CheckKind,
    pub(crate) started: Time,
    next: Option<Time>,
    wait: Span,
    /// In a row.
    failures: u32,
    successes: u32,
    pub(crate) healthy: Option<bool>,
    /// What the check said that gave it its health, or why it is not healthy yet.
    pub(crate) check: String,
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
    /// The tracker of a task with the given start time. Without a check, a task that serves is healthy
    /// when it has run for [`SETTLING`], and another one as soon as it runs.
    pub(crate) fn new(
        kind: CheckKind,
        check: Option<&HealthCheck>,
        serves: bool,
        started: Time,
    ) -> Self {
        let settles = serves.then(|| started + SETTLING);
        Self {
            kind,
            started,
            next: check.map(|_| started + FIRST_WAIT).or(settles),
            wait: FIRST_WAIT,
            failures: 0,
            successes: 0,
            healthy: (check.is_none() && !serves).then_some(true),
            check: String::new(),
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

    /// It has no check, and has run for long enough.
    pub(crate) fn settled(&mut self) {
        (self.next, self.healthy) = (None, Some(true));
    }

    /// A check was sent.
    pub(crate) fn asked(&mut self) {
        self.next = None;
    }

    /// A check succeeded or failed, with what it said.
    pub(crate) fn answered(
        &mut self,
        check: &HealthCheck,
        now: Time,
        answer: &Result<String, String>,
    ) -> Verdict {
        let said = match answer {
            Ok(said) => {
                self.failures = 0;
                self.successes = self.successes.saturating_add(1);
                if self.successes >= check.successes_min {
                    self.turns(true, said);
                }
                self.wait = check.interval;
                self.next = Some(now + check.interval);
                return Verdict::Continue;
            }
            Err(said) => said,
        };
        self.successes = 0;
        let starting = self.healthy.is_none() && now.since(self.started) < check.start_grace;
        self.wait = match starting {
            true => self.wait.saturating_mul(2).min(check.interval),
            false => check.interval,
        };
        self.next = Some(now + self.wait);
        if starting {
            if self.check.is_empty() && now.since(self.started) >= SILENCE {
                self.check = shown(said);
            }
            return Verdict::Continue;
        }
        self.failures = self.failures.saturating_add(1);
        let most = match self.kind {
            CheckKind::Health => FAILURES_UNHEALTHY.min(check.failures_max),
            // Nothing else follows from its failures.
            CheckKind::Readiness => check.failures_max,
        };
        if self.healthy != Some(true) || self.failures >= most {
            self.turns(false, said);
        }
        let stops = self.kind == CheckKind::Health && self.failures >= check.failures_max;
        if stops { Verdict::Stop } else { Verdict::Continue }
    }

    /// Only a change of health has a new text: it changes the report.
    fn turns(&mut self, healthy: bool, said: &str) {
        if self.healthy != Some(healthy) {
            (self.healthy, self.check) = (Some(healthy), shown(said));
        }
    }
}

/// A text of bounded length without control characters.
fn shown(said: &str) -> String {
    let mut text = String::new();
    for c in said.chars() {
        let c = if c.is_control() { char::REPLACEMENT_CHARACTER } else { c };
        if text.len() + c.len_utf8() > TEXT_BYTES_MAX {
            break;
        }
        text.push(c);
    }
    text
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
        let mut watch = HealthTracker::new(CheckKind::Health, Some(&check), true, Time::ZERO);
        let ask = |good: &bool| {
            let now = watch.next().expect("a check is due");
            watch.asked();
            assert_eq!(watch.next(), None);
            let answer = if *good { Ok("HTTP 200") } else { Err("HTTP 503") };
            let answer = answer.map(str::to_owned).map_err(str::to_owned);
            let verdict = watch.answered(&check, now, &answer);
            (now.0 / 1_000, watch.healthy, verdict)
        };
        answers.iter().map(ask).collect()
    }

    #[test]
    fn a_service_without_a_check_is_healthy_after_a_second() {
        let mut serves = HealthTracker::new(CheckKind::Health, None, true, Time::ZERO);
        assert_eq!((serves.healthy, serves.next()), (None, Some(Time::ZERO + SETTLING)));
        serves.settled();
        assert_eq!((serves.healthy, serves.next()), (Some(true), None));
        let batch = HealthTracker::new(CheckKind::Health, None, false, Time::ZERO);
        assert_eq!((batch.healthy, batch.next()), (Some(true), None));
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
    fn a_task_that_never_answers_is_stopped_after_its_grace() {
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

    /// What the tracker reports after each of these results, a second apart.
    fn reported(
        check: &HealthCheck,
        answers: &[Result<&str, &str>],
    ) -> Vec<(Option<bool>, String)> {
        let mut watch = HealthTracker::new(CheckKind::Health, Some(check), true, Time::ZERO);
        let mut now = Time::ZERO;
        let answer = |answer: &Result<&str, &str>| {
            now = now + Span::from_secs(1);
            watch.answered(check, now, &answer.map(str::to_owned).map_err(str::to_owned));
            (watch.healthy, watch.check.clone())
        };
        answers.iter().map(answer).collect()
    }

    fn check() -> HealthCheck {
        HealthCheck::on(PortName::new("http").expect("a name"))
    }

    #[test]
    fn the_text_changes_with_the_health_and_not_with_every_check() {
        let check = HealthCheck { failures_max: 10, ..check() };
        let fails = [Err("c"), Err("d"), Err("e"), Err("f")];
        let answers = [vec![Ok("a"), Ok("b")], fails.to_vec(), vec![Ok("g"), Err("h")]].concat();
        let seen = reported(&check, &answers);
        // The third failure in a row takes it out.
        let good = [(true, "a"); 4];
        let then = [(false, "e"), (false, "e"), (true, "g"), (true, "g")];
        let expected = [good, then].concat();
        let expected = expected.into_iter().map(|(healthy, text)| (Some(healthy), text.to_owned()));
        assert_eq!(seen, expected.collect::<Vec<_>>());
    }

    #[test]
    fn an_unhealthy_task_says_why_once_after_five_seconds() {
        let answers: Vec<_> = (0..8).map(|_| Err("no answer")).collect();
        let mut answers: Vec<Result<&str, &str>> = answers;
        answers[6] = Err("another");
        let seen = reported(&check(), &answers);
        assert!(seen[..4].iter().all(|seen| *seen == (None, String::new())), "{seen:?}");
        assert!(seen[4..].iter().all(|seen| *seen == (None, "no answer".to_owned())), "{seen:?}");
    }

    #[test]
    fn a_task_is_healthy_after_enough_consecutive_successes() {
        let check = HealthCheck { successes_min: 2, start_grace: Span::ZERO, ..check() };
        let (yes, no) = (Ok(""), Err("x"));
        let seen = reported(&check, &[yes, no, yes, yes, no, yes, no, no, no, yes, yes]);
        let health: Vec<_> = seen.iter().map(|(healthy, _)| *healthy).collect();
        let (good, bad) = (Some(true), Some(false));
        assert_eq!(health, [None, bad, bad, good, good, good, good, good, bad, bad, good]);
    }

    #[test]
    fn readiness_decides_who_comes_and_never_stops() {
        let mut task = TaskSpec::of(vec!["x".to_owned()]);
        let port = PortName::new("http").expect("a name");
        task.readiness = Some(HealthCheck { failures_max: 2, ..HealthCheck::on(port) });
        let mut watch = Watch::new(&task, false, Time::ZERO);
        let check = task.readiness.clone().expect("it has one");
        let mut now = Time::ZERO;
        let answers = [Err("a"), Ok("b"), Err("c"), Err("d"), Err("e"), Ok("f")];
        let mut seen = Vec::new();
        for answer in answers {
            now = now + Span::from_secs(1);
            let tracker = watch.of(CheckKind::Readiness).expect("it has one");
            let answer = answer.map(str::to_owned).map_err(str::to_owned);
            assert_eq!(tracker.answered(&check, now, &answer), Verdict::Continue);
            seen.push((watch.status(), watch.said()));
        }
        let running = |healthy| TaskStatus::Running { healthy };
        let expected = [
            (running(None), ""),
            (running(Some(true)), "b"),
            (running(Some(true)), "b"),
            (TaskStatus::Unready, "d"),
            (TaskStatus::Unready, "d"),
            (running(Some(true)), "f"),
        ];
        assert_eq!(seen, expected.map(|(status, said)| (status, said.to_owned())));
        watch.health.healthy = Some(false);
        assert_eq!(
            watch.status(),
            running(Some(false)),
            "an unhealthy task is not merely not ready"
        );
    }

    #[test]
    fn the_text_of_a_check_is_bounded_without_control_characters() {
        assert_eq!(shown("a\tb\u{1b}[31m"), "a\u{fffd}b\u{fffd}[31m");
        let long = shown(&"é".repeat(10_000));
        assert_eq!((long.len(), long.chars().count()), (200, 100));
    }
}
