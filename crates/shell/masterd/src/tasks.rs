//! Tasks that ask the cell they run in: which get a certificate, for how long it is accepted, and what
//! they may do with it (design, section 7).
//!
//! The cell records none of these certificates. The serial number of one says which life of which task
//! it was issued for, and it is accepted as long as that is placed. What a task changes is its user's
//! doing; what its user may do beyond what is their own, it may not.

use std::time::{Duration, UNIX_EPOCH};

use cell::{Cell, Job, TaskState};
use model::{
    CollectionId, Generation, InstanceId, JobName, MachineName, Serial, TaskIndex, Time, UserName,
};
use process::renewal::addresses;
use proto::v1;
use rpc::transport::Cause;
use rpc::{CLOCK_SKEW, Identity, SigningRequest, Validity};
use spec::JobSpec;
use tonic::{Request, Response, Status};

use super::gate;
use super::service::{Answer, Service};
use super::users::{Caller, revoked};

/// How long a task's certificate is valid at most.
const VALIDITY_MAX: Duration = Duration::from_secs(3_600);
/// The first byte of the serial number of a task's certificate.
const MARK: u8 = b'T';

/// Why somebody is not heard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Denied {
    /// As it is counted.
    pub(super) cause: Cause,
    /// In words.
    pub(super) why: String,
}

/// The serial number of a certificate that is issued to a life of a task at some moment: two of one life
/// differ by their second.
fn serial_of(instance: InstanceId, issued: Time) -> Serial {
    let InstanceId { collection, index, generation } = instance;
    let (collection, index) = (collection.0.to_be_bytes(), index.0.to_be_bytes());
    let [.., a, b, c] = (issued.0 / 1_000_000).to_be_bytes();
    let parts: [&[u8]; 5] = [&[MARK], &collection, &index, &generation.0.to_be_bytes(), &[a, b, c]];
    let mut serial = [0; Serial::BYTES];
    for (byte, said) in serial.iter_mut().zip(parts.concat()) {
        *byte = said;
    }
    Serial(serial)
}

/// The life of a task for which a certificate was issued.
fn instance_of(serial: Serial) -> Option<InstanceId> {
    let (mark, rest) = serial.0.split_first()?;
    let (collection, rest) = rest.split_first_chunk()?;
    let (index, rest) = rest.split_first_chunk()?;
    let (generation, _) = rest.split_first_chunk()?;
    (*mark == MARK).then_some(InstanceId {
        collection: CollectionId(u64::from_be_bytes(*collection)),
        index: TaskIndex(u32::from_be_bytes(*index)),
        generation: Generation(u32::from_be_bytes(*generation)),
    })
}

/// The job of a life that is placed, and on which machine that is.
fn placed(cell: &Cell, instance: InstanceId) -> Result<(&Job, &MachineName), Denied> {
    let job = cell.job(instance.collection);
    let task = cell.task(instance.task()).filter(|task| task.generation == instance.generation);
    let machine = match task.map(|task| &task.state) {
        Some(TaskState::Running(placement)) => cell.machine(placement.machine),
        _ => None,
    };
    let (Some(job), Some(machine)) = (job, machine) else {
        let why = format!("instance {instance} is on no machine, or is no longer");
        return Err(Denied { cause: Cause::Ended, why });
    };
    if !job.spec.task.api {
        let (user, name) = (&job.owner, &job.spec.name);
        let why = format!("the description of {user}/{name} does not say api: true");
        return Err(Denied { cause: Cause::WrongRole, why });
    }
    Ok((job, &machine.name))
}

/// The job of a life, of which a machine may have a key certified: that life is placed there, and the
/// job wants it. That its user is revoked is no reason against it: what they run runs on, and what it
/// asks is refused.
fn certifiable<'a>(
    cell: &'a Cell,
    machine: &MachineName,
    instance: InstanceId,
) -> Result<&'a Job, Denied> {
    let (job, there) = placed(cell, instance)?;
    if there != machine {
        let why = format!("instance {instance} is not on machine {machine}");
        return Err(Denied { cause: Cause::WrongIdentity, why });
    }
    Ok(job)
}

/// The life of a user's task whose certificate is shown, if that is accepted still: it is placed, and
/// its user was not revoked since.
pub(super) fn accepted(
    cell: &Cell,
    user: &UserName,
    serial: Serial,
    issued: Time,
    now: Time,
) -> Result<InstanceId, Denied> {
    let Some(instance) = instance_of(serial) else {
        let why = "the number of a task's certificate says whose it is, and this one does not: it \
                   was not issued by a master";
        return Err(Denied { cause: Cause::BadCertificate, why: why.to_owned() });
    };
    let fell = cell.user(user).is_some_and(|known| {
        known.is_shut_out() || known.revoked.as_ref().is_some_and(|act| act.at >= issued)
    });
    if fell {
        return Err(Denied { cause: Cause::Revoked, why: revoked(cell, user, now) });
    }
    let (job, _) = placed(cell, instance)?;
    if job.owner != *user {
        let why = format!("instance {instance} is not one of {user}");
        return Err(Denied { cause: Cause::WrongIdentity, why });
    }
    Ok(instance)
}

/// Whether a task of a user may submit a job: not where that takes a capability of its user's.
pub(super) fn may_submit(user: &UserName, spec: &JobSpec) -> Result<(), String> {
    let into = spec.kind.alloc_set().and_then(|set| set.user.as_ref());
    let action = spec.capabilities().next().map(|(_, field)| field.to_owned());
    let action = action.or(into.filter(|of| *of != user).map(|of| format!("an alloc set of {of}")));
    match action {
        None => Ok(()),
        Some(action) => Err(format!(
            "a task of {user} may not submit a job with {action}: {user} may, with their own \
             certificate"
        )),
    }
}

/// Whether a task of a user may do something to a job, or read what it wrote.
pub(super) fn may_touch(user: &UserName, owner: &UserName, name: &JobName) -> Result<(), String> {
    if owner == user {
        return Ok(());
    }
    Err(format!("a task of {user} may do nothing with {owner}/{name}: only with jobs of {user}"))
}

/// A message, and the request without it.
pub(super) fn split<T>(request: Request<T>) -> (T, Request<()>) {
    let (metadata, extensions, message) = request.into_parts();
    (message, Request::from_parts(metadata, extensions, ()))
}

impl Service {
    /// Refuses a task what only its user may do.
    pub(super) fn own(
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

    pub(super) async fn certify_a_task(
        &self,
        request: Request<v1::CertifyTaskRequest>,
    ) -> Answer<v1::CertifyTaskResponse> {
        gate::led(&self.core).await?;
        let machine = self.machine(&request)?;
        let (v1::CertifyTaskRequest { signing_request, instance }, asked) = split(request);
        let invalid = |error: &dyn std::fmt::Display| Status::invalid_argument(error.to_string());
        let instance = instance.ok_or_else(|| invalid(&"it is not said which instance"))?.into();
        let key = SigningRequest::from_pem(&signing_request).map_err(|error| invalid(&error))?;
        let mut view = self.core.view();
        // It may have been placed a moment ago, and this replica not have heard of it.
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

#[cfg(test)]
mod tests;
