//! The service for updates of jobs and their plans.

use std::sync::Arc;

use api::v1;
use cell::{ControlUpdate, Reply, ResizeJob, SetLimits, UpdateJob};
use model::{JobName, Sequencer, TaskSelection, UserName};
use prost::Message as _;
use rpc::service::updates_server;
use spec::{CpuRam, JobSpec, UpdatePolicy};
use tonic::{Request, Status};

use crate::caller::tasks::{may_submit, may_touch};
use crate::reads::updates::UpdatePlanRequest;
use crate::reads::{Reads, job_address, selection};
use crate::service::door::{Door, split};
use crate::service::{Answer, malformed, submission};

/// The owner in a request: the caller unless it names one.
fn owner(user: &UserName, asked: &str) -> Result<UserName, Status> {
    match asked {
        "" => Ok(user.clone()),
        name => UserName::new(name).map_err(|error| Status::invalid_argument(error.to_string())),
    }
}

fn job_name(name: &str) -> Result<JobName, Status> {
    JobName::new(name).map_err(|error| Status::invalid_argument(error.to_string()))
}

fn policy(policy: Option<v1::UpdatePolicy>) -> Result<Option<UpdatePolicy>, Status> {
    policy.map(UpdatePolicy::try_from).transpose().map_err(|error| malformed(&error))
}

/// The selected tasks: all, if nothing is said.
pub(super) fn chosen_tasks(asked: Option<v1::TaskSelection>) -> Result<TaskSelection, Status> {
    asked.map_or(Ok(TaskSelection::All), |asked| selection(Some(asked)))
}

fn limit(asked: Option<v1::CpuRam>) -> Result<CpuRam, Status> {
    let limit = asked.ok_or_else(|| Status::invalid_argument("the limit is not given"))?;
    limit.try_into().map_err(|error| malformed(&error))
}

fn sequencer(text: &str) -> Result<Option<Sequencer>, Status> {
    let parsed = (!text.is_empty()).then(|| text.parse()).transpose();
    parsed.map_err(|error: model::SequencerError| Status::invalid_argument(error.to_string()))
}

fn no_change() -> Status {
    Status::invalid_argument("neither a description nor a number of tasks is given")
}

/// The service.
#[derive(Clone)]
pub(super) struct Updates {
    door: Door,
}

impl Updates {
    pub(super) fn new(door: Door) -> Self {
        Self { door }
    }
}

#[tonic::async_trait]
impl updates_server::Updates for Updates {
    async fn open(&self, request: Request<v1::UpdateRequest>) -> Answer<v1::UpdateResponse> {
        use v1::update_request::Change;

        let by = self.door.anyone(&request).await?;
        let bytes = request.get_ref().encoded_len();
        let (asked, asks) = split(request);
        let owner = owner(&by.user, &asked.user)?;
        let expected = asked.expected.map(model::Version);
        let mutation = match asked.change.ok_or_else(no_change)? {
            Change::Spec(spec) => {
                let spec = Arc::new(submission::description(Some(spec))?);
                self.door.own(&by, &asks, || {
                    may_submit(&by.user, &spec)?;
                    may_touch(&by.user, &owner, &spec.name)
                })?;
                let (tasks, policy) = (chosen_tasks(asked.tasks)?, policy(asked.policy)?);
                let owner = owner.clone();
                cell::Mutation::from(UpdateJob { owner, spec, tasks, policy, expected })
            }
            Change::Limits(limits) => {
                let job = job_name(&limits.job)?;
                self.door.own(&by, &asks, || may_touch(&by.user, &owner, &job))?;
                let set = SetLimits {
                    owner: owner.clone(),
                    job,
                    limit: limit(limits.limit)?,
                    reason: limits.reason,
                    expected,
                    sequencer: sequencer(&limits.sequencer)?,
                };
                set.into()
            }
            Change::Resize(resize) => {
                let job = job_name(&resize.job)?;
                self.door.own(&by, &asks, || may_touch(&by.user, &owner, &job))?;
                let (owner, tasks) = (owner.clone(), resize.tasks);
                ResizeJob { owner, job, tasks, expected }.into()
            }
        };
        let user = owner.to_string();
        self.door
            .change(asked.id, by, mutation, bytes, |index, reply| match reply {
                Reply::Updated { collection, version, unchanged, changes } => {
                    Some(v1::UpdateResponse {
                        index,
                        collection: collection.0,
                        user,
                        version: version.0,
                        unchanged: *unchanged,
                        changes: changes.iter().map(Into::into).collect(),
                    })
                }
                _ => None,
            })
            .await
    }

    async fn control(
        &self,
        request: Request<v1::ControlUpdateRequest>,
    ) -> Answer<v1::ControlUpdateResponse> {
        let by = self.door.anyone(&request).await?;
        let bytes = request.get_ref().encoded_len();
        let (asked, asks) = split(request);
        let (owner, job) = job_address(&by.user, &asked.job.unwrap_or_default())?;
        self.door.own(&by, &asks, || may_touch(&by.user, &owner, &job))?;
        let action = api::update_action(asked.action).map_err(|error| malformed(&error))?;
        let (user, expected) = (owner.to_string(), asked.expected.map(model::Version));
        let to = asked.to.map(model::Version);
        let control = ControlUpdate { owner, job, action, to, expected };
        self.door
            .change(asked.id, by, control, bytes, |index, reply| match reply {
                Reply::Updated { version, .. } => {
                    Some(v1::ControlUpdateResponse { index, user, version: version.0 })
                }
                _ => None,
            })
            .await
    }

    async fn plan(&self, request: Request<v1::PlanRequest>) -> Answer<v1::PlanResponse> {
        use v1::plan_request::Change;

        let by = self.door.anyone(&request).await?;
        let (asked, asks) = split(request);
        let owner = owner(&by.user, &asked.user)?;
        let (name, spec, size) = match asked.change.ok_or_else(no_change)? {
            Change::Spec(spec) => {
                let spec = submission::description(Some(spec))?;
                if spec.own_limit.is_some() {
                    let why = spec::AutoscaleProblem::OwnLimit;
                    return Err(Status::invalid_argument(format!("autoscale.own: {why}")));
                }
                (spec.name.clone(), Some(spec), 0)
            }
            Change::Resize(resize) => (job_name(&resize.job)?, None, resize.tasks),
        };
        self.door.own(&by, &asks, || may_touch(&by.user, &owner, &name))?;
        let mut tasks = chosen_tasks(asked.tasks)?;
        let policy = policy(asked.policy)?;
        let resize = spec.is_none();
        let spec = match spec {
            Some(spec) => spec,
            None => {
                let view = self.door.core.view();
                let address = v1::JobAddress { user: owner.to_string(), job: name.to_string() };
                let mut spec = JobSpec::clone(&Reads::of(&view, &by).find(&address)?.spec);
                spec.tasks = size;
                spec.overrides.retain(|index, _| index.0 < size);
                tasks = TaskSelection::Some(Vec::new());
                spec
            }
        };
        if let Some(problem) = spec.problems().first() {
            return Err(Status::invalid_argument(problem.to_string()));
        }
        let spec = Arc::new(spec);
        self.door
            .read_much(&by, move |reads| {
                Ok(reads.plan(UpdatePlanRequest { owner, spec, tasks, policy, resize }))
            })
            .await
    }
}
