//! What a cell says, in words for people: the same in every program that shows it.
//!
//! Not here: markup and colours (`sigma`), printing and formats for programs (`command`), times
//! (`process::moment`, which processes write, too), and why something was rejected, which is the cell's own
//! answer.
//!
//! - [`amount`]: amounts with their units
//! - [`event_words`]: what happened, by whom and why
//! - [`job_state`]: what a job does
//! - [`start_lost`]: why a task could not be started
//! - [`machine_words`]: what machines offer tasks
//! - [`queue_place`]: the batch queue
//! - [`table`]: columns of text
//! - [`until`]: what a job waits for

pub mod amount;
pub mod event_words;
mod job_words;
mod lost_start;
pub mod machine_words;
pub mod problem;
mod queue_words;
mod table;
mod wait_words;

pub use event_words::EventWords;
pub use job_words::job_state;
pub use lost_start::{lost_starts, not_started, start_lost};
pub use queue_words::{
    queue_place, queue_position, queue_share, queue_start, queue_start_basis, queue_wait,
    queue_wait_in_full, queue_weights,
};
pub use table::{table, table_within};
pub use wait_words::{awaited, until};
