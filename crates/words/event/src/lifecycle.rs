//! The life cycle of collections and instances ("things"): the states and transitions of the
//! published traces' diagram, under its names (trace v3, "Collection and instance life cycles").
//!
//! [`Stage::after`] is the diagram. Every state change of a job or task goes through it, and a
//! transition that it does not have is rejected.

use std::fmt;

use thiserror::Error;

/// The stage of a thing in its life cycle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stage {
    /// It has not been submitted.
    New,
    /// It is deferred: the scheduler ignores it.
    Queued,
    /// It waits for a machine.
    Pending,
    /// It has a machine; for a collection, one of its instances has had one.
    Running,
    /// It has ended. An instance can be submitted again.
    Dead,
}

/// A transition: an event type of the published traces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Transition {
    /// It was submitted to the cell, for the first time or again.
    Submit,
    /// It is deferred until what it waits for has happened.
    Queue,
    /// It became eligible for scheduling.
    Enable,
    /// It was assigned a machine; for a collection, the first of its instances was.
    Schedule,
    /// It lost its machine for a reason outside itself.
    Evict,
    /// Its program failed.
    Fail,
    /// It completed normally.
    Finish,
    /// It was killed by a user, or because of another thing's end.
    Kill,
    /// It is gone, and how it ended is not known.
    Lost,
    /// Its requirements changed while it was pending.
    UpdatePending,
    /// Its requirements changed while it had a machine.
    UpdateRunning,
}

/// A transition that the diagram does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error(
    "{transition} is not allowed from {stage}; allowed: {}",
    Transition::ALL.into_iter().filter(|other| stage.after(*other).is_some())
        .map(Transition::name).collect::<Vec<_>>().join(", ")
)]
pub struct NotAStep {
    /// The thing's stage.
    pub stage: Stage,
    /// The transition that is not allowed.
    pub transition: Transition,
}

impl Stage {
    /// All stages, in the order of a life cycle.
    pub const ALL: [Self; 5] = [Self::New, Self::Queued, Self::Pending, Self::Running, Self::Dead];

    /// The stage after a transition; `None` if the diagram does not have it.
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

    /// Like [`Stage::after`], with an error that says which transitions are allowed.
    ///
    /// # Errors
    /// If the diagram does not have the transition.
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
    /// All transitions, in the order of the trace's document.
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

    /// The diagram as a table: from, transition, to. A dot is a rejected transition.
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
            "SCHEDULE is not allowed from queued; allowed: ENABLE, FAIL, KILL, LOST, UPDATE_PENDING"
        );
        assert_eq!(Stage::New.step(Transition::Submit), Ok(Stage::Pending));
    }
}
