//! The link shard of a replica: it polls its part of the machines, and passes on what is new.

use std::collections::{BTreeMap, BTreeSet};

use cell::{Cell, Op};
use model::{LogIndex, MachineId, Span, Stamp, Time};

use crate::link::Link;
use crate::reachability::SAID_AGAIN;
use crate::{Action, Answer, Partition, Reachability, Settings, about, joining, observe};

/// Machines that are taken over together are polled for the first time so many at once, ...
const FIRST_POLLS: u64 = 500;
/// ... and so long after those before them.
const FIRST_POLLS_EVERY: Span = Span::from_millis(100);

/// A link shard (paper, section 3.3): every replica has one, whether it leads or not.
///
/// It needs nothing but the operations that its replica applies, and it forgets nothing when another
/// replica leads: links, reports and polls in flight stay.
///
/// # Orders
///
/// An order says what its machine is to run after the operation of the index in its stamp, whoever
/// sends it. A shard orders only what is committed, and stamps it with the last index at which that
/// changed, though with none before `since` ([`LinkShard::term_began`]). So of the orders of two
/// shards the higher stamp is the newer one, equal stamps are equal orders, and what a Borglet obeys
/// never goes back while its machine passes from one shard to another, or is polled by two.
///
/// # How a replica drives it
///
/// On every replica:
///
/// 1. At its start, where it has a checkpoint; when a snapshot has taken the cell's place; and when
///    the first operation of a term is applied, after `applied`: [`LinkShard::term_began`], with the
///    restore epoch, the term of the last operation, and the cell's index.
/// 2. An operation is applied: [`LinkShard::applied`].
/// 3. The leader of the present term said how machines are spread: [`LinkShard::serve`] with that
///    part. Until it says otherwise the part stays as it is, also while nobody leads. A replica that
///    is none of the cell's any more serves none.
/// 4. A poll came to its end: [`LinkShard::answered`]; once for each [`Action::Poll`].
/// 5. The leader said that machines begin anew: [`LinkShard::begin_anew`].
/// 6. At the end of each step, of which one is due at [`LinkShard::next_tick`]: [`LinkShard::tick`],
///    then [`LinkShard::contacts_changed`].
///
/// What comes of it:
///
/// - [`Action::Poll`]: this replica makes it.
/// - [`Action::Propose`]: where this replica leads, it is proposed. Else it is sent to the leader; where
///   none is known, dropped. It may be lost at any place.
/// - Contacts: where this replica leads, [`crate::Master::heard`]. Else they are sent to the leader, in
///   one message with the proposals of the step. They may be lost too.
///
/// On the leader, beside its own shard:
///
/// 1. The first operation of its term is applied: after `term_began`, [`crate::Master::lead`]. Then it
///    says how machines are spread, to its own shard and to every other: at once, when the replicas
///    that are active change ([`crate::Master::spread`]) or those that poll others' machines
///    ([`crate::Master::seconds`]), and from time to time, as it may be lost. To hear the same again
///    costs nothing.
/// 2. An operation is applied: after its shard, [`crate::Master::applied`].
/// 3. Contacts and proposals of a replica came. First the contacts are heard, those of its own shard
///    too, and those of machines that the sender does not poll are ignored. Then the operations are
///    proposed that the sender may propose ([`Partition::may_propose`], with the sender as `me`) and that
///    [`crate::Master::may_propose`] allows: so nobody who is back is marked down after it.
/// 4. At the end of each step, when the contacts of its own shard are heard, and of which one is due
///    at [`crate::Master::next_tick`]: [`crate::Master::tick`]. [`Action::Propose`] of it is proposed.
///    [`Action::BeginAnew`] goes to the shards of all replicas, its own too: each takes what it serves.
/// 5. It leads no longer: [`crate::Master::follow`]. Its shard goes on.
#[derive(Clone, Debug)]
pub struct LinkShard {
    settings: Settings,
    partition: Option<Partition>,
    /// The stamp of the first operation of the newest term.
    since: Option<Stamp>,
    /// When what a machine is to run changed last, for all of the cell that it did since then.
    reordered: BTreeMap<MachineId, LogIndex>,
    pub(crate) links: BTreeMap<MachineId, Link>,
    agenda: Agenda,
}

/// Which links are to be looked at, and why.
#[derive(Clone, Debug, Default)]
struct Agenda {
    /// A poll may be due.
    due: BTreeSet<(Time, MachineId)>,
    /// Something that was proposed may be lost.
    again: BTreeSet<(Time, MachineId)>,
    /// The cell has to come as far before its report is compared.
    ahead: BTreeSet<(Stamp, MachineId)>,
    /// Its contact is another one than was said, or was said long ago.
    unsaid: BTreeSet<MachineId>,
}

/// What a machine is looked at against.
struct Present<'a> {
    now: Time,
    cell: &'a Cell,
    since: Stamp,
    settings: &'a Settings,
}

impl LinkShard {
    /// A shard that serves nothing.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            partition: None,
            since: None,
            reordered: BTreeMap::new(),
            links: BTreeMap::new(),
            agenda: Agenda::default(),
        }
    }

    /// The first operation of a term is applied, and with it all that was ever acknowledged before
    /// (design, section 4); or the cell is one that a snapshot brought.
    ///
    /// Links stay, and each machine gets an order with the new stamp when it is polled next. What was
    /// proposed and is not applied by now is proposed again, and every contact said.
    pub fn term_began(&mut self, now: Time, cell: &Cell, since: Stamp) {
        self.since = Some(since);
        self.reordered.clear();
        for (machine, link) in &mut self.links {
            link.wanted = since;
            link.said = None;
            self.agenda.unsaid.insert(*machine);
            if link.lose_proposals(now) {
                self.agenda.again.insert((now, *machine));
            }
        }
        self.take_over(now, cell);
    }

    /// These machines are polled from now on, and no others: those of the part, or none. What is
    /// known of a machine that stays is kept, with its polls in flight.
    pub fn serve(&mut self, now: Time, cell: &Cell, partition: Option<Partition>) {
        if self.partition == partition {
            return;
        }
        let before = std::mem::replace(&mut self.partition, partition);
        match (before, &self.partition) {
            (Some(before), Some(partition)) if before.spread.active == partition.spread.active => {
                let seconds = before.spread.seconds.iter().chain(&partition.spread.seconds);
                let machines: BTreeSet<_> = seconds.map(|second| second.machine).collect();
                machines.into_iter().for_each(|machine| self.serve_one(now, cell, machine));
            }
            _ => self.take_over(now, cell),
        }
    }

    /// Serves a machine, or does no longer, as its part says; who is asked says how it is answered.
    fn serve_one(&mut self, now: Time, cell: &Cell, machine: MachineId) {
        let Some(partition) = &self.partition else { return };
        let mine = partition.has(machine) && cell.machine(machine).is_some();
        let asked = partition.spread.second(machine).is_some_and(|second| !second.reached);
        match (mine, self.links.get_mut(&machine)) {
            (true, None) => self.join(now, machine),
            (true, Some(link)) if asked => {
                link.said = None;
                self.agenda.unsaid.insert(machine);
            }
            (false, Some(_)) => self.leave(machine),
            _ => {}
        }
    }

    /// The part that it serves.
    #[must_use]
    pub fn partition(&self) -> Option<&Partition> {
        self.partition.as_ref()
    }

    /// An operation has been applied; `reordered` are the machines that are to run something else
    /// since, as [`cell::Applied::reordered`] has them.
    pub fn applied(
        &mut self,
        now: Time,
        cell: &Cell,
        op: &Op,
        reordered: &[MachineId],
        actions: &mut Vec<Action>,
    ) {
        let Some(since) = self.since else { return };
        for machine in reordered.iter().copied().chain(joining(cell, op)) {
            self.reorder(now, cell, machine, since);
        }
        if let Some(machine) = about(op)
            && let Some(link) = self.links.get_mut(&machine)
        {
            link.settle(op);
            let present = Present { now, cell, since, settings: &self.settings };
            self.agenda.look(&present, machine, link, actions);
        }
        self.catch_up(now, cell, since, actions);
    }

    /// A poll was answered, or was not.
    pub fn answered(
        &mut self,
        now: Time,
        cell: &Cell,
        machine: MachineId,
        had_order: bool,
        answer: &Answer,
        actions: &mut Vec<Action>,
    ) {
        let Some(since) = self.since else { return };
        let Some(link) = self.links.get_mut(&machine) else { return };
        link.answered(now, had_order, answer, &self.settings);
        let present = Present { now, cell, since, settings: &self.settings };
        actions.extend(link.turn(now, cell, machine, &self.settings).map(Action::Propose));
        self.agenda.look(&present, machine, link, actions);
        self.agenda.due.insert((link.next_poll, machine));
        if !link.is_current() {
            self.agenda.due.insert((now + self.settings.poll_spacing, machine));
        }
    }

    /// These machines have to miss all their polls once more before they are silent; those that it
    /// serves, of these.
    pub fn begin_anew(&mut self, machines: &[MachineId]) {
        for machine in machines {
            if let Some(link) = self.links.get_mut(machine) {
                link.begin_anew();
                link.said = None;
                self.agenda.unsaid.insert(*machine);
            }
        }
    }

    /// Does what is due.
    pub fn tick(&mut self, now: Time, cell: &Cell, actions: &mut Vec<Action>) {
        let Some(since) = self.since else { return };
        while let Some(machine) = pop_due(&mut self.agenda.due, now) {
            if let Some(link) = self.links.get_mut(&machine)
                && let Some(poll) = link.poll(now, cell, machine, &self.settings)
            {
                actions.push(Action::Poll(poll));
            }
        }
        let present = Present { now, cell, since, settings: &self.settings };
        while let Some(machine) = pop_due(&mut self.agenda.again, now) {
            if let Some(link) = self.links.get_mut(&machine)
                && link.is_overdue(now)
            {
                actions.extend(link.turn(now, cell, machine, &self.settings).map(Action::Propose));
                self.agenda.look(&present, machine, link, actions);
            }
        }
        self.catch_up(now, cell, since, actions);
    }

    /// When [`LinkShard::tick`] has something to do next.
    #[must_use]
    pub fn next_tick(&self) -> Option<Time> {
        let first = |of: &BTreeSet<(Time, MachineId)>| of.first().map(|(at, _)| *at);
        [first(&self.agenda.due), first(&self.agenda.again)].into_iter().flatten().min()
    }

    /// How its machines answer, where that is new since this was last taken. All of them are after a
    /// new term began; and each is from time to time, as what is said may be lost.
    pub fn contacts_changed(&mut self) -> Vec<(MachineId, Reachability)> {
        let settings = &self.settings;
        let mut say = |machine| {
            let link = self.links.get_mut(&machine)?;
            let reachability = link.reachability(settings);
            link.said = Some(reachability);
            Some((machine, reachability))
        };
        std::mem::take(&mut self.agenda.unsaid).into_iter().filter_map(&mut say).collect()
    }

    /// How all its machines answer.
    #[must_use]
    pub fn reachabilities(&self) -> Vec<(MachineId, Reachability)> {
        let reachability = |link: &Link| link.reachability(&self.settings);
        self.links.iter().map(|(machine, link)| (*machine, reachability(link))).collect()
    }

    /// Serves the machines of its part, and no others.
    fn take_over(&mut self, now: Time, cell: &Cell) {
        let (Some(partition), Some(_)) = (&self.partition, self.since) else {
            self.links.clear();
            self.agenda = Agenda::default();
            return;
        };
        let machines = cell.machines().map(|machine| machine.id);
        let mine: BTreeSet<MachineId> = machines.filter(|id| partition.has(*id)).collect();
        let gone: Vec<_> = self.links.keys().copied().filter(|id| !mine.contains(id)).collect();
        gone.into_iter().for_each(|machine| self.leave(machine));
        let new = mine.into_iter().filter(|id| !self.links.contains_key(id)).collect::<Vec<_>>();
        for (position, machine) in (0_u64..).zip(new) {
            let first_poll = now + FIRST_POLLS_EVERY.saturating_mul(position / FIRST_POLLS);
            self.join(first_poll, machine);
        }
    }

    fn join(&mut self, first_poll: Time, machine: MachineId) {
        let Some(since) = self.since else { return };
        let index = self.reordered.get(&machine).map_or(since.index, |at| since.index.max(*at));
        self.links.insert(machine, Link::new(first_poll, Stamp { index, ..since }));
        self.agenda.due.insert((first_poll, machine));
        self.agenda.unsaid.insert(machine);
    }

    fn leave(&mut self, machine: MachineId) {
        let Some(link) = self.links.remove(&machine) else { return };
        if let Some(ahead) = link.ahead {
            self.agenda.ahead.remove(&(ahead, machine));
        }
    }

    /// What a machine is to run has changed; or it has just come, or is gone.
    fn reorder(&mut self, now: Time, cell: &Cell, machine: MachineId, since: Stamp) {
        if cell.machine(machine).is_none() {
            self.reordered.remove(&machine);
            return self.leave(machine);
        }
        let index = cell.index();
        self.reordered.insert(machine, index);
        if let Some(link) = self.links.get_mut(&machine) {
            link.wanted = Stamp { index, ..since };
            link.agrees = false;
            self.agenda.due.insert((now, machine));
        } else if self.partition.as_ref().is_some_and(|partition| partition.has(machine)) {
            self.join(now, machine);
        }
    }

    /// Compares what was reported by machines that knew more than the cell did.
    fn catch_up(&mut self, now: Time, cell: &Cell, since: Stamp, actions: &mut Vec<Action>) {
        let present = Present { now, cell, since, settings: &self.settings };
        while let Some((stamp, machine)) = self.agenda.ahead.first().copied()
            && stamp <= present.reached()
        {
            self.agenda.ahead.pop_first();
            if let Some(link) = self.links.get_mut(&machine) {
                link.ahead = None;
                self.agenda.look(&present, machine, link, actions);
            }
        }
    }
}

fn pop_due(of: &mut BTreeSet<(Time, MachineId)>, now: Time) -> Option<MachineId> {
    let (_, machine) = of.first().copied().filter(|(at, _)| *at <= now)?;
    of.pop_first();
    Some(machine)
}

impl Present<'_> {
    /// How far the cell has come.
    fn reached(&self) -> Stamp {
        Stamp { index: self.cell.index(), ..self.since }
    }
}

impl Agenda {
    /// Looks at what a machine reports, against the cell, and at what is to come of its link.
    fn look(
        &mut self,
        present: &Present<'_>,
        machine: MachineId,
        link: &mut Link,
        actions: &mut Vec<Action>,
    ) {
        let Present { now, cell, settings, .. } = *present;
        let stamp = link.report.as_ref().map(|report| report.stamp);
        let ahead = stamp.filter(|stamp| *stamp > present.reached());
        if ahead != link.ahead {
            link.ahead.map(|before| self.ahead.remove(&(before, machine)));
            self.ahead.extend(ahead.map(|ahead| (ahead, machine)));
            link.ahead = ahead;
        }
        if ahead.is_none() && !link.agrees {
            observe::compare(now, cell, machine, link, settings, actions);
        }
        self.again.extend(link.again(now).map(|again| (again, machine)));
        let same = link.said == Some(link.reachability(settings));
        if !same || now.since(link.noted) >= SAID_AGAIN {
            link.noted = now;
            self.unsaid.insert(machine);
        }
    }
}
