//! The rounds of estimates of each replica, on what simulated tasks use; and what must hold of the
//! reservations once nothing fails.

use std::collections::BTreeMap;
use std::sync::Arc;

use cell::{Cell, TaskState};
use master::{Partition, Reclamation, Samples, Usage};
use model::{GcuFactor, InstanceId, MachineId, Span, Time};
use replica::{Codec, Input};

use crate::world::{Event, World, number_of};

/// Samples that came longer ago are outdated, as in a real master.
const FRESH: Span = Span::from_secs(15);
/// The longest time until what a task uses is in its reservation: the time of a round, a poll, and
/// the record.
const ROUND_TAKES: Span = Span::from_secs(12);

/// The estimates of a replica's process, and the usage that it was sent.
#[derive(Debug)]
pub(crate) struct Estimates {
    reclamation: Reclamation,
    usage: BTreeMap<MachineId, (Time, Arc<Usage>)>,
}

impl Estimates {
    pub(crate) fn new(settings: &replica::Settings) -> Self {
        let reclamation = Reclamation::new(settings.master.pace);
        Self { reclamation, usage: BTreeMap::new() }
    }

    /// What came with a machine's answer.
    pub(crate) fn take_in(&mut self, now: Time, machine: MachineId, usage: &Arc<Usage>) {
        if !usage.samples.is_empty() {
            self.usage.insert(machine, (now, Arc::clone(usage)));
        }
    }

    /// A round; returns the input for the replica, if there is one.
    pub(crate) fn round(&mut self, now: Time, cell: &Cell, partition: &Partition) -> Option<Input> {
        self.usage.retain(|_, (heard, _)| now.since(*heard) <= FRESH);
        let mut samples = Samples::default();
        for (machine, (_, usage)) in &self.usage {
            let gcu = cell.machine(*machine).map_or(GcuFactor::default(), |machine| machine.gcu());
            usage.samples.iter().for_each(|sample| samples.add(gcu, sample));
        }
        let estimated = self.reclamation.round(now, cell, partition, &mut samples);
        (!estimated.reservations.is_empty()).then_some(Input::Reserve(estimated.reservations))
    }
}

impl<C: Codec> World<C> {
    /// A replica makes a round of estimates, and the next one is scheduled.
    pub(crate) fn estimates(&mut self, host: usize, incarnation: u64) {
        let master = &mut self.masters[host];
        if incarnation != master.incarnation {
            return;
        }
        let interval = master.settings.master.estimate_interval;
        if let Some(input) = master.estimate(self.now) {
            self.tell_master(host, input);
        }
        self.agenda.at(self.now + interval, Event::Estimates { host, incarnation });
    }

    /// The first reservation that is below the least that its task has used in the time of a round, or
    /// below the limit although its task has been silent for long enough.
    pub(super) fn unsettled_reservation(&self, cell: &Cell) -> Option<String> {
        let pace = self.masters.first()?.settings.master.pace;
        let late = pace.silent_after + pace.silence_rise + ROUND_TAKES;
        for job in cell.jobs().filter(|job| job.is_estimated()) {
            for (index, task) in job.tasks() {
                let TaskState::Running(placed) = &task.state else { continue };
                if !job.described(index).estimation {
                    continue;
                }
                let instance =
                    InstanceId { collection: job.id, index, generation: task.generation };
                let (limit, reserved) = (job.limit(index), job.reservation(index));
                let Some(there) = cell.machine(placed.machine) else { continue };
                let Some(number) = number_of(&there.address) else { continue };
                let meters = &self.machines[number].meters;
                if let Some(silent) = meters.silent_for(instance, self.now) {
                    if silent > late && reserved != limit {
                        return Some(format!(
                            "{instance} reserves {reserved} of {limit}, unheard of for {silent}"
                        ));
                    }
                } else if let Some(used) = meters.least_used(instance, self.now, ROUND_TAKES) {
                    let (cpu, ram) = (there.gcu().normalised(used.0), used.1);
                    if cpu.min(limit.cpu) > reserved.cpu || ram.min(limit.ram) > reserved.ram {
                        return Some(format!(
                            "{instance} reserves {reserved} and uses {cpu}, {ram}"
                        ));
                    }
                }
            }
        }
        None
    }
}
