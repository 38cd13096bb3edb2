//! The requests and answers of clients, and whether they are consistent.
//!
//! Each job is a key. The requests for it have to be linearizable; plain reads are checked by the
//! index that they state.

use std::collections::HashSet;
use std::fmt;
use std::time::Duration;

/// A description of a job: each submission has a different one.
pub(crate) type Version = u64;

/// The state of a job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum Job {
    #[default]
    Absent,
    Alive(Version),
    Dead(Version),
}

/// A client's request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    /// A job with a description, either new or an update.
    Submit(Version),
    Kill,
    /// A linearizable read.
    Read,
}

/// An answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Created,
    Updated,
    /// Whether anything was alive.
    Killed(bool),
    NoSuchJob,
    Found(Job),
}

impl Job {
    /// Applies a request, and returns its answer.
    fn does(&mut self, asked: Asked) -> Answer {
        let (after, answer) = match (asked, *self) {
            (Asked::Submit(version), Self::Alive(_)) => (Self::Alive(version), Answer::Updated),
            (Asked::Submit(version), _) => (Self::Alive(version), Answer::Created),
            (Asked::Kill, Self::Absent) => (Self::Absent, Answer::NoSuchJob),
            (Asked::Kill, Self::Alive(version)) => (Self::Dead(version), Answer::Killed(true)),
            (Asked::Kill, Self::Dead(version)) => (Self::Dead(version), Answer::Killed(false)),
            (Asked::Read, job) => (job, Answer::Found(job)),
        };
        *self = after;
        answer
    }
}

/// A request with its times.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Operation {
    pub(crate) asked: Asked,
    pub(crate) called: Duration,
    /// The newest index that any client had seen before it.
    pub(crate) after: u64,
    /// When the answer came; `None` if none came, so that it may take effect at any time or never.
    pub(crate) answered: Option<Answered>,
}

/// An answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Answered {
    pub(crate) at: Duration,
    pub(crate) answer: Answer,
    /// The index in the answer: its effect is there or earlier.
    pub(crate) index: u64,
}

/// The result of a plain read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen {
    pub(crate) index: u64,
    pub(crate) job: Job,
}

/// All requests for one job.
#[derive(Clone, Debug, Default)]
pub(crate) struct History {
    pub(crate) operations: Vec<Operation>,
    pub(crate) seen: Vec<Seen>,
}

/// A violation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Wrong {
    /// No order of the requests explains the answers.
    NotLinearisable,
    /// A read shows the effect of a later request.
    AheadOfItsIndex { index: u64, job: Job },
    /// A read shows a state that had been replaced by then.
    BehindItsIndex { index: u64, job: Job },
    /// Reads that no single history explains.
    Contradict { index: u64, one: Job, other: Job },
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotLinearisable => f.write_str("no order explains what was answered"),
            Self::AheadOfItsIndex { index, job } => {
                write!(f, "at {index} {job:?} is shown, which nobody had asked for yet")
            }
            Self::BehindItsIndex { index, job } => {
                write!(f, "at {index} {job:?} is shown, which was over by then")
            }
            Self::Contradict { index, one, other } => {
                write!(f, "at {index} {other:?} is shown, and {one:?} before")
            }
        }
    }
}

impl History {
    /// The first violation.
    pub(crate) fn wrong(&self) -> Option<Wrong> {
        if !self.is_linearisable() {
            return Some(Wrong::NotLinearisable);
        }
        self.ahead_or_behind().or_else(|| self.contradiction())
    }

    /// Whether the operations, in some order, give the recorded answers: an order in which each
    /// takes effect between its call and its answer, and those without an answer at any time after
    /// their call or never. A search over all orders (Wing and Gong), which visits no state twice
    /// (Lowe).
    fn is_linearisable(&self) -> bool {
        let operations = &self.operations;
        assert!(operations.len() <= 128, "a history is short");
        let all = |wanted: &dyn Fn(&Operation) -> bool| -> u128 {
            let numbered = (0..).zip(operations).filter(|(_, operation)| wanted(operation));
            numbered.map(|(number, _): (u32, _)| 1 << number).sum()
        };
        let answered = all(&|operation| operation.answered.is_some());
        // The operations that were answered before each was called.
        let before: Vec<u128> = operations
            .iter()
            .map(|this| all(&|other| other.answered.is_some_and(|other| other.at < this.called)))
            .collect();
        let (mut seen, mut open) = (HashSet::new(), vec![(0, Job::Absent)]);
        while let Some((done, job)) = open.pop() {
            if answered & !done == 0 {
                return true;
            }
            for (number, operation) in operations.iter().enumerate() {
                let this = 1 << number;
                let mut after = job;
                let answer = after.does(operation.asked);
                let fits = operation.answered.is_none_or(|answered| answered.answer == answer);
                let may_be_next = done & this == 0 && before[number] & !done == 0;
                if may_be_next && fits && seen.insert((done | this, after)) {
                    open.push((done | this, after));
                }
            }
        }
        false
    }

    /// Every read with its index.
    fn reads(&self) -> Vec<(u64, Job)> {
        let consistent = self.operations.iter().filter_map(|operation| {
            let answered = operation.answered?;
            let Answer::Found(job) = answered.answer else { return None };
            Some((answered.index, job))
        });
        let plain = self.seen.iter().map(|seen| (seen.index, seen.job));
        let mut reads: Vec<_> = consistent.chain(plain).collect();
        reads.sort_by_key(|(index, _)| *index);
        reads
    }

    fn submission(&self, version: Version) -> Option<&Operation> {
        self.operations.iter().find(|operation| operation.asked == Asked::Submit(version))
    }

    fn ahead_or_behind(&self) -> Option<Wrong> {
        for (index, job) in self.reads() {
            let (Job::Alive(version) | Job::Dead(version)) = job else {
                if self.effects_by(index).next().is_some() {
                    return Some(Wrong::BehindItsIndex { index, job });
                }
                continue;
            };
            let shown = self.submission(version);
            let Some(shown) = shown.filter(|shown| shown.after < index) else {
                return Some(Wrong::AheadOfItsIndex { index, job });
            };
            // A request made after this one was acknowledged is later.
            let over = shown.answered.is_some_and(|acknowledged| {
                self.effects_by(index).any(|(effect, _)| {
                    let is_submission = matches!(effect.asked, Asked::Submit(_));
                    effect.called > acknowledged.at && (is_submission || job == Job::Alive(version))
                })
            });
            if over {
                return Some(Wrong::BehindItsIndex { index, job });
            }
        }
        None
    }

    /// The acknowledged operations on the job at an index or before.
    fn effects_by(&self, index: u64) -> impl Iterator<Item = (&Operation, &Answered)> {
        let answered = |operation: &'_ Operation| operation.answered.is_some();
        self.operations.iter().filter(move |operation| answered(operation)).filter_map(
            move |operation| {
                let answered = operation.answered.as_ref()?;
                let effect = matches!(
                    answered.answer,
                    Answer::Created | Answer::Updated | Answer::Killed(true)
                );
                (effect && answered.index <= index).then_some((operation, answered))
            },
        )
    }

    /// Whether one version was acknowledged before another was requested.
    fn is_before(&self, one: Job, other: Job) -> bool {
        let (Job::Alive(one) | Job::Dead(one), Job::Alive(other) | Job::Dead(other)) = (one, other)
        else {
            return false;
        };
        let acknowledged = self.submission(one).and_then(|one| one.answered);
        let asked = self.submission(other);
        acknowledged.zip(asked).is_some_and(|(one, other)| one.at < other.called)
    }

    /// Ordered by index, reads go from one version to the next and never back.
    fn contradiction(&self) -> Option<Wrong> {
        let mut before: Option<(u64, Job)> = None;
        let mut gone: Vec<Job> = Vec::new();
        for (index, job) in self.reads() {
            if let Some((last, one)) = before
                && one != job
            {
                gone.push(one);
                if let Job::Dead(version) = one {
                    gone.push(Job::Alive(version));
                }
                if last == index || gone.contains(&job) || self.is_before(job, one) {
                    return Some(Wrong::Contradict { index, one, other: job });
                }
            }
            before = Some((index, job));
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Parses a history from lines such as `1 0-5 submit 7 created @3`: client, call to answer,
    /// request, answer, index. An operation without an end has no answer. `sees` is a plain read.
    fn history(lines: &str) -> History {
        let mut history = History::default();
        for line in lines.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let words: Vec<&str> = line.split_whitespace().collect();
            let (time, rest) = (words[1], &words[2..]);
            let index = |word: &str| word[1..].parse().expect("an index");
            if rest[0] == "sees" {
                let job = job(&rest[1..rest.len() - 1]);
                history.seen.push(Seen { index: index(rest[rest.len() - 1]), job });
                continue;
            }
            let (from, to) = time.split_once('-').expect("a span");
            let second = |text: &str| Duration::from_secs(text.parse().expect("a time"));
            let (asked, rest) = match rest[0] {
                "submit" => (Asked::Submit(rest[1].parse().expect("a version")), &rest[2..]),
                "kill" => (Asked::Kill, &rest[1..]),
                _ => (Asked::Read, &rest[1..]),
            };
            let answer = |words: &[&str]| match words[0] {
                "created" => Answer::Created,
                "updated" => Answer::Updated,
                "killed" => Answer::Killed(true),
                "dead" if asked == Asked::Kill => Answer::Killed(false),
                "none" if asked == Asked::Kill => Answer::NoSuchJob,
                _ => Answer::Found(job(&words[..words.len() - 1])),
            };
            let answered = (!to.is_empty()).then(|| Answered {
                at: second(to),
                answer: answer(rest),
                index: index(rest[rest.len() - 1]),
            });
            let called = second(from);
            let before = history.operations.iter().filter_map(|operation| operation.answered);
            let heard = before.filter(|before| before.at <= called).map(|before| before.index);
            let after = heard.max().unwrap_or_default();
            history.operations.push(Operation { asked, called, after, answered });
        }
        history
    }

    fn job(words: &[&str]) -> Job {
        match words {
            ["alive", version] => Job::Alive(version.parse().expect("a version")),
            ["dead", version] => Job::Dead(version.parse().expect("a version")),
            _ => Job::Absent,
        }
    }

    #[test]
    fn histories_that_can_be_true_pass() {
        for lines in [
            "1 0-1 submit 7 created @3
             2 2-3 read alive 7 @3
             1 4-5 submit 8 updated @4
             1 6-7 kill killed @5
             2 8-9 read dead 8 @6
             2 10-11 kill dead @7
             1 12-13 submit 9 created @8",
            // Overlapping operations may be in any order.
            "1 0-9 submit 7 created @3
             2 1-2 read none @2
             2 3-4 read alive 7 @3",
            // An unanswered operation may take effect later, or never.
            "1 0-1 submit 7 created @3
             1 2- submit 8
             2 3-4 read alive 7 @4
             2 5-6 read alive 8 @9
             3 0 sees alive 7 @5
             3 0 sees alive 8 @8",
            "1 0- submit 7
             2 3-4 read none @4
             2 5-6 kill none @5",
            // A plain read may be stale.
            "1 0-1 submit 7 created @3
             1 2-3 submit 8 updated @5
             2 0 sees none @2
             2 0 sees alive 7 @4
             2 0 sees alive 8 @5",
        ] {
            assert_eq!(history(lines).wrong(), None, "{lines}");
        }
    }

    #[test]
    fn a_lost_write_is_found() {
        for lines in [
            "1 0-1 submit 7 created @3
             1 2-3 submit 8 updated @4
             2 4-5 read alive 7 @5",
            "1 0-1 submit 7 created @3
             2 2-3 read none @5",
            "1 0-1 submit 7 created @3
             1 2-3 kill killed @4
             1 4-5 kill killed @5",
            "1 0-1 submit 7 created @3
             1 2-3 submit 8 created @4",
        ] {
            assert_eq!(history(lines).wrong(), Some(Wrong::NotLinearisable), "{lines}");
        }
    }

    #[test]
    fn a_stale_consistent_read_is_found() {
        let lines = "1 0-1 submit 7 created @3
                     1 2-3 kill killed @4
                     2 4-5 read alive 7 @3";
        assert_eq!(history(lines).wrong(), Some(Wrong::NotLinearisable));
        // A kill that found nothing although there was something.
        let lines = "1 0-1 submit 7 created @3
                     2 2-3 kill none @2";
        assert_eq!(history(lines).wrong(), Some(Wrong::NotLinearisable));
        // Something that was read once stays visible.
        let lines = "1 0-1 submit 7 created @3
                     1 2- submit 8
                     2 3-4 read alive 8 @4
                     3 5-6 read alive 7 @4";
        assert_eq!(history(lines).wrong(), Some(Wrong::NotLinearisable));
    }

    #[test]
    fn a_plain_read_that_is_not_of_its_index_is_found() {
        let wrong = |lines| history(lines).wrong();
        let (index, alive) = (2, Job::Alive);
        let lines = "1 0-1 submit 6 created @3
                     1 2-3 submit 7 updated @5
                     2 0 sees alive 7 @2";
        assert_eq!(wrong(lines), Some(Wrong::AheadOfItsIndex { index, job: alive(7) }));
        let lines = "1 0-1 submit 6 created @3
                     1 2-3 submit 7 updated @5
                     2 0 sees alive 6 @6";
        assert_eq!(wrong(lines), Some(Wrong::BehindItsIndex { index: 6, job: alive(6) }));
        let lines = "1 0-1 submit 6 created @3
                     2 0 sees none @4";
        assert_eq!(wrong(lines), Some(Wrong::BehindItsIndex { index: 4, job: Job::Absent }));
        let lines = "1 0-1 submit 6 created @3
                     1 2- submit 7
                     2 0 sees alive 7 @4
                     3 0 sees alive 6 @5";
        let (index, one, other) = (5, alive(7), alive(6));
        assert_eq!(wrong(lines), Some(Wrong::Contradict { index, one, other }));
    }
}
