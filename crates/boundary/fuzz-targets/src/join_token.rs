//! What people paste as a join token: as it comes, and as the body of a token that is whole, made
//! here from the documented table.

use crate::{assert_harmless, reads_what_it_shows};
use data_encoding::BASE64URL_NOPAD;
use rpc::JoinToken;
use rpc::token::BadToken;

pub(crate) fn run(bytes: &[u8]) {
    if let Ok(text) = std::str::from_utf8(bytes) {
        reads_what_it_shows::<JoinToken>(text);
    }
    if let Some(text) = sealed(bytes) {
        reads_what_it_shows::<JoinToken>(&text);
        let changed = matches!(text.parse::<JoinToken>(), Err(BadToken::Changed));
        assert!(!changed, "it is as it was made");
    }
    // What is written of a token of somebody else's making is harmless, too.
    let text = String::from_utf8_lossy(bytes);
    if let Err(error) = format!("bourg-join-1{text}").parse::<JoinToken>() {
        assert_harmless(&error.to_string());
    }
}

/// A whole token with this body.
fn sealed(body: &[u8]) -> Option<String> {
    let mut bytes = BASE64URL_NOPAD.decode(b"bourg-join-1").expect("it is base64");
    bytes.extend(u16::try_from(body.len()).ok()?.to_be_bytes());
    bytes.extend(body);
    bytes.extend(crc32c::crc32c(&bytes).to_be_bytes());
    Some(BASE64URL_NOPAD.encode(&bytes))
}
