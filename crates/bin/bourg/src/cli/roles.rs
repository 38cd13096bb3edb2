//! Starting the processes of a cell.

use std::net::TcpListener;
use std::os::fd::{BorrowedFd, RawFd};

use anyhow::Context;
use model::Level;
use store::Retention;
use tracing_subscriber::EnvFilter;

use super::exit::{Code, Done, Failure};
use super::{BorgletArgs, ListenArgs, MasterArgs, ReplicaArgs, SchedulerArgs};
use crate::{borglet, master, scheduler};

/// The variable that names the process with which this one is to end: the supervisor of a dev
/// cell.
pub(crate) const PARENT_VARIABLE: &str = "BOURG_PARENT";
/// The variable that says how much a process logs.
pub(crate) const LOG_VARIABLE: &str = "BOURG_LOG";

/// Logs go to stderr: a line each, with its time and level.
fn log_to_stderr() {
    let filter = EnvFilter::try_from_env(LOG_VARIABLE).unwrap_or_else(|_| EnvFilter::new("info"));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(false)
        .with_target(false)
        // A line that finds no room on a full disk is lost; to say so there would end the process.
        .log_internal_errors(false)
        .init();
}

/// What every process of a cell does first: it logs, and ends with its supervisor, if it has one.
fn begin() -> anyhow::Result<()> {
    log_to_stderr();
    let Ok(parent) = std::env::var(PARENT_VARIABLE) else { return Ok(()) };
    nix::sys::prctl::set_pdeathsig(nix::sys::signal::Signal::SIGTERM)?;
    let alive = nix::unistd::getppid().to_string() == parent;
    anyhow::ensure!(alive, "process {parent}, with which this one was to end, is gone");
    Ok(())
}

fn listener(args: &ListenArgs) -> anyhow::Result<TcpListener> {
    let listener = match args.listen_fd {
        Some(descriptor) => given(descriptor)?,
        None => TcpListener::bind(args.listen)
            .with_context(|| format!("cannot listen on {}", args.listen))?,
    };
    tracing::info!("listens on {}", listener.local_addr()?);
    Ok(listener)
}

/// A listening socket that this process was started with. Its own descriptor is left open: it is
/// ours for our whole life.
#[expect(unsafe_code, reason = "a descriptor that was given by number")]
fn given(descriptor: RawFd) -> anyhow::Result<TcpListener> {
    let open = nix::fcntl::fcntl(
        // SAFETY: the descriptor is only looked at; the kernel refuses one that is not open.
        unsafe { BorrowedFd::borrow_raw(descriptor) },
        nix::fcntl::FcntlArg::F_GETFD,
    );
    open.with_context(|| format!("descriptor {descriptor} was not given to this process"))?;
    // SAFETY: it is open, as has just been seen, and nothing closes it.
    let descriptor = unsafe { BorrowedFd::borrow_raw(descriptor) };
    Ok(TcpListener::from(descriptor.try_clone_to_owned()?))
}

pub(super) fn master(replica: ReplicaArgs, args: MasterArgs) -> Done {
    let ran = run_master(replica, args);
    ran.map_err(|error| match error.downcast_ref::<master::Dismissed>() {
        Some(dismissed) => Failure::new(Code::Dismissed, format!("error: {dismissed}")),
        None => error.into(),
    })
}

fn run_master(replica: ReplicaArgs, args: MasterArgs) -> anyhow::Result<()> {
    begin()?;
    let listener = listener(&args.listen)?;
    let options = master::Options {
        directory: replica.dir,
        existing: replica.existing,
        founds: replica
            .name
            .zip(replica.administrator)
            .map(|(cell, administrator)| master::Founds { cell, administrator }),
        join: replica.join,
        address: args.address.map_or_else(|| reached_at(&listener), Ok)?,
        level: Level(args.level),
        settings: args.silence.settings(),
        history: Retention::new(args.history_bytes.0, args.history_age),
        events: Retention::new(args.events_bytes.0, args.events_age),
        validity: args.certificate_validity,
    };
    master::run(&options, listener)
}

/// Where others reach who listens there: by this machine's name, where it listens everywhere.
fn reached_at(listener: &TcpListener) -> anyhow::Result<String> {
    let address = listener.local_addr()?;
    if !address.ip().is_unspecified() {
        return Ok(address.to_string());
    }
    let host = nix::unistd::gethostname()?;
    Ok(format!("{}:{}", host.to_string_lossy(), address.port()))
}

pub(super) fn scheduler(args: SchedulerArgs) -> anyhow::Result<()> {
    begin()?;
    scheduler::run(&scheduler::Options {
        credentials: args.credentials,
        stem: "scheduler".to_owned(),
        masters: args.master,
    })
}

pub(super) fn borglet(args: BorgletArgs) -> anyhow::Result<()> {
    begin()?;
    let listener = listener(&args.listen)?;
    let options = borglet::Options {
        credentials: args.credentials.unwrap_or_else(|| args.dir.clone()),
        directory: args.dir,
        stem: "borglet".to_owned(),
        join: args.join,
        address: args.address.map_or_else(|| reached_at(&listener), Ok)?,
        masters: args.master,
        ports: args.ports,
        disk_rate: args.disk_rate,
        stop_tasks: args.stop_tasks,
    };
    borglet::run(&options, listener)
}
