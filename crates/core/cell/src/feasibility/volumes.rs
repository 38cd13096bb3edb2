//! A machine has the volumes that a task asks for, and a task that has had its volumes is placed on
//! their machine.

use super::{Offer, Request, UnschedulableReason};

pub(super) fn check(ask: &Request<'_>, offer: &Offer<'_>) -> Result<(), UnschedulableReason> {
    match &ask.volumes {
        None => Ok(()),
        Some(volumes) => match volumes.find(offer.machine) {
            Ok(_) => Ok(()),
            Err(why) => Err(UnschedulableReason::Volume(Box::new(why))),
        },
    }
}
