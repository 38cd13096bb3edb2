//! `bourg bench start`: from submission to running.

use std::time::{Duration, Instant};

use cli::output::{self, Format};
use cli::{Client, DevCell, DevOptions, Done, Failure, grant_the_machine};
use model::CellName;
use proto::v1;
use serde::Serialize;
use spec::{JobSpec, TaskSpec};

/// The results of `bench start`, in milliseconds.
#[derive(Debug, Serialize)]
struct StartTimes {
    median_ms: f64,
    p99_ms: f64,
    min_ms: f64,
    max_ms: f64,
    runs: usize,
}

/// Measures submission to running, for one-task jobs on an idle dev cell, one after another.
pub(crate) fn start(runs: usize, json: bool) -> Done {
    if runs == 0 {
        return Err(Failure::usage("error: --runs must be at least 1"));
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::failed(format!("error: {error}")))?;
    runtime.block_on(async {
        let name = CellName::new("bench").map_err(Failure::failed)?;
        let options = DevOptions {
            directory: None,
            name,
            replicas: 1,
            machines: None,
            log: "warn".to_owned(),
            master: Vec::new(),
        };
        let mut cell = DevCell::prepare(options)?;
        let measured = {
            let (client, mut processes) = cell.start()?;
            tokio::select! {
                measured = measure(client, runs) => measured,
                failed = processes.supervise() => Err(failed),
            }
        };
        cell.stop().await?;
        show(measured?, json)
    })
}

async fn measure(mut client: Client, runs: usize) -> Result<Vec<Duration>, Failure> {
    let status = client.wait_until_ready().await?;
    grant_the_machine(&mut client.connection, &status).await?;
    let mut times = Vec::with_capacity(runs);
    for run in 0..=runs {
        let time = one(&mut client, run).await?;
        // Skip the first, which opens the connections.
        if run > 0 {
            times.push(time);
        }
    }
    Ok(times)
}

async fn one(client: &mut Client, run: usize) -> Result<Duration, Failure> {
    let connection = &mut client.connection;
    let mut task = TaskSpec::of(vec!["sleep".to_owned(), "3600".to_owned()]);
    task.notice = model::Span::from_millis(100);
    let name = model::JobName::new(&format!("start-{run}")).map_err(Failure::failed)?;
    let job = JobSpec::of(name, model::Band::Production.usual(), 1, task);
    let address = v1::JobAddress { user: String::new(), job: job.name.to_string() };
    let id = Some(connection.request_id().await?);
    let begun = Instant::now();
    let request = v1::SubmitRequest { id, spec: Some((&job).into()) };
    connection.ask(request, async |mut client, request| client.submit(request).await).await?;
    let watch = v1::WatchJobRequest { job: Some(address.clone()) };
    let mut statuses = connection
        .stream(watch, async |mut client, request| client.watch_job(request).await)
        .await?;
    let running = loop {
        let Some(status) = statuses.message().await? else {
            return Err(Failure::failed("error: the job ended before it was running"));
        };
        let counts = status.jobs.first().and_then(|job| job.counts).unwrap_or_default();
        if counts.running == 1 {
            break begun.elapsed();
        }
    };
    let id = Some(connection.request_id().await?);
    let request = v1::KillRequest { id, job: Some(address), tasks: None };
    connection.ask(request, async |mut client, request| client.kill(request).await).await?;
    // The stream ends when the job is dead: the next run finds an idle cell.
    while statuses.message().await?.is_some() {}
    Ok(running)
}

fn show(mut times: Vec<Duration>, json: bool) -> Done {
    times.sort_unstable();
    let ms = |time: Duration| (time.as_secs_f64() * 1e6).round() / 1e3;
    let at = |share: f64| {
        // Nearest rank.
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            clippy::cast_precision_loss,
            reason = "an index into the list of runs"
        )]
        let rank = (times.len() as f64 * share).ceil() as usize;
        ms(times[rank.clamp(1, times.len()) - 1])
    };
    let figures = StartTimes {
        median_ms: at(0.5),
        p99_ms: at(0.99),
        min_ms: ms(times[0]),
        max_ms: ms(times[times.len() - 1]),
        runs: times.len(),
    };
    let format = if json { Format::Json } else { Format::Table };
    output::object(&format, &figures, "start", || {
        format!(
            "submission to running, {} one-task jobs: median {} ms, p99 {} ms, {} to {} ms\n",
            figures.runs, figures.median_ms, figures.p99_ms, figures.min_ms, figures.max_ms
        )
    })
}
