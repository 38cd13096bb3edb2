//! Text and markup for amounts, times and words: the same on every page.

mod amount;
mod table;
mod time;
mod word;

pub(crate) use amount::{bytes, cores, memory, percent, rate, share};
pub(crate) use table::{bar, command, empty, facts, link};
pub(crate) use time::{ago, exact, span};
pub(crate) use word::{Tone, health, job_state, machine_state, state, task_state, update_state};
