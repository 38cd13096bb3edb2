//! States as enums and their words. On the wire a state is an enum; JSON and people use its word,
//! such as `running`. A value that only a newer version knows is kept as its number and shown as
//! `unknown (9)`.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use event::Death;
use model::{Band, Member};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::v1;

/// An enum whose values have words.
pub trait Words: Copy + Into<i32> + TryFrom<i32> + 'static {
    /// Every value except the unspecified one, with its word.
    const WORDS: &'static [(Self, &'static str)];
}

/// The word of a value, which this version may not know.
#[must_use]
pub fn word<E: Words>(number: i32) -> Cow<'static, str> {
    let known = E::WORDS.iter().find(|(value, _)| (*value).into() == number);
    match known {
        Some((_, word)) => Cow::Borrowed(word),
        None if number == 0 => Cow::Borrowed("unknown"),
        None => Cow::Owned(format!("unknown ({number})")),
    }
}

/// A value of such an enum in JSON: its word.
#[derive(Clone, Copy)]
pub struct Word<E>(i32, PhantomData<E>);

impl<E> Word<E> {
    /// Its number.
    #[must_use]
    pub fn number(self) -> i32 {
        self.0
    }
}

impl<E> From<i32> for Word<E> {
    fn from(number: i32) -> Self {
        Self(number, PhantomData)
    }
}

impl<E: Words> Serialize for Word<E> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&word::<E>(self.0))
    }
}

impl<'de, E: Words> Deserialize<'de> for Word<E> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Visitor(PhantomData))
    }
}

struct Visitor<E>(PhantomData<E>);

impl<E: Words> de::Visitor<'_> for Visitor<E> {
    type Value = Word<E>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words: Vec<&str> = E::WORDS.iter().map(|(_, word)| *word).collect();
        write!(f, "one of {}", words.join(", "))
    }

    fn visit_str<F: de::Error>(self, text: &str) -> Result<Word<E>, F> {
        let known = E::WORDS.iter().find(|(_, word)| *word == text);
        let number = match known {
            Some((value, _)) => Some((*value).into()),
            None if text == "unknown" => Some(0),
            None => {
                let number = text.strip_prefix("unknown (").and_then(|text| text.strip_suffix(')'));
                number.and_then(|number| number.parse().ok())
            }
        };
        let number = number.ok_or_else(|| F::invalid_value(de::Unexpected::Str(text), &self))?;
        Ok(Word::from(number))
    }

    fn visit_i64<F: de::Error>(self, number: i64) -> Result<Word<E>, F> {
        let known = i32::try_from(number).ok().filter(|number| E::try_from(*number).is_ok());
        let number =
            known.ok_or_else(|| F::invalid_value(de::Unexpected::Signed(number), &self))?;
        Ok(Word::from(number))
    }

    fn visit_u64<F: de::Error>(self, number: u64) -> Result<Word<E>, F> {
        self.visit_i64(i64::try_from(number).unwrap_or(i64::MAX))
    }
}

impl Words for v1::JobState {
    const WORDS: &'static [(Self, &'static str)] = &[
        (Self::Queued, "queued"),
        (Self::Pending, "pending"),
        (Self::Running, "running"),
        (Self::Finished, "finished"),
        (Self::Failed, "failed"),
        (Self::Killed, "killed"),
    ];
}

impl v1::JobState {
    /// Whether the job is dead; `false` for a state that this version does not know.
    #[must_use]
    pub fn is_dead(self) -> bool {
        matches!(self, Self::Finished | Self::Failed | Self::Killed)
    }
}

impl From<&Death> for v1::JobState {
    fn from(death: &Death) -> Self {
        match death {
            Death::Finished => Self::Finished,
            Death::Failed => Self::Failed,
            Death::Killed(_) => Self::Killed,
        }
    }
}

impl Words for v1::TaskState {
    const WORDS: &'static [(Self, &'static str)] = &[
        (Self::Queued, "queued"),
        (Self::Pending, "pending"),
        (Self::Starting, "starting"),
        (Self::Running, "running"),
        (Self::Stopping, "stopping"),
        (Self::Finished, "finished"),
        (Self::Failed, "failed"),
        (Self::Killed, "killed"),
    ];
}

impl v1::TaskState {
    /// Whether the task has ended for good; `false` for a state that this version does not know.
    #[must_use]
    pub fn is_dead(self) -> bool {
        matches!(self, Self::Finished | Self::Failed | Self::Killed)
    }
}

impl From<&Death> for v1::TaskState {
    fn from(death: &Death) -> Self {
        match death {
            Death::Finished => Self::Finished,
            Death::Failed => Self::Failed,
            Death::Killed(_) => Self::Killed,
        }
    }
}

impl Words for v1::UpdateState {
    const WORDS: &'static [(Self, &'static str)] = &[
        (Self::Rolling, "rolling"),
        (Self::Paused, "paused"),
        (Self::Succeeded, "succeeded"),
        (Self::Undoing, "undoing"),
        (Self::Undone, "undone"),
        (Self::Closed, "closed"),
    ];
}

impl Words for v1::PackageKind {
    const WORDS: &'static [(Self, &'static str)] =
        &[(Self::Files, "files"), (Self::Image, "image")];
}

impl Words for v1::ChangeKind {
    const WORDS: &'static [(Self, &'static str)] = &[
        (Self::Unchanged, "unchanged"),
        (Self::InPlace, "in-place"),
        (Self::Restart, "restart"),
        (Self::Move, "move"),
        (Self::Add, "add"),
        (Self::Remove, "remove"),
    ];
}

impl Words for v1::MachineState {
    const WORDS: &'static [(Self, &'static str)] = &[
        (Self::Joining, "joining"),
        (Self::Up, "up"),
        (Self::Draining, "draining"),
        (Self::Drained, "drained"),
        (Self::NotReady, "not-ready"),
        (Self::Unreachable, "unreachable"),
        (Self::Down, "down"),
    ];
}

impl Words for v1::ReschedulingState {
    const WORDS: &'static [(Self, &'static str)] =
        &[(Self::Allowed, "allowed"), (Self::Stopped, "stopped"), (Self::Resumed, "resumed")];
}

impl Words for v1::ProblemKind {
    const WORDS: &'static [(Self, &'static str)] = &[
        (Self::Failing, "failing"),
        (Self::UpdateStopped, "update-stopped"),
        (Self::UpdateUndone, "update-undone"),
        (Self::UpdateStuck, "update-stuck"),
        (Self::ProductionPending, "production-pending"),
        (Self::QuotaOversold, "quota-oversold"),
        (Self::CertificateEnds, "certificate-ends"),
        (Self::BackupOld, "backup-old"),
        (Self::NoBackup, "no-backup"),
    ];
}

impl Words for v1::MemberState {
    const WORDS: &'static [(Self, &'static str)] =
        &[(Self::Waiting, "waiting"), (Self::Learner, "learner"), (Self::Voter, "voter")];
}

impl From<Member> for v1::MemberState {
    fn from(member: Member) -> Self {
        match member {
            Member::Waiting => Self::Waiting,
            Member::Learner => Self::Learner,
            Member::Voter => Self::Voter,
        }
    }
}

impl Words for v1::Health {
    const WORDS: &'static [(Self, &'static str)] = &[
        (Self::Unknown, "UNKNOWN"),
        (Self::Healthy, "HEALTHY"),
        (Self::Unhealthy, "UNHEALTHY"),
        (Self::Unready, "UNREADY"),
    ];
}

impl Words for v1::Band {
    const WORDS: &'static [(Self, &'static str)] = &[
        (Self::Free, "free"),
        (Self::BestEffortBatch, "best-effort-batch"),
        (Self::Mid, "mid"),
        (Self::Production, "production"),
        (Self::Monitoring, "monitoring"),
    ];
}

impl From<Band> for v1::Band {
    fn from(band: Band) -> Self {
        match band {
            Band::Free => Self::Free,
            Band::BestEffortBatch => Self::BestEffortBatch,
            Band::Mid => Self::Mid,
            Band::Production => Self::Production,
            Band::Monitoring => Self::Monitoring,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// Every number that is a value has its own word, and comes back from JSON.
    fn check<E: Words + PartialEq + fmt::Debug>(unspecified: bool) {
        let numbers = (-1..100).filter(|number| E::try_from(*number).is_ok());
        let numbers: Vec<i32> = numbers.filter(|number| *number > 0 || !unspecified).collect();
        assert_eq!(numbers.len(), E::WORDS.len(), "{:?}", E::WORDS);
        let words: BTreeSet<_> = numbers.iter().map(|number| word::<E>(*number)).collect();
        assert_eq!(words.len(), numbers.len(), "no word twice: {words:?}");
        for number in numbers.into_iter().chain([0, 99, -7]) {
            let json = serde_json::to_string(&Word::<E>::from(number)).expect("a word");
            let read: Word<E> = serde_json::from_str(&json).expect("what was written");
            assert_eq!(read.number(), number, "{json}");
        }
        assert_eq!(word::<E>(99), "unknown (99)");
        for bad in ["\"RUNNING\"", "\"unknown (x)\"", "99", "[]"] {
            assert!(serde_json::from_str::<Word<E>>(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn every_state_has_its_word_and_one_that_is_not_known_is_shown_as_such() {
        check::<v1::JobState>(true);
        check::<v1::TaskState>(true);
        check::<v1::MachineState>(true);
        check::<v1::UpdateState>(true);
        check::<v1::ChangeKind>(true);
        check::<v1::ProblemKind>(true);
        check::<v1::ReschedulingState>(true);
        check::<v1::MemberState>(true);
        check::<v1::Band>(true);
        check::<v1::Health>(false);
    }

    #[test]
    fn bands_have_the_words_of_the_core() {
        for band in Band::ALL {
            assert_eq!(word::<v1::Band>(v1::Band::from(band).into()), band.name());
        }
    }

    #[test]
    fn a_status_from_a_newer_master_has_its_json() {
        let state = v1::TaskState::Running.into();
        let task = v1::TaskStatus { state, health: 9, ..v1::TaskStatus::default() };
        let job = v1::JobStatus { state: 42, tasks: vec![task], ..v1::JobStatus::default() };
        let json = serde_json::to_value(&job).expect("its JSON");
        assert_eq!(json["state"], "unknown (42)");
        assert_eq!(json["tasks"][0]["state"], "running");
        assert_eq!(json["tasks"][0]["health"], "unknown (9)");
        assert_eq!(serde_json::from_value::<v1::JobStatus>(json).expect("read back"), job);
    }
}
