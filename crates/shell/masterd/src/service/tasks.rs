//! Certificates for tasks, and what a task may not request.

use std::time::{Duration, UNIX_EPOCH};

use process::renewal::addresses;
use proto::v1;
use rpc::transport::Cause;
use rpc::{CLOCK_SKEW, Identity, SigningRequest, Validity};
use tonic::{Request, Response, Status};

use crate::caller::Caller;
use crate::caller::tasks::{Denied, certifiable, serial_of};
use crate::service::{Answer, Service, gate};

/// The maximum validity of a task's certificate.
const VALIDITY_MAX: Duration = Duration::from_secs(3_600);

/// A message, and the request without it.
pub(crate) fn split<T>(request: Request<T>) -> (T, Request<()>) {
    let (metadata, extensions, message) = request.into_parts();
    (message, Request::from_parts(metadata, extensions, ()))
}

impl Service {
    /// Rejects tasks in requests that need the user's own certificate.
    pub(crate) fn own(
        &self,
        by: &Caller,
        asked: &Request<()>,
        may: impl FnOnce() -> Result<(), String>,
    ) -> Result<(), Status> {
        if by.task.is_none() {
            return Ok(());
        }
        may().map_err(|why| rpc::transport::refuse(asked, Cause::WrongRole, why))
    }

    pub(crate) async fn certify_a_task(
        &self,
        request: Request<v1::CertifyTaskRequest>,
    ) -> Answer<v1::CertifyTaskResponse> {
        gate::led(&self.core).await?;
        let machine = self.machine(&request)?;
        let (v1::CertifyTaskRequest { signing_request, instance }, asked) = split(request);
        let invalid = |error: &dyn std::fmt::Display| Status::invalid_argument(error.to_string());
        let instance = instance.ok_or_else(|| invalid(&"no instance is given"))?.into();
        let key = SigningRequest::from_pem(&signing_request).map_err(|error| invalid(&error))?;
        let mut view = self.core.view();
        // It may have been placed a moment ago, and this replica may not know it yet.
        if certifiable(&view.cell, &machine, instance).is_err() {
            view = gate::newest(&self.core).await?;
        }
        let job = certifiable(&view.cell, &machine, instance)
            .map_err(|Denied { cause, why }| rpc::transport::refuse(&asked, cause, why))?;
        let (user, job) = (job.owner.to_string(), job.spec.name.to_string());
        let identity = Identity::Task { user, job, index: instance.index.0 };
        let issued = view.now();
        let from = UNIX_EPOCH + Duration::from_micros(issued.0);
        let until = from + self.validity.min(VALIDITY_MAX);
        let validity = Validity { from: from - CLOCK_SKEW, until };
        let serial = serial_of(instance, issued);
        let certificate = self.authority.certify(&key, &identity, validity, &serial.0);
        let certificate = certificate.map_err(|error| Status::internal(error.to_string()))?;
        let expires = until.duration_since(UNIX_EPOCH).unwrap_or_default();
        Ok(Response::new(v1::CertifyTaskResponse {
            certificate,
            expires: u64::try_from(expires.as_micros()).unwrap_or(u64::MAX),
            masters: addresses(&view.cell),
        }))
    }
}
