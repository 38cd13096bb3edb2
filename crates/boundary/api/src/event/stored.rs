//! The names in a stored event, found without decoding all of it: a search over many events decodes only
//! those that it looks for.

use prost::encoding::{WireType, decode_key, decode_varint};

/// The names in the bytes of an event; empty where it has none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoredNames<'a> {
    /// The owner of the job.
    pub user: &'a [u8],
    /// The job.
    pub job: &'a [u8],
    /// The machine.
    pub machine: &'a [u8],
}

/// The fields of `EventRecord` that have them.
const USER: u32 = 6;
const JOB: u32 = 7;
const MACHINE: u32 = 8;

impl<'a> StoredNames<'a> {
    /// The names in the bytes of an event; `None` if these are no message.
    #[must_use]
    pub fn find(mut bytes: &'a [u8]) -> Option<Self> {
        let mut names = Self::default();
        while !bytes.is_empty() {
            let (field, kind) = decode_key(&mut bytes).ok()?;
            let length = match kind {
                WireType::Varint => {
                    decode_varint(&mut bytes).ok()?;
                    continue;
                }
                WireType::SixtyFourBit => 8,
                WireType::LengthDelimited => decode_varint(&mut bytes).ok()?,
                WireType::ThirtyTwoBit => 4,
                WireType::StartGroup | WireType::EndGroup => return None,
            };
            let (value, rest) = bytes.split_at_checked(usize::try_from(length).ok()?)?;
            bytes = rest;
            match field {
                USER => names.user = value,
                JOB => names.job = value,
                MACHINE => names.machine = value,
                _ => {}
            }
        }
        Some(names)
    }
}

#[cfg(test)]
mod tests {
    use prost::Message as _;

    use super::*;
    use crate::v1;

    #[test]
    fn names_are_found_wherever_they_are_in_an_event() {
        let record = |user: &str, job: &str, machine: &str| v1::EventRecord {
            index: 1 << 40,
            sub_index: 300,
            time: u64::MAX,
            user: user.to_owned(),
            job: job.to_owned(),
            machine: machine.to_owned(),
            kind: Some(v1::event_record::Kind::MachineRemoved("x".repeat(300))),
            ..v1::EventRecord::default()
        };
        for (user, job, machine) in [("", "", ""), ("ana", "web", "m1"), ("", "", "m2")] {
            let bytes = record(user, job, machine).encode_to_vec();
            let (user, job, machine) = (user.as_bytes(), job.as_bytes(), machine.as_bytes());
            assert_eq!(StoredNames::find(&bytes), Some(StoredNames { user, job, machine }));
        }
        let whole = record("ana", "web", "m1").encode_to_vec();
        assert_eq!(StoredNames::find(&whole[..whole.len() - 1]), None);
        assert_eq!(StoredNames::find(&[0xff; 20]), None);
        assert_eq!(StoredNames::find(&[]), Some(StoredNames::default()));
    }
}
