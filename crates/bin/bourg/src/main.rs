//! Bourg: Borg, the cluster manager, as one program. Every process of a cell and the command line
//! are roles of it; `bourg help` lists them. Each role is implemented in its own crate: this one only
//! parses the command line and dispatches.

#[cfg(test)]
mod docs;
mod elsewhere;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use bench::{Benchmark, Experiment};
use borgletd::BorgletArgs;
use clap::{Args, CommandFactory as _, Parser, Subcommand};
use client::{Connection, Target};
use command::{Code, Done, Failure};
use masterd::{Dismissed, MasterArgs, ReplicaArgs};
use packagesd::PackagesArgs;
use schedulerd::SchedulerArgs;

/// The system's allocator takes a third of the time of a log's replay; this one a tenth.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The exit status of a command whose output has no reader, as if SIGPIPE had ended it.
const BROKEN_PIPE: i32 = 141;

/// Borg, the cluster manager, as one program: runs services and batch jobs on shared machines.
#[derive(Debug, Parser)]
#[command(name = "bourg", version, after_help = command::TABLE, max_term_width = 100)]
struct Bourg {
    /// The cell: a name, or the path of a client directory. Default: the only registered one.
    #[arg(long, global = true, env = "BOURG_CELL", value_name = "CELL")]
    cell: Option<String>,
    /// Use linearizable reads. Without this flag, answers may be stale.
    #[arg(long, global = true)]
    consistent: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run a whole cell on this machine: master, scheduler and Borglet.
    Dev(Box<DevCommand>),
    #[command(flatten)]
    Client(cli::Command),
    #[command(flatten)]
    Offline(offline::Command),
    #[command(flatten)]
    Example(cli::example::Command),
    /// Run a benchmark on this machine.
    #[command(subcommand)]
    Bench(Benchmark),
    /// Repeat an experiment of the Borg paper.
    #[command(subcommand)]
    Lab(Experiment),
    /// Run a Borgmaster replica, or manage those of a cell.
    Master(Box<MasterCommand>),
    /// Run a scheduler.
    Scheduler(SchedulerArgs),
    /// Run a Borglet, the agent on a machine.
    Borglet(BorgletArgs),
    /// Run a store of packages, from which machines fetch what tasks use.
    Packages(PackagesArgs),
    /// Print a completion script for a shell.
    Completion {
        /// The shell.
        shell: clap_complete::Shell,
    },
    /// Answers one question about the past from a data directory.
    #[command(name = masterd::past::COMMAND, hide = true)]
    AnswerFromThePast { directory: PathBuf },
}

/// A file with jobs, and the cell in which they run.
#[derive(Debug, Args)]
struct DevCommand {
    /// A BCL or JSON file with jobs to run in the cell.
    file: Option<PathBuf>,
    #[command(flatten)]
    imports: cli::ImportArgs,
    #[command(flatten)]
    cell: dev::DevArgs,
}

/// The flags of a replica, or a command on the replicas of a cell.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
struct MasterCommand {
    #[command(subcommand)]
    command: Option<ReplicasCommand>,
    #[command(flatten)]
    replica: Option<ReplicaArgs>,
    #[command(flatten)]
    process: MasterArgs,
}

/// A command on the replicas of a cell, or on the directory of one.
#[derive(Debug, Subcommand)]
enum ReplicasCommand {
    #[command(flatten)]
    Client(cli::master::Command),
    /// Continue from a single replica after a permanent loss of the majority.
    ///
    /// Run it on that replica's machine while its master is stopped. Changes that only the lost
    /// replicas had stored are lost.
    Restore(offline::RestoreArgs),
}

fn main() -> ExitCode {
    // There is a long-lived shim for each task, forked from one process: without any of the setup that
    // the other commands need.
    let mut arguments = std::env::args_os().skip(1);
    if let (Some(first), Some(second), None) =
        (arguments.next(), arguments.next(), arguments.next())
    {
        if first == "shims" {
            return linux::shim::serve();
        }
        if first == "shim" {
            return linux::shim::run(Path::new(&second));
        }
    }
    // Only a process with one thread may enter a task.
    let arguments: Vec<String> =
        std::env::args_os().skip(1).map_while(|it| it.into_string().ok()).collect();
    if let [first, directory, word, dashes, argv @ ..] = arguments.as_slice()
        && first == "enter"
        && dashes == "--"
    {
        linux::machine::with_huge_pages();
        return linux::session::run(Path::new(directory), word, argv).unwrap_or(ExitCode::FAILURE);
    }
    let bourg = match Bourg::try_parse() {
        Ok(bourg) => bourg,
        Err(error) => match elsewhere::answer(&error) {
            Some(failure) => return failure.end(),
            None => error.exit(),
        },
    };
    match execute(bourg) {
        Ok(code) => code,
        Err(failure) => failure.end(),
    }
}

/// Ends this process as other programs end when the reader of their output is gone: `bourg run 2>&1 | head`.
/// Processes of a cell go on instead.
fn end_when_nobody_reads() {
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let said = panic.payload_as_str().unwrap_or_default();
        if said.starts_with("failed printing to std") && said.contains("Broken pipe") {
            std::process::exit(BROKEN_PIPE);
        }
        before(panic);
    }));
}

fn execute(bourg: Bourg) -> Result<ExitCode, Failure> {
    if matches!(
        bourg.command,
        Command::Client(_) | Command::Offline(_) | Command::Bench(_) | Command::Lab(_)
    ) {
        end_when_nobody_reads();
    }
    let cell = command::target(bourg.cell.as_deref(), bourg.consistent);
    match bourg.command {
        Command::Dev(command) => return dev(&command),
        Command::Client(command) => return cli::execute(cell, command),
        Command::Offline(command) => offline::execute(cell, &command)?,
        Command::Example(command) => cli::example::execute(&command)?,
        Command::Bench(what) => what.measure()?,
        Command::Lab(what) => what.run()?,
        Command::Master(command) => master(cell, *command)?,
        Command::Scheduler(args) => schedulerd::start(args)?,
        Command::Borglet(args) => borgletd::start(args)?,
        Command::Packages(args) => packagesd::start(args)?,
        Command::Completion { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Bourg::command(), "bourg", &mut script);
            command::output::print_bytes(&script)?;
        }
        Command::AnswerFromThePast { directory } => masterd::past::answer(&directory)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn dev(DevCommand { file, imports, cell }: &DevCommand) -> Result<ExitCode, Failure> {
    // An invalid file is rejected before anything is started.
    let jobs = file.as_deref().map(|file| {
        let evaluated = cli::evaluate::evaluate(file, imports)?;
        let first = evaluated.first().cloned();
        let submit = async |connection: &mut Connection, timeout| {
            let specs = evaluated.publish(connection).await?;
            cli::submit_and_wait(connection, &specs, timeout, file).await
        };
        Ok::<_, Failure>(dev::Jobs { first, submit })
    });
    dev::dev(cell, jobs.transpose()?)
}

fn master(cell: Target<'_>, command: MasterCommand) -> Done {
    match (command.command, command.replica) {
        (Some(ReplicasCommand::Client(command)), _) => cli::master::execute(cell, command),
        (Some(ReplicasCommand::Restore(args)), _) => offline::restore(&args),
        (None, Some(replica)) => {
            let ran = masterd::start(replica, command.process);
            ran.map_err(|error| match error.downcast_ref::<Dismissed>() {
                Some(dismissed) => Failure::new(Code::Dismissed, format!("error: {dismissed}")),
                None => error.into(),
            })
        }
        (None, None) => Err(Failure::usage("error: no command and no flags given")
            .next("bourg master --help lists both")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Bourg::command().debug_assert();
    }
}
