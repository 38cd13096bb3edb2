//! The maxima of a job per machine and per switch, as rules with numbers.

use std::collections::BTreeMap;
use std::fmt;

use cell::feasibility::CountedAt;
use cell::{Cell, FailureDomain, Job};

/// A maximum of a job, and where it is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MaximumRule {
    /// Where tasks are counted.
    pub place: CountedAt,
    /// The maximum.
    pub most: u32,
    /// Whether no task is placed beyond it; else the scheduler prefers other places.
    pub hard: bool,
    /// Number of machines or switches that have as many tasks of the job, or more.
    pub reached: usize,
    /// Number of machines or switches.
    pub all: usize,
    /// The most tasks of the job at one of them.
    pub has: u32,
}

/// The maxima of a job.
#[must_use]
pub fn maximum_rules(cell: &Cell, job: &Job) -> Vec<MaximumRule> {
    let mut rules = Vec::new();
    if let Some(maximum) = job.spec.max_per_machine {
        let counts: Vec<u32> = cell.machines().map(|machine| machine.tasks_of(job.id)).collect();
        rules.push(MaximumRule::of(CountedAt::Machine, maximum, &counts));
    }
    if let Some(maximum) = job.spec.max_per_switch {
        let mut switches: BTreeMap<&str, u32> = BTreeMap::new();
        for machine in cell.machines() {
            let Some(switch) = machine.domain(FailureDomain::Switch) else { continue };
            *switches.entry(switch).or_default() += machine.tasks_of(job.id);
        }
        let counts: Vec<u32> = switches.into_values().collect();
        rules.push(MaximumRule::of(CountedAt::Switch, maximum, &counts));
    }
    rules
}

impl MaximumRule {
    fn of(place: CountedAt, maximum: spec::Maximum, counts: &[u32]) -> Self {
        Self {
            place,
            most: maximum.tasks,
            hard: maximum.hard,
            reached: counts.iter().filter(|count| **count >= maximum.tasks).count(),
            all: counts.len(),
            has: counts.iter().copied().max().unwrap_or_default(),
        }
    }
}

/// `at most 2 tasks of the job on a machine: 3 of 40 machines have so many`.
impl fmt::Display for MaximumRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { place, most, hard, reached, all, has } = self;
        let (on, places) = match place {
            CountedAt::Machine => ("on a machine", "machine"),
            CountedAt::Switch => ("at a switch", "switch"),
        };
        let several = |count: usize| match (count, place) {
            (1, _) => places,
            (_, CountedAt::Machine) => "machines",
            (_, CountedAt::Switch) => "switches",
        };
        let s = if *most == 1 { "" } else { "s" };
        let lead = if *hard { "at most" } else { "preferably at most" };
        write!(f, "{lead} {most} task{s} of the job {on}: ")?;
        let have = if *reached == 1 { "has" } else { "have" };
        write!(f, "{reached} of {all} {} {have} so many", several(*all))?;
        if has > most { write!(f, ", and one has {has}") } else { Ok(()) }
    }
}
