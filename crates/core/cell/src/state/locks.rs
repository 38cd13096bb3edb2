//! Small files and locks on them, for jobs: a lock service like Chubby.
//!
//! A file exists while it has a content or its lock is held. Generations are indices of the log, so they
//! never go back, even if a file is deleted and written again, or a cell continues after data loss.

use std::ops::Bound;
use std::sync::Arc;

use imbl::{OrdMap, OrdSet};
use model::{FilePath, LockMode, LockSessionId, LogIndex, Sequencer, Span, Time, UserName};

/// A small file, its lock, or both.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// Its path.
    pub path: FilePath,
    /// Its content; `None` if only its lock exists.
    pub content: Option<Content>,
    /// Its lock; `None` if it is free.
    pub lock: Option<Lock>,
    /// The index at which its content or its lock last changed.
    pub changed: LogIndex,
}

/// The content of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Content {
    /// The bytes.
    pub bytes: Arc<[u8]>,
    /// The index at which it was written.
    pub generation: LogIndex,
    /// When it was written.
    pub at: Time,
    /// Who wrote it.
    pub by: UserName,
    /// The session with which it is deleted, if it is ephemeral.
    pub session: Option<LockSessionId>,
}

/// A lock that is held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lock {
    /// How it is held.
    pub mode: LockMode,
    /// Its holders, oldest first: one if it is exclusive, at least one if it is shared.
    pub holders: Vec<Holder>,
}

/// A session that holds a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// The session.
    pub session: LockSessionId,
    /// The index at which it acquired the lock.
    pub generation: LogIndex,
    /// When it acquired the lock.
    pub at: Time,
}

/// A lock session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockSession {
    /// The user who opened it.
    pub user: UserName,
    /// How long it lasts after each renewal.
    pub lease: Span,
    /// When it was opened or last renewed.
    pub renewed: Time,
}

impl LockSession {
    /// The end of its lease. It ends no earlier, and later after a change of leader.
    #[must_use]
    pub fn expires(&self) -> Time {
        self.renewed + self.lease
    }
}

impl File {
    /// The bytes that it takes: those of its path and its content.
    fn size(&self) -> u64 {
        let content = self.content.as_ref().map_or(0, |content| content.bytes.len() as u64);
        self.path.bytes().saturating_add(content)
    }

    /// The sessions that hold its lock or its content.
    fn sessions(&self) -> impl Iterator<Item = LockSessionId> {
        let ephemeral = self.content.as_ref().and_then(|content| content.session);
        let holders = self.lock.iter().flat_map(|lock| &lock.holders);
        holders.map(|holder| holder.session).chain(ephemeral)
    }

    /// The holder with a session.
    #[must_use]
    pub fn holder(&self, session: LockSessionId) -> Option<(LockMode, &Holder)> {
        let lock = self.lock.as_ref()?;
        let holder = lock.holders.iter().find(|holder| holder.session == session)?;
        Some((lock.mode, holder))
    }
}

/// All files and lock sessions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Locks {
    pub(crate) files: OrdMap<FilePath, Arc<File>>,
    pub(crate) sessions: OrdMap<LockSessionId, Arc<LockSession>>,
    pub(crate) last_session: LockSessionId,
    /// The index at which a file last changed.
    pub(crate) changed: LogIndex,

    // Derived: recomputed when an image is loaded.
    /// What all users have.
    pub(crate) held: HeldFiles,
    /// What each user has; users without anything have no entry.
    pub(crate) held_by_users: OrdMap<Arc<str>, HeldFiles>,
    /// Number of lock sessions per user; users without any have no entry.
    pub(crate) sessions_of_users: OrdMap<UserName, u32>,
    /// The files that a session locks, or whose content is deleted with it; sessions without any have no
    /// entry.
    pub(crate) of_sessions: OrdMap<LockSessionId, OrdSet<FilePath>>,
    /// The sessions by the end of their lease.
    pub(crate) by_expiry: OrdSet<(Time, LockSessionId)>,
}

/// What users have of the lock service.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct HeldFiles {
    /// Files with a content.
    pub(crate) files: u64,
    /// Their size in bytes, paths included.
    pub(crate) bytes: u64,
    /// Locks of files without a content.
    pub(crate) bare_locks: u64,
}

impl HeldFiles {
    /// What a file takes.
    fn of(file: &File) -> Self {
        match file.content {
            Some(_) => Self { files: 1, bytes: file.size(), bare_locks: 0 },
            None => Self { files: 0, bytes: 0, bare_locks: 1 },
        }
    }

    fn plus(self, more: Self) -> Self {
        Self {
            files: self.files.saturating_add(more.files),
            bytes: self.bytes.saturating_add(more.bytes),
            bare_locks: self.bare_locks.saturating_add(more.bare_locks),
        }
    }

    fn minus(self, less: Self) -> Self {
        Self {
            files: self.files.saturating_sub(less.files),
            bytes: self.bytes.saturating_sub(less.bytes),
            bare_locks: self.bare_locks.saturating_sub(less.bare_locks),
        }
    }
}

/// Adds to a count, or subtracts from it and removes it at 0.
fn count<K: Ord + Clone>(counts: &mut OrdMap<K, u32>, of: K, more: bool) {
    let now = counts.get(&of).copied().unwrap_or_default();
    let then = if more { now.saturating_add(1) } else { now.saturating_sub(1) };
    if then == 0 {
        counts.remove(&of);
    } else {
        counts.insert(of, then);
    }
}

impl Locks {
    /// Replaces a file, or removes it if it has neither a content nor a lock.
    pub(crate) fn put(&mut self, file: File) {
        self.changed = self.changed.max(file.changed);
        if let Some(old) = self.files.remove(&file.path) {
            self.change_held(&old, HeldFiles::minus);
            for session in old.sessions() {
                let mut of_session = self.of_sessions.remove(&session).unwrap_or_default();
                of_session.remove(&old.path);
                if !of_session.is_empty() {
                    self.of_sessions.insert(session, of_session);
                }
            }
        }
        if file.content.is_none() && file.lock.is_none() {
            return;
        }
        self.change_held(&file, HeldFiles::plus);
        for session in file.sessions() {
            let mut of_session = self.of_sessions.remove(&session).unwrap_or_default();
            of_session.insert(file.path.clone());
            self.of_sessions.insert(session, of_session);
        }
        self.files.insert(file.path.clone(), Arc::new(file));
    }

    fn change_held(&mut self, file: &File, change: fn(HeldFiles, HeldFiles) -> HeldFiles) {
        let (user, of) = (file.path.user(), HeldFiles::of(file));
        self.held = change(self.held, of);
        let own = change(self.held_by(user), of);
        if own == HeldFiles::default() {
            self.held_by_users.remove(user);
        } else if let Some(kept) = self.held_by_users.get_mut(user) {
            *kept = own;
        } else {
            self.held_by_users.insert(user.into(), own);
        }
    }

    /// What a user has.
    pub(crate) fn held_by(&self, user: &str) -> HeldFiles {
        self.held_by_users.get(user).copied().unwrap_or_default()
    }

    /// A file to be changed, or a new one that has nothing yet.
    pub(crate) fn file_or_new(&self, path: &FilePath, changed: LogIndex) -> File {
        let new = || File { path: path.clone(), content: None, lock: None, changed };
        let file = self.files.get(path).map_or_else(new, |file| File::clone(file));
        File { changed, ..file }
    }

    /// Inserts a session, or replaces it.
    pub(crate) fn keep_session(&mut self, id: LockSessionId, session: LockSession) {
        self.remove_session(id);
        self.by_expiry.insert((session.expires(), id));
        count(&mut self.sessions_of_users, session.user.clone(), true);
        self.sessions.insert(id, Arc::new(session));
    }

    /// Removes a session, and nothing that it holds.
    pub(crate) fn remove_session(&mut self, id: LockSessionId) -> Option<Arc<LockSession>> {
        let session = self.sessions.remove(&id)?;
        self.by_expiry.remove(&(session.expires(), id));
        count(&mut self.sessions_of_users, session.user.clone(), false);
        Some(session)
    }

    /// Whether the lock of a sequencer is still held by the holder that it was issued to.
    pub(crate) fn is_valid(&self, sequencer: &Sequencer) -> bool {
        let lock = self.files.get(&sequencer.path).and_then(|file| file.lock.as_ref());
        lock.is_some_and(|lock| {
            let same = |holder: &Holder| holder.generation == sequencer.generation;
            lock.mode == sequencer.mode && lock.holders.iter().any(same)
        })
    }

    /// The same files and sessions with everything derived computed anew.
    pub(crate) fn rebuilt(&self) -> Self {
        let mut rebuilt = Self { last_session: self.last_session, ..Self::default() };
        for file in self.files.values() {
            rebuilt.put(File::clone(file));
        }
        for (id, session) in &self.sessions {
            rebuilt.keep_session(*id, LockSession::clone(session));
        }
        rebuilt.changed = self.changed;
        rebuilt
    }
}

impl crate::Cell {
    /// A file.
    #[must_use]
    pub fn file(&self, path: &FilePath) -> Option<&Arc<File>> {
        self.locks.files.get(path)
    }

    /// The files whose path begins with a text, by path.
    pub fn files_below<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = &'a Arc<File>> {
        let from = (Bound::Included(prefix), Bound::Unbounded);
        let files = self.locks.files.range::<_, str>(from).map(|(_, file)| file);
        files.take_while(move |file| file.path.as_str().starts_with(prefix))
    }

    /// A lock session.
    #[must_use]
    pub fn lock_session(&self, id: LockSessionId) -> Option<&Arc<LockSession>> {
        self.locks.sessions.get(&id)
    }

    /// The lock sessions by the end of their lease.
    pub fn lock_sessions_by_expiry(&self) -> impl Iterator<Item = (Time, LockSessionId)> {
        self.locks.by_expiry.iter().copied()
    }

    /// Whether the lock of a sequencer is still held by the holder that acquired it at that generation.
    #[must_use]
    pub fn is_current(&self, sequencer: &Sequencer) -> bool {
        self.locks.is_valid(sequencer)
    }

    /// The index at which a file or a lock last changed.
    #[must_use]
    pub fn files_changed(&self) -> LogIndex {
        self.locks.changed
    }

    /// Number of files, locks without a content included, their size, and the number of lock sessions.
    #[must_use]
    pub fn file_totals(&self) -> (usize, u64, usize) {
        (self.locks.files.len(), self.locks.held.bytes, self.locks.sessions.len())
    }
}
