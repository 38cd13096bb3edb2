//! Whatever the partitions, however far replicas lag and however late polls complete: the stamps
//! that a Borglet obeys never go back, and no false conclusion is drawn.

use proptest::prelude::*;

use super::cluster::Cluster;
use super::*;

/// A change of a cluster of three replicas and four machines.
#[derive(Clone, Debug)]
enum Step {
    Submitted,
    Assign {
        index: u32,
        machine: u64,
    },
    Kill(u32),
    /// The leader sends the active replicas; some do not receive it.
    Active {
        active: Vec<u64>,
        hear: Vec<u64>,
    },
    Lead(u64),
    Lag(u64, bool),
    Pass(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let replica = || 1..4_u64;
    let some = || prop::collection::vec(replica(), 0..4);
    prop_oneof![
        1 => Just(Step::Submitted),
        4 => (0..8_u32, 1..5_u64).prop_map(|(index, machine)| Step::Assign { index, machine }),
        2 => (0..8_u32).prop_map(Step::Kill),
        3 => (some(), some()).prop_map(|(active, hear)| Step::Active { active, hear }),
        1 => replica().prop_map(Step::Lead),
        2 => (replica(), any::<bool>()).prop_map(|(id, lags)| Step::Lag(id, lags)),
        6 => (0..1_500_u64).prop_map(Step::Pass),
    ]
}

/// The expected instances of each machine after each operation, from the log alone.
struct Reference(BTreeMap<LogIndex, Cell>);

impl Reference {
    fn of(cluster: &Cluster) -> Self {
        let mut cell = Cell::empty();
        let mut after = BTreeMap::new();
        for (_, at, op) in cluster.log() {
            cell.apply(*at, op);
            after.insert(cell.index(), cell.clone());
        }
        Self(after)
    }

    /// The expected content of an order with this stamp.
    fn order(&self, machine: MachineId, stamp: Stamp) -> Order {
        order::for_machine(&self.0[&stamp.index], machine, stamp)
    }
}

impl Cluster {
    fn take(&mut self, step: &Step) {
        let living = |cluster: &Self, index| {
            let cell = &cluster.replicas[&cluster.leader].cell;
            let job = cell.job(CollectionId(1))?;
            job.is_alive().then(|| job.instance(TaskIndex(index)))?
        };
        match step {
            Step::Submitted => self.propose(Op::Nothing),
            Step::Assign { index, machine } => {
                if let Some(instance) = living(self, *index) {
                    self.assign(*index, instance.generation.0, MachineId(*machine));
                }
            }
            Step::Kill(index) => self.kill(*index),
            Step::Active { active, hear } => {
                self.active = active.iter().copied().map(ReplicaId).collect();
                self.active.sort_unstable();
                self.active.dedup();
                for (id, replica) in &mut self.replicas {
                    replica.cut = !hear.contains(&id.0);
                }
            }
            Step::Lead(id) => self.lead(ReplicaId(*id)),
            Step::Lag(id, lags) => self.replica(ReplicaId(*id)).lags = *lags,
            Step::Pass(ms) => self.pass(Span::from_millis(*ms)),
        }
    }

    /// The invariants of everything ordered and proposed so far.
    fn is_sound(&self) {
        let reference = Reference::of(self);
        let mut newest: BTreeMap<MachineId, Stamp> = BTreeMap::new();
        for (machine, order) in &self.obeyed {
            let before = newest.insert(*machine, order.stamp);
            assert!(before <= Some(order.stamp), "m{machine} goes back");
            assert_eq!(*order, reference.order(*machine, order.stamp), "m{machine}");
        }
        for op in &self.proposed {
            let Op::Observe { observations, .. } = op else { continue };
            let lost = |observation: &Observation| {
                matches!(observation, Observation::Ended { end: End::Lost { .. }, .. })
            };
            assert!(!observations.iter().any(lost), "no machine loses anything here: {op:?}");
        }
    }

    /// Every machine runs what the cell says, and the cell contains all that it reports.
    fn is_settled(&self) {
        let cell = &self.replicas[&self.leader].cell;
        for (machine, host) in &self.hosts {
            let wanted = order::for_machine(cell, *machine, Stamp::default());
            let wanted: Vec<_> = wanted.tasks.iter().map(|task| task.instance).collect();
            let report = host.borglet.report();
            let runs: Vec<_> = report.tasks.iter().map(|task| task.instance).collect();
            assert_eq!(runs, wanted, "m{machine}");
            let placed = cell.machine(*machine).expect("there").instances().to_vec();
            assert_eq!(placed, wanted, "m{machine}: what has ended is known to");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(200) })]

    #[test]
    fn orders_never_go_back_and_nothing_false_is_concluded(
        steps in prop::collection::vec(step(), 0..60),
        seed in any::<u64>(),
    ) {
        let mut cluster = Cluster::new();
        cluster.begin(3, 4, 0);
        let task = TaskSpec { notice: Span::ZERO, ..TaskSpec::of(vec!["x".to_owned()]) };
        let name = model::JobName::new("web").expect("a name");
        let spec = JobSpec::of(name, model::Band::Production.usual(), 8, task);
        cluster.request(Mutation::Submit(Arc::new(spec)));
        cluster.delays = Some(model::Random::new(seed));
        for step in &steps {
            cluster.take(step);
        }
        cluster.is_sound();
        // All connections work again, and all machines are served.
        cluster.active = vec![ReplicaId(1), ReplicaId(2), ReplicaId(3)];
        for replica in cluster.replicas.values_mut() {
            (replica.cut, replica.lags) = (false, false);
        }
        cluster.pass(Span::from_secs(60));
        cluster.is_sound();
        cluster.is_settled();
    }
}

/// Two shards serve one idle machine for a long time without driving each other.
#[test]
fn two_pollers_of_a_machine_poll_no_more_often_than_one() {
    let mut cluster = Cluster::new();
    cluster.begin(2, 1, 1);
    let polls = |cluster: &Cluster, id| cluster.replicas[&ReplicaId(id)].polled();
    let now = cluster.now;
    for id in [1, 2] {
        let active = vec![ReplicaId(id)];
        let replica = cluster.replica(ReplicaId(id));
        replica.cut = true;
        let cell = replica.cell.clone();
        replica.shard.serve(now, &cell, Some(Partition::of(ReplicaId(id), active)));
    }
    cluster.pass(Span::from_secs(100));
    for id in [1, 2] {
        let polls = polls(&cluster, id);
        assert!((45..=60).contains(&polls), "replica {id} polls {polls} times in 100 seconds");
    }
    cluster.is_sound();
    cluster.is_settled();
}
