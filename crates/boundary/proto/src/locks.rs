//! Lock sessions, locks and small files: `files.proto`.

use std::sync::Arc;

use cell::{
    AcquireLock, Content, DeleteFile, File, Holder, Lock, LockChange, LockSession, OpenLockSession,
    ReleaseLock, WriteFile,
};
use model::{FilePath, LockMode, LockSessionId, LogIndex, Sequencer, Time};

use crate::duration::duration;
use crate::error::{At, Fault, Malformed};
use crate::{read, v1};

/// A path.
pub(crate) fn path(text: &str, field: &str) -> Result<FilePath, Malformed> {
    text.parse::<FilePath>().map_err(Fault::from).field(field)
}

/// A sequencer.
pub(crate) fn sequencer(text: &str, field: &str) -> Result<Sequencer, Malformed> {
    text.parse::<Sequencer>().map_err(Fault::from).field(field)
}

/// A sequencer; an empty text means absence.
pub(crate) fn optional_sequencer(text: &str) -> Result<Option<Sequencer>, Malformed> {
    (!text.is_empty()).then(|| sequencer(text, "sequencer")).transpose()
}

pub(crate) fn sequencer_text(sequencer: Option<&Sequencer>) -> String {
    sequencer.map(ToString::to_string).unwrap_or_default()
}

impl From<LockChange> for v1::LockChange {
    fn from(change: LockChange) -> Self {
        match change {
            LockChange::Acquired => Self::LockAcquired,
            LockChange::Released => Self::LockReleased,
            LockChange::Expired => Self::LockExpired,
        }
    }
}

pub(crate) fn change(number: i32) -> Result<LockChange, Malformed> {
    let meaning = |change| match change {
        v1::LockChange::Unspecified => None,
        v1::LockChange::LockAcquired => Some(LockChange::Acquired),
        v1::LockChange::LockReleased => Some(LockChange::Released),
        v1::LockChange::LockExpired => Some(LockChange::Expired),
    };
    read::value(number, meaning, "change")
}

impl From<&OpenLockSession> for v1::OpenLockSession {
    fn from(open: &OpenLockSession) -> Self {
        Self { lease: Some(duration(open.lease)) }
    }
}

impl TryFrom<v1::OpenLockSession> for OpenLockSession {
    type Error = Malformed;

    fn try_from(open: v1::OpenLockSession) -> Result<Self, Malformed> {
        Ok(Self { lease: read::span(open.lease, "lease")? })
    }
}

impl From<&WriteFile> for v1::WriteFile {
    fn from(write: &WriteFile) -> Self {
        Self {
            path: write.path.to_string(),
            content: write.content.to_vec(),
            expected: write.expected.map(|generation| generation.0),
            session: write.session.map(|session| session.0),
            sequencer: sequencer_text(write.sequencer.as_ref()),
        }
    }
}

impl TryFrom<v1::WriteFile> for WriteFile {
    type Error = Malformed;

    fn try_from(write: v1::WriteFile) -> Result<Self, Malformed> {
        Ok(Self {
            path: path(&write.path, "path")?,
            content: write.content.into(),
            expected: write.expected.map(LogIndex),
            session: write.session.map(LockSessionId),
            sequencer: optional_sequencer(&write.sequencer)?,
        })
    }
}

impl From<&DeleteFile> for v1::DeleteFile {
    fn from(delete: &DeleteFile) -> Self {
        Self {
            path: delete.path.to_string(),
            expected: delete.expected.map(|generation| generation.0),
            sequencer: sequencer_text(delete.sequencer.as_ref()),
        }
    }
}

impl TryFrom<v1::DeleteFile> for DeleteFile {
    type Error = Malformed;

    fn try_from(delete: v1::DeleteFile) -> Result<Self, Malformed> {
        Ok(Self {
            path: path(&delete.path, "path")?,
            expected: delete.expected.map(LogIndex),
            sequencer: optional_sequencer(&delete.sequencer)?,
        })
    }
}

impl From<&AcquireLock> for v1::AcquireLock {
    fn from(acquire: &AcquireLock) -> Self {
        Self {
            path: acquire.path.to_string(),
            session: acquire.session.0,
            shared: acquire.mode == LockMode::Shared,
        }
    }
}

impl TryFrom<v1::AcquireLock> for AcquireLock {
    type Error = Malformed;

    fn try_from(acquire: v1::AcquireLock) -> Result<Self, Malformed> {
        Ok(Self {
            path: path(&acquire.path, "path")?,
            session: LockSessionId(acquire.session),
            mode: LockMode::shared(acquire.shared),
        })
    }
}

impl From<&ReleaseLock> for v1::ReleaseLock {
    fn from(release: &ReleaseLock) -> Self {
        Self { path: release.path.to_string(), session: release.session.0 }
    }
}

impl TryFrom<v1::ReleaseLock> for ReleaseLock {
    type Error = Malformed;

    fn try_from(release: v1::ReleaseLock) -> Result<Self, Malformed> {
        let session = LockSessionId(release.session);
        Ok(Self { path: path(&release.path, "path")?, session })
    }
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

impl From<&File> for v1::FileState {
    fn from(file: &File) -> Self {
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
        Self { path: file.path.to_string(), content, lock, changed: file.changed.0 }
    }
}

impl TryFrom<v1::FileState> for File {
    type Error = Malformed;

    fn try_from(file: v1::FileState) -> Result<Self, Malformed> {
        Ok(Self {
            path: path(&file.path, "path")?,
            content: read::optional(file.content, "content")?,
            lock: file.lock.map(Lock::from),
            changed: LogIndex(file.changed),
        })
    }
}

impl TryFrom<v1::FileContent> for Content {
    type Error = Malformed;

    fn try_from(content: v1::FileContent) -> Result<Self, Malformed> {
        Ok(Self {
            bytes: Arc::from(content.data),
            generation: LogIndex(content.generation),
            at: Time(content.time),
            by: read::name(&content.by, "by")?,
            session: content.session.map(LockSessionId),
        })
    }
}

impl From<v1::FileLock> for Lock {
    fn from(lock: v1::FileLock) -> Self {
        let holder = |holder: v1::LockHolder| Holder {
            session: LockSessionId(holder.session),
            generation: LogIndex(holder.generation),
            at: Time(holder.time),
        };
        let holders = lock.holders.into_iter().map(holder).collect();
        Self { mode: LockMode::shared(lock.shared), holders }
    }
}
