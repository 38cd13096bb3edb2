//! Rounds of estimates: which tasks, with which samples, and what is proposed.

use super::*;
use reclaim::Rejection;

/// A job of three tasks on the machine, which started 400 s ago, each with a limit of 1,000 milli-cores
/// and 100 MiB.
fn world(change: fn(&mut JobSpec)) -> World {
    let mut world = World::new();
    world.tick();
    world.answer(true, 3, &[]);
    let mut task = TaskSpec::of(vec!["x".to_owned()]);
    task.limit = amounts(1_000, 100);
    let name = model::JobName::new("web").expect("a name");
    let mut spec = JobSpec::of(name, model::Band::Production.usual(), 3, task);
    change(&mut spec);
    world.submit_spec(spec);
    (0..3).for_each(|index| world.assign(index));
    let started = |index| Observation::started(instance(index, 1));
    let observations = (0..3).map(started).collect();
    world.apply(&Op::Observe { machine: M1, observations });
    world.now = world.now + Span::from_secs(400);
    world
}

fn amounts(cpu: u64, mib: u64) -> Resources {
    Resources { cpu: MilliCores(cpu), ram: Bytes(mib << 20), ..Resources::default() }
}

/// What the machine has measured of its tasks: each the same.
fn samples(at: Time, cpu: u64, tasks: std::ops::Range<u32>) -> Samples {
    let mut samples = Samples::default();
    let (cpu, memory) = (Some(MilliCores(cpu)), Some(Bytes(10 << 20)));
    let measured = Measured { cpu, memory, ..Measured::default() };
    for index in tasks.rev() {
        let subject = UsageSubject::Instance(instance(index, 1));
        samples.add(GcuFactor::default(), &UsageSample { subject, at, measured });
    }
    let machine = UsageSample { subject: UsageSubject::Machine, at, measured };
    samples.add(GcuFactor::default(), &machine);
    samples
}

/// Makes a round every 5 s for a while, and applies what is proposed. What was proposed in all, and the
/// last round.
fn rounds(
    world: &mut World,
    reclamation: &mut Reclamation,
    seconds: u64,
    used: Option<u64>,
) -> (Vec<Reservation>, Estimated) {
    let (mut all, mut last) = (Vec::new(), Estimated::default());
    for _ in 0..seconds / 5 {
        world.now = world.now + Span::from_secs(5);
        let mut samples = used.map_or_else(Samples::default, |cpu| samples(world.now, cpu, 0..3));
        last = reclamation.round(world.now, &world.cell, &everything(), &mut samples);
        all.extend(last.reservations.iter().copied());
        world.apply(&Op::Reserve(last.reservations.clone()));
    }
    (all, last)
}

fn reserved(world: &World) -> [u64; 3] {
    let job = world.cell.job(CollectionId(1)).expect("a job");
    [0, 1, 2].map(|index| job.reservation(TaskIndex(index)).cpu.0)
}

#[test]
fn a_replica_estimates_the_tasks_of_its_machines() {
    let mut world = world(|_| {});
    let mut reclamation = Reclamation::new(Pace::default());
    let (all, last) = rounds(&mut world, &mut reclamation, 4 * 3_600, Some(100));
    assert_eq!((last.tasks, last.silent, last.left), (3, 0, 0));
    // Usage, 20 % of it, 6 % of the limit, and less than the 5 % that are not recorded.
    let cpu = reserved(&world);
    assert!(cpu.iter().all(|cpu| (180..230).contains(cpu)), "{cpu:?}");
    assert!((3..100).contains(&all.len()), "{} changes in four hours", all.len());
    let newest = all.last().and_then(|last| last.newest_sample);
    assert!(newest.is_some_and(|newest| newest <= world.now), "{newest:?}");
    // At once.
    rounds(&mut world, &mut reclamation, 5, Some(700));
    assert_eq!(reserved(&world), [900, 900, 900]);
}

#[test]
fn silent_tasks_are_back_at_their_limits_after_a_while() {
    let mut world = world(|_| {});
    let mut reclamation = Reclamation::new(Pace::default());
    rounds(&mut world, &mut reclamation, 3_600, Some(100));
    let before = reserved(&world);
    let (none, last) = rounds(&mut world, &mut reclamation, 60, None);
    assert_eq!((none.len(), last.silent, reserved(&world)), (0, 0, before));
    let (some, last) = rounds(&mut world, &mut reclamation, 120, None);
    assert!(last.silent == 3 && reserved(&world) > before, "{some:?}");
    assert!(reserved(&world) < [500, 500, 500], "not at once");
    // Another replica begins here: its minute of silence comes on top.
    let mut reclamation = Reclamation::new(Pace::default());
    rounds(&mut world, &mut reclamation, 660, None);
    assert_eq!(reserved(&world), [1_000; 3]);
}

#[test]
fn the_next_replica_continues_and_rejects_older_samples() {
    let mut world = world(|_| {});
    rounds(&mut world, &mut Reclamation::new(Pace::default()), 3_600, Some(100));
    let before = reserved(&world);
    let mut next = Reclamation::new(Pace::default());
    let job = world.cell.job(CollectionId(1)).expect("a job");
    let task = job.task(TaskIndex(0)).expect("a task");
    let newest = task.reserved.as_deref().and_then(|reserved| reserved.newest_sample);
    let mut old = samples(newest.expect("it is recorded") - Span(1), 0, 0..1);
    let now = newest.expect("it is recorded") + Span::from_secs(1);
    let round = next.round(now, &world.cell, &everything(), &mut old);
    assert_eq!((round.reservations.len(), next.rejected().count(Rejection::OutOfOrder)), (0, 1));
    assert_eq!(reserved(&world), before);
}

#[test]
fn only_eligible_tasks_of_polled_machines_are_estimated() {
    let off = |world: &mut World| {
        world.request(Mutation::SetReclamation(cell::SetReclamation(model::Reclamation::Off)));
    };
    let other = Partition::of(ReplicaId(1), vec![ReplicaId(2)]);
    let second = |reached| Partition {
        me: ReplicaId(1),
        spread: Arc::new(Spread {
            active: vec![ReplicaId(2)],
            seconds: vec![Second { machine: M1, by: vec![ReplicaId(1)], reached }],
        }),
    };
    let taken = Partition {
        me: ReplicaId(1),
        spread: Arc::new(Spread {
            active: vec![ReplicaId(1)],
            seconds: vec![Second { machine: M1, by: vec![ReplicaId(2)], reached: true }],
        }),
    };
    type Case = (&'static str, fn(&mut JobSpec), fn(&mut World), Partition, (usize, bool));
    let cases: [Case; 8] = [
        ("all", |_| {}, |_| {}, everything(), (3, true)),
        (
            "a job that keeps its limits",
            |job| job.estimation = false,
            |_| {},
            everything(),
            (0, false),
        ),
        ("the setting is off", |_| {}, off, everything(), (3, false)),
        ("another replica's machine", |_| {}, |_| {}, other, (0, false)),
        ("which it tries to reach", |_| {}, |_| {}, second(false), (0, false)),
        ("and reaches", |_| {}, |_| {}, second(true), (3, true)),
        ("one that another reaches", |_| {}, |_| {}, taken, (0, false)),
        (
            "allocs",
            |job| {
                job.kind = spec::Kind::AllocSet { users: BTreeSet::new() };
                job.task.cmd.clear();
            },
            |_| {},
            everything(),
            (0, false),
        ),
    ];
    for (what, change, prepare, partition, (tasks, changes)) in cases {
        let mut world = world(change);
        prepare(&mut world);
        let mut reclamation = Reclamation::new(Pace::default());
        let mut changed = false;
        for _ in 0..60 {
            world.now = world.now + Span::from_secs(5);
            let mut samples = samples(world.now, 100, 0..3);
            let round = reclamation.round(world.now, &world.cell, &partition, &mut samples);
            assert_eq!(round.tasks, tasks, "{what}");
            changed |= !round.reservations.is_empty();
        }
        assert_eq!(changed, changes, "{what}");
    }
}

#[test]
fn cores_count_as_much_as_they_do() {
    let mut samples = Samples::default();
    let measured = Measured { cpu: Some(MilliCores(100)), ..Measured::default() };
    let subject = UsageSubject::Instance(instance(0, 1));
    let factor = GcuFactor::from_milli(1_500).expect("a factor");
    samples.add(factor, &UsageSample { subject, at: Time(7), measured });
    assert_eq!(samples.len(), 1);
    assert!(format!("{samples:?}").contains("MilliCores(150)"), "{samples:?}");
}
