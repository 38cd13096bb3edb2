//! Starts with an image that the machine has, in turns with the same starts without an image.

use std::path::Path;

use command::Failure;
use dev::Client;
use model::{Bytes, JobName, MilliCores, Span};
use serde::Serialize;
use spec::{JobSpec, TaskSpec};

use super::runtimes::{self, Runtimes};
use super::{image, median_ms, or_not_here, rounded};
use crate::start::{end, until_running};

/// The results: medians, from submission to running.
#[derive(Debug, Serialize)]
pub(super) struct Figures {
    runs: u32,
    without_image_ms: f64,
    with_image_ms: f64,
    ratio: f64,
    /// Whole runs of `true` in the same image by other runtimes.
    #[serde(flatten)]
    others: Runtimes,
}

/// Imports an image, starts one task with it, and measures the starts after that.
pub(super) async fn measure(
    client: &mut Client,
    place: &Path,
    runs: u32,
) -> Result<Figures, Failure> {
    let layout = place.join("image");
    image::with_programs(&layout)?;
    let source = layout.to_string_lossy().into_owned();
    super::package(client, &["import", &source, "--name", "bench", "--version", "1"]).await?;
    let (mut with, mut without) = (Vec::new(), Vec::new());
    for run in 0..=runs {
        for is_image in [false, true] {
            let job = job(run, is_image)?;
            let (took, statuses) = until_running(&mut client.connection, &job).await?;
            end(&mut client.connection, &job, statuses).await?;
            // The first opens the connections and fetches the image.
            if run > 0 {
                if is_image { &mut with } else { &mut without }.push(took);
            }
        }
    }
    let others = place.to_owned();
    let others = tokio::task::spawn_blocking(move || runtimes::measure(&layout, &others, runs));
    let others = others.await.map_err(Failure::failed)??;
    let (with_image_ms, without_image_ms) = (median_ms(with), median_ms(without));
    let ratio = rounded(with_image_ms / without_image_ms.max(1e-9), 2);
    Ok(Figures { runs, without_image_ms, with_image_ms, ratio, others })
}

fn job(run: u32, is_image: bool) -> Result<JobSpec, Failure> {
    let mut task = TaskSpec::of(vec!["sleep".to_owned(), "3600".to_owned()]);
    task.notice = Span::from_millis(100);
    task.limit.cpu = MilliCores(100);
    task.limit.ram = Bytes(64 << 20);
    let kind = if is_image { "with" } else { "without" };
    if is_image {
        task.image = Some("bench@1".parse().map_err(Failure::failed)?);
    }
    let name = JobName::new(&format!("{kind}-{run}")).map_err(Failure::failed)?;
    Ok(JobSpec::of(name, model::Band::Production.usual(), 1, task))
}

/// The results as text.
pub(super) fn show(figures: &Figures) -> String {
    format!(
        "start: median {} ms with an image, {} ms without: {} times; {} of each; runc: {}, podman with runc: {}\n",
        figures.with_image_ms,
        figures.without_image_ms,
        figures.ratio,
        figures.runs,
        or_not_here(figures.others.runc_ms, "ms"),
        or_not_here(figures.others.podman_ms, "ms"),
    )
}
