//! The formats as a whole: what is written is read back, what is damaged is refused, and what was
//! written once stays readable.

mod arbitrary;
mod damage;
mod events;
mod examples;
mod golden;
mod history;
mod image_json;
mod refusals;
mod round_trip;
mod state;
