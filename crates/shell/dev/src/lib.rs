//! `bourg dev`: a whole cell on this machine, of processes that this one starts, restarts and stops.
//! Benchmarks use it, too.
//!
//! Not here: how a file with jobs is evaluated and submitted, which the commands of a client do (`cli`).

mod addresses;
mod cell;
mod machines;
mod names;
mod ports;
mod quota;
mod replicas;
mod reserved;
mod supervise;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use client::Connection;
use command::{Code, Done, Failure, output, runtime};
use linux::Isolation;
use masterd::{ReclaimArgs, SilenceArgs, UsageHistoryArgs};
use model::{CellName, JobName};
use process::arguments::{duration, validity};
use process::shutdown;

use cell::Member;
pub use cell::{Client, DevCell, Options};
pub use quota::grant_the_machine;

/// The flags of `bourg dev` that say what cell to run.
#[derive(Debug, Args)]
pub struct DevArgs {
    /// Keep the cell's state in this directory. Default: a temporary directory, removed at the end.
    #[arg(long)]
    dir: Option<PathBuf>,
    /// The cell's name.
    #[arg(long, default_value = "dev")]
    name: CellName,
    /// The number of replicas of the master: 1, 3 or 5. An existing cell keeps at least its number.
    #[arg(long, default_value = "1", value_parser = ["1", "3", "5"])]
    replicas: String,
    /// The number of machines, 1 to 16: that many Borglets, which share this host evenly. Default:
    /// as many as the cell has, and one for a new cell.
    #[arg(long, value_name = "NUMBER", value_parser = machines::machines)]
    machines: Option<u8>,
    /// The log level of the cell's processes on stderr: error, warn, info, debug.
    #[arg(long, default_value = "warn")]
    log: String,
    /// How long to wait for the jobs, such as 60s.
    #[arg(long, default_value = "60s", value_parser = duration)]
    timeout: Duration,
    /// The validity of the certificates that the master issues.
    #[arg(long, default_value = "30d", value_name = "TIME", value_parser = validity)]
    certificate_validity: Duration,
    /// A command to run against the cell; the cell stops when the command ends.
    #[arg(last = true)]
    command: Vec<String>,
    // Last, since its help heading applies to the arguments that follow.
    #[command(flatten)]
    silence: SilenceArgs,
    #[command(flatten)]
    reclaim: ReclaimArgs,
    #[command(flatten)]
    usage_history: UsageHistoryArgs,
}

/// Jobs to run in the cell, and how a client submits them and waits until they are healthy.
#[derive(Debug)]
pub struct Jobs<S> {
    /// The name of the first.
    pub first: Option<JobName>,
    /// Submits them and waits, for each at most so long.
    pub submit: S,
}

/// Runs a cell with the given jobs, and optionally a command against it.
///
/// # Errors
/// If the cell cannot be started or kept running, or the jobs fail and there is a command.
pub fn dev<S>(args: &DevArgs, jobs: Option<Jobs<S>>) -> Result<ExitCode, Failure>
where
    S: AsyncFnOnce(&mut Connection, Duration) -> Done,
{
    let isolation = linux::machine::preflight()
        .map_err(|missing| Failure::new(Code::Failed, format!("error: {missing}")))?;
    process::block_on(&runtime()?, async {
        let validity = format!("{}ms", args.certificate_validity.as_millis());
        let validity = ("certificate-validity", validity);
        let options = Options {
            directory: args.dir.clone(),
            name: args.name.clone(),
            replicas: args.replicas.parse().unwrap_or(1),
            machines: args.machines,
            log: args.log.clone(),
            master: [
                args.silence.flags(),
                args.reclaim.flags(),
                args.usage_history.flags(),
                vec![validity],
            ]
            .concat(),
        };
        let mut cell = DevCell::prepare(options)?;
        if let Some(known) = cell.known_as().filter(|known| *known != args.name.as_str()) {
            let name = &args.name;
            eprintln!(
                "another cell is registered here as {name}: use bourg --cell {known} for this one"
            );
        }
        let mut stop = std::pin::pin!(shutdown::requested());
        let ended = {
            let (client, mut processes) = cell.start()?;
            let work = work(args, jobs, client, isolation);
            tokio::select! {
                ended = work => ended,
                failed = processes.supervise() => Err(failed),
                () = &mut stop => Ok(ExitCode::SUCCESS),
            }
        };
        cell.stop().await?;
        ended
    })
}

async fn work<S>(
    args: &DevArgs,
    jobs: Option<Jobs<S>>,
    mut client: Client,
    isolation: Isolation,
) -> Result<ExitCode, Failure>
where
    S: AsyncFnOnce(&mut Connection, Duration) -> Done,
{
    let status = client.wait_until_ready().await?;
    let capacity = present::amount::cpu_and_ram(status.capacity.as_ref());
    let isolation = match isolation {
        Isolation::Jail => "",
        Isolation::Rootless => ", isolation=rootless: no limits",
    };
    let (masters, machines) = (client.masters(), client.machines());
    let machines_in_words = match machines.len() {
        1 => "1 machine".to_owned(),
        several => format!("{several} machines"),
    };
    let dns = client.dns.map(|dns| format!("   DNS {dns}")).unwrap_or_default();
    let sigma = client.sigma.map(|at| format!("   Sigma https://{at}")).unwrap_or_default();
    eprintln!(
        "cell {}   {masters}, 1 scheduler, {machines_in_words} ({capacity}{isolation}){sigma}{dns}",
        status.name
    );
    for Member { name, share, pid_file, .. } in machines {
        if let Some(share) = share {
            let pid = std::fs::read_to_string(pid_file).unwrap_or_default();
            eprintln!("machine {name}   {}, {}, pid {}", share.cpu, share.ram, pid.trim());
        }
    }
    grant_the_machine(&mut client.connection, &status).await?;
    if let Some(Jobs { first, submit }) = jobs {
        let submitted = submit(&mut client.connection, args.timeout).await;
        if let (Err(failure), true) = (&submitted, args.command.is_empty()) {
            // Keep the cell running so that the user can inspect it.
            output::say(&format!("{failure}\n"));
        } else {
            submitted?;
        }
        if let (Some(name), true) = (first, args.command.is_empty()) {
            eprintln!(
                "next: bourg logs -f {name} · bourg status {name} · bourg why {name} · bourg kill {name}"
            );
        }
    }
    if args.command.is_empty() {
        eprintln!("Ctrl-C stops the cell and its tasks");
        return std::future::pending().await;
    }
    command(&args.command, &client).await
}

/// Runs a command that finds the cell through its environment; returns its exit code.
async fn command(command: &[String], client: &Client) -> Result<ExitCode, Failure> {
    let (program, arguments) = command.split_first().ok_or_else(|| Failure::usage("no command"))?;
    let status = tokio::process::Command::new(program)
        .args(arguments)
        .env("BOURG_CELL", &client.directory)
        .env("PATH", path_with_bourg())
        .status()
        .await
        .map_err(|error| {
            Failure::usage(format!("error: cannot run {}: {error}", program.escape_debug()))
        })?;
    let code = status.code().unwrap_or_else(|| {
        128 + std::os::unix::process::ExitStatusExt::signal(&status).unwrap_or(0)
    });
    Ok(ExitCode::from(u8::try_from(code).unwrap_or(1)))
}

/// PATH with this program's directory in front, so that the command finds `bourg`.
fn path_with_bourg() -> std::ffi::OsString {
    let own = std::env::current_exe().ok();
    let own = own.as_deref().and_then(std::path::Path::parent).map(PathBuf::from);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let all = own.into_iter().chain(std::env::split_paths(&path));
    std::env::join_paths(all).unwrap_or(path)
}
