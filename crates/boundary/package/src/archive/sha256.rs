//! SHA-256, by which images name their files.
//!
//! `ring` computes it, which the program is linked with anyway. Without the processor's SHA
//! instructions it is three times as fast as the crate `sha2` (320 and 99 MB/s), and it is what
//! bounds the speed of an import.

use std::fmt;
use std::io::{self, Read};

use ring::digest::{Context, SHA256};

/// A SHA-256 digest.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Sha256([u8; 32]);

impl Sha256 {
    /// Parses 64 hexadecimal digits.
    pub(super) fn from_hex(digits: &str) -> Option<Self> {
        // The digits of both kinds of digest are the same.
        let digest: model::Digest = digits.parse().ok()?;
        Some(Self(*digest.as_bytes()))
    }

    /// Parses `sha256:` and the digits.
    pub(super) fn parse(text: &str) -> Option<Self> {
        Self::from_hex(text.strip_prefix("sha256:")?)
    }

    pub(super) fn of(bytes: &[u8]) -> Self {
        let mut hasher = Sha256Hasher::default();
        hasher.update(bytes);
        hasher.finish()
    }

    /// The digits alone.
    pub(super) fn hex(&self) -> String {
        model::Digest::from_bytes(self.0).to_string()
    }
}

impl fmt::Display for Sha256 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sha256:{}", self.hex())
    }
}

impl fmt::Debug for Sha256 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Computes a digest.
pub(super) struct Sha256Hasher(Context);

impl Default for Sha256Hasher {
    fn default() -> Self {
        Self(Context::new(&SHA256))
    }
}

impl Sha256Hasher {
    pub(super) fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    pub(super) fn finish(self) -> Sha256 {
        let mut digest = Sha256([0; 32]);
        digest.0.copy_from_slice(self.0.finish().as_ref());
        digest
    }
}

/// Computes the digest and the length of what is read.
pub(super) struct HashingReader<R> {
    inner: R,
    hasher: Sha256Hasher,
    bytes: u64,
}

impl<R: Read> HashingReader<R> {
    pub(super) fn new(inner: R) -> Self {
        Self { inner, hasher: Sha256Hasher::default(), bytes: 0 }
    }

    pub(super) fn finish(self) -> (Sha256, u64) {
        (self.hasher.finish(), self.bytes)
    }
}

impl<R: Read> Read for HashingReader<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(into)?;
        self.hasher.update(&into[..read]);
        self.bytes += read as u64;
        Ok(read)
    }
}
