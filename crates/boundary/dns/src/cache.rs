//! The names that were asked for at a replica, with their answers.

use std::collections::BTreeMap;
use std::mem;

use model::{JobName, LogIndex, Span, TaskIndex, Time, UserName};

use crate::names::{Answer, Lookup};
use crate::question::Question;

/// The limits of a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheLimits {
    /// The most questions.
    pub questions: usize,
    /// The most endpoints in all answers together.
    pub endpoints: usize,
    /// How long an answer is used without asking again, unless a change is known earlier.
    pub ttl: Span,
}

impl Default for CacheLimits {
    /// 10,000 questions, 200,000 endpoints, 5 s.
    fn default() -> Self {
        Self { questions: 10_000, endpoints: 200_000, ttl: Span::from_secs(5) }
    }
}

/// Answers by question, the least recently used of which are removed when there are too many. Answers
/// that a name does not exist are stored, too.
///
/// Each answer holds at an index of the log. An answer is never followed by one of a lower index, even
/// if it was removed in between.
#[derive(Clone, Debug)]
pub struct Cache {
    limits: CacheLimits,
    entries: BTreeMap<Question, Entry>,
    /// The questions in order of their last use, the least recent first.
    uses: BTreeMap<u64, Question>,
    next_use: u64,
    endpoints: usize,
    /// The highest index of a removed entry and of a change: what is not stored may not be older.
    removed: LogIndex,
}

#[derive(Clone, Debug)]
struct Entry {
    answer: Answer,
    /// Where in the log it holds, or changed.
    index: LogIndex,
    learnt: Time,
    /// Whether the name changed after the answer.
    outdated: bool,
    used: u64,
}

impl Entry {
    /// The name changed.
    fn change(&mut self, index: LogIndex) {
        if self.index < index {
            (self.index, self.outdated) = (index, true);
        }
    }
}

impl Cache {
    /// An empty cache.
    #[must_use]
    pub fn new(limits: CacheLimits) -> Self {
        Self {
            limits,
            entries: BTreeMap::new(),
            uses: BTreeMap::new(),
            next_use: 0,
            endpoints: 0,
            removed: LogIndex(0),
        }
    }

    /// Stores the answer of a replica, which holds at `index`. An answer older than what is known is
    /// ignored, and so is one with more endpoints than the cache may have.
    pub fn learn(&mut self, question: Question, answer: Answer, index: LogIndex, now: Time) {
        let known = self.entries.get(&question).map_or(self.removed, |entry| entry.index);
        if index < known {
            return;
        }
        self.remove(&question);
        if self.limits.questions == 0 || answer.len() > self.limits.endpoints {
            self.removed = self.removed.max(index);
            return;
        }
        self.endpoints += answer.len();
        let used = self.next_use;
        self.next_use += 1;
        self.uses.insert(used, question.clone());
        let entry = Entry { answer, index, learnt: now, outdated: false, used };
        self.entries.insert(question, entry);
        while self.entries.len() > self.limits.questions || self.endpoints > self.limits.endpoints {
            let Some((_, least)) = self.uses.first_key_value() else { break };
            let least = least.clone();
            self.remove(&least);
        }
    }

    /// Notes that a job changed at `index`: its older answers, those of its tasks and of its user are
    /// used only while no replica answers. Answers that are under way and older are not stored.
    pub fn changed(&mut self, user: &UserName, job: &JobName, index: LogIndex) {
        self.removed = self.removed.max(index);
        let task = |index| Question::Task { user: user.clone(), job: job.clone(), index };
        let tasks = task(TaskIndex(0))..=task(TaskIndex(u32::MAX));
        for (_, entry) in self.entries.range_mut(tasks) {
            entry.change(index);
        }
        let whole = Question::Job { user: user.clone(), job: job.clone() };
        for question in [whole, Question::User(user.clone())] {
            if let Some(entry) = self.entries.get_mut(&question) {
                entry.change(index);
            }
        }
    }

    /// The stored answer to a question: the current one, or while no replica answers the last known
    /// one.
    pub fn get(&mut self, question: &Question, now: Time, master_reachable: bool) -> Lookup {
        let Some(entry) = self.entries.get_mut(question) else { return Lookup::Missing };
        let last = mem::replace(&mut entry.used, self.next_use);
        if let Some(question) = self.uses.remove(&last) {
            self.uses.insert(self.next_use, question);
        }
        self.next_use += 1;
        if !entry.outdated && now.since(entry.learnt) < self.limits.ttl {
            Lookup::Fresh(entry.answer.clone())
        } else if master_reachable {
            Lookup::Missing
        } else {
            Lookup::Stale(entry.answer.clone())
        }
    }

    /// The number of questions.
    #[must_use]
    pub fn questions(&self) -> usize {
        self.entries.len()
    }

    /// The number of endpoints in all answers together.
    #[must_use]
    pub fn endpoints(&self) -> usize {
        self.endpoints
    }

    fn remove(&mut self, question: &Question) {
        if let Some(entry) = self.entries.remove(question) {
            self.uses.remove(&entry.used);
            self.endpoints -= entry.answer.len();
            self.removed = self.removed.max(entry.index);
        }
    }
}
