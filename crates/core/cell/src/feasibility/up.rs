//! Tasks are placed on machines that answer and are not being drained.

use super::{Offer, Request, UnschedulableReason};
use crate::MachineState;

pub(super) fn check(_: &Request<'_>, offer: &Offer<'_>) -> Result<(), UnschedulableReason> {
    match offer.machine.state {
        MachineState::Up if offer.machine.drain.is_some() => Err(UnschedulableReason::Draining),
        MachineState::Up => Ok(()),
        MachineState::Unreachable { .. } => Err(UnschedulableReason::Unreachable),
        MachineState::Joining | MachineState::Down { .. } => Err(UnschedulableReason::NotUp),
    }
}
