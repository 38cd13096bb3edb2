//! `bourg dev`: runs a whole cell on this machine.

mod addresses;
mod cell;
mod machines;
mod ports;
mod quota;
mod replicas;
mod reserved;
mod supervise;

use std::path::PathBuf;
use std::process::ExitCode;

use command::{Code, Failure, output, runtime};
use linux::Isolation;
use process::shutdown;

use super::run::Wait;
use super::{DevArgs, run};
use crate::evaluate;

use cell::Member;
pub use cell::{Client, DevCell, Options};
pub(super) use machines::machines;
pub use quota::grant_the_machine;

/// Runs a cell with the given jobs, and optionally a command against it.
pub(super) fn dev(args: &DevArgs) -> Result<ExitCode, Failure> {
    let isolation = linux::machine::preflight()
        .map_err(|missing| Failure::new(Code::Failed, format!("error: {missing}")))?;
    // Reject an invalid file before anything is started.
    let evaluate = |file| evaluate::evaluate(file, &args.imports);
    let jobs = args.file.as_deref().map(evaluate).transpose()?;
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

async fn work(
    args: &DevArgs,
    jobs: Option<Vec<spec::JobSpec>>,
    mut client: Client,
    isolation: Isolation,
) -> Result<ExitCode, Failure> {
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
    if let (Some(jobs), Some(file)) = (jobs, &args.file) {
        let connection = &mut client.connection;
        let submitted =
            run::submit_all(connection, &jobs, Some(Wait::Healthy(args.timeout)), file).await;
        if let (Err(failure), true) = (&submitted, args.command.is_empty()) {
            // Keep the cell running so that the user can inspect it.
            output::say(&format!("{failure}\n"));
        } else {
            submitted?;
        }
        if let (Some(job), true) = (jobs.first(), args.command.is_empty()) {
            let name = &job.name;
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
