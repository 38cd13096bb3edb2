//! Machines in an image.

use std::net::Ipv4Addr;
use std::sync::Arc;

use api::{At, Fault, Malformed, read, saver};
use cell::crashes::CrashSeen;
use cell::{Drain, Machine, MachineState, Volume};
use model::{CollectionId, MachineId, TaskId, TaskIndex, Time};

use crate::v1;
use v1::machine_image::{self, State};

impl From<&Machine> for v1::MachineImage {
    fn from(machine: &Machine) -> Self {
        let state = match machine.state {
            MachineState::Joining => State::Joining(v1::Nothing {}),
            MachineState::Up => State::Up(v1::Nothing {}),
            MachineState::Down { since } => State::Down(since.0),
            MachineState::Unreachable { since } => State::Unreachable(since.0),
        };
        let crash = |seen: &CrashSeen| machine_image::Crash {
            collection: seen.task.collection.0,
            index: seen.task.index.0,
            at: seen.at.0,
            user: seen.user.to_string(),
        };
        Self {
            id: machine.id.0,
            name: machine.name.to_string(),
            address: machine.address.to_string(),
            state: Some(state),
            drain: machine.drain.as_deref().map(Into::into),
            report: Some(v1::MachineReport::from(&*machine.report)),
            operator_attributes: machine.operator_attributes.as_ref().clone(),
            next_port: machine.next_port.into(),
            crashes: machine.crashes.iter().map(crash).collect(),
            credentials: machine.credentials.as_deref().map(Into::into),
            next_address: machine.next_address.to_bits(),
            saver_ends: machine.saver_ends.iter().map(saver::end).collect(),
            volumes: machine.volumes.values().map(volume).collect(),
        }
    }
}

impl TryFrom<v1::MachineImage> for Machine {
    type Error = Malformed;

    /// Without the fields that are derived from the rest of the cell.
    fn try_from(image: v1::MachineImage) -> Result<Self, Malformed> {
        let (id, name) = (MachineId(image.id), read::name(&image.name, "name")?);
        let mut machine = Self::new(id, name, image.address.into());
        machine.state = match image.state.ok_or(Fault::UnknownKind).field("state")? {
            State::Joining(v1::Nothing {}) => MachineState::Joining,
            State::Up(v1::Nothing {}) => MachineState::Up,
            State::Down(since) => MachineState::Down { since: Time(since) },
            State::Unreachable(since) => MachineState::Unreachable { since: Time(since) },
        };
        machine.drain = read::optional(image.drain, "drain")?.map(Arc::new);
        machine.report = Arc::new(read::message(image.report, "report")?);
        machine.operator_attributes = Arc::new(image.operator_attributes);
        machine.next_port = read::small(image.next_port, u16::MAX, "nextPort")?;
        machine.next_address = Ipv4Addr::from_bits(image.next_address);
        let ends = image.saver_ends.into_iter().map(saver::read_end).collect::<Result<_, _>>();
        machine.saver_ends = Arc::new(ends.field("saverEnds")?);
        let volumes = image.volumes.into_iter().enumerate().map(|(position, volume)| {
            let volume = read_volume(volume).element(position).field("volumes")?;
            Ok((volume.described.name.clone(), volume))
        });
        machine.volumes = Arc::new(volumes.collect::<Result<_, Malformed>>()?);
        let crash = |crash: machine_image::Crash| {
            let (collection, index) = (CollectionId(crash.collection), TaskIndex(crash.index));
            let user = read::name(&crash.user, "user")?;
            Ok(CrashSeen { task: TaskId { collection, index }, user, at: Time(crash.at) })
        };
        let crashes = image.crashes.into_iter().map(crash).collect::<Result<_, Malformed>>();
        machine.crashes = crashes.field("crashes")?;
        machine.credentials = read::optional(image.credentials, "credentials")?.map(Arc::new);
        Ok(machine)
    }
}

fn volume(volume: &Volume) -> machine_image::Volume {
    machine_image::Volume {
        volume: Some((&*volume.described).into()),
        data_of: volume.data_of.as_ref().map(ToString::to_string).unwrap_or_default(),
        claims: volume.claims.iter().map(Into::into).collect(),
        first: volume.first.map(Into::into),
        content: volume.content.to_string(),
    }
}

fn read_volume(volume: machine_image::Volume) -> Result<Volume, Malformed> {
    Ok(Volume {
        described: api::volume::shared(volume.volume, "volume")?,
        data_of: read::optional_name(&volume.data_of, "dataOf")?,
        claims: read::list(volume.claims, "claims")?,
        first: volume.first.map(Into::into),
        content: read::name(&volume.content, "content")?,
    })
}

impl From<&Drain> for machine_image::Drain {
    fn from(drain: &Drain) -> Self {
        Self {
            since: drain.since.0,
            by: drain.by.to_string(),
            reason: drain.reason.clone(),
            deadline: drain.deadline.map(|deadline| deadline.0),
            force: drain.force,
            expired: drain.expired.map(|expired| expired.0),
        }
    }
}

impl TryFrom<machine_image::Drain> for Drain {
    type Error = Malformed;

    fn try_from(drain: machine_image::Drain) -> Result<Self, Malformed> {
        let by = read::name(&drain.by, "by")?;
        let (deadline, expired) = (drain.deadline.map(Time), drain.expired.map(Time));
        let (since, reason, force) = (Time(drain.since), drain.reason, drain.force);
        Ok(Self { since, by, reason, deadline, force, expired })
    }
}
