//! The service for the cell as a whole: sessions, its state, and its settings.

use std::sync::Arc;

use api::v1;
use api::v1::past_question::Question;
use cell::{
    MachineState, Mutation, Outcome, Reply, ResumeRescheduling, SetLogs, SetNoticeMax, SetPacking,
    SetQueuePolicy, SetQueueWeight, SetReclamation,
};
use model::{NotListed, PackingPolicy, Reclamation};
use prost::Message as _;
use rpc::service::cell_server;
use tonic::{Request, Response, Status};

use crate::reads::rejections::rejected;
use crate::reads::{Reads, problems};
use crate::request;
use crate::service::door::{Door, SMALL_BYTES};
use crate::service::summary::Summary;
use crate::service::{Answer, limits, unexpected};
use crate::streams::Streams;

/// The service.
#[derive(Clone)]
pub(super) struct WholeCell {
    door: Door,
    summary: Summary,
    /// What users share of this replica.
    limits: Arc<[Streams]>,
}

impl WholeCell {
    pub(super) fn new(door: Door, limits: Arc<[Streams]>) -> Self {
        Self { door, summary: Summary::default(), limits }
    }
}

impl Reads<'_> {
    fn queue_settings(&self) -> v1::QueueSettingsResponse {
        let weights = self.cell.all_share_weights();
        let weights =
            weights.map(|(user, weights)| api::queue_settings::user_weights(user, &weights));
        v1::QueueSettingsResponse {
            index: self.cell.index().0,
            settings: Some((&self.cell.queue_settings()).into()),
            weights: weights.collect(),
        }
    }
}

#[tonic::async_trait]
impl cell_server::Cell for WholeCell {
    async fn open_session(
        &self,
        request: Request<v1::OpenSessionRequest>,
    ) -> Answer<v1::OpenSessionResponse> {
        let by = self.door.anyone(&request).await?;
        match self.door.ask(request::Request::OpenSession(by), SMALL_BYTES).await?.1 {
            Outcome::Request(Ok(Reply::Session(session))) => {
                Ok(Response::new(v1::OpenSessionResponse { session: session.0 }))
            }
            Outcome::Request(Err(rejection)) => {
                Err(rejected(&self.door.core.view().cell, &rejection))
            }
            other => Err(unexpected(&other)),
        }
    }

    async fn status(
        &self,
        request: Request<v1::CellStatusRequest>,
    ) -> Answer<v1::CellStatusResponse> {
        let (by, asked) = (self.door.anyone(&request).await?, request.into_inner());
        if let Some(at) = asked.at {
            return self.door.past(&by, at, Question::Cell(asked)).await;
        }
        let (asked_at, core, asker) =
            (self.door.core.view().cell.index(), self.door.core.clone(), by.clone());
        let make = move || {
            let view = core.view();
            Reads::of(&view, &asker).cell_status(asked.state_hash)
        };
        let answer = match asked.state_hash {
            true => self.summary.since(asked_at, make).await?,
            false => make(),
        };
        // The rest changes without operations, or depends on the caller.
        let view = self.door.core.view();
        let (problems, problem_count) = match asked.state_hash {
            // They also come with time, and not with operations alone.
            true => {
                let all = |reads: &Reads<'_>| Ok(problems::problems(reads.cell, reads.now));
                self.door.read_much(&by, all).await?.into_inner()
            }
            false => Default::default(),
        };
        let is_newest = view.cell.index().0 == answer.index;
        Ok(Response::new(v1::CellStatusResponse {
            time: if is_newest { view.now().0 } else { answer.time },
            schedulers: u32::try_from(view.followers).unwrap_or(u32::MAX),
            term: view.term.0,
            violations: view.violations,
            machines_heard: view.machines_heard,
            user: by.user.to_string(),
            problems,
            problem_count,
            ..answer
        }))
    }

    async fn limits(&self, request: Request<v1::LimitsRequest>) -> Answer<v1::LimitsResponse> {
        let by = self.door.anyone(&request).await?;
        let view = self.door.core.view();
        Ok(Response::new(limits::answer(&limits::used(&view.cell, &self.limits), &view.cell, &by)))
    }

    async fn set_logs(&self, request: Request<v1::SetLogsRequest>) -> Answer<v1::SetLogsResponse> {
        let by = self.door.caller(&request)?;
        let asked = request.into_inner();
        let bytes = asked.encoded_len();
        let settings = asked.settings.ok_or_else(|| Status::invalid_argument("no settings"))?;
        let settings = settings.try_into().map_err(|error: api::Malformed| {
            Status::invalid_argument(format!("the settings cannot be used: {error}"))
        })?;
        self.door
            .change(asked.id, by, SetLogs(settings), bytes, |index, reply| match reply {
                Reply::Done => Some(v1::SetLogsResponse { index }),
                _ => None,
            })
            .await
    }

    async fn set_notice_max(
        &self,
        request: Request<v1::SetNoticeMaxRequest>,
    ) -> Answer<v1::SetNoticeMaxResponse> {
        let by = self.door.caller(&request)?;
        let asked = request.into_inner();
        let bytes = asked.encoded_len();
        let most =
            asked.notice_max.ok_or_else(|| Status::invalid_argument("no notice is given"))?;
        let most = api::span(&most).map_err(|error| {
            Status::invalid_argument(format!("the notice cannot be used: {error}"))
        })?;
        self.door
            .change(asked.id, by, SetNoticeMax(most), bytes, |index, reply| match reply {
                Reply::Done => Some(v1::SetNoticeMaxResponse { index }),
                _ => None,
            })
            .await
    }

    async fn queue_settings(
        &self,
        request: Request<v1::QueueSettingsRequest>,
    ) -> Answer<v1::QueueSettingsResponse> {
        let by = self.door.anyone(&request).await?;
        self.door.read(&by, |reads| Ok(reads.queue_settings()))
    }

    async fn set_queue_policy(
        &self,
        request: Request<v1::SetQueuePolicyRequest>,
    ) -> Answer<v1::SetQueuePolicyResponse> {
        let by = self.door.caller(&request)?;
        let asked = request.into_inner();
        let bytes = asked.encoded_len();
        let settings = asked.settings.ok_or_else(|| Status::invalid_argument("no settings"))?;
        let settings = settings.try_into().map_err(|error: api::Malformed| {
            Status::invalid_argument(format!("the settings cannot be used: {error}"))
        })?;
        self.door
            .change(asked.id, by, SetQueuePolicy(settings), bytes, |index, reply| match reply {
                Reply::Done => Some(v1::SetQueuePolicyResponse { index }),
                _ => None,
            })
            .await
    }

    async fn set_queue_weight(
        &self,
        request: Request<v1::SetQueueWeightRequest>,
    ) -> Answer<v1::SetQueueWeightResponse> {
        let by = self.door.caller(&request)?;
        let asked = request.into_inner();
        let bytes = asked.encoded_len();
        let weights = asked.weights.ok_or_else(|| Status::invalid_argument("no weights"))?;
        let (user, weights) = api::queue_settings::user_weights_of(&weights).map_err(|error| {
            Status::invalid_argument(format!("the weights cannot be used: {error}"))
        })?;
        let change = SetQueueWeight { user, weights };
        self.door
            .change(asked.id, by, change, bytes, |index, reply| match reply {
                Reply::Done => Some(v1::SetQueueWeightResponse { index }),
                _ => None,
            })
            .await
    }

    async fn set_reclamation(
        &self,
        request: Request<v1::SetReclamationRequest>,
    ) -> Answer<v1::SetReclamationResponse> {
        let by = self.door.caller(&request)?;
        let asked = request.into_inner();
        let bytes = asked.encoded_len();
        let bad = |error: NotListed| Status::invalid_argument(error.to_string());
        let setting: Reclamation = asked.setting.parse().map_err(bad)?;
        self.door
            .change(asked.id, by, SetReclamation(setting), bytes, |index, reply| match reply {
                Reply::Done => Some(v1::SetReclamationResponse { index }),
                _ => None,
            })
            .await
    }

    async fn set_packing(
        &self,
        request: Request<v1::SetPackingRequest>,
    ) -> Answer<v1::SetPackingResponse> {
        let by = self.door.caller(&request)?;
        let asked = request.into_inner();
        let bytes = asked.encoded_len();
        let bad = |error: NotListed| Status::invalid_argument(error.to_string());
        let policy: PackingPolicy = asked.policy.parse().map_err(bad)?;
        self.door
            .change(asked.id, by, SetPacking(policy), bytes, |index, reply| match reply {
                Reply::Done => Some(v1::SetPackingResponse { index }),
                _ => None,
            })
            .await
    }

    async fn resume_rescheduling(
        &self,
        request: Request<v1::ResumeReschedulingRequest>,
    ) -> Answer<v1::ResumeReschedulingResponse> {
        let by = self.door.caller(&request)?;
        let asked = request.into_inner();
        let bytes = asked.encoded_len();
        let (index, reply) = self
            .door
            .mutate(asked.id, by, Mutation::ResumeRescheduling(ResumeRescheduling), bytes)
            .await?;
        let Reply::Done = reply else { return Err(unexpected(&reply)) };
        let view = self.door.core.view();
        let (mut machines, mut tasks) = (0, 0);
        for machine in view.cell.machines() {
            if let MachineState::Unreachable { .. } = machine.state {
                machines += 1;
                tasks += machine.instances().len() as u64;
            }
        }
        Ok(Response::new(v1::ResumeReschedulingResponse { index: index.0, machines, tasks }))
    }
}
