//! The outputs of one task: opened, read piece by piece, tried again.

use std::fs::File;
use std::io::{self, Read, Write as _};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use api::v1;
use archive::Copied;
use client::{Connection, Error};
use command::Failure;
use model::InstanceId;
use tokio::sync::mpsc;
use tonic::{Code, Status, Streaming};

use super::FetchProgress;
use super::place::{Partial, ResultsPlace};

/// How often a fetch that was cut goes on before it fails, and the pause before each.
const ATTEMPTS_MAX: u32 = 5;
const PAUSE: Duration = Duration::from_secs(1);

/// What was fetched of a task.
#[derive(Debug)]
pub(super) enum Fetched {
    /// Its outputs.
    New {
        copied: Copied,
        /// What is left out of them.
        left_out: Vec<String>,
        /// Why they are not in their package yet; empty if they become none.
        waits: String,
    },
    /// They were here already.
    IsHere,
    /// It has left nothing.
    Nothing,
    /// They are in this version of a package.
    InPackage(String),
    /// It has not ended.
    NotEnded,
}

/// Opens the outputs of a task, or a part of them; `None` if it has not ended.
pub(crate) async fn open_outputs(
    connection: &mut Connection,
    request: v1::OutputsRequest,
) -> Result<Option<(v1::OutputsBegin, Streaming<v1::OutputChunk>)>, Failure> {
    let opened = connection
        .stream(request, async |mut client, request| client.tasks.outputs(request).await)
        .await;
    let mut pieces = match opened {
        Ok(pieces) => pieces,
        Err(Error::Answer(status)) if status.code() == Code::FailedPrecondition => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let first = pieces.message().await?.and_then(|first| first.begin);
    let begin = first.ok_or_else(|| Failure::failed("error: the machine has sent nothing"))?;
    Ok(Some((begin, pieces)))
}

/// The pieces of an archive, as a thread reads them.
#[derive(Debug)]
pub(crate) struct Pieces {
    pieces: mpsc::Receiver<Vec<u8>>,
    piece: io::Cursor<Vec<u8>>,
}

impl Pieces {
    pub(crate) fn new(pieces: mpsc::Receiver<Vec<u8>>) -> Self {
        Self { pieces, piece: io::Cursor::default() }
    }
}

impl Read for Pieces {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let read = self.piece.read(buffer)?;
            if read > 0 || buffer.is_empty() {
                return Ok(read);
            }
            match self.pieces.blocking_recv() {
                Some(piece) => self.piece = io::Cursor::new(piece),
                None => return Ok(0),
            }
        }
    }
}

/// Fetches the outputs of tasks, one after the other.
pub(super) struct Fetching {
    pub(super) connection: Connection,
    pub(super) job: v1::JobAddress,
    pub(super) place: Arc<ResultsPlace>,
    pub(super) progress: Arc<FetchProgress>,
}

/// Why an attempt ended before the archive was complete.
enum Cut {
    /// The next attempt may go on.
    Now(Failure),
    /// No other one would do better.
    ForGood(Failure),
}

impl From<Failure> for Cut {
    fn from(failure: Failure) -> Self {
        Self::ForGood(failure)
    }
}

impl From<anyhow::Error> for Cut {
    fn from(error: anyhow::Error) -> Self {
        Self::ForGood(error.into())
    }
}

impl From<Status> for Cut {
    fn from(status: Status) -> Self {
        match status.code() {
            Code::Aborted | Code::Unavailable | Code::Unknown | Code::Cancelled => {
                Self::Now(status.into())
            }
            _ => Self::ForGood(status.into()),
        }
    }
}

impl Fetching {
    pub(super) async fn task(&mut self, task: u32) -> Result<Fetched, Failure> {
        let mut attempt = 1;
        loop {
            match self.attempt(task).await {
                Ok(fetched) => return Ok(fetched),
                Err(Cut::Now(_)) if attempt < ATTEMPTS_MAX => {}
                Err(Cut::Now(failure) | Cut::ForGood(failure)) => return Err(failure),
            }
            attempt += 1;
            tokio::time::sleep(PAUSE).await;
        }
    }

    async fn attempt(&mut self, task: u32) -> Result<Fetched, Cut> {
        let partial = self.place.partial(task)?;
        let request = v1::OutputsRequest {
            job: Some(self.job.clone()),
            task,
            path: String::new(),
            known: partial.as_ref().map(|partial| partial.instance.into()),
            offset: partial.as_ref().map_or(0, |partial| partial.bytes),
        };
        let opened = self
            .connection
            .stream(request, async |mut client, request| client.tasks.outputs(request).await)
            .await;
        let mut pieces = match opened {
            Ok(pieces) => pieces,
            Err(Error::Answer(status)) if status.code() == Code::FailedPrecondition => {
                return Ok(Fetched::NotEnded);
            }
            Err(Error::Answer(status)) => return Err(status.into()),
            Err(error) => return Err(Cut::Now(error.into())),
        };
        let unclear = || Cut::Now(Failure::failed("error: the machine has sent nothing"));
        let begin = pieces.message().await?.and_then(|first| first.begin).ok_or_else(unclear)?;
        let instance: InstanceId = begin.instance.ok_or_else(unclear)?.into();
        if self.place.is_done(task, instance) {
            return Ok(Fetched::IsHere);
        }
        if !begin.package.is_empty() {
            return Ok(Fetched::InPackage(begin.package));
        }
        if !begin.any {
            return Ok(Fetched::Nothing);
        }
        let partial = Partial { instance, bytes: begin.offset };
        let mut file = self.place.open_partial(task, &partial)?;
        let mut left_out = Vec::new();
        while let Some(piece) = pieces.message().await? {
            write(&mut file, &piece.data)?;
            let bytes = piece.data.len() as u64;
            self.progress.bytes.fetch_add(bytes, Ordering::Relaxed);
            if !piece.skipped.is_empty() {
                left_out.push(piece.skipped);
            }
        }
        drop(file);
        let place = Arc::clone(&self.place);
        let unpacked = tokio::task::spawn_blocking(move || place.unpack(task, instance)).await;
        let copied = unpacked.map_err(|error| Failure::failed(format!("error: {error}")))??;
        Ok(Fetched::New { copied, left_out, waits: begin.waits })
    }
}

fn write(file: &mut File, bytes: &[u8]) -> Result<(), Failure> {
    let written = file.write_all(bytes);
    written.map_err(|error| Failure::failed(format!("error: cannot write: {error}")))
}
