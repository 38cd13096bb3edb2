//! A log of a batch system, replayed through the queue: how long jobs wait.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Context;
use batch::{BatchQueue, PoorestUser, QueuePolicy, QueuedJob, Runtime};
use model::{CollectionId, MilliCores, Resources, Span, Time, UserName};
use serde::Serialize;
use trace::swf::{self, SwfJob, SwfLog};

use crate::trace_files;

/// The results.
#[derive(Debug, Serialize)]
pub(super) struct Figures {
    jobs: usize,
    left_out: usize,
    reservations: Waits,
    without: Waits,
}

/// In seconds.
#[derive(Debug, Serialize)]
struct Waits {
    mean: u64,
    worst: u64,
}

/// Replays a log with and without reservations. Jobs run exactly as long as they say.
pub(super) fn measure(file: &Path, processors: u32) -> anyhow::Result<Figures> {
    let opened = trace_files::text(file)?;
    let log = swf::read(opened).with_context(|| format!("{}", file.display()))?;
    let SwfLog { jobs, without } = log;
    let fits = |job: &SwfJob| job.processors <= processors;
    let fitting: Vec<SwfJob> = jobs.iter().filter(|job| fits(job)).copied().collect();
    Ok(Figures {
        jobs: fitting.len(),
        left_out: without + jobs.len() - fitting.len(),
        reservations: waits(&fitting, processors, PoorestUser::WaitedFor)?,
        without: waits(&fitting, processors, PoorestUser::Skipped)?,
    })
}

fn waits(jobs: &[SwfJob], processors: u32, poorest: PoorestUser) -> anyhow::Result<Waits> {
    let user = UserName::new("replay")?;
    let policy = QueuePolicy { poorest, ..QueuePolicy::default() };
    let amount = |processors: u32| Resources {
        cpu: MilliCores(u64::from(processors) * 1_000),
        ..Resources::default()
    };
    let at = |seconds: u64| Time::ZERO + Span::from_secs(seconds);
    let mut queue = BatchQueue::new(policy, amount(processors));
    let mut sorted: Vec<&SwfJob> = jobs.iter().collect();
    sorted.sort_by_key(|job| (job.submitted, job.number));
    let mut coming = sorted.iter().zip(0_u64..).peekable();
    let mut ends: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    let of = |id: u64| usize::try_from(id).ok().and_then(|id| sorted.get(id)).context("a job");
    let (mut free, mut all, mut worst, mut started) = (processors, 0_u64, 0, 0_u64);
    loop {
        let submission = coming.peek().map(|(job, _)| job.submitted);
        let end = ends.first_key_value().map(|(end, _)| *end);
        let Some(now) = submission.into_iter().chain(end).min() else { break };
        for ended in ends.remove(&now).unwrap_or_default() {
            free += of(ended)?.processors;
            queue.ended(at(now), CollectionId(ended), 1);
        }
        while let Some((job, id)) = coming.next_if(|(job, _)| job.submitted == now) {
            let queued = QueuedJob {
                id: CollectionId(id),
                user: user.clone(),
                priority: 110,
                since: at(job.submitted),
                tasks: 1,
                request: amount(job.processors),
                gang: false,
                at_once: None,
                runtime: Runtime::Bounded(Span::from_secs(job.runtime)),
            };
            queue.submit(at(now), queued)?;
        }
        for enabled in queue.pass(at(now), amount(free)).enabled {
            let job = of(enabled.job.0)?;
            free -= job.processors;
            all += now - job.submitted;
            worst = worst.max(now - job.submitted);
            started += 1;
            ends.entry(now + job.runtime).or_default().push(enabled.job.0);
        }
    }
    Ok(Waits { mean: all / started.max(1), worst })
}

/// The results as text.
pub(super) fn show(figures: &Figures) -> String {
    let Figures { jobs, left_out, reservations, without } = figures;
    format!(
        "replay: {jobs} jobs, {left_out} left out; with reservations they wait {} s at the mean and {} s at most, \
         without {} s and {} s\n",
        reservations.mean, reservations.worst, without.mean, without.worst,
    )
}
