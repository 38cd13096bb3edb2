//! Updates of jobs: `cell.proto`.

use event::{SkipReason, UpdateFailure};
use model::UpdateAction;
use spec::FieldChange;

use crate::error::Malformed;
use crate::{read, v1};

impl From<&FieldChange> for v1::FieldChange {
    fn from(change: &FieldChange) -> Self {
        let FieldChange { field, old, new } = change.clone();
        Self { field, old, new }
    }
}

impl From<v1::FieldChange> for FieldChange {
    fn from(change: v1::FieldChange) -> Self {
        let v1::FieldChange { field, old, new } = change;
        Self { field, old, new }
    }
}

impl From<SkipReason> for v1::SkipReason {
    fn from(why: SkipReason) -> Self {
        match why {
            SkipReason::Disruptions => Self::SkipDisruptions,
            SkipReason::Budget => Self::SkipBudget,
        }
    }
}

/// Why an update skipped a task, by its number.
///
/// # Errors
/// If this build does not know it.
pub fn skip_reason(number: i32) -> Result<SkipReason, Malformed> {
    let meaning = |why| {
        Some(match why {
            v1::SkipReason::SkipDisruptions => SkipReason::Disruptions,
            v1::SkipReason::SkipBudget => SkipReason::Budget,
        })
    };
    read::value(number, meaning, "why")
}

impl From<UpdateAction> for v1::UpdateAction {
    fn from(action: UpdateAction) -> Self {
        match action {
            UpdateAction::Pause => Self::PauseUpdate,
            UpdateAction::Resume => Self::ResumeUpdate,
            UpdateAction::Undo => Self::UndoUpdate,
            UpdateAction::Close => Self::CloseUpdate,
        }
    }
}

/// What to do with an open update.
///
/// # Errors
/// If the number is no action.
pub fn update_action(number: i32) -> Result<UpdateAction, Malformed> {
    let meaning = |action| match action {
        v1::UpdateAction::Unspecified => None,
        v1::UpdateAction::PauseUpdate => Some(UpdateAction::Pause),
        v1::UpdateAction::ResumeUpdate => Some(UpdateAction::Resume),
        v1::UpdateAction::UndoUpdate => Some(UpdateAction::Undo),
        v1::UpdateAction::CloseUpdate => Some(UpdateAction::Close),
    };
    read::value(number, meaning, "action")
}

impl From<&UpdateFailure> for v1::UpdateFailure {
    fn from(failure: &UpdateFailure) -> Self {
        Self { instance: Some(failure.instance.into()), end: failure.end.as_ref().map(Into::into) }
    }
}

impl TryFrom<v1::UpdateFailure> for UpdateFailure {
    type Error = Malformed;

    fn try_from(failure: v1::UpdateFailure) -> Result<Self, Malformed> {
        Ok(Self {
            instance: read::message(failure.instance, "instance")?,
            end: read::optional(failure.end, "end")?,
        })
    }
}
