//! What a request is about.

use std::net::IpAddr;

use model::{JobName, PortName, TaskIndex, UserName};

/// What has to be looked up to answer a request. Requests for different types and ports of one name
/// have the same question.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Question {
    /// The replicas of the Borgmaster.
    Master,
    /// Whether a user has jobs or services; the answer has no endpoints.
    User(UserName),
    /// The tasks of a job, or those behind a service.
    Job {
        /// Its owner.
        user: UserName,
        /// Its name, or the service's.
        job: JobName,
    },
    /// One task.
    Task {
        /// Its job's owner.
        user: UserName,
        /// Its job.
        job: JobName,
        /// Its index.
        index: TaskIndex,
    },
    /// What has an address. An answer without endpoints means that the address is not one of the
    /// cell's.
    Address(IpAddr),
}

/// What a DNS name is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// The zone itself.
    Apex,
    /// A name of the cell, or one below it.
    Name(Question, NamePart),
    /// The reverse name of an address.
    Reverse(IpAddr),
    /// A name in the zone that can never exist.
    Impossible,
    /// A name outside of the zone.
    Foreign,
}

/// Which of the DNS names of a job or task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NamePart {
    /// The name itself, which has addresses.
    Itself,
    /// `_tcp` below it, which has no records and exists because of the names below it (RFC 8020).
    Tcp,
    /// `_PORT._tcp` below it.
    Port(PortName),
}
