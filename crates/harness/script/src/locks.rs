//! Lock sessions, locks and small files.

use cell::{
    AcquireLock, CloseLockSession, DeleteFile, Mutation, OpenLockSession, ReleaseLock,
    RenewLockSession, WriteFile,
};
use model::{FilePath, LockMode, LockSessionId, LogIndex, Sequencer, Span};

use crate::ScriptError;
use crate::words::{no_such_option, number, option, seconds, value};

/// The lease of a session unless the line says otherwise.
const LEASE: Span = Span::from_secs(12);

/// What only writes and deletions have.
#[derive(Default)]
struct Options {
    expected: Option<LogIndex>,
    session: Option<LockSessionId>,
    sequencer: Option<Sequencer>,
}

/// The mutation that the words stand for, if it is about locks or files.
pub(crate) fn mutation(words: &[&str]) -> Result<Option<Mutation>, ScriptError> {
    Ok(Some(match words {
        ["lock-session"] => OpenLockSession { lease: LEASE }.into(),
        ["lock-session", lease] => match option(lease)? {
            ("lease", lease) => OpenLockSession { lease: seconds(lease)? }.into(),
            (key, _) => return Err(no_such_option(key, &["lease"])),
        },
        ["renew-lock", id] => RenewLockSession { session: session(id)? }.into(),
        ["close-lock", id] => CloseLockSession { session: session(id)? }.into(),
        ["write", file, content, words @ ..] => {
            let Options { expected, session, sequencer } = options(words)?;
            let content = content.as_bytes().into();
            WriteFile { path: path(file)?, content, expected, session, sequencer }.into()
        }
        ["delete", file, words @ ..] => match options(words)? {
            Options { expected, session: None, sequencer } => {
                DeleteFile { path: path(file)?, expected, sequencer }.into()
            }
            Options { .. } => return Err(no_such_option("session", &["expected", "if"])),
        },
        ["lock", file, id, mode @ ..] if matches!(mode, [] | ["shared"]) => {
            let mode = LockMode::shared(!mode.is_empty());
            AcquireLock { path: path(file)?, session: session(id)?, mode }.into()
        }
        ["unlock", file, id] => ReleaseLock { path: path(file)?, session: session(id)? }.into(),
        _ => return Ok(None),
    }))
}

fn options(words: &[&str]) -> Result<Options, ScriptError> {
    let mut options = Options::default();
    for word in words {
        let (key, text) = option(word)?;
        match key {
            "expected" => options.expected = Some(LogIndex(number(text)?)),
            "session" => options.session = Some(session(text)?),
            "if" => options.sequencer = Some(value(text, "a sequencer such as /ana/l:shared:1")?),
            _ => return Err(no_such_option(key, &["expected", "session", "if"])),
        }
    }
    Ok(options)
}

fn session(word: &str) -> Result<LockSessionId, ScriptError> {
    number(word).map(LockSessionId)
}

fn path(word: &str) -> Result<FilePath, ScriptError> {
    value(word, "a path such as /ana/leader")
}
