//! The command line: parses commands, calls the cell and shows the answers.
//!
//! Not here: the processes of a cell and the benchmarks, which are other commands of the program,
//! and how to find and call a cell (crate `client`).

mod bns;
mod capability;
mod cell;
mod cells;
mod certify;
mod change;
mod copy;
pub mod evaluate;
mod events;
pub mod example;
mod exec;
mod forget;
mod forward;
mod imports;
mod interrupt;
mod kill;
mod last_lines;
mod limits;
mod lock;
mod log_settings;
mod logs;
mod machine;
pub mod master;
mod metrics;
mod moment;
mod notice_max;
mod package;
mod packing;
mod plan;
mod prune;
mod queue;
mod queue_settings;
mod quota;
mod reclaim;
mod registry_image;
mod restart;
mod results;
mod run;
mod said;
mod saver;
mod secret;
mod selection;
mod service;
mod shapes;
mod show;
mod sigma;
mod sources;
mod start_latency;
mod time_left;
mod token;
mod top;
mod update;
mod usage;
mod user;
mod wait;
mod why;

#[cfg(test)]
mod parsed;

use std::io::IsTerminal as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use api::v1;
use clap::{Args, Subcommand};
use client::Target;
use command::output::{self, Format};
use command::{Done, Failure};
use model::{Address, LabelQuery, MachineName};
use process::arguments::duration;

pub use self::imports::ImportArgs;
use self::moment::{Moment, Since};
pub use self::run::submit_and_wait;

/// The commands.
#[derive(Debug, Subcommand)]
#[expect(private_interfaces, reason = "a command is only executed from outside")]
pub enum Command {
    /// Submit the jobs of files, or a command as a job, and wait until they are healthy.
    ///
    /// With a command after `--` it is the job: `bourg run --cpu 1 --ram 1GiB -- ./program`. A script, which
    /// begins with `#!`, is a job, too; lines such as `#BOURG cpu=1 ram=1GiB` at its begin say what each task
    /// needs, with the names of the flags, and flags come before them. --print shows the BCL file that is
    /// equal to it.
    ///
    /// A task with a health check is healthy while the check passes. Without one, a task of a
    /// service is healthy after running for a second, and one of a batch job as soon as it runs; the command waits
    /// until it has run for 2 s. A task with a readiness check is healthy only while that passes, too.
    /// Each failure of a task is shown with its reason; after the third the command gives up, and the job stays.
    /// The command therefore waits for a batch job to run, not to end, and exit status 0 does not
    /// mean that it succeeded: `bourg status JOB` and `bourg logs -f JOB` show how it ended.
    ///
    /// With --wait, the command waits until all jobs have ended. The exit status is 0 if every task
    /// finished, and otherwise that of the first failed task of the first failed job: its exit
    /// code, 128 plus the signal that killed it (137 if it ran out of memory), 127 if its program
    /// could not be started, and 1 for any other end. The exit code of a task may equal a code in
    /// the table of `bourg --help`: the message tells which it is.
    Run(Box<RunArgs>),
    /// Print the jobs of a file as canonical JSON.
    Eval(EvalArgs),
    /// Wait until jobs run, are healthy, have finished or are dead.
    ///
    /// The exit status is 0 as soon as all of them are. If one of them no longer can be, it is that of
    /// bourg run: 1, or with --for finished that of the first failed task. It is 4 if tasks are not placed
    /// within --timeout, and 1 if they are otherwise not so far.
    Wait(wait::WaitArgs),
    /// Show jobs and their tasks.
    Status(StatusArgs),
    /// Show why tasks are pending, and what change would let them start.
    Why(WhyArgs),
    /// Show which tasks would start at once: for each priority band, how many of a few sizes, and the largest.
    ///
    /// They are counted without any eviction and as if nothing else were placed, so a number is of tasks of one size
    /// alone.
    Shapes(shapes::ShapesArgs),
    /// Show the batch queue: who is next, what jobs wait for, and when they are expected to start.
    ///
    /// Best-effort batch jobs wait in the queue until it is their user's turn and there is room: the user with the
    /// smallest share is next. Below it are the other jobs with pending tasks, by priority. A start is expected as far
    /// as runtimes are known: BY names the least certain of them.
    Queue(queue::QueueListArgs),
    /// Show the output of tasks.
    Logs(LogsArgs),
    /// Show what the tasks of a job use: CPU, memory and disk, now and lately. Without a job: the cell.
    ///
    /// A dash stands for what was not measured. CPU is in the cell's normalized cores. The curve has
    /// a character for each window of 5 minutes, with a gap where nothing was measured.
    ///
    /// Of the cell, it shows what the tasks of each priority band may use, what is reclaimed of that
    /// (limits without reservations), and what they use, and then the same for the cell over time,
    /// with the evictions.
    Usage(usage::UsageArgs),
    /// Show what the cell, its machines, jobs and tasks use, live at a terminal.
    ///
    /// The keys are those of top and less: arrows or j and k move, Enter goes down and Esc up, /
    /// filters, s sorts by the next column, l shows logs, d describes, ? lists all keys, q quits.
    Top(top::TopArgs),
    /// Open the web UI: the whole cell, and why, in a browser.
    ///
    /// Replicas of the master serve it with `--sigma`, and `bourg sigma open` signs a browser in there. Without
    /// a command, this process serves it on this computer, over any replica, as you and for you alone.
    Sigma(sigma::SigmaArgs),
    /// Run a command inside a task, as its user and within its limits.
    ///
    /// The exit status is that of the command, 128 plus the signal that killed it, or 127 if it could
    /// not be run. It may equal a code in the table of `bourg --help`: then a line that begins with
    /// `error:` tells that the code is not the command's.
    ///
    /// Without -t, Ctrl-C and SIGTERM are forwarded to the command; the third one ends the session.
    /// When the command ends or the connection is lost, everything that the command started is
    /// killed. Both ends are recorded as events of the task.
    Exec(exec::ExecArgs),
    /// Copy files and directories into a task or out of it.
    ///
    /// Directories are copied with everything in them. Modes and times are kept, owners are not. Links
    /// are copied if they lead to something that is copied with them; what is neither a file nor a
    /// directory is left out; the command says so and exits with 1.
    ///
    /// Paths in a task begin at its working directory. Its end of the copy runs as its user and within its
    /// limits, and is recorded, as of bourg exec. A file appears when it is complete.
    ///
    /// Of an ended task, its outputs can be copied, which its job names: `outputs: ['result.txt', 'out']`. Paths
    /// begin at its home directory then.
    Cp(copy::CopyArgs),
    /// Fetch the outputs of the ended tasks of a job: what their machines keep of their files.
    ///
    /// The job names them: `outputs: ['result.txt', 'out']`. Those of task 3 are written to DIR/3. Several tasks
    /// are fetched from at once. The command tells which tasks have left nothing, and which have not ended and what they
    /// do. It exits with 1 if a task has not ended or its outputs are not complete; run again, it goes on where it was.
    Results(results::ResultsArgs),
    /// Forward connections to ports of this computer to ports of a task.
    ///
    /// The connections come out inside the task, as of a command in it: also from its loopback device and in a network
    /// of its own. Who may, and the limits, are those of bourg exec, and both ends of the session are events of the
    /// task. When the task starts again, the command connects again; open connections are closed meanwhile, and
    /// new ones wait. It runs until Ctrl-C or SIGTERM, or until the task has ended for good.
    PortForward(forward::ForwardArgs),
    /// Find tasks by name: where they are, on which ports, and whether they are healthy.
    #[command(subcommand)]
    Bns(bns::Command),
    /// Manage packages: versions of sets of files that tasks use.
    #[command(subcommand)]
    Package(package::Command),
    /// Manage secrets: what your tasks need and nobody else may see.
    #[command(subcommand)]
    Secret(secret::Command),
    /// Manage services: one name in BNS and DNS for the tasks of several jobs.
    #[command(subcommand)]
    Service(service::Command),
    /// Forward TCP connections to the tasks behind a service.
    ///
    /// A new connection goes to a task that serves: of two random ones to the one with fewer open
    /// connections. If it does not accept the connection, up to three others are tried. A task that stops
    /// or is unhealthy or not ready gets no new connections, and its open ones go on. While no master answers, the
    /// last known tasks are used.
    ///
    /// On SIGTERM or Ctrl-C it stops listening, waits for open connections, at most as long as --drain
    /// says, and exits with 0.
    Proxy(proxyd::ProxyArgs),
    /// Print the page with metrics that a task serves itself.
    ///
    /// The job names it: `metrics: { port: 'http', path: '/metrics' }`. A page may have at most 8 MiB
    /// and take 10 s. For Prometheus every master lists all of them at /sd/tasks.
    Metrics(metrics::MetricsArgs),
    /// Show what submitting or updating the jobs of a file would do, without doing it.
    ///
    /// For each change of a running job: whether its tasks go on, restart on the same machine or
    /// may move; how many tasks are disrupted; whether it fits now and within quota; and which
    /// tasks of others would be evicted.
    Plan(plan::PlanArgs),
    /// Update the jobs of a file to their new descriptions, or control the update of a job.
    ///
    /// Tasks are changed batch by batch, within the disruption budget of the job, and each must be
    /// healthy before the next batch. If a task does not become healthy, the update undoes itself,
    /// and the exit code is 5. A successful update can be undone until it is closed.
    Update(Box<update::UpdateArgs>),
    /// Change the number of tasks of a job or of allocs of an alloc set.
    Resize(update::ResizeArgs),
    /// Show the versions of a job's description that are kept: who, when, how each ended, what it changed.
    Versions(update::VersionsArgs),
    /// Restart tasks, and start those that have ended.
    ///
    /// What runs is restarted batch by batch, within the disruption budget of the job, and each batch
    /// has to become healthy before the next. What has ended starts again: tasks that finished, failed
    /// or were killed. With --failed, only tasks that failed for good start again, and nothing else is
    /// touched.
    Restart(restart::RestartArgs),
    /// Run an autoscaler: set the limits of jobs by what their tasks use.
    ///
    /// It changes only jobs whose description has `autoscale`, within the bounds given there; the cell rejects
    /// everything else. It runs until SIGTERM or Ctrl-C, prints each change with its reason, and a cell
    /// may have several: one acts, and the others wait for its lock.
    Autoscaler(autoscalerd::AutoscalerArgs),
    /// Run a repacker: move running tasks, so that pending ones fit.
    ///
    /// It moves tasks within their disruption budgets, only if that is worth more than it costs, and none twice within
    /// an hour. It needs the capability move-tasks, runs until SIGTERM or Ctrl-C, prints each move with its
    /// reason, and a cell may have several: one acts, and the others wait for its lock. With --plan it prints
    /// what it would move, and moves nothing.
    Repacker(repackerd::RepackerArgs),
    /// Kill jobs, or some of their tasks.
    Kill(KillArgs),
    /// Forget jobs that have ended, before the cell does so by itself.
    ///
    /// Every job of that name that has ended is forgotten, with its tasks, and its name no longer leads
    /// to its logs. A live job of that name stays. For the owner of the job, and administrators.
    Forget(forget::ForgetArgs),
    /// Drain machines for maintenance: the same as bourg machine drain.
    Drain(machine::DrainArgs),
    /// Make drained machines available again: the same as bourg machine undrain.
    Undrain(machine::Which),
    /// List the machines of the cell.
    Machines(ListArgs),
    /// Show a machine, and administer machines.
    #[command(subcommand)]
    Machine(machine::Command),
    /// Show the status of the cell, and control its circuit breaker.
    Cell(cell::CellArgs),
    /// List the cells that are registered by name on this machine, and whether they answer.
    Cells(cells::CellsArgs),
    /// Manage users and their certificates.
    #[command(subcommand)]
    User(user::Command),
    /// Manage quota: how much each user may run in each band.
    #[command(subcommand)]
    Quota(quota::Command),
    /// Manage capabilities: the named privileges of users.
    #[command(subcommand)]
    Capability(capability::Command),
    /// Show who holds how much of what users share.
    ///
    /// Administrators see the users who hold most, others what they hold themselves. The limits of calls
    /// are those of the replica that answers.
    Limits(limits::LimitsArgs),
    /// List and end savers: what runs after the end of tasks, and the data that machines keep for it.
    #[command(subcommand)]
    Saver(saver::Command),
    /// Hold locks, and read and write small files, of the cell's lock service.
    #[command(subcommand)]
    Lock(lock::Command),
    /// Show events, with their actors and reasons.
    Events(EventsArgs),
    /// The end of `bourg cp` in a task that sends: writes an archive to the standard output.
    #[command(name = copy::PACK, hide = true)]
    Pack {
        /// A file or directory.
        source: PathBuf,
    },
    /// The end of `bourg cp` in a task that receives: reads an archive from the standard input.
    #[command(name = copy::UNPACK, hide = true)]
    Unpack {
        /// A directory, or a new name.
        destination: PathBuf,
    },
    /// The end of `bourg port-forward` in a task: connects to the task's ports.
    #[command(name = forward::TASK_END, hide = true)]
    ForwardConnections(forward::task_end::TaskEndArgs),
    /// Ends the command of `bourg lock with` if its client ends first.
    #[command(name = lock::guard::COMMAND, hide = true)]
    EndCommandWithClient,
    /// Evaluates a file in this process, under resource limits.
    #[command(name = evaluate::COMMAND, hide = true)]
    EvaluateHere {
        /// The file.
        file: PathBuf,
        /// Its content is the standard input.
        #[arg(long)]
        stdin: bool,
        /// What it may import.
        #[command(flatten)]
        imports: ImportArgs,
    },
}

#[derive(Debug, Args)]
struct RunArgs {
    /// BCL or JSON files, or one script; - is the standard input, and a folder stands for all *.bcl in it.
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,
    #[command(flatten)]
    imports: ImportArgs,
    #[command(flatten)]
    line: sources::line::JobLine,
    /// Of a command or a script: print the BCL file that is equal to it, and submit nothing.
    #[arg(long, conflicts_with_all = ["detach", "wait", "timeout", "plan", "prune"])]
    print: bool,
    #[command(flatten)]
    prune: prune::PruneArgs,
    /// Only show what it would do: the same as bourg plan.
    #[arg(long, conflicts_with_all = ["detach", "wait", "timeout"])]
    plan: bool,
    /// Return as soon as the jobs are admitted.
    #[arg(long)]
    detach: bool,
    /// Wait until the jobs have ended, and exit with the status of the first failed task, if any.
    #[arg(long, conflicts_with = "detach")]
    wait: bool,
    /// How long to wait until all tasks are placed and healthy, or have ended with --wait. Default:
    /// 5m; unlimited with --wait.
    #[arg(long, value_parser = duration)]
    timeout: Option<Duration>,
    /// Wait on when tasks have failed three times. Default: stop waiting then, with the task's last output;
    /// the job stays. With --wait it is always waited for the end.
    #[arg(long, conflicts_with = "detach")]
    keep_waiting: bool,
}

#[derive(Debug, Args)]
struct EvalArgs {
    /// BCL or JSON files; - is the standard input, and a folder stands for all *.bcl in it.
    #[arg(value_name = "FILE", required_unless_present = "print_library")]
    files: Vec<PathBuf>,
    /// Print the built-in library instead.
    #[arg(long)]
    print_library: bool,
    #[command(flatten)]
    imports: ImportArgs,
}

#[derive(Debug, Args)]
struct StatusArgs {
    /// Jobs, as user/job or job. Default: all that are not dead.
    jobs: Vec<Address>,
    /// Include dead jobs.
    #[arg(long, short)]
    all: bool,
    #[command(flatten)]
    list: ListArgs,
}

#[derive(Debug, Args)]
struct WhyArgs {
    /// A job, or some of its tasks: user/job, job, user/job/7, user/job/0-4.
    /// Default: your jobs that have pending tasks, each with its first reason.
    job: Option<Address>,
    /// Live jobs and tasks of every user that match these labels, such as team=search,!spare.
    #[arg(long, short = 'l', value_name = "LABELS", conflicts_with = "job")]
    labels: Option<LabelQuery>,
    /// Also show the machines with the best scores for the first task, term by term: at most this
    /// many.
    #[arg(
        long, value_name = "MACHINES", num_args = 0..=1, default_value = "0",
        default_missing_value = "5", value_parser = clap::value_parser!(u32).range(0..=100)
    )]
    scores: u32,
    /// Show how the reasons changed over time, from at most this many moments of the past.
    #[arg(
        long, value_name = "MOMENTS", num_args = 0..=1, default_missing_value = "12", requires = "job",
        conflicts_with_all = ["at", "scores", "labels"], value_parser = clap::value_parser!(u32).range(1..=50)
    )]
    history: Option<u32>,
    #[arg(short, long, default_value = "table")]
    /// Output format: table, json, yaml, or the path of a field.
    output: Format,
    /// Show the state at this moment: an index (88412), a time (2026-11-19 03:10, UTC) or an age
    /// (10m).
    #[arg(long, value_name = "MOMENT")]
    at: Option<Moment>,
}

#[derive(Debug, Args)]
struct LogsArgs {
    /// A job, or some of its tasks: user/job, job, user/job/7, user/job/0-4.
    #[arg(required_unless_present = "labels")]
    job: Option<Address>,
    /// Your jobs and tasks that match these labels, such as team=search,!spare.
    #[arg(long, short = 'l', value_name = "LABELS", conflicts_with = "job")]
    labels: Option<LabelQuery>,
    /// Follow the output until the tasks have ended.
    #[arg(long, short)]
    follow: bool,
    /// Show only output from this time on: an age, such as 1m, or a time, such as
    /// 2026-11-19 03:10, in UTC.
    #[arg(long)]
    since: Option<Since>,
    /// Show only output from before this time: an age or a time.
    #[arg(long, conflicts_with = "follow")]
    until: Option<Since>,
    /// Show only lines that match this regular expression; the machines search.
    #[arg(long, value_name = "REGEX")]
    grep: Option<String>,
    /// Show the incarnation before the newest one of each task.
    #[arg(long, conflicts_with = "follow")]
    previous: bool,
    /// Show only the last lines of each stream; with --since, of what is newer.
    #[arg(long, short = 'n')]
    tail: Option<u32>,
    /// Show the output of tasks with this version of the job's description, if they have it now or
    /// had it last. Default: the newest.
    #[arg(long, value_name = "NUMBER")]
    version: Option<u32>,
    /// Show only this stream: stdout or stderr.
    #[arg(long, value_parser = ["stdout", "stderr"])]
    stream: Option<String>,
    /// Output format: table, wide (with times), json (one object per line), or the name of a field
    /// of it.
    #[arg(short, long, default_value = "table")]
    output: Format,
}

#[derive(Debug, Args)]
struct KillArgs {
    /// Kill without notice: SIGKILL at once, also for tasks that are being stopped already.
    #[arg(long)]
    now: bool,
    /// Jobs, or some of their tasks: user/job, job, user/job/7, user/job/0-4.
    #[arg(required_unless_present = "labels")]
    jobs: Vec<Address>,
    /// Your jobs and tasks that match these labels, such as team=search,!spare.
    #[arg(long, short = 'l', value_name = "LABELS", conflicts_with = "jobs")]
    labels: Option<LabelQuery>,
    /// Do not wait until the tasks have ended.
    #[arg(long)]
    detach: bool,
    /// How long to wait until the tasks have ended.
    #[arg(long, default_value = "60s", value_parser = duration)]
    timeout: Duration,
}

#[derive(Debug, Args)]
struct ListArgs {
    /// Output format: table, wide, json, yaml, name, or the path of a field.
    #[arg(short, long, default_value = "table")]
    output: Format,
    /// Refresh the output whenever it changes.
    #[arg(long, short)]
    watch: bool,
    /// Show only what matches these labels, such as team=search,tier!=canary,gpu,!spare.
    #[arg(long, short = 'l', value_name = "LABELS")]
    labels: Option<LabelQuery>,
    /// Show the state at this moment: an index (88412), a time (2026-11-19 03:10, UTC) or an age
    /// (10m).
    #[arg(long, value_name = "MOMENT", conflicts_with = "watch")]
    at: Option<Moment>,
}

impl ListArgs {
    /// The labels as in a request.
    fn labels(&self) -> String {
        self.labels.as_ref().map(ToString::to_string).unwrap_or_default()
    }

    /// The moment as in a request.
    fn at(&self) -> Option<v1::Moment> {
        self.at.map(Moment::message)
    }
}

#[derive(Debug, Args)]
struct EventsArgs {
    /// A job, or some of its tasks: user/job, job, user/job/7. Default: everything.
    address: Option<Address>,
    /// Show only events of this machine and of tasks on it.
    #[arg(long)]
    machine: Option<MachineName>,
    /// Show only events of jobs, tasks or machines that match these labels.
    #[arg(long, short = 'l', value_name = "LABELS")]
    labels: Option<LabelQuery>,
    /// Show at most this many events, the newest ones.
    #[arg(long, short = 'n', default_value_t = 100, conflicts_with_all = ["since", "all", "from"])]
    last: u32,
    /// Show events since this long ago, such as 1h.
    #[arg(long, value_parser = duration, conflicts_with_all = ["all", "from"])]
    since: Option<Duration>,
    /// Show all retained events.
    #[arg(long, conflicts_with = "from")]
    all: bool,
    /// Show events from this one on, as INDEX or INDEX.SUB.
    #[arg(long, value_name = "EVENT")]
    from: Option<events::Cursor>,
    /// Show only events up to this moment: an index, a time or an age.
    #[arg(long, value_name = "MOMENT", conflicts_with = "follow")]
    at: Option<Moment>,
    /// Follow: show each new event as it happens.
    #[arg(long, short)]
    follow: bool,
    /// Output format: table, wide, json (one line each), yaml, name, or the path of a field.
    #[arg(short, long, default_value = "table")]
    output: Format,
}

/// Executes a command.
///
/// # Errors
/// If the command fails.
pub fn execute(cell: Target<'_>, command: Command) -> Result<ExitCode, Failure> {
    if std::io::stdout().is_terminal()
        && let Ok((columns, _)) = ratatui::crossterm::terminal::size()
        && columns > 0
    {
        output::fit_to(columns.into());
    }
    match command {
        Command::Run(args) => run::run(cell, &args)?,
        Command::Eval(args) => eval(&args)?,
        Command::Wait(args) => wait::wait(cell, &args)?,
        Command::Status(args) => show::status(cell, &args)?,
        Command::Why(args) => why::why(cell, &args)?,
        Command::Shapes(args) => shapes::shapes(cell, &args)?,
        Command::Queue(args) => queue::queue(cell, &args)?,
        Command::Logs(args) => logs::logs(cell, &args)?,
        Command::Usage(args) => usage::usage(cell, &args)?,
        Command::Top(args) => return top::top(cell, &args),
        Command::Sigma(args) => sigma::execute(cell, &args)?,
        Command::Exec(args) => return exec::exec(cell, args),
        Command::Cp(args) => return copy::copy(cell, args),
        Command::Results(args) => return results::results(cell, &args),
        Command::Pack { source } => return copy::pack_here(&source),
        Command::Unpack { destination } => copy::unpack_here(&destination)?,
        Command::PortForward(args) => forward::forward(cell, &args)?,
        Command::ForwardConnections(args) => forward::task_end::serve(&args)?,
        Command::Bns(command) => bns::bns(cell, &command)?,
        Command::Package(command) => package::package(cell, &command)?,
        Command::Secret(command) => secret::secret(cell, &command)?,
        Command::Service(command) => service::service(cell, &command)?,
        Command::Proxy(args) => proxyd::start(cell, &args)?,
        Command::Metrics(args) => metrics::metrics(cell, &args)?,
        Command::Autoscaler(args) => autoscalerd::start(cell, &args)?,
        Command::Repacker(args) => repackerd::start(cell, &args)?,
        Command::Kill(args) => kill::kill(cell, &args)?,
        Command::Forget(args) => forget::forget(cell, &args)?,
        Command::Plan(args) => return plan::plan(cell, &args),
        Command::Update(args) => update::update(cell, &args)?,
        Command::Resize(args) => update::resize(cell, &args)?,
        Command::Versions(args) => update::versions(cell, &args)?,
        Command::Restart(args) => restart::restart(cell, &args)?,
        Command::Drain(args) => machine::drain(cell, &args)?,
        Command::Undrain(which) => machine::undrain(cell, &which)?,
        Command::Machines(args) => machine::list(cell, &args)?,
        Command::Machine(command) => machine::machine(cell, &command)?,
        Command::Cell(args) => cell::cell(cell, &args)?,
        Command::Cells(args) => cells::cells(&args)?,
        Command::User(command) => user::user(cell, &command)?,
        Command::Quota(command) => quota::quota(cell, &command)?,
        Command::Capability(command) => capability::capability(cell, &command)?,
        Command::Limits(args) => limits::limits(cell, &args)?,
        Command::Saver(command) => saver::saver(cell, &command)?,
        Command::Lock(command) => return lock::lock(cell, command),
        Command::Events(args) => events::events(cell, &args)?,
        Command::EndCommandWithClient => lock::guard::run(),
        Command::EvaluateHere { file, stdin, imports } => {
            evaluate::in_this_process(&file, stdin, imports)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn eval(args: &EvalArgs) -> Done {
    match args.files.as_slice() {
        files @ [_, ..] if !args.print_library => {
            let no_line = sources::line::JobLine::default();
            let jobs = sources::evaluate_any(files, &args.imports, &no_line)?.into_jobs()?;
            output::print(&format!("{}\n", api::json::jobs_to_json(&jobs).trim_end()))
        }
        _ => output::print(bcl::LIBRARY),
    }
}
