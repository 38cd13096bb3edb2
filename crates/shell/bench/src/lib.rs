//! Benchmarks and the paper's experiments as commands: they measure this program on this machine, and print
//! the results.

mod apply;
mod borglet;
mod cluster;
mod estimate;
mod fanout;
mod files;
mod greedy;
mod history;
mod lab;
mod names;
mod packages;
mod queue;
mod recovery;
mod scheduling;
mod sim;
mod start;
mod trace_files;
mod update;

pub use lab::Experiment;

use std::path::PathBuf;
use std::time::Duration;

use clap::Subcommand;
use command::Done;
use model::Span;

/// The benchmarks.
#[derive(Debug, Subcommand)]
#[expect(private_interfaces, reason = "callers only run benchmarks")]
pub enum Benchmark {
    /// Measure submission to running: one-task jobs on an idle dev cell, one after another.
    Start {
        /// The number of jobs.
        #[arg(long, default_value_t = 50)]
        runs: usize,
        /// Measure as many again beside another user who takes all that the cell gives.
        #[arg(long)]
        greedy: bool,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Measure durable changes per second, with clients that wait for each.
    Commit(cluster::commit::Options),
    /// Measure the polling of many Borglets over real connections, and its cost.
    Agents(cluster::agents::Options),
    /// Measure tasks from arrival to running, on simulated Borglets.
    Arrivals(cluster::arrivals::Options),
    /// Measure reads while Borglets are polled and changes are made.
    Reads(cluster::reads::Options),
    /// Measure the pages of Sigma, the web UI, in a large cell, and the cost of live viewers.
    Sigma(cluster::sigma::Options),
    /// Run simulated Borglets; other benchmarks start this process.
    #[command(hide = true)]
    Borglets(cluster::borglets::Options),
    /// Measure one Borglet: many tasks at once, their output, and its own cost.
    Borglet(borglet::Options),
    /// Measure a latency-sensitive server alone and beside batch tasks: latencies, and waits.
    Isolation(borglet::isolation::Options),
    /// Do the work of a task; other benchmarks start such tasks.
    #[command(hide = true, subcommand)]
    Work(borglet::Work),
    /// Measure the time from `kill -9` of the leader to the next acknowledged change.
    Failover(cluster::failover::Options),
    /// Measure a master's start on a log without a checkpoint, until it leads.
    Recovery {
        /// The number of operations in the log.
        #[arg(long, default_value_t = 1_000_000)]
        operations: u64,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Measure queries of the cell at past moments.
    History {
        /// The number of operations in the history.
        #[arg(long, default_value_t = 10_000_000)]
        operations: u64,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Measure the scheduler: a whole cell from scratch, on one core.
    Cell(scheduling::cell::Options),
    /// Measure the scheduler: how many machines a cell's tasks need, by packing policy.
    Pack(scheduling::pack::Options),
    /// Measure the scheduler: what the preference for machines with the packages saves.
    Placement(scheduling::packages::Options),
    /// Measure the scheduler: passes over a long queue while tasks come and go.
    Pass(scheduling::pass::Options),
    /// Measure the explanation of pending tasks in a full cell, and the count of what would start at once.
    Why(scheduling::why::Options),
    /// Measure plans and updates of a large job, with a fail-over in the middle.
    Update(update::Options),
    /// Measure the state machine: operations per second, snapshots, and the size of the state.
    Apply {
        /// The number of machines of the cell.
        #[arg(long, default_value_t = 12_583)]
        machines: u64,
        /// The number of tasks of the cell, all placed.
        #[arg(long, default_value_t = 144_339)]
        tasks: u32,
        /// The number of measured operations.
        #[arg(long, default_value_t = 3_000_000)]
        operations: u64,
        /// The seed for drawing machines and tasks.
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Measure the estimates of reservations: the time of a round, and their part of the log.
    Estimate(estimate::Options),
    /// Simulate how a package reaches many machines, from a store and from each other.
    Fanout(fanout::Options),
    /// Measure the names of a large cell: following changes, records, and their memory.
    Names {
        /// The number of machines of the cell.
        #[arg(long, default_value_t = 12_583)]
        machines: u64,
        /// The number of tasks of the cell, all placed.
        #[arg(long, default_value_t = 144_339)]
        tasks: u32,
        /// The number of changes that are followed, at most one for each job.
        #[arg(long, default_value_t = 3_000)]
        changes: u64,
        /// The seed for drawing machines and tasks.
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Measure files and secrets of tasks: starts, and a master's memory.
    Files(files::Options),
    /// Measure packages and images: imports, uploads, starts and fetches.
    Packages(packages::Options),
    /// Measure the batch queue: its decisions, and a log that is replayed.
    Queue(queue::Options),
    /// Measure a Borglet's name server: unknown names, changes; and watchers of a job.
    Resolver(cluster::resolver::Options),
    /// Measure the simulator: one cell under the churn of a real one, and one under faults.
    Sim {
        /// Google's trace of 2011, as described in docs/traces.md. Default: a built-in twenty-fifth
        /// of it.
        #[arg(long, value_name = "DIR")]
        trace: Option<PathBuf>,
        /// How many minutes of the trace are simulated, in virtual time; 83 minutes are available.
        #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..))]
        minutes: u64,
        /// The time between two polls of a Borglet, in seconds.
        #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=3_600))]
        poll_interval: u64,
        /// The number of replicas of each Borgmaster.
        #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=7))]
        replicas: u8,
        /// The seed for everything that the trace does not specify.
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
}

impl Benchmark {
    /// Runs the benchmark and prints the results.
    ///
    /// # Errors
    /// If it fails.
    pub fn measure(self) -> Done {
        match self {
            Self::Start { runs, greedy, json } => start::start(runs, greedy, json),
            Self::Recovery { operations, json } => recovery::recovery(operations, json),
            Self::History { operations, json } => history::history(operations, json),
            Self::Commit(options) => cluster::commit::measure(&options),
            Self::Agents(options) => cluster::agents::measure(&options),
            Self::Arrivals(options) => cluster::arrivals::measure(&options),
            Self::Reads(options) => cluster::reads::measure(&options),
            Self::Sigma(options) => cluster::sigma::measure(&options),
            Self::Borglets(options) => Ok(cluster::borglets::answer(&options)?),
            Self::Borglet(options) => borglet::measure(&options),
            Self::Isolation(options) => borglet::isolation::measure(&options),
            Self::Work(what) => Ok(borglet::work(&what)?),
            Self::Failover(options) => cluster::failover::measure(&options),
            Self::Cell(options) => scheduling::cell::measure(&options),
            Self::Pack(options) => scheduling::pack::measure(&options),
            Self::Placement(options) => scheduling::packages::measure(&options),
            Self::Pass(options) => scheduling::pass::measure(&options),
            Self::Why(options) => scheduling::why::measure(&options),
            Self::Update(options) => update::measure(&options),
            Self::Apply { machines, tasks, operations, seed, json } => {
                apply::apply(apply::ApplySize { machines, tasks, operations, seed, cores: 1 }, json)
            }
            Self::Names { machines, tasks, changes, seed, json } => {
                let operations = changes;
                names::names(apply::ApplySize { machines, tasks, operations, seed, cores: 1 }, json)
            }
            Self::Estimate(options) => estimate::measure(&options),
            Self::Files(options) => files::measure(&options),
            Self::Queue(options) => queue::measure(&options),
            Self::Packages(options) => packages::measure(&options),
            Self::Fanout(options) => fanout::measure(&options),
            Self::Resolver(options) => cluster::resolver::measure(&options),
            Self::Sim { trace, minutes, poll_interval, replicas, seed, json } => {
                let poll_interval = Span::from_secs(poll_interval);
                let (trace, replicas) = (trace.as_deref(), replicas.into());
                sim::sim(&sim::SimOptions { trace, minutes, poll_interval, replicas, seed }, json)
            }
        }
    }
}

/// A percentile of sorted values, by nearest rank; the default if there are none.
fn nearest_rank<T: Copy + Default>(sorted: &[T], percent: usize) -> T {
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    sorted.get(rank - 1).copied().unwrap_or_default()
}

/// The CPU time of this thread so far.
fn thread_time() -> Duration {
    use nix::time::{ClockId, clock_gettime};
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map_or(Duration::ZERO, Duration::from)
}
