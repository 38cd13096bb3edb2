//! Requests of clients, each done at most once in its session.

use std::sync::Arc;

use model::{SessionId, UserName};

use super::{Events, ids_used_up};
use crate::state::bounds::SESSIONS_MAX;
use crate::{Cell, Mutation, Rejection, Reply, RequestId, Session};

impl Cell {
    pub(super) fn open_session(&mut self, user: &UserName) -> Result<Reply, Rejection> {
        let last = self.last_session.0;
        let id = SessionId(last.checked_add(1).ok_or_else(|| ids_used_up("session ids", last))?);
        while self.sessions.len() >= SESSIONS_MAX {
            let Some((used, oldest)) = self.sessions_by_use.get_min().copied() else { break };
            self.sessions_by_use.remove(&(used, oldest));
            self.sessions.remove(&oldest);
        }
        self.last_session = id;
        self.sessions.insert(id, Arc::new(Session::new(user.clone(), self.index)));
        self.sessions_by_use.insert((self.index, id));
        Ok(Reply::Session(id))
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
        let answer = self.mutate(by, mutation, events);
        let index = self.index;
        if let Some(session) = self.sessions.get_mut(&id.session) {
            let session = Arc::make_mut(session);
            self.sessions_by_use.remove(&(session.used, id.session));
            session.used = index;
            session.remember(id.sequence, answer.clone());
            self.sessions_by_use.insert((index, id.session));
        }
        answer
    }

    fn mutate(
        &mut self,
        by: &UserName,
        mutation: &Mutation,
        events: &mut Events,
    ) -> Result<Reply, Rejection> {
        if self.name.is_none() {
            return Err(Rejection::NotFounded);
        }
        match mutation {
            Mutation::Submit(spec) => self.submit(by, spec, events),
            Mutation::Kill { collection, tasks } => self.kill(by, *collection, tasks, events),
            Mutation::AddMachine { name, address } => self.add_machine(by, name, address, events),
            Mutation::DrainMachine { machine, reason } => {
                self.drain_machine(by, machine, reason, events)
            }
            Mutation::UndrainMachine { machine } => self.undrain_machine(by, machine, events),
            Mutation::RemoveMachine { machine } => self.remove_machine(by, machine, events),
            Mutation::SetAttributes { machine, changes } => {
                self.set_attributes(by, machine, changes, events)
            }
            Mutation::SetPlatform { platform, factor } => {
                self.set_platform(by, platform, *factor, events)
            }
        }
    }
}
