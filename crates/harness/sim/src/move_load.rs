//! Moves in the mixed load: a client packs running tasks anew, now and then without looking. A third of the worlds
//! have it.

use std::sync::Arc;

use cell::{Cell, Job, JobState, MoveReason, MoveTask, TaskState};
use model::{InstanceId, MachineName, Random, TaskIndex};

use crate::load::Action;

/// Who moves tasks. It draws from random numbers of its own, so that everything else stays that of the seed.
#[derive(Debug)]
pub(crate) struct MoveLoad {
    random: Random,
    moves: bool,
    users: usize,
}

impl MoveLoad {
    pub(crate) fn new(seed: u64, users: usize) -> Self {
        let seed = Random::mixed(seed ^ 0x6d6f_7665);
        Self { random: Random::new(seed), moves: seed.is_multiple_of(3), users }
    }

    /// The move of some running task to some machine, mostly to one on which it fits; mostly by an administrator.
    pub(crate) fn actions(&mut self, cell: &Cell) -> Vec<Action> {
        if !self.moves || !self.random.chance(250) {
            return Vec::new();
        }
        self.some_move(cell).into_iter().collect()
    }

    fn some_move(&mut self, cell: &Cell) -> Option<Action> {
        let alive = |job: &&Arc<Job>| !matches!(job.state, JobState::Dead { .. });
        let jobs: Vec<_> = cell.jobs().filter(alive).collect();
        let job = *self.random.one_of(&jobs)?;
        let index = self.random.below(job.spec.tasks.max(1).into());
        let instance = job.instance(TaskIndex(u32::try_from(index).ok()?))?;
        let fits = self.random.chance(800);
        let machines = cell.machines();
        let machines = machines.filter(|to| !fits || cell.may_move_to(instance, to).is_ok());
        let names: Vec<MachineName> = machines.map(|machine| machine.name.clone()).collect();
        let to = self.random.one_of(&names)?.clone();
        let why = match pending(cell) {
            Some(task) if self.random.chance(500) => MoveReason::Fits { task },
            _ => MoveReason::Empties,
        };
        // Users without permission are rejected.
        let by = if self.random.chance(900) { 0 } else { self.random.index(self.users) };
        Some(Action::Request(by, MoveTask { instance, to, why, sequencer: None }.into()))
    }
}

/// The oldest pending task.
fn pending(cell: &Cell) -> Option<InstanceId> {
    cell.jobs_with_pending_tasks().find_map(|job| {
        let mut tasks = job.tasks();
        let found = tasks.find(|(_, task)| matches!(task.state, TaskState::Pending { .. }));
        job.instance(found?.0)
    })
}
