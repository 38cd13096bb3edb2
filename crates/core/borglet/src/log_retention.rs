//! Retention of the logs of ended instances: up to a maximum age, total size and number, shared
//! fairly between users.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use model::{Bytes, InstanceId, Span, TaskId, UserName};

/// The number of each user's latest logs that are kept longest, besides the newest log of each
/// task.
const RECENT_LOGS: usize = 5;

/// The log of an ended instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptLog {
    /// The instance.
    pub instance: InstanceId,
    /// Its owner; `None` if no longer known.
    pub user: Option<UserName>,
    /// The time since the instance ended.
    pub age: Span,
    /// How long it is kept, if its job says so.
    pub keep: Option<Span>,
    /// Its size on disk.
    pub bytes: Bytes,
}

/// Retention limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeepAtMost {
    /// The maximum age of a log whose job says nothing.
    pub age: Span,
    /// The maximum total size.
    pub bytes: Bytes,
    /// The maximum number of instances.
    pub instances: usize,
}

/// The limit because of which a log is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exceeded {
    /// The log was older than this maximum.
    Age(Span),
    /// All logs together were larger than the maximum, and its user had the largest.
    Bytes,
    /// There were more logs than the maximum, and its user had the most.
    Instances,
}

/// Returns the logs to delete from `kept`, which is sorted oldest first, each with the limit.
///
/// Logs over the age limit are deleted. While the rest exceeds another limit, the user with the
/// largest logs loses the oldest one: first logs that are neither among the user's latest nor the
/// newest of their task, then the other latest ones, then the newest of a task. So a user with
/// smaller logs never loses one to a user with larger ones.
#[must_use]
pub fn outdated(kept: &[KeptLog], at_most: &KeepAtMost) -> Vec<(InstanceId, Exceeded)> {
    let keep = |kept: &KeptLog| kept.keep.unwrap_or(at_most.age);
    let (old, kept): (Vec<_>, Vec<_>) = kept.iter().partition(|kept| kept.age > keep(kept));
    let mut gone: Vec<_> =
        old.into_iter().map(|kept| (kept.instance, Exceeded::Age(keep(kept)))).collect();
    let mut bytes: u64 = kept.iter().fold(0, |sum, kept| sum.saturating_add(kept.bytes.0));
    let mut instances = kept.len();
    let mut users = shares(&kept);
    while bytes > at_most.bytes.0 || instances > at_most.instances {
        let by_bytes = bytes > at_most.bytes.0;
        let most = users
            .values_mut()
            .max_by_key(|share| if by_bytes { share.bytes } else { share.kept.len() as u64 });
        let Some(kept) = most.and_then(Share::give) else { break };
        bytes = bytes.saturating_sub(kept.bytes.0);
        instances -= 1;
        gone.push((kept.instance, if by_bytes { Exceeded::Bytes } else { Exceeded::Instances }));
    }
    gone
}

/// The logs of one user.
#[derive(Default)]
struct Share<'a> {
    bytes: u64,
    /// In order of deletion.
    kept: VecDeque<&'a KeptLog>,
}

impl<'a> Share<'a> {
    fn give(&mut self) -> Option<&'a KeptLog> {
        let kept = self.kept.pop_front()?;
        self.bytes = self.bytes.saturating_sub(kept.bytes.0);
        Some(kept)
    }
}

/// The logs of each user; `kept` is sorted oldest first.
fn shares<'a>(kept: &[&'a KeptLog]) -> BTreeMap<Option<&'a UserName>, Share<'a>> {
    let mut tasks: BTreeSet<TaskId> = BTreeSet::new();
    let mut users: BTreeMap<_, Vec<(bool, bool, &KeptLog)>> = BTreeMap::new();
    for kept in kept.iter().rev() {
        let newest = tasks.insert(kept.instance.task());
        let own = users.entry(kept.user.as_ref()).or_default();
        own.push((newest, own.len() < RECENT_LOGS, kept));
    }
    let share = |mut own: Vec<(bool, bool, &'a KeptLog)>| {
        own.reverse();
        own.sort_by_key(|(newest, last, _)| (*newest, *last));
        let bytes = own.iter().fold(0, |sum: u64, (.., kept)| sum.saturating_add(kept.bytes.0));
        Share { bytes, kept: own.into_iter().map(|(.., kept)| kept).collect() }
    };
    users.into_iter().map(|(user, own)| (user, share(own))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Parses `USER INSTANCE MIB AGE`, the age in minutes, oldest first; `AGE/KEEP` if its job says how
    /// long it is kept.
    fn kept(text: &str) -> Vec<KeptLog> {
        let line = |line: &str| {
            let [user, instance, mib, age] =
                line.split_whitespace().collect::<Vec<_>>().try_into().expect("four words");
            let (age, keep) =
                age.split_once('/').map_or((age, None), |(age, keep)| (age, Some(keep)));
            let span =
                |minutes: &str| Span::from_secs(minutes.parse::<u64>().expect("a number") * 60);
            KeptLog {
                instance: instance.parse().expect("an instance"),
                user: (user != "?").then(|| user.parse().expect("a name")),
                age: span(age),
                keep: keep.map(span),
                bytes: Bytes(mib.parse::<u64>().expect("a number") << 20),
            }
        };
        text.split(',').map(str::trim).filter(|text| !text.is_empty()).map(line).collect()
    }

    fn gone(text: &str, mib: u64, instances: usize) -> String {
        let at_most =
            KeepAtMost { age: Span::from_secs(3_600), bytes: Bytes(mib << 20), instances };
        let gone = outdated(&kept(text), &at_most);
        gone.iter().map(|(instance, _)| instance.to_string()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn the_user_with_most_logs_loses_the_oldest_until_all_fit() {
        let loops = "ben 2-0-1 1 50, ana 1-0-1 1 40, ben 2-0-2 1 30, ben 2-0-3 1 20, ben 2-0-4 1 9,
                     ben 2-0-5 1 8, ben 2-0-6 1 7, ben 2-0-7 1 6, ben 2-0-8 1 5";
        let table = [
            ("all that fits stays", loops, 100, 100, ""),
            ("to the byte", loops, 9, 9, ""),
            ("age alone", "ana 1-0-1 1 61, ben 2-0-1 1 60", 100, 100, "1-0-1"),
            (
                "age as the job says",
                "ana 1-0-1 1 61/600, ana 1-0-2 1 60, ben 2-0-1 1 7/6, ben 2-0-2 1 6/6",
                100,
                100,
                "2-0-1",
            ),
            ("too many", loops, 100, 7, "2-0-1 2-0-2"),
            ("too many bytes", loops, 7, 100, "2-0-1 2-0-2"),
            (
                "the last few, and the newest at the very end",
                loops,
                100,
                2,
                "2-0-1 2-0-2 2-0-3 2-0-4 2-0-5 2-0-6 2-0-7",
            ),
            ("then by turns", loops, 100, 1, "2-0-1 2-0-2 2-0-3 2-0-4 2-0-5 2-0-6 2-0-7 2-0-8"),
            (
                "a large one of few",
                "ana 1-0-1 9 5, ben 2-0-1 1 4, ben 2-0-2 1 3, ben 2-0-3 1 2",
                11,
                100,
                "1-0-1",
            ),
            (
                "of one with many, each of its own task, the oldest",
                "ben 2-0-1 1 9, ben 2-1-1 1 8, ben 2-2-1 1 7, ben 2-3-1 1 6, ben 2-4-1 1 5,
              ben 2-5-1 1 4, ben 2-6-1 1 3, ana 1-0-1 1 9",
                100,
                6,
                "2-0-1 2-1-1",
            ),
            (
                "the newest of a task outlives a loop of the same user's",
                "ben 3-0-1 1 9, ben 2-0-1 1 8, ben 2-0-2 1 7, ben 2-0-3 1 6, ben 2-0-4 1 5,
              ben 2-0-5 1 4, ben 2-0-6 1 3",
                100,
                2,
                "2-0-1 2-0-2 2-0-3 2-0-4 2-0-5",
            ),
            ("nobody's is somebody's", "? 1-0-1 1 9, ? 1-0-2 1 8, ana 2-0-1 1 7", 100, 2, "1-0-1"),
            ("age first", "ben 2-0-1 9 70, ana 1-0-1 5 9, ana 1-0-2 5 8", 10, 2, "2-0-1"),
            ("nothing is kept", "ana 1-0-1 1 9, ben 2-0-1 1 8", 0, 0, "2-0-1 1-0-1"),
            ("nothing is there", "", 0, 0, ""),
        ];
        for (what, text, mib, instances, expected) in table {
            assert_eq!(gone(text, mib, instances), expected, "{what}");
        }
    }

    #[test]
    fn each_deleted_log_names_the_limit_that_it_exceeds() {
        let at_most =
            KeepAtMost { age: Span::from_secs(3_600), bytes: Bytes(3 << 20), instances: 2 };
        let kept = kept("ana 1-0-1 9 61, ana 1-1-1 3 9, ben 2-0-1 1 8, ben 2-1-1 1 7");
        let gone = outdated(&kept, &at_most).into_iter();
        let gone: Vec<_> = gone.map(|(instance, why)| (instance.to_string(), why)).collect();
        let expected = [("1-0-1", Exceeded::Age(at_most.age)), ("1-1-1", Exceeded::Bytes)]
            .map(|(i, e)| (i.to_owned(), e));
        assert_eq!(gone, expected);
        let gone = outdated(&kept[1..], &KeepAtMost { bytes: Bytes(9 << 20), ..at_most });
        assert_eq!(gone.last().map(|(_, why)| *why), Some(Exceeded::Instances));
    }
}
