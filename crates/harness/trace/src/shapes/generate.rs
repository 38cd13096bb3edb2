//! Generates a cell from a shape.

use std::collections::BTreeMap;

use model::{
    CollectionId, JobName, MachineId, MachineName, Priority, Random, Resources, SchedulingClass,
    TaskIndex, UserName,
};
use spec::{Constraint, Relation};

use super::{Shape, Units};
use crate::cell::{CellSnapshot, Dropped, Job, Machine, Task};
use crate::google2011::Scale;

const MACHINES_A_RACK: usize = 40;
const RACKS_A_SWITCH: usize = 5;
const RACKS_A_POWER_DOMAIN: usize = 5;

/// The maximum number of tasks of a job, which is also limited to a twentieth of the cell's tasks.
const TASKS_OF_JOB_MAX: u64 = 10_000;

/// The number of users; the first ones own the most.
const USERS: u64 = 200;

/// A band: its jobs in 1,000, their priorities, and the scheduling classes of 1,000 of them.
struct BandShare {
    of_jobs: u64,
    priorities: &'static [i64],
    classes: [u64; 4],
}

const BANDS: [BandShare; 5] = [
    BandShare { of_jobs: 405, priorities: &[0, 25], classes: [352, 138, 268, 242] },
    BandShare { of_jobs: 195, priorities: &[103, 107, 112], classes: [261, 301, 325, 113] },
    BandShare { of_jobs: 20, priorities: &[117, 119], classes: [261, 301, 325, 113] },
    BandShare { of_jobs: 340, priorities: &[200, 210], classes: [38, 397, 323, 242] },
    BandShare { of_jobs: 40, priorities: &[360], classes: [0, 0, 1_000, 0] },
];

/// Generates a cell with the given numbers of machines and pending tasks that resembles a shape.
/// The same arguments give the same cell, in every build.
#[must_use]
pub fn generate(shape: &Shape, machines: usize, tasks: usize, seed: u64) -> CellSnapshot {
    let mut random = Random::new(seed);
    let machines = draw_machines(shape, machines, &mut random);
    let platforms = platforms(shape);
    let users: Vec<UserName> =
        (1..=USERS).map(|number| UserName::nearest(&format!("u{number}"))).collect();
    let most = (tasks as u64 / 20).clamp(1, TASKS_OF_JOB_MAX);
    let mut jobs = Vec::new();
    let mut left = tasks as u64;
    while left > 0 {
        let size = draw_size(&mut random).min(most).min(left);
        left -= size;
        let id = CollectionId(jobs.len() as u64 + 1);
        let (priority, class) = draw_band(&mut random);
        // A number below a uniformly drawn number: the first users own the most.
        let bound = random.below(USERS) + 1;
        let user = usize::try_from(random.below(bound)).unwrap_or(0);
        let owner = users.get(user).cloned().unwrap_or_else(|| UserName::nearest(""));
        let spread_out = size <= machines.len() as u64 / 2;
        jobs.push(Job {
            id,
            owner,
            name: JobName::new(&format!("j{id}")).unwrap_or_else(|error| unreachable!("{error}")),
            priority,
            class,
            different_machines: random.chance(150) && spread_out,
            constraints: draw_constraints(&platforms, &mut random),
            tasks: draw_tasks(shape, size, &mut random),
        });
    }
    CellSnapshot { machines, jobs, dropped: Dropped::default() }
}

/// Machines in the shape's proportions, in racks of one machine shape each except at the borders,
/// with the racks shuffled.
fn draw_machines(shape: &Shape, count: usize, random: &mut Random) -> Vec<Machine> {
    let (of_shape, real) = (u128::from(shape.machines()).max(1), &shape.machines);
    // The machine at a position is the one at the same fraction of the real cell.
    let mut ends = real.iter().scan(0_u128, |sum, (units, count)| {
        *sum += u128::from(*count);
        Some((*units, *sum))
    });
    let mut now = ends.next();
    let blocks = (0..count as u128).map_while(|place| {
        while now.is_some_and(|(_, end)| place * of_shape >= end * count as u128) {
            now = ends.next();
        }
        now.map(|(units, _)| units)
    });
    let blocks: Vec<Units> = blocks.collect();
    let mut racks: Vec<&[Units]> = blocks.chunks(MACHINES_A_RACK).collect();
    // The last rack may be smaller and stays last.
    let whole_racks = count / MACHINES_A_RACK;
    for place in (1..whole_racks).rev() {
        racks.swap(place, usize::try_from(random.below(place as u64 + 1)).unwrap_or(0));
    }
    let power_domains = racks.len().div_ceil(RACKS_A_POWER_DOMAIN).max(1);
    let platforms: BTreeMap<u32, String> = platforms(shape).into_iter().collect();
    let machines = racks.iter().enumerate().flat_map(|(rack, units)| {
        let platforms = &platforms;
        units.iter().enumerate().map(move |(place, units)| {
            let number = rack * MACHINES_A_RACK + place + 1;
            let attributes = [
                ("platform", platforms.get(&units.cpu).cloned().unwrap_or_default()),
                ("rack", format!("r{rack}")),
                ("switch", format!("s{}", rack / RACKS_A_SWITCH)),
                ("power", format!("p{}", rack % power_domains)),
            ];
            machine(number, *units, attributes)
        })
    });
    machines.collect()
}

fn machine(number: usize, units: Units, attributes: [(&str, String); 4]) -> Machine {
    let name = format!("m{number}");
    Machine {
        id: MachineId(number as u64),
        name: MachineName::new(&name).unwrap_or_else(|error| unreachable!("{error}")),
        capacity: Resources { disk: Scale::default().largest.disk, ..units.resources() },
        attributes: attributes.into_iter().map(|(name, value)| (name.to_owned(), value)).collect(),
    }
}

/// The platforms of a shape, most common first: machines with the same CPU have the same platform.
fn platforms(shape: &Shape) -> Vec<(u32, String)> {
    let mut counts: BTreeMap<u32, u64> = BTreeMap::new();
    for (units, count) in &shape.machines {
        *counts.entry(units.cpu).or_default() += count;
    }
    let mut counts: Vec<(u64, u32)> = counts.into_iter().map(|(cpu, count)| (count, cpu)).collect();
    counts.sort_unstable_by(|one, two| two.cmp(one));
    let numbered = counts.into_iter().zip(1..);
    numbered.map(|((_, cpu), number)| (cpu, format!("platform-{number}"))).collect()
}

/// The number of tasks of a job: three of four jobs have one. Of the other jobs with at least a
/// given size, 62 of 100 have at least twice that: Pareto with α 0.69, because 2 to the power of
/// −0.69 is 0.62.
fn draw_size(random: &mut Random) -> u64 {
    if random.chance(750) {
        return 1;
    }
    let mut least = 2_u64;
    while least < TASKS_OF_JOB_MAX && random.chance(620) {
        least *= 2;
    }
    (least + random.below(least)).min(TASKS_OF_JOB_MAX)
}

fn draw_band(random: &mut Random) -> (Priority, SchedulingClass) {
    let band = chosen(random, BANDS.iter().map(|band| band.of_jobs));
    let band = &BANDS[band.min(BANDS.len() - 1)];
    let place = usize::try_from(random.below(band.priorities.len() as u64)).unwrap_or(0);
    let priority = band.priorities.get(place).and_then(|number| Priority::new(*number).ok());
    let class = i64::try_from(chosen(random, band.classes.into_iter())).unwrap_or(0);
    let class = SchedulingClass::new(class).unwrap_or_default();
    (priority.unwrap_or_else(|| model::Band::Free.usual()), class)
}

/// Draws a position by weights that sum to 1,000.
fn chosen(random: &mut Random, weights: impl Iterator<Item = u64>) -> usize {
    let at = random.below(1_000);
    let ends = weights.scan(0, |sum, weight| {
        *sum += weight;
        Some(*sum)
    });
    ends.take_while(|end| *end <= at).count()
}

/// The constraints of a job; two of three times the most common platform.
fn draw_constraints(platforms: &[(u32, String)], random: &mut Random) -> Vec<Constraint> {
    let (relation, hard) = match random.below(1_000) {
        0..40 => (Relation::Equal, true),
        40..60 => (Relation::Equal, false),
        60..70 => (Relation::NotEqual, true),
        _ => return Vec::new(),
    };
    let place = match random.below(3) {
        0 => usize::try_from(random.below(platforms.len().min(3) as u64)).unwrap_or(0),
        _ => 0,
    };
    let platform = platforms.get(place).map(|(_, name)| name.clone());
    let (attribute, value) = ("platform".to_owned(), platform.unwrap_or_default());
    vec![Constraint { attribute, relation, value, hard }]
}

fn draw_tasks(shape: &Shape, size: u64, random: &mut Random) -> Vec<Task> {
    let usual = draw_request(shape, random);
    let other = if random.chance(250) { draw_request(shape, random) } else { usual };
    let indexes = 0..u32::try_from(size).unwrap_or(u32::MAX);
    let tasks = indexes.map(|index| Task {
        index: TaskIndex(index),
        request: if u64::from(index) < size.div_ceil(2) { usual } else { other },
        machine: None,
    });
    tasks.collect()
}

fn draw_request(shape: &Shape, random: &mut Random) -> Resources {
    let all = shape.requests.last().map_or(0, |(_, sum)| *sum);
    let at = random.below(all);
    let place = shape.requests.partition_point(|(_, sum)| *sum <= at);
    shape.requests.get(place).map(|(units, _)| units.resources()).unwrap_or_default()
}
