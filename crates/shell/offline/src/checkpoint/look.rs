//! `bourg checkpoint verify` and `bourg checkpoint show`: inspect a checkpoint.

use std::io::{self, Write};
use std::path::Path;

use ::checkpoint;
use command::output::{self, Format};
use command::{Done, Failure};
use formats::image::{state_hash, write_image_json};
use model::Time;
use serde::Serialize;

use super::{places, unusable};
use process::moment;

/// What `verify` reports about a checkpoint.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Summary {
    cell: String,
    index: u64,
    term: u64,
    /// In microseconds since 1970.
    time: u64,
    restore_epoch: String,
    level: u32,
    state_hash: String,
    machines: usize,
    jobs: usize,
    tasks: u64,
    sessions: usize,
    violations: Vec<String>,
}

pub(super) fn verify(file: &Path, format: &Format) -> Done {
    let (cell, origin) = checkpoint::read(file).map_err(|error| unusable(&error))?;
    let summary = Summary {
        cell: cell.name().map(ToString::to_string).unwrap_or_default(),
        index: cell.index().0,
        term: origin.term.0,
        time: cell.time().0,
        restore_epoch: origin.restore_epoch.to_string(),
        level: cell.level().0,
        state_hash: state_hash(&cell).to_string(),
        machines: cell.machine_count(),
        jobs: cell.job_count(),
        tasks: cell.task_count(),
        sessions: cell.image().sessions.len(),
        violations: cell.check().iter().map(ToString::to_string).collect(),
    };
    output::object(format, &summary, &summary.cell, || shown(&summary))?;
    if summary.violations.is_empty() {
        return Ok(());
    }
    let (file, places) = (file.display(), places(summary.violations.len()));
    let text = format!("error: {file} is inconsistent in {places}");
    Err(Failure::failed(text).next(format!("bourg checkpoint edit {file}")))
}

fn shown(summary: &Summary) -> String {
    let jobs = format!("{} with {} tasks, dead ones included", summary.jobs, summary.tasks);
    let rows = [
        ("index", format!("{} in term {}", summary.index, summary.term)),
        ("time", moment::shown(Time(summary.time))),
        ("epoch", summary.restore_epoch.clone()),
        ("level", summary.level.to_string()),
        ("state", summary.state_hash.clone()),
        ("machines", summary.machines.to_string()),
        ("jobs", jobs),
        ("sessions", summary.sessions.to_string()),
    ];
    let row = |(name, value): (&str, String)| vec![name.to_owned(), value];
    let mut text = output::table(&["cell", &summary.cell], rows.map(row).into());
    match summary.violations.as_slice() {
        [] => text += "consistent\n",
        violations => violations.iter().for_each(|violation| text += &format!("{violation}\n")),
    }
    text
}

pub(super) fn show(file: &Path) -> Done {
    let (image, _) = checkpoint::read_image(file).map_err(|error| unusable(&error))?;
    let mut lines = EscapedLines { waiting: Vec::with_capacity(LINES_BYTES), failure: None };
    let written = write_image_json(&image, &mut lines);
    let written = written.and_then(|()| lines.flush());
    match (lines.failure, written) {
        (Some(failure), _) => Err(failure),
        (None, Err(error)) => Err(Failure::failed(format!("error: cannot write: {error}"))),
        (None, Ok(())) => Ok(()),
    }
}

/// The size of the output buffer.
const LINES_BYTES: usize = 64 << 10;

/// Prints whole lines, escaped for a terminal.
struct EscapedLines {
    waiting: Vec<u8>,
    failure: Option<Failure>,
}

impl Write for EscapedLines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.waiting.extend_from_slice(bytes);
        if self.waiting.len() >= LINES_BYTES && self.waiting.ends_with(b"\n") {
            self.flush()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let printed = output::print_from_outside(&self.waiting);
        self.waiting.clear();
        printed.map_err(|failure| {
            self.failure = Some(failure);
            io::ErrorKind::Other.into()
        })
    }
}
