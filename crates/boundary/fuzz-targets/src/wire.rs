//! Messages of the wire. The first byte says which; what it holds of the core's types is converted
//! to them, survives the way there and back, or is refused.

use std::fmt::{Debug, Display};

use crate::{assert_harmless, survives};
use api::v1;
use borglet::{Order, Report};
use cell::Assignment;
use model::{End, MachineReport, PortName, Resources, TaskSelection};
use prost::Message;
use serde::Serialize;
use spec::JobSpec;

pub(crate) fn run(input: &[u8]) {
    let Some((kind, bytes)) = input.split_first() else { return };
    match kind % 9 {
        0 => {
            let Some(request) = decode::<v1::PollRequest>(bytes) else { return };
            each::<_, Order>(request.order);
            let _ = request.hold.as_ref().map(api::span);
        }
        1 => {
            let Some(response) = decode::<v1::PollResponse>(bytes) else { return };
            each::<_, Report>(response.report);
            each::<_, borglet::Usage>(response.usage);
        }
        2 => {
            let Some(request) = decode::<v1::SubmitRequest>(bytes) else { return };
            each::<_, JobSpec>(request.spec);
        }
        3 => {
            let Some(request) = decode::<v1::ProposeRequest>(bytes) else { return };
            each::<_, Assignment>(request.assignments);
        }
        4 => {
            let Some(response) = decode::<v1::StatusResponse>(bytes) else { return };
            for job in response.jobs {
                each::<_, JobSpec>(job.spec);
                for task in job.tasks {
                    each::<_, End>(task.last_end);
                    for port in task.ports {
                        let _ = <(PortName, u16)>::try_from(port);
                    }
                }
            }
        }
        5 => {
            let Some(request) = decode::<v1::KillRequest>(bytes) else { return };
            each::<_, TaskSelection>(request.tasks);
        }
        6 => {
            let Some(response) = decode::<v1::MachinesResponse>(bytes) else { return };
            for machine in response.machines {
                each::<_, MachineReport>(machine.report);
                each::<_, Resources>(machine.taken);
            }
        }
        7 => {
            let Some(response) = decode::<v1::WhyResponse>(bytes) else { return };
            for group in response.groups {
                each::<_, Resources>(group.limit);
                each::<_, End>(group.last_end);
            }
        }
        _ => replica(bytes),
    }
}

/// What another replica says, which has no equality: as it is written again, it is read again.
fn replica(bytes: &[u8]) {
    let Ok(message) = replication::v1::ReplicaMessage::decode(bytes) else { return };
    match replica::Message::try_from(message) {
        Ok(message) => {
            let written = replication::v1::ReplicaMessage::from(&message);
            match replica::Message::try_from(written.clone()) {
                Ok(again) => assert_eq!(replication::v1::ReplicaMessage::from(&again), written),
                Err(error) => panic!("{message:?} is refused after a round trip: {error}"),
            }
        }
        Err(error) => assert_harmless(&error.to_string()),
    }
}

/// Messages that are there, one or none or many.
fn each<M, X>(messages: impl IntoIterator<Item = M>)
where
    M: for<'a> From<&'a X>,
    X: TryFrom<M, Error: Display> + PartialEq + Debug,
{
    messages.into_iter().for_each(survives::<M, X>);
}

/// A message, which is also what `--json` prints: that fails only for an enum's unknown value or an
/// impossible duration, and never panics.
fn decode<M: Message + Default + Serialize>(bytes: &[u8]) -> Option<M> {
    let message = M::decode(bytes).ok()?;
    let _ = serde_json::to_vec(&message);
    Some(message)
}
