//! Other commands of this program: descriptions of things, and the logs of tasks.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use client::Target;
use command::{Failure, output};
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::process::Command;
use tokio::signal::unix::Signal;
use tokio::sync::mpsc;

use super::table::Thing;

/// How long a description may take.
const PATIENCE: Duration = Duration::from_secs(20);
/// The maximum length of a description.
const TEXT_BYTES_MAX: u64 = 4 << 20;

/// How to call this program for the same cell.
#[derive(Clone, Debug)]
pub(super) struct Programs {
    program: PathBuf,
    flags: Vec<String>,
}

/// A SIGTERM that arrived meanwhile.
#[derive(Clone, Copy, Debug)]
pub(super) struct Terminated;

impl Programs {
    pub(super) fn of(cell: Target<'_>) -> Result<Self, Failure> {
        let program = std::env::current_exe().map_err(|error| {
            Failure::failed(format!("error: cannot find this program: {error}"))
        })?;
        let mut flags = Vec::new();
        if let Some(cell) = cell.cell {
            flags.extend(["--cell".to_owned(), cell.to_owned()]);
        }
        if cell.consistent {
            flags.push("--consistent".to_owned());
        }
        Ok(Self { program, flags })
    }

    fn command(&self, arguments: &[String]) -> Command {
        let mut command = Command::new(&self.program);
        command.args(&self.flags).args(arguments).stdin(Stdio::null()).kill_on_drop(true);
        command
    }

    /// Sends the output of the command that describes something.
    pub(super) fn describe(
        &self,
        thing: Thing,
        texts: mpsc::Sender<(Thing, String)>,
    ) -> impl Future<Output = ()> + use<> {
        let mut command = self.command(&description(&thing));
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        async move {
            let text = match tokio::time::timeout(PATIENCE, run(command)).await {
                Ok(Ok(text)) => text,
                Ok(Err(error)) => format!("error: {error}"),
                Err(_) => format!("error: no answer within {} s", PATIENCE.as_secs()),
            };
            let _closed = texts.send((thing, text)).await;
        }
    }

    /// Shows the logs of a task on the terminal until Ctrl-C, or until their end and a key.
    pub(super) async fn logs(
        &self,
        task: &Thing,
        terminated: &mut Signal,
        interrupted: &mut Signal,
    ) -> Result<(), Terminated> {
        let name = task.to_string();
        output::say(&format!("bourg logs -f {name}  (Ctrl-C leads back)\n"));
        let arguments = ["logs", "-f", "--", &name].map(str::to_owned);
        let ended = match self.command(&arguments).spawn() {
            Ok(mut child) => tokio::select! {
                _ = child.wait() => "the logs have ended",
                // The terminal has sent it to the child, too.
                _ = interrupted.recv() => {
                    let _status = child.wait().await;
                    return Ok(());
                }
                _ = terminated.recv() => {
                    let _gone = child.kill().await;
                    return Err(Terminated);
                }
            },
            Err(error) => {
                output::say(&format!("error: cannot start bourg logs: {error}\n"));
                ""
            }
        };
        output::say(&format!("{ended}: Ctrl-C leads back\n"));
        let _shown = std::io::stderr().flush();
        tokio::select! {
            _ = interrupted.recv() => Ok(()),
            _ = terminated.recv() => Err(Terminated),
        }
    }
}

/// The command that describes something.
fn description(thing: &Thing) -> Vec<String> {
    let name = thing.to_string();
    let words: &[&str] = match thing {
        Thing::Band(_) => &["cell"],
        Thing::Machine(_) => &["machine", "show", "--", &name],
        Thing::Job { .. } | Thing::Task { .. } => &["status", "-o", "wide", "--", &name],
    };
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// The beginning of what a command writes: first stdout, then stderr.
async fn run(mut command: Command) -> std::io::Result<String> {
    let mut child = command.spawn()?;
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let (out, err) = tokio::join!(read(stdout), read(stderr));
    let text = [out?, err?].concat();
    // It is killed if it has more to say.
    drop(child);
    Ok(String::from_utf8_lossy(&text).into_owned())
}

async fn read(pipe: Option<impl AsyncRead + Unpin>) -> std::io::Result<Vec<u8>> {
    let mut text = Vec::new();
    if let Some(pipe) = pipe {
        pipe.take(TEXT_BYTES_MAX).read_to_end(&mut text).await?;
    }
    Ok(text)
}
