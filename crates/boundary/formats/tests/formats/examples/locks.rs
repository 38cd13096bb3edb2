//! Lock sessions, locks and files.

use std::sync::Arc;

use cell::{
    AcquireLock, CloseLockSession, Content, DeleteFile, EventKind, File, Holder, Image, Lock,
    LockChange, LockSession, Mutation, OpenLockSession, Rejection, ReleaseLock, RenewLockSession,
    Reply, WriteFile,
};
use model::{FilePath, LockMode, LockSessionId, LogIndex, Sequencer, Span, Time};

use super::name;

fn path() -> FilePath {
    "/ana/leader".parse().expect("a path")
}

fn sequencer() -> Sequencer {
    Sequencer { path: path(), mode: LockMode::Exclusive, generation: LogIndex(7) }
}

/// Each mutation at least once.
pub(super) fn mutations() -> Vec<Mutation> {
    let (session, expected) = (LockSessionId(3), Some(LogIndex(5)));
    let content: Arc<[u8]> = [0, 1, 0xff].into();
    let (none, mode) = (Vec::new().into(), LockMode::Shared);
    let sequencer = Some(sequencer());
    vec![
        OpenLockSession { lease: Span::from_secs(12) }.into(),
        RenewLockSession { session }.into(),
        CloseLockSession { session }.into(),
        WriteFile { path: path(), content: none, expected: None, session: None, sequencer: None }
            .into(),
        WriteFile {
            path: path(),
            content,
            expected: Some(LogIndex(0)),
            session: Some(session),
            sequencer: sequencer.clone(),
        }
        .into(),
        DeleteFile { path: path(), expected, sequencer }.into(),
        AcquireLock { path: path(), session, mode }.into(),
        ReleaseLock { path: path(), session }.into(),
    ]
}

/// Each change of a lock.
pub(super) fn events() -> Vec<EventKind> {
    let changes = [LockChange::Acquired, LockChange::Released, LockChange::Expired];
    let event = |change| EventKind::Lock {
        path: path(),
        user: name("ana"),
        session: LockSessionId(3),
        mode: if change == LockChange::Expired { LockMode::Shared } else { LockMode::Exclusive },
        generation: LogIndex(7),
        change,
    };
    changes.map(event).into()
}

/// The answers of a session about locks and files.
pub(super) fn answers() -> Vec<Result<Reply, Rejection>> {
    let (by, session, mode) = (name("ben"), LockSessionId(3), LockMode::Shared);
    vec![
        Ok(Reply::LockSession(session)),
        Ok(Reply::FileGeneration(LogIndex(7))),
        Err(Rejection::NoSuchFile(path())),
        Err(Rejection::NoSuchLockSession(session)),
        Err(Rejection::LockTaken { path: path(), by, session, mode }),
        Err(Rejection::FileChanged { path: path(), expected: LogIndex(0), now: LogIndex(7) }),
        Err(Rejection::StaleSequencer(sequencer())),
    ]
}

/// Adds lock sessions, and a file with a content and a lock, only a lock, and only a content.
pub(super) fn put_into(image: &mut Image) {
    let session = |lease| {
        let lease = Span::from_secs(lease);
        Arc::new(LockSession { user: name("ana"), lease, renewed: Time(90) })
    };
    let (first, second) = (LockSessionId(3), LockSessionId(4));
    image.last_lock_session = LockSessionId(5);
    image.lock_sessions = vec![(first, session(12)), (second, session(60))];
    let content = |session| {
        let bytes = [0, 1, 0xff].into();
        Some(Content { bytes, generation: LogIndex(5), at: Time(80), by: name("ana"), session })
    };
    let lock = |mode, sessions: &[(LockSessionId, u64)]| {
        let holder = |(session, generation): &(LockSessionId, u64)| Holder {
            session: *session,
            generation: LogIndex(*generation),
            at: Time(85),
        };
        Some(Lock { mode, holders: sessions.iter().map(holder).collect() })
    };
    let file = |path: &str, content, lock, changed| {
        let (path, changed) = (path.parse().expect("a path"), LogIndex(changed));
        Arc::new(File { path, content, lock, changed })
    };
    let shared = lock(LockMode::Shared, &[(second, 6), (first, 7)]);
    image.files = vec![
        file("/ana/data", content(None), None, 5),
        file("/ana/leader", None, lock(LockMode::Exclusive, &[(first, 6)]), 6),
        file("/ana/members/1", content(Some(second)), shared, 7),
    ];
    image.files_changed = LogIndex(7);
}
