//! A kept event: it is refused, or written as it was read, the same by both ways there are; and
//! its JSON gives it again.

use crate::assert_harmless;
use api::event::{Record, StoredNames, decode};
use api::v1;
use prost::Message;

pub(crate) fn run(bytes: &[u8]) {
    let _harmless = StoredNames::find(bytes);
    let record = match decode(bytes) {
        Ok(record) => record,
        Err(error) => return assert_harmless(&error.to_string()),
    };
    let mut written = Vec::new();
    record.as_ref().encode(&mut written);
    assert_eq!(decode(&written).as_ref(), Ok(&record), "after a round trip");
    let message = v1::EventRecord::from(&record);
    assert_eq!(message.encode_to_vec(), written);
    let [user, job, machine] =
        [&message.user, &message.job, &message.machine].map(String::as_bytes);
    assert_eq!(StoredNames::find(&written), Some(StoredNames { user, job, machine }));

    let json = serde_json::to_string(&message).expect("an event has its JSON");
    let again: v1::EventRecord = serde_json::from_str(&json).expect("what was written is read");
    assert_eq!(Record::try_from(again).as_ref(), Ok(&record), "after {json}");
}
