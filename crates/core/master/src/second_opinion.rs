//! Second opinions: a machine that one replica cannot reach may be reachable from another.
//!
//! A machine that does not answer its own replica is polled by all other active replicas as well.
//! The first one that gets an answer keeps polling it, and the machine counts as answering until
//! its own replica has reached it again for a while. Only if none of them gets an answer does the
//! reachability at its own replica count, so that it can become unreachable and down.
//!
//! This causes no delay: the others try while its own replica misses the rest of its polls. If very
//! many machines stop answering at once, a bad path between two hosts is not the cause, and the
//! others poll only some of them.

use std::collections::{BTreeMap, BTreeSet};

use model::{MachineId, ReplicaId, Span, Time};

use crate::{Reachability, Second, owner};

/// How long its own replica must reach a machine again before the other one stops polling it.
const BACK_AFTER: Span = Span::from_secs(30);
/// How long the others have to report whether they reach a machine; each polls it at once.
const ASKED_FOR: Span = Span::from_secs(20);
/// The same if one of them was answered before: longer than it takes to miss all polls.
const ASKED_AGAIN_FOR: Span = Span::from_secs(120);
/// The interval after which the others retry a machine that none of them reached.
const ASK_AGAIN: Span = Span::from_secs(60);
/// The maximum number of machines polled by others at the same time.
const SECONDS_MAX: usize = 1_000;

/// The leader's knowledge of which replica reaches which machine.
#[derive(Clone, Debug, Default)]
pub(crate) struct Opinions {
    active: Vec<ReplicaId>,
    machines: BTreeMap<MachineId, Opinion>,
    /// The replicas that poll machines of others.
    seconds: BTreeMap<MachineId, Second>,
    due: BTreeSet<(Time, MachineId)>,
}

#[derive(Clone, Debug, Default)]
struct Opinion {
    /// The reachability at its own replica.
    own: Reachability,
    others: Others,
    /// When to reconsider it.
    due: Option<Time>,
}

/// The reachability at the other replicas.
#[derive(Clone, Debug, Default)]
enum Others {
    /// They were not asked: it answers its own replica.
    #[default]
    Unasked,
    /// They poll it until a deadline; these got no answer. Replicas without a report by then count
    /// as unanswered.
    Asked { failed: BTreeSet<ReplicaId>, until: Time, why: Why },
    /// This replica is answered, and its own again since `own`.
    Reached { by: ReplicaId, own: Option<Time> },
    /// None was answered. They retry at this time.
    Nobody { again: Time },
}

/// Why the others poll a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Why {
    /// Its own replica is not answered.
    Own,
    /// This replica was answered, and no longer is: the machine must miss all its polls, as at its
    /// own.
    Last(ReplicaId),
    /// A retry after none was answered: meanwhile the report of its own replica counts.
    Again,
}

impl Others {
    fn asked(now: Time, why: Why) -> Self {
        let asked_for = if let Why::Last(_) = why { ASKED_AGAIN_FOR } else { ASKED_FOR };
        Self::Asked { failed: BTreeSet::new(), until: now + asked_for, why }
    }

    fn due(&self) -> Option<Time> {
        match self {
            Self::Asked { until, .. } => Some(*until),
            Self::Reached { own: Some(since), .. } => Some(*since + BACK_AFTER),
            Self::Nobody { again } => Some(*again),
            _ => None,
        }
    }
}

impl Opinion {
    /// The combined reachability of the machine.
    fn reachability(&self) -> Reachability {
        match (&self.others, self.own) {
            (Others::Reached { .. }, _) => Reachability::Answers,
            (Others::Asked { why: Why::Again, .. }, own) => own,
            (Others::Asked { .. }, Reachability::Silent) => Reachability::Doubtful,
            (_, own) => own,
        }
    }
}

fn fails(reachability: Reachability) -> bool {
    matches!(reachability, Reachability::Doubtful | Reachability::Silent)
}

impl Opinions {
    /// The replicas that poll machines of others, sorted by machine.
    pub(crate) fn seconds(&self) -> impl Iterator<Item = &Second> {
        self.seconds.values()
    }

    /// The last reachability of a machine at its own replica.
    pub(crate) fn own(&self, machine: MachineId) -> Reachability {
        self.machines.get(&machine).map(|opinion| opinion.own).unwrap_or_default()
    }

    /// Whether the machine belongs to the replica's own partition.
    pub(crate) fn is_own(&self, replica: ReplicaId, machine: MachineId) -> bool {
        owner(machine, &self.active) == Some(replica)
    }

    /// Sets the active replicas.
    pub(crate) fn spread(&mut self, now: Time, active: &[ReplicaId]) {
        if self.active == active {
            return;
        }
        let before = std::mem::replace(&mut self.active, active.to_vec());
        let machines: Vec<MachineId> = self.machines.keys().copied().collect();
        for machine in machines {
            let Some(opinion) = self.machines.get_mut(&machine) else { continue };
            if owner(machine, &before) != owner(machine, active) {
                // Its new owner starts to poll it.
                (opinion.own, opinion.others) = Default::default();
            } else if let Others::Reached { by, .. } = opinion.others
                && !active.contains(&by)
            {
                opinion.others = Others::asked(now, Why::Own);
            } else if let Others::Asked { failed, .. } = &mut opinion.others {
                failed.retain(|replica| active.contains(replica));
            }
            self.settle(now, machine);
        }
    }

    /// A replica reports the reachability of a machine. Returns the combined reachability; `None`
    /// if the replica does not poll that machine.
    pub(crate) fn hear(
        &mut self,
        now: Time,
        from: ReplicaId,
        machine: MachineId,
        reachability: Reachability,
    ) -> Option<Reachability> {
        if self.is_own(from, machine) {
            self.hear_own(now, machine, reachability);
        } else {
            let second = self.seconds.get(&machine)?;
            if !second.by.contains(&from) {
                return None;
            }
            let opinion = self.machines.get_mut(&machine)?;
            match (&mut opinion.others, reachability) {
                (Others::Asked { .. }, Reachability::Answers) => {
                    let own = (opinion.own == Reachability::Answers).then_some(now);
                    opinion.others = Others::Reached { by: from, own };
                }
                (
                    Others::Asked { failed, why, .. },
                    Reachability::Doubtful | Reachability::Silent,
                ) if reachability == Reachability::Silent || *why != Why::Last(from) => {
                    failed.insert(from);
                }
                (Others::Reached { by, .. }, Reachability::Doubtful | Reachability::Silent)
                    if *by == from =>
                {
                    opinion.others = Others::asked(now, Why::Last(from));
                }
                _ => {}
            }
        }
        self.settle(now, machine);
        self.machines.get(&machine).map(Opinion::reachability)
    }

    fn hear_own(&mut self, now: Time, machine: MachineId, reachability: Reachability) {
        let full = self.seconds.len() >= SECONDS_MAX;
        let opinion = self.machines.entry(machine).or_default();
        opinion.own = reachability;
        match &mut opinion.others {
            Others::Reached { own, .. } => {
                *own = (reachability == Reachability::Answers).then(|| own.unwrap_or(now));
            }
            Others::Unasked if fails(reachability) => {
                opinion.others = match full {
                    true => Others::Nobody { again: now + ASK_AGAIN },
                    false => Others::asked(now, Why::Own),
                };
            }
            others if !fails(reachability) => *others = Others::Unasked,
            _ => {}
        }
    }

    /// Does what is due; returns machines whose combined reachability may have changed.
    pub(crate) fn tick(&mut self, now: Time) -> Vec<(MachineId, Reachability)> {
        let mut changed = Vec::new();
        while let Some((at, machine)) = self.due.first().copied()
            && at <= now
        {
            self.due.pop_first();
            let full = self.seconds.len() >= SECONDS_MAX;
            let Some(opinion) = self.machines.get_mut(&machine) else { continue };
            opinion.due = None;
            match opinion.others {
                Others::Nobody { .. } if !full => {
                    opinion.others = Others::asked(now, Why::Again);
                }
                Others::Asked { .. } | Others::Nobody { .. } => {
                    opinion.others = Others::Nobody { again: now + ASK_AGAIN };
                }
                Others::Reached { own: Some(_), .. } => opinion.others = Others::Unasked,
                _ => {}
            }
            self.settle(now, machine);
            changed.extend(
                self.machines.get(&machine).map(|opinion| (machine, opinion.reachability())),
            );
        }
        changed
    }

    /// When something is due next.
    pub(crate) fn next(&self) -> Option<Time> {
        self.due.first().map(|(at, _)| *at)
    }

    /// Forgets a machine that left or begins anew.
    pub(crate) fn forget(&mut self, machine: MachineId) {
        self.seconds.remove(&machine);
        if let Some(due) = self.machines.remove(&machine).and_then(|opinion| opinion.due) {
            self.due.remove(&(due, machine));
        }
    }

    /// Updates timers and second polls from what is known of a machine.
    fn settle(&mut self, now: Time, machine: MachineId) {
        let Some(opinion) = self.machines.get_mut(&machine) else { return };
        let own = owner(machine, &self.active);
        let others = || self.active.iter().copied().filter(|replica| Some(*replica) != own);
        if let Others::Asked { failed, .. } = &opinion.others
            && others().all(|replica| failed.contains(&replica))
        {
            opinion.others = Others::Nobody { again: now + ASK_AGAIN };
        }
        let (by, reached) = match &opinion.others {
            Others::Asked { .. } => (others().collect(), false),
            Others::Reached { by, .. } => (vec![*by], true),
            Others::Unasked | Others::Nobody { .. } => (Vec::new(), false),
        };
        match by.is_empty() {
            true => drop(self.seconds.remove(&machine)),
            false => drop(self.seconds.insert(machine, Second { machine, by, reached })),
        }
        let due = opinion.others.due();
        if opinion.due != due {
            opinion.due.map(|before| self.due.remove(&(before, machine)));
            self.due.extend(due.map(|due| (due, machine)));
            opinion.due = due;
        }
    }
}
