//! The reservations of tasks (paper, section 5.5). The caller computes the estimates; here they are
//! only applied.

use std::sync::Arc;

use crate::{Cell, Reservation, Reserved, TaskState};

impl Cell {
    /// Applies the reservations of live instances. This changes only what they count for on their
    /// machines: there are no events, and no machine is notified.
    pub(super) fn reserve(&mut self, reservations: &[Reservation]) {
        for reservation in reservations {
            self.reserve_one(reservation);
        }
    }

    fn reserve_one(&mut self, reservation: &Reservation) {
        let Reservation { instance, amount, newest_sample } = reservation;
        let Some(job) = self.jobs.get(instance.collection) else { return };
        if !job.is_estimated() || !job.described(instance.index).estimation {
            return;
        }
        let (limit, before) = (job.limit(instance.index), job.demand(instance.index));
        let Some(task) = job.task(instance.index) else { return };
        // A reservation equal to the limit is not stored: the limit may change.
        let amount = amount.least(limit);
        let newest_sample = *newest_sample;
        let reserved = (amount != limit).then_some(Reserved { amount, newest_sample });
        let lives =
            task.generation == instance.generation && !matches!(task.state, TaskState::Dead { .. });
        if !lives || task.reserved.as_deref() == reserved.as_ref() {
            return;
        }
        let Some(job) = self.jobs.get_mut(instance.collection) else { return };
        let Some(task) = job.task_mut(instance.index) else { return };
        task.reserved = reserved.map(Arc::new);
        let placed = match &task.state {
            TaskState::Running(placement) => Some(placement.machine),
            _ => None,
        };
        let now = job.demand(instance.index);
        if let Some(machine) = placed.and_then(|id| self.machines.get_mut(id)) {
            machine.resize(&before, &now);
        }
    }
}

#[cfg(test)]
mod tests {
    use model::{
        Band, CellName, CollectionId, End, Generation, InstanceId, JobName, MachineId, MachineName,
        MachineReport, Resources, SessionId, TaskId, TaskIndex, UserName,
    };
    use spec::{JobSpec, Maximum, TaskSpec};

    use super::*;
    use crate::feasibility::testing::resources;
    use crate::{AddMachine, Assignment, Mutation, Observation, Op, Outcome, RequestId};

    const MIB: u64 = 1 << 20;

    fn instance(index: u32, generation: u32) -> InstanceId {
        let (collection, index) = (CollectionId(1), TaskIndex(index));
        TaskId { collection, index }.generation(Generation(generation))
    }

    struct History(Cell);

    impl History {
        /// A machine of 1,000 milli-cores and 1 GiB, and a job of two tasks of half of it each.
        fn with(change: fn(&mut JobSpec)) -> Self {
            let mut history = Self(Cell::empty());
            let root = UserName::new("root").expect("a name");
            let name = CellName::new("test").expect("a name");
            history.apply(&Op::Bootstrap { name, administrator: root.clone() });
            history.apply(&Op::OpenSession { user: root });
            let name = MachineName::new("m1").expect("a name");
            history.ask(1, Mutation::AddMachine(AddMachine { name, address: "m1:1".to_owned() }));
            let capacity = resources(1_000, 1_024 * MIB);
            let report = Arc::new(MachineReport { capacity, ..MachineReport::default() });
            history.apply(&Op::DescribeMachine { machine: MachineId(1), report });
            history.submit(2, change);
            history
        }

        fn submit(&mut self, sequence: u64, change: fn(&mut JobSpec)) -> Outcome {
            let mut task = TaskSpec::of(vec!["x".to_owned()]);
            task.limit = resources(500, 512 * MIB);
            let name = JobName::new("web").expect("a name");
            let mut spec = JobSpec::of(name, Band::Production.usual(), 2, task);
            change(&mut spec);
            self.ask(sequence, Mutation::Submit(Arc::new(spec)))
        }

        /// The leader has a task changed by the open update.
        fn change(&mut self, index: u32) {
            let job = self.0.job(CollectionId(1)).expect("there");
            let (job, version) = (job.id, job.last_version);
            let steps = vec![crate::UpdateStep::Change(TaskIndex(index))];
            self.apply(&Op::StepUpdate { job, version, steps });
        }

        fn ask(&mut self, sequence: u64, mutation: Mutation) -> Outcome {
            let id = RequestId { session: SessionId(1), sequence };
            self.apply(&Op::Request { id, by: UserName::new("root").expect("a name"), mutation })
        }

        fn apply(&mut self, op: &Op) -> Outcome {
            let outcome = self.0.apply(self.0.time() + model::Span::from_secs(9), op).outcome;
            assert_eq!(self.0.check(), [], "{op:?}");
            outcome
        }

        fn place(&mut self, index: u32) -> bool {
            let (machine, ports, victims) = (MachineId(1), Vec::new(), Vec::new());
            let instance = instance(index, 1);
            let assignment =
                Assignment { instance, alloc: None, machine, address: None, ports, victims };
            let outcome = self.apply(&Op::assign(vec![assignment]));
            matches!(outcome, Outcome::Assigned(judged) if judged[0].is_ok())
        }

        fn reserve(&mut self, index: u32, cpu: u64) -> Resources {
            let amount = resources(cpu, 2_048 * MIB);
            let instance = instance(index, 1);
            self.apply(&Op::Reserve(vec![Reservation { instance, amount, newest_sample: None }]));
            self.machine().reserved()
        }

        fn machine(&self) -> &crate::Machine {
            self.0.machine(MachineId(1)).expect("there")
        }
    }

    #[test]
    fn a_reservation_never_counts_for_more_than_the_limit() {
        let half = resources(500, 512 * MIB);
        let mut history = History::with(|_| {});
        assert!(history.place(0));
        assert_eq!(history.reserve(0, 100), resources(100, 512 * MIB));
        assert_eq!(history.reserve(0, 9_999), half);
        assert_eq!(history.machine().taken(), half, "the limit is unchanged");
        assert_eq!(history.reserve(1, 200), half, "a pending task has no reservation");
        assert!(history.place(1));
        assert_eq!(history.machine().reserved(), resources(700, 1_024 * MIB));
    }

    #[test]
    fn a_task_without_estimation_keeps_its_limit() {
        let half = resources(500, 512 * MIB);
        let mut history = History::with(|spec| spec.estimation = false);
        assert!(history.place(0));
        assert_eq!(history.reserve(0, 100), half);
        history.submit(3, |_| {});
        assert_eq!(
            history.reserve(0, 100),
            resources(100, 512 * MIB),
            "it is estimated from now on"
        );
        history.submit(4, |spec| spec.estimation = false);
        assert_eq!(history.machine().reserved(), half, "and not any more");
    }

    #[test]
    fn an_incarnation_begins_at_its_limit_and_lower_limits_lower_its_reservation() {
        let mut history = History::with(|_| {});
        assert!(history.place(0));
        history.reserve(0, 400);
        history.submit(3, |spec| spec.task.limit = resources(300, 512 * MIB));
        history.change(0);
        assert_eq!(history.machine().reserved(), resources(300, 512 * MIB));
        history.submit(4, |spec| spec.task.limit = resources(600, 512 * MIB));
        history.change(0);
        assert_eq!(history.machine().reserved(), resources(400, 512 * MIB));
        let (machine, end) = (MachineId(1), End::Exited { code: 1 });
        let observations = vec![Observation::Ended {
            instance: instance(0, 1),
            end,
            usage: model::FinalUsage::UNMEASURED,
        }];
        history.apply(&Op::Observe { machine, observations });
        assert_eq!(history.machine().reserved(), Resources::default());
        assert_eq!(history.reserve(0, 100), Resources::default(), "that incarnation is over");
        let job = history.0.job(CollectionId(1)).expect("there");
        assert_eq!(job.reservation(TaskIndex(0)), resources(600, 512 * MIB));
    }

    #[test]
    fn production_that_reserves_little_is_judged_by_its_limits() {
        let mut history = History::with(|spec| spec.task.limit.cpu = model::MilliCores(600));
        assert!(history.place(0));
        history.reserve(0, 100);
        assert!(!history.place(1), "1,200 of 1,000 milli-cores");
        // The other tasks are not.
        history.submit(3, |spec| {
            spec.task.limit.cpu = model::MilliCores(600);
            spec.priority = Band::BestEffortBatch.usual();
        });
        assert!(history.place(1));
        // Tasks that become production again have to fit as such: only one of them does.
        history.submit(4, |spec| spec.task.limit.cpu = model::MilliCores(600));
        assert_eq!(history.machine().taken_by_prod().cpu, model::MilliCores(600));
    }

    #[test]
    fn no_more_run_on_a_machine_than_the_maximum() {
        let mut history = History::with(|spec| {
            spec.max_per_machine = Some(Maximum { tasks: 1, hard: true });
        });
        assert!(history.place(0) && !history.place(1));
    }
}
