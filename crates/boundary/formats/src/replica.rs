//! Replicas and their roles in consensus: `replica.proto`.

use api::{Malformed, read};
use cell::{Replica, ReplicaToken};
use model::{DirectoryId, Level, ReplicaId};

use crate::v1;

impl From<&Replica> for v1::Replica {
    fn from(replica: &Replica) -> Self {
        Self {
            id: replica.id.0,
            address: replica.address.to_string(),
            level: replica.level.0,
            member: v1::Member::from(replica.member).into(),
            leaving: replica.leaving,
            token: replica.token.as_ref().map(Into::into),
            directory: replica.directory.0,
        }
    }
}

impl TryFrom<v1::Replica> for Replica {
    type Error = Malformed;

    fn try_from(replica: v1::Replica) -> Result<Self, Malformed> {
        Ok(Self {
            id: ReplicaId(replica.id),
            address: replica.address.into(),
            level: Level(replica.level),
            member: api::replica::member(replica.member)?,
            leaving: replica.leaving,
            token: read::optional(replica.token, "token")?,
            directory: DirectoryId(replica.directory),
        })
    }
}

impl From<&ReplicaToken> for v1::ReplicaToken {
    fn from(ReplicaToken { certificate, used }: &ReplicaToken) -> Self {
        let key = used.map(|key| key.to_string()).unwrap_or_default();
        Self { certificate: Some((*certificate).into()), key }
    }
}

impl TryFrom<v1::ReplicaToken> for ReplicaToken {
    type Error = Malformed;

    fn try_from(token: v1::ReplicaToken) -> Result<Self, Malformed> {
        let used = match token.key.as_str() {
            "" => None,
            key => Some(read::key(key, "key")?),
        };
        Ok(Self { certificate: read::message(token.certificate, "certificate")?, used })
    }
}
