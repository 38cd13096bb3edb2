//! Benchmarks as commands: they measure this program on this machine, and say what they did.

mod apply;
mod cluster;
mod history;
mod recovery;
mod scheduling;
mod sim;
mod start;
mod trace_files;

use std::path::PathBuf;
use std::time::Duration;

use clap::Subcommand;
use cli::Done;
use model::Span;

/// What can be measured.
#[derive(Debug, Subcommand)]
#[expect(private_interfaces, reason = "a benchmark is only run from outside")]
pub enum Benchmark {
    /// From submission to running: one-task jobs on an idle dev cell, one after the other.
    Start {
        /// How many jobs.
        #[arg(long, default_value_t = 50)]
        runs: usize,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Durable changes a second, with clients that wait for each.
    Commit(cluster::commit::Wanted),
    /// Many Borglets on real connections: how often they are polled, and what that takes.
    Agents(cluster::agents::Wanted),
    /// Tasks from their arrival to running, on simulated Borglets.
    Arrivals(cluster::arrivals::Wanted),
    /// Reads while Borglets are polled and changes come.
    Reads(cluster::reads::Wanted),
    /// The process of simulated Borglets that other benchmarks start.
    #[command(hide = true)]
    Borglets(cluster::borglets::Wanted),
    /// From the leader's end by `kill -9` to the next acknowledged change.
    Failover(cluster::failover::Wanted),
    /// A master's start on a log without a checkpoint, until it leads.
    Recovery {
        /// How many operations the log has.
        #[arg(long, default_value_t = 1_000_000)]
        operations: u64,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// The cell as it was at moments of a long past.
    History {
        /// How many operations the past has.
        #[arg(long, default_value_t = 10_000_000)]
        operations: u64,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// The scheduler: a whole cell from scratch, on one core.
    Cell(scheduling::cell::Wanted),
    /// The scheduler: how many machines a cell's tasks take, by packing policy.
    Pack(scheduling::pack::Wanted),
    /// The scheduler: passes over a long queue while tasks come and go.
    Pass(scheduling::pass::Wanted),
    /// The state machine: operations a second, snapshots, and the size of the state.
    Apply {
        /// Machines of the cell.
        #[arg(long, default_value_t = 12_583)]
        machines: u64,
        /// Tasks of the cell, all placed.
        #[arg(long, default_value_t = 144_339)]
        tasks: u32,
        /// How many operations are measured.
        #[arg(long, default_value_t = 3_000_000)]
        operations: u64,
        /// What the draws of machines and tasks begin with.
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Simulated cells: one under the churn of a real one, and one under faults.
    Sim {
        /// Google's trace of 2011, as docs/traces.md says. Default: a twenty-fifth of it, which is
        /// part of this program.
        #[arg(long, value_name = "DIR")]
        trace: Option<PathBuf>,
        /// How much of the trace is played, in its own time; 83 minutes of it are known.
        #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..))]
        minutes: u64,
        /// The time between two polls of a Borglet, in seconds.
        #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=3_600))]
        poll_interval: u64,
        /// How many replicas the Borgmaster of each has.
        #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=7))]
        replicas: u8,
        /// What everything that the trace does not say begins with.
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
}

impl Benchmark {
    /// Measures, and prints what was found.
    ///
    /// # Errors
    /// Where it cannot be measured.
    pub fn measure(self) -> Done {
        match self {
            Self::Start { runs, json } => start::start(runs, json),
            Self::Recovery { operations, json } => recovery::recovery(operations, json),
            Self::History { operations, json } => history::history(operations, json),
            Self::Commit(wanted) => cluster::commit::measure(&wanted),
            Self::Agents(wanted) => cluster::agents::measure(&wanted),
            Self::Arrivals(wanted) => cluster::arrivals::measure(&wanted),
            Self::Reads(wanted) => cluster::reads::measure(&wanted),
            Self::Borglets(wanted) => Ok(cluster::borglets::answer(&wanted)?),
            Self::Failover(wanted) => cluster::failover::measure(&wanted),
            Self::Cell(wanted) => scheduling::cell::measure(&wanted),
            Self::Pack(wanted) => scheduling::pack::measure(&wanted),
            Self::Pass(wanted) => scheduling::pass::measure(&wanted),
            Self::Apply { machines, tasks, operations, seed, json } => {
                apply::apply(apply::Size { machines, tasks, operations, seed }, json)
            }
            Self::Sim { trace, minutes, poll_interval, replicas, seed, json } => {
                let poll_interval = Span::from_secs(poll_interval);
                let (trace, replicas) = (trace.as_deref(), replicas.into());
                sim::sim(&sim::Size { trace, minutes, poll_interval, replicas, seed }, json)
            }
        }
    }
}

/// The CPU time of this thread so far.
fn thread_time() -> Duration {
    use nix::time::{ClockId, clock_gettime};
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map_or(Duration::ZERO, Duration::from)
}
