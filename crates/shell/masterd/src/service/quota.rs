//! The service for quota.

use std::collections::BTreeSet;

use api::v1;
use api::v1::change_quota_request::Change;
use api::v1::past_question::Question;
use cell::{Cell, Grant, Mutation, Reply, Shortfall, Total};
use model::{Band, GrantId, Time, UserName};
use prost::Message as _;
use rpc::service::quota_server;
use spec::JobSpec;
use tonic::{Request, Status};

use crate::reads::Reads;
use crate::service::door::Door;
use crate::service::{Answer, malformed};

/// The maximum number of jobs that can be checked at once.
const JOBS_MAX: usize = 10_000;

/// The service.
#[derive(Clone)]
pub(super) struct Quota {
    door: Door,
}

impl Quota {
    pub(super) fn new(door: Door) -> Self {
        Self { door }
    }
}

#[tonic::async_trait]
impl quota_server::Quota for Quota {
    async fn change(
        &self,
        request: Request<v1::ChangeQuotaRequest>,
    ) -> Answer<v1::ChangeQuotaResponse> {
        use formats::v1::op::request::Mutation as Message;

        let by = self.door.caller(&request)?;
        let asked = request.into_inner();
        let bytes = asked.encoded_len();
        let change = asked.change.ok_or_else(|| Status::invalid_argument("no change is given"))?;
        let message = match change {
            Change::Grant(grant) => Message::GrantQuota(grant),
            Change::Revoke(grant) => Message::RevokeQuota(grant),
            Change::Oversell(oversell) => Message::Oversell(oversell),
            Change::Meter(on) => Message::MeterQuota(on),
        };
        let mutation = Mutation::try_from(message).map_err(|error| malformed(&error))?;
        self.door
            .change(asked.id, by, mutation, bytes, |index, reply| match reply {
                Reply::Granted(grant) => Some(v1::ChangeQuotaResponse { index, grant: grant.0 }),
                Reply::Done => Some(v1::ChangeQuotaResponse { index, grant: 0 }),
                _ => None,
            })
            .await
    }

    async fn get(&self, request: Request<v1::QuotaRequest>) -> Answer<v1::QuotaResponse> {
        let (by, asked) = (self.door.anyone(&request).await?, request.into_inner());
        if let Some(at) = asked.at {
            return self.door.past(&by, at, Question::Quota(asked)).await;
        }
        self.door.read(&by, |reads| reads.quota(&asked))
    }

    async fn check(
        &self,
        request: Request<v1::CheckQuotaRequest>,
    ) -> Answer<v1::CheckQuotaResponse> {
        let (by, asked) = (self.door.anyone(&request).await?, request.into_inner());
        self.door.read(&by, |reads| reads.check_quota(asked))
    }
}

impl Reads<'_> {
    pub(crate) fn quota(&self, asked: &v1::QuotaRequest) -> Result<v1::QuotaResponse, Status> {
        let cell = self.cell;
        let only = match asked.user.as_str() {
            "" => None,
            user => Some(
                UserName::new(user).map_err(|error| Status::invalid_argument(error.to_string()))?,
            ),
        };
        let wanted = |user: &UserName| only.as_ref().is_none_or(|only| only == user);
        let lasting = |grant: &Grant| grant.until.is_none_or(|until| until > self.now);
        let grants: Vec<&Grant> = cell.grants().map(AsRef::as_ref).collect();
        let grants = grants.into_iter().filter(|grant| wanted(&grant.user) && lasting(grant));
        let mut whose: BTreeSet<(UserName, Band)> =
            grants.clone().map(|grant| (grant.user.clone(), grant.band)).collect();
        let charged = cell.charges().filter(|(user, ..)| wanted(user));
        whose.extend(charged.map(|(user, band, _)| (user.clone(), band)));
        Ok(v1::QuotaResponse {
            index: cell.index().0,
            time: self.now.0,
            metered: cell.metering().on,
            capacity: Some((&cell.capacity().resources()).into()),
            bands: [Band::BestEffortBatch, Band::Mid, Band::Production]
                .map(|band| self.band_quota(band))
                .into(),
            users: whose.iter().map(|(user, band)| self.user_quota(user, *band)).collect(),
            grants: grants.map(Into::into).collect(),
            ever_granted: cell.last_grant() != GrantId(0),
        })
    }

    fn band_quota(&self, band: Band) -> v1::BandQuota {
        let percent = self.cell.metering().percent(band);
        let allowed = self.cell.capacity().percent(percent);
        let granted = self.cell.most_granted(band);
        v1::BandQuota {
            band: v1::Band::from(band).into(),
            percent,
            allowed: wire(allowed),
            granted: wire(granted),
            oversold: wire(granted.minus(allowed)),
        }
    }

    fn user_quota(&self, user: &UserName, band: Band) -> v1::UserQuota {
        let (granted, charged) =
            (self.cell.granted(user, band, self.now), self.cell.charged(user, band));
        let ends = next_end(self.cell, user, band, self.now);
        let then = ends.map_or(granted, |ends| self.cell.granted(user, band, ends));
        v1::UserQuota {
            user: user.to_string(),
            band: v1::Band::from(band).into(),
            granted: wire(granted),
            charged: wire(charged),
            left: wire(granted.minus(charged)),
            ends: ends.map_or(0, |ends| ends.0),
            granted_then: wire(then),
            above_then: wire(charged.minus(then)),
        }
    }

    pub(crate) fn check_quota(
        &self,
        asked: v1::CheckQuotaRequest,
    ) -> Result<v1::CheckQuotaResponse, Status> {
        if asked.jobs.len() > JOBS_MAX {
            let text = format!("at most {JOBS_MAX} jobs can be checked at once");
            return Err(Status::invalid_argument(text));
        }
        let jobs = asked.jobs.into_iter().map(JobSpec::try_from).collect::<Result<Vec<_>, _>>();
        let jobs = jobs.map_err(|error| malformed(&error))?;
        if let Some(problem) = jobs.iter().find_map(|job| job.problems().into_iter().next()) {
            return Err(Status::invalid_argument(problem.to_string()));
        }
        let verdicts = self.cell.all_within_quota(self.me, &jobs, self.now);
        let said = |short: &Shortfall| {
            diagnostics::insufficient_quota(short, Some(&self.cell.grantable(short.band)))
        };
        let verdict = |(job, verdict): (&JobSpec, Result<(), Box<Shortfall>>)| v1::QuotaVerdict {
            job: job.name.to_string(),
            band: v1::Band::from(job.priority.band()).into(),
            asked: Some((&job.total()).into()),
            refused: verdict.err().map(|short| said(&short)).unwrap_or_default(),
        };
        Ok(v1::CheckQuotaResponse {
            index: self.cell.index().0,
            metered: self.cell.metering().on,
            jobs: jobs.iter().zip(verdicts).map(verdict).collect(),
        })
    }
}

fn wire(total: Total) -> Option<v1::Resources> {
    Some((&total.resources()).into())
}

/// When the first of the present grants ends.
fn next_end(cell: &Cell, user: &UserName, band: Band, now: Time) -> Option<Time> {
    let running = cell.grants_of(user, band).filter(|grant| grant.runs(now));
    running.filter_map(|grant| grant.until).min()
}
