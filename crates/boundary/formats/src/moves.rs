//! Moves of running tasks: `log.proto`.

use api::locks::{optional_sequencer, sequencer_text};
use api::{At, Fault, Malformed, read};
use cell::{MoveReason, MoveTask};

use crate::v1::{Nothing, op};

impl From<&MoveTask> for op::MoveTask {
    fn from(moved: &MoveTask) -> Self {
        use op::move_task::Why;

        let MoveTask { instance, to, why, sequencer } = moved;
        let why = match why {
            MoveReason::Fits { task } => Why::Fits((*task).into()),
            MoveReason::Empties => Why::Empties(Nothing {}),
        };
        Self {
            instance: Some((*instance).into()),
            to: to.to_string(),
            why: Some(why),
            sequencer: sequencer_text(sequencer.as_ref()),
        }
    }
}

impl TryFrom<op::MoveTask> for MoveTask {
    type Error = Malformed;

    fn try_from(moved: op::MoveTask) -> Result<Self, Malformed> {
        use op::move_task::Why;

        let why = match moved.why.ok_or(Fault::UnknownKind).field("why")? {
            Why::Fits(task) => MoveReason::Fits { task: task.into() },
            Why::Empties(Nothing {}) => MoveReason::Empties,
        };
        Ok(Self {
            instance: read::required(moved.instance, "instance")?.into(),
            to: read::name(&moved.to, "to")?,
            why,
            sequencer: optional_sequencer(&moved.sequencer)?,
        })
    }
}
