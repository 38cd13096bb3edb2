//! `bourg lock`: locks and small files in the cell.

pub(crate) mod guard;
mod with;

use std::io::Read as _;
use std::path::PathBuf;
use std::process::ExitCode;

use api::v1;
use api::v1::change_locks_request::Change;
use clap::{Args, Subcommand};
use client::{Connection, MasterClient, Target};
use clientd::follow;
use command::output::{self, Format};
use command::{Code, Done, Failure, with_cell};
use model::{FilePath, LogIndex, Sequencer, Time};
use tonic::Code as Grpc;

use super::moment;

/// The maximum length of a file, which the cell has too: more is not read.
const FILE_BYTES_MAX: u64 = model::FILE_BYTES_MAX as u64;

/// The subcommands of `bourg lock`.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Hold a lock while a command runs.
    ///
    /// The command gets the proof that the lock is held in `$BOURG_LOCK_SEQUENCER`: `bourg lock
    /// write --sequencer` rejects a write after the lock was lost. The session of the lock is renewed
    /// while the command runs. If it is lost, because the cell did not answer or this process was
    /// suspended for longer than the lease, the command gets SIGTERM, SIGKILL 5 s later, and the exit
    /// code is 7. If this process is killed, the command is killed with it.
    ///
    /// Otherwise the exit status is that of the command, or 128 plus the signal that killed it. It may
    /// equal a code in the table of `bourg --help`: then a line that begins with `error:` tells that
    /// the code is not the command's.
    With(with::WithArgs),
    /// List files and locks.
    List(ListArgs),
    /// Show a file and its lock.
    Show(ShowArgs),
    /// Print the content of a file.
    Read(ReadArgs),
    /// Write a file of at most 16 KiB, which may be new.
    Write(WriteArgs),
    /// Delete the content of a file. Its lock is unchanged.
    Delete(DeleteArgs),
    /// Check whether a lock is still held by the holder that got this sequencer; exit code 7 if not.
    Check(CheckArgs),
    /// Show a file and its lock, or all below a path, whenever they change.
    Watch(WatchArgs),
}

#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    /// Only those whose path begins with this, such as /ana/members/. Default: your own.
    prefix: Option<String>,
    /// Output format: table, json, yaml, or the path of a field.
    #[arg(short, long, default_value = "table")]
    output: Format,
}

#[derive(Debug, Args)]
pub(crate) struct ShowArgs {
    /// The path, as /USER/NAME.
    path: FilePath,
    /// Output format: table, json, yaml, or the path of a field.
    #[arg(short, long, default_value = "table")]
    output: Format,
}

#[derive(Debug, Args)]
pub(crate) struct ReadArgs {
    /// The path, as /USER/NAME.
    path: FilePath,
}

/// What a write or a deletion depends on.
#[derive(Debug, Args)]
struct Conditions {
    /// Only if this lock is still held by the holder that got this sequencer.
    #[arg(long, value_name = "SEQUENCER")]
    sequencer: Option<Sequencer>,
    /// Only if the content has this generation; 0: only if there is none.
    #[arg(long, value_name = "GENERATION")]
    expected: Option<u64>,
}

#[derive(Debug, Args)]
pub(crate) struct WriteArgs {
    #[command(flatten)]
    conditions: Conditions,
    /// The path, as /USER/NAME.
    path: FilePath,
    /// The file with the content. Default: the standard input.
    file: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct DeleteArgs {
    #[command(flatten)]
    conditions: Conditions,
    /// The path, as /USER/NAME.
    path: FilePath,
}

#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    /// The sequencer, as PATH:exclusive|shared:GENERATION.
    sequencer: Sequencer,
}

#[derive(Debug, Args)]
pub(crate) struct WatchArgs {
    /// A path, or the beginning of paths that ends with a slash, such as /ana/members/.
    path: String,
    /// Begin with a state that has everything up to this index.
    #[arg(long, value_name = "INDEX", default_value_t = 0)]
    from: u64,
    /// Output format: table, json (one line for each state), yaml, or the path of a field.
    #[arg(short, long, default_value = "table")]
    output: Format,
}

pub(super) fn lock(cell: Target<'_>, command: Command) -> Result<ExitCode, Failure> {
    match command {
        Command::With(args) => return with::with(cell, &args),
        Command::List(args) => list(cell, &args)?,
        Command::Show(args) => show(cell, &args)?,
        Command::Read(args) => read(cell, &args)?,
        Command::Write(args) => write(cell, args)?,
        Command::Delete(args) => delete(cell, &args)?,
        Command::Check(args) => check(cell, &args)?,
        Command::Watch(args) => watch(cell, &args)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// A failure, with the exit code for what somebody else changed.
fn failure(error: client::Error) -> Failure {
    match &error {
        client::Error::Answer(status) if status.code() == Grpc::Aborted => {
            Failure::new(Code::Changed, format!("error: {}", status.message()))
        }
        _ => error.into(),
    }
}

async fn files(
    connection: &mut Connection,
    path: String,
    sequencer: String,
) -> Result<v1::FilesResponse, Failure> {
    let request = v1::FilesRequest { path, sequencer };
    let answer =
        connection.ask(request, async |mut client, request| client.locks.files(request).await);
    answer.await.map_err(failure)
}

/// One file, which exists.
async fn file(connection: &mut Connection, path: &FilePath) -> Result<v1::FileState, Failure> {
    let answer = files(connection, path.to_string(), String::new()).await?;
    let missing = || Failure::usage(format!("error: there is no file {path}"));
    answer.files.into_iter().next().ok_or_else(missing)
}

fn list(cell: Target<'_>, args: &ListArgs) -> Done {
    with_cell(cell, async |mut connection| {
        let own = || format!("/{}/", connection.user().unwrap_or_default());
        let prefix = args.prefix.clone().unwrap_or_else(own);
        let answer = files(&mut connection, prefix, String::new()).await?;
        output::object(&args.output, &answer, "files", || {
            let rows = answer.files.iter().map(row).collect();
            output::table(&["PATH", "SIZE", "GENERATION", "LOCK", "HELD BY"], rows)
        })
    })
}

fn row(file: &v1::FileState) -> Vec<String> {
    let content = file.content.as_ref();
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    vec![
        file.path.clone(),
        or_dash(content.map(|content| content.size.to_string())),
        or_dash(content.map(|content| content.generation.to_string())),
        or_dash(file.lock.as_ref().map(|lock| mode(lock.shared).to_owned())),
        or_dash(file.lock.as_ref().map(holders)),
    ]
}

fn mode(shared: bool) -> &'static str {
    if shared { "shared" } else { "exclusive" }
}

/// `ana (session 3, generation 12)`.
fn holders(lock: &v1::FileLock) -> String {
    let holder = |holder: &v1::LockHolder| {
        format!("{} (session {}, generation {})", holder.user, holder.session, holder.generation)
    };
    lock.holders.iter().map(holder).collect::<Vec<_>>().join(", ")
}

fn show(cell: Target<'_>, args: &ShowArgs) -> Done {
    with_cell(cell, async |mut connection| {
        let file = file(&mut connection, &args.path).await?;
        output::object(&args.output, &file, &file.path, || describe(&file))
    })
}

fn describe(file: &v1::FileState) -> String {
    let mut rows = vec![("path", file.path.clone())];
    match &file.content {
        None => rows.push(("content", "none".to_owned())),
        Some(content) => {
            rows.push(("content", format!("{} bytes", content.size)));
            rows.push(("generation", content.generation.to_string()));
            let at = moment::shown(Time(content.time));
            rows.push(("written", format!("{at} by {}", content.by)));
            if let Some(session) = content.session {
                rows.push(("deleted with", format!("session {session}")));
            }
        }
    }
    match &file.lock {
        None => rows.push(("lock", "free".to_owned())),
        Some(lock) => {
            rows.push(("lock", mode(lock.shared).to_owned()));
            for holder in &lock.holders {
                let at = moment::shown(Time(holder.time));
                let v1::LockHolder { user, session, generation, .. } = holder;
                let text =
                    format!("{user}, session {session}, generation {generation}, since {at}");
                rows.push(("held by", text));
            }
        }
    }
    let rows = rows.into_iter().map(|(name, value)| vec![name.to_owned(), value]);
    output::table(&["", ""], rows.collect())
}

fn read(cell: Target<'_>, args: &ReadArgs) -> Done {
    with_cell(cell, async |mut connection| {
        let file = file(&mut connection, &args.path).await?;
        let path = &args.path;
        let content = file.content.ok_or_else(|| {
            Failure::usage(format!("error: there is no file {path}, only a lock that is held"))
        })?;
        output::print_bytes(&content.data)
    })
}

/// The content of a file or of the standard input, up to one byte more than the cell takes.
fn content(file: Option<&PathBuf>) -> Result<Vec<u8>, Failure> {
    let mut content = Vec::new();
    let most = FILE_BYTES_MAX.saturating_add(1);
    let read = match file {
        None => std::io::stdin().lock().take(most).read_to_end(&mut content),
        Some(path) => {
            let file = std::fs::File::open(path);
            file.and_then(|file| file.take(most).read_to_end(&mut content))
        }
    };
    let name =
        || file.map_or_else(|| "the standard input".to_owned(), |it| it.display().to_string());
    read.map_err(|error| Failure::usage(format!("error: cannot read {}: {error}", name())))?;
    if content.len() as u64 > FILE_BYTES_MAX {
        return Err(Failure::usage(format!(
            "error: {} has more than {FILE_BYTES_MAX} bytes, the maximum of a file in the cell",
            name()
        )));
    }
    Ok(content)
}

fn sequencer_text(sequencer: Option<&Sequencer>) -> String {
    sequencer.map(ToString::to_string).unwrap_or_default()
}

fn write(cell: Target<'_>, args: WriteArgs) -> Done {
    let content = content(args.file.as_ref())?;
    with_cell(cell, async |mut connection| {
        let WriteArgs { conditions: Conditions { sequencer, expected }, path, .. } = args;
        let write = v1::WriteFile {
            path: path.to_string(),
            content,
            expected,
            session: None,
            sequencer: sequencer_text(sequencer.as_ref()),
        };
        let written = connection.change_locks(Change::Write(write)).await.map_err(failure)?;
        output::say(&format!("{path} has generation {}\n", LogIndex(written.generation)));
        Ok(())
    })
}

fn delete(cell: Target<'_>, args: &DeleteArgs) -> Done {
    with_cell(cell, async |mut connection| {
        let Conditions { sequencer, expected } = &args.conditions;
        let delete = v1::DeleteFile {
            path: args.path.to_string(),
            expected: *expected,
            sequencer: sequencer_text(sequencer.as_ref()),
        };
        connection.change_locks(Change::Delete(delete)).await.map_err(failure)?;
        output::say(&format!("{} is deleted\n", args.path));
        Ok(())
    })
}

fn check(cell: Target<'_>, args: &CheckArgs) -> Done {
    with_cell(cell, async |mut connection| {
        let sequencer = &args.sequencer;
        let answer = files(&mut connection, String::new(), sequencer.to_string()).await?;
        if !answer.sequencer_valid {
            let text = format!("error: {sequencer} is not valid: that holder has lost the lock");
            return Err(Failure::new(Code::Changed, text));
        }
        output::say(&format!("{sequencer} is valid\n"));
        Ok(())
    })
}

fn watch(cell: Target<'_>, args: &WatchArgs) -> Done {
    with_cell(cell, async |mut connection| {
        let request = v1::WatchFilesRequest { path: args.path.clone(), index: args.from };
        let open = async |mut client: MasterClient, request| client.locks.watch(request).await;
        let take = |request: &mut v1::WatchFilesRequest, state: v1::FilesResponse| {
            request.index = state.index;
            match args.output {
                Format::Table => output::print(&changes(&state)),
                _ => output::item(&args.output, &state, &args.path),
            }
        };
        follow(&mut connection, request, true, open, take).await
    })
}

/// A line for each file of a state, each with the state's index.
fn changes(state: &v1::FilesResponse) -> String {
    let mut text = String::new();
    for file in &state.files {
        let content = match &file.content {
            Some(content) => format!("generation {}", content.generation),
            None => "no content".to_owned(),
        };
        let lock = match &file.lock {
            Some(lock) => format!("{} {}", mode(lock.shared), holders(lock)),
            None => "free".to_owned(),
        };
        text.push_str(&format!("{} {} {content}, {lock}\n", state.index, file.path));
    }
    if text.is_empty() {
        text = format!("{} nothing\n", state.index);
    }
    text
}
