//! Carrying out the actions of a load.

use replica::Codec;

use crate::load::Action;
use crate::machine::MachineEvent;
use crate::world::{Event, World};

impl<C: Codec> World<C> {
    pub(crate) fn note_action(&mut self) {
        if let Some(at) = self.load.next(self.now) {
            self.agenda.at(at.max(self.now), Event::Action);
        }
    }

    pub(crate) fn action(&mut self) {
        let cell = self.most_advanced().and_then(|host| self.masters[host].cell());
        let actions = self.load.action(self.now, cell, &mut self.random);
        for action in actions {
            match action {
                Action::Request(client, mutation) if client < self.clients.count() => {
                    self.ask(client, mutation);
                }
                Action::Repeat(client) if client < self.clients.count() => self.repeat(client),
                Action::Remove(machine, away) if machine < self.machines.len() => {
                    self.power_off(machine);
                    self.agenda.at(
                        self.now + away,
                        Event::OnMachine { machine, event: MachineEvent::Boots },
                    );
                }
                _ => {}
            }
        }
        self.note_action();
    }
}
