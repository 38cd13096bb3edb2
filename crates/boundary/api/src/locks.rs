//! Locks and small files: `files.proto`.

use event::LockChange;
use model::{FilePath, Sequencer};

use crate::error::{At, Fault, Malformed};
use crate::{read, v1};

/// A path.
pub fn path(text: &str, field: &str) -> Result<FilePath, Malformed> {
    text.parse::<FilePath>().map_err(Fault::from).field(field)
}

/// A sequencer.
pub fn sequencer(text: &str, field: &str) -> Result<Sequencer, Malformed> {
    text.parse::<Sequencer>().map_err(Fault::from).field(field)
}

/// A sequencer; an empty text means absence.
pub fn optional_sequencer(text: &str) -> Result<Option<Sequencer>, Malformed> {
    (!text.is_empty()).then(|| sequencer(text, "sequencer")).transpose()
}

/// A sequencer's text; empty for none.
#[must_use]
pub fn sequencer_text(sequencer: Option<&Sequencer>) -> String {
    sequencer.map(ToString::to_string).unwrap_or_default()
}

impl From<LockChange> for v1::LockChange {
    fn from(change: LockChange) -> Self {
        match change {
            LockChange::Acquired => Self::LockAcquired,
            LockChange::Released => Self::LockReleased,
            LockChange::Expired => Self::LockExpired,
        }
    }
}

/// What happened to a lock, by its number.
///
/// # Errors
/// If this build does not know it.
pub fn change(number: i32) -> Result<LockChange, Malformed> {
    let meaning = |change| match change {
        v1::LockChange::Unspecified => None,
        v1::LockChange::LockAcquired => Some(LockChange::Acquired),
        v1::LockChange::LockReleased => Some(LockChange::Released),
        v1::LockChange::LockExpired => Some(LockChange::Expired),
    };
    read::value(number, meaning, "change")
}
