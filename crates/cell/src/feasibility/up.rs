//! Tasks are placed on machines that answer.

use super::{Ask, Misfit, Offer};
use crate::MachineState;

pub(super) fn check(_: &Ask, offer: &Offer<'_>) -> Result<(), Misfit> {
    match offer.machine.state {
        MachineState::Up => Ok(()),
        MachineState::Joining | MachineState::Down { .. } => Err(Misfit::NotUp),
    }
}
