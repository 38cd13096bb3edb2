//! Secrets.

use std::sync::Arc;

use cell::{
    DeleteSecret, EventKind, Mutation, Rejection, Reply, ResealSecret, ResealedVersion, SetSecret,
};
use model::{Sealed, Secret, SecretKeyId, SecretVersion, Time};

use super::name;

fn sealed(key: u8) -> Sealed {
    Sealed { key: SecretKeyId([key; 8]), nonce: [7; 12], bytes: Arc::from(&b"not readable"[..]) }
}

/// An instance that reads secrets.
pub(super) fn instance() -> model::InstanceId {
    "7-3-2".parse().expect("an instance")
}

/// The mutations of secrets.
pub(super) fn mutations() -> Vec<Mutation> {
    let versions =
        vec![ResealedVersion { number: 2, from: SecretKeyId([1; 8]), sealed: sealed(2) }];
    vec![
        SetSecret { name: name("tls-key"), sealed: sealed(1) }.into(),
        DeleteSecret(name("tls-key")).into(),
        ResealSecret { owner: name("ana"), name: name("tls-key"), versions }.into(),
    ]
}

/// The events of secrets.
pub(super) fn events() -> Vec<EventKind> {
    let (owner, secret) = (|| name("ana"), || name("tls-key"));
    vec![
        EventKind::SecretSet { owner: owner(), name: secret(), version: 2 },
        EventKind::SecretDeleted { owner: owner(), name: secret() },
        EventKind::SecretRead { name: secret(), version: 2 },
        EventKind::SecretResealed { owner: owner(), name: secret() },
        EventKind::InputsChanged { what: "bns.ana/db.port".to_owned(), restarts: true },
    ]
}

/// The answers of a session about secrets.
pub(super) fn answers() -> Vec<Result<Reply, Rejection>> {
    let (owner, secret) = (|| name("ana"), || name("tls-key"));
    vec![
        Ok(Reply::SecretSet { version: 2 }),
        Err(Rejection::NoSuchSecret { owner: owner(), name: secret() }),
        Err(Rejection::SecretInUse { owner: owner(), name: secret(), job: name("web") }),
    ]
}

/// Those that the jobs of an image name, and others.
pub(super) fn of_jobs() -> Vec<Arc<Secret>> {
    let version = |number| SecretVersion { number, set: Time(5), sealed: sealed(1) };
    let secret = |owner, secret| {
        let versions = vec![version(2), version(3)];
        Arc::new(Secret { owner: name(owner), name: name(secret), versions })
    };
    ["ana", "ben"]
        .into_iter()
        .flat_map(|owner| [secret(owner, "db-password"), secret(owner, "tls-key")])
        .collect()
}
