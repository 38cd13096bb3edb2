//! What a cell says, in words for people: the same in every program that shows it.
//!
//! Not here: markup and colours (`sigma`), printing and formats for programs (`command`), times
//! (`process::moment`, which processes write, too), and why something was rejected, which is the cell's own
//! answer.
//!
//! - [`amount`]: amounts with their units
//! - [`event_words`]: what happened, by whom and why
//! - [`machine_words`]: what machines offer tasks
//! - [`table`]: columns of text

pub mod amount;
pub mod event_words;
pub mod machine_words;
pub mod problem;
mod table;

pub use event_words::EventWords;
pub use table::{table, table_within};
