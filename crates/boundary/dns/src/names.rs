//! What the caller knows of the names of the cell.

use std::net::IpAddr;
use std::sync::Arc;

use model::{JobName, PortName, TaskIndex, UserName};

use crate::question::Question;

/// The names of a cell.
pub trait Names {
    /// What is known of a question, without waiting.
    fn lookup(&self, question: &Question) -> Lookup;

    /// The serial number of the zone, which increases with every change: the low bits of the index
    /// of the state, for example.
    fn serial(&self) -> u32 {
        1
    }
}

/// What is known of a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lookup {
    /// The current answer.
    Fresh(Answer),
    /// The last known answer, which may be outdated: no replica answers.
    Stale(Answer),
    /// Nothing: it has to be asked at a replica.
    Missing,
}

/// The answer to a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The name exists, with these endpoints; a name may exist without any.
    Found(Arc<[Endpoint]>),
    /// The name does not exist.
    NoSuchName,
}

impl Answer {
    /// The number of endpoints.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Found(endpoints) => endpoints.len(),
            Self::NoSuchName => 0,
        }
    }
}

/// An address at which something of the cell is. A task with two addresses has two endpoints.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// What is there.
    pub owner: Owner,
    /// Its address.
    pub address: IpAddr,
    /// Its ports by name.
    pub ports: Vec<(PortName, u16)>,
    /// Whether it runs. Others have no address in replies.
    pub running: bool,
    /// Whether it is healthy. Unhealthy tasks are left out of their job's addresses.
    pub healthy: bool,
}

/// What has an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Owner {
    /// A task.
    Task {
        /// Its job's owner.
        user: UserName,
        /// Its job.
        job: JobName,
        /// Its index.
        index: TaskIndex,
    },
    /// A replica of the Borgmaster.
    Master,
}
