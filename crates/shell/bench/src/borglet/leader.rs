//! The memory in which a master keeps what the tasks of a large cell use.

use std::fs;
use std::time::Instant;

use anyhow::Context;
use borglet::{
    Reading, Recorder, Round, TaskReading, Usage, UsageSample, UsageSubject, UsageWindow, WINDOW,
};
use masterd::UsageMemory;
use model::{
    Bytes, CollectionId, Generation, InstanceId, MachineId, Random, Span, TaskIndex, Time,
};
use serde::Serialize;

use super::rounded;

/// The results.
#[derive(Debug, Serialize)]
pub(super) struct Figures {
    tasks: u32,
    machines: u32,
    /// How many windows were sent for each task.
    windows_per_task: u64,
    /// How much more memory the process has with all of it.
    resident_mib: f64,
    /// The time of the master for one machine's samples, once a second.
    samples_us_per_machine: f64,
    /// The same for a window.
    us_per_window: f64,
}

/// As in the published cell of 2011: 144,336 tasks on 12,583 machines.
const TASKS_PER_MACHINE: u32 = 12;
/// Three hours: more than there is room for.
const WINDOWS: u64 = 36;
/// Windows of so many different tasks, from the production recorder, stand for those of all.
const DIFFERENT: u32 = 64;

/// Runs the section.
pub(super) fn measure(tasks: u32) -> anyhow::Result<Figures> {
    let (samples, windows) = recorded();
    let machines = tasks.div_ceil(TASKS_PER_MACHINE);
    let of_machine = |machine: u32| {
        let first = machine * TASKS_PER_MACHINE;
        (first..tasks.min(first + TASKS_PER_MACHINE)).map(instance)
    };
    let before = resident_mib()?;
    let memory = UsageMemory::default();
    let (now, mut windows_took) = (Instant::now(), 0.0);
    for round in 0..WINDOWS {
        for machine in 0..machines {
            let window = |instance: InstanceId| {
                let like = (instance.index.0 + u32::try_from(round).unwrap_or(0)) % DIFFERENT;
                let mut window = windows[like as usize].clone();
                window.subject = UsageSubject::Instance(instance);
                window.start = Time(WINDOW.0 * (1_000 + round));
                window
            };
            let windows = of_machine(machine).map(window).collect();
            let usage = Usage { samples: Vec::new(), windows, cursor: round + 1 };
            let begun = Instant::now();
            memory.take_in(MachineId(u64::from(machine)), &usage, now);
            windows_took += begun.elapsed().as_secs_f64();
        }
    }
    let mut samples_took = 0.0;
    for machine in 0..machines {
        let sample = |instance: InstanceId| UsageSample {
            subject: UsageSubject::Instance(instance),
            ..samples[(instance.index.0 % DIFFERENT) as usize]
        };
        let samples = of_machine(machine).map(sample).collect();
        let usage = Usage { samples, windows: Vec::new(), cursor: 0 };
        let begun = Instant::now();
        memory.take_in(MachineId(u64::from(machine)), &usage, now);
        samples_took += begun.elapsed().as_secs_f64();
    }
    let resident_mib = rounded(resident_mib()? - before, 1);
    drop(memory);
    Ok(Figures {
        tasks,
        machines,
        windows_per_task: WINDOWS,
        resident_mib,
        samples_us_per_machine: rounded(samples_took * 1e6 / f64::from(machines), 2),
        us_per_window: rounded(windows_took * 1e6 / (f64::from(tasks) * WINDOWS as f64), 2),
    })
}

fn instance(number: u32) -> InstanceId {
    let (collection, index) = (CollectionId(u64::from(number / 1_000)), TaskIndex(number % 1_000));
    InstanceId { collection, index, generation: Generation(1) }
}

/// Samples and windows of tasks with different loads, as a Borglet makes them.
fn recorded() -> (Vec<UsageSample>, Vec<UsageWindow>) {
    let (mut random, mut recorder) = (Random::new(1), Recorder::new(1));
    let mut used = vec![Span::ZERO; DIFFERENT as usize];
    let (mut windows, mut samples) = (Vec::new(), Vec::new());
    let start = WINDOW.0 * 1_000;
    for second in 0..=WINDOW.0 / 1_000_000 {
        let now = Time(start) + Span::from_secs(second);
        let tasks = (0_u32..).zip(&mut used).map(|(number, used)| {
            *used = *used + Span::from_millis(random.below(u64::from(number + 1) * 50));
            let bytes = |random: &mut Random| Some(Bytes(random.below(8 << 30)));
            let reading = Reading {
                cpu_time: Some(*used),
                memory: bytes(&mut random),
                memory_peak: bytes(&mut random),
                page_cache: bytes(&mut random),
                memory_assigned: Some(Bytes(8 << 30)),
                disk: bytes(&mut random),
                disk_bytes: Some(Bytes(second * 1_000_000)),
                throttled: Some(Span::from_millis(second)),
                cpu_stall: Some(Span::from_millis(second * 3)),
                memory_stall: Some(Span::from_millis(second)),
                io_stall: Some(Span::from_millis(second)),
                counters: None,
            };
            (instance(number), TaskReading { alloc: None, started: Time(0), reading })
        });
        let (tasks, machine) = (tasks.collect(), Reading::default());
        windows.extend(recorder.record(&Round { wall: now, now, tasks, machine }));
        samples = recorder.samples().to_vec();
    }
    let is_task = |subject: &UsageSubject| matches!(subject, UsageSubject::Instance(_));
    samples.retain(|sample| is_task(&sample.subject));
    windows.retain(|window| is_task(&window.subject));
    (samples, windows)
}

/// The resident memory of this process.
fn resident_mib() -> anyhow::Result<f64> {
    let status = fs::read_to_string("/proc/self/status")?;
    let kib = |line: &str| line.strip_prefix("VmRSS:")?.trim().strip_suffix(" kB")?.parse().ok();
    let kib: f64 = status.lines().find_map(kib).context("no VmRSS in /proc/self/status")?;
    Ok(kib / 1_024.0)
}

/// The results as text.
pub(super) fn show(figures: &Figures) -> String {
    format!(
        "leader: the usage of {} tasks on {} machines, with {} windows of 5 minutes sent for each: \
         {} MiB more; {} µs for the samples of a machine, {} µs for a window\n",
        figures.tasks,
        figures.machines,
        figures.windows_per_task,
        figures.resident_mib,
        figures.samples_us_per_machine,
        figures.us_per_window
    )
}
