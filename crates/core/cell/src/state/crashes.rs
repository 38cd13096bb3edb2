//! Recent crashes are remembered, so that a task is not placed again at once on a machine where it
//! crashed, and to find the cause: a machine on which many tasks crash, or a task that crashes on
//! many machines (paper, section 4).
//!
//! A crash is an incarnation that ended by FAIL, unless the task exceeded its own memory limit.
//! Avoiding a machine is a preference and not a constraint: a task that fits nowhere else had
//! better run where it crashed than not at all.

use std::collections::BTreeSet;
use std::sync::Arc;

use model::{MachineId, Span, TaskId, Time, UserName};

use super::{Machine, Task};

/// How long a machine is avoided after a task's first crash there; it doubles with each further
/// one.
pub const AVOIDED_AT_FIRST: Span = Span::from_secs(5 * 60);
/// Maximum time for which a machine is avoided after a crash.
pub const AVOIDED_AT_MOST: Span = Span::from_secs(4 * 60 * 60);
/// Maximum number of machines that a task remembers having crashed on.
pub const MACHINES_MAX: usize = 8;
/// A task that crashed on this many machines within [`AVOIDED_AT_MOST`] is suspect: the task is to
/// blame, not the machines.
pub const MACHINES_OF_A_SUSPECT: usize = 3;
/// A machine on which tasks of this many jobs, of [`USERS_OF_A_SUSPECT`] users, crashed within
/// [`MACHINE_WINDOW`] is suspect: the tasks of a single job or user may well crash for reasons of
/// their own.
pub const JOBS_OF_A_SUSPECT: usize = 3;
/// See [`JOBS_OF_A_SUSPECT`].
pub const USERS_OF_A_SUSPECT: usize = 2;
/// How long a machine remembers a task's crash.
pub const MACHINE_WINDOW: Span = Span::from_secs(10 * 60);
/// Maximum number of crashed tasks that a machine remembers.
pub const TASKS_MAX: usize = 16;

/// The crashes of a task on one machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Crash {
    /// The machine.
    pub machine: MachineId,
    /// Number of crashes there.
    pub times: u32,
    /// When the last one happened.
    pub last: Time,
}

/// A task's crash, as its machine remembers it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CrashSeen {
    /// The task.
    pub task: TaskId,
    /// The owner of its job.
    pub user: UserName,
    /// When it last crashed there.
    pub at: Time,
}

impl Crash {
    /// Until when the machine is avoided.
    #[must_use]
    pub fn avoided_until(&self) -> Time {
        let doublings = self.times.saturating_sub(1).min(16);
        self.last + AVOIDED_AT_FIRST.saturating_mul(1 << doublings).min(AVOIDED_AT_MOST)
    }

    fn is_remembered(&self, now: Time) -> bool {
        now.since(self.last) < AVOIDED_AT_MOST
    }
}

impl Task {
    /// Until when it avoids a machine; `None` if it does not.
    #[must_use]
    pub fn avoids(&self, machine: MachineId, now: Time) -> Option<Time> {
        let crash = self.crashes.as_ref()?.iter().find(|crash| crash.machine == machine)?;
        Some(crash.avoided_until()).filter(|until| *until > now)
    }

    /// Whether it crashed on so many machines that the task is to blame.
    #[must_use]
    pub fn is_suspect(&self, now: Time) -> bool {
        let remembered = self.crashes.iter().flat_map(|crashes| crashes.iter());
        remembered.filter(|crash| crash.is_remembered(now)).count() >= MACHINES_OF_A_SUSPECT
    }

    pub(crate) fn crashed_on(&mut self, machine: MachineId, now: Time) {
        let crashes = Arc::make_mut(self.crashes.get_or_insert_default());
        crashes.retain(|crash| crash.is_remembered(now));
        let before = crashes.iter().position(|crash| crash.machine == machine);
        let times = before.map_or(0, |position| crashes.remove(position).times);
        if crashes.len() >= MACHINES_MAX {
            crashes.remove(0);
        }
        crashes.push(Crash { machine, times: times.saturating_add(1), last: now });
    }
}

impl Machine {
    /// Whether tasks of so many jobs and users crashed on it lately that the machine may be to
    /// blame.
    #[must_use]
    pub fn is_suspect(&self, now: Time) -> bool {
        let recent = || self.crashes.iter().filter(|seen| now.since(seen.at) < MACHINE_WINDOW);
        let jobs: BTreeSet<_> = recent().map(|seen| seen.task.collection).collect();
        let users: BTreeSet<_> = recent().map(|seen| &seen.user).collect();
        jobs.len() >= JOBS_OF_A_SUSPECT && users.len() >= USERS_OF_A_SUSPECT
    }

    pub(crate) fn saw_crash(&mut self, task: TaskId, user: UserName, now: Time) {
        self.crashes.retain(|seen| seen.task != task && now.since(seen.at) < MACHINE_WINDOW);
        if self.crashes.len() >= TASKS_MAX {
            self.crashes.remove(0);
        }
        self.crashes.push(CrashSeen { task, user, at: now });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::Version;
    use model::{CollectionId, TaskIndex};

    fn user(name: &str) -> UserName {
        UserName::new(name).expect("a name")
    }

    fn at(minutes: u64) -> Time {
        Time::ZERO + Span::from_secs(minutes * 60)
    }

    #[test]
    fn a_machine_is_avoided_longer_with_each_crash_and_then_tried_again() {
        let mut task = Task::new(at(0), Version(1));
        let (one, other) = (MachineId(1), MachineId(2));
        assert_eq!(task.avoids(one, at(0)), None);
        for (crashed, until) in [(0, 5), (5, 15), (15, 35), (35, 75)] {
            task.crashed_on(one, at(crashed));
            assert_eq!(task.avoids(one, at(crashed)), Some(at(until)));
            assert_eq!(task.avoids(one, at(until)), None);
            assert_eq!(task.avoids(other, at(crashed)), None);
        }
        for _ in 0..9 {
            task.crashed_on(one, at(100));
        }
        assert_eq!(task.avoids(one, at(100)), Some(at(100) + AVOIDED_AT_MOST));
        task.crashed_on(other, at(1_000));
        assert_eq!(task.crashes.as_ref().map(|crashes| crashes.len()), Some(1), "it forgets");
    }

    #[test]
    fn many_machines_make_the_task_suspect_and_many_tasks_the_machine() {
        let mut task = Task::new(at(0), Version(1));
        for machine in 1..=20 {
            assert_eq!(task.is_suspect(at(machine)), machine > 3, "after {}", machine - 1);
            task.crashed_on(MachineId(machine), at(machine));
        }
        assert_eq!(task.crashes.as_ref().map(|crashes| crashes.len()), Some(MACHINES_MAX));
        assert!(!task.is_suspect(at(1_000)));

        let mut machine = Machine::testing();
        let task = |job, index| TaskId { collection: CollectionId(job), index: TaskIndex(index) };
        for minute in 0..4 {
            machine.saw_crash(task(1, 0), user("ana"), at(minute));
            assert!(!machine.is_suspect(at(minute)), "one task that crashes often counts once");
        }
        (1..40).for_each(|index| machine.saw_crash(task(1, index), user("ana"), at(4)));
        assert!(!machine.is_suspect(at(4)), "the tasks of one job count once");
        machine.saw_crash(task(2, 0), user("ana"), at(4));
        machine.saw_crash(task(3, 0), user("ben"), at(4));
        assert!(machine.is_suspect(at(4)) && machine.crashes.len() == TASKS_MAX);
        assert!(!machine.is_suspect(at(14)));
    }

    #[test]
    fn the_jobs_of_one_user_make_no_machine_suspect() {
        let task = |job| TaskId { collection: CollectionId(job), index: TaskIndex(0) };
        let mut machine = Machine::testing();
        (1..9).for_each(|job| machine.saw_crash(task(job), user("ana"), at(0)));
        assert!(!machine.is_suspect(at(0)), "all are of one user");
        machine.saw_crash(task(9), user("ben"), at(1));
        assert!(machine.is_suspect(at(1)));

        let mut machine = Machine::testing();
        machine.saw_crash(task(1), user("ana"), at(0));
        machine.saw_crash(task(2), user("ben"), at(0));
        assert!(!machine.is_suspect(at(0)), "two jobs are too few");
        machine.saw_crash(task(3), user("ben"), at(9));
        assert!(machine.is_suspect(at(9)));
        assert!(!machine.is_suspect(at(10)), "ana's crashes are outside the window");
    }
}
