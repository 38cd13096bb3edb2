//! One blob on its way from a registry into a directory. Its bytes are hashed and counted while they arrive; a
//! download that breaks continues behind what is there.

use std::io::SeekFrom;
use std::path::PathBuf;

use hyper::StatusCode;
use hyper::header::{CONTENT_LENGTH, CONTENT_RANGE, HeaderMap};
use tokio::fs::{self, File, OpenOptions};
use tokio::io::{AsyncSeekExt as _, AsyncWriteExt as _};

use crate::digest::BlobHasher;
use crate::error::RegistryError;
use crate::exchange::Reply;
use crate::layout::{HashedBytes, Layout, hash};
use crate::manifest::Descriptor;
use crate::progress::DownloadTally;
use crate::session::ImageSession;

/// How many bytes an attempt has to bring so that it does not count as one that failed.
const PROGRESS_BYTES: u64 = 1 << 20;

/// Fetches a blob, unless it is there.
pub(crate) async fn fetch(
    session: &ImageSession,
    layout: &Layout,
    blob: &Descriptor,
    tally: &DownloadTally,
) -> Result<(), RegistryError> {
    if layout.has(blob.digest, blob.size).await? {
        tally.add(blob.size);
    } else {
        receive(session, layout, blob, tally).await?;
    }
    tally.finish_blob();
    Ok(())
}

async fn receive(
    session: &ImageSession,
    layout: &Layout,
    blob: &Descriptor,
    tally: &DownloadTally,
) -> Result<(), RegistryError> {
    let mut partial = PartialBlob::open(layout, blob, tally).await?;
    let mut attempt = 1;
    // The most that was there: what a server lets break and begin anew is no progress.
    let mut most = partial.length;
    loop {
        let Some(error) = partial.attempt(session).await? else {
            return partial.finish(layout).await;
        };
        if partial.length >= most.saturating_add(PROGRESS_BYTES) {
            (most, attempt) = (partial.length, 1);
        }
        if !session.transport().wait(attempt, None).await {
            return Err(error);
        }
        attempt += 1;
    }
}

/// A blob of which a part is there.
struct PartialBlob<'a> {
    blob: &'a Descriptor,
    tally: &'a DownloadTally,
    path: PathBuf,
    file: File,
    hasher: BlobHasher,
    /// How many bytes are there, written and hashed.
    length: u64,
    /// Whether some of them are of another attempt.
    continued: bool,
}

impl<'a> PartialBlob<'a> {
    async fn open(
        layout: &Layout,
        blob: &'a Descriptor,
        tally: &'a DownloadTally,
    ) -> Result<Self, RegistryError> {
        let path = layout.partial(blob.digest);
        let opened = async {
            let mut options = OpenOptions::new();
            let mut file =
                options.read(true).write(true).create(true).truncate(false).open(&path).await?;
            if file.metadata().await?.len() > blob.size {
                file.set_len(0).await?;
            }
            let hashed = hash(&mut file).await?;
            std::io::Result::Ok((file, hashed))
        };
        let (file, HashedBytes { hasher, length }) =
            opened.await.map_err(|error| RegistryError::of_file("open", &path, &error))?;
        tally.add(length);
        Ok(Self { blob, tally, path, file, hasher, length, continued: length > 0 })
    }

    /// Fetches what is missing, and checks all of it. Returns the error if another attempt may succeed.
    async fn attempt(
        &mut self,
        session: &ImageSession,
    ) -> Result<Option<RegistryError>, RegistryError> {
        self.continued = self.length > 0;
        let mut url = self.path.display().to_string();
        if self.length < self.blob.size {
            let mut reply = self.ask(session).await?;
            url = reply.url();
            let received = self.append(&mut reply).await;
            // What is counted is in the file also if the rest is not.
            self.file.flush().await.map_err(|error| self.failed("write", &error))?;
            match received {
                Ok(()) => {}
                Err(error) if error.may_pass() || self.is_short(&error) => return Ok(Some(error)),
                Err(error) => {
                    if matches!(error, RegistryError::Length { .. }) {
                        self.restart().await?;
                    }
                    return Err(error);
                }
            }
        }
        let (expected, found) = (self.blob.digest, self.hasher.clone().finish());
        if found == expected {
            return Ok(None);
        }
        // What was there before may be what is wrong.
        let again = self.continued;
        self.restart().await?;
        let error = RegistryError::WrongDigest { url, expected, found };
        if again { Ok(Some(error)) } else { Err(error) }
    }

    /// Asks for what is missing, or for all of it if the registry cannot continue.
    async fn ask(&mut self, session: &ImageSession) -> Result<Reply, RegistryError> {
        let reply = session.blob(self.blob.digest, self.length).await?;
        if self.length == 0 || continues(&reply, self.length) {
            return Ok(reply);
        }
        self.restart().await?;
        match reply.status() {
            StatusCode::OK => Ok(reply),
            _ => session.blob(self.blob.digest, 0).await,
        }
    }

    /// Whether an error only says that bytes are missing.
    fn is_short(&self, error: &RegistryError) -> bool {
        matches!(error, RegistryError::Length { found, .. } if *found < self.blob.size)
    }

    async fn append(&mut self, reply: &mut Reply) -> Result<(), RegistryError> {
        let expected = self.blob.size;
        let of_length =
            |reply: &Reply, found| RegistryError::Length { url: reply.url(), expected, found };
        let announced = number(reply.headers().get(CONTENT_LENGTH))
            .map(|rest| self.length.saturating_add(rest));
        if let Some(found) = announced.filter(|found| *found > expected) {
            return Err(of_length(reply, found));
        }
        while let Some(bytes) = reply.next().await? {
            let found = self.length + bytes.len() as u64;
            if found > expected {
                return Err(of_length(reply, found));
            }
            self.file.write_all(&bytes).await.map_err(|error| self.failed("write", &error))?;
            self.hasher.update(&bytes);
            self.length = found;
            self.tally.add(bytes.len() as u64);
        }
        match self.length == expected {
            true => Ok(()),
            false => Err(of_length(reply, self.length)),
        }
    }

    /// Forgets what is there.
    async fn restart(&mut self) -> Result<(), RegistryError> {
        self.file.set_len(0).await.map_err(|error| self.failed("write", &error))?;
        let begin = self.file.seek(SeekFrom::Start(0)).await;
        begin.map_err(|error| self.failed("write", &error))?;
        self.tally.take(self.length);
        (self.hasher, self.length, self.continued) = (BlobHasher::new(), 0, false);
        Ok(())
    }

    /// Gives the blob its final name.
    async fn finish(self, layout: &Layout) -> Result<(), RegistryError> {
        self.file.sync_all().await.map_err(|error| self.failed("write", &error))?;
        let to = layout.blob(self.blob.digest);
        let renamed = fs::rename(&self.path, &to).await;
        renamed.map_err(|error| RegistryError::of_file("write", &to, &error))
    }

    fn failed(&self, action: &'static str, error: &std::io::Error) -> RegistryError {
        RegistryError::of_file(action, &self.path, error)
    }
}

/// Whether a response continues at a byte.
fn continues(reply: &Reply, at: u64) -> bool {
    reply.status() == StatusCode::PARTIAL_CONTENT && begin(reply.headers()) == Some(at)
}

/// The first byte of a `Content-Range: bytes FIRST-LAST/LENGTH`.
fn begin(headers: &HeaderMap) -> Option<u64> {
    let range = headers.get(CONTENT_RANGE)?.to_str().ok()?.trim();
    range.strip_prefix("bytes ")?.split('-').next()?.trim().parse().ok()
}

fn number(value: Option<&hyper::header::HeaderValue>) -> Option<u64> {
    value?.to_str().ok()?.trim().parse().ok()
}
