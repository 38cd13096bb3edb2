//! The process of a scheduler as a state machine (paper, section 3.4): what it follows, when it runs a
//! pass, what it proposes, and for what it waits.
//!
//! A [`Follower`] takes in everything that arrives as an [`Input`], and each tick returns what is to be done
//! as an [`Effect`]. It owns the scheduler and with it the copy of the cell. It is driven by the process (`schedulerd`) and by
//! the simulator alike, so that the loop that is tested is the one that runs.
//!
//! It follows one replica at a time. A copy that is there outlives the connection: the next replica is
//! asked for the records after it alone. At most one proposal is on its way. After one that was rejected
//! or got no answer it rests for a moment, in which the copy catches up: the same plan from the same copy
//! would be rejected again.
//!
//! Beside the scheduler it owns the batch queue (`batch`): what that enables is proposed with the assignments of the
//! same tick, and placed once it is committed.
//!
//! Deliberately absent: connections, bytes, and a clock (the driver's); which replicas there are; the
//! passes themselves (`scheduler`, `batch`).

mod follower;

pub use follower::{
    Effect, Follower, Input, OutOfOrder, PROPOSAL_TIMEOUT, Proposal, REJECTED_DELAY, RETRY_DELAY,
};
