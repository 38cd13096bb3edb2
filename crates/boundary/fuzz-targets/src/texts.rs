//! What people type: addresses, names, quantities, priorities. It is refused in a text that harms no
//! terminal, or shows as something that reads as the same.

use crate::{arbitrary_from, assert_harmless, reads_what_it_shows};
use model::{
    Address, Bytes, CellName, InstanceId, JobName, MilliCores, PortRange, Priority, QuantityError,
    TaskSelection, UserName,
};

pub(crate) fn run(bytes: &[u8]) {
    if let Some(text) = arbitrary_from(bytes) {
        check(text);
    }
}

fn check(text: &str) {
    reads_what_it_shows::<Address>(text);
    reads_what_it_shows::<TaskSelection>(text);
    reads_what_it_shows::<CellName>(text);
    reads_what_it_shows::<JobName>(text);
    reads_what_it_shows::<MilliCores>(text);
    reads_what_it_shows::<PortRange>(text);
    reads_what_it_shows::<UserName>(UserName::nearest(text).as_str());
    if let Ok(id) = text.parse::<InstanceId>() {
        assert_eq!(id.to_string(), text, "one instance has one name");
    }
    bytes(text);
    priority(text);
}

/// Bytes show rounded to a tenth of their unit, which need not be a whole number of bytes. What can
/// be read again is at most that much less.
fn bytes(text: &str) {
    match text.parse::<Bytes>() {
        Ok(value) => match value.to_string().parse::<Bytes>() {
            Ok(Bytes(again)) => {
                let lost = value.0.checked_sub(again).expect("rounded down");
                assert!(lost <= value.0 / 10, "{value:?} shows as {value}");
            }
            Err(error) => assert!(matches!(error, QuantityError::TooFine { .. }), "{error}"),
        },
        Err(error) => assert_harmless(&error.to_string()),
    }
}

/// A priority shows with its band, as it is not typed; its number and its band's name are typed.
fn priority(text: &str) {
    match text.parse::<Priority>() {
        Ok(value) => {
            assert_eq!(value.number().to_string().parse(), Ok(value));
            let usual: Priority = value.band().name().parse().expect("the name of a band");
            assert_eq!(usual.band(), value.band());
        }
        Err(error) => assert_harmless(&error.to_string()),
    }
}
