//! A log record that is read is written as it was read; any other bytes are refused.

use crate::assert_harmless;
use formats::log::{decode_record, encode_record};

pub(crate) fn run(bytes: &[u8]) {
    match decode_record(bytes) {
        Ok((at, op)) => {
            let written = encode_record(at, &op);
            assert_eq!(decode_record(&written), Ok((at, op)), "after a round trip");
        }
        Err(error) => assert_harmless(&error.to_string()),
    }
}
