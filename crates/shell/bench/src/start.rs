//! `bourg bench start`: from submission to running, and from the start of a command inside a task to
//! its first output; alone, and beside a greedy user.

use std::time::{Duration, Instant};

use api::v1;
use client::Connection;
use command::output::{self, Format};
use command::{Done, Failure};
use dev::{Client, DevCell, grant_the_machine};
use model::CellName;
use serde::Serialize;
use spec::{JobSpec, TaskSpec};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;

/// The results of `bench start`.
#[derive(Debug, Serialize)]
struct Figures {
    runs: usize,
    /// From submission to running.
    #[serde(flatten)]
    start: Times,
    /// From the call of a command inside the task to its first output.
    exec_median_ms: f64,
    exec_p99_ms: f64,
    exec_max_ms: f64,
    /// From submission to running, beside a greedy user.
    #[serde(skip_serializing_if = "Option::is_none")]
    greedy: Option<Beside>,
}

/// What is measured beside a greedy user.
#[derive(Debug, Serialize)]
struct Beside {
    #[serde(flatten)]
    start: Times,
    /// How many times the p99 alone its p99 is.
    p99_ratio: f64,
}

/// In milliseconds.
#[derive(Debug, Serialize)]
struct Times {
    median_ms: f64,
    p99_ms: f64,
    min_ms: f64,
    max_ms: f64,
}

/// What one run took.
struct StartRun {
    start: Duration,
    exec: Duration,
}

/// What was measured, alone and beside a greedy user.
struct Measured {
    alone: Vec<StartRun>,
    beside: Option<Vec<StartRun>>,
}

/// How long the greedy user takes before the others are measured beside it.
const WARM_UP: Duration = Duration::from_secs(5);

/// Measures submission to running, for one-task jobs on an idle dev cell, one after another; then,
/// if asked, as many beside a greedy user.
pub(crate) fn start(runs: usize, greedy: bool, json: bool) -> Done {
    if runs == 0 {
        return Err(Failure::usage("error: --runs must be at least 1"));
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::failed(format!("error: {error}")))?;
    process::block_on(&runtime, async {
        let name = CellName::new("bench").map_err(Failure::failed)?;
        let options = dev::Options {
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
                measured = measure(client, runs, greedy) => measured,
                failed = processes.supervise() => Err(failed),
            }
        };
        cell.stop().await?;
        show(&measured?, json)
    })
}

async fn measure(mut client: Client, runs: usize, greedy: bool) -> Result<Measured, Failure> {
    let status = client.wait_until_ready().await?;
    grant_the_machine(&mut client.connection, &status).await?;
    let alone = several(&mut client.connection, runs, "alone").await?;
    if !greedy {
        return Ok(Measured { alone, beside: None });
    }
    let directory = client.directory.with_file_name("greedy");
    crate::greedy::add(&mut client.connection, &directory).await?;
    let beside = async {
        tokio::time::sleep(WARM_UP).await;
        several(&mut client.connection, runs, "beside").await
    };
    tokio::select! {
        beside = beside => Ok(Measured { alone, beside: Some(beside?) }),
        Err(failed) = crate::greedy::take(&directory) => Err(failed),
    }
}

/// One after another; the first, which opens the connections, does not count.
async fn several(
    connection: &mut Connection,
    runs: usize,
    prefix: &str,
) -> Result<Vec<StartRun>, Failure> {
    let mut times = Vec::with_capacity(runs);
    for run in 0..=runs {
        let time = one(connection, &format!("{prefix}-{run}")).await?;
        if run > 0 {
            times.push(time);
        }
    }
    Ok(times)
}

async fn one(connection: &mut Connection, name: &str) -> Result<StartRun, Failure> {
    let mut task = TaskSpec::of(vec!["sleep".to_owned(), "3600".to_owned()]);
    task.notice = model::Span::from_millis(100);
    let name = model::JobName::new(name).map_err(Failure::failed)?;
    let job = JobSpec::of(name, model::Band::Production.usual(), 1, task);
    let (start, statuses) = until_running(connection, &job).await?;
    let exec = first_output(connection, address(&job)).await?;
    end(connection, &job, statuses).await?;
    Ok(StartRun { start, exec })
}

fn address(job: &JobSpec) -> v1::JobAddress {
    v1::JobAddress { user: String::new(), job: job.name.to_string() }
}

/// Submits a job. Returns the time until all its tasks run, and its states from then on.
pub(crate) async fn until_running(
    connection: &mut Connection,
    job: &JobSpec,
) -> Result<(Duration, Streaming<v1::StatusResponse>), Failure> {
    let id = Some(connection.request_id().await?);
    let begun = Instant::now();
    let request = v1::SubmitRequest { id, spec: Some(job.into()) };
    connection.ask(request, async |mut client, request| client.jobs.submit(request).await).await?;
    let watch = v1::WatchJobRequest { job: Some(address(job)), index: 0 };
    let mut statuses = connection
        .stream(watch, async |mut client, request| client.jobs.watch(request).await)
        .await?;
    loop {
        let Some(status) = statuses.message().await? else {
            return Err(Failure::failed("error: the job ended before it was running"));
        };
        let counts = status.jobs.first().and_then(|job| job.counts).unwrap_or_default();
        if counts.running == job.tasks {
            return Ok((begun.elapsed(), statuses));
        }
    }
}

/// Kills a job, and waits until it is dead: the next run finds an idle cell.
pub(crate) async fn end(
    connection: &mut Connection,
    job: &JobSpec,
    mut statuses: Streaming<v1::StatusResponse>,
) -> Result<(), Failure> {
    let id = Some(connection.request_id().await?);
    let request = v1::KillRequest { id, job: Some(address(job)), tasks: None, now: false };
    connection.ask(request, async |mut client, request| client.jobs.kill(request).await).await?;
    // The stream ends with the job.
    while statuses.message().await?.is_some() {}
    Ok(())
}

/// The time from the call of a command to its first output.
async fn first_output(
    connection: &mut Connection,
    job: v1::JobAddress,
) -> Result<Duration, Failure> {
    let begun = Instant::now();
    let (to_master, mut outputs) = connection
        .stream((), async |mut client, request| {
            let (to_master, requests) = mpsc::channel(1);
            let response =
                client.tasks.exec(request.map(|()| ReceiverStream::new(requests))).await?;
            let (metadata, outputs, extensions) = response.into_parts();
            Ok(tonic::Response::from_parts(metadata, (to_master, outputs), extensions))
        })
        .await?;
    let execution = v1::Execution { argv: vec!["echo".to_owned()], terminal: None };
    let start = v1::ExecStart { job: Some(job), task: 0, execution: Some(execution) };
    let message = Some(v1::exec_request::Message::Start(start));
    let _gone = to_master.send(v1::ExecRequest { message }).await;
    let mut first = None;
    while let Some(message) = outputs.message().await? {
        match message.output {
            Some(v1::exec_output::Output::Stdout(_)) => {
                first.get_or_insert_with(|| begun.elapsed());
            }
            Some(v1::exec_output::Output::Exited(_)) => break,
            _ => {}
        }
    }
    first.ok_or_else(|| Failure::failed("error: the command ended without output"))
}

fn show(measured: &Measured, json: bool) -> Done {
    let runs = &measured.alone;
    let exec = times(runs.iter().map(|run| run.exec).collect());
    let started = |runs: &[StartRun]| times(runs.iter().map(|run| run.start).collect());
    let start = started(runs);
    let greedy = measured.beside.as_deref().map(|runs| {
        let beside = started(runs);
        let p99_ratio = (beside.p99_ms / start.p99_ms * 100.0).round() / 100.0;
        Beside { start: beside, p99_ratio }
    });
    let figures = Figures {
        runs: runs.len(),
        start,
        exec_median_ms: exec.median_ms,
        exec_p99_ms: exec.p99_ms,
        exec_max_ms: exec.max_ms,
        greedy,
    };
    let format = if json { Format::Json } else { Format::Table };
    output::object(&format, &figures, "start", || {
        let line = |times: &Times| {
            format!(
                "median {} ms, p99 {} ms, {} to {} ms",
                times.median_ms, times.p99_ms, times.min_ms, times.max_ms
            )
        };
        let beside = figures.greedy.as_ref().map(|beside| {
            format!(
                "beside a greedy user: {}; the p99 is {} times that alone\n",
                line(&beside.start),
                beside.p99_ratio
            )
        });
        format!(
            "submission to running, {} one-task jobs: {}\n\
             a command inside a task, to its first output: {}\n{}",
            figures.runs,
            line(&figures.start),
            line(&exec),
            beside.unwrap_or_default()
        )
    })
}

fn times(mut times: Vec<Duration>) -> Times {
    times.sort_unstable();
    let ms = |time: Duration| (time.as_secs_f64() * 1e6).round() / 1e3;
    let at = |percent| ms(crate::nearest_rank(&times, percent));
    Times {
        median_ms: at(50),
        p99_ms: at(99),
        min_ms: ms(times[0]),
        max_ms: ms(times[times.len() - 1]),
    }
}
