//! Cells that resemble those of 2019.

use std::collections::{BTreeMap, BTreeSet};

use model::{Band, Dimension, Resources};
use trace::shapes::{Shape, generate};
use trace::{CellSnapshot, PerMille};

fn cell(name: &str, machines: usize, tasks: usize, seed: u64) -> CellSnapshot {
    generate(&Shape::named(name).expect(name), machines, tasks, seed)
}

#[test]
fn each_of_the_eight_shapes_gives_a_valid_cell() {
    assert_eq!(Shape::names().count(), 8);
    assert_eq!(Shape::named("2019-i"), None);
    for name in Shape::names() {
        let cell = cell(name, 1_000, 15_000, 1);
        assert_eq!((cell.machines.len(), cell.tasks().count()), (1_000, 15_000), "{name}");
        assert_eq!(cell.pending(), 15_000, "{name}");
        let names: BTreeSet<_> = cell.machines.iter().map(|machine| &machine.name).collect();
        assert_eq!(names.len(), 1_000);
        for job in &cell.jobs {
            assert_eq!(job.spec(PerMille::ALL).problems(), [], "{name} {}", job.name);
        }
    }
}

#[test]
fn the_same_arguments_give_the_same_cell_on_every_build() {
    for (name, machines, tasks, seed, digest) in [
        ("2019-a", 1_000, 15_000, 1, 901_664_003_036_840_372),
        ("2019-a", 1_000, 15_000, 2, 4_115_068_772_374_504_790),
        ("2019-f", 333, 5_000, 1, 7_655_891_965_390_771_993),
    ] {
        assert_eq!(digest_of(&cell(name, machines, tasks, seed)), digest, "{name} {seed}");
    }
}

#[test]
fn machines_are_in_the_proportions_of_the_real_cell() {
    // Of 10,002 machines, 3,346 have 0.59 of the largest's cores and a third of its memory.
    let cell = cell("2019-a", 10_002, 1, 7);
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for machine in &cell.machines {
        *counts.entry(machine.capacity.to_string()).or_default() += 1;
    }
    assert_eq!(counts.get("37.875 cores, 85.3 GiB, 4 TiB disk"), Some(&3_346), "{counts:?}");
    assert_eq!(counts.get("64 cores, 256 GiB, 4 TiB disk"), Some(&643), "{counts:?}");
    assert_eq!(counts.len(), 13);
}

#[test]
fn racks_have_forty_machines_and_share_switches_and_power() {
    let cell = cell("2019-b", 1_000, 1, 7);
    let mut of: BTreeMap<(&str, &str), BTreeSet<&str>> = BTreeMap::new();
    for machine in &cell.machines {
        let attribute = |name: &str| machine.attributes[name].as_str();
        of.entry(("rack", attribute("rack"))).or_default().insert(machine.name.as_str());
        for name in ["switch", "power"] {
            of.entry((name, attribute(name))).or_default().insert(attribute("rack"));
        }
    }
    let sizes =
        |name| of.iter().filter(move |((of, _), _)| *of == name).map(|(_, below)| below.len());
    assert_eq!(sizes("rack").collect::<Vec<_>>(), [40; 25]);
    assert_eq!(sizes("switch").collect::<Vec<_>>(), [5; 5]);
    assert_eq!(sizes("power").collect::<Vec<_>>(), [5; 5]);
}

#[test]
fn jobs_are_as_they_are_said_to_be() {
    let cell = cell("2019-c", 10_000, 300_000, 3);
    let jobs = cell.jobs.len();
    let per_mille = |count: usize| count * 1_000 / jobs;
    let among = |expected: usize, count: usize| {
        let is = per_mille(count);
        assert!(is.abs_diff(expected) <= 10, "{is} of 1,000, and should be about {expected}");
    };
    among(750, cell.jobs.iter().filter(|job| job.tasks.len() == 1).count());
    among(150, cell.jobs.iter().filter(|job| job.different_machines).count());
    among(70, cell.jobs.iter().filter(|job| !job.constraints.is_empty()).count());
    for (band, expected) in Band::ALL.into_iter().zip([405, 195, 20, 340, 40]) {
        among(expected, cell.jobs.iter().filter(|job| job.priority.band() == band).count());
    }
    let mut sizes: Vec<usize> = cell.jobs.iter().map(|job| job.tasks.len()).collect();
    sizes.sort_unstable();
    let largest: usize = sizes.iter().rev().take(jobs / 100).sum();
    assert!(largest * 2 > 300_000, "the largest hundredth of the jobs has {largest} tasks");
}

#[test]
fn requests_are_those_of_the_cell() {
    // The mean of the sample: 0.0167 of the largest's cores, and 0.0083 of its memory.
    let cell = cell("2019-c", 10_000, 300_000, 3);
    let sum = cell.tasks().fold(Resources::default(), |sum, task| sum.plus(task.request));
    let (cpu, ram) = (sum.cpu.0 / 300_000, (sum.ram.0 / 300_000) >> 20);
    assert!((800..1_400).contains(&cpu) && (1_600..2_800).contains(&ram), "{cpu} {ram}");
}

/// A hash of the whole cell: FNV-1a over its numbers and names.
fn digest_of(cell: &CellSnapshot) -> u64 {
    let mut digest = 0xcbf2_9ce4_8422_2325_u64;
    let mut take = |text: &str| {
        for byte in text.bytes().chain([0]) {
            digest = (digest ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    };
    let numbers = |of: Resources| Dimension::ALL.map(|dimension| of.get(dimension).to_string());
    for machine in &cell.machines {
        take(machine.name.as_str());
        numbers(machine.capacity).iter().for_each(|number| take(number));
        machine.attributes.iter().for_each(|(name, value)| take(&format!("{name}={value}")));
    }
    for job in &cell.jobs {
        take(&format!("{}/{} {} {}", job.owner, job.name, job.priority.number(), job.class));
        take(if job.different_machines { "apart" } else { "" });
        for constraint in &job.constraints {
            take(&format!("{constraint} {}", constraint.hard));
        }
        for task in &job.tasks {
            take(&task.index.to_string());
            numbers(task.request).iter().for_each(|number| take(number));
        }
    }
    digest
}
