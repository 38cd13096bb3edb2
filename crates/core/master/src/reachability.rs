//! The reachability of machines: everything the leader needs to know about polls.

use model::Span;

/// How often an unchanged reachability is reported again: messages to the leader may be lost.
pub(crate) const SAID_AGAIN: Span = Span::from_secs(10);

/// How a machine answers the polls of its link shard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reachability {
    /// No poll has completed yet: the shard has just begun with the machine.
    #[default]
    Unknown,
    /// The last poll was answered.
    Answers,
    /// The last poll failed.
    Doubtful,
    /// So many consecutive polls failed that the machine is unreachable.
    Silent,
}
