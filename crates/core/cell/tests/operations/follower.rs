//! A follower of the events from the start knows where every task is, and sees no incarnation
//! begin, be placed or end twice.

use std::collections::BTreeMap;

use cell::lifecycle::Transition;
use cell::{Cell, Event, EventKind, JobState, Subject, TaskState};
use model::{CollectionId, Generation, InstanceId, MachineId, TaskId};

/// The state of a task's current incarnation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Queued,
    Pending,
    Placed { on: MachineId, started: bool },
    Dead(Transition),
}

/// What is known from the events alone.
#[derive(Debug, Default)]
pub(crate) struct Follower {
    tasks: BTreeMap<TaskId, (Generation, State)>,
    dead_jobs: BTreeMap<CollectionId, bool>,
}

impl Follower {
    /// Starts at a cell without jobs.
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
                // A user may restart a dead job.
                let before = self.dead_jobs.insert(id, false);
                assert_ne!(before, Some(false), "job {id} is submitted while it is alive");
            }
            EventKind::Finish | EventKind::Fail { .. } | EventKind::Kill { .. } => {
                assert_eq!(self.dead_jobs.insert(id, true), Some(false), "job {id} dies once");
            }
            // For example a user who reads a dead job's logs.
            EventKind::CapabilityUsed { .. } => assert!(self.dead_jobs.contains_key(&id), "{id}"),
            _ => assert_eq!(self.dead_jobs.get(&id), Some(&false), "job {id} is alive"),
        }
    }

    fn task(&mut self, id: InstanceId, kind: &EventKind) {
        // What became of the data of an incarnation that has ended, long ago or just now.
        if let EventKind::Saved { .. }
        | EventKind::SaverGivenUp { .. }
        | EventKind::ExecStarted { .. }
        | EventKind::ExecEnded { .. } = kind
        {
            return;
        }
        let known = self.tasks.get(&id.task()).copied();
        // A crash makes a task suspect when its next incarnation has already begun.
        let of_any = [EventKind::Suspect.name(), "UPDATE_FAIL"];
        if !matches!(kind, EventKind::Submit { .. }) && !of_any.contains(&kind.name()) {
            assert_eq!(known.map(|(generation, _)| generation), Some(id.generation), "{id}");
        }
        let incarnation = match (kind, known.map(|(_, incarnation)| incarnation)) {
            (EventKind::Submit { .. }, None) if id.generation == Generation(1) => State::Pending,
            (EventKind::Submit { cause }, Some(State::Dead(how))) => {
                // A task that finished starts again if its job restarts it always, or if a user
                // restarts it. An update starts a killed task again.
                let finished = how == Transition::Finish;
                let again = match cause {
                    cell::PendingCause::Finished => finished,
                    cell::PendingCause::Submitted => true,
                    _ => !finished,
                };
                assert!(again, "{id} after {how}: {cause}");
                assert_eq!(known.map(|(last, _)| last.next()), Some(id.generation), "{id}");
                State::Pending
            }
            (EventKind::Queue, Some(State::Pending)) => State::Queued,
            (EventKind::Enable, Some(State::Queued)) => State::Pending,
            (EventKind::Schedule { machine, .. }, Some(State::Pending)) => {
                State::Placed { on: *machine, started: false }
            }
            (EventKind::Start { machine, .. }, Some(State::Placed { on, started: false })) => {
                assert_eq!(*machine, on, "{id}");
                State::Placed { on, started: true }
            }
            (
                EventKind::Health { .. } | EventKind::Unready { .. },
                Some(incarnation @ State::Placed { started: true, .. }),
            )
            | (
                EventKind::Stop { .. } | EventKind::UpdateRunning,
                Some(incarnation @ State::Placed { .. }),
            )
            | (EventKind::UpdatePending, Some(incarnation @ (State::Pending | State::Queued)))
            | (
                EventKind::Suspect
                | EventKind::UpdateSkipped { .. }
                | EventKind::UpdateFailed { .. },
                Some(incarnation),
            ) => incarnation,
            // What it left is a version of a package.
            (EventKind::PackageSet { .. }, Some(incarnation @ State::Dead(_))) => incarnation,
            (EventKind::Kill { .. }, Some(State::Queued | State::Pending)) => {
                State::Dead(Transition::Kill)
            }
            (
                EventKind::Evict { .. }
                | EventKind::Fail { .. }
                | EventKind::Finish
                | EventKind::Kill { .. }
                | EventKind::Lost { .. },
                Some(State::Placed { .. }),
            ) => State::Dead(kind.transition().expect("a step")),
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
                    TaskState::Queued { .. } => State::Queued,
                    TaskState::Pending { .. } => State::Pending,
                    TaskState::Running(placement) => State::Placed {
                        on: placement.machine,
                        started: placement.phase != cell::Phase::Starting,
                    },
                    TaskState::Dead { death, .. } => State::Dead(death.transition()),
                };
                let id = TaskId { collection: job.id, index };
                assert_eq!(self.tasks.get(&id), Some(&(task.generation, incarnation)), "{id}");
            }
        }
    }
}
