//! The command line: what a person or a script types, asked of a cell, and shown.
//!
//! What is deliberately not here: the processes of a cell and the benchmarks, which are commands of the
//! program beside these, and how a cell is found and asked (crate `client`).

mod capability;
mod cell;
mod certify;
mod checkpoint;
mod choose;
mod dev;
mod evaluate;
mod events;
mod example;
mod exit;
mod kill;
mod known;
mod logs;
mod machine;
pub mod master;
mod moment;
pub mod output;
mod quota;
mod restore;
mod run;
mod show;
mod sim;
mod token;
mod user;
mod why;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Subcommand};
use client::{Connection, Target};
use masterd::SilenceArgs;
use model::{Address, CellName, LabelQuery, MachineName};
use process::arguments::{duration, validity};
use proto::v1;

pub use self::checkpoint::load::begin_anew;
pub use self::dev::{Client, DevCell, Options as DevOptions, grant_the_machine};
pub use self::exit::{Code, Done, Failure, TABLE};
pub use self::master::change as change_replicas;
use self::moment::Moment;
use self::output::Format;

/// The commands.
#[derive(Debug, Subcommand)]
#[expect(private_interfaces, reason = "a command is only executed from outside")]
pub enum Command {
    /// A whole cell on this machine, for as long as it runs: master, scheduler, Borglet.
    Dev(DevArgs),
    /// Submit the jobs of a file and wait until they are healthy.
    ///
    /// A task with a health check is healthy while the check says so. Without one, a task of a service
    /// is healthy when it has run for a second, and one of a batch job as soon as it runs. So
    /// a batch job is waited for until it runs, not until it ends, and exit status 0 does not say that
    /// it succeeded: how it ends is in `bourg status JOB` and `bourg logs -f JOB`.
    ///
    /// With --wait, all jobs are waited for until they have ended. The exit status is 0 if every task
    /// has finished, and else that of the first task that failed of the first job that did: its exit
    /// code, 128 and the signal if one ended it (137 where it was out of memory), 127 if its program
    /// could not be started, and 1 for any other end. A code of the table at the end of
    /// `bourg --help` can be a task's, too: the message says whose it is.
    Run(RunArgs),
    /// Print a file's jobs as canonical JSON.
    Eval(EvalArgs),
    /// Jobs and their tasks.
    Status(StatusArgs),
    /// Why tasks are pending, and what would let them start.
    Why(WhyArgs),
    /// What tasks write.
    Logs(LogsArgs),
    /// Kill jobs, or some of their tasks.
    Kill(KillArgs),
    /// The machines of the cell.
    Machines(ListArgs),
    /// One machine, and what administrators do to machines and say of them.
    #[command(subcommand)]
    Machine(machine::Command),
    /// The cell itself: its machines, its index, its state's digest; and its circuit breaker.
    Cell(cell::CellArgs),
    /// The cells that are known here by a name, and whether they answer.
    Cells(known::CellsArgs),
    /// Who may ask the cell anything: users and their certificates.
    #[command(subcommand)]
    User(user::Command),
    /// Who may have how much running in which band.
    #[command(subcommand)]
    Quota(quota::Command),
    /// What users may do beyond what is their own.
    #[command(subcommand)]
    Capability(capability::Command),
    /// What happened, with who did it and why.
    Events(EventsArgs),
    /// The whole cell in one file: save it, verify it, look at it, edit it, go on from it.
    #[command(subcommand)]
    Checkpoint(checkpoint::Command),
    /// Whole cells in this process, in time of their own and under faults, by their seeds.
    Sim(sim::SimArgs),
    /// A small HTTP server, as an example of a service.
    ExampleServer(ExampleServerArgs),
    /// A computation that ends, as an example of a batch job.
    ExampleBatch(ExampleBatchArgs),
    /// Evaluates in this very process, which is then limited.
    #[command(name = evaluate::COMMAND, hide = true)]
    EvaluateHere {
        /// The file.
        file: PathBuf,
    },
}

#[derive(Debug, Args)]
struct DevArgs {
    /// Jobs to run in the cell.
    file: Option<PathBuf>,
    /// Keep the cell's state in this directory. Default: a temporary one, removed at the end.
    #[arg(long)]
    dir: Option<PathBuf>,
    /// The cell's name.
    #[arg(long, default_value = "dev")]
    name: CellName,
    /// How many replicas its master has: 1, 3 or 5. A cell that is kept in a directory has no fewer
    /// than before.
    #[arg(long, default_value = "1", value_parser = ["1", "3", "5"])]
    replicas: String,
    /// How much the processes of the cell say on stderr: error, warn, info, debug.
    #[arg(long, default_value = "warn")]
    log: String,
    /// How long to wait for the jobs, such as 60s.
    #[arg(long, default_value = "60s", value_parser = duration)]
    timeout: Duration,
    /// How long the certificates are valid that its master issues.
    #[arg(long, default_value = "30d", value_name = "TIME", value_parser = validity)]
    certificate_validity: Duration,
    /// A command to run against the cell, which lives as long as the command.
    #[arg(last = true)]
    command: Vec<String>,
    // Its heading is that of whatever follows.
    #[command(flatten)]
    silence: SilenceArgs,
}

#[derive(Debug, Args)]
struct RunArgs {
    /// A BCL or JSON file.
    file: PathBuf,
    /// Do not wait: end when the jobs are admitted.
    #[arg(long)]
    detach: bool,
    /// Wait until the jobs have ended, and end with the exit status of the task that failed, if any.
    #[arg(long, conflicts_with = "detach")]
    wait: bool,
    /// How long to wait until all tasks are placed and healthy, or with --wait have ended. Default: 5m,
    /// and with --wait as long as it takes.
    #[arg(long, value_parser = duration)]
    timeout: Option<Duration>,
}

#[derive(Debug, Args)]
struct EvalArgs {
    /// A BCL or JSON file.
    #[arg(required_unless_present = "library")]
    file: Option<PathBuf>,
    /// Print the built-in library instead.
    #[arg(long)]
    library: bool,
}

#[derive(Debug, Args)]
struct StatusArgs {
    /// Jobs, as user/job or job. Default: all that are not dead.
    jobs: Vec<Address>,
    /// Dead jobs too.
    #[arg(long, short)]
    all: bool,
    #[command(flatten)]
    list: ListArgs,
}

#[derive(Debug, Args)]
struct WhyArgs {
    /// A job, or some of its tasks: user/job, job, user/job/7, user/job/0-4.
    #[arg(required_unless_present = "labels")]
    job: Option<Address>,
    /// Everybody's jobs and tasks that are alive and have these labels, such as team=search,!spare.
    #[arg(long, short = 'l', value_name = "LABELS", conflicts_with = "job")]
    labels: Option<LabelQuery>,
    /// Also the machines with the best scores for the first of the tasks, term by term: so many.
    #[arg(
        long, value_name = "MACHINES", num_args = 0..=1, default_value = "0",
        default_missing_value = "5", value_parser = clap::value_parser!(u32).range(0..=100)
    )]
    scores: u32,
    #[arg(short, long, default_value = "table")]
    /// table, json, yaml, or a field by its path.
    output: Format,
    /// As it was then: an index (88412), a time (2026-11-19 03:10, UTC) or how long ago (10m).
    #[arg(long, value_name = "MOMENT")]
    at: Option<Moment>,
}

#[derive(Debug, Args)]
struct LogsArgs {
    /// A job, or some of its tasks: user/job, job, user/job/7, user/job/0-4.
    #[arg(required_unless_present = "labels")]
    job: Option<Address>,
    /// Those of your jobs and tasks that have these labels, such as team=search,!spare.
    #[arg(long, short = 'l', value_name = "LABELS", conflicts_with = "job")]
    labels: Option<LabelQuery>,
    /// Go on until the tasks have ended.
    #[arg(long, short)]
    follow: bool,
    /// Only what was written in the last time, such as 1m.
    #[arg(long, value_parser = duration, conflicts_with = "tail")]
    since: Option<Duration>,
    /// Only the last lines of each stream.
    #[arg(long, short = 'n')]
    tail: Option<u32>,
    /// Only this stream: stdout or stderr.
    #[arg(long, value_parser = ["stdout", "stderr"])]
    stream: Option<String>,
}

#[derive(Debug, Args)]
struct KillArgs {
    /// Jobs, or some of their tasks: user/job, job, user/job/7, user/job/0-4.
    #[arg(required_unless_present = "labels")]
    jobs: Vec<Address>,
    /// Those of your jobs and tasks that have these labels, such as team=search,!spare.
    #[arg(long, short = 'l', value_name = "LABELS", conflicts_with = "jobs")]
    labels: Option<LabelQuery>,
    /// Do not wait until the tasks are gone.
    #[arg(long)]
    detach: bool,
    /// How long to wait until the tasks are gone.
    #[arg(long, default_value = "60s", value_parser = duration)]
    timeout: Duration,
}

#[derive(Debug, Args)]
struct ListArgs {
    /// table, wide, json, yaml, name, or a field by its path.
    #[arg(short, long, default_value = "table")]
    output: Format,
    /// Show it again whenever it changes.
    #[arg(long, short)]
    watch: bool,
    /// Only what has these labels, such as team=search,tier!=canary,gpu,!spare.
    #[arg(long, short = 'l', value_name = "LABELS")]
    labels: Option<LabelQuery>,
    /// As it was then: an index (88412), a time (2026-11-19 03:10, UTC) or how long ago (10m).
    #[arg(long, value_name = "MOMENT", conflicts_with = "watch")]
    at: Option<Moment>,
}

impl ListArgs {
    /// The labels as they are sent.
    fn labels(&self) -> String {
        self.labels.as_ref().map(ToString::to_string).unwrap_or_default()
    }

    /// The moment as it is sent.
    fn at(&self) -> Option<v1::Moment> {
        self.at.map(Moment::message)
    }
}

#[derive(Debug, Args)]
struct EventsArgs {
    /// A job, or some of its tasks: user/job, job, user/job/7. Default: everything.
    address: Option<Address>,
    /// Only what happened to this machine, or on it.
    #[arg(long)]
    machine: Option<MachineName>,
    /// Only what happened to jobs, tasks or machines that have these labels.
    #[arg(long, short = 'l', value_name = "LABELS")]
    labels: Option<LabelQuery>,
    /// The newest so many.
    #[arg(long, short = 'n', default_value_t = 100, conflicts_with_all = ["since", "all", "from"])]
    last: u32,
    /// Those of the last time, such as 1h.
    #[arg(long, value_parser = duration, conflicts_with_all = ["all", "from"])]
    since: Option<Duration>,
    /// All that are kept.
    #[arg(long, conflicts_with = "from")]
    all: bool,
    /// Those from this one on, as INDEX or INDEX.SUB.
    #[arg(long, value_name = "EVENT")]
    from: Option<events::Cursor>,
    /// Only up to then: an index, a time or how long ago.
    #[arg(long, value_name = "MOMENT", conflicts_with = "follow")]
    at: Option<Moment>,
    /// Go on: each as it happens.
    #[arg(long, short)]
    follow: bool,
    /// table, wide, json (a line each), yaml, name, or a field by its path.
    #[arg(short, long, default_value = "table")]
    output: Format,
}

#[derive(Debug, Args)]
struct ExampleServerArgs {
    /// The port to listen on.
    #[arg(long)]
    port: u16,
    /// Do not log requests.
    #[arg(long)]
    quiet: bool,
    /// Say so in the log.
    #[arg(long)]
    leader: bool,
    /// Answer 500 after so many requests; 0 for never.
    #[arg(long, default_value_t = 0)]
    unhealthy_after: u64,
}

#[derive(Debug, Args)]
struct ExampleBatchArgs {
    /// How many points to draw.
    #[arg(long, default_value_t = 1_000_000)]
    samples: u64,
    /// Where the generator begins.
    #[arg(long, default_value_t = 0)]
    seed: u64,
}

/// A cell that is asked from a terminal.
#[must_use]
pub fn target(cell: Option<&str>, consistent: bool) -> Target<'_> {
    Target { cell, consistent, notify: |notice| eprintln!("{notice}") }
}

/// Does what a command says.
///
/// # Errors
/// Where it did not succeed.
pub fn execute(cell: Target<'_>, command: Command) -> Result<ExitCode, Failure> {
    match command {
        Command::Dev(args) => return dev::dev(&args),
        Command::Run(args) => run::run(cell, &args)?,
        Command::Eval(args) => eval(&args)?,
        Command::Status(args) => show::status(cell, &args)?,
        Command::Why(args) => why::why(cell, &args)?,
        Command::Logs(args) => logs::logs(cell, &args)?,
        Command::Kill(args) => kill::kill(cell, &args)?,
        Command::Machines(args) => machine::list(cell, &args)?,
        Command::Machine(command) => machine::machine(cell, &command)?,
        Command::Cell(args) => cell::cell(cell, &args)?,
        Command::Cells(args) => known::cells(&args)?,
        Command::User(command) => user::user(cell, &command)?,
        Command::Checkpoint(command) => checkpoint::checkpoint(cell, &command)?,
        Command::Sim(args) => sim::sim(&args)?,
        Command::ExampleServer(args) => {
            if args.leader {
                println!("leads");
            }
            let ExampleServerArgs { port, quiet, unhealthy_after, .. } = args;
            example::serve(&example::Server { port, quiet, unhealthy_after })?;
        }
        Command::ExampleBatch(args) => example::batch(args.samples, args.seed),
        Command::Quota(command) => quota::quota(cell, &command)?,
        Command::Capability(command) => capability::capability(cell, &command)?,
        Command::Events(args) => events::events(cell, &args)?,
        Command::EvaluateHere { file } => evaluate::in_this_process(&file)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn eval(args: &EvalArgs) -> Done {
    match &args.file {
        Some(file) if !args.library => {
            let jobs = evaluate::evaluate(file)?;
            output::print(&format!("{}\n", proto::json::jobs_to_json(&jobs).trim_end()))
        }
        _ => output::print(bcl::LIBRARY),
    }
}

/// Connects to a cell and does something with the connection, on this thread.
fn with_cell<T>(
    cell: Target<'_>,
    work: impl AsyncFnOnce(Connection) -> Result<T, Failure>,
) -> Result<T, Failure> {
    runtime()?.block_on(async { work(Connection::open(cell)?).await })
}

/// What asynchronous calls run on: this thread.
fn runtime() -> Result<tokio::runtime::Runtime, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(|error| Failure::failed(format!("error: {error}")))
}

/// An address as a request has it; the owner that is left out is filled in by the master.
fn job_address(address: &Address) -> v1::JobAddress {
    v1::JobAddress {
        user: address.user.as_ref().map(ToString::to_string).unwrap_or_default(),
        job: address.job.to_string(),
    }
}
