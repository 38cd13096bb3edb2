//! Certificates for tasks.

use std::time::{Duration, UNIX_EPOCH};

use api::v1;
use process::renewal::addresses;
use rpc::{CLOCK_SKEW, Identity, SigningRequest, Validity};
use tonic::{Request, Response, Status};

use crate::caller::tasks::{Denied, certifiable, serial_of};
use crate::service::door::{Door, split};
use crate::service::issuer::Issuer;
use crate::service::{Answer, gate};

/// The maximum validity of a task's certificate.
const VALIDITY_MAX: Duration = Duration::from_secs(3_600);

/// Issues a certificate for a task to the machine on which it is placed.
pub(super) async fn issue(
    door: &Door,
    issuer: &Issuer,
    request: Request<v1::CertifyTaskRequest>,
) -> Answer<v1::CertifyTaskResponse> {
    gate::led(&door.core).await?;
    let machine = door.machine(&request)?;
    let (v1::CertifyTaskRequest { signing_request, instance }, asked) = split(request);
    let invalid = |error: &dyn std::fmt::Display| Status::invalid_argument(error.to_string());
    let instance = instance.ok_or_else(|| invalid(&"no instance is given"))?.into();
    let key = SigningRequest::from_pem(&signing_request).map_err(|error| invalid(&error))?;
    let mut view = door.core.view();
    // It may have been placed a moment ago, and this replica may not know it yet.
    if certifiable(&view.cell, &machine, instance).is_err() {
        view = gate::newest(&door.core).await?;
    }
    let job = certifiable(&view.cell, &machine, instance)
        .map_err(|Denied { cause, why }| rpc::transport::refuse(&asked, cause, why))?;
    let (user, job) = (job.owner.to_string(), job.spec.name.to_string());
    let identity = Identity::Task { user, job, index: instance.index.0 };
    let issued = view.now();
    let from = UNIX_EPOCH + Duration::from_micros(issued.0);
    let until = from + issuer.validity.min(VALIDITY_MAX);
    let validity = Validity { from: from - CLOCK_SKEW, until };
    let serial = serial_of(instance, issued);
    let certificate = issuer.authority.certify(&key, &identity, validity, &serial.0);
    let certificate = certificate.map_err(|error| Status::internal(error.to_string()))?;
    let expires = until.duration_since(UNIX_EPOCH).unwrap_or_default();
    Ok(Response::new(v1::CertifyTaskResponse {
        certificate,
        expires: u64::try_from(expires.as_micros()).unwrap_or(u64::MAX),
        masters: addresses(view.cell.member_addresses()),
    }))
}
