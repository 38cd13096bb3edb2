//! A user who takes all that the cell gives: the company of a user whose times are measured.
//!
//! One client resizes each of four jobs of a hundred thousand tasks that suit no machine, twice a
//! second; another submits as many tasks that wait for a job, and kills them, again and again. What
//! the cell rejects or delays is what the user's share does not allow, so it is tried again.

use std::path::Path;
use std::time::Duration;

use api::v1;
use client::{Connection, Target};
use command::{Done, Failure};
use model::{Band, JobName, MilliCores, Span};
use rpc::NewKey;
use spec::{Constraint, JobReference, JobSpec, Predecessor, Relation, TaskSpec};

/// The name of the user.
const NAME: &str = "greedy";
/// The tasks of each job.
const TASKS: u32 = 100_000;
/// The time between two changes of the same job.
const BETWEEN: Duration = Duration::from_millis(500);
/// How long a request is tried again while the user is over the share.
const PATIENCE: Duration = Duration::from_secs(3600);

/// Takes what there is until dropped. Returns on an error that no share explains.
pub(crate) async fn take(directory: &Path) -> Result<std::convert::Infallible, Failure> {
    tokio::select! {
        failed = resized(directory, 0) => failed,
        failed = resized(directory, 1) => failed,
        failed = resized(directory, 2) => failed,
        failed = resized(directory, 3) => failed,
        failed = killed(directory) => failed,
    }
}

/// Adds the user, with a client directory at the path.
pub(crate) async fn add(administrator: &mut Connection, directory: &Path) -> Done {
    let key = NewKey::generate().map_err(Failure::failed)?;
    let request = v1::AddUserRequest {
        id: Some(administrator.request_id().await?),
        name: NAME.to_owned(),
        signing_request: key.request_pem().map_err(Failure::failed)?,
        validity: Some(api::duration(Span::from_secs(86_400))),
    };
    let added = administrator
        .ask(request, async |mut client, request| client.access.add_user(request).await)
        .await?;
    let (file, ca_pem) = administrator.cell_file();
    let credentials = key.credentials(added.certificate, ca_pem).map_err(Failure::failed)?;
    std::fs::create_dir_all(directory).map_err(Failure::failed)?;
    client::write(directory, &file, &credentials).map_err(Failure::failed)
}

fn connection(directory: &Path) -> Result<Connection, Failure> {
    let target = Target { cell: directory.to_str(), consistent: false, notify: |_| {} };
    let mut connection = Connection::open(target)?;
    connection.set_patience(PATIENCE);
    Ok(connection)
}

/// A job of the free band whose tasks ask for next to nothing.
fn job(name: &str) -> Result<JobSpec, Failure> {
    let name = JobName::new(name).map_err(Failure::failed)?;
    let mut task = TaskSpec::of(vec!["true".to_owned()]);
    task.limit.cpu = MilliCores(1);
    Ok(JobSpec::of(name, Band::Free.usual(), TASKS, task))
}

/// Submits a job that no machine suits and resizes it for ever.
async fn resized(directory: &Path, number: u32) -> Result<std::convert::Infallible, Failure> {
    let mut connection = connection(directory)?;
    let mut job = job(&format!("resized-{number}"))?;
    job.task.constraints.push(Constraint {
        attribute: "nope".to_owned(),
        relation: Relation::Present,
        value: String::new(),
        hard: true,
    });
    submit(&mut connection, &job).await?;
    loop {
        for tasks in [TASKS / 2, TASKS] {
            let change = v1::update_request::Change::Resize(v1::update_request::Resize {
                job: job.name.to_string(),
                tasks,
            });
            let id = Some(connection.request_id().await?);
            let request = v1::UpdateRequest { id, change: Some(change), ..Default::default() };
            let resized = connection
                .ask(request, async |mut client, request| client.updates.open(request).await)
                .await;
            tried(resized)?;
            tokio::time::sleep(BETWEEN).await;
        }
    }
}

/// Submits a job that waits for another one, and kills it, for ever.
async fn killed(directory: &Path) -> Result<std::convert::Infallible, Failure> {
    let mut connection = connection(directory)?;
    let mut job = job("killed")?;
    let first = JobName::new("resized-0").map_err(Failure::failed)?;
    job.after.insert(Predecessor::finished(JobReference { user: None, job: first }));
    loop {
        submit(&mut connection, &job).await?;
        let id = Some(connection.request_id().await?);
        let address = v1::JobAddress { user: String::new(), job: job.name.to_string() };
        let request = v1::KillRequest { id, job: Some(address), tasks: None, now: false };
        let killed = connection
            .ask(request, async |mut client, request| client.jobs.kill(request).await)
            .await;
        tried(killed)?;
    }
}

async fn submit(connection: &mut Connection, job: &JobSpec) -> Result<(), Failure> {
    let id = Some(connection.request_id().await?);
    let request = v1::SubmitRequest { id, spec: Some(job.into()) };
    let submitted = connection
        .ask(request, async |mut client, request| client.jobs.submit(request).await)
        .await;
    tried(submitted)
}

/// An answer is one, be it a rejection; an error of the connection is none.
fn tried<T>(answer: Result<T, client::Error>) -> Result<(), Failure> {
    match answer {
        Ok(_) | Err(client::Error::Answer(_)) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
