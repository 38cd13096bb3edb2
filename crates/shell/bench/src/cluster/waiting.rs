//! Clients that send each change after the acknowledgement of the last.

use std::time::Duration;

use api::v1;
use command::Failure;
use masterd::in_process;
use model::{Band, JobName};
use spec::{JobSpec, TaskSpec};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::latencies::Latencies;
use super::masters::LeanClient;

/// The measured period, after the warm-up.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    pub(super) begins: Instant,
    pub(super) ends: Instant,
}

impl Window {
    /// A window of this length after a warm-up.
    pub(super) fn after(warming: Duration, lasts: Duration) -> Self {
        let begins = Instant::now() + warming;
        Self { begins, ends: begins + lasts }
    }

    /// Whether something that ended at this moment counts.
    pub(super) fn has(&self, ended: Instant) -> bool {
        self.begins <= ended && ended < self.ends
    }
}

/// The description of a client's next job: one task in the free band, which needs no quota.
pub(super) fn job(client: usize, number: u64) -> anyhow::Result<JobSpec> {
    let task = TaskSpec::of(vec!["sleep".to_owned(), "3600".to_owned()]);
    let name = JobName::new(&format!("c{client}-{number}"))?;
    Ok(JobSpec::of(name, Band::Free.usual(), 1, task))
}

/// The latencies of changes acknowledged in the window. Each client submits and kills jobs in turn,
/// in its own session, and pauses after each answer.
pub(super) async fn all(
    clients: Vec<LeanClient>,
    window: Window,
    rest: Duration,
) -> Result<Latencies, Failure> {
    let mut running = JoinSet::new();
    for (number, client) in clients.into_iter().enumerate() {
        running.spawn(one(client, number, window, rest));
    }
    let mut times = Latencies::default();
    while let Some(ended) = running.join_next().await {
        times.join(ended.map_err(anyhow::Error::from)??);
    }
    Ok(times)
}

async fn one(
    mut client: LeanClient,
    number: usize,
    window: Window,
    rest: Duration,
) -> Result<Latencies, Failure> {
    let session = client.cell.open_session(v1::OpenSessionRequest {}).await?.into_inner().session;
    let (mut sequence, mut times) = (0, Latencies::default());
    while Instant::now() < window.ends {
        sequence += 1;
        let id = Some(v1::RequestId { session, sequence });
        let spec = job(number, sequence / 2 + sequence % 2)?;
        let begun = Instant::now();
        if sequence % 2 == 1 {
            client.jobs.submit(v1::SubmitRequest { id, spec: Some((&spec).into()) }).await?;
        } else {
            let job = v1::JobAddress { user: String::new(), job: spec.name.to_string() };
            client
                .jobs
                .kill(v1::KillRequest { id, job: Some(job), tasks: None, now: false })
                .await?;
        }
        let ended = Instant::now();
        if window.has(ended) {
            times.add(ended - begun);
        }
        if !rest.is_zero() {
            tokio::time::sleep(rest).await;
        }
    }
    Ok(times)
}

/// The same, for clients of masters in this process.
pub(super) async fn all_in_process(
    clients: Vec<in_process::Client>,
    window: Window,
) -> anyhow::Result<Latencies> {
    let mut running = JoinSet::new();
    for (number, client) in clients.into_iter().enumerate() {
        running.spawn(one_in_process(client, number, window));
    }
    let mut times = Latencies::default();
    while let Some(ended) = running.join_next().await {
        times.join(ended??);
    }
    Ok(times)
}

async fn one_in_process(
    mut client: in_process::Client,
    number: usize,
    window: Window,
) -> anyhow::Result<Latencies> {
    let (mut jobs, mut times) = (0, Latencies::default());
    let mut begun = Instant::now();
    let mut done = |begun: &mut Instant| {
        let ended = Instant::now();
        if window.has(ended) {
            times.add(ended - *begun);
        }
        *begun = ended;
    };
    while begun < window.ends {
        jobs += 1;
        let job = job(number, jobs)?;
        let name = job.name.clone();
        client.submit(job).await?;
        done(&mut begun);
        client.kill(name).await?;
        done(&mut begun);
    }
    Ok(times)
}
