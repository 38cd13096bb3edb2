//! Error messages for rejected requests: the sentence of crate `diagnostics`, with names instead of ids, and
//! with the nearest name if something does not exist.

use cell::{Cell, Job, Rejection, RejectionClass};
use model::{JobName, SecretName, UserName, Version};
use rpc::metadata::{BEING_KILLED, REJECTION};
use tonic::metadata::MetadataValue;
use tonic::{Code, Status};

use crate::reads::views;

/// The status for a rejected request: its class is the cell's, its text has names.
pub(crate) fn rejected(cell: &Cell, rejection: &Rejection) -> Status {
    let code = match rejection.class() {
        RejectionClass::InvalidArgument => Code::InvalidArgument,
        RejectionClass::NotFound => Code::NotFound,
        RejectionClass::PermissionDenied => Code::PermissionDenied,
        RejectionClass::FailedPrecondition => Code::FailedPrecondition,
        RejectionClass::Conflict => Code::Aborted,
        RejectionClass::Taken => Code::AlreadyExists,
        RejectionClass::Unavailable => Code::Unavailable,
    };
    let mut status = Status::new(code, in_words(cell, rejection));
    if let Rejection::BeingKilled { .. } = rejection {
        status.metadata_mut().insert(REJECTION, MetadataValue::from_static(BEING_KILLED));
    }
    status
}

pub(super) fn in_words(cell: &Cell, rejection: &Rejection) -> String {
    let text = diagnostics::sentence(rejection);
    match rejection {
        Rejection::NoSuchJob { user, name } => missing_job(cell, user, name),
        Rejection::NoSuchMachine(name) => text + &nearest_machine(cell, name.as_str()),
        Rejection::Quota(short) => {
            diagnostics::insufficient_quota(short, Some(&cell.grantable(short.band)))
        }
        Rejection::AllocTooSmall { alloc, dimension, asked, used } => {
            let (set, index) = (views::job_name(cell, alloc.collection), alloc.index);
            let (asked, used) = (dimension.show(*asked), dimension.show(*used));
            format!(
                "alloc {set}/{index} would have {asked} of {dimension}, and the tasks in it take \
                 {used}; nothing was changed"
            )
        }
        Rejection::NoSuchReference { user, name, dead: false, .. } => {
            text + &views::nearest_job(cell, user, name)
        }
        Rejection::PredecessorEnded { user, name }
        | Rejection::PredecessorFinished { user, name } => {
            format!("{text} (how it ended: bourg status {user}/{name})")
        }
        Rejection::SecretInUse { owner, name, job } => {
            in_use(cell, owner, name, job).unwrap_or(text)
        }
        _ => text,
    }
}

/// Which descriptions of a job name a secret; `None` if none does any more.
fn in_use(cell: &Cell, owner: &UserName, secret: &SecretName, name: &JobName) -> Option<String> {
    let job = cell.job_named(owner, name)?;
    let current = (job.version, &job.spec);
    let all = job.other_descriptions().chain([current]);
    let mut versions: Vec<Version> = all
        .filter(|(_, spec)| spec.secrets().any(|named| named == secret))
        .map(|(version, _)| version)
        .collect();
    versions.sort_unstable();
    if versions.contains(&job.version) {
        return Some(format!(
            "job {owner}/{name} names secret {secret}: update it without the secret, or kill it (bourg update, \
             bourg kill {name})"
        ));
    }
    let numbers: Vec<String> = versions.iter().map(ToString::to_string).collect();
    let versions = match numbers.as_slice() {
        [] => return None,
        [one] => format!("version {one}"),
        several => format!("versions {}", several.join(", ")),
    };
    Some(format!(
        "job {owner}/{name} may go back to {versions} of its description, which named secret {secret}: kill the \
         job, or keep the secret until {versions} is not kept any more (bourg versions {name})"
    ))
}

/// The status for a task that its job does not have.
pub(crate) fn no_such_task(job: &Job) -> Status {
    let name = format!("{}/{}", job.owner, job.spec.name);
    Status::invalid_argument(match job.size().checked_sub(1) {
        None if job.spec.is_on_every_machine() => format!(
            "{name} has no tasks: it gets one on each machine that suits it (bourg status {name})"
        ),
        None => format!("{name} has no tasks: bourg resize {name} 1 starts one"),
        Some(last) => format!("{name} has tasks 0 to {last} only"),
    })
}

/// The status for a job that does not exist.
pub(crate) fn no_such_job(cell: &Cell, user: &UserName, name: &JobName) -> Status {
    Status::not_found(missing_job(cell, user, name))
}

/// The error for a job that does not exist, with the nearest name. A repeated request gets its
/// first answer, though a job of this name may exist by now.
fn missing_job(cell: &Cell, user: &UserName, name: &JobName) -> String {
    if cell.job_named(user, name).is_some() {
        return format!(
            "there was no job {user}/{name} when this was requested for the first time"
        );
    }
    let near = views::nearest_job(cell, user, name);
    format!("there is no job {user}/{name}{near}")
}

/// The error for a machine that does not exist, with the nearest name.
pub(crate) fn no_such_machine(cell: &Cell, wanted: &str) -> Status {
    let near = nearest_machine(cell, wanted);
    Status::not_found(format!("there is no machine {wanted}{near}"))
}

fn nearest_machine(cell: &Cell, wanted: &str) -> String {
    let names = cell.machines().map(|machine| machine.name.as_str());
    let near = views::nearest(wanted, names);
    near.map(|near| format!("; the nearest is {near}")).unwrap_or_default()
}
