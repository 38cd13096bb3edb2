//! The service for jobs: submitting, killing and restarting them, and how they are.

use std::sync::Arc;

use api::v1;
use api::v1::past_question::Question;
use cell::{ForgetJob, Kill, MoveTask, Mutation, Reply, RestartJob};
use model::LogIndex;
use prost::Message as _;
use rpc::service::jobs_server;
use tonic::{Request, Response};

use crate::caller::tasks::{may_submit, may_touch};
use crate::reads::{Reads, few, job_address, moves, reasons, selection};
use crate::service::door::{Door, split};
use crate::service::holding::holding;
use crate::service::updates::chosen_tasks;
use crate::service::usage::Usage;
use crate::service::{Answer, Streamed, gate, job_watch, submission};
use crate::streams::{StreamHolder, Streams};

/// A job with this many tasks is handled outside the threads that serve.
const TASKS_BESIDE: u32 = 1_000;
/// The maximum number of watched jobs, shared by users: each `bourg run` watches one. A job counts once
/// more for each thousand tasks.
const WATCHERS_MAX: usize = 2_048;

/// The service.
#[derive(Clone)]
pub(super) struct Jobs {
    door: Door,
    watchers: Streams,
    usage: Usage,
}

impl Jobs {
    pub(super) fn new(door: Door, usage: Usage) -> Self {
        Self { door, watchers: Streams::new("watch-jobs", WATCHERS_MAX), usage }
    }

    /// The limits on those who watch jobs.
    pub(super) fn watchers(&self) -> &Streams {
        &self.watchers
    }
}

#[tonic::async_trait]
impl jobs_server::Jobs for Jobs {
    type WatchStream = Streamed<v1::StatusResponse>;

    async fn submit(&self, request: Request<v1::SubmitRequest>) -> Answer<v1::SubmitResponse> {
        let by = self.door.anyone(&request).await?;
        let user = by.user.clone();
        let bytes = request.get_ref().encoded_len();
        let (v1::SubmitRequest { id, spec }, asked) = split(request);
        let spec = submission::description(spec)?;
        self.door.own(&by, &asked, || may_submit(&user, &spec))?;
        let spec = Arc::new(spec);
        let mutation = Mutation::Submit(Arc::clone(&spec));
        let mut answer = self
            .door
            .change(id, by.clone(), mutation, bytes, |index, reply| {
                submission::answer(index, &user, reply)
            })
            .await?;
        if submission::has_constraints(&spec) {
            let spellings = move |reads: &Reads<'_>| Ok(reasons::spellings(reads.cell, &spec));
            // The job is admitted: who reads too much at once does without these notes.
            if let Ok(found) = self.door.read_some(&by, spellings).await {
                answer.get_mut().notes.extend(found.into_inner());
            }
        }
        Ok(answer)
    }

    async fn kill(&self, request: Request<v1::KillRequest>) -> Answer<v1::KillResponse> {
        let by = self.door.anyone(&request).await?;
        let bytes = request.get_ref().encoded_len();
        let (v1::KillRequest { id, job, tasks, now }, asked) = split(request);
        let tasks = selection(tasks)?;
        let (owner, job) = job_address(&by.user, &job.unwrap_or_default())?;
        self.door.own(&by, &asked, || may_touch(&by.user, &owner, &job))?;
        let user = owner.to_string();
        let kill = Kill { owner, job, tasks, now };
        self.door
            .change(id, by, kill, bytes, |index, reply| match reply {
                Reply::Killed { tasks: killed, .. } => {
                    Some(v1::KillResponse { index, killed: *killed, user })
                }
                _ => None,
            })
            .await
    }

    async fn forget(&self, request: Request<v1::ForgetRequest>) -> Answer<v1::ForgetResponse> {
        let by = self.door.anyone(&request).await?;
        let bytes = request.get_ref().encoded_len();
        let (v1::ForgetRequest { id, job }, asked) = split(request);
        let (owner, job) = job_address(&by.user, &job.unwrap_or_default())?;
        self.door.own(&by, &asked, || may_touch(&by.user, &owner, &job))?;
        let user = owner.to_string();
        let forget = ForgetJob { owner, job };
        self.door
            .change(id, by, forget, bytes, |index, reply| match reply {
                Reply::Done => Some(v1::ForgetResponse { index, user }),
                _ => None,
            })
            .await
    }

    async fn restart(&self, request: Request<v1::RestartRequest>) -> Answer<v1::RestartResponse> {
        let by = self.door.anyone(&request).await?;
        let bytes = request.get_ref().encoded_len();
        let (v1::RestartRequest { id, job, tasks: chosen, failed, batch }, asks) = split(request);
        let (owner, job) = job_address(&by.user, &job.unwrap_or_default())?;
        self.door.own(&by, &asks, || may_touch(&by.user, &owner, &job))?;
        let user = owner.to_string();
        let restart = RestartJob { owner, job, tasks: chosen_tasks(chosen)?, failed, batch };
        self.door
            .change(id, by, restart, bytes, |index, reply| match reply {
                Reply::Restarted { started, version, .. } => Some(v1::RestartResponse {
                    index,
                    user,
                    started: *started,
                    version: version.map(|version| version.0),
                }),
                _ => None,
            })
            .await
    }

    async fn r#move(&self, request: Request<v1::MoveTaskRequest>) -> Answer<v1::MoveTaskResponse> {
        let by = self.door.caller(&request)?;
        let asked = request.into_inner();
        let (id, bytes) = (asked.id, asked.encoded_len());
        let moved: MoveTask = moves::task_move(&asked)?;
        self.door
            .change(id, by, moved, bytes, |index, reply| match reply {
                Reply::Done => Some(v1::MoveTaskResponse { index }),
                _ => None,
            })
            .await
    }

    async fn plan_moves(
        &self,
        request: Request<v1::PlanMovesRequest>,
    ) -> Answer<v1::PlanMovesResponse> {
        let by = self.door.caller(&request)?;
        let asked = moves::question(request.into_inner())?;
        self.door.read_much(&by, move |reads| reads.plan_moves(&asked)).await
    }

    async fn status(&self, request: Request<v1::StatusRequest>) -> Answer<v1::StatusResponse> {
        let (by, asked) = (self.door.anyone(&request).await?, request.into_inner());
        few("jobs", asked.jobs.len())?;
        if let Some(at) = asked.at {
            return self.door.past(&by, at, Question::Status(asked)).await;
        }
        let is_small = match asked.jobs.as_slice() {
            [job] => {
                let view = self.door.core.view();
                Reads::of(&view, &by).find(job)?.spec.tasks <= TASKS_BESIDE
            }
            _ => false,
        };
        match is_small {
            true => self.door.read(&by, |reads| reads.status(&asked)),
            false => self.door.read_much(&by, move |reads| reads.status(&asked)).await,
        }
    }

    async fn watch(&self, request: Request<v1::WatchJobRequest>) -> Answer<Self::WatchStream> {
        let caller = self.door.anyone(&request).await?;
        let v1::WatchJobRequest { job: asked, index } = request.into_inner();
        let asked = asked.unwrap_or_default();
        let view = gate::reached(&self.door.core, LogIndex(index)).await?;
        let reads = Reads::of(&view, &caller);
        let (job, tasks) = reads.find(&asked).map(|job| (job.id, job.spec.tasks))?;
        let holder = StreamHolder { user: &caller.user, asker: caller.asker(&view.cell) };
        drop(view);
        let thousands = usize::try_from(tasks / 1_000).unwrap_or(usize::MAX);
        let place = self.watchers.begin_as(holder, thousands.saturating_add(1))?;
        let stream =
            holding(place, job_watch::follow(self.door.core.watch(), job, caller.clone())?);
        Ok(self.door.while_accepted(caller, Response::new(stream)))
    }

    async fn why(&self, request: Request<v1::WhyRequest>) -> Answer<v1::WhyResponse> {
        let (by, asked) = (self.door.anyone(&request).await?, request.into_inner());
        if let Some(at) = asked.at {
            return self.door.past(&by, at, Question::Why(asked)).await;
        }
        let held = self.usage.held_of_tasks(&by, &asked).await?;
        self.door.read_much(&by, move |reads| reads.why(&asked, &held)).await
    }

    async fn queue(&self, request: Request<v1::QueueRequest>) -> Answer<v1::QueueResponse> {
        let (by, asked) = (self.door.anyone(&request).await?, request.into_inner());
        if let Some(at) = asked.at {
            return self.door.past(&by, at, Question::Queue(asked)).await;
        }
        self.door.read_much(&by, move |reads| reads.queue(&asked)).await
    }
}
