//! The memory of a simulated machine: what its tasks use, by their curves, and what a program beside them
//! takes.

use std::collections::BTreeMap;

use borglet::{MemoryReport, Order, Rule, memory_reserve};
use model::{Bytes, InstanceId, Priority, Span, Time};

use super::{Machine, ProcessPhase};

/// How often memory is read while a part of it is taken.
pub(crate) const READ_EVERY: Span = Span::from_millis(250);

/// How much of a machine's memory is used, and which tasks its Borglet evicted for it.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    taken: Option<u64>,
    /// Counts the times at which something began to take a part: readings of earlier times end.
    turn: u64,
    /// The priorities in the last order.
    priorities: BTreeMap<InstanceId, Priority>,
    ended: Vec<InstanceId>,
}

/// A reading, with what is true of the tasks.
#[derive(Debug)]
pub(crate) struct Read {
    pub(crate) report: MemoryReport,
    tasks: BTreeMap<InstanceId, TaskMemory>,
}

/// A task of a reading.
#[derive(Clone, Copy, Debug)]
struct TaskMemory {
    priority: Priority,
    used: Bytes,
    limit: Bytes,
    in_alloc: bool,
    /// It runs, and was not told to stop.
    stays: bool,
}

impl Memory {
    /// The priorities of an order that the machine has obeyed.
    pub(crate) fn given(&mut self, priorities: Vec<(InstanceId, Priority)>) {
        self.priorities = priorities.into_iter().collect();
    }

    /// Something takes a part, in thousandths, or nothing does; returns the turn of readings that begin.
    pub(crate) fn take(&mut self, permille: Option<u64>) -> Option<u64> {
        self.taken = permille;
        self.turn += 1;
        self.taken.map(|_| self.turn)
    }

    pub(crate) fn is_taken(&self, turn: u64) -> bool {
        self.taken.is_some() && self.turn == turn
    }

    /// A task was ended by a rule.
    pub(crate) fn ended_by(&mut self, instance: InstanceId, rule: Rule) {
        if matches!(rule, Rule::MemoryAboveLimit | Rule::MemoryPriority) {
            self.ended.push(instance);
        }
    }

    /// Whom the Borglet has ended since the last call.
    pub(crate) fn take_ended(&mut self) -> Vec<InstanceId> {
        std::mem::take(&mut self.ended)
    }
}

impl Machine {
    /// Reads the memory; `None` if no Borglet runs.
    pub(crate) fn read_memory(&self, now: Time) -> Option<Read> {
        self.borglet.as_ref()?;
        let capacity = self.report.capacity.ram;
        let (mut used, mut tasks) = (BTreeMap::new(), BTreeMap::new());
        let mut sum: u64 = 0;
        for (instance, process) in &self.processes {
            let stays = match process.phase {
                ProcessPhase::Starting => false,
                ProcessPhase::Running(_) => !process.ending,
                ProcessPhase::Ended(_) => continue,
            };
            let desired = &process.launch.desired;
            let limit = desired.spec.limit;
            let within = self.meters.memory(now, *instance, limit);
            let has = match desired.spec.memory_slack {
                true => Bytes(within.0.saturating_mul(2)),
                false => within,
            };
            let priority = self.memory.priorities.get(instance).copied();
            let (priority, limit) = (priority.unwrap_or(desired.priority), limit.ram);
            let in_alloc = desired.alloc.is_some();
            tasks.insert(*instance, TaskMemory { priority, used: has, limit, in_alloc, stays });
            used.insert(*instance, has);
            sum = sum.saturating_add(has.0);
            if let Some(alloc) = desired.alloc {
                let shared: &mut Bytes = used.entry(alloc).or_default();
                *shared = Bytes(shared.0.saturating_add(has.0));
            }
        }
        let taken = capacity.0 / 1_000 * self.memory.taken.unwrap_or(0);
        let available = Bytes(capacity.0.saturating_sub(sum).saturating_sub(taken));
        let reserve = memory_reserve(capacity);
        Some(Read { report: MemoryReport { available, reserve, pressed: false, used }, tasks })
    }
}

impl Read {
    /// What is wrong with the choice of those that were ended, if anything is.
    pub(crate) fn wrong(&self, ended: &[InstanceId]) -> Option<String> {
        ended.iter().find_map(|victim| {
            let own = self.tasks.get(victim)?;
            if own.used > own.limit || own.in_alloc {
                return None;
            }
            if own.priority.is_prod() {
                return Some(format!("{victim} of {} is evicted within its limit", own.priority));
            }
            let lower = self.tasks.iter().find(|(id, other)| {
                let stays = other.stays && !ended.contains(id) && !other.in_alloc;
                stays && other.used.0 > 0 && other.priority < own.priority
            });
            let (id, other) = lower?;
            let (own, other) = (own.priority, other.priority);
            Some(format!("{victim} of {own} is evicted, and {id} of {other} stays"))
        })
    }
}

/// The priorities in an order.
pub(crate) fn priorities(order: &Order) -> Vec<(InstanceId, Priority)> {
    order.tasks.iter().map(|desired| (desired.instance, desired.priority)).collect()
}

/// For an injected bug: the lowest priority becomes the highest.
pub(crate) fn turn_priorities_over(order: &mut Order) {
    let turn = |priority: Priority| {
        let turned = Priority::MAX - priority.number();
        Priority::new(turned.into()).unwrap_or(priority)
    };
    order.tasks.iter_mut().for_each(|task| task.priority = turn(task.priority));
    order.allocs.iter_mut().for_each(|alloc| alloc.priority = turn(alloc.priority));
}
