//! Mutations of the volumes of machines.

use std::collections::BTreeMap;
use std::sync::Arc;

use cell::{AcceptVolume, Mutation, ReleaseVolume, RemoveVolume, SetVolume};
use model::{MachineVolume, VolumeName, VolumePath, VolumeSharing};
use proptest::prelude::*;

use crate::Values;

fn volume() -> impl Strategy<Value = VolumeName> {
    prop::sample::select(&["data", "fast"]).prop_filter_map("a name", |name| name.parse().ok())
}

fn path() -> impl Strategy<Value = VolumePath> {
    let paths = &["/srv/data", "/srv/fast", "/srv/data/below"];
    prop::sample::select(paths).prop_filter_map("a path", |path| path.parse().ok())
}

/// Mutations of the volumes of machines.
pub(crate) fn volumes(values: &Values) -> BoxedStrategy<Mutation> {
    let machine = || values.machine.clone();
    let described = (volume(), path(), prop::sample::select(&VolumeSharing::ALL[..]));
    prop_oneof![
        4 => (machine(), described, any::<bool>()).prop_map(|(machine, described, labelled)| {
            let (name, path, sharing) = described;
            let label = labelled.then(|| ("ssd".to_owned(), "yes".to_owned()));
            let labels: BTreeMap<_, _> = label.into_iter().collect();
            let volume = Arc::new(MachineVolume { name, path, size: None, labels, sharing });
            SetVolume { machine, volume }.into()
        }),
        1 => (machine(), volume(), any::<bool>()).prop_map(|(machine, volume, force)| {
            RemoveVolume { machine, volume, force }.into()
        }),
        1 => (machine(), volume())
            .prop_map(|(machine, volume)| AcceptVolume { machine, volume }.into()),
        1 => (machine(), volume())
            .prop_map(|(machine, volume)| ReleaseVolume { machine, volume }.into()),
    ]
    .boxed()
}
