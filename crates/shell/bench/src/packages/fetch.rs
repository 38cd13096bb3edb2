//! Many Borglets on one host that fetch a package at once.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use command::Failure;
use dev::Client;
use model::{Bytes, JobName, MilliCores, Span};
use serde::Serialize;
use spec::{JobSpec, Maximum, TaskSpec};
use tokio::time::timeout;

use super::{DrawnBytes, Transferred, make_directory, ratio, rounded};
use crate::start::{end, until_running};

/// No fetch takes this long unless something hangs.
const PATIENCE: Duration = Duration::from_secs(300);
/// The length of a file of the package.
const FILE: u64 = 1 << 20;

/// What is fetched, and by how many.
#[derive(Clone, Copy, Debug)]
pub(super) struct FetchSize {
    pub(super) machines: u8,
    pub(super) bytes: u64,
    pub(super) seed: u64,
}

/// The results.
#[derive(Debug, Serialize)]
pub(super) struct Figures {
    machines: u8,
    package_bytes: u64,
    /// From submission until the tasks of all machines run.
    seconds: f64,
    /// What the store sent.
    sent_bytes: u64,
    /// How many times the package that is.
    copies: f64,
}

/// Builds a package, and runs a job with it that has a task on each machine.
pub(super) async fn measure(
    client: &mut Client,
    place: &Path,
    size: FetchSize,
) -> Result<Figures, Failure> {
    write(place, size).context("cannot write the files of the package")?;
    let at_first = Transferred::of(&mut client.connection).await?;
    let source = place.to_string_lossy().into_owned();
    super::package(client, &["build", &source, "--name", "bench", "--version", "1"]).await?;
    let before = Transferred::of(&mut client.connection).await?;
    let job = job(size.machines)?;
    let running = timeout(PATIENCE, until_running(&mut client.connection, &job)).await;
    let running = running.map_err(|_elapsed| {
        Failure::failed(format!("error: not all tasks ran after {} s", PATIENCE.as_secs()))
    });
    let (took, statuses) = running??;
    let after = Transferred::of(&mut client.connection).await?;
    end(&mut client.connection, &job, statuses).await?;
    let package_bytes = before.received.saturating_sub(at_first.received);
    let sent_bytes = after.sent.saturating_sub(before.sent);
    Ok(Figures {
        machines: size.machines,
        package_bytes,
        seconds: rounded(took.as_secs_f64(), 3),
        sent_bytes,
        copies: ratio(sent_bytes, package_bytes),
    })
}

fn write(place: &Path, size: FetchSize) -> anyhow::Result<()> {
    make_directory(place)?;
    let mut drawn = DrawnBytes::new(size.seed);
    let mut content = vec![0; usize::try_from(FILE)?];
    for number in 0..size.bytes.div_ceil(FILE) {
        drawn.fill(&mut content);
        fs::write(place.join(format!("file-{number}")), &content)?;
    }
    Ok(())
}

fn job(machines: u8) -> Result<JobSpec, Failure> {
    let mut task = TaskSpec::of(vec!["sleep".to_owned(), "3600".to_owned()]);
    task.notice = Span::from_millis(100);
    task.limit.cpu = MilliCores(10);
    task.limit.ram = Bytes(32 << 20);
    task.packages.insert("bench@1".parse().map_err(Failure::failed)?);
    let name = JobName::new("fetch").map_err(Failure::failed)?;
    let priority = model::Band::Production.usual();
    let mut job = JobSpec::of(name, priority, machines.into(), task);
    job.max_per_machine = Some(Maximum { tasks: 1, hard: true });
    Ok(job)
}

/// The results as text.
pub(super) fn show(figures: &Figures) -> String {
    format!(
        "fetch: {} Borglets have a package of {} after {} s; the store sent {} copies of it\n",
        figures.machines,
        Bytes(figures.package_bytes),
        figures.seconds,
        figures.copies,
    )
}
