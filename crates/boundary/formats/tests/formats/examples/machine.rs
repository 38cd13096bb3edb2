//! What machines report beside their tasks.

use model::{Bytes, HeldPorts, PortRange, SaverOutcome, Saving, Time};

use super::instance;

/// Data that is still kept, saved, and given up.
pub(crate) fn saving() -> Vec<Saving> {
    let given_up = SaverOutcome::GivenUp { reason: "its time is over".to_owned() };
    let outcomes = [None, Some(SaverOutcome::Saved), Some(given_up)];
    let one = |(index, outcome)| Saving {
        instance: instance(index),
        bytes: Bytes(1 << 20),
        attempts: 3,
        until: Time(600_000_000),
        outcome,
    };
    (0..).zip(outcomes).map(one).collect()
}

/// Adjacent ports, and a single one.
pub(crate) fn held_ports() -> Vec<HeldPorts> {
    let held =
        |first, last, by: &str| HeldPorts { ports: PortRange { first, last }, by: by.to_owned() };
    vec![held(31_000, 31_003, "/ssh.service (sshd)"), held(31_100, 31_100, "ana/hog/0")]
}
