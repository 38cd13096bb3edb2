//! What every process of a cell shares: startup and listening, clock, signal handling, metrics and
//! health endpoints, joining a cell, and certificate renewal.
//!
//! Not here: what the individual processes do.
//!
//! - [`arguments`]: shared flags, and parsers of flag values
//! - [`clock`]: the source of time for every decision
//! - [`health`]: `/livez`, `/readyz` and other HTTP responses
//! - [`joining`]: joining a cell with a token
//! - [`metrics`]: metrics in Prometheus' text format
//! - [`moment`]: times as people write and read them
//! - [`notify`]: notifications to systemd
//! - [`renewal`]: renewal of certificates before they expire
//! - [`shutdown`]: termination signals

pub mod arguments;
pub mod clock;
pub mod health;
pub mod joining;
pub mod master_connection;
pub mod metrics;
pub mod moment;
pub mod notify;
pub mod renewal;
pub mod shutdown;
mod start;

pub use start::{
    LOG_VARIABLE, PARENT_VARIABLE, SMALL_PAGES, begin, block_on, inherited, reached_at,
};
