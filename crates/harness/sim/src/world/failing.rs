//! Faults of the Borgmaster's replicas: of their processes, their disks, and the membership.

use cell::{Cell, Mutation, RemoveReplica};
use model::{Random, ReplicaId, Span};
use replica::{Codec, Input};

use crate::disk::Crash;
use crate::fault::{FaultKind, Who};
use crate::network::Node;
use crate::world::{Event, World};

/// Mean time between two requested leadership transfers.
const TRANSFERS: Span = Span::from_millis(700);
/// Maximum number of replicas that faults may create.
const REPLICAS_MAX: usize = 7;
/// How often in a thousand a cell is restored from a second replica soon after a first.
const RESTORED_AGAIN: u64 = 400;

impl FaultKind {
    fn who(&self) -> Option<Who> {
        match self {
            Self::Master(who, _)
            | Self::MasterFrozen(who)
            | Self::SlowDisk(who, _)
            | Self::FullDisk(who)
            | Self::LyingDisk(who)
            | Self::RottenCheckpoint(who)
            | Self::EmptyDisk(who)
            | Self::FewerReplicas(who)
            | Self::Replaced(who) => Some(*who),
            _ => None,
        }
    }
}

impl<C: Codec> World<C> {
    /// The replicas that a fault affects: when it ends, those selected when it began.
    fn concerned(&mut self, number: usize, kind: &FaultKind, begins: bool) -> Vec<usize> {
        if !begins {
            return self.concerned.remove(&number).unwrap_or_default();
        }
        let present = self.present();
        let hosts: Vec<usize> = match kind.who() {
            None => Vec::new(),
            Some(Who::All) => present,
            Some(Who::Elected) => vec![self.leading().or(present.first().copied()).unwrap_or(0)],
            Some(Who::Nth(nth)) => {
                present.get(nth % present.len().max(1)).copied().into_iter().collect()
            }
        };
        self.concerned.insert(number, hosts.clone());
        hosts
    }

    pub(crate) fn fault_of_masters(
        &mut self,
        number: usize,
        kind: &FaultKind,
        lasts: Span,
        begins: bool,
    ) {
        let hosts = self.concerned(number, kind, begins);
        match kind {
            FaultKind::Restore if begins => self.restore_cell(),
            FaultKind::MoreReplicas => self.more_replicas(number, begins),
            FaultKind::Transfers | FaultKind::Unlucky => {
                self.operator.transfers = begins;
                self.operator.unlucky = begins && *kind == FaultKind::Unlucky;
                self.agenda.at(self.now, Event::Transfer);
            }
            FaultKind::FewerReplicas(_) if !begins => self.operator.wanted += hosts.len(),
            FaultKind::FewerReplicas(_) | FaultKind::Replaced(_) if begins => {
                let fewer = matches!(kind, FaultKind::FewerReplicas(_));
                let removed: Vec<usize> =
                    hosts.into_iter().filter(|host| self.remove_replica(*host)).collect();
                if fewer {
                    self.operator.wanted -= removed.len();
                }
                self.concerned.insert(number, removed);
            }
            FaultKind::Master(Who::All, how) if begins => {
                // They restart in random order.
                for host in hosts {
                    let after = self.operator.span(lasts);
                    self.crash_master(host, *how, after);
                }
            }
            _ => hosts.into_iter().for_each(|host| self.fault_of_master(host, kind, lasts, begins)),
        }
    }

    fn fault_of_master(&mut self, host: usize, kind: &FaultKind, lasts: Span, begins: bool) {
        let several = self.operator.has_several();
        match (kind, begins) {
            (FaultKind::Master(_, how), true) => self.crash_master(host, *how, lasts),
            (FaultKind::MasterFrozen(_), begins) => self.freeze_master(host, begins),
            (FaultKind::SlowDisk(_, slow), true) => self.masters[host].disk.slow = *slow,
            (FaultKind::SlowDisk(..), false) => self.masters[host].disk.slow = Span::ZERO,
            (FaultKind::FullDisk(_), true) => self.masters[host].disk.full = true,
            (FaultKind::FullDisk(_), false) => self.disk_has_room(host),
            // Without a backup the cell could not continue.
            (FaultKind::LyingDisk(_), true) => {
                self.masters[host].disk.lies = match several {
                    true => self.can_lose(host),
                    false => self.masters[host].disk.has_checkpoint(),
                };
            }
            (FaultKind::LyingDisk(_), false) if self.masters[host].disk.lies => {
                self.crash_master(host, Crash::PowerLost, Span::from_secs(2));
            }
            (FaultKind::RottenCheckpoint(_), true) => {
                // One of several may have nothing else, since what it has came from another one.
                if !several
                    || self.masters[host].disk.can_do_without_newest()
                    || self.can_lose(host)
                {
                    self.masters[host].disk.newest_checkpoint_rots();
                }
                self.crash_master(host, Crash::PowerLost, Span::from_secs(2));
            }
            // The only replica could not recover, and without a majority no replica can be
            // replaced.
            (FaultKind::EmptyDisk(_), true) if self.can_lose(host) => {
                self.crash_master(host, Crash::PowerLost, lasts);
                self.empty_disk(host);
            }
            _ => {}
        }
    }

    /// A replica continues from an empty directory, which has a new identity.
    fn empty_disk(&mut self, host: usize) {
        let master = &mut self.masters[host];
        master.disk.forget();
        master.founder = None;
        master.settings.directory.0 += 1_000;
    }

    fn more_replicas(&mut self, number: usize, begins: bool) {
        if !begins {
            self.operator.wanted -= usize::from(self.more.remove(&number));
        } else if self.operator.wanted < REPLICAS_MAX {
            self.operator.wanted += 1;
            self.more.insert(number);
        }
    }

    /// The administrator removes a replica, if the others can do without it.
    fn remove_replica(&mut self, host: usize) -> bool {
        let can = self.can_lose(host);
        if can {
            let replica: ReplicaId = self.masters[host].id();
            self.ask(0, Mutation::RemoveReplica(RemoveReplica { replica }));
        }
        can
    }

    /// An operator requests a leadership transfer.
    pub(crate) fn transfer(&mut self) {
        if !self.operator.transfers {
            return;
        }
        let to = self.any_master();
        let to = Some(self.masters[to].id()).filter(|_| self.operator.chance(700));
        if let Some(leading) = self.leading() {
            self.tell_master(leading, Input::Transfer(to));
        }
        let wait = self.operator.wait(TRANSFERS);
        self.agenda.at(self.now + wait, Event::Transfer);
    }

    /// A replica has voted: while that fault is active, half of the time it loses power right
    /// after.
    pub(crate) fn voted(&mut self, host: usize, after: Span) {
        if self.operator.unlucky && self.operator.chance(500) {
            let (incarnation, after) =
                (self.masters[host].incarnation, after + self.operator.span(Span(2_000)));
            self.agenda.at(self.now + after, Event::MasterDies { host, incarnation });
        }
    }

    pub(crate) fn dies(&mut self, host: usize, incarnation: u64) {
        if self.masters[host].incarnation == incarnation {
            let after = self.operator.span(Span::from_millis(300));
            self.crash_master(host, Crash::PowerLost, after);
        }
    }

    /// Ends all faults of replicas.
    pub(crate) fn heal_masters(&mut self) {
        (self.operator.transfers, self.operator.unlucky) = (false, false);
        for host in self.present() {
            self.freeze_master(host, false);
            self.masters[host].disk.slow = Span::ZERO;
            self.disk_has_room(host);
        }
    }

    /// The operator restores the older checkpoint of a replica, and the other replicas are
    /// discarded.
    fn restore_cell(&mut self) {
        let several = self.operator.has_several();
        let present = self.present();
        let has = |host: &usize| {
            let disk = &self.masters[*host].disk;
            disk.has_checkpoint() && !disk.lies
        };
        let able: Vec<usize> =
            present.iter().copied().filter(|host| !several || has(host)).collect();
        let chosen = if several { self.operator.one_of(&able) } else { Some(0) };
        let Some(chosen) = chosen.filter(|chosen| self.would_be_obeyed(*chosen)) else { return };
        let voters = self.cell().map_or(0, |cell| cell.voters().count());
        let others: Vec<usize> = present.into_iter().filter(|host| *host != chosen).collect();
        others.iter().for_each(|host| self.end_master(*host));
        if voters > 2 && self.operator.chance(500) {
            // One of the discarded replicas is started by mistake: it must be ignored.
            let forgotten = self.operator.one_of(&others);
            forgotten.into_iter().for_each(|host| self.forget_to_end(host));
        }
        if let Some(other) = others.first().filter(|_| several) {
            // With random numbers of its own: other faults stay those of the seed.
            let mut random = Random::new(self.now.0);
            if random.chance(RESTORED_AGAIN) {
                let after = random.wait(Span::from_secs(60));
                self.agenda.at(self.now + after, Event::RestoredAgain { host: *other });
            }
        }
        self.crash_master(chosen, Crash::Killed, Span::from_secs(2));
        self.restore(chosen);
    }

    /// Another operator, who knows nothing of a restoration, restores a replica that it discarded.
    pub(crate) fn restore_again(&mut self, host: usize) {
        let disk = &self.masters[host].disk;
        let able = disk.has_checkpoint() && !disk.lies && !disk.lost;
        if !able || !self.masters[host].gone || !self.would_be_obeyed(host) {
            return;
        }
        self.present().into_iter().for_each(|other| self.end_master(other));
        self.masters[host].gone = false;
        self.agenda.at(self.now + Span::from_secs(2), Event::MasterStarts { host });
        self.restore(host);
    }

    /// Whether the operator learns of the last restoration, so that the machines obey another one.
    fn would_be_obeyed(&self, host: usize) -> bool {
        let own = self.masters[host].disk.restore_epoch.counter;
        own.max(self.known_restorations(host)) >= self.invariants.epoch().counter
    }

    /// A replica that was discarded is started again, and stopped for good later.
    fn forget_to_end(&mut self, host: usize) {
        self.masters[host].gone = false;
        let starts = self.operator.wait(Span::from_secs(5));
        let ends = starts + self.operator.wait(Span::from_secs(60));
        self.agenda.at(self.now + starts, Event::MasterStarts { host });
        self.agenda.at(self.now + ends, Event::MasterEnds { host });
    }

    /// The highest counter of a restore epoch that the machines know which can be reached from a
    /// replica's host.
    fn known_restorations(&self, host: usize) -> u64 {
        let (from, machines) = (Node::Master(host), self.machines.iter().enumerate());
        let answers = machines.filter(|(number, machine)| {
            let there = Node::Machine(*number);
            let cut = self.network.is_cut(from, there) || self.network.is_cut(there, from);
            machine.answers() && !cut
        });
        let known = answers.map(|(_, machine)| machine.said.stamp.restore_epoch.counter);
        known.max().unwrap_or(0)
    }

    /// The operator restores the older checkpoint of a replica, if there is one and it does not
    /// run.
    pub(crate) fn restore(&mut self, host: usize) {
        if self.masters[host].is_up() {
            return;
        }
        let (id, known) = (self.masters[host].id(), self.known_restorations(host));
        let former = self.masters[host].disk.restore_epoch;
        let alone = |cell: Cell| match self.operator.has_several() {
            true => Cell::from_image(cell.image().of_one_replica(id, None)).unwrap_or(cell),
            false => cell,
        };
        if let Some(cell) = self.masters[host].disk.restore(known, alone) {
            let epoch = self.masters[host].disk.restore_epoch;
            self.invariants.restored(former, epoch, &cell);
            self.checks.borrow_mut().begin(&cell);
            self.clients.forget_sessions();
            // The cell does not know machines that joined since.
            self.add_machines();
        }
    }
}
