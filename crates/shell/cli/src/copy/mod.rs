//! `bourg cp`: files and directories into a task and out of it.
//!
//! One end is in the task: this same program, run there as `bourg exec` runs a command, so that the
//! task's user, limits and view of the files apply. An archive goes from one end to the other.

#[cfg(test)]
mod tests;

use std::fs::File;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::str::FromStr;
use std::sync::Arc;

use api::v1;
use archive::{Copied, Top};
use clap::Args;
use client::{Connection, Target};
use command::output::say;
use command::{Done, Failure, job_address, runtime};
use model::{Address, AddressError, Bytes};

use tokio::sync::mpsc;

use super::exec::{Errors, ExecSession, OnSignal, Streams, one_task, read_input};
use super::results::{Pieces, open_outputs};

/// Pieces of outputs that wait to be written.
const PIECES: usize = 4;
/// The commands that run in the task.
pub(super) const PACK: &str = "pack";
pub(super) const UNPACK: &str = "unpack";
/// The program as every task sees it.
const PROGRAM: &str = "/usr/bin/bourg";

#[derive(Debug, Args)]
pub(super) struct CopyArgs {
    /// A file or directory: a path here, or `user/job/7:PATH` or `job/7:PATH` in a task.
    source: End,
    /// Where it is copied to: a path here or in a task. Into a directory, if there is one; else under this
    /// name.
    destination: End,
    /// Do not say how much was copied.
    #[arg(long, short)]
    quiet: bool,
}

/// One end of a copy.
#[derive(Clone, Debug, PartialEq, Eq)]
enum End {
    Here(PathBuf),
    Task(Address, String),
}

impl FromStr for End {
    type Err = AddressError;

    /// What has a colon is in a task, unless it begins as a path does.
    fn from_str(text: &str) -> Result<Self, AddressError> {
        match text.split_once(':') {
            Some((task, path)) if !text.starts_with(['.', '/']) => {
                // Of a task alone, its working directory.
                let path = if path.is_empty() { "." } else { path };
                Ok(Self::Task(task.parse()?, path.to_owned()))
            }
            _ => Ok(Self::Here(text.into())),
        }
    }
}

/// Says what was copied.
fn tell(copied: Copied, quiet: bool) {
    let files = if copied.files == 1 { "file" } else { "files" };
    if !quiet {
        eprintln!("copied {} {files}, {}", copied.files, Bytes(copied.bytes));
    }
}

/// Copies.
pub(super) fn copy(cell: Target<'_>, args: CopyArgs) -> Result<ExitCode, Failure> {
    let only_one = |what: &str| {
        let text = format!("error: {what}: one end is in a task, as job/0:PATH, the other is not");
        Failure::usage(text)
            .next("bourg cp hello/0:notes . copies a file of a task to this directory")
    };
    let (task, path, here) = match (args.source, args.destination) {
        (End::Here(source), End::Task(task, path)) => {
            // Before anything runs in the task.
            std::fs::metadata(&source).map_err(|error| {
                Failure::usage(format!("error: cannot read {}: {error}", source.display()))
            })?;
            (task, path, Here::Source(source))
        }
        (End::Task(task, path), End::Here(destination)) => {
            let expected = asked_for(&task, &path);
            (task, path, Here::Destination(destination, expected))
        }
        (End::Here(_), End::Here(_)) => return Err(only_one("both are here")),
        (End::Task(..), End::Task(..)) => return Err(only_one("both are in tasks")),
    };
    let there = if matches!(here, Here::Source(_)) { UNPACK } else { PACK };
    // A path that begins with a dash is no flag.
    let command = [PROGRAM, there, "--", &path].map(str::to_owned).to_vec();
    let session = ExecSession { task: &task, usage: "cp", command, terminal: None };
    let runtime = runtime()?;
    let ended = process::block_on(&runtime, async {
        let mut connection = Connection::open(cell)?;
        if let Here::Destination(destination, expected) = &here
            && let Some(fetched) =
                fetch(&mut connection, &session, &path, destination, expected).await?
        {
            return Ok((0, fetched));
        }
        run(connection, session, here).await
    });
    runtime.shutdown_background();
    let (status, local) = ended?;
    let failed = |text: String| Err(Failure::failed(format!("error: {text}")));
    match (status, local) {
        // If the other end has failed, too, it is because of this one.
        (0 | SKIPPED | PIPE_CLOSED, Err(error)) => failed(format!("{error:#}")),
        (_, Err(error)) if there == UNPACK && !is_closed_pipe(&error) => {
            failed(format!("{error:#}"))
        }
        (0 | SKIPPED, Ok((copied, skipped))) => {
            tell(copied, args.quiet);
            // Both ends have said what they left out.
            Ok(ExitCode::from(u8::from(status == SKIPPED || skipped > 0)))
        }
        (127, _) => failed(format!("the task has no {PROGRAM}")),
        (128..=u8::MAX, _) => failed(format!("interrupted: exit status {status}")),
        (_, _) => failed(format!("not everything was copied: {task} says why")),
    }
}

/// What a task may send if this path is asked for. A path as `.` has no name: what it leads to is named
/// by the task, which is not trusted, so it gets the name of the task.
fn asked_for(task: &Address, path: &str) -> Top {
    match Path::new(path).file_name() {
        Some(name) => Top::Named(name.to_owned()),
        None => Top::WrittenAs(task.to_string().replace('/', "-").into()),
    }
}

fn is_closed_pipe(error: &anyhow::Error) -> bool {
    let kind = error.downcast_ref::<std::io::Error>().map(std::io::Error::kind);
    kind == Some(std::io::ErrorKind::BrokenPipe)
}

/// The exit status of the end in the task if it left something out.
const SKIPPED: u8 = 3;
/// That of a session whose output is not read any more.
const PIPE_CLOSED: u8 = 141;

/// The end on this machine.
enum Here {
    Source(PathBuf),
    Destination(PathBuf, Top),
}

/// What the end here has done: what it copied, and how much it left out.
type Local = anyhow::Result<(Copied, u64)>;

/// Copies the outputs of an ended task, or a part of them; `None` if it has not ended.
async fn fetch(
    connection: &mut Connection,
    session: &ExecSession<'_>,
    path: &str,
    destination: &Path,
    expected: &Top,
) -> Result<Option<Local>, Failure> {
    let task = one_task(connection, session.task, session.usage).await?;
    let request = v1::OutputsRequest {
        job: Some(job_address(session.task)),
        task,
        path: path.to_owned(),
        ..v1::OutputsRequest::default()
    };
    let Some((begin, mut pieces)) = open_outputs(connection, request).await? else {
        return Ok(None);
    };
    if !begin.package.is_empty() {
        return Err(Failure::usage(format!(
            "error: the outputs of {} are package {}, which jobs mount (packages)",
            session.task, begin.package
        )));
    }
    if !begin.any {
        return Err(Failure::usage(format!("error: {} has left nothing", session.task)));
    }
    let (to_archive, archive) = mpsc::channel(PIECES);
    let (destination, expected) = (destination.to_owned(), expected.clone());
    let local = tokio::task::spawn_blocking(move || {
        let mut pieces = Pieces::new(archive);
        let copied = archive::unpack(&mut pieces, &destination, expected)?;
        // What is skipped may be said after the archive.
        std::io::copy(&mut pieces, &mut std::io::sink())?;
        Ok(copied)
    });
    let mut skipped = 0;
    while let Some(piece) = pieces.message().await? {
        if !piece.skipped.is_empty() {
            skipped += 1;
            say(&format!("skipped {}\n", piece.skipped));
        } else if to_archive.send(piece.data).await.is_err() {
            break;
        }
    }
    drop(to_archive);
    let unpacked: anyhow::Result<Copied> = local.await.map_err(Failure::failed)?;
    Ok(Some(unpacked.map(|copied| (copied, skipped))))
}

/// Runs both ends; returns the exit status of the one in the task, and what became of the other.
async fn run(
    connection: Connection,
    session: ExecSession<'_>,
    here: Here,
) -> Result<(u8, Local), Failure> {
    let pipe = std::io::pipe();
    let (reader, writer) =
        pipe.map_err(|error| Failure::failed(format!("error: no pipe: {error}")))?;
    let signals = OnSignal::End;
    let (status, local) = match here {
        Here::Source(path) => {
            let local = tokio::task::spawn_blocking(move || packed(&path, writer));
            let input = Some(read_input(reader));
            let streams =
                Streams { input, output: std::io::sink, errors: Errors::Escaped, signals };
            (session.run(connection, streams).await?, local)
        }
        Here::Destination(path, expected) => {
            let local = tokio::task::spawn_blocking(move || {
                Ok((archive::unpack(reader, &path, expected)?, 0))
            });
            let writer = Arc::new(File::from(OwnedFd::from(writer)));
            let output = move || Arc::clone(&writer);
            let streams = Streams { input: None, output, errors: Errors::Escaped, signals };
            (session.run(connection, streams).await?, local)
        }
    };
    Ok((status, local.await.map_err(Failure::failed)?))
}

/// Writes an archive, and says what it leaves out.
fn packed(source: &Path, archive: impl Write) -> Local {
    let mut skipped = 0;
    let copied = archive::pack(source, archive, &mut |path, why| {
        skipped += 1;
        eprintln!("skipped {}: {why}", path.display());
    })?;
    Ok((copied, skipped))
}

/// The end in a task that sends: writes an archive to the standard output.
pub(super) fn pack_here(source: &Path) -> Result<ExitCode, Failure> {
    let (_, skipped) = packed(source, std::io::stdout().lock()).map_err(failure)?;
    Ok(ExitCode::from(if skipped > 0 { SKIPPED } else { 0 }))
}

/// The end in a task that receives: reads an archive from the standard input.
pub(super) fn unpack_here(destination: &Path) -> Done {
    archive::unpack(std::io::stdin().lock(), destination, Top::Any).map(drop).map_err(failure)
}

#[expect(clippy::needless_pass_by_value, reason = "it maps an error")]
fn failure(error: anyhow::Error) -> Failure {
    Failure::failed(format!("error: {error:#}"))
}
