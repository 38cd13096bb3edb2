//! Draws usage: **calibrated synthetic**, or synthetic in shapes that nothing was calibrated to.
//!
//! Limits, bands and jobs are those of a cell in the shape of 2019 ([`trace::shapes`]).
//!
//! | what | [`Shape::Calibrated`] | [`Shape::Calibrated2011`] |
//! |---|---|---|
//! | CPU by limit: average of a window | quantiles of 81 random rows of the trace of 2019 (8 cells; tasks in allocs left out) | quantiles of the 677 rows of the trace of 2011, whose requests are known |
//! | CPU: maximum by average | the same rows | the same rows |
//! | memory by limit | the same rows, weighted by request: they sum to 53 % of the limits; a cell of 2019 uses 55 % of what is assigned in 28 days | the same rows |
//! | memory: maximum by average | the same rows | the same rows |
//! | how long batch tasks run | quantiles of the trace of 2011 | the same |
//!
//! The rows are of one window each, so how the usage of one task changes from window to window is
//! chosen: a triangle of 24 hours (CPU 10 % and memory 2 % up and down for production; a cell of
//! 2019 has 2.6 % and 2.1 % as a whole), levels that wander by 20 % (CPU) and 4 % (memory) from
//! hour to hour, 10 % of noise in CPU. In one task of ten memory grows from half in four hours; one
//! in five needs half as much CPU again and a fifth more memory in its first window. Production
//! stays within its limit of memory; 2 % of the others do not.

use model::{Bytes, MilliCores, Priority, Random, Resources, Span};
use trace::CellSnapshot;

use super::shape::Shape;
use super::{Curve, Load, Subject, WINDOW, Window, Workload};

/// The drawn usage of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drawn {
    shape: Shape,
    prod: bool,
    /// What differs between tasks, and what is the same for the tasks of a job.
    own: u64,
    of_job: u64,
    /// Levels, in thousandths of the limit; maxima, in thousandths of the average.
    cpu: u64,
    cpu_peak: u64,
    ram: u64,
    ram_peak: u64,
}

/// The quantiles of a distribution: pairs of thousandths of the tasks, and a value in thousandths.
/// Between them it is linear.
type Quantiles = &'static [(u64, u64)];

struct Calibration {
    cpu: Quantiles,
    cpu_peak: Quantiles,
    ram: Quantiles,
    ram_peak: Quantiles,
}

const OF_2019: Calibration = Calibration {
    cpu: &[
        (0, 0),
        (100, 2),
        (250, 31),
        (500, 241),
        (750, 608),
        (900, 983),
        (950, 1_413),
        (990, 2_890),
        (1_000, 2_890),
    ],
    cpu_peak: &[
        (0, 1_532),
        (50, 1_946),
        (100, 2_276),
        (250, 2_389),
        (500, 3_298),
        (750, 4_500),
        (900, 6_722),
        (950, 12_655),
        (1_000, 29_578),
    ],
    ram: &[
        (0, 0),
        (50, 6),
        (100, 34),
        (250, 193),
        (500, 581),
        (750, 919),
        (900, 945),
        (980, 1_000),
        (1_000, 1_500),
    ],
    ram_peak: &[
        (0, 1_000),
        (250, 1_002),
        (500, 1_017),
        (750, 1_046),
        (900, 1_093),
        (950, 1_257),
        (1_000, 1_439),
    ],
};

const OF_2011: Calibration = Calibration {
    cpu: &[
        (0, 0),
        (10, 3),
        (50, 6),
        (100, 19),
        (250, 182),
        (500, 229),
        (750, 489),
        (900, 574),
        (950, 609),
        (990, 685),
        (1_000, 1_137),
    ],
    cpu_peak: &[
        (0, 1_829),
        (50, 2_447),
        (100, 2_758),
        (250, 3_248),
        (500, 4_577),
        (750, 7_105),
        (900, 13_520),
        (950, 22_801),
        (1_000, 54_604),
    ],
    ram: &[
        (0, 0),
        (10, 262),
        (50, 564),
        (100, 592),
        (250, 632),
        (500, 763),
        (750, 784),
        (900, 889),
        (950, 918),
        (990, 971),
        (1_000, 1_033),
    ],
    ram_peak: &[
        (0, 1_000),
        (250, 1_001),
        (500, 1_003),
        (750, 1_018),
        (900, 1_031),
        (950, 1_042),
        (1_000, 1_063),
    ],
};

/// How long tasks run, in seconds, as measured in the trace of 2011; the ends are chosen.
const RUN_LENGTH: Quantiles = &[(0, 30), (500, 626), (900, 8_789), (990, 28_768), (1_000, 86_400)];

/// How much of the capacity the limits of production are, in thousandths, as in the cell of 2011.
const PRODUCTION_OF_CPU: u64 = 726;
const PRODUCTION_OF_RAM: u64 = 580;

/// A day.
const DAY: Span = Span::from_secs(24 * 3_600);
/// Levels wander from one of these windows to the next one.
const WINDOWS_AN_HOUR: u64 = 12;

/// Draws the usage of the tasks of a cell. Production runs from the beginning to the end, and has
/// done so for hours; the others wait in a queue in random order. If the limits of production are
/// more or less than those of the cell of 2011, tasks are left out or repeated, each with usage of
/// its own.
#[must_use]
pub fn draw(cell: &CellSnapshot, shape: Shape, seed: u64) -> Workload {
    let mut random = Random::new(Random::mixed(seed) ^ 0x006c_6162);
    let mut asked = Vec::new();
    let mut queue = Vec::new();
    for job in &cell.jobs {
        let of_job = random.number();
        for task in &job.tasks {
            let one = TaskRequest { limit: limit(task.request), priority: job.priority, of_job };
            match job.priority.is_prod() {
                true => asked.push(one),
                false => queue.push(one.subject(shape, &mut random)),
            }
        }
    }
    random.shuffle(&mut asked);
    random.shuffle(&mut queue);
    let production = production(&asked, shape, cell.capacity(), &mut random);
    Workload { production, queue }
}

/// What a task asks for.
struct TaskRequest {
    limit: Resources,
    priority: Priority,
    of_job: u64,
}

/// The limit of a task whose usage is drawn: CPU and memory, each at least a little.
fn limit(request: Resources) -> Resources {
    Resources {
        cpu: request.cpu.max(MilliCores(1)),
        ram: request.ram.max(Bytes(1 << 20)),
        ..Resources::default()
    }
}

/// As many tasks as the limits of production may sum to.
fn production(
    asked: &[TaskRequest],
    shape: Shape,
    capacity: Resources,
    random: &mut Random,
) -> Vec<Subject> {
    let most = Resources {
        cpu: MilliCores(part(capacity.cpu.0, PRODUCTION_OF_CPU)),
        ram: Bytes(part(capacity.ram.0, PRODUCTION_OF_RAM)),
        ..capacity
    };
    let (mut sum, mut production) = (Resources::default(), Vec::new());
    loop {
        let before = production.len();
        for one in asked {
            let with = sum.plus(one.limit);
            if with.first_above(&most).is_none() {
                sum = with;
                production.push(one.subject(shape, random));
            }
        }
        if production.len() == before {
            return production;
        }
    }
}

impl TaskRequest {
    fn subject(&self, shape: Shape, random: &mut Random) -> Subject {
        let prod = self.priority.is_prod();
        let stays = quantile(RUN_LENGTH, random.below(1_000_000));
        let age = Span::from_secs(random.below(7 * 24 * 3_600));
        Subject {
            limit: self.limit,
            priority: self.priority,
            arrives: Span::ZERO,
            age: if prod { age } else { Span::ZERO },
            stays: (!prod).then_some(Span::from_secs(stays)),
            curve: Curve::Drawn(Drawn::new(shape, prod, self.of_job, random)),
        }
    }
}

impl Drawn {
    fn new(shape: Shape, prod: bool, of_job: u64, random: &mut Random) -> Self {
        let of = if shape == Shape::Calibrated2011 { &OF_2011 } else { &OF_2019 };
        let mut one = |of| quantile(of, random.below(1_000_000));
        let (cpu, cpu_peak, ram, ram_peak) =
            (one(of.cpu), one(of.cpu_peak), one(of.ram), one(of.ram_peak));
        Self { shape, prod, own: random.number(), of_job, cpu, cpu_peak, ram, ram_peak }
    }

    /// The usage in the nth window since the arrival, which begins at `day` of the replay.
    pub(super) fn window(&self, limit: &Resources, nth: u64, day: Span) -> Window {
        match self.shape {
            Shape::Calibrated | Shape::Calibrated2011 => {
                let (cpu, ram) = self.levels(nth, day);
                self.loads(limit, (cpu, self.cpu_peak), (ram, self.ram_peak))
            }
            Shape::Bursty => self.bursty(limit, day),
            Shape::Steps => {
                // From 3 to 9 hours.
                let period = 36 + self.own % 73;
                let step = noise(self.own, nth / period);
                let (cpu, ram) = (50 + step % 901, 50 + (step >> 20) % 901);
                self.loads(limit, (cpu, 1_200), (ram, 1_010))
            }
            Shape::Leaking => {
                // From 2 to 20 hours.
                let period = 24 + self.own % 217;
                let begin = 100 + (self.own >> 20) % 201;
                let within = (nth + (self.own >> 40)) % period;
                let ram = begin + (1_000 - begin) * within / period;
                let (cpu, _) = self.levels(nth, day);
                self.loads(limit, (cpu, self.cpu_peak), (ram, 1_005))
            }
        }
    }

    /// The calibrated levels of CPU and memory in a window, in thousandths of the limit.
    fn levels(&self, nth: u64, day: Span) -> (u64, u64) {
        let daily = |amplitude: u64| match self.prod {
            true => 1_000 - amplitude + 2 * amplitude * triangle(day) / 1_000,
            false => 1_000,
        };
        let wander = |stream: u64, amplitude: u64| {
            let (hour, minute) = (nth / WINDOWS_AN_HOUR, nth % WINDOWS_AN_HOUR);
            let knot = |hour| noise(self.own ^ stream, hour) % (2 * amplitude + 1);
            let sum = knot(hour) * (WINDOWS_AN_HOUR - minute) + knot(hour + 1) * minute;
            1_000 - amplitude + sum / WINDOWS_AN_HOUR
        };
        let jitter = 900 + noise(self.own ^ 3, nth) % 201;
        let starts = nth == 0 && self.own.is_multiple_of(5);
        let grown = match (self.own >> 8).is_multiple_of(10) {
            true => (500 + 500 * nth / (4 * WINDOWS_AN_HOUR)).min(1_000),
            false => 1_000,
        };
        let cpu = part(part(part(self.cpu, daily(100)), wander(1, 200)), jitter);
        let ram = part(part(part(self.ram, daily(20)), wander(2, 40)), grown);
        match starts {
            true => (part(cpu, 1_500), part(ram, 1_200)),
            false => (cpu, ram),
        }
    }

    /// On for 10 minutes to 2 hours, then off for as long, by the clock of the job.
    fn bursty(&self, limit: &Resources, day: Span) -> Window {
        let period = 2 + self.of_job % 23;
        let nth = day.0 / WINDOW.0 + (self.of_job >> 32) % 1_000;
        let on = (nth / period).is_multiple_of(2);
        let (cpu, ram) = match on {
            true => (600 + self.own % 401, 500 + (self.own >> 20) % 451),
            false => (20, 100),
        };
        self.loads(limit, (cpu, 1_500), (ram, 1_020))
    }

    fn loads(&self, limit: &Resources, cpu: (u64, u64), ram: (u64, u64)) -> Window {
        let load = |limit: u64, (level, peak): (u64, u64), most: Option<u64>| {
            let average = part(limit, level);
            let maximum = part(average, peak);
            let most = most.unwrap_or(u64::MAX);
            Load::new(average.min(most), maximum.min(most))
        };
        let most = (self.prod || self.ram <= 1_000).then_some(limit.ram.0);
        Window { cpu: load(limit.cpu.0, cpu, None), ram: load(limit.ram.0, ram, most) }
    }
}

/// From 0 to 1,000 and back in a day.
fn triangle(day: Span) -> u64 {
    let of_day = day.0 % DAY.0 * 2_000 / DAY.0;
    if of_day < 1_000 { of_day } else { 2_000 - of_day }
}

fn noise(seed: u64, nth: u64) -> u64 {
    Random::mixed(seed ^ Random::mixed(nth.wrapping_add(1)))
}

/// So many thousandths of an amount.
fn part(amount: u64, thousandths: u64) -> u64 {
    let part = u128::from(amount) * u128::from(thousandths) / 1_000;
    u64::try_from(part).unwrap_or(u64::MAX)
}

/// The value of a distribution at so many millionths of the tasks.
fn quantile(of: Quantiles, at: u64) -> u64 {
    let pairs = of.iter().zip(of.iter().skip(1));
    let within = pairs.clone().find(|(_, (to, _))| at < to * 1_000);
    let Some(((from, low), (to, high))) = within else {
        return of.last().map_or(0, |(_, value)| *value);
    };
    let wide = (to - from).max(1) * 1_000;
    low + (high - low) * at.saturating_sub(from * 1_000) / wide
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The average of a distribution, in thousandths.
    fn mean(of: Quantiles) -> u64 {
        (0..1_000).map(|at| quantile(of, at * 1_000)).sum::<u64>() / 1_000
    }

    #[test]
    fn distributions_have_the_means_of_their_rows() {
        for (name, of, expected) in [
            ("CPU of 2019", OF_2019.cpu, 419),
            ("memory of 2019, by request", OF_2019.ram, 534),
            ("CPU of 2011", OF_2011.cpu, 290),
            ("memory of 2011", OF_2011.ram, 737),
        ] {
            let mean = mean(of);
            assert!(mean.abs_diff(expected) <= expected / 8, "{name}: {mean}, rows {expected}");
        }
    }

    #[test]
    fn a_quantile_is_between_its_neighbours() {
        let of: Quantiles = &[(0, 0), (500, 100), (1_000, 300)];
        for (at, expected) in [(0, 0), (250_000, 50), (500_000, 100), (750_000, 200)] {
            assert_eq!(quantile(of, at), expected, "{at}");
        }
        assert_eq!(quantile(of, 1_000_000), 300);
    }

    #[test]
    fn a_day_goes_up_and_down() {
        let at = |hour: u64| triangle(Span::from_secs(hour * 3_600));
        assert_eq!([0, 6, 12, 18, 24, 30].map(at), [0, 500, 1_000, 500, 0, 500]);
    }

    /// Production is within its memory, whatever its shape.
    #[test]
    fn production_never_uses_more_memory_than_its_limit() {
        let limit =
            Resources { cpu: MilliCores(1_000), ram: Bytes(1 << 30), ..Resources::default() };
        for shape in Shape::ALL {
            let mut random = Random::new(7);
            for _ in 0..300 {
                let job = random.number();
                let drawn = Drawn::new(shape, true, job, &mut random);
                for nth in 0..50 {
                    let window = drawn.window(&limit, nth, Span(nth * WINDOW.0));
                    assert!(window.ram.maximum <= limit.ram.0, "{shape} {drawn:?} {nth}");
                    assert!(window.ram.average <= window.ram.maximum);
                }
            }
        }
    }
}
