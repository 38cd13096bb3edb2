//! What the core is told, and who waits for what.

use std::sync::Arc;
use std::time::Instant;

use cell::{Cell, Outcome};
use model::{LogIndex, ReplicaId};
use replica::{Input, LogEntry, Refusal};
use tokio::sync::{mpsc, oneshot};

use crate::admission::Counted;
use crate::request::Request;

/// Something for the core.
pub(crate) enum Message {
    /// For the replica.
    Input(Input),
    /// Somebody asks and waits.
    Request(Request, Asker),
    /// Somebody waits until the view has all that was acknowledged anywhere before.
    Read(oneshot::Sender<()>),
    /// Somebody wants to follow the cell.
    Follow(oneshot::Sender<Following>),
    /// A checkpoint was written, or not.
    Checkpointed(anyhow::Result<Written>),
    /// The cell was looked at, and contradicted itself in so many places.
    Checked(u64),
    /// A replica says that the cell was restored, and goes on without this one: why.
    Superseded(ReplicaId, String),
    /// The process cannot go on.
    Fail(anyhow::Error),
    /// The process ends.
    Stop,
}

/// Who asked, and counts among those who wait for as long.
pub(crate) struct Asker {
    pub(crate) answer: oneshot::Sender<Answered>,
    /// Shared with whoever asks, where that may ask again.
    pub(crate) counted: Arc<Counted>,
    pub(crate) since: Instant,
}

/// The answer, with the index at which it was given.
pub(crate) type Answered = Result<(LogIndex, Outcome), Refusal>;

/// The cell at an index, and every record after it. The channel is closed on a follower that
/// falls too far behind.
pub(crate) struct Following {
    pub(crate) cell: Cell,
    pub(crate) entries: mpsc::Receiver<LogEntry>,
}

/// What a checkpoint that was written leaves.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Written {
    /// A start needs the records after this one.
    pub(crate) needed_from: LogIndex,
    /// The log before this one is not kept.
    pub(crate) log_from: LogIndex,
}
