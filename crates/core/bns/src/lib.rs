//! The Borg name service, BNS (paper, section 2.6): under the name of a job, where its tasks are, on
//! which ports, and whether they are healthy. Under the name of a service, the same of the tasks of all
//! jobs behind it.
//!
//! A record follows from the cell's state alone: [`tasks`] and [`service_tasks`] read it from a
//! cell. So every replica has every record at every index, a fail-over loses nothing, and no record
//! names two incarnations of a task. What a cell does not say is when a record changed. [`Changes`] does: it follows a cell, and a
//! watch continues from any index.
//!
//! Not here: the formats of records and the service (crates `formats` and `masterd`), DNS (crate
//! `dns`), and alloc sets, which have no ports of their own.

mod changes;
mod record;
mod service;

pub use changes::{Changes, Forgotten, NameKey};
pub use record::{Stage, TaskRecord, is_behind, is_named, named, task, tasks};
pub use service::{Match, candidates, service_tasks};
