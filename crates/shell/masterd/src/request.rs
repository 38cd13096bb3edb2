//! The requests to the core, and their principals; what cannot be read as one.

use cell::{Assignment, Mutation, Op, RequestId};
use model::{Enabled, SchedulerName, Serial, Time, UserName};

use crate::caller::Caller;

/// The account to which a request counts.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Principal {
    /// A user, including their tasks.
    User(UserName),
    /// A certificate: a join token's, or that of a machine that renews it.
    Certificate(Serial),
}

/// A request to the core.
#[derive(Clone, Debug)]
pub(crate) enum Request {
    /// Open a session.
    OpenSession(Caller),
    /// A request in a session.
    Mutate(RequestId, Caller, Mutation),
    /// A request of a machine that joins, renews its certificate or reads secrets, or of a replica that joins.
    Enrolment(Op),
    /// Decide about proposed assignments.
    Propose(SchedulerName, Vec<Assignment>, Option<Time>),
    /// Decide about tasks of the batch queue that are proposed to be enabled.
    Enable(SchedulerName, Vec<Enabled>),
}

impl Request {
    /// The principal to which it counts; `None` for a scheduler.
    pub(crate) fn by(&self) -> Option<Principal> {
        match self {
            Self::OpenSession(by) | Self::Mutate(_, by, _) => {
                Some(Principal::User(by.user.clone()))
            }
            Self::Enrolment(
                Op::Enrol { token: serial, .. }
                | Op::JoinReplica { token: serial, .. }
                | Op::RenewMachine { old: serial, .. },
            ) => Some(Principal::Certificate(*serial)),
            Self::Enrolment(_) | Self::Propose(..) | Self::Enable(..) => None,
        }
    }
}

/// The answer to a message that says nothing that could be.
pub(crate) fn malformed(error: &api::Malformed) -> tonic::Status {
    tonic::Status::invalid_argument(error.to_string())
}
