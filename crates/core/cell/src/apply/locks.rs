//! Lock sessions, locks and small files: see [`crate::state`]. Waiting for a lock is the client's part:
//! an operation that cannot be done now is rejected.

use std::sync::Arc;

use event::{EventKind, LockChange, Subject};
use model::{FilePath, LockMode, LockSessionId, LogIndex, Sequencer, Span, UserName};

use super::capability::not_allowed;
use super::{Events, full};
use crate::apply::mutation::Change;
use crate::bounds::{
    FILE_BYTES_MAX, LOCK_HOLDERS_MAX, LOCK_LEASE_MAX, LOCK_LEASE_MIN, LOCK_SESSIONS_EXPIRED_MAX,
    LOCKS_OF_A_SESSION_MAX,
};
use crate::{
    Cell, Content, Countable, Holder, Lock, LockSession, OutOfBounds, Permission, Permitted,
    Rejection, Reply,
};

/// Open a lock session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenLockSession {
    /// How long it lasts after each renewal.
    pub lease: Span,
}

impl Change for OpenLockSession {
    fn within_bounds(&self) -> Result<(), Rejection> {
        match (LOCK_LEASE_MIN..=LOCK_LEASE_MAX).contains(&self.lease) {
            true => Ok(()),
            false => Err(Rejection::OutOfBounds(OutOfBounds::LockLease(self.lease))),
        }
    }

    fn allowed(&self, _: &Cell, _: &UserName) -> Result<(), Rejection> {
        Ok(())
    }

    fn apply(&self, cell: &mut Cell, by: &UserName, _: &mut Events) -> Result<Reply, Rejection> {
        self.within_bounds()?;
        let last = cell.locks.last_session.0;
        let next =
            last.checked_add(1).ok_or_else(|| super::ids_used_up(Countable::LockSessionIds, last));
        let id = LockSessionId(next?);
        cell.room_for_lock_session(by)?;
        let session = LockSession { user: by.clone(), lease: self.lease, renewed: cell.time };
        cell.locks.last_session = id;
        cell.locks.keep_session(id, session);
        Ok(Reply::LockSession(id))
    }
}

/// Renew the lease of a lock session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RenewLockSession {
    /// The session.
    pub session: LockSessionId,
}

impl Change for RenewLockSession {
    fn allowed(&self, cell: &Cell, by: &UserName) -> Result<(), Rejection> {
        cell.own_lock_session(self.session, by).map(drop)
    }

    fn apply(&self, cell: &mut Cell, by: &UserName, _: &mut Events) -> Result<Reply, Rejection> {
        let session = cell.own_lock_session(self.session, by)?;
        let renewed = LockSession { renewed: cell.time, ..LockSession::clone(session) };
        cell.locks.keep_session(self.session, renewed);
        Ok(Reply::Done)
    }
}

/// Close a lock session: its locks are released and its ephemeral files deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CloseLockSession {
    /// The session.
    pub session: LockSessionId,
}

impl Change for CloseLockSession {
    fn allowed(&self, cell: &Cell, by: &UserName) -> Result<(), Rejection> {
        cell.own_lock_session(self.session, by).map(drop)
    }

    fn apply(
        &self,
        cell: &mut Cell,
        by: &UserName,
        events: &mut Events,
    ) -> Result<Reply, Rejection> {
        cell.own_lock_session(self.session, by)?;
        cell.end_lock_session(self.session, LockChange::Released, events);
        Ok(Reply::Done)
    }
}

/// Write a file, which may be new.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriteFile {
    /// The file.
    pub path: FilePath,
    /// The new content.
    pub content: Arc<[u8]>,
    /// The generation that the content must have; 0: there must be none; `None`: any.
    pub expected: Option<LogIndex>,
    /// The session with which the content is deleted; `None` if it stays.
    pub session: Option<LockSessionId>,
    /// The lock that must be held, of this or another file.
    pub sequencer: Option<Sequencer>,
}

impl Change for WriteFile {
    fn within_bounds(&self) -> Result<(), Rejection> {
        let bytes = self.content.len();
        if bytes > FILE_BYTES_MAX {
            return Err(Rejection::OutOfBounds(OutOfBounds::FileBytes(bytes as u64)));
        }
        Ok(())
    }

    fn allowed(&self, cell: &Cell, by: &UserName) -> Result<(), Rejection> {
        cell.may_use_file(by, &self.path)
    }

    fn apply(&self, cell: &mut Cell, by: &UserName, _: &mut Events) -> Result<Reply, Rejection> {
        self.within_bounds()?;
        cell.check_write(by, &self.path, self.expected, self.sequencer.as_ref())?;
        if let Some(session) = self.session {
            cell.own_lock_session(session, by)?;
            cell.room_in_session(session, &self.path)?;
        }
        cell.room_for_content(by, &self.path, self.content.len() as u64)?;
        let mut file = cell.locks.file_or_new(&self.path, cell.index);
        file.content = Some(Content {
            bytes: Arc::clone(&self.content),
            generation: cell.index,
            at: cell.time,
            by: by.clone(),
            session: self.session,
        });
        cell.locks.put(file);
        Ok(Reply::FileGeneration(cell.index))
    }
}

/// Delete the content of a file. Its lock is unchanged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeleteFile {
    /// The file.
    pub path: FilePath,
    /// The generation that the content must have; `None`: any.
    pub expected: Option<LogIndex>,
    /// The lock that must be held, of this or another file.
    pub sequencer: Option<Sequencer>,
}

impl Change for DeleteFile {
    fn allowed(&self, cell: &Cell, by: &UserName) -> Result<(), Rejection> {
        cell.may_use_file(by, &self.path)
    }

    fn apply(&self, cell: &mut Cell, by: &UserName, _: &mut Events) -> Result<Reply, Rejection> {
        let mut file = cell.locks.file_or_new(&self.path, cell.index);
        if file.content.is_none() {
            return Err(Rejection::NoSuchFile(self.path.clone()));
        }
        cell.check_write(by, &self.path, self.expected, self.sequencer.as_ref())?;
        file.content = None;
        cell.locks.put(file);
        Ok(Reply::Done)
    }
}

/// Acquire the lock of a file, which need not have a content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AcquireLock {
    /// The file.
    pub path: FilePath,
    /// The session that is to hold it.
    pub session: LockSessionId,
    /// How.
    pub mode: LockMode,
}

impl Change for AcquireLock {
    fn allowed(&self, cell: &Cell, by: &UserName) -> Result<(), Rejection> {
        cell.may_use_file(by, &self.path)
    }

    fn apply(
        &self,
        cell: &mut Cell,
        by: &UserName,
        events: &mut Events,
    ) -> Result<Reply, Rejection> {
        let Self { path, session, mode } = self;
        cell.own_lock_session(*session, by)?;
        let mut file = cell.locks.file_or_new(path, cell.index);
        if let Some((held, holder)) = file.holder(*session) {
            if held == *mode {
                return Ok(Reply::FileGeneration(holder.generation));
            }
            let (path, session) = (path.clone(), *session);
            return Err(Rejection::LockHeld { path, session, mode: held });
        }
        if let Some(lock) = &file.lock
            && (lock.mode, *mode) != (LockMode::Shared, LockMode::Shared)
            && let Some(holder) = lock.holders.first()
        {
            let user = cell.lock_session(holder.session).map(|session| session.user.clone());
            return Err(Rejection::LockTaken {
                path: path.clone(),
                by: user.unwrap_or_else(|| by.clone()),
                session: holder.session,
                mode: lock.mode,
            });
        }
        let held = file.lock.as_ref().map_or(0, |lock| lock.holders.len());
        full(Countable::HoldersOf(path.clone()), held as u64, LOCK_HOLDERS_MAX as u64)?;
        cell.room_in_session(*session, path)?;
        if file.content.is_none() && file.lock.is_none() {
            cell.room_for_bare_lock(by, path)?;
        }
        let lock = file.lock.get_or_insert_with(|| Lock { mode: *mode, holders: Vec::new() });
        lock.holders.push(Holder { session: *session, generation: cell.index, at: cell.time });
        cell.locks.put(file);
        let kind = EventKind::Lock {
            path: path.clone(),
            user: by.clone(),
            session: *session,
            mode: *mode,
            generation: cell.index,
            change: LockChange::Acquired,
        };
        events.add(Subject::Cell, kind);
        Ok(Reply::FileGeneration(cell.index))
    }
}

/// Release a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReleaseLock {
    /// The file.
    pub path: FilePath,
    /// The session that holds it.
    pub session: LockSessionId,
}

impl Change for ReleaseLock {
    fn allowed(&self, cell: &Cell, by: &UserName) -> Result<(), Rejection> {
        cell.own_lock_session(self.session, by).map(drop)
    }

    fn apply(
        &self,
        cell: &mut Cell,
        by: &UserName,
        events: &mut Events,
    ) -> Result<Reply, Rejection> {
        let Self { path, session } = self;
        cell.own_lock_session(*session, by)?;
        if cell.file(path).and_then(|file| file.holder(*session)).is_none() {
            let (path, session) = (path.clone(), *session);
            return Err(Rejection::LockNotHeld { path, session });
        }
        cell.release(path, *session, by, LockChange::Released, events);
        Ok(Reply::Done)
    }
}

impl Cell {
    /// Whether a user may read and write a file and lock it: the user whose path it is, and
    /// administrators.
    ///
    /// # Errors
    /// With who may.
    pub fn may_use_file(&self, by: &UserName, path: &FilePath) -> Result<(), Rejection> {
        if path.is_of(by) || self.is_administrator(by) {
            return Ok(());
        }
        let who = match UserName::new(path.user()) {
            Ok(owner) => Permitted::OwnerOrAdministrators(owner),
            Err(_) => Permitted::Administrators,
        };
        Err(not_allowed(by, Permission::UseFile(path.clone()), who))
    }

    /// The lock session, if it exists and is the user's.
    fn own_lock_session(
        &self,
        id: LockSessionId,
        by: &UserName,
    ) -> Result<&LockSession, Rejection> {
        let session = self.lock_session(id).ok_or(Rejection::NoSuchLockSession(id))?;
        if session.user != *by {
            let who = Permitted::User(session.user.clone());
            return Err(not_allowed(by, Permission::UseLockSession(id), who));
        }
        Ok(session)
    }

    /// Rejects what depends on a lock that is not held any more.
    pub(super) fn holds_lock(&self, by: &UserName, sequencer: &Sequencer) -> Result<(), Rejection> {
        self.may_use_file(by, &sequencer.path)?;
        match self.is_current(sequencer) {
            true => Ok(()),
            false => Err(Rejection::StaleSequencer(sequencer.clone())),
        }
    }

    /// Rejects a write whose lock is not held, or that expects another generation.
    fn check_write(
        &self,
        by: &UserName,
        path: &FilePath,
        expected: Option<LogIndex>,
        sequencer: Option<&Sequencer>,
    ) -> Result<(), Rejection> {
        if let Some(sequencer) = sequencer {
            self.holds_lock(by, sequencer)?;
        }
        let content = self.file(path).and_then(|file| file.content.as_ref());
        let now = content.map_or(LogIndex(0), |content| content.generation);
        match expected {
            Some(expected) if expected != now => {
                Err(Rejection::FileChanged { path: path.clone(), expected, now })
            }
            _ => Ok(()),
        }
    }

    /// Rejects one more lock or ephemeral file of a session that has as many as it may.
    fn room_in_session(&self, id: LockSessionId, path: &FilePath) -> Result<(), Rejection> {
        let Some(files) = self.locks.of_sessions.get(&id).filter(|files| !files.contains(path))
        else {
            return Ok(());
        };
        let most = LOCKS_OF_A_SESSION_MAX as u64;
        full(Countable::LocksOf(id), files.len() as u64, most)
    }

    /// Releases a lock that the session holds.
    fn release(
        &mut self,
        path: &FilePath,
        session: LockSessionId,
        user: &UserName,
        change: LockChange,
        events: &mut Events,
    ) {
        let mut file = self.locks.file_or_new(path, self.index);
        let Some(mut lock) = file.lock.take() else { return };
        let mode = lock.mode;
        for holder in lock.holders.iter().filter(|holder| holder.session == session) {
            let kind = EventKind::Lock {
                path: path.clone(),
                user: user.clone(),
                session,
                mode,
                generation: holder.generation,
                change,
            };
            events.add(Subject::Cell, kind);
        }
        lock.holders.retain(|holder| holder.session != session);
        file.lock = (!lock.holders.is_empty()).then_some(lock);
        self.locks.put(file);
    }

    /// Ends a lock session: its locks are released and its ephemeral files deleted.
    fn end_lock_session(&mut self, id: LockSessionId, change: LockChange, events: &mut Events) {
        let Some(session) = self.lock_session(id).map(Arc::clone) else { return };
        let files = self.locks.of_sessions.get(&id).cloned().unwrap_or_default();
        for path in &files {
            self.release(path, id, &session.user, change, events);
            let mut file = self.locks.file_or_new(path, self.index);
            if file.content.as_ref().is_some_and(|content| content.session == Some(id)) {
                file.content = None;
                self.locks.put(file);
            }
        }
        self.locks.remove_session(id);
    }

    /// Ends lock sessions whose lease has passed. One that was renewed meanwhile is not ended.
    pub(super) fn expire_lock_sessions(&mut self, ids: &[LockSessionId], events: &mut Events) {
        for id in ids.iter().take(LOCK_SESSIONS_EXPIRED_MAX) {
            if self.lock_session(*id).is_some_and(|session| session.expires() <= self.time) {
                self.end_lock_session(*id, LockChange::Expired, events);
            }
        }
    }
}
