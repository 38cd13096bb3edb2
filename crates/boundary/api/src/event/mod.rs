//! Events, as they are stored and shown: `events.proto`.
//!
//! The master encodes the events of every operation on its critical path, and decodes them only for
//! requests. So there are two ways to the same bytes: [`RecordRef::encode`] writes them without allocation
//! beyond the given buffer; and [`Record`] converts to a message like every other type, for JSON and for
//! responses.

mod encode;
mod message;
mod stored;

use event::{Actor, Event};
use model::{JobName, LogIndex, MachineName, Time, UserName};
use prost::Message;

pub use stored::StoredNames;

use crate::error::Malformed;
use crate::v1;

/// One stored event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The operation that caused it.
    pub index: LogIndex,
    /// Its position among the events of that operation, from 0.
    pub sub: u32,
    /// The time of the operation.
    pub at: Time,
    /// Who caused the operation.
    pub by: Actor,
    /// What happened.
    pub event: Event,
    /// The names at that time.
    pub names: Names,
}

/// A borrowed [`Record`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordRef<'a> {
    /// See [`Record::index`].
    pub index: LogIndex,
    /// See [`Record::sub`].
    pub sub: u32,
    /// See [`Record::at`].
    pub at: Time,
    /// See [`Record::by`].
    pub by: &'a Actor,
    /// See [`Record::event`].
    pub event: &'a Event,
    /// See [`Record::names`].
    pub names: &'a Names,
}

/// The names of an event's subject.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names {
    /// The owner of the job; `None` for machines and the cell.
    pub user: Option<UserName>,
    /// The job; `None` likewise.
    pub job: Option<JobName>,
    /// The machine that it is about, or on which the task is or was; `None` if there is none, or if
    /// that machine no longer exists.
    pub machine: Option<MachineName>,
    /// The machine whose report caused the operation; `None` if no report did.
    pub reporter: Option<MachineName>,
    /// Another job that the event's kind has by its id: that of the task for which one was evicted,
    /// or the job with which or after which one was to run.
    pub related: Option<(UserName, JobName)>,
}

/// Decodes an event.
///
/// # Errors
/// If the bytes are not an event that this build knows.
pub fn decode(bytes: &[u8]) -> Result<Record, Malformed> {
    v1::EventRecord::decode(bytes)?.try_into()
}

impl Record {
    /// Borrows it.
    #[must_use]
    pub fn as_ref(&self) -> RecordRef<'_> {
        let Self { index, sub, at, by, event, names } = self;
        RecordRef { index: *index, sub: *sub, at: *at, by, event, names }
    }
}
