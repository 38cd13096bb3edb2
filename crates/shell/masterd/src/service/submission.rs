//! What a submission says and what it is answered with: the state machine's reply alone, which is of the version of the
//! cell in which the job was admitted. A view of the cell is of an earlier or a later one.

use api::v1;
use cell::{ExpiringQuota, Reply, Submission};
use model::UserName;
use process::moment;
use spec::JobSpec;
use tonic::Status;

use crate::service::malformed;

/// The description of a request.
pub(super) fn description(spec: Option<v1::JobSpec>) -> Result<JobSpec, Status> {
    let spec = spec.ok_or_else(|| Status::invalid_argument("no job description"))?;
    JobSpec::try_from(spec).map_err(|error| malformed(&error))
}

/// Whether a description has constraints, which may name what no machine has.
pub(super) fn has_constraints(spec: &JobSpec) -> bool {
    let own = |change: &spec::TaskOverride| change.constraints.is_some();
    !spec.task.constraints.is_empty() || spec.overrides.values().any(own)
}

/// The answer to a user; `None` for a reply to something else.
pub(super) fn answer(index: u64, user: &UserName, reply: &Reply) -> Option<v1::SubmitResponse> {
    let Reply::Submitted { collection, submission, version, changes, expiring_quota } = reply
    else {
        return None;
    };
    Some(v1::SubmitResponse {
        index,
        collection: collection.0,
        user: user.to_string(),
        unchanged: *submission == Submission::Unchanged,
        updated: *submission == Submission::Updated,
        changes: changes.iter().map(ToString::to_string).collect(),
        version: version.0,
        notes: expiring_quota.iter().map(|quota| note(user, quota)).collect(),
    })
}

/// What the owner of a submitted job is told about quota that expires soon.
fn note(user: &UserName, quota: &ExpiringQuota) -> String {
    let ExpiringQuota { band, at, above } = quota;
    format!(
        "{user}'s {band} quota falls on {} (UTC) to {} less than what is charged: that ends no task, and \
         from then on no job is admitted or made larger",
        moment::shown(*at),
        above.in_words()
    )
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use model::{Band, Bytes, CollectionId, MilliCores, Resources, Time, Version};
    use spec::FieldChange;

    use super::*;

    #[test]
    fn a_submission_is_answered_from_its_reply() {
        let user = "ana".parse().expect("a name");
        let above = Resources { cpu: MilliCores(500), ram: Bytes(1 << 30), ..Resources::default() };
        let change = |field: &str, old: &str, new: &str| FieldChange {
            field: field.to_owned(),
            old: old.to_owned(),
            new: new.to_owned(),
        };
        let reply = Reply::Submitted {
            collection: CollectionId(7),
            submission: Submission::Updated,
            version: Version(3),
            changes: [change("cpu", "0.1", "0.6")].into(),
            expiring_quota: Some(ExpiringQuota { band: Band::Production, at: Time(0), above }),
        };
        let answer = answer(9, &user, &reply).expect("an answer");
        assert_eq!((answer.index, answer.collection, answer.version), (9, 7, 3));
        assert!(answer.updated && !answer.unchanged);
        assert_eq!(answer.changes, ["cpu 0.1 → 0.6"]);
        assert_eq!(
            answer.notes,
            [
                "ana's production quota falls on 1970-01-01 00:00:00.000 (UTC) to 0.5 cores and 1 GiB less than \
              what is charged: that ends no task, and from then on no job is admitted or made larger"
            ]
        );
        let new = Reply::Submitted {
            collection: CollectionId(8),
            submission: Submission::New,
            version: Version(1),
            changes: Arc::default(),
            expiring_quota: None,
        };
        let answer = super::answer(10, &user, &new).expect("an answer");
        assert!(!answer.updated && !answer.unchanged && answer.notes.is_empty());
        assert_eq!(super::answer(11, &user, &Reply::Done), None);
    }
}
