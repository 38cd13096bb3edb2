//! `bourg lab estimator`: usage, replayed through the production estimator.

use std::fs::File;
use std::io::{BufRead, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use command::output::{self, Format};
use command::{Done, Failure};
use flate2::read::MultiGzDecoder;
use lab::Outcome;
use lab::replay::{ReplayPlan, replay};
use lab::usage::{self, Workload};
use model::Reclamation;
use model::{Bytes, MilliCores, Resources, Span};
use process::arguments::duration;
use reclaim::CPU_MAX;
use trace::CellSnapshot;
use trace::google2011::{Scale, slice};
use trace::shapes::{Shape, generate};

use super::compaction::{self, CompactionSize};
use super::figures;
use super::report::{Replayed, Report};

/// The options.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Replay the usage in a CSV file, which may be gzipped. docs/estimator-lab.md has its columns,
    /// and how to make it from Google's traces and from bourg usage.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["synthetic", "shape", "requests", "tasks"])]
    usage: Option<PathBuf>,
    /// Draw usage. This is the default.
    #[arg(long)]
    synthetic: bool,
    /// The shape of drawn usage: calibrated, calibrated-2011; or one that nothing was calibrated
    /// to: bursty, steps, leaking.
    #[arg(long, default_value_t = usage::Shape::Calibrated)]
    shape: usage::Shape,
    /// Whose machines, limits and priorities drawn usage gets: 2011 (a twenty-fifth of a real
    /// cell), or a cell in the shape of 2019-a to 2019-h.
    #[arg(long, value_name = "CELL", default_value = "2011")]
    requests: String,
    /// The number of drawn tasks, with --requests 2019-a to 2019-h. There is a machine for each 11
    /// or 12.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(12..=200_000))]
    tasks: Option<u32>,
    /// The seed of drawn usage and of placements.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// A setting to replay: off, baseline, medium or aggressive. May be repeated. Default: all.
    #[arg(long, value_name = "SETTING", conflicts_with = "schedule")]
    setting: Vec<Reclamation>,
    /// Settings that follow each other in one replay, each for --hours. The paper's weeks are
    /// baseline,aggressive,medium,baseline.
    #[arg(long, value_name = "SETTINGS", value_delimiter = ',')]
    schedule: Vec<Reclamation>,
    /// How many hours are replayed. Default: 24, or as long as the file reaches. Production of a
    /// file that reaches less far is repeated.
    #[arg(long, value_name = "H", value_parser = clap::value_parser!(u64).range(1..=1_000))]
    hours: Option<u64>,
    /// The time between two rounds of the estimator, 1s to 5m.
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = interval)]
    every: Duration,
    /// The number of machines for a file's tasks. Default: so many that the limits of production
    /// fill them as in the cell of 2011.
    #[arg(long, value_name = "N", requires = "usage", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    machines: Option<u32>,
    /// The CPU of each of these machines.
    #[arg(long, value_name = "CORES", requires = "usage", default_value_t = Scale::default().largest.cpu)]
    machine_cpu: MilliCores,
    /// The memory of each of these machines.
    #[arg(long, value_name = "BYTES", requires = "usage", default_value_t = Scale::default().largest.ram)]
    machine_ram: Bytes,
    /// The number of orders in which machines are removed for figure 10; 0 leaves it out.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(0..=100))]
    orders: u64,
    /// Write the timeline, the distributions and the totals as CSV files into a directory.
    #[arg(long, value_name = "DIR")]
    csv: Option<PathBuf>,
    /// Write figures 10, 11 and 12 as SVG files into a directory.
    #[arg(long, value_name = "DIR")]
    svg: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// So much time of drawn usage is replayed before it counts: four half-lives of memory.
const LEAD_IN: Span = Span::from_secs(8 * 3_600);
/// How much of its machines production's limits fill, in thousandths, as in the cell of 2011.
const PRODUCTION_OF_CPU: u64 = 726;
const PRODUCTION_OF_RAM: u64 = 580;
/// The maximum decompressed size of a file.
const BYTES_MAX: u64 = 8 << 30;
/// The machines of a trace, by its tasks: those of the cell of 2011.
const MACHINES: (u64, u64) = (12_583, 144_339);

fn interval(text: &str) -> Result<Duration, String> {
    let given = duration(text)?;
    match (Duration::from_secs(1)..=Duration::from_secs(300)).contains(&given) {
        true => Ok(given),
        false => Err("the time between two rounds must be 1s to 5m".to_owned()),
    }
}

/// What is replayed.
struct ReplayInput {
    workload: Workload,
    machines: Vec<Resources>,
    lead_in: Span,
    length: Span,
    says: String,
    /// The size of the cell whose tasks got drawn usage; none for a file.
    drawn: Option<CompactionSize>,
}

/// Runs the experiment and prints the results.
pub(crate) fn run(options: &Options) -> Done {
    let input = options.input()?;
    // Files are written at the end: their directories are tried first.
    for directory in [&options.csv, &options.svg].into_iter().flatten() {
        std::fs::create_dir_all(directory).map_err(|error| {
            Failure::failed(format!("error: cannot create {}: {error}", directory.display()))
        })?;
    }
    let lengths = |settings: &[Reclamation]| -> Vec<(Reclamation, Span)> {
        settings.iter().map(|setting| (*setting, input.length)).collect()
    };
    let schedules: Vec<Vec<(Reclamation, Span)>> = match options.schedule.as_slice() {
        [] => options.settings().iter().map(|setting| lengths(&[*setting])).collect(),
        schedule => vec![lengths(schedule)],
    };
    let replayed = |machines: &[Resources]| -> Vec<Outcome> {
        let plans = schedules.iter().map(|schedule| ReplayPlan {
            machines: machines.to_vec(),
            schedule: schedule.clone(),
            every: Span(u64::try_from(options.every.as_micros()).unwrap_or(u64::MAX)),
            lead_in: input.lead_in,
            seed: options.seed,
        });
        plans.map(|plan| replay(&input.workload, &plan)).collect()
    };
    let as_they_are = replayed(&input.machines);
    let abundant = |one: &Resources| Resources { cpu: CPU_MAX, ..*one };
    let memory_alone = replayed(&input.machines.iter().map(abundant).collect::<Vec<_>>());
    let compacted = match (options.orders, input.drawn) {
        (1.., Some(size)) if options.schedule.is_empty() => {
            let settings = options.settings().into_iter().zip(&as_they_are);
            let estimated = settings.filter(|(setting, _)| *setting != Reclamation::Off);
            let ratios: Vec<_> =
                estimated.map(|(setting, outcome)| (setting, outcome.ratios.clone())).collect();
            compaction::cells(&ratios, size, options.seed, options.orders)?
        }
        _ => Vec::new(),
    };
    let replayed = Replayed { as_they_are, memory_alone, compacted };
    let report = Report::of(&replayed, &input.says, input.drawn.is_some(), options);
    if let Some(directory) = &options.csv {
        figures::csv(directory, &replayed)?;
    }
    if let Some(directory) = &options.svg {
        figures::svg(directory, &replayed, &input.says)?;
    }
    let format = if options.json { Format::Json } else { Format::Table };
    output::object(&format, &report, "estimator", || report.text())
}

impl Options {
    fn settings(&self) -> Vec<Reclamation> {
        match self.setting.as_slice() {
            [] => Reclamation::ALL.to_vec(),
            given => given.to_vec(),
        }
    }

    /// The shape of drawn usage; none for a file.
    pub(crate) fn drawn_shape(&self) -> Option<usage::Shape> {
        self.usage.is_none().then_some(self.shape)
    }

    /// The seconds between two rounds.
    pub(crate) fn every_seconds(&self) -> f64 {
        self.every.as_secs_f64()
    }

    /// The seed.
    pub(crate) fn seed(&self) -> u64 {
        self.seed
    }

    fn input(&self) -> Result<ReplayInput, Failure> {
        match &self.usage {
            Some(path) => self.recorded(path),
            None => self.drawn(),
        }
    }

    fn drawn(&self) -> Result<ReplayInput, Failure> {
        let (cell, says) = self.cell()?;
        let workload = usage::draw(&cell, self.shape, self.seed);
        let synthetic = match self.shape.is_calibrated() {
            true => "calibrated synthetic usage",
            false => "synthetic usage that nothing was calibrated to",
        };
        let hours = self.hours.unwrap_or(24);
        Ok(ReplayInput {
            says: format!(
                "{synthetic} in the shape {}, seed {}; machines, limits and priorities of {says}",
                self.shape, self.seed
            ),
            machines: cell.machines.iter().map(|machine| machine.capacity).collect(),
            workload,
            lead_in: LEAD_IN,
            length: Span::from_secs(hours * 3_600),
            drawn: Some(CompactionSize {
                machines: cell.machines.len(),
                tasks: cell.tasks().count(),
            }),
        })
    }

    fn cell(&self) -> Result<(CellSnapshot, String), Failure> {
        if self.requests == "2011" {
            if self.tasks.is_some() {
                let text = "error: --tasks does not change the slice of the real cell of 2011";
                return Err(Failure::usage(text).next("add --requests 2019-a"));
            }
            let cell = slice::read(Scale::default()).snapshot;
            return Ok((cell, "a twenty-fifth of the real cell of 2011".to_owned()));
        }
        let shape = Shape::named(&self.requests).ok_or_else(|| {
            let names: Vec<&str> = Shape::names().collect();
            let text = format!("error: no cell '{}'", self.requests.escape_debug());
            Failure::usage(text).next(format!("use 2011, {}", names.join(", ")))
        })?;
        let tasks = u64::from(self.tasks.unwrap_or(5_700));
        let machines = (tasks * MACHINES.0 / MACHINES.1).max(1);
        let size = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
        let cell = generate(&shape, size(machines), size(tasks), self.seed);
        Ok((cell, format!("a cell in the shape of {}, calibrated synthetic", shape.name())))
    }

    fn recorded(&self, path: &Path) -> Result<ReplayInput, Failure> {
        let shown = path.display();
        let file = opened(path)
            .map_err(|error| Failure::usage(format!("error: cannot read {shown}: {error}")))?;
        let table = usage::read(file).map_err(|error| {
            Failure::usage(format!("error: {shown}, {error}"))
                .next("docs/estimator-lab.md has the columns and an example")
        })?;
        let mut workload = table.workload;
        let asked = self.hours.map(|hours| Span::from_secs(hours * 3_600));
        let length = asked.unwrap_or(table.length);
        if length > table.length {
            for subject in &mut workload.production {
                subject.stays = None;
            }
        }
        let capacity =
            Resources { cpu: self.machine_cpu, ram: self.machine_ram, ..Resources::default() };
        if capacity.cpu.0 == 0 || capacity.ram.0 == 0 {
            let text = "error: --machine-cpu and --machine-ram must be more than 0";
            return Err(Failure::usage(text));
        }
        let machines = self.machines.map_or_else(
            || needed(&workload, &capacity),
            |number| usize::try_from(number).unwrap_or(usize::MAX),
        );
        Ok(ReplayInput {
            says: format!(
                "{shown}: {} windows of {} production tasks and {} others",
                table.windows,
                workload.production.len(),
                workload.queue.len()
            ),
            workload,
            machines: vec![capacity; machines],
            lead_in: Span::ZERO,
            length,
            drawn: None,
        })
    }
}

/// So many machines that the limits of production fill them as in the cell of 2011; without
/// production, half as many as the limits of the others fill.
fn needed(workload: &Workload, capacity: &Resources) -> usize {
    let sum = |subjects: &[usage::Subject]| {
        subjects.iter().fold(Resources::default(), |sum, subject| sum.plus(subject.limit))
    };
    let of = |amount: u64, capacity: u64, permille: u64| {
        (u128::from(amount) * 1_000).div_ceil(u128::from(capacity) * u128::from(permille))
    };
    let production = sum(&workload.production);
    let needed = match workload.production.is_empty() {
        false => of(production.cpu.0, capacity.cpu.0, PRODUCTION_OF_CPU).max(of(
            production.ram.0,
            capacity.ram.0,
            PRODUCTION_OF_RAM,
        )),
        true => {
            let others = sum(&workload.queue);
            of(others.cpu.0, capacity.cpu.0, 2_000).max(of(others.ram.0, capacity.ram.0, 2_000))
        }
    };
    usize::try_from(needed).unwrap_or(usize::MAX).clamp(1, 100_000)
}

/// A file, decompressed if it is gzipped.
fn opened(path: &Path) -> std::io::Result<Box<dyn BufRead>> {
    let mut file = File::open(path)?;
    let mut magic = Vec::new();
    (&mut file).take(2).read_to_end(&mut magic)?;
    let zipped = magic == [0x1f, 0x8b];
    let whole = BufReader::with_capacity(1 << 20, std::io::Cursor::new(magic).chain(file));
    Ok(match zipped {
        true => Box::new(BufReader::new(MultiGzDecoder::new(whole).take(BYTES_MAX))),
        false => Box::new(whole),
    })
}
