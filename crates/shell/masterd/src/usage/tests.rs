use borglet::WINDOW;
use model::{Bytes, Generation, MilliCores, TaskIndex};

use super::*;

const M1: MachineId = MachineId(1);
const M2: MachineId = MachineId(2);

fn instance(job: u64, index: u32) -> InstanceId {
    let (collection, index) = (CollectionId(job), TaskIndex(index));
    InstanceId { collection, index, generation: Generation(1) }
}

fn measured(cpu: u64) -> Measured {
    Measured { cpu: Some(MilliCores(cpu)), ..Measured::default() }
}

fn sample(subject: UsageSubject, at: u64, cpu: u64) -> UsageSample {
    UsageSample { subject, at: Time(at), measured: measured(cpu) }
}

fn window(instance: InstanceId, number: u64) -> UsageWindow {
    UsageWindow {
        subject: UsageSubject::Instance(instance),
        start: Time(number * WINDOW.0),
        length: WINDOW,
        samples: 300,
        average: measured(100),
        maximum: Measured { memory: Some(Bytes(7)), ..measured(200) },
        random_cpu: None,
        cpu: None,
        cycles_per_instruction: None,
        memory_accesses_per_instruction: None,
    }
}

/// All machines are twice as fast as the reference.
fn twice(_: MachineId) -> Option<GcuFactor> {
    GcuFactor::from_milli(2_000).ok()
}

fn cpu(measured: &Measured) -> Option<u64> {
    measured.cpu.map(|cpu| cpu.0)
}

#[test]
fn the_newest_samples_are_summed_in_normalised_cores_until_they_are_outdated() {
    let (memory, now) = (UsageMemory::default(), Instant::now());
    let of = |index, cpu| sample(UsageSubject::Instance(instance(1, index)), 5, cpu);
    let (all, system) = (UsageSubject::Machine, UsageSubject::System);
    let samples = vec![of(0, 10), of(1, 20), sample(all, 5, 40), sample(system, 5, 10)];
    memory.take_in(M1, &Usage { samples, ..Usage::default() }, now);
    let samples = vec![of(2, 30), sample(all, 6, 30)];
    memory.take_in(M2, &Usage { samples, ..Usage::default() }, now);
    assert_eq!(memory.known(M1).sampled, Time(5));
    let query = Query { machines: true, job: Some(CollectionId(1)), since: None };
    let used = memory.query(twice, &query, now + FRESH);
    assert_eq!((cpu(&used.all), cpu(&used.system)), (Some(140), Some(20)));
    let (count, of_job) = used.jobs[&CollectionId(1)];
    assert_eq!((count, cpu(&of_job)), (3, Some(120)));
    assert_eq!((used.machines[&M1].at, cpu(&used.machines[&M1].tasks)), (Time(5), Some(60)));
    assert_eq!(used.tasks.len(), 3);
    // The next answer of a machine says what runs there.
    let samples = vec![of(0, 1), sample(all, 7, 1)];
    memory.take_in(M1, &Usage { samples, ..Usage::default() }, now + FRESH);
    let used = memory.query(twice, &query, now + FRESH + Duration::from_secs(1));
    assert_eq!(used.jobs[&CollectionId(1)].0, 1, "the other machine is outdated");
    assert_eq!(cpu(&used.all), Some(2));
}

#[test]
fn windows_are_kept_once_and_given_by_their_end() {
    let (memory, now) = (UsageMemory::default(), Instant::now());
    let task = instance(1, 0);
    let windows = (5..8).map(|number| window(task, number)).collect();
    let usage = Usage { samples: Vec::new(), windows, cursor: 9 };
    memory.take_in(M1, &usage, now);
    memory.take_in(M1, &usage, now);
    assert_eq!(memory.known(M1).cursor, 9);
    let of = |since| {
        let query = Query { job: Some(CollectionId(1)), since, ..Query::default() };
        let used = memory.query(twice, &query, now);
        let windows = used.tasks[&task].windows.clone().into_iter();
        windows.map(|(start, _)| start.0 / WINDOW.0).collect::<Vec<_>>()
    };
    assert_eq!(of(Some(Time::ZERO)), [5, 6, 7]);
    assert_eq!(of(Some(Time(6 * WINDOW.0))), [6, 7]);
    assert_eq!(of(None), [0_u64; 0]);
}

#[test]
fn usage_of_selected_tasks_and_machines_is_given_alone() {
    let (memory, now) = (UsageMemory::default(), Instant::now());
    let of = |index| sample(UsageSubject::Instance(instance(1, index)), 5, 10);
    let other = sample(UsageSubject::Instance(instance(2, 0)), 5, 10);
    let samples = vec![of(0), of(1), of(5), other, sample(UsageSubject::Machine, 5, 40)];
    memory.take_in(M1, &Usage { samples, ..Usage::default() }, now);
    // The second task ran there before.
    let windows = vec![window(instance(1, 1), 5), window(instance(2, 0), 5)];
    let usage = Usage { samples: vec![of(2)], windows, cursor: 9 };
    memory.take_in(M2, &usage, now);
    let some = |ranges: &[(u32, u32)]| {
        let range = |(from, to): &(u32, u32)| (TaskIndex(*from), TaskIndex(*to));
        TaskSelection::Some(ranges.iter().map(range).collect())
    };
    for (tasks, places, since, expected) in [
        (TaskSelection::All, &[M1, M2][..], None, &[0, 1, 2, 5][..]),
        (TaskSelection::All, &[M2], None, &[1, 2]),
        (some(&[(0, 1)]), &[M1], None, &[0, 1]),
        (some(&[(0, 0), (5, 5)]), &[M1, M2], None, &[0, 5]),
        (some(&[(1, 1)]), &[], Some(Time(0)), &[1]),
        (some(&[(2, 1)]), &[M1, M2], Some(Time(0)), &[]),
        (some(&[]), &[M1, M2], Some(Time(0)), &[]),
    ] {
        let (job, places) = (Some(CollectionId(1)), places.iter().copied().collect());
        let packages = BTreeSet::new();
        let chosen = Chosen { machines: vec![M1], job, tasks, places, since, packages };
        let used = memory.query_chosen(twice, &chosen, now);
        let found: Vec<u32> = used.tasks.keys().map(|instance| instance.index.0).collect();
        assert_eq!(found, expected, "{chosen:?}");
        let windows: usize = used.tasks.values().map(|task| task.windows.len()).sum();
        assert_eq!(windows, usize::from(since.is_some() && expected == [1]), "{chosen:?}");
        let machines: Vec<_> =
            used.machines.iter().map(|(id, of_it)| (*id, of_it.measured)).collect();
        assert_eq!((machines, cpu(&used.all)), (vec![(M1, 4)], None), "no sums");
    }
}

#[test]
fn the_oldest_windows_are_forgotten_when_there_are_too_many() {
    let memory = UsageMemory { window_bytes_max: 10_000, ..UsageMemory::default() };
    let now = Instant::now();
    for number in 0..100 {
        let windows = (0..3).map(|index| window(instance(1, index), number)).collect();
        memory.take_in(M1, &Usage { samples: Vec::new(), windows, cursor: number }, now);
        assert!(memory.lock().window_bytes <= 10_000);
    }
    let query = Query { job: Some(CollectionId(1)), since: Some(Time::ZERO), ..Query::default() };
    let used = memory.query(twice, &query, now);
    for task in used.tasks.values() {
        let last = task.windows.keys().next_back().map(|start| start.0 / WINDOW.0);
        assert!(last == Some(99) && task.windows.len() > 20, "{}", task.windows.len());
    }
    let kept: usize = memory.lock().machines.values().map(OfMachine::bytes).sum();
    assert_eq!(kept, memory.lock().window_bytes);
    // A machine that is polled by another replica is forgotten with its windows.
    memory.take_in(M2, &Usage::default(), now + UNHEARD_MAX);
    let all = memory.lock();
    assert_eq!((all.machines.len(), all.window_bytes), (1, 0));
}

#[test]
fn another_replicas_answer_is_added() {
    let (one, other, now) = (UsageMemory::default(), UsageMemory::default(), Instant::now());
    let of = |job, at, cpu| sample(UsageSubject::Instance(instance(job, 0)), at, cpu);
    let windows = vec![window(instance(1, 0), 1)];
    one.take_in(M1, &Usage { samples: vec![of(1, 5, 10)], windows, cursor: 1 }, now);
    let windows = vec![window(instance(1, 0), 1), window(instance(1, 0), 2)];
    other.take_in(M1, &Usage { samples: vec![of(1, 6, 20)], windows, cursor: 2 }, now);
    let query = Query { machines: true, job: Some(CollectionId(1)), since: Some(Time::ZERO) };
    let mut used = one.query(twice, &query, now);
    used.merge(other.query(twice, &query, now));
    let task = &used.tasks[&instance(1, 0)];
    assert_eq!(task.newest.map(|(at, used)| (at.0, cpu(&used))), Some((6, Some(40))));
    assert_eq!(task.windows.len(), 2);
}
