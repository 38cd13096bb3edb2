//! Requests' ids, and assignments: `cell.proto`, `scheduling.proto`.

use std::net::Ipv4Addr;

use model::{Assignment, InstanceId, MachineId, RequestId, SessionId};

use crate::error::Malformed;
use crate::{read, v1};

impl From<RequestId> for v1::RequestId {
    fn from(id: RequestId) -> Self {
        Self { session: id.session.0, sequence: id.sequence }
    }
}

impl From<v1::RequestId> for RequestId {
    fn from(id: v1::RequestId) -> Self {
        Self { session: SessionId(id.session), sequence: id.sequence }
    }
}

impl From<&Assignment> for v1::Assignment {
    fn from(assignment: &Assignment) -> Self {
        Self {
            instance: Some(assignment.instance.into()),
            machine: assignment.machine.0,
            alloc: assignment.alloc.map(Into::into),
            ports: assignment.ports.iter().copied().map(u32::from).collect(),
            victims: assignment.victims.iter().map(|victim| (*victim).into()).collect(),
            network_address: assignment.address.map(Ipv4Addr::to_bits),
        }
    }
}

impl TryFrom<v1::Assignment> for Assignment {
    type Error = Malformed;

    fn try_from(assignment: v1::Assignment) -> Result<Self, Malformed> {
        Ok(Self {
            instance: read::message(assignment.instance, "instance")?,
            machine: MachineId(assignment.machine),
            alloc: assignment.alloc.map(Into::into),
            address: assignment.network_address.map(Ipv4Addr::from_bits),
            ports: read::ports(&assignment.ports, "ports")?,
            victims: assignment.victims.into_iter().map(InstanceId::from).collect(),
        })
    }
}
