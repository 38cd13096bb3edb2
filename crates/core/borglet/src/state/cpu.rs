//! Whole cores, and caps for greedy tasks.

use std::collections::BTreeSet;
use std::sync::Arc;

use model::{Appclass, Dimension, End, FinalUsage, InstanceId, MilliCores, Permille, Time};
use poll::Desired;
use spec::Cores;

use super::{Borglet, Effect, Local, Phase};
use crate::Launch;
use crate::cores::Topology;
use crate::starvation::{Observed, Starvation};

/// What a task used since the last reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuReading {
    /// The task.
    pub instance: InstanceId,
    /// What it used, in the machine's own cores.
    pub used: MilliCores,
    /// The share of the time in which at least one of its threads waited for CPU; none where that is not
    /// measured.
    pub waited: Option<Permille>,
}

/// What was used since the last reading, about a second ago.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CpuRound {
    /// By each running task.
    pub tasks: Vec<CpuReading>,
    /// By everything on the machine, in its own cores.
    pub machine: Option<MilliCores>,
}

/// The state of the machine's CPUs.
#[derive(Clone, Debug, Default)]
pub(super) struct Cpus {
    topology: Topology,
    /// The CPUs of those that share, as last told.
    shared: Option<Vec<u32>>,
    starvation: Starvation,
}

impl Borglet {
    /// Lets tasks have whole cores of a machine with these CPUs.
    #[must_use]
    pub fn with_cpus(mut self, topology: Topology) -> Self {
        self.cpus.topology = topology;
        self
    }

    /// The CPUs that tasks have for themselves.
    pub(super) fn cpus_taken(&self) -> BTreeSet<u32> {
        let here = self.tasks.values().filter(|local| local.is_here());
        here.flat_map(|local| local.launch.cpus.iter().copied()).collect()
    }

    /// Tells on which CPUs those that share run, before the `effects` that began at a position.
    pub(super) fn tell_shared_cpus(&mut self, begin: usize, effects: &mut Vec<Effect>) {
        if self.cpus.topology.cores.is_empty() {
            return;
        }
        let shared = self.cpus.topology.shared(&self.cpus_taken());
        if self.cpus.shared.as_ref() != Some(&shared) {
            effects.insert(begin, Effect::ShareCpus(shared.clone()));
            self.cpus.shared = Some(shared);
        }
    }

    /// Looks whether batch tasks are starved.
    pub(super) fn handle_cpu(&mut self, now: Time, round: &CpuRound, effects: &mut Vec<Effect>) {
        let observed = |reading: &CpuReading| {
            let local = self.tasks.get(&reading.instance)?;
            matches!(local.phase, Phase::Running(_) | Phase::Stopping { .. }).then(|| Observed {
                instance: reading.instance,
                batch: local.launch.desired.appclass == Appclass::Batch,
                limit: local.limit.current.cpu,
                used: reading.used,
                waited: reading.waited,
            })
        };
        let mut tasks: Vec<Observed> = round.tasks.iter().filter_map(observed).collect();
        // One that could not be read keeps its cap.
        for instance in self.cpus.starvation.capped() {
            if !tasks.iter().any(|task| task.instance == instance) {
                let (used, waited) = (MilliCores(0), None);
                tasks.extend(observed(&CpuReading { instance, used, waited }));
            }
        }
        let capacity = self.machine.capacity.cpu;
        let changes = self.cpus.starvation.observe(now, capacity, round.machine, &tasks);
        let effect = |(instance, cap)| Effect::CapCpu { instance, cap };
        effects.extend(changes.into_iter().map(effect));
        self.shortages.look(Dimension::Cpu, self.cpus.starvation.is_starved(), now);
        // Memory is reported only while it is low.
        self.shortages.look(Dimension::Ram, false, now);
        self.report_shortage();
    }

    /// Puts into the report which resource the machine is short of.
    pub(super) fn report_shortage(&mut self) {
        let shortage = self.shortages.reported();
        if self.machine.shortage != shortage {
            Arc::make_mut(&mut self.machine).shortage = shortage;
        }
    }

    /// A new limit has replaced the cap of a task: it is capped again.
    pub(super) fn cap_again(&mut self, instance: InstanceId, effects: &mut Vec<Effect>) {
        if let Some(cap) = self.cpus.starvation.again(instance) {
            effects.push(Effect::CapCpu { instance, cap });
        }
    }

    /// The maximum to which a greedy task is held for now.
    #[must_use]
    pub fn cpu_cap(&self, instance: InstanceId) -> Option<MilliCores> {
        self.cpus.starvation.cap(instance)
    }
}

impl Cpus {
    /// Gives a task that is about to start the cores that it asks for. It waits if others still have them,
    /// and ends if this machine never has as many.
    pub(super) fn give(&self, local: &mut Local, taken: &mut BTreeSet<u32>) -> bool {
        let launch = &mut local.launch;
        launch.cpus.clear();
        if !has_whole_cores(&launch.desired) {
            return true;
        }
        let (count, most) =
            (self.topology.wanted(local.limit.current.cpu), self.topology.exclusive_max());
        if count > most {
            let reason = format!(
                "it asks for {count} whole cores, and tasks can have {most} on its machine"
            );
            local.phase = Phase::Ended(End::Lost { reason }, FinalUsage::UNMEASURED);
            return false;
        }
        let Some(cpus) = self.topology.choose(count, taken) else { return false };
        taken.extend(&cpus);
        launch.cpus = cpus;
        true
    }
}

/// Whether a task gets cores of its own.
fn has_whole_cores(desired: &Desired) -> bool {
    desired.spec.cores == Cores::Exclusive
        && desired.appclass == Appclass::LatencySensitive
        && desired.alloc.is_none()
}

impl Launch {
    /// Whether it has whole cores.
    #[must_use]
    pub fn is_exclusive(&self) -> bool {
        !self.cpus.is_empty()
    }
}
