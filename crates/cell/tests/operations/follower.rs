//! Whoever follows the events from the start knows where every task is, and sees no life begin,
//! be placed or end twice.

use std::collections::BTreeMap;

use cell::{Cell, Event, EventKind, JobState, Subject, TaskState};
use model::{CollectionId, Generation, InstanceId, MachineId, TaskId};

/// Where a task's present life is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Life {
    Pending,
    Placed { on: MachineId, started: bool },
    Dead(cell::Death),
}

/// What is known from the events alone.
#[derive(Debug, Default)]
pub(crate) struct Follower {
    tasks: BTreeMap<TaskId, (Generation, Life)>,
    dead_jobs: BTreeMap<CollectionId, bool>,
}

impl Follower {
    /// Begins at a cell without jobs.
    pub(crate) fn of(cell: &Cell) -> Self {
        assert_eq!(cell.job_count(), 0);
        Self::default()
    }

    pub(crate) fn follow(&mut self, events: &[Event]) {
        for event in events {
            match event.subject {
                Subject::Task(id) => self.task(id, &event.kind),
                Subject::Job(id) => self.job(id, &event.kind),
                Subject::Machine(_) => {}
            }
        }
    }

    fn job(&mut self, id: CollectionId, kind: &EventKind) {
        match kind {
            EventKind::Submit { .. } => {
                assert_eq!(self.dead_jobs.insert(id, false), None, "job {id} is submitted once");
            }
            EventKind::Dead(_) => {
                assert_eq!(self.dead_jobs.insert(id, true), Some(false), "job {id} dies once");
            }
            _ => assert_eq!(self.dead_jobs.get(&id), Some(&false), "job {id} is alive"),
        }
    }

    fn task(&mut self, id: InstanceId, kind: &EventKind) {
        let known = self.tasks.get(&id.task()).copied();
        if !matches!(kind, EventKind::Submit { .. }) {
            assert_eq!(known.map(|(generation, _)| generation), Some(id.generation), "{id}");
        }
        let life = match (kind, known.map(|(_, life)| life)) {
            (EventKind::Submit { .. }, None) if id.generation == Generation(1) => Life::Pending,
            (EventKind::Submit { .. }, Some(Life::Placed { .. })) => {
                assert_eq!(known.map(|(last, _)| last.next()), Some(id.generation), "{id}");
                Life::Pending
            }
            (EventKind::Schedule { machine }, Some(Life::Pending)) => {
                Life::Placed { on: *machine, started: false }
            }
            (EventKind::Start { machine }, Some(Life::Placed { on, started: false })) => {
                assert_eq!(*machine, on, "{id}");
                Life::Placed { on, started: true }
            }
            (EventKind::Health { .. }, Some(life @ Life::Placed { started: true, .. })) => life,
            (
                EventKind::KillRequested { .. },
                Some(life @ (Life::Pending | Life::Placed { .. })),
            ) => life,
            (EventKind::Dead(death), Some(Life::Pending | Life::Placed { .. })) => {
                Life::Dead(*death)
            }
            (kind, life) => panic!("{kind:?} of {id}, which was {life:?}"),
        };
        self.tasks.insert(id.task(), (id.generation, life));
    }

    pub(crate) fn agrees_with(&self, cell: &Cell) {
        for job in cell.jobs() {
            let dead = matches!(job.state, JobState::Dead { .. });
            assert_eq!(self.dead_jobs.get(&job.id), Some(&dead), "job {}", job.id);
            for (index, task) in job.tasks() {
                let life = match &task.state {
                    TaskState::Pending { .. } => Life::Pending,
                    TaskState::Running(placement) => Life::Placed {
                        on: placement.machine,
                        started: placement.phase != cell::Phase::Starting,
                    },
                    TaskState::Dead { death, .. } => Life::Dead(*death),
                };
                let id = TaskId { collection: job.id, index };
                assert_eq!(self.tasks.get(&id), Some(&(task.generation, life)), "{id}");
            }
        }
    }
}
