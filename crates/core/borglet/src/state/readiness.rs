//! Whether the machine can run tasks at all.
//!
//! A set-up that fails is the machine's failure: its task is lost, and not at its job's expense. A probe
//! task then finds out whether the machine can run any. It is not ready while its probe fails, and where
//! the set-ups of different users' tasks fail in a row, until one works: what one user describes alone does
//! not take a machine from all.

use std::collections::BTreeSet;
use std::sync::Arc;

use model::{End, FinalUsage, InstanceId, Span, Time, UserName};

use super::{Borglet, Effect};

/// How long a machine that is not ready waits for its next probe.
const PROBE_AGAIN: Span = Span::from_secs(10);

/// The set-ups of tasks of so many different users have to fail in a row, with no task that starts between.
const FAILED_USERS_MAX: usize = 2;

/// What is known about it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Readiness {
    /// The users whose set-ups failed since a task last started, at most [`FAILED_USERS_MAX`].
    failed: BTreeSet<UserName>,
    probe: Probing,
}

/// When the next probe task runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Probing {
    /// No set-up has failed since the last one worked.
    #[default]
    NotNeeded,
    UnderWay,
    At(Time),
}

impl Readiness {
    pub(super) fn next(&self) -> Option<Time> {
        match self.probe {
            Probing::At(time) => Some(time),
            Probing::NotNeeded | Probing::UnderWay => None,
        }
    }

    /// A task has started.
    pub(super) fn started(&mut self) {
        self.failed.clear();
    }
}

impl Borglet {
    /// The result of the probe before the machine took tasks; the error says why it can run none.
    #[must_use]
    pub fn with_probe(mut self, now: Time, probed: Result<(), String>) -> Self {
        self.probed(now, probed);
        self
    }

    pub(super) fn set_up_failed(
        &mut self,
        now: Time,
        instance: InstanceId,
        reason: String,
        effects: &mut Vec<Effect>,
    ) {
        let lost = End::Lost { reason: format!("its machine could not set it up: {reason}") };
        self.ended(instance, lost, FinalUsage::UNMEASURED);
        let user = self.tasks.get(&instance).map(|local| &local.launch.desired.user);
        if let Some(user) = user
            && self.readiness.failed.len() < FAILED_USERS_MAX
        {
            self.readiness.failed.insert(user.clone());
        }
        let in_a_row = self.readiness.failed.len() >= FAILED_USERS_MAX;
        match self.readiness.probe {
            Probing::UnderWay if !in_a_row => {}
            Probing::NotNeeded if !in_a_row => self.probe(effects),
            Probing::At(_) => {}
            // A probe that may have begun before is not enough.
            Probing::NotNeeded | Probing::UnderWay => {
                self.readiness.probe = Probing::At(now + PROBE_AGAIN);
                self.report_readiness(Some(reason));
            }
        }
    }

    /// Something else has failed that every task needs.
    pub(super) fn doubt(&mut self, effects: &mut Vec<Effect>) {
        if self.readiness.probe == Probing::NotNeeded {
            self.probe(effects);
        }
    }

    pub(super) fn probed(&mut self, now: Time, probed: Result<(), String>) {
        if let Probing::At(_) = self.readiness.probe {
            return;
        }
        match probed {
            Ok(()) => {
                self.readiness.probe = Probing::NotNeeded;
                if self.machine.not_ready.is_some() {
                    self.readiness.failed.clear();
                }
                self.report_readiness(None);
            }
            Err(reason) => {
                self.readiness.probe = Probing::At(now + PROBE_AGAIN);
                self.report_readiness(Some(reason));
            }
        }
    }

    pub(super) fn probe_if_due(&mut self, now: Time, effects: &mut Vec<Effect>) {
        if self.readiness.next().is_some_and(|next| next <= now) {
            self.probe(effects);
        }
    }

    fn probe(&mut self, effects: &mut Vec<Effect>) {
        self.readiness.probe = Probing::UnderWay;
        effects.push(Effect::Probe);
    }

    pub(super) fn report_readiness(&mut self, not_ready: Option<String>) {
        if self.machine.not_ready != not_ready {
            Arc::make_mut(&mut self.machine).not_ready = not_ready;
        }
    }
}
