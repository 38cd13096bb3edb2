//! Why logs of ended instances were deleted, for those who ask for them. Only this process knows:
//! nothing of it is on disk.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use model::{Bytes, InstanceId, Span, Time, UserName};
use process::moment::shown;

/// How many deleted logs are remembered.
const DELETED_MAX: usize = 10_000;

/// The logs that were deleted last.
#[derive(Clone, Debug, Default)]
pub(crate) struct DeletedLogs(Arc<Mutex<Last>>);

#[derive(Debug, Default)]
struct Last {
    deleted: HashMap<InstanceId, Deleted>,
    order: VecDeque<InstanceId>,
}

/// When and why a log was deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Deleted {
    /// When, by the wall clock.
    pub(crate) at: Time,
    /// Why.
    pub(crate) cause: Cause,
    /// The owner of the log; `None` if unknown.
    pub(crate) user: Option<UserName>,
}

/// The limit that was exceeded, with its value then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// The maximum age.
    Age(Span),
    /// The maximum size of all logs.
    Bytes(Bytes),
    /// The maximum number of instances.
    Instances(usize),
    /// The reserve of the disk.
    DiskIsFull,
    /// None: it is in a package now.
    InPackage,
}

impl DeletedLogs {
    /// Remembers a log, and forgets the oldest beyond the bound.
    pub(crate) fn note(&self, instance: InstanceId, deleted: Deleted) {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if last.deleted.insert(instance, deleted).is_none() {
            last.order.push_back(instance);
        }
        if last.order.len() > DELETED_MAX
            && let Some(oldest) = last.order.pop_front()
        {
            last.deleted.remove(&oldest);
        }
    }

    /// Why the log of this instance was deleted, if it is known.
    pub(crate) fn of(&self, instance: InstanceId) -> Option<Deleted> {
        let last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        last.deleted.get(&instance).cloned()
    }

    /// The same for the newest instance of the same task before this one.
    pub(crate) fn before(&self, instance: InstanceId) -> Option<Deleted> {
        let last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let earlier = last.deleted.iter().filter(|(other, _)| {
            other.task() == instance.task() && other.generation < instance.generation
        });
        let newest = earlier.max_by_key(|(other, _)| other.generation);
        newest.map(|(_, deleted)| deleted.clone())
    }
}

impl fmt::Display for Deleted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "deleted at {} UTC: ", shown(self.at))?;
        match self.cause {
            // Age is no matter of shares.
            Cause::Age(age) => return write!(f, "logs of ended tasks are kept for {age}"),
            Cause::Bytes(bytes) => {
                write!(f, "the logs of ended tasks on the machine had more than {bytes}")?;
            }
            Cause::Instances(most) => {
                write!(f, "the machine had the logs of more than {most} ended tasks")?;
            }
            Cause::DiskIsFull => f.write_str("the machine's disk was short of space")?,
            Cause::InPackage => return f.write_str("it is in a package"),
        }
        match &self.user {
            Some(user) => write!(f, ", and {user} had the largest share"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn instance(text: &str) -> InstanceId {
        text.parse().expect("an instance")
    }

    #[test]
    fn a_deletion_is_explained_with_its_limit() {
        let user: UserName = "ana".parse().expect("a name");
        let said = |cause, user| {
            let at = Time(86_401_002_003);
            Deleted { at, cause, user }
                .to_string()
                .replace("deleted at 1970-01-02 00:00:01.002", "AT")
        };
        for (cause, expected) in [
            (Cause::Age(Span::from_secs(86_400)), "AT UTC: logs of ended tasks are kept for 1 d"),
            (
                Cause::Bytes(Bytes(1 << 30)),
                "AT UTC: the logs of ended tasks on the machine had more than 1 GiB, and ana had the \
                 largest share",
            ),
            (
                Cause::Instances(60),
                "AT UTC: the machine had the logs of more than 60 ended tasks, and ana had the \
                 largest share",
            ),
            (
                Cause::DiskIsFull,
                "AT UTC: the machine's disk was short of space, and ana had the largest share",
            ),
        ] {
            assert_eq!(said(cause, Some(user.clone())), expected);
        }
        assert_eq!(said(Cause::DiskIsFull, None), "AT UTC: the machine's disk was short of space");
    }

    #[test]
    fn the_last_deletions_are_remembered() {
        let logs = DeletedLogs::default();
        let deleted = |at| Deleted { at: Time(at), cause: Cause::Instances(1), user: None };
        for (at, name) in (0..).zip(["1-0-1", "1-0-2", "1-1-7"]) {
            logs.note(instance(name), deleted(at));
        }
        assert_eq!(logs.of(instance("1-0-2")), Some(deleted(1)));
        assert_eq!(logs.before(instance("1-0-5")), Some(deleted(1)));
        assert_eq!(logs.before(instance("1-0-2")), Some(deleted(0)));
        assert_eq!(logs.before(instance("1-0-1")), None);
        for generation in 1..=DELETED_MAX {
            logs.note(instance(&format!("2-0-{generation}")), deleted(9));
        }
        assert_eq!(logs.of(instance("1-0-2")), None, "the oldest are forgotten");
        assert_eq!(logs.of(instance("2-0-1")), Some(deleted(9)));
    }
}
