//! The formats as a whole: what is written is read back, what is damaged is refused, and what was
//! written once stays readable.

mod arbitrary;
mod damage;
mod golden;
mod history;
mod refusals;
mod round_trip;
mod state;
