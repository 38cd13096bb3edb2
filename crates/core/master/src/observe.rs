//! What a machine's report means for the cell: their difference, as operations.
//!
//! At most one observation of a machine is in flight at a time; when it is applied, the last report
//! is compared again. So repeated reports add nothing to the log, and reports that arrive meanwhile
//! are not lost. If report and cell agree ([`Link::agrees`]), they are not compared again until one
//! of them changes.

use std::collections::BTreeMap;
use std::sync::Arc;

use borglet::{Report, TaskReport, TaskStatus};
use cell::{Cell, Health, MachineState, Observation, Op, Phase, Placement};
use model::{End, FinalUsage, InstanceId, MachineId, MachineReport, Time, attribute};

use crate::link::Link;
use crate::{Action, Settings};

/// Compares the machine's last report with the cell and proposes what follows from it. The cell
/// must have reached the report's stamp: an older state may be outdated.
pub(crate) fn compare(
    now: Time,
    cell: &Cell,
    id: MachineId,
    link: &mut Link,
    settings: &Settings,
    actions: &mut Vec<Action>,
) {
    link.agrees = false;
    let (Some(report), Some(machine)) = (link.report.clone(), cell.machine(id)) else { return };
    let said = link.said(now, cell.kept_report(id, &report.machine));
    let new = machine.report != said || machine.state == MachineState::Joining;
    if !new {
        link.describing.end();
    } else if let Some(report) = link.describe(now, said, settings) {
        actions.push(Action::Propose(Op::DescribeMachine { machine: id, report }));
    }
    if link.observing.is_awaited(now) {
        return;
    }
    let mut observations = Vec::new();
    let reported: BTreeMap<InstanceId, &TaskReport> =
        report.tasks.iter().map(|task| (task.instance, task)).collect();
    for instance in machine.instances() {
        let Some(placement) = cell.placement(*instance) else { continue };
        match reported.get(instance) {
            Some(said) => {
                // Else the cell itself considers a running task healthy.
                let job = cell.job(instance.collection);
                let reported = job.is_some_and(|job| job.has_reported_health(instance.index));
                differs(cell, placement, said, reported, &mut observations);
            }
            None if link.is_current() => {
                let end = missing(placement, &report);
                let usage = FinalUsage::UNMEASURED;
                observations.push(Observation::Ended { instance: *instance, end, usage });
            }
            None => {}
        }
    }
    // Tasks in an alloc end before the alloc.
    observations.sort_by_key(|observation| match observation {
        Observation::Ended { instance, .. } => {
            cell.job(instance.collection).is_some_and(|job| job.spec.kind.is_alloc_set())
        }
        Observation::Started { .. }
        | Observation::Health { .. }
        | Observation::Unready { .. }
        | Observation::NotHealthyYet { .. } => false,
    });
    link.agrees = !new && observations.is_empty() && !link.is_held();
    if observations.is_empty() {
        link.observing.end();
    } else {
        link.observing.make(now, settings);
        actions.push(Action::Propose(Op::Observe { machine: id, observations }));
    }
}

/// What a machine says of orders that it rejects, to propose if the cell does not know it. That is
/// true whichever order the machine has obeyed, unlike the rest of its report.
pub(crate) fn rejection(
    now: Time,
    cell: &Cell,
    id: MachineId,
    link: &mut Link,
    settings: &Settings,
) -> Option<Action> {
    const NAME: &str = attribute::REJECTS_ORDERS;
    let machine = cell.machine(id).filter(|machine| machine.state != MachineState::Joining)?;
    let said = link.report.as_ref()?.machine.attributes.get(NAME).cloned();
    if machine.report.attributes.get(NAME) == said.as_ref() {
        return None;
    }
    let mut report = MachineReport::clone(&machine.report);
    match said {
        Some(said) => drop(report.attributes.insert(NAME.to_owned(), said)),
        None => drop(report.attributes.remove(NAME)),
    }
    let report = link.describe(now, cell.kept_report(id, &Arc::new(report)), settings)?;
    Some(Action::Propose(Op::DescribeMachine { machine: id, report }))
}

fn differs(
    cell: &Cell,
    placement: &Placement,
    said: &TaskReport,
    reported: bool,
    observations: &mut Vec<Observation>,
) {
    let (instance, check) = (said.instance, || said.check.clone());
    match &said.status {
        TaskStatus::Starting | TaskStatus::Stopping => {}
        TaskStatus::Unready => {
            let health = match placement.phase {
                Phase::Starting => {
                    let latency = said.latency;
                    observations.push(Observation::Started { instance, latency });
                    Health::Unknown
                }
                Phase::Started { health, .. } => health,
            };
            if health != Health::Unready {
                observations.push(Observation::Unready { instance, check: check() });
            }
        }
        TaskStatus::Running { healthy } => {
            let known = match placement.phase {
                Phase::Starting => {
                    observations.push(Observation::Started { instance, latency: said.latency });
                    (!reported).then_some(true)
                }
                Phase::Started { health: Health::Unknown, .. } => None,
                // Ready again, or unhealthy now.
                Phase::Started { health: Health::Unready, .. } => None,
                Phase::Started { health, .. } => Some(health == Health::Healthy),
            };
            if let Some(healthy) = *healthy
                && known != Some(healthy)
            {
                observations.push(Observation::Health { instance, healthy, check: check() });
            }
            // Once in an incarnation, however often the text changes.
            let unknown = matches!(placement.phase, Phase::Started { health: Health::Unknown, .. });
            if healthy.is_none() && unknown && placement.check.is_none() && !said.check.is_empty() {
                observations.push(Observation::NotHealthyYet { instance, check: check() });
            }
        }
        TaskStatus::Ended(end, usage) => {
            // It was not seen to run.
            let has_run = matches!(
                end,
                End::Exited { .. }
                    | End::Signalled { .. }
                    | End::OutOfMemory { .. }
                    | End::OverRuntime { .. }
            );
            if has_run && placement.phase == Phase::Starting && placement.stop.is_none() {
                observations.push(Observation::Started { instance, latency: said.latency });
            }
            let (end, usage) = (cell.kept_end(end), *usage);
            observations.push(Observation::Ended { instance, end, usage });
        }
    }
}

/// The end of an instance that a machine does not know although it has obeyed the newest order.
fn missing(placement: &Placement, report: &Report) -> End {
    match placement.stop {
        Some(_) => End::Stopped,
        None => End::Lost {
            reason: format!("its machine does not know it (order {})", report.stamp.index),
        },
    }
}
