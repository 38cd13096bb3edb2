//! Secrets of users, as the cell stores them: sealed with a key that it does not have.

use std::fmt;
use std::sync::Arc;

use crate::{SecretName, Time, UserName};

/// The number of bytes of a [`SecretKeyId`].
pub const SECRET_KEY_ID_BYTES: usize = 8;
/// The number of bytes of the nonce of a [`Sealed`].
pub const SEALED_NONCE_BYTES: usize = 12;

/// Which key of the cell seals a secret. It is random, and says nothing of the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SecretKeyId(pub [u8; SECRET_KEY_ID_BYTES]);

impl fmt::Display for SecretKeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// Content that only holders of a key can read.
#[derive(Clone, PartialEq, Eq)]
pub struct Sealed {
    /// The key.
    pub key: SecretKeyId,
    /// The nonce, which the key has sealed nothing else with.
    pub nonce: [u8; SEALED_NONCE_BYTES],
    /// The content, encrypted and authenticated.
    pub bytes: Arc<[u8]>,
}

impl fmt::Debug for Sealed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sealed({} bytes with {})", self.bytes.len(), self.key)
    }
}

/// One version of a secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretVersion {
    /// Its number, from 1. It is never given twice.
    pub number: u32,
    /// When it was set.
    pub set: Time,
    /// Its content.
    pub sealed: Sealed,
}

/// A secret of a user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Secret {
    /// Its owner.
    pub owner: UserName,
    /// Its name.
    pub name: SecretName,
    /// Its versions, the oldest first; at least one.
    pub versions: Vec<SecretVersion>,
}

impl Secret {
    /// The newest version.
    #[must_use]
    pub fn newest(&self) -> Option<&SecretVersion> {
        self.versions.last()
    }

    /// The bytes of all versions, as they are stored.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let bytes = self.versions.iter().map(|version| version.sealed.bytes.len() as u64);
        bytes.fold(0, u64::saturating_add)
    }
}
