//! Addresses of jobs and tasks, in the one form used everywhere (`ana/web`, `ana/web/7`,
//! `web/0-4,9`). Without a user, the address refers to the caller's own job.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

use crate::{JobName, NameError, TaskIndex, UserName};

/// A selection of a job's tasks: all, or ranges of indexes.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub enum TaskSelection {
    /// Every task.
    #[default]
    All,
    /// The tasks in any of the inclusive ranges.
    Some(Vec<(TaskIndex, TaskIndex)>),
}

/// The address of a job or of some of its tasks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// The owner; `None` stands for the caller.
    pub user: Option<UserName>,
    /// The job.
    pub job: JobName,
    /// The selected tasks.
    pub tasks: TaskSelection,
}

/// Why a text is not an address.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum AddressError {
    /// A component is not a valid name.
    #[error("{0}; an address is user/job, job, user/job/7 or user/job/0-4")]
    Name(#[from] NameError),
    /// The component after the second slash is not a list of indexes.
    #[error("'{}' names no tasks: use an index (7), a range (0-4) or a list (0-4,7)", .0.escape_debug())]
    Tasks(String),
    /// More than two slashes.
    #[error("'{}' has too many components: an address is user/job, job, user/job/7 or user/job/0-4", .0.escape_debug())]
    TooManyParts(String),
}

impl TaskSelection {
    /// Whether the selection contains a task.
    #[must_use]
    pub fn contains(&self, index: TaskIndex) -> bool {
        let Self::Some(ranges) = self else { return true };
        // The binary search decides where the ranges are sorted; otherwise every range is checked.
        let after = ranges.partition_point(|(from, _)| *from <= index);
        let holds = |(from, to): &(TaskIndex, TaskIndex)| (*from..=*to).contains(&index);
        ranges[..after].last().is_some_and(holds) || ranges.iter().any(holds)
    }

    /// The first and the last selected task; of an empty selection, the last is before the first.
    #[must_use]
    pub fn bounds(&self) -> (TaskIndex, TaskIndex) {
        let (least, greatest) = (TaskIndex(0), TaskIndex(u32::MAX));
        let Self::Some(ranges) = self else { return (least, greatest) };
        let first = ranges.iter().map(|(from, _)| *from).min();
        let last = ranges.iter().map(|(_, to)| *to).max();
        (first.unwrap_or(greatest), last.unwrap_or(least))
    }

    /// Whether a job with `tasks` tasks has all of the selected ones.
    #[must_use]
    pub fn is_within(&self, tasks: u32) -> bool {
        let Self::Some(ranges) = self else { return true };
        ranges.iter().all(|(_, to)| to.0 < tasks)
    }

    /// The same selection as the fewest ranges, in ascending order.
    #[must_use]
    pub fn normalised(&self) -> Self {
        let Self::Some(ranges) = self else { return Self::All };
        let mut sorted: Vec<_> = ranges.iter().copied().filter(|(from, to)| from <= to).collect();
        sorted.sort_unstable();
        let mut merged: Vec<(TaskIndex, TaskIndex)> = Vec::new();
        for (from, to) in sorted {
            match merged.last_mut() {
                Some((_, last)) if from.0 <= last.0.saturating_add(1) => *last = to.max(*last),
                _ => merged.push((from, to)),
            }
        }
        Self::Some(merged)
    }

    /// The selected tasks of a job with `tasks` tasks, each once and in ascending order.
    pub fn of(&self, tasks: u32) -> impl Iterator<Item = TaskIndex> + use<> {
        let ranges = match self.normalised() {
            Self::All => vec![(TaskIndex(0), TaskIndex(u32::MAX))],
            Self::Some(ranges) => ranges,
        };
        let within = move |(from, to): (TaskIndex, TaskIndex)| {
            (from.0..tasks.min(to.0.saturating_add(1))).map(TaskIndex)
        };
        ranges.into_iter().flat_map(within)
    }
}

impl FromStr for TaskSelection {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let bad = || AddressError::Tasks(text.to_owned());
        let index = |part: &str| part.parse().map(TaskIndex).map_err(|_| bad());
        let range = |part: &str| {
            let (from, to) = part.split_once('-').unwrap_or((part, part));
            let (from, to) = (index(from)?, index(to)?);
            if from <= to { Ok((from, to)) } else { Err(bad()) }
        };
        text.split(',').map(range).collect::<Result<_, _>>().map(Self::Some)
    }
}

impl FromStr for Address {
    type Err = AddressError;

    /// Parses `job`, `user/job`, `user/job/TASKS` or `job/TASKS`. A last component that looks like
    /// a task list is one, so a job whose name is a number must be addressed with its user.
    fn from_str(text: &str) -> Result<Self, AddressError> {
        let parts: Vec<&str> = text.split('/').collect();
        let (user, job, tasks) = match parts[..] {
            [job] => (None, job, None),
            [job, tasks]
                if tasks.starts_with(|c: char| c.is_ascii_digit())
                    && tasks.parse::<TaskSelection>().is_ok() =>
            {
                (None, job, Some(tasks))
            }
            [user, job] => (Some(user), job, None),
            [user, job, tasks] => (Some(user), job, Some(tasks)),
            _ => return Err(AddressError::TooManyParts(text.to_owned())),
        };
        Ok(Self {
            user: user.map(UserName::new).transpose()?,
            job: JobName::new(job)?,
            tasks: tasks.map_or(Ok(TaskSelection::All), str::parse)?,
        })
    }
}

impl fmt::Display for TaskSelection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self::Some(ranges) = self else { return Ok(()) };
        for (position, (from, to)) in ranges.iter().enumerate() {
            let comma = if position == 0 { "" } else { "," };
            match from == to {
                true => write!(f, "{comma}{from}")?,
                false => write!(f, "{comma}{from}-{to}")?,
            }
        }
        Ok(())
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(user) = &self.user {
            write!(f, "{user}/")?;
        }
        write!(f, "{}", self.job)?;
        match self.tasks {
            TaskSelection::All => Ok(()),
            TaskSelection::Some(_) => write!(f, "/{}", self.tasks),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_read_back_what_they_print() {
        for text in
            ["web", "ana/web", "ana/web/7", "ana/web/0-4", "web/7", "web/0-4,9", "ana/2011/0"]
        {
            let address: Address = text.parse().expect(text);
            assert_eq!(address.to_string(), text);
        }
        let address: Address = "web/0-4,9".parse().expect("an address");
        assert_eq!(address.user, None);
        let selected: Vec<u32> =
            (0..12).filter(|index| address.tasks.contains(TaskIndex(*index))).collect();
        assert_eq!(selected, [0, 1, 2, 3, 4, 9]);
    }

    /// Every selection of up to three ranges over the first six indexes, and some at the maximum
    /// index.
    #[test]
    fn normalised_ranges_rise_apart_and_hold_the_same_tasks() {
        let range = |code: u32| (TaskIndex(code % 6), TaskIndex(code / 6 % 6));
        let end = |from, to| (TaskIndex(u32::MAX - from), TaskIndex(u32::MAX - to));
        let mut table = vec![vec![], vec![end(0, 0), end(1, 1)], vec![end(3, 0), end(9, 5)]];
        table.extend((0..36).map(|a| vec![range(a)]));
        table.extend((0..36 * 36).map(|a| vec![range(a), range(a / 36)]));
        table.extend((0..36_u32.pow(3)).map(|a| vec![range(a), range(a / 36), range(a / 1_296)]));
        for ranges in table {
            let some = TaskSelection::Some(ranges.clone());
            let normalised = some.normalised();
            let TaskSelection::Some(fewest) = &normalised else { panic!("{some:?}") };
            assert!(fewest.iter().all(|(from, to)| from <= to), "{some:?}");
            let apart = fewest.windows(2).all(|pair| pair[0].1.0 + 1 < pair[1].0.0);
            assert!(apart, "{some:?}: {fewest:?}");
            for index in (0..8).chain(u32::MAX - 10..=u32::MAX).map(TaskIndex) {
                let holds = ranges.iter().any(|(from, to)| *from <= index && index <= *to);
                assert_eq!(some.contains(index), holds, "{some:?} {index}");
                assert_eq!(normalised.contains(index), holds, "{some:?} {index}");
            }
            let of_four: Vec<_> = (0..4).map(TaskIndex).filter(|i| some.contains(*i)).collect();
            assert_eq!(some.of(4).collect::<Vec<_>>(), of_four, "{some:?}");
        }
        assert_eq!(TaskSelection::All.normalised(), TaskSelection::All);
        assert!(TaskSelection::All.of(3).eq((0..3).map(TaskIndex)));
    }

    #[test]
    fn a_selection_is_within_a_job_that_has_all_of_its_tasks() {
        for (text, tasks, within) in [
            ("2", 3, true),
            ("3", 3, false),
            ("0-2", 3, true),
            ("9,0-1", 3, false),
            ("0", 0, false),
        ] {
            let selection: TaskSelection = text.parse().expect(text);
            assert_eq!(selection.is_within(tasks), within, "{text} of {tasks}");
        }
        assert!(TaskSelection::All.is_within(0));
    }

    #[test]
    fn an_invalid_address_is_refused() {
        for bad in ["", "/", "ana/", "a/b/c/d", "ana/web/x", "ana/web/4-0", "ana/web/", "Ana/web"] {
            assert!(bad.parse::<Address>().is_err(), "{bad}");
        }
    }
}
