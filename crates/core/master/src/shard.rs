//! The link shard of a replica: polls the machines of its partition and passes on news.

use std::collections::{BTreeMap, BTreeSet};

use cell::{Cell, Op};
use model::{LogIndex, MachineId, Span, Stamp, Term, Time};

use crate::link::Link;
use crate::reachability::SAID_AGAIN;
use crate::{Action, Answer, Partition, Reachability, Settings, about, joining, observe};

/// When many machines are taken over together, at most this many first polls are made at once, ...
const FIRST_POLLS: u64 = 500;
/// ... each batch this long after the previous one.
const FIRST_POLLS_EVERY: Span = Span::from_millis(100);

/// A link shard (paper, section 3.3). Every replica has one, whether it leads or not.
///
/// It depends only on the operations that its replica applies. A change of leader does not affect
/// it: links, reports and polls in flight stay.
///
/// # Orders
///
/// An order states what its machine should run after the operation at the index in its stamp,
/// whichever shard sends it. A shard orders only committed state. It stamps an order with the last
/// index at which the machine's instances changed, but at least with `since`
/// ([`LinkShard::term_began`]). So of the orders of two shards the higher stamp is the newer one,
/// and equal stamps mean equal orders. What a Borglet obeys never goes back while its machine moves
/// from one shard to another, or is polled by two.
///
/// # How a replica drives it
///
/// On every replica:
///
/// 1. At its start, if it has a checkpoint; when a snapshot has replaced the cell; and when the
///    first operation of a term is applied, after `applied`: [`LinkShard::term_began`] with the
///    restore epoch, the term of the last operation, and the cell's index.
/// 2. When an operation is applied: [`LinkShard::applied`].
/// 3. When the leader of the current term sends the assignment of machines: [`LinkShard::serve`]
///    with the replica's partition. It stays in force until the next one, even without a leader. A
///    replica that was removed from the cell serves none.
/// 4. When a poll has completed: [`LinkShard::answered`]; once for each [`Action::Poll`].
/// 5. When the leader tells that machines begin anew: [`LinkShard::begin_anew`].
/// 6. At the end of each step, one of which is due at [`LinkShard::next_tick`]:
///    [`LinkShard::tick`], then [`LinkShard::contacts_changed`].
///
/// The results:
///
/// - [`Action::Poll`]: this replica makes the poll.
/// - [`Action::Propose`]: proposed if this replica leads, otherwise sent to the leader. Dropped
///   without a known leader; it may be lost anywhere.
/// - Reachabilities: passed to [`crate::Master::heard`] if this replica leads, otherwise sent to
///   the leader, in one message with the proposals of the step. They may be lost, too.
///
/// On the leader, in addition to its own shard:
///
/// 1. When the first operation of its term is applied: after `term_began`, [`crate::Master::lead`].
///    Then it sends the assignment of machines to its own shard and to every other: at once when
///    the active replicas change ([`crate::Master::spread`]) or the additional polls
///    ([`crate::Master::seconds`]), and periodically, since messages may be lost. Repetitions cost
///    nothing.
/// 2. When an operation is applied: after its shard, [`crate::Master::applied`].
/// 3. When reachabilities and proposals of a replica arrive: first the reachabilities are
///    processed, including those of its own shard; those of machines that the sender does not poll
///    are ignored. Then the operations are proposed that the sender may propose
///    ([`Partition::may_propose`], with the sender as `me`) and that [`crate::Master::may_propose`]
///    allows: so a machine that is back is not marked down afterwards.
/// 4. At the end of each step, after the reachabilities of its own shard are processed, one of
///    which is due at [`crate::Master::next_tick`]: [`crate::Master::tick`]. Its
///    [`Action::Propose`] is proposed. [`Action::BeginAnew`] goes to the shards of all replicas,
///    its own included: each processes the machines that it serves.
/// 5. When it stops leading: [`crate::Master::follow`]. Its shard continues.
#[derive(Clone, Debug)]
pub struct LinkShard {
    settings: Settings,
    partition: Option<Partition>,
    /// The stamp of the first operation of the newest term.
    since: Option<Stamp>,
    /// The last index at which the instances of each machine changed, since that term began.
    reordered: BTreeMap<MachineId, LogIndex>,
    pub(crate) links: BTreeMap<MachineId, Link>,
    agenda: Agenda,
}

/// The links to look at, and why.
#[derive(Clone, Debug, Default)]
struct Agenda {
    /// A poll may be due.
    due: BTreeSet<(Time, MachineId)>,
    /// A proposal may be lost.
    again: BTreeSet<(Time, MachineId)>,
    /// The cell must reach this term and index before the report is compared.
    ahead: BTreeSet<(Term, LogIndex, MachineId)>,
    /// Its reachability has changed since it was reported, or was reported long ago.
    unsaid: BTreeSet<MachineId>,
}

/// The context in which a link is examined.
struct Present<'a> {
    now: Time,
    cell: &'a Cell,
    since: Stamp,
    settings: &'a Settings,
}

impl LinkShard {
    /// Creates a shard that serves no machines.
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

    /// The first operation of a term is applied, and with it everything acknowledged before
    /// (design, section 4); or a snapshot has replaced the cell.
    ///
    /// Links stay. Each machine gets an order with the new stamp at its next poll. Unapplied
    /// proposals are repeated, and all reachabilities are reported.
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

    /// Polls exactly the machines of the partition from now on; none for `None`. The links of
    /// machines that stay are kept, with their polls in flight.
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

    /// Starts or stops serving a machine, as the partition says, and reports its reachability if
    /// asked to.
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

    /// The partition that it serves.
    #[must_use]
    pub fn partition(&self) -> Option<&Partition> {
        self.partition.as_ref()
    }

    /// An operation was applied; `reordered` are the machines whose instances changed, as in
    /// [`cell::Applied::reordered`].
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

    /// A poll has completed.
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

    /// Requires these machines to miss all their polls again before they count as silent; ignores
    /// those that it does not serve.
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

    /// When [`LinkShard::tick`] is due next.
    #[must_use]
    pub fn next_tick(&self) -> Option<Time> {
        let first = |of: &BTreeSet<(Time, MachineId)>| of.first().map(|(at, _)| *at);
        [first(&self.agenda.due), first(&self.agenda.again)].into_iter().flatten().min()
    }

    /// Takes the reachabilities that changed since the last call. Includes all machines after a new
    /// term began, and each one periodically, since messages may be lost.
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

    /// The reachabilities of all its machines.
    #[must_use]
    pub fn reachabilities(&self) -> Vec<(MachineId, Reachability)> {
        let reachability = |link: &Link| link.reachability(&self.settings);
        self.links.iter().map(|(machine, link)| (*machine, reachability(link))).collect()
    }

    /// Serves exactly the machines of its partition.
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
            self.agenda.ahead.remove(&(ahead.term, ahead.index, machine));
        }
    }

    /// The instances of a machine have changed, or it has joined or left.
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

    /// Compares the reports that were ahead of the cell and no longer are.
    fn catch_up(&mut self, now: Time, cell: &Cell, since: Stamp, actions: &mut Vec<Action>) {
        let present = Present { now, cell, since, settings: &self.settings };
        let reached = present.reached();
        while let Some((term, index, machine)) = self.agenda.ahead.first().copied()
            && (term, index) <= (reached.term, reached.index)
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
    /// The stamp that the cell has reached.
    fn reached(&self) -> Stamp {
        Stamp { index: self.cell.index(), ..self.since }
    }
}

impl Agenda {
    /// Examines a link: compares its report with the cell, and schedules what is due next.
    fn look(
        &mut self,
        present: &Present<'_>,
        machine: MachineId,
        link: &mut Link,
        actions: &mut Vec<Action>,
    ) {
        let Present { now, cell, settings, .. } = *present;
        let stamp = link.report.as_ref().map(|report| report.stamp);
        let is_reached = |stamp: &Stamp| *stamp <= present.reached();
        let ahead = stamp.filter(|stamp| !is_reached(stamp));
        if ahead != link.ahead {
            if let Some(before) = link.ahead {
                self.ahead.remove(&(before.term, before.index, machine));
            }
            // The cell never reaches the stamp of another restoration.
            let same = |ahead: &Stamp| ahead.restore_epoch == present.since.restore_epoch;
            let reaches = ahead.filter(same);
            self.ahead.extend(reaches.map(|ahead| (ahead.term, ahead.index, machine)));
            (link.ahead, link.ahead_since) = (ahead, now);
        }
        if ahead.is_some() {
            actions.extend(observe::rejection(now, cell, machine, link, settings));
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
