//! Volumes of machines.

use std::collections::BTreeMap;
use std::sync::Arc;

use cell::{
    AcceptVolume, EventKind, Mutation, Rejection, ReleaseVolume, RemoveVolume, SetVolume, Volume,
    VolumeHindrance,
};
use model::{
    Bytes, CollectionId, Generation, InstanceId, MachineVolume, TaskIndex, VolumeClaim,
    VolumeContent, VolumeName, VolumeSharing,
};

use super::{name, words};

fn volume(sharing: VolumeSharing) -> Arc<MachineVolume> {
    Arc::new(MachineVolume {
        name: name("data"),
        path: "/srv/data".parse().expect("a path"),
        size: Some(Bytes(10 << 30)),
        labels: words([("ssd", "yes"), ("zone", "a")]),
        sharing,
    })
}

fn claim() -> VolumeClaim {
    VolumeClaim {
        user: name("ana"),
        job: name("db"),
        index: TaskIndex(3),
        at: "/data".parse().expect("a path"),
    }
}

fn first() -> InstanceId {
    let (collection, index) = (CollectionId(7), TaskIndex(3));
    InstanceId { collection, index, generation: Generation(2) }
}

/// A volume with a claim, and one whose data waits for its user.
pub(super) fn of_a_machine() -> BTreeMap<VolumeName, Volume> {
    let claimed = Volume {
        described: volume(VolumeSharing::Exclusive),
        data_of: Some(name("ana")),
        claims: vec![claim()],
        first: Some(first()),
        content: VolumeContent::Known,
    };
    let left = MachineVolume {
        name: name("left"),
        path: "/srv/left".parse().expect("a path"),
        size: None,
        labels: words([]),
        sharing: VolumeSharing::OneUser,
    };
    let left = Volume {
        data_of: Some(name("ben")),
        first: Some(first()),
        content: VolumeContent::Accepted,
        ..Volume::new(Arc::new(left))
    };
    [claimed, left].map(|volume| (volume.described.name.clone(), volume)).into()
}

/// Each mutation.
pub(super) fn mutations() -> Vec<Mutation> {
    let (machine, volume_name) = (name("m3"), name("data"));
    let set = |sharing| SetVolume { machine: name("m3"), volume: volume(sharing) }.into();
    vec![
        set(VolumeSharing::Exclusive),
        set(VolumeSharing::OneUser),
        set(VolumeSharing::AllUsers),
        RemoveVolume { machine: name("m3"), volume: name("data"), force: true }.into(),
        ReleaseVolume { machine, volume: volume_name }.into(),
        AcceptVolume { machine: name("m3"), volume: name("data") }.into(),
    ]
}

/// Each event.
pub(super) fn events() -> Vec<EventKind> {
    vec![
        EventKind::VolumeAdded { volume: volume(VolumeSharing::OneUser) },
        EventKind::VolumeRemoved { volume: name("data") },
        EventKind::VolumeClaimed { volume: name("data"), by: claim() },
        EventKind::VolumeReleased { volume: name("data"), by: claim() },
    ]
}

/// Each rejection.
pub(super) fn rejections() -> Vec<Rejection> {
    let rejected = |why| Rejection::Volume { machine: name("m3"), volume: name("data"), why };
    vec![
        rejected(VolumeHindrance::NoSuch),
        rejected(VolumeHindrance::Overlaps(name("more"))),
        rejected(VolumeHindrance::Claimed(claim())),
        rejected(VolumeHindrance::InUse(claim())),
        rejected(VolumeHindrance::MachineLeaves { by: claim(), others: 2 }),
        rejected(VolumeHindrance::Labels),
        rejected(VolumeHindrance::DataOf(name("ben"))),
    ]
}
