//! The messages between master and Borglet: `borglet.proto`.

use std::net::Ipv4Addr;
use std::sync::Arc;

use model::{Appclass, Bytes, InstanceId, PortName};
use poll::{Desired, DesiredAlloc, Order, Report, Stop, TaskReport, TaskStatus};

use crate::cell;
use crate::duration::duration;
use crate::error::{At, Fault, Malformed};
use crate::job::{appclass, appclass_number, priority};
use crate::{notice, read, saver, start_latency, v1};
use v1::task_report::{Running, Status};

impl From<&Order> for v1::Order {
    fn from(order: &Order) -> Self {
        let allocs = order.allocs.iter().map(Into::into).collect();
        let tasks = order.tasks.iter().map(Into::into).collect();
        let stops = order.stops.iter().map(Into::into).collect();
        let settled = order.settled.iter().map(|instance| (*instance).into()).collect();
        let logs = order.logs.as_ref().map(Into::into);
        let (stamp, overrules) = (Some(order.stamp.into()), order.overrules.map(Into::into));
        let saver_ends = order.saver_ends.iter().map(saver::end).collect();
        let volumes = order.volumes.iter().map(Into::into).collect();
        Self { stamp, overrules, allocs, tasks, stops, settled, logs, saver_ends, volumes }
    }
}

impl TryFrom<v1::Order> for Order {
    type Error = Malformed;

    fn try_from(order: v1::Order) -> Result<Self, Malformed> {
        let stamp = read::message(order.stamp, "stamp")?;
        let allocs = read::list(order.allocs, "allocs")?;
        let tasks = read::list(order.tasks, "tasks")?;
        let settled = order.settled.into_iter().map(Into::into).collect();
        let stops = read::list(order.stops, "stops")?;
        let logs = read::optional(order.logs, "logs")?;
        let overrules = order.overrules.map(Into::into);
        let saver_ends = order.saver_ends.into_iter().map(saver::read_end);
        let saver_ends = Arc::new(saver_ends.collect::<Result<_, _>>().field("saverEnds")?);
        let volumes = read::list(order.volumes, "volumes")?;
        Ok(Self { stamp, overrules, allocs, tasks, stops, settled, logs, saver_ends, volumes })
    }
}

impl From<&Stop> for v1::Stop {
    fn from(stop: &Stop) -> Self {
        Self {
            instance: Some(stop.instance.into()),
            reason: notice::reason_number(stop.reason),
            cause: stop.cause.clone(),
            notice_max: stop.notice_max.map(duration),
        }
    }
}

impl TryFrom<v1::Stop> for Stop {
    type Error = Malformed;

    fn try_from(stop: v1::Stop) -> Result<Self, Malformed> {
        let notice_max = stop.notice_max.map(|most| read::span(Some(most), "noticeMax"));
        Ok(Self {
            instance: read::message(stop.instance, "instance")?,
            reason: notice::reason(stop.reason)?,
            cause: stop.cause,
            notice_max: notice_max.transpose()?,
        })
    }
}

impl From<&DesiredAlloc> for v1::DesiredAlloc {
    fn from(desired: &DesiredAlloc) -> Self {
        Self {
            instance: Some(desired.instance.into()),
            cell: desired.cell.to_string(),
            user: desired.user.to_string(),
            name: desired.name.to_string(),
            priority: desired.priority.number().into(),
            appclass: appclass_number(desired.appclass),
            limit: Some((&desired.limit).into()),
            saver: desired.saver.as_ref().map(Into::into),
            network_address: desired.address.map(Ipv4Addr::to_bits),
        }
    }
}

impl TryFrom<v1::DesiredAlloc> for DesiredAlloc {
    type Error = Malformed;

    fn try_from(desired: v1::DesiredAlloc) -> Result<Self, Malformed> {
        Ok(Self {
            instance: read::message(desired.instance, "instance")?,
            cell: read::name(&desired.cell, "cell")?,
            user: read::name(&desired.user, "user")?,
            name: read::name(&desired.name, "name")?,
            priority: priority(desired.priority)?,
            appclass: match desired.appclass {
                0 => Appclass::Batch,
                number => appclass(number)?,
            },
            limit: read::message(desired.limit, "limit")?,
            saver: read::optional(desired.saver, "saver")?,
            address: desired.network_address.map(Ipv4Addr::from_bits),
        })
    }
}

impl From<&Desired> for v1::Desired {
    fn from(desired: &Desired) -> Self {
        let port = |(name, port): &(PortName, u16)| v1::NamedPort::from((name, *port));
        Self {
            instance: Some(desired.instance.into()),
            cell: desired.cell.to_string(),
            user: desired.user.to_string(),
            job: desired.job.to_string(),
            priority: desired.priority.number().into(),
            appclass: appclass_number(desired.appclass),
            tasks: desired.tasks,
            spec: Some(v1::TaskSpec::from(&*desired.spec)),
            ports: desired.ports.iter().map(port).collect(),
            alloc: desired.alloc.map(Into::into),
            network_address: desired.address.map(Ipv4Addr::to_bits),
            volumes: desired.volumes.iter().map(Into::into).collect(),
            reads_again: desired.reads_again,
            max_runtime: desired.max_runtime.map(duration),
        }
    }
}

impl TryFrom<v1::Desired> for Desired {
    type Error = Malformed;

    fn try_from(desired: v1::Desired) -> Result<Self, Malformed> {
        Ok(Self {
            instance: read::message(desired.instance, "instance")?,
            alloc: desired.alloc.map(Into::into),
            cell: read::name(&desired.cell, "cell")?,
            user: read::name(&desired.user, "user")?,
            job: read::name(&desired.job, "job")?,
            priority: priority(desired.priority)?,
            appclass: appclass(desired.appclass)?,
            tasks: desired.tasks,
            spec: Arc::new(read::message(desired.spec, "spec")?),
            ports: read::list(desired.ports, "ports")?,
            volumes: read::list(desired.volumes, "volumes")?,
            reads_again: desired.reads_again,
            max_runtime: read::optional_span(desired.max_runtime, "maxRuntime")?,
            address: desired.network_address.map(Ipv4Addr::from_bits),
        })
    }
}

impl From<(&PortName, u16)> for v1::NamedPort {
    fn from((name, port): (&PortName, u16)) -> Self {
        Self { name: name.to_string(), port: port.into() }
    }
}

impl TryFrom<v1::NamedPort> for (PortName, u16) {
    type Error = Malformed;

    fn try_from(port: v1::NamedPort) -> Result<Self, Malformed> {
        Ok((read::name(&port.name, "name")?, read::small(port.port, u16::MAX, "port")?))
    }
}

impl From<&(InstanceId, Bytes)> for v1::poll_request::Reserved {
    fn from((instance, ram): &(InstanceId, Bytes)) -> Self {
        Self { instance: Some((*instance).into()), ram_bytes: read::signed(ram.0) }
    }
}

impl TryFrom<v1::poll_request::Reserved> for (InstanceId, Bytes) {
    type Error = Malformed;

    fn try_from(reserved: v1::poll_request::Reserved) -> Result<Self, Malformed> {
        let ram = read::quantity(reserved.ram_bytes, "ramBytes")?;
        Ok((read::message(reserved.instance, "instance")?, Bytes(ram)))
    }
}

impl From<&Report> for v1::Report {
    fn from(report: &Report) -> Self {
        Self {
            stamp: Some(report.stamp.into()),
            machine: Some(v1::MachineReport::from(&*report.machine)),
            tasks: report.tasks.iter().map(Into::into).collect(),
        }
    }
}

impl TryFrom<v1::Report> for Report {
    type Error = Malformed;

    fn try_from(report: v1::Report) -> Result<Self, Malformed> {
        Ok(Self {
            stamp: read::message(report.stamp, "stamp")?,
            machine: Arc::new(read::message(report.machine, "machine")?),
            tasks: read::list(report.tasks, "tasks")?,
        })
    }
}

impl From<&TaskReport> for v1::TaskReport {
    fn from(report: &TaskReport) -> Self {
        let usage = match &report.status {
            TaskStatus::Ended(_, usage) => cell::usage(usage),
            _ => None,
        };
        let status = Some((&report.status).into());
        let check = report.check.clone();
        let latency = start_latency::message(report.latency);
        Self { instance: Some(report.instance.into()), status, usage, check, latency }
    }
}

impl TryFrom<v1::TaskReport> for TaskReport {
    type Error = Malformed;

    fn try_from(report: v1::TaskReport) -> Result<Self, Malformed> {
        let usage = read::optional(report.usage, "usage")?.unwrap_or_default();
        Ok(Self {
            instance: read::message(report.instance, "instance")?,
            status: match report.status.ok_or(Fault::UnknownKind)? {
                Status::Starting(v1::Nothing {}) => TaskStatus::Starting,
                Status::Running(Running { healthy }) => TaskStatus::Running { healthy },
                Status::Unready(v1::Nothing {}) => TaskStatus::Unready,
                Status::Stopping(v1::Nothing {}) => TaskStatus::Stopping,
                Status::Ended(end) => TaskStatus::Ended(end.try_into().field("ended")?, usage),
            },
            check: report.check,
            latency: start_latency::read(report.latency.as_ref())?,
        })
    }
}

impl From<&TaskStatus> for Status {
    fn from(status: &TaskStatus) -> Self {
        match status {
            TaskStatus::Starting => Self::Starting(v1::Nothing {}),
            TaskStatus::Running { healthy } => Self::Running(Running { healthy: *healthy }),
            TaskStatus::Unready => Self::Unready(v1::Nothing {}),
            TaskStatus::Stopping => Self::Stopping(v1::Nothing {}),
            TaskStatus::Ended(end, _) => Self::Ended(end.into()),
        }
    }
}
