//! Failures that are known from cells and clusters of others, by name: each is played in a [`World`]
//! as a script, and what must hold in it is held by its own bounds beside what the judge says of
//! every world.
//!
//! [`World`]: crate::World

mod disagreement;
mod lost;
mod preemption;
mod removals;
mod restarts;
mod stage;
mod stampede;

use std::fmt;

use replica::Codec;

use crate::injected_bug::InjectedBug;
use crate::world::Counts;
use stage::{Cast, Stage};

/// A failure by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scenario {
    /// Tasks that had to make room are forgotten, or stay dead.
    VictimNeverRescheduled,
    /// Tasks evict each other for ever.
    PreemptionLoop,
    /// A scheduler plans what the master refuses, again and again.
    SchedulerAndMasterDisagree,
    /// One machine goes and returns 165 times.
    FlappingMachine,
    /// A thousand machines come back at the same moment.
    Stampede,
    /// A rack loses power.
    RackLost,
    /// Half of the machines fall silent, and were never gone.
    HalfTheCellSilent,
    /// What hundreds of tasks need is gone: all crash, and crash again.
    CrashLoopHerd,
    /// The master dies again and again while it starts.
    MasterDiesWhileItStarts,
}

/// Something that was counted, and the most that it may be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Figure {
    /// What was counted.
    pub what: &'static str,
    /// How much it was.
    pub is: u64,
    /// How much it may be.
    pub most: u64,
}

/// How a scenario went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Played {
    /// Which one.
    pub scenario: Scenario,
    /// The digest of its events.
    pub digest: String,
    /// How much happened.
    pub counts: Counts,
    /// For how long it was played.
    pub age: model::Span,
    /// What was counted.
    pub figures: Vec<Figure>,
    /// What was wrong.
    pub failure: Option<String>,
}

impl Scenario {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::VictimNeverRescheduled,
        Self::PreemptionLoop,
        Self::SchedulerAndMasterDisagree,
        Self::FlappingMachine,
        Self::Stampede,
        Self::RackLost,
        Self::HalfTheCellSilent,
        Self::CrashLoopHerd,
        Self::MasterDiesWhileItStarts,
    ];

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::VictimNeverRescheduled => "victim-never-rescheduled",
            Self::PreemptionLoop => "preemption-loop",
            Self::SchedulerAndMasterDisagree => "scheduler-and-master-disagree",
            Self::FlappingMachine => "flapping-machine",
            Self::Stampede => "stampede",
            Self::RackLost => "rack-lost",
            Self::HalfTheCellSilent => "half-the-cell-silent",
            Self::CrashLoopHerd => "crash-loop-herd",
            Self::MasterDiesWhileItStarts => "master-dies-while-it-starts",
        }
    }

    /// That of a name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|scenario| scenario.name() == name)
    }

    /// What failed like this, where that is known, and what must hold instead.
    #[must_use]
    pub fn about(self) -> &'static str {
        match self {
            Self::VictimNeverRescheduled => preemption::VICTIMS,
            Self::PreemptionLoop => preemption::LOOP,
            Self::SchedulerAndMasterDisagree => disagreement::ABOUT,
            Self::FlappingMachine => lost::FLAPPING,
            Self::Stampede => stampede::ABOUT,
            Self::RackLost => lost::RACK,
            Self::HalfTheCellSilent => lost::HALF,
            Self::CrashLoopHerd => restarts::HERD,
            Self::MasterDiesWhileItStarts => restarts::MASTER,
        }
    }

    /// Plays it. The seed decides what the script leaves open: delays, order, what a disk keeps. A
    /// mistake may be planted, to see that it is found.
    pub fn play<C: Codec>(self, seed: u64, injected_bug: Option<InjectedBug>, codec: C) -> Played {
        let cast = Cast { seed, injected_bug, codec };
        let stage: Stage<C> = match self {
            Self::VictimNeverRescheduled => preemption::victims(cast),
            Self::PreemptionLoop => preemption::endless(cast),
            Self::SchedulerAndMasterDisagree => disagreement::play(cast),
            Self::FlappingMachine => lost::flapping(cast),
            Self::Stampede => stampede::play(cast),
            Self::RackLost => lost::rack(cast),
            Self::HalfTheCellSilent => lost::half(cast),
            Self::CrashLoopHerd => restarts::herd(cast),
            Self::MasterDiesWhileItStarts => restarts::master(cast),
        };
        stage.curtain(self)
    }
}

impl fmt::Display for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}, at most {}", self.what, self.is, self.most)
    }
}
