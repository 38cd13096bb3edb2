//! Requests of clients, each applied at most once in its session.

use std::sync::Arc;

use model::{LogIndex, RequestId, SessionId, UserName};

use super::{Events, ids_used_up};
use crate::bounds::{SESSIONS_MAX, SESSIONS_OF_A_USER_MAX};
use crate::{Cell, Countable, Mutation, Rejection, Reply, Session};

impl Cell {
    pub(super) fn open_session(&mut self, user: &UserName) -> Result<Reply, Rejection> {
        let last = self.last_session.0;
        let id =
            SessionId(last.checked_add(1).ok_or_else(|| ids_used_up(Countable::SessionIds, last))?);
        let oldest = self.own_sessions(user).next();
        if let Some(oldest) = oldest
            && self.own_sessions(user).count() >= SESSIONS_OF_A_USER_MAX
        {
            self.close_session(oldest);
        }
        while self.sessions.len() >= SESSIONS_MAX {
            let Some(oldest) = self.oldest_session_of_most() else { break };
            self.close_session(oldest);
        }
        self.last_session = id;
        self.add_session(id, Session::new(user.clone(), self.index));
        Ok(Reply::Session(id))
    }

    /// The sessions of a user, least recently used first.
    pub(crate) fn own_sessions(&self, user: &UserName) -> impl Iterator<Item = SessionId> {
        let after = self.sessions_of_users.range((user.clone(), LogIndex(0), SessionId(0))..);
        after.take_while(move |(owner, ..)| owner == user).map(|(_, _, id)| *id)
    }

    /// The least recently used session of the user who has most; of all, if nobody has several.
    fn oldest_session_of_most(&self) -> Option<SessionId> {
        match self.users_by_sessions.get_max() {
            Some((number, user)) if *number > 1 => self.own_sessions(user).next(),
            _ => self.sessions_by_use.get_min().map(|(_, oldest)| *oldest),
        }
    }

    fn close_session(&mut self, id: SessionId) {
        let Some(session) = self.take_session(id) else { return };
        let left = self.own_sessions(&session.user).count();
        self.users_by_sessions.remove(&(left + 1, session.user.clone()));
        if left > 0 {
            self.users_by_sessions.insert((left, session.user.clone()));
        }
    }

    /// Inserts a new session.
    pub(crate) fn add_session(&mut self, id: SessionId, session: impl Into<Arc<Session>>) {
        let session = session.into();
        let before = self.own_sessions(&session.user).count();
        self.users_by_sessions.remove(&(before, session.user.clone()));
        self.users_by_sessions.insert((before + 1, session.user.clone()));
        self.keep_session(id, session);
    }

    /// Removes a session that is closed, or inserted again changed.
    fn take_session(&mut self, id: SessionId) -> Option<Arc<Session>> {
        let session = self.sessions.remove(&id)?;
        self.sessions_by_use.remove(&(session.used, id));
        self.sessions_of_users.remove(&(session.user.clone(), session.used, id));
        Some(session)
    }

    fn keep_session(&mut self, id: SessionId, session: Arc<Session>) {
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
        if let Some(mut session) = self.take_session(id.session) {
            let changed = Arc::make_mut(&mut session);
            changed.used = self.index;
            changed.remember(id.sequence, answer.clone());
            self.keep_session(id.session, session);
        }
        answer
    }
}
