//! The probe task: whether this machine can run tasks at all.
//!
//! It has all that a task has — a directory, a shim, a cgroup, a jail, a log — and its program is this
//! one, which says its version and ends.

use std::os::fd::OwnedFd;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use linux::cgroup::{Limits, Sharing};
use linux::logs::{LogReader, Start, Stream};
use linux::record::{self, BindablePorts, ExitReason, Jail, Rotation};
use linux::task::{Inspection, TaskDirectory};

use super::disk;
use super::readable::readable;
use super::tasks::Files;
use super::uids::Uids;

/// The name of its directory and its cgroup.
const NAME: &str = "probe";
/// The program as every jail has it.
const ARGV: [&str; 2] = ["/run/bourg/bourg", "--version"];
/// How long it may take, also on a machine that is very busy.
const PATIENCE: Duration = Duration::from_secs(30);
const RAM: u64 = 64 << 20;

/// Runs one probe task; the error says why this machine can run no tasks.
pub(crate) async fn run(files: &Files, uids: Uids) -> Result<(), String> {
    let probed = probe(files, uids).await;
    let cleared = {
        let files = files.clone();
        tokio::task::spawn_blocking(move || clear(&files)).await
    };
    if let Err(error) = cleared.map_err(anyhow::Error::from).and_then(|cleared| cleared) {
        tracing::warn!("cannot remove the probe task: {error:#}");
    }
    probed.map_err(|error| format!("{error:#}"))
}

async fn probe(files: &Files, uids: Uids) -> anyhow::Result<()> {
    let of_start = files.clone();
    let shim = tokio::task::spawn_blocking(move || start(&of_start, uids)).await??;
    let ended = tokio::time::timeout(PATIENCE, readable(shim)).await;
    ensure!(ended.is_ok(), "a probe task has not ended within {} s", PATIENCE.as_secs());
    let of_end = files.clone();
    tokio::task::spawn_blocking(move || check(&of_end)).await?
}

fn start(files: &Files, uids: Uids) -> anyhow::Result<OwnedFd> {
    clear(files)?;
    if disk::no_room(files).is_some() {
        bail!("no space is left on the disk of {}", files.directory.display());
    }
    let task = TaskDirectory::create(&files.directory, NAME)?;
    let uid = (uids.first..=uids.last).rev().find(|uid| files.holder(*uid).is_none());
    let uid = uid.with_context(|| format!("no user id of {uids} is free"))?;
    let launch = record::Launch {
        label: NAME.to_owned(),
        argv: ARGV.map(str::to_owned).into(),
        env: Vec::new(),
        isolation: files.isolation,
        uid,
        gid: uid,
        hostname: NAME.to_owned(),
        cgroup: format!("{}/{NAME}", files.cgroup),
        in_alloc: false,
        limits: Limits {
            cpu_milli: 100,
            cpu_hard_cap: false,
            memory_bytes: RAM,
            pids_max: 64,
            sharing: Sharing::default(),
        },
        oom_score_adj: 0,
        log: Rotation { file_bytes_max: 64 << 10, files_max: 1 },
        tmp_bytes_max: 1 << 20,
        scratch_bytes_max: None,
        notice_ms: 0,
        stop_signal: None,
        working_directory: None,
        jail: Jail::host(files.executable().to_owned()),
        network: None,
        capabilities: Vec::new(),
        secret_env: Vec::new(),
        bindable_ports: BindablePorts::Any,
    };
    Ok(task.start(files.shims(), &launch)?.shim)
}

/// Whether it ended as it should, and its log has what it said.
fn check(files: &Files) -> anyhow::Result<()> {
    let task = TaskDirectory::open(&files.directory, NAME)?;
    let exit = match task.inspect()? {
        Inspection::Ended(exit) => exit,
        other => bail!("a probe task left no record of its end: {other:?}"),
    };
    match exit.reason {
        ExitReason::Exited { code: 0 } => {}
        ExitReason::NotStarted { reason } => bail!("no program can be executed: {reason}"),
        ExitReason::NotSetUp { reason } => bail!("no task can be set up: {reason}"),
        reason => bail!("a probe task failed: {reason:?}"),
    }
    let logs = task.path().join(record::LOG_DIRECTORY);
    let mut said = [0; 1];
    let read = LogReader::open(&logs, Stream::Stdout, Start::Beginning)?.read(&mut said)?;
    ensure!(read.bytes > 0, "the output of a probe task is not in its log");
    Ok(())
}

/// Removes what is left of a probe task, of an earlier Borglet, too.
pub(crate) fn clear(files: &Files) -> anyhow::Result<()> {
    let task = TaskDirectory::open(&files.directory, NAME)?;
    if !task.path().exists() {
        return Ok(());
    }
    task.kill_shim()?;
    Ok(task.remove()?)
}
