//! The jobs and tasks behind services.

use std::sync::Arc;

use cell::{Cell, Job, Service};

use crate::changes::Changes;
use crate::record::{TaskRecord, is_named, tasks};

/// The tasks behind a service that have its port, each with its job: by the age of the jobs, then by
/// index. Their records have that port alone.
pub fn service_tasks<'a>(
    cell: &'a Cell,
    changes: &'a Changes,
    service: &'a Service,
) -> impl Iterator<Item = (&'a Arc<Job>, TaskRecord<'a>)> {
    let jobs = changes.behind(service).filter_map(|id| cell.job(id));
    jobs.flat_map(move |job| {
        tasks(cell, job).filter_map(move |task| {
            let (_, port) = task.ports().find(|(name, _)| **name == service.port)?;
            let ports = (Arc::from([service.port.clone()]), Arc::from([port]));
            Some((job, TaskRecord { ports, ..task }))
        })
    })
}

/// Whether a job whose labels match is behind a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Match {
    /// It is.
    Behind,
    /// It is, and none of its tasks has the service's port.
    NoPort,
    /// It is not: the service does not admit its owner.
    NotGranted,
}

/// The live jobs whose labels match a service's, oldest first.
pub fn candidates<'a>(
    cell: &'a Cell,
    service: &'a Service,
) -> impl Iterator<Item = (&'a Arc<Job>, Match)> {
    let jobs = cell.jobs().filter(|job| is_named(job) && service.matches(&job.spec.labels));
    jobs.map(|job| {
        let has = |(index, _)| job.ports(index).contains(&service.port);
        let found = match service.admits(&job.owner) {
            false => Match::NotGranted,
            true if job.tasks().any(has) => Match::Behind,
            true => Match::NoPort,
        };
        (job, found)
    })
}
