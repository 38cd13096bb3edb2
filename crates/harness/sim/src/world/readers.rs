//! Clients that make linearizable reads on any replica, and a reader of names.

use model::Span;
use replica::{Codec, Input};

use crate::injected_bug::InjectedBug;
use crate::network::{Fate, Node};
use crate::world::master::Requester;
use crate::world::{Event, World};

/// Mean time between two reads.
const MEAN: Span = Span::from_secs(1);

impl<C: Codec> World<C> {
    pub(crate) fn reads(&mut self) {
        let host = self.any_master();
        self.name_read(host);
        if let Fate::Arrives(delay, _) = self.network.send(Node::Clients, Node::Master(host)) {
            self.agenda.at(self.now + delay, Event::ReadAsked { host });
        }
        let wait = self.operator.wait(MEAN);
        self.agenda.at(self.now + wait, Event::Reads);
    }

    pub(crate) fn read_asked(&mut self, host: usize) {
        let (floor, master) = (self.invariants.floor(), &mut self.masters[host]);
        let Some(index) = master.cell().map(cell::Cell::index) else { return };
        if self.injected_bug == Some(InjectedBug::LeaderReads) && master.leads.is_some() {
            return self.invariants.read(master.id(), floor, index);
        }
        let ticket = master.ticket(Requester::Reader(floor));
        self.tell_master(host, Input::Read(ticket));
    }
}
