//! What a client is told of a request that was refused: the cell's words, with names where it has
//! only ids, and with the nearest name where there is no such thing.

use cell::{Cell, Rejection};
use model::{JobName, UserName};
use tonic::Status;

use super::views;

/// The answer to a request that was refused.
pub(super) fn rejected(cell: &Cell, rejection: &Rejection) -> Status {
    let text = rejection.to_string();
    match rejection {
        Rejection::Invalid(_)
        | Rejection::NoSuchTask { .. }
        | Rejection::BadText { .. }
        | Rejection::Impossible(_)
        | Rejection::Validity(_)
        | Rejection::TokenValidity(_) => Status::invalid_argument(text),
        Rejection::NoSuchGrant(_) | Rejection::NoSuchReplica(_) => Status::not_found(text),
        Rejection::NoSuchJob { user, name } => no_such_job(cell, user, name),
        Rejection::NoSuchCollection(_) => Status::not_found(text),
        Rejection::NoSuchMachine(name) => no_such_machine(cell, name.as_str()),
        Rejection::NotAllowed { .. }
        | Rejection::ForeignSession { .. }
        | Rejection::NoSuchToken(_)
        | Rejection::TokenExpired(_)
        | Rejection::TokenUsed(_)
        | Rejection::ReplicaTokenUsed(_)
        | Rejection::MachineRevoked(_) => Status::permission_denied(text),
        Rejection::Quota(short) => {
            Status::failed_precondition(short.said(&cell.grantable(short.band)))
        }
        Rejection::NotBootstrapped => Status::unavailable(text),
        Rejection::WouldNotFit { task, machine, unschedulable_reason } => {
            let (job, index) = (views::job_name(cell, task.collection), task.index);
            let in_alloc = cell.job(task.collection).is_some_and(|job| job.alloc_set.is_some());
            let place = if in_alloc { "with what shares it, its alloc on " } else { "" };
            Status::failed_precondition(format!(
                "{job}/{index} would no longer fit where it runs: {place}{machine} {unschedulable_reason}; nothing \
                 was changed"
            ))
        }
        Rejection::AllocTooSmall { alloc, dimension, asked, used } => {
            let (set, index) = (views::job_name(cell, alloc.collection), alloc.index);
            let (asked, used) = (dimension.show(*asked), dimension.show(*used));
            Status::failed_precondition(format!(
                "alloc {set}/{index} would have {asked} of {dimension}, and the tasks in it take \
                 {used}; nothing was changed"
            ))
        }
        Rejection::NoSuchReference { user, name, dead: false, .. } => {
            Status::failed_precondition(text + &views::nearest_job(cell, user, name))
        }
        Rejection::PredecessorEnded { user, name } => Status::failed_precondition(format!(
            "{text} (how it ended: bourg status {user}/{name})"
        )),
        _ => Status::failed_precondition(text),
    }
}

/// The status for a job that does not exist, with the nearest name. A repeated request is answered as
/// it was first: meanwhile there may be a job of this name.
pub(super) fn no_such_job(cell: &Cell, user: &UserName, name: &JobName) -> Status {
    if cell.job_named(user, name).is_some() {
        return Status::not_found(format!(
            "there was no job {user}/{name} when this was requested for the first time"
        ));
    }
    let near = views::nearest_job(cell, user, name);
    Status::not_found(format!("there is no job {user}/{name}{near}"))
}

/// That there is no such machine, with the nearest name.
pub(super) fn no_such_machine(cell: &Cell, wanted: &str) -> Status {
    let names = cell.machines().map(|machine| machine.name.as_str());
    let near = views::nearest(wanted, names);
    let near = near.map(|near| format!("; the nearest is {near}")).unwrap_or_default();
    Status::not_found(format!("there is no machine {wanted}{near}"))
}
