//! Tasks that call the API of their cell: which of them get a certificate, how long it is accepted,
//! and what they may do with it (design, section 7).
//!
//! The cell does not record these certificates. The serial number names the incarnation of the task
//! for which the certificate was issued; it is accepted while that incarnation is placed. A task's
//! changes are recorded as its user's. A task may not use capabilities by which its user may act
//! beyond their own jobs.

use cell::{Cell, Job, TaskState};
use model::{
    CollectionId, Generation, InstanceId, JobName, MachineName, Serial, TaskIndex, Time, UserName,
};
use rpc::transport::Cause;
use spec::JobSpec;

use crate::caller::revoked;

/// The first byte of the serial number of a task's certificate.
const MARK: u8 = b'T';

/// Why a certificate is not accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Denied {
    /// The label in metrics.
    pub(crate) cause: Cause,
    /// As text.
    pub(crate) why: String,
}

/// The serial number of a certificate for an incarnation of a task, issued at a time: two
/// certificates of one incarnation differ by their second.
pub(crate) fn serial_of(instance: InstanceId, issued: Time) -> Serial {
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

/// The incarnation of a task for which a certificate was issued.
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

/// The job and the machine of a placed incarnation.
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

/// The job of an incarnation for which a machine may have a key certified: the incarnation is
/// placed there, and the job wants a certificate. A revoked user does not prevent it: their tasks
/// keep running, and their requests are rejected.
pub(crate) fn certifiable<'a>(
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

/// The incarnation of a user's task that a certificate names, if the certificate is still accepted:
/// the incarnation is placed, and the user was not revoked since.
pub(crate) fn accepted(
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

/// Whether a user's task may submit a job: not if that needs a capability of the user.
pub(crate) fn may_submit(user: &UserName, spec: &JobSpec) -> Result<(), String> {
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

/// Whether a user's task may change a job or read its logs.
pub(crate) fn may_touch(user: &UserName, owner: &UserName, name: &JobName) -> Result<(), String> {
    if owner == user {
        return Ok(());
    }
    Err(format!("a task of {user} may do nothing with {owner}/{name}: only with jobs of {user}"))
}

#[cfg(test)]
mod tests;
