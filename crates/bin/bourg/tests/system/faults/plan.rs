//! The sequence of faults: the same for the same seed.

use std::time::Duration;

use crate::random::Random;

/// A kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Kill,
    Stop,
    Freeze,
    FreezeMajority,
    Cut,
    CutSending,
    CutHearing,
    Isolate,
    DiskFull,
    DiskSlow,
    DiskStuck,
    DiskCorrupt,
    Emptied,
    Copied,
    PutBack,
    DiskPutBack,
    PowerOfOne,
    PowerOfAll,
    Replace,
    Transfer,
    KillScheduler,
    KillBorglet,
}

impl Kind {
    pub(crate) const ALL: [Self; 22] = [
        Self::Kill,
        Self::Stop,
        Self::Freeze,
        Self::FreezeMajority,
        Self::Cut,
        Self::CutSending,
        Self::CutHearing,
        Self::Isolate,
        Self::DiskFull,
        Self::DiskSlow,
        Self::DiskStuck,
        Self::DiskCorrupt,
        Self::Emptied,
        Self::Copied,
        Self::PutBack,
        Self::DiskPutBack,
        Self::PowerOfOne,
        Self::PowerOfAll,
        Self::Replace,
        Self::Transfer,
        Self::KillScheduler,
        Self::KillBorglet,
    ];

    /// Its description.
    pub(crate) fn says(self) -> &'static str {
        match self {
            Self::Kill => "a replica is killed (`kill -9`)",
            Self::Stop => "a replica is stopped in good order (SIGTERM)",
            Self::Freeze => "a replica stands still (SIGSTOP)",
            Self::FreezeMajority => "a majority of the replicas stands still",
            Self::Cut => "a replica is cut off from the others",
            Self::CutSending => "a replica hears the others, and they do not hear it",
            Self::CutHearing => "a replica is heard by the others, and does not hear them",
            Self::Isolate => "a replica is cut off from everybody, machines and clients too",
            Self::DiskFull => "a disk is full",
            Self::DiskSlow => "a disk is slow: each sync waits up to 60 ms",
            Self::DiskStuck => "a disk takes nothing",
            Self::DiskCorrupt => "a log is damaged; its replica is replaced, with an empty disk",
            Self::Emptied => "a replica's directory is emptied; it is refused, and replaced",
            Self::Copied => {
                "a replica has a copy of another's directory; it is refused, and replaced"
            }
            Self::PutBack => {
                "an older copy of a directory is put back; it is refused, and replaced"
            }
            Self::DiskPutBack => "an older state of a replica's whole disk is put back",
            Self::PowerOfOne => "a replica loses power, and what it had not synced",
            Self::PowerOfAll => "all replicas lose power at once, and start in any order",
            Self::Replace => "a replica is added, another killed meanwhile, a third removed",
            Self::Transfer => "another replica has to lead",
            Self::KillScheduler => "the scheduler is killed",
            Self::KillBorglet => "a Borglet is killed",
        }
    }
}

/// A fault: kind, target, duration, and the pause after it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) kind: Kind,
    /// Whether the target is the leader.
    pub(crate) leader: bool,
    /// Otherwise, which replica.
    pub(crate) whom: usize,
    pub(crate) hold: Duration,
    pub(crate) rest: Duration,
    /// Random numbers for its execution.
    pub(crate) random: Random,
}

/// The endless sequence of faults of a seed: each kind occurs before any is repeated.
pub(crate) fn faults(mut random: Random) -> impl Iterator<Item = Fault> {
    let mut left: Vec<Kind> = Vec::new();
    std::iter::from_fn(move || {
        if left.is_empty() {
            left = Kind::ALL.to_vec();
        }
        let mut number = |most: usize| random.below_usize(most);
        let kind = left.swap_remove(number(left.len()));
        let leader = number(2) == 0;
        let whom = number(12);
        let ms = |number: usize| Duration::from_millis(number as u64);
        let (hold, rest) = (ms(500 + number(2_500)), ms(300 + number(1_500)));
        Some(Fault { kind, leader, whom, hold, rest, random: random.fork() })
    })
}

#[test]
fn a_seed_gives_the_same_faults_and_every_kind() {
    let of = |seed| faults(Random::of(seed)).take(Kind::ALL.len()).collect::<Vec<_>>();
    assert_eq!(of(1), of(1));
    assert_ne!(of(1), of(2));
    let mut kinds: Vec<Kind> = of(1).iter().map(|fault| fault.kind).collect();
    kinds.sort_unstable();
    assert_eq!(kinds, Kind::ALL);
}
