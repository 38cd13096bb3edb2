//! Fuzz targets: functions that take any bytes and panic if a decoder breaks its promise. Input from
//! outside is either rejected or understood, and never causes a panic. Each module is a target; its
//! first lines say what it checks.
//!
//! The workspace `fuzz/` runs them under libFuzzer; the tests of this crate replay every input that
//! is kept in `fuzz/seeds`. Not here: the fuzzer, and how inputs are found.

mod bcl;
mod canonical_json;
mod cell_image;
mod cell_image_json;
mod checkpoint;
mod dns;
mod event_record;
mod event_segments;
mod faults;
mod image_layer;
mod join_token;
mod link;
mod log_record;
mod log_segments;
mod ops;
mod package_manifest;
mod package_tree;
mod saved_cell;
mod scratch;
mod segment;
mod task_records;
mod texts;
mod trace_tables;
mod wire;

use std::fmt::{Debug, Display};
use std::str::FromStr;

use arbitrary::{Arbitrary, Unstructured};

use crate::faults::Fault;
use crate::scratch::Scratch;
use crate::segment::{RECORDS_AT, SegmentWriter};

/// A target: it panics if the input breaks a promise.
pub type Target = fn(&[u8]);

/// Every target with its name, which is also that of its directory in `fuzz/seeds`.
pub const TARGETS: &[(&str, Target)] = &[
    ("bcl", bcl::run),
    ("canonical_json", canonical_json::run),
    ("cell_image", cell_image::run),
    ("cell_image_json", cell_image_json::run),
    ("checkpoint", checkpoint::run),
    ("dns", dns::run),
    ("event_record", event_record::run),
    ("event_segments", event_segments::run),
    ("image_layer", image_layer::run),
    ("join_token", join_token::run),
    ("link", link::run),
    ("log_record", log_record::run),
    ("log_segments", log_segments::run),
    ("ops", ops::run),
    ("package_manifest", package_manifest::run),
    ("package_tree", package_tree::run),
    ("saved_cell", saved_cell::run),
    ("task_records", task_records::run),
    ("texts", texts::run),
    ("trace_tables", trace_tables::run),
    ("wire", wire::run),
];

/// The target of this name.
#[must_use]
pub fn target(name: &str) -> Option<Target> {
    TARGETS.iter().find(|(known, _)| *known == name).map(|(_, target)| *target)
}

/// The input as a value of a type, as libFuzzer's own macro derives it; `None` if there are too few
/// bytes for one.
fn arbitrary_from<'a, T: Arbitrary<'a>>(bytes: &'a [u8]) -> Option<T> {
    let enough = bytes.len() >= T::size_hint(0).0;
    enough.then(|| T::arbitrary_take_rest(Unstructured::new(bytes)).ok()).flatten()
}

/// Converts a message to its core type `X`, and asserts that `X` survives the way there and back.
/// What cannot be converted must say why.
pub(crate) fn survives<M, X>(message: M)
where
    M: for<'a> From<&'a X>,
    X: TryFrom<M, Error: Display> + PartialEq + Debug,
{
    match X::try_from(message) {
        Ok(value) => match X::try_from(M::from(&value)) {
            Ok(again) => assert_eq!(again, value),
            Err(error) => panic!("{value:?} is refused after a round trip: {error}"),
        },
        Err(error) => assert_harmless(&error.to_string()),
    }
}

/// Reads a text, and asserts that what was read is read again from what it shows.
pub(crate) fn reads_what_it_shows<T>(text: &str)
where
    T: FromStr<Err: Display> + Display + PartialEq + Debug,
{
    match text.parse::<T>() {
        Ok(value) => match value.to_string().parse::<T>() {
            Ok(again) => assert_eq!(again, value, "shown as {value}"),
            Err(error) => panic!("{value:?} shows as '{value}', which is refused: {error}"),
        },
        Err(error) => assert_harmless(&error.to_string()),
    }
}

/// Asserts that a text can be shown on a terminal: no control character but the line break.
pub(crate) fn assert_harmless(text: &str) {
    let bad = text.chars().find(|c| c.is_control() && *c != '\n');
    assert_eq!(bad, None, "a control character in {text:?}");
}
