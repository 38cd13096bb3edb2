//! Messages of the wire. The first byte says which; what it holds of the core's types is converted
//! to them, survives the way there and back, or is refused.

#![no_main]

use borglet::{Order, Report};
use cell::Assignment;
use fuzz::survives;
use libfuzzer_sys::fuzz_target;
use model::{End, MachineReport, PortName, Resources, TaskSelection};
use prost::Message;
use proto::v1;
use serde::Serialize;
use spec::JobSpec;

fuzz_target!(|input: &[u8]| {
    let Some((kind, bytes)) = input.split_first() else { return };
    match kind % 8 {
        0 => {
            let Some(request) = decode::<v1::PollRequest>(bytes) else { return };
            request.order.map(survives::<_, Order>);
            request.hold.map(|hold| proto::span(&hold));
        }
        1 => {
            let Some(response) = decode::<v1::PollResponse>(bytes) else { return };
            response.report.map(survives::<_, Report>);
        }
        2 => {
            let Some(request) = decode::<v1::SubmitRequest>(bytes) else { return };
            request.spec.map(survives::<_, JobSpec>);
        }
        3 => {
            let Some(request) = decode::<v1::ProposeRequest>(bytes) else { return };
            request.assignments.into_iter().for_each(survives::<_, Assignment>);
        }
        4 => {
            let Some(response) = decode::<v1::StatusResponse>(bytes) else { return };
            for job in response.jobs {
                job.spec.map(survives::<_, JobSpec>);
                for task in job.tasks {
                    task.last_end.map(survives::<_, End>);
                    for port in task.ports {
                        let _ = <(PortName, u16)>::try_from(port);
                    }
                }
            }
        }
        5 => {
            let Some(request) = decode::<v1::KillRequest>(bytes) else { return };
            request.tasks.map(survives::<_, TaskSelection>);
        }
        6 => {
            let Some(response) = decode::<v1::MachinesResponse>(bytes) else { return };
            for machine in response.machines {
                machine.report.map(survives::<_, MachineReport>);
                machine.taken.map(survives::<_, Resources>);
            }
        }
        _ => {
            let Some(response) = decode::<v1::WhyResponse>(bytes) else { return };
            for group in response.groups {
                group.limit.map(survives::<_, Resources>);
                group.last_end.map(survives::<_, End>);
            }
        }
    }
});

/// A message, which is also what `--json` prints: that fails only for an enum's unknown value or an
/// impossible duration, and never panics.
fn decode<M: Message + Default + Serialize>(bytes: &[u8]) -> Option<M> {
    let message = M::decode(bytes).ok()?;
    let _ = serde_json::to_vec(&message);
    Some(message)
}
