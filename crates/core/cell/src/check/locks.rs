//! Files, locks and lock sessions: an exclusive lock has one holder, the session of every holder
//! exists, and generations never go back.

use event::{Event, EventKind, LockChange};
use model::{LockMode, LogIndex};

use super::decision::Step;
use super::{Violation, Violations};
use crate::bounds::{
    FILE_BYTES_MAX, FILES_BYTES_MAX, FILES_MAX, LOCK_HOLDERS_MAX, LOCK_LEASE_MAX, LOCK_LEASE_MIN,
    LOCK_SESSIONS_MAX, LOCKS_OF_A_SESSION_MAX,
};
use crate::{Cell, File};

impl Cell {
    pub(super) fn check_locks(&self, found: &mut Violations) {
        let locks = &self.locks;
        for (path, file) in &locks.files {
            let wrong = |why| Violation::File { path: path.clone(), why };
            if file.path != *path {
                found.add(wrong("is under another path"));
            }
            if file.content.is_none() && file.lock.is_none() {
                found.add(wrong("has neither a content nor a lock"));
            }
            self.check_file(file, found);
        }
        for (id, session) in &locks.sessions {
            found.id("lock session", id.0, locks.last_session.0, true);
            if !(LOCK_LEASE_MIN..=LOCK_LEASE_MAX).contains(&session.lease)
                || session.renewed > self.time
            {
                found.add(Violation::LockSession(*id));
            }
            let held = locks.of_sessions.get(id).map_or(0, imbl::OrdSet::len);
            found.at_most("locks of a session", held, LOCKS_OF_A_SESSION_MAX);
        }
        if locks.rebuilt() != *locks {
            found.add(Violation::LockIndexes);
        }
        if locks.changed > self.index {
            found.add(Violation::LockIndexes);
        }
        for (what, has, bound) in [
            ("files", locks.held.files, FILES_MAX),
            ("lock sessions", locks.sessions.len() as u64, LOCK_SESSIONS_MAX),
            ("bytes of files", locks.held.bytes, FILES_BYTES_MAX),
        ] {
            let number = |of: u64| usize::try_from(of).unwrap_or(usize::MAX);
            found.at_most(what, number(has), number(bound.max()));
        }
    }

    fn check_file(&self, file: &File, found: &mut Violations) {
        let wrong = |why| Violation::File { path: file.path.clone(), why };
        let late = |generation: LogIndex| generation > file.changed || file.changed > self.index;
        if let Some(content) = &file.content {
            found.at_most("bytes of a file", content.bytes.len(), FILE_BYTES_MAX);
            if late(content.generation) {
                found.add(wrong("has a content of a later generation than its last change"));
            }
            if content.session.is_some_and(|id| self.lock_session(id).is_none()) {
                found.add(wrong("is ephemeral, and its session does not exist"));
            }
        }
        let Some(lock) = &file.lock else { return };
        found.at_most("holders of a lock", lock.holders.len(), LOCK_HOLDERS_MAX);
        if lock.holders.is_empty() || lock.mode == LockMode::Exclusive && lock.holders.len() > 1 {
            found.add(wrong("has a lock without a holder, or an exclusive one with several"));
        }
        if !lock.holders.is_sorted_by(|one, next| one.generation < next.generation) {
            found.add(wrong("has holders that are not in the order of their generations"));
        }
        for holder in &lock.holders {
            if self.lock_session(holder.session).is_none() {
                found.add(wrong("is locked by a session that does not exist"));
            }
            if late(holder.generation) {
                found.add(wrong("is locked at a later generation than its last change"));
            }
        }
    }
}

impl Step<'_> {
    /// A lock was given only to somebody who could have it, at a generation higher than any before.
    pub(super) fn locks(&mut self, events: &[Event]) {
        for event in events {
            let EventKind::Lock { path, mode, generation, change, .. } = &event.kind else {
                continue;
            };
            if *change != LockChange::Acquired {
                continue;
            }
            let shared = (LockMode::Shared, LockMode::Shared);
            let before = self.before.file(path).and_then(|file| file.lock.as_ref());
            if before.is_some_and(|lock| (lock.mode, *mode) != shared) {
                let why = "was locked although somebody else held the lock";
                self.found.add(Violation::File { path: path.clone(), why });
            }
            if *generation <= self.before.index() {
                let why = "was locked at a generation that is not new";
                self.found.add(Violation::File { path: path.clone(), why });
            }
        }
    }
}
