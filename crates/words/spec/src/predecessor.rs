//! Jobs that another one runs after, and how they have to end.

use std::fmt;
use std::str::FromStr;

use model::NameError;
use thiserror::Error;

use crate::JobReference;

/// How a job has to end for those that run after it to start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EndCondition {
    /// It has to finish.
    #[default]
    Finished,
    /// It has to end, however that is.
    Ended,
    /// It has to end without finishing: it fails, or is killed.
    Failed,
}

impl EndCondition {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Finished, Self::Ended, Self::Failed];

    /// Its word in descriptions.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Finished => "finished",
            Self::Ended => "ended",
            Self::Failed => "failed",
        }
    }

    /// The condition of a word.
    #[must_use]
    pub fn find(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|condition| condition.name() == word)
    }
}

/// A job that another one runs after (trace v3, "run after"). As text: `extract`, `ana/load:ended`,
/// `extract:each-task`, `extract:ended:each-task`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Predecessor {
    /// Which.
    pub job: JobReference,
    /// How it has to end.
    pub when: EndCondition,
    /// Whether each task waits for the task of the same index only, and not for the whole job.
    pub each_task: bool,
}

/// The word for a wait of each task for one task.
const EACH_TASK: &str = "each-task";

/// A text is no predecessor.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PredecessorError {
    /// It names no job.
    #[error(transparent)]
    Name(#[from] NameError),
    /// What follows the name is no condition.
    #[error("'{}' is no condition of a job to run after: write finished, ended, failed or each-task", .0.escape_debug())]
    NoSuchCondition(String),
}

impl Predecessor {
    /// A job that has to finish.
    #[must_use]
    pub fn finished(job: JobReference) -> Self {
        Self { job, when: EndCondition::Finished, each_task: false }
    }
}

impl FromStr for Predecessor {
    type Err = PredecessorError;

    fn from_str(text: &str) -> Result<Self, PredecessorError> {
        let mut parts = text.split(':');
        let job = parts.next().unwrap_or_default().parse()?;
        let mut predecessor = Self::finished(job);
        for word in parts {
            match EndCondition::find(word) {
                Some(when) => predecessor.when = when,
                None if word == EACH_TASK => predecessor.each_task = true,
                None => return Err(PredecessorError::NoSuchCondition(word.to_owned())),
            }
        }
        Ok(predecessor)
    }
}

impl fmt::Display for Predecessor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.job.fmt(f)?;
        if self.when != EndCondition::default() {
            write!(f, ":{}", self.when.name())?;
        }
        if self.each_task {
            write!(f, ":{EACH_TASK}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn predecessors_are_read_and_written_as_text() {
        for (text, shown) in [
            ("extract", "extract"),
            ("ana/extract:finished", "ana/extract"),
            ("load:ended", "load:ended"),
            ("load:failed", "load:failed"),
            ("load:each-task", "load:each-task"),
            ("load:each-task:ended", "load:ended:each-task"),
            (
                "load:soon",
                "'soon' is no condition of a job to run after: write finished, ended, failed or each-task",
            ),
            (
                "load:",
                "'' is no condition of a job to run after: write finished, ended, failed or each-task",
            ),
            (":ended", "a job name cannot be empty"),
        ] {
            let read = text.parse::<Predecessor>();
            let is = read.map_or_else(|error| error.to_string(), |read| read.to_string());
            assert_eq!(is, shown, "{text}");
            if let Ok(read) = text.parse::<Predecessor>() {
                assert_eq!(read.to_string().parse(), Ok(read));
            }
        }
    }
}
