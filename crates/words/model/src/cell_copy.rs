//! Which copy of a cell a client has.

use crate::{LogIndex, RestoreEpoch, Term};

/// A copy of a cell as of an operation: two copies with the same values are the same, and the
/// holder of one goes on with the operations after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CellCopy {
    /// The last operation in it.
    pub index: LogIndex,
    /// The term of that operation: with it the index tells one history from another.
    pub term: Term,
    /// The restoration that it continues from.
    pub restore_epoch: RestoreEpoch,
}
