//! The building blocks of every conversion from a message. Each reports the field of an error.
//!
//! No list is preallocated beyond the elements that have been decoded: a number from outside never
//! decides how much memory is allocated.

use std::collections::BTreeSet;
use std::str::FromStr;

use model::{Band, GcuFactor, KeyDigest, KeyDigestError, NotListed, Serial, SerialError, Span};

use crate::duration::{self, Duration};
use crate::error::{At, Fault, Malformed};

/// A required field.
pub fn required<T>(value: Option<T>, field: &str) -> Result<T, Malformed> {
    value.ok_or(Fault::Missing).field(field)
}

/// What a health check said; `None` if it is empty.
pub fn check_text(text: &str) -> Option<std::sync::Arc<str>> {
    (!text.is_empty()).then(|| text.into())
}

/// A required message.
pub fn message<M, T>(value: Option<M>, field: &str) -> Result<T, Malformed>
where
    T: TryFrom<M, Error: Into<Malformed>>,
{
    T::try_from(required(value, field)?).field(field)
}

/// A message whose absence has a meaning.
pub fn optional<M, T>(value: Option<M>, field: &str) -> Result<Option<T>, Malformed>
where
    T: TryFrom<M, Error: Into<Malformed>>,
{
    value.map(T::try_from).transpose().field(field)
}

/// A list of messages.
pub fn list<M, T>(values: Vec<M>, field: &str) -> Result<Vec<T>, Malformed>
where
    T: TryFrom<M, Error: Into<Malformed>>,
{
    let converted = values.into_iter().enumerate();
    let converted = converted.map(|(position, value)| T::try_from(value).element(position));
    converted.collect::<Result<_, _>>().field(field)
}

/// A name.
pub fn name<N: FromStr<Err: Into<Fault>>>(text: &str, field: &str) -> Result<N, Malformed> {
    text.parse::<N>().map_err(Into::into).field(field)
}

/// A name, or a job or package as descriptions name it; an empty text means absence.
pub fn optional_name<N: FromStr<Err: Into<Fault>>>(
    text: &str,
    field: &str,
) -> Result<Option<N>, Malformed> {
    if text.is_empty() { Ok(None) } else { name(text, field).map(Some) }
}

/// The serial number of a certificate.
pub fn serial(text: &str, field: &str) -> Result<Serial, Malformed> {
    text.parse().map_err(|error: SerialError| Fault::Serial(error)).field(field)
}

/// The digest of a key.
pub fn key(text: &str, field: &str) -> Result<KeyDigest, Malformed> {
    text.parse().map_err(|error: KeyDigestError| Fault::KeyDigest(error)).field(field)
}

/// A word of a closed list.
pub fn word<W: FromStr<Err = NotListed>>(text: &str, field: &str) -> Result<W, Malformed> {
    text.parse::<W>().map_err(Fault::from).field(field)
}

/// Names or words without repetitions.
pub fn set<T: FromStr<Err: Into<Fault>> + Ord>(
    texts: &[String],
    field: &str,
) -> Result<BTreeSet<T>, Malformed> {
    let mut set = BTreeSet::new();
    for (position, text) in texts.iter().enumerate() {
        let read = text.parse::<T>().map_err(Into::into).element(position).field(field)?;
        if !set.insert(read) {
            return Err(Fault::Twice).element(position).field(field);
        }
    }
    Ok(set)
}

/// A band, by its name only.
pub fn band(text: &str, field: &str) -> Result<Band, Malformed> {
    let unknown = || {
        Fault::NotListed(NotListed {
            text: text.to_owned(),
            what: "band",
            known: Band::ALL.into_iter().map(Band::name).collect(),
        })
    };
    Band::ALL.into_iter().find(|band| band.name() == text).ok_or_else(unknown).field(field)
}

/// A quantity: signed in the format, never negative.
pub fn quantity(is: i64, field: &str) -> Result<u64, Malformed> {
    let out = Fault::OutOfRange { is, least: 0, most: i64::MAX };
    u64::try_from(is).map_err(|_| out).field(field)
}

/// A number with a smaller type in the core than in the format.
pub fn small<T: TryFrom<u32>>(is: u32, most: T, field: &str) -> Result<T, Malformed>
where
    i64: From<T>,
{
    let out = Fault::OutOfRange { is: is.into(), least: 0, most: most.into() };
    T::try_from(is).map_err(|_| out).field(field)
}

/// A list of ports.
pub fn ports<C: FromIterator<u16>>(values: &[u32], field: &str) -> Result<C, Malformed> {
    let port = |is: &u32| {
        let out = Fault::OutOfRange { is: (*is).into(), least: 0, most: u16::MAX.into() };
        u16::try_from(*is).map_err(|_| out)
    };
    let ports = values.iter().enumerate();
    ports.map(|(position, is)| port(is).element(position)).collect::<Result<_, _>>().field(field)
}

/// An enum, by its number.
pub fn value<E: TryFrom<i32>, T>(
    number: i32,
    meaning: impl FnOnce(E) -> Option<T>,
    field: &str,
) -> Result<T, Malformed> {
    let known = E::try_from(number).ok().and_then(meaning);
    known.ok_or(Fault::UnknownValue(number)).field(field)
}

/// A required span.
pub fn span(value: Option<Duration>, field: &str) -> Result<Span, Malformed> {
    duration::span(&required(value, field)?).field(field)
}

/// A span that may be absent.
pub fn optional_span(value: Option<Duration>, field: &str) -> Result<Option<Span>, Malformed> {
    value.map(|value| span(Some(value), field)).transpose()
}

/// The speed of a platform's cores.
pub fn factor(milli: u32) -> Result<GcuFactor, Fault> {
    let (is, least, most) = (milli.into(), 1, GcuFactor::MAX.into());
    GcuFactor::from_milli(milli).map_err(|_| Fault::OutOfRange { is, least, most })
}

/// A quantity in the format; values beyond any valid description become the maximum.
pub fn signed(amount: u64) -> i64 {
    i64::try_from(amount).unwrap_or(i64::MAX)
}
