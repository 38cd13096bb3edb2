//! Join tokens: one line of text with all that a machine or a replica needs to become part of a cell.
//!
//! A token is a secret: it holds a certificate of a joining identity, which may ask the cell to be
//! taken in and nothing else, with its key. So whoever joins is somebody from the first connection
//! on. That a token is used once is for the cell to see to: it knows it by the certificate's serial
//! number.
//!
//! | bytes | what |
//! |---|---|
//! | 9 | `bourg-join-1`, read as base64url: the form's name and version |
//! | 2 | how long the next part is, big-endian |
//! | … | the message `JoinToken` |
//! | 4 | CRC-32C of all before it, big-endian |
//!
//! The text is these bytes in base64url without padding, so that it begins with the name.

use std::fmt;
use std::str::FromStr;

use data_encoding::{BASE64, BASE64URL_NOPAD};
use prost::Message as _;
use proto::v1;

use crate::{Credentials, Identity, certificate};

/// The longest token that is read, in characters.
pub const MAX_TOKEN_CHARS: usize = 8 << 10;
/// The most masters that a token names, and the longest address of one, in bytes.
pub const MAX_MASTERS: usize = 16;
const MAX_ADDRESS_BYTES: usize = 300;

/// What every version's text begins with; the version is the character behind it.
const NAME: &str = "bourg-join-";
const VERSION: char = '1';
/// As many as hold the name, the version and the length.
const HEAD_CHARS: usize = 16;
const LENGTH_AT: usize = 9;
const BODY_AT: usize = 11;
const CHECKSUM_BYTES: usize = 4;

/// A token: where the masters answer, and credentials of a joining identity of their cell.
#[derive(Clone, PartialEq, Eq)]
pub struct JoinToken {
    masters: Vec<String>,
    credentials: Credentials,
}

/// A text or a value that is no token.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadToken {
    /// It begins otherwise.
    #[error("that is no join token, which begins with {NAME}: make one with `bourg machine token`")]
    Other,
    /// A version that this program does not know.
    #[error("the join token is of another version: use the bourg of the cell's masters")]
    Version,
    /// There is too much of it.
    #[error("the join token has {chars} characters, and {MAX_TOKEN_CHARS} are the most: {COPY}")]
    TooLong {
        /// How many it has.
        chars: usize,
    },
    /// Its end is missing.
    #[error("the join token is cut, and ends after {chars} characters: {COPY}")]
    Cut {
        /// How many there are.
        chars: usize,
    },
    /// A character in it is of no token.
    #[error("the join token holds {found:?} at character {at}, which is in none: {COPY}")]
    Character {
        /// Which.
        found: char,
        /// Where, from 1.
        at: usize,
    },
    /// It is not as it was made.
    #[error("the join token was changed: {COPY}")]
    Changed,
    /// It is as it was made, and cannot be used.
    #[error("the join token cannot be used: {why}; make one with `bourg machine token`")]
    Unusable {
        /// What is wrong with it.
        why: String,
    },
}

/// What to do about a token that did not come as it was made.
const COPY: &str = "copy all of the one line that `bourg machine token` printed";

impl JoinToken {
    /// Makes a token.
    ///
    /// # Errors
    /// [`BadToken::Unusable`] for credentials of an identity that is not joining, and for masters
    /// that are none, too many, or no addresses.
    pub fn new(masters: Vec<String>, credentials: Credentials) -> Result<Self, BadToken> {
        let unusable = |why: String| Err(BadToken::Unusable { why });
        if !matches!(credentials.identity(), Identity::Joining(_)) {
            return unusable(format!("it is for {}, who does not join", credentials.identity()));
        }
        if masters.is_empty() || masters.len() > MAX_MASTERS {
            return unusable(format!("it names {} masters", masters.len()));
        }
        let is_address = |address: &String| {
            let graphic = address.chars().all(|c| c.is_ascii_graphic());
            graphic && address.len() <= MAX_ADDRESS_BYTES && address.contains(':')
        };
        if let Some(bad) = masters.iter().find(|address| !is_address(address)) {
            return unusable(format!("{:?} is no address", bad.escape_debug().to_string()));
        }
        Ok(Self { masters, credentials })
    }

    /// The cell's name.
    #[must_use]
    pub fn cell(&self) -> &str {
        self.credentials.cell()
    }

    /// Where its masters answer, as `HOST:PORT`: at least one.
    #[must_use]
    pub fn masters(&self) -> &[String] {
        &self.masters
    }

    /// As whom to ask the masters, and which authority to trust.
    #[must_use]
    pub fn credentials(&self) -> &Credentials {
        &self.credentials
    }

    fn read(body: &[u8]) -> Result<Self, BadToken> {
        let unusable = |why: &dyn fmt::Display| BadToken::Unusable { why: why.to_string() };
        let message = v1::JoinToken::decode(body).map_err(|error| unusable(&error))?;
        let credentials = Credentials::from_pem(
            pem("CERTIFICATE", &message.certificate),
            pem("PRIVATE KEY", &message.key),
            pem("CERTIFICATE", &message.authority),
        );
        Self::new(message.masters, credentials.map_err(|error| unusable(&error))?)
    }

    fn message(&self) -> Option<v1::JoinToken> {
        let certificate = |pem: &str| certificate::der(pem, "").ok().map(|der| der.to_vec());
        Some(v1::JoinToken {
            masters: self.masters.clone(),
            authority: certificate(self.credentials.ca_pem())?,
            certificate: certificate(self.credentials.certificate_pem())?,
            key: self.credentials.key_der().ok()?,
        })
    }
}

impl fmt::Display for JoinToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let body = self.message().ok_or(fmt::Error)?.encode_to_vec();
        let name = format!("{NAME}{VERSION}");
        let mut bytes = BASE64URL_NOPAD.decode(name.as_bytes()).map_err(|_| fmt::Error)?;
        bytes.extend(u16::try_from(body.len()).map_err(|_| fmt::Error)?.to_be_bytes());
        bytes.extend(body);
        bytes.extend(crc32c::crc32c(&bytes).to_be_bytes());
        f.write_str(&BASE64URL_NOPAD.encode(&bytes))
    }
}

impl FromStr for JoinToken {
    type Err = BadToken;

    /// Reads a token; blanks around it, as a line's end, count for nothing.
    fn from_str(text: &str) -> Result<Self, BadToken> {
        let text = text.trim_ascii();
        let version = text.strip_prefix(NAME).ok_or(BadToken::Other)?.chars().next();
        if version.is_some_and(|version| version != VERSION) {
            return Err(BadToken::Version);
        }
        if text.len() > MAX_TOKEN_CHARS {
            return Err(BadToken::TooLong { chars: text.len() });
        }
        let is_ours = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        if let Some((at, found)) = text.chars().enumerate().find(|(_, c)| !is_ours(*c)) {
            return Err(BadToken::Character { found, at: at + 1 });
        }
        let bytes = whole(text)?;
        let (sealed, checksum) = bytes.split_last_chunk().ok_or(BadToken::Changed)?;
        if crc32c::crc32c(sealed) != u32::from_be_bytes(*checksum) {
            return Err(BadToken::Changed);
        }
        Self::read(sealed.get(BODY_AT..).ok_or(BadToken::Changed)?)
    }
}

/// The bytes of a text that is as long as its head says.
fn whole(text: &str) -> Result<Vec<u8>, BadToken> {
    let chars = text.len();
    let head = text.as_bytes().get(..HEAD_CHARS);
    let head = head.ok_or(BadToken::Cut { chars })?;
    let head = BASE64URL_NOPAD.decode(head).map_err(|_| BadToken::Changed)?;
    let length = head.get(LENGTH_AT..).and_then(|rest| rest.first_chunk());
    let length = usize::from(u16::from_be_bytes(*length.ok_or(BadToken::Changed)?));
    let all = BASE64URL_NOPAD.encode_len(BODY_AT + length + CHECKSUM_BYTES);
    if chars < all {
        return Err(BadToken::Cut { chars });
    }
    // Also where more follows, and where the last character holds bits that belong to no byte.
    let bytes = BASE64URL_NOPAD.decode(text.as_bytes()).map_err(|_| BadToken::Changed)?;
    if chars == all { Ok(bytes) } else { Err(BadToken::Changed) }
}

/// A part of a token as PEM.
fn pem(label: &str, der: &[u8]) -> String {
    let text = BASE64.encode(der);
    let mut pem = format!("-----BEGIN {label}-----\n");
    let mut rest = text.as_str();
    while !rest.is_empty() {
        let (line, more) = rest.split_at(rest.len().min(64));
        pem.push_str(line);
        pem.push('\n');
        rest = more;
    }
    pem.push_str(&format!("-----END {label}-----\n"));
    pem
}

impl fmt::Debug for JoinToken {
    /// Without the key: what is printed ends in a log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JoinToken")
            .field("masters", &self.masters)
            .field("credentials", &self.credentials)
            .finish()
    }
}
