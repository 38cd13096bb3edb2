//! Sends kept outputs as an archive, on a thread of their own: the reader may be slow.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use api::v1;
use model::{InstanceId, UserName};
use rpc::transport::{Limiter, Permit};
use spec::{OutputPath, OutputPolicy};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;

use super::{OUTPUTS_DIRECTORY, OutputRecord};
use crate::tasks::Files;

/// The readers of outputs that a machine serves at once; users share them by the owners of the outputs, and
/// the others are rejected.
const OUTPUT_READERS_MAX: usize = 32;
/// The size of a piece, and how many wait for the master.
const PIECE_BYTES: usize = 32 << 10;
const QUEUE: usize = 4;
/// How much of what is left out is named.
const SKIPPED_MAX: usize = 100;
/// Where tasks find their home directory.
const HOME: &str = "/home/task/";

type OutputPiece = Result<v1::OutputChunk, Status>;

/// The readers of a Borglet. Clones share the bound.
#[derive(Clone, Debug)]
pub(crate) struct OutputReaders(Limiter<UserName>);

impl OutputReaders {
    pub(crate) fn new() -> Self {
        Self(Limiter::shared(OUTPUT_READERS_MAX))
    }
}

/// Starts to send outputs.
///
/// # Errors
/// If the request is invalid, the outputs are not here, or too many are read.
pub(crate) fn read(
    files: &Files,
    readers: &OutputReaders,
    asked: &v1::ReadOutputsRequest,
) -> Result<ReceiverStream<OutputPiece>, Status> {
    let instance: InstanceId =
        asked.instance.ok_or_else(|| Status::invalid_argument("the instance is missing"))?.into();
    let record = files.output_record(instance);
    let record = record.map_err(|error| Status::internal(format!("{error:#}")))?;
    let record = record.ok_or_else(|| Status::not_found(files.why_no_outputs(instance)))?;
    let part = part(&record, &asked.path)?;
    let permit = readers.0.acquire(record.user).map_err(|_| {
        Status::resource_exhausted(
            "its machine sends as many outputs to users as it may already: end some of them, or try \
             again later",
        )
    })?;
    let (to_master, stream) = mpsc::channel(QUEUE);
    let begin = v1::OutputsBegin {
        instance: asked.instance,
        offset: asked.offset,
        waits: files.outputs.why_not_in_package(instance, &record.policy),
        ..v1::OutputsBegin::default()
    };
    let root = files.outputs_of(instance).join(OUTPUTS_DIRECTORY);
    let sending = Sending { begin, root, part, policy: record.policy, to_master, _permit: permit };
    let files = files.clone();
    let thread = std::thread::Builder::new().name("outputs".to_owned());
    let begun = thread.spawn(move || {
        if let Err(status) = sending.send(&files, instance) {
            let _gone = sending.to_master.blocking_send(Err(status));
        }
    });
    begun.map_err(|error| Status::aborted(format!("cannot start a thread: {error}")))?;
    Ok(ReceiverStream::new(stream))
}

/// The path that is asked for, which is in an output; `None` for all.
fn part(record: &OutputRecord, path: &str) -> Result<Option<OutputPath>, Status> {
    let path = path.strip_prefix(HOME).unwrap_or(path).trim_end_matches('/');
    let path = path.strip_prefix("./").unwrap_or(path);
    if matches!(path, "" | ".") {
        return Ok(None);
    }
    let no_output = || {
        Status::invalid_argument(format!(
            "'{}' is no output of the task. The machine keeps only the outputs that its job names: {}",
            path.escape_debug(),
            record.policy
        ))
    };
    let path: OutputPath = path.parse().map_err(|_| no_output())?;
    record.policy.output_of(&path).ok_or_else(no_output)?;
    Ok(Some(path))
}

/// Outputs on their way.
struct Sending {
    begin: v1::OutputsBegin,
    root: PathBuf,
    part: Option<OutputPath>,
    policy: OutputPolicy,
    to_master: mpsc::Sender<OutputPiece>,
    _permit: Permit<UserName>,
}

impl Sending {
    fn send(&self, files: &Files, instance: InstanceId) -> Result<(), Status> {
        let broken = |error: String| match self.root.exists() {
            true => Status::internal(error),
            false => Status::not_found(files.why_no_outputs(instance)),
        };
        let used = files.measure_outputs(instance);
        let bytes = used.map_err(|error| broken(format!("{error:#}")))?.bytes;
        let mut there = fs::read_dir(&self.root).map_err(|error| broken(error.to_string()))?;
        let any = there.next().is_some();
        let begin = Some(v1::OutputsBegin { bytes, any, ..self.begin.clone() });
        let first = v1::OutputChunk { begin, ..v1::OutputChunk::default() };
        let Ok(()) = self.to_master.blocking_send(Ok(first)) else { return Ok(()) };
        let (source, name) = match &self.part {
            None if !any => return Ok(()),
            None => (self.root.clone(), PathBuf::from(OUTPUTS_DIRECTORY)),
            Some(part) => self.found(part)?,
        };
        let mut archive = Pieces {
            to_master: &self.to_master,
            skip: self.begin.offset,
            piece: Vec::with_capacity(PIECE_BYTES),
        };
        let mut skipped = Vec::new();
        let packed = archive::pack_as(source, name, &mut archive, &mut |path, why| {
            if skipped.len() < SKIPPED_MAX {
                let path = path.strip_prefix(&self.root).unwrap_or(path);
                skipped.push(format!("{}: {why}", path.display()));
            }
        });
        match packed {
            Ok(_) => {}
            // Nobody reads any more.
            Err(_) if self.to_master.is_closed() => return Ok(()),
            Err(error) => return Err(broken(format!("{error:#}"))),
        }
        for skipped in skipped {
            let chunk = v1::OutputChunk { skipped, ..v1::OutputChunk::default() };
            let Ok(()) = self.to_master.blocking_send(Ok(chunk)) else { break };
        }
        Ok(())
    }

    /// Where a path is, and its name. No link is followed on the way.
    fn found(&self, part: &OutputPath) -> Result<(PathBuf, PathBuf), Status> {
        let missing = || {
            Status::not_found(format!(
                "the task has not left '{}': its job keeps {}",
                part.as_str().escape_debug(),
                self.policy
            ))
        };
        let mut place = self.root.clone();
        let path = Path::new(part.as_str());
        let mut parts = path.components().peekable();
        while let Some(name) = parts.next() {
            place.push(name);
            let found = fs::symlink_metadata(&place).map_err(|_| missing())?;
            if parts.peek().is_some() && !found.is_dir() {
                return Err(missing());
            }
        }
        Ok((place, path.file_name().map(PathBuf::from).ok_or_else(missing)?))
    }
}

/// Sends an archive piece by piece, from an offset on.
struct Pieces<'a> {
    to_master: &'a mpsc::Sender<OutputPiece>,
    /// What is still left out.
    skip: u64,
    piece: Vec<u8>,
}

impl Write for Pieces<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let skipped = usize::try_from(self.skip).unwrap_or(usize::MAX).min(bytes.len());
        if skipped > 0 {
            self.skip -= skipped as u64;
            return Ok(skipped);
        }
        let taken = bytes.len().min(PIECE_BYTES - self.piece.len());
        self.piece.extend_from_slice(&bytes[..taken]);
        if self.piece.len() == PIECE_BYTES {
            self.flush()?;
        }
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.piece.is_empty() {
            return Ok(());
        }
        let data = std::mem::replace(&mut self.piece, Vec::with_capacity(PIECE_BYTES));
        let chunk = v1::OutputChunk { data, ..v1::OutputChunk::default() };
        let gone = |_| io::Error::from(io::ErrorKind::BrokenPipe);
        self.to_master.blocking_send(Ok(chunk)).map_err(gone)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use api::duration;
    use linux::Isolation;
    use model::Span;

    use super::super::KEPT_FILE;
    use super::*;

    fn keep(files: &Files, instance: &str) {
        let directory = files.outputs().join(instance);
        let outputs = directory.join(OUTPUTS_DIRECTORY);
        fs::create_dir_all(outputs.join("out/a")).expect("a directory");
        fs::write(outputs.join("out/a/n"), vec![b'x'; 100_000]).expect("there is room");
        fs::write(outputs.join("result.txt"), "result").expect("there is room");
        symlink("a/n", outputs.join("out/link")).expect("a link");
        symlink("/etc/shadow", outputs.join("out/shadow")).expect("a link");
        symlink("/etc", outputs.join("way")).expect("a link");
        let record = v1::KeptOutputs {
            user: "ana".to_owned(),
            paths: ["none", "out", "result.txt", "way"].map(str::to_owned).to_vec(),
            since: 1,
            keep: Some(duration(Span::from_secs(60))),
            package: String::new(),
        };
        let text = serde_json::to_string(&record).expect("it is JSON");
        fs::write(directory.join(KEPT_FILE), text).expect("there is room");
    }

    /// What is sent of a path: the archive and what is left out, or the error.
    fn sent(files: &Files, path: &str, offset: u64) -> Result<(Vec<u8>, Vec<String>), String> {
        let instance: InstanceId = "1-0-1".parse().expect("an instance");
        let path = path.to_owned();
        let request = v1::ReadOutputsRequest { instance: Some(instance.into()), path, offset };
        let said = |status: Status| status.message().to_owned();
        let stream = read(files, &OutputReaders::new(), &request).map_err(said)?;
        let mut stream = stream.into_inner();
        let (mut archive, mut skipped) = (Vec::new(), Vec::new());
        while let Some(chunk) = stream.blocking_recv() {
            let chunk = chunk.map_err(said)?;
            archive.extend(chunk.data);
            skipped.extend(Some(chunk.skipped).filter(|skipped| !skipped.is_empty()));
        }
        Ok((archive, skipped))
    }

    #[test]
    fn outputs_are_sent_from_any_offset_and_no_link_is_followed() {
        let place = tempfile::tempdir().expect("a temporary directory");
        let files = Files::found(place.path(), Isolation::Rootless).expect("a directory");
        keep(&files, "1-0-1");
        let (whole, skipped) = sent(&files, "", 0).expect("it is sent");
        let outside = "a link to what is not copied with it";
        assert_eq!(skipped, [format!("out/shadow: {outside}"), format!("way: {outside}")]);
        for offset in [1, 512, 40_000, whole.len()] {
            let (rest, _) = sent(&files, "", offset as u64).expect("it is sent");
            assert!(rest == whole[offset..], "{offset}");
        }
        let to = tempfile::tempdir().expect("a temporary directory");
        let unpack = |bytes: &[u8], name: &str| {
            archive::unpack(bytes, &to.path().join(name), archive::Top::Any).expect("it is whole")
        };
        assert_eq!(unpack(&whole, "all").files, 2);
        assert_eq!(fs::read(to.path().join("all/out/link")).expect("a link").len(), 100_000);
        assert!(fs::symlink_metadata(to.path().join("all/out/shadow")).is_err());
        for path in ["result.txt", "./result.txt", "/home/task/result.txt"] {
            let (archive, _) = sent(&files, path, 0).expect("it is sent");
            unpack(&archive, "one");
            assert_eq!(fs::read_to_string(to.path().join("one")).expect("a file"), "result");
        }
        for (path, says) in [
            ("scratch", "'scratch' is no output of the task"),
            ("../kept.json", "'../kept.json' is no output of the task"),
            ("/etc/shadow", "'/etc/shadow' is no output of the task"),
            ("out/../../kept.json", "is no output of the task"),
            ("none", "the task has not left 'none': its job keeps none, out, result.txt, way"),
            ("way/shadow", "the task has not left 'way/shadow'"),
            ("out/b", "the task has not left 'out/b'"),
        ] {
            let said = sent(&files, path, 0).expect_err(path);
            assert!(said.contains(says), "{path}: {said}");
        }
        files.discard_outputs("1-0-1".parse().expect("an instance")).expect("it is removed");
        let said = sent(&files, "", 0).expect_err("it is gone");
        assert!(said.starts_with("the machine has no outputs of it any more"), "{said}");
    }
}
