//! Moves after which a machine is empty.

use cell::Machine;
use cell::feasibility::{Offer, is_available};

use crate::rooms::PackingRooms;
use crate::{PackingGain, PackingProposal, total, worth};

/// How many tasks a machine has at most that is emptied.
const TASKS: usize = 4;
/// How many machines are examined, those with the fewest tasks first.
const MACHINES: usize = 64;

/// Proposes to empty machines, as far as moves are left.
pub(crate) fn machines(rooms: &mut PackingRooms<'_>, proposals: &mut Vec<PackingProposal>) {
    let cell = rooms.cell;
    let few = |machine: &&std::sync::Arc<Machine>| {
        (1..=TASKS).contains(&machine.instances().len()) && is_available(&Offer::of(machine))
    };
    let mut machines: Vec<_> = cell.machines().filter(few).collect();
    machines.sort_by_key(|machine| (machine.instances().len(), machine.id));
    for machine in machines.into_iter().take(MACHINES) {
        if rooms.moves_left() == 0 || rooms.is_exhausted() {
            return;
        }
        if rooms.is_used(machine.id) || rooms.is_awaited(machine.id) {
            continue;
        }
        let movable = rooms.movable(machine);
        if movable.len() < machine.instances().len() {
            continue;
        }
        let Some(moves) = rooms.moves(machine, &movable, true) else { continue };
        let gain = worth::of_machine(machine.capacity(), rooms.largest);
        if total(&moves) < gain {
            let gained = PackingGain::Empties(machine.id);
            let proposal = PackingProposal { gain: gained, worth: gain, moves };
            rooms.carry_out(&proposal);
            proposals.push(proposal);
        }
    }
}
