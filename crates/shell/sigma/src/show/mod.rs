//! Text and markup for amounts, times and words: the same on every page.

mod table;
mod time;
mod word;

pub(crate) use present::amount::{bytes, cpu, cpu_and_ram, percent, rate, share};
pub(crate) use table::{bar, command, empty, facts, link};
pub(crate) use time::{ago, exact, span};
pub(crate) use word::{Tone, health, job_state, machine_state, state, task_state, update_state};
