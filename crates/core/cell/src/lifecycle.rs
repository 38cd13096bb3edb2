//! The life cycle of things, that is of collections and instances: the states and transitions of the
//! published traces' diagram, under its names (trace v3, "Collection and instance life cycles").
//!
//! [`Stage::after`] is the diagram. Every change of a job's or a task's state goes through it, and a
//! transition that is not in it is refused.

use std::fmt;

use thiserror::Error;

/// Where a thing is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stage {
    /// It has not been submitted.
    New,
    /// It is deferred: the scheduler does not look at it.
    Queued,
    /// It waits for a machine.
    Pending,
    /// It has a machine; a collection, once one of its instances has had one.
    Running,
    /// It has ended. An instance can be submitted again.
    Dead,
}

/// A step in a thing's life: the event types of the published traces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Transition {
    /// It was submitted to the cell, for the first time or again.
    Submit,
    /// It is deferred until what it waits for has happened.
    Queue,
    /// It became eligible for scheduling.
    Enable,
    /// It was given a machine; a collection, with the first of its instances.
    Schedule,
    /// It lost its machine for a reason that is not its own.
    Evict,
    /// Its program failed.
    Fail,
    /// It completed normally.
    Finish,
    /// It was ended on somebody's wish, or with another thing.
    Kill,
    /// It is gone, and nobody saw how.
    Lost,
    /// What it asks for was changed while it waited.
    UpdatePending,
    /// What it asks for was changed while it had a machine.
    UpdateRunning,
}

/// A transition that the diagram does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error(
    "{transition} is no step from {stage}: from there, {}",
    Transition::ALL.into_iter().filter(|other| stage.after(*other).is_some())
        .map(Transition::name).collect::<Vec<_>>().join(", ")
)]
pub struct NotAStep {
    /// Where the thing is.
    pub stage: Stage,
    /// What it cannot do from there.
    pub transition: Transition,
}

impl Stage {
    /// All of them, in the order of a life.
    pub const ALL: [Self; 5] = [Self::New, Self::Queued, Self::Pending, Self::Running, Self::Dead];

    /// Where a transition leads from here; nothing where the diagram has no such step.
    #[must_use]
    pub const fn after(self, transition: Transition) -> Option<Self> {
        use Transition as T;
        match (self, transition) {
            (Self::New | Self::Dead, T::Submit)
            | (Self::Queued, T::Enable)
            | (Self::Pending, T::UpdatePending) => Some(Self::Pending),
            (Self::Pending, T::Queue) | (Self::Queued, T::UpdatePending) => Some(Self::Queued),
            (Self::Pending, T::Schedule) | (Self::Running, T::UpdateRunning) => Some(Self::Running),
            (Self::Running, T::Evict | T::Finish)
            | (Self::Queued | Self::Pending | Self::Running, T::Fail | T::Kill | T::Lost) => {
                Some(Self::Dead)
            }
            _ => None,
        }
    }

    /// The same, with the refusal in words.
    ///
    /// # Errors
    /// Where the diagram has no such step.
    pub fn step(self, transition: Transition) -> Result<Self, NotAStep> {
        self.after(transition).ok_or(NotAStep { stage: self, transition })
    }

    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::New => "new",
            Self::Queued => "queued",
            Self::Pending => "pending",
            Self::Running => "running",
            Self::Dead => "dead",
        }
    }
}

impl Transition {
    /// All of them, in the order of the trace's document.
    pub const ALL: [Self; 11] = [
        Self::Submit,
        Self::Queue,
        Self::Enable,
        Self::Schedule,
        Self::Evict,
        Self::Fail,
        Self::Finish,
        Self::Kill,
        Self::Lost,
        Self::UpdatePending,
        Self::UpdateRunning,
    ];

    /// Its name in the published traces.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Submit => "SUBMIT",
            Self::Queue => "QUEUE",
            Self::Enable => "ENABLE",
            Self::Schedule => "SCHEDULE",
            Self::Evict => "EVICT",
            Self::Fail => "FAIL",
            Self::Finish => "FINISH",
            Self::Kill => "KILL",
            Self::Lost => "LOST",
            Self::UpdatePending => "UPDATE_PENDING",
            Self::UpdateRunning => "UPDATE_RUNNING",
        }
    }
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl fmt::Display for Transition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The diagram as a table: from where, by what, to where. A dot is a step that is refused.
    #[test]
    fn the_diagram_is_this_table() {
        let mut table = format!("{:15}", "");
        for stage in Stage::ALL {
            table.push_str(&format!("{stage:9}"));
        }
        for transition in Transition::ALL {
            table.push_str(&format!("\n{transition:15}"));
            for stage in Stage::ALL {
                let to = stage.after(transition).map_or(".", Stage::name);
                table.push_str(&format!("{to:9}"));
            }
        }
        let lines: Vec<&str> = table.lines().map(str::trim_end).collect();
        expect_test::expect![[r#"
                           new      queued   pending  running  dead
            SUBMIT         pending  .        .        .        pending
            QUEUE          .        .        queued   .        .
            ENABLE         .        pending  .        .        .
            SCHEDULE       .        .        running  .        .
            EVICT          .        .        .        dead     .
            FAIL           .        dead     dead     dead     .
            FINISH         .        .        .        dead     .
            KILL           .        dead     dead     dead     .
            LOST           .        dead     dead     dead     .
            UPDATE_PENDING .        queued   pending  .        .
            UPDATE_RUNNING .        .        .        running  ."#]]
        .assert_eq(&lines.join("\n"));
    }

    #[test]
    fn a_refusal_says_what_is_possible() {
        let refused = Stage::Queued.step(Transition::Schedule).expect_err("not in the diagram");
        assert_eq!(
            refused.to_string(),
            "SCHEDULE is no step from queued: from there, ENABLE, FAIL, KILL, LOST, UPDATE_PENDING"
        );
        assert_eq!(Stage::New.step(Transition::Submit), Ok(Stage::Pending));
    }
}
