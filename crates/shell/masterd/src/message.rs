//! The messages to the core, and who waits for their answers.

use std::sync::Arc;
use std::time::Instant;

use cell::{Cell, Outcome};
use checkpoint::Origin;
use model::{CellCopy, LogIndex, ReplicaId};
use replica::{Input, LogEntry, Refusal};
use tokio::sync::{mpsc, oneshot};

use crate::admission::Counted;
use crate::request::Request;

/// A message to the core.
pub(crate) enum Message {
    /// An input of the replica.
    Input(Input),
    /// A request whose caller waits for the answer.
    Request(Request, PendingCall),
    /// A reader waits until the view has everything that was acknowledged anywhere before.
    Read(oneshot::Sender<()>),
    /// A client wants to follow the cell's records, on from what it has.
    Follow(Option<CellCopy>, oneshot::Sender<Following>),
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
pub(crate) struct PendingCall {
    pub(crate) answer: oneshot::Sender<Answered>,
    /// Shared with a caller that may repeat the request.
    pub(crate) counted: Arc<Counted>,
    pub(crate) since: Instant,
}

/// The answer, with the index at which it was given.
pub(crate) type Answered = Result<(LogIndex, Outcome), Refusal>;

/// Where a follower goes on from, and every record after it. A follower whose queue is full gets its
/// channel closed, and goes on with [`Message::Follow`].
pub(crate) struct Following {
    /// The cell; `None` if the records after the follower's copy are there.
    pub(crate) cell: Option<Cell>,
    /// The term of the cell's last operation, and the restoration that it continues from.
    pub(crate) origin: Origin,
    /// The records after the cell or the copy up to now, which share their memory with consensus.
    pub(crate) records: Vec<LogEntry>,
    /// Those that come.
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
