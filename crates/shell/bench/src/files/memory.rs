//! A master with many jobs that wait, each with a file that no other one has.

use std::fmt::Write as _;

use api::v1;
use command::Failure;
use dev::Client;
use model::{Bytes, JobName};
use rpc::{Expect, Role};
use serde::Serialize;
use spec::{FileContent, FileMode, JobSpec, TaskFile, TaskSpec};

use crate::packages::metric;

/// What all of them may take.
const BOUND: u64 = 250 << 20;

/// The results.
#[derive(Debug, Serialize)]
pub(super) struct Figures {
    jobs: u32,
    file_bytes: u32,
    /// The resident memory of the master, without them and with them.
    before_bytes: u64,
    after_bytes: u64,
    added_bytes: u64,
    /// Whether it is within its bound.
    held: bool,
}

/// Submits jobs that no machine has room for.
pub(super) async fn measure(
    client: &mut Client,
    jobs: u32,
    file_bytes: u32,
) -> Result<Figures, Failure> {
    let before = resident(client).await?;
    let connection = &mut client.connection;
    for number in 0..jobs {
        let spec = job(number, file_bytes)?;
        let id = Some(connection.request_id().await?);
        let request = v1::SubmitRequest { id, spec: Some((&spec).into()) };
        connection
            .ask(request, async |mut client, request| client.jobs.submit(request).await)
            .await?;
    }
    let after = resident(client).await?;
    let added = after.saturating_sub(before);
    Ok(Figures {
        jobs,
        file_bytes,
        before_bytes: before,
        after_bytes: after,
        added_bytes: added,
        held: added <= BOUND,
    })
}

/// The resident memory of the cell's master, as its metrics say.
async fn resident(client: &mut Client) -> anyhow::Result<u64> {
    let connection = &mut client.connection;
    let request = v1::ReplicasRequest {};
    let known =
        connection.ask(request, async |mut client, request| client.replicas.list(request).await);
    let known = known.await?.replicas;
    let address = known.into_iter().next().map(|replica| replica.address).unwrap_or_default();
    let role = Expect::Role(Role::Master);
    let [bytes] =
        metric(connection, &address, &role, &["bourg_process_resident_memory_bytes"]).await?;
    Ok(bytes)
}

fn job(number: u32, file_bytes: u32) -> Result<JobSpec, Failure> {
    let mut task = TaskSpec::of(vec!["true".to_owned()]);
    task.limit.ram = Bytes(1 << 50);
    let mut text = format!("job {number}\n");
    while text.len() < file_bytes as usize {
        writeln!(text, "setting.{number}.{} = yes", text.len()).map_err(Failure::failed)?;
    }
    text.truncate(file_bytes as usize);
    let content = FileContent::Text(text.into());
    task.files.insert("/etc/app.conf".to_owned(), TaskFile { content, mode: FileMode::default() });
    let name = JobName::new(&format!("job-{number}")).map_err(Failure::failed)?;
    Ok(JobSpec::of(name, model::Band::Free.usual(), 1, task))
}

/// The results as text.
pub(super) fn show(figures: &Figures) -> String {
    format!(
        "memory: {} jobs with files of {} take {} of a master (bound {}{})\n",
        figures.jobs,
        Bytes(figures.file_bytes.into()),
        Bytes(figures.added_bytes),
        Bytes(BOUND),
        if figures.held { "" } else { ": NOT HELD" },
    )
}
