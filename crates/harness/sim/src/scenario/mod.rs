//! Known failures of other cells and clusters, by name: each is a script that runs in a [`World`],
//! and asserts its own bounds in addition to the invariants of every world.
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
use stage::{Parameters, Stage};

/// A failure scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scenario {
    /// Preempted tasks are forgotten, or stay dead.
    VictimNeverRescheduled,
    /// Tasks evict each other forever.
    PreemptionLoop,
    /// A scheduler proposes what the master rejects, again and again.
    SchedulerAndMasterDisagree,
    /// One machine fails and returns 165 times.
    FlappingMachine,
    /// A thousand machines come back at the same moment.
    Stampede,
    /// A rack loses power.
    RackLost,
    /// Half of the machines fall silent without having failed.
    HalfTheCellSilent,
    /// A dependency of hundreds of tasks is gone: all of them crash repeatedly.
    CrashLoopHerd,
    /// The master dies again and again while it starts.
    MasterDiesWhileItStarts,
}

/// A measured value and its maximum.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Figure {
    /// What was measured.
    pub what: &'static str,
    /// The value.
    pub is: u64,
    /// The maximum.
    pub most: u64,
}

/// The result of a scenario.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Played {
    /// The scenario.
    pub scenario: Scenario,
    /// The digest of its events.
    pub digest: String,
    /// Counters of what happened.
    pub counts: Counts,
    /// The simulated time that it ran.
    pub age: model::Span,
    /// The measured values.
    pub figures: Vec<Figure>,
    /// The first failure.
    pub failure: Option<String>,
}

impl Scenario {
    /// All scenarios.
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

    /// The scenario of a given name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|scenario| scenario.name() == name)
    }

    /// The known failure, where there is one, and what has to hold here instead.
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

    /// Runs it. The seed decides what the script leaves open: delays, order, what a disk keeps. A
    /// bug can be injected to verify that the scenario finds it.
    pub fn play<C: Codec>(self, seed: u64, injected_bug: Option<InjectedBug>, codec: C) -> Played {
        let parameters = Parameters { seed, injected_bug, codec };
        let stage: Stage<C> = match self {
            Self::VictimNeverRescheduled => preemption::victims(parameters),
            Self::PreemptionLoop => preemption::endless(parameters),
            Self::SchedulerAndMasterDisagree => disagreement::play(parameters),
            Self::FlappingMachine => lost::flapping(parameters),
            Self::Stampede => stampede::play(parameters),
            Self::RackLost => lost::rack(parameters),
            Self::HalfTheCellSilent => lost::half(parameters),
            Self::CrashLoopHerd => restarts::herd(parameters),
            Self::MasterDiesWhileItStarts => restarts::master(parameters),
        };
        stage.finish(self)
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
