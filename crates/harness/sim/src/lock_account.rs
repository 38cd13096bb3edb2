//! Locks as their holders see them: no two believe to hold one at the same time, and nothing is written with
//! the sequencer of a holder after a later one has written.
//!
//! A holder believes that it has a lock until it asks to release it, or a lease has passed since it asked
//! for the last renewal that was answered.

use std::collections::BTreeMap;

use cell::{Mutation, Reply};
use model::{FilePath, LockMode, LockSessionId, LogIndex, Sequencer, Span, Time};

/// The writes that are remembered for each path.
const WRITES_MAX: usize = 200;

/// What clients know of locks.
#[derive(Debug, Default)]
pub(crate) struct LockAccount {
    sessions: BTreeMap<LockSessionId, LockSession>,
    /// Who believes to hold each lock.
    held: BTreeMap<FilePath, Vec<(LockSessionId, LockMode)>>,
    /// With which lock each path was written, by the generation of the content.
    writes: BTreeMap<FilePath, BTreeMap<LogIndex, Sequencer>>,
}

#[derive(Debug)]
struct LockSession {
    lease: Span,
    /// The end of the lease, as its client knows it.
    until: Time,
}

impl LockAccount {
    /// The cell was restored from a backup.
    pub(crate) fn restored(&mut self) {
        *self = Self::default();
    }

    /// A client asks for something: from now on it does not count on what it gives back.
    pub(crate) fn asked(&mut self, mutation: &Mutation) {
        match mutation {
            Mutation::ReleaseLock(release) => {
                if let Some(held) = self.held.get_mut(&release.path) {
                    held.retain(|(session, _)| *session != release.session);
                }
            }
            Mutation::CloseLockSession(close) => self.end(close.session),
            _ => {}
        }
    }

    fn end(&mut self, id: LockSessionId) {
        self.sessions.remove(&id);
        self.held.values_mut().for_each(|held| held.retain(|(session, _)| *session != id));
    }

    /// A client, which had asked `since` then, is answered now.
    ///
    /// # Errors
    /// With what must not be.
    pub(crate) fn answered(
        &mut self,
        since: Time,
        now: Time,
        mutation: &Mutation,
        reply: &Reply,
    ) -> Result<(), String> {
        match (mutation, reply) {
            (Mutation::OpenLockSession(open), Reply::LockSession(id)) => {
                let lease = open.lease;
                self.sessions.insert(*id, LockSession { lease, until: since + lease });
            }
            (Mutation::RenewLockSession(renew), _) => {
                if let Some(session) = self.sessions.get_mut(&renew.session) {
                    session.until = session.until.max(since + session.lease);
                }
            }
            (Mutation::AcquireLock(acquire), _) => {
                return self.acquired(now, &acquire.path, acquire.session, acquire.mode);
            }
            (Mutation::WriteFile(write), Reply::FileGeneration(generation)) => {
                if let Some(sequencer) = &write.sequencer {
                    return self.written(&write.path, *generation, sequencer);
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn acquired(
        &mut self,
        now: Time,
        path: &FilePath,
        id: LockSessionId,
        mode: LockMode,
    ) -> Result<(), String> {
        let sessions = &self.sessions;
        let lasts = |id: &LockSessionId| sessions.get(id).is_some_and(|it| it.until > now);
        if !lasts(&id) {
            // The answer came too late to count on it.
            return Ok(());
        }
        let held = self.held.entry(path.clone()).or_default();
        held.retain(|(session, _)| *session != id && lasts(session));
        let other =
            held.iter().find(|(_, other)| (mode, *other) != (LockMode::Shared, LockMode::Shared));
        if let Some((other, _)) = other {
            return Err(format!(
                "the lock of {path} is given to session {id} while {other} has it"
            ));
        }
        held.push((id, mode));
        Ok(())
    }

    fn written(&mut self, path: &FilePath, at: LogIndex, with: &Sequencer) -> Result<(), String> {
        let writes = self.writes.entry(path.clone()).or_default();
        writes.insert(at, with.clone());
        while writes.len() > WRITES_MAX {
            writes.pop_first();
        }
        // Those who share a lock write in any order.
        let excludes =
            |other: &Sequencer| (other.mode, with.mode) != (LockMode::Shared, LockMode::Shared);
        let wrong = writes.iter().find(|(other_at, other)| {
            excludes(other)
                && at.cmp(other_at) != with.generation.cmp(&other.generation)
                && other.generation != with.generation
        });
        match wrong {
            None => Ok(()),
            Some((other_at, other)) => Err(format!(
                "{path} was written at {at} with {with}, and at {other_at} with {other}"
            )),
        }
    }
}
