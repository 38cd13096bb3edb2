//! Many jobs of many users, and machines that are full: each pass follows the end of a task.

use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use batch::{BatchQueue, QueuePolicy, QueuedJob, Runtime};
use model::{Bytes, CollectionId, MilliCores, Random, Resources, Span, Time, UserName};
use serde::Serialize;

use crate::apply::resident;

/// What a decision may take, and all of the queue.
const BOUND: Duration = Duration::from_micros(100);
const MEMORY_BOUND: u64 = 300 << 20;
/// The number of tasks of most jobs.
const TASKS_OF_A_JOB: u32 = 10;
/// What all machines have, in tasks of the median size.
const ROOM: u64 = 20_000;

/// The results.
#[derive(Debug, Serialize)]
pub(super) struct Figures {
    tasks: u32,
    users: u32,
    jobs: u32,
    state_bytes: u64,
    /// The first pass fills the machines.
    first_pass_enabled: u64,
    first_pass_ms: f64,
    passes: u32,
    enabled: u64,
    median_us: f64,
    p99_us: f64,
    max_us: f64,
    /// Whether the median and the memory are within their bounds.
    held: bool,
}

/// Fills a queue, and measures its passes.
pub(super) fn measure(tasks: u32, users: u32, passes: u32, seed: u64) -> anyhow::Result<Figures> {
    let mut random = Random::new(seed);
    let capacity = request(4).times(ROOM);
    let names: Vec<UserName> = (0..users)
        .map(|number| UserName::new(&format!("user-{number}")))
        .collect::<Result<_, _>>()?;
    let before = resident()?;
    let mut queue = BatchQueue::new(QueuePolicy::default(), capacity);
    let (mut left, mut jobs) = (tasks, 0);
    while left > 0 {
        jobs += 1;
        let of_this = TASKS_OF_A_JOB.min(left);
        left -= of_this;
        let user = usize::try_from(random.below(users.into()))?;
        let job = QueuedJob {
            id: CollectionId(jobs.into()),
            user: names.get(user).context("a user")?.clone(),
            priority: 110,
            since: Time(jobs.into()),
            tasks: of_this,
            request: request(1 + random.below(8)),
            gang: random.below(10) == 0,
            at_once: None,
            runtime: Runtime::Bounded(Span::from_secs(60 + random.below(3_600))),
        };
        queue.submit(Time::ZERO, job)?;
    }
    let state = resident()?.saturating_sub(before);
    let mut now = Time(1_000_000_000);
    let begun = Instant::now();
    let first = queue.pass(now, capacity).enabled;
    let first_pass = begun.elapsed();
    let sum =
        |enabled: &[batch::Enabled]| enabled.iter().map(|one| u64::from(one.tasks)).sum::<u64>();
    let mut running: Vec<CollectionId> = Vec::new();
    running.extend(first.iter().flat_map(|one| vec![one.job; one.tasks as usize]));
    let first_pass_enabled = sum(&first);
    // What the machines have left is not known to this benchmark but by what each user uses.
    let used = names.iter().fold(Resources::default(), |all, name| all.plus(queue.used(name)));
    let mut room = capacity.minus(used);
    let (mut times, mut enabled) = (Vec::with_capacity(passes as usize), 0);
    for _ in 0..passes {
        ensure!(!running.is_empty(), "no task runs: nothing fits");
        now = now + Span::from_millis(10);
        let ended = usize::try_from(random.below(running.len() as u64))?;
        let job = running.swap_remove(ended);
        let freed = queue.request(job).unwrap_or_default();
        let begun = Instant::now();
        queue.ended(now, job, 1);
        room = room.plus(freed);
        let pass = queue.pass(now, room);
        times.push(begun.elapsed());
        for one in &pass.enabled {
            let request = queue.request(one.job).unwrap_or_default();
            room = room.minus(request.times(one.tasks.into()));
            running.extend(vec![one.job; one.tasks as usize]);
        }
        enabled += sum(&pass.enabled);
    }
    times.sort_unstable();
    let at = |percent| micros(crate::nearest_rank(&times, percent));
    let (median_us, p99_us, max_us) = (at(50), at(99), at(100));
    Ok(Figures {
        tasks,
        users,
        jobs,
        state_bytes: state,
        first_pass_enabled,
        first_pass_ms: micros(first_pass) / 1e3,
        passes,
        enabled,
        median_us,
        p99_us,
        max_us,
        held: median_us <= micros(BOUND) && state <= MEMORY_BOUND,
    })
}

/// A request of so many quarters of a core, each with half a GiB.
fn request(quarters: u64) -> Resources {
    Resources {
        cpu: MilliCores(250 * quarters),
        ram: Bytes((512 << 20) * quarters),
        ..Resources::default()
    }
}

fn micros(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e7).round() / 10.0
}

/// The results as text.
pub(super) fn show(figures: &Figures) -> String {
    let not_held = if figures.held { "" } else { ": NOT HELD" };
    format!(
        "decisions: {} tasks of {} users in {} (bound {}); {} enabled at first in {:.1} ms; then {} passes, median {} \
         us, p99 {} us, largest {} us (bound {} us{not_held})\n",
        figures.tasks,
        figures.users,
        Bytes(figures.state_bytes),
        Bytes(MEMORY_BOUND),
        figures.first_pass_enabled,
        figures.first_pass_ms,
        figures.passes,
        figures.median_us,
        figures.p99_us,
        figures.max_us,
        BOUND.as_micros(),
    )
}
