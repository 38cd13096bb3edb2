//! Join tokens: one line of text with everything that a machine or a replica needs to join a cell.
//!
//! A token is a secret: it contains a certificate, with its key, of a joining identity, which can
//! only ask to join. So a joining process is authenticated from its first connection. The cell
//! ensures that a token is used once; it recognizes the token by the certificate's serial number.
//!
//! | bytes | content |
//! |---|---|
//! | 9 | `bourg-join-1`, decoded as base64url: the format's name and version |
//! | 2 | the length of the next part, big-endian |
//! | … | the message `JoinToken` |
//! | 4 | CRC-32C of everything before it, big-endian |
//!
//! The text is the base64url encoding of these bytes without padding, so that it begins with the
//! name.

use std::fmt;
use std::str::FromStr;

use api::v1;
use data_encoding::{BASE64, BASE64URL_NOPAD};
use prost::Message as _;

use crate::{Credentials, Identity, certificate};

/// The maximum length of a token, in characters.
pub const MAX_TOKEN_CHARS: usize = 8 << 10;
/// The maximum number of masters in a token, and the maximum length of an address, in bytes.
pub const MAX_MASTERS: usize = 16;
const MAX_ADDRESS_BYTES: usize = 300;

/// The prefix of every version's text; the version is the next character.
const NAME: &str = "bourg-join-";
const VERSION: char = '1';
/// The number of characters that contain the name, the version and the length.
const HEAD_CHARS: usize = 16;
const LENGTH_AT: usize = 9;
const BODY_AT: usize = 11;
const CHECKSUM_BYTES: usize = 4;

/// A join token: the addresses of the masters, and credentials of a joining identity of their cell.
#[derive(Clone, PartialEq, Eq)]
pub struct JoinToken {
    masters: Vec<String>,
    credentials: Credentials,
}

/// A text or a value that is not a token.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadToken {
    /// It has another prefix.
    #[error("not a join token, which begins with {NAME}: create one with `bourg machine token`")]
    Other,
    /// A version that this program does not support.
    #[error(
        "the join token has an unsupported version: use the bourg version of the cell's masters"
    )]
    Version,
    /// It is too long.
    #[error("the join token has {chars} characters; the maximum is {MAX_TOKEN_CHARS}: {COPY}")]
    TooLong {
        /// Its length.
        chars: usize,
    },
    /// It is truncated.
    #[error("the join token is truncated after {chars} characters: {COPY}")]
    Cut {
        /// Its length.
        chars: usize,
    },
    /// It contains an invalid character.
    #[error("the join token contains an invalid character {found:?} at position {at}: {COPY}")]
    Character {
        /// The character.
        found: char,
        /// Its position, from 1.
        at: usize,
    },
    /// Its checksum is wrong.
    #[error("the join token was altered: {COPY}")]
    Changed,
    /// It is intact but unusable.
    #[error("the join token is unusable: {why}; create one with `bourg machine token`")]
    Unusable {
        /// The reason.
        why: String,
    },
}

/// The advice for an incomplete or altered token.
const COPY: &str = "copy the whole line that `bourg machine token` printed";

impl JoinToken {
    /// Creates a token.
    ///
    /// # Errors
    /// [`BadToken::Unusable`] if the identity of the credentials is not a joining one, or if the
    /// masters are none, too many, or not addresses.
    pub fn new(masters: Vec<String>, credentials: Credentials) -> Result<Self, BadToken> {
        let unusable = |why: String| Err(BadToken::Unusable { why });
        if !matches!(credentials.identity(), Identity::Joining(_)) {
            return unusable(format!(
                "it is for {}, which is not a joining identity",
                credentials.identity()
            ));
        }
        if masters.is_empty() || masters.len() > MAX_MASTERS {
            return unusable(format!("it names {} masters", masters.len()));
        }
        let is_address = |address: &String| {
            let graphic = address.chars().all(|c| c.is_ascii_graphic());
            graphic && address.len() <= MAX_ADDRESS_BYTES && address.contains(':')
        };
        if let Some(bad) = masters.iter().find(|address| !is_address(address)) {
            return unusable(format!("{:?} is not an address", bad.escape_debug().to_string()));
        }
        Ok(Self { masters, credentials })
    }

    /// The cell's name.
    #[must_use]
    pub fn cell(&self) -> &str {
        self.credentials.cell()
    }

    /// The addresses of the masters, as `HOST:PORT`; at least one.
    #[must_use]
    pub fn masters(&self) -> &[String] {
        &self.masters
    }

    /// The credentials for calling the masters, with the authority to trust.
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

    /// Parses a token, ignoring surrounding whitespace.
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

/// Decodes a text, after checking its length against its header.
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
    // Also rejects trailing characters, and unused bits in the last character.
    let bytes = BASE64URL_NOPAD.decode(text.as_bytes()).map_err(|_| BadToken::Changed)?;
    if chars == all { Ok(bytes) } else { Err(BadToken::Changed) }
}

/// Encodes a part of a token as PEM.
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
    /// Omits the key, since debug output ends up in logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JoinToken")
            .field("masters", &self.masters)
            .field("credentials", &self.credentials)
            .finish()
    }
}
