//! `bourg bench isolation`: what batch tasks cost a latency-sensitive server on the same machine (paper,
//! section 6.2 and figure 13).
//!
//! A real Borglet runs a server (Debian's redis) with its client as one latency-sensitive task, alone and
//! beside batch tasks that use as much of the machine as they get: all CPUs, memory bandwidth, the
//! disk, and ever new processes (stress-ng). The client is open-loop: its requests go out at a fixed
//! rate, and a latency is counted from when its request was due. Runs alone and beside alternate,
//! and which is first, too. Needs root.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, ensure};
use borglet::{Desired, Report, TaskReport, TaskStatus};
use clap::Args;
use command::Done;
use command::output::{self, Format};
use model::{Appclass, Band, Bytes, InstanceId, MilliCores, PortName, Resources};
use serde::{Deserialize, Serialize};
use spec::Cores;

use super::driven::{Driven, count, free_ports, has_ended, instance, task, working};
use super::rounded;
use crate::nearest_rank;

/// The options.
#[derive(Clone, Debug, Args)]
pub(crate) struct Options {
    /// The number of pairs of runs, alone and beside batch tasks, in each mode.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
    pairs: u32,
    /// How long a run lasts.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=600))]
    seconds: u64,
    /// The number of requests each second.
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    rate: u64,
    /// The parent of the Borglet's directory. Default: the directory for temporary files.
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// What a client measured in one run.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize)]
pub(super) struct Measured {
    pub(super) requests: u64,
    pub(super) p50_us: u64,
    pub(super) p99_us: u64,
    pub(super) max_us: u64,
    /// How many of a thousand waited longer.
    pub(super) over_1_ms_per_thousand: f64,
    pub(super) over_5_ms_per_thousand: f64,
}

impl Measured {
    /// What these latencies come to, in microseconds.
    pub(super) fn of(mut times: Vec<u64>) -> Self {
        times.sort_unstable();
        let at = |percent| nearest_rank(&times, percent);
        let requests = times.len() as u64;
        let over = |us: u64| {
            let over = times.len() - times.partition_point(|time| *time <= us);
            rounded(as_f64(over as u64) / as_f64(requests.max(1)) * 1e3, 2)
        };
        Self {
            requests,
            p50_us: at(50),
            p99_us: at(99),
            max_us: at(100),
            over_1_ms_per_thousand: over(1_000),
            over_5_ms_per_thousand: over(5_000),
        }
    }
}

#[derive(Debug, Serialize)]
struct Figures {
    pairs: u32,
    seconds: u64,
    rate: u64,
    /// Shares of the CPU decide who runs.
    shares: Mode,
    /// The server has a whole core. None on a machine that has none to give.
    exclusive: Option<Mode>,
}

/// The medians of all pairs.
#[derive(Debug, Serialize)]
struct Mode {
    alone: Measured,
    beside: Measured,
    /// The median of the pairs' ratios of the 99th percentiles, and the lowest and the highest.
    p99_ratio: f64,
    p99_ratio_min: f64,
    p99_ratio_max: f64,
}

const SERVER: u64 = 1;
const BATCH: u64 = 2;
const WARM: Duration = Duration::from_secs(2);
/// What a core gives in a second.
const CORE: MilliCores = MilliCores(1_000);

/// Tasks that use as much as they get, by their arguments: all CPUs, memory, the disk, processes.
const HOGS: [&[&str]; 4] = [
    &["--cpu", "0"],
    &["--vm", "1", "--vm-bytes", "192m"],
    &["--hdd", "1", "--hdd-bytes", "64m"],
    &["--fork", "2"],
];

/// Runs the benchmark and prints the results.
pub(crate) fn measure(options: &Options) -> Done {
    let figures = figures(options)?;
    let format = if options.json { Format::Json } else { Format::Table };
    output::object(&format, &figures, "isolation", || {
        let shares = shown("shares", &figures.shares);
        let exclusive = figures.exclusive.as_ref().map(|mode| shown("a core of its own", mode));
        shares + &exclusive.unwrap_or_default()
    })
}

fn shown(name: &str, mode: &Mode) -> String {
    let line = |what: &str, measured: &Measured| {
        format!(
            "{name}, {what}: p50 {} µs, p99 {} µs, {} ‰ over 1 ms, {} ‰ over 5 ms\n",
            measured.p50_us,
            measured.p99_us,
            measured.over_1_ms_per_thousand,
            measured.over_5_ms_per_thousand
        )
    };
    let Mode { alone, beside, p99_ratio, p99_ratio_min, p99_ratio_max } = mode;
    line("alone", alone)
        + &line("beside batch", beside)
        + &format!("{name}: p99 beside ÷ alone {p99_ratio} ({p99_ratio_min} to {p99_ratio_max})\n")
}

fn figures(options: &Options) -> anyhow::Result<Figures> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    for program in ["redis-server", "stress-ng"] {
        let found = std::env::split_paths(&path).any(|place| place.join(program).is_file());
        ensure!(found, "{program} is missing: install it, on Debian with `apt install {program}`");
    }
    let place = options.dir.clone().unwrap_or_else(std::env::temp_dir);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    process::block_on(&runtime, async {
        let mut bench = Bench { driven: Driven::start(&place).await?, servers: 0, batch: 0 };
        let shares = bench.mode(options, Cores::Shared).await?;
        let attributes = &bench.driven.report().machine.attributes;
        let has_cores = attributes.get("exclusive-cores").is_some_and(|cores| cores != "0");
        let exclusive = match has_cores {
            true => Some(bench.mode(options, Cores::Exclusive).await?),
            false => None,
        };
        let Options { pairs, seconds, rate, .. } = *options;
        Ok(Figures { pairs, seconds, rate, shares, exclusive })
    })
}

struct Bench {
    driven: Driven,
    /// How many servers and batch tasks there were.
    servers: u32,
    batch: u32,
}

impl Bench {
    /// Measures all pairs.
    async fn mode(&mut self, options: &Options, cores: Cores) -> anyhow::Result<Mode> {
        let (mut alone, mut beside) = (Vec::new(), Vec::new());
        // The first run fills caches.
        self.run(options, cores, false).await?;
        for pair in 0..options.pairs {
            let first = pair % 2 == 1;
            for with_batch in [first, !first] {
                let measured = self.run(options, cores, with_batch).await?;
                if with_batch { beside.push(measured) } else { alone.push(measured) }
            }
        }
        let ratio = |(beside, alone): (&Measured, &Measured)| {
            rounded(as_f64(beside.p99_us) / as_f64(alone.p99_us).max(1.0), 2)
        };
        let mut ratios: Vec<f64> = beside.iter().zip(&alone).map(ratio).collect();
        ratios.sort_unstable_by(f64::total_cmp);
        let middle = ratios.len() / 2;
        Ok(Mode {
            alone: median(&alone),
            beside: median(&beside),
            p99_ratio: ratios[middle],
            p99_ratio_min: ratios[0],
            p99_ratio_max: ratios[ratios.len() - 1],
        })
    }

    /// One run: the server alone, or beside batch tasks that have run for a while.
    async fn run(
        &mut self,
        options: &Options,
        cores: Cores,
        with_batch: bool,
    ) -> anyhow::Result<Measured> {
        let mut tasks = Vec::new();
        if with_batch {
            for arguments in HOGS {
                self.batch += 1;
                tasks.push(hog(instance(BATCH, self.batch), arguments)?);
            }
        }
        self.driven.order(tasks.clone());
        let all = tasks.len();
        // Those of the run before are reported until the next order.
        let runs = |report: &Report| {
            let left = report.tasks.iter().filter(|task| !has_ended(&task.status));
            let running = |task: &TaskReport| matches!(task.status, TaskStatus::Running { .. });
            left.clone().count() == all && left.clone().all(running)
        };
        self.driven.until("all tasks run, and no others", runs).await?;
        self.driven.during(WARM).await?;
        self.servers += 1;
        let server = instance(SERVER, self.servers);
        tasks.push(server_of(server, options, cores)?);
        self.driven.order(tasks);
        let ended = |report: &Report| count(report, SERVER, has_ended) == 1;
        self.driven.until("the server has ended", ended).await?;
        self.measured(server)
    }

    fn measured(&self, server: InstanceId) -> anyhow::Result<Measured> {
        let logs = self.driven.logs(server);
        let read = |name: &str| fs::read_to_string(logs.join(name)).unwrap_or_default();
        let said = read("stdout.000001");
        serde_json::from_str(said.trim())
            .with_context(|| format!("the client measured nothing: {}", read("stderr.000001")))
    }
}

/// The server and its client.
fn server_of(instance: InstanceId, options: &Options, cores: Cores) -> anyhow::Result<Desired> {
    let port = free_ports(1)?[0];
    let [number, rate, seconds] =
        [u64::from(port), options.rate, options.seconds].map(|number| number.to_string());
    let argv = ["request", "--port", &number, "--rate", &rate, "--seconds", &seconds];
    let mut desired = working(instance, &argv)?;
    let mut spec = (*desired.spec).clone();
    spec.limit = Resources { cpu: CORE, ram: Bytes(256 << 20), ..spec.limit };
    spec.cores = cores;
    let name = PortName::new("redis")?;
    spec.ports.insert(name.clone());
    (desired.spec, desired.ports) = (spec.into(), vec![(name, port)]);
    Ok(desired)
}

fn hog(instance: InstanceId, arguments: &[&str]) -> anyhow::Result<Desired> {
    let mut desired = task(instance, &[&["stress-ng", "--temp-path", "/tmp"], arguments].concat())?;
    let mut spec = (*desired.spec).clone();
    spec.limit = Resources { cpu: MilliCores(100), ram: Bytes(256 << 20), ..spec.limit };
    (desired.priority, desired.appclass) = (Band::Free.usual(), Appclass::Batch);
    desired.spec = spec.into();
    Ok(desired)
}

/// The run in the middle by its 99th percentile.
fn median(runs: &[Measured]) -> Measured {
    let mut runs = runs.to_vec();
    runs.sort_unstable_by_key(|run| run.p99_us);
    runs.get(runs.len() / 2).copied().unwrap_or_default()
}

#[expect(clippy::cast_precision_loss, reason = "a time, rounded")]
fn as_f64(number: u64) -> f64 {
    number as f64
}
