//! Requests, and the replies to them in the form of `dig`.

mod cell;
mod properties;
mod table;
mod wire;
