//! Which tasks would start at once: for each band, how many tasks of a few common sizes fit without any eviction, and
//! the largest single task.

use std::borrow::Cow;

use cell::feasibility::{NO_STATIC_PORTS, Offer, Request, fits};
use cell::{Cell, Demand};
use model::{Band, Bytes, MachineName, MilliCores, Priority, Resources, Time};
use spec::Network;

use crate::Kept;
use crate::room::tasks_that_fit;

/// Cores and GiB of the sizes that are counted.
const SIZES: [(u64, u64); 4] = [(1, 1), (1, 4), (4, 8), (16, 64)];

/// What would start at once in a band.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shapes {
    /// The band.
    pub band: Band,
    /// For each size, how many tasks of it fit if nothing else is placed.
    pub sizes: Vec<ShapeCount>,
    /// The largest single task, as the product of cores and memory; `None` if nothing fits.
    pub largest: Option<LargestTask>,
}

/// A size of tasks, and how many fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShapeCount {
    /// The limit of each task.
    pub limit: Resources,
    /// How many tasks of it fit.
    pub tasks: u32,
}

/// The largest task that fits anywhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LargestTask {
    /// Its limit, of CPU and memory.
    pub limit: Resources,
    /// The machine with room for it.
    pub machine: MachineName,
}

/// What would start at once in some bands.
#[must_use]
pub fn shapes(cell: &Cell, bands: &[Band], now: Time) -> Vec<Shapes> {
    let kept = Kept::in_cell(cell, now);
    let of_band = |band: &Band| {
        let priority = band.usual();
        let offers = cell.machines().map(|machine| {
            let kept = kept.get(&machine.id).into_iter().flatten();
            let kept = kept.filter(|kept| kept.is_from(priority));
            kept.fold(Offer::of(machine), |offer, kept| kept.taken_from(offer))
        });
        let offers: Vec<Offer<'_>> = offers.collect();
        let size = |(cores, gib): (u64, u64)| {
            let limit = Resources {
                cpu: MilliCores(cores * 1_000),
                ram: Bytes(gib << 30),
                ..Resources::default()
            };
            ShapeCount {
                limit,
                tasks: tasks_that_fit(&request(priority, limit), &offers, u32::MAX),
            }
        };
        let sizes = SIZES.into_iter().map(size).collect();
        Shapes { band: *band, sizes, largest: largest(priority, &offers) }
    };
    bands.iter().map(of_band).collect()
}

/// A request for CPU and memory alone.
fn request(priority: Priority, limit: Resources) -> Request<'static> {
    let demand = Demand { limit, reservation: limit, prod: priority.is_prod(), exclusive: false };
    Request {
        demand,
        ports: 0,
        static_ports: &NO_STATIC_PORTS,
        network: &Network::Host,
        constraints: &[],
        variants: Cow::Borrowed(&[]),
        volumes: None,
        machine: None,
        max_per_machine: None,
        max_per_switch: None,
    }
}

/// The largest task of a priority that fits an offer.
fn largest(priority: Priority, offers: &[Offer<'_>]) -> Option<LargestTask> {
    let mut best: Option<(u128, LargestTask)> = None;
    for offer in offers {
        let left = match priority.is_prod() {
            true => offer.free.least(offer.free_for_prod),
            false => offer.free,
        };
        let (cpu, ram) = (left.cpu.0, left.ram.0);
        let size = u128::from(cpu) * u128::from(ram);
        if size == 0 || best.as_ref().is_some_and(|(largest, _)| *largest >= size) {
            continue;
        }
        let limit = Resources { cpu: left.cpu, ram: left.ram, ..Resources::default() };
        if fits(&request(priority, limit), offer).is_ok() {
            let machine = offer.machine.name.clone();
            best = Some((size, LargestTask { limit, machine }));
        }
    }
    best.map(|(_, largest)| largest)
}
