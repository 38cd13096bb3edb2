//! How long the program of a task may run (`maxRuntime`): by the machine's own clock, from when it runs.

use model::{NoticeReason, Span, Time};
use poll::Stop;

use super::local::{Local, StopCause};
use super::{Effect, Phase, RecoveredStatus};

/// Since when the program of a task runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Runtime {
    /// It does not run yet.
    NotRunning,
    /// It runs since then.
    Since(Time),
    /// It runs since then, and this Borglet found it. What it knows of the maximum is from its start, and
    /// may have changed: it is applied once an order says it again.
    Found(Time),
}

impl Runtime {
    /// That of a task that outlived the previous Borglet.
    pub(super) fn recovered(status: &RecoveredStatus) -> Self {
        match status {
            RecoveredStatus::Running(since) => Self::Found(*since),
            RecoveredStatus::Starting | RecoveredStatus::Ended(..) => Self::NotRunning,
        }
    }

    /// An order said its maximum.
    pub(super) fn ordered(&mut self) {
        if let Self::Found(since) = *self {
            *self = Self::Since(since);
        }
    }
}

impl Local {
    /// When it has run as long as it may; `None` if nothing bounds that, as far as is known.
    pub(super) fn must_end_at(&self) -> Option<Time> {
        let Runtime::Since(since) = self.runtime else { return None };
        self.launch.desired.max_runtime.map(|most| since + most)
    }

    /// Stops it, with its notice, if it has run as long as it may.
    pub(super) fn end_over_runtime(&mut self, now: Time, effects: &mut Vec<Effect>) {
        let is_over = self.must_end_at().is_some_and(|end| end <= now);
        let Some(most) = self.launch.desired.max_runtime.filter(|_| is_over) else { return };
        if !matches!(self.phase, Phase::Running(_)) {
            return;
        }
        let stop = Stop {
            instance: self.launch.instance,
            reason: NoticeReason::OverRuntime,
            cause: format!("it ran longer than maxRuntime ({most})"),
            notice_max: None,
        };
        self.stop(now, StopCause::OverRuntime(most), Some(stop), Span::ZERO, effects);
    }
}
