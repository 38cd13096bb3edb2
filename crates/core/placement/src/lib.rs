//! Placement (paper, sections 3.2 and 3.4): which machine is best for a task, or where evictions make
//! room for it.
//!
//! An [`Engine`] is the view of a cell that this takes: the machines as parallel arrays, the scores of
//! each class of tasks, what could be evicted where. What it has placed and the cell has not yet
//! accepted is kept as a plan on top of that, so that the same resources are not used twice. It follows
//! the cell operation by operation and is never rebuilt for a pass, and it is deterministic: the same
//! cell, time and seed give the same choices.
//!
//! Some questions need no engine of one's own: [`why()`] explains why tasks are pending, with the same
//! checks; [`scores()`] shows what would be compared for one task; [`shapes()`] counts what would start at once;
//! [`near_spellings()`] finds names of attributes and values that machines spell differently.
//!
//! Deliberately absent: any queue. Which task comes next, how users take turns, and how much one pass
//! places is for who uses this (`scheduler`), and so is the copy of the cell.

mod change_log;
mod class;
mod engine;
mod evictable;
mod held;
mod kept;
mod machines;
mod planned;
mod pool;
mod room;
mod score;
mod scores;
mod settings;
mod shapes;
mod spelling;
mod spread;
pub mod why;

pub use class::ClassId;
pub use engine::{AllocSearch, Changed, Engine};
pub use held::{HeldByMachine, PackagesThere};
pub use kept::{Kept, WAIT_MAX};
pub use score::{Term, Terms, Weights};
pub use scores::{Scored, scores};
pub use settings::Settings;
pub use shapes::{LargestTask, ShapeCount, Shapes, shapes};
pub use spelling::{NearSpelling, near_spellings};
pub use why::why;
