//! Tasks are placed on machines that answer, are not being drained, and can run them.

use super::{Offer, Request, UnschedulableReason};
use crate::MachineState;

pub(super) fn check(_: &Request<'_>, offer: &Offer<'_>) -> Result<(), UnschedulableReason> {
    is_up(offer)
}

pub(super) fn is_up(offer: &Offer<'_>) -> Result<(), UnschedulableReason> {
    match offer.machine.state {
        MachineState::Up if offer.machine.drain.is_some() => Err(UnschedulableReason::Draining),
        MachineState::Up if offer.machine.is_set_aside() => Err(UnschedulableReason::NotReady),
        MachineState::Up => Ok(()),
        MachineState::Unreachable { .. } => Err(UnschedulableReason::Unreachable),
        MachineState::Joining | MachineState::Down { .. } => Err(UnschedulableReason::NotUp),
    }
}
