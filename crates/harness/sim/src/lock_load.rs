//! The part of a load that uses locks: sessions of several users that want the same locks, renew their
//! leases, write with their sequencers, and sometimes pause for longer than their lease and write then.

use cell::{
    AcquireLock, CloseLockSession, Mutation, OpenLockSession, Rejection, ReleaseLock,
    RenewLockSession, Reply, WriteFile,
};
use model::{FilePath, LockMode, LockSessionId, Random, Sequencer, Span, Time, UserName};

use crate::load::Action;

/// How often one of the sessions does something, per thousand actions of the load.
const OFTEN: u64 = 300;

/// The users of locks.
#[derive(Debug)]
pub(crate) struct LockUsers {
    random: Random,
    users: Vec<LockUser>,
}

/// One process that uses a lock.
#[derive(Debug)]
struct LockUser {
    /// Its user, by number.
    client: usize,
    path: FilePath,
    mode: LockMode,
    session: Option<(LockSessionId, Span)>,
    /// The lock that it believes to hold.
    held: Option<Sequencer>,
    /// What it has asked for.
    asked: Option<Mutation>,
    /// It does nothing until then, and writes after that.
    paused: Option<Time>,
}

impl LockUsers {
    /// Several processes of the second user, one of the administrator, who may use the same paths, and
    /// some readers, who share another lock.
    pub(crate) fn new(users: &[UserName], random: Random) -> Self {
        let path = |name: &str| format!("/{}/{name}", users.get(1)?).parse::<FilePath>().ok();
        let (Some(leader), Some(shared)) = (path("leader"), path("shared")) else {
            return Self { random, users: Vec::new() };
        };
        let of = |client, path: &FilePath, mode| LockUser {
            client,
            path: path.clone(),
            mode,
            session: None,
            held: None,
            asked: None,
            paused: None,
        };
        let users = vec![
            of(0, &leader, LockMode::Exclusive),
            of(1, &leader, LockMode::Exclusive),
            of(1, &leader, LockMode::Exclusive),
            of(0, &shared, LockMode::Exclusive),
            of(1, &shared, LockMode::Shared),
            of(1, &shared, LockMode::Shared),
        ];
        Self { random, users }
    }

    /// What they do now.
    pub(crate) fn actions(&mut self, now: Time) -> Vec<Action> {
        let Self { random, users } = self;
        let acting = users.iter_mut().filter(|user| user.asked.is_none());
        let acting = acting.filter_map(|user| {
            let mutation = random.chance(OFTEN).then(|| user.next(now, random))??;
            user.asked = Some(mutation.clone());
            Some(Action::Request(user.client, mutation))
        });
        acting.collect()
    }

    /// A request of a user was answered.
    pub(crate) fn answered(&mut self, what: &Mutation, answer: &Result<Reply, Rejection>) {
        let asking = self.users.iter_mut().find(|user| user.asked.as_ref() == Some(what));
        if let Some(user) = asking {
            user.asked = None;
            user.answered(what, answer);
        }
    }
}

impl LockUser {
    fn next(&mut self, now: Time, random: &mut Random) -> Option<Mutation> {
        if self.paused.is_some_and(|until| now < until) {
            return None;
        }
        let Some((session, lease)) = self.session else {
            let lease = Span::from_secs(random.within(10..60));
            return Some(OpenLockSession { lease }.into());
        };
        let Some(sequencer) = self.held.clone() else {
            return Some(match random.below(10) {
                0..6 => AcquireLock { path: self.path.clone(), session, mode: self.mode }.into(),
                6..9 => RenewLockSession { session }.into(),
                _ => CloseLockSession { session }.into(),
            });
        };
        let choice = if self.paused.take().is_some() { 0 } else { random.below(20) };
        Some(match choice {
            0..7 => Mutation::from(WriteFile {
                path: self.path.clone(),
                content: format!("{sequencer} {}", random.below(1_000)).into_bytes().into(),
                expected: None,
                session: None,
                sequencer: Some(sequencer),
            }),
            7..15 => RenewLockSession { session }.into(),
            15 | 16 => ReleaseLock { path: self.path.clone(), session }.into(),
            17 => CloseLockSession { session }.into(),
            _ => {
                self.paused = Some(now + Span(lease.0.saturating_mul(random.within(1..3))));
                return None;
            }
        })
    }

    fn answered(&mut self, what: &Mutation, answer: &Result<Reply, Rejection>) {
        match (what, answer) {
            (Mutation::OpenLockSession(open), Ok(Reply::LockSession(id))) => {
                self.session = Some((*id, open.lease));
            }
            (Mutation::AcquireLock(acquire), Ok(Reply::FileGeneration(generation))) => {
                let AcquireLock { path, mode, .. } = acquire.clone();
                self.held = Some(Sequencer { path, mode, generation: *generation });
            }
            (Mutation::ReleaseLock(_), _) | (_, Err(Rejection::StaleSequencer(_))) => {
                self.held = None;
            }
            (Mutation::CloseLockSession(_), _) | (_, Err(Rejection::NoSuchLockSession(_))) => {
                (self.session, self.held) = (None, None);
            }
            _ => {}
        }
    }
}
