//! Steps of lock sessions, locks and files.

use cell::{
    AcquireLock, Cell, CloseLockSession, DeleteFile, Mutation, Op, OpenLockSession, ReleaseLock,
    RenewLockSession, WriteFile,
};
use model::{LockMode, LockSessionId, Span};

use super::updates::Change;

/// A change of what exists; few paths, so that most have an effect.
pub(super) fn of_locks(cell: &Cell, which: u64) -> Change {
    let path = ["/ana/a", "/ana/b/c"][usize::from(which & 1 == 0)].parse().expect("a path");
    let sessions: Vec<LockSessionId> = cell.lock_sessions_by_expiry().map(|(_, id)| id).collect();
    let place = usize::try_from((which >> 1) % 7).expect("few") % sessions.len().max(1);
    let session = sessions.get(place).copied().unwrap_or(LockSessionId(1));
    let (expected, sequencer) = (None, None);
    let mutation: Mutation = match (which >> 8) % 9 {
        0 | 1 => OpenLockSession { lease: Span::from_secs(5 + which % 20) }.into(),
        2 => RenewLockSession { session }.into(),
        3 => {
            let (content, session) = ([which.to_le_bytes()[1]].into(), Some(session));
            WriteFile { path, content, expected, session, sequencer }.into()
        }
        4 | 5 => AcquireLock { path, session, mode: LockMode::shared(which & 64 == 0) }.into(),
        6 => ReleaseLock { path, session }.into(),
        7 if which & 64 == 0 => CloseLockSession { session }.into(),
        7 => DeleteFile { path, expected, sequencer }.into(),
        _ => return Change::Op(Op::ExpireLockSessions { sessions }),
    };
    Change::Request(mutation)
}
