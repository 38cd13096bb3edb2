//! How machines join and renew their certificates: `credential.proto`.

use api::{Malformed, read};
use cell::{IssueReplicaToken, IssueToken, Mutation, Op};
use model::ReplicaId;

use crate::v1;

/// The operation of a joining machine.
pub(crate) fn enrol_of(enrol: v1::Enrol) -> Result<Op, Malformed> {
    Ok(Op::Enrol {
        token: read::serial(&enrol.token, "token")?,
        key: read::key(&enrol.key, "key")?,
        machine: read::optional_name(&enrol.machine, "machine")?,
        address: enrol.address,
        certificate: read::serial(&enrol.certificate, "certificate")?,
        validity: read::span(enrol.validity, "validity")?,
    })
}

/// The operation of a joining replica.
pub(crate) fn join_of(join: &v1::JoinReplica) -> Result<Op, Malformed> {
    Ok(Op::JoinReplica {
        replica: ReplicaId(join.replica),
        token: read::serial(&join.token, "token")?,
        key: read::key(&join.key, "key")?,
    })
}

/// The request of an administrator for a replica's token.
pub(crate) fn issue_replica_of(issue: &v1::IssueReplicaToken) -> Result<Mutation, Malformed> {
    Ok(Mutation::IssueReplicaToken(IssueReplicaToken {
        replica: ReplicaId(issue.replica),
        serial: read::serial(&issue.serial, "serial")?,
        validity: read::span(issue.validity, "validity")?,
    }))
}

/// The operation of a machine that renews its certificate.
pub(crate) fn renew_of(renew: &v1::RenewMachine) -> Result<Op, Malformed> {
    Ok(Op::RenewMachine {
        machine: read::name(&renew.machine, "machine")?,
        old: read::serial(&renew.old, "old")?,
        certificate: read::serial(&renew.certificate, "certificate")?,
        validity: read::span(renew.validity, "validity")?,
    })
}

/// The request of an administrator for a token.
pub(crate) fn issue_of(issue: &v1::IssueToken) -> Result<Mutation, Malformed> {
    Ok(Mutation::IssueToken(IssueToken {
        machine: read::name(&issue.machine, "machine")?,
        serial: read::serial(&issue.serial, "serial")?,
        validity: read::span(issue.validity, "validity")?,
        most: issue.most,
    }))
}
