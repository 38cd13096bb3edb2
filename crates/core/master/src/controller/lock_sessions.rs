//! Lock sessions whose lease has passed are ended. A new leader gives each session a whole lease from
//! the beginning of its lead: its clients could not renew it while nobody led.

use cell::bounds::{LOCK_LEASE_MIN, LOCK_SESSIONS_EXPIRED_MAX};
use cell::{Cell, Mutation, Op};
use model::{LockSessionId, MachineId, Time};

use super::updates::earliest;
use super::{Controller, Turn};
use crate::Action;

/// How many operations it proposes at once.
const OPERATIONS_MAX: usize = 8;

/// When it looks at the sessions next.
#[derive(Clone, Debug)]
pub(crate) struct LockSessions {
    /// When this leader began to lead.
    since: Time,
    next: Option<Time>,
}

impl LockSessions {
    pub(crate) fn new(now: Time) -> Self {
        Self { since: now, next: Some(now) }
    }

    /// The end of a session's lease under this leader.
    fn end(&self, cell: &Cell, id: LockSessionId) -> Option<Time> {
        let session = cell.lock_session(id)?;
        Some(session.renewed.max(self.since) + session.lease)
    }
}

impl Controller for LockSessions {
    fn name(&self) -> &'static str {
        "lock-sessions"
    }

    fn due(&self) -> Option<Time> {
        self.next
    }

    fn run(&mut self, turn: &mut Turn<'_>) {
        let Turn { now, cell, settings, actions } = turn;
        if self.next.is_none_or(|next| next > *now) {
            return;
        }
        self.next = None;
        let mut ended = Vec::new();
        for (expires, id) in cell.lock_sessions_by_expiry() {
            if expires > *now {
                self.next = earliest(self.next, Some(expires));
                break;
            }
            match self.end(cell, id) {
                Some(end) if end <= *now => ended.push(id),
                end => self.next = earliest(self.next, end),
            }
            if ended.len() >= LOCK_SESSIONS_EXPIRED_MAX * OPERATIONS_MAX {
                break;
            }
        }
        for sessions in ended.chunks(LOCK_SESSIONS_EXPIRED_MAX) {
            let sessions = sessions.to_vec();
            actions.push(Action::Propose(Op::ExpireLockSessions { sessions }));
            self.next = earliest(self.next, Some(*now + settings.propose_again));
        }
    }

    fn applied(&mut self, now: Time, _: &Cell, op: &Op, _: &[MachineId]) {
        if let Op::Request { mutation: Mutation::OpenLockSession(_), .. } = op {
            // No lease is shorter.
            self.next = earliest(self.next, Some(now + LOCK_LEASE_MIN));
        }
    }
}
