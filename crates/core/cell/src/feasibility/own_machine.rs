//! A task of a job with one task on every machine is placed on its own machine only.

use super::{Offer, Request, UnschedulableReason};

pub(super) fn check(ask: &Request<'_>, offer: &Offer<'_>) -> Result<(), UnschedulableReason> {
    match ask.machine {
        Some(machine) if machine != offer.machine.id => Err(UnschedulableReason::OtherMachine),
        _ => Ok(()),
    }
}
