//! `/sd/masters` and `/sd/machines`: the replicas of the cell and the Borglets of its machines, as targets for
//! Prometheus' HTTP service discovery.
//!
//! Every replica answers from its own view, under the same rules as [`super::service_discovery`]. A machine that
//! does not answer stays a target, so that its `up` is 0.

use axum::extract::State;
use axum::response::Response;
use cell::{Cell, MachineState};
use model::CellName;
use serde::Serialize;

use crate::service::health::Monitoring;
use crate::service::service_discovery::{answered, in_json};

/// The path of the replicas.
pub(crate) const MASTERS: &str = "/sd/masters";
/// The path of the machines.
pub(crate) const MACHINES: &str = "/sd/machines";

/// A process with its labels, in Prometheus' format.
#[derive(Debug, Serialize)]
struct ProcessTarget<'a> {
    targets: [&'a str; 1],
    labels: ProcessLabels<'a>,
}

#[derive(Debug, Serialize)]
struct ProcessLabels<'a> {
    cell: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    replica: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    machine: Option<&'a str>,
}

/// `/sd/masters`
pub(crate) async fn masters(State(monitoring): State<Monitoring>) -> Response {
    answered(&monitoring.door, |names| in_json(json(&replicas(names.cell)))).await
}

/// `/sd/machines`
pub(crate) async fn machines(State(monitoring): State<Monitoring>) -> Response {
    answered(&monitoring.door, |names| in_json(json(&borglets(names.cell)))).await
}

/// Names and addresses have no part that JSON cannot hold.
fn json(targets: &[ProcessTarget<'_>]) -> Vec<u8> {
    serde_json::to_vec(targets).unwrap_or_else(|_| b"[]".to_vec())
}

fn name(cell: &Cell) -> &str {
    cell.name().map(CellName::as_str).unwrap_or_default()
}

/// The replicas whose address is recorded, but those that are leaving.
fn replicas(cell: &Cell) -> Vec<ProcessTarget<'_>> {
    let stay = cell.replicas().filter(|replica| !replica.leaving && !replica.address.is_empty());
    stay.map(|replica| ProcessTarget {
        targets: [&replica.address],
        labels: ProcessLabels {
            cell: name(cell),
            replica: Some(replica.id.to_string()),
            machine: None,
        },
    })
    .collect()
}

/// The machines that have said where they are.
fn borglets(cell: &Cell) -> Vec<ProcessTarget<'_>> {
    let known = cell.machines().filter(|machine| {
        !matches!(machine.state, MachineState::Joining) && !machine.address.is_empty()
    });
    known
        .map(|machine| ProcessTarget {
            targets: [&machine.address],
            labels: ProcessLabels {
                cell: name(cell),
                replica: None,
                machine: Some(machine.name.as_str()),
            },
        })
        .collect()
}
