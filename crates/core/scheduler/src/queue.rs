//! The queue of pending tasks (paper, section 3.2): from high to low priority, round-robin over
//! users within one priority, so that no large job holds up the rest. It is updated task by task
//! and never rebuilt for a pass.
//!
//! Pending tasks of one job and one class form a group. A group whose class fits nowhere is blocked
//! until a machine gains room.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use cell::{Cell, Job, TaskState};
use model::{CollectionId, InstanceId, Priority, TaskId, TaskIndex, Time, UserName};
use placement::{ClassId, Engine};

use crate::in_alloc::Inside;

/// A group's index in the table.
pub(crate) type GroupId = usize;

/// Pending tasks of one job and one class, by index.
#[derive(Clone, Debug)]
pub(crate) struct Group {
    pub(crate) job: CollectionId,
    pub(crate) class: ClassId,
    priority: Priority,
    owner: UserName,
    /// Whether its tasks are placed together with all others of their job.
    pub(crate) gang: bool,
    tasks: VecDeque<TaskIndex>,
    blocked: bool,
}

impl Group {
    /// Its next task.
    pub(crate) fn first(&self) -> Option<TaskIndex> {
        self.tasks.front().copied()
    }

    /// Its tasks, by index.
    pub(crate) fn tasks(&self) -> impl Iterator<Item = TaskIndex> {
        self.tasks.iter().copied()
    }
}

/// The groups of a user that wait for their turn, oldest job first.
pub(crate) type Turns = BTreeSet<(CollectionId, GroupId)>;

/// The queue.
#[derive(Clone, Debug, Default)]
pub(crate) struct Queue {
    groups: Vec<Option<Group>>,
    unused: Vec<GroupId>,
    of_jobs: BTreeMap<CollectionId, Vec<GroupId>>,
    pub(crate) ready: BTreeMap<Reverse<Priority>, BTreeMap<UserName, Turns>>,
    /// Tasks to be retried later. Entries may be stale.
    later: BTreeSet<(Time, InstanceId)>,
    /// Groups whose class fits nowhere, by class, and the number of their tasks.
    blocked: BTreeMap<ClassId, BTreeSet<GroupId>>,
    blocked_tasks: usize,
    /// The blocked groups of gangs, which wait for any room at all or for the rest of their tasks.
    waiting_gangs: BTreeSet<GroupId>,
    pub(crate) inside: Inside,
}

impl Queue {
    /// A queue with every pending task of a cell that is not planned.
    pub(crate) fn of(cell: &Cell, engine: &mut Engine) -> Self {
        let mut queue = Self::default();
        for job in cell.jobs_with_pending_tasks() {
            for (index, task) in job.tasks() {
                let id = TaskId { collection: job.id, index };
                if matches!(task.state, TaskState::Pending { .. })
                    && !engine.is_planned(id.generation(task.generation))
                {
                    queue.enter(cell, job, index, cell.time(), engine);
                }
            }
        }
        queue
    }

    /// Number of tasks that fit nowhere.
    pub(crate) fn blocked_tasks(&self) -> usize {
        self.blocked_tasks + self.inside.blocked_tasks()
    }

    pub(crate) fn group(&self, id: GroupId) -> Option<&Group> {
        self.groups.get(id)?.as_ref()
    }

    /// When the next retry is due.
    pub(crate) fn next(&self) -> Option<Time> {
        self.later.first().map(|(at, _)| *at)
    }

    /// The tasks whose retry has become due.
    pub(crate) fn due(&mut self, now: Time) -> Vec<InstanceId> {
        let mut due = Vec::new();
        while let Some((at, instance)) = self.later.first().copied()
            && at <= now
        {
            self.later.pop_first();
            due.push(instance);
        }
        due
    }

    /// Adds a pending task.
    pub(crate) fn enter(
        &mut self,
        cell: &Cell,
        job: &Job,
        index: TaskIndex,
        now: Time,
        engine: &mut Engine,
    ) {
        let Some(TaskState::Pending { not_before, .. }) = job.task(index).map(|task| &task.state)
        else {
            return;
        };
        if *not_before > now {
            self.later.extend(job.instance(index).map(|instance| (*not_before, instance)));
            return;
        }
        if let Some(set) = job.alloc_set {
            self.inside.enter(job, set, index);
            return;
        }
        let groups = self.of_jobs.entry(job.id).or_default();
        let suits = |id: &&GroupId| {
            let group = self.groups.get(**id).and_then(Option::as_ref);
            group.is_some_and(|group| engine.is_of_class(group.class, cell, job, index))
        };
        let id = match groups.iter().rev().find(suits) {
            Some(id) => *id,
            None => {
                let class = engine.join(cell, job, index);
                let group = Group {
                    job: job.id,
                    class,
                    priority: job.described(index).priority,
                    owner: job.owner.clone(),
                    gang: job.is_gang(),
                    tasks: VecDeque::new(),
                    blocked: false,
                };
                let id = match self.unused.pop() {
                    Some(id) => {
                        self.groups[id] = Some(group);
                        id
                    }
                    None => {
                        self.groups.push(Some(group));
                        self.groups.len() - 1
                    }
                };
                groups.push(id);
                id
            }
        };
        let Some(group) = self.groups.get_mut(id).and_then(Option::as_mut) else { return };
        let first = group.tasks.is_empty();
        match group.tasks.back() {
            Some(last) if *last >= index => match group.tasks.binary_search(&index) {
                Ok(_) => return,
                Err(at) => group.tasks.insert(at, index),
            },
            _ => group.tasks.push_back(index),
        }
        if group.blocked {
            self.blocked_tasks += 1;
        } else if first {
            self.enqueue(id, engine);
        }
        if job.is_gang() {
            // It may have been the last one that the gang waited for.
            self.gang_changed(job.id, engine);
        }
    }

    /// Something happened to a task of a gang: its others may fit now.
    pub(crate) fn gang_changed(&mut self, job: CollectionId, engine: &Engine) {
        for id in self.groups_of(job) {
            self.gang_again(id, engine);
        }
    }

    /// The groups of a job.
    pub(crate) fn groups_of(&self, job: CollectionId) -> Vec<GroupId> {
        self.of_jobs.get(&job).cloned().unwrap_or_default()
    }

    /// A gang that cannot be placed now waits until there is room anywhere.
    pub(crate) fn block_gang(&mut self, job: CollectionId) {
        for id in self.groups_of(job) {
            let Some(group) = self.groups.get_mut(id).and_then(Option::as_mut) else { continue };
            if !group.blocked {
                group.blocked = true;
                self.blocked_tasks += group.tasks.len();
            } else if let Some(blocked) = self.blocked.get_mut(&group.class) {
                blocked.remove(&id);
                if blocked.is_empty() {
                    self.blocked.remove(&group.class);
                }
            }
            self.waiting_gangs.insert(id);
        }
    }

    /// There may be room for any gang again.
    pub(crate) fn gangs_again(&mut self, engine: &Engine) {
        for id in self.waiting_gangs.clone() {
            self.gang_again(id, engine);
        }
    }

    /// There may be room for the gang of a group again.
    fn gang_again(&mut self, id: GroupId, engine: &Engine) {
        if self.waiting_gangs.remove(&id)
            && let Some(group) = self.groups.get_mut(id).and_then(Option::as_mut)
        {
            group.blocked = false;
            self.blocked_tasks -= group.tasks.len();
            self.enqueue(id, engine);
        }
    }

    /// Puts a group in line for its turn, or among the blocked ones if its class fits nowhere.
    fn enqueue(&mut self, id: GroupId, engine: &Engine) {
        let Some(group) = self.groups.get_mut(id).and_then(Option::as_mut) else { return };
        if engine.fits_nowhere(group.class) {
            group.blocked = true;
            self.blocked.entry(group.class).or_default().insert(id);
            self.blocked_tasks += group.tasks.len();
            return;
        }
        let users = self.ready.entry(Reverse(group.priority)).or_default();
        match users.get_mut(&group.owner) {
            Some(turns) => drop(turns.insert((group.job, id))),
            None => drop(users.insert(group.owner.clone(), Turns::from([(group.job, id)]))),
        }
    }

    /// Removes a task that is planned or no longer pending.
    pub(crate) fn leave(&mut self, task: TaskId, engine: &mut Engine) {
        self.inside.leave(task);
        let Some(groups) = self.of_jobs.get(&task.collection) else { return };
        for id in groups.clone() {
            let Some(group) = self.groups.get_mut(id).and_then(Option::as_mut) else { continue };
            let Ok(at) = group.tasks.binary_search(&task.index) else { continue };
            group.tasks.remove(at);
            self.blocked_tasks -= usize::from(group.blocked);
            if group.tasks.is_empty() {
                self.dissolve(id, engine);
            }
        }
    }

    /// Takes the next task of a group whose turn it is; an emptied group is removed.
    pub(crate) fn take(&mut self, id: GroupId, engine: &mut Engine) -> Option<TaskIndex> {
        let group = self.groups.get_mut(id).and_then(Option::as_mut)?;
        let index = group.tasks.pop_front()?;
        if group.tasks.is_empty() {
            self.dissolve(id, engine);
        }
        Some(index)
    }

    fn dissolve(&mut self, id: GroupId, engine: &mut Engine) {
        let Some(group) = self.groups.get_mut(id).and_then(Option::take) else { return };
        self.unused.push(id);
        self.waiting_gangs.remove(&id);
        if let Some(groups) = self.of_jobs.get_mut(&group.job) {
            groups.retain(|other| *other != id);
            if groups.is_empty() {
                self.of_jobs.remove(&group.job);
            }
        }
        if let Some(users) = self.ready.get_mut(&Reverse(group.priority)) {
            if let Some(turns) = users.get_mut(&group.owner) {
                turns.remove(&(group.job, id));
                if turns.is_empty() {
                    users.remove(&group.owner);
                }
            }
            if users.is_empty() {
                self.ready.remove(&Reverse(group.priority));
            }
        }
        if group.blocked
            && let Some(blocked) = self.blocked.get_mut(&group.class)
        {
            blocked.remove(&id);
            if blocked.is_empty() {
                self.blocked.remove(&group.class);
            }
        }
        engine.leave(group.class);
    }

    /// The class of a group fits nowhere: all its groups are blocked, this one at once and the
    /// others at their turn.
    pub(crate) fn block(&mut self, id: GroupId) {
        let Some(group) = self.groups.get_mut(id).and_then(Option::as_mut) else { return };
        if !group.blocked {
            group.blocked = true;
            self.blocked_tasks += group.tasks.len();
            self.blocked.entry(group.class).or_default().insert(id);
        }
    }

    /// There may be room for a class again.
    pub(crate) fn unblock(&mut self, class: ClassId, engine: &Engine) {
        for id in self.blocked.remove(&class).into_iter().flatten() {
            if let Some(group) = self.groups.get_mut(id).and_then(Option::as_mut) {
                group.blocked = false;
                self.blocked_tasks -= group.tasks.len();
                self.enqueue(id, engine);
            }
        }
    }
}
