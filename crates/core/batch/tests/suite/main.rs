//! The batch queue from outside: values that independent programs computed, and what holds of every queue.

mod admission;
mod backfill;
mod made;
mod order;
mod properties;
mod shares;
