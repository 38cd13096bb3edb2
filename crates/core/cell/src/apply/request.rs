//! Requests of clients, each applied at most once in its session.

use std::sync::Arc;

use model::{LogIndex, SessionId, UserName};

use super::{Events, ids_used_up};
use crate::bounds::{SESSIONS_MAX, SESSIONS_OF_A_USER_MAX};
use crate::{Cell, Mutation, Rejection, Reply, RequestId, Session};

impl Cell {
    pub(super) fn open_session(&mut self, user: &UserName) -> Result<Reply, Rejection> {
        let last = self.last_session.0;
        let id = SessionId(last.checked_add(1).ok_or_else(|| ids_used_up("session ids", last))?);
        let first = (user.clone(), LogIndex(0), SessionId(0));
        let own = || {
            let after = self.sessions_of_users.range(first.clone()..);
            after.take_while(|(owner, ..)| owner == user)
        };
        if own().take(SESSIONS_OF_A_USER_MAX).count() >= SESSIONS_OF_A_USER_MAX
            && let Some((_, _, oldest)) = own().next().cloned()
        {
            self.close_session(oldest);
        }
        while self.sessions.len() >= SESSIONS_MAX {
            let Some((_, oldest)) = self.sessions_by_use.get_min().copied() else { break };
            self.close_session(oldest);
        }
        self.last_session = id;
        self.keep_session(id, Session::new(user.clone(), self.index));
        Ok(Reply::Session(id))
    }

    fn close_session(&mut self, id: SessionId) {
        let Some(session) = self.sessions.remove(&id) else { return };
        self.sessions_by_use.remove(&(session.used, id));
        self.sessions_of_users.remove(&(session.user.clone(), session.used, id));
    }

    /// Inserts a session that is new, or that was removed to be changed.
    pub(crate) fn keep_session(&mut self, id: SessionId, session: impl Into<Arc<Session>>) {
        let session = session.into();
        self.sessions_by_use.insert((session.used, id));
        self.sessions_of_users.insert((session.user.clone(), session.used, id));
        self.sessions.insert(id, session);
    }

    pub(super) fn request(
        &mut self,
        id: RequestId,
        by: &UserName,
        mutation: &Mutation,
        events: &mut Events,
    ) -> Result<Reply, Rejection> {
        let session = self.sessions.get(&id.session).ok_or(Rejection::NoSuchSession(id.session))?;
        if session.user != *by {
            let (owner, by) = (session.user.clone(), by.clone());
            return Err(Rejection::ForeignSession { session: id.session, owner, by });
        }
        if let Some(answer) = session.answers.get(&id.sequence) {
            return answer.clone();
        }
        if id.sequence <= session.forgotten {
            return Err(Rejection::AnswerForgotten { sequence: id.sequence });
        }
        let answer = self.mutate(by, mutation.change(), events);
        if let Some(mut session) = self.sessions.get(&id.session).cloned() {
            self.close_session(id.session);
            let changed = Arc::make_mut(&mut session);
            changed.used = self.index;
            changed.remember(id.sequence, answer.clone());
            self.keep_session(id.session, session);
        }
        answer
    }
}
