//! The master's API for users and tools. Reads are answered from the newest view, with its index;
//! mutations go through the core and are answered when they are committed.

mod checkpoint_download;
mod dispatch;
mod enrolment;
mod event_digests;
mod event_transfer;
pub(crate) mod event_watch;
mod exec;
mod forget;
mod forwarding;
mod gate;
mod health;
mod holding;
mod job_watch;
pub(crate) mod limits;
mod locks;
mod log_settings;
mod logs;
mod machines;
pub(crate) mod names;
mod notice_max;
mod quota;
mod read;
mod reclamation;
mod replicas;
pub(crate) mod replication;
mod rescheduling;
mod routes;
mod scheduling;
mod scrape;
mod scrape_usage;
mod service_discovery;
mod service_endpoints;
mod services;
mod sigma;
mod submission;
mod summary;
mod task_metrics;
mod tasks;
#[cfg(test)]
mod test_services;
mod updates;
mod usage;
mod usage_history;
mod users;

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use cell::{AddMachine, Kill, Mutation, Outcome, Reply};
use model::{LogIndex, MachineId, MachineName, UserName};
use prometheus_client::registry::Registry;
use prost::Message as _;
use proto::v1;
use proto::v1::past_question::Question;
use rpc::service::borgmaster_server::Borgmaster;
use rpc::transport::{Cause, Limiter, Refusals, Turns};
use rpc::{Authority, Identity};
use tokio_stream::Stream;
use tonic::{Request, Response, Status, Streaming};

use self::event_watch::EventSource;
use self::summary::Summary;
use self::tasks::split;
use crate::caller::tasks::{may_submit, may_touch};
use crate::handle::Core;
use crate::metrics::{Metrics, Requests};
use crate::past::Past;
use crate::reads::rejections::rejected;
use crate::reads::{Reads, few, job_address, selection};
use crate::streams::Streams;
use crate::usage_history::UsageHistory;
use crate::{agents, peers, request};
use holding::holding;

/// The services of a master.
#[derive(Clone)]
pub(crate) struct Service {
    pub(super) core: Core,
    pub(super) peers: peers::Handle,
    pub(super) agents: agents::Handle,
    pub(super) cell: String,
    pub(super) past: Past,
    pub(super) events: EventSource,
    watchers: Streams,
    file_watchers: Streams,
    log_readers: Streams,
    log_readers_there: Limiter<(MachineId, UserName)>,
    metrics_readers: Streams,
    commands: Streams,
    name_watches: Streams,
    pub(super) health_watchers: Limiter<Identity>,
    pub(super) authority: Arc<Authority>,
    /// The validity of certificates for machines and schedulers.
    pub(super) validity: Duration,
    pub(super) metrics: Arc<Metrics>,
    pub(super) requests: Arc<Requests>,
    pub(super) registry: Arc<Registry>,
    /// Who is signed in to Sigma, if it is served here.
    pub(super) sigma: Option<::sigma::Sessions>,
    summary: Summary,
    usage_history: Arc<UsageHistory>,
    /// What users share of this replica.
    limits: Arc<[Streams]>,
    /// The clients with a pending read that may be as large as the cell.
    askers: Streams,
    /// Answers as large as the cell; the cell itself (`None`) makes some, too.
    much: Turns<Option<UserName>>,
}

pub(super) type Answer<T> = Result<Response<T>, Status>;
pub(super) type Streamed<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

/// The maximum number of streams of its health, in all and per client.
const HEALTH_WATCHERS_MAX: usize = 256;
const HEALTH_WATCHERS_OF_ONE: usize = 16;
/// The minimum size in bytes that a request counts for: with its message goes its caller's data.
pub(super) const SMALL_BYTES: usize = 256;
/// The maximum number of answers as large as the cell that are made at once, one for each user.
const MUCH_AT_ONCE: usize = 2;
/// The maximum number of such answers that are made or wait for their turn, shared by users.
const ASKERS_MAX: usize = 1_024;
/// A job with this many tasks is handled outside the threads that serve.
const TASKS_BESIDE: u32 = 1_000;
/// The maximum number of stream messages that wait for a slow reader.
pub(super) const STREAM_QUEUE: usize = 64;
/// The maximum number of watched jobs, shared by users: each `bourg run` watches one. A job counts once
/// more for each thousand tasks.
const WATCHERS_MAX: usize = 2_048;
/// The maximum number of watches of files and locks, shared by users: each `bourg lock with` that waits
/// has one. A watch of many files counts once more for each thousand.
const FILE_WATCHERS_MAX: usize = 8_192;
/// The maximum number of task logs that are read at once, shared by users.
const LOG_READERS_MAX: usize = 8_192;
/// The maximum number of task logs that one user reads at once on one machine: the connection to it has
/// room for 1,024.
const LOG_READERS_OF_ONE_THERE: usize = 256;

impl Service {
    pub(super) fn new(
        core: Core,
        (agents, peers): (agents::Handle, peers::Handle),
        (authority, validity): (Arc<Authority>, Duration),
        past: Past,
        events: EventSource,
        refusals: Refusals,
        (metrics, task_metrics, dns): (Arc<Metrics>, bool, Option<Arc<nameserver::Metrics>>),
    ) -> Self {
        let cell = authority.cell().to_owned();
        let requests = routes::requests();
        let watchers = Streams::new("watch-jobs", WATCHERS_MAX);
        let file_watchers = Streams::new("watch-files", FILE_WATCHERS_MAX);
        let log_readers = Streams::new("read-logs", LOG_READERS_MAX);
        let (metrics_readers, commands) = (task_metrics::readers(), exec::commands());
        let name_watches = names::watches();
        let askers = Streams::new("ask-for-much-of-the-cell", ASKERS_MAX);
        let limits: Arc<[Streams]> = [
            &watchers,
            &file_watchers,
            &log_readers,
            &metrics_readers,
            &commands,
            &name_watches,
            &askers,
            events.followers(),
            events.readers(),
            past.waiting(),
        ]
        .map(Streams::clone)
        .into();
        let registry = Arc::new(scrape::registry(
            Arc::clone(&metrics),
            core.clone(),
            refusals,
            Arc::clone(&requests),
            (Arc::clone(agents.usage()), task_metrics),
            (dns, Arc::clone(&limits)),
        ));
        Self {
            core,
            peers,
            agents,
            cell,
            past,
            events,
            watchers,
            file_watchers,
            log_readers,
            log_readers_there: Limiter::new(LOG_READERS_MAX, LOG_READERS_OF_ONE_THERE),
            metrics_readers,
            commands,
            name_watches,
            health_watchers: Limiter::new(HEALTH_WATCHERS_MAX, HEALTH_WATCHERS_OF_ONE),
            authority,
            validity,
            metrics,
            requests,
            registry,
            sigma: None,
            summary: Summary::default(),
            usage_history: Arc::default(),
            limits,
            askers,
            much: Turns::new(MUCH_AT_ONCE),
        }
    }

    pub(super) fn scheduler<T>(&self, request: &Request<T>) -> Result<String, Status> {
        match rpc::transport::peer_identity(request, &self.cell)? {
            Identity::Scheduler(name) => Ok(name),
            other => {
                let why = format!("{other} is not a scheduler");
                Err(rpc::transport::refuse(request, Cause::WrongRole, why))
            }
        }
    }
}

pub(super) fn unexpected(outcome: &impl std::fmt::Debug) -> Status {
    Status::internal(format!("unexpected outcome {outcome:?}"))
}

pub(super) fn malformed(error: &proto::Malformed) -> Status {
    Status::invalid_argument(error.to_string())
}

#[tonic::async_trait]
impl Borgmaster for Service {
    type WatchJobStream = Streamed<v1::StatusResponse>;
    type WatchFilesStream = Streamed<v1::FilesResponse>;
    type EventsStream = Streamed<v1::EventsResponse>;
    type LogsStream = Streamed<v1::LogChunk>;
    type ExecStream = Streamed<v1::ExecOutput>;
    type TaskMetricsStream = Streamed<v1::MetricsChunk>;
    type SaveCheckpointStream = Streamed<v1::SaveCheckpointResponse>;

    async fn open_session(
        &self,
        request: Request<v1::OpenSessionRequest>,
    ) -> Answer<v1::OpenSessionResponse> {
        let by = self.anyone(&request).await?;
        match self.ask(request::Request::OpenSession(by), SMALL_BYTES).await?.1 {
            Outcome::Request(Ok(Reply::Session(session))) => {
                Ok(Response::new(v1::OpenSessionResponse { session: session.0 }))
            }
            Outcome::Request(Err(rejection)) => Err(rejected(&self.core.view().cell, &rejection)),
            other => Err(unexpected(&other)),
        }
    }

    async fn submit(&self, request: Request<v1::SubmitRequest>) -> Answer<v1::SubmitResponse> {
        let by = self.anyone(&request).await?;
        let user = by.user.clone();
        let bytes = request.get_ref().encoded_len();
        let (v1::SubmitRequest { id, spec }, asked) = split(request);
        let spec = spec.ok_or_else(|| Status::invalid_argument("no job description"))?;
        let spec: spec::JobSpec = spec.try_into().map_err(|error| malformed(&error))?;
        self.own(&by, &asked, || may_submit(&user, &spec))?;
        let mutation = Mutation::Submit(Arc::new(spec));
        self.change((id, by, bytes), mutation, |index, reply| {
            submission::answer(index, &user, reply)
        })
        .await
    }

    async fn update(&self, request: Request<v1::UpdateRequest>) -> Answer<v1::UpdateResponse> {
        Box::pin(self.update_a_job(request)).await
    }

    async fn control_update(
        &self,
        request: Request<v1::ControlUpdateRequest>,
    ) -> Answer<v1::ControlUpdateResponse> {
        self.control_an_update(request).await
    }

    async fn plan(&self, request: Request<v1::PlanRequest>) -> Answer<v1::PlanResponse> {
        self.plan_a_job(request).await
    }

    async fn plan_drain(
        &self,
        request: Request<v1::PlanDrainRequest>,
    ) -> Answer<v1::PlanDrainResponse> {
        self.plan_a_drain(request).await
    }

    async fn kill(&self, request: Request<v1::KillRequest>) -> Answer<v1::KillResponse> {
        let by = self.anyone(&request).await?;
        let bytes = request.get_ref().encoded_len();
        let (v1::KillRequest { id, job, tasks, now }, asked) = split(request);
        let tasks = selection(tasks)?;
        let (owner, job) = job_address(&by.user, &job.unwrap_or_default())?;
        self.own(&by, &asked, || may_touch(&by.user, &owner, &job))?;
        let user = owner.to_string();
        let kill = Kill { owner, job, tasks, now };
        self.change((id, by, bytes), kill, |index, reply| match reply {
            Reply::Killed { tasks: killed, .. } => {
                Some(v1::KillResponse { index, killed: *killed, user })
            }
            _ => None,
        })
        .await
    }

    async fn forget(&self, request: Request<v1::ForgetRequest>) -> Answer<v1::ForgetResponse> {
        self.forget_a_job(request).await
    }

    async fn restart(&self, request: Request<v1::RestartRequest>) -> Answer<v1::RestartResponse> {
        self.restart_a_job(request).await
    }

    async fn add_machine(
        &self,
        request: Request<v1::AddMachineRequest>,
    ) -> Answer<v1::AddMachineResponse> {
        let by = self.caller(&request)?;
        let bytes = request.get_ref().encoded_len();
        let v1::AddMachineRequest { id, name, address } = request.into_inner();
        let name =
            MachineName::new(&name).map_err(|error| Status::invalid_argument(error.to_string()))?;
        let mutation = AddMachine { name, address };
        self.change((id, by, bytes), mutation, |index, reply| match reply {
            Reply::MachineAdded(id) => Some(v1::AddMachineResponse { index, machine: id.0 }),
            _ => None,
        })
        .await
    }

    async fn change_machine(
        &self,
        request: Request<v1::ChangeMachineRequest>,
    ) -> Answer<v1::ChangeMachineResponse> {
        let by = self.caller(&request)?;
        self.change_a_machine(by, request.into_inner()).await
    }

    async fn set_platform(
        &self,
        request: Request<v1::SetPlatformRequest>,
    ) -> Answer<v1::SetPlatformResponse> {
        let by = self.caller(&request)?;
        self.set_a_platform(by, request.into_inner()).await
    }

    async fn set_reclamation(
        &self,
        request: Request<v1::SetReclamationRequest>,
    ) -> Answer<v1::SetReclamationResponse> {
        let by = self.caller(&request)?;
        self.set_the_reclamation(by, request.into_inner()).await
    }

    async fn set_notice_max(
        &self,
        request: Request<v1::SetNoticeMaxRequest>,
    ) -> Answer<v1::SetNoticeMaxResponse> {
        let by = self.caller(&request)?;
        self.set_the_notice_max(by, request.into_inner()).await
    }

    async fn set_logs(&self, request: Request<v1::SetLogsRequest>) -> Answer<v1::SetLogsResponse> {
        let by = self.caller(&request)?;
        self.set_log_settings(by, request.into_inner()).await
    }

    async fn change_locks(
        &self,
        request: Request<v1::ChangeLocksRequest>,
    ) -> Answer<v1::ChangeLocksResponse> {
        self.change_locks_or_files(request).await
    }

    async fn files(&self, request: Request<v1::FilesRequest>) -> Answer<v1::FilesResponse> {
        self.read_files(request).await
    }

    async fn watch_files(
        &self,
        request: Request<v1::WatchFilesRequest>,
    ) -> Answer<Self::WatchFilesStream> {
        self.watch_some_files(request).await
    }

    async fn set_service(
        &self,
        request: Request<v1::SetServiceRequest>,
    ) -> Answer<v1::SetServiceResponse> {
        let by = self.caller(&request)?;
        self.set_a_service(by, request.into_inner()).await
    }

    async fn delete_service(
        &self,
        request: Request<v1::DeleteServiceRequest>,
    ) -> Answer<v1::DeleteServiceResponse> {
        let by = self.caller(&request)?;
        self.delete_a_service(by, request.into_inner()).await
    }

    async fn services(
        &self,
        request: Request<v1::ServicesRequest>,
    ) -> Answer<v1::ServicesResponse> {
        let by = self.anyone(&request).await?;
        self.read_services(by, request.into_inner()).await
    }

    async fn resume_rescheduling(
        &self,
        request: Request<v1::ResumeReschedulingRequest>,
    ) -> Answer<v1::ResumeReschedulingResponse> {
        let by = self.caller(&request)?;
        self.resume(by, request.into_inner()).await
    }

    async fn add_user(&self, request: Request<v1::AddUserRequest>) -> Answer<v1::AddUserResponse> {
        let by = self.caller(&request)?;
        self.add_a_user(by, request.into_inner()).await
    }

    async fn revoke_user(
        &self,
        request: Request<v1::RevokeUserRequest>,
    ) -> Answer<v1::RevokeUserResponse> {
        let by = self.caller(&request)?;
        self.revoke_a_user(by, request.into_inner()).await
    }

    async fn issue_token(
        &self,
        request: Request<v1::IssueTokenRequest>,
    ) -> Answer<v1::IssueTokenResponse> {
        let by = self.caller(&request)?;
        self.issue_a_token(by, request.into_inner()).await
    }

    async fn revoke_machine(
        &self,
        request: Request<v1::RevokeMachineRequest>,
    ) -> Answer<v1::RevokeMachineResponse> {
        let by = self.caller(&request)?;
        self.revoke_a_machine(by, request.into_inner()).await
    }

    async fn change_replicas(
        &self,
        request: Request<v1::ChangeReplicasRequest>,
    ) -> Answer<v1::ChangeReplicasResponse> {
        let by = self.caller(&request)?;
        self.change_the_replicas(by, request.into_inner()).await
    }

    async fn transfer_leader(
        &self,
        request: Request<v1::TransferLeaderRequest>,
    ) -> Answer<v1::TransferLeaderResponse> {
        let by = self.caller(&request)?;
        self.transfer(&by, request.into_inner().to).await
    }

    async fn issue_sigma_link(
        &self,
        request: Request<v1::IssueSigmaLinkRequest>,
    ) -> Answer<v1::IssueSigmaLinkResponse> {
        self.issue_a_sigma_link(&request)
    }

    async fn replicas(
        &self,
        request: Request<v1::ReplicasRequest>,
    ) -> Answer<v1::ReplicasResponse> {
        self.anyone(&request).await?;
        self.the_replicas().await
    }

    async fn users(&self, request: Request<v1::UsersRequest>) -> Answer<v1::UsersResponse> {
        let (by, asked) = (self.anyone(&request).await?, request.into_inner());
        if let Some(at) = asked.at {
            return self.past(&by, at, Question::Users(asked)).await;
        }
        self.read(&by, |reads| Ok(reads.users()))
    }

    async fn change_quota(
        &self,
        request: Request<v1::ChangeQuotaRequest>,
    ) -> Answer<v1::ChangeQuotaResponse> {
        let by = self.caller(&request)?;
        self.change_the_quota(by, request.into_inner()).await
    }

    async fn change_capability(
        &self,
        request: Request<v1::ChangeCapabilityRequest>,
    ) -> Answer<v1::ChangeCapabilityResponse> {
        let by = self.caller(&request)?;
        self.change_a_capability(by, request.into_inner()).await
    }

    async fn quota(&self, request: Request<v1::QuotaRequest>) -> Answer<v1::QuotaResponse> {
        let (by, asked) = (self.anyone(&request).await?, request.into_inner());
        if let Some(at) = asked.at {
            return self.past(&by, at, Question::Quota(asked)).await;
        }
        self.read(&by, |reads| reads.quota(&asked))
    }

    async fn check_quota(
        &self,
        request: Request<v1::CheckQuotaRequest>,
    ) -> Answer<v1::CheckQuotaResponse> {
        let (by, asked) = (self.anyone(&request).await?, request.into_inner());
        self.read(&by, |reads| reads.check_quota(asked))
    }

    async fn capabilities(
        &self,
        request: Request<v1::CapabilitiesRequest>,
    ) -> Answer<v1::CapabilitiesResponse> {
        let (by, asked) = (self.anyone(&request).await?, request.into_inner());
        if let Some(at) = asked.at {
            return self.past(&by, at, Question::Capabilities(asked)).await;
        }
        self.read(&by, |reads| Ok(reads.capabilities(&asked)))
    }

    async fn limits(&self, request: Request<v1::LimitsRequest>) -> Answer<v1::LimitsResponse> {
        let by = self.anyone(&request).await?;
        let view = self.core.view();
        Ok(Response::new(limits::answer(&limits::used(&view.cell, &self.limits), &view.cell, &by)))
    }

    async fn platforms(
        &self,
        request: Request<v1::PlatformsRequest>,
    ) -> Answer<v1::PlatformsResponse> {
        let by = self.anyone(&request).await?;
        self.read(&by, |reads| Ok(reads.platforms()))
    }

    async fn status(&self, request: Request<v1::StatusRequest>) -> Answer<v1::StatusResponse> {
        let (by, asked) = (self.anyone(&request).await?, request.into_inner());
        few("jobs", asked.jobs.len())?;
        if let Some(at) = asked.at {
            return self.past(&by, at, Question::Status(asked)).await;
        }
        let is_small = match asked.jobs.as_slice() {
            [job] => {
                let view = self.core.view();
                Reads::of(&view, &by).find(job)?.spec.tasks <= TASKS_BESIDE
            }
            _ => false,
        };
        match is_small {
            true => self.read(&by, |reads| reads.status(&asked)),
            false => self.read_much(&by, move |reads| reads.status(&asked)).await,
        }
    }

    async fn watch_job(
        &self,
        request: Request<v1::WatchJobRequest>,
    ) -> Answer<Self::WatchJobStream> {
        let caller = self.anyone(&request).await?;
        let v1::WatchJobRequest { job: asked, index } = request.into_inner();
        let asked = asked.unwrap_or_default();
        let view = gate::reached(&self.core, LogIndex(index)).await?;
        let reads = Reads::of(&view, &caller);
        let (job, tasks) = reads.find(&asked).map(|job| (job.id, job.spec.tasks))?;
        let holder = (&caller.user, caller.asker(&view.cell));
        drop(view);
        let thousands = usize::try_from(tasks / 1_000).unwrap_or(usize::MAX);
        let place = self.watchers.begin_as(holder, thousands.saturating_add(1))?;
        let stream = holding(place, job_watch::follow(self.core.watch(), job, caller.clone())?);
        Ok(self.while_accepted(caller, Response::new(stream)))
    }

    async fn why(&self, request: Request<v1::WhyRequest>) -> Answer<v1::WhyResponse> {
        let (by, asked) = (self.anyone(&request).await?, request.into_inner());
        if let Some(at) = asked.at {
            return self.past(&by, at, Question::Why(asked)).await;
        }
        self.read_much(&by, move |reads| reads.why(&asked)).await
    }

    async fn machines(
        &self,
        request: Request<v1::MachinesRequest>,
    ) -> Answer<v1::MachinesResponse> {
        let (by, asked) = (self.anyone(&request).await?, request.into_inner());
        few("machines", asked.names.len())?;
        if let Some(at) = asked.at {
            return self.past(&by, at, Question::Machines(asked)).await;
        }
        let mut answer = match asked.names.as_slice() {
            [_] => self.read(&by, |reads| reads.machines(&asked))?,
            _ => self.read_much(&by, move |reads| reads.machines(&asked)).await?,
        };
        self.tell_of_links(&mut answer.get_mut().machines).await;
        Ok(answer)
    }

    async fn cell_status(
        &self,
        request: Request<v1::CellStatusRequest>,
    ) -> Answer<v1::CellStatusResponse> {
        let (by, asked) = (self.anyone(&request).await?, request.into_inner());
        if let Some(at) = asked.at {
            return self.past(&by, at, Question::Cell(asked)).await;
        }
        let (asked_at, core, asker) =
            (self.core.view().cell.index(), self.core.clone(), by.clone());
        let make = move || {
            let view = core.view();
            Reads::of(&view, &asker).cell_status(asked.state_hash)
        };
        let answer = match asked.state_hash {
            true => self.summary.since(asked_at, make).await?,
            false => make(),
        };
        // The rest changes without operations, or depends on the caller.
        let view = self.core.view();
        let is_newest = view.cell.index().0 == answer.index;
        Ok(Response::new(v1::CellStatusResponse {
            time: if is_newest { view.now().0 } else { answer.time },
            schedulers: u32::try_from(view.followers).unwrap_or(u32::MAX),
            term: view.term.0,
            violations: view.violations,
            machines_heard: view.machines_heard,
            user: by.user.to_string(),
            ..answer
        }))
    }

    async fn events(&self, request: Request<v1::EventsRequest>) -> Answer<Self::EventsStream> {
        let (caller, asked) = (self.anyone(&request).await?, request.into_inner());
        let stream = self.follow_events(&caller, &asked)?;
        Ok(self.while_accepted(caller, stream))
    }

    async fn save_checkpoint(
        &self,
        request: Request<v1::SaveCheckpointRequest>,
    ) -> Answer<Self::SaveCheckpointStream> {
        let (caller, asked) = (self.caller(&request)?, request.into_inner());
        let stream = self.save(&caller.user, asked).await?;
        Ok(self.while_accepted(caller, stream))
    }

    async fn usage(&self, request: Request<v1::UsageRequest>) -> Answer<v1::UsageResponse> {
        let (by, asked) = (self.anyone(&request).await?, request.into_inner());
        self.the_usage(by, asked).await
    }

    async fn task_metrics(
        &self,
        request: Request<v1::TaskMetricsRequest>,
    ) -> Answer<Self::TaskMetricsStream> {
        self.relay_task_metrics(request).await
    }

    async fn exec(&self, request: Request<Streaming<v1::ExecRequest>>) -> Answer<Self::ExecStream> {
        self.exec_in_a_task(request).await
    }

    async fn logs(&self, request: Request<v1::LogsRequest>) -> Answer<Self::LogsStream> {
        self.relay_logs(request).await
    }
}
