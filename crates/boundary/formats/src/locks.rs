//! Lock sessions, locks and small files: `files.proto`.

use std::sync::Arc;

use api::{At, Malformed, duration, read};
use cell::{
    AcquireLock, Content, DeleteFile, File, Holder, Lock, LockSession, OpenLockSession,
    ReleaseLock, WriteFile,
};
use model::{LockMode, LockSessionId, LogIndex, Time};

use api::locks::{optional_sequencer, path, sequencer_text};

use crate::v1;

/// The opening of a lock session.
pub(crate) fn open_session_message(open: &OpenLockSession) -> v1::OpenLockSession {
    v1::OpenLockSession { lease: Some(duration(open.lease)) }
}

/// Reads it.
pub(crate) fn open_session(open: v1::OpenLockSession) -> Result<OpenLockSession, Malformed> {
    Ok(OpenLockSession { lease: read::span(open.lease, "lease")? })
}

/// A write of a file.
pub(crate) fn write_message(write: &WriteFile) -> v1::WriteFile {
    v1::WriteFile {
        path: write.path.to_string(),
        content: write.content.to_vec(),
        expected: write.expected.map(|generation| generation.0),
        session: write.session.map(|session| session.0),
        sequencer: sequencer_text(write.sequencer.as_ref()),
    }
}

/// Reads it.
pub(crate) fn write(write: v1::WriteFile) -> Result<WriteFile, Malformed> {
    Ok(WriteFile {
        path: path(&write.path, "path")?,
        content: write.content.into(),
        expected: write.expected.map(LogIndex),
        session: write.session.map(LockSessionId),
        sequencer: optional_sequencer(&write.sequencer)?,
    })
}

/// A deletion of a file.
pub(crate) fn delete_message(delete: &DeleteFile) -> v1::DeleteFile {
    v1::DeleteFile {
        path: delete.path.to_string(),
        expected: delete.expected.map(|generation| generation.0),
        sequencer: sequencer_text(delete.sequencer.as_ref()),
    }
}

/// Reads it.
pub(crate) fn delete(delete: &v1::DeleteFile) -> Result<DeleteFile, Malformed> {
    Ok(DeleteFile {
        path: path(&delete.path, "path")?,
        expected: delete.expected.map(LogIndex),
        sequencer: optional_sequencer(&delete.sequencer)?,
    })
}

/// An acquisition of a lock.
pub(crate) fn acquire_message(acquire: &AcquireLock) -> v1::AcquireLock {
    v1::AcquireLock {
        path: acquire.path.to_string(),
        session: acquire.session.0,
        shared: acquire.mode == LockMode::Shared,
    }
}

/// Reads it.
pub(crate) fn acquire(acquire: &v1::AcquireLock) -> Result<AcquireLock, Malformed> {
    Ok(AcquireLock {
        path: path(&acquire.path, "path")?,
        session: LockSessionId(acquire.session),
        mode: LockMode::shared(acquire.shared),
    })
}

/// A release of a lock.
pub(crate) fn release_message(release: &ReleaseLock) -> v1::ReleaseLock {
    v1::ReleaseLock { path: release.path.to_string(), session: release.session.0 }
}

/// Reads it.
pub(crate) fn release(release: &v1::ReleaseLock) -> Result<ReleaseLock, Malformed> {
    let session = LockSessionId(release.session);
    Ok(ReleaseLock { path: path(&release.path, "path")?, session })
}

impl From<(LockSessionId, &LockSession)> for v1::LockSessionImage {
    fn from((id, session): (LockSessionId, &LockSession)) -> Self {
        let lease = Some(duration(session.lease));
        Self { id: id.0, user: session.user.to_string(), lease, renewed: session.renewed.0 }
    }
}

impl TryFrom<v1::LockSessionImage> for LockSession {
    type Error = Malformed;

    /// Without its id, which is stored next to it.
    fn try_from(session: v1::LockSessionImage) -> Result<Self, Malformed> {
        Ok(Self {
            user: read::name(&session.user, "user")?,
            lease: read::span(session.lease, "lease")?,
            renewed: Time(session.renewed),
        })
    }
}

/// A file and its lock.
#[must_use]
pub fn file_message(file: &File) -> v1::FileState {
    let content = file.content.as_ref().map(|content| v1::FileContent {
        data: content.bytes.to_vec(),
        generation: content.generation.0,
        time: content.at.0,
        by: content.by.to_string(),
        session: content.session.map(|session| session.0),
        size: u32::try_from(content.bytes.len()).unwrap_or(u32::MAX),
    });
    let holder = |holder: &Holder| v1::LockHolder {
        session: holder.session.0,
        generation: holder.generation.0,
        time: holder.at.0,
        user: String::new(),
    };
    let lock = file.lock.as_ref().map(|lock| v1::FileLock {
        shared: lock.mode == LockMode::Shared,
        holders: lock.holders.iter().map(holder).collect(),
    });
    v1::FileState { path: file.path.to_string(), content, lock, changed: file.changed.0 }
}

/// Reads it.
pub(crate) fn file(file: v1::FileState) -> Result<File, Malformed> {
    Ok(File {
        path: path(&file.path, "path")?,
        content: file.content.map(content).transpose().field("content")?,
        lock: file.lock.map(lock),
        changed: LogIndex(file.changed),
    })
}

fn content(content: v1::FileContent) -> Result<Content, Malformed> {
    Ok(Content {
        bytes: Arc::from(content.data),
        generation: LogIndex(content.generation),
        at: Time(content.time),
        by: read::name(&content.by, "by")?,
        session: content.session.map(LockSessionId),
    })
}

fn lock(lock: v1::FileLock) -> Lock {
    let holder = |holder: v1::LockHolder| Holder {
        session: LockSessionId(holder.session),
        generation: LogIndex(holder.generation),
        at: Time(holder.time),
    };
    let holders = lock.holders.into_iter().map(holder).collect();
    Lock { mode: LockMode::shared(lock.shared), holders }
}
