//! The campaign: worlds by seed, each with its faults, run until an invariant is violated or the
//! cell has settled again.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use model::{Random, Span, UserName};
use replica::Codec;

use crate::fault::{Family, Fault, RACK, faults, memory_faults};
use crate::injected_bug::InjectedBug;
use crate::log_observer::Checking;
use crate::mixed_load::Mixed;
use crate::program::Commands;
use crate::world::{Counts, Setting, World, capacity, machines};

/// Maximum time in which a cell settles after the last fault: machines are back, tasks with the
/// longest retry delay are retried, and everything feasible is placed.
pub const RESTS_WITHIN: Span = Span::from_secs(900);
/// How often that is checked.
const LOOK: Span = Span::from_secs(5);
/// The full check of the cell runs once per this many operations.
const FULL_CHECK: u64 = 1_000;

/// The parameters of one world of the campaign.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The seed of everything random.
    pub seed: u64,
    /// How long faults are injected; then the cell may settle.
    pub lasts: Span,
    /// The families of faults.
    pub families: Vec<Family>,
    /// Indexes of the seed's faults that are injected; `None` for all.
    pub only: Option<Vec<usize>>,
    /// Number of replicas of its Borgmaster.
    pub replicas: usize,
    /// Number of machines; `None` to let the seed decide.
    pub machines: Option<usize>,
    /// A bug to inject.
    pub injected_bug: Option<InjectedBug>,
}

/// The result of one world.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Its seed.
    pub seed: u64,
    /// The digest of its events.
    pub digest: String,
    /// Counters of what happened.
    pub counts: Counts,
    /// Number of machines.
    pub machines: usize,
    /// The simulated time that it ran.
    pub age: Span,
    /// How long after the last fault it had settled.
    pub rested_after: Option<Span>,
    /// The first violation or other failure.
    pub failure: Option<String>,
}

/// Masters whose reservations follow the usage within seconds: a world lasts minutes.
fn estimating() -> master::Settings {
    let pace = master::Pace {
        silent_after: Span::from_secs(10),
        silence_rise: Span::from_secs(20),
        ..master::Pace::new(Span::from_secs(5), Span::from_secs(5))
    };
    master::Settings { pace, ..master::Settings::default() }
}

impl Plan {
    /// All families of faults, for a given time, with one replica.
    #[must_use]
    pub fn of(seed: u64, lasts: Span) -> Self {
        let families = Family::ALL.to_vec();
        Self { seed, lasts, families, only: None, replicas: 1, machines: None, injected_bug: None }
    }

    fn size(&self, random: &mut Random) -> usize {
        let drawn = match random.below(10) {
            0..6 => random.within(3..13),
            6..9 => random.within(13..40),
            _ => 100,
        };
        self.machines.unwrap_or(usize::try_from(drawn).unwrap_or(3))
    }

    /// The faults of the seed, each with whether it is injected.
    #[must_use]
    pub fn faults(&self) -> Vec<(Fault, bool)> {
        let mut random = Random::new(self.seed);
        let machines = self.size(&mut random);
        let mut all =
            faults(&mut random.fork(), &self.families, machines, self.replicas, self.lasts);
        if self.families.contains(&Family::Memory) {
            // Random numbers of their own: the other faults stay those of the seed.
            let mut random = Random::new(Random::mixed(self.seed));
            all.extend(memory_faults(&mut random, machines, self.lasts));
        }
        let played = |number: usize| self.only.as_ref().is_none_or(|only| only.contains(&number));
        all.into_iter().enumerate().map(|(number, fault)| (fault, played(number))).collect()
    }

    /// The world at its beginning.
    pub fn world<C: Codec>(&self, codec: C) -> World<C> {
        let mut random = Random::new(self.seed);
        let count = self.size(&mut random);
        let mut random = Random::new(!self.seed);
        let users = ["root", "ana", "bob", "cyd"];
        let users: Vec<_> = users.iter().filter_map(|name| UserName::new(name).ok()).collect();
        let (cores, gib) = (random.within(2..33), random.within(4..129));
        let setting = Setting {
            seed: random.number(),
            machines: machines(count, RACK, capacity(cores, gib)),
            replicas: self.replicas,
            replica: replica::Settings { master: estimating(), ..replica::Settings::default() },
            checking: Checking::Every { full: FULL_CHECK },
            checkpoint_every: random.within(50..2_000),
            injected_bug: self.injected_bug,
            users: users.clone(),
        };
        let load = Mixed::new(random.fork(), users, setting.machines.clone());
        let played =
            self.faults().into_iter().filter_map(|(fault, played)| played.then_some(fault));
        World::new(setting, codec, Box::new(load), Box::new(Commands), played.collect())
    }

    /// Runs the world to its end. A panic in it counts as its failure and is caught.
    pub fn run<C: Codec>(&self, codec: C) -> Verdict {
        catch_unwind(AssertUnwindSafe(|| self.play(codec))).unwrap_or_else(|panic| Verdict {
            seed: self.seed,
            digest: String::new(),
            counts: Counts::default(),
            machines: self.size(&mut Random::new(self.seed)),
            age: Span::ZERO,
            rested_after: None,
            failure: Some(format!("it panicked: {}", panic_message(panic.as_ref()))),
        })
    }

    fn play<C: Codec>(&self, codec: C) -> Verdict {
        let mut world = self.world(codec);
        world.run_to(self.lasts);
        world.load.stop();
        world.heal();
        let mut rested_after = None;
        let mut unrest = None;
        let mut rest = Span::ZERO;
        while world.violation().is_none() && rest < RESTS_WITHIN {
            rest = rest + LOOK;
            world.run_to(self.lasts + rest);
            unrest = world.unsettled();
            if unrest.is_none() && world.violation().is_none() {
                rested_after = Some(rest);
                break;
            }
        }
        if let Some(cell) = world.cell() {
            let wrong = cell.check().first().map(ToString::to_string);
            wrong.into_iter().for_each(|wrong| world.invariants.violated(wrong));
        }
        let restless = unrest.filter(|_| rested_after.is_none()).map(|unrest| {
            format!("{RESTS_WITHIN} after the last fault the cell has not settled: {unrest}")
        });
        Verdict {
            seed: self.seed,
            digest: world.digest(),
            counts: world.counts(),
            machines: world.machines.len(),
            age: world.age(),
            rested_after,
            failure: world.violation().map(str::to_owned).or(restless),
        }
    }

    /// Finds a smaller set of faults that still fails, with its failure: leaves out halves,
    /// quarters and so on down to single faults, repeatedly. Runs at most `worlds_max` worlds.
    pub fn shrink<C: Codec>(&self, codec: impl Fn() -> C, worlds_max: usize) -> (Self, Verdict) {
        let all: Vec<usize> = self.faults().iter().enumerate().map(|(number, _)| number).collect();
        let mut kept = self.only.clone().unwrap_or(all);
        let mut least = (self.clone(), self.run(codec()));
        let mut played = 1;
        let mut part = kept.len().div_ceil(2).max(1);
        while played < worlds_max && !kept.is_empty() {
            let mut shrunk = false;
            let mut from = 0;
            while from < kept.len() && played < worlds_max {
                let mut fewer = kept.clone();
                fewer.drain(from..(from + part).min(kept.len()));
                let plan = Self { only: Some(fewer.clone()), ..self.clone() };
                let verdict = plan.run(codec());
                played += 1;
                if verdict.failure.is_some() {
                    (kept, least, shrunk) = (fewer, (plan, verdict), true);
                } else {
                    from += part;
                }
            }
            if part == 1 && !shrunk {
                break;
            }
            part = if shrunk { part.min(kept.len()).max(1) } else { part.div_ceil(2).max(1) };
        }
        least
    }
}

/// The message of a panic.
fn panic_message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("without a message")
}
