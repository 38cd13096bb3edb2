//! Requests of clients, each done at most once in its session.

use std::sync::Arc;

use model::{LogIndex, SessionId, UserName};

use super::quota::GrantRequest;
use super::{Events, ids_used_up};
use crate::state::bounds::{SESSIONS_MAX, SESSIONS_OF_A_USER_MAX};
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

    /// Keeps a session that is new, or that was closed to be changed.
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
        let answer = self.mutate(by, mutation, events);
        if let Some(mut session) = self.sessions.get(&id.session).cloned() {
            self.close_session(id.session);
            let changed = Arc::make_mut(&mut session);
            changed.used = self.index;
            changed.remember(id.sequence, answer.clone());
            self.keep_session(id.session, session);
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
            return Err(Rejection::NotBootstrapped);
        }
        match mutation {
            Mutation::Submit(spec) => self.submit(by, spec, events),
            Mutation::Kill(kill) => self.kill(by, kill, events),
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
            Mutation::AddUser { user, serial, validity } => {
                self.add_user(by, user, (*serial, *validity), events)
            }
            Mutation::RevokeUser { user } => self.revoke_user(by, user, events),
            Mutation::ResumeRescheduling => self.resume_rescheduling(by, events),
            Mutation::GrantQuota { user, band, amount, from, until } => {
                let (band, amount, from, until) = (*band, *amount, *from, *until);
                self.grant_quota(by, &GrantRequest { user, band, amount, from, until }, events)
            }
            Mutation::RevokeQuota { grant } => self.revoke_quota(by, *grant, events),
            Mutation::Oversell { band, percent } => self.oversell(by, *band, *percent, events),
            Mutation::MeterQuota { on } => self.meter_quota(by, *on, events),
            Mutation::UseCapability { capability, collection } => {
                self.use_capability(by, *capability, *collection, events)
            }
            Mutation::SetCapability { user, capability, granted } => {
                self.set_capability(by, user, *capability, *granted, events)
            }
            Mutation::IssueToken { machine, serial, validity } => {
                self.issue_token(by, machine, (*serial, *validity), events)
            }
            Mutation::IssueReplicaToken { replica, serial, validity } => {
                self.issue_replica_token(by, *replica, (*serial, *validity), events)
            }
            Mutation::RevokeMachine { machine } => self.revoke_machine(by, machine, events),
            Mutation::AddReplica { address } => self.add_replica(by, address, events),
            Mutation::RemoveReplica { replica } => self.remove_replica(by, *replica, events),
        }
    }
}
