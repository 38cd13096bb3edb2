//! `bourg logs`: the output of tasks, line by line, with the task in front of each line if there
//! are several, or as JSON.

use std::borrow::Cow;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use api::v1;
use client::Target;
use command::output::{self, Format};
use command::{Done, Failure, with_cell};
use model::Time;
use process::clock::wall_clock;
use process::moment::rfc3339;
use serde::Serialize;
use tokio::sync::mpsc;
use tokio_stream::StreamExt;
use tonic::{Code, Status, Streaming};

use super::selection::{Among, choose};
use super::{LogsArgs, moment};

/// The maximum length of a line, and of all lines together that are not complete, in bytes. A line that
/// exceeds one of them is cut; as JSON its pieces are marked.
const LINE_BYTES_MAX: usize = 16 << 20;
const OPEN_BYTES_MAX: usize = 64 << 20;
/// A piece has at least so many bytes, however many lines are not complete.
const PIECE_BYTES_MIN: usize = 64 << 10;
/// The maximum number of lines of each stream that --tail keeps of what --since selects, and of their bytes
/// together; of more, the oldest are left out.
const NEWEST_LINES_MAX: u32 = 100_000;
const KEPT_BYTES_MAX: usize = 256 << 20;
/// The maximum number of jobs read at once, each in a stream on one connection.
const JOBS_MAX: usize = 100;
/// The capacity of the queue of chunks to print.
const QUEUE: usize = 64;

pub(super) fn logs(cell: Target<'_>, args: &LogsArgs) -> Done {
    let now = wall_clock();
    if args.since.is_some_and(|since| since.0 > now) {
        return Err(Failure::usage("error: --since is in the future: nothing is that new"));
    }
    let newest = match (args.since, args.tail) {
        (Some(_), Some(_)) if args.follow => {
            return Err(Failure::usage(
                "error: --follow goes with --since or with --tail, not with both",
            )
            .next("leave out one of them"));
        }
        (Some(_), Some(lines)) if lines > NEWEST_LINES_MAX => {
            return Err(Failure::usage(format!(
                "error: --tail with --since shows at most {NEWEST_LINES_MAX} lines of each stream"
            )));
        }
        (Some(_), lines) => lines,
        _ => None,
    };
    if let (Some(since), Some(until)) = (args.since, args.until)
        && since.0 >= until.0
    {
        return Err(Failure::usage("error: --since is not before --until"));
    }
    with_cell(cell, async |mut connection| {
        let from = match (args.since, args.tail) {
            (Some(since), _) => Some(v1::log_start::From::Since(since.0.0)),
            (None, Some(lines)) => Some(v1::log_start::From::TailLines(lines)),
            (None, None) => None,
        };
        let stream = match args.stream.as_deref() {
            Some("stdout") => v1::LogStream::Stdout,
            Some("stderr") => v1::LogStream::Stderr,
            _ => v1::LogStream::StdoutAndStderr,
        };
        let named = args.job.as_slice();
        let chosen = choose(&mut connection, named, args.labels.as_ref(), &Among::Mine).await?;
        if chosen.len() > JOBS_MAX {
            let many = chosen.len();
            return Err(Failure::usage(format!(
                "error: {many} jobs match these labels; at most {JOBS_MAX} can be read at once"
            ))
            .next("narrow the selection with more labels"));
        }
        let single = args.job.as_ref().is_some_and(|address| single(&address.tasks));
        let (to_us, mut from_jobs) = mpsc::channel(QUEUE);
        for job in chosen {
            let name: Arc<str> = job.job.job.as_str().into();
            let request = v1::LogsRequest {
                job: Some(job.job),
                tasks: Some((&job.tasks).into()),
                stream: stream.into(),
                start: from.map(|from| v1::LogStart { from: Some(from) }),
                follow: args.follow,
                version: args.version,
                until: args.until.map_or(0, |until| until.0.0),
                grep: args.grep.clone().unwrap_or_default(),
                previous: args.previous,
            };
            let chunks = connection
                .stream(request, async |mut client, request| client.tasks.logs(request).await)
                .await?;
            tokio::spawn(forward(name, chunks, to_us.clone()));
        }
        drop(to_us);
        let mut lines = LineAssembler::new(args.output.clone(), !single, newest);
        while let Some((job, chunk)) = from_jobs.recv().await {
            lines.take(&job, &chunk.map_err(|status| failure(&job, status))?)?;
        }
        lines.end()
    })
}

/// The failure for a stream that ended with an error. The job exists: its logs do not.
fn failure(job: &str, status: Status) -> Failure {
    match status.code() {
        Code::NotFound => Failure::failed(format!("error: {}", status.message()))
            .next(format!("bourg events {job} shows how its tasks ended")),
        _ => status.into(),
    }
}

/// Forwards the output of one job's tasks.
async fn forward(
    job: Arc<str>,
    mut chunks: Streaming<v1::LogChunk>,
    to_us: mpsc::Sender<(Arc<str>, Result<v1::LogChunk, Status>)>,
) {
    while let Some(chunk) = chunks.next().await {
        if to_us.send((Arc::clone(&job), chunk)).await.is_err() {
            break;
        }
    }
}

fn single(tasks: &model::TaskSelection) -> bool {
    matches!(tasks, model::TaskSelection::Some(ranges)
        if matches!(ranges.as_slice(), [(first, last)] if first == last))
}

/// Reassembles chunks of several streams into whole lines.
struct LineAssembler {
    format: Format,
    prefixed: bool,
    /// Incomplete lines, by job, task index and stream.
    open: BTreeMap<(Arc<str>, u32, i32), IncompleteLine>,
    /// Their bytes together.
    open_bytes: usize,
    /// How many lines of each stream are kept until the end, and printed then; `None` to print all at once.
    newest: Option<u32>,
    kept: BTreeMap<(Arc<str>, u32, i32), VecDeque<KeptLine>>,
    /// The bytes of the kept lines together.
    kept_bytes: usize,
}

/// A line that is printed at the end, if it is among the last ones.
struct KeptLine {
    origin: Origin,
    text: Vec<u8>,
    ending: Ending,
}

/// How a line, or a piece of one, ends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ending {
    /// With a newline.
    Newline,
    /// It goes on in the next piece.
    Cut,
    /// Nothing more of it comes.
    End,
}

/// A line that is not complete.
struct IncompleteLine {
    origin: Origin,
    text: Vec<u8>,
}

/// Where a line comes from, and when it began.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Origin {
    generation: u32,
    version: u32,
    stream: v1::LogStream,
    at: Time,
}

/// A line as JSON.
#[derive(Serialize)]
struct JsonLine<'a> {
    job: &'a str,
    task: u32,
    generation: u32,
    /// `None` if the cell does not know it any more.
    version: Option<u32>,
    stream: &'static str,
    /// As in RFC 3339; `None` if the machine does not know it.
    time: Option<String>,
    /// Without the newline. Bytes that are not UTF-8 are replaced by U+FFFD.
    text: Cow<'a, str>,
    /// Whether the line is too long for one object, and goes on in the next one of its stream.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    cut: bool,
}

impl LineAssembler {
    fn new(format: Format, prefixed: bool, newest: Option<u32>) -> Self {
        let (open, kept) = (BTreeMap::new(), BTreeMap::new());
        Self { format, prefixed, open, open_bytes: 0, newest, kept, kept_bytes: 0 }
    }

    fn take(&mut self, job: &Arc<str>, chunk: &v1::LogChunk) -> Done {
        let instance = chunk.instance.unwrap_or_default();
        let index = instance.index;
        if !chunk.note.is_empty() {
            eprintln!("{job}/{index}: {}", output::one_line(&chunk.note));
        }
        let origin = Origin {
            generation: instance.generation,
            version: chunk.version,
            stream: chunk.stream(),
            at: Time(chunk.at),
        };
        let key = (Arc::clone(job), index, chunk.stream);
        let before = self.open.remove(&key);
        self.open_bytes -= before.as_ref().map_or(0, |open| open.text.len());
        let mut open = match before {
            Some(open) if open.origin.generation == origin.generation && chunk.lost_bytes == 0 => {
                open
            }
            // The rest of that line was never written, or is lost.
            Some(open) => {
                self.write(job, index, open.origin, &open.text, Ending::End)?;
                IncompleteLine { origin, text: Vec::new() }
            }
            None => IncompleteLine { origin, text: Vec::new() },
        };
        if chunk.lost_bytes > 0 {
            eprintln!("{job}/{index}: {} bytes before this were discarded", chunk.lost_bytes);
        }
        for piece in chunk.data.split_inclusive(|byte| *byte == b'\n') {
            if open.text.is_empty() {
                open.origin = origin;
            }
            open.text.extend_from_slice(piece);
            let ending = match piece.ends_with(b"\n") {
                true => Ending::Newline,
                false if self.is_too_long(&open.text) => Ending::Cut,
                false => continue,
            };
            self.write(job, index, open.origin, &open.text, ending)?;
            // The memory of a long line is not kept for short ones.
            open.text = Vec::new();
        }
        if !open.text.is_empty() {
            self.open_bytes += open.text.len();
            self.open.insert(key, open);
        }
        Ok(())
    }

    fn is_too_long(&self, line: &[u8]) -> bool {
        let all = self.open_bytes + line.len();
        line.len() >= LINE_BYTES_MAX || all >= OPEN_BYTES_MAX && line.len() >= PIECE_BYTES_MIN
    }

    /// Prints a line, or a piece of a long one, or keeps it for the end.
    fn write(
        &mut self,
        job: &Arc<str>,
        index: u32,
        origin: Origin,
        line: &[u8],
        ending: Ending,
    ) -> Done {
        let Some(newest) = self.newest else {
            return self.print(job, index, origin, line, ending);
        };
        let lines = self.kept.entry((Arc::clone(job), index, origin.stream.into())).or_default();
        lines.push_back(KeptLine { origin, text: line.to_vec(), ending });
        self.kept_bytes += line.len();
        let too_many = lines.len() > newest as usize || self.kept_bytes > KEPT_BYTES_MAX;
        if let Some(gone) = too_many.then(|| lines.pop_front()).flatten() {
            self.kept_bytes -= gone.text.len();
        }
        Ok(())
    }

    fn print(&self, job: &str, index: u32, origin: Origin, line: &[u8], ending: Ending) -> Done {
        let text = line.strip_suffix(b"\n").unwrap_or(line);
        let at = Some(origin.at).filter(|at| *at > Time(0));
        let mut prefix = match self.prefixed {
            true => format!("{job}/{index}  "),
            false => String::new(),
        };
        match self.format {
            Format::Table => {}
            Format::Wide => {
                prefix = format!("{}  {prefix}", at.map(moment::shown).unwrap_or_default());
            }
            _ => {
                let line = JsonLine {
                    job,
                    task: index,
                    generation: origin.generation,
                    version: Some(origin.version).filter(|version| *version > 0),
                    stream: match origin.stream {
                        v1::LogStream::Stderr => "stderr",
                        _ => "stdout",
                    },
                    time: at.map(rfc3339),
                    text: String::from_utf8_lossy(text),
                    cut: ending == Ending::Cut,
                };
                return output::item(&self.format, &line, &format!("{job}/{index}"));
            }
        }
        let mut bytes = prefix.into_bytes();
        bytes.extend_from_slice(line);
        // Terminate a partial line, since another task's output may follow.
        if (ending == Ending::End || bytes.len() > line.len()) && !line.ends_with(b"\n") {
            bytes.push(b'\n');
        }
        output::print_log(&bytes)
    }

    /// Prints incomplete last lines.
    fn end(mut self) -> Done {
        for ((job, index, _), open) in std::mem::take(&mut self.open) {
            self.write(&job, index, open.origin, &open.text, Ending::End)?;
        }
        let kept = std::mem::take(&mut self.kept);
        let lines = kept.into_iter().flat_map(|((job, index, _), lines)| {
            in_order(lines).into_iter().map(move |(at, line)| (at, Arc::clone(&job), index, line))
        });
        let mut lines: Vec<_> = lines.collect();
        // Those of one moment stay together by stream.
        lines.sort_by_key(|(at, ..)| *at);
        for (_, job, index, line) in lines {
            self.print(&job, index, line.origin, &line.text, line.ending)?;
        }
        Ok(())
    }
}

/// The lines of a stream with the moments by which they are sorted among others: never before those of earlier
/// lines, also if a clock was set back, and the pieces of a line have that of the first.
fn in_order(lines: VecDeque<KeptLine>) -> Vec<(Time, KeptLine)> {
    let (mut last, mut goes_on) = (Time(0), false);
    let with_time = lines.into_iter().map(|line| {
        if !goes_on {
            last = last.max(line.origin.at);
        }
        goes_on = line.ending == Ending::Cut;
        (last, line)
    });
    with_time.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_a_stream_stay_in_order_and_pieces_together() {
        let line = |at, text: &str, ending| KeptLine {
            origin: Origin {
                generation: 1,
                version: 1,
                stream: v1::LogStream::Stdout,
                at: Time(at),
            },
            text: text.as_bytes().to_vec(),
            ending,
        };
        let lines = [
            line(5, "a", Ending::Newline),
            line(7, "b1", Ending::Cut),
            line(9, "b2", Ending::Newline),
            line(6, "c", Ending::Newline),
            line(0, "d", Ending::End),
            line(8, "e", Ending::Newline),
        ];
        let sorted: Vec<_> = in_order(lines.into())
            .into_iter()
            .map(|(at, line)| (at.0, String::from_utf8_lossy(&line.text).into_owned()))
            .collect();
        let expected = [(5, "a"), (7, "b1"), (7, "b2"), (7, "c"), (7, "d"), (8, "e")];
        assert_eq!(sorted, expected.map(|(at, text)| (at, text.to_owned())));
    }
}
