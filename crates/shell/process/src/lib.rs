//! What every process of a cell has, whichever it is: how it begins and listens, its clock, the signals
//! that end it, its numbers and health pages, how it joins a cell, and how its certificate is renewed.
//!
//! What is deliberately not here: what any of them does.
//!
//! - [`arguments`]: the flags that several of them have, and how their values are read
//! - [`clock`]: the moments that are given to everything that decides
//! - [`health`]: `/livez`, `/readyz` and what else is asked over HTTP
//! - [`joining`]: becoming part of a cell with a token
//! - [`metrics`]: numbers in Prometheus' text format
//! - [`moment`]: a time as people read it
//! - [`notify`]: telling systemd
//! - [`renewal`]: a certificate that is renewed before it expires
//! - [`shutdown`]: being told to stop

pub mod arguments;
pub mod clock;
pub mod health;
pub mod joining;
pub mod metrics;
pub mod moment;
pub mod notify;
pub mod renewal;
pub mod shutdown;
mod start;

pub use start::{LOG_VARIABLE, PARENT_VARIABLE, begin, reached_at};
