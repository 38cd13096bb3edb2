//! What is asked of the core, and by whom.

use cell::{Assignment, Mutation, Op, RequestId};
use model::{Serial, UserName};

use crate::caller::Caller;

/// Whose requests count together.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Principal {
    /// A user's, and those of tasks of theirs.
    User(UserName),
    /// Those with one certificate: a join token's, or a machine's that renews it.
    Certificate(Serial),
}

/// What somebody asks.
#[derive(Clone, Debug)]
pub(crate) enum Request {
    /// A session.
    OpenSession(Caller),
    /// A request in a session.
    Mutate(RequestId, Caller, Mutation),
    /// What a machine asks that joins or renews its certificate, or a replica that joins.
    Enrolment(Op),
    /// That assignments are judged.
    Propose(Vec<Assignment>),
}

impl Request {
    /// Whose it is; nobody's where it is a scheduler's.
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
            Self::Enrolment(_) | Self::Propose(_) => None,
        }
    }
}
