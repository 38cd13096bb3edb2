//! The formats as a whole: what was written can be read back, damaged data is rejected, and old
//! data stays readable.

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
