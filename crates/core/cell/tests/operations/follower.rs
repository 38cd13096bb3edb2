//! Whoever follows the events from the start knows where every task is, and sees no life begin,
//! be placed or end twice.

use std::collections::BTreeMap;

use cell::lifecycle::Transition;
use cell::{Cell, Event, EventKind, JobState, Subject, TaskState};
use model::{CollectionId, Generation, InstanceId, MachineId, TaskId};

/// Where a task's present life is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Life {
    Queued,
    Pending,
    Placed { on: MachineId, started: bool },
    Dead(Transition),
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
                Subject::Machine(_) | Subject::Cell => {}
            }
        }
    }

    fn job(&mut self, id: CollectionId, kind: &EventKind) {
        match kind {
            EventKind::Submit { .. } => {
                assert_eq!(self.dead_jobs.insert(id, false), None, "job {id} is submitted once");
            }
            EventKind::Finish | EventKind::Fail { .. } | EventKind::Kill { .. } => {
                assert_eq!(self.dead_jobs.insert(id, true), Some(false), "job {id} dies once");
            }
            // As who reads a dead job's logs.
            EventKind::CapabilityUsed { .. } => assert!(self.dead_jobs.contains_key(&id), "{id}"),
            _ => assert_eq!(self.dead_jobs.get(&id), Some(&false), "job {id} is alive"),
        }
    }

    fn task(&mut self, id: InstanceId, kind: &EventKind) {
        let known = self.tasks.get(&id.task()).copied();
        // A task turns suspect by a crash, when its next life has begun already.
        if !matches!(kind, EventKind::Submit { .. } | EventKind::Suspect) {
            assert_eq!(known.map(|(generation, _)| generation), Some(id.generation), "{id}");
        }
        let incarnation = match (kind, known.map(|(_, incarnation)| incarnation)) {
            (EventKind::Submit { .. }, None) if id.generation == Generation(1) => Life::Pending,
            (EventKind::Submit { .. }, Some(Life::Dead(how))) => {
                assert!(how != Transition::Finish && how != Transition::Kill, "{id} after {how}");
                assert_eq!(known.map(|(last, _)| last.next()), Some(id.generation), "{id}");
                Life::Pending
            }
            (EventKind::Queue, Some(Life::Pending)) => Life::Queued,
            (EventKind::Enable, Some(Life::Queued)) => Life::Pending,
            (EventKind::Schedule { machine, .. }, Some(Life::Pending)) => {
                Life::Placed { on: *machine, started: false }
            }
            (EventKind::Start { machine }, Some(Life::Placed { on, started: false })) => {
                assert_eq!(*machine, on, "{id}");
                Life::Placed { on, started: true }
            }
            (EventKind::Health { .. }, Some(incarnation @ Life::Placed { started: true, .. }))
            | (
                EventKind::Stop { .. } | EventKind::UpdateRunning,
                Some(incarnation @ Life::Placed { .. }),
            )
            | (EventKind::UpdatePending, Some(incarnation @ (Life::Pending | Life::Queued)))
            | (EventKind::Suspect, Some(incarnation)) => incarnation,
            (EventKind::Kill { .. }, Some(Life::Queued | Life::Pending)) => {
                Life::Dead(Transition::Kill)
            }
            (
                EventKind::Evict { .. }
                | EventKind::Fail { .. }
                | EventKind::Finish
                | EventKind::Kill { .. }
                | EventKind::Lost { .. },
                Some(Life::Placed { .. }),
            ) => Life::Dead(kind.transition().expect("a step")),
            (kind, incarnation) => panic!("{kind:?} of {id}, which was {incarnation:?}"),
        };
        let generation = known.map_or(id.generation, |(known, _)| known.max(id.generation));
        self.tasks.insert(id.task(), (generation, incarnation));
    }

    pub(crate) fn agrees_with(&self, cell: &Cell) {
        for job in cell.jobs() {
            let dead = matches!(job.state, JobState::Dead { .. });
            assert_eq!(self.dead_jobs.get(&job.id), Some(&dead), "job {}", job.id);
            for (index, task) in job.tasks() {
                let incarnation = match &task.state {
                    TaskState::Queued { .. } => Life::Queued,
                    TaskState::Pending { .. } => Life::Pending,
                    TaskState::Running(placement) => Life::Placed {
                        on: placement.machine,
                        started: placement.phase != cell::Phase::Starting,
                    },
                    TaskState::Dead { death, .. } => Life::Dead(death.transition()),
                };
                let id = TaskId { collection: job.id, index };
                assert_eq!(self.tasks.get(&id), Some(&(task.generation, incarnation)), "{id}");
            }
        }
    }
}
