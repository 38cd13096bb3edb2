//! Streams of a job's changes, for watchers.

use std::hash::{DefaultHasher, Hasher as _};
use std::sync::Arc;

use api::v1;
use cell::Job;
use model::{CollectionId, Time};
use prost::Message as _;
use tokio::sync::mpsc::error::SendTimeoutError;
use tokio::sync::{mpsc, watch};
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;

use crate::caller::Caller;
use crate::reads::Reads;
use crate::service::event_watch::STALLED;
use crate::view::View;

/// The maximum number of a job's states that wait for a slow watcher: later ones are merged.
const QUEUE: usize = 2;

/// A message to a watcher.
type Sent = Result<v1::StatusResponse, Status>;

/// Streams the states of a job until it is dead or gone.
pub(crate) fn follow(
    views: watch::Receiver<Arc<View>>,
    job: CollectionId,
    by: Caller,
) -> Result<ReceiverStream<Sent>, Status> {
    // One more, for the final status.
    let (to_client, stream) = mpsc::channel(QUEUE + 1);
    let no_room = |_| Status::internal("a queue that is new has no room: report this");
    let end = to_client.clone().try_reserve_owned().map_err(no_room)?;
    tokio::spawn(async move {
        if let Err(status) = send_changes(views, job, &by, to_client).await {
            end.send(Err(status));
        }
    });
    Ok(ReceiverStream::new(stream))
}

async fn send_changes(
    mut views: watch::Receiver<Arc<View>>,
    job: CollectionId,
    by: &Caller,
    to_client: mpsc::Sender<Sent>,
) -> Result<(), Status> {
    let (mut known, mut last) = (None, None);
    loop {
        // No view is held here: that would keep a whole cell as long as a reader takes.
        let (message, dead) = {
            let view = Arc::clone(&views.borrow_and_update());
            let Some(job) = view.cell.job(job) else { return Ok(()) };
            (look(&view, by, job, &mut known, view.now()), !job.is_alive())
        };
        let looks = message.as_ref().map(|message| digest(&message.jobs));
        if let Some(message) = message.filter(|_| last != looks) {
            last = looks;
            match to_client.send_timeout(Ok(message), STALLED).await {
                Ok(()) => {}
                Err(SendTimeoutError::Closed(_)) => return Ok(()),
                Err(SendTimeoutError::Timeout(_)) => {
                    return Err(Status::deadline_exceeded(format!(
                        "the watcher read nothing for {} seconds: watch again",
                        STALLED.as_secs()
                    )));
                }
            }
        }
        tokio::select! {
            changed = views.changed() => if changed.is_err() { return Ok(()) },
            () = to_client.closed() => return Ok(()),
        }
        if dead {
            return Ok(());
        }
    }
}

/// A short digest of a job's state: a watcher is only sent changes, without keeping a large job for
/// each watcher.
fn digest(jobs: &[v1::JobStatus]) -> u64 {
    let mut hasher = DefaultHasher::new();
    jobs.iter().for_each(|job| hasher.write(&job.encode_to_vec()));
    hasher.finish()
}

/// A job in a view, if it differs from the known one: most views change other jobs. An alloc set's
/// state includes that of its jobs.
fn look(
    view: &View,
    by: &Caller,
    job: &Arc<Job>,
    known: &mut Option<Arc<Job>>,
    now: Time,
) -> Option<v1::StatusResponse> {
    let before = known.replace(Arc::clone(job));
    let is_known = before.is_some_and(|before| Arc::ptr_eq(&before, job));
    if is_known && !job.spec.kind.is_alloc_set() {
        return None;
    }
    // With the watcher's present rights: they may be fewer than when the stream began.
    let status = Reads { now, ..Reads::of(view, by) }.job(job, true);
    let (index, time) = (view.cell.index().0, now.0);
    Some(v1::StatusResponse { index, time, jobs: vec![status] })
}

#[cfg(test)]
mod tests {
    use cell::{Cell, Mutation, Op, RequestId, SetCapability};
    use model::SessionId;
    use spec::{JobSpec, TaskSpec};
    use tokio_stream::StreamExt as _;

    use super::*;

    /// Submits or updates job ana/web, with a priority.
    fn submit(cell: &mut Cell, priority: &str) {
        let sequence = cell.index().0;
        let (name, priority) = ("web".parse().expect("a name"), priority.parse().expect("one"));
        let mut task = TaskSpec::of(vec!["sleep".to_owned()]);
        task.env.insert("KEY".to_owned(), "hunter2".to_owned());
        let spec = JobSpec::of(name, priority, 1, task);
        let id = RequestId { session: SessionId(1), sequence };
        let by = "ana".parse().expect("a name");
        let mutation = Mutation::Submit(Arc::new(spec));
        cell.apply(Time(3), &Op::Request { id, by, mutation });
    }

    #[tokio::test]
    async fn a_watcher_that_loses_the_capability_sees_no_more_env_values() {
        let mut cell = Cell::empty();
        let user = |name: &str| -> model::UserName { name.parse().expect("a name") };
        let name = "lab".parse().expect("a name");
        cell.apply(Time(1), &Op::Bootstrap { name, administrator: user("ana") });
        cell.apply(Time(2), &Op::OpenSession { user: user("ana") });
        let let_ben = |cell: &mut Cell, granted| {
            let id = RequestId { session: SessionId(1), sequence: cell.index().0 };
            let (user, capability) = (user("ben"), model::Capability::AdministerJobs);
            let mutation = Mutation::SetCapability(SetCapability { user, capability, granted });
            let by = "ana".parse().expect("a name");
            cell.apply(Time(3), &Op::Request { id, by, mutation });
        };
        let_ben(&mut cell, true);
        submit(&mut cell, "1");
        let job = cell.jobs().next().expect("the job").id;
        let (publish, views) = watch::channel(Arc::new(View::of(cell.clone())));
        let mut stream = follow(views, job, Caller::of("ben")).expect("it is followed");
        let mut seen = Vec::new();
        for _ in 0..2 {
            let mut message = stream.next().await.expect("a change").expect("of the job");
            let spec = message.jobs.remove(0).spec.expect("its description");
            seen.push((spec.env.contains_key("KEY"), spec.hidden_env.concat()));
            let_ben(&mut cell, false);
            submit(&mut cell, "2");
            publish.send_replace(Arc::new(View::of(cell.clone())));
        }
        assert_eq!(seen, [(true, String::new()), (false, "KEY".to_owned())]);
    }

    #[tokio::test]
    async fn a_watcher_that_takes_nothing_keeps_no_cell_of_the_past() {
        let mut cell = Cell::empty();
        let ana = || "ana".parse().expect("a name");
        let name = "lab".parse().expect("a name");
        cell.apply(Time(1), &Op::Bootstrap { name, administrator: ana() });
        cell.apply(Time(2), &Op::OpenSession { user: ana() });
        submit(&mut cell, "1");
        let job = cell.jobs().next().expect("the job").id;
        let (publish, views) = watch::channel(Arc::new(View::of(cell.clone())));
        let (to_client, mut stream) = mpsc::channel(1);
        let ana = Caller::of("ana");
        let sending = async move { send_changes(views, job, &ana, to_client).await };
        let sending = tokio::spawn(sending);
        let mut past = Vec::new();
        for priority in ["2", "3", "4"] {
            tokio::task::yield_now().await;
            submit(&mut cell, priority);
            past.push(Arc::downgrade(&publish.send_replace(Arc::new(View::of(cell.clone())))));
        }
        tokio::task::yield_now().await;
        assert!(!sending.is_finished(), "it waits for the watcher");
        assert_eq!(past.iter().filter(|view| view.upgrade().is_some()).count(), 0);
        let mut seen = Vec::new();
        for _ in 0..3 {
            let message = stream.recv().await.expect("a change").expect("of the job");
            seen.extend(
                message.jobs.into_iter().map(|job| job.spec.expect("its description").priority),
            );
        }
        assert_eq!(
            seen,
            [Some(1), Some(2), Some(4)],
            "what was new while it took nothing came as one"
        );
    }
}
