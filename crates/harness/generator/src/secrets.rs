//! Mutations of secrets. Their contents mean nothing.

use cell::{DeleteSecret, Mutation, ResealSecret, ResealedVersion, SetSecret};
use model::{Sealed, SecretKeyId, SecretName};
use proptest::prelude::*;
use proptest::sample::select;

use crate::Values;

fn name() -> impl Strategy<Value = SecretName> {
    select(vec!["tls", "db"]).prop_filter_map("a name", |name| SecretName::new(name).ok())
}

fn key() -> impl Strategy<Value = SecretKeyId> {
    (0..3_u8).prop_map(|key| SecretKeyId([key; 8]))
}

fn sealed() -> impl Strategy<Value = Sealed> {
    let bytes = prop_oneof![8 => 0..3_usize, 1 => Just(70_000)];
    (key(), any::<[u8; 12]>(), bytes).prop_map(|(key, nonce, bytes)| {
        let bytes = vec![7; bytes].into();
        Sealed { key, nonce, bytes }
    })
}

pub(crate) fn mutations(values: &Values) -> BoxedStrategy<Mutation> {
    let version = (0..4_u32, key(), sealed());
    let version =
        version.prop_map(|(number, from, sealed)| ResealedVersion { number, from, sealed });
    let versions = prop::collection::vec(version, 0..3);
    prop_oneof![
        4 => (name(), sealed()).prop_map(|(name, sealed)| SetSecret { name, sealed }.into()),
        2 => name().prop_map(|name| DeleteSecret(name).into()),
        1 => (values.user.clone(), name(), versions).prop_map(|(owner, name, versions)| {
            ResealSecret { owner, name, versions }.into()
        }),
    ]
    .boxed()
}
