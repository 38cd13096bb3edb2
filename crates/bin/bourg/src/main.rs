//! Bourg: Borg, the cluster manager, as one program. Every process of a cell and the command line
//! are roles of it; `bourg help` lists them. What each of them does is in a crate of its own: this one
//! only reads the command line and hands over.

#[cfg(test)]
mod docs;
mod elsewhere;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use bench::Benchmark;
use borgletd::BorgletArgs;
use clap::{Args, CommandFactory as _, Parser, Subcommand};
use cli::{Code, Done, Failure};
use client::Target;
use masterd::{Dismissed, MasterArgs, ReplicaArgs};
use schedulerd::SchedulerArgs;

/// The system's allocator spends a third of a log's replay on itself; this one a tenth.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Borg, the cluster manager, as one program: runs services and batch jobs on shared machines.
#[derive(Debug, Parser)]
#[command(name = "bourg", version, after_help = cli::TABLE, max_term_width = 100)]
struct Bourg {
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
    #[command(flatten)]
    Cli(cli::Command),
    /// Measure this program on this machine.
    #[command(subcommand)]
    Bench(Benchmark),
    /// A Borgmaster replica; or those of a cell: listed, added, removed.
    Master(MasterCommand),
    /// A scheduler.
    Scheduler(SchedulerArgs),
    /// The agent on a machine.
    Borglet(BorgletArgs),
    /// Print a completion script for a shell.
    Completion {
        /// Which shell.
        shell: clap_complete::Shell,
    },
    /// Answers one question about the past from a data directory.
    #[command(name = masterd::past::COMMAND, hide = true)]
    AnswerFromThePast { directory: PathBuf },
}

/// A replica, or what is done with those of a cell.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
struct MasterCommand {
    #[command(subcommand)]
    command: Option<cli::master::Command>,
    #[command(flatten)]
    replica: Option<ReplicaArgs>,
    #[command(flatten)]
    process: MasterArgs,
}

fn main() -> ExitCode {
    // A shim lives as long as its task and there is one for each: it starts with nothing of what
    // the rest needs.
    let mut arguments = std::env::args_os().skip(1);
    if let (Some(first), Some(directory), None) =
        (arguments.next(), arguments.next(), arguments.next())
        && first == "shim"
    {
        return linux::shim::run(Path::new(&directory));
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

fn execute(bourg: Bourg) -> Result<ExitCode, Failure> {
    let cell = cli::target(bourg.cell.as_deref(), bourg.consistent);
    match bourg.command {
        Command::Cli(command) => return cli::execute(cell, command),
        Command::Bench(what) => what.measure()?,
        Command::Master(command) => master(cell, command)?,
        Command::Scheduler(args) => schedulerd::start(args)?,
        Command::Borglet(args) => borgletd::start(args)?,
        Command::Completion { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Bourg::command(), "bourg", &mut script);
            cli::output::print_bytes(&script)?;
        }
        Command::AnswerFromThePast { directory } => masterd::past::answer(&directory)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn master(cell: Target<'_>, command: MasterCommand) -> Done {
    match (command.command, command.replica) {
        (Some(command), _) => cli::master::execute(cell, command),
        (None, Some(replica)) => {
            let ran = masterd::start(replica, command.process);
            ran.map_err(|error| match error.downcast_ref::<Dismissed>() {
                Some(dismissed) => Failure::new(Code::Dismissed, format!("error: {dismissed}")),
                None => error.into(),
            })
        }
        (None, None) => Err(Failure::usage("error: it is not said what to do")
            .next("bourg master --help says what there is")),
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
