//! Second opinions: what a replica does not reach, another one may.
//!
//! A machine that does not answer its own replica is polled by all other active replicas as well. The
//! first that is answered goes on with it, and the machine counts as one that answers, until its own
//! replica has reached it again for a while. Only where none of them is answered does it count for what
//! its own replica says, and can be unreachable, and down.
//!
//! That takes no longer than before: the others try while its own replica misses the rest of its polls.
//! Where very many machines do not answer at once, a bad path between two is not the cause, and the
//! others are asked about some of them only.

use std::collections::{BTreeMap, BTreeSet};

use model::{MachineId, ReplicaId, Span, Time};

use crate::{Reachability, Second, owner};

/// How long its own replica has to reach a machine again before another one lets go of it.
const BACK_AFTER: Span = Span::from_secs(30);
/// How long the others have to say whether they reach a machine: each polls it at once.
const ASKED_FOR: Span = Span::from_secs(20);
/// How long where one of them was answered before: longer than it takes to miss all polls.
const ASKED_AGAIN_FOR: Span = Span::from_secs(120);
/// When the others are asked again about a machine that none of them reached.
const ASK_AGAIN: Span = Span::from_secs(60);
/// Machines that others poll at once.
const SECONDS_MAX: usize = 1_000;

/// What the leader knows of how each machine answers whom.
#[derive(Clone, Debug, Default)]
pub(crate) struct Opinions {
    active: Vec<ReplicaId>,
    machines: BTreeMap<MachineId, Opinion>,
    /// Who polls machines beside their own replicas.
    seconds: BTreeMap<MachineId, Second>,
    due: BTreeSet<(Time, MachineId)>,
}

#[derive(Clone, Debug, Default)]
struct Opinion {
    /// How it answers its own replica.
    own: Reachability,
    others: Others,
    /// When it is looked at again.
    due: Option<Time>,
}

/// How it answers the others.
#[derive(Clone, Debug, Default)]
enum Others {
    /// They were not asked: it answers its own.
    #[default]
    Unasked,
    /// They poll it, and these were not answered; who has said nothing by then was not, either.
    Asked { failed: BTreeSet<ReplicaId>, until: Time, why: Why },
    /// This one is answered; and its own again, since then.
    Reached { by: ReplicaId, own: Option<Time> },
    /// None was answered. They are asked again then.
    Nobody { again: Time },
}

/// Why they are asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Why {
    /// Its own is not answered.
    Own,
    /// This one was answered, and is no longer: it has to miss all its polls, as its own had.
    Last(ReplicaId),
    /// None was answered when they were asked before: meanwhile its own is believed.
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
    /// What the machine counts as.
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
    /// Who polls machines beside their own replicas, by machine.
    pub(crate) fn seconds(&self) -> impl Iterator<Item = &Second> {
        self.seconds.values()
    }

    /// How a machine answers its own replica, as that said last.
    pub(crate) fn own(&self, machine: MachineId) -> Reachability {
        self.machines.get(&machine).map(|opinion| opinion.own).unwrap_or_default()
    }

    /// Whether a replica is a machine's own.
    pub(crate) fn is_own(&self, replica: ReplicaId, machine: MachineId) -> bool {
        owner(machine, &self.active) == Some(replica)
    }

    /// These are active from now on.
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

    /// A replica says how a machine answers it. What the machine counts as then; nothing where it is
    /// not that replica's to say.
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

    /// Does what is due; machines that may count as something else since.
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

    /// When there is something to do next.
    pub(crate) fn next(&self) -> Option<Time> {
        self.due.first().map(|(at, _)| *at)
    }

    /// Nothing is known of a machine any more, or it begins anew.
    pub(crate) fn forget(&mut self, machine: MachineId) {
        self.seconds.remove(&machine);
        if let Some(due) = self.machines.remove(&machine).and_then(|opinion| opinion.due) {
            self.due.remove(&(due, machine));
        }
    }

    /// What follows from what is known of a machine.
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
