//! Addresses: how people name jobs and tasks, everywhere alike (`ana/web`, `ana/web/7`,
//! `web/0-4,9`). Where the user is left out, it is the one who asks.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

use crate::{JobName, NameError, TaskIndex, UserName};

/// Which tasks of a job: all, or ranges of indexes.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub enum TaskSelection {
    /// Every task.
    #[default]
    All,
    /// Those in any of the inclusive ranges.
    Some(Vec<(TaskIndex, TaskIndex)>),
}

/// A job or some of its tasks, as a person names them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// The owner; where it is left out, whoever asks.
    pub user: Option<UserName>,
    /// The job.
    pub job: JobName,
    /// Which of its tasks.
    pub tasks: TaskSelection,
}

/// Why a text is not an address.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum AddressError {
    /// A part of it is not a name.
    #[error("{0}; an address is user/job, job, user/job/7 or user/job/0-4")]
    Name(#[from] NameError),
    /// The part after the second slash is not a list of indexes.
    #[error("'{}' names no tasks: use an index (7), a range (0-4) or a list (0-4,7)", .0.escape_debug())]
    Tasks(String),
    /// Too many slashes.
    #[error("'{}' has too many parts: an address is user/job, job, user/job/7 or user/job/0-4", .0.escape_debug())]
    TooManyParts(String),
}

impl TaskSelection {
    /// Whether a task is among them.
    #[must_use]
    pub fn contains(&self, index: TaskIndex) -> bool {
        match self {
            Self::All => true,
            Self::Some(ranges) => ranges.iter().any(|(from, to)| (*from..=*to).contains(&index)),
        }
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

    /// `job`, `user/job`, `user/job/TASKS` or `job/TASKS`; the last is told from the second by its
    /// tasks, so a job whose name is a number is addressed with its user.
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

    #[test]
    fn what_is_not_an_address_is_refused_with_the_right_form() {
        for bad in ["", "/", "ana/", "a/b/c/d", "ana/web/x", "ana/web/4-0", "ana/web/", "Ana/web"] {
            assert!(bad.parse::<Address>().is_err(), "{bad}");
        }
    }
}
