//! The score of a machine for a task (paper, section 3.2): a sum of terms, each named and weighted,
//! each in a small file of its own. Lower is better. All values are integers, so that every build
//! chooses the same machine.
//!
//! A task that fits somewhere without evictions causes none: the number and priority of victims
//! matter only if no machine has room (see `crate::engine::preempt`), and so take precedence over every
//! term here. Packages that a machine lacks are fetched, so
//! [`Term::Packages`] only prefers machines that have them.

mod best_fit;
mod crashes;
mod e_pvm;
mod hybrid;
mod maxima;
mod mixing;
mod soft;
mod spread;

use model::PackingPolicy;

pub(crate) use maxima::over as over_a_maximum;
pub(crate) use mixing::raw as mixing;
pub(crate) use soft::unmatched;
pub(crate) use spread::share as share_lost;

/// One whole: shares of a machine or of a job are measured in this many parts.
pub(crate) const WHOLE: u32 = 4_096;

/// The score of a machine on which a task does not fit.
pub(crate) const INFEASIBLE: u32 = u32::MAX;

/// The input of packing: what is left of a machine, as shares of the machine in parts of [`WHOLE`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Left {
    /// CPU left without the task.
    pub(crate) cpu_before: u32,
    /// Memory left without the task.
    pub(crate) ram_before: u32,
    /// CPU left with the task.
    pub(crate) cpu: u32,
    /// Memory left with the task.
    pub(crate) ram: u32,
}

/// The packing term of a policy: 0 to about 17 times [`WHOLE`].
#[inline]
pub(crate) fn packing(policy: PackingPolicy, left: Left) -> u32 {
    match policy {
        PackingPolicy::Hybrid => hybrid::raw(left),
        PackingPolicy::BestFit => best_fit::raw(left),
        PackingPolicy::WorstFit => e_pvm::raw(left),
    }
}

/// A term of the score.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Term {
    /// The task crashed on the machine recently.
    Crashed,
    /// Tasks of many jobs crashed on the machine recently.
    Suspect,
    /// Number of soft constraints that the machine does not match.
    Soft,
    /// Whether the preferred maximum of the job's tasks is reached, on the machine or at its
    /// switch.
    OverMaximum,
    /// The share of the job's tasks that are already on the machine.
    SpreadMachine,
    /// The share of them that are in its rack.
    SpreadRack,
    /// The share of them that depend on its power domain.
    SpreadPower,
    /// The share of the task's packages that the machine lacks.
    Packages,
    /// The packing policy's term.
    Packing,
    /// How far production and the rest are from sharing the machine.
    Mixing,
}

impl Term {
    /// All terms, heaviest first.
    pub const ALL: [Self; 10] = [
        Self::Crashed,
        Self::Suspect,
        Self::Soft,
        Self::OverMaximum,
        Self::SpreadMachine,
        Self::SpreadRack,
        Self::SpreadPower,
        Self::Packages,
        Self::Packing,
        Self::Mixing,
    ];

    /// Its name in output.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Crashed => "crashed",
            Self::Suspect => "suspect",
            Self::Soft => "soft",
            Self::OverMaximum => "over-maximum",
            Self::SpreadMachine => "spread-machine",
            Self::SpreadRack => "spread-rack",
            Self::SpreadPower => "spread-power",
            Self::Packages => "packages",
            Self::Packing => "packing",
            Self::Mixing => "mixing",
        }
    }
}

/// The weight of each term. The weighted sum must fit in 32 bits: with weights under which the
/// heaviest machine's score overflows, scores are meaningless.
///
/// Each of the first four outweighs all that follow it together, whatever their values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Weights {
    /// See [`Term::Crashed`].
    pub crashed: u32,
    /// See [`Term::Suspect`].
    pub suspect: u32,
    /// See [`Term::Soft`]; for each constraint.
    pub soft: u32,
    /// See [`Term::OverMaximum`].
    pub over_maximum: u32,
    /// See [`Term::SpreadMachine`]; for a whole job, in parts of 4,096.
    pub spread_machine: u32,
    /// See [`Term::SpreadRack`].
    pub spread_rack: u32,
    /// See [`Term::SpreadPower`].
    pub spread_power: u32,
    /// See [`Term::Packages`]; for all packages, in parts of 4,096. Half of what a machine costs that has one of a job's
    /// two tasks: packages do not draw tasks of a small job together.
    pub packages: u32,
    /// See [`Term::Packing`].
    pub packing: u32,
    /// See [`Term::Mixing`].
    pub mixing: u32,
}

impl Default for Weights {
    fn default() -> Self {
        Self {
            crashed: 1 << 30,
            suspect: 1 << 29,
            soft: 1 << 22,
            over_maximum: 1 << 20,
            spread_machine: 64,
            spread_rack: 32,
            spread_power: 16,
            packages: 16,
            packing: 2,
            mixing: 1,
        }
    }
}

impl Weights {
    /// The weight of a term.
    #[must_use]
    pub fn of(&self, term: Term) -> u32 {
        match term {
            Term::Crashed => self.crashed,
            Term::Suspect => self.suspect,
            Term::Soft => self.soft,
            Term::OverMaximum => self.over_maximum,
            Term::SpreadMachine => self.spread_machine,
            Term::SpreadRack => self.spread_rack,
            Term::SpreadPower => self.spread_power,
            Term::Packages => self.packages,
            Term::Packing => self.packing,
            Term::Mixing => self.mixing,
        }
    }
}

/// The terms of one machine's score, in the order of [`Term::ALL`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Terms(pub [u32; 10]);

impl Terms {
    /// The score, always less than that of a machine that does not fit.
    #[must_use]
    pub fn total(&self, weights: &Weights) -> u32 {
        let weighted = Term::ALL.into_iter().zip(self.0);
        let sum = weighted.fold(0_u32, |sum, (term, value)| {
            sum.saturating_add(value.saturating_mul(weights.of(term)))
        });
        sum.min(INFEASIBLE - 1)
    }
}
