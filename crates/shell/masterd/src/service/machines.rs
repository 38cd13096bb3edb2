//! The service for machines and their platforms.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::v1;
use api::v1::change_machine_request::{self, Change, Remove};
use api::v1::past_question::Question;
use cell::{
    AcceptVolume, AddMachine, DrainMachine, EndSaver, Machine, Mutation, ReleaseVolume,
    RemoveMachine, RemoveVolume, Reply, SetAttributes, SetPlatform, SetVolume, UndrainMachine,
};
use master::Spread;
use model::{GcuFactor, MachineId, MachineName, MachineVolume, Time, VolumeName, attribute};
use prost::Message as _;
use rpc::service::machines_server;
use tonic::{Request, Status};

use crate::agents;
use crate::reads::{Reads, few};
use crate::service::Answer;
use crate::service::door::Door;

/// The service.
#[derive(Clone)]
pub(super) struct Machines {
    door: Door,
    agents: agents::Handle,
}

impl Machines {
    pub(super) fn new(door: Door, agents: agents::Handle) -> Self {
        Self { door, agents }
    }

    /// Adds what is not in the cell: which replica polls each machine, and which cannot reach it;
    /// for a single machine also why. Every replica gives the same answer.
    async fn tell_of_links(&self, machines: &mut [v1::MachineStatus]) {
        let view = self.door.core.view();
        for machine in &mut *machines {
            tell_of_link(&view.spread, machine);
        }
        if let [machine] = machines {
            let id = MachineId(machine.id);
            let own = view.spread.owner(id);
            let others = view.spread.second(id).into_iter().flat_map(|second| second.by.clone());
            let mut troubles = Vec::new();
            for replica in own.into_iter().chain(others) {
                let why = match replica == view.me {
                    true => self.agents.trouble(id).unwrap_or_default(),
                    false => self.door.peers.trouble(replica, id).await.unwrap_or_default(),
                };
                if !why.is_empty() {
                    troubles.push(format!("by replica {replica}: {why}"));
                }
            }
            machine.not_reached = troubles.join("; ");
        }
    }
}

#[tonic::async_trait]
impl machines_server::Machines for Machines {
    async fn add(&self, request: Request<v1::AddMachineRequest>) -> Answer<v1::AddMachineResponse> {
        let by = self.door.caller(&request)?;
        let bytes = request.get_ref().encoded_len();
        let v1::AddMachineRequest { id, name, address } = request.into_inner();
        let name =
            MachineName::new(&name).map_err(|error| Status::invalid_argument(error.to_string()))?;
        let mutation = AddMachine { name, address };
        self.door
            .change(id, by, mutation, bytes, |index, reply| match reply {
                Reply::MachineAdded(id) => Some(v1::AddMachineResponse { index, machine: id.0 }),
                _ => None,
            })
            .await
    }

    async fn change(
        &self,
        request: Request<v1::ChangeMachineRequest>,
    ) -> Answer<v1::ChangeMachineResponse> {
        let by = self.door.caller(&request)?;
        let asked = request.into_inner();
        let bytes = asked.encoded_len();
        let machine = MachineName::new(&asked.machine)
            .map_err(|error| Status::invalid_argument(error.to_string()))?;
        let change = asked.change.ok_or_else(|| Status::invalid_argument("no change is given"))?;
        let mutation = match change {
            Change::Drain(drain) => {
                let deadline = drain.deadline.map(Time);
                let (reason, force) = (drain.reason, drain.force);
                Mutation::DrainMachine(DrainMachine { machine, reason, deadline, force })
            }
            Change::Undrain(_) => Mutation::UndrainMachine(UndrainMachine { machine }),
            Change::EndSaver(end) => {
                let missing = || Status::invalid_argument("the instance is missing");
                let instance = end.instance.ok_or_else(missing)?.into();
                Mutation::EndSaver(EndSaver { machine, instance })
            }
            Change::Remove(Remove { force }) => {
                Mutation::RemoveMachine(RemoveMachine { machine, force })
            }
            Change::SetVolume(volume) => {
                let volume = MachineVolume::try_from(volume).map(Arc::new);
                let volume = volume.map_err(|error| Status::invalid_argument(error.to_string()))?;
                Mutation::SetVolume(SetVolume { machine, volume })
            }
            Change::RemoveVolume(remove) => {
                let (volume, force) = (volume_name(&remove.volume)?, remove.force);
                Mutation::RemoveVolume(RemoveVolume { machine, volume, force })
            }
            Change::ReleaseVolume(volume) => {
                let volume = volume_name(&volume)?;
                Mutation::ReleaseVolume(ReleaseVolume { machine, volume })
            }
            Change::AcceptVolume(volume) => {
                let volume = volume_name(&volume)?;
                Mutation::AcceptVolume(AcceptVolume { machine, volume })
            }
            Change::SetAttributes(said) => {
                Mutation::SetAttributes(SetAttributes { machine, changes: attributes(said)? })
            }
        };
        self.door
            .change(asked.id, by, mutation, bytes, |index, reply| match reply {
                Reply::Drained { tasks } => {
                    Some(v1::ChangeMachineResponse { index, leaving: *tasks })
                }
                Reply::Done => Some(v1::ChangeMachineResponse { index, leaving: 0 }),
                _ => None,
            })
            .await
    }

    async fn list(&self, request: Request<v1::MachinesRequest>) -> Answer<v1::MachinesResponse> {
        let (by, asked) = (self.door.anyone(&request).await?, request.into_inner());
        few("machines", asked.names.len())?;
        if let Some(at) = asked.at {
            return self.door.past(&by, at, Question::Machines(asked)).await;
        }
        let mut answer = match asked.names.as_slice() {
            [_] => self.door.read(&by, |reads| reads.machines(&asked))?,
            _ => self.door.read_much(&by, move |reads| reads.machines(&asked)).await?,
        };
        self.tell_of_links(&mut answer.get_mut().machines).await;
        Ok(answer)
    }

    async fn plan_drain(
        &self,
        request: Request<v1::PlanDrainRequest>,
    ) -> Answer<v1::PlanDrainResponse> {
        let (by, asked) = (self.door.anyone(&request).await?, request.into_inner());
        few("machines", asked.machines.len())?;
        let names = asked.machines.iter().map(|name| MachineName::new(name));
        let names: Vec<_> = names
            .collect::<Result<_, _>>()
            .map_err(|error| Status::invalid_argument(error.to_string()))?;
        self.door.read_much(&by, move |reads| reads.plan_drain(&names)).await
    }

    async fn shapes(&self, request: Request<v1::ShapesRequest>) -> Answer<v1::ShapesResponse> {
        let (by, asked) = (self.door.anyone(&request).await?, request.into_inner());
        self.door.read_much(&by, move |reads| reads.shapes(&asked)).await
    }

    async fn platforms(
        &self,
        request: Request<v1::PlatformsRequest>,
    ) -> Answer<v1::PlatformsResponse> {
        let by = self.door.anyone(&request).await?;
        self.door.read(&by, |reads| Ok(reads.platforms()))
    }

    async fn set_platform(
        &self,
        request: Request<v1::SetPlatformRequest>,
    ) -> Answer<v1::SetPlatformResponse> {
        let by = self.door.caller(&request)?;
        let asked = request.into_inner();
        let bytes = asked.encoded_len();
        let v1::SetPlatformRequest { id, platform, factor_milli } = asked;
        let factor = GcuFactor::from_milli(factor_milli)
            .map_err(|error| Status::invalid_argument(error.to_string()))?;
        let of_it = {
            let view = self.door.core.view();
            let is_it = |machine: &&_| platform_of(machine) == Some(&platform);
            view.cell.machines().map(AsRef::as_ref).filter(is_it).count()
        };
        let machines = u32::try_from(of_it).unwrap_or(u32::MAX);
        let mutation = SetPlatform { platform, factor };
        self.door
            .change(id, by, mutation, bytes, |index, reply| match reply {
                Reply::Done => Some(v1::SetPlatformResponse { index, machines }),
                _ => None,
            })
            .await
    }
}

/// Sets which replica polls a machine, and which of those that do cannot reach it.
fn tell_of_link(spread: &Spread, machine: &mut v1::MachineStatus) {
    let id = MachineId(machine.id);
    let own = spread.owner(id);
    let silent = matches!(machine.state(), v1::MachineState::Unreachable | v1::MachineState::Down);
    let (by, failed) = match spread.second(id) {
        None => (own, own.into_iter().filter(|_| silent).collect()),
        Some(second) if second.reached => (second.by.first().copied(), Vec::from_iter(own)),
        // The others are still about to find out.
        Some(_) => (own, Vec::from_iter(own)),
    };
    machine.polled_by = by.map_or(0, |replica| replica.0);
    machine.not_reached_by = failed.into_iter().map(|replica| replica.0).collect();
}

impl Reads<'_> {
    /// The platforms of the machines, and those with settings.
    pub(crate) fn platforms(&self) -> v1::PlatformsResponse {
        let mut all: BTreeMap<&str, (GcuFactor, u32)> =
            self.cell.platforms().map(|(platform, factor)| (platform, (factor, 0))).collect();
        for machine in self.cell.machines() {
            if let Some(platform) = platform_of(machine) {
                all.entry(platform).or_default().1 += 1;
            }
        }
        let status = |(platform, (factor, machines)): (&str, (GcuFactor, u32))| {
            let platform = platform.to_owned();
            v1::PlatformStatus { platform, factor_milli: factor.milli(), machines }
        };
        v1::PlatformsResponse {
            index: self.cell.index().0,
            time: self.now.0,
            platforms: all.into_iter().map(status).collect(),
        }
    }
}

/// When a machine was last revoked, if it was.
pub(super) fn revoked(machine: &Arc<Machine>) -> Option<Time> {
    let credentials = machine.credentials.as_ref()?;
    credentials.revoked.as_ref().map(|act| act.at)
}

fn volume_name(text: &str) -> Result<VolumeName, Status> {
    VolumeName::new(text).map_err(|error| Status::invalid_argument(error.to_string()))
}

fn platform_of(machine: &Machine) -> Option<&str> {
    machine.attribute(attribute::PLATFORM)
}

fn attributes(
    said: change_machine_request::SetAttributes,
) -> Result<BTreeMap<String, Option<String>>, Status> {
    let set = said.set.into_iter().map(|(name, value)| (name, Some(value)));
    let mut changes: BTreeMap<_, _> = set.collect();
    for name in said.unset {
        if let Some(before) = changes.insert(name, None) {
            let what = if before.is_some() { "set and unset at once" } else { "unset twice" };
            return Err(Status::invalid_argument(format!("an attribute is {what}")));
        }
    }
    Ok(changes)
}
