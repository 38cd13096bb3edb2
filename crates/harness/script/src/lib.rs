//! The script language: lines that an operator would type, parsed into operations and applied to a cell.
//!
//! What is deliberately absent: text for results (each user of the crate shows them in its own way), and
//! commands that only show something.
//!
#![doc = include_str!("language.md")]

mod error;
mod job;
mod language;
mod line;
mod locks;
mod machine;
mod packages;
mod policy;
mod request;
mod script;
mod secrets;
mod services;
mod update;
mod volumes;
mod words;

pub use error::ScriptError;
pub use job::job_spec;
pub use language::{LANGUAGE, commands};
pub use machine::machine_report;
pub use request::{Request, request};
pub use script::{Script, Step};
pub use words::serial;
