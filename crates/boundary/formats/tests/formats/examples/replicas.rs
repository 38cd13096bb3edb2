//! Replicas and their changes.

use cell::{
    AddReplica, EventKind, Image, Member, MemberChange, Mutation, Op, Rejection, RemoveReplica,
    Replica, Reply,
};
use model::{DirectoryId, Level, ReplicaId};

/// A new change does not compile until it is here, and then needs an example.
fn changes() -> Vec<MemberChange> {
    let next = |to: &MemberChange| match to {
        MemberChange::Learner => Some(MemberChange::Voter),
        MemberChange::Voter => Some(MemberChange::Out),
        MemberChange::Out => None,
    };
    std::iter::successors(Some(MemberChange::Learner), next).collect()
}

pub(super) fn ops() -> Vec<Op> {
    let replica = ReplicaId(2);
    let describe = |address: &str, level| {
        let (address, level) = (address.to_owned(), Level(level));
        let directory = DirectoryId(u64::from(level.0) << 40);
        Op::DescribeReplica { replica, address, level, directory }
    };
    let changes = changes().into_iter().map(|to| Op::ChangeMember { replica, to });
    changes.chain([describe("10.0.0.2:4700", 2), describe("", 0)]).collect()
}

pub(super) fn requests() -> Vec<Mutation> {
    vec![
        Mutation::AddReplica(AddReplica { address: "10.0.0.2:4700".to_owned() }),
        Mutation::RemoveReplica(RemoveReplica { replica: ReplicaId(2) }),
    ]
}

pub(super) fn events() -> Vec<EventKind> {
    let replica = ReplicaId(2);
    let describe = |address: &str, level| {
        let (address, level) = (address.into(), Level(level));
        EventKind::ReplicaDescribed { replica, address, level }
    };
    let mut events = vec![
        EventKind::ReplicaAdded { replica, address: "10.0.0.2:4700".into() },
        EventKind::ReplicaRemoved { replica },
        describe("10.0.0.2:4700", 2),
        describe("", 0),
    ];
    events.extend(changes().into_iter().map(|to| EventKind::ReplicaMember { replica, to }));
    events
}

pub(super) fn answers() -> Vec<Result<Reply, Rejection>> {
    vec![
        Ok(Reply::ReplicaAdded(ReplicaId(2))),
        Err(Rejection::NoSuchReplica(ReplicaId(9))),
        Err(Rejection::ReplicaAddressTaken(ReplicaId(1))),
        Err(Rejection::LastVoter(ReplicaId(1))),
    ]
}

/// One of each kind, one that is leaving, and one that has never described itself.
pub(super) fn put_into(image: &mut Image) {
    let replica = |id, level, member, leaving| {
        let alone = Replica::new(ReplicaId(id), format!("10.0.0.{id}:4700"), Level(level), member);
        Replica { leaving, ..alone }
    };
    let nowhere = Replica { address: "".into(), ..replica(1, 2, Member::Voter, false) };
    image.last_replica = ReplicaId(7);
    image.replicas = vec![
        nowhere,
        replica(2, 2, Member::Voter, true),
        replica(4, 3, Member::Learner, false),
        replica(7, 0, Member::Waiting, false),
    ];
}
