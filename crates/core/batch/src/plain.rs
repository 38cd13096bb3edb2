//! The pass as it would be without indices: it looks at every job. Both must decide the same.

use std::ops::Bound;

use model::{
    Bytes, CollectionId, MilliCores, PoorestUser, Random, Resources, Span, Time, UserName,
};

use crate::queue::{BatchQueue, UserTurn};
use crate::{Enabled, QueuePolicy, QueuedJob, Runtime, StartReservation};

/// What a plain pass has decided.
struct PlainPass {
    now: Time,
    room: Resources,
    enabled: Vec<Enabled>,
    reserved: Option<StartReservation>,
}

impl PlainPass {
    fn fits(&self, needs: &Resources) -> bool {
        needs.first_above(&self.room).is_none()
    }

    fn start(&mut self, queue: &mut BatchQueue, id: CollectionId) {
        let Some(held) = queue.jobs.get(&id) else { return };
        let (needs, runtime) =
            (held.job.needs(), held.job.runtime.or(queue.policy.assumed_runtime));
        let tasks = queue.enable(self.now, id);
        self.room = self.room.minus(needs);
        if let Some(reserved) = &mut self.reserved
            && self.now + runtime > reserved.at
        {
            reserved.spare = reserved.spare.minus(needs);
        }
        match self.enabled.last_mut() {
            Some(last) if last.job == id => last.tasks += tasks,
            _ => self.enabled.push(Enabled { job: id, tasks }),
        }
    }

    /// When these tasks can start, by looking at all that run.
    fn reservation(
        &self,
        queue: &BatchQueue,
        job: CollectionId,
        needs: Resources,
    ) -> Option<StartReservation> {
        let late = |end: Time| match end > self.now {
            true => end,
            false => self.now + self.now.since(end).max(Span::from_secs(1)),
        };
        let mut ends: Vec<(Time, Resources)> = queue
            .running
            .iter()
            .map(|((end, _), of)| (late(*end), of.request.times(of.tasks.into())))
            .collect();
        ends.sort_by_key(|(end, _)| *end);
        let free_at = |at: Time| {
            let ended = ends.iter().filter(|(end, _)| *end <= at);
            ended.fold(self.room, |free, (_, freed)| free.plus(*freed))
        };
        let mut moments = ends.iter().map(|(end, _)| *end);
        let at = moments.find(|at| needs.first_above(&free_at(*at)).is_none())?;
        Some(StartReservation { job, at, spare: free_at(at).minus(needs) })
    }

    /// Starts the first job of a user that may start.
    fn turn_of(&mut self, queue: &mut BatchQueue, name: &UserName) -> bool {
        let Some(user) = queue.users.get(name) else { return false };
        let mut found = None;
        for place in &user.waiting {
            let Some(held) = queue.jobs.get(&place.2) else { continue };
            if held.is_throttled() || queue.reserved == Some(place.2) {
                continue;
            }
            let needs = held.job.needs();
            let end = self.now + held.job.runtime.or(queue.policy.assumed_runtime);
            let delays = self.reserved.as_ref().is_some_and(|reserved| {
                end > reserved.at && needs.first_above(&reserved.spare).is_some()
            });
            if self.fits(&needs) && !delays {
                found = Some(place.2);
                break;
            }
            if !self.fits(&needs)
                && self.reserved.is_none()
                && queue.policy.poorest == PoorestUser::WaitedFor
            {
                self.reserved = self.reservation(queue, place.2, needs);
            }
        }
        if queue.reserved.is_none() {
            queue.reserved = self.reserved.map(|reserved| reserved.job);
        }
        found.map(|id| self.start(queue, id)).is_some()
    }
}

fn plain(queue: &mut BatchQueue, now: Time, room: Resources) -> PlainPass {
    if queue.policy.half_life.is_some() {
        queue.refresh(now);
    }
    let mut pass = PlainPass { now, room, enabled: Vec::new(), reserved: None };
    if let Some(id) = queue.reserved {
        let needs = queue.jobs.get(&id).map(|held| held.job.needs());
        match needs {
            Some(needs) if pass.fits(&needs) => {
                queue.reserved = None;
                pass.start(queue, id);
            }
            Some(needs) => {
                pass.reserved = pass.reservation(queue, id, needs);
                queue.reserved = pass.reserved.map(|reserved| reserved.job);
            }
            None => queue.reserved = None,
        }
    }
    let mut from: Bound<UserTurn> = Bound::Unbounded;
    while let Some(turn) = queue.turns.range((from.clone(), Bound::Unbounded)).next().cloned() {
        from = match pass.turn_of(queue, &turn.2) {
            true => Bound::Included(turn),
            false => Bound::Excluded(turn),
        };
    }
    pass
}

fn amounts(cpu: u64, ram: u64) -> Resources {
    Resources { cpu: MilliCores(cpu), ram: Bytes(ram), ..Resources::default() }
}

fn made(number: u64, random: &mut Random) -> QueuedJob {
    let gang = random.below(4) == 0;
    let tasks = 1 + u32::try_from(random.below(5)).expect("a small number");
    let span = Span::from_secs(1 + random.below(40));
    QueuedJob {
        id: CollectionId(number),
        user: format!("user-{}", random.below(5)).parse().expect("a name"),
        priority: 100 + u16::try_from(random.below(3)).expect("a small number"),
        since: Time(number),
        tasks,
        request: amounts(1 + random.below(20), 1 + random.below(20)),
        gang,
        at_once: (!gang && random.below(3) == 0).then_some(1),
        runtime: if random.below(3) == 0 { Runtime::Unknown } else { Runtime::Expected(span) },
    }
}

#[test]
fn the_indices_change_no_decision() {
    for seed in 0..300 {
        let mut random = Random::new(seed);
        let capacity = amounts(60, 60);
        let poorest = PoorestUser::ALL[usize::from(random.below(3) == 0)];
        let half_life = (random.below(4) == 0).then_some(Span::from_secs(30));
        let assumed_runtime = Span::from_secs(20);
        let policy = QueuePolicy { poorest, half_life, assumed_runtime };
        let mut queue = BatchQueue::new(policy, capacity);
        let (mut room, mut running) = (capacity, Vec::new());
        for step in 0..60 {
            let now = Time::ZERO + Span::from_secs(step);
            for number in 0..random.below(3) {
                // What is too large is rejected.
                drop(queue.submit(now, made(step * 10 + number + 1, &mut random)));
            }
            for _ in 0..random.below(3) {
                if running.is_empty() {
                    break;
                }
                let place = random.below(running.len() as u64);
                let (id, request): (CollectionId, Resources) =
                    running.swap_remove(usize::try_from(place).expect("a place"));
                room = room.plus(request);
                match random.below(3) {
                    0 => queue.requeued(now, id, 1),
                    _ => queue.ended(now, id, 1),
                }
            }
            let mut other = queue.clone();
            let expected = plain(&mut other, now, room);
            let pass = queue.pass(now, room);
            assert_eq!(pass.enabled, expected.enabled, "seed {seed}, step {step}");
            assert_eq!(pass.reserved, expected.reserved, "seed {seed}, step {step}");
            assert_eq!(queue.reserved, other.reserved, "seed {seed}, step {step}");
            for enabled in pass.enabled {
                let request = queue.request(enabled.job).expect("it runs");
                room = room.minus(request.times(enabled.tasks.into()));
                running.extend(vec![(enabled.job, request); enabled.tasks as usize]);
            }
        }
    }
}
