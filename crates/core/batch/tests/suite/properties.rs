//! What holds of every queue: nobody starves, nobody envies, and room that fits somebody is used.

use batch::{BatchQueue, DominantShare, QueuePolicy, QueuedJob, Runtime, ShareWeights};
use model::{CollectionId, Resources, Span};
use proptest::prelude::*;

use crate::made::{amounts, at, job, queue_of, skipping, user};

const CAPACITY: (u64, u64) = (1_000, 1_000);

fn capacity() -> Resources {
    amounts(CAPACITY.0, CAPACITY.1)
}

fn named(number: usize) -> String {
    format!("user-{number}")
}

proptest! {
    /// Users who want all they can get, each with tasks of one size.
    #[test]
    fn shares_are_fair(requests in prop::collection::vec((1_u64..60, 1_u64..60), 2..6)) {
        let jobs = requests.iter().zip(0_usize..).map(|((cpu, ram), number)| {
            job(number as u64 + 1, &named(number), 2_000, amounts(*cpu, *ram))
        });
        let mut queue = queue_of(skipping(capacity()), jobs.collect());
        queue.pass(at(10), capacity());
        let of = |number: usize| {
            let name = user(&named(number));
            let one = DominantShare::of(
                &amounts(requests[number].0, requests[number].1), &capacity(), &ShareWeights::default(),
            );
            (queue.used(&name), queue.share(at(10), &name).0, one.0)
        };
        let all = (0..requests.len()).map(of).fold(Resources::default(), |sum, (used, ..)| sum.plus(used));
        prop_assert!(all.first_above(&capacity()).is_none(), "more than there is: {}", all);
        let free = capacity().minus(all);
        for (number, request) in requests.iter().enumerate() {
            let (used, share, one) = of(number);
            // Sharing incentive: as good as an equal part of everything, but for one task of each.
            let slack: u64 = (0..requests.len()).map(|other| of(other).2).max().unwrap_or_default() + one;
            prop_assert!(
                share + slack >= 1_000_000_000 / requests.len() as u64, "user {number} has {share}, {used}"
            );
            // Pareto: no further task fits.
            let fits = amounts(request.0, request.1).first_above(&free).is_none();
            prop_assert!(!fits, "another task of user {number} fits into {free}");
        }
        for (first, second) in (0..requests.len()).flat_map(|a| (0..requests.len()).map(move |b| (a, b))) {
            // Envy-freeness: nobody could run more tasks, but for one, with what another one has.
            let request = requests[first];
            let tasks = |used: Resources| (used.cpu.0 / request.0).min(used.ram.0 / request.1);
            let (own, others) = (tasks(of(first).0), tasks(of(second).0));
            let one_more = of(second).2.div_ceil(of(first).2.max(1)) + 1;
            prop_assert!(own + one_more >= others, "user {first} has {own}, and {others} with what {second} has");
        }
    }

    /// Random days: what runs never exceeds the room, the reserved start is never later than first told if nothing runs
    /// longer than expected, and everything starts in the end.
    #[test]
    fn a_reserved_start_is_kept(
        jobs in prop::collection::vec((0_u64..200, 1_u32..5, 1_u64..9, 1_u64..60, any::<bool>(), 0_usize..3), 1..40)
    ) {
        let room = 10;
        let mut queue = BatchQueue::new(QueuePolicy::default(), amounts(room, 0));
        let mut coming: Vec<QueuedJob> = jobs.iter().zip(1_u64..).map(
            |((since, tasks, cpu, seconds, gang, owner), number)| {
                let mut one = job(number, &named(*owner), *tasks, amounts(*cpu, 0));
                one.since = at(*since);
                one.gang = *gang && u64::from(*tasks) * cpu <= room;
                one.runtime = Runtime::Bounded(Span::from_secs(*seconds));
                one
            },
        ).collect();
        coming.sort_by_key(|job| job.since);
        let known = coming.clone();
        let mut coming = coming.into_iter().peekable();
        let mut running: Vec<(model::Time, CollectionId, u32, u64)> = Vec::new();
        let mut promised: Option<(CollectionId, model::Time)> = None;
        let mut started = 0;
        for second in 0..20_000 {
            let now = at(second);
            running.retain(|(end, id, tasks, _)| {
                let stays = *end > now;
                if !stays { queue.ended(now, *id, *tasks); }
                stays
            });
            while let Some(job) = coming.next_if(|job| job.since <= now) {
                queue.submit(now, job).expect("it fits");
            }
            let used: u64 = running.iter().map(|(_, _, _, cpu)| cpu).sum();
            let pass = queue.pass(now, amounts(room - used, 0));
            for enabled in &pass.enabled {
                let job = known.iter().find(|job| job.id == enabled.job).expect("known");
                if job.gang { prop_assert_eq!(enabled.tasks, job.tasks, "half a gang"); }
                let cpu = job.request.cpu.0 * u64::from(enabled.tasks);
                running.push((now + job.runtime.or(Span::ZERO), job.id, enabled.tasks, cpu));
                started += enabled.tasks;
            }
            let used: u64 = running.iter().map(|(_, _, _, cpu)| cpu).sum();
            prop_assert!(used <= room, "{used} used");
            if let (Some((job, by)), Some(reserved)) = (promised, pass.reserved)
                && reserved.job == job
                // The next task of an array has a reservation of its own.
                && pass.enabled.iter().all(|enabled| enabled.job != job)
            {
                prop_assert!(reserved.at <= by, "{job:?} was promised {by:?} and has {:?}", reserved.at);
            }
            promised = pass.reserved.map(|reserved| (reserved.job, reserved.at));
            if coming.peek().is_none() && queue.waiting() == 0 { break; }
        }
        prop_assert_eq!(started, known.iter().map(|job| job.tasks).sum::<u32>(), "somebody never started");
    }
}
