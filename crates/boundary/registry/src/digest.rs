//! Digests of blobs: SHA-256, the one algorithm that registries use.

use std::fmt;
use std::str::FromStr;

use data_encoding::HEXLOWER;

/// The name of the algorithm, as it stands before the digits.
const ALGORITHM: &str = "sha256:";

/// The SHA-256 digest of a blob or a manifest, written as `sha256:` and 64 lower-case hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlobDigest([u8; 32]);

impl BlobDigest {
    /// The digest of these bytes.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        let mut hasher = BlobHasher::new();
        hasher.update(bytes);
        hasher.finish()
    }

    /// The 64 digits without the algorithm: the name of the blob's file in an OCI layout.
    #[must_use]
    pub fn digits(&self) -> String {
        HEXLOWER.encode(&self.0)
    }
}

impl FromStr for BlobDigest {
    type Err = BadDigest;

    fn from_str(text: &str) -> Result<Self, BadDigest> {
        let digits = text.strip_prefix(ALGORITHM).ok_or(BadDigest)?;
        let bytes = HEXLOWER.decode(digits.as_bytes()).map_err(|_| BadDigest)?;
        Ok(Self(bytes.try_into().map_err(|_| BadDigest)?))
    }
}

impl fmt::Display for BlobDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{ALGORITHM}{}", self.digits())
    }
}

impl fmt::Debug for BlobDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A text is no digest of a blob.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a digest is `sha256:` and 64 lower-case hexadecimal digits")]
pub struct BadDigest;

/// The digest of bytes that arrive in pieces.
#[derive(Clone)]
pub(crate) struct BlobHasher(ring::digest::Context);

impl BlobHasher {
    pub(crate) fn new() -> Self {
        Self(ring::digest::Context::new(&ring::digest::SHA256))
    }

    pub(crate) fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    pub(crate) fn finish(self) -> BlobDigest {
        let digest = self.0.finish();
        let mut bytes = [0; 32];
        bytes.copy_from_slice(digest.as_ref());
        BlobDigest(bytes)
    }
}
