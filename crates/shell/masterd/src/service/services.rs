//! The service for services: one name and one port for the tasks of several jobs.

use std::sync::Arc;

use api::v1;
use api::v1::past_question::Question;
use bns::{Changes, Match};
use cell::{DeleteService, Rejection, Reply, Service as CellService, SetService};
use model::{JobName, UserName};
use prost::Message as _;
use rpc::service::services_server;
use tonic::{Request, Response, Status};

use crate::names::Names;
use crate::reads::Reads;
use crate::reads::rejections::rejected;
use crate::service::door::Door;
use crate::service::{Answer, malformed, unexpected};

/// The owner and the name of a service; without an owner, the caller's.
fn named(me: &UserName, asked: &v1::ServiceName) -> Result<(UserName, JobName), Status> {
    let bad = |error: model::NameError| Status::invalid_argument(format!("the service: {error}"));
    let user = match asked.user.as_str() {
        "" => me.clone(),
        user => UserName::new(user).map_err(bad)?,
    };
    Ok((user, JobName::new(&asked.name).map_err(bad)?))
}

/// A service with the number of tasks behind it; with the jobs whose labels match, if asked.
fn status(names: Names<'_>, service: &CellService, with_jobs: bool) -> v1::ServiceStatus {
    let (mut count, mut serving) = (0, 0);
    for (_, task) in bns::service_tasks(names.cell, names.changes, service) {
        (count, serving) = (count + 1, serving + u32::from(task.serves()));
    }
    let jobs = with_jobs.then(|| bns::candidates(names.cell, service));
    let job = |(job, found): (&Arc<cell::Job>, Match)| v1::ServiceJob {
        user: job.owner.to_string(),
        job: job.spec.name.to_string(),
        behind: found == Match::Behind,
        why: match found {
            Match::Behind => String::new(),
            Match::NoPort => format!("none of its tasks has a port {}", service.port),
            Match::NotGranted => format!("the service does not name user {}", job.owner),
        },
    };
    let jobs = jobs.into_iter().flatten().map(job).collect();
    v1::ServiceStatus { service: Some(service.into()), tasks: count, serving, jobs }
}

/// The service for services.
#[derive(Clone)]
pub(super) struct Services {
    door: Door,
}

impl Services {
    pub(super) fn new(door: Door) -> Self {
        Self { door }
    }
}

#[tonic::async_trait]
impl services_server::Services for Services {
    async fn set(&self, request: Request<v1::SetServiceRequest>) -> Answer<v1::SetServiceResponse> {
        let by = self.door.caller(&request)?;
        let asked = request.into_inner();
        let bytes = asked.encoded_len();
        let mut service =
            asked.service.ok_or_else(|| Status::invalid_argument("no service is given"))?;
        if service.user.is_empty() {
            service.user = by.user.to_string();
        }
        let service: CellService = service.try_into().map_err(|error| malformed(&error))?;
        let set = v1::Service::from(&service);
        match self.door.mutate(asked.id, by, SetService(Arc::new(service)).into(), bytes).await? {
            (index, Reply::ServiceSet { before }) => Ok(Response::new(v1::SetServiceResponse {
                index: index.0,
                service: Some(set),
                before: before.as_deref().map(v1::Service::from),
            })),
            (_, other) => Err(unexpected(&other)),
        }
    }

    async fn delete(
        &self,
        request: Request<v1::DeleteServiceRequest>,
    ) -> Answer<v1::DeleteServiceResponse> {
        let by = self.door.caller(&request)?;
        let asked = request.into_inner();
        let bytes = asked.encoded_len();
        let (owner, name) = named(&by.user, &asked.service.unwrap_or_default())?;
        let user = owner.to_string();
        self.door
            .change(
                asked.id,
                by,
                DeleteService { owner, name },
                bytes,
                |index, reply| match reply {
                    Reply::Done => Some(v1::DeleteServiceResponse { index, user }),
                    _ => None,
                },
            )
            .await
    }

    async fn list(&self, request: Request<v1::ServicesRequest>) -> Answer<v1::ServicesResponse> {
        let (by, asked) = (self.door.anyone(&request).await?, request.into_inner());
        if let Some(at) = asked.at {
            return self.door.past(&by, at, Question::Services(asked)).await;
        }
        let me = by.user.clone();
        let core = self.door.core.clone();
        self.door.read_much(&by, move |_| found(core.view().names(), &me, asked)).await
    }
}

/// All services, or one with the jobs whose labels match.
fn found(
    names: Names<'_>,
    me: &UserName,
    asked: v1::ServicesRequest,
) -> Result<v1::ServicesResponse, Status> {
    let cell = names.cell;
    let services = match asked.service.map(|name| named(me, &name)).transpose()? {
        None => cell.services().map(|service| status(names, service, false)).collect(),
        Some((user, name)) => match cell.service(&user, &name) {
            Some(service) => vec![status(names, service, true)],
            None => return Err(rejected(cell, &Rejection::NoSuchService { user, name })),
        },
    };
    Ok(v1::ServicesResponse { index: cell.index().0, services })
}

impl Reads<'_> {
    /// The same of a cell that is not followed, such as one of the past.
    pub(crate) fn services(
        &self,
        asked: v1::ServicesRequest,
    ) -> Result<v1::ServicesResponse, Status> {
        let changes = Changes::of(self.cell);
        found(Names { cell: self.cell, changes: &changes }, self.me, asked)
    }
}
