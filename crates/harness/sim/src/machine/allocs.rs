//! Allocs on a simulated machine: a control group, which a reboot removes, and a directory, which
//! it leaves.

use borglet::{DesiredAlloc, Input, KeptData, RecoveredAlloc};
use model::{End, InstanceId, Resources, RestoreEpoch, Span, Time};

use super::{Consequence, Machine, Passed, TaskStep};

/// How long making an alloc takes.
const MAKING: Span = Span::from_millis(2);
/// How long removing an alloc with its files takes.
const REMOVING: Span = Span::from_millis(20);

/// An alloc, according to its control group and its directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Alloc {
    /// Its record.
    pub(crate) desired: Box<DesiredAlloc>,
    pub(crate) limit: Resources,
    /// Whether its group exists, and not only its directory.
    pub(crate) made: bool,
    /// Whether the files that its tasks share are still there.
    has_files: bool,
    /// How often the cell had been restored from a backup when it was made.
    pub(crate) epoch: RestoreEpoch,
}

impl Machine {
    /// The allocs that a starting Borglet finds.
    pub(crate) fn recovered_allocs(&self) -> Vec<RecoveredAlloc> {
        let found = |(id, alloc): (&InstanceId, &Alloc)| {
            let Alloc { limit, made, .. } = *alloc;
            RecoveredAlloc { instance: *id, limit, made }
        };
        self.allocs.iter().map(found).collect()
    }

    /// Occasionally the disk is full.
    pub(crate) fn make_alloc(&mut self, desired: Box<DesiredAlloc>) -> Consequence {
        let made = match self.random.chance(20) {
            true => Err("no space left on device".to_owned()),
            false => Ok(()),
        };
        Consequence::After(MAKING, desired.instance, TaskStep::Made(desired, made))
    }

    /// Sets the limit of an alloc; memory in use is not released at once.
    pub(crate) fn resize_alloc(&mut self, id: InstanceId, limit: Resources) -> Option<Resources> {
        let refuses = self.random.chance(200);
        let own = &mut self.allocs.get_mut(&id)?.limit;
        let ram = if refuses { own.ram.max(limit.ram) } else { limit.ram };
        *own = Resources { ram, ..limit };
        Some(*own)
    }

    /// Its files are kept first, if its set has a saver. Occasionally something hangs in the kernel.
    pub(crate) fn remove_alloc(
        &mut self,
        now: Time,
        id: InstanceId,
        save: bool,
        consequences: &mut Vec<Consequence>,
    ) {
        if let Some(alloc) = self.allocs.get_mut(&id)
            && std::mem::take(&mut alloc.has_files)
        {
            let kept = KeptData::of_alloc(&alloc.desired, now);
            consequences.extend(kept.is_some().then_some(Consequence::Left(id)));
            self.keep(kept.filter(|_| save));
        }
        let step = if self.random.chance(100) { TaskStep::Stays } else { TaskStep::Removed };
        consequences.push(Consequence::After(REMOVING, id, step));
    }

    /// An alloc's event takes effect; returns the input for its Borglet.
    pub(crate) fn pass_alloc(&mut self, id: InstanceId, step: TaskStep) -> Option<Passed> {
        let told = |input| Some(Passed { input, then: None, ended: None });
        match step {
            TaskStep::Made(desired, Ok(())) => {
                let (limit, epoch) = (desired.limit, self.obeyed.restore_epoch);
                let alloc = Alloc { desired, limit, made: true, has_files: true, epoch };
                self.allocs.insert(id, alloc);
                told(Input::AllocMade(id, Ok(())))
            }
            TaskStep::Made(_, Err(reason)) => {
                self.allocs.remove(&id);
                let ended = Some(End::NotStarted { reason: reason.clone() });
                Some(Passed { input: Input::AllocMade(id, Err(reason)), then: None, ended })
            }
            TaskStep::Removed => {
                self.allocs.remove(&id);
                told(Input::AllocRemoved(id))
            }
            TaskStep::Stays => told(Input::AllocStays(id)),
            _ => None,
        }
    }

    /// An instance that has not ended and whose alloc does not exist.
    pub(crate) fn misplaced(&self) -> Option<(InstanceId, InstanceId)> {
        let misplaced = |id: InstanceId| {
            let alloc = self.processes.get(&id)?.launch.desired.alloc?;
            let there = self.allocs.get(&alloc).is_some_and(|alloc| alloc.made);
            (!there).then_some((id, alloc))
        };
        self.running().find_map(misplaced)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use borglet::{Desired, Order, TaskStatus};
    use model::{CollectionId, Random};

    use crate::program::{Commands, desired};
    use crate::world::{capacity, machines};

    const NOW: Time = Time(1_000_000);

    fn alloc() -> DesiredAlloc {
        let Desired { instance, cell, user, job, priority, spec, .. } = desired("run");
        let instance = InstanceId { collection: CollectionId(9), ..instance };
        DesiredAlloc {
            address: None,
            appclass: model::Appclass::Batch,
            instance,
            cell,
            user,
            name: job,
            priority,
            limit: spec.limit,
            saver: None,
        }
    }

    fn inside() -> Desired {
        Desired { alloc: Some(alloc().instance), ..desired("run heeds=40") }
    }

    /// A machine with a Borglet, and its pending events.
    struct Stage(Machine, Vec<(InstanceId, TaskStep)>);

    impl Stage {
        fn new() -> Self {
            let (name, report) = machines(1, 1, capacity(8, 32)).remove(0);
            Self(Machine::new(name, report, Random::new(3)), Vec::new())
        }

        fn execute(&mut self, effects: Vec<borglet::Effect>) {
            let mut consequences = Vec::new();
            for effect in effects {
                self.0.execute(NOW, effect, &Commands, &mut consequences);
            }
            for consequence in consequences {
                if let Consequence::After(_, id, step) = consequence {
                    self.1.push((id, step));
                }
            }
            self.0.refresh();
        }

        fn obey(&mut self, index: u64, allocs: Vec<DesiredAlloc>, tasks: Vec<Desired>) {
            let stamp = model::Stamp { index: model::LogIndex(index), ..Default::default() };
            let mut effects = Vec::new();
            let borglet = self.0.borglet.as_mut().expect("a Borglet");
            borglet
                .obey(NOW, Order { stamp, allocs, tasks, ..Order::default() }, &mut effects)
                .expect("a newer order");
            self.execute(effects);
        }

        /// Lets all pending events happen.
        fn go_on(&mut self) -> String {
            while !self.1.is_empty() {
                let (id, step) = self.1.remove(0);
                let Some(passed) = self.0.pass(NOW, id, step, &Commands) else { continue };
                assert_eq!(self.0.misplaced(), None);
                let mut effects = Vec::new();
                let borglet = self.0.borglet.as_mut().expect("a Borglet");
                borglet.step(NOW, passed.input, &mut effects);
                self.execute(effects);
            }
            let word = |task: &borglet::TaskReport| {
                let status = match &task.status {
                    TaskStatus::Starting => "starting".to_owned(),
                    TaskStatus::Running { .. } => "running".to_owned(),
                    TaskStatus::Stopping => "stopping".to_owned(),
                    TaskStatus::Unready => "unready".to_owned(),
                    TaskStatus::Ended(end, _) => end.to_string(),
                };
                format!("{} {status}", task.instance)
            };
            self.0.said.tasks.iter().map(word).collect::<Vec<_>>().join(", ")
        }
    }

    #[test]
    fn an_alloc_survives_the_death_of_its_borglet_and_a_reboot() {
        let mut stage = Stage::new();
        stage.obey(1, vec![alloc()], vec![inside()]);
        assert_eq!(stage.go_on(), "1-0-1 running, 9-0-1 running");
        stage.0.kill_borglet();
        stage.0.start_borglet(NOW);
        assert_eq!(stage.go_on(), "1-0-1 running, 9-0-1 running");
        stage.0.lose_power();
        stage.0.start_borglet(NOW);
        assert_eq!(stage.go_on(), "1-0-1 lost: its machine was rebooted, 9-0-1 starting");
        stage.obey(2, vec![alloc()], vec![]);
        assert_eq!(stage.go_on(), "9-0-1 running");
        stage.obey(3, vec![], vec![]);
        assert_eq!(stage.go_on(), "9-0-1 stopped");
        assert!(stage.0.allocs.is_empty());
    }

    #[test]
    fn a_task_without_its_alloc_is_seen() {
        let mut stage = Stage::new();
        stage.obey(1, vec![alloc()], vec![inside()]);
        stage.go_on();
        stage.0.allocs.clear();
        assert_eq!(stage.0.misplaced(), Some((inside().instance, alloc().instance)));
    }
}
