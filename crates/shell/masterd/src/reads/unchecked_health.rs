//! When a task without a health check is shown as healthy. The cell counts such a task as healthy
//! as soon as it starts. But a service that ends at once, like a program that does not find its
//! configuration, never was: so it is shown as healthy only after it has run for a moment. A task
//! with a health check is as healthy as the check says, and a batch job's task may end at any time.

use cell::{Health, Job, Phase, Placement, TaskState};
use model::{Appclass, Span, TaskIndex, Time};

/// For how long a serving task without a health check has to run.
pub(crate) const SETTLING: Span = Span::from_secs(1);

/// When a task that started then has settled; `None` if it need not.
fn settles(job: &Job, index: TaskIndex, started: Time) -> Option<Time> {
    let serves = job.described(index).appclass == Appclass::LatencySensitive
        && !job.spec.kind.is_alloc_set();
    let has_to = serves && job.described(index).health_check(index).is_none();
    has_to.then_some(started + SETTLING)
}

/// A task's health at a time, as it is shown: nobody should count on a stopping task.
pub(crate) fn shown(job: &Job, index: TaskIndex, placement: &Placement, now: Time) -> Health {
    match placement.phase {
        _ if placement.stop.is_some() => Health::Unknown,
        Phase::Started { at, health: Health::Healthy, .. }
            if settles(job, index, at).is_some_and(|settled| now < settled) =>
        {
            Health::Unknown
        }
        Phase::Started { health, .. } => health,
        Phase::Starting => Health::Unknown,
    }
}

/// When the next of a job's tasks settles.
pub(crate) fn next(job: &Job, now: Time) -> Option<Time> {
    let settles = job.tasks().filter_map(|(index, task)| match &task.state {
        TaskState::Running(placement) => match placement.phase {
            Phase::Started { at, health: Health::Healthy, .. } => settles(job, index, at),
            _ => None,
        },
        _ => None,
    });
    settles.filter(|settled| now < *settled).min()
}

#[cfg(test)]
pub(crate) mod tests {
    use std::sync::Arc;

    use cell::{AddMachine, Assignment, Cell, Mutation, Observation, Op, RequestId};
    use model::{
        Bytes, CollectionId, Generation, InstanceId, MachineId, MachineReport, MilliCores,
        Resources, SessionId,
    };
    use spec::{HealthCheck, JobSpec, TaskSpec};

    use super::*;
    use crate::reads::views::job_status;

    /// When its task has started.
    pub(crate) const STARTED: Time = Time(10_000_000);

    /// A cell with a job of one task that has started then.
    pub(crate) fn started(appclass: Appclass, checked: bool) -> Cell {
        let mut cell = Cell::empty();
        let ana: model::UserName = "ana".parse().expect("a name");
        let name = "lab".parse().expect("a name");
        cell.apply(Time(1), &Op::Bootstrap { name, administrator: ana.clone() });
        cell.apply(Time(2), &Op::OpenSession { user: ana.clone() });
        let (name, priority) = ("web".parse().expect("a name"), "1".parse().expect("one"));
        let mut task = TaskSpec::of(vec!["serve".to_owned()]);
        let port = "http".parse().expect("a name");
        task.health_check = checked.then(|| HealthCheck::on(port));
        let spec = JobSpec { appclass, ..JobSpec::of(name, priority, 1, task) };
        let (machine, address) = ("m1".parse().expect("a name"), "m1:1".to_owned());
        let mutations = [
            Mutation::AddMachine(AddMachine { name: machine, address }),
            Mutation::Submit(Arc::new(spec)),
        ];
        for (sequence, mutation) in (1..).zip(mutations) {
            let id = RequestId { session: SessionId(1), sequence };
            cell.apply(Time(3), &Op::Request { id, by: ana.clone(), mutation });
        }
        let capacity =
            Resources { cpu: MilliCores(9_000), ram: Bytes(9 << 30), ..Resources::default() };
        let ports = model::PortRange { first: 31_000, last: 31_009 };
        let report = Arc::new(MachineReport { capacity, ports, ..MachineReport::default() });
        let machine = MachineId(1);
        let (collection, index, generation) = (CollectionId(1), TaskIndex(0), Generation(1));
        let instance = InstanceId { collection, index, generation };
        let ports = if checked { vec![31_000] } else { Vec::new() };
        let victims = Vec::new();
        let assignment =
            Assignment { address: None, instance, alloc: None, machine, ports, victims };
        let observations = vec![Observation::Started { instance }];
        for op in [
            Op::DescribeMachine { machine, report },
            Op::Assign(vec![assignment]),
            Op::Observe { machine, observations },
        ] {
            cell.apply(STARTED, &op);
        }
        cell
    }

    #[test]
    fn nobody_counts_on_a_task_that_stops() {
        let mut cell = started(Appclass::Batch, false);
        let counts = |cell: &Cell| {
            let job = cell.jobs().next().expect("the job");
            job_status(cell, job, true, STARTED).counts.expect("counts")
        };
        assert_eq!(counts(&cell).healthy, 1);
        let id = RequestId { session: SessionId(1), sequence: 3 };
        let tasks = model::TaskSelection::All;
        let by: model::UserName = "ana".parse().expect("a name");
        let job = cell.jobs().next().expect("the job");
        let mutation = Mutation::Kill(cell::Kill::of(job, tasks));
        cell.apply(STARTED, &Op::Request { id, by, mutation });
        assert_eq!((counts(&cell).running, counts(&cell).healthy), (1, 0));
    }

    #[test]
    fn a_task_that_serves_without_a_check_is_healthy_when_it_has_run_for_a_moment() {
        let (before, settled) = (Time(STARTED.0 + SETTLING.0 - 1), STARTED + SETTLING);
        use Appclass::{Batch, LatencySensitive};
        for (appclass, checked, now, healthy, next_change) in [
            (LatencySensitive, false, STARTED, 0, Some(settled)),
            (LatencySensitive, false, before, 0, Some(settled)),
            (LatencySensitive, false, settled, 1, None),
            (Batch, false, STARTED, 1, None),
            // Its check has not reported yet.
            (LatencySensitive, true, settled, 0, None),
        ] {
            let cell = started(appclass, checked);
            let job = cell.jobs().next().expect("the job");
            let counts = job_status(&cell, job, true, now).counts.expect("counts");
            let what = format!("{appclass:?} {checked} {now:?}");
            assert_eq!((counts.running, counts.healthy), (1, healthy), "{what}");
            assert_eq!(next(job, now), next_change, "{what}");
        }
    }
}
