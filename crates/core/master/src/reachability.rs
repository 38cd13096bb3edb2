//! What a machine's polls are like: all that the leader has to know of them.

use model::Span;

/// How long after a contact was said it is said again though it is the same: what is said to the
/// leader may be lost on the way.
pub(crate) const SAID_AGAIN: Span = Span::from_secs(10);

/// How a machine answers the polls of its link shard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reachability {
    /// None was answered yet, and none failed: the shard has just begun with it.
    #[default]
    Unknown,
    /// The last one was answered.
    Answers,
    /// The last one was not.
    Doubtful,
    /// So many in a row were not that the machine is unreachable.
    Silent,
}
