//! The messages to the core, and who waits for their answers.

use std::sync::Arc;
use std::time::Instant;

use cell::{Cell, Outcome};
use model::{LogIndex, ReplicaId};
use replica::{Input, LogEntry, Refusal};
use tokio::sync::{mpsc, oneshot};

use crate::admission::Counted;
use crate::request::Request;

/// A message to the core.
pub(crate) enum Message {
    /// An input of the replica.
    Input(Input),
    /// A request whose caller waits for the answer.
    Request(Request, Asker),
    /// A reader waits until the view has everything that was acknowledged anywhere before.
    Read(oneshot::Sender<()>),
    /// A client wants to follow the cell's records.
    Follow(oneshot::Sender<Following>),
    /// A checkpoint was written, or failed.
    Checkpointed(anyhow::Result<Written>),
    /// The cell was checked; the number of violated invariants.
    Checked(u64),
    /// A replica says that the cell was restored and continues without this one; the reason.
    Superseded(ReplicaId, String),
    /// The process cannot continue.
    Fail(anyhow::Error),
    /// The process stops.
    Stop,
}

/// The waiting caller of a request; it counts among the waiting while this exists.
pub(crate) struct Asker {
    pub(crate) answer: oneshot::Sender<Answered>,
    /// Shared with a caller that may repeat the request.
    pub(crate) counted: Arc<Counted>,
    pub(crate) since: Instant,
}

/// The answer, with the index at which it was given.
pub(crate) type Answered = Result<(LogIndex, Outcome), Refusal>;

/// The cell at an index, and every record after it. A follower that falls too far behind gets its
/// channel closed.
pub(crate) struct Following {
    pub(crate) cell: Cell,
    pub(crate) entries: mpsc::Receiver<LogEntry>,
}

/// The result of a written checkpoint.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Written {
    /// A start needs the records after this one.
    pub(crate) needed_from: LogIndex,
    /// Records before this one need not be kept in the log.
    pub(crate) log_from: LogIndex,
}
