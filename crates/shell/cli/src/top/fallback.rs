//! The views without usage, from what every master answers: for a master that does not know usage
//! yet, during an upgrade.

use api::v1;
use client::Connection;
use model::Priority;

use super::views::View;

/// Requests names and states, and leaves the usage out.
pub(super) async fn ask(
    connection: &mut Connection,
    view: &View,
) -> Result<v1::UsageResponse, client::Error> {
    let mut response = v1::UsageResponse::default();
    match view {
        View::Cell | View::Machines => {
            let request = v1::MachinesRequest::default();
            let call = async |mut client: client::MasterClient, request| {
                client.machines.list(request).await
            };
            let answer = connection.ask(request, call).await?;
            (response.index, response.time) = (answer.index, answer.time);
            response.cell = Some(cell(&answer.machines));
            response.machines = answer.machines.into_iter().map(machine).collect();
        }
        View::Jobs { .. } | View::Tasks { .. } => {
            let mut request = v1::StatusRequest::default();
            if let View::Tasks { user, job } = view {
                request.jobs = vec![v1::JobAddress { user: user.clone(), job: job.clone() }];
                request.tasks = true;
            }
            let answer = connection
                .ask(request, async |mut client, request| client.jobs.status(request).await)
                .await?;
            (response.index, response.time) = (answer.index, answer.time);
            for status in answer.jobs {
                response.tasks.extend(status.tasks.iter().map(task));
                if !matches!(view, View::Jobs { user: Some(user) } if *user != status.user) {
                    response.jobs.push(job(status));
                }
            }
        }
    }
    Ok(response)
}

fn cell(machines: &[v1::MachineStatus]) -> v1::CellUsage {
    let up = [v1::MachineState::Up, v1::MachineState::Draining, v1::MachineState::Drained];
    let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
    v1::CellUsage {
        machines: count(machines.len()),
        machines_up: count(machines.iter().filter(|one| up.contains(&one.state())).count()),
        ..v1::CellUsage::default()
    }
}

fn machine(status: v1::MachineStatus) -> v1::MachineUsage {
    v1::MachineUsage {
        id: status.id,
        state: status.state,
        capacity: status.capacity,
        draining: status.draining_since > 0,
        name: status.name,
        ..v1::MachineUsage::default()
    }
}

fn job(status: v1::JobStatus) -> v1::JobUsage {
    let counts = status.counts.unwrap_or_default();
    let spec = status.spec.unwrap_or_default();
    let priority = spec.priority.unwrap_or_default();
    let band = Priority::new(priority.into()).map(|priority| v1::Band::from(priority.band()));
    v1::JobUsage {
        user: status.user,
        job: spec.name,
        priority,
        band: band.unwrap_or_default().into(),
        tasks: counts.tasks,
        pending: counts.pending,
        healthy: counts.healthy,
        ..v1::JobUsage::default()
    }
}

fn task(status: &v1::TaskStatus) -> v1::TaskUsage {
    v1::TaskUsage {
        index: status.index,
        generation: status.generation,
        state: status.state,
        health: status.health,
        machine: status.machine.clone(),
        failures: status.failures,
        ..v1::TaskUsage::default()
    }
}
