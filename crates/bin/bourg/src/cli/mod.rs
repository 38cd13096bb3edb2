//! The command line (design, section 9).

mod capability;
mod cell;
pub(crate) mod cells;
mod certify;
mod checkpoint;
mod choose;
mod dev;
mod elsewhere;
mod events;
mod exit;
mod kill;
mod known;
mod logs;
mod machine;
mod master;
pub(crate) mod moment;
mod outcome;
pub(crate) mod output;
mod quota;
mod restore;
mod roles;
mod run;
mod show;
mod silence;
mod sim;
mod token;
mod user;
mod why;

use std::net::SocketAddr;
use std::os::fd::RawFd;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, CommandFactory, Parser, Subcommand};
use model::{Address, Bytes, CellName, LabelQuery, MachineName, PortRange, UserName};
use proto::v1;

use self::cells::{Connection, Target};
pub(crate) use self::checkpoint::load::begin_anew;
pub(crate) use self::dev::{Client, DevCell, Options as DevOptions, grant_the_machine};
pub(crate) use self::exit::{Done, Failure};
pub(crate) use self::master::change as change_replicas;
use self::moment::Moment;
use self::output::Format;
pub(crate) use self::roles::{LOG_VARIABLE, PARENT_VARIABLE};
use crate::joining::Given;
use crate::master::past;
use crate::{bench, evaluate, example};

/// In less time a certificate cannot be renewed by thirds of a second's precision.
const VALIDITY_MIN: std::time::Duration = std::time::Duration::from_secs(3);

/// Borg, the cluster manager, as one program: runs services and batch jobs on shared machines.
#[derive(Debug, Parser)]
#[command(name = "bourg", version, after_help = exit::TABLE, max_term_width = 100)]
struct Cli {
    /// The cell: a name, or the path of a client directory. Default: the only one known here.
    #[arg(long, global = true, env = "BOURG_CELL", value_name = "CELL")]
    cell: Option<String>,
    /// Answer with what is true now, and not with what the replica that answers knows already.
    #[arg(long, global = true)]
    consistent: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
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
    /// Measure this program on this machine.
    #[command(subcommand)]
    Bench(bench::Benchmark),
    /// A Borgmaster replica; or those of a cell: listed, added, removed.
    Master(master::MasterCommand),
    /// A scheduler.
    Scheduler(SchedulerArgs),
    /// The agent on a machine.
    Borglet(BorgletArgs),
    /// A small HTTP server, as an example of a service.
    ExampleServer(ExampleServerArgs),
    /// A computation that ends, as an example of a batch job.
    ExampleBatch(ExampleBatchArgs),
    /// Print a completion script for a shell.
    Completion {
        /// Which shell.
        shell: clap_complete::Shell,
    },
    /// Answers one question about the past from a data directory.
    #[command(name = past::COMMAND, hide = true)]
    AnswerFromThePast { directory: PathBuf },
    /// Evaluates in this very process, which is then limited.
    #[command(name = evaluate::COMMAND, hide = true)]
    EvaluateHere { file: PathBuf },
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
    timeout: std::time::Duration,
    /// How long the certificates are valid that its master issues.
    #[arg(long, default_value = "30d", value_name = "TIME", value_parser = validity)]
    certificate_validity: std::time::Duration,
    /// A command to run against the cell, which lives as long as the command.
    #[arg(last = true)]
    command: Vec<String>,
    // Its heading is that of whatever follows.
    #[command(flatten)]
    silence: silence::SilenceArgs,
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
    timeout: Option<std::time::Duration>,
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
    since: Option<std::time::Duration>,
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
    timeout: std::time::Duration,
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
    since: Option<std::time::Duration>,
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
struct ListenArgs {
    /// Where to listen.
    #[arg(long, default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// A listening socket that this process was given instead.
    #[arg(long, conflicts_with = "listen", value_name = "DESCRIPTOR")]
    listen_fd: Option<RawFd>,
}

/// Of which cell a replica is.
#[derive(Debug, Args)]
struct ReplicaArgs {
    /// The data directory; made at the first start.
    #[arg(long)]
    dir: PathBuf,
    /// Join a cell with this token, which bourg master add prints: itself, @FILE, or - for standard
    /// input. Once it has joined, it needs none.
    #[arg(long, value_name = "TOKEN")]
    join: Option<Given>,
    /// The data directory must be there: none is made.
    #[arg(long, hide = true)]
    existing: bool,
    /// The cell's name. Where it is new, it is founded.
    #[arg(long, requires = "administrator")]
    name: Option<CellName>,
    /// Who administers a cell that is new.
    #[arg(long, requires = "name")]
    administrator: Option<UserName>,
}

#[derive(Debug, Args)]
struct MasterArgs {
    /// How much of the log and its checkpoints is kept, so that the cell can be shown as it was.
    #[arg(long, default_value = "2 GiB", value_name = "BYTES")]
    history_bytes: Bytes,
    /// For how long they are kept.
    #[arg(long, default_value = "7d", value_parser = duration)]
    history_age: std::time::Duration,
    /// How much of the events is kept.
    #[arg(long, default_value = "1 GiB", value_name = "BYTES")]
    events_bytes: Bytes,
    /// For how long they are kept.
    #[arg(long, default_value = "30d", value_parser = duration)]
    events_age: std::time::Duration,
    /// How long the certificates are valid that it issues to itself, machines and schedulers. They
    /// are renewed when a third of that is left.
    #[arg(long, default_value = "30d", value_name = "TIME", value_parser = validity)]
    certificate_validity: std::time::Duration,
    /// Where other replicas and clients reach it; otherwise where it listens, by this host's name if that
    /// is everywhere.
    #[arg(long, value_name = "HOST:PORT", value_parser = dialled)]
    address: Option<String>,
    /// Stay at this level of the state machine or below, as an older build would.
    #[arg(long, value_name = "LEVEL", default_value_t = ::cell::LEVEL.0, hide_default_value = true,
          value_parser = clap::value_parser!(u32).range(1..=i64::from(::cell::LEVEL.0)))]
    level: u32,
    #[command(flatten)]
    listen: ListenArgs,
    // Its heading is that of whatever follows.
    #[command(flatten)]
    silence: silence::SilenceArgs,
}

#[derive(Debug, Args)]
struct SchedulerArgs {
    /// The directory with its certificate, scheduler.pem and scheduler.key.
    #[arg(long)]
    credentials: PathBuf,
    /// Where a replica of the master answers, as host:port; given again for each.
    #[arg(long, required = true)]
    master: Vec<String>,
}

#[derive(Debug, Args)]
struct BorgletArgs {
    /// The data directory; made at the first start.
    #[arg(long)]
    dir: PathBuf,
    /// Join the cell with this token: itself, @FILE, or - for standard input. Once it has joined, it
    /// needs none.
    #[arg(long, value_name = "TOKEN")]
    join: Option<Given>,
    /// Where the masters reach it when it joins; otherwise where it listens, by this host's name if that is
    /// everywhere.
    #[arg(long, value_name = "HOST:PORT", value_parser = dialled)]
    address: Option<String>,
    /// The directory with its certificate, borglet.pem and borglet.key. Default: the data directory.
    #[arg(long)]
    credentials: Option<PathBuf>,
    /// Where a replica of the master answers, as host:port, which renews the certificate; given again
    /// for each. One that has joined knows it.
    #[arg(long, value_name = "HOST:PORT")]
    master: Vec<String>,
    /// The ports that tasks can have.
    #[arg(long, default_value = "20000-29999")]
    ports: PortRange,
    /// What the machine's disks do a second, of which tasks can ask their share.
    #[arg(long, default_value = "200 MiB", value_name = "BYTES")]
    disk_rate: Bytes,
    /// End the tasks when this process is told to stop. Killed, it leaves them running.
    #[arg(long)]
    stop_tasks: bool,
    #[command(flatten)]
    listen: ListenArgs,
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

/// An address that others dial.
fn dialled(text: &str) -> Result<String, String> {
    rpc::transport::check_address(text).map_err(|error| error.to_string())?;
    Ok(text.to_owned())
}

/// For how long a certificate may be valid that renews itself: three seconds to a year.
fn validity(text: &str) -> Result<std::time::Duration, String> {
    let given = duration(text)?;
    let most = ::cell::bounds::CERTIFICATE_VALIDITY_MAX.to_std();
    match given >= VALIDITY_MIN && given <= most {
        true => Ok(given),
        false => Err("a certificate that renews itself is valid for 3s to 366d".to_owned()),
    }
}

/// `90`, `90s`, `1.5m`, `500ms`, `2h`.
fn duration(text: &str) -> Result<std::time::Duration, String> {
    let bad = || format!("'{}' is not a time such as 90s, 500ms, 2m or 1h", text.escape_debug());
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let factor = match unit.trim() {
        "ms" => 0.001,
        "" | "s" => 1.0,
        "m" => 60.0,
        "h" => 3_600.0,
        "d" => 86_400.0,
        _ => return Err(bad()),
    };
    let number: f64 = number.parse().map_err(|_| bad())?;
    std::time::Duration::try_from_secs_f64(number * factor).map_err(|_| bad())
}

/// Runs the command line.
pub(crate) fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => match elsewhere::answer(&error) {
            Some(failure) => return failure.end(),
            None => error.exit(),
        },
    };
    match execute(cli) {
        Ok(code) => code,
        Err(failure) => failure.end(),
    }
}

fn execute(cli: Cli) -> Result<ExitCode, Failure> {
    let cell = Target { cell: cli.cell.as_deref(), consistent: cli.consistent };
    match cli.command {
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
        Command::Bench(what) => what.measure()?,
        Command::Master(command) => master::master(cell, command)?,
        Command::Scheduler(args) => roles::scheduler(args)?,
        Command::Borglet(args) => roles::borglet(args)?,
        Command::ExampleServer(args) => {
            if args.leader {
                println!("leads");
            }
            let ExampleServerArgs { port, quiet, unhealthy_after, .. } = args;
            example::serve(&example::Server { port, quiet, unhealthy_after })?;
        }
        Command::ExampleBatch(args) => example::batch(args.samples, args.seed),
        Command::Completion { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "bourg", &mut script);
            output::print_bytes(&script)?;
        }
        Command::Quota(command) => quota::quota(cell, &command)?,
        Command::Capability(command) => capability::capability(cell, &command)?,
        Command::Events(args) => events::events(cell, &args)?,
        Command::AnswerFromThePast { directory } => past::answer(&directory)?,
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
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::failed(format!("error: {error}")))?;
    runtime.block_on(async { work(Connection::open(cell)?).await })
}

/// An address as a request has it; the owner that is left out is filled in by the master.
fn job_address(address: &Address) -> v1::JobAddress {
    v1::JobAddress {
        user: address.user.as_ref().map(ToString::to_string).unwrap_or_default(),
        job: address.job.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn times_are_read_with_their_units() {
        for (text, ms) in [("90", 90_000), ("1.5m", 90_000), ("500ms", 500), ("2h", 7_200_000)] {
            assert_eq!(duration(text).map(|time| time.as_millis()), Ok(ms), "{text}");
        }
        for bad in ["", "x", "-1s", "1 fortnight", "1e99d", "."] {
            assert!(duration(bad).is_err(), "{bad}");
        }
    }
}
