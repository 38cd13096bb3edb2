//! Tasks are placed on machines that answer, and that are not being emptied.

use super::{Ask, Misfit, Offer};
use crate::MachineState;

pub(super) fn check(_: &Ask<'_>, offer: &Offer<'_>) -> Result<(), Misfit> {
    match offer.machine.state {
        MachineState::Up if offer.machine.drain.is_some() => Err(Misfit::Draining),
        MachineState::Up => Ok(()),
        MachineState::Unreachable { .. } => Err(Misfit::Unreachable),
        MachineState::Joining | MachineState::Down { .. } => Err(Misfit::NotUp),
    }
}
