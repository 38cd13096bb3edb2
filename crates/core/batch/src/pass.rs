//! One pass: turns of users, the reservation, and what may start before it.

use std::collections::BTreeSet;
use std::ops::Bound;

use model::{CollectionId, Enabled, PoorestUser, Resources, Span, Time, UserName};

use crate::queue::{BatchQueue, UserTurn};
use crate::waiting::{MayStart, Needs};

/// The least time for which a task that runs longer than expected is expected to go on.
const OVERDUE: Span = Span::from_secs(1);

/// What a pass has decided.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TurnPass {
    /// What is enabled, in the order of the turns.
    pub enabled: Vec<Enabled>,
    /// What is waited for.
    pub reserved: Option<StartReservation>,
}

/// A job that does not fit now has its start reserved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StartReservation {
    /// The job.
    pub job: CollectionId,
    /// When enough tasks have ended, if each runs as long as expected.
    pub at: Time,
    /// What is left beside it at that moment.
    pub spare: Resources,
}

impl BatchQueue {
    /// Enables what has its turn and fits into the room. The room is what tasks of the queue could use now; those that
    /// run are not in it.
    pub fn pass(&mut self, now: Time, room: Resources) -> TurnPass {
        self.pass_up_to(now, room, u32::MAX)
    }

    /// The same for about as many tasks at most: a gang is enabled whole.
    pub fn pass_up_to(&mut self, now: Time, room: Resources, most: u32) -> TurnPass {
        if self.policy.half_life.is_some() {
            self.refresh(now);
        }
        let (left, hopeless) = (most, BTreeSet::new());
        let mut pass = Sweep { now, room, left, hopeless, result: TurnPass::default() };
        self.keep_reservation(&mut pass);
        let mut from: Bound<UserTurn> = Bound::Unbounded;
        // Shares only rise in a pass and the room only shrinks: a user that could start nothing cannot start anything later.
        while pass.left > 0
            && (!pass.is_decided(self) || self.waiting.any(&pass.may_start()))
            && let Some(turn) = self.turns.range((from.clone(), Bound::Unbounded)).next().cloned()
        {
            if self.one_of(&turn.2, &mut pass) {
                from = Bound::Included(turn);
            } else {
                from = Bound::Excluded(turn);
            }
        }
        pass.result
    }

    /// A job that has a reservation starts before all others, or keeps it.
    fn keep_reservation(&mut self, pass: &mut Sweep) {
        let Some(id) = self.reserved else { return };
        let Some(held) = self.jobs.get(&id) else { return self.reserved = None };
        let needs = held.job.needs();
        if pass.fits(&needs) {
            self.reserved = None;
            pass.start(self, id, &needs);
        } else {
            pass.result.reserved = self.reservation(id, &needs, pass);
            if pass.result.reserved.is_none() {
                self.reserved = None;
            }
        }
    }

    /// Enables the next tasks of a user that may start. Returns whether there were any. The first that do not fit get the
    /// reservation.
    fn one_of(&mut self, name: &UserName, pass: &mut Sweep) -> bool {
        let Some(user) = self.users.get(name) else { return false };
        let found = loop {
            let may = pass.may_start();
            let first = user.index.first(&may);
            if pass.is_decided(self) {
                break first;
            }
            match user.index.first_unfit(&may, &pass.hopeless) {
                Some((place, needs)) if first.is_none_or(|first| place < first) => {
                    pass.result.reserved = self.reservation(place.2, &needs.resources(), pass);
                    if pass.result.reserved.is_none() {
                        pass.hopeless.insert(needs);
                    }
                }
                _ => break first,
            }
        };
        if self.reserved.is_none() {
            self.reserved = pass.result.reserved.map(|reserved| reserved.job);
        }
        let Some((_, _, id)) = found else { return false };
        let Some(held) = self.jobs.get(&id) else { return false };
        let needs = held.job.needs();
        pass.start(self, id, &needs);
        true
    }

    /// When tasks can start that do not fit now; `None` if not even when all others have ended.
    fn reservation(
        &self,
        job: CollectionId,
        needs: &Resources,
        pass: &Sweep,
    ) -> Option<StartReservation> {
        let (now, room) = (pass.now, pass.room);
        let frees =
            |end: Time, (tasks, request): (u32, Resources)| (end, request.times(tasks.into()));
        let of = |running: &crate::queue::RunningTasks| (running.tasks, running.request);
        // What is overdue goes on for as long as it is overdue.
        let overdue = self.running.range(..=(now, u64::MAX));
        let mut late: Vec<(Time, Resources)> = overdue
            .map(|((end, _), running)| frees(now + now.since(*end).max(OVERDUE), of(running)))
            .collect();
        late.sort_unstable_by_key(|(end, _)| *end);
        let mut late = late.into_iter().peekable();
        let ahead = self.running.range((Bound::Excluded((now, u64::MAX)), Bound::Unbounded));
        let mut ahead = ahead.map(|((end, _), running)| frees(*end, of(running))).peekable();
        let mut free = room;
        let mut found: Option<Time> = None;
        loop {
            let is_late = match (late.peek(), ahead.peek()) {
                (Some(late), Some(ahead)) => late.0 <= ahead.0,
                (Some(_), None) => true,
                (None, _) => false,
            };
            let next = if is_late { late.next() } else { ahead.next() };
            match (found, next) {
                // All that ends at the same moment counts.
                (Some(at), Some((end, freed))) if end == at => free = free.plus(freed),
                (Some(at), _) => {
                    return Some(StartReservation { job, at, spare: free.minus(*needs) });
                }
                (None, None) => return None,
                (None, Some((end, freed))) => {
                    free = free.plus(freed);
                    if needs.first_above(&free).is_none() {
                        found = Some(end);
                    }
                }
            }
        }
    }
}

/// A pass under way.
struct Sweep {
    now: Time,
    room: Resources,
    /// How many tasks may be enabled yet.
    left: u32,
    /// What would not even fit if everything else had ended.
    hopeless: BTreeSet<Needs>,
    result: TurnPass,
}

impl Sweep {
    fn fits(&self, needs: &Resources) -> bool {
        needs.first_above(&self.room).is_none()
    }

    /// Whether nothing gets a reservation any more in this pass.
    fn is_decided(&self, queue: &BatchQueue) -> bool {
        self.result.reserved.is_some() || queue.policy.poorest == PoorestUser::Skipped
    }

    fn may_start(&self) -> MayStart {
        let reserved = self.result.reserved.as_ref();
        let reserved = reserved.map(|reserved| (reserved.at.since(self.now), reserved.spare));
        MayStart { room: self.room, reserved }
    }

    fn start(&mut self, queue: &mut BatchQueue, id: CollectionId, needs: &Resources) {
        let assumed = queue.policy.assumed_runtime;
        let runtime = queue.jobs.get(&id).map_or(Span::ZERO, |held| held.job.runtime.or(assumed));
        let tasks = queue.enable(self.now, id);
        self.left = self.left.saturating_sub(tasks.max(1));
        self.room = self.room.minus(*needs);
        if let Some(reserved) = &mut self.result.reserved
            && self.now + runtime > reserved.at
        {
            reserved.spare = reserved.spare.minus(*needs);
        }
        match self.result.enabled.last_mut() {
            Some(last) if last.job == id => last.tasks += tasks,
            _ => self.result.enabled.push(Enabled { job: id, tasks }),
        }
    }
}
