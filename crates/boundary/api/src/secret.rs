//! Secrets, sealed: `secrets.proto`.

use model::{Sealed, Secret, SecretKeyId, SecretVersion, Time};

use crate::error::{At, Fault, Malformed};
use crate::{read, v1};

/// The id of a key.
pub fn key_id(bytes: &[u8]) -> Result<SecretKeyId, Malformed> {
    let id = bytes.try_into().map_err(|_| Fault::Contradiction("is not the id of a key: 8 bytes"));
    Ok(SecretKeyId(id.field("key")?))
}

impl From<&Sealed> for v1::Sealed {
    fn from(sealed: &Sealed) -> Self {
        Self {
            key: sealed.key.0.to_vec(),
            nonce: sealed.nonce.to_vec(),
            bytes: sealed.bytes.to_vec(),
        }
    }
}

impl TryFrom<v1::Sealed> for Sealed {
    type Error = Malformed;

    fn try_from(sealed: v1::Sealed) -> Result<Self, Malformed> {
        let nonce = sealed.nonce.as_slice().try_into();
        let nonce = nonce.map_err(|_| Fault::Contradiction("is not a nonce: 12 bytes"));
        Ok(Self {
            key: key_id(&sealed.key)?,
            nonce: nonce.field("nonce")?,
            bytes: sealed.bytes.into(),
        })
    }
}

impl From<&Secret> for v1::SecretState {
    fn from(secret: &Secret) -> Self {
        let version = |version: &SecretVersion| v1::secret_state::Version {
            number: version.number,
            set: version.set.0,
            sealed: Some((&version.sealed).into()),
        };
        Self {
            user: secret.owner.to_string(),
            name: secret.name.to_string(),
            versions: secret.versions.iter().map(version).collect(),
        }
    }
}

impl TryFrom<v1::SecretState> for Secret {
    type Error = Malformed;

    fn try_from(secret: v1::SecretState) -> Result<Self, Malformed> {
        Ok(Self {
            owner: read::name(&secret.user, "user")?,
            name: read::name(&secret.name, "name")?,
            versions: read::list(secret.versions, "versions")?,
        })
    }
}

impl TryFrom<v1::secret_state::Version> for SecretVersion {
    type Error = Malformed;

    fn try_from(version: v1::secret_state::Version) -> Result<Self, Malformed> {
        Ok(Self {
            number: version.number,
            set: Time(version.set),
            sealed: read::message(version.sealed, "sealed")?,
        })
    }
}
