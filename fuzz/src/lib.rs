//! What the fuzz targets share. A target is one file in `src/bin`; README.md says how they run.

mod faults;
mod scratch;
mod segment;

pub use faults::Fault;
pub use scratch::Scratch;
pub use segment::{RECORDS_AT, SegmentWriter};

use std::fmt::{Debug, Display};
use std::str::FromStr;

/// Converts a message to its core type `X`, and asserts that `X` survives the way there and back.
/// What cannot be converted must say why.
pub fn survives<M, X>(message: M)
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
pub fn reads_what_it_shows<T>(text: &str)
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
pub fn assert_harmless(text: &str) {
    let bad = text.chars().find(|c| c.is_control() && *c != '\n');
    assert_eq!(bad, None, "a control character in {text:?}");
}
